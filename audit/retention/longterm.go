package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
)

// longTermBatch is how many records are proven and copied in one transaction.
const longTermBatch = 128

// InLongTerm counts the records of a range that the long-term store keeps.
func InLongTerm(db *gorm.DB, lo, hi int64) (int64, error) {
	var n int64
	err := db.Model(&store.LongTermRow{}).Where("idx >= ? AND idx < ?", lo, hi).Count(&n).Error
	if err != nil {
		return 0, fmt.Errorf("count the long-term store: %w", err)
	}
	return n, nil
}

// LongTermDigest is over what the long-term store says of the records of a range, but for their proofs: it never changes once the range was pruned.
func LongTermDigest(db *gorm.DB, lo, hi int64) (string, error) {
	sum := sha256.New()
	for at := lo; ; {
		var rows []store.LongTermRow
		err := db.Select("idx", "id", "tenant", "reason", "until").Where("idx >= ? AND idx < ?", at, hi).Order("idx").Limit(readBatch).Find(&rows).Error
		if err != nil {
			return "", fmt.Errorf("read the long-term store: %w", err)
		}
		for _, r := range rows {
			fmt.Fprintf(sum, "%d %q %q %q %d\n", r.Idx, r.ID, r.Tenant, r.Reason, r.Until)
			at = r.Idx + 1
		}
		if len(rows) < readBatch {
			return hex.EncodeToString(sum.Sum(nil)), nil
		}
	}
}

// CopyToLongTerm copies records into the long-term store, each with its proof under the tree, which is checked first. Those that are there stay as they are.
func CopyToLongTerm(ctx context.Context, db *gorm.DB, keep []keeping, note string, tree checkpoint.Tree, key string) error {
	for len(keep) > 0 {
		n := min(len(keep), longTermBatch)
		err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return longTermIn(tx, keep[:n], note, tree, key) })
		if err != nil {
			return fmt.Errorf("copy records into the long-term store: %w", err)
		}
		keep = keep[n:]
	}
	return nil
}

func longTermIn(tx *gorm.DB, keep []keeping, note string, tree checkpoint.Tree, key string) error {
	indexes := make([]int64, len(keep))
	for i, k := range keep {
		indexes[i] = k.idx
	}
	var there []int64
	if err := tx.Model(&store.LongTermRow{}).Where("idx IN ?", indexes).Pluck("idx", &there).Error; err != nil {
		return err
	}
	var records []store.RecordRow
	err := tx.Table("audit_leaves AS l").Select("l.idx AS idx", "e.id AS id", "e.tenant AS tenant", "e.payload AS payload").
		Joins("JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq AND e.time = l.time").Where("l.idx IN ?", indexes).Find(&records).Error
	if err != nil {
		return err
	}
	found := make(map[int64]store.EventRow, len(records))
	for _, r := range records {
		found[r.Idx] = r.Event
	}
	known := make(map[int64]bool, len(there))
	for _, idx := range there {
		known[idx] = true
	}
	hashes := seal.NewHashReader(tx)
	var rows []store.LongTermRow
	for _, k := range keep {
		r, ok := found[k.idx]
		if known[k.idx] {
			continue
		}
		if !ok {
			return fmt.Errorf("%w: the record at position %d is missing", seal.ErrRewritten, k.idx)
		}
		proof, err := proven(r.Payload, k.idx, note, tree, key, hashes)
		if err != nil {
			return err
		}
		rows = append(rows, store.LongTermRow{Idx: k.idx, ID: r.ID, Tenant: r.Tenant, Reason: k.reason, Until: k.until, Proof: proof})
	}
	if len(rows) == 0 {
		return nil
	}
	return tx.CreateInBatches(rows, longTermBatch).Error
}

// proven makes the proof of a record and checks it.
func proven(payload []byte, index int64, note string, tree checkpoint.Tree, key string, hashes tlog.HashReader) (string, error) {
	path, err := tlog.ProveRecord(tree.Size, index, hashes)
	if err != nil {
		return "", fmt.Errorf("prove record %d: %w", index, err)
	}
	p := evidence.Proof{Record: string(payload), Index: index, Hashes: path, Checkpoint: note}
	if _, err := evidence.VerifyProof(key, p); err != nil {
		return "", fmt.Errorf("%w: record %d: %w", seal.ErrRewritten, index, err)
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// Overdue finds records of the long-term store, behind a position, whose time is over by now and that nothing holds. It looks at some of them and returns the
// last position it looked at, -1 at the end, and the holds it went by.
func (x *Keeper) Overdue(ctx context.Context, r Config, now time.Time, from int64) (due []store.RecordRow, last int64, holds []Hold, err error) {
	db := x.db.WithContext(ctx)
	if holds, err = activeHolds(db); err != nil {
		return nil, 0, nil, err
	}
	var rows []store.RecordRow
	err = db.Table("audit_vault AS v").Select("v.idx AS idx", "e.writer AS writer", "e.seq AS seq", "e.id AS id", "e.time AS time", "e.payload AS payload").
		Joins("JOIN audit_leaves AS l ON l.idx = v.idx").Joins("JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq AND e.time = l.time").
		Where("v.proof <> '' AND v.until <= ? AND v.idx > ? AND v.idx < (SELECT MAX(until_index) FROM audit_prunings)", now.UnixMicro(), from).
		Order("v.idx").Limit(readBatch).Find(&rows).Error
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read the long-term store: %w", err)
	}
	last = from
	for _, row := range rows {
		last = row.Idx
		e, err := record.Decode(row.Event.Payload)
		if err != nil {
			return nil, 0, nil, fmt.Errorf("read record %s: %w", row.Event.ID, err)
		}
		if _, _, stays := r.Keeps(e, holds, x.Subject, now); !stays {
			due = append(due, row)
		}
	}
	if len(rows) < readBatch {
		last = -1
	}
	return due, last, holds, nil
}

// Expire empties the proofs of these records and removes them.
func Expire(ctx context.Context, db *gorm.DB, holder string, due []store.RecordRow, holds []Hold, beside store.Beside) error {
	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := stillPruner(tx, holder, holds); err != nil {
			return err
		}
		var ids []string
		var rows []store.EventRow
		newest := int64(0)
		for _, r := range due {
			ids, rows, newest = append(ids, r.Event.ID), append(rows, r.Event), max(newest, r.Event.Time)
		}
		res := tx.Model(&store.LongTermRow{}).Where("id IN ? AND proof <> ''", ids).Update("proof", "")
		if res.Error == nil && res.RowsAffected != int64(len(due)) {
			return ErrChanged
		}
		if res.Error != nil {
			return res.Error
		}
		if err := removeDerived(tx, beside, rows); err != nil {
			return err
		}
		if err := removeRecords(tx, rows); err != nil {
			return err
		}
		if err := tx.Exec("DELETE FROM audit_leaves WHERE idx IN (SELECT idx FROM audit_vault WHERE id IN ?)", ids).Error; err != nil {
			return err
		}
		if err := search.RemoveUnused(tx, newest); err != nil {
			return err
		}
		return search.ForgetArmSumsUpTo(tx, newest) // last, since nobody opens a window from here on
	})
	if err != nil {
		return fmt.Errorf("remove records from the long-term store: %w", err)
	}
	return nil
}
