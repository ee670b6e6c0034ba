package managecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// approvalKind says which approvals a command is about: those of reveals, of erasures, or of grave acts of management.
type approvalKind struct {
	tenant         string
	erasures, acts bool
}

func (k *approvalKind) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.Flags().BoolVar(&k.erasures, "erasures", false, cli.Both("cli.approval_flags.erasures"))
	cmd.Flags().BoolVar(&k.acts, "acts", false, cli.Both("cli.approval_flags.acts"))
	cmd.MarkFlagsMutuallyExclusive("erasures", "acts")
}

func (k *approvalKind) path(rest string) string {
	switch {
	case k.erasures:
		return "/audit/erasures/approvals" + rest + cli.Query("tenant", k.tenant)
	case k.acts:
		return "/approvals" + rest + cli.Query("tenant", k.tenant)
	}
	return "/reveal/approvals" + rest + cli.Query("tenant", k.tenant)
}

// askedFor is what approvals of all kinds have in common, and what each has of its own.
type askedFor struct {
	ID            string     `json:"id"`
	AskedBy       string     `json:"asked_by"`
	Purpose       string     `json:"purpose"` // of a reveal, or
	Reason        string     `json:"reason"`  // of an erasure or an act
	ExpiresAt     time.Time  `json:"expires_at"`
	ApprovedAt    *time.Time `json:"approved_at"`
	UsedAt        *time.Time `json:"used_at"`
	DeclinedAt    *time.Time `json:"declined_at"`
	DeclinedBy    string     `json:"declined_by"`
	DeclineReason string     `json:"decline_reason"`

	Shown []adminapi.RevealCount  `json:"shown"`
	Goes  adminapi.ErasureFigures `json:"goes"`

	Tenant    string          `json:"tenant"`
	Operation string          `json:"operation"` // of an act
	Path      string          `json:"path"`
	Body      json.RawMessage `json:"body"`
}

func (x askedFor) why() string { return x.Purpose + x.Reason } // one of them is empty

// many is how much an approval is about: values in full, or what would be erased.
func (x askedFor) many() int64 {
	n := x.Goes.Contents + x.Goes.Values
	for _, c := range x.Shown {
		if c.Shown == adminapi.RevealCountShownClear {
			n += int64(c.Count)
		}
	}
	return n
}

func (x askedFor) state(now time.Time) string {
	switch {
	case x.DeclinedAt != nil:
		return "declined"
	case x.UsedAt != nil:
		return "used"
	case !x.ExpiresAt.After(now):
		return "expired"
	case x.ApprovedAt != nil:
		return "approved"
	default:
		return "waiting"
	}
}

func (a *app) giveCommand(flags *cli.RemoteFlags) *cobra.Command {
	var kind approvalKind
	cmd := &cobra.Command{
		Use: "give ID", Short: cli.Both("cli.approval_give.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := a.decide(cmd.Context(), flags, kind.path("/"+args[0]+"/approve"), nil)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.approval.approved", out.AskedBy, out.why(), out.ExpiresAt.Format(time.RFC3339)))
			return nil
		},
	}
	kind.register(cmd)
	return cmd
}

func (a *app) declineCommand(flags *cli.RemoteFlags) *cobra.Command {
	var kind approvalKind
	var reason string
	cmd := &cobra.Command{
		Use: "decline ID", Short: cli.Both("cli.approval_decline.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Misuse("cli.approval_decline.no_reason")
			}
			out, err := a.decide(cmd.Context(), flags, kind.path("/"+args[0]+"/decline"), adminapi.Reason{Reason: reason})
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.approval.declined", out.AskedBy, out.DeclineReason))
			return nil
		},
	}
	kind.register(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.approval_decline.reason"))
	return cmd
}

// decide signs in anew, which the server wants for approvals, and decides.
func (a *app) decide(ctx context.Context, flags *cli.RemoteFlags, path string, in any) (out askedFor, err error) {
	err = a.Ask(ctx, *flags, http.MethodPost, path, in, &out)
	return out, err
}

func (a *app) approvalsCommand(flags *cli.RemoteFlags) *cobra.Command {
	var kind approvalKind
	cmd := &cobra.Command{
		Use: "list", Short: cli.Both("cli.approval_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct {
				Items []askedFor `json:"items"`
			}
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, kind.path(""), nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			if kind.acts {
				listActs(w, out.Items)
				return w.Flush()
			}
			much := "IN FULL"
			if kind.erasures {
				much = "TEXTS AND VALUES"
			}
			fmt.Fprintf(w, "ID\tASKED BY\tPURPOSE\t%s\tSTATE\tEXPIRES\tDECLINED BY\tWHY\n", much)
			for _, x := range out.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", x.ID, x.AskedBy, x.why(), x.many(), x.state(time.Now()), x.ExpiresAt.Format(time.RFC3339), x.DeclinedBy, x.DeclineReason)
			}
			return w.Flush()
		},
	}
	kind.register(cmd)
	return cmd
}

// listActs prints the acts that somebody asked for, each with the whole of what it would do.
func listActs(w io.Writer, items []askedFor) {
	fmt.Fprintln(w, "ID\tTENANT\tASKED BY\tREASON\tSTATE\tEXPIRES\tACT")
	for _, x := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s %s %s\n", x.ID, x.Tenant, x.AskedBy, x.why(), x.state(time.Now()), x.ExpiresAt.Format(time.RFC3339), x.Operation, x.Path, x.Body)
	}
}
