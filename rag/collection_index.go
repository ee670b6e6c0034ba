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
	"time"

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
	created  int64
	rules    ruleKeeper
	now      func() time.Time

	// Guarded by Service.changeMu.
	revision int64            // of the collection, up to which documents were followed; the heavy part, too
	light    int64            // of the collection, up to which access and deletions were followed
	followed int64            // change counter of the tables at that time: what is not in memory at it is deleted, unless it is pending
	pending  map[string]bool  // documents that are stored and not in memory yet
	gone     map[string]int64 // documents that were deleted here since, and the revision of that

	behindSince atomic.Int64 // when following the tables began to fail, UTC unix µs; 0 while it works

	mu          sync.RWMutex
	row         collectionRow               // with its settings
	docs        map[string]*indexedDocument // by id
	byName      map[string]string           // id by name
	newest      int64                       // revision of the document that changed last
	sets        attributeSets
	mostParts   int // the most that a document has had
	times       *validity
	chunks      []chunkRef      // by number
	freeNumbers []uint32        // of deleted documents
	reused      []uint32        // to be taken again, in order
	unreadable  map[string]bool // documents whose labels cannot be read
	broken      map[string]bool // documents with a version that cannot be read
	closed      bool
	keywords    *lexical.Index
	vectors     index.Index
}

// indexedDocument is a document of a collection. It is immutable.
type indexedDocument struct {
	documentRow
	accessAt int64  // revision at which labels, rule and spans were read; that of the row is of the last version that was read
	spans    []span // of all its versions, also of those that memory does not have yet
	labels   []string
	rule     Rule
	damaged  bool           // its rule cannot be read: nobody sees it
	versions []datedVersion // by number
}

// span is when a version is in effect.
type span struct {
	id          string
	from, until int64
}

func spansOf(rows []versionRow) []span {
	out := make([]span, len(rows))
	for i, r := range rows {
		out[i] = span{r.ID, r.ValidFrom, r.ValidUntil}
	}
	return out
}

// within returns those of the versions that are there, with their dates; complete reports whether these are all, and readable.
func within(versions []datedVersion, spans []span) (out []datedVersion, complete bool) {
	complete = true
	for _, is := range spans {
		i := slices.IndexFunc(versions, func(v datedVersion) bool { return v.ID == is.id })
		if i < 0 {
			complete = false
			continue
		}
		v := versions[i]
		v.from, v.until = is.from, is.until
		complete = complete && !v.broken
		out = append(out, v)
	}
	return out, complete
}

// datedVersion is a version, and when it is in effect.
type datedVersion struct {
	*indexedVersion

	from, until int64        // until is 0 for no end
	broken      bool         // it cannot be read: at a time when it is in effect searches fail
	parts       []attributed // by what is needed; set when it is shown
}

func (d datedVersion) in(at int64) bool { return d.from <= at && at < until0(d.until) }

// indexedVersion is what a version of a document says. It is immutable; its dates are not used, see datedVersion.
type indexedVersion struct {
	versionRow

	name    string // of the document
	known   []Known
	chunks  []chunkRow
	numbers []uint32 // of its chunks; set by prepare
}

type chunkRef struct {
	version *indexedVersion
	chunk   int
}

func newCollectionIndex(row collectionRow, embedder string, near index.Index, rules ruleKeeper, now func() time.Time) (*collectionIndex, error) {
	labels, err := decodeLabels(row.Labels)
	if err != nil {
		return nil, fmt.Errorf("collection %s: %w", row.ID, err)
	}
	return &collectionIndex{
		id: row.ID, key: collectionKey{row.Tenant, row.Name}, title: row.Title, labels: labels, created: row.CreatedAt, embedder: embedder, rules: rules, now: now, row: row,
		pending: map[string]bool{}, gone: map[string]int64{}, unreadable: map[string]bool{}, broken: map[string]bool{}, docs: map[string]*indexedDocument{}, byName: map[string]string{}, sets: newAttributeSets(), times: newValidity(),
		keywords: lexical.New(), vectors: near,
	}, nil
}

// prepare indexes what a version says. No search finds it before a document with it is shown. It may take long, and needs no lock.
func (ci *collectionIndex) prepare(ctx context.Context, v *indexedVersion) error {
	numbers := ci.take(len(v.chunks))
	entries := make([]index.Entry, len(v.chunks))
	for i, c := range v.chunks {
		entries[i] = index.Entry{ID: numbers[i], Vector: decodeVector(c.Vector)}
	}
	if v.Embedder != ci.embedder {
		entries = nil // not comparable, perhaps of another dimension; searches that may see the version fail
	}
	if err := ci.vectors.Upsert(ctx, entries); err != nil {
		ci.free(numbers)
		return fmt.Errorf("index version %s: %w", v.ID, err)
	}
	texts := make([]lexical.Document, len(numbers))
	for i, n := range numbers {
		texts[i] = lexical.Document{ID: n, Text: v.indexText(i)}
	}
	if err := ci.keywords.Add(texts...); err != nil {
		return fmt.Errorf("index version %s: %w", v.ID, err) // the numbers stay taken: their vectors are there
	}
	v.numbers = numbers
	return nil
}

// forgetVectors releases what the index has, once the tables have it too.
func (v *indexedVersion) forgetVectors() {
	for i := range v.chunks {
		v.chunks[i].Vector = nil
	}
}

// show makes a document what it is from now on, in place of what it was, and returns the versions that are no longer of it. All of its versions are
// prepared. shown is false if the collection is gone. The caller holds Service.changeMu, or is alone.
func (ci *collectionIndex) show(b *indexedDocument) (dropped []*indexedVersion, shown bool) {
	old := ci.document(b.ID)
	b.decide(old, ci.rules)
	ci.mu.Lock()
	defer ci.mu.Unlock()
	if ci.closed {
		return nil, false
	}
	ci.times.advance(ci.now().UnixMicro())
	if old != nil {
		dropped = ci.hide(old, b)
	}
	if namesake := ci.byName[b.Name]; namesake != "" && namesake != b.ID { // it was deleted: see place
		dropped = append(dropped, ci.forget(namesake)...)
	}
	parts := 0
	for _, v := range b.versions {
		parts += len(v.parts)
		if !old.keeps(v) {
			for i := range v.parts {
				ci.sets.add(&v.parts[i], v.Embedder, v.numbers)
			}
		}
		if v.broken {
			continue
		}
		for i, n := range v.numbers {
			ci.chunks[n] = chunkRef{v.indexedVersion, i}
		}
		ci.times.set(v.numbers, v.from, v.until)
	}
	ci.mostParts = max(ci.mostParts, parts)
	ci.docs[b.ID], ci.byName[b.Name] = b, b.ID
	ci.newest = max(ci.newest, b.Revision)
	delete(ci.unreadable, b.ID)
	delete(ci.broken, b.ID)
	if slices.ContainsFunc(b.versions, func(v datedVersion) bool { return v.broken }) {
		ci.broken[b.ID] = true
	}
	return dropped, true
}

// hide takes a document out of what searches find, and returns its versions that are not of next, which may be nil. The caller holds mu.
func (ci *collectionIndex) hide(b, next *indexedDocument) (dropped []*indexedVersion) {
	for _, v := range b.versions {
		if !next.keeps(v) {
			for i := range v.parts {
				ci.sets.remove(&v.parts[i], v.Embedder, v.numbers)
			}
		}
		if v.broken {
			continue
		}
		if next != nil && slices.ContainsFunc(next.versions, func(n datedVersion) bool { return n.indexedVersion == v.indexedVersion }) {
			continue
		}
		ci.times.clear(v.numbers)
		for _, n := range v.numbers {
			ci.chunks[n] = chunkRef{}
		}
		dropped = append(dropped, v.indexedVersion)
	}
	return dropped
}

func (ci *collectionIndex) document(id string) *indexedDocument {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	return ci.docs[id]
}

// keeps reports whether the document, which may be nil, has a version with the same needs.
func (b *indexedDocument) keeps(v datedVersion) bool {
	return b != nil && slices.ContainsFunc(b.versions, func(o datedVersion) bool {
		return o.indexedVersion == v.indexedVersion && len(o.parts) > 0 && len(v.parts) > 0 && &o.parts[0] == &v.parts[0]
	})
}

// remove deletes a document. Searches no longer find it even if the index fails to delete its vectors.
func (ci *collectionIndex) remove(ctx context.Context, id string) error {
	ci.mu.Lock()
	dropped := ci.forget(id)
	ci.mu.Unlock()
	return ci.drop(ctx, dropped)
}

// forget takes a document out of memory and returns its versions. The caller holds mu.
func (ci *collectionIndex) forget(id string) (dropped []*indexedVersion) {
	old := ci.docs[id]
	if old != nil {
		dropped = ci.hide(old, nil)
		if ci.byName[old.Name] == id { // else another has the name by now
			delete(ci.byName, old.Name)
		}
	}
	delete(ci.docs, id)
	delete(ci.unreadable, id)
	delete(ci.broken, id)
	if old != nil && old.Revision == ci.newest {
		ci.newest = 0
		for _, d := range ci.docs {
			ci.newest = max(ci.newest, d.Revision)
		}
	}
	return dropped
}

// drop deletes hidden versions from the indexes and frees their numbers.
func (ci *collectionIndex) drop(ctx context.Context, all []*indexedVersion) error {
	var failed error
	for _, v := range all {
		if err := ci.keywords.Remove(v.numbers...); err != nil {
			failed = errors.Join(failed, fmt.Errorf("forget version %s: %w", v.ID, err))
			continue
		}
		if err := ci.vectors.Delete(context.WithoutCancel(ctx), v.numbers); err != nil {
			failed = errors.Join(failed, fmt.Errorf("forget version %s: %w", v.ID, err)) // the numbers stay taken: their vectors may still be there
			continue
		}
		ci.free(v.numbers)
	}
	return failed
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
	if !ci.closed {
		ci.freeNumbers = append(ci.freeNumbers, numbers...)
	}
}

// indexText returns what the indexes get for a chunk: its title and section, then its text.
func (v *indexedVersion) indexText(i int) string {
	return withContext(v.Title, v.chunks[i].Section, v.text(i))
}

func (v *indexedVersion) text(i int) string { return v.Content[v.chunks[i].Start:v.chunks[i].End] }

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

// rlock takes mu for reading, when what is in effect now is known. It returns now.
func (ci *collectionIndex) rlock() int64 {
	now := ci.now().UnixMicro()
	for {
		ci.mu.RLock()
		if !ci.times.due(now) {
			return max(now, ci.times.at)
		}
		ci.mu.RUnlock()
		ci.mu.Lock()
		ci.times.advance(now)
		ci.mu.Unlock()
	}
}

// allowed returns the chunks that a viewer may see of what is in effect at a time; 0 is now, as rlock says it. Vectors of another model cannot
// be compared with the query's; leaving them out would hide documents, so they are an error, as what cannot be read is. The caller holds mu.
func (ci *collectionIndex) allowed(v viewer, at, now int64) (*roaring.Bitmap, error) {
	if len(ci.unreadable) > 0 || ci.brokenAt(cmp.Or(at, now)) {
		return nil, errDamaged
	}
	sets := ci.sets.permitted(v)
	numbers := make([]*roaring.Bitmap, len(sets))
	var foreign []*roaring.Bitmap
	for i, set := range sets {
		numbers[i] = set.numbers
		if set.embedder != ci.embedder {
			foreign = append(foreign, set.numbers)
		}
	}
	out := ci.times.allowedAt(roaring.FastOr(numbers...), at)
	if slices.ContainsFunc(foreign, out.Intersects) {
		return nil, errForeignVectors
	}
	return out, nil
}

// brokenAt reports whether a version that cannot be read is in effect.
func (ci *collectionIndex) brokenAt(at int64) bool {
	for id := range ci.broken {
		if b := ci.docs[id]; b != nil && slices.ContainsFunc(b.versions, func(v datedVersion) bool { return v.broken && v.in(at) }) {
			return true
		}
	}
	return false
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
	ci.closed = true
	ci.docs, ci.sets, ci.times = map[string]*indexedDocument{}, newAttributeSets(), newValidity()
	ci.unreadable, ci.broken, ci.byName = map[string]bool{}, map[string]bool{}, map[string]string{}
	ci.chunks, ci.freeNumbers, ci.reused, ci.keywords = nil, nil, nil, lexical.New()
	return ci.vectors.Close()
}

var errForeignVectors = errors.New("documents were embedded by another model; ingest them again or configure that model")

// search returns the best passages among those that the viewer may see of what is in effect at a time, as the model orders them; a time of 0 is now.
// Ordering reads the texts of all candidates: it is done without the lock, so that no change waits for it.
func (ci *collectionIndex) search(ctx context.Context, m rank.Model, text string, vector []float32, v viewer, at int64, topK int) ([]Passage, error) {
	found, err := ci.findVisible(ctx, text, vector, v, at, max(maxFused, topK))
	if err != nil {
		return nil, err
	}
	out := ci.passages(found, found.scores(m))
	return out[:min(topK, len(out))], nil
}

func (ci *collectionIndex) findVisible(ctx context.Context, text string, vector []float32, v viewer, at int64, n int) (found, error) {
	now := ci.rlock()
	defer ci.mu.RUnlock()
	allowed, err := ci.allowed(v, at, now)
	if err != nil || allowed.IsEmpty() {
		return found{}, err
	}
	return ci.find(ctx, text, vector, allowed, n)
}

// passage returns a chunk. Revision is the newest of its collection.
func (ci *collectionIndex) passage(p chunkRef, revision int64) Passage {
	c := p.version.chunks[p.chunk]
	return Passage{
		Collection: ci.key.name, Document: p.version.name, DocumentID: p.version.Document, Version: versionName(p.version.Version),
		Title: p.version.Title, Section: c.shown(), Chunk: c.Chunk, Text: p.version.text(p.chunk), Start: c.Start, End: c.End, Known: p.version.known,
		Revision: revision,
	}
}

// shown is where a chunk stands, for people: its section, and behind it the pages, which are no part of the section.
func (c chunkRow) shown() string {
	switch {
	case c.Place == "":
		return c.Section
	case c.Section == "":
		return c.Place
	}
	return c.Section + ", " + c.Place
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
