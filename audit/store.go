package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

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
type Sink func(tx *gorm.DB, events []Event) error

// store is the database side of the log.
type store struct {
	db      *gorm.DB
	sink    Sink
	months  partitions
	subject func(tenant, who string) string // whose a record is
}

// eventRow is a row of audit_events: the payload, and columns copied out of it for searching.
type eventRow struct {
	Writer           string
	Seq              int64
	ID               string
	Request          string
	Stage            string
	Time             int64
	Tenant           string
	Project          string
	ActorKind        string
	Actor            string
	Session          string
	Source           string
	Action           string
	Resource         string
	Model            string
	Routed           string
	Version          string
	Policy           string
	Rollout          string
	Arm              string
	Decision         string
	Outcome          string
	ErrorCode        string
	Status           int64
	PromptTokens     int64
	CompletionTokens int64
	Cost             int64
	FirstToken       int64
	Total            int64
	Payload          []byte
	LeafHash         []byte
	OnBehalfOf       string
	Facet            []byte
}

func (eventRow) TableName() string { return "audit_events" }

type leafRow struct {
	Idx      int64
	Writer   string
	Seq      int64
	LeafHash []byte
	Time     int64 // of the record
}

func (leafRow) TableName() string { return "audit_leaves" }

type hashRow struct {
	Idx  int64
	Hash []byte
}

func (hashRow) TableName() string { return "audit_hashes" }

type checkpointRow struct {
	Size int64
	Note string
}

func (checkpointRow) TableName() string { return "audit_checkpoints" }

type writerRow struct {
	Writer  string
	Shipped int64
	Sealed  int64
}

func (writerRow) TableName() string { return "audit_writers" }

type unbookedRow struct {
	Writer string
	Seq    int64
	Cause  string
}

func (unbookedRow) TableName() string { return "audit_unbooked" }

// arrival is a record on its way into the database.
type arrival struct {
	row      eventRow
	event    Event
	lists    search.Lists
	attached []wal.Attachment
}

// arrive builds what is stored for a payload. It is the only place that copies a payload into columns; Verify compares against it.
func arrive(writer string, seq uint64, payload []byte) (arrival, error) {
	if seq > math.MaxInt64 {
		return arrival{}, fmt.Errorf("sequence %d does not fit the database", seq)
	}
	e, err := record.Decode(payload)
	if err != nil {
		return arrival{}, err
	}
	leaf, lists := tlog.RecordHash(payload), search.ListsOf(e)
	row := eventRow{
		Writer: writer, Seq: int64(seq), ID: database.Text(e.ID), Request: database.Text(e.Request), Stage: database.Text(string(e.Stage)), Time: e.Time,
		Tenant: database.Text(e.Tenant), Project: database.Text(e.Project), ActorKind: database.Text(e.Actor.Kind), Actor: database.Text(e.Actor.ID),
		Session: database.Text(e.Session), Source: database.Text(e.Source), Action: database.Text(e.Action), Resource: database.Text(e.Resource),
		Model: database.Text(e.Model.Asked), Routed: database.Text(e.Model.Routed), Version: database.Text(e.Model.Version), Policy: database.Text(e.Policy),
		Rollout: database.Text(e.Rollout), Arm: database.Text(e.Arm), Decision: database.Text(e.Decision), Outcome: database.Text(e.Outcome),
		ErrorCode: database.Text(e.ErrorCode), Status: int64(e.Status), PromptTokens: e.Usage.PromptTokens,
		CompletionTokens: e.Usage.CompletionTokens, Cost: e.Usage.Cost, FirstToken: e.Latency.FirstToken, Total: e.Latency.Total,
		Payload: payload, LeafHash: leaf[:], OnBehalfOf: database.Text(e.Actor.OnBehalfOf), Facet: lists.Set(),
	}
	return arrival{row: row, event: e, lists: lists}, nil
}

// shipment says what became of records that were stored: unbooked is how many sinks refused for good, erased are the ids of the keys
// that were not stored because their subject was erased.
type shipment struct {
	unbooked int
	erased   []string
}

// ship stores consecutive records of one writer, with what they keep and with their sinks, in one transaction. Records that are there
// already, since an earlier attempt committed without our learning it, are compared and left alone.
func (s *store) ship(ctx context.Context, writer string, frames []wal.Record) (done shipment, err error) {
	arrivals, err := arriveAll(writer, frames)
	if err != nil {
		return shipment{}, fmt.Errorf("ship audit records: %w", err)
	}
	times := make([]int64, len(arrivals))
	for i, a := range arrivals {
		times[i] = a.event.Time
	}
	if err := s.months.ensure(ctx, s.db, times...); err != nil {
		return shipment{}, fmt.Errorf("ship audit records: %w", err)
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		done, err = s.shipIn(tx, writer, arrivals, s.book)
		return err
	})
	if final(err) {
		err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			done, err = s.shipIn(tx, writer, arrivals, s.bookEach)
			return err
		})
	}
	if err != nil {
		s.months.forget() // if one was pruned meanwhile, the next attempt makes it again
		return shipment{}, fmt.Errorf("ship audit records: %w", err)
	}
	return done, nil
}

func arriveAll(writer string, frames []wal.Record) ([]arrival, error) {
	out := make([]arrival, len(frames))
	for i, f := range frames {
		a, err := arrive(writer, f.Seq, f.Payload)
		if err != nil {
			return nil, fmt.Errorf("record %s/%d: %w", writer, f.Seq, err)
		}
		a.attached = f.Attached
		out[i] = a
	}
	return out, nil
}

// final reports a refusal that no retry changes.
func final(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && (f.Kind() == fault.Conflict || f.Kind() == fault.Invalid)
}

// shipIn is one attempt. book calls the sink, and returns how many events it refused for good.
func (s *store) shipIn(tx *gorm.DB, writer string, arrivals []arrival, book func(*gorm.DB, []arrival) (int, error)) (done shipment, err error) {
	if err := hurry(tx); err != nil {
		return done, err
	}
	fresh, err := s.missing(tx, writer, arrivals)
	if err != nil {
		return done, err
	}
	if len(fresh) > 0 {
		rows, records := make([]*eventRow, len(fresh)), make([]*search.Lists, len(fresh))
		for i := range fresh {
			rows[i], records[i] = &fresh[i].row, &fresh[i].lists
		}
		if err := database.Insert(tx, rows, ""); err != nil {
			return done, err
		}
		if err := search.Add(tx, records); err != nil {
			return done, err
		}
	}
	if done.erased, err = keep(tx, fresh); err != nil {
		return done, err
	}
	if s.sink != nil && len(fresh) > 0 {
		if done.unbooked, err = book(tx, fresh); err != nil {
			return done, err
		}
	}
	return done, s.advance(tx, writer, arrivals[len(arrivals)-1].row.Seq)
}

// book gives the sink all events at once.
func (s *store) book(tx *gorm.DB, fresh []arrival) (unbooked int, err error) {
	events := make([]Event, len(fresh))
	for i, a := range fresh {
		events[i] = a.event
	}
	return 0, s.sink(tx, events)
}

// bookEach gives the sink each event by itself, with a savepoint, so that a refusal costs one record its booking and not the batch. That is
// slower, and happens only after a refusal.
func (s *store) bookEach(tx *gorm.DB, fresh []arrival) (unbooked int, err error) {
	for _, a := range fresh {
		err := tx.Transaction(func(tx *gorm.DB) error { return s.sink(tx, []Event{a.event}) })
		if err != nil && !final(err) {
			return 0, err
		}
		if err != nil {
			unbooked++
			row := unbookedRow{Writer: a.row.Writer, Seq: a.row.Seq, Cause: database.Text(string(fault.Public(err).Code()))}
			if err := tx.Create(&row).Error; err != nil {
				return 0, err
			}
		}
	}
	return unbooked, nil
}

// missing returns those of the arrivals that the database does not hold yet.
func (s *store) missing(tx *gorm.DB, writer string, arrivals []arrival) ([]arrival, error) {
	var there []eventRow
	err := tx.Select("seq", "payload").Where("writer = ? AND seq BETWEEN ? AND ?", writer, arrivals[0].row.Seq, arrivals[len(arrivals)-1].row.Seq).
		Find(&there).Error
	if err != nil {
		return nil, err
	}
	pruned, err := prunedUpTo(tx, writer, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if len(there) == 0 && pruned < arrivals[0].row.Seq {
		return arrivals, nil
	}
	have := make(map[int64][]byte, len(there))
	for _, r := range there {
		have[r.Seq] = r.Payload
	}
	var fresh []arrival
	for _, a := range arrivals {
		if old, ok := have[a.row.Seq]; ok {
			if !bytes.Equal(old, a.row.Payload) {
				return nil, fmt.Errorf("record %s/%d: the database holds another payload than the write-ahead log", writer, a.row.Seq)
			}
			continue
		}
		if a.row.Seq <= pruned { // an old copy of a write-ahead log brings it again
			continue
		}
		fresh = append(fresh, a)
	}
	return fresh, nil
}

// advance notes that the writer's records up to seq are in the database.
func (s *store) advance(tx *gorm.DB, writer string, seq int64) error {
	res := tx.Model(&writerRow{}).Where("writer = ?", writer).
		Update("shipped", gorm.Expr("CASE WHEN shipped < ? THEN ? ELSE shipped END", seq, seq))
	if res.Error != nil || res.RowsAffected > 0 {
		return res.Error
	}
	return tx.Create(&writerRow{Writer: writer, Shipped: seq}).Error
}

// sealedUpTo returns, per writer, the last sequence that has a position below size in the tree.
func (s *store) sealedUpTo(ctx context.Context, writers []string, size int64) (map[string]uint64, error) {
	out := make(map[string]uint64, len(writers))
	for _, w := range writers {
		var last int64
		err := s.db.WithContext(ctx).Model(&leafRow{}).Select("COALESCE(MAX(seq), 0)").Where("writer = ? AND idx < ?", w, size).Scan(&last).Error
		if err != nil {
			return nil, fmt.Errorf("read sealed records: %w", err)
		}
		pruned, err := prunedUpTo(s.db.WithContext(ctx), w, size)
		if err != nil {
			return nil, err
		}
		out[w] = uint64(max(last, pruned, 0))
	}
	return out, nil
}
