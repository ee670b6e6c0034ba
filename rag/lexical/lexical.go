// Package lexical is a leaf: BM25 over Chinese and English text, in compact immutable segments.
//
// Chinese is indexed by characters and pairs of characters, which ranks as well as word segmentation and needs no dictionary.
// Traditional characters count as their simplified forms. Scores use k1 = 0.9 and b = 0.4.
//
// A [Segment] is one slice of bytes: made by a [Builder] or by [Merge], read by [Open], searched with others by [Rank]. [Index] keeps
// documents that come and go in segments of its own.
package lexical

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// Index finds documents in memory. It is safe for concurrent use: a search sees a change whole or not at all, and is not held up by one. Use
// ids without large gaps.
//
// Changes make new segments, and segments of about one size become one when there are several, so that a document is written a
// few times in all. The terms of a removed document stay in memory until its segment is next written, which is when half of it is gone at the
// latest; no search reads them.
type Index struct {
	change sync.Mutex // one change at a time

	mu    sync.RWMutex
	parts []indexPart // replaced, never changed
}

// indexPart is a segment and which of its documents are the last of their ids. Both are immutable.
type indexPart struct {
	segment *Segment
	live    *roaring.Bitmap
}

// Document is a text and the id it is found by.
type Document struct {
	ID   uint32
	Text string
}

// New returns an empty index.
func New() *Index { return &Index{} }

// Add indexes documents, each in place of what its id was before; of several with one id the last counts. They are found together or, if
// there is an error, not at all: a text of 16 million terms is one.
func (x *Index) Add(docs ...Document) error {
	texts := map[uint32]string{}
	for _, d := range docs {
		texts[d.ID] = d.Text
	}
	x.change.Lock()
	defer x.change.Unlock()
	var added []indexPart
	var b Builder
	flush := func() error {
		part, err := newPart(b.Build())
		if err == nil {
			added = append(added, part)
		}
		return err
	}
	changed := roaring.New()
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		if b.Len() > 0 && id/MaxSpan != b.first/MaxSpan {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := b.Add(id, texts[id]); err != nil {
			return fmt.Errorf("index text: %w", err)
		}
		changed.Add(id)
	}
	if b.Len() == 0 {
		return nil
	}
	if err := flush(); err != nil {
		return err
	}
	return x.replace(append(x.without(changed), added...))
}

// Remove forgets documents. Unknown ids are no error. If there is an error nothing was forgotten.
func (x *Index) Remove(ids ...uint32) error {
	x.change.Lock()
	defer x.change.Unlock()
	return x.replace(x.without(roaring.BitmapOf(ids...)))
}

// without returns the parts without some documents. The caller holds change.
func (x *Index) without(ids *roaring.Bitmap) []indexPart {
	out := make([]indexPart, 0, len(x.parts)+1)
	for _, p := range x.parts {
		if p.live.Intersects(ids) {
			p.live = roaring.AndNot(p.live, ids)
		}
		if !p.live.IsEmpty() {
			out = append(out, p)
		}
	}
	return out
}

// replace compacts parts and makes them the index. The caller holds change.
func (x *Index) replace(parts []indexPart) error {
	parts, err := compact(parts)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parts = parts
	return nil
}

// fanIn is how many segments of about one size become one. A higher number writes less and searches more segments.
const fanIn = 8

// compact merges segments of one size class if there are fanIn of them, and rewrites those that are half empty.
func compact(parts []indexPart) ([]indexPart, error) {
	type class struct{ span, size int }
	for i, p := range parts {
		if 2*int(p.live.GetCardinality()) <= p.segment.Len() {
			merged, err := mergeParts(p)
			if err != nil {
				return nil, err
			}
			parts[i] = merged
		}
	}
	for {
		classes := map[class][]int{}
		var full []int
		for i, p := range parts {
			c := class{int(p.segment.first / MaxSpan), bits.Len(uint(p.segment.Len())) / bits.Len(fanIn-1)}
			classes[c] = append(classes[c], i)
			if len(classes[c]) == fanIn {
				full = classes[c]
				break
			}
		}
		if full == nil {
			return parts, nil
		}
		var some []indexPart
		for _, i := range full {
			some = append(some, parts[i])
		}
		merged, err := mergeParts(some...)
		if err != nil {
			return nil, err
		}
		for _, i := range slices.Backward(full) {
			parts = slices.Delete(parts, i, i+1)
		}
		parts = append(parts, merged)
	}
}

func mergeParts(parts ...indexPart) (indexPart, error) {
	var sources []Source
	for _, p := range parts {
		sources = append(sources, Source{p.segment, func(id uint32) (uint32, bool) { return id, p.live.Contains(id) }})
	}
	data, err := Merge(sources...)
	if err != nil {
		return indexPart{}, fmt.Errorf("merge segments: %w", err)
	}
	return newPart(data)
}

// newPart returns the part of a segment that was made here, which needs no check.
func newPart(data []byte) (indexPart, error) {
	s, err := layOut(data)
	if err != nil {
		return indexPart{}, err
	}
	return indexPart{s, s.Docs()}, nil
}

func (x *Index) snapshot() []indexPart {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.parts
}

// Len returns the number of documents.
func (x *Index) Len() int {
	n := 0
	for _, p := range x.snapshot() {
		n += int(p.live.GetCardinality())
	}
	return n
}

// Size returns the bytes of all segments.
func (x *Index) Size() int {
	n := 0
	for _, p := range x.snapshot() {
		n += p.segment.Size()
	}
	return n
}

// Rank prepares a ranking of the documents of allowed; nil allows none. It is as if the others did not exist: they are not scored, and
// how often terms occur and how long documents are is taken from those allowed. Later changes of the index do not change the ranking.
func (x *Index) Rank(query string, allowed *roaring.Bitmap) (Ranking, error) {
	if allowed == nil {
		return Ranking{}, nil
	}
	var parts []Part
	for _, p := range x.snapshot() {
		parts = append(parts, Part{Segment: p.segment, Allowed: roaring.And(p.live, allowed)})
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(b.Segment.Len(), a.Segment.Len()) }) // the best are likely in the largest
	return Rank(Parse(query), parts)
}
