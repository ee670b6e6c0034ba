package seal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
)

const (
	sealBatch = 2000
)

// LeafRow is a row of audit_leaves: a position of the tree.
type LeafRow struct {
	Idx      int64
	Writer   string
	Seq      int64
	LeafHash []byte
	Time     int64 // of the record
}

// TableName implements gorm's Tabler.
func (LeafRow) TableName() string { return "audit_leaves" }

// HashRow is a row of audit_hashes: a hash of the tree.
type HashRow struct {
	Idx  int64
	Hash []byte
}

// TableName implements gorm's Tabler.
func (HashRow) TableName() string { return "audit_hashes" }

// CheckpointRow is a row of audit_checkpoints: a signed note.
type CheckpointRow struct {
	Size int64
	Note string
}

// TableName implements gorm's Tabler.
func (CheckpointRow) TableName() string { return "audit_checkpoints" }

// ErrNotSealer means that another replica seals now.
var ErrNotSealer = errors.New("another replica holds the sealing lease")

// HashReader reads stored tree hashes through tx and remembers them, with those a sealing pass is about to store.
type HashReader struct {
	tx   *gorm.DB
	seen map[int64]tlog.Hash
}

// NewHashReader returns a reader of the stored hashes.
func NewHashReader(tx *gorm.DB) *HashReader { return &HashReader{tx: tx, seen: map[int64]tlog.Hash{}} }

// ReadHashes implements tlog.HashReader.
func (r *HashReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var need []int64
	for _, i := range indexes {
		if _, ok := r.seen[i]; !ok {
			need = append(need, i)
		}
	}
	if len(need) > 0 {
		var rows []HashRow
		if err := r.tx.Select("idx", "hash").Where("idx IN ?", need).Find(&rows).Error; err != nil {
			return nil, fmt.Errorf("read tree hashes: %w", err)
		}
		for _, row := range rows {
			if len(row.Hash) == tlog.HashSize {
				r.seen[row.Idx] = tlog.Hash(row.Hash)
			}
		}
	}
	out := make([]tlog.Hash, len(indexes))
	for n, i := range indexes {
		h, ok := r.seen[i]
		if !ok {
			return nil, fmt.Errorf("%w: the stored tree hash %d is missing", ErrRewritten, i)
		}
		out[n] = h
	}
	return out, nil
}

// Latest returns the newest checkpoint, "" and an empty tree if there is none.
func Latest(db *gorm.DB, v checkpoint.Verifier) (string, checkpoint.Tree, error) {
	var rows []CheckpointRow
	if err := db.Select("size", "note").Order("size DESC").Limit(1).Find(&rows).Error; err != nil {
		return "", checkpoint.Tree{}, fmt.Errorf("read checkpoint: %w", err)
	}
	if len(rows) == 0 {
		root, err := tlog.TreeHash(0, nil)
		return "", checkpoint.Tree{Root: root}, err
	}
	t, err := v.Open(rows[0].Note)
	if err != nil {
		return "", checkpoint.Tree{}, fmt.Errorf("%w: the newest checkpoint: %w", ErrRewritten, err)
	}
	if t.Size != rows[0].Size {
		return "", checkpoint.Tree{}, fmt.Errorf("%w: the checkpoint of size %d is stored under size %d", ErrRewritten, t.Size, rows[0].Size)
	}
	return rows[0].Note, t, nil
}

// Unsealed reports whether any record waits for its position, without taking a lock.
func Unsealed(ctx context.Context, db *gorm.DB) (bool, error) {
	var n int64
	err := db.WithContext(ctx).Model(&store.WriterRow{}).Where("shipped > sealed").Count(&n).Error
	if err != nil {
		return false, fmt.Errorf("read audit writers: %w", err)
	}
	return n > 0, nil
}

// Extend gives up to sealBatch records their positions, extends the tree and signs a checkpoint, in one transaction. The lease row
// is locked for its length, so a paused sealer that wakes up late changes nothing; the lease itself only keeps the work with one
// replica. It returns how many records it sealed and errNotSealer if another replica is at it.
func Extend(ctx context.Context, db *gorm.DB, sg checkpoint.Signer, v checkpoint.Verifier, holder string, now time.Time) (n int, err error) {
	err = db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := takeSealing(tx, holder, now); err != nil {
			return err
		}
		n, err = sealIn(tx, sg, v)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("seal audit records: %w", err)
	}
	return n, nil
}

func sealIn(tx *gorm.DB, sg checkpoint.Signer, v checkpoint.Verifier) (int, error) {
	hashes := NewHashReader(tx)
	base, err := sealedTree(tx, v, hashes)
	if err != nil {
		return 0, err
	}
	leaves, err := nextLeaves(tx)
	if err != nil || len(leaves) == 0 {
		return 0, err
	}
	stored := make([]HashRow, 0, 2*len(leaves))
	for i := range leaves {
		n := base.Size + int64(i)
		added, err := tlog.StoredHashesForRecordHash(n, tlog.Hash(leaves[i].LeafHash), hashes)
		if err != nil {
			return 0, err
		}
		at := tlog.StoredHashIndex(0, n)
		for k, h := range added {
			hashes.seen[at+int64(k)] = h
			stored = append(stored, HashRow{Idx: at + int64(k), Hash: bytes.Clone(h[:])})
		}
		leaves[i].Idx = n
	}
	if err := database.Insert(tx, leaves, ""); err != nil {
		return 0, err
	}
	if err := database.Insert(tx, stored, ""); err != nil {
		return 0, err
	}
	if err := markSealed(tx, leaves); err != nil {
		return 0, err
	}
	return len(leaves), sign(tx, sg, base.Size+int64(len(leaves)), hashes)
}

// sealedTree returns the tree to extend, after checking that the hashes to build on are those that were signed.
func sealedTree(tx *gorm.DB, v checkpoint.Verifier, hashes tlog.HashReader) (checkpoint.Tree, error) {
	_, t, err := Latest(tx, v)
	if err != nil {
		return checkpoint.Tree{}, err
	}
	var size int64
	if err := tx.Model(&LeafRow{}).Select("COALESCE(MAX(idx), -1) + 1").Scan(&size).Error; err != nil {
		return checkpoint.Tree{}, err
	}
	least, err := store.Least(tx)
	if err != nil {
		return checkpoint.Tree{}, err
	}
	if size = max(size, least); size != t.Size {
		return checkpoint.Tree{}, fmt.Errorf("%w: %d records have positions, the checkpoint says %d", ErrRewritten, size, t.Size)
	}
	root, err := tlog.TreeHash(t.Size, hashes)
	if err != nil {
		return checkpoint.Tree{}, err
	}
	if root != t.Root {
		return checkpoint.Tree{}, fmt.Errorf("%w: the stored hashes do not give the signed root of size %d", ErrRewritten, t.Size)
	}
	return t, nil
}

// nextLeaves returns the leaves of the records to seal, by writer and sequence, without their positions. A gap, such as a segment an operator
// had to give up, does not stop the sealing of what follows: Verify reports it for ever.
func nextLeaves(tx *gorm.DB) ([]LeafRow, error) {
	var writers []store.WriterRow
	err := tx.Select("writer", "shipped", "sealed").Where("shipped > sealed").Order("writer").Find(&writers).Error
	if err != nil {
		return nil, err
	}
	var out []LeafRow
	for _, w := range writers {
		if len(out) == sealBatch {
			break
		}
		if out, err = addLeaves(tx, w, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addLeaves adds leaves of one writer. It computes them from the payloads: a record that was changed meanwhile must not be sealed.
func addLeaves(tx *gorm.DB, w store.WriterRow, out []LeafRow) ([]LeafRow, error) {
	rows, err := tx.Model(&store.EventRow{}).Select("seq", "id", "time", "payload", "leaf_hash").
		Where("writer = ? AND seq > ? AND seq <= ?", w.Writer, w.Sealed, w.Shipped).Order("seq").Limit(sealBatch - len(out)).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err says it
	for rows.Next() {
		l := LeafRow{Writer: w.Writer}
		var id string
		var payload sql.RawBytes
		if err := rows.Scan(&l.Seq, &id, &l.Time, &payload, &l.LeafHash); err != nil {
			return nil, err
		}
		if leaf := tlog.RecordHash(payload); !bytes.Equal(leaf[:], l.LeafHash) {
			return nil, fmt.Errorf("%w: record %s was changed before it was sealed", ErrRewritten, id)
		}
		out = append(out, l)
	}
	return out, rows.Err()
}

func markSealed(tx *gorm.DB, leaves []LeafRow) error {
	for i, l := range leaves {
		if i+1 < len(leaves) && leaves[i+1].Writer == l.Writer {
			continue
		}
		if err := tx.Model(&store.WriterRow{}).Where("writer = ?", l.Writer).Update("sealed", l.Seq).Error; err != nil {
			return err
		}
	}
	return nil
}

func sign(tx *gorm.DB, sg checkpoint.Signer, size int64, hashes tlog.HashReader) error {
	root, err := tlog.TreeHash(size, hashes)
	if err != nil {
		return err
	}
	text, err := sg.Sign(checkpoint.Tree{Size: size, Root: root})
	if err != nil {
		return err
	}
	return tx.Create(&CheckpointRow{Size: size, Note: text}).Error
}

// Lease is what a replica takes to seal.
func Lease() store.Lease { return store.Lease{Name: "seal", For: store.LeaseFor, Taken: ErrNotSealer} }

// takeSealing makes holder the sealer, for this transaction and the time after it, or fails with errNotSealer at once: a row that another
// transaction holds is not waited for.
func takeSealing(tx *gorm.DB, holder string, now time.Time) error {
	if err := database.SetIdleTimeout(tx, store.LeaseFor); err != nil {
		return err
	}
	if !database.IsSQLite(tx) {
		var free []string
		if err := tx.Raw("SELECT name FROM audit_lease WHERE name = 'seal' FOR UPDATE SKIP LOCKED").Scan(&free).Error; err != nil {
			return err
		}
		if len(free) == 0 {
			return ErrNotSealer
		}
	}
	return Lease().Take(tx, holder, now)
}

// Release lets another replica seal at once.
func Release(ctx context.Context, db *gorm.DB, holder string) error {
	return Lease().Release(db.WithContext(ctx), holder)
}
