package lexical

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
)

// Source is a segment as [Merge] takes it in. Renumber gives the new id of a document, or false to leave it out; it must keep the order of
// ids. Nil keeps every document under its id.
type Source struct {
	Segment  *Segment
	Renumber func(id uint32) (uint32, bool)
}

// Merge returns one segment with the documents of all sources, as if it had been built from their texts: the same bytes. It needs no texts.
// Two documents with one new id are an error, as is a span of more than [MaxSpan]. What was left out is not in the new bytes.
func Merge(sources ...Source) ([]byte, error) {
	renumbered := make([][]uint32, len(sources)) // by source and old id from its first: the new id plus one, 0 for none
	first, last, some := uint32(0), uint32(0), false
	for i, src := range sources {
		numbers, err := src.numbers()
		if err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
		renumbered[i] = numbers
		for _, n := range numbers {
			if n == 0 {
				continue
			}
			if id := n - 1; !some {
				first, last, some = id, id, true
			} else {
				first, last = min(first, id), max(last, id)
			}
		}
	}
	w := writer{first: first}
	if !some {
		return w.bytes(), nil
	}
	if last-first >= MaxSpan {
		return nil, fmt.Errorf("documents %d to %d do not fit one segment", first, last)
	}
	w.lengths = make([]uint32, last-first+1)
	heads := make([]*termReader, len(sources))
	for i, src := range sources {
		for old, n := range renumbered[i] {
			if n == 0 {
				continue
			}
			if w.lengths[n-1-first] != 0 {
				return nil, fmt.Errorf("two documents would be %d", n-1)
			}
			w.lengths[n-1-first] = src.Segment.stored(uint32(old))
		}
		heads[i] = src.Segment.readTerms()
		heads[i].next()
	}
	var out postings
	for {
		var term []byte
		for _, h := range heads {
			if h.ok && (term == nil || bytes.Compare(h.term, term) < 0) {
				term = h.term
			}
		}
		if term == nil {
			break
		}
		term = bytes.Clone(term)
		out.ids, out.counts = out.ids[:0], out.counts[:0]
		for i, h := range heads {
			if !h.ok || !bytes.Equal(h.term, term) {
				continue
			}
			c := h.segment.cursor(h.list)
			for c.open() {
				for j, id := range c.ids[:c.n] {
					if n := renumbered[i][id]; n != 0 {
						out.ids, out.counts = append(out.ids, n-1-first), append(out.counts, c.count(j))
					}
				}
				c.block++
			}
			if c.bad {
				return nil, fmt.Errorf("source %d: %w", i, errChanged())
			}
			h.next()
		}
		if !sort.IsSorted(&out) {
			sort.Sort(&out)
		}
		if len(out.ids) > 0 {
			w.add(term, out.ids, out.counts)
		}
	}
	for i, h := range heads {
		if h.err != nil {
			return nil, fmt.Errorf("source %d: %w", i, h.err)
		}
	}
	return w.bytes(), nil
}

// numbers returns the new ids of a source's documents.
func (src Source) numbers() ([]uint32, error) {
	s := src.Segment
	out, last := make([]uint32, s.span), uint32(0)
	for at := range s.span {
		if s.stored(at) == 0 {
			continue
		}
		id, keep := s.first+at, true
		if src.Renumber != nil {
			id, keep = src.Renumber(id)
		}
		switch {
		case !keep:
			continue
		case id > MaxID || id+1 <= last:
			return nil, errors.New("new ids do not keep the order")
		}
		out[at], last = id+1, id+1
	}
	return out, nil
}

// postings are ordered by id.
type postings struct{ ids, counts []uint32 }

func (p *postings) Len() int           { return len(p.ids) }
func (p *postings) Less(i, j int) bool { return p.ids[i] < p.ids[j] }
func (p *postings) Swap(i, j int) {
	p.ids[i], p.ids[j] = p.ids[j], p.ids[i]
	p.counts[i], p.counts[j] = p.counts[j], p.counts[i]
}
