package managecmd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) keyCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "key", Short: cli.Both("cli.key.short")}
	flags.Register(cmd, a.App)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(a.createKeyCommand(&flags, &tenant), a.listKeysCommand(&flags, &tenant), a.editKeyCommand(&flags, &tenant), a.rotateKeyCommand(&flags, &tenant),
		a.endCommand(&flags, &tenant, "retire", cli.Both("cli.key_retire.short"), "cli.key_retire.done"),
		a.endCommand(&flags, &tenant, "revoke", cli.Both("cli.key_revoke.short"), "cli.key_revoke.done"))
	return cmd
}

// keyFlags are what can be said of a key.
type keyFlags struct {
	project, mode            string
	labels                   []string
	scopes, models, networks []string
	days                     int
	limits                   limitFlags
}

func (f *keyFlags) register(cmd *cobra.Command) {
	f.registerNarrowings(cmd)
	cmd.Flags().StringVar(&f.mode, "label-mode", "", cli.Both("cli.key_flags.label_mode"))
}

// registerNarrowings registers what can be said of a service account, too.
func (f *keyFlags) registerNarrowings(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.project, "project", "", cli.Both("cli.key_flags.project"))
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, cli.Both("cli.shared.label"))
	cmd.Flags().StringSliceVar(&f.scopes, "scope", nil, cli.Both("cli.key_flags.scope"))
	cmd.Flags().StringSliceVar(&f.models, "model", nil, cli.Both("cli.key_flags.model"))
	cmd.Flags().StringSliceVar(&f.networks, "network", nil, cli.Both("cli.key_flags.network"))
	f.limits.register(cmd)
}

// change returns what the flags change of a key.
func (f *keyFlags) change(cmd *cobra.Command, before adminapi.Key) adminapi.KeyChange {
	var out adminapi.KeyChange
	if cmd.Flags().Changed("project") {
		out.Project = &f.project
	}
	for _, l := range []struct {
		flag string
		from []string
		to   **[]string
	}{{"label", f.labels, &out.Labels}, {"model", f.models, &out.Models}, {"network", f.networks, &out.Networks}} {
		if cmd.Flags().Changed(l.flag) {
			given := notEmpty(l.from)
			*l.to = &given
		}
	}
	if cmd.Flags().Changed("scope") {
		scopes := []adminapi.KeyScope{}
		for _, s := range notEmpty(f.scopes) {
			scopes = append(scopes, adminapi.KeyScope(s))
		}
		out.Scopes = &scopes
	}
	if f.mode != "" {
		mode := adminapi.LabelMode(f.mode)
		out.LabelMode = &mode
	}
	if f.days > 0 {
		at := time.Now().UTC().AddDate(0, 0, f.days)
		out.ExpiresAt = &at
	}
	out.Limits = f.limits.change(cmd, before.Limits)
	return out
}

// notEmpty returns what a flag lists without empty entries: --label "" takes all labels away.
func notEmpty(list []string) []string {
	return slices.DeleteFunc(append([]string{}, list...), func(s string) bool { return s == "" })
}

func (a *app) createKeyCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: "create NAME", Short: cli.Both("cli.key_create.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.key_create.long", "\n"),
		Example: `  sluice key create hotline --project service --requests-per-minute 600 --days 90
  sluice key create edge --scope chat --model 'smol*' --network 10.20.0.0/16`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ch := f.change(cmd, adminapi.Key{})
			in := adminapi.NewKey{
				Name: args[0], Project: ch.Project, Labels: ch.Labels, LabelMode: ch.LabelMode, Limits: ch.Limits, ExpiresAt: ch.ExpiresAt,
				Scopes: ch.Scopes, Models: ch.Models, Networks: ch.Networks,
			}
			in.Tenant = cli.IfGiven(*tenant)
			var out adminapi.CreatedKey
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/keys", in, &out); err != nil {
				return err
			}
			a.printSecret(out)
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().IntVar(&f.days, "days", 0, cli.Both("cli.key_create.days"))
	return cmd
}

// printSecret prints a secret on standard output, and how to use it beside it.
func (a *app) printSecret(k adminapi.CreatedKey) {
	fmt.Fprintln(a.Stderr, a.Say("cli.key.created", k.Key.Id, k.Key.Tenant))
	fmt.Fprintln(a.Stdout, k.Secret)
	fmt.Fprintln(a.Stderr, "\n"+a.Say("cli.key.usage", k.BaseUrl, k.Curl))
}

func (a *app) listKeysCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.key_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tTENANT\tOWNER\tPROJECT\tPREFIX\tSTATE\tSCOPES\tMODELS\tNETWORKS\tLABELS\tLABEL MODE\tREQUESTS/MIN\tTOKENS/MIN\tAT ONCE\tLAST USED\tFROM\tEXPIRES\tFORMER SECRET ENDS\tFORMER SECRET USED")
			err = eachKey(cmd.Context(), r, *tenant, func(k adminapi.Key) bool {
				owner := "-"
				if k.Owner != nil {
					owner = nameOf(*k.Owner)
				}
				var former adminapi.FormerSecret
				if k.FormerSecret != nil {
					former = *k.FormerSecret
				}
				fmt.Fprintln(w, strings.Join([]string{
					k.Id, k.Name, k.Tenant, owner, orDash(k.Project), k.Prefix, string(k.State), listText(scopeNames(k.Scopes)), listText(k.Models), listText(k.Networks), listText(k.Labels),
					string(k.LabelMode), limitText(k.Limits.RequestsPerMinute), limitText(k.Limits.TokensPerMinute), limitText(k.Limits.Concurrent),
					timeText(k.LastUsedAt), listText(optionalList(k.LastUsedFrom)), timeText(k.ExpiresAt), timeText(ifTime(former.ExpiresAt)), timeText(former.LastUsedAt),
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

// eachKey goes through the keys of a tenant until see has seen enough.
func eachKey(ctx context.Context, r *cli.Remote, tenant string, see func(k adminapi.Key) bool) error {
	for cursor := ""; ; {
		var out adminapi.KeyPage
		if err := r.Call(ctx, http.MethodGet, "/keys"+cli.Query("tenant", tenant, "cursor", cursor), nil, &out); err != nil {
			return err
		}
		for _, k := range out.Items {
			if !see(k) {
				return nil
			}
		}
		if out.Next == nil {
			return nil
		}
		cursor = *out.Next
	}
}

func nameOf(p adminapi.Person) string {
	if p.Name != nil {
		return *p.Name
	}
	return p.Id
}

func listText(list []string) string { return orDash(strings.Join(list, ",")) }

func optionalList(s *string) []string {
	if s == nil {
		return nil
	}
	return []string{*s}
}

func ifTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func timeText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func (a *app) editKeyCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var f keyFlags
	var name string
	cmd := &cobra.Command{
		Use: "edit ID", Short: cli.Both("cli.key_edit.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.key_edit.long", "\n"),
		Example: `  sluice key edit 4fTq8ZbN2cXa --requests-per-minute 1200 --days 180`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if name == "" && f.change(cmd, adminapi.Key{}) == (adminapi.KeyChange{}) {
				return cli.Misuse("cli.key_edit.no_change")
			}
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			var before adminapi.Key // limits are set together: those that are not named stay
			err = eachKey(cmd.Context(), r, *tenant, func(k adminapi.Key) bool {
				if k.Id == args[0] {
					before = k
				}
				return k.Id != args[0]
			})
			if err != nil {
				return err
			}
			in := f.change(cmd, before)
			if name != "" {
				in.Name = &name
			}
			var out adminapi.Key
			if err := r.Call(cmd.Context(), http.MethodPatch, "/keys/"+url.PathEscape(args[0])+cli.Query("tenant", *tenant), in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.key_edit.done", out.Id))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", cli.Both("cli.key_edit.name"))
	f.register(cmd)
	cmd.Flags().IntVar(&f.days, "days", 0, cli.Both("cli.key_edit.days"))
	return cmd
}

func (a *app) rotateKeyCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var hours int
	cmd := &cobra.Command{
		Use: "rotate ID", Short: cli.Both("cli.key_rotate.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.key_rotate.long", "\n"),
		Example: `  sluice key rotate 4fTq8ZbN2cXa --overlap-hours 72`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var in adminapi.KeyRotation
			if cmd.Flags().Changed("overlap-hours") {
				in.OverlapHours = &hours
			}
			var out adminapi.CreatedKey
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/keys/"+url.PathEscape(args[0])+"/rotate"+cli.Query("tenant", *tenant), in, &out); err != nil {
				return err
			}
			a.printSecret(out)
			if out.Key.FormerSecret != nil {
				fmt.Fprintln(a.Stderr, a.Say("cli.key.former", timeText(&out.Key.FormerSecret.ExpiresAt)))
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&hours, "overlap-hours", 24, cli.Both("cli.key_rotate.overlap_hours"))
	return cmd
}

// endCommand makes a command that ends a key, or a secret of it.
func (a *app) endCommand(flags *cli.RemoteFlags, tenant *string, act, short string, id message.ID) *cobra.Command {
	return &cobra.Command{
		Use: act + " ID", Short: short, Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/keys/"+url.PathEscape(args[0])+"/"+act+cli.Query("tenant", *tenant), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say(id, strings.TrimSpace(args[0])))
			return nil
		},
	}
}
