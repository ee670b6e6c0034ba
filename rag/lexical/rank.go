package lexical

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

const (
	k1 = 0.9
	b  = 0.4
)

// Query is a text as the index searches it. It is immutable; the zero value finds nothing.
type Query struct {
	terms  []string // ordered
	counts []int    // how often the text has each
}

// What a query has at most. No sum of scores overflows then, and a query costs a bounded number of lists.
const (
	MaxTerms = 1024 // terms that differ
	maxCount = 16   // of one term
)

// Parse makes a query of a text, with the analyzer of the documents. Of a text with more than [MaxTerms] terms that differ it takes the
// first ones; a term counts at most 16 times.
func Parse(text string) Query {
	counts := map[string]int{}
	analyze(text, func(term []byte) {
		if n := counts[string(term)]; n > 0 {
			counts[string(term)] = min(n+1, maxCount)
		} else if len(counts) < MaxTerms {
			counts[string(term)] = 1
		}
	})
	q := Query{terms: slices.Sorted(maps.Keys(counts))}
	for _, t := range q.terms {
		q.counts = append(q.counts, counts[t])
	}
	return q
}

// Either returns a query with the terms of all of them, those of the first queries if they have more than [MaxTerms] that differ. A term counts as often as in the
// query that has it most.
func Either(queries ...Query) Query {
	if len(queries) == 1 {
		return queries[0]
	}
	counts := map[string]int{}
	for _, q := range queries {
		for i, term := range q.terms {
			if n := counts[term]; n > 0 || len(counts) < MaxTerms {
				counts[term] = max(n, q.counts[i])
			}
		}
	}
	out := Query{terms: slices.Sorted(maps.Keys(counts))}
	for _, t := range out.terms {
		out.counts = append(out.counts, counts[t])
	}
	return out
}

// Part is a segment and which of its documents may be found.
type Part struct {
	Segment *Segment
	// Allowed are ids of the segment. Others are as if they did not exist: they are not scored, and how often terms occur and how long
	// documents are is taken from those allowed, over all parts. Ids that the segment does not have change nothing. Nil allows none.
	Allowed *roaring.Bitmap
	// Base is added to the segment's ids in the ranking. Sums must be distinct over all parts and fit 32 bits.
	Base uint32
}

// Hit is a document and its score.
type Hit struct {
	ID    uint32 // with the base of its part
	Score float64
}

// Term is a term of a query.
type Term struct {
	Text   string
	Weight float64
}

// Ranking is a query and what it is searched in. It is safe for concurrent use. The zero value is empty.
//
// Scores are sums of fixed-point numbers: a score depends on the documents allowed, not on how they lie in segments, nor on
// how it was found.
type Ranking struct {
	terms []Term
	parts []rankedPart
	norms *norms
}

// rankedPart is a part as one query sees it.
type rankedPart struct {
	Part

	docs    int           // allowed
	few     []uint32      // what is allowed, as ids from the first, where that is less than half
	lists   []queriedList // those that exist
	visible []uint64      // bits of what is allowed, by id from the first; nil: everything
}

type queriedList struct {
	list

	term int // in Ranking.terms
}

// Rank prepares a ranking of the allowed documents of all parts, as one collection. It reads the statistics; [Ranking.Best] and
// [Ranking.Scores] read the postings. The bitmaps must not change until the ranking is no longer used. An error has [ErrSegment] in its
// chain.
func Rank(q Query, parts []Part) (Ranking, error) {
	r := Ranking{terms: make([]Term, len(q.terms))}
	docs, length := 0, uint64(0)
	frequencies := make([]int, len(q.terms))
	for _, p := range parts {
		some := choose(p)
		if some.docs == 0 {
			continue
		}
		part := rankedPart{Part: p, docs: some.docs, visible: some.visible}
		if !some.hidden {
			part.few = some.few
		}
		docs += some.docs
		length += some.length
		find := finder{segment: p.Segment}
		for i, t := range q.terms {
			l, found, err := find.next(t)
			if err != nil {
				return Ranking{}, err
			}
			if !found {
				continue
			}
			n, err := some.count(p.Segment, l)
			if err != nil {
				return Ranking{}, err
			}
			if n > 0 {
				frequencies[i] += n
				part.lists = append(part.lists, queriedList{l, i})
			}
		}
		if len(part.lists) > 0 {
			r.parts = append(r.parts, part)
		}
	}
	for i, t := range q.terms {
		df := float64(frequencies[i])
		r.terms[i] = Term{t, float64(q.counts[i]) * math.Log(1+(float64(docs)-df+0.5)/(df+0.5))}
	}
	r.norms = newNorms(max(1, float64(length)/max(1, float64(docs))))
	return r, nil
}

// chosen is what a filter leaves of a segment.
type chosen struct {
	docs    int
	length  uint64
	visible []uint64 // nil: everything
	counted []uint64 // the smaller one of what is visible and what is hidden
	few     []uint32 // the same as ids from the first
	hidden  bool     // counted is what is hidden
}

func choose(p Part) chosen {
	s := p.Segment
	if p.Allowed == nil || s.docs == 0 {
		return chosen{}
	}
	allowed := roaring.And(s.ids, p.Allowed)
	c := chosen{docs: int(allowed.GetCardinality())}
	if c.docs == int(s.docs) {
		c.length = s.total
		return c
	}
	if c.docs == 0 {
		return c
	}
	c.visible = s.bits(allowed)
	smaller := allowed
	if c.hidden = c.docs > int(s.docs)/2; c.hidden {
		smaller = roaring.AndNot(s.ids, allowed)
		c.counted = s.bits(smaller)
	} else {
		c.counted = c.visible
	}
	c.few = smaller.ToArray()
	for i := range c.few {
		c.few[i] -= s.first
		c.length += uint64(s.stored(c.few[i]) - 1)
	}
	if c.hidden {
		c.length = s.total - c.length
	}
	return c
}

// bits returns a bitmap of the segment's documents as bits by id from the first.
func (s *Segment) bits(ids *roaring.Bitmap) []uint64 {
	out := make([]uint64, (s.span+63)/64)
	for it := ids.Iterator(); it.HasNext(); {
		at := it.Next() - s.first
		out[at/64] |= 1 << (at % 64)
	}
	return out
}

// seekCost is about how many postings can be read while one is sought.
const seekCost = 32

// count returns how many visible documents a list has.
func (c *chosen) count(s *Segment, l list) (int, error) {
	if c.visible == nil {
		return int(l.docs), nil
	}
	n, cur := 0, s.cursor(l)
	if len(c.few)*seekCost < int(l.docs) {
		for _, id := range c.few {
			if !cur.seek(id) {
				break
			}
			if cur.ids[cur.pos] == id {
				n++
			}
		}
	} else {
		for ; cur.open(); cur.block++ {
			for _, id := range cur.ids[:cur.n] {
				n += int(c.counted[id/64] >> (id % 64) & 1)
			}
		}
	}
	if cur.bad {
		return 0, errChanged()
	}
	if c.hidden {
		n = int(l.docs) - n
	}
	return n, nil
}

// Terms returns the terms of the query with what each is worth: its inverse document frequency among the allowed documents, times how often
// the query has it. They are ordered by term.
func (r Ranking) Terms() []Term { return slices.Clone(r.terms) }

// Scores returns the scores of documents, 0 for those that share no term with the query, are not there or not allowed.
func (r Ranking) Scores(ids []uint32) ([]float64, error) {
	sums := make([]int64, len(ids))
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(ids[x], ids[y]) })
	for _, p := range r.parts {
		s := p.Segment
		for _, l := range p.lists {
			c := s.cursor(l.list)
			weight := r.terms[l.term].Weight
			for _, i := range order {
				at := ids[i] - p.Base - s.first
				if ids[i] < p.Base || ids[i]-p.Base < s.first || at >= s.span || !p.Allowed.Contains(ids[i]-p.Base) {
					continue
				}
				if !c.seek(at) {
					break
				}
				if c.ids[c.pos] == at {
					sums[i] += r.norms.part(weight, c.count(c.pos), s.stored(at)-1)
				}
			}
			if c.bad {
				return nil, errChanged()
			}
		}
	}
	out := make([]float64, len(ids))
	for i, sum := range sums {
		out[i] = float64(sum) / unit
	}
	return out, nil
}

// unit is 1 in the fixed-point numbers that scores are sums of. A query has at most MaxTerms terms that count maxCount times, each worth
// less than 2^5 at a time, so that sums stay below 2^20 units and do not overflow.
const unit = 1 << 42

// norms is what the length of a document does to its scores.
type norms struct {
	average float64
	short   [256]float64 // by length
}

func newNorms(average float64) *norms {
	n := &norms{average: average}
	for i := range n.short {
		n.short[i] = n.compute(float64(i))
	}
	return n
}

func (n *norms) compute(length float64) float64 { return k1 * (1 - b + b*length/n.average) }

// part returns what a term adds to the score of a document that has it count times.
func (n *norms) part(weight float64, count, length uint32) int64 {
	var norm float64
	if length < uint32(len(n.short)) {
		norm = n.short[length]
	} else {
		norm = n.compute(float64(length))
	}
	tf := float64(count)
	return int64(weight*(tf*(k1+1)/(tf+norm))*unit + 0.5)
}

// bound returns what a term adds at most to a document within an impact. One unit more makes good for rounding.
func (n *norms) bound(weight float64, m impact) int64 {
	if m.count == unbounded {
		return int64(weight*(k1+1)*unit) + 2
	}
	return n.part(weight, uint32(m.count), uint32(m.length)) + 1
}
