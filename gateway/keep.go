package gateway

import (
	"strings"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance"
)

// person is the digest of the person whom the run is about: whom the caller acts for, which for a key of a person is that person unless
// it names another, else the caller.
func (r *run) person() string {
	if r.onBehalfOf != "" {
		return r.onBehalfOf
	}
	return audit.Subject(r.p.deps.Keys, r.principal.Tenant, r.principal.ID)
}

// subject is the person whose texts the records of the run keep; "" if they keep none.
func (r *run) subject() string {
	if r.keep == "" {
		return ""
	}
	return r.person()
}

// keptPrompt is what the policy has kept of the prompt: as the caller sent it, or masked as the engine is given it, with the passages. Both
// are spelled as the digest of a prompt covers it. A call that is refused keeps none.
func (r *run) keptPrompt() []audit.Text {
	switch r.keep {
	case governance.RecordClear:
		return []audit.Text{{Direction: "request", Form: r.keep, Text: r.original}}
	case governance.RecordMasked:
		given := *r.call
		if r.request != nil {
			given.Messages = r.request.Messages
		}
		return []audit.Text{{Direction: "request", Form: r.keep, Text: given.prompt()}}
	default:
		return nil
	}
}

// keptAnswer is what the policy has kept of the answer, as far as it went out: as the caller got it, or before values were put back, without
// those that only the answer may show.
func (r *run) keptAnswer() []audit.Text {
	kept := r.tally.Kept
	switch r.keep {
	case governance.RecordClear:
		if r.answer == nil {
			kept = r.spelled(func(p passage) string { return p.shown })
		}
	case governance.RecordMasked:
		if r.answer == nil {
			kept = r.spelled(func(p passage) string { return p.masked })
		}
		kept = r.admission.Redact(kept)
	default:
		return nil
	}
	return []audit.Text{{Direction: "answer", Form: r.keep, Text: kept}}
}

// answerDigest is the digest of what went out: an answer, or passages; "" for what has neither.
func (r *run) answerDigest() string {
	if r.answer != nil || r.shown == nil {
		return r.tally.Digest
	}
	d := audit.NewAnswerDigest(r.p.deps.Keys, r.principal.Tenant)
	_, _ = d.WriteString(r.spelled(func(p passage) string { return p.shown })) // a digest takes everything
	return d.String()
}

// spelled joins the passages that were shown as their digest covers them, with a zero byte between them.
func (r *run) spelled(text func(passage) string) string {
	parts := make([]string, len(r.shown))
	for i, p := range r.shown {
		parts[i] = text(p)
	}
	return strings.Join(parts, "\x00")
}
