package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
)

// The purposes of files.
const (
	PurposeBatch    = "batch"        // what a batch reads
	PurposeUserData = "user_data"    // anything
	PurposeOutput   = "batch_output" // what a batch has written
)

// Owner is whose a file is: the keys of a project share it, or the keys of one person.
type Owner struct{ Tenant, Project, Person string }

// OwnerOf returns whose the files are that a caller makes: a person's, whether he is signed in or uses a key of his own, or those of a project.
func OwnerOf(p identity.Principal) Owner {
	if p.Kind == "user" {
		return Owner{p.Tenant, p.Project, p.ID}
	}
	return Owner{p.Tenant, p.Project, p.Owner}
}

// File is a file without its content.
type File struct {
	ID      string
	Name    string
	Purpose string
	Bytes   int64
	Created time.Time
	Expires time.Time // zero: never
}

func (r fileRow) public(name string, size int64) File {
	f := File{ID: r.ID, Name: name, Purpose: r.Purpose, Bytes: size, Created: time.UnixMicro(r.CreatedAt).UTC()}
	if r.ExpiresAt != 0 {
		f.Expires = time.UnixMicro(r.ExpiresAt).UTC()
	}
	return f
}

func (o Owner) where(db *gorm.DB) *gorm.DB {
	return db.Where("tenant = ? AND project = ? AND person = ?", o.Tenant, o.Project, o.Person)
}

// find returns the row of a file of the owner. What is another's is not there.
func find(db *gorm.DB, o Owner, id string) (fileRow, error) {
	var r fileRow
	err := o.where(db).Select(fileColumns()).Where("id = ?", database.Text(id)).Take(&r).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return r, notFound(id)
	}
	return r, err
}

func notFound(id string) error {
	const shown = 80
	if len(id) > shown {
		id = id[:shown]
	}
	return fault.New(fault.CodeNotFound, fault.Say("thing.file"), id)
}

// live returns the row unless it has expired: from then on it is gone, whenever the sweep comes.
func (s *Store) live(db *gorm.DB, o Owner, id string) (fileRow, error) {
	r, err := find(db, o, id)
	if err == nil && r.ExpiresAt != 0 && r.ExpiresAt <= s.now().UnixMicro() && r.Holds == 0 {
		return r, notFound(id)
	}
	return r, err
}

// shown opens the name of a file and adds what its blob knows.
func (s *Store) shown(db *gorm.DB, r fileRow) (File, blobRow, seal.Key, error) {
	b, err := findBlob(db, r.Blob)
	if err != nil {
		return File{}, b, seal.Key{}, err
	}
	key, err := s.key(db, b)
	if err != nil {
		return File{}, b, key, err
	}
	name, err := key.Open(r.Name, nameLabel(r.ID))
	if err != nil {
		return File{}, b, key, fmt.Errorf("file %s: its name does not open: %w", r.ID, err)
	}
	return r.public(string(name), b.Size), b, key, nil
}

// Get returns a file. Error: CodeNotFound, also for a file of somebody else and one that has expired.
func (s *Store) Get(ctx context.Context, o Owner, id string) (f File, err error) {
	err = database.Snapshot(ctx, s.db, func(tx *gorm.DB) error {
		r, err := s.live(tx, o, id)
		if err == nil {
			f, _, _, err = s.shown(tx, r)
		}
		return err
	})
	return f, database.Unavailable("read the file", err)
}

// Query says which files of an owner are wanted.
type Query struct {
	Purpose   string // "" for every one
	After     string // id of the last file of the page before; "" from the beginning
	Ascending bool   // the oldest first
	Limit     int
}

// List returns a page of files, the newest first, and whether there are more. Error: CodeNotFound for an After that is none.
func (s *Store) List(ctx context.Context, o Owner, q Query) (page []File, more bool, err error) {
	err = database.Snapshot(ctx, s.db, func(tx *gorm.DB) error {
		rows, err := s.listed(tx, o, q)
		if more = len(rows) > q.Limit; more {
			rows = rows[:q.Limit]
		}
		for _, r := range rows {
			f, _, _, serr := s.shown(tx, r)
			if serr != nil {
				return serr
			}
			page = append(page, f)
		}
		return err
	})
	return page, more, database.Unavailable("list files", err)
}

// listed returns the rows of a page and one more.
func (s *Store) listed(tx *gorm.DB, o Owner, q Query) (rows []fileRow, err error) {
	order, than := "created_at DESC, id DESC", "<"
	if q.Ascending {
		order, than = "created_at, id", ">"
	}
	want := o.where(tx).Select(fileColumns()).Where("expires_at = 0 OR expires_at > ? OR holds > 0", s.now().UnixMicro()).Order(order).Limit(q.Limit + 1)
	if q.Purpose != "" {
		want = want.Where("purpose = ?", database.Text(q.Purpose))
	}
	if q.After != "" {
		last, err := find(tx, o, q.After)
		if err != nil {
			return nil, err
		}
		want = want.Where("(created_at, id) "+than+" (?, ?)", last.CreatedAt, last.ID)
	}
	return rows, want.Find(&rows).Error
}

// Delete removes a file, and its content unless another file has the same. Errors: CodeNotFound; CodeConflict while a batch reads it.
func (s *Store) Delete(ctx context.Context, o Owner, id string) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockTenant(tx, o.Tenant); err != nil {
			return err
		}
		r, err := find(tx, o, id)
		if err != nil {
			return err
		}
		if r.Holds > 0 {
			return fault.New(fault.CodeConflict, fault.Say("files.in_use"))
		}
		return remove(tx, r)
	})
	return database.Unavailable("delete the file", err)
}

func remove(tx *gorm.DB, r fileRow) error {
	if err := tx.Where("id = ?", r.ID).Delete(&fileRow{}).Error; err != nil {
		return err
	}
	return dropUnused(tx, r.Blob)
}

// Hold keeps a file from being removed until Release, in the transaction of whoever reads it for longer. Errors: as of Get.
func (s *Store) Hold(tx *gorm.DB, o Owner, id string) (File, error) {
	if err := lockTenant(tx, o.Tenant); err != nil {
		return File{}, err
	}
	r, err := s.live(tx, o, id)
	if err != nil {
		return File{}, err
	}
	if err := tx.Model(&fileRow{}).Where("id = ?", r.ID).Update("holds", gorm.Expr("holds + 1")).Error; err != nil {
		return File{}, err
	}
	f, _, _, err := s.shown(tx, r)
	return f, err
}

// Release ends one Hold. It does nothing for a file that is gone with its tenant.
func (s *Store) Release(tx *gorm.DB, o Owner, id string) error {
	return o.where(tx.Model(&fileRow{})).Where("id = ? AND holds > 0", id).Update("holds", gorm.Expr("holds - 1")).Error
}

// Reader reads a content, one chunk after the other.
type Reader struct {
	s    *Store
	ctx  context.Context //nolint:containedctx // a reader has no other way to get it
	id   string
	blob blobRow
	key  seal.Key
	next int64
	buf  []byte
}

// Open returns a file and its content. Errors: as of Get; of the reader CodeNotFound for a file that is deleted meanwhile.
func (s *Store) Open(ctx context.Context, o Owner, id string) (f File, content *Reader, err error) {
	content = &Reader{s: s, ctx: ctx, id: id}
	err = database.Snapshot(ctx, s.db, func(tx *gorm.DB) error {
		r, err := s.live(tx, o, id)
		if err == nil {
			f, content.blob, content.key, err = s.shown(tx, r)
		}
		return err
	})
	return f, content, database.Unavailable("open the file", err)
}

// Fork returns a reader of the same content that stands where r stands, and moves by itself from there.
func (r *Reader) Fork() *Reader {
	out := *r
	return &out
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.buf) == 0 {
		if r.next == r.blob.Chunks {
			return 0, io.EOF
		}
		var rows []chunkRow
		err := r.s.db.WithContext(r.ctx).Select("sealed").Where("blob = ? AND number = ?", r.blob.ID, r.next).Find(&rows).Error
		if err != nil {
			return 0, database.Unavailable("read a part of the file", err)
		}
		if len(rows) == 0 {
			return 0, notFound(r.id)
		}
		if r.buf, err = r.key.Open(rows[0].Sealed, chunkLabel(r.blob.ID, r.next)); err != nil {
			return 0, fmt.Errorf("part %d of a file does not open: it was changed: %w", r.next, err)
		}
		r.next++
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// Run removes what has expired, and what was begun and given up, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("expired files were not removed; the next turn repeats it", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// sweep removes files that have expired and contents that are no file. Two replicas may do it at once: each removal looks again.
func (s *Store) sweep(ctx context.Context) error {
	now := s.now()
	var old []fileRow
	db := s.db.WithContext(ctx)
	err := db.Select(fileColumns()).Where("expires_at > 0 AND expires_at <= ? AND holds = 0", now.UnixMicro()).Order("expires_at").Limit(sweepAtOnce).Find(&old).Error
	if err != nil {
		return database.Unavailable("look for expired files", err)
	}
	for _, r := range old {
		gone, err := s.expire(db, r, now)
		if err != nil {
			return database.Unavailable("remove an expired file", err)
		}
		if gone {
			s.metrics.removed.Inc()
		}
	}
	var left []blobRow
	err = db.Select("id", "tenant").Where("digest = '' AND touched_at < ?", now.Add(-abandonedAfter).UnixMicro()).Limit(sweepAtOnce).Find(&left).Error
	if err != nil {
		return database.Unavailable("look for contents that were given up", err)
	}
	for _, b := range left {
		if err := s.giveUp(db, b, now); err != nil {
			return database.Unavailable("remove a content that was given up", err)
		}
	}
	return nil
}

func (s *Store) expire(db *gorm.DB, r fileRow, now time.Time) (gone bool, err error) {
	err = db.Transaction(func(tx *gorm.DB) error {
		gone = false
		if err := lockTenant(tx, r.Tenant); err != nil {
			return err
		}
		var still []fileRow
		err := tx.Select(fileColumns()).Where("id = ? AND expires_at > 0 AND expires_at <= ? AND holds = 0", r.ID, now.UnixMicro()).Find(&still).Error
		if err != nil || len(still) == 0 {
			return err
		}
		gone = true
		return remove(tx, still[0])
	})
	return gone, err
}

func (s *Store) giveUp(db *gorm.DB, b blobRow, now time.Time) error {
	return db.Transaction(func(tx *gorm.DB) error {
		if err := lockTenant(tx, b.Tenant); err != nil {
			return err
		}
		var still int64
		err := tx.Model(&blobRow{}).Where("id = ? AND digest = '' AND touched_at < ?", b.ID, now.Add(-abandonedAfter).UnixMicro()).Count(&still).Error
		if err != nil || still == 0 {
			return err
		}
		return dropBlob(tx, b.ID)
	})
}
