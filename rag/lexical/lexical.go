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
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// Index finds documents in memory. It is safe for concurrent use: a search sees a change whole or not at all, and is not held up by one. Use
// ids without large gaps.
//
// Changes make new segments, and segments of about one size become one when there are several, so that a document is written a
// few times in all. A change itself writes small segments only; large ones wait for [Index.Compact]. The terms of a removed document stay in
// memory until its segment is next written, which is when half of it is gone at the latest; no search reads them.
type Index struct {
	compacting sync.Mutex // one Compact at a time; locked before change
	change     sync.Mutex // one change at a time

	mu    sync.RWMutex
	parts []indexPart // replaced, never changed

	analysed func() // tests: called when the texts of an Add are analysed, before it changes anything; may be nil
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
	if x.analysed != nil {
		x.analysed()
	}
	x.change.Lock()
	defer x.change.Unlock()
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

// replace compacts small parts and makes all the index. The caller holds change.
func (x *Index) replace(parts []indexPart) error {
	for {
		some := due(parts, smallDocs)
		if some == nil {
			break
		}
		merged, err := mergeParts(some...)
		if err != nil {
			return err
		}
		parts = exchange(parts, some, merged)
	}
	x.set(parts)
	return nil
}

func (x *Index) set(parts []indexPart) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parts = parts
}

// Compact merges large segments until none is due. Searches and changes go on meanwhile; a second Compact returns at once while
// one runs. Call it after changes, where nothing waits.
func (x *Index) Compact() error {
	if !x.compacting.TryLock() {
		return nil
	}
	defer x.compacting.Unlock()
	for {
		some := due(x.snapshot(), math.MaxInt)
		if some == nil {
			return nil
		}
		merged, err := mergeParts(some...)
		if err != nil {
			return err
		}
		x.takeOver(some, merged)
	}
}

// takeOver puts a merged part in place of its sources, without what was removed from them since. If a change has written one of them again
// meanwhile, as it does with small ones, nothing is put: what is due then is merged anew.
func (x *Index) takeOver(some []indexPart, merged indexPart) {
	x.change.Lock()
	defer x.change.Unlock()
	live, rewritten := roaring.New(), roaring.New()
	for _, p := range x.parts {
		if slices.ContainsFunc(some, func(o indexPart) bool { return o.segment == p.segment }) {
			live.Or(p.live)
		} else {
			rewritten.Or(p.live)
		}
	}
	for _, o := range some { // documents of a source that is gone are removed, or in a part that a change made
		if !slices.ContainsFunc(x.parts, func(p indexPart) bool { return o.segment == p.segment }) && o.live.Intersects(rewritten) {
			return
		}
	}
	merged.live = roaring.And(merged.live, live)
	x.set(exchange(x.parts, some, merged))
}

// exchange returns parts with one in place of some of them; nothing is left of it if it is empty.
func exchange(parts, some []indexPart, merged indexPart) []indexPart {
	out := make([]indexPart, 0, len(parts))
	for _, p := range parts {
		if !slices.ContainsFunc(some, func(o indexPart) bool { return o.segment == p.segment }) {
			out = append(out, p)
		}
	}
	if !merged.live.IsEmpty() {
		out = append(out, merged)
	}
	return out
}

const (
	fanIn     = 8    // how many segments of about one size become one; a higher number writes less and searches more segments
	smallDocs = 4096 // documents of a merge that a change does itself
)

// due returns the parts that are to be merged next, with at most so many documents: fanIn of one size class, or one that is half
// empty; nil if there are none.
func due(parts []indexPart, most int) []indexPart {
	type class struct{ span, size int }
	classes := map[class][]indexPart{}
	docs := map[class]int{}
	for _, p := range parts {
		n := int(p.live.GetCardinality())
		if 2*n <= p.segment.Len() && p.segment.Len() <= most {
			return []indexPart{p}
		}
		c := class{int(p.segment.first / MaxSpan), bits.Len(uint(p.segment.Len())) / bits.Len(fanIn-1)}
		classes[c] = append(classes[c], p)
		if docs[c] += n; len(classes[c]) == fanIn {
			if docs[c] <= most {
				return classes[c]
			}
			delete(classes, c)
			docs[c] = 0
		}
	}
	return nil
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
