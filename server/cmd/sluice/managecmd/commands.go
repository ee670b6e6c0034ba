package managecmd

import (
	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// app has the commands of this package.
type app struct{ *cli.App }

// Commands returns the commands that administer a running server.
func Commands(shared *cli.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{
		a.keyCommand(), a.userCommand(), a.serviceCommand(), a.accessCommand(), a.organisationCommand(), a.tenantCommand(), a.projectCommand(), a.reviewCommand(), a.budgetCommand(), a.billingCommand(), a.energyCommand(), a.rolloutCommand(), a.scaleCommand(), a.routeCommand(), a.reportCommand(), a.engineCommand(), a.revealCommand(), a.approvalCommand(), a.keyringCommand(), a.signingKeyCommand(), a.watermarkCommand(), a.verifyCommand(), a.complianceCommand(), a.breakGlassCommand(),
	}
}
