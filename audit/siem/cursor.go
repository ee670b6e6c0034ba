package siem

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
)

// cursorRow is a row of audit_siem. Times are unix microseconds.
type cursorRow struct {
	Name        string
	Next        int64
	Skipped     int64
	Confirmed   int64
	FailedSince int64
	Failure     string
}

// TableName implements gorm's Tabler.
func (cursorRow) TableName() string { return "audit_siem" }

func columns() []string {
	return []string{"name", "next", "skipped", "confirmed", "failed_since", "failure"}
}

// State says how a destination is doing, whichever replica sends.
type State struct {
	Name, Address, Format string

	Next        int64     // place in the log of the first record that is not confirmed
	Behind      int64     // records that are sealed and not confirmed
	Oldest      time.Time // when the first of them was written; zero: none waits
	Skipped     int64     // records that were removed before they could be sent
	Confirmed   time.Time // when the newest batch was; zero: none yet
	FailedSince time.Time // zero: the newest attempt did not fail
	Failure     string
}

// States returns how the destinations are doing, from the database alone. One that nothing was sent to yet counts from where it will begin.
func States(ctx context.Context, db *gorm.DB, destinations []Config) ([]State, error) {
	out := make([]State, len(destinations))
	for i, c := range destinations {
		var err error
		if out[i], err = stateOf(db.WithContext(ctx), c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func stateOf(db *gorm.DB, c Config) (State, error) {
	out := State{Name: c.Name, Address: c.Address, Format: c.Format}
	if out.Format == "" {
		out.Format = formatOCSF
	}
	err := database.Snapshot(db.Statement.Context, db, func(tx *gorm.DB) error {
		var rows []cursorRow
		if err := tx.Select(columns()).Where("name = ?", c.Name).Find(&rows).Error; err != nil {
			return err
		}
		size, err := size(tx)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			out.Next, err = begin(tx, c, size)
		} else {
			r := rows[0]
			out.Next, out.Skipped, out.Failure = r.Next, r.Skipped, r.Failure
			out.Confirmed, out.FailedSince = moment(r.Confirmed), moment(r.FailedSince)
		}
		if err != nil {
			return err
		}
		var times []int64
		err = tx.Table("audit_leaves").Where("idx >= ?", out.Next).Order("idx").Limit(1).Pluck("time", &times).Error
		if len(times) > 0 {
			out.Oldest = moment(times[0])
		}
		out.Behind = max(0, size-out.Next)
		return err
	})
	if err != nil {
		return State{}, fmt.Errorf("read how far security monitoring has come: %w", err)
	}
	return out, nil
}

func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// size returns the place behind the last record that is sealed.
func size(tx *gorm.DB) (n int64, err error) {
	err = tx.Raw("SELECT COALESCE(MAX(idx) + 1, 0) FROM audit_leaves").Scan(&n).Error
	return n, err
}

// begin returns where a new destination begins.
func begin(tx *gorm.DB, c Config, size int64) (int64, error) {
	if !c.History {
		return size, nil
	}
	return store.Least(tx)
}

// cursor returns the place of the first record that the destination has not confirmed. A new one gets a row, so that from now on nothing is
// left out.
func (d *destination) cursor(ctx context.Context) (next int64, err error) {
	err = d.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var rows []cursorRow
		if err := tx.Select(columns()).Where("name = ?", d.cfg.Name).Find(&rows).Error; err != nil {
			return err
		}
		if len(rows) > 0 {
			next = rows[0].Next
			return nil
		}
		at, err := size(tx)
		if err == nil {
			at, err = begin(tx, d.cfg, at)
		}
		if err != nil {
			return err
		}
		next = at
		return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&cursorRow{Name: d.cfg.Name, Next: at}).Error
	})
	if err != nil {
		return 0, fmt.Errorf("read the cursor: %w", err)
	}
	return next, nil
}

// read returns the next records that are sealed, and the place behind the last of them. Places whose record was removed are passed over.
func (d *destination) read(ctx context.Context, from int64, most int) (batch []sealed, next int64, err error) {
	var rows []struct {
		Idx     int64
		Payload []byte
	}
	err = d.db.WithContext(ctx).Table("audit_leaves AS l").Select("l.idx AS idx, e.payload AS payload").
		Joins("LEFT JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq AND e.time = l.time").
		Where("l.idx >= ?", from).Order("l.idx").Limit(most).Find(&rows).Error
	if err != nil {
		return nil, 0, fmt.Errorf("read records: %w", err)
	}
	next = from
	for _, r := range rows {
		next = r.Idx + 1
		if r.Payload == nil {
			continue
		}
		e, err := record.Decode(r.Payload)
		if err != nil {
			return nil, 0, fmt.Errorf("read record %d: %w", r.Idx, err)
		}
		batch = append(batch, sealed{r.Idx, e})
	}
	return batch, next, nil
}

// advance moves the cursor, unless another replica has. That sent the same, so nothing is lost.
func (d *destination) advance(ctx context.Context, from, next, skipped int64) error {
	err := d.db.WithContext(ctx).Exec("UPDATE audit_siem SET next = ?, skipped = skipped + ?, confirmed = ?, failed_since = 0, failure = '' WHERE name = ? AND next = ?",
		next, skipped, time.Now().UnixMicro(), d.cfg.Name, from).Error
	if err != nil {
		return fmt.Errorf("move the cursor: %w", err)
	}
	return nil
}

// note keeps why sending fails, and since when.
func (d *destination) note(ctx context.Context, cause error) error {
	err := d.db.WithContext(ctx).Exec("UPDATE audit_siem SET failure = ?, failed_since = CASE WHEN failed_since = 0 THEN CAST(? AS BIGINT) ELSE failed_since END WHERE name = ?",
		cut(database.Text(cause.Error()), 300), time.Now().UnixMicro(), d.cfg.Name).Error
	if err != nil {
		return fmt.Errorf("note the failure: %w", err)
	}
	return nil
}
