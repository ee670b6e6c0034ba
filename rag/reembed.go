package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/sleep"
)

// Reembedding is how a service makes the vectors of documents anew that were embedded by another model than its own.
type Reembedding struct {
	// Embed is on nobody's bill, and lets everybody else's texts go first.
	Embed EmbedFunc
	// Record writes down that it begins with a collection, before anything of it changes, and that it is done. Without the first one
	// nothing is changed.
	Record func(context.Context, ReembedRecord) error
}

// ReembedRecord is one act of re-embedding.
type ReembedRecord struct {
	Tenant, Collection string
	Documents          int    // that it is about: those to do, or those that were done
	Model              string // of the new vectors
	Done               bool
}

// reembedLook is how often the collections are looked through for vectors of another model. A replica of a release before may still store some.
const reembedLook = 10 * time.Second

// Reembed has [Service.Run] make the vectors of documents anew that another model embedded. Call it before Run. Until a document's turn comes,
// it is found by its words. Each document changes at once, in one transaction, and what is done is done: after a crash it goes on with the
// next one. Of replicas that are set up with different models the one started last decides.
func (s *Service) Reembed(r Reembedding) { s.again = &r }

// reembedStored works until ctx ends.
func (s *Service) reembedStored(ctx context.Context) {
	if s.again == nil {
		return
	}
	for claimed := false; ctx.Err() == nil; {
		err := error(nil)
		if !claimed {
			err = s.store.claimVectors(ctx, s.model.ID, s.started)
			claimed = err == nil
		}
		if err == nil {
			err = s.reembedPending(ctx)
		}
		wait := reembedLook
		if err != nil && ctx.Err() == nil {
			s.log.Warn("rag: some documents still have the vectors of another model; will be tried again", slog.Any("error", err))
			wait = sealAgain
		}
		sleep.For(ctx, wait)
	}
}

// reembedPending makes all vectors anew that are another model's, a collection at a time. What one document fails at does not keep the others.
func (s *Service) reembedPending(ctx context.Context) error {
	var failed error
	for _, ci := range s.byName() {
		pending := ci.foreign()
		s.metrics.pendingDocuments(s.foreignDocuments())
		if len(pending) == 0 {
			continue
		}
		charge, err := s.store.vectorsBy(ctx)
		if err != nil {
			return err
		}
		if charge != s.model.ID {
			s.log.Warn("rag: a replica that was started later embeds with another model; this one leaves the stored vectors alone")
			return failed
		}
		record := ReembedRecord{Tenant: ci.key.tenant, Collection: ci.key.name, Documents: len(pending), Model: s.model.ID}
		if err := s.again.Record(ctx, record); err != nil {
			return fmt.Errorf("record the re-embedding of collection %s: %w", ci.id, err)
		}
		s.log.Info("rag: documents were embedded by another model; embedding them again", slog.String("collection", ci.id), slog.Int("documents", len(pending)))
		n := 0
		for _, id := range pending {
			done, err := s.reembedDocument(ctx, ci, id)
			s.metrics.reembed(done, err)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("document %s: %w", id, err))
			}
			if done {
				n++
				s.metrics.pendingDocuments(s.foreignDocuments())
			}
		}
		s.log.Info("rag: documents embedded again", slog.String("collection", ci.id), slog.Int("documents", n), slog.Int("left", len(ci.foreign())))
		if len(ci.foreign()) == 0 {
			record.Documents, record.Done = n, true
			if err := s.again.Record(ctx, record); err != nil {
				return fmt.Errorf("record the re-embedding of collection %s: %w", ci.id, err)
			}
		}
	}
	return failed
}

// reembedDocument gives a document as it is stored now the vectors of this service's model. One that somebody else has changed, deleted or done
// meanwhile is left as it is.
func (s *Service) reembedDocument(ctx context.Context, ci *collectionIndex, id string) (done bool, err error) {
	b, err := s.store.document(ctx, id)
	if errors.Is(err, errChanged) {
		return false, nil
	}
	if err != nil || b.Embedder == s.model.ID {
		return false, err
	}
	texts := make([]string, len(b.chunks))
	for i := range b.chunks {
		texts[i] = b.indexText(i)
	}
	vectors, err := s.embed(ctx, s.again.Embed, texts, false) // may take long: before the lock
	if err != nil {
		return false, err
	}
	before := b.Embedder
	b.Embedder = s.model.ID
	for i, v := range vectors {
		b.chunks[i].Vector = encodeVector(v)
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	err = s.store.saveVectors(ctx, &b.documentRow, b.chunks, before)
	if errors.Is(err, errChanged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if ci.document(id) == nil { // deleted here meanwhile: following the tables knows better
		return false, nil
	}
	return true, ci.put(context.WithoutCancel(ctx), b)
}

// byName returns the collections in a fixed order.
func (s *Service) byName() []*collectionIndex {
	all := s.collections.Load()
	if all == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*all), func(a, b *collectionIndex) int { return cmp.Compare(a.id, b.id) })
}

func (s *Service) foreignDocuments() (n int) {
	for _, ci := range s.byName() {
		n += len(ci.foreign())
	}
	return n
}

// foreign returns the documents whose vectors are another model's, in a fixed order.
func (ci *collectionIndex) foreign() (ids []string) {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	for id, b := range ci.docs {
		if b.Embedder != ci.embedder {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (ci *collectionIndex) document(id string) *indexedDocument {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	return ci.docs[id]
}

// vectorsPrefix begins the names of the counters that say when a replica was last started with a model.
const vectorsPrefix = "vectors "

// claimVectors notes that a replica was started with a model, UTC, so that of several models the newest decides.
func (s store) claimVectors(ctx context.Context, model string, started time.Time) error {
	row := changeRow{Name: vectorsPrefix + model, Version: started.UnixMicro()}
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"version"}),
	}).Create(&row).Error
	return dbError("note the model of the vectors", err)
}

// vectorsBy returns the model that the replica started last has.
func (s store) vectorsBy(ctx context.Context) (string, error) {
	var rows []changeRow
	err := s.db.WithContext(ctx).Select("name", "version").Where("name LIKE ?", vectorsPrefix+"%").Order("version DESC, name").Limit(1).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return "", dbError("read the model of the vectors", err)
	}
	return rows[0].Name[len(vectorsPrefix):], nil
}

// saveVectors stores other vectors of a document, and completes doc. It returns errChanged and stores nothing unless the document still is the
// version that doc is, with the vectors of the model before. Its version stays: it says what it said.
func (s store) saveVectors(ctx context.Context, doc *documentRow, chunks []chunkRow, before string) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if doc.Revision, err = touch(tx, doc.Collection); err != nil {
			return err
		}
		res := tx.Model(&documentRow{}).Where("id = ? AND version = ? AND embedder = ?", doc.ID, doc.Version, before).
			Updates(map[string]any{"embedder": doc.Embedder, "revision": doc.Revision})
		if res.Error != nil || res.RowsAffected == 0 {
			return cmp.Or(res.Error, errChanged)
		}
		for _, c := range chunks {
			res := tx.Model(&chunkRow{}).Where("document = ? AND version = ? AND chunk = ?", doc.ID, doc.Version, c.Chunk).Update("vector", c.Vector)
			if res.Error != nil || res.RowsAffected == 0 {
				return cmp.Or(res.Error, errChanged)
			}
		}
		return nil
	})
	if errors.Is(err, errChanged) {
		return err
	}
	return dbError("save vectors", err)
}
