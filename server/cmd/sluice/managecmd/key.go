package managecmd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
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
	cmd.AddCommand(a.createKeyCommand(&flags, &tenant), a.listKeysCommand(&flags, &tenant), a.editKeyCommand(&flags, &tenant), a.revokeKeyCommand(&flags, &tenant))
	return cmd
}

// keyFlags are what can be said of a key.
type keyFlags struct {
	project, mode                string
	labels                       []string
	days                         int
	requests, tokens, concurrent int
}

func (f *keyFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.project, "project", "", cli.Both("cli.key_flags.project"))
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, cli.Both("cli.shared.label"))
	cmd.Flags().StringVar(&f.mode, "label-mode", "", cli.Both("cli.key_flags.label_mode"))
	cmd.Flags().IntVar(&f.requests, "requests-per-minute", 0, cli.Both("cli.key_flags.requests_per_minute"))
	cmd.Flags().IntVar(&f.tokens, "tokens-per-minute", 0, cli.Both("cli.key_flags.tokens_per_minute"))
	cmd.Flags().IntVar(&f.concurrent, "concurrent", 0, cli.Both("cli.key_flags.concurrent"))
}

// limits returns the limits of before with those that were given in their place.
func (f *keyFlags) limits(cmd *cobra.Command, before adminapi.Limits) *adminapi.Limits {
	given := false
	for _, l := range []struct {
		flag     string
		from, to *int
	}{
		{"requests-per-minute", &f.requests, &before.RequestsPerMinute},
		{"tokens-per-minute", &f.tokens, &before.TokensPerMinute},
		{"concurrent", &f.concurrent, &before.Concurrent},
	} {
		if cmd.Flags().Changed(l.flag) {
			*l.to, given = *l.from, true
		}
	}
	if !given {
		return nil
	}
	return &before
}

// change returns what the flags change of a key.
func (f *keyFlags) change(cmd *cobra.Command, before adminapi.Key) adminapi.KeyChange {
	var out adminapi.KeyChange
	if cmd.Flags().Changed("project") {
		out.Project = &f.project
	}
	if cmd.Flags().Changed("label") {
		labels := f.list()
		out.Labels = &labels
	}
	if f.mode != "" {
		mode := adminapi.LabelMode(f.mode)
		out.LabelMode = &mode
	}
	if f.days > 0 {
		at := time.Now().UTC().AddDate(0, 0, f.days)
		out.ExpiresAt = &at
	}
	out.Limits = f.limits(cmd, before.Limits)
	return out
}

// list returns the labels without empty ones: --label "" takes them all away.
func (f *keyFlags) list() []string {
	out := []string{}
	for _, l := range f.labels {
		if l != "" {
			out = append(out, l)
		}
	}
	return out
}

func (a *app) createKeyCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: "create NAME", Short: cli.Both("cli.key_create.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.key_create.long", "\n"),
		Example: `  sluice key create hotline --project service --requests-per-minute 600 --days 90`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ch := f.change(cmd, adminapi.Key{})
			in := adminapi.NewKey{
				Name: args[0], Project: ch.Project, Labels: ch.Labels, LabelMode: ch.LabelMode, Limits: ch.Limits, ExpiresAt: ch.ExpiresAt,
			}
			in.Tenant = cli.IfGiven(*tenant)
			var out adminapi.CreatedKey
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/keys", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.key.created", out.Key.Id, out.Key.Tenant))
			fmt.Fprintln(a.Stdout, out.Secret)
			fmt.Fprintln(a.Stderr, "\n"+a.Say("cli.key.usage", out.BaseUrl, out.Curl))
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().IntVar(&f.days, "days", 0, cli.Both("cli.key_create.days"))
	return cmd
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
			fmt.Fprintln(w, "ID\tNAME\tTENANT\tOWNER\tPROJECT\tPREFIX\tSTATE\tLABELS\tLABEL MODE\tREQUESTS/MIN\tTOKENS/MIN\tAT ONCE\tLAST USED\tEXPIRES")
			err = eachKey(cmd.Context(), r, *tenant, func(k adminapi.Key) bool {
				owner := "-"
				if k.Owner != nil {
					owner = nameOf(*k.Owner)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.Id, k.Name, k.Tenant, owner, orDash(k.Project), k.Prefix, k.State,
					orDash(strings.Join(k.Labels, ",")), k.LabelMode, limitText(k.Limits.RequestsPerMinute), limitText(k.Limits.TokensPerMinute),
					limitText(k.Limits.Concurrent), timeText(k.LastUsedAt), timeText(k.ExpiresAt))
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

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// limitText writes a limit; 0 is that of the installation.
func limitText(n int) string {
	if n == 0 {
		return "default"
	}
	return fmt.Sprint(n)
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

func (a *app) revokeKeyCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: cli.Both("cli.key_revoke.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/keys/"+url.PathEscape(args[0])+"/revoke"+cli.Query("tenant", *tenant), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.key_revoke.done", strings.TrimSpace(args[0])))
			return nil
		},
	}
}
