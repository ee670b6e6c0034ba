package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/price"
)

const (
	pageSize = 500 // rows that a statement returns at once
	leaseFor = 2 * time.Minute
)

// store is the database side. Its statements join the tables of two concerns, audit and billing, which no other package may.
type store struct{ db *gorm.DB }

// oneComparing is the lease of the replica or command that compares.
func oneComparing() audit.Lease {
	return audit.Lease{Name: "reconcile", For: leaseFor, Taken: ErrRunning}
}

// lease takes or prolongs the lease.
func (s store) lease(ctx context.Context, holder string, now time.Time) error {
	return oneComparing().Take(s.db.WithContext(ctx), holder, now)
}

func (s store) release(ctx context.Context, holder string) error {
	return oneComparing().Release(s.db.WithContext(ctx), holder)
}

func (s store) leased(ctx context.Context, now time.Time) (bool, error) {
	return oneComparing().Held(s.db.WithContext(ctx), now)
}

// progressRow is how far the comparison got.
type progressRow struct {
	Name      string
	Positions int64
	Started   int64
	Finished  int64
	Hours     int64
	Repaired  int64
}

func (progressRow) TableName() string { return "audit_reconciliation" }

func (s store) progress(ctx context.Context) (progressRow, error) {
	var p progressRow
	err := s.db.WithContext(ctx).Select("name", "positions", "started", "finished", "hours", "repaired").Where("name = ?", "last").Take(&p).Error
	return p, err
}

func (s store) saveProgress(ctx context.Context, p progressRow) error {
	return s.db.WithContext(ctx).Model(&progressRow{}).Where("name = ?", "last").
		Updates(map[string]any{"positions": p.Positions, "started": p.Started, "finished": p.Finished, "hours": p.Hours, "repaired": p.Repaired}).Error
}

// size returns how many records have a position in the tree.
func (s store) size(ctx context.Context) (n int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT COALESCE(MAX(idx), -1) + 1 FROM audit_leaves").Scan(&n).Error
	return n, err
}

// hoursAt returns the hours, since 1970, of the records at the positions [from, to).
func (s store) hoursAt(ctx context.Context, from, to int64) (hours []int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT DISTINCT time / ? FROM audit_leaves WHERE idx >= ? AND idx < ? AND time > 0", hour, from, to).Scan(&hours).Error
	return hours, err
}

// pruned returns the times of the requests whose records were pruned.
func (s store) pruned(ctx context.Context) ([]span, error) {
	var rows []struct{ Oldest, Newest int64 }
	err := s.db.WithContext(ctx).Raw("SELECT oldest, newest FROM audit_prunings").Scan(&rows).Error
	out := make([]span, 0, len(rows))
	for _, r := range rows {
		out = append(out, span{r.Oldest - pairWindow, r.Newest + 1})
	}
	return out, err
}

// span is a range of time [from, to), in unix microseconds.
type span struct{ from, to int64 }

func (w span) has(at int64) bool { return at >= w.from && at < w.to }

// unpairedRow is a record without a record of the other stage.
type unpairedRow struct {
	ID, Request, Tenant, Writer, Action string
	Time                                int64
}

// unpaired returns a page, behind the given record, of the records of a stage in a span whose request has no record of the other stage within
// pairWindow. The window spares the databases the rest of the log; the caller looks up the few requests that remain with [store.having].
func (s store) unpaired(ctx context.Context, w span, after unpairedRow, stage, other audit.Stage) ([]unpairedRow, error) {
	outcome := ""
	if stage == audit.StageOutcome { // a refusal is complete in itself
		outcome = "a.outcome = 'ok' AND "
	}
	var found []unpairedRow
	err := s.db.WithContext(ctx).Raw(`SELECT a.id, a.request, a.tenant, a.writer, a.action, a.time FROM audit_events AS a
		WHERE a.stage = ? AND a.time >= ? AND a.time < ? AND `+outcome+`(a.time > ? OR a.time = ? AND a.id > ?) AND NOT EXISTS (
			SELECT 1 FROM audit_events AS o WHERE o.request = a.request AND o.stage = ? AND o.time >= ? AND o.time < ?)
		ORDER BY a.time, a.id LIMIT ?`, string(stage), w.from, w.to, after.Time, after.Time, after.ID, string(other), w.from-pairWindow, w.to+pairWindow, pageSize).
		Scan(&found).Error
	return found, err
}

// having returns which of the requests have a record of the stage.
func (s store) having(ctx context.Context, requests []string, stage audit.Stage) (map[string]bool, error) {
	var found []string
	err := s.db.WithContext(ctx).Raw("SELECT request FROM audit_events WHERE request IN ? AND stage = ?", requests, string(stage)).Scan(&found).Error
	out := make(map[string]bool, len(found))
	for _, r := range found {
		out[r] = true
	}
	return out, err
}

// sumRow is what an hour of a tenant sums up to in the books and in the records of the same requests.
type sumRow struct {
	Hour                                                       int64
	Tenant                                                     string
	Requests, Prompt, Completion, Cost                         int64
	Recorded, RecordedPrompt, RecordedCompletion, RecordedCost int64
}

// sums compares the books of a span of whole hours with the records of the same requests. It returns the hours and tenants that differ. If a
// request has two outcomes, because a device failed after it had written the first, one counts.
func (s store) sums(ctx context.Context, w span) ([]sumRow, error) {
	var rows []sumRow
	err := s.db.WithContext(ctx).Raw(`SELECT * FROM (
		SELECT u.at / ? AS hour, u.tenant AS tenant, COUNT(*) AS requests, CAST(SUM(u.prompt_tokens) AS BIGINT) AS prompt,
			CAST(SUM(u.completion_tokens) AS BIGINT) AS completion, CAST(SUM(u.cost) AS BIGINT) AS cost, COUNT(e.request) AS recorded,
			CAST(COALESCE(SUM(e.prompt), 0) AS BIGINT) AS recorded_prompt, CAST(COALESCE(SUM(e.completion), 0) AS BIGINT) AS recorded_completion,
			CAST(COALESCE(SUM(e.cost), 0) AS BIGINT) AS recorded_cost
		FROM billing_usage AS u LEFT JOIN (
			SELECT request, tenant, MAX(CASE WHEN prompt_tokens < 0 THEN 0 WHEN prompt_tokens > ? THEN ? ELSE prompt_tokens END) AS prompt,
				MAX(CASE WHEN completion_tokens < 0 THEN 0 WHEN completion_tokens > ? THEN ? ELSE completion_tokens END) AS completion, MAX(cost) AS cost
			FROM audit_events WHERE stage = ? AND time >= ? AND time < ? GROUP BY request, tenant
		) AS e ON e.request = u.request AND e.tenant = u.tenant
		WHERE u.at >= ? AND u.at < ? GROUP BY 1, 2
	) AS s WHERE requests <> recorded OR prompt <> recorded_prompt OR completion <> recorded_completion OR cost <> recorded_cost ORDER BY hour, tenant`,
		hour, price.MaxTokens, price.MaxTokens, price.MaxTokens, price.MaxTokens, string(audit.StageOutcome), w.from, w.to+pairWindow, w.from, w.to).
		Scan(&rows).Error
	return rows, err
}

// payloadRow is a record as it is stored.
type payloadRow struct {
	ID      string
	Time    int64
	Payload []byte
}

// unmatched returns a page, behind the given record, of the outcome records in a span that used something and have no entry in the books. tenant
// may be "" for all. Only the payload says whether a record should have an entry.
func (s store) unmatched(ctx context.Context, w span, tenant string, after payloadRow) ([]audit.Event, payloadRow, error) {
	of, args := "", []any{string(audit.StageOutcome), w.from, w.to, after.Time, after.Time, after.ID}
	if tenant != "" {
		of, args = "AND e.tenant = ? ", append(args, tenant)
	}
	var rows []payloadRow
	err := s.db.WithContext(ctx).Raw(`SELECT e.id, e.time, e.payload FROM audit_events AS e
		WHERE e.stage = ? AND e.time >= ? AND e.time < ? AND (e.time > ? OR e.time = ? AND e.id > ?) `+of+`
			AND (e.prompt_tokens <> 0 OR e.completion_tokens <> 0 OR e.cost <> 0)
			AND NOT EXISTS (SELECT 1 FROM billing_usage AS u WHERE u.request = e.request)
		ORDER BY e.time, e.id LIMIT ?`, append(args, pageSize)...).Scan(&rows).Error
	if err != nil {
		return nil, after, err
	}
	events := make([]audit.Event, 0, len(rows))
	for _, r := range rows {
		e, err := record.Decode(r.Payload)
		if err != nil {
			return nil, after, fmt.Errorf("read audit record %s: %w", r.ID, err)
		}
		events, after = append(events, e), r
	}
	return events, after, nil
}

// usageRow is an entry of the books.
type usageRow struct {
	Request                  string
	At                       int64
	Prompt, Completion, Cost int64
}

// billed returns a page, behind the given entry, of the books of a tenant in a span.
func (s store) billed(ctx context.Context, w span, tenant string, after usageRow) (rows []usageRow, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT request, at, prompt_tokens AS prompt, completion_tokens AS completion, cost FROM billing_usage
		WHERE tenant = ? AND at >= ? AND at < ? AND (at > ? OR at = ? AND request > ?) ORDER BY at, request LIMIT ?`,
		tenant, w.from, w.to, after.At, after.At, after.Request, pageSize).Scan(&rows).Error
	return rows, err
}

// outcomes returns the outcome records of each request. There are several where one was lost and written again, or a line of a batch was asked again.
func (s store) outcomes(ctx context.Context, requests []string) (map[string][]audit.Event, error) {
	var rows []payloadRow
	err := s.db.WithContext(ctx).Raw("SELECT id, time, payload FROM audit_events WHERE request IN ? AND stage = ?", requests, string(audit.StageOutcome)).
		Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	out := make(map[string][]audit.Event, len(rows))
	for _, r := range rows {
		e, err := record.Decode(r.Payload)
		if err != nil {
			return nil, fmt.Errorf("read audit record %s: %w", r.ID, err)
		}
		out[e.Request] = append(out[e.Request], e)
	}
	return out, nil
}

// billedBy returns the usage of the outcome record that an entry of the books stands for: of several the one that it agrees with.
func billedBy(outcomes []audit.Event, r usageRow) (of billing.Usage, billed bool) {
	for _, e := range outcomes {
		u, says := UsageOf(e)
		if !says || billed && (!u.Once || u.At != r.At || u.Tokens.Bounded().Prompt != r.Prompt || u.Tokens.Bounded().Completion != r.Completion || int64(u.Cost) != r.Cost) {
			continue
		}
		of, billed = u, true
	}
	return of, billed
}

// isBilled reports whether the books have an entry of the request.
func (s store) isBilled(ctx context.Context, request string) (bool, error) {
	var n int64
	err := s.db.WithContext(ctx).Raw("SELECT COUNT(*) FROM billing_usage WHERE request = ?", request).Scan(&n).Error
	return n > 0, err
}

// drained returns the time up to which everything that the writer wrote is in the database.
func (s store) drained(ctx context.Context, writer string) (at int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT COALESCE(MAX(drained), 0) FROM audit_writers WHERE writer = ?", writer).Scan(&at).Error
	return at, err
}

// repairOf returns the id of the record that says that the usage of a request was billed after all, "" without one.
func (s store) repairOf(ctx context.Context, request string) (id string, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT id FROM audit_events WHERE request = ? AND stage = ? AND action = ? LIMIT 1", request, string(audit.StageAction), repairAction).
		Scan(&id).Error
	return id, err
}

// admitted returns the admitted record of a request.
func (s store) admitted(ctx context.Context, request string) (audit.Event, error) {
	var rows []payloadRow
	err := s.db.WithContext(ctx).Raw("SELECT id, time, payload FROM audit_events WHERE request = ? AND stage = ? LIMIT 1", request, string(audit.StageAdmitted)).
		Scan(&rows).Error
	if err != nil {
		return audit.Event{}, err
	}
	if len(rows) == 0 {
		return audit.Event{}, fmt.Errorf("request %s: its admitted record is gone", request)
	}
	return record.Decode(rows[0].Payload)
}

// findingRow is a row of audit_findings.
type findingRow struct {
	Kind      string
	Item      string
	Tenant    string
	Detail    string
	FirstSeen int64
	LastSeen  int64
	Closed    int64
	Repair    string
	Claimant  string
	Claimed   int64
}

func (findingRow) TableName() string { return "audit_findings" }

func (findingRow) columns() []string {
	return []string{"kind", "item", "tenant", "detail", "first_seen", "last_seen", "closed", "repair", "claimant", "claimed"}
}

// details are the names, counts and times that a finding holds, never text of a caller.
func (f findingRow) details() map[string]string {
	out := map[string]string{}
	_ = json.Unmarshal([]byte(f.Detail), &out) // we wrote it
	return out
}

// note stores a finding, or that it is still there. It opens a closed finding again and keeps its first time.
func (s store) note(ctx context.Context, f findingRow) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		res := tx.Model(&findingRow{}).Where("kind = ? AND item = ?", f.Kind, f.Item).
			Updates(map[string]any{"last_seen": f.LastSeen, "detail": f.Detail, "closed": 0, "repair": ""})
		if res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		return tx.Create(&f).Error
	})
}

// finish closes a finding. repair is the record that mended it, "" if it came right by itself.
func (s store) finish(ctx context.Context, f findingRow, now time.Time, repair string) error {
	return s.db.WithContext(ctx).Model(&findingRow{}).Where("kind = ? AND item = ? AND closed = 0", f.Kind, f.Item).
		Updates(map[string]any{"closed": now.UnixMicro(), "repair": repair}).Error
}

// claim says who is about to mend a finding.
type claim struct {
	finding        findingRow
	holder, writer string // of the lease; of the record that will say that it was mended
	now            func() time.Time
}

// in stores a claim in tx, and only while the holder has the lease: a run that slept and lost it mends nothing.
func (c claim) in(tx *gorm.DB) error {
	at := c.now()
	if err := oneComparing().Take(tx, c.holder, at); err != nil {
		return err
	}
	return tx.Model(&findingRow{}).Where("kind = ? AND item = ?", c.finding.Kind, c.finding.Item).
		Updates(map[string]any{"claimant": c.writer, "claimed": at.UnixMicro()}).Error
}

// claim stores a claim. It returns [ErrRunning] if the run has lost the lease.
func (s store) claim(ctx context.Context, c claim) error {
	return s.db.WithContext(ctx).Transaction(c.in)
}

// open returns a page, behind the given finding, of the open findings, oldest first.
func (s store) open(ctx context.Context, after findingRow) (rows []findingRow, err error) {
	err = s.db.WithContext(ctx).Select(findingRow{}.columns()).
		Where("closed = 0 AND (first_seen > ? OR first_seen = ? AND (kind > ? OR kind = ? AND item > ?))", after.FirstSeen, after.FirstSeen, after.Kind, after.Kind, after.Item).
		Order("first_seen, kind, item").Limit(pageSize).Find(&rows).Error
	return rows, err
}

// newest returns findings, newest first: open ones, or all.
func (s store) newest(ctx context.Context, all bool, offset, limit int) (rows []findingRow, err error) {
	db := s.db.WithContext(ctx).Select(findingRow{}.columns())
	if !all {
		db = db.Where("closed = 0")
	}
	err = db.Order("first_seen DESC, kind, item").Offset(offset).Limit(limit).Find(&rows).Error
	return rows, err
}

// currency returns what the books are kept in, "" before there is a price. It changes with a newer price book only while there are no amounts.
func (s store) currency(ctx context.Context) (string, error) {
	var c []string
	err := s.db.WithContext(ctx).Raw("SELECT currency FROM billing_books ORDER BY version DESC LIMIT 1").Scan(&c).Error
	if err != nil || len(c) == 0 {
		return "", err
	}
	return c[0], nil
}

// counts returns how many findings are open, by kind, of one tenant, or of all if tenant is "".
func (s store) counts(ctx context.Context, tenant string) (map[string]int64, error) {
	db := s.db.WithContext(ctx).Model(&findingRow{}).Where("closed = 0")
	if tenant != "" {
		db = db.Where("tenant = ?", tenant)
	}
	var rows []struct {
		Kind string
		N    int64
	}
	if err := db.Select("kind", "COUNT(*) AS n").Group("kind").Find(&rows).Error; err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, r := range rows {
		out[r.Kind] = r.N
	}
	return out, nil
}
