package store

import (
	"fmt"
	"strconv"

	"gorm.io/gorm"
)

// PruningRow is a row of audit_prunings.
type PruningRow struct {
	FirstIndex int64
	UntilIndex int64
	Kept       int64
	Root       string
	Oldest     int64
	Newest     int64
	Size       int64
	Archive    string
	Digest     string
	Record     string
	Time       int64
	Actor      string
}

// TableName implements gorm's Tabler.
func (PruningRow) TableName() string { return "audit_prunings" }

// PrunedRow is a row of audit_pruned.
type PrunedRow struct {
	Writer     string
	UntilIndex int64
	Seq        int64
}

// TableName implements gorm's Tabler.
func (PrunedRow) TableName() string { return "audit_pruned" }

// Least returns the minimum index: records below were pruned, but for those that are kept.
func Least(db *gorm.DB) (int64, error) {
	var least int64
	if err := db.Model(&PruningRow{}).Select("COALESCE(MAX(until_index), 0)").Scan(&least).Error; err != nil {
		return 0, fmt.Errorf("read minimum index: %w", err)
	}
	return least, nil
}

// PrunedUpTo returns the last pruned sequence of a writer among the records below size.
func PrunedUpTo(db *gorm.DB, writer string, size int64) (int64, error) {
	var last int64
	err := db.Model(&PrunedRow{}).Select("COALESCE(MAX(seq), 0)").
		Where("writer = ? AND until_index <= ? AND EXISTS (SELECT 1 FROM audit_prunings AS p WHERE p.until_index = audit_pruned.until_index)", writer, size).Scan(&last).Error
	if err != nil {
		return 0, fmt.Errorf("read pruned records: %w", err)
	}
	return last, nil
}

// Detail is what the record of a pruning says about it, all of which Verify compares. stays is the digest of what stays.
func (r PruningRow) Detail(stays string) map[string]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return map[string]string{
		"first_index": number(r.FirstIndex), "until_index": number(r.UntilIndex), "kept": number(r.Kept), "root": r.Root,
		"oldest": number(r.Oldest), "newest": number(r.Newest), "checkpoint": number(r.Size), "archive": r.Archive, "digest": r.Digest, "vault": stays,
	}
}

// Prunings reads what was pruned, lowest positions first.
func Prunings(db *gorm.DB) ([]PruningRow, error) {
	var rows []PruningRow
	err := db.Select("first_index", "until_index", "kept", "root", "oldest", "newest", "size", "archive", "digest", "record", "time", "actor").
		Order("first_index").Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read prunings: %w", err)
	}
	return rows, nil
}

// LongTermRow is a row of audit_vault: a record that stays, with the proof that it is in the tree. An emptied proof is what is left of one
// whose time was over.
type LongTermRow struct {
	Idx    int64
	ID     string
	Tenant string
	Reason string
	Until  int64
	Proof  string
}

// TableName implements gorm's Tabler.
func (LongTermRow) TableName() string { return "audit_vault" }
