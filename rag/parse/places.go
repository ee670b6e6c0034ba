package parse

import (
	"context"
	"slices"
	"sync"
	"time"
)

// places bounds how many documents are read at once. A place that is free goes to the owner who has the fewest, of those that wait longest. It is safe for
// concurrent use.
type places struct {
	mu      sync.Mutex
	free    int
	share   int            // most that one owner has
	held    map[string]int // by owner
	waiting []*waiter      // in the order in which they came
	closed  bool
	empty   chan struct{} // closed when the places are, and all are given back
}

// waiter is a document that waits for its place.
type waiter struct {
	owner string
	ready chan struct{} // closed when it has a place, or err
	err   error
}

func newPlaces(n int) *places {
	return &places{free: n, share: max(1, n-1), held: map[string]int{}, empty: make(chan struct{})}
}

// take waits for a place, at most so long. Errors: ErrBusy, and the cause of ctx.
func (p *places) take(ctx context.Context, owner string, wait time.Duration) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrBusy
	}
	w := &waiter{owner: owner, ready: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.next()
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	err := ErrBusy
	select {
	case <-w.ready:
		return w.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
	}
	// Its place may have come in this moment.
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		return err
	}
	if w.err == nil && ctx.Err() != nil {
		p.back(owner)
		return err
	}
	return w.err
}

// give gives a place back.
func (p *places) give(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back(owner)
}

// back is give with the lock held.
func (p *places) back(owner string) {
	p.free++
	if p.held[owner]--; p.held[owner] == 0 {
		delete(p.held, owner)
	}
	if p.closed && len(p.held) == 0 {
		close(p.empty)
	}
	p.next()
}

// next gives free places to those who wait for them.
func (p *places) next() {
	for p.free > 0 {
		best := -1
		for i, w := range p.waiting {
			if n := p.held[w.owner]; n < p.share && (best < 0 || n < p.held[p.waiting[best].owner]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		w := p.waiting[best]
		p.waiting = slices.Delete(p.waiting, best, best+1)
		p.free--
		p.held[w.owner]++
		close(w.ready)
	}
}

// close sends everybody away who waits or comes, and waits until all places are given back, at most so long. It reports whether they are.
func (p *places) close(wait time.Duration) bool {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for _, w := range p.waiting {
			w.err = ErrBusy
			close(w.ready)
		}
		p.waiting = nil
		if len(p.held) == 0 {
			close(p.empty)
		}
	}
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.empty:
		return true
	case <-timer.C:
		return false
	}
}

// clock ends a reading when its time is up. Its methods are called by one goroutine.
type clock struct {
	timer *time.Timer
	end   time.Time
}

func startClock(d time.Duration, end func()) *clock {
	return &clock{time.AfterFunc(d, end), time.Now().Add(d)}
}

func (c *clock) stop() { c.timer.Stop() }

// pause calls fn, whose time does not count.
func (c *clock) pause(fn func()) {
	left := time.Until(c.end)
	if !c.timer.Stop() { // the time was up
		fn()
		return
	}
	fn()
	c.end = time.Now().Add(left)
	c.timer.Reset(left)
}
