package rag

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
)

// collectionIndex is one collection in memory. The indexes know chunks by numbers; a number is reused after its document is deleted.
type collectionIndex struct {
	id       string
	key      collectionKey
	title    string
	labels   []string
	embedder string // the model that made the vectors
	revision int64  // up to which the tables were followed; guarded by Service.changeMu
	created  int64

	behindSince atomic.Int64 // when following the tables began to fail, UTC unix µs; 0 while it works

	mu          sync.RWMutex
	docs        map[string]*indexedDocument // by id
	newest      int64                       // revision of the document that changed last
	groups      map[groupKey]*group
	chunks      []chunkRef // by number
	freeNumbers []uint32
	unreadable  map[string]bool // documents that are stored and cannot be read
	keywords    *lexical.Index
	vectors     index.Index
}

// indexedDocument is a document of a collection. It is immutable.
type indexedDocument struct {
	documentRow
	labels  []string
	known   []Known
	chunks  []chunkRow
	numbers []uint32 // of its chunks; set by put
}

// groupKey decides whether a search may find the chunks of a document: its labels and the model of its vectors.
type groupKey struct{ labels, embedder string }

type group struct {
	labels  []string
	numbers *roaring.Bitmap
}

type chunkRef struct {
	document *indexedDocument
	chunk    int
}

func newCollectionIndex(row collectionRow, embedder string, near index.Index) (*collectionIndex, error) {
	labels, err := decodeLabels(row.Labels)
	if err != nil {
		return nil, fmt.Errorf("collection %s: %w", row.ID, err)
	}
	return &collectionIndex{
		id: row.ID, key: collectionKey{row.Tenant, row.Name}, title: row.Title, labels: labels, created: row.CreatedAt, embedder: embedder,
		unreadable: map[string]bool{}, docs: map[string]*indexedDocument{}, groups: map[groupKey]*group{}, keywords: lexical.New(), vectors: near,
	}, nil
}

// put replaces the last version of a document. Searches see one version or the other and continue while put indexes the new one:
// the filter hides its numbers until they are in a group. Only one change runs at a time.
func (ci *collectionIndex) put(ctx context.Context, b *indexedDocument) error {
	numbers := ci.take(len(b.chunks))
	entries := make([]index.Entry, len(b.chunks))
	for i, c := range b.chunks {
		entries[i] = index.Entry{ID: numbers[i], Vector: decodeVector(c.Vector)}
	}
	if b.Embedder != ci.embedder {
		entries = nil // not comparable, perhaps of another dimension: the document is found by its words
	}
	if err := ci.vectors.Upsert(ctx, entries); err != nil {
		ci.free(numbers)
		return fmt.Errorf("index document %s: %w", b.ID, err)
	}
	for i, n := range numbers {
		ci.keywords.Add(n, b.indexText(i))
		b.chunks[i].Vector = nil // the index has it
	}
	b.numbers = numbers
	return ci.drop(ctx, ci.swap(b))
}

// swap makes a document visible in place of its last version and returns that version.
func (ci *collectionIndex) swap(b *indexedDocument) *indexedDocument {
	ci.mu.Lock()
	defer ci.mu.Unlock()
	old := ci.docs[b.ID]
	ci.hide(old) // first: both may have the same numbers
	for i, n := range b.numbers {
		ci.chunks[n] = chunkRef{b, i}
	}
	g := ci.groups[b.group()]
	if g == nil {
		g = &group{b.labels, roaring.New()}
		ci.groups[b.group()] = g
	}
	g.numbers.AddMany(b.numbers)
	ci.docs[b.ID] = b
	ci.newest = max(ci.newest, b.Revision)
	delete(ci.unreadable, b.ID)
	return old
}

// remove deletes a document. Searches no longer find it even if the index fails to delete its vectors.
func (ci *collectionIndex) remove(ctx context.Context, id string) error {
	ci.mu.Lock()
	old := ci.docs[id]
	ci.hide(old)
	delete(ci.docs, id)
	delete(ci.unreadable, id)
	if old != nil && old.Revision == ci.newest {
		ci.newest = 0
		for _, d := range ci.docs {
			ci.newest = max(ci.newest, d.Revision)
		}
	}
	ci.mu.Unlock()
	return ci.drop(ctx, old)
}

// hide takes a document out of its group. The caller holds mu.
func (ci *collectionIndex) hide(b *indexedDocument) {
	if b == nil {
		return
	}
	g := ci.groups[b.group()]
	for _, n := range b.numbers {
		g.numbers.Remove(n)
		ci.chunks[n] = chunkRef{}
	}
	if g.numbers.IsEmpty() {
		delete(ci.groups, b.group())
	}
}

// drop deletes a hidden document from the indexes and frees its numbers.
func (ci *collectionIndex) drop(ctx context.Context, b *indexedDocument) error {
	if b == nil {
		return nil
	}
	for _, n := range b.numbers {
		ci.keywords.Remove(n)
	}
	if err := ci.vectors.Delete(context.WithoutCancel(ctx), b.numbers); err != nil {
		return fmt.Errorf("forget document %s: %w", b.ID, err) // the numbers stay taken: their vectors may still be there
	}
	ci.free(b.numbers)
	return nil
}

// take returns n numbers that nothing uses.
func (ci *collectionIndex) take(n int) []uint32 {
	ci.mu.Lock()
	defer ci.mu.Unlock()
	reused := min(n, len(ci.freeNumbers))
	out := slices.Clone(ci.freeNumbers[len(ci.freeNumbers)-reused:])
	ci.freeNumbers = ci.freeNumbers[:len(ci.freeNumbers)-reused]
	for len(out) < n {
		out = append(out, uint32(len(ci.chunks)))
		ci.chunks = append(ci.chunks, chunkRef{})
	}
	return out
}

func (ci *collectionIndex) free(numbers []uint32) {
	ci.mu.Lock()
	defer ci.mu.Unlock()
	ci.freeNumbers = append(ci.freeNumbers, numbers...)
}

func (b *indexedDocument) group() groupKey { return groupKey{b.Labels, b.Embedder} }

// indexText returns what the indexes get for a chunk: its title and section, then its text.
func (b *indexedDocument) indexText(i int) string {
	return withContext(b.Title, b.chunks[i].Section, b.text(i))
}

func (b *indexedDocument) text(i int) string { return b.Content[b.chunks[i].Start:b.chunks[i].End] }

func withContext(title, section, text string) string {
	var head []string
	if title != "" && !strings.HasPrefix(section, title) {
		head = append(head, title)
	}
	if section != "" {
		head = append(head, section)
	}
	if len(head) == 0 {
		return text
	}
	return strings.Join(head, " > ") + "\n" + text
}

// allowed returns the chunks that a principal with these labels may see, also those whose vectors are another model's. The caller holds mu.
func (ci *collectionIndex) allowed(labels []string) (*roaring.Bitmap, error) {
	if len(ci.unreadable) > 0 {
		return nil, errDamaged
	}
	out := roaring.New()
	for _, g := range ci.groups {
		if permits(g.labels, labels) {
			out.Or(g.numbers)
		}
	}
	return out, nil
}

// markUnreadable records that a stored document cannot be read, and reports whether that is new. Searches fail until the document is
// ingested again or deleted: they never leave it out silently.
func (ci *collectionIndex) markUnreadable(id string) bool {
	ci.mu.Lock()
	defer ci.mu.Unlock()
	was := ci.unreadable[id]
	ci.unreadable[id] = true
	return !was
}

// clear deletes everything for good. A search that already holds the collection finds nothing in it.
func (ci *collectionIndex) clear() error {
	ci.mu.Lock()
	defer ci.mu.Unlock()
	ci.docs, ci.groups, ci.unreadable = map[string]*indexedDocument{}, map[groupKey]*group{}, map[string]bool{}
	ci.chunks, ci.freeNumbers, ci.keywords = nil, nil, lexical.New()
	return ci.vectors.Close()
}

const (
	maxCandidates = 200 // per ranking, before fusion
	maxFused      = 100 // after fusion
	rrfK          = 60
	denseShare    = 0.5
)

// search returns the best passages among those visible with labels.
func (ci *collectionIndex) search(ctx context.Context, text string, vector []float32, labels []string, topK int) ([]Passage, error) {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	allowed, err := ci.allowed(labels)
	if err != nil || allowed.IsEmpty() {
		return nil, err
	}
	ranking := ci.keywords.Rank(text, allowed)
	words := ranking.Best(maxCandidates)
	near, err := ci.vectors.Search(ctx, index.Query{Vector: vector, Allowed: allowed, TopK: maxCandidates})
	if err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	chosen := fuse(words, near)
	// Both scores of every fused candidate, also of those that only one ranking proposed.
	near, err = ci.vectors.Search(ctx, index.Query{Vector: vector, Allowed: chosen, TopK: maxFused})
	if err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	best := 0.0
	if len(words) > 0 {
		best = words[0].Score
	}
	cosines := ci.cosines(chosen, near)
	scores := make(map[uint32]float64, len(cosines))
	for id, cosine := range cosines {
		scores[id] = hybridScore(ranking.Score(id), best, cosine)
	}
	out := ci.passages(scores)
	return out[:min(topK, len(out))], nil
}

// cosines returns the cosine of every candidate. One whose vector is another model's gets the median of the others': some models find all
// texts near, so that nothing would count as far. The caller holds mu.
func (ci *collectionIndex) cosines(candidates *roaring.Bitmap, near []index.Hit) map[uint32]float64 {
	out := make(map[uint32]float64, len(near))
	for _, h := range near {
		out[h.ID] = float64(h.Score)
	}
	if uint64(len(out)) == candidates.GetCardinality() {
		return out
	}
	median := 0.0
	if len(near) > 0 {
		median = float64(near[len(near)/2].Score)
	}
	for it := candidates.Iterator(); it.HasNext(); {
		if id := it.Next(); ci.chunks[id].document.Embedder != ci.embedder {
			out[id] = median
		}
	}
	return out
}

// fuse returns the maxFused candidates with the highest sum of reciprocal ranks.
func fuse(words []lexical.Hit, near []index.Hit) *roaring.Bitmap {
	sum := map[uint32]float64{}
	for i, h := range words {
		sum[h.ID] += 1 / float64(rrfK+i+1)
	}
	for i, h := range near {
		sum[h.ID] += 1 / float64(rrfK+i+1)
	}
	ids := make([]uint32, 0, len(sum))
	for id := range sum {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a, b)) })
	return roaring.BitmapOf(ids[:min(maxFused, len(ids))]...)
}

// hybridScore returns the score of a passage from its BM25 score, the highest BM25 score of all, and the cosine of its vector with the
// query's. The cosine counts as it is: stretched over the candidates, differences that mean nothing would decide whenever the model
// does not understand the language.
func hybridScore(bm25, best, cosine float64) float64 {
	score := denseShare * max(0, min(1, cosine))
	if best > 0 {
		score += (1 - denseShare) * bm25 / best
	}
	return score
}

func (ci *collectionIndex) passage(p chunkRef) Passage {
	c := p.document.chunks[p.chunk]
	return Passage{
		Collection: ci.key.name, Document: p.document.Name, DocumentID: p.document.ID, Version: versionName(p.document.Version),
		Title: p.document.Title, Section: c.Section, Chunk: c.Chunk, Text: p.document.text(p.chunk), Start: c.Start, End: c.End, Known: p.document.known,
		Revision: ci.newest, ByWords: p.document.Embedder != ci.embedder,
	}
}

// passages returns the chunks with these scores, best first.
func (ci *collectionIndex) passages(scores map[uint32]float64) []Passage {
	out := make([]Passage, 0, len(scores))
	for n, score := range scores {
		found := ci.passage(ci.chunks[n])
		found.Score = score
		out = append(out, found)
	}
	slices.SortFunc(out, func(a, b Passage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.DocumentID, b.DocumentID), cmp.Compare(a.Chunk, b.Chunk))
	})
	return out
}
