package native

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/native/sample"
	"github.com/sluice-project/sluice/engine/toolcall"
	"github.com/sluice-project/sluice/internal/fault"
)

// pick takes the next token of a sequence from its logits, and hands out the text. The first token of a job makes its other choices: they
// share the pages of the prompt and go their own ways from here.
func (l *loop) pick(m *generator, s *sequence, logits []float32) {
	if s.choice == 0 && s.step() == 0 && s.job.first.IsZero() {
		s.job.first = time.Now()
		l.metrics.firstToken(s.job)
		for _, other := range l.fork(s) {
			l.next(m, other, logits)
		}
	}
	l.next(m, s, logits)
}

// fork makes the other choices of a job whose prompt is computed, and returns those for which there is a slot; the others wait for one.
func (l *loop) fork(s *sequence) (begun []*sequence) {
	j := s.job
	if j.choices == 1 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 1; i < j.choices; i++ {
		other := newSequence(j, i)
		l.fair.Arrive(j.tenant)
		if len(l.active) >= l.slots { // it finds the prompt in the prefix tree when its turn comes
			l.queue = append(l.queue, other)
			continue
		}
		other.cache, other.computed, other.running = s.cache.Fork(), len(j.prompt), true
		l.fair.Start(other.candidate())
		l.active = append(l.active, other)
		begun = append(begun, other)
	}
	return begun
}

// next picks one token of one choice, and takes the tokens that its grammar then leaves no choice about.
func (l *loop) next(m *generator, s *sequence, logits []float32) {
	j := s.job
	at := sample.Position{
		Choice: s.choice, Step: s.step(), Prompt: s.tokens[:len(j.prompt)], Completion: s.tokens[len(j.prompt):], History: s.history,
	}
	if s.step() < j.minTokens {
		at.Forbidden = m.ends
	}
	if s.matcher != nil {
		at.Grammar = s.matcher
	}
	at.Mark = s.marks()
	begin := time.Now()
	id, err := m.sampler.Pick(logits, j.rules, &at)
	if s.matcher != nil {
		l.metrics.grammar.Observe(time.Since(begin).Seconds())
	}
	if err != nil {
		l.failed(s, refusal(err, s))
		return
	}
	l.push(m, s, id, m.logprob(logits, id, j.logprobs))
	if s.matcher != nil && j.logprobs < 0 {
		l.force(m, s)
	}
}

// refusal is why a sequence got no token.
func refusal(err error, s *sequence) error {
	if _, ok := grammar.Reason(err); ok {
		return tooCostly(err, s.job)
	}
	if errors.Is(err, sample.ErrNothingAllowed) && s.matcher != nil && s.step() < s.job.minTokens {
		return fault.Wrap(err, fault.CodeInvalidValue, "min_tokens", fault.Say("native.format_too_short")).WithParam("min_tokens")
	}
	return fault.Wrap(err, fault.CodeInternal) // a hook that failed, or logits that are no numbers: asking again does not help
}

// tooCostly says that the grammar of a job exceeded a limit while the text grew.
func tooCostly(err error, j *job) error {
	field := "response_format"
	if j.grammar == nil || j.calls != nil && j.calls.Guaranteed {
		field = "tools"
	}
	return fault.Wrap(fmt.Errorf("follow a grammar: %w", err), fault.CodeInvalidValue, field, fault.Say("native.grammar_cost")).WithParam(field)
}

// force takes tokens that the grammar leaves no choice about; they are computed together in the next step.
func (l *loop) force(m *generator, s *sequence) {
	if s.ended || s.step() < s.job.minTokens {
		return
	}
	var room [decodeRows - 1]int32
	for _, id := range s.matcher.Forced(room[:0]) {
		if s.uncomputed() >= decodeRows || s.ended {
			return
		}
		l.push(m, s, id, nil)
		l.metrics.forced.Inc()
	}
}

// push adds a token to a choice.
func (l *loop) push(m *generator, s *sequence, id int32, lp *engine.TokenLogprob) {
	j := s.job
	step := s.step() + 1
	j.generated++
	if m.tokens.IsEOG(id) {
		l.finish(s, s.out.close(false), engine.FinishStop)
		return
	}
	s.tokens = append(s.tokens, id)
	if s.history != nil {
		s.history.Add(id)
	}
	if err := m.follow(s, id); err != nil {
		l.failed(s, tooCostly(err, j))
		return
	}
	p := s.out.push(m.displayText(id, j), lp, step >= j.minTokens)
	switch {
	case p.stopped > 0:
		l.finish(s, p, engine.FinishStop)
	case s.matcher != nil && s.matcher.Done():
		l.finish(s, join(p, s.out.close(false)), engine.FinishStop)
	case step >= j.limit:
		p = join(p, s.out.close(true))
		if p.stopped > 0 {
			l.finish(s, p, engine.FinishStop)
		} else {
			l.finish(s, p, engine.FinishLength)
		}
	default:
		l.deliver(s, p, engine.FinishNone)
	}
}

// follow takes a token's way through the grammar, or finds that a call begins.
func (g *generator) follow(s *sequence, id int32) error {
	switch {
	case s.matcher != nil:
		return s.matcher.Accept(id)
	case s.job.triggered != nil:
		return g.trigger(s)
	}
	return nil
}

// finish ends a choice.
func (l *loop) finish(s *sequence, p textPart, why engine.Finish) {
	s.ended = true
	s.job.open--
	m := s.job.model
	m.completed(s)
	if s.drafter != nil && !s.job.forgotten {
		m.texts.Add(s.job.draftKey, s.tokens[len(s.job.prompt):])
	}
	l.deliver(s, p, why)
}

func join(a, b textPart) textPart {
	return textPart{text: a.text + b.text, logprobs: append(a.logprobs, b.logprobs...), stopped: max(a.stopped, b.stopped)}
}

// deliver hands a piece to the caller, the calls in it as such; the last one of the job carries the usage.
func (l *loop) deliver(s *sequence, p textPart, why engine.Finish) {
	j := s.job
	ev := engine.Event{Choice: s.choice, Text: p.text, Logprobs: p.logprobs, Finish: why, StoppedBy: p.stopped}
	if j.echo != "" && !s.echoed {
		s.echoed = true
		ev.Text, ev.Logprobs = j.echo+ev.Text, append(slices.Clone(j.echoed), ev.Logprobs...)
	}
	if s.calls != nil {
		l.split(s, &ev)
	}
	if ev.Text == "" && len(ev.Calls) == 0 && len(ev.Logprobs) == 0 && ev.Finish == engine.FinishNone {
		return
	}
	if j.open == 0 {
		now := time.Now()
		ev.Usage, ev.Marking = j.usage(now), j.marked()
		l.metrics.ended(j, ev.Usage, ev.Finish, now)
	}
	j.emit(ev)
}

// split takes the calls out of an event's text.
func (l *loop) split(s *sequence, ev *engine.Event) {
	var deltas []toolcall.Delta
	ev.Text, deltas = s.calls.Write(ev.Text)
	if ev.Finish != engine.FinishNone {
		text, last := s.calls.Close()
		ev.Text, deltas = ev.Text+text, append(deltas, last...)
		if ev.Finish == engine.FinishStop && s.calls.Calls() > 0 && !s.calls.Open() {
			ev.Finish = engine.FinishTools
		}
	}
	for _, d := range deltas {
		ev.Calls = append(ev.Calls, engine.ToolDelta{Index: d.Index, ID: d.ID, Name: d.Name, Arguments: d.Arguments})
	}
}

// echoPrompt keeps the log-probabilities of a prompt that is to be repeated with them.
func (l *loop) echoPrompt(m *generator, f *stepInput) {
	s := f.s
	if !s.job.wantsPrompt() || s.step() > 0 {
		return
	}
	for i := range f.known {
		at := s.computed + i
		if at == 0 { // the model says nothing of the first token
			lp := m.describe(s.tokens[0], math.NaN())
			s.job.echoed = append(s.job.echoed[:0], lp) // once more after a preemption
		}
		if at+1 < len(s.job.prompt) {
			s.job.echoed = append(s.job.echoed, *m.logprob(m.logits(f.result+i), s.tokens[at+1], s.job.logprobs))
		}
	}
}

// wantsPrompt reports whether the log-probabilities of the prompt are wanted.
func (j *job) wantsPrompt() bool { return j.echo != "" && j.logprobs >= 0 }
