package sq8

import (
	"iter"
	"math"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
)

// pageRows is how many ids a page has: enough to amortise a call, few enough that sparse ids waste little.
const pageRows = 1024

// rowSet is a set of rows of a page.
type rowSet [pageRows / 64]uint64

func (s *rowSet) add(row uint32)      { s[row/64] |= 1 << (row % 64) }
func (s *rowSet) has(row uint32) bool { return s[row/64]>>(row%64)&1 != 0 }

func (s *rowSet) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// page holds the vectors of successive ids, one a row; those that nobody stored are zeros. It has room for as many rows as it needs, doubled from
// leastRows on: a small index is not to pay for a large one.
type page struct {
	dim    int
	codes  []int8    // c of each row, padded with zeros
	rests  []int8    // r of each row, likewise
	scales []float64 // 1/‖w‖, 0 without direction
	errors []float32 // at least ‖r‖/‖w‖ and what the scan rounds
	stored rowSet
	count  int
}

// leastRows is one word of a rowSet.
const leastRows = 64

func newPage(dim int) *page { return &page{dim: dim} }

// reach makes room for a row.
func (p *page) reach(row uint32) {
	if int(row) < len(p.scales) {
		return
	}
	rows := max(leastRows, 1<<bits.Len32(row))
	p.codes, p.rests = moved(p.codes, rows*padded(p.dim)), moved(p.rests, rows*padded(p.dim))
	p.scales, p.errors = moved(p.scales, rows), moved(p.errors, rows)
}

// moved returns a longer copy and overwrites what it copied.
func moved[T any](from []T, n int) []T {
	to := make([]T, n)
	copy(to, from)
	clear(from)
	return to
}

func (p *page) has(row uint32) bool { return p.stored.has(row) }

func (p *page) row(of []int8, row uint32) []int8 {
	n := padded(p.dim)
	return of[int(row)*n : (int(row)+1)*n]
}

// set stores v, which [index.Check] passed.
func (p *page) set(row uint32, v []float32) {
	p.reach(row)
	if !p.stored.has(row) {
		p.stored.add(row)
		p.count++
	}
	largest := 0.0
	for _, c := range v {
		largest = max(largest, math.Abs(float64(c)))
	}
	codes, rests := p.row(p.codes, row), p.row(p.rests, row)
	if largest == 0 {
		clear(codes)
		clear(rests)
		p.scales[row], p.errors[row] = 0, 0
		return
	}
	var whole, rest int64 // squares
	for i, c := range v {
		w := int64(math.RoundToEven(float64(c) / largest * maxLevel))
		code := int64(math.RoundToEven(float64(w) / step))
		r := w - step*code
		codes[i], rests[i] = int8(code), int8(r)
		whole += w * w
		rest += r * r
	}
	p.scales[row] = 1 / math.Sqrt(float64(whole))
	p.errors[row] = float32(math.Sqrt(float64(rest)/float64(whole))) + rounding
}

// rounding is more than the scan's arithmetic in float32 adds to its error: four roundings of numbers below 2.
const rounding = 1e-6

func (p *page) erase(row uint32) {
	clear(p.row(p.codes, row))
	clear(p.row(p.rests, row))
	p.scales[row], p.errors[row] = 0, 0
	p.stored[row/64] &^= 1 << (row % 64)
	p.count--
}

// selection is a page and which of its rows a search compares.
type selection struct {
	page *page
	rows rowSet
}

// allowed yields the selections that are not empty with the id of their first row, in ascending order. A selection is valid until the
// next. The caller holds mu.
func (x *Index) allowed(ids *roaring.Bitmap) iter.Seq2[uint32, *selection] {
	if ids.IsEmpty() {
		return func(func(uint32, *selection) bool) {}
	}
	// A dense set is read as words; that would be large for a set of few, high ids.
	if n := uint64(len(x.order)) * pageRows; uint64(ids.Maximum()) < 4*n && ids.GetCardinality() > n/64 {
		return x.dense(ids)
	}
	return x.sparse(ids)
}

func (x *Index) dense(ids *roaring.Bitmap) iter.Seq2[uint32, *selection] {
	return func(yield func(uint32, *selection) bool) {
		words := ids.ToDense()
		var s selection
		for _, number := range x.order {
			first := int(number) * len(s.rows)
			if first >= len(words) {
				return
			}
			s.page, s.rows = x.pages[number], rowSet{}
			copy(s.rows[:], words[first:])
			some := uint64(0)
			for i := range s.rows {
				s.rows[i] &= s.page.stored[i]
				some |= s.rows[i]
			}
			if some != 0 && !yield(number*pageRows, &s) {
				return
			}
		}
	}
}

func (x *Index) sparse(ids *roaring.Bitmap) iter.Seq2[uint32, *selection] {
	return func(yield func(uint32, *selection) bool) {
		var (
			s      selection
			number uint32
			some   bool
		)
		for it := ids.Iterator(); it.HasNext(); {
			id := it.Next()
			if id/pageRows != number || s.page == nil {
				if some && !yield(number*pageRows, &s) {
					return
				}
				number, some = id/pageRows, false
				if s.page = x.pages[number]; s.page == nil {
					it.AdvanceIfNeeded(nextPage(number))
					continue
				}
				s.rows = rowSet{}
			}
			if row := id % pageRows; s.page.has(row) {
				s.rows.add(row)
				some = true
			}
		}
		if some {
			yield(number*pageRows, &s)
		}
	}
}

// nextPage is the first id behind a page, or the last of all.
func nextPage(number uint32) uint32 {
	return uint32(min(uint64(number+1)*pageRows, math.MaxUint32))
}
