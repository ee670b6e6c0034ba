package managecmd

import (
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

func (a *app) inviteCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var roles, labels []string
	cmd := &cobra.Command{
		Use: "invite NAME", Short: cli.Both("cli.user_invite.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.user_invite.long", "\n"),
		Example: `  sluice user invite wang.fang --role developer --label public`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(roles) == 0 {
				return cli.Misuse("cli.user_create.no_role")
			}
			in := adminapi.NewInvitation{Name: args[0], Roles: roles, Tenant: cli.IfGiven(*tenant)}
			if len(labels) > 0 {
				in.Labels = &labels
			}
			var out adminapi.CreatedInvitation
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/invitations", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.user_invite.done", out.Invitation.Name, out.Invitation.Tenant, timeText(&out.Invitation.ExpiresAt)))
			fmt.Fprintln(a.Stdout, out.Url)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", nil, cli.Both("cli.shared.role"))
	cmd.Flags().StringSliceVar(&labels, "label", nil, cli.Both("cli.shared.label"))
	return cmd
}

func (a *app) invitationsCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "invitations", Short: cli.Both("cli.user_invitations.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tTENANT\tROLES\tLABELS\tSTATE\tINVITED BY\tEXPIRES")
			err = eachInvitation(cmd.Context(), r, *tenant, func(i adminapi.Invitation) {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.Id, i.Name, i.Tenant, listText(i.Roles), listText(i.Labels), i.State, nameOf(i.CreatedBy), timeText(&i.ExpiresAt))
			})
			if err != nil {
				return err
			}
			return w.Flush()
		},
	}
}

func eachInvitation(ctx context.Context, r *cli.Remote, tenant string, see func(i adminapi.Invitation)) error {
	for cursor := ""; ; {
		var out adminapi.InvitationPage
		if err := r.Call(ctx, http.MethodGet, "/invitations"+cli.Query("tenant", tenant, "cursor", cursor), nil, &out); err != nil {
			return err
		}
		for _, i := range out.Items {
			see(i)
		}
		if out.Next == nil {
			return nil
		}
		cursor = *out.Next
	}
}

func (a *app) withdrawCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "withdraw ID", Short: cli.Both("cli.user_withdraw.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.Invitation
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/invitations/"+url.PathEscape(args[0])+"/withdraw"+cli.Query("tenant", *tenant), nil, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.user_withdraw.done", out.Name))
			return nil
		},
	}
}
