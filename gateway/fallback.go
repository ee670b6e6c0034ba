package gateway

import (
	"context"
	"iter"
	"strconv"
	"sync/atomic"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// fallback says why a call asks for another model than its caller did; the zero value is of a call that asks for its own and may be followed by one that
// does not.
type fallback struct {
	of    string     // the request that failed
	from  AskedModel // that it asked for
	cause route.Cause
}

// answersFor reports whether the call is asked in the place of one that failed. One that may be followed by such a call, and nil, is not.
func (f *fallback) answersFor() bool { return f != nil && f.of != "" }

// fallbacksOf returns the lists of the model that a call asks for; nil without any, for a version that is named, and for a call that is a fallback itself: lists
// are not followed any further. The lines of batches wait and come back, and are found again by their request, so they have none.
func (p *Pipeline) fallbacksOf(c *Call) *route.Fallbacks {
	if c.fallback != nil || c.parent != "" || c.Batch != "" || c.Action != ActionChat && c.Action != ActionCompletion {
		return nil
	}
	if r := p.deps.Router.Resilience(string(c.Model)); r != nil && r.Fallbacks.Any() {
		return &r.Fallbacks
	}
	return nil
}

// fallsBack reports whether the call may go to another model for this cause.
func (r *run) fallsBack(c route.Cause) bool {
	f := r.call.fallback
	return f != nil && !f.answersFor() && r.choice.Resilience != nil && len(r.choice.Resilience.Fallbacks.Of(c)) > 0
}

// causeOf says for which cause a call that failed so falls back to another model; "" for none.
func causeOf(err error) route.Cause {
	switch fault.Public(err).Code() {
	case fault.CodeContextLength:
		return route.CauseContext
	case fault.CodeFilteredByEngine:
		return route.CauseContent
	case fault.CodeEngineOverloaded:
		return route.CauseCapacity
	case fault.CodeEngineUnavailable, fault.CodeUpstreamFailed, fault.CodeUpstreamTimeout:
		return route.CauseFault
	default:
		return ""
	}
}

// chatOrFallBack answers a chat by its own model, or by the first of the list for what went wrong that takes it. Each is a call of its own: for its model it is
// authenticated, admitted, masked, routed, reserved and recorded as if its caller had asked for that, so nobody gets to a model this way that he may not
// use. A call that failed costs nothing but the vectors of its search. If none takes it, the error is that of the first. The texts are kept until an engine has begun, and the reply is
// there no sooner: it names who answers.
func (p *Pipeline) chatOrFallBack(ctx context.Context, c *Call, lists *route.Fallbacks) (*Reply, error) {
	kept, own := *c, *c
	kept.authenticated = nil // which one run uses up
	own.fallback = &fallback{}
	reply, err := p.chatUntilBegun(ctx, &own)
	if err == nil {
		return reply, nil
	}
	cause := causeOf(err)
	for n, model := range lists.Of(cause) {
		if ctx.Err() != nil {
			break
		}
		next := kept
		next.RequestID += ".fallback" + strconv.Itoa(n+1)
		next.Model, next.fallback = AskedModel(model), &fallback{of: kept.RequestID, from: kept.Model, cause: cause}
		if reply, failed := p.chatUntilBegun(ctx, &next); failed == nil {
			p.metrics.fallbacks.WithLabelValues(string(cause)).Inc()
			return reply, nil
		}
	}
	return nil, err
}

// chatUntilBegun is Chat that returns when an engine has begun to answer. What fails before is its error.
func (p *Pipeline) chatUntilBegun(ctx context.Context, c *Call) (*Reply, error) {
	reply, err := p.Chat(ctx, c)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(reply.events)
	ev, err, ok := next()
	if err != nil && !reply.run.answer.began {
		stop()
		return nil, reply.run.refusal(err)
	}
	var taken atomic.Bool // by the consumer, or by who closes the reply in his place
	abort := reply.abort
	reply.Head = reply.run.head() // which instance and version answer
	reply.events = func(yield func(engine.Event, error) bool) {
		if !taken.CompareAndSwap(false, true) {
			return
		}
		defer stop()
		for ; ok; ev, err, ok = next() {
			if !yield(ev, err) {
				return
			}
		}
	}
	reply.abort = func() {
		if taken.CompareAndSwap(false, true) {
			stop()
		}
		abort()
	}
	return reply, nil
}
