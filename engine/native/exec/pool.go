package exec

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool runs one function on several goroutines at a time. Only one goroutine may call run.
//
// Workers spin for a moment after each run, since the next one usually follows within microseconds, and then park. The caller
// works too and waits for nobody who did not begin: on a crowded machine, where a worker gets no processor, it does everything
// itself instead of waiting at every barrier.
type Pool struct {
	threads int
	active  atomic.Int32 // threads that work on a run, the caller included
	begin   sync.Once
	wait    sync.WaitGroup

	// The current run; written while it is closed and nobody is inside.
	fn    func(worker, from, to int)
	units int64
	chunk int64
	next  atomic.Int64

	// state is the number of the run, whether workers may still enter it, and how many are inside.
	state   atomic.Uint64
	ending  atomic.Bool
	waiting atomic.Bool // the caller parked
	done    chan struct{}
	workers []worker
	onStart func() // what a worker does first
}

// The parts of state.
const (
	stateInside = 1<<31 - 1
	stateOpen   = 1 << 31
	stateRun    = 1 << 32 // one run further
)

type worker struct {
	parked atomic.Bool
	wake   chan struct{}
	_      [48]byte // keeps neighbours out of the cache line
}

const (
	spins  = 20_000 // some 10 to 20 µs
	yields = 20
)

// NewPool returns a pool that starts threads−1 workers when it is first used; the caller of run is the last one.
func NewPool(threads int) *Pool {
	p := &Pool{threads: threads, done: make(chan struct{}, 1), workers: make([]worker, threads-1)}
	p.active.Store(int32(threads))
	for i := range p.workers {
		p.workers[i].wake = make(chan struct{}, 1)
	}
	return p
}

// OnStart makes every worker call do before it works, on the goroutine that it works on: to bind it to processors. It must be called
// before the first run.
func (p *Pool) OnStart(do func()) { p.onStart = do }

func (p *Pool) spawn() {
	for i := range p.workers {
		p.wait.Go(func() {
			if p.onStart != nil {
				p.onStart()
			}
			p.work(i)
		})
	}
}

// Threads is the number of threads, the caller of run included.
func (p *Pool) Threads() int { return p.threads }

// use lets n threads work on the runs that follow, at least one and at most all; the others park.
func (p *Pool) use(n int) { p.active.Store(int32(min(max(1, n), p.threads))) }

// inUse is the number of threads that work on a run.
func (p *Pool) inUse() int { return int(p.active.Load()) }

// Close ends the workers and waits for them. The pool is not used afterwards.
func (p *Pool) Close() {
	p.ending.Store(true)
	p.use(p.threads)
	p.wake()
	p.wait.Wait()
}

// run calls fn for the units 0 to units−1 in pieces of chunk, spread over the workers, and returns when all are done. fn must be
// a value that exists already: making a closure here would allocate at every step.
func (p *Pool) run(units, chunk int, fn func(worker, from, to int)) {
	if units <= chunk || p.inUse() == 1 {
		if units > 0 {
			fn(0, 0, units)
		}
		return
	}
	p.begin.Do(p.spawn)
	p.fn, p.units, p.chunk = fn, int64(units), int64(chunk)
	p.next.Store(0)
	p.state.Store(p.state.Load()&^(stateRun-1) + stateRun | stateOpen)
	p.wake()
	p.take(0)
	p.finish()
}

func (p *Pool) wake() {
	for i := range p.inUse() - 1 {
		if w := &p.workers[i]; w.parked.Load() && w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// take works off pieces until none is left.
func (p *Pool) take(worker int) {
	for {
		to := p.next.Add(p.chunk)
		from := to - p.chunk
		if from >= p.units {
			return
		}
		p.fn(worker, int(from), int(min(to, p.units)))
	}
}

// finish lets nobody enter any more and waits until those inside are through.
func (p *Pool) finish() {
	if p.state.And(^uint64(stateOpen))&stateInside == 0 {
		return
	}
	for range spins {
		if p.state.Load()&stateInside == 0 {
			return
		}
	}
	for range yields {
		runtime.Gosched()
		if p.state.Load()&stateInside == 0 {
			return
		}
	}
	for {
		p.waiting.Store(true)
		if p.state.Load()&stateInside == 0 && p.waiting.CompareAndSwap(true, false) {
			return
		}
		<-p.done
		// The signal may come from a worker that was the last one of an earlier run and lost its processor before it sent it.
		if p.state.Load()&stateInside == 0 {
			return
		}
	}
}

func (p *Pool) work(i int) {
	var seen uint64 // the last run this worker knows
	for {
		s, found := p.await(i, seen)
		if p.ending.Load() {
			return
		}
		seen = s / stateRun
		if !found || !p.enter(s) {
			continue
		}
		p.take(i + 1)
		if p.state.Add(^uint64(0))&(stateOpen|stateInside) == 0 && p.waiting.CompareAndSwap(true, false) {
			p.done <- struct{}{}
		}
	}
}

// enter counts a worker as inside the run of s; it fails when the run is closed.
func (p *Pool) enter(s uint64) bool {
	for {
		if s&stateOpen == 0 {
			return false
		}
		if p.state.CompareAndSwap(s, s+1) {
			return true
		}
		if now := p.state.Load(); now/stateRun == s/stateRun {
			s = now
			continue
		}
		return false
	}
}

// due reports whether the state is that of a run after seen which worker i is to work on.
func (p *Pool) due(i int, state, seen uint64) bool {
	return state/stateRun != seen && i+1 < p.inUse()
}

// await waits for a run after seen. It may also return without one.
func (p *Pool) await(i int, seen uint64) (state uint64, found bool) {
	for range spins {
		if s := p.state.Load(); p.due(i, s, seen) {
			return s, true
		}
	}
	for range yields {
		runtime.Gosched()
		if s := p.state.Load(); p.due(i, s, seen) {
			return s, true
		}
	}
	w := &p.workers[i]
	w.parked.Store(true)
	if s := p.state.Load(); (p.due(i, s, seen) || p.ending.Load()) && w.parked.CompareAndSwap(true, false) {
		return s, p.due(i, s, seen)
	}
	<-w.wake
	s := p.state.Load()
	return s, p.due(i, s, seen)
}
