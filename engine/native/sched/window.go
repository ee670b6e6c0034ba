package sched

import (
	"math"
	"slices"
)

// window keeps the latest values and answers for their quantiles.
type window struct {
	ring   []float64 // in the order they came
	sorted []float64
	next   int
	size   int
}

func newWindow(size int) window {
	return window{ring: make([]float64, 0, size), sorted: make([]float64, 0, size), size: size}
}

func (w *window) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if len(w.ring) < w.size {
		w.ring = append(w.ring, v)
	} else {
		at, _ := slices.BinarySearch(w.sorted, w.ring[w.next])
		w.sorted = slices.Delete(w.sorted, at, at+1)
		w.ring[w.next] = v
		w.next = (w.next + 1) % w.size
	}
	at, _ := slices.BinarySearch(w.sorted, v)
	w.sorted = slices.Insert(w.sorted, at, v)
}

func (w *window) clear() { w.ring, w.sorted, w.next = w.ring[:0], w.sorted[:0], 0 }

func (w *window) len() int { return len(w.ring) }

// p99 returns the smallest value that 99 in 100 of the values do not exceed; 0 of none.
func (w *window) p99() float64 {
	if len(w.sorted) == 0 {
		return 0
	}
	return w.sorted[(99*len(w.sorted)+99)/100-1]
}
