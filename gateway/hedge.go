package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// hedges reports whether another instance may be asked beside the first: the policy of the model says so, and the answer is short.
func (r *run) hedges() bool {
	p := r.choice.Resilience
	return p != nil && p.HedgeAfter > 0 && r.prompt.maxCompletion() <= p.HedgeTokens && !r.nonStreaming()
}

// runner is one of two instances that run the same prompt.
type runner struct {
	at     route.Choice
	asked  time.Time
	cancel context.CancelFunc
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
	ctx, cancel := context.WithCancel(ctx)
	n := &runner{at: at, asked: r.p.now(), cancel: cancel, events: make(chan runnerEvent), resume: make(chan struct{}, 1)}
	text := r.prompt.text
	at.Instance.Begin()
	go func() {
		ended := context.Canceled
		defer func() {
			if v := recover(); v != nil { // it goes on where the events are read, as it would without this goroutine
				n.send(ctx, runnerEvent{panic: v})
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
	if n == nil {
		return
	}
	n.cancel()
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
// the other one is stopped. Where the one that is left fails, it reports whether yet another is to be asked.
func (r *run) generateHedged(ctx context.Context, yield func(engine.Event, error) bool) (again bool) {
	first := r.startRunner(ctx, r.serving())
	var second *runner
	defer func() { first.stop(); second.stop() }()
	timer := time.NewTimer(r.choice.Resilience.HedgeAfter)
	defer timer.Stop()
	for {
		var others chan runnerEvent
		if second != nil {
			others = second.events
		}
		n, other := first, second
		var ev runnerEvent
		var ok bool
		select {
		case <-timer.C:
			second = r.hedge(ctx)
			continue
		case ev, ok = <-first.events:
		case ev, ok = <-others:
			n, other = second, first
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
		if ev.err != nil && other != nil { // the other one may still answer
			n.stop()
			r.answer.note(attempt{instance: n.at.Instance.Name, cause: fault.Public(ev.err).Code(), took: r.p.now().Sub(n.asked)})
			r.answer.move(other.at, append(r.answer.tried, n.at.Instance))
			first, second = other, nil
			continue
		}
		if other != nil {
			other.stop()
			r.answer.note(attempt{instance: other.at.Instance.Name, took: r.p.now().Sub(other.asked), hedged: true})
			r.answer.move(n.at, append(r.answer.tried, other.at.Instance))
		}
		timer.Stop()
		return r.relay(ctx, n, ev, yield)
	}
}

// hedge asks another instance beside the one that serves, if there is one and the budget has a retry left; nil if not.
func (r *run) hedge(ctx context.Context) *runner {
	p := r.choice.Resilience
	if ctx.Err() != nil || !p.CanSpend() || !r.mayRepeat(errSilent) {
		return nil
	}
	next, err := r.p.deps.Router.Again(r.choice, append(r.answer.tried, r.serving().Instance))
	if err != nil || next.Instance == nil || !p.Spend() {
		return nil
	}
	r.p.metrics.hedges.Inc()
	return r.startRunner(ctx, next)
}

// relay passes the events of a runner on, from its first on.
func (r *run) relay(ctx context.Context, n *runner, ev runnerEvent, yield func(engine.Event, error) bool) (again bool) {
	if ev.err = r.firstError(true, &ev.Event, ev.err); ev.err != nil {
		if n.stop(); r.retry(ctx, ev.err, n.asked) {
			return true
		}
		yield(engine.Event{}, ev.err)
		return false
	}
	r.begin(n.at.Instance, n.asked)
	for ok := true; ok; ev, ok = n.next() {
		if !yield(ev.Event, ev.err) || ev.err != nil {
			return false
		}
	}
	return false
}
