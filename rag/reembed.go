package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/sleep"
	"github.com/sluice-project/sluice/internal/wrapkey"
	"github.com/sluice-project/sluice/rag/segment"
)

// Reembedding is how a service makes the vectors of documents anew that were embedded by another model than its own.
type Reembedding struct {
	// Embed is on nobody's bill, and lets everybody else's texts go first.
	Embed EmbedFunc
	// May reports whether texts of a tenant may be given to what embeds them, by the policy that holds now; nil: always.
	May func(tenant string) bool
	// Leads reports whether this replica is the one of all that embeds, and goes on being it for longer than [leadFor]. Whoever is stays it as long
	// as it asks, so that of replicas with different models one decides and none undoes what another did. nil: always.
	Leads func(context.Context) (bool, error)
	// Record writes down that it begins with a collection, before anything of it changes, and that it is done. Without the first one
	// nothing is changed.
	Record func(context.Context, ReembedRecord) error
}

// ReembedRecord is one act of re-embedding. There is one that begins and one that is done for each collection, whichever replicas work on it.
type ReembedRecord struct {
	Tenant, Collection string
	Documents          int    // that had versions with vectors of another model when it began
	Model              string // of the new vectors
	Done               bool
}

const (
	reembedEvery = 10 * time.Second // between looks at the change counter, and after a first failure
	reembedMost  = time.Hour        // that what fails waits, at most; it doubles from a first sealAgain
	reembedPage  = 256              // documents that are asked for at once
	leadFor      = 30 * time.Second // after which it is asked again whether this replica leads
)

// Reembed has [Service.Run] make the vectors of documents anew that another model embedded, those of their past and future versions, too. Call it before
// Run. Until its turn comes, a version is found by its words. Each changes at once, in one transaction, and what is done is done: after a crash it goes on
// with the next one, on this replica or another.
func (s *Service) Reembed(r Reembedding) { s.again = &reembedder{Reembedding: r, service: s} }

// reembedder is used by one goroutine.
type reembedder struct {
	Reembedding

	service     *Service
	ledAt       time.Time               // when it was last said that this replica leads
	seen        int64                   // change counter when everything was looked at
	collections map[string]*reembedding // by id
	failing     map[string]*retry       // documents, by id
}

// reembedding is what is known of a collection.
type reembedding struct {
	revision int64 // at which it was looked at
	pending  int
	again    time.Time // when what failed is tried again; zero: nothing failed
}

// retry is a document that cannot be done for now.
type retry struct {
	wait  time.Duration
	until time.Time
}

var errNotLeading = errors.New("another replica embeds documents again")

// reembedStored works until ctx ends. It waits the longer, the more often it fails in a row.
func (s *Service) reembedStored(ctx context.Context) {
	if s.again == nil {
		return
	}
	for wait := reembedEvery; ctx.Err() == nil; {
		err := s.reembedPending(ctx)
		switch {
		case err == nil || errors.Is(err, errNotLeading):
			wait = reembedEvery
		case ctx.Err() == nil:
			s.log.Warn("rag: some documents still have the vectors of another model; will be tried again", slog.Any("error", err))
			wait = min(2*wait, reembedMost)
		}
		sleep.For(ctx, wait)
	}
}

// reembedPending makes all vectors anew that are another model's, a collection at a time, on the replica that leads. A document that cannot be done
// waits and does not keep the others; whatever else fails ends the turn.
func (s *Service) reembedPending(ctx context.Context) error {
	r := s.again
	if err := r.lead(ctx); err != nil {
		r.seen, r.collections = 0, nil // another one works: what this one knows ages
		s.metrics.pendingDocuments(0)
		if errors.Is(err, errNotLeading) {
			return nil
		}
		return err
	}
	version, err := s.store.version(ctx)
	if err != nil || version == r.seen && !r.due() {
		return err
	}
	rows, err := s.store.collections(ctx)
	if err != nil {
		return err
	}
	begun, noted, err := s.store.begunReembeddings(ctx, s.model.ID)
	if err != nil {
		return err
	}
	known := map[string]*reembedding{}
	for _, row := range rows {
		if known[row.ID] = r.collections[row.ID]; known[row.ID] == nil {
			known[row.ID] = &reembedding{}
		}
	}
	r.collections = known
	for _, id := range noted {
		if known[id] == nil { // the collection was deleted meanwhile
			if err := s.store.endReembedding(ctx, id); err != nil {
				return err
			}
		}
	}
	whole := true
	for _, row := range rows {
		ci, err := s.collection(row.Tenant, row.Name)
		if err != nil || ci.id != row.ID || ci.failed() != nil { // not followed yet, or to be opened again
			whole = false
			continue
		}
		if r.May != nil && !r.May(row.Tenant) {
			whole = false
			continue
		}
		if err := r.collection(ctx, row, ci, begun); err != nil {
			return err
		}
	}
	if whole {
		r.seen = version
	}
	return nil
}

// lead returns errNotLeading if another replica does.
func (r *reembedder) lead(ctx context.Context) error {
	now := r.service.now()
	if r.Leads == nil || !r.ledAt.IsZero() && now.Sub(r.ledAt) < leadFor && !now.Before(r.ledAt) {
		return nil
	}
	r.ledAt = time.Time{}
	leads, err := r.Leads(ctx)
	if err != nil {
		return fmt.Errorf("ask who embeds documents again: %w", err)
	}
	if !leads {
		return errNotLeading
	}
	r.ledAt = now
	return nil
}

// due reports whether something that failed is to be tried again.
func (r *reembedder) due() bool {
	for _, c := range r.collections {
		if !c.again.IsZero() && !r.service.now().Before(c.again) {
			return true
		}
	}
	return false
}

// collection does what is left of a collection, unless it was looked at as it is now.
func (r *reembedder) collection(ctx context.Context, row collectionRow, ci *collectionIndex, begun map[string]int) error {
	s, c := r.service, r.collections[row.ID]
	n, recorded := begun[row.ID]
	if c.revision == row.Revision && (c.again.IsZero() || s.now().Before(c.again)) {
		return nil
	}
	if !recorded && ci.passages.View().Revision() >= row.Revision && ci.allComparable() { // the store knows, so the tables need not be read
		r.left(c, 0)
		c.revision, c.again = row.Revision, time.Time{}
		return nil
	}
	pending, err := s.store.countForeign(ctx, row.ID, s.model.ID)
	if err != nil {
		return err
	}
	r.left(c, pending)
	c.again = time.Time{}
	record := ReembedRecord{Tenant: row.Tenant, Collection: row.Name, Documents: cmp.Or(n, pending), Model: s.model.ID}
	for after := ""; pending > 0; {
		ids, err := s.store.foreign(ctx, row.ID, s.model.ID, after, reembedPage)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if f := r.failing[id]; f != nil && s.now().Before(f.until) {
				c.waits(f)
				continue
			}
			if err := r.lead(ctx); err != nil {
				return err
			}
			if !recorded {
				if err := r.Record(ctx, record); err != nil {
					return fmt.Errorf("record the re-embedding of collection %s: %w", row.ID, err)
				}
				if err := s.store.beginReembedding(ctx, row.ID, s.model.ID, pending); err != nil {
					return err
				}
				recorded = true
				s.log.Info("rag: documents were embedded by another model; embedding them again", slog.String("collection", row.ID), slog.Int("documents", pending))
			}
			if err := r.document(ctx, c, ci, id); err != nil {
				return err
			}
			if ci.isClosed() { // the next turn takes note that the collection was deleted
				return nil
			}
		}
		if len(ids) < reembedPage {
			break
		}
		after = ids[len(ids)-1]
	}
	left := 0
	if pending > 0 {
		if left, err = s.store.countForeign(ctx, row.ID, s.model.ID); err != nil {
			return err
		}
		r.left(c, left)
	}
	if recorded && left == 0 {
		record.Done = true
		if err := r.Record(ctx, record); err != nil {
			return fmt.Errorf("record the re-embedding of collection %s: %w", row.ID, err)
		}
		if err := s.store.endReembedding(ctx, row.ID); err != nil {
			return err
		}
		s.log.Info("rag: documents embedded again", slog.String("collection", row.ID), slog.Int("documents", record.Documents))
	}
	c.revision = row.Revision
	return nil
}

// document does one document, and returns an error that would meet the next one, too.
func (r *reembedder) document(ctx context.Context, c *reembedding, ci *collectionIndex, id string) error {
	s := r.service
	done, err := s.reembedDocument(ctx, ci, id)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errNotLeading) {
		return err
	}
	s.metrics.reembed(done, err)
	if err == nil {
		delete(r.failing, id)
		if done {
			r.left(c, c.pending-1)
		}
		return nil
	}
	f := r.failing[id]
	if f == nil {
		f = &retry{wait: sealAgain / 2}
		if r.failing == nil {
			r.failing = map[string]*retry{}
		}
		r.failing[id] = f
	}
	f.wait = min(2*f.wait, reembedMost)
	f.until = s.now().Add(f.wait)
	c.waits(f)
	err = fmt.Errorf("document %s: %w", id, err)
	if !ownFault(err) {
		return err
	}
	s.log.Warn("rag: a document cannot be embedded again; it is found by its words", slog.Any("error", err), slog.Duration("retry", f.wait))
	return nil
}

// waits notes that a document of the collection is to be tried again.
func (c *reembedding) waits(f *retry) {
	if c.again.IsZero() || f.until.Before(c.again) {
		c.again = f.until
	}
}

// left notes how many documents of a collection are pending.
func (r *reembedder) left(c *reembedding, n int) {
	c.pending = n
	sum := 0
	for _, c := range r.collections {
		sum += c.pending
	}
	r.service.metrics.pendingDocuments(sum)
}

// reembedDocument gives the versions of a document, as they are stored now, the vectors of this service's model, the newest first. One that somebody
// else has changed, deleted or done meanwhile is left as it is; one that fails by its own fault does not keep the others.
func (s *Service) reembedDocument(ctx context.Context, ci *collectionIndex, id string) (done bool, failed error) {
	versions, err := s.store.foreignVersions(ctx, id, s.model.ID)
	if err != nil {
		return false, err
	}
	for _, version := range versions {
		one, err := s.reembedVersion(ctx, ci, version)
		done = done || one
		if err != nil && !ownFault(err) {
			failed = err
			break
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("version %s: %w", version, err))
		}
	}
	if !done {
		return false, failed
	}
	if err := s.fetch(ctx, ci, []string{id}, true); err != nil { // the tables are ahead of the store: the next turn of following tries again
		return true, errors.Join(failed, err)
	}
	return true, failed
}

// ownFault reports whether it is the version's fault that it cannot be embedded again: others can.
func ownFault(err error) bool {
	return errors.Is(err, errDamaged) || errors.Is(err, wrapkey.ErrDestroyed) || fault.Is(err, fault.CodeContextLength)
}

// reembedVersion makes the vectors of one version anew and stores them. What it says, its dates and who may see it stay.
func (s *Service) reembedVersion(ctx context.Context, ci *collectionIndex, id string) (done bool, err error) {
	v, err := s.store.content(ctx, id)
	if errors.Is(err, errChanged) {
		return false, nil
	}
	if err != nil || v.Embedder == s.model.ID {
		return false, err
	}
	texts := make([]string, len(v.chunks))
	for i := range v.chunks {
		texts[i] = v.indexText(i)
	}
	embed := func(ctx context.Context, texts []string, question bool) ([][]float32, error) { // a long document takes longer than it leads without asking
		if ci.isClosed() {
			return nil, errChanged
		}
		if err := s.again.lead(ctx); err != nil {
			return nil, err
		}
		return s.again.Embed(ctx, texts, question)
	}
	vectors, err := s.embed(ctx, embed, texts, false)
	if err == nil {
		err = s.store.saveVectors(ctx, v, vectors, s.model.ID)
	}
	if errors.Is(err, errChanged) {
		return false, nil
	}
	return err == nil, err
}

// isClosed reports whether the collection was deleted, or is opened again.
func (ci *collectionIndex) isClosed() bool { return errors.Is(ci.failed(), segment.ErrClosed) }

// allComparable reports whether all that the store has can be read, and has vectors of the index's model.
func (ci *collectionIndex) allComparable() bool {
	view := ci.passages.View()
	sets, err := ci.groups(view)
	if err != nil {
		return false
	}
	return view.In(roaring.Or(sets.foreign, sets.broken)).Len() == 0
}

// reembedPrefix begins the names of the counters that say that re-embedding a collection was recorded as begun, with how many documents.
const reembedPrefix = "reembed "

func reembedName(collection, model string) string { return reembedPrefix + collection + " " + model }

// begunReembeddings returns the collections whose re-embedding for a model is recorded as begun and not as done, with how many documents it was, and those of
// which that is noted for any model.
func (s store) begunReembeddings(ctx context.Context, model string) (begun map[string]int, noted []string, err error) {
	var rows []changeRow
	if err := s.db.WithContext(ctx).Select("name", "version").Where("name LIKE ?", reembedPrefix+"%").Order("name").Find(&rows).Error; err != nil {
		return nil, nil, dbError("read what is embedded again", err)
	}
	begun = map[string]int{}
	for _, r := range rows {
		id, of, ok := strings.Cut(r.Name[len(reembedPrefix):], " ")
		if !ok {
			continue
		}
		noted = append(noted, id)
		if of == model {
			begun[id] = int(r.Version)
		}
	}
	return begun, noted, nil
}

func (s store) beginReembedding(ctx context.Context, collection, model string, documents int) error {
	row := changeRow{Name: reembedName(collection, model), Version: int64(documents)}
	return dbError("note what is embedded again", s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error)
}

// endReembedding forgets that vectors of a collection were to be made anew, by whichever model: those of a model before this one are not wanted any more.
func (s store) endReembedding(ctx context.Context, collection string) error {
	err := s.db.WithContext(ctx).Where("name LIKE ?", reembedName(collection, "")+"%").Delete(&changeRow{}).Error
	return dbError("note what was embedded again", err)
}

// countForeign returns how many documents of a collection have versions with vectors of another model.
func (s store) countForeign(ctx context.Context, collection, model string) (int, error) {
	var n int64
	err := s.db.WithContext(ctx).Model(&versionRow{}).Where("collection = ? AND embedder <> ?", collection, model).Distinct("document").Count(&n).Error
	return int(n), dbError("count documents of another model", err)
}

// foreign returns the ids behind after of documents that have versions with vectors of another model, in order, at most n.
func (s store) foreign(ctx context.Context, collection, model, after string, n int) (ids []string, err error) {
	err = s.db.WithContext(ctx).Model(&versionRow{}).Distinct("document").
		Where("collection = ? AND embedder <> ? AND document > ?", collection, model, after).Order("document").Limit(n).Pluck("document", &ids).Error
	return ids, dbError("look for documents of another model", err)
}

// foreignVersions returns the ids of the versions of a document that have vectors of another model, the newest first.
func (s store) foreignVersions(ctx context.Context, document, model string) (ids []string, err error) {
	err = s.db.WithContext(ctx).Model(&versionRow{}).Where("document = ? AND embedder <> ?", document, model).Order("version DESC").Pluck("id", &ids).Error
	return ids, dbError("look for versions of another model", err)
}

// vectorBatch is how many vectors a statement stores.
const vectorBatch = 200

// saveVectors stores other vectors of a version, by that model. It returns errChanged and stores nothing unless the version is still there, with the
// vectors of the model that v says. Nothing else of the version or of its document changes but the revision: the version says what it said.
func (s store) saveVectors(ctx context.Context, v *indexedVersion, vectors [][]float32, model string) error {
	rows := make([]chunkRow, len(vectors))
	for i, x := range vectors {
		rows[i] = chunkRow{Document: v.Document, Version: v.Version, Chunk: v.chunks[i].Chunk, Vector: encodeVector(x)}
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		revision, err := touch(tx, v.Collection) // locks the counter: nothing is deleted meanwhile
		if fault.Is(err, fault.CodeConflict) {   // the collection is gone
			return errChanged
		}
		if err != nil {
			return err
		}
		if err := note(tx, v.Collection, revision, v.Document); err != nil {
			return err
		}
		res := tx.Model(&versionRow{}).Where("id = ? AND embedder = ?", v.ID, v.Embedder).Update("embedder", model)
		if res.Error != nil || res.RowsAffected == 0 {
			return cmp.Or(res.Error, errChanged)
		}
		res = tx.Model(&documentRow{}).Where("id = ?", v.Document).UpdateColumn("revision", revision)
		if res.Error != nil || res.RowsAffected == 0 {
			return cmp.Or(res.Error, errChanged)
		}
		if len(rows) == 0 {
			return nil
		}
		// The rows are there, since the version is: each conflicts, and only its vector changes. The counter's row is locked, so statements are few.
		return tx.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "document"}, {Name: "version"}, {Name: "chunk"}}, DoUpdates: clause.AssignmentColumns([]string{"vector"}),
		}).CreateInBatches(rows, vectorBatch).Error
	})
	if errors.Is(err, errChanged) {
		return err
	}
	return dbError("save vectors", err)
}
