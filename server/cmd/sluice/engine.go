package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// engineServeCommand runs a native engine as a process of its own.
func (a *app) engineServeCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "serve", Short: cli.Both("cli.engine_serve.short"), Args: cli.Exactly(0),
		Long:    message.Both("cli.engine_serve.long", "\n"),
		Example: "  sluice engine serve --config /etc/sluice/engine.yaml --listen unix:/run/sluice/engine.sock",
		RunE: func(cmd *cobra.Command, _ []string) error {
			overrides := map[string]any{}
			if listen != "" {
				overrides["engines.serve.address"] = listen
			}
			cfg, err := a.Load(overrides)
			if err != nil {
				return err
			}
			if err := server.CheckModels(cfg); err != nil {
				return err
			}
			log, err := server.NewLogger(cfg.Log, a.Stderr)
			if err != nil {
				return err
			}
			return server.RunEngine(cmd.Context(), cfg, server.EngineOptions{Log: log, Ready: func(address string) error {
				_, err := fmt.Fprintln(a.Stdout, message.Both("cli.engine_serve.ready", " / ", address))
				return err
			}})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", cli.Both("cli.engine_serve.listen"))
	return cmd
}
