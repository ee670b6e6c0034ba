package gateway

import (
	"strings"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance"
)

// subjectDigest is the digest of the person whom the run is about: whom the caller acts for, which for a key of a person is that person unless
// it names another, else the caller.
func (r *run) subjectDigest() string {
	if r.caller.onBehalfOf != "" {
		return r.caller.onBehalfOf
	}
	return audit.Subject(r.p.deps.Keys, r.caller.Tenant, r.caller.ID)
}

// recordedPrompt is what the policy has kept of the prompt: as the caller sent it, or masked as the engine is given it, with the passages. Both
// are spelled as the digest of a prompt covers it. A call that is refused keeps none.
func (r *run) recordedPrompt() []audit.Text {
	switch r.admission.recordForm {
	case governance.RecordClear:
		return []audit.Text{{Direction: "request", Form: r.admission.recordForm, Text: r.masked.clear}}
	case governance.RecordMasked:
		given := *r.masked.call
		if req := r.prompt.request(); req != nil {
			given.Messages = req.Messages
		}
		return []audit.Text{{Direction: "request", Form: r.admission.recordForm, Text: given.prompt()}}
	default:
		return nil
	}
}

// recordedAnswer is what the policy has kept of the answer, as far as it went out: as the caller got it, or before values were put back, without
// those that only the answer may show.
func (r *run) recordedAnswer() []audit.Text {
	kept, form := r.outcome.tally.Recorded, r.admission.recordForm
	switch form {
	case governance.RecordClear:
		if r.answer.out == nil {
			kept = r.answer.joinPassages(func(p shown) string { return p.text })
		}
	case governance.RecordMasked:
		if r.answer.out == nil {
			kept = r.answer.joinPassages(func(p shown) string { return p.masked })
		}
		kept = r.admission.decision.Redact(kept)
	default:
		return nil
	}
	return []audit.Text{{Direction: "answer", Form: form, Text: kept}}
}

// answerDigest is the digest of what went out: an answer, or passages; "" for what has neither.
func (r *run) answerDigest() string {
	if r.answer.out != nil || r.answer.shown == nil {
		return r.outcome.tally.Digest
	}
	d := audit.NewAnswerDigest(r.p.deps.Keys, r.caller.Tenant)
	_, _ = d.WriteString(r.answer.joinPassages(func(p shown) string { return p.text })) // a digest takes everything
	return d.String()
}

// joinPassages joins the passages that were shown as their digest covers them, with a zero byte between them.
func (a *answer) joinPassages(text func(shown) string) string {
	parts := make([]string, len(a.shown))
	for i, p := range a.shown {
		parts[i] = text(p)
	}
	return strings.Join(parts, "\x00")
}
