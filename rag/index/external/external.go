// Package external is what indexes that lie on a server have in common, so that they keep the promises of rag/index over a network.
package external

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
)

// Unit returns v scaled to length 1, so that the inner product with another is their cosine whatever the server computes it with: components near
// the limits of float32 overflow in no sum. A vector without direction becomes zeros, whose product with any is 0, as the contract has it.
func Unit(v []float32) []float32 {
	largest := 0.0
	for _, x := range v {
		largest = max(largest, math.Abs(float64(x)))
	}
	out := make([]float32, len(v))
	if largest == 0 {
		return out
	}
	sum := 0.0
	for _, x := range v {
		y := float64(x) / largest
		sum += y * y
	}
	norm := largest * math.Sqrt(sum)
	for i, x := range v {
		out[i] = float32(float64(x) / norm)
	}
	return out
}

// Distinct returns the entries by id, of several with one id the last.
func Distinct(entries []index.Entry) []index.Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b index.Entry) int { return cmp.Compare(a.ID, b.ID) })
	n := 0
	for i, e := range out {
		if i+1 < len(out) && out[i+1].ID == e.ID {
			continue
		}
		out[n] = e
		n++
	}
	return out[:n]
}

// Best orders hits as the contract wants them and keeps the first k. Scores beyond ±1 by rounding are brought back.
func Best(hits []index.Hit, k int) []index.Hit {
	for i := range hits {
		hits[i].Score = min(1, max(-1, hits[i].Score))
	}
	slices.SortFunc(hits, func(a, b index.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return hits[:min(k, len(hits))]
}

// Run is a range of ids, both ends included.
type Run struct{ First, Last uint32 }

// Runs returns the ranges of a set, ascending, at most limit; more is false if these are all.
func Runs(set *roaring.Bitmap, limit int) (runs []Run, more bool) {
	for it := set.Iterator(); it.HasNext(); {
		id := it.PeekNext()
		if n := len(runs); n > 0 && runs[n-1].Last+1 == id && id != 0 {
			it.Next()
			runs[n-1].Last = id
			continue
		}
		if len(runs) == limit {
			return runs, true
		}
		runs = append(runs, Run{id, id})
		it.Next()
	}
	return runs, false
}

// Doubts are the ids of which it is not known what the server has: of changes that failed after they were sent. A search that may find one
// of them has no answer. Changing the id again, with success, ends the doubt. The zero value has none. It is safe for concurrent use.
type Doubts struct {
	mu  sync.Mutex
	ids roaring.Bitmap
}

// Add begins doubts.
func (d *Doubts) Add(ids []uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids.AddMany(ids)
}

// Settle ends doubts.
func (d *Doubts) Settle(ids []uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ids.IsEmpty() {
		d.ids.AndNot(roaring.BitmapOf(ids...))
	}
}

// About reports whether one of the set is in doubt.
func (d *Doubts) About(set *roaring.Bitmap) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids.Intersects(set)
}

// IDs returns the ids of entries.
func IDs(entries []index.Entry) []uint32 {
	out := make([]uint32, len(entries))
	for i, e := range entries {
		out[i] = e.ID
	}
	return out
}
