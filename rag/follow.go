package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/sleep"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/segment"
)

// followOthers follows the tables. What fails for one collection does not count against the others: it notes since when it is behind. It waits for no
// collection that is being opened.
func (s *Service) followOthers(ctx context.Context) (struct{}, error) {
	_, err := s.followTurn(ctx, true)
	if errors.Is(err, errBehind) {
		s.log.Warn("rag: some collections cannot follow their tables; will be tried again", slog.Any("error", err))
		err = nil
	}
	return struct{}{}, err
}

// errBehind marks failures of single collections.
var errBehind = errors.New("collections are behind")

// follow brings the stores up to date with the tables, and waits for those that are being opened.
func (s *Service) follow(ctx context.Context) error {
	openings, err := s.followTurn(ctx, true)
	for _, o := range openings {
		if failed := o.wait(ctx); failed != nil {
			err = errors.Join(err, errBehind, fmt.Errorf("open collection %s: %w", o.id, failed))
		}
	}
	return err
}

// followTurn brings the stores up to date with the tables: what changed since is read, what is gone is removed. What one collection fails at does not keep the
// others behind, and is tried again next time. Who may see what, and what is gone, comes first; [Service.watchAccess] does not wait for the rest either. Stores
// that have to be opened, or made again, are so by goroutines of their own, which are returned: that may take longer than a turn.
func (s *Service) followTurn(ctx context.Context, heavy bool) (openings []*opening, failed error) {
	if err := s.following.enter(ctx); err != nil {
		return nil, err
	}
	defer s.following.leave()
	if s.closed {
		return nil, segment.ErrClosed
	}
	version, rows, failed := s.followAccess(ctx, s.version, s.collections.Load() == nil || s.anyFailed())
	if rows == nil {
		return nil, failed
	}
	creating := false
	var open []followed
	for _, row := range rows {
		if ci := s.indexOf(row); ci != nil && ci.failed() == nil {
			open = append(open, followed{row, ci, ci.lacks()})
			continue
		}
		o, err := s.open(row)
		switch {
		case errors.Is(err, errCreating): // whoever creates it shows it; the next turn looks again
			creating = true
		case err != nil:
			failed = errors.Join(failed, errBehind, fmt.Errorf("open collection %s: %w", row.ID, err))
		default:
			openings = append(openings, o)
		}
	}
	if !heavy {
		return openings, failed
	}
	// Those with much to read come last: a turn may end before they do.
	slices.SortStableFunc(open, func(a, b followed) int { return cmp.Compare(a.lacked, b.lacked) })
	for _, f := range open {
		if err := s.followHeavy(ctx, f.ci, f.row.Revision); err != nil {
			failed = errors.Join(failed, errBehind, fmt.Errorf("collection %s: %w", f.row.ID, err))
			if ctx.Err() != nil && (f.lacked == 0 || f.ci.lacks() < f.lacked) { // it goes on next time
				continue
			}
			f.ci.behindSince.CompareAndSwap(0, s.now().UnixMicro())
			continue
		}
		f.ci.behindSince.Store(0)
	}
	if failed == nil && !creating && len(openings) == 0 {
		s.version = version
	}
	return openings, failed
}

// followed is an open collection in a turn of following, and how many documents it lacked when that began.
type followed struct {
	row    collectionRow
	ci     *collectionIndex
	lacked int
}

// indexOf returns the collection as it is shown; nil if it is not.
func (s *Service) indexOf(row collectionRow) *collectionIndex {
	if all := s.collections.Load(); all != nil {
		if ci := (*all)[collectionKey{row.Tenant, row.Name}]; ci != nil && ci.id == row.ID {
			return ci
		}
	}
	return nil
}

var errCreating = errors.New("the collection is being created")

// anyFailed reports whether a collection has to be opened again.
func (s *Service) anyFailed() bool {
	return slices.ContainsFunc(s.all(), func(ci *collectionIndex) bool { return ci.failed() != nil })
}

// followAccess follows what is light, and what revokes: collections, documents and versions that are gone, who may see the others, and when they are in
// effect. It returns the change counter, and the collections as they are; no collections if the counter is still seen, unless always.
func (s *Service) followAccess(ctx context.Context, seen int64, always bool) (int64, []collectionRow, error) {
	version, rows, behind, err := s.behind(ctx, seen, always)
	if err != nil {
		return 0, nil, err
	}
	failures := make([]error, len(behind))
	var all sync.WaitGroup
	slots := make(chan struct{}, followAtOnce)
	for i, ci := range behind {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			row, err := s.followOne(ctx, ci)
			if err != nil {
				failures[i] = errors.Join(errBehind, fmt.Errorf("access of collection %s: %w", ci.id, err))
				return
			}
			s.followGlossary(ctx, ci, row)
		})
	}
	all.Wait()
	return version, rows, errors.Join(failures...)
}

// followAtOnce is how many collections are followed, and opened, at a time.
const followAtOnce = 8

// behind returns what followAccess does, and the collections of which something light is to be followed. They are behind from now on, until [Service.followOne]
// has done it: one that it does not come to an end with is searched no longer than one that it fails at.
func (s *Service) behind(ctx context.Context, seen int64, always bool) (version int64, rows []collectionRow, out []*collectionIndex, err error) {
	if version, err = s.store.version(ctx); err != nil { // first: a change in between is seen next time
		return 0, nil, nil, err
	}
	if !always && version == seen {
		return version, nil, nil, nil
	}
	if rows, err = s.collectionRows(ctx); err != nil {
		return 0, nil, nil, err
	}
	for _, row := range rows {
		ci := s.indexOf(row)
		if ci == nil || ci.failed() != nil {
			continue
		}
		if ci.followed.Load() == row.Revision {
			ci.unfollowedSince.Store(0)
			if !ci.knowsGlossary(row) { // it decides about no right: the collection is searched meanwhile
				out = append(out, ci)
			}
			continue
		}
		ci.unfollowedSince.CompareAndSwap(0, s.now().UnixMicro())
		out = append(out, ci)
	}
	return version, rows, out, nil
}

// collectionRows reads the collections, and removes those that are gone.
func (s *Service) collectionRows(ctx context.Context) ([]collectionRow, error) {
	rows, gone, err := s.removeGone(ctx)
	for _, ci := range gone {
		s.discards.Go(func() { s.discard(ci) }) // it may wait for a merge, and others for who follows
	}
	return rows, err
}

func (s *Service) removeGone(ctx context.Context) (rows []collectionRow, gone []*collectionIndex, err error) {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if rows, err = s.store.collections(ctx); err != nil {
		return nil, nil, err
	}
	if s.collections.Load() == nil {
		s.collections.Store(&collectionIndexes{})
	}
	alive := map[string]bool{}
	for _, r := range rows {
		alive[r.ID] = true
	}
	for key, ci := range *s.collections.Load() {
		if !alive[ci.id] {
			s.replace(key, nil)
			gone = append(gone, ci)
		}
	}
	maps.DeleteFunc(s.openings, func(id string, o *opening) bool { return !alive[id] && !o.running() })
	if rows == nil {
		rows = []collectionRow{}
	}
	return rows, gone, nil
}

// journalPart is how many entries of the journal are followed at a time.
const journalPart = 256

// followOne follows what is light of one collection, up to where it is now. It waits for nothing that is being read or indexed, and nobody who changes something
// waits for more than a part of it. It returns the collection as it was before. Errors: CodeCollectionNotFound; errHistory, after which the collection has to be opened
// again.
func (s *Service) followOne(ctx context.Context, ci *collectionIndex) (collectionRow, error) {
	row, found, err := s.store.collection(ctx, ci.id)
	if err != nil {
		return row, err
	}
	if !found {
		return row, noCollection(ci.key.name)
	}
	for done := false; !done; {
		if done, err = s.followPart(ctx, ci, row.Revision, nil); err != nil {
			return row, err
		}
	}
	ci.unfollowedSince.Store(0)
	return row, nil
}

// followPart follows the next entries of the journal of a collection: what is light of each document that was changed, and what versions say that are among
// contents. It is done when that leads to a revision.
// Error: errHistory if the journal does not lead to where the collection is.
func (s *Service) followPart(ctx context.Context, ci *collectionIndex, revision int64, contents map[string]content) (done bool, err error) {
	for known := (outlines{}); ; {
		var lacks []*segment.Entry
		if done, lacks, err = s.tryPart(ctx, ci, revision, contents, known); err != nil || len(lacks) == 0 {
			return done, err
		}
		if err := known.read(lacks); err != nil { // without the lock
			return false, ci.noted(err)
		}
	}
}

func (s *Service) tryPart(ctx context.Context, ci *collectionIndex, revision int64, contents map[string]content, known outlines) (done bool, lacks []*segment.Entry, err error) {
	ci.change.Lock()
	defer ci.change.Unlock()
	row, found, err := s.store.collection(ctx, ci.id) // under the lock, and before the journal: somebody else may have followed it
	if err != nil {
		return false, nil, err
	}
	if !found {
		return false, nil, noCollection(ci.key.name)
	}
	if err := ci.failed(); err != nil {
		return false, nil, err
	}
	if old := ci.settings.Load(); row.Settings >= old.Settings {
		ci.settings.Store(&row)
	}
	if ci.light.Revision == row.Revision {
		ci.followed.Store(row.Revision)
		return true, nil, nil
	}
	entries, err := s.store.journal(ctx, ci.id, ci.light.Revision, ci.light.Mark, journalPart)
	if err == nil && len(entries) < journalPart && (len(entries) == 0 || entries[len(entries)-1].Revision < row.Revision) {
		err = errHistory // nobody has noted the last change
	}
	if err != nil {
		return false, nil, ci.noted(err)
	}
	seen, ids := map[string]bool{"": true}, []string(nil)
	for _, e := range entries {
		if !seen[e.Document] {
			seen[e.Document] = true
			ids = append(ids, e.Document)
		}
	}
	before := ci.light
	ci.light = entries[len(entries)-1] // so that the store says in the same change up to where it is complete
	if lacks, err = s.settle(ctx, ci, ids, contents, known); err == nil && len(lacks) == 0 {
		err = ci.apply(ctx, segment.Change{}, ci.light.Revision) // if only the settings were changed
	}
	if err != nil || len(lacks) > 0 {
		ci.light = before
		return false, lacks, err
	}
	maps.DeleteFunc(ci.recent, func(_ string, revision int64) bool { return revision <= ci.light.Revision })
	ci.followed.Store(ci.light.Revision)
	return ci.light.Revision >= revision, nil, nil
}

// settle makes the store say of some documents what the tables say now, as far as it has what their versions say or that is among contents. Where rules have
// parts it needs the outlines of the versions; it changes nothing and returns those that it lacks. The caller holds change.
func (s *Service) settle(ctx context.Context, ci *collectionIndex, ids []string, contents map[string]content, known outlines) (lacks []*segment.Entry, err error) {
	states, err := s.store.states(ctx, ids)
	if err != nil {
		return nil, err
	}
	var c segment.Change
	revision := int64(0)
	incomplete := map[string]bool{}
	p := placing{known: known}
	for _, id := range ids {
		d, found := states[id]
		if !found || d.Collection != ci.id {
			d = documentState{documentRow: documentRow{ID: id}, gone: true}
		}
		complete, err := s.place(ci, &c, d, contents, &p)
		if err != nil {
			return nil, err
		}
		incomplete[id] = !complete
		revision = max(revision, d.Revision)
	}
	if len(p.lacks) > 0 {
		return p.lacks, nil
	}
	return nil, s.settled(ctx, ci, c, incomplete, revision)
}

// place adds to a change what makes the store say what a document is, and reports whether it then does.
func (s *Service) place(ci *collectionIndex, c *segment.Change, d documentState, contents map[string]content, p *placing) (complete bool, err error) {
	view := ci.passages.View()
	if d.gone {
		if len(view.Find(d.ID)) > 0 {
			c.Delete = append(c.Delete, segment.Name{ID: d.ID})
		}
		return true, nil
	}
	b, err := s.document(d)
	if err != nil {
		s.log.Error("rag: a stored document cannot be read; its collection cannot be searched", slog.String("document", d.ID), slog.Any("error", err))
		placeUnreadable(c, view, d.ID, s.model)
		return true, nil
	}
	for n := int64(len(b.rows)); ; {
		if most := ci.mostVersions.Load(); n <= most || ci.mostVersions.CompareAndSwap(most, n) {
			break
		}
	}
	complete, err = b.placed(c, view, contents, s.model, s.store.rules, p)
	if !complete && slices.ContainsFunc(b.rows, func(v versionRow) bool { return v.MIME == FAQType }) {
		ci.entries[d.ID] = true
	}
	return complete, ci.noted(err)
}

// settled makes a change after which some documents are as the tables have them, but for those that are incomplete. The caller holds change.
func (s *Service) settled(ctx context.Context, ci *collectionIndex, c segment.Change, incomplete map[string]bool, revision int64) error {
	var mended []string
	for id, is := range incomplete {
		if is {
			ci.pending[id] = true
		} else if ci.pending[id] {
			delete(ci.pending, id)
			mended = append(mended, id)
		}
	}
	err := ci.apply(ctx, c, revision)
	for _, id := range mended {
		if err != nil {
			ci.pending[id] = true
		} else {
			delete(ci.entries, id)
		}
	}
	return err
}

// tellVersion makes the store say what a document is after a version was stored here, together with what was changed before, by whomever: a document that had
// the same name and was deleted is never found beside it.
func (s *Service) tellVersion(ctx context.Context, ci *collectionIndex, d documentState, contents map[string]content) error {
	ctx = context.WithoutCancel(ctx)
	for known := (outlines{}); ; {
		followed, lacks, err := s.trySettle(ctx, ci, d, contents, known)
		switch {
		case err != nil || followed && len(lacks) == 0:
			return err
		case followed:
			err = ci.noted(known.read(lacks)) // without the lock
		default:
			var done bool
			if done, err = s.followPart(ctx, ci, d.Revision, contents); err == nil && done && ci.followed.Load() < d.Revision {
				err = ci.noted(errHistory) // the tables were put back to before this change
			}
		}
		if err != nil {
			return err
		}
	}
}

// trySettle settles a document if its collection was followed up to the revision that it has; else followed is false.
func (s *Service) trySettle(ctx context.Context, ci *collectionIndex, d documentState, contents map[string]content, known outlines) (followed bool, lacks []*segment.Entry, err error) {
	ci.change.Lock()
	defer ci.change.Unlock()
	if err := ci.failed(); err != nil {
		return false, nil, err
	}
	if followed = ci.light.Revision >= d.Revision; followed && ci.pending[d.ID] {
		lacks, err = s.settle(ctx, ci, []string{d.ID}, contents, known)
	}
	return followed, lacks, err
}

// tell makes the store say what a document is after a change that was made here. What cannot be told ends searches: nobody is shown what was taken from him.
func (s *Service) tell(ctx context.Context, ci *collectionIndex, d documentState) error {
	ctx = context.WithoutCancel(ctx)
	for known := (outlines{}); ; {
		ci = s.current(ci) // it may be opened again meanwhile
		lacks, err := s.tryTell(ctx, ci, d, known)
		if err != nil || len(lacks) == 0 {
			return err
		}
		if err := known.read(lacks); err != nil { // without the lock
			ci.fail(err)
			return err
		}
	}
}

func (s *Service) tryTell(ctx context.Context, ci *collectionIndex, d documentState, known outlines) (lacks []*segment.Entry, err error) {
	ci.change.Lock()
	defer ci.change.Unlock()
	if d.Revision <= max(ci.light.Revision, ci.recent[d.ID]) { // somebody has changed it since, and the store knows
		return s.settle(ctx, ci, []string{d.ID}, nil, known)
	}
	var c segment.Change
	p := placing{known: known}
	complete, err := s.place(ci, &c, d, nil, &p)
	if err == nil && len(p.lacks) > 0 {
		return p.lacks, nil
	}
	if err == nil {
		err = s.settled(ctx, ci, c, map[string]bool{d.ID: !complete}, d.Revision)
	}
	if err != nil {
		ci.fail(err)
		return nil, err
	}
	ci.recent[d.ID] = d.Revision
	return nil, nil
}

// show is tell where the change is done: what failed is logged, and searches fail until it is told.
func (s *Service) show(ctx context.Context, ci *collectionIndex, d documentState) {
	if err := s.tell(ctx, ci, d); err != nil {
		s.log.Error("rag: a change is stored and could not be carried out here; its collection cannot be searched until it is", slog.String("document", d.ID), slog.Any("error", err))
	}
}

// document reads who may see a document out of its row. A rule that is damaged lets nobody in; labels that are damaged are an error.
func (s *Service) document(d documentState) (*indexedDocument, error) {
	b := &indexedDocument{documentRow: d.documentRow, rows: d.versions}
	var err error
	if b.labels, err = decodeLabels(b.Labels); err != nil {
		return nil, err
	}
	b.rule, err = s.store.rules.decode(b.ID, b.Labels, b.documentRow.Rule)
	if b.damaged = err != nil; b.damaged {
		s.log.Error("rag: the access rule of a document is damaged; nobody sees the document", slog.String("document", b.ID))
	}
	return b, nil
}

// openFilled opens a collection and reads what it lacks.
func (s *Service) openFilled(ctx context.Context, row collectionRow) (*collectionIndex, error) {
	ci, err := s.openIndex(ctx, row)
	if err != nil {
		return nil, err
	}
	if err := s.fill(ctx, ci); err != nil {
		if errors.Is(err, segment.ErrDamaged) || errors.Is(err, errHistory) {
			ci.fail(err)
		}
		return nil, errors.Join(err, s.abandon(ci))
	}
	return ci, nil
}

// abandon closes a store so that it can be opened again. One that is damaged, or has followed tables of another history, is removed: what is true of it cannot be
// told from what is not.
func (s *Service) abandon(ci *collectionIndex) error {
	why := ci.failed()
	if err := ci.close(); err != nil {
		s.log.Warn("rag: closing stored passages failed", slog.Any("error", err))
	}
	if !errors.Is(why, segment.ErrDamaged) && !errors.Is(why, errHistory) {
		return nil
	}
	s.log.Warn("rag: the stored passages of a collection cannot be used and are made again from the tables", slog.String("collection", ci.id), slog.Any("error", why))
	if err := os.RemoveAll(ci.dir); err != nil {
		return fmt.Errorf("remove stored passages: %w", err)
	}
	return nil
}

// publish shows a collection, unless it was deleted meanwhile.
func (s *Service) publish(ci *collectionIndex) bool {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if s.deleted[ci.id] {
		return false
	}
	s.replace(ci.key, ci)
	return true
}

// reserve keeps a collection for one goroutine that opens it; false if another does.
func (s *Service) reserve(id string) bool {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if s.making[id] {
		return false
	}
	s.making[id] = true
	return true
}

func (s *Service) release(id string) {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	delete(s.making, id)
}

// fillDocuments is how many documents are looked at, and passagesAtOnce how many passages are read at a time, if one version has not more: about as much
// memory as for one large document.
const (
	fillDocuments  = 128
	passagesAtOnce = 2000
	bytesAtOnce    = 64 << 20
)

// atOnce returns how many passages are read at a time: no more than some bytes, by what one may take.
func (c Config) atOnce(dim int) int {
	return max(1, min(passagesAtOnce, bytesAtOnce/(4*dim+utf8.UTFMax*cmp.Or(c.ChunkSize, 512))))
}

// fill reads what a collection lacks that nobody searches yet: everything, if its store is new.
func (s *Service) fill(ctx context.Context, ci *collectionIndex) error {
	if ci.partial {
		begin, found, err := s.store.beginning(ctx, ci.id)
		if err != nil {
			return err
		}
		if !found {
			return noCollection(ci.key.name)
		}
		ci.light = begin // what changes from now on the journal says
		for after := ""; ; {
			ids, err := s.store.page(ctx, ci.id, after, fillDocuments)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				break
			}
			if err := s.fetch(ctx, ci, ids, false); err != nil {
				return err
			}
			after = ids[len(ids)-1]
		}
		ci.partial = false
	}
	for { // what changed again while it was read is read again
		row, err := s.followOne(ctx, ci) // it may have taken long, and nobody followed what is light of it
		if err != nil {
			return err
		}
		s.followGlossary(ctx, ci, row)
		if err := s.followHeavy(ctx, ci, 0); !errors.Is(err, errChanged) {
			return err
		}
	}
}

// followHeavy reads what is pending when it begins. Searches, and who changes what is light, wait for none of it. Error: errChanged if something of it is pending
// still, or the collection has not been followed up to a revision.
func (s *Service) followHeavy(ctx context.Context, ci *collectionIndex, revision int64) error {
	ci.change.Lock()
	ids := slices.Sorted(maps.Keys(ci.pending))
	ci.change.Unlock()
	for part := range slices.Chunk(ids, fillDocuments) {
		if err := s.fetch(ctx, ci, part, true); err != nil {
			return err
		}
	}
	ci.change.Lock()
	defer ci.change.Unlock()
	for _, id := range ids {
		if ci.pending[id] {
			return errChanged // while it was read: the next turn reads it
		}
	}
	if err := ci.failed(); err != nil {
		return err
	}
	if ci.light.Revision < revision {
		return errors.New("its journal is not followed to the end")
	}
	return ci.apply(ctx, segment.Change{}, ci.light.Revision)
}

// fetch reads what some documents say that the store does not have, and tells it, a part at a time. With prepare their words are indexed before the store is
// locked.
func (s *Service) fetch(ctx context.Context, ci *collectionIndex, ids []string, prepare bool) error {
	states, err := s.store.states(ctx, ids)
	if err != nil {
		return err
	}
	var part []versionRow
	var documents []string
	passages := 0
	flush := func() error {
		err := s.fetchPart(ctx, ci, documents, part, prepare)
		part, documents, passages = nil, nil, 0
		return err
	}
	for _, id := range ids {
		missing, err := s.missing(ci, states[id])
		if err != nil {
			return err
		}
		documents = append(documents, id)
		for _, v := range missing {
			if len(part) > 0 && (passages+v.Chunks > s.atOnce || len(part) == fillDocuments) {
				if err := flush(); err != nil {
					return err
				}
				documents = []string{id} // its other versions are pending until their part
			}
			part = append(part, v)
			passages += v.Chunks
		}
	}
	return flush()
}

// fetchPart reads what some versions say, and settles the documents.
func (s *Service) fetchPart(ctx context.Context, ci *collectionIndex, documents []string, versions []versionRow, prepare bool) error {
	contents, err := s.contents(ctx, versions)
	if err != nil {
		return err
	}
	if prepare {
		for id, c := range contents {
			c.ready = c.unprepared(s.model)
			if err := ci.passages.IndexWords(ctx, c.ready); err != nil {
				return fmt.Errorf("index version %s: %w", id, err)
			}
			contents[id] = c
		}
	}
	for known := (outlines{}); ; {
		ci.change.Lock()
		lacks, err := s.settle(ctx, ci, documents, contents, known)
		ci.change.Unlock()
		if err != nil || len(lacks) == 0 {
			return err
		}
		if err := known.read(lacks); err != nil {
			return ci.noted(err)
		}
	}
}

// missing returns the versions of a document of which the store does not have what they say, or vectors of another model.
func (s *Service) missing(ci *collectionIndex, d documentState) (out []versionRow, err error) {
	have, err := readDetails(ci.passages.View().Find(d.ID))
	if err != nil {
		return nil, err
	}
	for _, v := range d.versions {
		if is, ok := have[v.Version]; !ok || is.Broken || is.Embedder != v.Embedder {
			out = append(out, v)
		}
	}
	return out, nil
}

// contents reads what versions say, by their ids. Those that are changing are left out; the broken ones are marked.
func (s *Service) contents(ctx context.Context, versions []versionRow) (map[string]content, error) {
	out := map[string]content{}
	if len(versions) == 0 {
		return out, nil
	}
	ids := make([]string, len(versions))
	for i, v := range versions {
		ids[i] = v.ID
	}
	all, err := s.store.contents(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.err == nil {
			r.err = s.checkStored(r.version)
		}
		switch {
		case errors.Is(r.err, errDamaged):
			s.log.Error("rag: a stored document cannot be read; its collection cannot be searched while it is in effect", slog.String("version", r.id), slog.Any("error", r.err))
			out[r.id] = content{broken: true}
		case r.err == nil:
			out[r.id] = content{version: r.version}
		}
	}
	return out, nil
}

// checkStored checks that vectors of this service's model are vectors. Error: errDamaged.
func (s *Service) checkStored(v *indexedVersion) error {
	for _, c := range v.chunks {
		if v.Embedder != s.model.ID {
			break
		}
		if err := index.Check(decodeVector(c.Vector), s.model.Dim); err != nil {
			return errors.Join(errDamaged, err)
		}
	}
	return nil
}

// watchAccess follows who may see what, what is in effect, and what is gone, until ctx ends. It does not wait for documents that are being read and indexed, nor
// for another collection: a right that is taken away ends here within the poll interval, however much comes in.
func (s *Service) watchAccess(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	var seen int64
	for ; ctx.Err() == nil; sleep.For(ctx, s.cfg.Poll) {
		if s.collections.Load() == nil {
			continue
		}
		version, _, behind, err := s.behind(ctx, seen, false)
		if err != nil {
			s.log.Warn("rag: following access failed; will be tried again", slog.Any("error", err))
			continue
		}
		if len(behind) == 0 {
			seen = version
		}
		for _, ci := range behind {
			if ci.following.CompareAndSwap(false, true) { // else it is still at it
				all.Go(func() { s.watchOne(ctx, ci) })
			}
		}
	}
}

// watchOne follows what is light of one collection, and gives a statement that hangs up. The glossary comes last, when who may see what can be followed again.
func (s *Service) watchOne(ctx context.Context, ci *collectionIndex) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.freshness().MaxAge/2)
	defer cancel()
	row, err := s.followOne(ctx, ci)
	ci.following.Store(false)
	if err != nil {
		s.log.Warn("rag: following access failed; will be tried again", slog.String("collection", ci.id), slog.Any("error", err))
		return
	}
	if ci.readingGlossary.CompareAndSwap(false, true) { // else it is still at it
		defer ci.readingGlossary.Store(false)
		s.followGlossary(ctx, ci, row)
	}
}
