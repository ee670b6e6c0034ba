package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/jsontext"
)

// egress is step 11: it turns the engine's events into what the caller may see.
type egress struct {
	r       *run
	choices []outlet
	open    int        // choices that have not finished
	held    *departure // the last finish, until usage has come
}

// departure is an event on its way out, with its text and arguments as they were before values were put back.
type departure struct {
	engine.Event

	masked    string
	aside     [asides]string
	arguments []string // of Calls
}

// outlet is one choice on its way out.
type outlet struct {
	release Release
	asides  [asides]aside
	// Log-probabilities spell text, so an entry leaves only when the text it spells has left unchanged.
	asked   bool
	pending string // text that went into the release and has not come out
	tokens  []engine.TokenLogprob
	spell   string // text that came out and is not yet spelled by an entry
	changed bool
	at      int  // in which text the model is
	done    bool // it has finished: nothing may follow
	calls   []*callOutlet
}

// callOutlet is a call on its way out, and what has left of it: as it was sent, and before values were put back.
type callOutlet struct {
	name, maskedName string
	args             arguments
	begun            bool // its name has left
	sent, masked     strings.Builder
}

func (r *run) egress() *egress {
	e := &egress{r: r, choices: make([]outlet, r.request.Choices), open: r.request.Choices}
	r.released, r.masked, r.outlets = make([]strings.Builder, r.request.Choices), make([]strings.Builder, r.request.Choices), e.choices
	for i := range e.choices {
		release := r.window(textContent)
		if isJSON(r.call.Format) && !r.call.Echo {
			release = newJSONAnswer(func() Release { return r.window(textContent) })
		}
		e.choices[i] = outlet{release: release, asked: r.call.Logprobs >= 0, changed: r.admission.Masked()}
	}
	return e
}

// pass returns the event as it may leave, perhaps empty; last is true for the one that ends the answer. Values that the answer brought and
// that got a pseudonym are stored first, all those of an event at once.
func (e *egress) pass(ctx context.Context, ev engine.Event) (out engine.Event, last bool, err error) {
	defer e.rescue(&err)
	if ev.Choice < 0 || ev.Choice >= len(e.choices) {
		return engine.Event{}, false, e.broken(errors.New("the engine sent a choice nobody asked for"))
	}
	said := ev.Text != "" || ev.Reasoning != "" || ev.Refusal != "" || len(ev.Calls) > 0
	if o := &e.choices[ev.Choice]; o.done && (said || ev.Finish != engine.FinishNone || len(ev.Logprobs) > 0) {
		return engine.Event{}, false, e.broken(errors.New("the engine went on after the end of a choice"))
	}
	if ev.Used != nil {
		e.r.usage = ev.Used
	}
	l := departure{Event: engine.Event{Choice: ev.Choice, Finish: ev.Finish, Usage: ev.Usage}}
	if said {
		e.r.events++
		if e.r.firstToken == 0 && !e.r.sentWhole() { // when the first token of a whole answer came, nobody knows
			e.r.firstToken = e.r.p.now().Sub(e.r.call.Received)
		}
	}
	e.choices[ev.Choice].reach(ev)
	if err := e.calls(ev, &l); err != nil {
		return engine.Event{}, false, err
	}
	if err := e.asides(ev, &l); err != nil {
		return engine.Event{}, false, err
	}
	if err := e.text(ev, &l); err != nil {
		return engine.Event{}, false, err
	}
	if err := e.r.admission.Keep(ctx); err != nil {
		return engine.Event{}, false, err
	}
	if ev.Finish != engine.FinishNone {
		e.open--
		e.choices[ev.Choice].done = true
	}
	if e.held != nil { // only usage can follow the last finish
		l, e.held = *e.held, nil
		l.Usage = ev.Usage
	}
	if e.open <= 0 && l.Usage == nil {
		e.held = &l
		return engine.Event{}, false, nil
	}
	e.sent(l)
	if l.Usage != nil {
		e.r.usage = l.Usage
	}
	return l.Event, l.Usage != nil, nil
}

// sent notes what an event tells the caller, for the digest of the answer and for what is kept of it.
func (e *egress) sent(l departure) {
	e.r.released[l.Choice].WriteString(l.Text)
	for _, d := range l.Calls {
		c := e.choices[l.Choice].calls[d.Index]
		c.begun = true
		c.sent.WriteString(d.Arguments)
	}
	e.choices[l.Choice].asides[reasoning].sent.WriteString(l.Reasoning)
	e.choices[l.Choice].asides[refusal].sent.WriteString(l.Refusal)
	if e.r.keep != governance.RecordMasked {
		return
	}
	for k, masked := range l.aside {
		e.choices[l.Choice].asides[k].masked.WriteString(masked)
	}
	e.r.masked[l.Choice].WriteString(l.masked)
	for i, d := range l.Calls {
		e.choices[l.Choice].calls[d.Index].masked.WriteString(l.arguments[i])
	}
}

// text releases the text of an event, all that is left at the end of a choice, and the label after it.
func (e *egress) text(ev engine.Event, out *departure) error {
	o := &e.choices[ev.Choice]
	var err error
	if out.Text, out.masked, err = advance(o.release, ev.Text, ev.Finish != engine.FinishNone, e.unsaid(ev, inText)...); err != nil {
		return err
	}
	if out.Logprobs, err = e.logprobs(ev, out.Text); err != nil {
		return err
	}
	if o.changed && o.asked {
		e.r.withheld = true
	}
	// Calls and answers of JSON are for a program, not for a reader: a sentence behind them would break them.
	if ev.Finish != engine.FinishNone && len(o.calls) == 0 && !isJSON(e.r.call.Format) && e.r.labelText() {
		var read label.Sentence
		read.Read(e.r.released[ev.Choice].String() + out.Text)
		sentence := read.Text()
		out.Text += sentence
		out.masked += sentence
	}
	return nil
}

// The texts of a choice, in the order in which they stand in an event.
const (
	inReasoning = reasoning + 1
	inRefusal   = refusal + 1
	inText      = asides + 1
	inCalls     = asides + 2
)

// reach notes how far a choice has got: in which of its texts it stands.
func (o *outlet) reach(ev engine.Event) {
	for at, has := range [...]bool{inReasoning: ev.Reasoning != "", inRefusal: ev.Refusal != "", inText: ev.Text != "", inCalls: len(ev.Calls) > 0} {
		if has {
			o.at = at
		}
	}
}

// unsaid is what may have come next in a text whose choice ends: anything where the answer was cut off while the model wrote it, and a stop
// string where one may have ended the answer; nothing where the text has ended by itself.
func (e *egress) unsaid(ev engine.Event, text int) []string {
	if e.choices[ev.Choice].at != text {
		return nil
	}
	switch ev.Finish {
	case engine.FinishLength, engine.FinishFilter:
		return []string{""}
	case engine.FinishStop:
		if text == inText {
			return e.r.call.Stop
		}
	case engine.FinishNone, engine.FinishTools:
	}
	return nil
}

// advance passes a piece of a text, and all that is left at its end, where unsaid is what may have come next.
func advance(r Release, piece string, last bool, unsaid ...string) (shown, masked string, err error) {
	if piece != "" {
		if shown, err = r.Write(piece); err != nil {
			return "", "", err
		}
		masked = r.Masked()
	}
	if last {
		rest, err := r.Close(unsaid...)
		if err != nil {
			return "", "", err
		}
		shown, masked = shown+rest, masked+r.Masked()
	}
	return shown, masked, nil
}

// through passes a whole text.
func through(r Release, s string) (shown, masked string, err error) { return advance(r, s, true) }

// calls releases the new parts of an event's calls, and what is left of all of them at the end of a choice.
func (e *egress) calls(ev engine.Event, out *departure) error {
	o := &e.choices[ev.Choice]
	for _, d := range ev.Calls {
		o.withhold() // entries of its tokens spell what is no text of the answer
		first := d.Index == len(o.calls)
		if first {
			c := &callOutlet{args: arguments{open: func() Release { return e.r.window(textArguments) }}}
			o.calls = append(o.calls, c)
			var err error
			if c.name, c.maskedName, err = e.name(d.Name); err != nil {
				return err
			}
			if d.ID, err = e.id(ev.Choice, d); err != nil {
				return err
			}
			d.Name = c.name
		} else {
			d.ID, d.Name = "", ""
		}
		if d.Index < 0 || d.Index >= len(o.calls) {
			return e.broken(errors.New("the engine sent a part of a call that has not begun"))
		}
		c := o.calls[d.Index]
		var err error
		if d.Arguments, err = c.args.write(d.Arguments); err != nil {
			return e.broken(err)
		}
		if first || d.Arguments != "" {
			out.join(d, c.args.masked)
		}
	}
	if ev.Finish == engine.FinishNone {
		return nil
	}
	for i, c := range o.calls {
		rest, err := c.args.close(ev.Finish != engine.FinishTools)
		if err != nil {
			return e.broken(err)
		}
		if rest != "" {
			out.join(engine.ToolDelta{Index: i, Arguments: rest}, c.args.masked)
		}
	}
	return nil
}

// join adds a part of a call. Clients expect at most one part of a call in an event: those of OpenAI take the second one in the first
// event for another call.
func (l *departure) join(d engine.ToolDelta, masked string) {
	for i := range l.Calls {
		if l.Calls[i].Index == d.Index {
			l.Calls[i].Arguments += d.Arguments
			l.arguments[i] += masked
			return
		}
	}
	l.Calls, l.arguments = append(l.Calls, d), append(l.arguments, masked)
}

// broken is a breach of the engine's contract; errors of rules stay what they are.
func (e *egress) broken(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	return fault.Wrap(err, fault.CodeEngineUnavailable, string(e.r.call.Model))
}

// name lets the name of a call out: one that the caller has offered as it is, another one like an answer.
func (e *egress) name(name string) (shown, masked string, err error) {
	if name == "" {
		return "", "", e.broken(errors.New("the engine sent a call without a name"))
	}
	for _, t := range e.r.call.Tools {
		if t.Name == name {
			return name, name, nil
		}
	}
	return through(e.r.admission.Release(), name)
}

// id returns the id of a call if it is one, else an id of ours: no text, no long number, nothing that the rules would change.
func (e *egress) id(choice int, d engine.ToolDelta) (string, error) {
	const joints = "-_.:"
	odd := strings.Trim(d.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"+joints)
	if d.ID != "" && len(d.ID) <= maxCallID && odd == "" && !longNumber(strings.NewReplacer("-", "", "_", "", ".", "", ":", "").Replace(d.ID)) {
		shown, _, err := through(e.r.admission.Release(), d.ID)
		if err != nil || shown == d.ID {
			return shown, err
		}
	}
	return fmt.Sprintf("call_%.16s_%d_%d", hex.EncodeToString(e.r.p.deps.Keys.MAC("gateway/call/v1", e.r.call.RequestID)), choice, d.Index), nil
}

// longNumber reports whether digits follow each other that may be somebody's number.
func longNumber(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			n = 0
		} else if n++; n > jsontext.MaxPlain {
			return true
		}
	}
	return false
}

// maxCallID bounds the ids of calls.
const maxCallID = 64

func (r *run) labelText() bool {
	return r.admission.LabelMode(r.principal.LabelMode) == identity.LabelText
}
