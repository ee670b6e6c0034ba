package wrapkey

import (
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
)

// Kind is one sort of rows with something wrapped.
type Kind interface {
	// Name is a word for people and programs.
	Name() string
	// Count returns how many rows of epochs from first to last there are.
	Count(db *gorm.DB, first, last int64) (int64, error)
	// Renew re-wraps the next rows behind the id after, in the order of ids, that are of an epoch below, in the transaction tx. It changes rows that
	// are there and adds none.
	Renew(tx *gorm.DB, after string, below int64) (Renewal, error)
}

// Renewal is what one step did.
type Renewal struct {
	Last       string // id of the last row that was looked at; "" at the end
	Done       int64  // rows re-wrapped
	Unreadable int64  // rows that did not open, and stay
}

// Table is a [Kind]: rows of one table that R maps.
type Table[R any] struct {
	Kind    string
	Keys    *Keys
	Table   string   // with the columns id, suite and epoch
	Sealed  string   // the column of what is wrapped
	Columns []string // to read: these four, and what Label needs
	Label   func(R) []byte
	// Row returns the id and the envelope of a row.
	Row   func(R) (id string, e Envelope)
	Limit int // rows of a transaction
}

// Name implements Kind.
func (t Table[R]) Name() string { return t.Kind }

// wrapped leaves out rows of releases that did not encrypt them.
func (t Table[R]) wrapped(db *gorm.DB) *gorm.DB { return db.Table(t.Table).Where("suite <> ''") }

// Count implements Kind.
func (t Table[R]) Count(db *gorm.DB, first, last int64) (n int64, err error) {
	if err := t.wrapped(db).Where("epoch BETWEEN ? AND ?", first, last).Count(&n).Error; err != nil {
		return 0, fmt.Errorf("count %s: %w", t.Kind, err)
	}
	return n, nil
}

// Renew implements Kind. It passes over rows that somebody else holds: they are still there in the next round.
func (t Table[R]) Renew(tx *gorm.DB, after string, below int64) (out Renewal, err error) {
	if database.IsSQLite(tx) { // what is replaced is overwritten, as an erasure promises
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return out, err
		}
	}
	active, err := t.Keys.Active(tx)
	if err != nil {
		return out, err
	}
	var rows []R
	err = t.wrapped(tx).Select(t.Columns).Where("epoch < ? AND id > ?", below, after).Order("id").Limit(t.Limit).
		Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate, Options: clause.LockingOptionsSkipLocked}).Find(&rows).Error
	if err != nil {
		return out, fmt.Errorf("read %s: %w", t.Kind, err)
	}
	for _, r := range rows {
		id, old := t.Row(r)
		if len(rows) == t.Limit {
			out.Last = id
		}
		e, err := active.Renew(old, t.Label(r))
		if unreadable(err) {
			out.Unreadable++
			continue
		}
		if err != nil {
			return out, fmt.Errorf("wrap %s %s anew: %w", t.Kind, id, err)
		}
		res := tx.Table(t.Table).Where("id = ? AND epoch = ?", id, old.Epoch).Where(t.Sealed+" = ?", old.Sealed).
			Updates(map[string]any{"epoch": e.Epoch, t.Sealed: e.Sealed})
		if res.Error != nil {
			return out, fmt.Errorf("wrap %s %s anew: %w", t.Kind, id, res.Error)
		}
		out.Done += res.RowsAffected
	}
	return out, nil
}
