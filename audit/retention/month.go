package retention

import (
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

// wholeMonth is a partition all of whose records lie below a minimum index, so that it can go as a whole.
type wholeMonth struct {
	table    string
	from, to int64 // times, to is exclusive
}

func inMonths(months []wholeMonth, at int64) bool {
	for _, m := range months {
		if at >= m.from && at < m.to {
			return true
		}
	}
	return false
}

// wholeMonths finds the partitions of past months that hold nothing but records with positions below until, and keeps others from writing
// into them for the length of tx.
func wholeMonths(tx *gorm.DB, until int64) ([]wholeMonth, error) {
	if database.IsSQLite(tx) {
		return nil, nil
	}
	var tables []string
	err := tx.Raw(`SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'audit_events'::regclass AND c.relname ~ '^audit_events_[0-9]{6}$' ORDER BY c.relname`).Scan(&tables).Error
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	var out []wholeMonth
	for _, table := range tables {
		first, err := time.Parse("200601", table[len(table)-6:])
		if err != nil {
			return nil, fmt.Errorf("read partitions: %w", err)
		}
		m := wholeMonth{table, first.UnixMicro(), first.AddDate(0, 1, 0).UnixMicro()}
		whole, err := m.below(tx, until)
		if err != nil {
			return nil, fmt.Errorf("read partition %s: %w", table, err)
		}
		if whole {
			out = append(out, m)
		}
	}
	return out, nil
}

// below says whether every record of the month has a position below until, and then locks it. Most months are answered by one look.
func (m wholeMonth) below(tx *gorm.DB, until int64) (bool, error) {
	above := "SELECT 1 FROM " + m.table + ` AS e LEFT JOIN audit_leaves AS l ON l.writer = e.writer AND l.seq = e.seq WHERE l.idx IS NULL OR l.idx >= ? LIMIT 1`
	for _, locked := range []bool{false, true} {
		if locked {
			if err := tx.Exec("LOCK TABLE ONLY " + m.table + " IN SHARE ROW EXCLUSIVE MODE").Error; err != nil {
				return false, err
			}
		}
		var some, others []int
		if err := tx.Raw("SELECT 1 FROM " + m.table + " LIMIT 1").Scan(&some).Error; err != nil || len(some) == 0 {
			return false, err
		}
		if err := tx.Raw(above, until).Scan(&others).Error; err != nil || len(others) > 0 {
			return false, err
		}
	}
	return true, nil
}

// drop replaces the partition by one of the records that are kept, or by none. It comes last in its transaction: from here on until the
// end readers wait.
func (m wholeMonth) drop(tx *gorm.DB) error {
	old := m.table + "_pruned"
	kept := "FROM " + old + " AS o WHERE EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.id = o.id AND v.proof <> '')"
	for _, statement := range []string{
		"SET LOCAL lock_timeout = '10s'",
		"ALTER TABLE audit_events DETACH PARTITION " + m.table,
		"ALTER TABLE " + m.table + " RENAME TO " + old,
	} {
		if err := tx.Exec(statement).Error; err != nil {
			return fmt.Errorf("drop partition %s: %w", m.table, err)
		}
	}
	var some []int
	if err := tx.Raw("SELECT 1 " + kept + " LIMIT 1").Scan(&some).Error; err != nil {
		return fmt.Errorf("drop partition %s: %w", m.table, err)
	}
	if len(some) > 0 {
		if err := tx.Exec("SELECT audit_partition(?)", m.from).Error; err != nil {
			return fmt.Errorf("drop partition %s: %w", m.table, err)
		}
		if err := tx.Exec("INSERT INTO audit_events SELECT o.* " + kept).Error; err != nil {
			return fmt.Errorf("drop partition %s: %w", m.table, err)
		}
	}
	if err := tx.Exec("DROP TABLE " + old).Error; err != nil {
		return fmt.Errorf("drop partition %s: %w", m.table, err)
	}
	return nil
}
