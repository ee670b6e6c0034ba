package gateway

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// generate returns the reply whose events run the engine.
func (r *run) generate(ctx context.Context) *Reply {
	return &Reply{
		Head: r.head(), run: r,
		events: func(yield func(engine.Event, error) bool) { r.stream(ctx, yield) },
		abort:  func() { r.finish(ctx, ending{outcome: outcomeAborted}) },
	}
}

// stream asks the engine, lets its events out and settles before the last one.
func (r *run) stream(ctx context.Context, yield func(engine.Event, error) bool) {
	end := ending{} // of a panic in what comes next; where the outcome stands already it changes nothing
	defer func() { r.finish(ctx, end) }()
	bounded, clocks := r.startTimeouts(ctx)
	defer clocks.stop()
	defer r.markRunning()()

	r.answer.out = r.egress()
	waits := false // the last event that left said that there is more
	for ev, err := range r.choice.Engine.Generate(bounded, r.prompt.Prompt) {
		clocks.onEvent(ev.HasOutput())
		more := ev.More
		var leaving []engine.Event
		if err == nil && (!ev.Empty() || ev.Used != nil) {
			leaving, err = r.release(bounded, ev)
		}
		if waits && (err != nil || ev.Usage != nil || !more && nothing(leaving)) { // what has left waits for no record, nor for what does not come
			waits, end = false, ending{outcome: outcomeAborted} // for a consumer that stops or panics
			if !yield(engine.Event{}, nil) {
				return
			}
			end = ending{}
		}
		if err != nil {
			r.answer.notReached = errors.Is(err, engine.ErrNotReached)
			err = r.failed(ctx, bounded, err)
			r.finish(ctx, endingOf(err))
			yield(engine.Event{}, err)
			return
		}
		for _, ev := range leaving {
			last := ev.Usage != nil
			if last {
				r.answer.usage = ev.Usage
				r.finish(ctx, ending{outcome: outcomeOK})
			}
			if ev.Empty() {
				continue
			}
			end = ending{outcome: outcomeAborted} // for a consumer that stops or panics
			ev.More, waits = more, more
			if !yield(ev, nil) || last {
				return
			}
			end = ending{}
		}
		clocks.resumeIdle()
	}
	err := fault.Wrap(errors.New("the engine's stream ended without usage"), fault.CodeEngineUnavailable, string(r.call.Model))
	r.finish(ctx, endingOf(err))
	yield(engine.Event{}, err)
}

// nothing reports whether none of the events tells anything.
func nothing(events []engine.Event) bool {
	return !slices.ContainsFunc(events, func(ev engine.Event) bool { return !ev.Empty() })
}

// markRunning marks that an engine works on the run, until the returned function is called.
func (r *run) markRunning() (done func()) {
	if r.answer.askedAt.IsZero() {
		r.answer.askedAt = r.p.now()
		if r.parent == "" { // the time of a part is in that of its request
			r.p.metrics.overhead.Observe(overhead(r.steps, r.embedding).Seconds())
		}
	}
	r.answer.peak = max(r.answer.peak, int(r.p.running.Add(1)))
	r.p.metrics.running.Inc()
	return func() {
		r.p.running.Add(-1)
		r.p.metrics.running.Dec()
	}
}
