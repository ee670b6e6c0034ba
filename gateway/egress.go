package gateway

import (
	"errors"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// egress is step 11: it turns the engine's events into what the caller may see.
type egress struct {
	r       *run
	choices []outlet
	open    int           // choices that have not finished
	held    *engine.Event // the last finish, until usage has come
}

// outlet is one choice on its way out.
type outlet struct {
	release Release
	// Log-probabilities spell text, so an entry leaves only when the text it spells has left unchanged.
	asked   bool
	pending string // text that went into the release and has not come out
	tokens  []engine.TokenLogprob
	credit  int // bytes that came out and are not yet spelled by an entry
	changed bool
	done    bool // it has finished: nothing may follow
}

func (r *run) egress() *egress {
	e := &egress{r: r, choices: make([]outlet, r.request.Choices), open: r.request.Choices}
	r.released = make([]strings.Builder, r.request.Choices)
	for i := range e.choices {
		e.choices[i] = outlet{release: r.admission.Release(), asked: r.call.Logprobs >= 0, changed: r.admission.Masked()}
	}
	return e
}

// pass returns the event as it may leave, perhaps empty; last is true for the one that ends the answer.
func (e *egress) pass(ev engine.Event) (out engine.Event, last bool, err error) {
	if ev.Choice < 0 || ev.Choice >= len(e.choices) {
		return engine.Event{}, false, fault.Wrap(errors.New("the engine sent a choice nobody asked for"), fault.CodeEngineUnavailable, string(e.r.call.Model))
	}
	if o := &e.choices[ev.Choice]; o.done && (ev.Text != "" || ev.Finish != engine.FinishNone || len(ev.Logprobs) > 0) {
		return engine.Event{}, false, fault.Wrap(errors.New("the engine went on after the end of a choice"), fault.CodeEngineUnavailable, string(e.r.call.Model))
	}
	out = engine.Event{Choice: ev.Choice, Finish: ev.Finish, Usage: ev.Usage}
	if ev.Text != "" {
		e.r.events++
		if e.r.firstToken == 0 {
			e.r.firstToken = e.r.p.now().Sub(e.r.call.Received)
		}
	}
	if err := e.text(ev, &out); err != nil {
		return engine.Event{}, false, err
	}
	if ev.Finish != engine.FinishNone {
		e.open--
		e.choices[ev.Choice].done = true
	}
	e.r.released[out.Choice].WriteString(out.Text)
	if e.held != nil { // only usage can follow the last finish
		usage := ev.Usage
		out, e.held = *e.held, nil
		out.Usage = usage
	}
	if e.open <= 0 && out.Usage == nil {
		held := out
		e.held = &held
		return engine.Event{}, false, nil
	}
	if out.Usage != nil {
		e.r.usage = out.Usage
		return out, true, nil
	}
	return out, false, nil
}

// text releases the text of an event, all that is left at the end of a choice, and the label after it.
func (e *egress) text(ev engine.Event, out *engine.Event) error {
	o := &e.choices[ev.Choice]
	var err error
	if ev.Text != "" {
		if out.Text, err = o.release.Write(ev.Text); err != nil {
			return err
		}
	}
	if ev.Finish != engine.FinishNone {
		rest, err := o.release.Close()
		if err != nil {
			return err
		}
		out.Text += rest
	}
	out.Logprobs = o.logprobs(ev, out.Text)
	if o.changed && o.asked {
		e.r.withheld = true
	}
	if ev.Finish != engine.FinishNone && e.r.labelText() {
		out.Text += label.Text(e.r.released[ev.Choice].String() + out.Text)
	}
	return nil
}

// logprobs returns the entries whose text has now left unchanged. Once any text has been changed or hidden, no entry of the
// choice leaves any more; an entry that spells text past the end, such as that of a stop string, never does.
func (o *outlet) logprobs(ev engine.Event, out string) []engine.TokenLogprob {
	if !o.asked || o.changed {
		return nil
	}
	o.tokens = append(o.tokens, ev.Logprobs...)
	rest, same := strings.CutPrefix(o.pending+ev.Text, out)
	if !same || ev.Finish != engine.FinishNone && rest != "" {
		o.changed, o.tokens = true, nil
		return nil
	}
	o.pending = rest
	o.credit += len(out)
	n := 0
	for n < len(o.tokens) && len(o.tokens[n].Bytes) <= o.credit {
		o.credit -= len(o.tokens[n].Bytes)
		n++
	}
	gone := o.tokens[:n:n]
	o.tokens = o.tokens[n:]
	return gone
}

func (r *run) labelText() bool {
	return r.admission.LabelMode(r.principal.LabelMode) == identity.LabelText
}
