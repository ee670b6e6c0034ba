package store

import (
	"fmt"
	"math"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/database"
)

// EventRow is a row of audit_events: the payload, and columns copied out of it for searching.
type EventRow struct {
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

// TableName implements gorm's Tabler.
func (EventRow) TableName() string { return "audit_events" }

// WriterRow is a row of audit_writers: how far a run of a replica has been shipped and sealed.
type WriterRow struct {
	Writer  string
	Shipped int64
	Sealed  int64
}

// TableName implements gorm's Tabler.
func (WriterRow) TableName() string { return "audit_writers" }

// UnbookedRow is a row of audit_unbooked: a record whose usage could not be billed.
type UnbookedRow struct {
	Writer string
	Seq    int64
	Cause  string
}

// TableName implements gorm's Tabler.
func (UnbookedRow) TableName() string { return "audit_unbooked" }

// Arrival is a record on its way into the database.
type Arrival struct {
	Row      EventRow
	Event    *record.Event
	Lists    search.Lists
	Attached []wal.Attachment
}

// Arrive builds what is stored for a payload.
func Arrive(writer string, seq uint64, payload []byte) (Arrival, error) {
	a := Arrival{Event: new(record.Event)}
	return a, a.read(writer, seq, payload)
}

// read makes a, and its event, what is stored for a payload. It is the only place that copies a payload into columns; Verify compares against it.
func (a *Arrival) read(writer string, seq uint64, payload []byte) (err error) {
	if seq > math.MaxInt64 {
		return fmt.Errorf("sequence %d does not fit the database", seq)
	}
	e := a.Event
	if *e, err = record.Decode(payload); err != nil {
		return err
	}
	leaf := tlog.RecordHash(payload)
	a.Lists = search.ListsOf(e)
	a.Row = EventRow{
		Writer: writer, Seq: int64(seq), ID: database.Text(e.ID), Request: database.Text(e.Request), Stage: database.Text(string(e.Stage)), Time: e.Time,
		Tenant: database.Text(e.Tenant), Project: database.Text(e.Project), ActorKind: database.Text(e.Actor.Kind), Actor: database.Text(e.Actor.ID),
		Session: database.Text(e.Session), Source: database.Text(e.Source), Action: database.Text(e.Action), Resource: database.Text(e.Resource),
		Model: database.Text(e.Model.Asked), Routed: database.Text(e.Model.Routed), Version: database.Text(e.Model.Version), Policy: database.Text(e.Policy),
		Rollout: database.Text(e.Rollout), Arm: database.Text(e.Arm), Decision: database.Text(e.Decision), Outcome: database.Text(e.Outcome),
		ErrorCode: database.Text(e.ErrorCode), Status: int64(e.Status), PromptTokens: e.Usage.PromptTokens,
		CompletionTokens: e.Usage.CompletionTokens, Cost: e.Usage.Cost, FirstToken: e.Latency.FirstToken, Total: e.Latency.Total,
		Payload: payload, LeafHash: leaf[:], OnBehalfOf: database.Text(e.Actor.OnBehalfOf), Facet: a.Lists.Set(),
	}
	return nil
}

// Columns lists the columns of audit_events in the order of eventRow's fields.
func Columns() []string {
	return []string{
		"writer", "seq", "id", "request", "stage", "time", "tenant", "project", "actor_kind", "actor", "session", "source", "action",
		"resource", "model", "routed", "version", "policy", "rollout", "arm", "decision", "outcome", "error_code", "status",
		"prompt_tokens", "completion_tokens", "cost", "first_token", "total", "payload", "leaf_hash",
		"on_behalf_of", "facet",
	}
}

// SelectColumns lists the columns as a query that joins tables selects them.
func SelectColumns(table string) string {
	names := Columns()
	for i, n := range names {
		names[i] = table + "." + n + " AS " + n
	}
	return strings.Join(names, ", ")
}

// RecordRow is a position in the tree joined with the record that should be there; its columns are nil if it is gone.
type RecordRow struct {
	Idx          int64
	LeafWriter   string
	LeafSeq      int64
	PositionHash []byte
	PositionTime int64
	Found        *int64
	Event        EventRow `gorm:"embedded"`
}
