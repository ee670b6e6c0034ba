// Package lexical is a leaf: BM25 over Chinese and English text, in memory.
//
// Chinese is indexed by characters and pairs of characters, which ranks as well as word segmentation and needs no dictionary.
// Scores use k1 = 0.9 and b = 0.4. Traditional and simplified characters are different terms.
package lexical

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

const (
	k1 = 0.9
	b  = 0.4
)


// Index scores documents. It is safe for concurrent use. Use small ids without large gaps: memory is needed up to the largest.
type Index struct {
	mu       sync.RWMutex
	postings map[string][]posting // by term; ordered by id
	docs     []document           // by id
	count    int                  // documents that are present
}

type posting struct{ id, count uint32 }

type document struct {
	present bool
	terms   []string // distinct
	length  uint32
}

// New returns an empty index.
func New() *Index { return &Index{postings: map[string][]posting{}} }

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
	for uint32(len(x.docs)) <= id {
		x.docs = append(x.docs, document{})
	}
	d := document{present: true, terms: make([]string, 0, len(counts)), length: uint32(len(tokens))}
	for t, n := range counts {
		d.terms = append(d.terms, t)
		list := x.postings[t]
		i, _ := find(list, id)
		x.postings[t] = slices.Insert(list, i, posting{id, n})
	}
	x.docs[id] = d
	x.count++
}

// Remove forgets document id.
func (x *Index) Remove(id uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(id)
}

func (x *Index) remove(id uint32) {
	if int(id) >= len(x.docs) || !x.docs[id].present {
		return
	}
	for _, t := range x.docs[id].terms {
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
	x.docs[id] = document{}
	x.count--
}

func find(list []posting, id uint32) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(p posting, id uint32) int { return cmp.Compare(p.id, id) })
}

// Len returns the number of documents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.count
}

// Rank scores the documents of allowed; nil allows none. It is as if the others did not exist: they are not scored, and how often
// terms occur and how long documents are is taken from those allowed.
func (x *Index) Rank(query string, allowed *roaring.Bitmap) oldRanking {
	if allowed == nil {
		return oldRanking{}
	}
	counts := map[string]int{}
	for _, t := range Tokens(query) {
		counts[t]++
	}
	terms := slices.Sorted(maps.Keys(counts)) // floating-point sums depend on the order

	x.mu.RLock()
	defer x.mu.RUnlock()
	visible, n, length := make([]bool, len(x.docs)), 0, 0
	for it := allowed.Iterator(); it.HasNext(); {
		id := int(it.Next())
		if id < len(x.docs) && x.docs[id].present {
			visible[id] = true
			n++
			length += int(x.docs[id].length)
		}
	}
	average := max(1, float64(length)/max(1, float64(n)))
	scores := make([]float64, len(x.docs))
	for _, t := range terms {
		list, df := x.postings[t], 0.0
		for _, p := range list {
			if visible[p.id] {
				df++
			}
		}
		weight := float64(counts[t]) * math.Log(1+(float64(n)-df+0.5)/(df+0.5))
		for _, p := range list {
			if visible[p.id] {
				tf := float64(p.count)
				scores[p.id] += weight * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(x.docs[p.id].length)/average))
			}
		}
	}
	return oldRanking{scores}
}

// oldRanking is what a query found.
type oldRanking struct{ scores []float64 } // by id

// Score returns the score of a document, 0 if it shares no term with the query or was not allowed.
func (r oldRanking) Score(id uint32) float64 {
	if int(id) >= len(r.scores) {
		return 0
	}
	return r.scores[id]
}

// Best returns the n documents that match best: highest score first, equal scores by id. Documents that share no term with the
// query do not match.
func (r oldRanking) Best(n int) []Hit {
	if n <= 0 {
		return nil
	}
	return best(r.scores, n)
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
