package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// factorsCommand is for who has the machine and is locked out of the product.
func (a *app) factorsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "factors", Short: cli.Both("cli.factors.short")}
	cmd.AddCommand(&cobra.Command{
		Use: "reset NAME", Short: cli.Both("cli.factors_reset.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.factors_reset.long", "\n"),
		Example: `  sluice factors reset wang.fang`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			if err := server.ResetFactors(cmd.Context(), cfg, args[0], log); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.user_reset_factor.done", args[0]))
			return nil
		},
	})
	return cmd
}
