package compliance

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Verification is a verification of the audit log that has ended.
type Verification struct {
	VerifierKey string // the public keys of the log that the checkpoints were verified with
	Finished    time.Time
	Program     string // the version that verified
	Result      verify.Report
}

// check is one thing that a verification looks at, with the kinds of problems and findings that it names. A verification of a range of
// records makes only the partial ones.
type check struct {
	name, shows message.Phrase
	partial     bool
	kinds       []string
}

func checks() []check {
	return []check{
		{message.Say("compliance.check_records"), message.Say("compliance.check_records_shows"), true, []string{"payload", "column", "leaf", "missing", "extra", "sequence", "gap"}},
		{message.Say("compliance.check_tree"), message.Say("compliance.check_tree_shows"), true, []string{"tree", "root", "fork", "truncated", "checkpoint", "unpinned"}},
		{message.Say("compliance.check_witnesses"), message.Say("compliance.check_witnesses_shows"), false, []string{"cosignature"}},
		{message.Say("compliance.check_wal"), message.Say("compliance.check_wal_shows"), false, []string{"wal", "torn"}},
		{message.Say("compliance.check_usage"), message.Say("compliance.check_usage_shows"), false, []string{"usage", "unbooked", "unfinished"}},
		{message.Say("compliance.check_contents"), message.Say("compliance.check_contents_shows"), false, []string{"content"}},
		{message.Say("compliance.check_pruning"), message.Say("compliance.check_pruning_shows"), false, []string{"pruning", "early", "vault", "archive"}},
		{message.Say("compliance.check_storage"), message.Say("compliance.check_storage_shows"), false, []string{"storage"}},
	}
}

// ProblemName is what a kind of problem is called; "" for one that has no name.
func ProblemName(kind string, l message.Lang) string {
	return map[string]message.Phrase{
		"payload":     message.Say("compliance.problem_payload"),
		"column":      message.Say("compliance.problem_column"),
		"leaf":        message.Say("compliance.problem_leaf"),
		"tree":        message.Say("compliance.problem_tree"),
		"root":        message.Say("compliance.problem_root"),
		"fork":        message.Say("compliance.problem_fork"),
		"truncated":   message.Say("compliance.problem_truncated"),
		"checkpoint":  message.Say("compliance.problem_checkpoint"),
		"cosignature": message.Say("compliance.problem_cosignature"),
		"gap":         message.Say("compliance.problem_gap"),
		"missing":     message.Say("compliance.problem_missing"),
		"extra":       message.Say("compliance.problem_extra"),
		"sequence":    message.Say("compliance.problem_sequence"),
		"wal":         message.Say("compliance.problem_wal"),
		"storage":     message.Say("compliance.problem_storage"),
		"usage":       message.Say("compliance.problem_usage"),
		"content":     message.Say("compliance.problem_content"),
		"pruning":     message.Say("compliance.problem_pruning"),
		"early":       message.Say("compliance.problem_early"),
		"vault":       message.Say("compliance.problem_vault"),
		"archive":     message.Say("compliance.problem_archive"),
		"unfinished":  message.Say("compliance.problem_unfinished"),
		"unbooked":    message.Say("compliance.problem_unbooked"),
		"torn":        message.Say("compliance.problem_torn"),
		"unpinned":    message.Say("compliance.problem_unpinned"),
	}[kind].In(l)
}

// Document is the report of the verification. The error is that of keys that are none.
func (v Verification) Document(l message.Lang) (report.Document, error) {
	keys, err := checkpoint.NewVerifier(v.VerifierKey)
	if err != nil {
		return report.Document{}, err
	}
	in := inLanguage(l)
	r := v.Result
	scope := in(message.Say("compliance.scope_whole"))
	if r.UntilIndex != 0 {
		scope = in(message.Say("compliance.scope_range", r.FirstIndex, r.UntilIndex-1))
	}
	d := report.Document{
		Lang: l, Title: in(message.Say("compliance.verification")), Subject: in(message.Say("compliance.about_log", keys.Origin())), Issuer: keys.Origin(), Created: v.Finished,
		Footer: in(message.Say("compliance.root", r.Root)),
	}
	d.Body = []report.Block{
		v.verdict(in),
		report.Heading{Level: 1, Text: in(message.Say("compliance.scope_title"))},
		report.Fields{
			{Name: in(message.Say("compliance.log")), Value: keys.Origin()},
			{Name: in(message.Say("compliance.public_key")), Value: strings.Join(strings.Fields(v.VerifierKey), " ")},
			{Name: in(message.Say("compliance.scope")), Value: scope},
			{Name: in(message.Say("compliance.tree_root")), Value: r.Root},
			{Name: in(message.Say("compliance.program")), Value: v.Program},
		},
		report.Heading{Level: 1, Text: in(message.Say("compliance.figures"))},
		v.figures(in),
	}
	if r.Least > 0 {
		d.Body = append(d.Body, report.Paragraph(in(message.Say("compliance.pruned_below", r.Least))))
	}
	d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("compliance.checks"))}, v.checked(in))
	if len(r.Witnessed) > 0 {
		d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("compliance.witnesses"))}, witnesses(in, r.Witnessed))
	}
	d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("compliance.problems"))}, problems(in, l, r.Problems))
	if len(r.Findings) > 0 {
		d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("compliance.findings"))}, report.Paragraph(in(message.Say("compliance.findings_meaning"))), problems(in, l, r.Findings))
	}
	if r.More {
		d.Body = append(d.Body, report.Paragraph(in(message.Say("compliance.more_problems"))))
	}
	d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("compliance.repeat"))}, report.Paragraph(in(message.Say("compliance.verification_proves_nothing"))), report.List{Items: []string{
		in(message.Say("compliance.repeat_here", strings.Join(strings.Fields(v.VerifierKey), " "))), in(message.Say("compliance.repeat_offline")), in(message.Say("compliance.repeat_key")),
	}})
	return d, nil
}

// translator says texts of the catalogues in the language of a report.
type translator func(message.Phrase) string

func inLanguage(l message.Lang) translator { return func(p message.Phrase) string { return p.In(l) } }

func (v Verification) verdict(in translator) report.Verdict {
	switch r := v.Result; {
	case !r.OK:
		return report.Verdict{Outcome: report.Failed, Text: in(message.Say("compliance.failed", len(r.Problems)))}
	case r.UntilIndex != 0:
		return report.Verdict{Outcome: report.Passed, Text: in(message.Say("compliance.passed_range", r.FirstIndex, r.UntilIndex-1))}
	default:
		return report.Verdict{Outcome: report.Passed, Text: in(message.Say("compliance.passed"))}
	}
}

func (v Verification) figures(in translator) report.Table {
	r := v.Result
	return report.Table{
		Columns: []report.Column{{Title: in(message.Say("compliance.figure"))}, {Title: in(message.Say("compliance.records")), Number: true}},
		Rows: [][]string{
			{in(message.Say("compliance.figure_read")), report.Count(r.Records)},
			{in(message.Say("compliance.figure_sealed")), report.Count(r.Sealed)},
			{in(message.Say("compliance.figure_unsealed")), report.Count(r.Unsealed)},
			{in(message.Say("compliance.figure_wal")), report.Count(r.WALRecords)},
			{in(message.Say("compliance.figure_checkpoint")), report.Count(r.CheckpointSize)},
		},
	}
}

// checked says of each check what it shows and how it ended.
func (v Verification) checked(in translator) report.Table {
	r := v.Result
	t := report.Table{Columns: []report.Column{{Title: in(message.Say("compliance.check"))}, {Title: in(message.Say("compliance.check_shows"))}, {Title: in(message.Say("compliance.result"))}}}
	for _, c := range checks() {
		if r.UntilIndex != 0 && !c.partial {
			continue
		}
		count := func(list []verify.Problem) (n int) {
			for _, p := range list {
				if slices.Contains(c.kinds, p.Kind) {
					n++
				}
			}
			return n
		}
		result := in(message.Say("compliance.result_passed"))
		switch bad, notes := count(r.Problems), count(r.Findings); {
		case bad > 0:
			result = in(message.Say("compliance.result_problems", bad))
		case notes > 0:
			result = in(message.Say("compliance.result_findings", notes))
		case r.More: // what is not on the list may be of this check
			result = in(message.Say("compliance.result_cut"))
		case slices.Contains(c.kinds, "cosignature") && len(r.Witnessed) == 0:
			result = in(message.Say("compliance.result_no_witness"))
		}
		t.Rows = append(t.Rows, []string{in(c.name), in(c.shows), result})
	}
	return t
}

func witnesses(in translator, list []seal.Witnessed) report.Table {
	t := report.Table{Columns: []report.Column{{Title: in(message.Say("compliance.witness"))}, {Title: in(message.Say("compliance.cosigned")), Number: true}, {Title: in(message.Say("compliance.time"))}}}
	for _, w := range list {
		at := ""
		if !w.Time.IsZero() {
			at = w.Time.UTC().Format(time.RFC3339)
		}
		t.Rows = append(t.Rows, []string{w.Witness, report.Count(w.Size), at})
	}
	return t
}

// problems lists what is wrong, in the words of the verifier, which are English in every report.
func problems(in translator, l message.Lang, list []verify.Problem) report.Table {
	t := report.Table{Columns: []report.Column{{Title: in(message.Say("compliance.problem"))}, {Title: in(message.Say("compliance.record"))}, {Title: in(message.Say("compliance.index")), Number: true}, {Title: in(message.Say("compliance.cause"))}}}
	for _, p := range list {
		kind, index := p.Kind, ""
		if name := ProblemName(p.Kind, l); name != "" {
			kind = name + " [" + p.Kind + "]"
		}
		if p.Index >= 0 {
			index = report.Count(p.Index)
		}
		t.Rows = append(t.Rows, []string{kind, p.Record, index, p.Cause})
	}
	return t
}
