package native

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/exec"
)

// job is one request on its way through the loop.
type job struct {
	ctx      context.Context //nolint:containedctx // the request's own; the loop has none
	model    *generator
	prompt   []int32
	choices  int
	limit    int // completion tokens per choice
	draw     draw
	logprobs int
	stops    []string
	pages    int // of keys and values, at most

	gone atomic.Bool // the caller left

	// The loop's.
	fed       int // prompt tokens computed
	cache     *exec.Cache
	sequences []*sequence
	running   int // sequences without an end
	produced  int // completion tokens
	submitted time.Time
	admitted  time.Time
	prefilled time.Time

	// Handed from the loop to the caller.
	mu     sync.Mutex
	events []engine.Event
	err    error
	ended  bool
	signal chan struct{}
}

// sequence is one choice of a job.
type sequence struct {
	choice int
	cache  *exec.Cache
	next   int32 // the token to compute next
	step   int   // tokens produced
	out    output
	ended  bool
}

// fits reports whether the memory for keys and values is free that the job may need.
func (j *job) fits() bool { return j.model.reserved+j.pages <= j.model.pages }

// dropped reports whether nobody waits for the job any more.
func (j *job) dropped() bool { return j.gone.Load() || j.ctx.Err() != nil }

// emit hands an event to the caller; it never blocks.
func (j *job) emit(ev engine.Event) {
	j.mu.Lock()
	j.events = append(j.events, ev)
	j.ended = j.ended || ev.Usage != nil
	j.mu.Unlock()
	j.notify()
}

// fail ends the job with an error.
func (j *job) fail(err error) {
	j.mu.Lock()
	if !j.ended {
		j.err, j.ended = err, true
	}
	j.mu.Unlock()
	j.notify()
}

func (j *job) notify() {
	select {
	case j.signal <- struct{}{}:
	default:
	}
}

// take returns what has come since the last time, and whether that was all.
func (j *job) take() (events []engine.Event, err error, ended bool) { //nolint:revive // the error is data here
	j.mu.Lock()
	defer j.mu.Unlock()
	events, j.events = j.events, nil
	return events, j.err, j.ended
}

// stream yields the events until the end, the caller's break, or the end of its context.
func (j *job) stream(yield func(engine.Event, error) bool) {
	for {
		events, err, ended := j.take()
		for _, ev := range events {
			if j.ctx.Err() != nil {
				break
			}
			if !yield(ev, nil) || ev.Usage != nil {
				return
			}
		}
		if ctxErr := j.ctx.Err(); ctxErr != nil {
			yield(engine.Event{}, cancelled(ctxErr))
			return
		}
		if ended {
			yield(engine.Event{}, err)
			return
		}
		select {
		case <-j.signal:
		case <-j.ctx.Done():
		}
	}
}

// release gives the memory of the job back. Only the loop calls it.
func (j *job) release() {
	if j.cache != nil {
		j.cache.Release()
		j.cache = nil
	}
	for _, s := range j.sequences {
		s.cache.Release()
	}
	j.sequences = nil
}
