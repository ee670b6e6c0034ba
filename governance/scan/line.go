package scan

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
)

// Text is what is written of a text: one line of JSON.
type Text struct {
	ID       json.RawMessage `json:"id"`
	Findings []Finding       `json:"findings"`
	Masked   string          `json:"masked"`
}

// Finding is a value. Its offsets count characters (Unicode code points), as people and most programming languages do.
type Finding struct {
	Start int            `json:"start"`
	End   int            `json:"end"`
	Type  classify.Class `json:"type"`
	Score float64        `json:"score"`
	// of [Config.Explain]
	Form    *float64 `json:"form,omitempty"` // the score of the form alone
	Reasons []Reason `json:"reasons,omitzero"`
}

// Reason speaks for a finding, or with a weight below zero against it.
type Reason struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// explain says why it was found.
func (f *Finding) explain(why classify.Why) {
	f.Form, f.Reasons = new(why.Form()), []Reason{}
	for _, r := range why.Reasons() {
		f.Reasons = append(f.Reasons, Reason(r))
	}
}

// line is what is written of a text.
func (w waiting) line(found []classify.Finding, why bool) ([]byte, error) {
	out := Text{ID: w.id, Findings: make([]Finding, 0, len(found))}
	masked, last, runes := strings.Builder{}, 0, 0
	for _, f := range found {
		between, value := w.text[last:f.Start], w.text[f.Start:f.End]
		masked.WriteString(between)
		start := runes + utf8.RuneCountInString(between)
		runes, last = start+utf8.RuneCountInString(value), f.End
		finding := Finding{Start: start, End: runes, Type: f.Class, Score: f.Score}
		if why {
			finding.explain(f.Why)
		}
		out.Findings = append(out.Findings, finding)
		masked.WriteString(mask.Partial(f.Class, tag(f.Class), value))
	}
	masked.WriteString(w.text[last:])
	out.Masked = masked.String()
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return line.Bytes(), err
}

// tag is the name of a class in labels.
func tag(c classify.Class) string {
	t, _ := classify.TypeOf(c)
	return t.Tag
}
