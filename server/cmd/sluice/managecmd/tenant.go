package managecmd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) tenantCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "tenant", Short: cli.Both("cli.tenant.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.AddCommand(a.listTenantsCommand(&flags), a.createTenantCommand(&flags), a.editTenantCommand(&flags), a.suspendTenantCommand(&flags), a.resumeTenantCommand(&flags),
		a.offboardTenantCommand(&flags), a.exportTenantCommand(&flags), a.eraseTenantCommand(&flags), a.offboardingCommand(&flags))
	return cmd
}

func (a *app) listTenantsCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.tenant_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tSTATE\tSINCE\tREQUESTS/MIN\tTOKENS/MIN\tCONCURRENT\tREASON")
			err = eachTenant(cmd.Context(), r, func(t adminapi.Tenant) {
				state, since, reason := "active", t.CreatedAt, ""
				if t.Operator {
					state = "operator"
				}
				if s := t.Suspension; s != nil {
					state, since, reason = "suspended", s.Since, s.Reason
				}
				if t.ClosedAt != nil {
					state, since = "closed", *t.ClosedAt
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Id, t.Name, state, timeText(&since), limitText(t.Limits.RequestsPerMinute),
					limitText(t.Limits.TokensPerMinute), limitText(t.Limits.Concurrent), orDash(reason))
			})
			if err != nil {
				return err
			}
			return w.Flush()
		},
	}
}

func eachTenant(ctx context.Context, r *cli.Remote, see func(adminapi.Tenant)) error {
	for cursor := ""; ; {
		var out adminapi.TenantPage
		if err := r.Call(ctx, http.MethodGet, "/tenants"+cli.Query("cursor", cursor), nil, &out); err != nil {
			return err
		}
		for _, t := range out.Items {
			see(t)
		}
		if out.Next == nil {
			return nil
		}
		cursor = *out.Next
	}
}

// findTenant returns a tenant by its id.
func findTenant(ctx context.Context, r *cli.Remote, id string) (adminapi.Tenant, error) {
	var found *adminapi.Tenant
	err := eachTenant(ctx, r, func(t adminapi.Tenant) {
		if t.Id == id {
			found = &t
		}
	})
	if err == nil && found == nil {
		err = cli.Failed("cli.tenant.unknown", id)
	}
	if err != nil {
		return adminapi.Tenant{}, err
	}
	return *found, nil
}

func (a *app) createTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	var name string
	var limits limitFlags
	cmd := &cobra.Command{
		Use: "create ID", Short: cli.Both("cli.tenant_create.short"), Args: cli.Exactly(1),
		Example: `  sluice tenant create bank --name "First Bank" --tokens-per-minute 500000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.NewTenant{Id: args[0], Name: cmp.Or(name, args[0]), Limits: limits.change(cmd, adminapi.Limits{})}
			return a.changeTenant(cmd.Context(), flags, http.MethodPost, "/tenants", in, "cli.tenant.created")
		},
	}
	cmd.Flags().StringVar(&name, "name", "", cli.Both("cli.tenant_create.name"))
	limits.register(cmd)
	return cmd
}

func (a *app) editTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	var name string
	var limits limitFlags
	cmd := &cobra.Command{
		Use: "edit ID", Short: cli.Both("cli.tenant_edit.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			before, err := findTenant(cmd.Context(), r, args[0])
			if err != nil {
				return err
			}
			in := adminapi.TenantChange{Name: cli.IfGiven(name), Limits: limits.change(cmd, before.Limits)}
			if in.Name == nil && in.Limits == nil {
				return cli.Misuse("cli.tenant_edit.nothing")
			}
			var out adminapi.Tenant
			if err := r.Call(cmd.Context(), http.MethodPatch, tenantPath(args[0]), in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.tenant.changed", out.Id))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", cli.Both("cli.tenant_create.name"))
	limits.register(cmd)
	return cmd
}

func tenantPath(id string) string { return "/tenants/" + url.PathEscape(id) }

func (a *app) suspendTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "suspend ID", Short: cli.Both("cli.tenant_suspend.short"), Args: cli.Exactly(1),
		Example: `  sluice tenant suspend bank --reason "contract ended"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Misuse("cli.tenant_suspend.no_reason")
			}
			return a.changeTenant(cmd.Context(), flags, http.MethodPost, tenantPath(args[0])+"/suspend", adminapi.Reason{Reason: reason}, "cli.tenant_suspend.done")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.tenant_suspend.reason"))
	return cmd
}

func (a *app) resumeTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "resume ID", Short: cli.Both("cli.tenant_resume.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			t, err := findTenant(cmd.Context(), r, args[0])
			if err != nil {
				return err
			}
			if t.Suspension == nil {
				return cli.Failed("cli.tenant_resume.not_suspended", args[0])
			}
			var out adminapi.Tenant
			if err := r.Call(cmd.Context(), http.MethodPost, tenantPath(t.Id)+"/resume", adminapi.Resumption{Since: t.Suspension.Since}, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.tenant_resume.done", out.Id))
			return nil
		},
	}
}

func (a *app) changeTenant(ctx context.Context, flags *cli.RemoteFlags, method, path string, in any, id message.ID) error {
	var out adminapi.Tenant
	if err := a.Ask(ctx, *flags, method, path, in, &out); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, a.Say(id, out.Id))
	return nil
}
