// Package sq8 implements rag/index by scanning codes of one byte a component, in memory, and scoring what the codes cannot rule out
// with two bytes a component. The answer is exact.
//
// # What is stored
//
// A vector becomes the integers w = 255·c + r nearest to it, scaled so that its largest component is ±32,512; c and r are bytes
// between −127 and 127. Its score with a query, which is rounded likewise, is the cosine of the two integer vectors: the same bits
// on every processor, at most 1, and of vectors of 64 components or more within 10⁻⁵ of the cosine of the vectors as they came.
//
// # Why the answer is exact
//
// The scan reads the codes c only. They give a score that is wrong by at most ‖r‖/‖w‖ (Cauchy-Schwarz), which is kept for each
// vector. What lies below the TopK-th best score by more than its error cannot be among the TopK best; everything else is scored in
// full. So the hits are those of comparing the query with every allowed vector, and what is not allowed is not compared.
//
// # Memory
//
// 2·d + 8 bytes a vector, where d is the dimension rounded up to a multiple of 32, in pages of 1,024 successive ids: ids that lie
// close together waste nothing. Deleting overwrites.
package sq8

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/rag/index"
)

// Index is an exact index of quantised vectors. It implements [index.Index].
type Index struct {
	dim    int
	kernel kernel.Kernels

	mu     sync.RWMutex
	pages  map[uint32]*page // by id / pageRows
	order  []uint32         // the keys of pages, ascending
	closed bool
}

var _ index.Index = (*Index)(nil)

// New returns an empty index for vectors of dim components, 1 to 65,536, that computes with k.
func New(dim int, k kernel.Kernels) *Index {
	return &Index{dim: dim, kernel: k, pages: map[uint32]*page{}}
}

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
		number := e.ID / pageRows
		p := x.pages[number]
		if p == nil {
			p = newPage(x.dim)
			x.pages[number] = p
			at, _ := slices.BinarySearch(x.order, number)
			x.order = slices.Insert(x.order, at, number)
		}
		p.set(e.ID%pageRows, e.Vector)
	}
	return nil
}

// Delete implements [index.Index]. The rows are overwritten at once.
func (x *Index) Delete(ctx context.Context, ids []uint32) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.usable(ctx); err != nil {
		return err
	}
	emptied := false
	for _, id := range ids {
		if p := x.pages[id/pageRows]; p != nil && p.has(id%pageRows) {
			p.erase(id % pageRows)
			if p.count == 0 {
				delete(x.pages, id/pageRows)
				emptied = true
			}
		}
	}
	if emptied {
		x.order = slices.Sorted(maps.Keys(x.pages))
	}
	return nil
}

// Search implements [index.Index].
func (x *Index) Search(ctx context.Context, q index.Query) ([]index.Hit, error) {
	if err := index.Check(q.Vector, x.dim); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	words, norm := integers(make([]int16, padded(x.dim)), q.Vector, queryLimit(x.dim))
	s := newSearch(x.kernel, words, norm, q.TopK)

	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	if q.Allowed == nil || q.TopK <= 0 {
		return nil, nil
	}
	for first, p := range x.allowed(q.Allowed) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("search: %w", context.Cause(ctx))
		}
		s.scan(first, p.page, &p.rows)
	}
	return s.hits(), nil
}

// Close implements [index.Index].
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed, x.pages, x.order = true, nil, nil
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

// maxLevel is the largest component of a stored vector: 255·127 + 127.
const (
	step     = 255 // odd: no half to round, so that c and r keep within 127
	maxLevel = step*127 + 127
)

// padded is the dimension as the kernels want it.
func padded(dim int) int { return (dim + 31) &^ 31 }

// queryLimit is the largest component of a query: what a sum of products with codes of 127 may have without a wrap in 32 bits.
func queryLimit(dim int) float64 { return float64(min(maxLevel, math.MaxInt32/(128*max(1, dim)))) }

// integers writes v, scaled so that its largest component is limit, rounded to dst, and returns its length as integers; zeros and 0
// for a vector without direction.
func integers(dst []int16, v []float32, limit float64) ([]int16, float64) {
	clear(dst)
	largest := 0.0
	for _, c := range v {
		largest = max(largest, math.Abs(float64(c)))
	}
	if largest == 0 {
		return dst, 0
	}
	var square int64
	for i, c := range v {
		w := int64(math.RoundToEven(float64(c) / largest * limit))
		dst[i] = int16(w)
		square += w * w
	}
	return dst, math.Sqrt(float64(square))
}
