package gateway

import (
	"context"

	"github.com/sluice-project/sluice/internal/fault"
)

// runSteps runs the steps in order and stops at the first refusal. A panic in a step ends the run too: the run releases what it
// holds and records the outcome, and the panic goes on to the edge.
func (r *run) runSteps(ctx context.Context, steps ...step) error {
	returned := false
	defer func() {
		if !returned && r.caller.known {
			r.finish(ctx, ending{})
		}
	}()
	bounded, stop := r.withTotalTimeout(ctx)
	defer stop()
	err := r.runEach(bounded, steps)
	if k := fault.KindOf(err); err != nil && bounded.Err() != nil && (k == fault.Internal || k == fault.Unavailable || k == fault.Timeout) {
		err = r.failed(ctx, bounded, err) // a rule that said no has said why
	}
	returned = true
	return err
}

func (r *run) runEach(ctx context.Context, steps []step) error {
	for _, s := range steps {
		began := r.p.now()
		err := s.do(r, ctx)
		took := r.p.now().Sub(began)
		*s.took(&r.steps) += took.Microseconds()
		r.p.metrics.stage(s.name).Observe(took.Seconds())
		if err == nil {
			err = ctx.Err() // no further step for a caller who left
		}
		if err != nil {
			return err
		}
	}
	return nil
}
