package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) dutiesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "duties", Short: cli.Both("cli.duties.short")}
	cmd.AddCommand(a.dutiesStatusCommand(), a.splitDutiesCommand())
	return cmd
}

func (a *app) dutiesStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: cli.Both("cli.duties_status.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			duties, err := server.ReadDuties(cmd.Context(), cfg, log)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, duties)
			return nil
		},
	}
}

func (a *app) splitDutiesCommand() *cobra.Command {
	var names identity.SeparateAdmins
	cmd := &cobra.Command{
		Use: "split", Short: cli.Both("cli.duties_split.short"), Args: cli.Exactly(0),
		Long:    message.Both("cli.duties_split.long", "\n"),
		Example: `  sluice duties split --system li.ming --security wang.fang --audit zhao.lei --compliance sun.yue`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			made, err := server.SplitDuties(cmd.Context(), cfg, names, log)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.duties_split.done"))
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			for _, m := range made {
				fmt.Fprintf(w, "%s\t%s\t%s\n", m.User.Roles[0], m.User.Name, m.Password)
			}
			return w.Flush()
		},
	}
	for _, f := range []struct {
		flag, name string
		to         *string
	}{
		{"system", "system-admin", &names.System},
		{"security", "security-admin", &names.Security},
		{"audit", "audit-admin", &names.Audit},
		{"compliance", "compliance-officer", &names.Compliance},
	} {
		cmd.Flags().StringVar(f.to, f.flag, f.name, cli.Both("cli.duties_split.name"))
	}
	return cmd
}
