package search

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// maxPage bounds a page of Search.
const maxPage = 500

// Query selects records. Empty fields select all. Model is the model as asked. From and To are unix microseconds, To exclusive.
type Query struct {
	Tenant, Request, Actor, Action string
	Stage                          record.Stage
	Outcome, Model, Rollout        string
	Project, Source, Session       string
	Version, Policy                string
	Class                          string // of a finding
	OnBehalfOf                     string // what audit.Subject returns for the person
	// Keys are ids of keys of the actor's own: what they did is the actor's, too.
	Keys []string
	// Text is part of the id or name of the actor, of the resource, action, model as asked or routed, error code, rollout, policy or a document
	// (collection/document@version), in any case; or it is the request.
	Text     string
	From, To int64
	Cursor   string // Next of the page before
	Limit    int    // 0 means 50; at most 500
}

// Entry is a stored record: Index is its position in the tree, -1 before it is sealed; LeafHash is the hex RFC 6962 leaf hash.
type Entry struct {
	record.Event
	Index    int64  `json:"index"`
	LeafHash string `json:"leaf_hash"`
}

// Page is one page of records, newest first. Next is "" on the last page.
type Page struct {
	Events []Entry
	Next   string
}

type entryRow struct {
	Time     int64
	ID       string
	Payload  []byte
	LeafHash []byte
	Idx      *int64
}

// Reader reads the records of one database. It is safe for concurrent use. Only the sums of arms write: what is kept of them.
type Reader struct {
	db      *gorm.DB
	subject func(tenant, who string) string
	chunk   int           // armChunk
	pause   time.Duration // armPause
}

// NewReader returns the reader of a database. subject says who stands for a person in records, as audit.Subject does.
func NewReader(db *gorm.DB, subject func(tenant, who string) string) *Reader {
	return &Reader{db: db, subject: subject, chunk: armChunk, pause: armPause}
}

// Search returns a page of the records that match q, newest first, equal times by id.
func (r *Reader) Search(ctx context.Context, q Query) (Page, error) {
	if q.Limit == 0 {
		q.Limit = 50
	}
	if q.Limit < 1 || q.Limit > maxPage {
		return Page{}, fault.New(fault.CodeInvalidValue, "limit", fault.Say("audit.page_size", maxPage)).WithParam("limit")
	}
	f, err := newFinder(q, q.Limit+1)
	if err != nil {
		return Page{}, err
	}
	var places []place
	err = database.Snapshot(ctx, r.db, func(tx *gorm.DB) (err error) {
		places, err = f.find(tx)
		return err
	})
	if err != nil {
		return Page{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	var page Page
	if len(places) > q.Limit {
		places = places[:q.Limit]
		last := places[q.Limit-1]
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.Time, 10) + " " + last.ID))
	}
	rows, err := r.at(ctx, places)
	if err != nil {
		return Page{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	page.Events = make([]Entry, 0, len(rows))
	for _, row := range rows {
		e, err := row.entry()
		if err != nil {
			return Page{}, err
		}
		page.Events = append(page.Events, e)
	}
	return page, nil
}

func (r *Reader) entries(ctx context.Context) *gorm.DB {
	return r.db.WithContext(ctx).Table("audit_events AS e").
		Select("e.time", "e.id", "e.payload", "e.leaf_hash", "l.idx").
		Joins("LEFT JOIN audit_leaves AS l ON l.writer = e.writer AND l.seq = e.seq")
}

// at returns the records at these places, in their order. One that was pruned meanwhile is left out.
func (r *Reader) at(ctx context.Context, places []place) ([]entryRow, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ids := make([]string, len(places))
	for i, p := range places {
		ids[i] = p.ID
	}
	var rows []entryRow
	err := r.entries(ctx).Where("e.id IN ? AND e.time BETWEEN ? AND ?", ids, places[len(places)-1].Time, places[0].Time).Find(&rows).Error
	slices.SortFunc(rows, func(a, b entryRow) int { return newest(place{a.Time, a.ID}, place{b.Time, b.ID}) })
	return rows, err
}

func parseCursor(c string) (int64, string, error) {
	bad := fault.New(fault.CodeInvalidValue, "cursor", fault.Say("audit.page_cursor")).WithParam("cursor")
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return 0, "", bad
	}
	at, id, ok := strings.Cut(string(b), " ")
	t, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || strings.Contains(id, "\x00") {
		return 0, "", bad
	}
	return t, id, nil
}

func (r entryRow) entry() (Entry, error) {
	e, err := record.Decode(r.Payload)
	if err != nil {
		return Entry{}, fmt.Errorf("read audit record %s: %w", r.ID, err)
	}
	out := Entry{Event: e, Index: -1, LeafHash: hex.EncodeToString(r.LeafHash)}
	if r.Idx != nil {
		out.Index = *r.Idx
	}
	return out, nil
}

// Get returns the record called id. It fails with not_found also while the record is still on its way into the database.
func (r *Reader) Get(ctx context.Context, id string) (Entry, error) {
	row, err := r.entry(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	return row.entry()
}

// Payload returns the bytes of the record called id, and its position, -1 before it is sealed. Errors: as of [Reader.Get].
func (r *Reader) Payload(ctx context.Context, id string) (payload []byte, index int64, err error) {
	row, err := r.entry(ctx, id)
	if err != nil || row.Idx == nil {
		return row.Payload, -1, err
	}
	return row.Payload, *row.Idx, nil
}

func (r *Reader) entry(ctx context.Context, id string) (entryRow, error) {
	var rows []entryRow
	if err := r.entries(ctx).Where("e.id = ?", database.Text(id)).Limit(1).Find(&rows).Error; err != nil {
		return entryRow{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	if len(rows) == 0 {
		return entryRow{}, r.notFound(ctx, id)
	}
	return rows[0], nil
}

// idSlack is how far the time in the id of a record and the time it states may lie apart, in microseconds: an outcome states its end.
const idSlack = int64(time.Minute / time.Microsecond)

// notFound is what to say about a record that is not there: it may have been pruned. The ids tell the time, and that tells the archives.
func (r *Reader) notFound(ctx context.Context, id string) error {
	u, err := uuid.Parse(id)
	var names []string
	if err == nil && u.Version() == 7 {
		sec, nsec := u.Time().UnixTime()
		made := time.Unix(sec, nsec).UnixMicro()
		err := r.db.WithContext(ctx).Table("audit_prunings").Where("oldest <= ? AND newest >= ?", made+idSlack, made-idSlack).
			Order("first_index").Limit(3).Pluck("archive", &names).Error
		if err != nil {
			return fault.Wrap(err, fault.CodeDatabaseUnavailable)
		}
	}
	if len(names) == 0 {
		return fault.New(fault.CodeNotFound, fault.Say("thing.audit_record"), id)
	}
	list := strings.Join(names, ", ")
	return fault.New(fault.CodeNotFound, fault.Say("audit.record_pruned", list), id)
}

// Deliveries sums up the answers that have gone out under an agreement. Times are unix microseconds, 0 without one.
type Deliveries struct{ Answers, First, Last int64 }

// deliveriesAtOnce is of how many agreements one statement counts the answers.
const deliveriesAtOnce = 100

// Deliveries returns what has gone out of a tenant without a visible label under agreements, by agreement, from a time until another, which is excluded: answers of
// which anything has left, by the time of their end. One without any is not in it. Records show here once they are shipped, and until they are pruned, see
// [Reader.PrunedUntil].
func (r *Reader) Deliveries(ctx context.Context, tenant string, agreements []string, from, to int64) (map[string]Deliveries, error) {
	out := map[string]Deliveries{}
	for some := range slices.Chunk(agreements, deliveriesAtOnce) {
		terms, of := make([][]byte, len(some)), map[string]string{}
		for i, a := range some {
			terms[i] = term{value(tenant), value(fold(AgreementTerm(a)))}.id()
			of[string(terms[i])] = a
		}
		var rows []struct {
			Term []byte
			Deliveries
		}
		err := r.db.WithContext(ctx).Table("audit_postings AS p").Joins("JOIN audit_facets AS f ON f.id = p.facet").
			Select("p.term, COUNT(*) AS answers, MIN(p.time) AS first, MAX(p.time) AS last").
			Where("p.term IN ? AND p.time >= ? AND p.time < ? AND f.stage = ?", terms, from, to, string(record.StageOutcome)).Group("p.term").Scan(&rows).Error
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
		}
		for _, x := range rows {
			out[of[string(x.Term)]] = x.Deliveries
		}
	}
	return out, nil
}

// PrunedUntil returns the time of the newest record that was pruned, in unix microseconds; 0 if none was. What lists and counts say of times after it is complete.
func (r *Reader) PrunedUntil(ctx context.Context) (newest int64, err error) {
	err = r.db.WithContext(ctx).Raw("SELECT COALESCE(MAX(newest), 0) FROM audit_prunings").Scan(&newest).Error
	if err != nil {
		return 0, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	return newest, nil
}

// ArmStats sums up the outcomes of one arm of a rollout.
type ArmStats struct {
	Requests   int64   // that reached the engine: ok, failed or aborted by the caller; each once, also where it was asked again
	Errors     int64   // failed: the engine's fault, not the caller's refusal
	FirstToken []int64 // microseconds, newest first, of requests that were answered; at most 10,000
	Total      []int64
}

const maxSamples = 10000

// ArmStats returns the outcomes of a rollout since a time in unix microseconds, by arm. Records show here once they are shipped.
func (r *Reader) ArmStats(ctx context.Context, rollout string, since int64) (map[string]ArmStats, error) {
	db := r.db.WithContext(ctx).Table("audit_events").
		Where("rollout = ? AND rollout <> '' AND stage = ? AND time >= ? AND outcome IN ?", database.Text(rollout), string(record.StageOutcome), since, []string{"ok", "failed", "aborted"})
	// A line of a batch is one request, however often it is asked: it has failed where it always has.
	each := db.Session(&gorm.Session{}).Select("arm", "request", "MIN(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failed").Group("arm, request")
	var counts []struct {
		Arm              string
		Requests, Errors int64
	}
	err := r.db.WithContext(ctx).Table("(?) AS each_request", each).Select("arm", "COUNT(*) AS requests", "SUM(failed) AS errors").Group("arm").Find(&counts).Error
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	out := map[string]ArmStats{}
	for _, c := range counts {
		out[c.Arm] = ArmStats{Requests: c.Requests, Errors: c.Errors}
	}
	for arm, s := range out {
		var rows []struct{ FirstToken, Total int64 }
		err := db.Session(&gorm.Session{}).Select("first_token", "total").Where("arm = ? AND outcome = ?", arm, "ok").
			Order("time DESC").Limit(maxSamples).Find(&rows).Error
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
		}
		for _, row := range rows {
			if row.FirstToken > 0 { // a request without tokens, such as an embedding, has none
				s.FirstToken = append(s.FirstToken, row.FirstToken)
			}
			s.Total = append(s.Total, row.Total)
		}
		out[arm] = s
	}
	return out, nil
}
