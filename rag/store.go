package rag

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// store is the tables. What documents say stands in them encrypted.
type store struct {
	db     *gorm.DB
	cipher *documentCipher
}

type changeRow struct {
	Name    string `gorm:"column:name"`
	Version int64  `gorm:"column:version"`
}

func (changeRow) TableName() string { return "rag_changes" }

type collectionRow struct {
	ID        string `gorm:"column:id"`
	Tenant    string `gorm:"column:tenant"`
	Name      string `gorm:"column:name"`
	Title     string `gorm:"column:title"`
	Labels    string `gorm:"column:labels"`
	Revision  int64  `gorm:"column:revision"`
	CreatedAt int64  `gorm:"column:created_at;autoCreateTime:false"`
}

func (collectionRow) TableName() string { return "rag_collections" }

func (collectionRow) columns() []string {
	return []string{"id", "tenant", "name", "title", "labels", "revision", "created_at"}
}

type documentRow struct {
	ID         string `gorm:"column:id"`
	Collection string `gorm:"column:collection"`
	Name       string `gorm:"column:name"`
	MIME       string `gorm:"column:mime"`
	Title      string `gorm:"column:title"`
	Labels     string `gorm:"column:labels"`
	Version    int64  `gorm:"column:version"`
	Revision   int64  `gorm:"column:revision"`
	Digest     string `gorm:"column:digest"`
	Embedder   string `gorm:"column:embedder"`
	Content    string `gorm:"column:content"`
	Known      string `gorm:"column:known"` // JSON, "" for none
	Sealed     []byte `gorm:"column:sealed"`
	Suite      string `gorm:"column:suite"` // of Sealed; "": stored in clear by a release before
	Epoch      int64  `gorm:"column:epoch"` // of Sealed
	Chunks     int    `gorm:"column:chunks"`
	CreatedAt  int64  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt  int64  `gorm:"column:updated_at;autoUpdateTime:false"`
}

func (documentRow) TableName() string { return "rag_documents" }

func (documentRow) columns() []string {
	return []string{
		"id", "collection", "name", "mime", "title", "labels", "version", "revision", "digest", "embedder", "content", "known", "sealed", "suite", "epoch", "chunks",
		"created_at", "updated_at",
	}
}

type chunkRow struct {
	Document string `gorm:"column:document"`
	Version  int64  `gorm:"column:version"`
	Chunk    int    `gorm:"column:chunk"`
	Section  string `gorm:"column:section"`
	Start    int    `gorm:"column:start_at"`
	End      int    `gorm:"column:end_at"`
	Vector   []byte `gorm:"column:vector"`
}

func (chunkRow) TableName() string { return "rag_chunks" }

// dbError marks a failure of the database.
func dbError(step string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeDatabaseUnavailable)
}

func (s store) version(ctx context.Context) (int64, error) {
	var r changeRow
	err := s.db.WithContext(ctx).Select("name", "version").Where("name = ?", "rag").Take(&r).Error
	return r.Version, dbError("read change counter", err)
}

// bump advances the change counter and returns it. Its row is locked until tx ends: changes happen one at a time, and revisions
// become visible in order.
func bump(tx *gorm.DB) (int64, error) {
	err := tx.Model(&changeRow{}).Where("name = ?", "rag").Update("version", gorm.Expr("version + 1")).Error
	if err != nil {
		return 0, err
	}
	return store{db: tx}.version(tx.Statement.Context)
}

func forUpdate(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.Locking{Strength: "UPDATE"}) }

func (s store) createCollection(ctx context.Context, c Collection, labels string, now time.Time) (collectionRow, error) {
	row := collectionRow{
		ID: uuid.NewString(), Tenant: c.Tenant, Name: c.Name, Title: c.Title, Labels: labels, CreatedAt: now.UnixMicro(),
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if row.Revision, err = bump(tx); err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return row, fault.New(fault.CodeExists, fault.Say("thing.collection"), c.Name)
	}
	return row, dbError("create collection", err)
}

func (s store) collections(ctx context.Context) ([]collectionRow, error) {
	var rows []collectionRow
	err := s.db.WithContext(ctx).Select(collectionRow{}.columns()).Order("id").Find(&rows).Error
	return rows, dbError("read collections", err)
}

func (s store) deleteCollection(ctx context.Context, id string) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if _, err := bump(tx); err != nil {
			return err
		}
		docs := tx.Model(&documentRow{}).Select("id").Where("collection = ?", id)
		if err := tx.Where("document IN (?)", docs).Delete(&chunkRow{}).Error; err != nil {
			return err
		}
		if err := tx.Where("collection = ?", id).Delete(&documentRow{}).Error; err != nil {
			return err
		}
		return tx.Where("id = ?", id).Delete(&collectionRow{}).Error
	})
	return dbError("delete collection", err)
}

// touch advances the counter and the revision of a collection, which must still exist.
func touch(tx *gorm.DB, collection string) (int64, error) {
	revision, err := bump(tx)
	if err != nil {
		return 0, err
	}
	res := tx.Model(&collectionRow{}).Where("id = ?", collection).Update("revision", revision)
	if res.Error == nil && res.RowsAffected == 0 {
		return 0, fault.New(fault.CodeConflict, fault.Say("rag.collection_deleted"))
	}
	return revision, res.Error
}

// saveDocument stores a document in place of its last version, and completes doc and chunks.
func (s store) saveDocument(ctx context.Context, doc *documentRow, chunks []chunkRow, now time.Time) error {
	doc.Chunks, doc.CreatedAt, doc.UpdatedAt = len(chunks), now.UnixMicro(), now.UnixMicro()
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if doc.Revision, err = touch(tx, doc.Collection); err != nil {
			return err
		}
		doc.ID, doc.Version = uuid.NewString(), 1
		var old []documentRow
		err = forUpdate(tx).Select("id", "version", "created_at").Where("collection = ? AND name = ?", doc.Collection, doc.Name).Find(&old).Error
		if err != nil {
			return err
		}
		if len(old) > 0 {
			doc.ID, doc.Version, doc.CreatedAt = old[0].ID, old[0].Version+1, old[0].CreatedAt
			if err := deleteRows(tx, doc.ID); err != nil {
				return err
			}
		}
		for i := range chunks {
			chunks[i].Document, chunks[i].Version = doc.ID, doc.Version
		}
		sealed, stored, err := s.cipher.seal(tx, *doc, chunks)
		if err != nil {
			return err
		}
		if err := tx.Create(&sealed).Error; err != nil {
			return err
		}
		return tx.CreateInBatches(stored, 200).Error
	})
	return dbError("save document", err)
}

func deleteRows(tx *gorm.DB, document string) error {
	if err := tx.Where("document = ?", document).Delete(&chunkRow{}).Error; err != nil {
		return err
	}
	return tx.Where("id = ?", document).Delete(&documentRow{}).Error
}

// deleteDocument returns the id that the document had.
func (s store) deleteDocument(ctx context.Context, collection, name string) (id string, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if _, err := touch(tx, collection); err != nil {
			return err
		}
		var rows []documentRow
		if err := tx.Select("id").Where("collection = ? AND name = ?", collection, name).Find(&rows).Error; err != nil {
			return err
		}
		if len(rows) == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("thing.document"), name)
		}
		id = rows[0].ID
		return deleteRows(tx, id)
	})
	return id, dbError("delete document", err)
}

// revisions returns the revision of every document of a collection, and their ids in order.
func (s store) revisions(ctx context.Context, collection string) (map[string]int64, []string, error) {
	var rows []documentRow
	err := s.db.WithContext(ctx).Select("id", "revision").Where("collection = ?", collection).Order("id").Find(&rows).Error
	if err != nil {
		return nil, nil, dbError("read documents", err)
	}
	out, order := make(map[string]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		out[r.ID], order[i] = r.Revision, r.ID
	}
	return out, order, nil
}

var (
	errChanged = errors.New("document changed while it was read")
	errDamaged = errors.New("stored document is damaged; ingest it again, or delete it")
)

// document reads one document with its chunks.
func (s store) document(ctx context.Context, id string) (*indexedDocument, error) {
	db := s.db.WithContext(ctx)
	var rows []documentRow
	if err := db.Select(documentRow{}.columns()).Where("id = ?", id).Find(&rows).Error; err != nil {
		return nil, dbError("read document", err)
	}
	if len(rows) == 0 {
		return nil, errChanged
	}
	b := &indexedDocument{documentRow: rows[0]}
	// Vectors change while a version stays, so one statement reads them only of the revision that was read.
	same := s.db.WithContext(ctx).Model(&documentRow{}).Select("1").Where("id = ? AND revision = ?", id, b.Revision)
	err := db.Select("document", "version", "chunk", "section", "start_at", "end_at", "vector").
		Where("document = ? AND version = ? AND EXISTS (?)", id, b.Version, same).Order("chunk").Find(&b.chunks).Error
	if err != nil {
		return nil, dbError("read chunks", err)
	}
	if len(b.chunks) != b.Chunks {
		return nil, errChanged
	}
	if err := s.cipher.open(db, &b.documentRow, b.chunks); err != nil {
		if fault.Is(err, fault.CodeDatabaseUnavailable) || errors.Is(err, wrapkey.ErrDestroyed) { // the row was is fine: read again
			return nil, err
		}
		return nil, errors.Join(errDamaged, err)
	}
	if b.labels, err = decodeLabels(b.Labels); err != nil {
		return nil, errors.Join(errDamaged, err)
	}
	if b.known, err = decodeKnown(b.Known); err != nil {
		return nil, errors.Join(errDamaged, err)
	}
	for _, c := range b.chunks {
		if c.Start < 0 || c.Start > c.End || c.End > len(b.Content) || len(c.Vector)%4 != 0 {
			return nil, fmt.Errorf("%w: chunk %d", errDamaged, c.Chunk)
		}
	}
	return b, nil
}

// sealOne encrypts one document that a release before has stored in clear; found is false when there is none left. The index in memory is the same
// before and after, so no revision changes.
func (s store) sealOne(ctx context.Context) (found bool, err error) {
	var ids []string // looked for without a lock: nearly always there is none
	if err := s.db.WithContext(ctx).Model(&documentRow{}).Where("suite = ''").Order("id").Limit(1).Pluck("id", &ids).Error; err != nil || len(ids) == 0 {
		return false, dbError("look for documents in clear", err)
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// The counter's row keeps changes apart, as in bump, and other replicas that do the same.
		if err := tx.Model(&changeRow{}).Where("name = ?", "rag").Update("version", gorm.Expr("version")).Error; err != nil {
			return err
		}
		var rows []documentRow
		if err := tx.Select(documentRow{}.columns()).Where("id = ? AND suite = ''", ids[0]).Find(&rows).Error; err != nil || len(rows) == 0 {
			return err
		}
		var chunks []chunkRow
		if err := tx.Select("document", "version", "chunk", "section").Where("document = ? AND version = ?", rows[0].ID, rows[0].Version).Order("chunk").Find(&chunks).Error; err != nil {
			return err
		}
		doc, _, err := s.cipher.seal(tx, rows[0], chunks)
		if err != nil {
			return err
		}
		err = tx.Model(&documentRow{}).Where("id = ?", doc.ID).Updates(map[string]any{
			"title": "", "digest": "", "content": "", "known": "", "sealed": doc.Sealed, "suite": doc.Suite, "epoch": doc.Epoch,
		}).Error
		if err != nil {
			return err
		}
		return tx.Model(&chunkRow{}).Where("document = ?", doc.ID).Update("section", "").Error
	})
	return err == nil, dbError("encrypt document", err)
}

func encodeLabels(labels []string) string {
	if len(labels) == 0 {
		return "[]"
	}
	b, err := json.Marshal(labels)
	if err != nil { // strings always encode
		return "[]"
	}
	return string(b)
}

// decodeLabels fails on anything but a list of strings: no labels would mean that everybody may see.
func decodeLabels(s string) ([]string, error) {
	var out []string
	if err := json.Unmarshal([]byte(s), &out); err != nil || out == nil {
		return nil, fmt.Errorf("labels are damaged: %w", errors.Join(err, errors.New("not a list")))
	}
	return out, nil
}

// encodeVector writes little-endian float32.
func encodeVector(v []float32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

func decodeVector(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}
