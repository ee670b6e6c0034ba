package gateway

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// aside is a text of a choice beside its answer, on its way out: what the model thinks, or why it does not answer. It passes the same
// rules as the answer, as one text from its first piece to the end of the choice: what belongs together stays together, whatever else
// the engine sends between two pieces.
type aside struct {
	release      Release
	sent, masked strings.Builder // what has left: as it was sent, and before values were put back
}

// The asides of a choice.
const (
	reasoning = iota
	refusal
	asides
)

// asides releases the new text of an event beside the answer, and all that is left of it at the end of the choice.
func (e *egress) asides(ev engine.Event, out *departure) error {
	o := &e.choices[ev.Choice]
	for k, text := range [asides]string{reasoning: ev.Reasoning, refusal: ev.Refusal} {
		a := &o.asides[k]
		if text != "" && a.release == nil {
			a.release = e.r.window([asides]string{reasoning: textReasoning, refusal: textRefusal}[k])
		}
		if a.release == nil {
			continue
		}
		shown, masked, err := advance(a.release, text, ev.Finish != engine.FinishNone, e.unsaid(ev, k+1)...)
		if err != nil {
			return err
		}
		out.aside[k] = masked
		if k == reasoning {
			out.Reasoning = shown
		} else {
			out.Refusal = shown
		}
	}
	return nil
}

// spelled joins what left beside an answer, as its digest covers it: a name that no call has, and the text, each behind a zero byte.
func (o *outlet) spelled(text func(*aside) string) string {
	out := ""
	for k, name := range [asides]string{reasoning: "reasoning", refusal: "refusal"} {
		if s := text(&o.asides[k]); s != "" {
			out += "\x00\x00" + name + "\x00" + s
		}
	}
	return out
}

// logprobs returns the entries whose text has now left unchanged. Once any text has been changed or hidden, or an entry does not spell
// what left, no entry of the choice leaves any more; an entry that spells text past the end, such as that of a stop string, never does.
// Entries that come with text beside the answer are left out: they spell that.
func (e *egress) logprobs(ev engine.Event, out string) ([]engine.TokenLogprob, error) {
	o := &e.choices[ev.Choice]
	if !o.asked || o.changed {
		return nil, nil
	}
	beside := ev.Reasoning != "" || ev.Refusal != ""
	switch {
	case !beside:
		o.tokens = append(o.tokens, ev.Logprobs...)
	case ev.Text != "" && len(ev.Logprobs) > 0: // whose is whose cannot be told
		o.withhold()
		return nil, nil
	default:
		e.r.answer.withheld = e.r.answer.withheld || len(ev.Logprobs) > 0
	}
	rest, same := strings.CutPrefix(o.pending+ev.Text, out)
	if !same || ev.Finish != engine.FinishNone && rest != "" {
		o.withhold()
		return nil, nil
	}
	o.pending = rest
	if o.spell += out; len(o.spell) > maxUnspelled { // the engine has none
		o.withhold()
		return nil, nil
	}
	n := 0
	for n < len(o.tokens) && len(o.tokens[n].Bytes) <= len(o.spell) {
		t := &o.tokens[n]
		harmless, err := e.harmless(t)
		if err != nil {
			return nil, err
		}
		if !harmless || !strings.HasPrefix(o.spell, string(t.Bytes)) {
			o.withhold()
			return nil, nil
		}
		o.spell = o.spell[len(t.Bytes):]
		n++
	}
	gone := o.tokens[:n:n]
	o.tokens = o.tokens[n:]
	return gone, nil
}

// withhold lets no more entries of the choice leave.
func (o *outlet) withhold() { o.changed, o.tokens, o.spell = true, nil, "" }

// maxUnspelled is how much text may be without entries until none is waited for any more.
const maxUnspelled = 64 << 10

// longToken is the length in bytes from which one token can be a value.
const longToken = 5

// harmless reports whether the tokens that were not chosen may be shown: each has to pass the rules of the answer as it is. What an
// entry calls its tokens is made from their bytes, which are what is looked at.
func (e *egress) harmless(t *engine.TokenLogprob) (bool, error) {
	t.Token = strings.ToValidUTF8(string(t.Bytes), "\uFFFD")
	t.Top = slices.Clone(t.Top)
	for i := range t.Top {
		alt := &t.Top[i]
		alt.Token = strings.ToValidUTF8(string(alt.Bytes), "\uFFFD")
		if len(alt.Bytes) < longToken || alt.Token == t.Token {
			continue
		}
		if shown, _, err := through(e.r.admission.decision.Release(), alt.Token); err != nil || shown != alt.Token {
			return false, err
		}
	}
	return true, nil
}

// rescue turns a panic of the rules into the error of the answer: nothing more of it is shown, and the caller is told so. What a panic
// says may quote the text, unless the runtime says it.
func (e *egress) rescue(err *error) {
	p := recover()
	if p == nil {
		return
	}
	cause := fmt.Errorf("the rules of the answer panicked with a %T", p)
	var known runtime.Error
	if as, ok := p.(error); ok && errors.As(as, &known) {
		cause = fmt.Errorf("the rules of the answer panicked: %w", known)
	}
	*err = fault.Wrap(cause, fault.CodeInternal)
}
