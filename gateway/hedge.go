package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// hedges reports whether another instance may be asked beside the first: the policy of the model says so, the answer is short, nobody bills it, and it is no
// line of a batch.
func (r *run) hedges() bool {
	p := r.choice.Resilience
	return p != nil && p.HedgeAfter > 0 && p.RepeatUnknown != route.RepeatNever && r.class() != engine.ClassBatch && r.prompt.maxCompletion() <= p.HedgeTokens &&
		!r.nonStreaming() && !r.bills(r.serving())
}

// runner is one of two instances that run the same prompt.
type runner struct {
	at     route.Choice
	asked  time.Time
	cancel context.CancelCauseFunc
	events chan runnerEvent // closed when the instance has ended, or was cancelled
	resume chan struct{}    // the last event is done with: until then what it has stays as it is
}

type runnerEvent struct {
	engine.Event

	err   error
	panic any // of the engine
}

// startRunner runs the prompt on an instance. Its events wait for a reader until it is cancelled.
func (r *run) startRunner(ctx context.Context, at route.Choice) *runner {
	ctx, cancel := context.WithCancelCause(ctx)
	n := &runner{at: at, asked: r.p.now(), cancel: cancel, events: make(chan runnerEvent), resume: make(chan struct{}, 1)}
	text := r.prompt.text
	at.Instance.Begin()
	at.Instance.Given(r.masked.prefix)
	pause := r.draws(at)
	before := at.Instance.Beginnings()
	go func() {
		ended := context.Canceled
		defer func() {
			pause()
			if v := recover(); v != nil { // it goes on where the events are read, as it would without this goroutine
				n.send(ctx, runnerEvent{panic: v})
			}
			if errors.Is(context.Cause(ctx), errSilent) && at.Instance.Beginnings() == before { // it was slow with all that it had
				ended = fault.Wrap(errSilent, fault.CodeUpstreamTimeout, string(text.Request.Model))
			}
			at.Instance.End(ended)
			close(n.events)
		}()
		for ev, err := range at.Instance.Engine.Generate(ctx, text) {
			if ctx.Err() == nil && (err != nil || ev.Usage != nil) {
				ended = err
			}
			if !n.send(ctx, runnerEvent{Event: ev, err: err}) {
				return
			}
		}
	}()
	return n
}

func (n *runner) send(ctx context.Context, ev runnerEvent) bool {
	select {
	case n.events <- ev:
	case <-ctx.Done():
		return false
	}
	select {
	case <-n.resume:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop ends the runner, and waits until its instance has let go of the prompt.
func (n *runner) stop() {
	n.cancel(nil)
	for range n.events { // what it says is dropped
	}
}

// next returns the event after the last. ok is false at the end.
func (n *runner) next() (ev runnerEvent, ok bool) {
	n.resume <- struct{}{}
	ev, ok = <-n.events
	if ev.panic != nil {
		panic(ev.panic)
	}
	return ev, ok
}

// generateHedged runs the prompt on the instance that was chosen, and after the time of the policy on another one beside it. Who begins first answers, and
// the other one is stopped. Where the one that is left fails, or neither says anything for as long as the policy allows, it reports whether yet another is to
// be asked. It returns when all have let go of the prompt; until then nothing waits for who is stopped.
func (r *run) generateHedged(ctx context.Context, yield func(engine.Event, error) bool) (again bool) {
	n := r.startRunner(ctx, r.serving())
	var other *runner // nil: nobody is asked beside
	started := []*runner{n}
	defer func() {
		for _, n := range started {
			n.cancel(nil)
		}
		for _, n := range started {
			n.stop()
		}
	}()
	hedge := time.NewTimer(r.choice.Resilience.HedgeAfter)
	defer hedge.Stop()
	silence := r.silence()
	defer silence.Stop()
	for {
		var others chan runnerEvent
		if other != nil {
			others = other.events
		}
		var ev runnerEvent
		var ok bool
		select {
		case <-hedge.C:
			if other = r.hedge(ctx); other != nil {
				started = append(started, other)
				silence.Stop()
				silence = r.silence() // he has as much time
			}
			continue
		case <-silence.C:
			if !r.spendOnSilence(n, other) {
				continue
			}
			for _, n := range started {
				n.cancel(errSilent)
			}
			err := fault.Wrap(errSilent, fault.CodeUpstreamTimeout, string(r.asked()))
			if other != nil {
				r.leave(n, other, attempt{cause: fault.CodeUpstreamTimeout})
				n = other
			}
			if r.retry(ctx, err, n.asked) {
				return true
			}
			yield(engine.Event{}, err)
			return false
		case ev, ok = <-n.events:
		case ev, ok = <-others:
			n, other = other, n
		}
		switch {
		case ev.panic != nil:
			panic(ev.panic)
		case !ok:
			ev.err = fault.Wrap(errors.New("the engine's stream ended before it began"), fault.CodeEngineUnavailable, string(r.asked()))
		case ev.err == nil && ev.Empty():
			n.resume <- struct{}{}
			continue
		}
		if other != nil {
			if ev.err != nil { // the other one may still answer
				r.leave(n, other, attempt{cause: fault.Public(ev.err).Code(), moved: movable(ev.err)})
				n, other = other, nil
				continue
			}
			r.leave(other, n, attempt{hedged: true})
		}
		return r.relay(ctx, n, ev, yield)
	}
}

// silence returns a timer of how long instances may say nothing; it is stopped where that is not bounded.
func (r *run) silence() *time.Timer {
	if r.boundsSilence() {
		return time.NewTimer(r.choice.Resilience.AttemptTimeout)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// spendOnSilence takes the retry of those that were silent, if another instance could be asked.
func (r *run) spendOnSilence(n, other *runner) bool {
	been, attempts := r.been(), r.answer.attempted()+1
	if other != nil {
		attempts++
		for _, n := range []*runner{n, other} {
			if !slices.Contains(been, n.at.Instance) {
				been = append(been, n.at.Instance)
			}
		}
	}
	next, err := r.p.deps.Router.Again(r.choice, been)
	return err == nil && next.Instance != nil && attempts < r.choice.Resilience.Attempts && r.choice.Resilience.Spend()
}

// leave stops a runner that does not answer, notes why, and has the other one serve the call.
func (r *run) leave(n, other *runner, why attempt) {
	if why.hedged || why.cause == fault.CodeUpstreamTimeout {
		r.waited(n.at.Instance, n.asked)
	}
	n.cancel(nil)
	why.instance, why.took = n.at.Instance.Name, r.p.now().Sub(n.asked)
	r.answer.note(why)
	tried := append(slices.Clone(r.answer.tried), n.at.Instance)
	r.answer.move(other.at, tried)
}

// hedge asks another instance beside the one that serves, if there is one that bills nobody and the budget has a retry left; nil if not.
func (r *run) hedge(ctx context.Context) *runner {
	p, been := r.choice.Resilience, r.been()
	if ctx.Err() != nil || r.answer.attempted()+1 >= p.Attempts {
		return nil
	}
	for {
		next, err := r.p.deps.Router.Again(r.choice, been)
		switch {
		case err != nil || next.Instance == nil:
			return nil
		case r.bills(next):
			been = append(been, next.Instance)
			continue
		case !p.Spend():
			return nil
		}
		r.p.metrics.hedges.Inc()
		return r.startRunner(ctx, next)
	}
}

// relay passes the events of a runner on, from its first on.
func (r *run) relay(ctx context.Context, n *runner, ev runnerEvent, yield func(engine.Event, error) bool) (again bool) {
	if ev.err = r.firstError(true, &ev.Event, ev.err); ev.err != nil {
		if n.cancel(nil); r.retry(ctx, ev.err, n.asked) {
			return true
		}
		yield(engine.Event{}, ev.err)
		return false
	}
	r.answer.engineBegan()
	n.at.Instance.Began(r.firstAfter(n.asked))
	for ok := true; ok; ev, ok = n.next() {
		if !yield(ev.Event, ev.err) || ev.err != nil {
			return false
		}
	}
	return false
}
