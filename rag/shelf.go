package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
)

// shelf is one collection in memory. Chunks are known to the indexes by numbers that are reused when a document goes.
type shelf struct {
	id       string
	key      shelfKey
	title    string
	labels   []string
	embedder string // the model whose vectors near has
	revision int64  // up to which the tables were followed; guarded by Service.changing
	created  int64

	mu     sync.RWMutex
	docs   map[string]*book // by id
	groups map[groupKey]*group
	pieces []piece // by number
	vacant []uint32
	broken map[string]bool // documents that are stored and cannot be read
	words  *lexical.Index
	near   index.Index
}

// book is a document on a shelf; it does not change.
type book struct {
	documentRow
	labels  []string
	known   []Known
	chunks  []chunkRow
	numbers []uint32 // of its chunks; set when it is put on the shelf
}

// groupKey is what decides whether the chunks of a document may be found: its labels, and the model of its vectors.
type groupKey struct{ labels, embedder string }

type group struct {
	labels  []string
	numbers *roaring.Bitmap
}

type piece struct {
	book  *book
	chunk int
}

func newShelf(row collectionRow, embedder string, near index.Index) (*shelf, error) {
	labels, err := decodeLabels(row.Labels)
	if err != nil {
		return nil, fmt.Errorf("collection %s: %w", row.ID, err)
	}
	return &shelf{
		id: row.ID, key: shelfKey{row.Tenant, row.Name}, title: row.Title, labels: labels, created: row.CreatedAt, embedder: embedder,
		broken: map[string]bool{}, docs: map[string]*book{}, groups: map[groupKey]*group{}, words: lexical.New(), near: near,
	}, nil
}

// put places a document, instead of its last version. Searches see the one or the other, and go on while the new one is indexed:
// until its numbers are in a group, the filter hides them. Only one change runs at a time.
func (sh *shelf) put(ctx context.Context, b *book) error {
	numbers := sh.take(len(b.chunks))
	entries := make([]index.Entry, len(b.chunks))
	for i, c := range b.chunks {
		entries[i] = index.Entry{ID: numbers[i], Vector: decodeVector(c.Vector)}
	}
	if b.Embedder != sh.embedder {
		entries = nil // not comparable, perhaps of another dimension; searches that may see the document fail
	}
	if err := sh.near.Upsert(ctx, entries); err != nil {
		sh.free(numbers)
		return fmt.Errorf("index document %s: %w", b.ID, err)
	}
	for i, n := range numbers {
		sh.words.Add(n, b.indexed(i))
		b.chunks[i].Vector = nil // the index has it
	}
	b.numbers = numbers
	return sh.drop(ctx, sh.swap(b))
}

// swap makes a document visible instead of its last version, which it returns.
func (sh *shelf) swap(b *book) *book {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i, n := range b.numbers {
		sh.pieces[n] = piece{b, i}
	}
	old := sh.docs[b.ID]
	sh.hide(old)
	g := sh.groups[b.group()]
	if g == nil {
		g = &group{b.labels, roaring.New()}
		sh.groups[b.group()] = g
	}
	g.numbers.AddMany(b.numbers)
	sh.docs[b.ID] = b
	delete(sh.broken, b.ID)
	return old
}

// remove takes a document away. It is gone for searches even if the index fails to forget its vectors.
func (sh *shelf) remove(ctx context.Context, id string) error {
	sh.mu.Lock()
	old := sh.docs[id]
	sh.hide(old)
	delete(sh.docs, id)
	delete(sh.broken, id)
	sh.mu.Unlock()
	return sh.drop(ctx, old)
}

// hide takes a document out of its group. The caller holds mu.
func (sh *shelf) hide(b *book) {
	if b == nil {
		return
	}
	g := sh.groups[b.group()]
	for _, n := range b.numbers {
		g.numbers.Remove(n)
		sh.pieces[n] = piece{}
	}
	if g.numbers.IsEmpty() {
		delete(sh.groups, b.group())
	}
}

// drop lets the indexes forget a hidden document, and frees its numbers.
func (sh *shelf) drop(ctx context.Context, b *book) error {
	if b == nil {
		return nil
	}
	for _, n := range b.numbers {
		sh.words.Remove(n)
	}
	if err := sh.near.Delete(context.WithoutCancel(ctx), b.numbers); err != nil {
		return fmt.Errorf("forget document %s: %w", b.ID, err) // the numbers stay taken: their vectors may still be there
	}
	sh.free(b.numbers)
	return nil
}

// take returns n numbers that nothing uses.
func (sh *shelf) take(n int) []uint32 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	reused := min(n, len(sh.vacant))
	out := slices.Clone(sh.vacant[len(sh.vacant)-reused:])
	sh.vacant = sh.vacant[:len(sh.vacant)-reused]
	for len(out) < n {
		out = append(out, uint32(len(sh.pieces)))
		sh.pieces = append(sh.pieces, piece{})
	}
	return out
}

func (sh *shelf) free(numbers []uint32) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.vacant = append(sh.vacant, numbers...)
}

func (b *book) group() groupKey { return groupKey{b.Labels, b.Embedder} }

// indexed is the text under which a chunk is found: what it says, and where it stands.
func (b *book) indexed(i int) string { return withContext(b.Title, b.chunks[i].Section, b.text(i)) }

func (b *book) text(i int) string { return b.Content[b.chunks[i].Start:b.chunks[i].End] }

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

// allowed returns the chunks that a principal with these labels may see. Vectors of another model cannot be compared with the
// query's; leaving them out would hide documents, so they are an error. The caller holds mu.
func (sh *shelf) allowed(labels []string) (*roaring.Bitmap, error) {
	if len(sh.broken) > 0 {
		return nil, errDamaged
	}
	out := roaring.New()
	for key, g := range sh.groups {
		if !permits(g.labels, labels) {
			continue
		}
		if key.embedder != sh.embedder {
			return nil, errForeignVectors
		}
		out.Or(g.numbers)
	}
	return out, nil
}

// damaged notes that a stored document cannot be read, and reports whether that is news. Until it is ingested again or deleted,
// searches fail rather than go on without it.
func (sh *shelf) damaged(id string) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	was := sh.broken[id]
	sh.broken[id] = true
	return !was
}

// empty takes everything away, for good: searches that have found the shelf already find nothing on it.
func (sh *shelf) empty() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.docs, sh.groups, sh.broken = map[string]*book{}, map[groupKey]*group{}, map[string]bool{}
	sh.pieces, sh.vacant, sh.words = nil, nil, lexical.New()
	return sh.near.Close()
}

const (
	candidates = 200 // per ranking, before fusion
	finalists  = 100 // after fusion
	rrfK       = 60
	denseShare = 0.5
)

var errForeignVectors = errors.New("documents were embedded by another model; ingest them again or configure that model")

// search returns the best passages among those visible with labels.
func (sh *shelf) search(ctx context.Context, text string, vector []float32, labels []string, topK int) ([]Passage, error) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	allowed, err := sh.allowed(labels)
	if err != nil || allowed.IsEmpty() {
		return nil, err
	}
	ranking := sh.words.Rank(text, allowed)
	words := ranking.Best(candidates)
	near, err := sh.near.Search(ctx, index.Query{Vector: vector, Allowed: allowed, TopK: candidates})
	if err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	chosen := fuse(words, near)
	// Both scores of every finalist, also of those that only one ranking proposed.
	near, err = sh.near.Search(ctx, index.Query{Vector: vector, Allowed: chosen, TopK: finalists})
	if err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	best := 0.0
	if len(words) > 0 {
		best = words[0].Score
	}
	scores := make(map[uint32]float64, len(near))
	for _, h := range near {
		scores[h.ID] = blend(ranking.Score(h.ID), best, float64(h.Score))
	}
	out := sh.passages(scores)
	return out[:min(topK, len(out))], nil
}

// fuse returns the finalists: those with the highest sum of reciprocal ranks.
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
	return roaring.BitmapOf(ids[:min(finalists, len(ids))]...)
}

// blend returns the score of a passage from its BM25 score, the highest BM25 score of all, and the cosine of its vector with the
// query's. The cosine counts as it is: stretched over the candidates, differences that mean nothing would decide whenever the model
// does not understand the language.
func blend(bm25, best, cosine float64) float64 {
	score := denseShare * max(0, min(1, cosine))
	if best > 0 {
		score += (1 - denseShare) * bm25 / best
	}
	return score
}

func (sh *shelf) passage(p piece) Passage {
	c := p.book.chunks[p.chunk]
	return Passage{
		Collection: sh.key.name, Document: p.book.Name, DocumentID: p.book.ID, Version: versionName(p.book.Version),
		Title: p.book.Title, Section: c.Section, Chunk: c.Chunk, Text: p.book.text(p.chunk), Start: c.Start, End: c.End, Known: p.book.known,
	}
}

// passages returns the pieces with these scores, best first.
func (sh *shelf) passages(scores map[uint32]float64) []Passage {
	out := make([]Passage, 0, len(scores))
	for n, score := range scores {
		found := sh.passage(sh.pieces[n])
		found.Score = score
		out = append(out, found)
	}
	slices.SortFunc(out, func(a, b Passage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.DocumentID, b.DocumentID), cmp.Compare(a.Chunk, b.Chunk))
	})
	return out
}
