package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/sleep"
)

// ArmSums is what one arm of a rollout did, summed up over every request; no sample is left out.
type ArmSums struct {
	// Per request: failed, refused by the policy, cost in 10⁻⁹ currency units. Per answer: completion tokens. The units are the conversations; a
	// request without one is its own. They were assigned to the arm, so they are what varies by chance.
	Failures, Refusals, Tokens, Cost RatioSums
	// FirstToken and Total count answered requests by latency in microseconds, rounded down to seven significant bits.
	FirstToken, Total map[int64]int64
	// Slow counts the answers above the 95th percentile of Total by unit: how much the latencies of one conversation go together.
	Slow RatioSums
	// Tenants are the counts of the tenants with most requests in either arm, at most [MaxArmTenants].
	Tenants map[string]TenantSums
}

// RatioSums are the sums of a ratio of two quantities over units: of Y and N of each unit, of their squares and of their product.
type RatioSums struct{ Y, N, YY, YN, NN float64 }

// TenantSums are the counts of one tenant.
type TenantSums struct{ Requests, Errors, Refused int64 }

const (
	// MaxArmTenants bounds the tenants that are told apart in an arm.
	MaxArmTenants = 20
	// armChunk is how many records one transaction counts. Each is progress: one that is cut off goes on there.
	armChunk = 2000
	// armPause lets others write between two of them, on SQLite.
	armPause = 20 * time.Millisecond
	// armWait is how long PostgreSQL keeps the rows of a process that is paused.
	armWait = 10 * time.Second
	// armOpen is how long it waits to open a window. Those behind it who store records of rollouts wait, too.
	armOpen = time.Second
	// armKept is how long a window is kept, whoever asks for it: the end of a rollout may have failed to let go of it. Counting again takes minutes.
	armKept = 90 * 24 * time.Hour
)

// ErrCounting says that a call ended while a window was reading on, and that it came further: the next goes on there.
var ErrCounting = errors.New("the records of a rollout are still being counted")

// armRecords are the records that count for an arm, as e. The conditions are those of the indexes and of the trigger that fills audit_arm_news.
const armRecords = "e.rollout = ? AND e.rollout <> '' AND e.arm <> '' AND e.stage = 'outcome' AND e.outcome IN ('ok', 'failed', 'aborted', 'refused') AND " +
	"NOT EXISTS (SELECT 1 FROM audit_arm_news AS n WHERE n.rollout = e.rollout AND n.time = e.time AND n.id = e.id)"

// ArmSums returns the sums of one arm of a rollout since a time in unix microseconds; the zero value if there are none. Refusals of the policy count
// as requests here, other than in [Reader.ArmStats], also those of all that a model has said, which are answers. Records show here once they are
// shipped.
//
// The sums are kept from call to call, for every time that was asked for, and each call counts what came since the last one, so that it
// costs as much as that, and as reading the slowest twentieth of all answers of the arm. A call that ctx ends on the way fails, with [ErrCounting] if it came
// further with records that were there before it first asked; the next goes on where it was. They are what a sum over all records would be, also
// after a pruning, which has them counted again. [Reader.ForgetArmSums] lets go of them.
func (r *Reader) ArmSums(ctx context.Context, rollout, arm string, since int64) (ArmSums, error) {
	out, err := r.armSums(ctx, database.Text(rollout), database.Text(arm), since)
	if err != nil {
		return ArmSums{}, fault.Wrap(fmt.Errorf("sum up an arm: %w", err), fault.CodeDatabaseUnavailable)
	}
	return out, nil
}

func (r *Reader) armSums(ctx context.Context, rollout, arm string, since int64) (out ArmSums, err error) {
	db := r.db.WithContext(ctx)
	if err := openWindow(db, rollout, since); err != nil {
		return out, err
	}
	further := false
	for more := true; more; {
		var reads bool
		if more, reads, err = r.count(db, rollout); err != nil {
			if further && ctx.Err() != nil {
				err = errors.Join(ErrCounting, err)
			}
			return out, err
		}
		further = further || reads
		if more && database.IsSQLite(db) {
			sleep.For(ctx, r.pause)
		}
	}
	err = database.Snapshot(ctx, r.db, func(tx *gorm.DB) error {
		var rows []armWindow
		if err := tx.Where("rollout = ? AND since = ?", rollout, since).Find(&rows).Error; err != nil {
			return err
		}
		if len(rows) == 0 || !rows[0].full() {
			return errors.New("records were pruned meanwhile")
		}
		out, err = rows[0].read(tx, arm)
		return err
	})
	return out, err
}

// ForgetArmSums lets go of what is kept of a rollout for [Reader.ArmSums], but for the sums since these times, and of what is kept of any for 90 days.
func (r *Reader) ForgetArmSums(ctx context.Context, rollout string, except ...int64) error {
	err := r.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		old := time.Now().Add(-armKept).UnixMicro()
		all, err := lockWindows(tx, "rollout = ? OR opened < ?", database.Text(rollout), old)
		if err != nil {
			return err
		}
		return dropWindows(tx, slices.DeleteFunc(all, func(w *armWindow) bool { return w.Opened >= old && slices.Contains(except, w.Since) }))
	})
	if err != nil {
		return fault.Wrap(fmt.Errorf("forget the sums of a rollout: %w", err), fault.CodeDatabaseUnavailable)
	}
	return nil
}

// ForgetArmSumsUpTo lets go of all sums that records up to a time are in, in the transaction that prunes such records, before it locks months: sums are
// counted again from what is left. Until its end nobody opens a window on PostgreSQL: it would count what goes.
func ForgetArmSumsUpTo(tx *gorm.DB, at int64) error {
	if !database.IsSQLite(tx) {
		if err := tx.Exec("LOCK TABLE audit_arm_windows IN ROW EXCLUSIVE MODE").Error; err != nil {
			return err
		}
	}
	windows, err := lockWindows(tx, "since <= ?", at)
	if err != nil {
		return err
	}
	return dropWindows(tx, windows)
}

// armWindow is a row of audit_arm_windows. It counts the records of its rollout from Since on, in the order of time and id up to AtTime and AtID, but
// for those in audit_arm_news: counting one of these takes it from there, and whoever reads on moves the position, so that none is counted
// twice and none is left out, in whatever order they come.
type armWindow struct {
	ID, Rollout string
	Since       int64
	Opened      int64
	AtTime      int64
	AtID        string
	Sums        string

	arms map[string]*armTotals // Sums
}

func (armWindow) TableName() string { return "audit_arm_windows" }

// full reports whether all records from Since on are counted that are not in audit_arm_news.
func (w *armWindow) full() bool { return w.AtTime == math.MaxInt64 }

func (w *armWindow) reaches(at int64, id string) bool {
	return at >= w.Since && (at < w.AtTime || at == w.AtTime && id <= w.AtID)
}

// armTotals are the sums of an arm in a window.
type armTotals struct {
	Failures, Refusals, Tokens, Cost, Slow moments // of Slow only N and NN: what is slow changes with every answer
	FirstToken, Total                      map[int64]int64
	Tenants                                map[string]TenantSums
}

// moments are [RatioSums] without rounding, so that it does not matter what was added and taken away on the way.
type moments struct{ Y, N, YY, YN, NN big.Int }

// add adds a unit once, or takes it away: times is 1 or -1.
func (m *moments) add(times, y, n int64) {
	plus := func(sum *big.Int, a, b int64) { sum.Add(sum, new(big.Int).Mul(big.NewInt(times*a), big.NewInt(b))) }
	plus(&m.Y, y, 1)
	plus(&m.N, n, 1)
	plus(&m.YY, y, y)
	plus(&m.YN, y, n)
	plus(&m.NN, n, n)
}

func (m *moments) sums() RatioSums {
	f := func(x *big.Int) float64 { v, _ := new(big.Float).SetInt(x).Float64(); return v }
	return RatioSums{f(&m.Y), f(&m.N), f(&m.YY), f(&m.YN), f(&m.NN)}
}

// armUnit is a row of audit_arm_units.
type armUnit struct {
	Win, Arm, Unit                                             string
	Requests, Failed, Refused, Answered, Tokens, Cost, Answers int64
}

func (armUnit) TableName() string { return "audit_arm_units" }

// count counts the unit in the totals of its arm: 1, or -1 for what it was before.
func (u *armUnit) count(t *armTotals, times int64) {
	t.Failures.add(times, u.Failed, u.Requests)
	t.Refusals.add(times, u.Refused, u.Requests)
	t.Tokens.add(times, u.Tokens, u.Answered)
	t.Cost.add(times, u.Cost, u.Requests)
	t.Slow.add(times, 0, u.Answers)
}

// armRecord is what counts of a record.
type armRecord struct {
	ID                                               string
	Time                                             int64
	Arm, Request, Session, Tenant, Outcome, Decision string
	CompletionTokens, Cost, FirstToken, Total        int64
}

const armColumns = "e.id, e.time, e.arm, e.request, e.session, e.tenant, e.outcome, e.decision, e.completion_tokens, e.cost, e.first_token, e.total"

func (e *armRecord) unit() string {
	if e.Session == "" {
		return e.Request
	}
	return e.Session
}

// armRequest is what the records of a request in an arm come to: one that was asked again has failed where it always has.
type armRequest struct {
	unit, tenant                            string
	failed, refused, answered, tokens, cost int64
}

func requestOf(records []*armRecord) armRequest {
	out := armRequest{failed: 1, refused: 1}
	for _, e := range records {
		out.unit, out.tenant, out.cost = max(out.unit, e.unit()), max(out.tenant, e.Tenant), out.cost+e.Cost
		if e.Outcome != "failed" {
			out.failed = 0
		}
		if e.Outcome != "refused" && (e.Outcome != "ok" || e.Decision != "refuse") {
			out.refused = 0
		}
		if e.Outcome == "ok" {
			out.answered, out.tokens = 1, max(out.tokens, e.CompletionTokens)
		}
	}
	return out
}

// openWindow makes sure that there is a window. On PostgreSQL it waits for the transactions that store records and do not see it: it reads theirs.
func openWindow(db *gorm.DB, rollout string, since int64) error {
	var n int64
	if err := db.Model(&armWindow{}).Where("rollout = ? AND since = ?", rollout, since).Count(&n).Error; err != nil || n > 0 {
		return err
	}
	return db.Transaction(func(tx *gorm.DB) error {
		if err := database.SetIdleTimeout(tx, armWait); err != nil {
			return err
		}
		if !database.IsSQLite(tx) {
			if err := tx.Exec(fmt.Sprintf("SET LOCAL lock_timeout = %d", armOpen.Milliseconds())).Error; err != nil {
				return err
			}
			if err := tx.Exec("LOCK TABLE audit_arm_windows IN SHARE ROW EXCLUSIVE MODE").Error; err != nil {
				return err
			}
		}
		return database.Insert(tx, []armWindow{{ID: uuid.NewString(), Rollout: rollout, Since: since, Opened: time.Now().UnixMicro(), AtTime: since, Sums: "{}"}}, "ON CONFLICT DO NOTHING")
	})
}

// lockWindows returns windows and holds off everybody else who counts in them, until tx ends.
func lockWindows(tx *gorm.DB, where string, args ...any) ([]*armWindow, error) {
	var out []*armWindow
	if !database.IsSQLite(tx) {
		tx = tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	err := tx.Where(where, args...).Order("rollout, since").Find(&out).Error
	return out, err
}

func dropWindows(tx *gorm.DB, windows []*armWindow) error {
	for _, w := range windows {
		if err := tx.Exec("DELETE FROM audit_arm_units WHERE win = ?", w.ID).Error; err != nil {
			return err
		}
		if err := tx.Exec("DELETE FROM audit_arm_windows WHERE id = ?", w.ID).Error; err != nil {
			return err
		}
	}
	if len(windows) == 0 {
		return nil
	}
	return tx.Exec("DELETE FROM audit_arm_news WHERE NOT EXISTS (SELECT 1 FROM audit_arm_windows AS w WHERE w.rollout = audit_arm_news.rollout)").Error
}

// count counts records that came, and records that a new window has not read, and reports whether there may be more, and whether a window has read on.
func (r *Reader) count(db *gorm.DB, rollout string) (more, reads bool, err error) {
	err = db.Transaction(func(tx *gorm.DB) error {
		if err := database.SetIdleTimeout(tx, armWait); err != nil {
			return err
		}
		more, reads, err = countNews(tx, rollout, r.chunk)
		return err
	})
	return more, reads, err
}

func countNews(tx *gorm.DB, rollout string, chunk int) (more, reads bool, err error) {
	windows, err := lockWindows(tx, "rollout = ?", rollout)
	if err != nil {
		return false, false, err
	}
	for _, w := range windows {
		if err := json.Unmarshal([]byte(w.Sums), &w.arms); err != nil {
			return false, false, fmt.Errorf("decode sums: %w", err)
		}
	}
	var news []place
	if err := tx.Table("audit_arm_news").Select("time", "id").Where("rollout = ?", rollout).Order("time, id").Limit(chunk).Find(&news).Error; err != nil {
		return false, false, err
	}
	var came []*armRecord
	for part := range slices.Chunk(news, insertBatch) {
		var some []*armRecord
		if err := tx.Table("audit_events AS e").Select(armColumns).Where("e.id IN ? AND e.time BETWEEN ? AND ?", idsOf(part), part[0].Time, part[len(part)-1].Time).Find(&some).Error; err != nil {
			return false, false, err
		}
		came = append(came, some...)
	}
	for _, w := range windows {
		mine := slices.DeleteFunc(slices.Clone(came), func(e *armRecord) bool { return !w.reaches(e.Time, e.ID) })
		if err := w.add(tx, mine); err != nil {
			return false, false, err
		}
	}
	for part := range slices.Chunk(news, insertBatch) { // before windows read on: these may be among what they come to
		err := tx.Exec("DELETE FROM audit_arm_news WHERE rollout = ? AND time BETWEEN ? AND ? AND id IN ?", rollout, part[0].Time, part[len(part)-1].Time, idsOf(part)).Error
		if err != nil {
			return false, false, err
		}
	}
	more = len(news) == chunk
	for _, w := range windows {
		before := w.full()
		reads = reads || !before
		if err := w.readOn(tx, chunk); err != nil {
			return false, false, err
		}
		more = more || !w.full()
		if len(news) == 0 && before {
			continue
		}
		sums, err := json.Marshal(w.arms)
		if err != nil {
			return false, false, fmt.Errorf("encode sums: %w", err)
		}
		err = tx.Model(&armWindow{}).Where("id = ?", w.ID).Updates(map[string]any{"at_time": w.AtTime, "at_id": w.AtID, "sums": string(sums)}).Error
		if err != nil {
			return false, false, err
		}
	}
	return more, reads, nil
}

func idsOf(places []place) []string {
	ids := make([]string, len(places))
	for i, p := range places {
		ids[i] = p.ID
	}
	return ids
}

// readOn counts the next records that are there, and moves the position behind them: to the end once there are no more.
func (w *armWindow) readOn(tx *gorm.DB, chunk int) error {
	if w.full() {
		return nil
	}
	var next []*armRecord
	err := tx.Table("audit_events AS e").Select(armColumns).Where(armRecords+" AND e.time >= ? AND (e.time > ? OR e.id > ?)", w.Rollout, w.AtTime, w.AtTime, w.AtID).
		Order("e.time, e.id").Limit(chunk).Find(&next).Error
	if err != nil {
		return err
	}
	if err := w.add(tx, next); err != nil {
		return err
	}
	w.AtTime, w.AtID = math.MaxInt64, ""
	if len(next) == chunk {
		w.AtTime, w.AtID = next[chunk-1].Time, next[chunk-1].ID
	}
	return nil
}

// add counts records that the window does not count yet.
func (w *armWindow) add(tx *gorm.DB, fresh []*armRecord) error {
	if len(fresh) == 0 {
		return nil
	}
	type key struct{ arm, name string }
	ids := map[string]bool{}
	arrived := map[key][]*armRecord{} // by request
	for _, e := range fresh {
		ids[e.Request] = true
		k := key{e.Arm, e.Request}
		arrived[k] = append(arrived[k], e)
	}
	counted := map[key][]*armRecord{}
	byRequest := armRecords
	if database.IsSQLite(tx) { // keeps it from reading all that the rollout did
		byRequest = strings.Replace(armRecords, "e.rollout = ? AND e.rollout <> ''", "+e.rollout = ?", 1)
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(ids)), insertBatch) {
		var there []*armRecord
		if err := tx.Table("audit_events AS e").Select(armColumns).Where(byRequest+" AND e.time >= ? AND e.request IN ?", w.Rollout, w.Since, part).Find(&there).Error; err != nil {
			return err
		}
		for _, e := range there {
			if k := (key{e.Arm, e.Request}); w.reaches(e.Time, e.ID) {
				counted[k] = append(counted[k], e)
			}
		}
	}
	changes := map[key]*armUnit{} // by unit
	change := func(arm, unit string) *armUnit {
		k := key{arm, unit}
		if changes[k] == nil {
			changes[k] = &armUnit{Win: w.ID, Arm: arm, Unit: unit}
		}
		return changes[k]
	}
	for k, records := range arrived {
		t := w.arms[k.arm]
		if t == nil {
			t = &armTotals{FirstToken: map[int64]int64{}, Total: map[int64]int64{}, Tenants: map[string]TenantSums{}}
			w.arms[k.arm] = t
		}
		count := func(r armRequest, times int64) {
			u := change(k.arm, r.unit)
			u.Requests, u.Failed, u.Refused = u.Requests+times, u.Failed+times*r.failed, u.Refused+times*r.refused
			u.Answered, u.Tokens, u.Cost = u.Answered+times*r.answered, u.Tokens+times*r.tokens, u.Cost+times*r.cost
			x := t.Tenants[r.tenant]
			t.Tenants[r.tenant] = TenantSums{x.Requests + times, x.Errors + times*r.failed, x.Refused + times*r.refused}
		}
		if old := counted[k]; len(old) > 0 {
			count(requestOf(old), -1)
		}
		count(requestOf(slices.Concat(counted[k], records)), 1)
		for _, e := range records {
			if e.Outcome != "ok" {
				continue
			}
			change(k.arm, e.unit()).Answers++
			t.Total[latencyBin(e.Total)]++
			if e.FirstToken > 0 {
				t.FirstToken[latencyBin(e.FirstToken)]++
			}
		}
	}
	units := slices.SortedFunc(maps.Values(changes), func(a, b *armUnit) int {
		return strings.Compare(a.Arm+"\x00"+a.Unit, b.Arm+"\x00"+b.Unit)
	})
	for part := range slices.Chunk(units, insertBatch) {
		names := make([]string, len(part))
		of := map[key]bool{}
		for i, u := range part {
			names[i], of[key{u.Arm, u.Unit}] = u.Unit, true
		}
		var there []*armUnit
		if err := tx.Where("win = ? AND arm IN ? AND unit IN ?", w.ID, slices.Collect(maps.Keys(w.arms)), names).Find(&there).Error; err != nil {
			return err
		}
		for _, old := range there {
			u := changes[key{old.Arm, old.Unit}]
			if !of[key{old.Arm, old.Unit}] { // of another arm, by the same name
				continue
			}
			old.count(w.arms[old.Arm], -1)
			u.Requests, u.Failed, u.Refused, u.Answered = u.Requests+old.Requests, u.Failed+old.Failed, u.Refused+old.Refused, u.Answered+old.Answered
			u.Tokens, u.Cost, u.Answers = u.Tokens+old.Tokens, u.Cost+old.Cost, u.Answers+old.Answers
		}
		for _, u := range part {
			u.count(w.arms[u.Arm], 1)
		}
	}
	return database.Insert(tx, units, "ON CONFLICT (win, arm, unit) DO UPDATE SET requests = excluded.requests, failed = excluded.failed, refused = excluded.refused, "+
		"answered = excluded.answered, tokens = excluded.tokens, cost = excluded.cost, answers = excluded.answers")
}

// read returns the sums of an arm.
func (w *armWindow) read(tx *gorm.DB, arm string) (ArmSums, error) {
	if err := json.Unmarshal([]byte(w.Sums), &w.arms); err != nil {
		return ArmSums{}, fmt.Errorf("decode sums: %w", err)
	}
	t := w.arms[arm]
	if t == nil {
		return ArmSums{}, nil
	}
	out := ArmSums{
		Failures: t.Failures.sums(), Refusals: t.Refusals.sums(), Tokens: t.Tokens.sums(), Cost: t.Cost.sums(), Slow: t.Slow.sums(),
		FirstToken: t.FirstToken, Total: t.Total, Tenants: w.tenants(arm),
	}
	if len(out.Total) == 0 {
		return out, nil
	}
	from := "e.time >= ?"
	if database.IsSQLite(tx) { // keeps it from reading by time all that the rollout did
		from = "+e.time >= ?"
	}
	slow := tx.Table("audit_events AS e").Select("CASE WHEN e.session = '' THEN e.request ELSE e.session END AS unit, COUNT(*) AS slow").
		Where(armRecords+" AND e.outcome = 'ok' AND e.arm = ? AND e.total > ? AND "+from, w.Rollout, arm, percentile(out.Total, 0.95), w.Since).
		Group("CASE WHEN e.session = '' THEN e.request ELSE e.session END")
	float := func(s string) string { return "CAST(" + s + " AS DOUBLE PRECISION)" }
	s, n := float("s.slow"), float("u.answers")
	var sum []RatioSums
	err := tx.Table("(?) AS s", slow).Joins("JOIN audit_arm_units AS u ON u.win = ? AND u.arm = ? AND u.unit = s.unit", w.ID, arm).
		Select("COALESCE(SUM(" + s + "), 0) AS y, COALESCE(SUM(" + s + " * " + s + "), 0) AS yy, COALESCE(SUM(" + s + " * " + n + "), 0) AS yn").Find(&sum).Error
	if err == nil {
		out.Slow.Y, out.Slow.YY, out.Slow.YN = sum[0].Y, sum[0].YY, sum[0].YN
	}
	return out, err
}

// tenants returns the counts of an arm, of the tenants with most requests in either, so that all arms keep the same ones.
func (w *armWindow) tenants(arm string) map[string]TenantSums {
	type counts struct {
		name string
		n    int64
	}
	var all []counts
	for _, t := range w.arms {
		for name, x := range t.Tenants {
			all = append(all, counts{name, x.Requests})
		}
	}
	slices.SortFunc(all, func(a, b counts) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	kept := map[string]bool{}
	out := map[string]TenantSums{}
	for _, c := range all {
		if len(kept) < MaxArmTenants {
			kept[c.name] = true
		}
		if x := w.arms[arm].Tenants[c.name]; kept[c.name] && x.Requests > 0 {
			out[c.name] = x
		}
	}
	return out
}

// latencyBin rounds a latency in microseconds down to seven significant bits.
func latencyBin(v int64) int64 {
	if v < 128 {
		return v
	}
	drop := bits.Len64(uint64(v)) - 7
	return v >> drop << drop
}

// percentile returns the smallest bin with at least q of the samples up to it.
func percentile(bins map[int64]int64, q float64) int64 {
	var n, below int64
	for _, c := range bins {
		n += c
	}
	for _, b := range slices.Sorted(maps.Keys(bins)) {
		if below += bins[b]; float64(below) >= q*float64(n) {
			return b
		}
	}
	return 0
}
