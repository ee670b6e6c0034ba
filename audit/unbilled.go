package audit

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/fault"
)

// Unsealed counts the records in the database that wait for their position in the tree.
func (l *Log) Unsealed(ctx context.Context) (int64, error) {
	var n int64
	err := l.store.DB.WithContext(ctx).Model(&store.WriterRow{}).Select("CAST(COALESCE(SUM(shipped - sealed), 0) AS BIGINT)").Scan(&n).Error
	if err != nil {
		return 0, fault.Wrap(fmt.Errorf("count unsealed records: %w", err), fault.CodeDatabaseUnavailable)
	}
	return n, nil
}

// Unbilled is a record that is stored while the [Sink] refused what belongs to it.
type Unbilled struct {
	Writer string
	Seq    int64
	Cause  string // the code of the refusal
	Event  Event
}

type unbilledRecord struct {
	Writer  string
	Seq     int64
	Cause   string
	ID      string
	Payload []byte
}

// Unbilled returns up to limit records whose billing was refused, behind the given one.
func (l *Log) Unbilled(ctx context.Context, after Unbilled, limit int) ([]Unbilled, error) {
	var rows []unbilledRecord
	err := l.store.DB.WithContext(ctx).Table("audit_unbooked AS u").Select("u.writer", "u.seq", "u.cause", "e.id", "e.payload").
		Joins("JOIN audit_events AS e ON e.writer = u.writer AND e.seq = u.seq").
		Where("u.writer > ? OR u.writer = ? AND u.seq > ?", after.Writer, after.Writer, after.Seq).Order("u.writer, u.seq").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read unbilled records: %w", err)
	}
	out := make([]Unbilled, 0, len(rows))
	for _, r := range rows {
		e, err := record.Decode(r.Payload)
		if err != nil {
			return nil, fmt.Errorf("read audit record %s: %w", r.ID, err)
		}
		out = append(out, Unbilled{Writer: r.Writer, Seq: r.Seq, Cause: r.Cause, Event: e})
	}
	return out, nil
}

// Bill offers an unbilled record to the [Sink] again. When the Sink takes it, the record is unbilled no more, in one transaction with what
// the Sink and also write. It reports false, having changed nothing, if the record was billed meanwhile.
func (l *Log) Bill(ctx context.Context, u Unbilled, also func(tx *gorm.DB) error) (billed bool, err error) {
	err = l.store.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		res := tx.Where("writer = ? AND seq = ?", u.Writer, u.Seq).Delete(&store.UnbookedRow{})
		if res.Error != nil || res.RowsAffected == 0 {
			return res.Error
		}
		billed = true
		if err := l.store.Sink(tx, []Event{u.Event}); err != nil {
			return err
		}
		return also(tx)
	})
	if err != nil {
		return false, fmt.Errorf("bill record %s: %w", u.Event.ID, err)
	}
	return billed, nil
}
