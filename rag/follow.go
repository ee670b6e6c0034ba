package rag

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/sluice-project/sluice/internal/sleep"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/segment"
)

// followOthers follows the tables. What fails for one collection does not count against the others: it notes since when it is behind.
func (s *Service) followOthers(ctx context.Context) (struct{}, error) {
	err := s.follow(ctx)
	if errors.Is(err, errBehind) {
		s.log.Warn("rag: some collections cannot follow their tables; will be tried again", slog.Any("error", err))
		err = nil
	}
	return struct{}{}, err
}

// errBehind marks failures of single collections.
var errBehind = errors.New("collections are behind")

// follow brings the stores up to date with the tables: what changed since is read, what is gone is removed. What one collection fails at does not keep the
// others behind, and is tried again next time. Who may see what, and what is gone, comes first; [Service.watchAccess] does not wait for the rest either.
func (s *Service) follow(ctx context.Context) error {
	if err := s.following.enter(ctx); err != nil {
		return err
	}
	defer s.following.leave()
	if s.closed {
		return segment.ErrClosed
	}
	version, rows, failed := s.followAccess(ctx, s.version, s.collections.Load() == nil || s.anyFailed())
	if rows == nil {
		return failed
	}
	creating := false
	for _, row := range rows {
		err := s.followCollection(ctx, row)
		if errors.Is(err, errCreating) { // whoever creates it shows it; the next turn looks again
			creating = true
			continue
		}
		if err != nil {
			failed = errors.Join(failed, errBehind, fmt.Errorf("collection %s: %w", row.ID, err))
			if ci := (*s.collections.Load())[collectionKey{row.Tenant, row.Name}]; ci != nil {
				ci.behindSince.CompareAndSwap(0, s.now().UnixMicro())
			}
			s.showUnopened(row, err)
		}
	}
	if failed == nil && !creating {
		s.version = version
	}
	return failed
}

var errCreating = errors.New("the collection is being created")

// anyFailed reports whether a collection has to be opened again.
func (s *Service) anyFailed() bool {
	return slices.ContainsFunc(s.all(), func(ci *collectionIndex) bool { return ci.failed() != nil })
}

// followAccess follows what is light, and what revokes: collections, documents and versions that are gone, who may see the others, and when they are in
// effect. It returns the change counter,
// and the collections as they are; no collections if the counter is still seen, unless always.
func (s *Service) followAccess(ctx context.Context, seen int64, always bool) (int64, []collectionRow, error) {
	version, err := s.store.version(ctx) // first: a change in between is seen next time
	if err != nil {
		return 0, nil, err
	}
	if !always && version == seen {
		return version, nil, nil
	}
	rows, err := s.collectionRows(ctx)
	if err != nil {
		return 0, nil, err
	}
	var failed error
	for _, row := range rows {
		ci := (*s.collections.Load())[collectionKey{row.Tenant, row.Name}]
		if ci == nil || ci.id != row.ID || ci.failed() != nil || ci.followed.Load() == row.Revision {
			continue
		}
		if err := s.followOne(ctx, ci); err != nil {
			ci.behindSince.CompareAndSwap(0, s.now().UnixMicro())
			failed = errors.Join(failed, errBehind, fmt.Errorf("access of collection %s: %w", row.ID, err))
		}
	}
	return version, rows, failed
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
	if rows == nil {
		rows = []collectionRow{}
	}
	return rows, gone, nil
}

// followOne follows what is light of one collection. It waits for nothing that is being read or indexed. Error: CodeCollectionNotFound.
func (s *Service) followOne(ctx context.Context, ci *collectionIndex) error {
	ci.change.Lock()
	defer ci.change.Unlock()
	row, found, err := s.store.collection(ctx, ci.id)
	if err != nil {
		return err
	}
	if !found {
		return noCollection(ci.key.name)
	}
	if err := ci.failed(); err != nil {
		return err
	}
	if ci.light.Revision != row.Revision {
		if err := s.followLight(ctx, ci, nil); err != nil {
			return err
		}
	}
	if old := ci.settings.Load(); row.Settings >= old.Settings {
		ci.settings.Store(&row)
	}
	ci.followed.Store(ci.light.Revision)
	return nil
}

// followLight follows the journal of a collection: what is light of each document that was changed, and what versions say that are among contents. The caller
// holds change. Error: errHistory, after which the collection has to be opened again.
func (s *Service) followLight(ctx context.Context, ci *collectionIndex, contents map[string]content) error {
	entries, err := s.store.journal(ctx, ci.id, ci.light.Revision, ci.light.Mark)
	if err != nil {
		if errors.Is(err, errHistory) {
			ci.fail(err)
		}
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	seen, ids := map[string]bool{"": true}, []string(nil)
	for _, e := range entries {
		if !seen[e.Document] {
			seen[e.Document] = true
			ids = append(ids, e.Document)
		}
	}
	before := ci.light
	for len(ids) > 0 {
		part := ids[:min(256, len(ids))]
		if ids = ids[len(part):]; len(ids) == 0 {
			ci.light = entries[len(entries)-1] // so that the store says in the same change that it is complete
		}
		if err := s.settle(ctx, ci, part, contents); err != nil {
			ci.light = before
			return err
		}
	}
	ci.light = entries[len(entries)-1]
	maps.DeleteFunc(ci.recent, func(_ string, revision int64) bool { return revision <= ci.light.Revision })
	return ci.apply(ctx, segment.Change{}, ci.light.Revision) // if only the settings were changed
}

// settle makes the store say of some documents what the tables say now, as far as it has what their versions say or that is among contents. The caller holds
// change.
func (s *Service) settle(ctx context.Context, ci *collectionIndex, ids []string, contents map[string]content) error {
	states, err := s.store.states(ctx, ids)
	if err != nil {
		return err
	}
	var c segment.Change
	revision := int64(0)
	incomplete := map[string]bool{}
	for _, id := range ids {
		d, found := states[id]
		if !found || d.Collection != ci.id {
			d = documentState{documentRow: documentRow{ID: id}, gone: true}
		}
		complete, err := s.place(ci, &c, d, contents)
		if err != nil {
			return err
		}
		incomplete[id] = !complete
		revision = max(revision, d.Revision)
	}
	return s.settled(ctx, ci, c, incomplete, revision)
}

// place adds to a change what makes the store say what a document is, and reports whether it then does.
func (s *Service) place(ci *collectionIndex, c *segment.Change, d documentState, contents map[string]content) (complete bool, err error) {
	view := ci.passages.View()
	if ci.partial { // it has nothing of a document before its turn: each has one
		view = &segment.View{}
	}
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
	complete, err = b.placed(c, view, contents, s.model, s.store.rules)
	if errors.Is(err, segment.ErrDamaged) {
		ci.fail(err)
	}
	return complete, err
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
	if err != nil {
		for _, id := range mended {
			ci.pending[id] = true
		}
	}
	return err
}

// tellVersion makes the store say what a document is after a version was stored here, together with what was changed before, by whomever: a document that had
// the same name and was deleted is never found beside it.
func (s *Service) tellVersion(ctx context.Context, ci *collectionIndex, d documentState, contents map[string]content) error {
	ci.change.Lock()
	defer ci.change.Unlock()
	ctx = context.WithoutCancel(ctx)
	if err := ci.failed(); err != nil {
		return err
	}
	if d.Revision <= ci.light.Revision { // it was followed meanwhile
		return s.settle(ctx, ci, []string{d.ID}, contents)
	}
	return s.followLight(ctx, ci, contents)
}

// tell makes the store say what a document is after a change that was made here. What cannot be told ends searches: nobody is shown what was taken from him.
func (s *Service) tell(ctx context.Context, ci *collectionIndex, d documentState) error {
	ci.change.Lock()
	defer ci.change.Unlock()
	ctx = context.WithoutCancel(ctx)
	if d.Revision <= max(ci.light.Revision, ci.recent[d.ID]) { // somebody has changed it since, and the store knows
		return s.settle(ctx, ci, []string{d.ID}, nil)
	}
	var c segment.Change
	complete, err := s.place(ci, &c, d, nil)
	if err == nil {
		err = s.settled(ctx, ci, c, map[string]bool{d.ID: !complete}, d.Revision)
	}
	if err != nil {
		ci.fail(err)
		return err
	}
	ci.recent[d.ID] = d.Revision
	return nil
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

// followCollection reads what documents say that changed. A new collection, and one whose store has failed, appears when it is complete.
func (s *Service) followCollection(ctx context.Context, row collectionRow) error {
	key := collectionKey{row.Tenant, row.Name}
	if !s.reserve(row.ID) {
		return errCreating
	}
	defer s.release(row.ID)
	ci := (*s.collections.Load())[key]
	if ci != nil && ci.id == row.ID && ci.failed() == nil {
		if err := s.followHeavy(ctx, ci); err != nil {
			return err
		}
		ci.behindSince.Store(0)
		return nil
	}
	if ci != nil && ci.id == row.ID {
		s.log.Warn("rag: the stored passages of a collection are opened again", slog.String("collection", ci.id), slog.Any("error", ci.failed()))
		if err := s.abandon(ci); err != nil {
			return err
		}
	}
	fresh, err := s.openFilled(ctx, row)
	if errors.Is(err, segment.ErrDamaged) { // found out while it was filled: the next one is empty
		fresh, err = s.openFilled(ctx, row)
	}
	if err != nil {
		return err
	}
	if !s.publish(fresh) {
		s.discard(fresh)
	}
	return nil
}

// openFilled opens a collection and reads what it lacks.
func (s *Service) openFilled(ctx context.Context, row collectionRow) (*collectionIndex, error) {
	ci, err := s.openIndex(ctx, row)
	if err != nil {
		return nil, err
	}
	if err := s.fill(ctx, ci); err != nil {
		if errors.Is(err, segment.ErrDamaged) {
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

// fillDocuments is how many documents are read at a time.
const fillDocuments = 128

// fill reads what a collection lacks that nobody searches yet: everything, if its store is new.
func (s *Service) fill(ctx context.Context, ci *collectionIndex) error {
	if ci.partial {
		row, found, err := s.store.collection(ctx, ci.id)
		if err != nil {
			return err
		}
		if !found {
			return noCollection(ci.key.name)
		}
		mark, err := s.store.mark(ctx, ci.id, row.Revision)
		if err != nil {
			return err
		}
		ci.light = journalRow{Collection: ci.id, Revision: row.Revision, Mark: mark} // what changes from now on the journal says
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
	if err := s.followOne(ctx, ci); err != nil { // it may have taken long, and nobody followed what is light of it
		return err
	}
	return s.followHeavy(ctx, ci)
}

// followHeavy reads what is pending when it begins. Searches, and who changes what is light, wait for none of it.
func (s *Service) followHeavy(ctx context.Context, ci *collectionIndex) error {
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
	return ci.apply(ctx, segment.Change{}, ci.light.Revision)
}

// fetch reads what some documents say that the store does not have, and tells it. With prepare their words are indexed before the store is locked.
func (s *Service) fetch(ctx context.Context, ci *collectionIndex, ids []string, prepare bool) error {
	states, err := s.store.states(ctx, ids)
	if err != nil {
		return err
	}
	var missing []versionRow
	for _, id := range ids {
		some, err := s.missing(ci, states[id])
		if err != nil {
			return err
		}
		missing = append(missing, some...)
	}
	contents, err := s.contents(ctx, missing)
	if err != nil {
		return err
	}
	if prepare {
		for id, c := range contents {
			c.ready = c.unprepared(s.model)
			if err := ci.passages.Prepare(ctx, c.ready); err != nil {
				return fmt.Errorf("index version %s: %w", id, err)
			}
			contents[id] = c
		}
	}
	ci.change.Lock()
	defer ci.change.Unlock()
	return s.settle(ctx, ci, ids, contents)
}

// missing returns the versions of a document of which the store does not have what they say, or vectors of another model.
func (s *Service) missing(ci *collectionIndex, d documentState) (out []versionRow, err error) {
	if ci.partial {
		return d.versions, nil
	}
	have := map[int64]detail{}
	for _, e := range ci.passages.View().Find(d.ID) {
		raw, err := e.Detail()
		if err != nil {
			return nil, err
		}
		if have[e.Version], err = readDetail(raw); err != nil {
			return nil, err
		}
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
	for from := 0; from < len(versions); {
		var ids []string
		for chunks := 0; from < len(versions) && len(ids) < fillDocuments && chunks < 1000; from++ { // about as much as memory for one large document
			ids = append(ids, versions[from].ID)
			chunks += versions[from].Chunks
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

// watchAccess follows who may see what, what is in effect, and what is gone, until ctx ends. It does not wait for documents that are being read and indexed: a right that is
// taken away ends here within the poll interval, however much comes in.
func (s *Service) watchAccess(ctx context.Context) {
	var seen int64
	for ctx.Err() == nil {
		if s.collections.Load() != nil {
			version, _, err := s.followAccess(ctx, seen, false)
			if err != nil {
				s.log.Warn("rag: following access failed; will be tried again", slog.Any("error", err))
			} else {
				seen = version
			}
		}
		sleep.For(ctx, s.cfg.Poll)
	}
}
