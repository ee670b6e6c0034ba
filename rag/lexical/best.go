package lexical

import (
	"cmp"
	"container/heap"
	"slices"
)

// window is how many ids are scored at once: their sums stay in the processor's cache.
const window = 1 << 14

// Best returns the n documents that match best: highest score first, equal scores by id. Documents that share no term with the
// query do not match. It stops early where the rest cannot be among the best, and the answer is the same as if it had not.
func (r Ranking) Best(n int) ([]Hit, error) {
	if n <= 0 {
		return nil, nil
	}
	top := topHits{limit: n}
	var sums [window]int64
	for i := range r.parts {
		p := partSearch{ranking: r, part: &r.parts[i], top: &top, sums: &sums}
		search := p.run
		if part := p.part; part.few != nil && part.docs*gatherShare < int(part.Segment.span) {
			search = p.gather
		}
		if err := search(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(top.hits, compareScored)
	out := make([]Hit, len(top.hits))
	for i, h := range top.hits {
		out[i] = Hit{h.id, float64(h.score) / unit}
	}
	return out, nil
}

// gatherShare is how many times the visible documents must fit a segment for them to be looked up one by one.
const gatherShare = 16

// gather scores the few documents that are visible, one by one.
func (p *partSearch) gather() error {
	s, few := p.part.Segment, p.part.few
	sums := make([]int64, len(few))
	for _, q := range p.part.lists {
		weight, c := p.ranking.terms[q.term].Weight, s.cursor(q.list)
		add := func(i int) { sums[i] += p.ranking.norms.part(weight, c.count(c.pos), s.stored(few[i])-1) }
		if len(few)*seekCost < int(q.docs) {
			for i, id := range few {
				if !c.seek(id) {
					break
				}
				if c.ids[c.pos] == id {
					add(i)
				}
			}
		} else {
			for i := 0; i < len(few) && c.open(); c.block++ {
				for c.pos = 0; i < len(few) && c.pos < c.n; {
					switch id := c.ids[c.pos]; {
					case id < few[i]:
						c.pos++
					case id > few[i]:
						i++
					default:
						add(i)
						i++
						c.pos++
					}
				}
			}
		}
		if c.bad {
			return errChanged()
		}
	}
	first := s.first + p.part.Base
	for i, sum := range sums {
		if sum > 0 {
			p.top.offer(scored{sum, first + few[i]})
		}
	}
	return nil
}

// partSearch finds the best of one part.
//
// It is MaxScore in windows of ids. Lists are ordered by what they can add at most. Those at the low end that together cannot lift a document
// among the best are optional: only documents of the other lists are candidates, and the optional lists are asked for those alone, block
// maxima first. As better documents are found, more lists become optional, and when all are, nothing better is left.
type partSearch struct {
	ranking Ranking
	part    *rankedPart
	top     *topHits
	sums    *[window]int64 // all 0 between windows

	lists    []*scoredList // by bound
	optional int           // how many of them are
	below    []int64       // below[i] is the sum of the bounds of lists[:i]
	found    []uint32      // candidates of the window, from its first id
}

// scoredList is a list and what its postings add to scores.
type scoredList struct {
	*cursor

	weight float64
	bound  int64
	table  *[2][256]int64 // by count less one and by length; nil for lists too short to be worth it
}

func (p *partSearch) run() error {
	s, norms := p.part.Segment, p.ranking.norms
	for _, q := range p.part.lists {
		l := &scoredList{cursor: s.cursor(q.list), weight: p.ranking.terms[q.term].Weight}
		l.bound = norms.bound(l.weight, l.impact)
		if q.docs > 4*blockLen {
			l.table = new([2][256]int64)
			for i := range l.table[0] {
				l.table[0][i], l.table[1][i] = norms.part(l.weight, 1, uint32(i)), norms.part(l.weight, 2, uint32(i))
			}
		}
		p.lists = append(p.lists, l)
	}
	slices.SortStableFunc(p.lists, func(x, y *scoredList) int { return cmp.Compare(x.bound, y.bound) })
	p.below = make([]int64, len(p.lists)+1)
	for i, l := range p.lists {
		p.below[i+1] = p.below[i] + l.bound
	}
	for {
		for p.optional < len(p.lists) && p.below[p.optional+1] < p.top.floor() {
			p.optional++
		}
		from, more := p.nextID()
		if !more {
			break
		}
		p.window(from, min(s.span, from+window))
	}
	for _, l := range p.lists {
		if l.bad {
			return errChanged()
		}
	}
	return nil
}

// nextID returns the lowest id that a list which is not optional still has.
func (p *partSearch) nextID() (uint32, bool) {
	least, some := uint32(0), false
	for _, l := range p.lists[p.optional:] {
		if l.open() {
			if id := l.ids[l.pos]; !some || id < least {
				least, some = id, true
			}
		}
	}
	return least, some
}

// window scores the ids from the first up to, not including, the last.
func (p *partSearch) window(from, to uint32) {
	for _, l := range p.lists[p.optional:] {
		p.addAll(l, from, to)
	}
	p.candidates(from, to)
	for i := p.optional - 1; i >= 0 && len(p.found) > 0; i-- {
		p.addOptional(p.lists[i], p.below[i], from, to)
	}
	first := p.part.Segment.first + p.part.Base + from
	for _, at := range p.found {
		p.top.offer(scored{p.sums[at], first + at})
	}
	clear(p.sums[:to-from])
}

// addAll adds a list's postings of the window.
func (p *partSearch) addAll(l *scoredList, from, to uint32) {
	s, norms := p.part.Segment, p.ranking.norms
	for l.open() {
		l.readCounts()
		ids, counts := l.ids[l.pos:l.n], l.counts[l.pos:l.n]
		counts = counts[:len(ids)]
		for i, id := range ids {
			if id >= to {
				l.pos += i
				return
			}
			length, less := s.stored(id)-1, counts[i]
			if l.table != nil && less < 2 && length < 256 {
				p.sums[(id-from)%window] += l.table[less][length]
			} else {
				p.sums[(id-from)%window] += norms.part(l.weight, less+1, length)
			}
		}
		l.block++
	}
}

// candidates sets found to the documents of the window that may be among the best.
func (p *partSearch) candidates(from, to uint32) {
	p.found = p.found[:0]
	least := max(1, p.top.floor()-p.below[p.optional])
	visible := p.part.visible
	for at, sum := range p.sums[:to-from] {
		if sum < least {
			continue
		}
		if id := from + uint32(at); visible == nil || visible[id/64]>>(id%64)&1 == 1 {
			p.found = append(p.found, uint32(at))
		}
	}
}

// addOptional adds a list's postings of the candidates, and drops those that it and the lists below, which add at most rest, cannot
// lift among the best.
func (p *partSearch) addOptional(l *scoredList, rest int64, from, to uint32) {
	floor, s, norms := p.top.floor(), p.part.Segment, p.ranking.norms
	if inWindow := int(uint64(l.docs) * uint64(to-from) / uint64(s.span)); len(p.found)*seekCost > inWindow {
		if l.seek(from) {
			p.addAll(l, from, to)
		}
		p.found = slices.DeleteFunc(p.found, func(at uint32) bool { return p.sums[at]+rest < floor })
		return
	}
	kept := p.found[:0]
	for _, at := range p.found {
		id := from + at
		if p.sums[at]+l.bound+rest < floor {
			continue
		}
		if l.reach(id) && p.sums[at]+norms.bound(l.weight, l.rowImpact(l.block))+rest >= floor && l.seek(id) && l.ids[l.pos] == id {
			p.sums[at] += norms.part(l.weight, l.count(l.pos), s.stored(id)-1)
		}
		if p.sums[at]+rest >= floor {
			kept = append(kept, at)
		}
	}
	p.found = kept
}

type scored struct {
	score int64
	id    uint32
}

func compareScored(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
}

// topHits keeps the best. Its heap has the worst of them on top.
type topHits struct {
	limit int
	hits  []scored
}

// floor returns the score that a document needs at least to be kept; 0 means any.
func (t *topHits) floor() int64 {
	if len(t.hits) < t.limit {
		return 0
	}
	return t.hits[0].score
}

func (t *topHits) offer(h scored) {
	if len(t.hits) < t.limit {
		heap.Push(t, h)
	} else if compareScored(h, t.hits[0]) < 0 {
		t.hits[0] = h
		heap.Fix(t, 0)
	}
}

func (t *topHits) Len() int           { return len(t.hits) }
func (t *topHits) Less(i, j int) bool { return compareScored(t.hits[i], t.hits[j]) > 0 }
func (t *topHits) Swap(i, j int)      { t.hits[i], t.hits[j] = t.hits[j], t.hits[i] }
func (t *topHits) Push(x any)         { t.hits = append(t.hits, x.(scored)) }
func (t *topHits) Pop() any {
	last := t.hits[len(t.hits)-1]
	t.hits = t.hits[:len(t.hits)-1]
	return last
}
