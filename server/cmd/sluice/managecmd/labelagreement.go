package managecmd

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// LabelAgreements returns the command about agreements on answers without a visible label, which belongs to the one about labels.
func LabelAgreements(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "agreements", Short: cli.Both("cli.label_agreements.short"), Long: cli.Both("cli.label_agreements.long")}
	flags.Register(cmd, a.App)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(
		a.agreementTextCommand(&flags, &tenant), a.listAgreementsCommand(&flags, &tenant), a.showAgreementCommand(&flags, &tenant), a.askAgreementCommand(&flags, &tenant),
		a.approveAgreementCommand(&flags, &tenant), a.revokeAgreementCommand(&flags, &tenant), a.exportAgreementsCommand(&flags, &tenant),
	)
	return cmd
}

func agreementPath(id, tenant, more string) string {
	return "/labels/agreements/" + url.PathEscape(id) + more + cli.Query("tenant", tenant)
}

func (a *app) agreementTextCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "text", Short: cli.Both("cli.label_agreements_text.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.LabelAgreementPage
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/labels/agreements"+cli.Query("tenant", *tenant, "limit", "1"), nil, &out); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s\n\nSHA-256: %s\n", strings.TrimRight(out.Text.Body, "\n"), out.Text.Digest)
			return nil
		},
	}
}

func (a *app) listAgreementsCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.label_agreements_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tSTATE\tPROJECT\tKEY\tRECIPIENT\tFROM\tUNTIL\tASKED BY\tAPPROVED BY")
			for cursor := ""; ; {
				var out adminapi.LabelAgreementPage
				if err := r.Call(cmd.Context(), http.MethodGet, "/labels/agreements"+cli.Query("tenant", *tenant, "cursor", cursor), nil, &out); err != nil {
					return err
				}
				for _, x := range out.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Id, x.State, textOrDash(x.Project), textOrDash(x.Key), x.Recipient, timeText(&x.From), timeText(&x.Until),
						x.AskedName, textOrDash(x.ApprovedName))
				}
				if out.Next == nil {
					fmt.Fprintf(w, "\n%s\n", a.Say("cli.label_agreements_list.rule", string(out.Labelling.VisibleLabel)))
					return w.Flush()
				}
				cursor = *out.Next
			}
		},
	}
}

func (a *app) showAgreementCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: cli.Both("cli.label_agreements_show.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var x adminapi.LabelAgreement
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, agreementPath(args[0], *tenant, ""), nil, &x); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			for _, line := range [][2]string{
				{"ID", x.Id},
				{"STATE", string(x.State)},
				{"TENANT", x.Tenant},
				{"PROJECT", textOrDash(x.Project)},
				{"KEY", textOrDash(x.Key)},
				{"RECIPIENT", x.Recipient},
				{"CONTACT", x.Contact},
				{"REFERENCE", textOrDash(x.Reference)},
				{"PURPOSE", x.Purpose},
				{"FROM", timeText(&x.From)},
				{"UNTIL", timeText(&x.Until)},
				{"ASKED", x.AskedName + ", " + timeText(&x.AskedAt)},
				{"APPROVED", textOrDash(x.ApprovedName) + ", " + timeText(x.ApprovedAt)},
				{"REVOKED", textOrDash(x.RevokedName) + ", " + timeText(x.RevokedAt)},
				{"REASON", textOrDash(x.Reason)},
				{"TEXT SHA-256", x.TextDigest},
			} {
				fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
			}
			fmt.Fprintf(w, "\n%s\n", strings.TrimRight(valueOr(x.Text), "\n"))
			return w.Flush()
		},
	}
}

func (a *app) askAgreementCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var in adminapi.NewLabelAgreement
	var project, key, reference, from, until string
	cmd := &cobra.Command{
		Use: "ask", Short: cli.Both("cli.label_agreements_ask.short"), Args: cli.Exactly(0),
		Example: `  sluice label agreements ask --recipient "Example Press" --contact "legal@example.com" --purpose "drafts for editors" \
      --until 2027-06-30 --text-digest "$DIGEST"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.Recipient == "" || in.Contact == "" || in.Purpose == "" || until == "" || in.TextDigest == "" {
				return cli.Misuse("cli.label_agreements_ask.needs")
			}
			end, err := readTime("until", until)
			if err != nil {
				return err
			}
			in.Tenant, in.Project, in.Key, in.Reference, in.Until = cli.IfGiven(*tenant), cli.IfGiven(project), cli.IfGiven(key), cli.IfGiven(reference), end
			if from != "" {
				begin, err := readTime("from", from)
				if err != nil {
					return err
				}
				in.From = &begin
			}
			var out adminapi.LabelAgreement
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/labels/agreements", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.label_agreements_ask.done", out.Id))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&project, "project", "", cli.Both("cli.label_agreements_ask.project"))
	f.StringVar(&key, "key", "", cli.Both("cli.label_agreements_ask.key"))
	f.StringVar(&in.Recipient, "recipient", "", cli.Both("cli.label_agreements_ask.recipient"))
	f.StringVar(&in.Contact, "contact", "", cli.Both("cli.label_agreements_ask.contact"))
	f.StringVar(&reference, "reference", "", cli.Both("cli.label_agreements_ask.reference"))
	f.StringVar(&in.Purpose, "purpose", "", cli.Both("cli.label_agreements_ask.purpose"))
	f.StringVar(&from, "from", "", cli.Both("cli.label_agreements_ask.from"))
	f.StringVar(&until, "until", "", cli.Both("cli.label_agreements_ask.until"))
	f.StringVar(&in.TextDigest, "text-digest", "", cli.Both("cli.label_agreements_ask.text_digest"))
	return cmd
}

// readTime reads a day, which begins at midnight here, or a time.
func readTime(flag, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.ParseInLocation(time.DateOnly, text, time.Local)
	}
	if err != nil {
		return time.Time{}, cli.Misuse("cli.shared.no_time", flag, text)
	}
	return at, nil
}

func (a *app) approveAgreementCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "approve ID", Short: cli.Both("cli.label_agreements_approve.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.LabelAgreement
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, agreementPath(args[0], *tenant, "/approve"), nil, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.label_agreements_approve.done", out.Id, timeText(&out.From), timeText(&out.Until)))
			return nil
		},
	}
}

func (a *app) revokeAgreementCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "revoke ID", Short: cli.Both("cli.label_agreements_revoke.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Misuse("cli.label_agreements_revoke.no_reason")
			}
			var out adminapi.LabelAgreement
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, agreementPath(args[0], *tenant, "/revoke"), adminapi.Reason{Reason: reason}, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.label_agreements_revoke.done", out.Id))
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.label_agreements_revoke.reason"))
	return cmd
}

func (a *app) exportAgreementsCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var from, to, format, out string
	cmd := &cobra.Command{
		Use: "export", Short: cli.Both("cli.label_agreements_export.short"), Args: cli.Exactly(0),
		Example: "  sluice label agreements export --from 2026-06-01 --to 2026-12-01 --out agreements.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" || to == "" {
				return cli.Misuse("cli.label_agreements_export.needs")
			}
			begin, err := readTime("from", from)
			if err != nil {
				return err
			}
			end, err := readTime("to", to)
			if err != nil {
				return err
			}
			if format == "" {
				format = strings.TrimPrefix(filepath.Ext(out), ".")
			}
			if format == "" {
				format = "json"
			}
			if !slices.Contains([]string{"json", "csv"}, format) {
				return cli.Misuse("cli.label_agreements_export.no_format", format)
			}
			path := "/labels/agreements/export" + cli.Query("tenant", *tenant, "from", begin.Format(time.RFC3339), "to", end.Format(time.RFC3339), "format", format)
			return a.download(cmd.Context(), *flags, path, out)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", cli.Both("cli.shared.from"))
	cmd.Flags().StringVar(&to, "to", "", cli.Both("cli.shared.to"))
	cmd.Flags().StringVar(&format, "format", "", cli.Both("cli.label_agreements_export.format"))
	cmd.Flags().StringVar(&out, "out", "", cli.Both("cli.label_agreements_export.out"))
	return cmd
}
