package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Sink writes what belongs to events, such as their usage rows, in the transaction that stores the events: exactly once per event.
// An error of kind Conflict or Invalid is final: what was written is rolled back and the events come again one by one, and the one that is
// refused then is stored, and listed as unbooked for reconciliation. Any other error rolls the transaction back and is tried again. A Sink
// must not use another connection.
type Sink func(tx *gorm.DB, events []record.Event) error

// Rollup sums up events in the transaction that stores them: each stored event once, in any order, also those that a [Sink] refuses. Any error rolls the
// transaction back, which is tried again until it succeeds, so what no retry mends must not be one. A Rollup must not use another connection.
type Rollup func(tx *gorm.DB, events []record.Event) error

// Store is the database side of the log.
type Store struct {
	DB     *gorm.DB
	Sink   Sink
	Wrap   func(tx *gorm.DB, keys []content.Key) error // wraps data keys for the database; nil keeps them as they come
	Beside Beside                                      // keeps marks; nil for a log without any
	Rollup Rollup                                      // nil: nothing is summed up
	Months Partitions
}

// Shipment says what became of records that were stored: unbooked is how many sinks refused for good, erased are the ids of the keys
// that were not stored because their subject was erased.
type Shipment struct {
	Unbooked int
	Erased   []string
}

// Ship stores consecutive records of one writer, with what they keep and with their sinks, in one transaction. Records that are there
// already, since an earlier attempt committed without our learning it, are compared and left alone.
func (s *Store) Ship(ctx context.Context, writer string, frames []wal.Record) (done Shipment, err error) {
	arrived, err := arriveAll(writer, frames)
	if err != nil {
		return Shipment{}, fmt.Errorf("ship audit records: %w", err)
	}
	times := make([]int64, len(frames))
	for i := range arrived.events {
		times[i] = arrived.events[i].Time
	}
	if err := s.Months.Ensure(ctx, s.DB, times...); err != nil {
		return Shipment{}, fmt.Errorf("ship audit records: %w", err)
	}
	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		done, err = s.shipIn(tx, writer, arrived, s.book)
		return err
	})
	if final(err) {
		err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			done, err = s.shipIn(tx, writer, arrived, s.billEach)
			return err
		})
	}
	if err != nil {
		s.Months.Forget() // if one was pruned meanwhile, the next attempt makes it again
		return Shipment{}, fmt.Errorf("ship audit records: %w", err)
	}
	return done, nil
}

// batch are records that are stored together, and their events, in the same order. Both are large, so nothing copies them.
type batch struct {
	arrivals []Arrival
	events   []record.Event
}

func arriveAll(writer string, frames []wal.Record) (batch, error) {
	out := batch{make([]Arrival, len(frames)), make([]record.Event, len(frames))}
	for i, f := range frames {
		a := &out.arrivals[i]
		a.Event, a.Attached = &out.events[i], f.Attached
		if err := a.read(writer, f.Seq, f.Payload); err != nil {
			return batch{}, fmt.Errorf("record %s/%d: %w", writer, f.Seq, err)
		}
	}
	return out, nil
}

// final reports a refusal that no retry changes.
func final(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && (f.Kind() == fault.Conflict || f.Kind() == fault.Invalid)
}

// shipIn is one attempt. book calls the sink, and returns how many events it refused for good.
func (s *Store) shipIn(tx *gorm.DB, writer string, arrived batch, book func(*gorm.DB, batch) (int, error)) (done Shipment, err error) {
	if err := database.SetIdleTimeout(tx, LeaseFor); err != nil {
		return done, err
	}
	fresh, err := s.missing(tx, writer, arrived)
	if err != nil {
		return done, err
	}
	if len(fresh.arrivals) > 0 {
		rows, records := make([]*EventRow, len(fresh.arrivals)), make([]*search.Lists, len(fresh.arrivals))
		for i := range fresh.arrivals {
			rows[i], records[i] = &fresh.arrivals[i].Row, &fresh.arrivals[i].Lists
		}
		if err := database.Insert(tx, rows, ""); err != nil {
			return done, err
		}
		if err := search.Add(tx, records); err != nil {
			return done, err
		}
	}
	if done.Erased, err = s.keep(tx, fresh.arrivals); err != nil {
		return done, err
	}
	if err := s.keepMarks(tx, fresh.arrivals); err != nil {
		return done, err
	}
	if s.Sink != nil && len(fresh.events) > 0 {
		if done.Unbooked, err = book(tx, fresh); err != nil {
			return done, err
		}
	}
	// Last: whoever counts in the same hours waits for the rest of the transaction.
	if s.Rollup != nil && len(fresh.events) > 0 {
		if err := s.Rollup(tx, fresh.events); err != nil {
			return done, err
		}
	}
	return done, s.advance(tx, writer, arrived.arrivals[len(arrived.arrivals)-1].Row.Seq)
}

// book gives the sink all events at once.
func (s *Store) book(tx *gorm.DB, fresh batch) (unbooked int, err error) {
	return 0, s.Sink(tx, fresh.events)
}

// billEach gives the sink each event by itself, with a savepoint, so that a refusal costs one record its billing and not the batch. That is
// slower, and happens only after a refusal.
func (s *Store) billEach(tx *gorm.DB, fresh batch) (unbooked int, err error) {
	for i := range fresh.arrivals {
		a := &fresh.arrivals[i]
		err := tx.Transaction(func(tx *gorm.DB) error { return s.Sink(tx, fresh.events[i:i+1:i+1]) })
		if err != nil && !final(err) {
			return 0, err
		}
		if err != nil {
			unbooked++
			row := UnbookedRow{Writer: a.Row.Writer, Seq: a.Row.Seq, Cause: database.Text(string(fault.Public(err).Code()))}
			if err := tx.Create(&row).Error; err != nil {
				return 0, err
			}
		}
	}
	return unbooked, nil
}

// missing returns those of the arrivals that the database does not hold yet.
func (s *Store) missing(tx *gorm.DB, writer string, arrived batch) (fresh batch, err error) {
	arrivals := arrived.arrivals
	var there []EventRow
	err = tx.Select("seq", "payload").Where("writer = ? AND seq BETWEEN ? AND ?", writer, arrivals[0].Row.Seq, arrivals[len(arrivals)-1].Row.Seq).
		Find(&there).Error
	if err != nil {
		return batch{}, err
	}
	pruned, err := PrunedUpTo(tx, writer, math.MaxInt64)
	if err != nil {
		return batch{}, err
	}
	if len(there) == 0 && pruned < arrivals[0].Row.Seq {
		return arrived, nil
	}
	have := make(map[int64][]byte, len(there))
	for _, r := range there {
		have[r.Seq] = r.Payload
	}
	for _, a := range arrivals {
		if old, ok := have[a.Row.Seq]; ok {
			if !bytes.Equal(old, a.Row.Payload) {
				return batch{}, fmt.Errorf("record %s/%d: the database holds another payload than the write-ahead log", writer, a.Row.Seq)
			}
			continue
		}
		if a.Row.Seq <= pruned { // an old copy of a write-ahead log brings it again
			continue
		}
		fresh.arrivals, fresh.events = append(fresh.arrivals, a), append(fresh.events, *a.Event)
	}
	return fresh, nil
}

// advance notes that the writer's records up to seq are in the database.
func (s *Store) advance(tx *gorm.DB, writer string, seq int64) error {
	res := tx.Model(&WriterRow{}).Where("writer = ?", writer).
		Update("shipped", gorm.Expr("CASE WHEN shipped < ? THEN ? ELSE shipped END", seq, seq))
	if res.Error != nil || res.RowsAffected > 0 {
		return res.Error
	}
	return tx.Create(&WriterRow{Writer: writer, Shipped: seq}).Error
}
