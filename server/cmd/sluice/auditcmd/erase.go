package auditcmd

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/erasure"
)

// eraseFlags say whom to erase, and how.
type eraseFlags struct {
	tenant, subject, again, ask, approval, certificate string
	list, preview, yes                                 bool
	remote                                             cli.RemoteFlags
}

func (a *app) eraseCommand() *cobra.Command {
	var f eraseFlags
	cmd := &cobra.Command{
		Use: "erase", Short: cli.Both("cli.erase.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.erase.long", "\n"),
		Example: `  sluice audit erase --tenant demo --subject alice@example.com
  sluice audit erase --tenant demo --subject alice@example.com --preview
  sluice audit erase --tenant demo --subject alice@example.com --yes --certificate alice.json
  sluice audit erase --list > erasures.jsonl
  sluice audit erase --again erasures.jsonl --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.eraseAs(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.tenant, "tenant", "", cli.Both("cli.erase.tenant"))
	cmd.Flags().StringVar(&f.subject, "subject", "", cli.Both("cli.erase.subject"))
	cmd.Flags().BoolVar(&f.preview, "preview", false, cli.Both("cli.erase.preview"))
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, cli.Both("cli.erase.yes"))
	cmd.Flags().StringVar(&f.ask, "ask", "", cli.Both("cli.erase.ask"))
	cmd.Flags().StringVar(&f.approval, "approval", "", cli.Both("cli.shared.approval"))
	cmd.Flags().StringVar(&f.certificate, "certificate", "", cli.Both("cli.erase.certificate"))
	cmd.Flags().BoolVar(&f.list, "list", false, cli.Both("cli.erase.list"))
	cmd.Flags().StringVar(&f.again, "again", "", cli.Both("cli.erase.again"))
	f.remote.Register(cmd, a.App)
	cmd.MarkFlagsMutuallyExclusive("preview", "ask", "approval")
	cmd.MarkFlagsMutuallyExclusive("preview", "yes")
	cmd.MarkFlagsMutuallyExclusive("preview", "certificate")
	return cmd
}

// check refuses flags that do not go together.
func (f eraseFlags) check() error {
	chosen := 0
	for _, set := range []bool{f.subject != "", f.again != "", f.list} {
		if set {
			chosen++
		}
	}
	if chosen != 1 || f.subject != "" && f.tenant == "" {
		return cli.Misuse("cli.erase.want_one")
	}
	if f.subject == "" && (f.preview || f.ask != "" || f.approval != "" || f.certificate != "") {
		return cli.Misuse("cli.erase.go_with_subject")
	}
	return nil
}

func (a *app) eraseAs(ctx context.Context, f eraseFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	cfg, log, err := a.Site()
	if err != nil {
		return err
	}
	switch {
	case f.list:
		erasures, err := server.Erasures(ctx, cfg, f.tenant, log)
		if err != nil {
			return err
		}
		return adminapi.WriteErasures(a.Stdout, erasures)
	case f.again != "":
		return a.eraseAgain(ctx, cfg, f, log)
	case f.ask != "":
		return a.askToErase(ctx, f)
	}
	return a.erasePerson(ctx, cfg, f, log)
}

// eraseAgain reads the whole list before it erases anything.
func (a *app) eraseAgain(ctx context.Context, cfg *config.Config, f eraseFlags, log *slog.Logger) error {
	list, err := os.ReadFile(f.again)
	if err != nil {
		return err
	}
	erasures, err := adminapi.ParseErasures(list)
	if err != nil {
		return err
	}
	if err := a.confirm(f.yes, a.Say("cli.erase.confirm_again", len(erasures))); err != nil {
		return err
	}
	return server.EraseAgain(ctx, cfg, erasures, a.erased, log)
}

func (a *app) askToErase(ctx context.Context, f eraseFlags) error {
	var asked adminapi.ErasureApproval
	in := adminapi.NewErasureApproval{Tenant: &f.tenant, Subject: &f.subject, Reason: f.ask}
	if err := a.Ask(ctx, f.remote, http.MethodPost, "/audit/erasures/approvals", in, &asked); err != nil {
		return err
	}
	fmt.Fprintln(a.Stderr, a.Say("cli.erase.waits", asked.ExpiresAt.Format(time.RFC3339), asked.Id))
	fmt.Fprintln(a.Stdout, asked.Id)
	return nil
}

func (a *app) erasePerson(ctx context.Context, cfg *config.Config, f eraseFlags, log *slog.Logger) error {
	p, err := server.PreviewErasure(ctx, cfg, f.tenant, f.subject, log)
	if err != nil {
		return err
	}
	if f.preview || !f.yes {
		a.previewed(p)
	}
	if f.preview {
		return nil
	}
	if len(p.Holds) == 0 || f.approval != "" {
		if err := a.confirm(f.yes, a.Say("cli.erase.confirm")); err != nil {
			return err
		}
	}
	var done erasure.Result
	if f.approval != "" {
		done, err = a.eraseApproved(ctx, f)
	} else {
		done, err = server.Erase(ctx, cfg, f.tenant, f.subject, log)
	}
	if err == nil || fault.Is(err, fault.CodeErasureIncomplete) {
		a.erased(done)
	}
	if err != nil || f.certificate == "" {
		return err
	}
	return a.prove(ctx, cfg, done.Certificate, f.certificate, log)
}

// eraseApproved erases as the account that has asked for the approval.
func (a *app) eraseApproved(ctx context.Context, f eraseFlags) (erasure.Result, error) {
	var e adminapi.Erasure
	in := adminapi.NewErasure{Tenant: &f.tenant, Subject: &f.subject, Approval: &f.approval}
	if err := a.Ask(ctx, f.remote, http.MethodPost, "/audit/erasures", in, &e); err != nil {
		return erasure.Result{}, err
	}
	return adminapi.ErasureOf(e), nil
}

// confirm asks whether to go on, unless that was answered by a flag. What is no clear yes is a no.
func (a *app) confirm(yes bool, question string) error {
	ok, err := a.Confirm(yes, question)
	if err == nil && !ok {
		err = cli.Failed("cli.erase.not_confirmed")
	}
	return err
}

// previewed says what would go and what would stay.
func (a *app) previewed(p erasure.Preview) {
	out := a.Stdout
	fmt.Fprint(out, a.Say("cli.erase.person", p.Subject, p.Tenant, atMost(p.Records)))
	if p.Newest != 0 {
		fmt.Fprint(out, a.Say("cli.erase.newest", stamp(p.Newest)))
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, a.Say("cli.erase.would_go"))
	fmt.Fprintln(out, "  "+a.Say("cli.erase.what_goes", p.Goes.Keys, p.Goes.Contents, p.Goes.Values, p.Goes.Conversations))
	a.stays(a.Say("cli.erase.would_stay"), p.Remainders)
	if len(p.Holds) > 0 {
		fmt.Fprintln(out, a.Say("cli.erase.held"))
	}
	for _, h := range p.Holds {
		fmt.Fprintln(out, "  "+a.Say("cli.erase.hold", h.Hold.ID, h.Hold.Reason, atMost(h.Records), strings.Join(append(h.Examples, "…"), ", ")))
	}
}

// atMost is a count of records, which ends at 10000.
func atMost(n int64) string {
	if n >= 10_000 {
		return "10000+"
	}
	return fmt.Sprint(n)
}

func (a *app) stays(title string, stays []erasure.Remainder) {
	if len(stays) == 0 {
		return
	}
	fmt.Fprintln(a.Stdout, title)
	for _, s := range stays {
		text := a.why(s.Code)
		if s.Count > 0 {
			text = a.Say("cli.shared.aside", text, atMost(s.Count))
		}
		if s.Until != 0 {
			text += a.Say("cli.erase.until", stamp(s.Until))
		}
		fmt.Fprintln(a.Stdout, "  "+text)
	}
}

// why says what stays, and why.
func (a *app) why(code string) string {
	switch code {
	case erasure.StaysRecords:
		return a.Say("cli.erase.stays_records")
	case erasure.StaysTexts:
		return a.Say("cli.erase.stays_texts")
	case erasure.StaysDocuments:
		return a.Say("cli.erase.stays_documents")
	case erasure.StaysFiles:
		return a.Say("cli.erase.stays_files")
	case erasure.StaysOthers:
		return a.Say("cli.erase.stays_others")
	case erasure.StaysUnattributed:
		return a.Say("cli.erase.stays_unattributed")
	case erasure.StaysReplicas:
		return a.Say("cli.erase.stays_replicas")
	case erasure.StaysFingerprints:
		return a.Say("cli.erase.stays_fingerprints")
	case erasure.StaysPages:
		return a.Say("cli.erase.stays_pages")
	case erasure.StaysLog:
		return a.Say("cli.erase.stays_log")
	case erasure.StaysSpill:
		return a.Say("cli.erase.stays_spill")
	case erasure.StaysBackups:
		return a.Say("cli.erase.stays_backups")
	case erasure.StaysRemote:
		return a.Say("cli.erase.stays_remote")
	case erasure.StaysCallers:
		return a.Say("cli.erase.stays_applications")
	default:
		return code
	}
}

func (a *app) erased(r erasure.Result) {
	fmt.Fprintln(a.Stdout, a.Say("cli.erase.erased", r.Gone.Keys, r.Gone.Contents, r.Gone.Values, r.Gone.Conversations))
	if r.Certificate != "" {
		fmt.Fprintln(a.Stdout, a.Say("cli.erase.certificate_record", r.Certificate))
	}
	a.stays(a.Say("cli.erase.stays"), r.Stays)
	if o := r.Override; o != nil {
		fmt.Fprintln(a.Stdout, a.Say("cli.erase.past_holds", strings.Join(o.Holds, ", "), o.ApprovedBy, o.Approval))
	}
	if r.Gone == (erasure.Figures{}) {
		fmt.Fprintln(a.Stderr, a.Say("cli.erase.nothing_kept"))
	}
}
