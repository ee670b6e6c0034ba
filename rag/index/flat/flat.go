// Package flat implements rag/index by comparing the query with every allowed vector, in memory. Nothing is approximate, and what
// the filter hides costs nothing.
package flat

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/sluice-project/sluice/rag/index"
)

// Index is a flat index. It implements [index.Index].
type Index struct {
	dim int

	mu     sync.RWMutex
	rows   []float32 // unit vectors, or zeros; row r begins at r × dim
	slots  map[uint32]int
	vacant []int
	closed bool
}

var _ index.Index = (*Index)(nil)

// New returns an empty index for vectors of dim components.
func New(dim int) *Index { return &Index{dim: dim, slots: map[uint32]int{}} }

// Upsert implements [index.Index].
func (x *Index) Upsert(ctx context.Context, entries []index.Entry) error {
	for _, e := range entries {
		if err := index.Check(e.Vector, x.dim); err != nil {
			return fmt.Errorf("upsert entry %d: %w", e.ID, err)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.usable(ctx); err != nil {
		return err
	}
	for _, e := range entries {
		slot, ok := x.slots[e.ID]
		if !ok {
			slot = x.vacate()
			x.slots[e.ID] = slot
		}
		unit(x.row(slot), e.Vector)
	}
	return nil
}

// vacate returns a row that nobody uses.
func (x *Index) vacate() int {
	if n := len(x.vacant); n > 0 {
		slot := x.vacant[n-1]
		x.vacant = x.vacant[:n-1]
		return slot
	}
	slot := len(x.rows) / max(1, x.dim)
	x.rows = append(x.rows, make([]float32, x.dim)...)
	return slot
}

// Delete implements [index.Index]. The rows are overwritten at once.
func (x *Index) Delete(ctx context.Context, ids []uint32) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.usable(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		slot, ok := x.slots[id]
		if !ok {
			continue
		}
		clear(x.row(slot))
		delete(x.slots, id)
		x.vacant = append(x.vacant, slot)
	}
	return nil
}

// Search implements [index.Index].
func (x *Index) Search(ctx context.Context, q index.Query) ([]index.Hit, error) {
	if err := index.Check(q.Vector, x.dim); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	query := make([]float32, x.dim)
	unit(query, q.Vector)

	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	if q.Allowed == nil || q.TopK <= 0 {
		return nil, nil
	}
	var best nearest
	scanned := 0
	for it := q.Allowed.Iterator(); it.HasNext(); {
		id := it.Next()
		slot, ok := x.slots[id]
		if !ok {
			continue
		}
		if scanned++; scanned%4096 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("search: %w", context.Cause(ctx))
		}
		best.offer(index.Hit{ID: id, Score: dot(query, x.row(slot))}, q.TopK)
	}
	slices.SortFunc(best, compare)
	return best, nil
}

// Close implements [index.Index].
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed, x.rows, x.slots, x.vacant = true, nil, nil, nil
	return nil
}

func (x *Index) usable(ctx context.Context) error {
	if x.closed {
		return index.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (x *Index) row(slot int) []float32 { return x.rows[slot*x.dim : (slot+1)*x.dim] }

// unit writes v scaled to length 1 into dst, zeros if v has no direction. It computes in float64, where no float32 vector
// overflows.
func unit(dst, v []float32) {
	var sum float64
	for _, c := range v {
		sum += float64(c) * float64(c)
	}
	if sum == 0 {
		clear(dst)
		return
	}
	scale := 1 / math.Sqrt(sum)
	for i, c := range v {
		dst[i] = float32(float64(c) * scale)
	}
}

// dot adds in eight lanes, the order that vector instructions can keep.
func dot(a, b []float32) float32 {
	var s [8]float32
	n := len(a) &^ 7
	for i := 0; i < n; i += 8 {
		p, q := a[i:i+8:i+8], b[i:i+8:i+8]
		s[0] += p[0] * q[0]
		s[1] += p[1] * q[1]
		s[2] += p[2] * q[2]
		s[3] += p[3] * q[3]
		s[4] += p[4] * q[4]
		s[5] += p[5] * q[5]
		s[6] += p[6] * q[6]
		s[7] += p[7] * q[7]
	}
	for i := n; i < len(a); i++ {
		s[i-n] += a[i] * b[i]
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func compare(a, b index.Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
}

// nearest is a heap with the worst hit on top.
type nearest []index.Hit

func (h *nearest) offer(hit index.Hit, n int) {
	switch {
	case len(*h) < n:
		heap.Push(h, hit)
	case compare(hit, (*h)[0]) < 0:
		(*h)[0] = hit
		heap.Fix(h, 0)
	}
}

func (h nearest) Len() int           { return len(h) }
func (h nearest) Less(i, j int) bool { return compare(h[i], h[j]) > 0 }
func (h nearest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nearest) Push(v any)        { *h = append(*h, v.(index.Hit)) }
func (h *nearest) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
