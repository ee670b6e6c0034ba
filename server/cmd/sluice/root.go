package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/config"
)

// environment is everything a command takes from the operating system, so that tests can run commands.
type environment struct {
	args, environ  []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// get returns an environment variable.
func (e environment) get(name string) string {
	for _, kv := range e.environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// language returns what to ask a server to answer in: SLUICE_LANG, else the locale's language.
func (e environment) language() string {
	for _, name := range []string{"SLUICE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := e.get(name); v != "" {
			if strings.HasPrefix(v, "zh") {
				return "zh-CN"
			}
			break
		}
	}
	return "en"
}

// lang is that language as the catalogues name it.
func (e environment) lang() message.Lang {
	if e.language() == "zh-CN" {
		return message.Chinese
	}
	return message.English
}

// app is the state the commands share.
type app struct {
	env        environment
	configPath string
	data       string
}

func newRoot(env environment) *cobra.Command {
	a := &app{env: env}
	root := &cobra.Command{
		Use:   "sluice",
		Short: both("cli.sluice.short"),
		Long: message.Both("cli.sluice.long", "\n") + "\n\nStart with: sluice pull && sluice up\n\n" +
			message.Both("cli.sluice.exit_codes", "\n"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.PersistentFlags().StringVar(&a.configPath, "config", env.get("SLUICE_CONFIG"), both("cli.sluice.config"))
	root.PersistentFlags().StringVar(&a.data, "data", "", both("cli.sluice.data")+" (default "+config.DefaultData()+")")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	// A command that only groups others takes no line of its own in the usage text.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	root.AddCommand(
		a.upCommand(), a.serveCommand(), a.pullCommand(), a.modelsCommand(), a.chatCommand(), a.keyCommand(), a.userCommand(), a.budgetCommand(), a.ragCommand(),
		a.auditCommand(), a.migrateCommand(), a.configCommand(), a.rolloutCommand(), a.engineCommand(), a.evalCommand(), a.maskCommand(), a.revealCommand(), a.approvalCommand(), a.benchCommand(), a.notifyCommand(), a.versionCommand(), a.doctorCommand(),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	group(root)
	return root
}

// both returns a text in English and in Chinese, for help, whose reader has not named a language.
func both(id message.ID) string { return message.Both(id, " / ") }

// group makes every command that only holds others print its help when called alone, and refuse a word it does not know. Left to
// itself the library prints the help and reports success.
func group(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch sub.Name() {
		case "help":
			sub.Short = both("cli.sluice.help")
		case "completion":
			sub.Short = both("cli.sluice.completion")
		}
		group(sub)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := "see " + cmd.CommandPath() + " --help"
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + near[0] + "? " + hint
		}
		return usageError{fmt.Errorf("unknown command %q; %s", args[0], hint)}
	}
}

// load reads the configuration with the command-line overrides.
func (a *app) load(overrides map[string]any) (*config.Config, error) {
	all := map[string]any{}
	for k, v := range overrides {
		all[k] = v
	}
	if a.data != "" {
		abs, err := filepath.Abs(a.data)
		if err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		all["data"] = abs
	}
	return config.Load(a.configPath, a.env.environ, all)
}

// exactly returns an argument check whose error is a usage error.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%d words given; usage: %s", len(args), cmd.UseLine())}
		}
		return nil
	}
}

// atLeast returns an argument check whose error is a usage error.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usageError{fmt.Errorf("%d words given; usage: %s", len(args), cmd.UseLine())}
		}
		return nil
	}
}

func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
