// Package sq8 implements rag/index by scanning codes of one byte a component, in memory, and scoring what the codes cannot rule out
// with two bytes a component. The answer is exact.
//
// # What is stored
//
// A vector becomes the integers w = 255·c + r nearest to it, scaled so that its largest component is ±32,512; c and r are bytes
// between −127 and 127. Its score with a query, which is rounded likewise, is the cosine of the two integer vectors: the same bits
// on every processor, and at most 1.
//
// From the cosine of the vectors as they came it differs by at most about √d/2L for each of the two, where d is the dimension and L the largest
// integer: 32,512 for what is stored, and the smaller of that and 2²⁴/d for a query. So much it is where one component is large and all others
// are tiny: 1.7·10⁻⁴ at d = 128 for what is stored. Of vectors whose components are of like size, as models make them, the errors cancel
// out: below 2·10⁻⁵ up to d = 4,096, and below 10⁻⁴ with one component of 20 times the usual size.
//
// # Why the answer is exact
//
// The scan reads the codes c only. They give a score that is wrong by at most ‖r‖/‖w‖ (Cauchy-Schwarz), which is kept for each
// vector. What lies below the TopK-th best score by more than its error cannot be among the TopK best; everything else is scored in
// full. So the hits are those of comparing the query with every allowed vector, and what is not allowed is not compared.
//
// # Memory
//
// 2·d + 12 bytes a vector, where d is the dimension rounded up to a multiple of 32, in pages of up to 1,024 successive ids, which grow by doubling
// from 64 on: ids that lie close together waste less than half, an index of one vector has room for 64. Deleting overwrites.
package sq8

import (
	"context"
	"encoding/binary"
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

// New returns an empty index for vectors of dim components, 1 to 65,536, that computes with k. It panics for others, whose sums wrap.
func New(dim int, k kernel.Kernels) *Index {
	if dim < 1 || dim > 1<<16 {
		panic(fmt.Sprintf("sq8: vectors of %d components", dim))
	}
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
		x.page(e.ID/pageRows).set(e.ID%pageRows, e.Vector)
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

	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	if q.Allowed == nil || q.Allowed.IsEmpty() || q.TopK <= 0 {
		return nil, nil
	}
	s := newSearch(x.kernel, words, norm, int(min(uint64(q.TopK), q.Allowed.GetCardinality()))) // no sum with it overflows
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

// RowBytes is the length of a stored vector of dim components in [Index.AppendRow].
func RowBytes(dim int) int { return 2*padded(dim) + 12 }

// AppendRow appends what is stored of id to dst, as [Index.Restore] reads it; false if nothing is.
func (x *Index) AppendRow(dst []byte, id uint32) ([]byte, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, row := x.pages[id/pageRows], id%pageRows
	if p == nil || !p.has(row) {
		return dst, false
	}
	for _, of := range [][]int8{p.row(p.codes, row), p.row(p.rests, row)} {
		for _, c := range of {
			dst = append(dst, byte(c))
		}
	}
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.scales[row]))
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(p.errors[row])), true
}

// Restore stores rows of [Index.AppendRow], one after the other, under successive ids from first on. It trusts them: whoever reads
// them from a disk has authenticated them. It fails if their length fits no number of rows.
func (x *Index) Restore(first uint32, rows []byte) error {
	size, n := RowBytes(x.dim), padded(x.dim)
	if len(rows)%size != 0 || uint64(first)+uint64(len(rows)/size) > 1<<32 {
		return fmt.Errorf("%w: %d bytes from %d on are no rows of %d components", index.ErrVector, len(rows), first, x.dim)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return index.ErrClosed
	}
	for id := first; len(rows) > 0; id, rows = id+1, rows[size:] {
		p, row := x.page(id/pageRows), id%pageRows
		p.reach(row)
		for i, c := range rows[:n] {
			p.codes[int(row)*n+i] = int8(c)
		}
		for i, c := range rows[n : 2*n] {
			p.rests[int(row)*n+i] = int8(c)
		}
		p.scales[row] = math.Float64frombits(binary.LittleEndian.Uint64(rows[2*n:]))
		p.errors[row] = math.Float32frombits(binary.LittleEndian.Uint32(rows[2*n+8:]))
		if !p.has(row) {
			p.stored.add(row)
			p.count++
		}
	}
	return nil
}

// page returns a page, which it makes if there is none. The caller holds mu to write.
func (x *Index) page(number uint32) *page {
	p := x.pages[number]
	if p == nil {
		p = newPage(x.dim)
		x.pages[number] = p
		at, _ := slices.BinarySearch(x.order, number)
		x.order = slices.Insert(x.order, at, number)
	}
	return p
}
