package exec

import (
	"runtime"
	"sync/atomic"
	"testing"
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
