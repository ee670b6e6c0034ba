package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// generate runs the prompt of a text on the instance that was chosen. While nothing that works on it has had it, another one gets it.
func (r *run) generate(ctx context.Context) iter.Seq2[engine.Event, error] {
	if r.prompt.verdict.refusal != "" {
		return r.sayRefusal
	}
	return func(yield func(engine.Event, error) bool) {
		for again := true; again; {
			again = r.generateOnce(ctx, yield)
		}
	}
}

// generateOnce runs the prompt on one instance. It reports whether another one is to be asked.
func (r *run) generateOnce(ctx context.Context, yield func(engine.Event, error) bool) (again bool) {
	i := r.serving().Instance
	i.Begin()
	ended := context.Canceled // by a consumer that stops or panics
	defer func() { i.End(ended) }()
	begun := false
	for ev, err := range i.Engine.Generate(ctx, r.prompt.text) {
		if !begun && movable(err) && r.moveOn(ctx) {
			ended = err
			return true
		}
		begun = begun || !ev.Empty()
		if !yield(ev, err) {
			if err != nil || ev.Usage != nil {
				ended = err
			}
			return false
		}
		if err != nil {
			ended = err
			return false
		}
	}
	ended = nil
	return false
}

// serving is where the call runs: where its route led, or where it has moved on to.
func (r *run) serving() route.Choice {
	if r.answer.serving.Instance != nil {
		return r.answer.serving
	}
	return r.choice
}

// onInstance asks the instance that was chosen. While it has not begun, another one is asked.
func (r *run) onInstance(ctx context.Context, ask func(*pool.Instance) error) error {
	for {
		err := ask(r.serving().Instance)
		if !movable(err) || !r.moveOn(ctx) {
			return err
		}
	}
}

// movable reports whether another instance may do what one has not begun: nothing has reached it, or it has too little room.
func movable(err error) bool {
	return errors.Is(err, engine.ErrNotReached) || fault.Is(err, fault.CodeContextLength)
}

// work has an instance do some work, by whose end it is judged. What only prepares work is not: it says little of whether the work will succeed.
func work(i *pool.Instance, do func(engine.Engine) error) (err error) {
	i.Begin()
	err = context.Canceled // of a panic
	defer func() { i.End(err) }()
	err = do(i.Engine)
	return err
}

// moveOn has another instance serve the call, if there is one that it has not been to.
func (r *run) moveOn(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	tried := append(r.answer.tried, r.serving().Instance)
	next, err := r.p.deps.Router.Again(r.choice, tried)
	if err != nil || next.Instance == nil {
		return false
	}
	r.answer.move(next, tried)
	return true
}

// nothing reports whether none of the events tells anything.
func nothing(events []engine.Event) bool {
	return !slices.ContainsFunc(events, func(ev engine.Event) bool { return !ev.Empty() })
}

// markRunning marks that an engine works on the run, until the returned function is called.
func (r *run) markRunning() (done func()) {
	if r.answer.ask(r.p.now(), int(r.p.running.Add(1))) && r.call.parent == "" { // the time of a part is in that of its request
		r.p.metrics.overhead.Observe(overhead(r.steps, r.sources.embedding).Seconds())
	}
	r.p.metrics.running.Inc()
	return func() {
		r.p.running.Add(-1)
		r.p.metrics.running.Dec()
	}
}
