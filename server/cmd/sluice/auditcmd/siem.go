package auditcmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) siemCommand() *cobra.Command {
	var asJSON bool
	status := &cobra.Command{
		Use: "status", Short: cli.Both("cli.siem_status.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.siem_status.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			all, err := server.SIEMStatus(cmd.Context(), cfg, log)
			if err != nil {
				return err
			}
			return a.printDestinations(all, asJSON)
		},
	}
	status.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.siem_status.json"))
	cmd := &cobra.Command{Use: "siem", Short: cli.Both("cli.siem.short")}
	cmd.AddCommand(status)
	return cmd
}

// printDestinations returns cli.ErrFindings if one fails or has missed records.
func (a *app) printDestinations(all []adminapi.MonitoringDestination, asJSON bool) (err error) {
	if asJSON {
		err = cli.PrintJSON(a.Stdout, all)
	} else if len(all) == 0 {
		fmt.Fprintln(a.Stdout, a.Say("cli.siem_status.none"))
	}
	for _, d := range all {
		if !asJSON {
			fmt.Fprintln(a.Stdout, a.Say("cli.siem_status.line", d.Name, d.Address, d.Format, d.Next, d.Behind))
		}
		if !asJSON && d.FailedSince != nil && d.Failure != nil {
			fmt.Fprintln(a.Stdout, "  "+a.Say("cli.siem_status.failing", d.FailedSince.Format(time.RFC3339), *d.Failure))
		}
		if !asJSON && d.Skipped > 0 {
			fmt.Fprintln(a.Stdout, "  "+a.Say("cli.siem_status.skipped", d.Skipped))
		}
		if err == nil && (d.FailedSince != nil || d.Skipped > 0) {
			err = cli.ErrFindings
		}
	}
	return err
}
