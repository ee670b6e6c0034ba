package managecmd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) serviceCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "service-account", Short: cli.Both("cli.service.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(
		a.createServiceCommand(&flags, &tenant), a.listServicesCommand(&flags, &tenant), a.showServiceCommand(&flags, &tenant), a.rotateServiceCommand(&flags, &tenant),
		a.addServiceKeyCommand(&flags, &tenant), a.removeServiceKeyCommand(&flags, &tenant),
		a.setServiceCommand(&flags, &tenant, "disable", http.MethodPost, "/disable", cli.Both("cli.service_disable.short"), "cli.service_disable.done"),
		a.setServiceCommand(&flags, &tenant, "enable", http.MethodPost, "/enable", cli.Both("cli.service_enable.short"), "cli.service_enable.done"),
		a.setServiceCommand(&flags, &tenant, "remove", http.MethodDelete, "", cli.Both("cli.service_remove.short"), "cli.service_remove.done"),
	)
	return cmd
}

func (a *app) createServiceCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var f keyFlags
	var roles []string
	var owner, keyFile string
	cmd := &cobra.Command{
		Use: "create NAME", Short: cli.Both("cli.service_create.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.service_create.long", "\n"),
		Example: `  sluice service-account create crm --role application --scope chat --days 180
  sluice service-account create deploy --role system_admin --key-file deploy.pub.pem`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(roles) == 0 {
				return cli.Misuse("cli.user_create.no_role")
			}
			ch := f.change(cmd, adminapi.Key{})
			in := adminapi.NewServiceAccount{
				Name: args[0], Roles: roles, Project: ch.Project, Labels: ch.Labels, Limits: ch.Limits, ExpiresAt: ch.ExpiresAt, Scopes: ch.Scopes,
				Models: ch.Models, Networks: ch.Networks, Owner: cli.IfGiven(owner), Tenant: cli.IfGiven(*tenant),
			}
			if keyFile != "" {
				text, err := os.ReadFile(keyFile)
				if err != nil {
					return cli.Failed("cli.service.key_unread", err)
				}
				keys := string(text)
				in.Keys = &keys
			}
			var out adminapi.CreatedServiceAccount
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/service-accounts", in, &out); err != nil {
				return err
			}
			a.printServiceSecret(out)
			return nil
		},
	}
	f.registerNarrowings(cmd)
	cmd.Flags().StringSliceVar(&roles, "role", nil, cli.Both("cli.shared.role"))
	cmd.Flags().StringVar(&owner, "owner", "", cli.Both("cli.service_create.owner"))
	cmd.Flags().StringVar(&keyFile, "key-file", "", cli.Both("cli.service.key_file"))
	cmd.Flags().IntVar(&f.days, "days", 0, cli.Both("cli.key_create.days"))
	return cmd
}

// printServiceSecret prints a secret on standard output, and what it is for beside it.
func (a *app) printServiceSecret(made adminapi.CreatedServiceAccount) {
	fmt.Fprintln(a.Stderr, a.Say("cli.service.made", made.Account.Id, made.Account.Tenant, made.TokenUrl))
	if made.Secret != nil {
		fmt.Fprintln(a.Stderr, a.Say("cli.service.once"))
		fmt.Fprintln(a.Stdout, *made.Secret)
		return
	}
	fmt.Fprintln(a.Stdout, made.Account.Id)
}

func (a *app) listServicesCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.service_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tTENANT\tROLES\tOWNER\tSTATE\tSECRET\tKEYS\tSCOPES\tNETWORKS\tLAST USED\tEXPIRES")
			err = eachService(cmd.Context(), r, *tenant, func(s adminapi.ServiceAccount) bool {
				fmt.Fprintln(w, strings.Join([]string{
					s.Id, s.Name, s.Tenant, listText(s.Roles), nameOf(s.Owner), string(s.State), secretText(s), fmt.Sprint(len(s.Keys)), listText(scopeNames(s.Scopes)),
					listText(s.Networks), timeText(s.LastUsedAt), timeText(&s.ExpiresAt),
				}, "\t"))
				return true
			})
			if err != nil {
				return err
			}
			return w.Flush()
		},
	}
}

func scopeNames(scopes []adminapi.KeyScope) (out []string) {
	for _, s := range scopes {
		out = append(out, string(s))
	}
	return out
}

func secretText(s adminapi.ServiceAccount) string {
	switch {
	case !s.HasSecret:
		return "-"
	case s.FormerSecretExpiresAt != nil:
		return "two until " + timeText(s.FormerSecretExpiresAt)
	}
	return "yes"
}

// eachService goes through the service accounts of a tenant until see has seen enough.
func eachService(ctx context.Context, r *cli.Remote, tenant string, see func(s adminapi.ServiceAccount) bool) error {
	for cursor := ""; ; {
		var out adminapi.ServiceAccountPage
		if err := r.Call(ctx, http.MethodGet, "/service-accounts"+cli.Query("tenant", tenant, "cursor", cursor), nil, &out); err != nil {
			return err
		}
		for _, s := range out.Items {
			if !see(s) {
				return nil
			}
		}
		if out.Next == nil {
			return nil
		}
		cursor = *out.Next
	}
}

// onService signs in and calls the path of the service account that is meant by a name, or by an id.
func (a *app) onService(ctx context.Context, flags cli.RemoteFlags, tenant, meant, method, rest string, in, out any) error {
	r, err := a.Login(ctx, flags)
	if err != nil {
		return err
	}
	id := meant
	err = eachService(ctx, r, tenant, func(s adminapi.ServiceAccount) bool {
		if s.Name == meant {
			id = s.Id
		}
		return id == meant
	})
	if err != nil {
		return err
	}
	return r.Call(ctx, method, "/service-accounts/"+url.PathEscape(id)+rest+cli.Query("tenant", tenant), in, out)
}

func (a *app) showServiceCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: cli.Both("cli.service_show.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s adminapi.ServiceAccount
			if err := a.onService(cmd.Context(), *flags, *tenant, args[0], http.MethodGet, "", nil, &s); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			for _, row := range [][2]string{
				{"ID", s.Id},
				{"NAME", s.Name},
				{"TENANT", s.Tenant},
				{"PROJECT", orDash(s.Project)},
				{"ROLES", listText(s.Roles)},
				{"OWNER", nameOf(s.Owner)},
				{"STATE", string(s.State)},
				{"SECRET", secretText(s)},
				{"SCOPES", listText(scopeNames(s.Scopes))},
				{"MODELS", listText(s.Models)},
				{"NETWORKS", listText(s.Networks)},
				{"LABELS", listText(s.Labels)},
				{"REQUESTS/MIN", limitText(s.Limits.RequestsPerMinute)},
				{"TOKENS/MIN", limitText(s.Limits.TokensPerMinute)},
				{"AT ONCE", limitText(s.Limits.Concurrent)},
				{"CREATED", timeText(&s.CreatedAt)},
				{"CREATED BY", nameOf(s.CreatedBy)},
				{"LAST USED", timeText(s.LastUsedAt)},
				{"EXPIRES", timeText(&s.ExpiresAt)},
			} {
				fmt.Fprintln(w, row[0]+"\t"+row[1])
			}
			for _, k := range s.Keys {
				fmt.Fprintln(w, "KEY\t"+k.Id+" "+string(k.Algorithm)+" "+timeText(&k.CreatedAt))
			}
			return w.Flush()
		},
	}
}

func (a *app) rotateServiceCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var hours int
	cmd := &cobra.Command{
		Use: "rotate NAME", Short: cli.Both("cli.service_rotate.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.service_rotate.long", "\n"),
		Example: `  sluice service-account rotate crm --overlap-hours 72`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var in adminapi.KeyRotation
			if cmd.Flags().Changed("overlap-hours") {
				in.OverlapHours = &hours
			}
			var out adminapi.CreatedServiceAccount
			if err := a.onService(cmd.Context(), *flags, *tenant, args[0], http.MethodPost, "/secret", in, &out); err != nil {
				return err
			}
			a.printServiceSecret(out)
			return nil
		},
	}
	cmd.Flags().IntVar(&hours, "overlap-hours", 24, cli.Both("cli.key_rotate.overlap_hours"))
	return cmd
}

func (a *app) addServiceKeyCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "add-key NAME FILE", Short: cli.Both("cli.service_add_key.short"), Args: cli.Exactly(2),
		Example: `  sluice service-account add-key deploy deploy.pub.pem`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[1])
			if err != nil {
				return cli.Failed("cli.service.key_unread", err)
			}
			var out adminapi.ServiceAccount
			if err := a.onService(cmd.Context(), *flags, *tenant, args[0], http.MethodPost, "/keys", adminapi.NewServiceKeys{Keys: string(text)}, &out); err != nil {
				return err
			}
			for _, k := range out.Keys {
				fmt.Fprintln(a.Stdout, k.Id, k.Algorithm)
			}
			return nil
		},
	}
}

func (a *app) removeServiceKeyCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "remove-key NAME KEY", Short: cli.Both("cli.service_remove_key.short"), Args: cli.Exactly(2),
		Example: "  sluice service-account remove-key -- crm -4A-096q4iHrHYI1djv9c7TCXOxrsSeckbSWs6N35tc", // an id may begin as flags do
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.onService(cmd.Context(), *flags, *tenant, args[0], http.MethodDelete, "/keys/"+url.PathEscape(args[1]), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.service_remove_key.done", args[1], args[0]))
			return nil
		},
	}
}

func (a *app) setServiceCommand(flags *cli.RemoteFlags, tenant *string, name, method, act, short string, id message.ID) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short, Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.onService(cmd.Context(), *flags, *tenant, args[0], method, act, nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say(id, args[0]))
			return nil
		},
	}
}
