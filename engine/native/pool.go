package native

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pool runs one function on several goroutines at a time. Only one goroutine may call run. Workers spin for a moment after each
// run, since the next one usually follows within microseconds, and then park, so an idle or crowded machine loses nothing.
type pool struct {
	threads int
	begin   sync.Once
	wait    sync.WaitGroup

	// The current run.
	fn      func(worker, from, to int)
	units   int64
	chunk   int64
	next    atomic.Int64
	pending atomic.Int32

	epoch   atomic.Uint32 // counts runs
	closed  atomic.Bool
	waiting atomic.Bool // the caller parked
	done    chan struct{}
	workers []worker
}

type worker struct {
	parked atomic.Bool
	wake   chan struct{}
	_      [48]byte // keeps neighbours out of the cache line
}

const (
	spins  = 20_000 // some 10 to 20 µs
	yields = 20
)

// newPool returns a pool that starts threads−1 workers when it is first used; the caller of run is the last one.
func newPool(threads int) *pool {
	p := &pool{threads: threads, done: make(chan struct{}, 1), workers: make([]worker, threads-1)}
	for i := range p.workers {
		p.workers[i].wake = make(chan struct{}, 1)
	}
	return p
}

func (p *pool) hire() {
	for i := range p.workers {
		p.wait.Go(func() { p.work(i) })
	}
}

// close ends the workers and waits for them. The pool is not used afterwards.
func (p *pool) close() {
	p.closed.Store(true)
	p.start()
	p.wait.Wait()
}

// run calls fn for the units 0 to units−1 in pieces of chunk, spread over the workers, and returns when all are done. fn must be
// a value that exists already: making a closure here would allocate at every step.
func (p *pool) run(units, chunk int, fn func(worker, from, to int)) {
	if units <= chunk || p.threads == 1 {
		if units > 0 {
			fn(0, 0, units)
		}
		return
	}
	p.begin.Do(p.hire)
	p.fn, p.units, p.chunk = fn, int64(units), int64(chunk)
	p.next.Store(0)
	p.pending.Store(int32(len(p.workers)))
	p.start()
	p.take(0)
	p.finish()
}

func (p *pool) start() {
	p.epoch.Add(1)
	for i := range p.workers {
		if w := &p.workers[i]; w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// take works off pieces until none is left.
func (p *pool) take(worker int) {
	for {
		to := p.next.Add(p.chunk)
		from := to - p.chunk
		if from >= p.units {
			return
		}
		p.fn(worker, int(from), int(min(to, p.units)))
	}
}

// finish waits until every worker is through.
func (p *pool) finish() {
	for range spins {
		if p.pending.Load() == 0 {
			return
		}
	}
	for range yields {
		runtime.Gosched()
		if p.pending.Load() == 0 {
			return
		}
	}
	p.waiting.Store(true)
	if p.pending.Load() == 0 && p.waiting.CompareAndSwap(true, false) {
		return
	}
	<-p.done
}

func (p *pool) work(i int) {
	var seen uint32
	for {
		seen = p.await(i, seen)
		if p.closed.Load() {
			return
		}
		p.take(i + 1)
		if p.pending.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
			p.done <- struct{}{}
		}
	}
}

// await returns the number of the next run.
func (p *pool) await(i int, seen uint32) uint32 {
	for range spins {
		if e := p.epoch.Load(); e != seen {
			return e
		}
	}
	for range yields {
		runtime.Gosched()
		if e := p.epoch.Load(); e != seen {
			return e
		}
	}
	w := &p.workers[i]
	w.parked.Store(true)
	if p.epoch.Load() != seen && w.parked.CompareAndSwap(true, false) {
		return p.epoch.Load()
	}
	<-w.wake
	return p.epoch.Load()
}
