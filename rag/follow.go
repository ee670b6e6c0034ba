package rag

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
// gone are removed. What one collection fails at does not keep the others behind, and is tried again next time.
func (s *Service) follow(ctx context.Context) error {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	version, err := s.store.version(ctx) // first: a change in between is seen next time
	if err != nil {
		return err
	}
	if s.collections.Load() != nil && version == s.version {
		return nil
	}
	rows, err := s.store.collections(ctx)
	if err != nil {
		return err
	}
	if s.collections.Load() == nil {
		s.collections.Store(&collectionIndexes{})
	}
	s.removeGone(rows)
	var failed error
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
	if ci != nil && ci.revision == row.Revision {
		ci.behindSince.Store(0)
		return nil
	}
	fresh := ci == nil
	if fresh {
		var err error
		if ci, err = newCollectionIndex(row, s.model.ID, s.newIndex(s.model.Dim)); err != nil {
			return err
		}
	}
	if err := s.followDocuments(ctx, ci); err != nil {
		return err
	}
	ci.revision = row.Revision
	ci.behindSince.Store(0)
	if fresh {
		s.replace(key, ci)
	}
	return nil
}

func (s *Service) followDocuments(ctx context.Context, ci *collectionIndex) error {
	revisions, order, err := s.store.revisions(ctx, ci.id)
	if err != nil {
		return err
	}
	have := map[string]int64{}
	for _, b := range ci.documents() {
		have[b.ID] = b.Revision
	}
	for _, id := range ci.documentIDs() {
		if _, ok := revisions[id]; !ok {
			if err := ci.remove(ctx, id); err != nil {
				return err
			}
		}
	}
	for _, id := range order {
		if have[id] == revisions[id] {
			continue
		}
		b, err := s.store.document(ctx, id)
		if errors.Is(err, errDamaged) {
			if ci.markUnreadable(id) {
				s.log.Error("rag: a stored document cannot be read; its collection cannot be searched", slog.String("document", id), slog.Any("error", err))
			}
			continue
		}
		if err != nil { // errChanged: the change counter has moved on, the next turn sees it
			return err
		}
		if err := ci.put(ctx, b); err != nil {
			return err
		}
	}
	return nil
}
