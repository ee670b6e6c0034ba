package retention

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
)

const (
	// Unit divides every minimum index: whole tiles of the C2SP format go, as its drafts demand.
	Unit = 1 << seal.TileHeight
	// Step is how many records go in one transaction, into one archive.
	Step = 1 << 18
	// StepSQLite is that of SQLite, where every other writer waits for the transaction.
	StepSQLite = 1 << 13
	// pruneFor is for how long a replica that prunes keeps the others from it.
	pruneFor = time.Hour
	// pruneBatch is how many positions one statement is about.
	pruneBatch = 1024
	// readBatch is how many rows, or ids to look for, go into one statement.
	readBatch = 500
)

// Lease is what a replica or a command takes to prune.
func Lease() store.Lease { return store.Lease{Name: "prune", For: pruneFor, Taken: ErrNotPruner} }

// ErrNotPruner means that another replica, or a command, prunes now.
var ErrNotPruner = errors.New("another replica or command prunes the audit log")

// ErrChanged means that what a pruning was planned with is not so any more; the next one plans anew.
var ErrChanged = errors.New("holds, or what is kept, changed while the pruning was prepared: nothing was removed, prune again")

// Plan is what may go: the records from first to until but for those to keep.
type Plan struct {
	First, Until   int64
	Keep           []keeping
	Oldest, Newest int64
	Holds          []Hold
	Capped         bool // not by the time of a record but by the size of the tree
}

// keeping is a record that stays when its neighbours go.
type keeping struct {
	idx    int64
	reason string
	until  int64
}

// EarlierClock returns the earlier of now, which a clock of this host says, and the time of the database: records go too early only if both are
// ahead. SQLite runs on this host.
func EarlierClock(ctx context.Context, db *gorm.DB, now time.Time) (time.Time, error) {
	if database.IsSQLite(db) {
		return now, nil
	}
	var us int64
	if err := db.WithContext(ctx).Raw("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)").Scan(&us).Error; err != nil {
		return now, fmt.Errorf("ask the database for the time: %w", err)
	}
	if there := time.UnixMicro(us); there.Before(now) {
		return there, nil
	}
	return now, nil
}

// Plan finds the longest prefix of at most step records, sealed below size, that is past the shortest time, in whole units.
func (x *Keeper) Plan(ctx context.Context, r Config, now time.Time, size, step int64) (p Plan, err error) {
	db := x.db.WithContext(ctx)
	if p.First, err = store.Least(db); err != nil {
		return p, err
	}
	if p.Holds, err = activeHolds(db); err != nil {
		return p, err
	}
	p.Until, p.Oldest, p.Newest = p.First, math.MaxInt64, math.MinInt64
	limit := min(size, p.First+step) &^ (Unit - 1)
	var keep []keeping
	oldest, newest := p.Oldest, p.Newest
	for at := p.First; at < limit; {
		events, err := sealedEvents(db, at, min(at+readBatch, limit))
		if err != nil {
			return p, err
		}
		for _, e := range events {
			if e.Time > r.base(now) && e.Time <= now.UnixMicro() {
				return p, nil
			} // a time that is still to come is of a clock that was wrong: its record stays until then, and holds up no other
			if until, reason, stays := r.Keeps(e, p.Holds, x.Subject, now); stays {
				keep = append(keep, keeping{at, reason, until})
			}
			t := min(e.Time, r.base(now)) // what goes is no newer
			oldest, newest = min(oldest, t), max(newest, t)
			if at++; at%Unit == 0 {
				p.Until, p.Oldest, p.Newest = at, oldest, newest
				p.Keep, keep = append(p.Keep, keep...), nil
			}
		}
	}
	p.Capped = limit == size&^(Unit-1)
	return p, nil
}

// sealedEvents reads the records of the positions from lo to hi, all of which must be there.
func sealedEvents(db *gorm.DB, lo, hi int64) ([]record.Event, error) {
	var rows []store.RecordRow
	err := db.Table("audit_leaves AS l").Select("l.idx AS idx", "e.payload AS payload").
		Joins("JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq AND e.time = l.time").
		Where("l.idx >= ? AND l.idx < ?", lo, hi).Order("l.idx").Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	out := make([]record.Event, 0, len(rows))
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
		return nil, fmt.Errorf("%w: the record at position %d is missing", seal.ErrRewritten, lo+int64(len(out)))
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
		return ErrNotPruner
	}
	now, err := activeHolds(tx)
	if err == nil && !sameHolds(now, holds) {
		err = ErrChanged
	}
	return err
}

// Remove removes the records of a range that are not in the long-term store, in one transaction with the row that says so.
func Remove(ctx context.Context, db *gorm.DB, holder string, row store.PruningRow, stays string, holds []Hold, beside store.Beside) error {
	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := stillPruner(tx, holder, holds); err != nil {
			return err
		}
		return pruneIn(tx, row, stays, beside)
	})
	if err != nil {
		return fmt.Errorf("prune audit records: %w", err)
	}
	return nil
}

func pruneIn(tx *gorm.DB, row store.PruningRow, stays string, beside store.Beside) error {
	least, err := store.Least(tx)
	if err != nil {
		return err
	}
	kept, err := LongTermDigest(tx, row.FirstIndex, row.UntilIndex)
	if err != nil {
		return err
	}
	if least != row.FirstIndex || kept != stays {
		return ErrChanged
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
		n, err := removeBeside(tx, beside, months, at, min(at+pruneBatch, row.UntilIndex))
		if err != nil {
			return err
		}
		removed += n
	}
	if want := row.UntilIndex - row.FirstIndex - row.Kept; removed != want {
		return fmt.Errorf("%w: %d records would go, %d are due", seal.ErrRewritten, removed, want)
	}
	res := tx.Exec("DELETE FROM audit_leaves WHERE idx >= ? AND idx < ? AND NOT EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.idx = audit_leaves.idx AND v.proof <> '')",
		row.FirstIndex, row.UntilIndex)
	if res.Error == nil && res.RowsAffected != removed {
		return fmt.Errorf("%w: %d positions would go, %d are due", seal.ErrRewritten, res.RowsAffected, removed)
	}
	if res.Error != nil {
		return res.Error
	}
	newest := row.Newest // of what goes; of a month what stays is inserted again, and must not be counted twice
	for _, m := range months {
		newest = max(newest, m.to)
	}
	if err := search.ForgetArmSumsUpTo(tx, newest); err != nil {
		return fmt.Errorf("forget the sums of rollouts: %w", err)
	}
	for _, m := range months { // last, since it locks out everybody
		if err := m.drop(tx); err != nil {
			return err
		}
	}
	return search.RemoveUnused(tx, row.Newest)
}

// going are the records of the positions from lo to hi that nobody keeps.
func going(tx *gorm.DB, lo, hi int64) ([]store.EventRow, error) {
	var rows []store.EventRow
	err := tx.Table("audit_leaves AS l").Select("e.writer", "e.seq", "e.id", "e.time", "e.payload").
		Joins("JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq AND e.time = l.time").
		Where("l.idx >= ? AND l.idx < ? AND NOT EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.idx = l.idx AND v.proof <> '')", lo, hi).
		Order("l.idx").Find(&rows).Error
	return rows, err
}

// removeBeside removes the records of the positions from lo to hi with what belongs to them. Those in months are left to be dropped with them.
func removeBeside(tx *gorm.DB, beside store.Beside, months []wholeMonth, lo, hi int64) (int64, error) {
	rows, err := going(tx, lo, hi)
	if err != nil {
		return 0, err
	}
	if err := removeDerived(tx, beside, rows); err != nil {
		return 0, err
	}
	var single []store.EventRow
	for _, r := range rows {
		if !inMonths(months, r.Time) {
			single = append(single, r)
		}
	}
	return int64(len(rows)), removeRecords(tx, single)
}

// removeRecords removes records from their table.
func removeRecords(tx *gorm.DB, rows []store.EventRow) error {
	for len(rows) > 0 {
		n := min(len(rows), readBatch)
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
			return fmt.Errorf("%w: %d of %d records were removed", seal.ErrRewritten, res.RowsAffected, n)
		}
		if res.Error != nil {
			return res.Error
		}
		rows = rows[n:]
	}
	return nil
}

// removeDerived removes what was stored beside records: the texts that were kept with them, what another concern keeps, and what they are found by.
func removeDerived(tx *gorm.DB, beside store.Beside, rows []store.EventRow) error {
	var ids []string
	var events []record.Event
	for _, r := range rows {
		e, err := record.Decode(r.Payload)
		if err != nil {
			return fmt.Errorf("read record %s: %w", r.ID, err)
		}
		ids, events = append(ids, r.ID), append(events, e)
	}
	if beside != nil {
		if err := beside.Drop(tx, ids); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(ids, readBatch) {
		if err := tx.Exec("DELETE FROM audit_contents WHERE record IN ?", part).Error; err != nil {
			return err
		}
	}
	return search.Remove(tx, events)
}
