package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// NewID returns the id of a file that is to come.
func NewID() string { return "file-" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "") }

// NewFile describes a file whose content has arrived.
type NewFile struct {
	ID      string // of NewID, or another one that nobody else makes
	Name    string
	Purpose string
	Life    time.Duration // from now; 0: it never expires
}

// Upload takes the content of one file.
type Upload struct {
	s     *Store
	ctx   context.Context //nolint:containedctx // a writer has no other way to get it
	owner Owner
	own   bool // results of ours, which no bound of the tenant stops
	blob  blobRow
	key   seal.Key
	buf   []byte
	sum   hash.Hash
	done  bool
}

// Begin starts a file. Its content is written to the upload, which ends with Commit, or with Abort, which does nothing after Commit. Errors:
// CodeFilesFull where the tenant has as many files as it may.
func (s *Store) Begin(ctx context.Context, owner Owner) (*Upload, error) {
	return s.begin(ctx, owner, false)
}

// BeginResult is Begin for what the installation itself writes for the owner: it counts towards the bounds, and they do not stop it, since the work
// is done and paid for. Whoever has such work done asks [Store.Room] before.
func (s *Store) BeginResult(ctx context.Context, owner Owner) (*Upload, error) {
	return s.begin(ctx, owner, true)
}

func (s *Store) begin(ctx context.Context, owner Owner, own bool) (*Upload, error) {
	var key seal.Key
	b := blobRow{ID: uuid.NewString(), Tenant: owner.Tenant, TouchedAt: s.now().UnixMicro()}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockTenant(tx, owner.Tenant); err != nil {
			return err
		}
		if !own {
			if err := s.roomForFile(tx, owner.Tenant); err != nil {
				return err
			}
		}
		var e wrapkey.Envelope
		var err error
		if key, e, err = s.keys.NewDataKey(tx, s.cfg.Suite, b.label()); err != nil {
			return err
		}
		b.Suite, b.Epoch, b.Wrapped = string(e.Suite), e.Epoch, e.Sealed
		return tx.Create(&b).Error
	})
	if err != nil {
		return nil, database.Unavailable("begin a file", err)
	}
	return &Upload{s: s, ctx: ctx, owner: owner, own: own, blob: b, key: key, buf: make([]byte, 0, chunkBytes), sum: sha256.New()}, nil
}

// roomForFile refuses a file more than the tenant may have.
func (s *Store) roomForFile(tx *gorm.DB, tenant string) error {
	var n int64
	if err := tx.Model(&fileRow{}).Where("tenant = ?", tenant).Count(&n).Error; err != nil {
		return err
	}
	if n >= s.cfg.MaxTenantFiles {
		return fault.New(fault.CodeFilesFull, fault.Say("files.count", s.cfg.MaxTenantFiles))
	}
	return nil
}

// Write implements io.Writer. Errors: CodeFileTooLarge, CodeFilesFull.
func (u *Upload) Write(p []byte) (int, error) {
	if !u.own && u.blob.Size+int64(len(u.buf)+len(p)) > u.s.cfg.MaxFileBytes {
		return 0, fault.New(fault.CodeFileTooLarge, u.s.cfg.MaxFileBytes)
	}
	n := 0
	for len(p) > 0 {
		k := min(len(p), chunkBytes-len(u.buf))
		u.buf, p, n = append(u.buf, p[:k]...), p[k:], n+k
		if len(u.buf) < chunkBytes {
			break
		}
		if err := u.flush(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Size is how many bytes have been written.
func (u *Upload) Size() int64 { return u.blob.Size + int64(len(u.buf)) }

// flush stores what was collected as a chunk.
func (u *Upload) flush() error {
	if len(u.buf) == 0 {
		return nil
	}
	n := int64(len(u.buf))
	row := chunkRow{Blob: u.blob.ID, Number: u.blob.Chunks, Sealed: u.key.Seal(u.buf, chunkLabel(u.blob.ID, u.blob.Chunks))}
	err := u.s.db.WithContext(u.ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockTenant(tx, u.owner.Tenant); err != nil {
			return err
		}
		if err := u.roomFor(tx, n); err != nil {
			return err
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		res := tx.Model(&blobRow{}).Where("id = ?", u.blob.ID).Updates(map[string]any{
			"size": gorm.Expr("size + ?", n), "chunks": gorm.Expr("chunks + 1"), "touched_at": u.s.now().UnixMicro(),
		})
		if res.Error == nil && res.RowsAffected == 0 {
			return errGone
		}
		return res.Error
	})
	if err != nil {
		return database.Unavailable("store a part of a file", err)
	}
	u.sum.Write(u.buf)
	u.s.metrics.bytes.Add(float64(n))
	u.blob.Size, u.blob.Chunks, u.buf = u.blob.Size+n, u.blob.Chunks+1, u.buf[:0]
	return nil
}

// errGone ends an upload whose parts are no longer there: it took longer than abandonedAfter between two parts, or the tenant was erased.
var errGone = errors.New("the parts of the file that came first are gone: too long nothing came")

// roomFor refuses n more bytes than the tenant may have.
func (u *Upload) roomFor(tx *gorm.DB, n int64) error {
	if u.own {
		return nil
	}
	return u.s.room(tx, u.owner.Tenant, n)
}

func (s *Store) room(db *gorm.DB, tenant string, n int64) error {
	var held int64
	if err := db.Model(&blobRow{}).Where("tenant = ?", tenant).Select("COALESCE(SUM(size), 0)").Scan(&held).Error; err != nil {
		return err
	}
	if held+n > s.cfg.MaxTenantBytes {
		return fault.New(fault.CodeFilesFull, fault.Say("files.bytes", s.cfg.MaxTenantBytes))
	}
	return nil
}

// Room reports whether the contents of a tenant have room for n bytes, of which none is there yet. Error: CodeFilesFull.
func (s *Store) Room(ctx context.Context, tenant string, n int64) error {
	return database.Unavailable("look for room", s.room(s.db.WithContext(ctx), tenant, n))
}

// Commit makes a file of what was written and returns it. A file with this id that is there already stays as it is and is returned: who does not know
// whether a Commit has succeeded may repeat everything. Errors: CodeFilesFull.
func (u *Upload) Commit(f NewFile) (File, error) {
	if err := u.flush(); err != nil {
		return File{}, err
	}
	now := u.s.now()
	row := fileRow{
		ID: f.ID, Tenant: u.owner.Tenant, Project: u.owner.Project, Person: u.owner.Person, Purpose: f.Purpose, CreatedAt: now.UnixMicro(),
	}
	if f.Life > 0 {
		row.ExpiresAt = now.Add(f.Life).UnixMicro()
	}
	size := u.blob.Size
	err := u.s.db.WithContext(u.ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockTenant(tx, u.owner.Tenant); err != nil {
			return err
		}
		if !u.own {
			if err := u.s.roomForFile(tx, u.owner.Tenant); err != nil {
				return err
			}
		}
		b, key, err := u.settle(tx)
		if err != nil {
			return err
		}
		row.Blob, row.Name = b.ID, key.Seal([]byte(f.Name), nameLabel(f.ID))
		res := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		if row, err = find(tx, u.owner, f.ID); err != nil {
			return err
		}
		there, err := findBlob(tx, row.Blob)
		if err != nil {
			return err
		}
		size = there.Size
		return dropUnused(tx, b.ID)
	})
	if err != nil {
		return File{}, database.Unavailable("store the file", err)
	}
	u.done = true
	return row.public(f.Name, size), nil
}

// settle returns the blob of the content: the one that the tenant has of it already, else what was uploaded. The tenant is locked.
func (u *Upload) settle(tx *gorm.DB) (blobRow, seal.Key, error) {
	digest := hex.EncodeToString(u.s.cfg.Keys.MAC("files/content/v1", u.owner.Tenant, string(u.sum.Sum(nil))))
	var same []blobRow
	if err := tx.Select(blobColumns()).Where("tenant = ? AND digest = ?", u.owner.Tenant, digest).Limit(1).Find(&same).Error; err != nil {
		return blobRow{}, seal.Key{}, err
	}
	if len(same) == 0 {
		res := tx.Model(&blobRow{}).Where("id = ?", u.blob.ID).Updates(map[string]any{"digest": digest, "touched_at": u.s.now().UnixMicro()})
		if res.Error == nil && res.RowsAffected == 0 {
			return blobRow{}, seal.Key{}, errGone
		}
		return u.blob, u.key, res.Error
	}
	key, err := u.s.key(tx, same[0])
	if err != nil {
		return blobRow{}, seal.Key{}, err
	}
	return same[0], key, dropBlob(tx, u.blob.ID)
}

// Abort removes what was written, unless it is a file by now. It also does so for a caller who has left.
func (u *Upload) Abort(ctx context.Context) {
	if u.done {
		return
	}
	u.done = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := u.s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockIfThere(tx, u.owner.Tenant); err != nil {
			return err
		}
		return dropUnused(tx, u.blob.ID)
	})
	if err != nil { // the sweep removes it
		u.s.cfg.Log.Warn("what had come of a file was not removed; a later sweep does it", slog.Any("error", err))
	}
}
