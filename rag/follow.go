package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/sluice-project/sluice/internal/sleep"
	"github.com/sluice-project/sluice/rag/index"
)

// followOthers follows the tables. What fails for one collection does not count against the others: it notes since when it is behind.
func (s *Service) followOthers(ctx context.Context) (struct{}, error) {
	err := s.follow(ctx)
	if all := s.collections.Load(); all != nil {
		for _, ci := range *all {
			s.compact(ci)
		}
	}
	if errors.Is(err, errBehind) {
		s.log.Warn("rag: some collections cannot follow their tables; will be tried again", slog.Any("error", err))
		err = nil
	}
	return struct{}{}, err
}

// errBehind marks failures of single collections.
var errBehind = errors.New("collections are behind")

// follow brings memory up to date with the tables: collections and documents whose revision differs are read again, those that are
// gone are removed. What one collection fails at does not keep the others behind, and is tried again next time. Who may see what, and what is gone, comes
// first; [Service.watchAccess] does not wait for the rest either.
func (s *Service) follow(ctx context.Context) error {
	s.followMu.Lock()
	defer s.followMu.Unlock()
	version, rows, failed := s.followAccess(ctx, s.version, s.collections.Load() == nil)
	if rows == nil {
		return failed
	}
	for _, row := range rows {
		if err := s.followCollection(ctx, row); err != nil {
			failed = errors.Join(failed, errBehind, fmt.Errorf("collection %s: %w", row.ID, err))
			if ci := (*s.collections.Load())[collectionKey{row.Tenant, row.Name}]; ci != nil {
				ci.behindSince.CompareAndSwap(0, s.now().UnixMicro())
			}
		}
	}
	if failed == nil {
		s.version = version
	}
	return failed
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
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if version, err = s.store.version(ctx); err != nil { // again: nothing that is changed here meanwhile may seem to be gone
		return 0, nil, err
	}
	rows, err := s.store.collections(ctx)
	if err != nil {
		return 0, nil, err
	}
	if s.collections.Load() == nil {
		s.collections.Store(&collectionIndexes{})
	}
	s.removeGone(rows)
	var failed error
	for _, row := range rows {
		ci := (*s.collections.Load())[collectionKey{row.Tenant, row.Name}]
		if ci == nil {
			continue
		}
		if err := s.followLight(ctx, ci, row, version); err != nil {
			ci.behindSince.CompareAndSwap(0, s.now().UnixMicro())
			failed = errors.Join(failed, errBehind, fmt.Errorf("access of collection %s: %w", row.ID, err))
		}
	}
	if rows == nil {
		rows = []collectionRow{}
	}
	return version, rows, failed
}

// followLight follows one collection in memory. The caller holds changeMu.
func (s *Service) followLight(ctx context.Context, ci *collectionIndex, row collectionRow, version int64) error {
	if ci.light == row.Revision {
		ci.followed = version
		return nil
	}
	revisions, order, err := s.store.revisions(ctx, ci.id)
	if err != nil {
		return err
	}
	for _, id := range ci.documentIDs() {
		if _, ok := revisions[id]; !ok {
			if err := ci.remove(ctx, id); err != nil {
				s.log.Warn("rag: removing a document from the index failed", slog.Any("error", err))
			}
		}
	}
	have, changed := map[string]int64{}, []string(nil)
	for _, b := range ci.documents() {
		have[b.ID] = b.accessAt
	}
	pending := map[string]bool{}
	for _, id := range order {
		at, ok := have[id]
		if !ok {
			pending[id] = true
		}
		if ok && at < revisions[id] {
			changed = append(changed, id)
		}
	}
	rows, err := s.store.documentRows(ctx, changed)
	if err != nil {
		return err
	}
	spans, err := s.store.spans(ctx, changed) // after the rows: dates are never older than the revision that they come with
	if err != nil {
		return err
	}
	for _, d := range rows {
		s.showLight(ctx, ci, d, spans[d.ID])
	}
	ci.mu.Lock()
	ci.row = row
	ci.mu.Unlock()
	ci.light, ci.followed, ci.pending, ci.gone = row.Revision, version, pending, map[string]int64{}
	return nil
}

// followOne follows what is light of one collection, for those who manage it. It waits for nothing that is being read or indexed. Error:
// CodeCollectionNotFound.
func (s *Service) followOne(ctx context.Context, ci *collectionIndex) error {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	return s.followNow(ctx, ci)
}

// followNow is followOne for a caller that holds changeMu.
func (s *Service) followNow(ctx context.Context, ci *collectionIndex) error {
	version, err := s.store.version(ctx)
	if err != nil {
		return err
	}
	row, found, err := s.store.collection(ctx, ci.id)
	if err != nil {
		return err
	}
	if !found {
		return noCollection(ci.key.name)
	}
	return s.followLight(ctx, ci, row, version)
}

// showLight makes it so that those see a document who may, and that its versions are in effect when they are; versions that are gone are no longer found.
// Nothing is read for it: versions that memory does not have come with the next turn of [Service.follow]. The caller holds changeMu.
func (s *Service) showLight(ctx context.Context, ci *collectionIndex, d documentRow, spans []span) {
	old := ci.document(d.ID)
	if old == nil || old.accessAt >= d.Revision {
		return
	}
	next := *old
	next.documentRow, next.accessAt, next.spans = d, d.Revision, spans
	var complete bool
	if next.versions, complete = within(old.versions, spans); !complete {
		next.Revision = old.Revision
	}
	if err := s.readAccess(&next); err != nil {
		s.markUnreadable(ci, d.ID, err)
		return
	}
	dropped, _ := ci.show(&next)
	s.forgetVersions(ctx, ci, dropped)
}

// showChange is showLight for a change that was made here.
func (s *Service) showChange(ctx context.Context, ci *collectionIndex, state documentState) {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	s.showLight(context.WithoutCancel(ctx), ci, state.documentRow, spansOf(state.versions))
}

func (s *Service) forgetVersions(ctx context.Context, ci *collectionIndex, dropped []*indexedVersion) {
	if err := ci.drop(ctx, dropped); err != nil {
		s.log.Warn("rag: forgetting a version in the index failed", slog.Any("error", err))
	}
}

// readAccess reads who may see a document out of its row. A rule that is damaged lets nobody in; labels that are damaged are an error.
func (s *Service) readAccess(b *indexedDocument) (err error) {
	if b.labels, err = decodeLabels(b.Labels); err != nil {
		return err
	}
	b.rule, err = s.store.rules.decode(b.ID, b.Labels, b.documentRow.Rule)
	if b.damaged = err != nil; b.damaged {
		s.log.Error("rag: the access rule of a document is damaged; nobody sees the document", slog.String("document", b.ID))
	}
	return nil
}

func (s *Service) markUnreadable(ci *collectionIndex, id string, err error) {
	if ci.markUnreadable(id) {
		s.log.Error("rag: a stored document cannot be read; its collection cannot be searched", slog.String("document", id), slog.Any("error", err))
	}
}

func (s *Service) removeGone(rows []collectionRow) {
	alive := map[string]bool{}
	for _, r := range rows {
		alive[r.ID] = true
	}
	for key, ci := range *s.collections.Load() {
		if !alive[ci.id] {
			s.replace(key, nil)
			if err := ci.clear(); err != nil {
				s.log.Warn("rag: closing the index of a deleted collection failed", slog.Any("error", err))
			}
		}
	}
}

// followCollection reads the documents that changed. A new collection appears when it is complete.
func (s *Service) followCollection(ctx context.Context, row collectionRow) error {
	key := collectionKey{row.Tenant, row.Name}
	ci := (*s.collections.Load())[key]
	if ci != nil && s.upTo(ci) == row.Revision {
		ci.behindSince.Store(0)
		return nil
	}
	fresh := ci == nil
	if fresh {
		var err error
		if ci, err = newCollectionIndex(row, s.model.ID, s.newIndex(s.model.Dim), s.store.rules, s.now); err != nil {
			return err
		}
	}
	if err := s.followDocuments(ctx, ci, fresh); err != nil {
		return err
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	ci.revision = max(ci.revision, row.Revision)
	ci.behindSince.Store(0)
	if !fresh {
		return nil
	}
	if s.deleted[ci.id] || (*s.collections.Load())[key] != nil { // meanwhile it was deleted, or created, here
		return ci.clear()
	}
	if err := s.followNow(ctx, ci); err != nil { // it may have taken long, and nobody followed what is light of it
		return errors.Join(err, ci.clear())
	}
	s.replace(key, ci)
	return nil
}

// upTo is the revision up to which a collection was followed.
func (s *Service) upTo(ci *collectionIndex) int64 {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	return ci.revision
}

func (s *Service) followDocuments(ctx context.Context, ci *collectionIndex, fresh bool) error {
	revisions, order, err := s.store.revisions(ctx, ci.id)
	if err != nil {
		return err
	}
	have := map[string]int64{}
	for _, b := range ci.documents() {
		have[b.ID] = b.Revision
	}
	for _, id := range order {
		if have[id] == revisions[id] {
			continue
		}
		b, loaded, err := s.load(ctx, ci, id)
		if err != nil { // errChanged: the change counter has moved on, the next turn sees it
			return err
		}
		if b == nil {
			continue
		}
		if err := s.placeOrDrop(ctx, ci, b, loaded, fresh); err != nil {
			return err
		}
	}
	return nil
}

// load reads a document, and what those of its versions say that memory does not have, which are indexed and returned. b is nil if its labels cannot be
// read.
func (s *Service) load(ctx context.Context, ci *collectionIndex, id string) (b *indexedDocument, loaded []*indexedVersion, err error) {
	d, found, err := s.store.state(ctx, id)
	if err != nil || !found {
		return nil, nil, cmp.Or(err, errChanged)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ci.drop(ctx, loaded))
		}
	}()
	b, missing, err := s.assemble(ci, d)
	if err != nil {
		s.markUnreadable(ci, id, err)
		return nil, nil, nil
	}
	for _, i := range missing {
		v, err := s.readVersion(ctx, ci, b, i)
		if err != nil {
			return nil, loaded, err
		}
		if v != nil {
			loaded = append(loaded, v)
		}
	}
	return b, loaded, nil
}

// readVersion reads a version of a document that memory does not have, and indexes it. Of one that is stale it reads the vectors, which the index gets when it is
// shown; then, and of one that cannot be read, it returns no version. Error: errChanged if it is gone.
func (s *Service) readVersion(ctx context.Context, ci *collectionIndex, b *indexedDocument, i int) (*indexedVersion, error) {
	d := &b.versions[i]
	v, err := s.store.content(ctx, d.ID)
	if errors.Is(err, errDamaged) {
		s.log.Error("rag: a stored document cannot be read; its collection cannot be searched while it is in effect", slog.String("version", d.ID), slog.Any("error", err))
		d.indexedVersion, d.broken = &indexedVersion{versionRow: d.versionRow}, true
		return nil, nil //nolint:nilnil // there is none, and searches fail where it is in effect
	}
	if err != nil {
		return nil, err
	}
	if d.stale {
		if d.vectors, err = v.comparable(ci.embedder, s.model.Dim); err != nil {
			return nil, err
		}
		d.embedder, d.stale = v.Embedder, false
		return nil, nil //nolint:nilnil // memory has it
	}
	v.name = b.Name
	if err := ci.prepare(ctx, v); err != nil {
		return nil, err
	}
	v.forgetVectors()
	d.indexedVersion, d.embedder = v, v.Embedder
	return v, nil
}

// comparable returns the vectors of a version that was read, none if they are another model's.
func (v *indexedVersion) comparable(model string, dim int) ([][]float32, error) {
	if v.Embedder != model {
		return nil, nil
	}
	out := make([][]float32, len(v.chunks))
	for i, c := range v.chunks {
		out[i] = decodeVector(c.Vector)
		if err := index.Check(out[i], dim); err != nil {
			return nil, fmt.Errorf("index version %s: %w", v.ID, err)
		}
	}
	return out, nil
}

// assemble makes a document of its state and of what memory knows of its versions; missing are the positions of those that it does not know as they are
// stored. Error: the labels cannot be read.
func (s *Service) assemble(ci *collectionIndex, d documentState) (b *indexedDocument, missing []int, err error) {
	b = &indexedDocument{documentRow: d.documentRow, accessAt: d.Revision, spans: spansOf(d.versions)}
	if err := s.readAccess(b); err != nil {
		return nil, nil, err
	}
	ci.mu.RLock()
	old := ci.docs[d.ID]
	ci.mu.RUnlock()
	for i, row := range d.versions {
		v := datedVersion{indexedVersion: &indexedVersion{versionRow: row}, from: row.ValidFrom, until: row.ValidUntil, embedder: row.Embedder}
		at := -1
		if old != nil {
			at = slices.IndexFunc(old.versions, func(o datedVersion) bool { return o.ID == row.ID && !o.broken })
		}
		if at >= 0 {
			v.indexedVersion, v.embedder = old.versions[at].indexedVersion, old.versions[at].embedder
			v.stale = v.embedder != row.Embedder
		}
		if at < 0 || v.stale {
			missing = append(missing, i)
		}
		b.versions = append(b.versions, v)
	}
	return b, missing, nil
}

// placeOrDrop places a document, or forgets what was loaded for it.
func (s *Service) placeOrDrop(ctx context.Context, ci *collectionIndex, b *indexedDocument, loaded []*indexedVersion, always bool) error {
	placed, err := s.place(ctx, ci, b, loaded, always)
	if err != nil || !placed {
		return errors.Join(err, ci.drop(ctx, loaded))
	}
	return nil
}

// place shows a document unless memory has a newer state of it, or it was deleted meanwhile. loaded are those of its versions that memory did not have.
// always is for a collection that nobody else knows yet.
func (s *Service) place(ctx context.Context, ci *collectionIndex, b *indexedDocument, loaded []*indexedVersion, always bool) (bool, error) {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	ci.mu.RLock()
	old, namesake := ci.docs[b.ID], ci.docs[ci.byName[b.Name]]
	ci.mu.RUnlock()
	if namesake != nil && namesake.ID != b.ID { // names are unique in the tables: the one of them that was read earlier is deleted by now
		if namesake.Revision > b.Revision {
			return false, nil
		}
		ci.gone[namesake.ID] = b.Revision
		delete(ci.pending, namesake.ID)
	}
	switch {
	case always:
	case old != nil && old.Revision >= b.Revision || ci.gone[b.ID] >= b.Revision:
		return false, nil
	case old == nil && b.Revision <= ci.followed && !ci.pending[b.ID]:
		return false, nil
	}
	if old != nil && old.accessAt > b.accessAt { // what is light was followed meanwhile
		revision, all := b.Revision, b.versions
		b.documentRow, b.labels, b.rule, b.damaged, b.accessAt, b.spans = old.documentRow, old.labels, old.rule, old.damaged, old.accessAt, old.spans
		b.Revision = revision
		b.versions, _ = within(all, old.spans)
		for _, v := range all {
			if slices.Contains(loaded, v.indexedVersion) && !slices.ContainsFunc(b.versions, func(o datedVersion) bool { return o.indexedVersion == v.indexedVersion }) {
				s.forgetVersions(ctx, ci, []*indexedVersion{v.indexedVersion})
			}
		}
	}
	for _, v := range b.versions { // numbers of a version that memory has dropped may be others' by now
		if !v.broken && !slices.Contains(loaded, v.indexedVersion) && (old == nil || !slices.ContainsFunc(old.versions, func(o datedVersion) bool { return o.indexedVersion == v.indexedVersion })) {
			return false, nil
		}
	}
	if old != nil { // what others loaded meanwhile
		for i, v := range b.versions {
			if at := slices.IndexFunc(old.versions, func(o datedVersion) bool { return o.ID == v.ID && !o.broken && o.embedder == v.embedder }); at >= 0 && old.versions[at].indexedVersion != v.indexedVersion {
				b.versions[i].indexedVersion, b.versions[i].broken = old.versions[at].indexedVersion, false
				s.forgetVersions(ctx, ci, []*indexedVersion{v.indexedVersion})
			}
		}
	}
	if err := ci.revector(ctx, b); err != nil {
		return false, err
	}
	dropped, shown := ci.show(b)
	delete(ci.pending, b.ID)
	s.forgetVersions(ctx, ci, dropped)
	return shown, nil
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
