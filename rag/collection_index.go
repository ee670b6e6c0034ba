package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
)

// collectionIndex is one collection in memory. The indexes know chunks by numbers; a number may be reused after its document is deleted, see take.
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
	chunks      []chunkRef      // by number
	freeNumbers []uint32        // of deleted documents
	reused      []uint32        // to be taken again, in order
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
		entries = nil // not comparable, perhaps of another dimension; searches that may see the document fail
	}
	if err := ci.vectors.Upsert(ctx, entries); err != nil {
		ci.free(numbers)
		return fmt.Errorf("index document %s: %w", b.ID, err)
	}
	texts := make([]lexical.Document, len(numbers))
	for i, n := range numbers {
		texts[i] = lexical.Document{ID: n, Text: b.indexText(i)}
	}
	if err := ci.keywords.Add(texts...); err != nil {
		return fmt.Errorf("index document %s: %w", b.ID, err) // the numbers stay taken: their vectors are there
	}
	for i := range b.chunks {
		b.chunks[i].Vector = nil // the index has it
	}
	b.numbers = numbers
	return ci.drop(ctx, ci.swap(b))
}

// swap makes a document visible in place of its last version and returns that version.
func (ci *collectionIndex) swap(b *indexedDocument) *indexedDocument {
	ci.mu.Lock()
	defer ci.mu.Unlock()
	for i, n := range b.numbers {
		ci.chunks[n] = chunkRef{b, i}
	}
	old := ci.docs[b.ID]
	ci.hide(old)
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
	if err := ci.keywords.Remove(b.numbers...); err != nil {
		return fmt.Errorf("forget document %s: %w", b.ID, err)
	}
	if err := ci.vectors.Delete(context.WithoutCancel(ctx), b.numbers); err != nil {
		return fmt.Errorf("forget document %s: %w", b.ID, err) // the numbers stay taken: their vectors may still be there
	}
	ci.free(b.numbers)
	return nil
}

// take returns n numbers that nothing uses, in order. What is taken one after the other lies together, as the segments of the words want it:
// freed numbers are kept until they are half of all, then taken again from the lowest on.
func (ci *collectionIndex) take(n int) []uint32 {
	ci.mu.Lock()
	defer ci.mu.Unlock()
	if len(ci.reused) < n && len(ci.freeNumbers) > len(ci.chunks)/2 {
		ci.reused, ci.freeNumbers = append(ci.reused, ci.freeNumbers...), nil
		slices.Sort(ci.reused)
	}
	if len(ci.reused) >= n {
		out := slices.Clone(ci.reused[:n])
		ci.reused = ci.reused[n:]
		return out
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(len(ci.chunks))
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

// allowed returns the chunks that a principal with these labels may see. EmbedFunc of another model cannot be compared with the
// query's; leaving them out would hide documents, so they are an error. The caller holds mu.
func (ci *collectionIndex) allowed(labels []string) (*roaring.Bitmap, error) {
	if len(ci.unreadable) > 0 {
		return nil, errDamaged
	}
	out := roaring.New()
	for key, g := range ci.groups {
		if !permits(g.labels, labels) {
			continue
		}
		if key.embedder != ci.embedder {
			return nil, errForeignVectors
		}
		out.Or(g.numbers)
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
	ci.chunks, ci.freeNumbers, ci.reused, ci.keywords = nil, nil, nil, lexical.New()
	return ci.vectors.Close()
}

var errForeignVectors = errors.New("documents were embedded by another model; ingest them again or configure that model")

// search returns the best passages among those visible with labels, as the model orders them. Ordering reads the texts of all candidates:
// it is done without the lock, so that no change waits for it.
func (ci *collectionIndex) search(ctx context.Context, m rank.Model, text string, vector []float32, labels []string, topK int) ([]Passage, error) {
	found, err := ci.findVisible(ctx, text, vector, labels, max(maxFused, topK))
	if err != nil {
		return nil, err
	}
	out := ci.passages(found, found.scores(m))
	return out[:min(topK, len(out))], nil
}

func (ci *collectionIndex) findVisible(ctx context.Context, text string, vector []float32, labels []string, n int) (found, error) {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	allowed, err := ci.allowed(labels)
	if err != nil || allowed.IsEmpty() {
		return found{}, err
	}
	return ci.find(ctx, text, vector, allowed, n)
}

// passage returns a chunk. Revision is the newest of its collection.
func (ci *collectionIndex) passage(p chunkRef, revision int64) Passage {
	c := p.document.chunks[p.chunk]
	return Passage{
		Collection: ci.key.name, Document: p.document.Name, DocumentID: p.document.ID, Version: versionName(p.document.Version),
		Title: p.document.Title, Section: c.Section, Chunk: c.Chunk, Text: p.document.text(p.chunk), Start: c.Start, End: c.End, Known: p.document.known,
		Revision: revision,
	}
}

// passages returns what was found with its scores, best first.
func (ci *collectionIndex) passages(f found, scores []float64) []Passage {
	out := make([]Passage, len(f.chunks))
	for i, p := range f.chunks {
		out[i] = ci.passage(p, f.newest)
		out[i].Score = scores[i]
	}
	slices.SortFunc(out, func(a, b Passage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.DocumentID, b.DocumentID), cmp.Compare(a.Chunk, b.Chunk))
	})
	return out
}
