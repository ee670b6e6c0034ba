package audit

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
	"github.com/sluice-project/sluice/internal/database"
)

const (
	sealBatch = 2000
	// insertBatch is how many rows, or ids to look for, go into one statement of the ORM.
	insertBatch = 500
)

// errNotSealer means that another replica seals now.
var errNotSealer = errors.New("another replica holds the sealing lease")

// hashReader reads stored tree hashes through tx and remembers them, with those a sealing pass is about to store.
type hashReader struct {
	tx   *gorm.DB
	seen map[int64]tlog.Hash
}

func newHashReader(tx *gorm.DB) *hashReader { return &hashReader{tx: tx, seen: map[int64]tlog.Hash{}} }

// ReadHashes implements tlog.HashReader.
func (r *hashReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var need []int64
	for _, i := range indexes {
		if _, ok := r.seen[i]; !ok {
			need = append(need, i)
		}
	}
	if len(need) > 0 {
		var rows []hashRow
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
			return nil, fmt.Errorf("%w: the stored tree hash %d is missing", errRewritten, i)
		}
		out[n] = h
	}
	return out, nil
}

func (s *store) hashes(ctx context.Context) tlog.HashReader {
	return newHashReader(s.db.WithContext(ctx))
}

// latestCheckpoint returns the newest checkpoint, "" and an empty tree if there is none.
func latestCheckpoint(db *gorm.DB, v checkpoint.Verifier) (string, checkpoint.Tree, error) {
	var rows []checkpointRow
	if err := db.Select("size", "note").Order("size DESC").Limit(1).Find(&rows).Error; err != nil {
		return "", checkpoint.Tree{}, fmt.Errorf("read checkpoint: %w", err)
	}
	if len(rows) == 0 {
		root, err := tlog.TreeHash(0, nil)
		return "", checkpoint.Tree{Root: root}, err
	}
	t, err := v.Open(rows[0].Note)
	if err != nil {
		return "", checkpoint.Tree{}, fmt.Errorf("%w: the newest checkpoint: %w", errRewritten, err)
	}
	if t.Size != rows[0].Size {
		return "", checkpoint.Tree{}, fmt.Errorf("%w: the checkpoint of size %d is stored under size %d", errRewritten, t.Size, rows[0].Size)
	}
	return rows[0].Note, t, nil
}

func (s *store) checkpoint(ctx context.Context, v checkpoint.Verifier) (string, checkpoint.Tree, error) {
	return latestCheckpoint(s.db.WithContext(ctx), v)
}

// unsealed reports whether any record waits for its position, without taking a lock.
func (s *store) unsealed(ctx context.Context) (bool, error) {
	var n int64
	err := s.db.WithContext(ctx).Model(&writerRow{}).Where("shipped > sealed").Count(&n).Error
	if err != nil {
		return false, fmt.Errorf("read audit writers: %w", err)
	}
	return n > 0, nil
}

// seal gives up to sealBatch records their positions, extends the tree and signs a checkpoint, in one transaction. The lease row
// is locked for its length, so a paused sealer that wakes up late changes nothing; the lease itself only keeps the work with one
// replica. It returns how many records it sealed and errNotSealer if another replica is at it.
func (s *store) seal(ctx context.Context, sg checkpoint.Signer, v checkpoint.Verifier, holder string, now time.Time) (n int, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
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
	hashes := newHashReader(tx)
	base, err := sealedTree(tx, v, hashes)
	if err != nil {
		return 0, err
	}
	leaves, err := nextLeaves(tx)
	if err != nil || len(leaves) == 0 {
		return 0, err
	}
	stored := make([]hashRow, 0, 2*len(leaves))
	for i := range leaves {
		n := base.Size + int64(i)
		added, err := tlog.StoredHashesForRecordHash(n, tlog.Hash(leaves[i].LeafHash), hashes)
		if err != nil {
			return 0, err
		}
		at := tlog.StoredHashIndex(0, n)
		for k, h := range added {
			hashes.seen[at+int64(k)] = h
			stored = append(stored, hashRow{Idx: at + int64(k), Hash: bytes.Clone(h[:])})
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
	_, t, err := latestCheckpoint(tx, v)
	if err != nil {
		return checkpoint.Tree{}, err
	}
	var size int64
	if err := tx.Model(&leafRow{}).Select("COALESCE(MAX(idx), -1) + 1").Scan(&size).Error; err != nil {
		return checkpoint.Tree{}, err
	}
	least, err := leastIndex(tx)
	if err != nil {
		return checkpoint.Tree{}, err
	}
	if size = max(size, least); size != t.Size {
		return checkpoint.Tree{}, fmt.Errorf("%w: %d records have positions, the checkpoint says %d", errRewritten, size, t.Size)
	}
	root, err := tlog.TreeHash(t.Size, hashes)
	if err != nil {
		return checkpoint.Tree{}, err
	}
	if root != t.Root {
		return checkpoint.Tree{}, fmt.Errorf("%w: the stored hashes do not give the signed root of size %d", errRewritten, t.Size)
	}
	return t, nil
}

// nextLeaves returns the leaves of the records to seal, by writer and sequence, without their positions. A gap, such as a segment an operator
// had to give up, does not stop the sealing of what follows: Verify reports it for ever.
func nextLeaves(tx *gorm.DB) ([]leafRow, error) {
	var writers []writerRow
	err := tx.Select("writer", "shipped", "sealed").Where("shipped > sealed").Order("writer").Find(&writers).Error
	if err != nil {
		return nil, err
	}
	var out []leafRow
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
func addLeaves(tx *gorm.DB, w writerRow, out []leafRow) ([]leafRow, error) {
	rows, err := tx.Model(&eventRow{}).Select("seq", "id", "time", "payload", "leaf_hash").
		Where("writer = ? AND seq > ? AND seq <= ?", w.Writer, w.Sealed, w.Shipped).Order("seq").Limit(sealBatch - len(out)).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err says it
	for rows.Next() {
		l := leafRow{Writer: w.Writer}
		var id string
		var payload sql.RawBytes
		if err := rows.Scan(&l.Seq, &id, &l.Time, &payload, &l.LeafHash); err != nil {
			return nil, err
		}
		if leaf := tlog.RecordHash(payload); !bytes.Equal(leaf[:], l.LeafHash) {
			return nil, fmt.Errorf("%w: record %s was changed before it was sealed", errRewritten, id)
		}
		out = append(out, l)
	}
	return out, rows.Err()
}

func markSealed(tx *gorm.DB, leaves []leafRow) error {
	for i, l := range leaves {
		if i+1 < len(leaves) && leaves[i+1].Writer == l.Writer {
			continue
		}
		if err := tx.Model(&writerRow{}).Where("writer = ?", l.Writer).Update("sealed", l.Seq).Error; err != nil {
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
	return tx.Create(&checkpointRow{Size: size, Note: text}).Error
}
