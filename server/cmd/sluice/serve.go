package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/config"
)

// serveFlags are shared by up and serve.
type serveFlags struct {
	listen, readyFile     string
	noTemporal, noConsole bool
}

func (f *serveFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.listen, "listen", "", cli.Both("cli.serve_flags.listen"))
	cmd.Flags().StringVar(&f.readyFile, "ready-file", "", cli.Both("cli.serve_flags.ready_file"))
	cmd.Flags().BoolVar(&f.noTemporal, "no-temporal", false, cli.Both("cli.serve_flags.no_temporal"))
	cmd.Flags().BoolVar(&f.noConsole, "no-console", false, cli.Both("cli.serve_flags.no_console"))
}

func (f *serveFlags) overrides() map[string]any {
	out := map[string]any{}
	if f.listen != "" {
		out["listen"] = f.listen
	}
	if f.noTemporal {
		out["workflows.enabled"] = false
	}
	if f.noConsole {
		out["console"] = false
	}
	return out
}

func (a *app) upCommand() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use: "up", Short: cli.Both("cli.serve_up.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.serve_up.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, flags, true) },
	}
	flags.register(cmd)
	return cmd
}

func (a *app) serveCommand() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: cli.Both("cli.serve.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, flags, false) },
	}
	flags.register(cmd)
	return cmd
}

func (a *app) serve(cmd *cobra.Command, flags serveFlags, setup bool) error {
	cfg, err := a.Load(flags.overrides())
	if err != nil {
		return err
	}
	if err := server.CheckModels(cfg); err != nil {
		return err
	}
	if info, err := os.Stat(flags.readyFile); err == nil && info.Mode().IsRegular() {
		_ = os.Remove(flags.readyFile) // what an earlier start wrote is not ready yet
	}
	log, err := server.NewLogger(cfg.Log, a.Stderr)
	if err != nil {
		return err
	}
	return server.Run(cmd.Context(), cfg, server.Options{
		Version: version, Setup: setup, Log: log,
		Ready: func(s server.Started) error {
			// Standard output that is no terminal ends up in the log of a container: secrets go to a file then, and its path is printed.
			file := flags.readyFile
			if file == "" && s.Welcome.APIKey != "" && !cli.IsTerminal(a.Stdout) {
				file = filepath.Join(cfg.Data, "first-start.json")
			}
			a.greet(s, cfg, file)
			if file == "" {
				return nil
			}
			return writeReady(file, s)
		},
	})
}

// greet prints how to use the server. The secrets of the first start are shown on a terminal; elsewhere the file that has them is named. Logs
// go to stderr. It speaks both languages: the log of a container, where many will read it, has no locale.
func (a *app) greet(s server.Started, cfg *config.Config, file string) {
	out := a.Stdout
	fmt.Fprintf(out, "\n%s\n\n", cli.Both("cli.serve.ready"))
	rows := [][]string{{"  API", s.BaseURL}}
	switch {
	case s.ConsoleURL != "":
		rows = append(rows, []string{"  " + cli.Both("cli.serve.console"), s.ConsoleURL})
	case cfg.Console:
		rows = append(rows, []string{"  " + cli.Both("cli.serve.console"), cli.Both("cli.serve.no_console")})
	}
	cli.PrintColumns(out, rows)
	if s.Duties == identity.DutiesMerged {
		fmt.Fprintf(out, "  %s\n", message.Both("cli.serve.merged", "\n  "))
	}
	if s.Welcome.APIKey == "" {
		fmt.Fprintf(out, "\n  %s\n\n", message.Both("cli.serve.kept", " / ", cfg.Data))
		return
	}
	if !cli.IsTerminal(out) {
		fmt.Fprintf(out, "\n  %s\n  %s\n\n", cli.Both("cli.serve.secrets_in_file"), file)
		return
	}
	fmt.Fprintf(out, "\n  %s:\n", cli.Both("cli.serve.shown_once"))
	cli.PrintColumns(out, [][]string{
		{"  " + cli.Both("cli.serve.user"), s.Welcome.AdminUser},
		{"  " + cli.Both("cli.serve.password"), s.Welcome.AdminPassword.Reveal()},
		{"  " + cli.Both("cli.serve.api_key"), s.Welcome.APIKey.Reveal()},
	})
	if s.Model == "" {
		return
	}
	fmt.Fprintf(out, "\n  %s:\n", cli.Both("cli.serve.try"))
	fmt.Fprintf(out, `  curl -N %s/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
    -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"My phone number is 13800138000. What is my phone number?"}]}'

`, s.BaseURL, s.Welcome.APIKey.Reveal(), s.Model)
}

// writeReady writes the ready file in one rename, readable by its owner only; a named pipe is written in place.
func writeReady(path string, s server.Started) error {
	raw, err := json.MarshalIndent(map[string]string{
		"base_url": s.BaseURL, "console_url": s.ConsoleURL, "admin_user": s.Welcome.AdminUser,
		"admin_password": s.Welcome.AdminPassword.Reveal(), "api_key": s.Welcome.APIKey.Reveal(),
	}, "", "  ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return os.WriteFile(path, raw, 0o600)
	}
	// A name of its own: what lies at a foreseeable one might be somebody else's, and readable by them.
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ready-*")
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write ready file: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}
