// Package lexical is a leaf: BM25 over Chinese and English text, in memory.
//
// Chinese is indexed by characters and pairs of characters, which ranks as well as word segmentation and needs no dictionary.
// Scores use k1 = 0.9 and b = 0.4. Traditional and simplified characters are different terms.
package lexical

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

const (
	k1 = 0.9
	b  = 0.4
)

// Hit is a document and its score.
type Hit struct {
	ID    uint32
	Score float64
}

// Index scores documents. It is safe for concurrent use. Use small ids without large gaps: a search needs memory for the largest.
type Index struct {
	mu       sync.RWMutex
	postings map[string][]posting // by term; ordered by id
	docs     map[uint32]document
	length   int64 // terms of all documents
	limit    uint32
}

type posting struct{ id, count uint32 }

type document struct {
	terms  []string // distinct
	length uint32
}

// New returns an empty index.
func New() *Index {
	return &Index{postings: map[string][]posting{}, docs: map[uint32]document{}}
}

// Add indexes text as document id, in place of what id was before.
func (x *Index) Add(id uint32, text string) {
	counts := map[string]uint32{}
	tokens := Tokens(text)
	for _, t := range tokens {
		counts[t]++
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(id)
	d := document{make([]string, 0, len(counts)), uint32(len(tokens))}
	for t, n := range counts {
		d.terms = append(d.terms, t)
		list := x.postings[t]
		i, _ := find(list, id)
		x.postings[t] = slices.Insert(list, i, posting{id, n})
	}
	x.docs[id] = d
	x.length += int64(d.length)
	x.limit = max(x.limit, id+1)
}

// Remove forgets document id.
func (x *Index) Remove(id uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(id)
}

func (x *Index) remove(id uint32) {
	d, ok := x.docs[id]
	if !ok {
		return
	}
	for _, t := range d.terms {
		list := x.postings[t]
		if i, found := find(list, id); found {
			list = slices.Delete(list, i, i+1)
		}
		if len(list) == 0 {
			delete(x.postings, t)
		} else {
			x.postings[t] = list
		}
	}
	delete(x.docs, id)
	x.length -= int64(d.length)
}

func find(list []posting, id uint32) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(p posting, id uint32) int { return cmp.Compare(p.id, id) })
}

// Len returns the number of documents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.docs)
}

// Search returns the n documents of allowed that match query best: highest score first, equal scores by id. Documents outside
// allowed are not scored; nil allows none. Documents that share no term with the query do not match.
func (x *Index) Search(query string, allowed *roaring.Bitmap, n int) []Hit {
	if allowed == nil || n <= 0 {
		return nil
	}
	counts := map[string]int{}
	for _, t := range Tokens(query) {
		counts[t]++
	}
	terms := make([]string, 0, len(counts))
	for t := range counts {
		terms = append(terms, t)
	}
	slices.Sort(terms) // floating-point sums depend on the order

	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.docs) == 0 {
		return nil
	}
	visible := make([]bool, x.limit)
	for it := allowed.Iterator(); it.HasNext(); {
		if id := it.Next(); id < x.limit {
			visible[id] = true
		}
	}
	average := max(1, float64(x.length)/float64(len(x.docs)))
	scores := make([]float64, x.limit)
	for _, t := range terms {
		list := x.postings[t]
		df := float64(len(list))
		weight := float64(counts[t]) * math.Log(1+(float64(len(x.docs))-df+0.5)/(df+0.5))
		for _, p := range list {
			if visible[p.id] {
				tf := float64(p.count)
				scores[p.id] += weight * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(x.docs[p.id].length)/average))
			}
		}
	}
	return best(scores, n)
}

// best returns the n highest positive scores.
func best(scores []float64, n int) []Hit {
	var h worstFirst
	for id, s := range scores {
		hit := Hit{uint32(id), s}
		switch {
		case s <= 0:
		case len(h) < n:
			heap.Push(&h, hit)
		case s > h[0].Score: // an equal score with a higher id is worse
			h[0] = hit
			heap.Fix(&h, 0)
		}
	}
	slices.SortFunc(h, compare)
	return h
}

func compare(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
}

type worstFirst []Hit

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return compare(h[i], h[j]) > 0 }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(x any)        { *h = append(*h, x.(Hit)) }
func (h *worstFirst) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
