package gateway

import (
	"context"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// timeoutError reports which timeout ended a call.
type timeoutError struct {
	code     fault.Code
	after    time.Duration
	byCaller bool // the caller asked for it
}

func (e *timeoutError) Error() string { return string(e.code) + " after " + e.after.String() }

// withTotalTimeout returns a context that ends a call's total time, which begins with its arrival.
func (r *run) withTotalTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := r.p.cfg.Timeout
	if r.call.Document != nil {
		limit = maxIngestTime
	}
	return context.WithTimeoutCause(ctx, limit-r.p.now().Sub(r.call.Received), &timeoutError{code: fault.CodeTimeout, after: limit})
}

// timeouts end a generation that takes too long: in total, until its first text, or between two events. Each cancels the engine. The idle
// timeout pauses while the consumer handles an event.
//
// One goroutine uses it.
type timeouts struct {
	stop       context.CancelFunc
	end        context.CancelCauseFunc
	firstToken *time.Timer   // until the first text
	idleLimit  time.Duration // between two events; 0: no limit
	idle       *time.Timer   // of gap; nil before the first text
}

// startTimeouts starts the timeouts of a generation; they end the context that it returns. A non-streaming answer shows no progress, so only
// the total timeout runs.
func (r *run) startTimeouts(ctx context.Context) (context.Context, *timeouts) {
	total, cancel := r.withTotalTimeout(ctx)
	if r.nonStreaming() {
		return total, &timeouts{stop: cancel}
	}
	bounded, end := context.WithCancelCause(total)
	c := &timeouts{end: end}
	c.stop = func() {
		for _, t := range []*time.Timer{c.firstToken, c.idle} {
			if t != nil {
				t.Stop()
			}
		}
		c.end(context.Canceled)
		cancel()
	}
	if r.class() != engine.ClassBatch { // it takes what the others leave, which may be nothing for a while
		c.idleLimit = r.p.cfg.IdleTimeout
	}
	limit, asked := r.p.cfg.FirstTokenTimeout, false
	if p := r.call.FirstTokenTimeout; p > 0 && (limit == 0 || p < limit) {
		limit, asked = p, true
	}
	if limit > 0 {
		left := limit - r.p.now().Sub(r.call.Received)
		c.firstToken = time.AfterFunc(left, func() { c.end(&timeoutError{fault.CodeFirstTokenTimeout, limit, asked}) })
	}
	return bounded, c
}

// onEvent records that the engine has sent an event, and whether it had text.
func (c *timeouts) onEvent(said bool) {
	if said && c.firstToken != nil {
		c.firstToken.Stop()
	}
	if c.idle != nil {
		c.idle.Stop()
	} else if said && c.idleLimit > 0 {
		c.idle = time.AfterFunc(c.idleLimit, func() { c.end(&timeoutError{code: fault.CodeIdleTimeout, after: c.idleLimit}) })
		c.idle.Stop()
	}
}

// resumeIdle restarts the idle timeout.
func (c *timeouts) resumeIdle() {
	if c.idle != nil {
		c.idle.Reset(c.idleLimit)
	}
}
