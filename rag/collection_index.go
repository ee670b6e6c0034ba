package rag

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/faq"
	"github.com/sluice-project/sluice/rag/rank"
	"github.com/sluice-project/sluice/rag/segment"
)

// collectionIndex is one collection and the store of its passages on the local disk, which follows the tables. Searches take no lock: they read one view of the
// store. What is not in the store yet is not found; what is deleted, ended or given to others is, as soon as the store was told, in no view from then on.
type collectionIndex struct {
	id       string
	key      collectionKey
	title    string
	labels   []string
	embedder string // the model that made the vectors
	created  int64
	now      func() time.Time
	dir      string
	passages passageStore
	ended    chan struct{} // closed when nobody writes the store any more

	settings        atomic.Pointer[collectionRow]
	glossary        atomic.Pointer[storedGlossary] // nil: none was read
	readingGlossary atomic.Bool
	sets            atomic.Pointer[groupSets]
	latest          atomic.Int64 // the latest time that was taken for now, UTC unix µs
	mostVersions    atomic.Int64 // the most that a document has had since
	behindSince     atomic.Int64 // when following the tables began to fail, UTC unix µs; 0 while it works
	// unfollowedSince is when it was first seen that something light was not followed, UTC unix µs; 0 while all is.
	unfollowedSince atomic.Int64
	following       atomic.Bool // watchAccess is at it
	settling        atomic.Bool // it was opened again, and may not know of a change that was made here meanwhile: searches fail
	failure         atomic.Pointer[error]

	// change is held while the store is told what the tables say, shortly: never while texts are read or embedded or their words indexed. What is read of the
	// tables under it is newer than what the store has.
	change   sync.Mutex
	light    journalRow       // the entry of the journal up to which access, dates and deletions were followed
	recent   map[string]int64 // documents that were changed here since, and the revisions of that
	pending  map[string]bool  // documents of which the store lacks a version, or its vectors
	entries  map[string]bool  // those of them that are entries of a FAQ, in one of their versions, and others that were
	partial  bool             // it was not read once as a whole
	followed atomic.Int64     // revision of light
	revised  atomic.Int64     // revision of the last change of the collection that the store was told of

	caughtUp  turns // see catchUp
	behindFAQ atomic.Bool
}

func newCollectionIndex(row collectionRow, embedder string, now func() time.Time) (*collectionIndex, error) {
	labels, err := decodeLabels(row.Labels)
	if err != nil {
		return nil, fmt.Errorf("collection %s: %w", row.ID, err)
	}
	ci := &collectionIndex{
		id: row.ID, key: collectionKey{row.Tenant, row.Name}, title: row.Title, labels: labels, created: row.CreatedAt, embedder: embedder, now: now,
		recent: map[string]int64{}, pending: map[string]bool{}, entries: map[string]bool{}, ended: make(chan struct{}),
	}
	ci.settings.Store(&row)
	return ci, nil
}

// fail makes searches fail from now on, until the collection was opened again: its store does not do what it is told, or what it has cannot be read.
func (ci *collectionIndex) fail(err error) { ci.failure.CompareAndSwap(nil, &err) }

func (ci *collectionIndex) failed() error {
	if err := ci.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// noted returns an error, and has the collection opened again if its store is damaged or of another history.
func (ci *collectionIndex) noted(err error) error {
	if errors.Is(err, segment.ErrDamaged) || errors.Is(err, errHistory) {
		ci.fail(err)
	}
	return err
}

// lacks returns of how many documents the store lacks something.
func (ci *collectionIndex) lacks() int {
	ci.change.Lock()
	defer ci.change.Unlock()
	return len(ci.pending)
}

// close ends the use of the store, and waits until nobody writes it. Searches that have a view of it go on.
func (ci *collectionIndex) close() error {
	ci.fail(segment.ErrClosed)
	err := ci.passages.Close()
	<-ci.ended
	return err
}

// apply changes the store. The revision of the tables that it is complete with goes on when nothing is pending; what else was followed its mark tells. The caller
// holds change.
func (ci *collectionIndex) apply(ctx context.Context, c segment.Change, revision int64) error {
	view := ci.passages.View()
	c.Revision, c.Mark = view.Revision(), view.Mark()
	switch {
	case ci.partial || ci.light.Revision <= c.Revision:
	case len(ci.pending) == 0:
		c.Revision, c.Mark = ci.light.Revision, ci.light.Mark
	default:
		c.Mark = aheadMark(c.Mark, ci.light)
	}
	if len(c.Delete)+len(c.Move)+len(c.Put) > 0 || c.Revision > view.Revision() || c.Mark != view.Mark() {
		if err := ci.passages.Apply(ctx, c); err != nil {
			err = fmt.Errorf("change passages: %w", err)
			if ctx.Err() == nil { // else nothing of it was stored
				ci.fail(err)
			}
			return err
		}
	}
	ci.revised.Store(max(ci.revised.Load(), revision, c.Revision))
	return nil
}

// aheadMark returns the mark of a store that is complete up to one entry of the journal, and was told what is light up to another.
func aheadMark(mark string, ahead journalRow) string {
	mark, _, _ = strings.Cut(mark, " ")
	return fmt.Sprintf("%s %d %s", mark, ahead.Revision, ahead.Mark)
}

// readMark returns the entries of the journal that a view stands on: that up to which it is complete, and that up to which it was told what is light.
func readMark(collection string, view *segment.View) (complete, ahead journalRow, err error) {
	mark, more, found := strings.Cut(view.Mark(), " ")
	complete = journalRow{Collection: collection, Revision: view.Revision(), Mark: mark}
	if !found {
		return complete, complete, nil
	}
	ahead.Collection = collection
	if _, err := fmt.Sscanf(more, "%d %s", &ahead.Revision, &ahead.Mark); err != nil {
		return complete, ahead, fmt.Errorf("%w: the mark", segment.ErrDamaged)
	}
	return complete, ahead, nil
}

// clockBack is how far the clock may go back before it counts as having been wrong: until then what has ended stays ended.
const clockBack = int64(time.Minute / time.Microsecond)

// time returns now, in UTC unix µs. A time that lies a little before that of the last call is taken for that.
func (ci *collectionIndex) time() int64 {
	now := ci.now().UnixMicro()
	for {
		latest := ci.latest.Load()
		if now < latest && now >= latest-clockBack {
			return latest
		}
		if ci.latest.CompareAndSwap(latest, now) {
			return now
		}
	}
}

// groups returns the groups of a view.
func (ci *collectionIndex) groups(view *segment.View) (*groupSets, error) {
	before := ci.sets.Load()
	if before != nil && before.of(view) {
		return before, nil
	}
	sets, err := newGroupSets(view, before, ci.embedder)
	if err == nil {
		ci.sets.Store(sets)
	}
	return sets, err
}

// allowed is what a viewer may see at a time.
type allowed struct {
	passages    *segment.Filter
	withVectors *segment.Filter // those of them with vectors of the index's model: the others are found by their words
	newest      int64
}

// allowed returns the passages that a viewer may see of what is in effect at a time; 0 is now. What cannot be read is an error.
func (ci *collectionIndex) allowed(v viewer, at int64) (allowed, error) {
	newest := ci.revised.Load()
	view := ci.passages.View()
	sets, err := ci.groups(view)
	if err != nil {
		return allowed{}, err
	}
	at = cmp.Or(at, ci.time())
	if !sets.broken.IsEmpty() && view.Filter(sets.broken, at).Len() > 0 {
		return allowed{}, errDamaged
	}
	may := sets.permitted(v)
	out := view.Filter(may, at)
	near := out
	if may.Intersects(sets.foreign) {
		near = out.Without(view.In(sets.foreign))
	}
	return allowed{out, near, newest}, nil
}

// search returns the best passages among those that the viewer may see of what is in effect at a time, as the model orders them; a time of 0 is now. The question
// is the first of forms, the others are how it reads with other words for the same; see find. Each passage says how likely
// it and those before it answer. match, unless nil, is called with all that was found, before equal passages are left out; hit is a copy of what it returns.
func (ci *collectionIndex) search(ctx context.Context, w weights, forms []string, vector []float32, v viewer, at int64, topK int, match func([]Passage) (*Passage, error)) (out []Passage, hit *Passage, err error) {
	found, err := ci.findVisible(ctx, forms, vector, v, at, max(maxFused, topK))
	if err != nil {
		if errors.Is(err, segment.ErrDamaged) {
			ci.fail(err)
		}
		return nil, nil, err
	}
	features := found.features()
	all, order := ci.ordered(found, scores(w.order, features))
	if match != nil {
		best, err := match(all)
		if err != nil {
			return nil, nil, ci.noted(err)
		}
		if best != nil {
			own := *best
			hit = &own
		}
	}
	out, order = withoutDuplicates(all, order)
	out = out[:min(topK, len(out))]
	for i, p := range found.evidence(w.judge, features, order, len(out)) {
		out[i].Evidence = p
	}
	return out, hit, nil
}

// weights are what was learned: how passages are ordered, whether they answer, and whether a question asks an entry of a FAQ.
type weights struct {
	order rank.Model
	judge rank.Judge
	faq   *faq.Model
}

func (ci *collectionIndex) findVisible(ctx context.Context, forms []string, vector []float32, v viewer, at int64, n int) (found, error) {
	allowed, err := ci.allowed(v, at)
	if err != nil || allowed.passages.Len() == 0 {
		return found{}, err
	}
	return ci.find(ctx, forms, vector, allowed, n)
}

// passage makes a passage of what the store says. newest is the revision of the collection.
func (ci *collectionIndex) passage(f segment.Found, newest int64) (Passage, error) {
	d, err := readDetail(f.Detail)
	if err != nil {
		return Passage{}, err
	}
	known, err := decodeKnown(d.Known)
	if err != nil {
		return Passage{}, err
	}
	return Passage{
		faq:        d.FAQ,
		Collection: ci.key.name, Document: d.Name, DocumentID: f.ID, Version: versionName(f.Version),
		Title: d.Title, Section: cutPlace(f.Section).shown(), Chunk: f.Number, Text: f.Text, Start: f.Start, End: f.End, Known: known, Revision: newest,
	}, nil
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

// ordered returns what was found with its scores, best first, and the number of each in what was found.
func (ci *collectionIndex) ordered(f found, scores []float64) (out []Passage, order []int) {
	order = make([]int, len(f.passages))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &f.passages[i], &f.passages[j]
		return cmp.Or(cmp.Compare(scores[j], scores[i]), cmp.Compare(a.DocumentID, b.DocumentID), cmp.Compare(a.Chunk, b.Chunk))
	})
	out = make([]Passage, len(order))
	for to, from := range order {
		out[to] = f.passages[from]
		out[to].Score, out[to].ByWords = scores[from], !f.known[from]
	}
	return out, order
}

// ruledFor returns the passages of documents with a rule that a viewer may see, of versions that have begun.
func (ci *collectionIndex) ruledFor(v viewer) (*segment.Filter, error) {
	view := ci.passages.View()
	sets, err := ci.groups(view)
	if err != nil {
		return nil, err
	}
	may := sets.permitted(v)
	may.AndNot(sets.broken)
	may.And(sets.ruled)
	return view.In(may).Begun(ci.time()), nil
}

// foreign counts the documents with vectors of another model of which a reader may see something that has begun; all of them, without one.
func (ci *collectionIndex) foreign(r *Reader) (int, error) {
	view := ci.passages.View()
	sets, err := ci.groups(view)
	if err != nil {
		return 0, err
	}
	if r == nil {
		return view.In(sets.foreign).Documents(), nil
	}
	if sets.foreign.IsEmpty() || !permits(ci.labels, r.Labels) {
		return 0, nil
	}
	may := sets.permitted(r.viewer())
	may.And(sets.foreign)
	return view.In(may).Begun(ci.time()).Documents(), nil
}

// said returns what the store says of the versions of all documents, by their ids.
func (ci *collectionIndex) said() (map[string]map[int64]detail, error) {
	out := map[string]map[int64]detail{}
	err := ci.passages.View().Each(func(e segment.Entry, raw []byte) error {
		d, err := readDetail(raw)
		if err != nil {
			return err
		}
		d.Known, d.FAQ = "", ""
		if out[e.ID] == nil {
			out[e.ID] = map[int64]detail{}
		}
		out[e.ID][e.Version] = d
		return nil
	})
	return out, err
}

// retried returns the documents that were damaged when they were read, so that they are read again when the store is opened.
func (ci *collectionIndex) retried() (ids []string, err error) {
	view := ci.passages.View()
	some := roaring.New()
	for i, g := range view.Groups() {
		var n needs
		if g != nil && json.Unmarshal(g, &n) == nil && (n.Broken || n.Unreadable || n.Damaged) {
			some.Add(uint32(i))
		}
	}
	if some.IsEmpty() {
		return nil, nil
	}
	bad := view.In(some)
	err = view.Each(func(e segment.Entry, _ []byte) error {
		if bad.HasAny(e) {
			ids = append(ids, e.ID)
		}
		return nil
	})
	slices.Sort(ids)
	return slices.Compact(ids), err
}
