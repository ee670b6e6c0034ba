package audit

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	Stage                          Stage
	Outcome, Model, Rollout        string
	Project, Source, Session       string
	Version, Policy                string
	Class                          string // of a finding
	OnBehalfOf                     string // what [Subject] returns for the person
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
	Event
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

// Search returns a page of the records that match q, newest first, equal times by id.
func (l *Log) Search(ctx context.Context, q Query) (Page, error) {
	if q.Limit == 0 {
		q.Limit = 50
	}
	if q.Limit < 1 || q.Limit > maxPage {
		return Page{}, fault.New(fault.CodeInvalidValue, "limit", fault.Say("use 1 to %d", "须为 1 至 %d", maxPage)).WithParam("limit")
	}
	f, err := newFinder(q, q.Limit+1)
	if err != nil {
		return Page{}, err
	}
	var places []place
	err = database.Snapshot(ctx, l.store.db, func(tx *gorm.DB) (err error) {
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
	rows, err := l.store.at(ctx, places)
	if err != nil {
		return Page{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	page.Events = make([]Entry, 0, len(rows))
	for _, r := range rows {
		e, err := r.entry()
		if err != nil {
			return Page{}, err
		}
		page.Events = append(page.Events, e)
	}
	return page, nil
}

func (s *store) entries(ctx context.Context) *gorm.DB {
	return s.db.WithContext(ctx).Table("audit_events AS e").
		Select("e.time", "e.id", "e.payload", "e.leaf_hash", "l.idx").
		Joins("LEFT JOIN audit_leaves AS l ON l.writer = e.writer AND l.seq = e.seq")
}

// at returns the records at these places, in their order. One that was pruned meanwhile is left out.
func (s *store) at(ctx context.Context, places []place) ([]entryRow, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ids := make([]string, len(places))
	for i, p := range places {
		ids[i] = p.ID
	}
	var rows []entryRow
	err := s.entries(ctx).Where("e.id IN ? AND e.time BETWEEN ? AND ?", ids, places[len(places)-1].Time, places[0].Time).Find(&rows).Error
	slices.SortFunc(rows, func(a, b entryRow) int { return newest(place{a.Time, a.ID}, place{b.Time, b.ID}) })
	return rows, err
}

func parseCursor(c string) (int64, string, error) {
	bad := fault.New(fault.CodeInvalidValue, "cursor", fault.Say("use the value of the page before", "请使用上一页返回的值")).WithParam("cursor")
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
func (l *Log) Get(ctx context.Context, id string) (Entry, error) {
	r, err := l.store.entry(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	return r.entry()
}

func (s *store) entry(ctx context.Context, id string) (entryRow, error) {
	var rows []entryRow
	if err := s.entries(ctx).Where("e.id = ?", column(id)).Limit(1).Find(&rows).Error; err != nil {
		return entryRow{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	if len(rows) == 0 {
		return entryRow{}, s.whereGone(ctx, id)
	}
	return rows[0], nil
}

// ArmStats sums up the outcomes of one arm of a rollout.
type ArmStats struct {
	Requests   int64   // that reached the engine: ok, failed or aborted by the caller
	Errors     int64   // failed: the engine's fault, not the caller's refusal
	FirstToken []int64 // microseconds, newest first, of requests that were answered; at most 10,000
	Total      []int64
}

const maxSamples = 10000

// ArmStats returns the outcomes of a rollout since a time in unix microseconds, by arm. Records show here once they are shipped.
func (l *Log) ArmStats(ctx context.Context, rollout string, since int64) (map[string]ArmStats, error) {
	db := l.store.db.WithContext(ctx).Model(&eventRow{}).
		Where("rollout = ? AND rollout <> '' AND stage = ? AND time >= ? AND outcome IN ?", column(rollout), string(StageOutcome), since, []string{"ok", "failed", "aborted"})
	var counts []struct {
		Arm, Outcome string
		N            int64
	}
	err := db.Session(&gorm.Session{}).Select("arm", "outcome", "COUNT(*) AS n").Group("arm, outcome").Find(&counts).Error
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	out := map[string]ArmStats{}
	for _, c := range counts {
		s := out[c.Arm]
		s.Requests += c.N
		if c.Outcome == "failed" {
			s.Errors += c.N
		}
		out[c.Arm] = s
	}
	for arm, s := range out {
		var rows []eventRow
		err := db.Session(&gorm.Session{}).Select("first_token", "total").Where("arm = ? AND outcome = ?", arm, "ok").
			Order("time DESC").Limit(maxSamples).Find(&rows).Error
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
		}
		for _, r := range rows {
			if r.FirstToken > 0 { // a request without tokens, such as an embedding, has none
				s.FirstToken = append(s.FirstToken, r.FirstToken)
			}
			s.Total = append(s.Total, r.Total)
		}
		out[arm] = s
	}
	return out, nil
}
