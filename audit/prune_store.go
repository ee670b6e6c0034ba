package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/internal/database"
)

const (
	// pruneUnit divides every minimum index: whole tiles of the C2SP format go, as its drafts demand.
	pruneUnit = 1 << tileHeight
	// pruneStep is how many records go in one transaction, into one archive.
	pruneStep = 1 << 18
	// pruneStepSQLite is that of SQLite, where every other writer waits for the transaction.
	pruneStepSQLite = 1 << 13
	// pruneFor is for how long a replica that prunes keeps the others from it.
	pruneFor = time.Hour
	// pruneBatch is how many positions one statement is about.
	pruneBatch = 1024
)

// errNotPruner means that another replica, or a command, prunes now.
var errNotPruner = errors.New("another replica or command prunes the audit log")

// errChanged means that what a pruning was planned with is not so any more; the next one plans anew.
var errChanged = errors.New("holds, or what is kept, changed while the pruning was prepared: nothing was removed, prune again")

// pruningRow is a row of audit_prunings.
type pruningRow struct {
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

func (pruningRow) TableName() string { return "audit_prunings" }

// prunedRow is a row of audit_pruned.
type prunedRow struct {
	Writer     string
	UntilIndex int64
	Seq        int64
}

func (prunedRow) TableName() string { return "audit_pruned" }

// leastIndex returns the minimum index: records below were pruned, but for those that are kept.
func leastIndex(db *gorm.DB) (int64, error) {
	var least int64
	if err := db.Model(&pruningRow{}).Select("COALESCE(MAX(until_index), 0)").Scan(&least).Error; err != nil {
		return 0, fmt.Errorf("read minimum index: %w", err)
	}
	return least, nil
}

// prunedUpTo returns the last pruned sequence of a writer among the records below size.
func prunedUpTo(db *gorm.DB, writer string, size int64) (int64, error) {
	var last int64
	err := db.Model(&prunedRow{}).Select("COALESCE(MAX(seq), 0)").
		Where("writer = ? AND until_index <= ? AND EXISTS (SELECT 1 FROM audit_prunings AS p WHERE p.until_index = audit_pruned.until_index)", writer, size).Scan(&last).Error
	if err != nil {
		return 0, fmt.Errorf("read pruned records: %w", err)
	}
	return last, nil
}

// prunePlan is what may go: the records from first to until but for those to keep.
type prunePlan struct {
	first, until   int64
	keep           []keeping
	oldest, newest int64
	holds          []Hold
	capped         bool // not by the time of a record but by the size of the tree
}

// keeping is a record that stays when its neighbours go.
type keeping struct {
	idx    int64
	reason string
	until  int64
}

// earlier returns the earlier of now, which a clock of this host says, and the time of the database: records go too early only if both are
// ahead. SQLite runs on this host.
func (s *store) earlier(ctx context.Context, now time.Time) (time.Time, error) {
	if database.IsSQLite(s.db) {
		return now, nil
	}
	var us int64
	if err := s.db.WithContext(ctx).Raw("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)").Scan(&us).Error; err != nil {
		return now, fmt.Errorf("ask the database for the time: %w", err)
	}
	if there := time.UnixMicro(us); there.Before(now) {
		return there, nil
	}
	return now, nil
}

// plan finds the longest prefix of at most step records, sealed below size, that is past the shortest time, in whole units.
func (s *store) plan(ctx context.Context, r Retention, now time.Time, size, step int64) (p prunePlan, err error) {
	db := s.db.WithContext(ctx)
	if p.first, err = leastIndex(db); err != nil {
		return p, err
	}
	if p.holds, err = activeHolds(db); err != nil {
		return p, err
	}
	p.until, p.oldest, p.newest = p.first, math.MaxInt64, math.MinInt64
	limit := min(size, p.first+step) &^ (pruneUnit - 1)
	var keep []keeping
	oldest, newest := p.oldest, p.newest
	for at := p.first; at < limit; {
		events, err := sealedEvents(db, at, min(at+verifyBatch, limit))
		if err != nil {
			return p, err
		}
		for _, e := range events {
			if e.Time > r.base(now) && e.Time <= now.UnixMicro() {
				return p, nil
			} // a time that is still to come is of a clock that was wrong: its record stays until then, and holds up no other
			if until, reason, stays := r.keeps(e, p.holds, s.subject, now); stays {
				keep = append(keep, keeping{at, reason, until})
			}
			t := min(e.Time, r.base(now)) // what goes is no newer
			oldest, newest = min(oldest, t), max(newest, t)
			if at++; at%pruneUnit == 0 {
				p.until, p.oldest, p.newest = at, oldest, newest
				p.keep, keep = append(p.keep, keep...), nil
			}
		}
	}
	p.capped = limit == size&^(pruneUnit-1)
	return p, nil
}

// sealedEvents reads the records of the positions from lo to hi, all of which must be there.
func sealedEvents(db *gorm.DB, lo, hi int64) ([]Event, error) {
	var rows []recordRow
	err := db.Table("audit_leaves AS l").Select("l.idx AS idx", "e.payload AS payload").
		Joins("JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq AND e.time = l.time").
		Where("l.idx >= ? AND l.idx < ?", lo, hi).Order("l.idx").Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	out := make([]Event, 0, len(rows))
	for i, r := range rows {
		if r.Idx != lo+int64(i) {
			break
		}
		e, err := record.Decode(r.Event.Payload)
		if err != nil {
			return nil, fmt.Errorf("read record %d: %w", r.Idx, err)
		}
		out = append(out, e)
	}
	if int64(len(out)) != hi-lo {
		return nil, fmt.Errorf("%w: the record at position %d is missing", errRewritten, lo+int64(len(out)))
	}
	return out, nil
}

// lockPruning holds off prunings, and changes of holds, until tx ends.
func lockPruning(tx *gorm.DB) error {
	res := tx.Exec("UPDATE audit_lease SET expires = expires WHERE name = 'prune'")
	if res.Error == nil && res.RowsAffected != 1 {
		return errors.New("the row prune of audit_lease is gone; put it back: without it a hold could come too late")
	}
	return res.Error
}

// stillPruner makes sure, for the rest of tx, that holder prunes and that nobody changed a hold.
func stillPruner(tx *gorm.DB, holder string, holds []Hold) error {
	if err := lockPruning(tx); err != nil {
		return err
	}
	var holders []string
	if err := tx.Table("audit_lease").Where("name = 'prune'").Pluck("holder", &holders).Error; err != nil {
		return err
	}
	if len(holders) != 1 || holders[0] != holder {
		return errNotPruner
	}
	now, err := activeHolds(tx)
	if err == nil && !sameHolds(now, holds) {
		err = errChanged
	}
	return err
}

// prune removes the records of a range that are not in the vault, in one transaction with the row that says so.
func (s *store) prune(ctx context.Context, holder string, row pruningRow, vault string, holds []Hold) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := stillPruner(tx, holder, holds); err != nil {
			return err
		}
		return pruneIn(tx, row, vault)
	})
	if err != nil {
		return fmt.Errorf("prune audit records: %w", err)
	}
	s.months.forget()
	return nil
}

func pruneIn(tx *gorm.DB, row pruningRow, vault string) error {
	least, err := leastIndex(tx)
	if err != nil {
		return err
	}
	kept, err := vaultDigest(tx, row.FirstIndex, row.UntilIndex)
	if err != nil {
		return err
	}
	if least != row.FirstIndex || kept != vault {
		return errChanged
	}
	if err := tx.Create(&row).Error; err != nil {
		return err
	}
	err = tx.Exec("INSERT INTO audit_pruned (writer, until_index, seq) SELECT writer, CAST(? AS BIGINT), MAX(seq) FROM audit_leaves WHERE idx >= ? AND idx < ? GROUP BY writer",
		row.UntilIndex, row.FirstIndex, row.UntilIndex).Error
	if err != nil {
		return err
	}
	months, err := wholeMonths(tx, row.UntilIndex)
	if err != nil {
		return err
	}
	removed := int64(0)
	for at := row.FirstIndex; at < row.UntilIndex; at += pruneBatch {
		n, err := removeBeside(tx, months, at, min(at+pruneBatch, row.UntilIndex))
		if err != nil {
			return err
		}
		removed += n
	}
	if want := row.UntilIndex - row.FirstIndex - row.Kept; removed != want {
		return fmt.Errorf("%w: %d records would go, %d are due", errRewritten, removed, want)
	}
	res := tx.Exec("DELETE FROM audit_leaves WHERE idx >= ? AND idx < ? AND NOT EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.idx = audit_leaves.idx AND v.proof <> '')",
		row.FirstIndex, row.UntilIndex)
	if res.Error == nil && res.RowsAffected != removed {
		return fmt.Errorf("%w: %d positions would go, %d are due", errRewritten, res.RowsAffected, removed)
	}
	if res.Error != nil {
		return res.Error
	}
	for _, m := range months { // last, since it locks out everybody
		if err := m.drop(tx); err != nil {
			return err
		}
	}
	return search.RemoveUnused(tx, row.Newest)
}

// going are the records of the positions from lo to hi that nobody keeps.
func going(tx *gorm.DB, lo, hi int64) ([]eventRow, error) {
	var rows []eventRow
	err := tx.Table("audit_leaves AS l").Select("e.writer", "e.seq", "e.id", "e.time", "e.payload").
		Joins("JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq AND e.time = l.time").
		Where("l.idx >= ? AND l.idx < ? AND NOT EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.idx = l.idx AND v.proof <> '')", lo, hi).
		Order("l.idx").Find(&rows).Error
	return rows, err
}

// removeBeside removes the records of the positions from lo to hi with what belongs to them. Those in months are left to be dropped with them.
func removeBeside(tx *gorm.DB, months []wholeMonth, lo, hi int64) (int64, error) {
	rows, err := going(tx, lo, hi)
	if err != nil {
		return 0, err
	}
	if err := removeDerived(tx, rows); err != nil {
		return 0, err
	}
	var single []eventRow
	for _, r := range rows {
		if !inMonths(months, r.Time) {
			single = append(single, r)
		}
	}
	return int64(len(rows)), removeRecords(tx, single)
}

// removeRecords removes records from their table.
func removeRecords(tx *gorm.DB, rows []eventRow) error {
	for len(rows) > 0 {
		n := min(len(rows), insertBatch)
		var keys []any
		columns := []string{"writer", "seq"}
		if !database.IsSQLite(tx) { // there the time is part of the key, and says in which month to look
			columns = append(columns, "time")
		}
		for _, r := range rows[:n] {
			keys = append(keys, []any{r.Writer, r.Seq, r.Time}[:len(columns)]...)
		}
		res := tx.Exec("DELETE FROM audit_events WHERE "+database.OneOf(tx, n, columns...), keys...)
		if res.Error == nil && res.RowsAffected != int64(n) {
			return fmt.Errorf("%w: %d of %d records were removed", errRewritten, res.RowsAffected, n)
		}
		if res.Error != nil {
			return res.Error
		}
		rows = rows[n:]
	}
	return nil
}

// removeDerived removes what was stored beside records: the texts that were kept with them and what they are found by.
func removeDerived(tx *gorm.DB, rows []eventRow) error {
	var ids []string
	var events []Event
	for _, r := range rows {
		e, err := record.Decode(r.Payload)
		if err != nil {
			return fmt.Errorf("read record %s: %w", r.ID, err)
		}
		ids, events = append(ids, r.ID), append(events, e)
	}
	for part := range slices.Chunk(ids, insertBatch) {
		if err := tx.Exec("DELETE FROM audit_contents WHERE record IN ?", part).Error; err != nil {
			return err
		}
	}
	return search.Remove(tx, events)
}

// rootAt returns the root of the tree of the first size records, by the stored hashes.
func (s *store) rootAt(ctx context.Context, size int64) (tlog.Hash, error) {
	h, err := tlog.TreeHash(size, s.hashes(ctx))
	if err != nil {
		return h, fmt.Errorf("read tree: %w", err)
	}
	return h, nil
}

// archivable returns the newest checkpoint that every witness of the configuration has cosigned, with their lines, or simply the newest
// without witnesses; "" if there is none.
func (l *Log) archivable(ctx context.Context) (string, checkpoint.Tree, error) {
	names := l.witnesses.Names()
	if len(names) == 0 {
		return l.store.checkpoint(ctx, l.reads)
	}
	db := l.store.db.WithContext(ctx)
	var sizes []int64
	err := db.Model(&cosignatureRow{}).Where("witness IN ?", names).Group("size").Having("COUNT(DISTINCT witness) = ?", len(names)).
		Order("size DESC").Limit(1).Pluck("size", &sizes).Error
	if err != nil || len(sizes) == 0 {
		return "", checkpoint.Tree{}, err
	}
	text, err := l.store.checkpointOf(ctx, sizes[0])
	if err != nil {
		return "", checkpoint.Tree{}, err
	}
	t, err := l.reads.Open(text)
	if err != nil {
		return "", checkpoint.Tree{}, fmt.Errorf("%w: the checkpoint of size %d: %w", errRewritten, sizes[0], err)
	}
	var lines []string
	err = db.Model(&cosignatureRow{}).Where("size = ? AND witness IN ?", sizes[0], names).Order("witness").Pluck("line", &lines).Error
	for _, line := range lines {
		text = checkpoint.Add(text, line)
	}
	return text, t, err
}
