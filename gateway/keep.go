package gateway

import (
	"strings"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance"
)

// person is the digest of the person whom the run is about: whom the caller acts for, which for a key of a person is that person unless
// it names another, else the caller.
func (r *run) person() string {
	if r.caller.onBehalfOf != "" {
		return r.caller.onBehalfOf
	}
	return audit.Subject(r.p.deps.Keys, r.caller.Tenant, r.caller.ID)
}

// subject is the person whose texts the records of the run keep; "" if they keep none.
func (r *run) subject() string {
	if r.admission.keep == "" {
		return ""
	}
	return r.person()
}

// keptPrompt is what the policy has kept of the prompt: as the caller sent it, or masked as the engine is given it, with the passages. Both
// are spelled as the digest of a prompt covers it. A call that is refused keeps none.
func (r *run) keptPrompt() []audit.Text {
	switch r.admission.keep {
	case governance.RecordClear:
		return []audit.Text{{Direction: "request", Form: r.admission.keep, Text: r.masked.clear}}
	case governance.RecordMasked:
		given := *r.call
		if req := r.prompt.request(); req != nil {
			given.Messages = req.Messages
		}
		return []audit.Text{{Direction: "request", Form: r.admission.keep, Text: given.prompt()}}
	default:
		return nil
	}
}

// keptAnswer is what the policy has kept of the answer, as far as it went out: as the caller got it, or before values were put back, without
// those that only the answer may show.
func (r *run) keptAnswer() []audit.Text {
	switch r.admission.keep {
	case governance.RecordClear:
		return []audit.Text{{Direction: "answer", Form: r.admission.keep, Text: r.said()}}
	case governance.RecordMasked:
		return []audit.Text{{Direction: "answer", Form: r.admission.keep, Text: r.admission.decision.Redact(r.maskedAnswer())}}
	default:
		return nil
	}
}

// said spells what was let out, as its digest covers it: the text of the one choice, or the texts of several with a zero byte
// between them. Behind the text of a choice come its reasoning and its refusal, if the model told them apart, and its calls, each
// name and arguments behind a zero byte.
func (r *run) said() string {
	return r.spell(r.answer.released, func(a *aside) string { return a.sent.String() },
		func(c *callOutlet) (string, string) { return c.name, c.sent.String() })
}

// maskedAnswer is the same before values were put back.
func (r *run) maskedAnswer() string {
	return r.spell(r.answer.masked, func(a *aside) string { return a.masked.String() },
		func(c *callOutlet) (string, string) { return c.maskedName, c.masked.String() })
}

func (r *run) spell(texts []strings.Builder, beside func(*aside) string, call func(*callOutlet) (name, arguments string)) string {
	parts := make([]string, len(texts))
	for i := range texts {
		parts[i] = texts[i].String()
		if i >= len(r.answer.outlets) {
			continue
		}
		parts[i] += r.answer.outlets[i].spelled(beside)
		for _, c := range r.answer.outlets[i].calls {
			if c.begun {
				name, arguments := call(c)
				parts[i] += "\x00" + name + "\x00" + arguments
			}
		}
	}
	return strings.Join(parts, "\x00")
}
