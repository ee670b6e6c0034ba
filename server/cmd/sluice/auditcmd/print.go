package auditcmd

import (
	"fmt"
	"time"

	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/compliance"
)

// printReport says what a verification found, to people or to programs.
func (a *app) printReport(r verify.Report, asJSON bool) error {
	if asJSON {
		if err := cli.PrintJSON(a.Stdout, r); err != nil {
			return err
		}
	} else {
		a.sayReport(r)
	}
	if !r.OK {
		return cli.ErrFindings
	}
	return nil
}

func (a *app) sayReport(r verify.Report) {
	line := func(text string) { fmt.Fprintln(a.Stdout, text) }
	if r.OK {
		line(a.Say("cli.audit_verify.ok"))
	} else {
		line(a.Say("cli.audit_verify.failed", len(r.Problems)))
	}
	line(a.Say("cli.audit_verify.records", r.Records, r.Sealed, r.Unsealed, r.WALRecords, r.CheckpointSize, r.Root))
	if r.UntilIndex != 0 {
		line(a.Say("cli.audit_verify.range", r.FirstIndex, r.UntilIndex-1))
	}
	if r.Least > 0 {
		line(a.Say("cli.audit_verify.pruned", r.Least))
	}
	for _, w := range r.Witnessed {
		line(a.Say("cli.audit_verify.witness", w.Witness, w.Size, w.Time.Format(time.RFC3339)))
	}
	for _, p := range r.Problems {
		line("  " + a.describe(p))
	}
	for _, p := range r.Findings {
		line("  " + a.Say("cli.audit_verify.note", a.describe(p)))
	}
	if r.More {
		line("  " + a.Say("cli.shared.and_more"))
	}
}

// describe puts a problem into one line, without the names it does not have. Its cause is in the words of the verifier, which a report in
// JSON and the management API have too.
func (a *app) describe(p verify.Problem) string {
	text := p.Kind
	if name := compliance.ProblemName(p.Kind, message.Chinese); name != "" && a.Lang() == message.Chinese {
		text += "（" + name + "）"
	}
	if p.Record != "" {
		text += a.Say("cli.audit_verify.of_record", p.Record)
	}
	if p.Index >= 0 {
		text += a.Say("cli.audit_verify.at_index", p.Index)
	}
	return a.Say("cli.audit_verify.cause", text, p.Cause)
}
