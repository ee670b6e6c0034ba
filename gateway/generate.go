package gateway

import (
	"context"
	"iter"
	"slices"

	"github.com/sluice-project/sluice/engine"
)

// generate runs the prompt of a text.
func (r *run) generate(ctx context.Context) iter.Seq2[engine.Event, error] {
	return r.choice.Engine.Generate(ctx, r.prompt.text)
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
