package managecmd

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) reviewCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "review", Short: cli.Both("cli.review.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(a.startReviewCommand(&flags, &tenant), a.listReviewsCommand(&flags, &tenant), a.showReviewCommand(&flags, &tenant),
		a.keepCommand(&flags, &tenant), a.endAccessCommand(&flags, &tenant), a.cancelReviewCommand(&flags, &tenant))
	return cmd
}

func (a *app) startReviewCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var name, owner, due string
	cmd := &cobra.Command{
		Use: "start", Short: cli.Both("cli.review_start.short"), Args: cli.Exactly(0),
		Example: `  sluice review start --name "Q4 2026" --owner wang --due 2026-12-31`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" || owner == "" || due == "" {
				return cli.Misuse("cli.review_start.needs")
			}
			at, err := readTime("due", due)
			if err != nil {
				return err
			}
			var out adminapi.AccessReview
			in := adminapi.NewAccessReview{Tenant: cli.IfGiven(*tenant), Name: name, Owner: owner, DueAt: at}
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/access-reviews", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.review_start.done", out.Id, out.Entries, out.OwnerName, timeText(&out.DueAt)))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", cli.Both("cli.review_start.name"))
	cmd.Flags().StringVar(&owner, "owner", "", cli.Both("cli.review_start.owner"))
	cmd.Flags().StringVar(&due, "due", "", cli.Both("cli.review_start.due"))
	return cmd
}

func (a *app) listReviewsCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.review_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tTENANT\tNAME\tOWNER\tDUE\tWAITING\tENTRIES\tENDED")
			for cursor := ""; ; {
				var out adminapi.AccessReviewPage
				if err := r.Call(cmd.Context(), http.MethodGet, "/access-reviews"+cli.Query("tenant", *tenant, "cursor", cursor), nil, &out); err != nil {
					return err
				}
				for _, v := range out.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", v.Id, v.Tenant, v.Name, v.OwnerName, timeText(&v.DueAt), v.Waiting, v.Entries, timeText(v.EndedAt))
				}
				if out.Next == nil {
					return w.Flush()
				}
				cursor = *out.Next
			}
		},
	}
}

func reviewPath(id, tenant, more string) string {
	return "/access-reviews/" + url.PathEscape(id) + more + cli.Query("tenant", tenant)
}

func (a *app) showReviewCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: cli.Both("cli.review_show.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.AccessReviewDetail
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, reviewPath(args[0], *tenant, ""), nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ENTRY\tNAME\tDECISION\tBY\tENDED\tFAILURE\tHOLDS")
			for _, i := range out.Items {
				decision := "waiting"
				if i.Decision != nil {
					decision = string(*i.Decision)
				}
				fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.Kind, i.Id, i.Name, decision, textOrDash(i.DecidedName), timeText(i.DoneAt),
					textOrDash(i.Failure), strings.Join(i.Holds, ", "))
			}
			return w.Flush()
		},
	}
}

func textOrDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func (a *app) keepCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "keep ID user/ID|key/ID...", Short: cli.Both("cli.review_keep.short"), Args: cli.AtLeast(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decideReview(cmd, flags, *tenant, args, true, "")
		},
	}
}

func (a *app) endAccessCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "end ID user/ID|key/ID...", Short: cli.Both("cli.review_end.short"), Args: cli.AtLeast(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Misuse("cli.review_end.no_reason")
			}
			return a.decideReview(cmd, flags, *tenant, args, false, reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.review_decide.reason"))
	return cmd
}

func (a *app) cancelReviewCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "cancel ID", Short: cli.Both("cli.review_cancel.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Misuse("cli.review_cancel.no_reason")
			}
			var out adminapi.AccessReview
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, reviewPath(args[0], *tenant, "/cancel"), adminapi.Reason{Reason: reason}, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.review_cancel.done", out.Id))
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.review_cancel.reason"))
	return cmd
}

// decideReview says the same about each of the entries that are named.
func (a *app) decideReview(cmd *cobra.Command, flags *cli.RemoteFlags, tenant string, args []string, keep bool, reason string) error {
	var all []adminapi.AccessDecision
	for _, entry := range args[1:] {
		kind, id, _ := strings.Cut(entry, "/")
		if id == "" || kind != "user" && kind != "key" && kind != "service" {
			return cli.Misuse("cli.review_decide.each", entry)
		}
		all = append(all, adminapi.AccessDecision{Kind: adminapi.AccessReviewKind(kind), Id: id, Keep: keep, Reason: cli.IfGiven(reason)})
	}
	r, err := a.Login(cmd.Context(), *flags)
	if err != nil {
		return err
	}
	var shown adminapi.AccessReviewDetail
	if err := r.Call(cmd.Context(), http.MethodGet, reviewPath(args[0], tenant, ""), nil, &shown); err != nil {
		return err
	}
	for _, in := range all {
		at := slices.IndexFunc(shown.Items, func(i adminapi.AccessReviewItem) bool { return i.Kind == in.Kind && i.Id == in.Id })
		if at < 0 {
			return cli.Failed("cli.review_keep.unknown", args[0], string(in.Kind)+"/"+in.Id)
		}
		in.Holds = &shown.Items[at].Holds
		var out adminapi.AccessReviewItem
		if err := r.Call(cmd.Context(), http.MethodPost, reviewPath(args[0], tenant, "/decisions"), in, &out); err != nil {
			return err
		}
		what := ""
		if out.Decision != nil {
			what = string(*out.Decision) + " (" + strings.Join(out.Holds, ", ") + ")"
		}
		if out.Failure != nil {
			what = a.Say("cli.review_decide.failed", *out.Failure)
		}
		fmt.Fprintln(a.Stdout, a.Say("cli.review_decide.done", string(in.Kind)+"/"+in.Id, what))
	}
	return nil
}
