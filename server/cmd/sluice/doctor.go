package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) doctorCommand() *cobra.Command {
	var url string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: cli.Both("cli.doctor.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.doctor.long", " "),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			checks, ok := server.Diagnose(cmd.Context(), cfg, url)
			if err := a.printChecks(checks, ok, asJSON); err != nil {
				return err
			}
			if !ok {
				return cli.ErrFindings
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", "", cli.Both("cli.doctor.url"))
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.doctor.json"))
	return cmd
}

func (a *app) printChecks(checks []server.Check, ok, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(a.Stdout, map[string]any{"ok": ok, "checks": checks})
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, r := range checks {
		state := r.State
		if state == "failed" {
			state = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", state, r.Name, r.Detail)
	}
	return w.Flush()
}
