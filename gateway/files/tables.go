package files

import (
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

type (
	tenantRow struct{ Tenant string }
	blobRow   struct {
		ID        string
		Tenant    string
		Digest    string
		Size      int64
		Chunks    int64
		Suite     string
		Epoch     int64
		Wrapped   []byte
		TouchedAt int64 `gorm:"autoUpdateTime:false"`
	}
	chunkRow struct {
		Blob   string
		Number int64
		Sealed []byte
	}
	fileRow struct {
		ID        string
		Tenant    string
		Project   string
		Person    string
		Purpose   string
		Blob      string
		Name      []byte
		Holds     int64
		CreatedAt int64 `gorm:"autoCreateTime:false"`
		ExpiresAt int64
	}
)

func (tenantRow) TableName() string { return "file_tenants" }
func (blobRow) TableName() string   { return "file_blobs" }
func (chunkRow) TableName() string  { return "file_chunks" }
func (fileRow) TableName() string   { return "file_files" }

func blobColumns() []string {
	return []string{"id", "tenant", "digest", "size", "chunks", "suite", "epoch", "wrapped", "touched_at"}
}

func fileColumns() []string {
	return []string{"id", "tenant", "project", "person", "purpose", "blob", "name", "holds", "created_at", "expires_at"}
}

// label binds a data key to its blob.
func (b blobRow) label() []byte { return seal.Label("file blob", b.Tenant, b.ID) }

func (b blobRow) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: b.Epoch, Suite: seal.Suite(b.Suite), Sealed: b.Wrapped}
}

// chunkLabel binds a chunk to its place.
func chunkLabel(blob string, number int64) []byte {
	return seal.Label("file chunk", blob, fmt.Sprint(number))
}

func nameLabel(file string) []byte { return seal.Label("file name", file) }

// lockTenant makes the files of a tenant change one after the other until tx ends.
func lockTenant(tx *gorm.DB, tenant string) error {
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&tenantRow{tenant}).Error; err != nil {
		return err
	}
	return tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where("tenant = ?", tenant).Take(&tenantRow{}).Error
}

// lockIfThere is lockTenant that leaves nothing of a tenant that was erased.
func lockIfThere(tx *gorm.DB, tenant string) error {
	return tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where("tenant = ?", tenant).Find(&[]tenantRow{}).Error
}

// key opens the data key of a blob.
func (s *Store) key(db *gorm.DB, b blobRow) (seal.Key, error) {
	return s.keys.OpenDataKey(db, b.envelope(), b.label())
}

func findBlob(db *gorm.DB, id string) (blobRow, error) {
	var b blobRow
	err := db.Select(blobColumns()).Where("id = ?", id).Take(&b).Error
	return b, err
}

// dropUnused removes a blob that no file has any more. The tenant is locked.
func dropUnused(tx *gorm.DB, blob string) error {
	var users int64
	if err := tx.Model(&fileRow{}).Where("blob = ?", blob).Limit(1).Count(&users).Error; err != nil || users > 0 {
		return err
	}
	return dropBlob(tx, blob)
}

func dropBlob(tx *gorm.DB, blob string) error {
	if database.IsSQLite(tx) { // what is deleted is overwritten
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return err
		}
	}
	if err := tx.Where("blob = ?", blob).Delete(&chunkRow{}).Error; err != nil {
		return err
	}
	return tx.Where("id = ?", blob).Delete(&blobRow{}).Error
}

// Any reports whether a tenant has a file, or content of one that is on its way. Errors: CodeDatabaseUnavailable.
func Any(db *gorm.DB, tenant string) (bool, error) {
	var found []int
	if err := db.Model(&blobRow{}).Where("tenant = ?", tenant).Limit(1).Select("1").Find(&found).Error; err != nil {
		return false, database.Unavailable("look for files", err)
	}
	return len(found) > 0, nil
}
