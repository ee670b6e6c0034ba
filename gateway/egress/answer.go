package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// Config describes an answer and how it is released.
type Config struct {
	// Choices is how many alternatives were asked for, at least one.
	Choices int
	// Model is what the caller calls the model, for errors.
	Model string
	// Tools are the names of the caller's tools; they leave as they are.
	Tools []string
	// Stop are the strings that end a text and are not part of it.
	Stop []string
	// JSON: the caller asked for JSON, which is released value by value.
	JSON bool
	// Logprobs: log-probabilities were asked for. Masked: a value of the request has a pseudonym, so that none can leave.
	Logprobs, Masked bool
	// Label: a sentence behind each text says that it was generated; there is none where a choice has nothing but calls.
	Label bool
	// Recorded is the form in which the answer is kept.
	RecordForm RecordForm

	// Open opens the rules for a text.
	Open func(Kind) Release
	// StoreValues stores the values behind new pseudonyms. It is called before each event that may bear one leaves.
	StoreValues func(context.Context) error
	// CallID makes the id of a call whose own cannot be shown.
	CallID func(choice, index int) string
	// Digest takes in what has left, as it is spelled; nil for no digest.
	Digest Digest
	// Released is told each event that leaves; nil for nobody.
	Released func(engine.Event)
}

// Digest is of a text that comes in pieces.
type Digest interface {
	io.StringWriter
	String() string
}

// RecordForm is the form in which an answer is kept.
type RecordForm string

// The forms, in the words of policies.
const (
	RecordNone   RecordForm = ""
	RecordClear  RecordForm = "clear"  // as the caller got it
	RecordMasked RecordForm = "masked" // as it was before values were put back
)

// Tally is what has left of an answer.
type Tally struct {
	Events   int    // of the engine's, with text
	Left     bool   // anything has
	Withheld bool   // log-probabilities were asked for and some have not left
	Digest   string // of all that has left
	Recorded string // the same in the form in which it is kept; "" if it is not

	// Of an answer with labels: something of a choice has left without its sentence, because the answer broke off; a choice has only calls, which take none.
	Unlabelled, OnlyCalls bool
}

// Answer releases one answer.
type Answer struct {
	cfg         Config
	choices     []choice
	open        int      // choices that have not ended
	awaitsUsage bool     // the last end waits for usage
	held        outgoing // if it does
	sent        transcript
	masked      transcript // if it is kept so
	tally       Tally
	tallied     bool
}

// outgoing is an event about to leave, with its text and arguments before values were restored.
type outgoing struct {
	engine.Event

	masked    string
	labelled  bool // the sentence is in Text
	sideTexts [sideTextCount]string
	arguments []string // of Calls
}

// choice is the state of one alternative.
type choice struct {
	release   Release
	sideTexts [sideTextCount]Release // nil until there is such a text
	label     label.Sentence
	// refusalLabel is the one behind why it does not answer, where it says nothing else.
	refusalLabel label.Sentence
	refuses      bool // something of why it does not answer has left
	text         bool // what has left of it is not blank
	left         bool // something has
	labelled     bool // its sentence has left, too
	logprobs
	stage int  // in which text the model is
	ended bool // nothing may follow
	calls []*call
}

// New returns an empty answer.
func New(cfg Config) *Answer {
	a := &Answer{cfg: cfg, choices: make([]choice, cfg.Choices), open: cfg.Choices, sent: make(transcript, cfg.Choices)}
	if cfg.RecordForm == RecordMasked {
		a.masked = make(transcript, cfg.Choices)
	}
	for i := range a.choices {
		c := &a.choices[i]
		c.changed = cfg.Masked
		if !cfg.JSON {
			c.release = cfg.Open(Content)
			continue
		}
		c.release = newJSONRelease(func() Release { return cfg.Open(Content) })
	}
	return a
}

// Pass takes the next event of a stream and returns it as it may leave, perhaps empty; last is true for the one that ends the answer.
func (a *Answer) Pass(ctx context.Context, ev engine.Event) (out engine.Event, last bool, err error) {
	defer recoverPanic(&err)
	if err := a.accept(&ev); err != nil {
		return engine.Event{}, false, err
	}
	var d outgoing
	if err := a.release(&ev, &d); err != nil {
		return engine.Event{}, false, err
	}
	if err := a.cfg.StoreValues(ctx); err != nil { // all that an event brings at once
		return engine.Event{}, false, err
	}
	if a.awaitsUsage { // only usage can follow the last end
		d, a.held, a.awaitsUsage = a.held, outgoing{}, false
		d.Usage, d.Marking = ev.Usage, ev.Marking
	}
	if a.open <= 0 && d.Usage == nil {
		a.held, a.awaitsUsage = d, true
		return engine.Event{}, false, nil
	}
	a.record(&d)
	return d.Event, d.Usage != nil, nil
}

// Whole takes all events of an answer, up to the one with its usage, and returns them as they may leave, the last one with the usage: one for
// each choice, whose texts go through their rules in one piece; or one for each event where log-probabilities were asked for, since the events
// tell which entry spells what. With an error nothing has left.
func (a *Answer) Whole(ctx context.Context, events []engine.Event) (out []engine.Event, err error) {
	defer recoverPanic(&err)
	var usage *engine.Usage
	var marking *engine.Marking
	var leaving []outgoing
	choices := make([]eventMerger, len(a.choices))
	for i := 0; i < len(events) && usage == nil; i++ {
		ev := &events[i]
		if err := a.accept(ev); err != nil {
			return nil, err
		}
		if usage, marking = ev.Usage, ev.Marking; !a.cfg.Logprobs {
			choices[ev.Choice].add(ev)
			continue
		}
		leaving = append(leaving, outgoing{})
		if err := a.release(ev, &leaving[len(leaving)-1]); err != nil {
			return nil, err
		}
	}
	if usage == nil {
		return nil, a.engineFault(errors.New("the engine's answer ended without usage"))
	}
	if !a.cfg.Logprobs {
		leaving = make([]outgoing, len(choices))
		for i := range choices {
			ev := choices[i].join(i)
			if err := a.release(&ev, &leaving[i]); err != nil {
				return nil, err
			}
		}
	}
	if err := a.cfg.StoreValues(ctx); err != nil {
		return nil, err
	}
	all := make([]engine.Event, len(leaving))
	for i := range leaving {
		if leaving[i].Usage, leaving[i].Marking = nil, nil; i == len(leaving)-1 {
			leaving[i].Usage, leaving[i].Marking = usage, marking
		}
		a.record(&leaving[i])
		all[i] = leaving[i].Event
	}
	return all, nil
}

// Tally returns what has left until it is first asked for.
func (a *Answer) Tally() Tally {
	if a.tallied {
		return a.tally
	}
	a.tallied = true
	a.tallyLabels()
	rest := a.sent.String()
	switch a.cfg.RecordForm {
	case RecordClear:
		a.tally.Recorded, rest = rest, rest[a.sent[0].text.Len():]
	case RecordMasked:
		a.tally.Recorded = a.masked.String()
	case RecordNone:
	}
	if a.cfg.Digest != nil {
		_, _ = a.cfg.Digest.WriteString(rest) // a digest takes everything
		a.tally.Digest = a.cfg.Digest.String()
	}
	return a.tally
}

// tallyLabels notes what has left, and what of it has no label.
func (a *Answer) tallyLabels() {
	for i := range a.choices {
		c := &a.choices[i]
		a.tally.Left = a.tally.Left || c.left
		if !a.cfg.Label || !c.left || c.labelled {
			continue
		}
		onlyCalls := c.ended && !c.text && !c.refuses && len(c.calls) > 0
		a.tally.OnlyCalls = a.tally.OnlyCalls || onlyCalls
		a.tally.Unlabelled = a.tally.Unlabelled || !onlyCalls
	}
}

// accept checks an event of the engine and updates the state of its choice.
func (a *Answer) accept(ev *engine.Event) error {
	if ev.Choice < 0 || ev.Choice >= len(a.choices) {
		return a.engineFault(errors.New("the engine sent a choice nobody asked for"))
	}
	c := &a.choices[ev.Choice]
	said := ev.HasOutput()
	if c.ended && (said || ev.Finish != engine.FinishNone || len(ev.Logprobs) > 0) {
		return a.engineFault(errors.New("the engine went on after the end of a choice"))
	}
	if said {
		a.tally.Events++
	}
	c.advance(ev)
	if ev.Finish != engine.FinishNone {
		c.ended = true
		a.open--
	}
	return nil
}

// release puts into d what may leave of an event.
func (a *Answer) release(ev *engine.Event, d *outgoing) error {
	d.Event = engine.Event{Choice: ev.Choice, Finish: ev.Finish, StoppedBy: ev.StoppedBy, Usage: ev.Usage, Marking: ev.Marking}
	if err := a.releaseCalls(ev, d); err != nil {
		return err
	}
	if err := a.releaseSideTexts(ev, d); err != nil {
		return err
	}
	return a.releaseText(ev, d)
}

// record adds an event to the transcripts.
func (a *Answer) record(d *outgoing) {
	if a.cfg.Released != nil {
		a.cfg.Released(d.Event)
	}
	c := &a.choices[d.Choice]
	c.left = c.left || d.HasOutput()
	c.labelled = c.labelled || d.labelled
	s := &a.sent[d.Choice]
	first := d.Choice == 0
	if first && a.cfg.Digest != nil {
		_, _ = a.cfg.Digest.WriteString(d.Text) // a digest takes everything
	}
	if !first || a.cfg.RecordForm == RecordClear { // else its place in the digest has come, and nobody wants it again
		s.text.WriteString(d.Text)
	}
	s.sideTexts[reasoning].WriteString(d.Reasoning)
	s.sideTexts[refusal].WriteString(d.Refusal)
	for _, part := range d.Calls {
		s.call(part.Index, part.Name, part.Arguments)
	}
	if a.masked == nil {
		return
	}
	s = &a.masked[d.Choice]
	s.text.WriteString(d.masked)
	for k, masked := range d.sideTexts {
		s.sideTexts[k].WriteString(masked)
	}
	for i, part := range d.Calls {
		s.call(part.Index, a.choices[d.Choice].calls[part.Index].maskedName, d.arguments[i])
	}
}

// releaseText releases the text of an event, all that is left at the end of a choice, and the label after it.
func (a *Answer) releaseText(ev *engine.Event, out *outgoing) error {
	c, last := &a.choices[ev.Choice], ev.Finish != engine.FinishNone
	var err error
	if out.Text, out.masked, err = releasePart(c.release, ev.Text, last, a.possibleEnds(ev, inText)...); err != nil {
		return err
	}
	if a.cfg.Logprobs {
		if out.Logprobs, err = a.logprobs(ev, out.Text); err != nil {
			return err
		}
		a.tally.Withheld = a.tally.Withheld || c.changed
	}
	if !a.cfg.Label {
		return nil
	}
	c.refusalLabel.Read(out.Refusal)
	c.label.Read(out.Text)
	c.text = c.text || strings.TrimSpace(out.Text) != ""
	c.refuses = c.refuses || strings.TrimSpace(out.Refusal) != ""
	if last && (c.text || c.refuses || len(c.calls) == 0) { // calls alone are for a program, not for a reader
		if c.refuses && !c.text { // behind what there is to read
			sentence := c.refusalLabel.Text()
			out.Refusal += sentence
			out.sideTexts[refusal] += sentence
		} else {
			sentence := c.label.Text()
			out.Text += sentence
			out.masked += sentence
		}
		out.labelled = true
	}
	return nil
}

// The texts of a choice beside its answer: what the model thinks, and why it does not answer. Each passes the same rules as the answer, as one
// text from its first piece to the end of the choice: what belongs together stays together, whatever else the engine sends between two pieces.
const (
	reasoning = iota
	refusal
	sideTextCount
)

// releaseSideTexts releases the new text of an event beside the answer, and all that is left of it at the end of the choice.
func (a *Answer) releaseSideTexts(ev *engine.Event, out *outgoing) error {
	c := &a.choices[ev.Choice]
	for k, text := range [sideTextCount]string{reasoning: ev.Reasoning, refusal: ev.Refusal} {
		if text != "" && c.sideTexts[k] == nil {
			c.sideTexts[k] = a.cfg.Open([sideTextCount]Kind{reasoning: Reasoning, refusal: Refusal}[k])
		}
		if c.sideTexts[k] == nil {
			continue
		}
		shown, masked, err := releasePart(c.sideTexts[k], text, ev.Finish != engine.FinishNone, a.possibleEnds(ev, inReasoning+k)...)
		if err != nil {
			return err
		}
		out.sideTexts[k] = masked
		if k == reasoning {
			out.Reasoning = shown
		} else {
			out.Refusal = shown
		}
	}
	return nil
}

// The texts of a choice, in the order in which they stand in an event; 0 is before all of them.
const (
	inReasoning = 1 + iota
	inRefusal
	inText
	inCalls
)

// advance notes how far a choice has got: in which of its texts it stands.
func (c *choice) advance(ev *engine.Event) {
	for at, has := range [...]bool{inReasoning: ev.Reasoning != "", inRefusal: ev.Refusal != "", inText: ev.Text != "", inCalls: len(ev.Calls) > 0} {
		if has {
			c.stage = at
		}
	}
}

// possibleEnds is what may have come next in a text whose choice ends: anything where the answer was cut off while the model wrote it, and a stop
// string where one may have ended the answer; nothing where the text has ended by itself.
func (a *Answer) possibleEnds(ev *engine.Event, text int) []string {
	if a.choices[ev.Choice].stage != text {
		return nil
	}
	switch ev.Finish {
	case engine.FinishLength, engine.FinishFilter:
		return []string{""}
	case engine.FinishStop:
		if text == inText {
			return a.cfg.Stop
		}
	case engine.FinishNone, engine.FinishTools:
	}
	return nil
}

// engineFault reports a breach of the engine's contract; it returns errors of rules unchanged.
func (a *Answer) engineFault(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	return fault.Wrap(err, fault.CodeEngineUnavailable, a.cfg.Model)
}

// eventMerger are the events of a choice, to become one.
type eventMerger struct {
	text, reasoning, refusal strings.Builder
	calls                    []engine.ToolDelta
	arguments                []*strings.Builder // of calls
	finish                   engine.Finish
	stoppedBy                int
}

func (p *eventMerger) add(ev *engine.Event) {
	p.text.WriteString(ev.Text)
	p.reasoning.WriteString(ev.Reasoning)
	p.refusal.WriteString(ev.Refusal)
	for _, d := range ev.Calls {
		at := d.Index
		if at < 0 || at >= len(p.calls) { // a new one, or a breach, which is found where it is released
			at = len(p.calls)
			p.calls, p.arguments = append(p.calls, d), append(p.arguments, &strings.Builder{})
		}
		p.arguments[at].WriteString(d.Arguments)
	}
	if ev.Finish != engine.FinishNone {
		p.finish, p.stoppedBy = ev.Finish, ev.StoppedBy
	}
}

func (p *eventMerger) join(choice int) engine.Event {
	for i := range p.calls {
		p.calls[i].Arguments = p.arguments[i].String()
	}
	return engine.Event{
		Choice: choice, Text: p.text.String(), Reasoning: p.reasoning.String(), Refusal: p.refusal.String(), Calls: p.calls, Finish: p.finish,
		StoppedBy: p.stoppedBy,
	}
}

// recoverPanic turns a panic of the rules into an error: nothing more of the answer is released. A panic value may quote the text, so only
// that of a runtime error is kept.
func recoverPanic(err *error) {
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
