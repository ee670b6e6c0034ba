package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// What is done when an instance fails. Nothing of it happens once anything of an answer is there: what one has begun moves nowhere.
//
// A request that nothing has had, or that is too long for an instance, goes to another one, as long as there are any. One that an instance has had and
// failed is a retry: it takes one of the model's budget, which its requests earn, and an attempt. It is not made where the first one may have been answered, and
// its answer may be on somebody's bill (see mayRepeat). So an upstream may bill what never reached us, and our caller never pays for it: he pays for
// the attempt that answers, and there is one at most, since whoever is not waited for any more is cancelled and his words are dropped.

// errSilent is that an instance said nothing while another could be asked in its place.
var errSilent = errors.New("the engine was silent, and another one is asked")

// generate runs the prompt of a text on the instance that was chosen, and on others as the policy of the model says.
func (r *run) generate(ctx context.Context) iter.Seq2[engine.Event, error] {
	if r.prompt.verdict.unasked() {
		return r.sayOurs
	}
	return func(yield func(engine.Event, error) bool) {
		again := true
		if r.hedges() {
			again = r.generateHedged(ctx, yield)
		}
		for again {
			again = r.generateOnce(ctx, yield)
		}
	}
}

// generateOnce runs the prompt on one instance. It reports whether another one is to be asked.
func (r *run) generateOnce(ctx context.Context, yield func(engine.Event, error) bool) (again bool) {
	i := r.serving().Instance
	bounded, heard := r.boundAttempt(ctx)
	defer heard()
	i.Begin()
	i.Given(r.masked.prefix)
	defer r.draws(r.serving())()
	ended, asked, before := context.Canceled, r.p.now(), i.Beginnings() // by a consumer that stops or panics
	defer func() { i.End(ended) }()
	begun := false
	for ev, err := range i.Engine.Generate(bounded, r.prompt.text) {
		if said := err != nil || !ev.Empty(); said && !begun {
			if err = r.firstError(heard(), &ev, err); err != nil && r.retry(ctx, err, asked) {
				if ended = err; errors.Is(err, errSilent) && i.Beginnings() != before { // it was slow with this one
					ended = context.Canceled
				}
				return true
			}
			if begun = err == nil; begun {
				r.answer.engineBegan()
				i.Began(r.firstAfter(asked))
			}
		}
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

// firstError is why an instance that has said nothing yet fails: also that it was given up for its silence, in which it may say something all the
// same, and that its filter left nothing.
func (r *run) firstError(inTime bool, ev *engine.Event, err error) error {
	switch {
	case !inTime:
		return fault.Wrap(errSilent, fault.CodeUpstreamTimeout, string(r.asked()))
	case err == nil && ev.Finish == engine.FinishFilter && !ev.HasOutput() && r.prompt.request().Choices <= 1 && r.fallsBack(route.CauseContent):
		return fault.New(fault.CodeFilteredByEngine, string(r.asked()))
	}
	return err
}

// boundsSilence reports whether the silence of an instance is bounded: the policy says so, and another one may be asked. The lines of batches take what the others
// leave, which may be nothing for a while.
func (r *run) boundsSilence() bool {
	p := r.choice.Resilience
	return p != nil && p.AttemptTimeout > 0 && r.class() != engine.ClassBatch && !r.nonStreaming() && r.answer.attempted()+1 < p.Attempts && r.mayRepeat(errSilent)
}

// boundAttempt ends an attempt that says nothing for as long as the policy allows, if another instance could be asked and the budget has a retry left, which it
// takes. heard ends the waiting, and reports whether it has not ended before.
func (r *run) boundAttempt(ctx context.Context) (bounded context.Context, heard func() (inTime bool)) {
	always := func() bool { return true }
	if !r.boundsSilence() {
		return ctx, always
	}
	if next, err := r.p.deps.Router.Again(r.choice, r.been()); err != nil || next.Instance == nil {
		return ctx, always
	}
	const waiting, inTime, late = 0, 1, 2
	var is atomic.Int32
	p := r.choice.Resilience
	bounded, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(p.AttemptTimeout, func() {
		if is.Load() != waiting || !p.Spend() {
			return
		}
		if !is.CompareAndSwap(waiting, late) {
			p.Refund()
			return
		}
		cancel(errSilent)
	})
	return bounded, func() bool {
		timer.Stop()
		is.CompareAndSwap(waiting, inTime)
		return is.Load() == inTime
	}
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
		began := r.p.now()
		err := ask(r.serving().Instance)
		if err == nil {
			return nil
		}
		if !r.retry(ctx, err, began) {
			if ctx.Err() == nil {
				r.answer.decline()
			}
			return err
		}
	}
}

// retry has another instance serve the call after one has failed, if the policy of the model allows it, and notes the attempt. What was silent for too long
// has its retry from the budget already.
func (r *run) retry(ctx context.Context, err error, began time.Time) bool {
	failed, p := r.serving().Instance, r.choice.Resilience
	moves, paid := movable(err), errors.Is(err, errSilent)
	if paid {
		r.waited(failed, began)
	}
	if !moves && !paid && ctx.Err() == nil && p != nil && r.answer.attempted()+1 < p.Attempts && r.mayRepeat(err) {
		paid = p.Spend()
	}
	if ctx.Err() != nil || !moves && !paid || !r.moveOn() {
		if paid {
			p.Refund()
		}
		return false
	}
	r.answer.note(attempt{instance: failed.Name, cause: fault.Public(err).Code(), took: r.p.now().Sub(began), moved: moves})
	r.p.metrics.retry(moves)
	return true
}

// mayRepeat reports whether a request may be made again whose attempt has failed so: the instance has refused it, or nobody bills an answer that did not
// reach us, or the policy takes that upon itself.
func (r *run) mayRepeat(err error) bool {
	switch fault.Public(err).Code() {
	case fault.CodeEngineOverloaded: // others have no more room for what this caller wants
		return !errors.Is(err, engine.ErrCallerLimit)
	case fault.CodeEngineUnavailable, fault.CodeUpstreamFailed, fault.CodeUpstreamTimeout:
		if errors.Is(err, engine.ErrRefused) {
			return true
		}
	default:
		if !errors.Is(err, errSilent) {
			return false
		}
	}
	switch r.choice.Resilience.RepeatUnknown {
	case route.RepeatAll:
		return true
	case route.RepeatOwn:
		return !r.bills(r.serving())
	case route.RepeatNever:
	}
	return false
}

// bills reports whether an answer of an instance may be on somebody's bill.
func (r *run) bills(c route.Choice) bool { return c.Instance.Bills(c.Version.EngineModel) }

// movable reports whether another instance may do what one has not begun: nothing has reached it, or it has too little room.
func movable(err error) bool {
	return errors.Is(err, engine.ErrNotReached) || fault.Is(err, fault.CodeContextLength)
}

// work has an instance do some work, by whose end it is judged. What only prepares work is not: it says little of whether the work will succeed.
func (r *run) work(i *pool.Instance, do func(engine.Engine) error) (err error) {
	i.Begin()
	defer r.draws(r.serving())()
	err = context.Canceled // of a panic
	defer func() { i.End(err) }()
	err = do(i.Engine)
	return err
}

// draws notes that an instance begins to work for the call, if this machine does that work, until the returned function is called.
func (r *run) draws(at route.Choice) (pause func()) {
	if !at.Info.Local {
		return func() {}
	}
	return r.p.deps.Energy.Begin(r.call.RequestID, r.need == route.Generate && at.Instance.Kind == pool.KindNative)
}

// moveOn has another instance serve the call, if there is one that it has not been to.
func (r *run) moveOn() bool {
	tried := r.been()
	next, err := r.p.deps.Router.Again(r.choice, tried)
	if err != nil || next.Instance == nil {
		return false
	}
	r.answer.move(next, tried)
	return true
}

// been returns the instances that the call has been to, with the one that serves it; the caller may append to it.
func (r *run) been() []*pool.Instance {
	return append(slices.Clone(r.answer.tried), r.serving().Instance)
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
