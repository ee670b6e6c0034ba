package conform

import (
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Title says what a case is about.
func (c Case) Title() message.Phrase {
	all := []message.Phrase{
		message.Say("conform.case_health"), message.Say("conform.case_models"), message.Say("conform.case_answer"), message.Say("conform.case_stream"), message.Say("conform.case_tools"),
		message.Say("conform.case_formats"), message.Say("conform.case_sampling"), message.Say("conform.case_errors"), message.Say("conform.case_cancel"), message.Say("conform.case_metrics"),
		message.Say("conform.case_overload"), message.Say("conform.case_contract"), message.Say("conform.case_media"), message.Say("conform.case_adapters"), message.Say("conform.case_drain"),
	}
	if c < 1 || int(c) > len(all) {
		return message.Quote(fmt.Sprint(int(c)), fmt.Sprint(int(c)))
	}
	return all[c-1]
}

// Phrase says how a case ended.
func (r Result) Phrase() message.Phrase {
	switch r {
	case Passed:
		return message.Say("conform.result_pass")
	case Failed:
		return message.Say("conform.result_fail")
	case NotReported:
		return message.Say("conform.result_not_reported")
	default:
		return message.Say("conform.result_not_applicable")
	}
}

// Verdict says what the report comes to, with its grade.
func (r Report) Verdict() message.Phrase {
	grade := r.Grade.String()
	switch {
	case len(r.Failed()) > 0:
		return message.Say("conform.verdict_failed", len(r.Failed()), grade)
	case r.Grade == 0:
		return message.Say("conform.verdict_assumed")
	case r.Target.Simulated:
		return message.Say("conform.verdict_simulated", grade)
	}
	return message.Say("conform.verdict_real", grade, r.Target.Version)
}

// Document is the report for people.
func (r Report) Document(l message.Lang) report.Document {
	in := func(p message.Phrase) string { return p.In(l) }
	target := message.Say("conform.target_software")
	if r.Target.Simulated {
		target = message.Say("conform.target_simulator")
	}
	table := report.Table{Columns: []report.Column{
		{Title: in(message.Say("conform.column_case"))}, {Title: in(message.Say("conform.column_about"))}, {Title: in(message.Say("conform.column_result"))}, {Title: in(message.Say("conform.column_reason"))},
	}}
	d := report.Document{
		Lang: l, Title: in(message.Say("conform.title")), Subject: r.Profile, Issuer: r.Software, Created: r.Began, Footer: r.Digest,
		Body: []report.Block{
			report.Verdict{Outcome: outcomeOf(r), Text: in(r.Verdict())},
			report.Fields{
				{Name: in(message.Say("conform.of_profile")), Value: r.Profile + " (" + r.Basis + ")"},
				{Name: in(message.Say("conform.of_target")), Value: in(target)},
				{Name: in(message.Say("conform.of_version")), Value: r.Target.Version},
				{Name: in(message.Say("conform.of_model")), Value: r.Target.Model},
				{Name: in(message.Say("conform.of_hardware")), Value: r.Target.Hardware},
				{Name: in(message.Say("conform.of_grade")), Value: r.Grade.String()},
			},
		},
	}
	var evidence []report.Block
	for _, o := range r.Cases {
		reason := o.Reason.En
		if l == message.Chinese {
			reason = o.Reason.Zh
		}
		name := fmt.Sprintf("CP-%d", o.Case)
		table.Rows = append(table.Rows, []string{name, in(o.Case.Title()), in(o.Result.Phrase()), reason})
		if len(o.Evidence) > 0 {
			evidence = append(evidence, report.Heading{Level: 2, Text: name}, report.List{Items: o.Evidence})
		}
	}
	d.Body = append(d.Body, table, report.Heading{Level: 1, Text: in(message.Say("conform.evidence"))})
	d.Body = append(d.Body, evidence...)
	return d
}

func outcomeOf(r Report) report.Outcome {
	switch {
	case len(r.Failed()) > 0:
		return report.Failed
	case r.Grade == 0:
		return report.Neutral
	}
	return report.Passed
}

// Line is a case in one line, for a terminal.
func (o Outcome) Line(l message.Lang) []string {
	reason := o.Reason.En
	if l == message.Chinese {
		reason = o.Reason.Zh
	}
	return []string{fmt.Sprintf("CP-%d", o.Case), strings.ToLower(o.Result.Phrase().In(l)), o.Case.Title().In(l), reason}
}
