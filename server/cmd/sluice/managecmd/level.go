package managecmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

// Organisations, tenants and projects are listed, created, edited, suspended and resumed alike; what the commands of one say is in its level.

// level is what the commands of one kind of level need.
type level struct {
	use, path                                  string
	short, list, create, edit, suspend, resume string // what the commands are for
	example, suspension                        string
	suspended                                  message.ID
	tenant                                     *string // whose projects; nil for others
	organisation                               bool    // a new one names its organisation
}

// levelView is what the three kinds have of the fields below; the others are empty.
type levelView struct {
	ID           string               `json:"id"`
	Organisation string               `json:"organisation"`
	Tenant       string               `json:"tenant"`
	Name         string               `json:"name"`
	Operator     bool                 `json:"operator"`
	Labels       map[string]string    `json:"labels"`
	Limits       adminapi.Limits      `json:"limits"`
	CreatedAt    time.Time            `json:"created_at"`
	Suspension   *adminapi.Suspension `json:"suspension"`
	ClosedAt     *time.Time           `json:"closed_at"`
}

// levelFlags are what can be said of a level.
type levelFlags struct {
	name, organisation string
	labels             map[string]string
	limits             limitFlags
}

func (f *levelFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", cli.Both("cli.tenant_create.name"))
	cmd.Flags().StringToStringVar(&f.labels, "label", nil, cli.Both("cli.level_flags.label"))
	f.limits.register(cmd)
}

// labelsOf returns the labels of before with those that were given in their place; an empty one is taken away.
func (f *levelFlags) labelsOf(cmd *cobra.Command, before map[string]string) *adminapi.LevelLabels {
	if !cmd.Flags().Changed("label") {
		return nil
	}
	out := adminapi.LevelLabels{}
	maps.Copy(out, before)
	maps.Copy(out, f.labels)
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return &out
}

func (a *app) levelCommand(l level, flags *cli.RemoteFlags) *cobra.Command {
	cmd := &cobra.Command{Use: l.use, Short: l.short}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	if l.tenant != nil {
		cmd.PersistentFlags().StringVar(l.tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	}
	cmd.AddCommand(a.listLevels(l, flags), a.createLevel(l, flags), a.editLevel(l, flags), a.suspendLevel(l, flags), a.resumeLevel(l, flags))
	return cmd
}

// of is the path of one, or of all for "", with more behind it.
func (l level) of(id, more string, query ...string) string {
	out := l.path
	if id != "" {
		out += "/" + url.PathEscape(id)
	}
	if l.tenant != nil {
		query = append(query, "tenant", *l.tenant)
	}
	return out + more + cli.Query(query...)
}

func (l level) each(ctx context.Context, r *cli.Remote, see func(levelView)) error {
	for cursor := ""; ; {
		var out struct {
			Items []levelView `json:"items"`
			Next  *string     `json:"next"`
		}
		if err := r.Call(ctx, http.MethodGet, l.of("", "", "cursor", cursor), nil, &out); err != nil {
			return err
		}
		for _, v := range out.Items {
			see(v)
		}
		if out.Next == nil {
			return nil
		}
		cursor = *out.Next
	}
}

// find returns one by its id.
func (l level) find(ctx context.Context, r *cli.Remote, id string) (levelView, error) {
	var found *levelView
	err := l.each(ctx, r, func(v levelView) {
		if v.ID == id {
			found = &v
		}
	})
	if err == nil && found == nil {
		err = cli.Failed("cli.level.unknown", l.use, id)
	}
	if err != nil {
		return levelView{}, err
	}
	return *found, nil
}

func (a *app) listLevels(l level, flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: l.list, Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			above := ""
			if l.organisation {
				above = "ORGANISATION\t"
			}
			fmt.Fprintln(w, "ID\tNAME\t"+above+"STATE\tSINCE\tREQUESTS/MIN\tTOKENS/MIN\tCONCURRENT\tLABELS\tREASON")
			err = l.each(cmd.Context(), r, func(v levelView) {
				state, since, reason := "active", v.CreatedAt, ""
				if v.Operator {
					state = "operator"
				}
				if s := v.Suspension; s != nil {
					state, since, reason = "suspended", s.Since, s.Reason
				}
				if v.ClosedAt != nil {
					state, since = "closed", *v.ClosedAt
				}
				if l.organisation {
					above = v.Organisation + "\t"
				}
				fmt.Fprintf(w, "%s\t%s\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.Name, above, state, timeText(&since), l.limitText(v.Limits.RequestsPerMinute),
					l.limitText(v.Limits.TokensPerMinute), l.limitText(v.Limits.Concurrent), orDash(labelsText(v.Labels)), orDash(reason))
			})
			if err != nil {
				return err
			}
			return w.Flush()
		},
	}
}

// limitText writes a limit; the installation has default ones for tenants and none for others.
func (l level) limitText(n int) string {
	if n == 0 && !l.organisation {
		return "-"
	}
	return limitText(n)
}

// labelsText writes labels in the order of their names.
func labelsText(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, name+"="+labels[name])
	}
	return strings.Join(out, ",")
}

func (a *app) createLevel(l level, flags *cli.RemoteFlags) *cobra.Command {
	var f levelFlags
	cmd := &cobra.Command{
		Use: "create ID", Short: l.create, Args: cli.Exactly(1), Example: l.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			limits, labels := f.limits.change(cmd, adminapi.Limits{}), f.labelsOf(cmd, nil)
			var in any = adminapi.NewOrganisation{Id: args[0], Name: cmp.Or(f.name, args[0]), Labels: labels, Limits: limits}
			switch {
			case l.organisation:
				in = adminapi.NewTenant{Id: args[0], Name: cmp.Or(f.name, args[0]), Organisation: cli.IfGiven(f.organisation), Labels: labels, Limits: limits}
			case l.tenant != nil:
				in = adminapi.NewProject{Id: args[0], Name: cmp.Or(f.name, args[0]), Tenant: cli.IfGiven(*l.tenant), Labels: labels, Limits: limits}
			}
			return a.changeLevel(cmd.Context(), flags, http.MethodPost, l.path, in, "cli.tenant.created")
		},
	}
	f.register(cmd)
	if l.organisation {
		cmd.Flags().StringVar(&f.organisation, "organisation", "", cli.Both("cli.tenant_create.organisation"))
	}
	return cmd
}

func (a *app) editLevel(l level, flags *cli.RemoteFlags) *cobra.Command {
	var f levelFlags
	cmd := &cobra.Command{
		Use: "edit ID", Short: l.edit, Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			before, err := l.find(cmd.Context(), r, args[0])
			if err != nil {
				return err
			}
			in := adminapi.TenantChange{Name: cli.IfGiven(f.name), Labels: f.labelsOf(cmd, before.Labels), Limits: f.limits.change(cmd, before.Limits)}
			if in == (adminapi.TenantChange{}) {
				return cli.Misuse("cli.tenant_edit.nothing")
			}
			var out levelView
			if err := r.Call(cmd.Context(), http.MethodPatch, l.of(args[0], ""), in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.tenant.changed", out.ID))
			return nil
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) suspendLevel(l level, flags *cli.RemoteFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "suspend ID", Short: l.suspend, Args: cli.Exactly(1), Example: l.suspension,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Misuse("cli.tenant_suspend.no_reason")
			}
			return a.changeLevel(cmd.Context(), flags, http.MethodPost, l.of(args[0], "/suspend"), adminapi.Reason{Reason: reason}, l.suspended)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.tenant_suspend.reason"))
	return cmd
}

func (a *app) resumeLevel(l level, flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "resume ID", Short: l.resume, Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			v, err := l.find(cmd.Context(), r, args[0])
			if err != nil {
				return err
			}
			if v.Suspension == nil {
				return cli.Failed("cli.tenant_resume.not_suspended", args[0])
			}
			var out levelView
			if err := r.Call(cmd.Context(), http.MethodPost, l.of(v.ID, "/resume"), adminapi.Resumption{Since: v.Suspension.Since}, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.tenant_resume.done", out.ID))
			return nil
		},
	}
}

func (a *app) changeLevel(ctx context.Context, flags *cli.RemoteFlags, method, path string, in any, id message.ID) error {
	var out levelView
	if err := a.Ask(ctx, *flags, method, path, in, &out); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, a.Say(id, out.ID))
	return nil
}
