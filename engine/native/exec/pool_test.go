package exec

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestPoolDoesEveryUnitOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := NewPool(threads)
		for _, units := range []int{0, 1, 2, 7, 100} {
			for _, chunk := range []int{1, 3, 100} {
				counts := make([]atomic.Int32, units)
				var busy [8]atomic.Int32
				for range 50 {
					p.run(units, chunk, func(worker, from, to int) {
						if busy[worker].Add(1) != 1 {
							t.Error("a worker runs twice at a time")
						}
						for i := from; i < to; i++ {
							counts[i].Add(1)
						}
						busy[worker].Add(-1)
					})
				}
				for i := range counts {
					if n := counts[i].Load(); n != 50 {
						t.Fatalf("%d threads, %d units, chunk %d: unit %d ran %d times", threads, units, chunk, i, n)
					}
				}
			}
		}
		p.Close()
	}
}

// Workers that have parked wake up again, and closing wakes them for good.
func TestPoolWakesParkedWorkers(t *testing.T) {
	p := NewPool(3)
	var n atomic.Int32
	work := func(_, from, to int) { n.Add(int32(to - from)) }
	for range 20 {
		p.run(30, 1, work)
		for parked := 0; parked < len(p.workers); {
			parked = 0
			for i := range p.workers {
				if p.workers[i].parked.Load() {
					parked++
				}
			}
			runtime.Gosched()
		}
	}
	p.Close()
	if n.Load() != 600 {
		t.Errorf("%d units", n.Load())
	}
	NewPool(4).Close() // never used
}

// A worker that was the last one of an earlier run may be late with its signal, and send it in the middle of this one.
func TestPoolOutlivesALateSignal(t *testing.T) {
	p := NewPool(2)
	entered, release, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		p.run(2, 1, func(worker, _, _ int) {
			if worker == 1 {
				close(entered)
				<-release
				return
			}
			<-entered // so that one unit is left to the worker
		})
		close(returned)
	}()
	for !p.waiting.CompareAndSwap(true, false) {
		runtime.Gosched()
	}
	p.done <- struct{}{}
	for !p.waiting.Load() {
		select {
		case <-returned:
			t.Fatal("the run ended with a worker inside")
		default:
			runtime.Gosched()
		}
	}
	close(release)
	<-returned
	p.Close()
}

// Workers that are not to be used do nothing and park, and come back when they are to be used again.
func TestPoolUsesAPartOfItsThreads(t *testing.T) {
	p := NewPool(4)
	defer p.Close()
	for round := range 200 {
		n := 1 + round%4
		p.use(n)
		var units atomic.Int32
		var wrong atomic.Bool
		p.run(64, 1, func(worker, from, to int) {
			units.Add(int32(to - from))
			if worker >= 4 {
				wrong.Store(true)
			}
		})
		if units.Load() != 64 || wrong.Load() {
			t.Fatalf("%d threads: %d units", n, units.Load())
		}
	}
	p.use(1)
	p.run(8, 1, func(int, int, int) {})
	p.use(2)
	for parked := 0; parked < 2; { // workers 1 and 2 of 0 to 2
		p.run(8, 1, func(int, int, int) {})
		parked = 0
		for i := 1; i < 3; i++ {
			if p.workers[i].parked.Load() {
				parked++
			}
		}
		runtime.Gosched()
	}
}

// On a machine with more threads than processors, and with other work, many threads are not slower than one by more than what
// switching costs: nobody waits for a worker that has no processor. The margin is wide on purpose.
func TestPoolOnACrowdedMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	runtime.GOMAXPROCS(4 * procs)
	var stop atomic.Bool
	defer stop.Store(true)
	for range procs { // others who compute
		go func() {
			for !stop.Load() {
				sink.Add(1)
			}
		}()
	}
	measure := func(threads int) time.Duration {
		p := NewPool(threads)
		defer p.Close()
		work := func(_, from, to int) {
			x := uint64(from)
			for range (to - from) * 20_000 {
				x = x*6364136223846793005 + 1
			}
			if x == 0 {
				sink.Add(1)
			}
		}
		best := time.Hour
		for range 5 {
			begin := time.Now()
			for range 100 {
				p.run(8, 1, work)
			}
			best = min(best, time.Since(begin))
		}
		return best
	}
	one, many := measure(1), measure(4*procs)
	t.Logf("one thread %v, %d threads %v", one, 4*procs, many)
	if many > 6*one {
		t.Errorf("%d threads take %v, one takes %v", 4*procs, many, one)
	}
}

var sink atomic.Int64
