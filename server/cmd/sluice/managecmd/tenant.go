package managecmd

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) organisationCommand() *cobra.Command {
	return a.levelCommand(level{
		use: "organisation", path: "/organisations", short: cli.Both("cli.organisation.short"), list: cli.Both("cli.organisation_list.short"),
		create: cli.Both("cli.organisation_create.short"), edit: cli.Both("cli.organisation_edit.short"), suspend: cli.Both("cli.organisation_suspend.short"),
		resume: cli.Both("cli.organisation_resume.short"), suspended: "cli.organisation_suspend.done",
		example:    `  sluice organisation create group --name "First Group" --label cost_center=4711`,
		suspension: `  sluice organisation suspend group --reason "contract ended"`,
	}, &cli.RemoteFlags{})
}

func (a *app) tenantCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := a.levelCommand(level{
		use: "tenant", path: "/tenants", short: cli.Both("cli.tenant.short"), list: cli.Both("cli.tenant_list.short"),
		create: cli.Both("cli.tenant_create.short"), edit: cli.Both("cli.tenant_edit.short"), suspend: cli.Both("cli.tenant_suspend.short"),
		resume: cli.Both("cli.tenant_resume.short"), suspended: "cli.tenant_suspend.done", organisation: true,
		example:    `  sluice tenant create bank --name "First Bank" --organisation group --tokens-per-minute 500000`,
		suspension: `  sluice tenant suspend bank --reason "contract ended"`,
	}, &flags)
	cmd.AddCommand(a.moveTenantCommand(&flags), a.offboardTenantCommand(&flags), a.exportTenantCommand(&flags), a.eraseTenantCommand(&flags),
		a.offboardingCommand(&flags))
	return cmd
}

func (a *app) moveTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "move ID ORGANISATION", Short: cli.Both("cli.tenant_move.short"), Args: cli.Exactly(2),
		Example: `  sluice tenant move bank group`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := level{path: "/tenants"}.of(args[0], "/move")
			return a.changeLevel(cmd.Context(), flags, http.MethodPost, path, adminapi.TenantMove{Organisation: args[1]}, "cli.tenant_move.done")
		},
	}
}

func (a *app) projectCommand() *cobra.Command {
	return a.levelCommand(level{
		use: "project", path: "/projects", short: cli.Both("cli.project.short"), list: cli.Both("cli.project_list.short"),
		create: cli.Both("cli.project_create.short"), edit: cli.Both("cli.project_edit.short"), suspend: cli.Both("cli.project_suspend.short"),
		resume: cli.Both("cli.project_resume.short"), suspended: "cli.project_suspend.done", tenant: new(string),
		example:    `  sluice project create service --name "Citizens' hotline" --label cost_center=4711 --requests-per-minute 600`,
		suspension: `  sluice project suspend service --reason "a key has leaked"`,
	}, &cli.RemoteFlags{})
}
