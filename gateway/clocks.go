package gateway

import (
	"context"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// expired is why a clock of ours has ended a call.
type expired struct {
	code  fault.Code
	after time.Duration
	asked bool // the caller asked for it
}

func (e *expired) Error() string { return string(e.code) + " after " + e.after.String() }

// bounded returns a context that ends a call's total time, which begins with its arrival.
func (r *run) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := r.p.cfg.Timeout
	if r.call.Document != nil {
		limit = longestIntake
	}
	return context.WithTimeoutCause(ctx, limit-r.p.now().Sub(r.call.Received), &expired{code: fault.CodeTimeout, after: limit})
}

// clocks end a generation that takes too long: as a whole, until its first text, or between two events. Each cancels the engine. While the
// consumer has the word, the time between events stands still.
//
// One goroutine uses it.
type clocks struct {
	stop  context.CancelFunc
	end   context.CancelCauseFunc
	first *time.Timer   // until the first text
	gap   time.Duration // between two events; 0: no limit
	idle  *time.Timer   // of gap; nil before the first text
}

// clocks starts those of a generation, which end the context that it returns. Of an answer in one piece nobody knows how far it is: there only the
// total time runs.
func (r *run) clocks(ctx context.Context) (context.Context, *clocks) {
	total, cancel := r.bounded(ctx)
	bounded, end := context.WithCancelCause(total)
	c := &clocks{end: end}
	c.stop = func() {
		for _, t := range []*time.Timer{c.first, c.idle} {
			if t != nil {
				t.Stop()
			}
		}
		c.end(context.Canceled)
		cancel()
	}
	if r.sentWhole() {
		return bounded, c
	}
	if r.call.Class != engine.ClassBatch { // it takes what the others leave, which may be nothing for a while
		c.gap = r.p.cfg.IdleTimeout
	}
	limit, asked := r.p.cfg.FirstTokenTimeout, false
	if p := r.call.Patience; p > 0 && (limit == 0 || p < limit) {
		limit, asked = p, true
	}
	if limit > 0 {
		left := limit - r.p.now().Sub(r.call.Received)
		c.first = time.AfterFunc(left, func() { c.end(&expired{fault.CodeFirstTokenTimeout, limit, asked}) })
	}
	return bounded, c
}

// heard notes that the engine has sent something, and whether that was text.
func (c *clocks) heard(said bool) {
	if said && c.first != nil {
		c.first.Stop()
	}
	if c.idle != nil {
		c.idle.Stop()
	} else if said && c.gap > 0 {
		c.idle = time.AfterFunc(c.gap, func() { c.end(&expired{code: fault.CodeIdleTimeout, after: c.gap}) })
		c.idle.Stop()
	}
}

// listen waits for the engine again.
func (c *clocks) listen() {
	if c.idle != nil {
		c.idle.Reset(c.gap)
	}
}
