package provenance

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Kind and its text, in the order of a report.
type named struct {
	kind string
	Mark
}

func (m Marks) inOrder() []named {
	return []named{{"label", m.Label}, {"credentials", m.Credentials}, {"signature", m.Signature}, {"watermark", m.Watermark}, {"registry", m.Registry}}
}

// limits returns what the verdict does not prove.
func (v Verdict) limits() []string {
	var out []string
	switch v.Conclusion {
	case NothingFound, TooLittle, LabelledAway:
		return []string{"person"}
	case Derived, Wording, Hint, OtherText, OtherFile, Contradictory:
		out = append(out, "changes")
	case Unchanged, IssuedHere, SignedHere, LabelledHere:
	}
	found := func(m Mark) bool { return slices.Contains([]Result{Confirmed, Partial, Indicated}, m.Result) }
	if found(v.Marks.Label) {
		out = append(out, "label")
	}
	if found(v.Marks.Credentials) {
		out = append(out, "credentials")
	}
	if found(v.Marks.Watermark) {
		out = append(out, "watermark")
	}
	if found(v.Marks.Registry) && v.Marks.Signature.Result != Confirmed {
		out = append(out, "registry")
	}
	if !v.LeadsHere() {
		out = append(out, "person")
	}
	return append(out, "truth")
}

// Document is the verdict for people. name is what the parcel is called that it lies in, "" if it lies in none.
func (v Verdict) Document(l message.Lang, name string) report.Document {
	in := words(l)
	d := report.Document{
		Lang: l, Title: in("provenance.title"), Subject: v.Subject.SHA256, Issuer: v.Issuer, Created: v.Time, Footer: "SHA-256 " + v.Subject.SHA256,
		Body: []report.Block{report.Verdict{Outcome: v.outcome(), Text: in(conclusionID(v.Conclusion))}},
	}
	if len(v.Contradictions) > 0 {
		d.Body = append(d.Body, report.Heading{Level: 1, Text: in("provenance.contradictions")}, list(in, contradictionID, v.Contradictions))
	}
	d.Body = append(d.Body, report.Heading{Level: 1, Text: in("provenance.limits")}, list(in, limitID, v.Limits),
		report.Heading{Level: 1, Text: in("provenance.about")}, v.about(in), report.Heading{Level: 1, Text: in("provenance.marks")})
	for _, m := range v.Marks.inOrder() {
		d.Body = append(d.Body, report.Heading{Level: 2, Text: in(markID(m.kind))}, m.fields(in))
	}
	d.Body = append(d.Body, v.requests(in)...)
	if name != "" {
		d.Body = append(d.Body, report.List{Items: []string{in("provenance.check_parcel", name), in("provenance.check_subject", v.subjectName())}})
	}
	return d
}

func (v Verdict) outcome() report.Outcome {
	switch {
	case v.LeadsHere():
		return report.Passed
	case v.Conclusion == Contradictory || v.Conclusion == OtherText || v.Conclusion == OtherFile:
		return report.Failed
	default:
		return report.Neutral
	}
}

func list[T ~string](in translator, text func(T) message.ID, codes []T) report.List {
	var out report.List
	for _, code := range codes {
		out.Items = append(out.Items, in(text(code)))
	}
	return out
}

func (v Verdict) about(in translator) report.Fields {
	out := report.Fields{
		{Name: in("provenance.installation"), Value: v.Issuer}, {Name: in("provenance.tenant"), Value: v.Tenant}, {Name: in("provenance.examined"), Value: v.Time.Format(time.RFC3339)},
	}
	if v.Subject.Name != "" {
		out = append(out, report.Field{Name: in("provenance.file"), Value: v.Subject.Name})
	}
	return append(out, report.Field{Name: in("provenance.kind"), Value: v.Subject.Kind}, report.Field{Name: in("provenance.bytes"), Value: report.Count(int64(v.Subject.Bytes))},
		report.Field{Name: in("provenance.characters"), Value: report.Count(int64(v.Subject.Characters))}, report.Field{Name: "SHA-256", Value: v.Subject.SHA256})
}

func (m Mark) fields(in translator) report.Fields {
	out := report.Fields{
		{Name: in("provenance.result"), Value: in(resultID(m.Result))},
		{Name: in("provenance.reason"), Value: strings.Join(append([]string{in(reasonID(m.Reason))}, m.figures(in)...), " ")},
		{Name: in("provenance.confidence"), Value: in(confidenceID(m.Confidence))},
	}
	for _, f := range []struct {
		id    message.ID
		value string
	}{
		{"provenance.producer", m.Producer}, {"provenance.signer", m.Signer}, {"provenance.model", m.Model}, {"provenance.code", m.Code}, {"provenance.key", m.Key}, {"provenance.request", strings.Join(m.Requests, ", ")},
	} {
		if f.value != "" {
			out = append(out, report.Field{Name: in(f.id), Value: f.value})
		}
	}
	return out
}

// figures are those of a mark, as sentences.
func (m Mark) figures(in translator) []string {
	var out []string
	if m.Log10P != nil {
		out = append(out, in("provenance.probability", probability(*m.Log10P)))
	}
	if m.Passage != nil {
		out = append(out, in("provenance.passage", m.Passage.Begin, m.Passage.End))
	}
	if m.Least > 0 {
		out = append(out, in("provenance.counted", m.Counted, m.Least))
	}
	if m.Share != nil {
		out = append(out, in("provenance.share", m.Verified, m.Letters, fmt.Sprintf("%.0f %%", math.Floor(100**m.Share))))
	}
	if m.Since != nil {
		out = append(out, in("provenance.since", m.Since.Format(time.RFC3339)))
	}
	return out
}

// probability writes a bound by its logarithm, never as less than it is.
func probability(log10 float64) string {
	if log10 > -3 {
		return strconv.FormatFloat(math.Ceil(1000*math.Pow(10, log10))/1000, 'g', -1, 64)
	}
	return fmt.Sprintf("10^%.0f", math.Ceil(log10))
}

func (v Verdict) requests(in translator) []report.Block {
	if len(v.Requests) == 0 {
		return nil
	}
	out := []report.Block{report.Heading{Level: 1, Text: in("provenance.requests")}}
	for _, r := range v.Requests {
		var by []string
		for _, kind := range r.By {
			by = append(by, in(markID(kind)))
		}
		records := strings.Join(r.Records, ", ")
		f := report.Fields{{Name: in("provenance.request"), Value: r.ID}, {Name: in("provenance.confidence"), Value: strings.Join(by, ", ")}}
		if len(r.Records) == 0 {
			records = in("provenance.no_records")
		} else {
			f = append(f, report.Field{Name: in("provenance.time"), Value: r.Time.Format(time.RFC3339)}, report.Field{Name: in("provenance.model"), Value: strings.TrimSpace(r.Model + " " + r.Version)})
		}
		out = append(out, append(f, report.Field{Name: in("provenance.records"), Value: records}))
	}
	if v.MoreRequests {
		out = append(out, report.Paragraph(in("provenance.more_requests")))
	}
	return out
}
