package sq8

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/rag/index"
)

// gatherBelow is the number of a page's rows below which reading them one by one is faster than reading all.
const gatherBelow = pageRows / 8

// search collects the best of the rows that it is shown. Its memory is bounded by TopK, whatever the vectors are.
type search struct {
	kernel kernel.Kernels
	query  []int16
	scale  float64 // 1/‖query‖
	k      int

	floor      float32     // k rows score this much or more; −∞ as long as that is not known
	candidates []candidate // not yet scored in full
	best       []index.Hit // of those that are: the k best

	sums     [pageRows]int32 // of the page that is scanned
	rests    [pageRows]int32 // scratch
	at, rows []uint32        // scratch: rows of a page
	low      []float32       // scratch
}

// candidate is a row that may be one of the best.
type candidate struct {
	page  *page
	id    uint32
	sum   int32   // query · codes
	score float32 // by the codes
}

func (c *candidate) row() uint32     { return c.id % pageRows }
func (c *candidate) error() float32  { return c.page.errors[c.row()] }
func (c *candidate) lowest() float32 { return c.score - c.error() }

func newSearch(k kernel.Kernels, query []int16, norm float64, topK int) *search {
	s := &search{kernel: k, query: query, k: topK, floor: float32(math.Inf(-1))}
	if norm > 0 {
		s.scale = 1 / norm
	}
	return s
}

// scan compares the query with rows of a page, whose first id is first.
func (s *search) scan(first uint32, p *page, rows *rowSet) {
	factor := step * s.scale
	if rows.count() < gatherBelow {
		s.at = s.at[:0]
		for i, w := range rows {
			for ; w != 0; w &= w - 1 {
				s.at = append(s.at, uint32(64*i+bits.TrailingZeros64(w)))
			}
		}
		s.kernel.ScanRowsAt(s.sums[:len(s.at)], p.codes, s.query, s.at)
		for i, row := range s.at {
			if score := float32(float64(s.sums[i]) * factor * p.scales[row]); score+p.errors[row] >= s.floor {
				s.keep(candidate{p, first + row, s.sums[i], score})
			}
		}
		return
	}
	s.kernel.ScanRows(s.sums[:len(p.scales)], p.codes, s.query)
	for i, w := range rows {
		if w == 0 {
			continue // perhaps there is no room for them
		}
		// Arrays of 64, so that the loop checks no bounds.
		sums, scales, errors := (*[64]int32)(s.sums[64*i:]), (*[64]float64)(p.scales[64*i:]), (*[64]float32)(p.errors[64*i:])
		for ; w != 0; w &= w - 1 {
			j := bits.TrailingZeros64(w) & 63
			if score := float32(float64(sums[j]) * factor * scales[j]); score+errors[j] >= s.floor {
				s.keep(candidate{p, first + uint32(64*i+j), sums[j], score})
			}
		}
	}
}

func (s *search) keep(c candidate) {
	s.candidates = append(s.candidates, c)
	limit := s.k + 2*pageRows
	if len(s.candidates) < limit {
		return
	}
	if s.prune(); len(s.candidates) > limit/2 {
		s.settle()
	}
}

// prune raises the floor to the k-th best of the scores that are certain, and drops the candidates that cannot reach it.
func (s *search) prune() {
	if len(s.candidates)+len(s.best) < s.k {
		return
	}
	s.low = s.low[:0]
	for i := range s.candidates {
		s.low = append(s.low, s.candidates[i].lowest())
	}
	for _, h := range s.best {
		s.low = append(s.low, h.Score)
	}
	slices.Sort(s.low)
	s.floor = max(s.floor, s.low[len(s.low)-s.k])
	s.candidates = slices.DeleteFunc(s.candidates, func(c candidate) bool { return c.score+c.error() < s.floor })
}

// settle scores the candidates in full.
func (s *search) settle() {
	for left := s.candidates; len(left) > 0; {
		p, n := left[0].page, 0
		s.rows = s.rows[:0]
		for ; n < min(len(left), pageRows) && left[n].page == p; n++ {
			s.rows = append(s.rows, left[n].row())
		}
		rests := s.rests[:n]
		s.kernel.ScanRowsAt(rests, p.rests, s.query, s.rows)
		for i, c := range left[:n] {
			sum := float64(step*int64(c.sum) + int64(rests[i]))
			s.best = append(s.best, index.Hit{ID: c.id, Score: float32(sum * (s.scale * p.scales[c.row()]))})
		}
		left = left[n:]
	}
	s.candidates = s.candidates[:0]
	slices.SortFunc(s.best, func(a, b index.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	if len(s.best) >= s.k {
		s.best = s.best[:s.k]
		s.floor = max(s.floor, s.best[s.k-1].Score)
	}
}

// hits returns the best of all.
func (s *search) hits() []index.Hit {
	s.prune()
	s.settle()
	return slices.Clip(s.best)
}
