package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// replica is a reconciler with a log and a ledger of its own, on a database that others may share.
type replica struct {
	*Reconciler

	t      *testing.T
	db     *gorm.DB
	dir    string
	sink   audit.Sink
	refuse func(audit.Event) bool // usage of records that the ledger refuses
}

func newReplica(t *testing.T, db *gorm.DB, dir string) *replica {
	t.Helper()
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	ledger, err := billing.New(billing.Config{Node: filepath.Base(dir)}, db, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, db: db, dir: dir, refuse: func(audit.Event) bool { return false }}
	r.sink = func(tx *gorm.DB, events []audit.Event) error {
		for _, e := range events {
			if e.Stage == audit.StageOutcome && r.refuse(e) {
				return fault.New(fault.CodeConflict, fault.Quote("refused", "拒绝"))
			}
		}
		return Sink(ledger)(tx, events)
	}
	l, err := audit.Open(auditIn(dir), db, masterKey(), r.sink, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r.Reconciler = New(Config{DB: db, Audit: l, Log: log, Metrics: reg, Longest: 10 * time.Minute, SlowActions: []string{"rag.ingest"}})
	return r
}

func auditIn(dir string) audit.Config {
	return audit.Config{Dir: dir}
}

func masterKey() *keyring.Ring { return keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")) }

// request is a record of a request that came in a while ago.
func request(id string, ago time.Duration, stage audit.Stage) audit.Event {
	e := audit.Event{
		Request: id, Stage: stage, Time: time.Now().Add(-ago).UnixMicro(), Tenant: "bank", Project: "p", Actor: audit.Actor{Kind: "key", ID: "k", Name: "app"},
		Action: "chat.completions", Model: audit.Model{Asked: "m", Version: "1"}, Decision: "allow", Detail: map[string]string{"purpose": "test"},
	}
	if stage == audit.StageOutcome {
		e.Outcome, e.PriceBook, e.Status = "ok", "1", 200
		e.Usage = audit.Usage{PromptTokens: 10, CompletionTokens: 5, Cost: 700, Currency: "CNY"}
		e.Latency.Total = time.Second.Microseconds()
	}
	return e
}

func (r *replica) append(events ...audit.Event) {
	r.t.Helper()
	for _, e := range events {
		if _, err := r.audit.Append(r.t.Context(), e); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.audit.Drain(r.t.Context()); err != nil { // of several replicas one seals
		r.t.Fatal(err)
	}
}

func (r *replica) seal() {
	r.t.Helper()
	if err := r.audit.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// whole appends a request that is as it should be.
func (r *replica) whole(id string, ago time.Duration) {
	r.t.Helper()
	r.append(request(id, ago+time.Second, audit.StageAdmitted), request(id, ago, audit.StageOutcome))
}

func (r *replica) run() int64 {
	r.t.Helper()
	n, err := r.Compare(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// findings lists "kind item" of the open ones, and "kind item closed" of the others.
func (r *replica) findings() []string {
	r.t.Helper()
	rows, err := r.store.newest(r.t.Context(), true, 0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, f := range rows {
		text := f.Kind + " " + f.Item
		if f.Kind == kindUnbooked || f.Kind == kindSums {
			text = f.Kind // their items hold a time or a writer
		}
		switch {
		case f.Closed != 0 && f.Repair != "":
			text += " mended"
		case f.Closed != 0:
			text += " closed"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (r *replica) want(what string, findings ...string) {
	r.t.Helper()
	if got := r.findings(); !slices.Equal(got, findings) {
		r.t.Errorf("%s: findings %q, want %q", what, got, findings)
	}
}

func (r *replica) count(query string, args ...any) (n int64) {
	r.t.Helper()
	if err := r.db.Raw(query, args...).Scan(&n).Error; err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *replica) exec(query string, args ...any) {
	r.t.Helper()
	if err := r.db.Exec(query, args...).Error; err != nil {
		r.t.Fatal(err)
	}
}

// silence takes back what a replica said of how far it got: its records were dated back, and it said so only now.
func (r *replica) silence() {
	r.t.Helper()
	r.exec("UPDATE audit_writers SET drained = 0 WHERE writer = ?", r.audit.Writer())
}

func (r *replica) outcomesOf(id string) []search.Entry {
	r.t.Helper()
	if err := r.audit.Drain(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	page, err := r.audit.Search(r.t.Context(), search.Query{Request: id, Stage: audit.StageOutcome})
	if err != nil {
		r.t.Fatal(err)
	}
	return page.Events
}

func (r *replica) verify() verify.Report {
	r.t.Helper()
	r.seal()
	report, err := verify.Run(r.t.Context(), verify.Source{Dir: r.dir, DB: r.db, VerifierKey: r.audit.VerifierKey(), Books: Books{}}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

func (r *replica) mustVerify() {
	r.t.Helper()
	if report := r.verify(); !report.OK {
		r.t.Fatalf("%+v", report.Problems)
	}
}

// TestDeadlines: what takes hours is not given up after minutes.
func TestDeadlines(t *testing.T) {
	r := newReplica(t, dbtest.SQLite(t), t.TempDir())
	for action, want := range map[string]time.Duration{
		"chat.completions": r.limit, "embeddings": r.limit, "admin.ingestDocument": slowLimit, "rag.ingest": slowLimit,
	} {
		if got := time.Duration(r.deadline(0, action)) * time.Microsecond; got != want {
			t.Errorf("%s has %v, want %v", action, got, want)
		}
	}
}

// TestReconcile: each kind of disagreement is found, once, and closed when it is over; what can be mended is, with a record.
func TestReconcile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, t.TempDir())
		r.whole("fine", 2*time.Hour)
		r.append(request("young", time.Minute, audit.StageAdmitted))
		r.append(request("old", 20*24*time.Hour, audit.StageAdmitted), request("old", 20*24*time.Hour, audit.StageOutcome))
		r.seal() // else nobody looks that far back
		refused := request("refused", 2*time.Hour, audit.StageOutcome)
		refused.Outcome, refused.PriceBook, refused.Usage = "refused", "", audit.Usage{}
		act := request("act", 2*time.Hour, audit.StageAdmitted)
		act.Action = "admin.exportAudit"
		r.append(refused, act)
		if n := r.run(); n != 0 {
			t.Errorf("%d mended of nothing", n)
		}
		r.want("all is well")

		r.append(request("cut-off", 3*time.Hour, audit.StageAdmitted), request("alone", 3*time.Hour, audit.StageOutcome))
		left := request("left", 3*time.Hour, audit.StageAdmitted) // its answer may have
		left.Usage, left.PriceBook = audit.Usage{PromptTokens: 10, Cost: 200, Currency: "CNY", Estimated: true}, "1"
		left.Latency.Admit = time.Second.Microseconds()
		r.append(left)
		if got := fmt.Sprint(r.verify().Findings); !strings.Contains(got, "request left was admitted and has no outcome; it may have been answered, and what this record says is billed") || strings.Contains(got, "request cut-off was admitted and has no outcome;") {
			t.Error(got)
		}
		r.refuse = func(e audit.Event) bool { return e.Request == "unbooked" }
		r.whole("unbooked", 3*time.Hour)
		for range 2 { // the second time changes nothing
			r.run()
			// the refusal shows in the sums of its hour, too
			r.want("one of each", "sums", "unadmitted alone", "unbooked", "unfinished cut-off mended", "unfinished left mended")
		}
		ends := r.outcomesOf("cut-off")
		if len(ends) != 1 {
			t.Fatalf("%d outcomes", len(ends))
		}
		e := ends[0].Event
		if e.Outcome != "failed" || e.ErrorCode != codeOutcomeLost || e.Tenant != "bank" || e.Actor.ID != "k" || e.PriceBook != "" ||
			e.Detail["by"] != "reconciliation" || e.Detail["admitted"] == "" || e.Detail["purpose"] != "test" {
			t.Errorf("the outcome that was made up for: %+v", e)
		}

		r.refuse = func(audit.Event) bool { return false }
		if n := r.run(); n != 1 {
			t.Errorf("%d mended", n)
		}
		r.run()
		r.want("billed again", "sums closed", "unadmitted alone", "unbooked mended", "unfinished cut-off mended", "unfinished left mended")
		if n := r.count("SELECT COUNT(*) FROM audit_events WHERE action = ? AND request = 'unbooked'", repairAction); n != 1 {
			t.Errorf("%d records of the repair", n)
		}
		if n := r.count("SELECT COUNT(*) FROM audit_unbooked"); n != 0 {
			t.Errorf("%d unbooked", n)
		}
		if n := r.count("SELECT CAST(SUM(requests) AS BIGINT) FROM billing_usage_daily"); n != 5 {
			t.Errorf("%d requests in the daily books", n) // fine, old, alone, unbooked, left
		}
		arrived := left.Time - left.Latency.Admit
		if n := r.count("SELECT COUNT(*) FROM billing_usage WHERE request = 'left' AND prompt_tokens = 10 AND completion_tokens = 0 AND cost = 200 AND estimated = 1 AND outcome = 'failed' AND at = ?", arrived); n != 1 {
			t.Error("the prompt of an answer that may have left is not billed, under the time when it came")
		}
		r.mustVerify()
	})
}

// TestReconcileBooks: what somebody did to the books behind the records' back shows, and stops showing when it is undone.
func TestReconcileBooks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, t.TempDir())
		for i := range 5 {
			r.whole(fmt.Sprintf("r%d", i), time.Duration(i)*20*time.Hour+30*time.Minute)
		}
		columns := "digest, tenant, project, api_key, actor, action, model, model_version, at, prompt_tokens, cached_tokens, completion_tokens, " +
			"estimated, cost, currency, price_book, energy, energy_method, outcome, recorded_at"
		copied := "INSERT INTO billing_usage (request, " + columns + ") SELECT ?, " + columns + " FROM billing_usage WHERE request = ?"
		r.seal()
		r.run()
		r.want("untouched")
		for _, c := range []struct {
			name     string
			do, undo string
			args     [2][]any
			open     []string
		}{
			{"cost", "UPDATE billing_usage SET cost = cost + 1 WHERE request = 'r0'", "UPDATE billing_usage SET cost = cost - 1 WHERE request = 'r0'", [2][]any{}, []string{"sums"}},
			{"tokens", "UPDATE billing_usage SET prompt_tokens = 0 WHERE request = 'r1'", "UPDATE billing_usage SET prompt_tokens = 10 WHERE request = 'r1'", [2][]any{}, []string{"sums"}},
			{"invented", copied, "DELETE FROM billing_usage WHERE request = ?", [2][]any{{"invented", "r0"}, {"invented"}}, []string{"sums", "surplus invented"}},
			{
				"gone", "UPDATE billing_usage SET request = ?, tenant = 'x', cost = 0, at = 5 WHERE request = ?",
				"UPDATE billing_usage SET tenant = 'bank', cost = 700, request = 'r0', at = (SELECT time - total FROM audit_events " +
					"WHERE request = 'r0' AND stage = 'outcome') WHERE request = 'elsewhere'",
				[2][]any{{"elsewhere", "r0"}, nil},
				[]string{"missing r0", "sums"},
			},
			{"another tenant", "UPDATE billing_usage SET tenant = 'x' WHERE request = 'r0'", "UPDATE billing_usage SET tenant = 'bank' WHERE request = 'r0'", [2][]any{}, []string{"sums", "surplus r0"}},
		} {
			r.exec("DELETE FROM audit_findings")
			r.exec(c.do, c.args[0]...)
			r.run()
			r.run()
			r.want(c.name, c.open...)
			r.exec(c.undo, c.args[1]...)
			r.run()
			var closed []string
			for _, f := range c.open {
				closed = append(closed, f+" closed")
			}
			r.want(c.name+" undone", closed...)
		}
		r.mustVerify()

		// Far back nothing is looked at again, until a record of that time comes in.
		r.exec("DELETE FROM audit_findings")
		r.exec("UPDATE billing_usage SET cost = 1 WHERE request = 'r4'")
		r.run()
		r.want("four days ago")
		r.whole("late", 4*20*time.Hour+30*time.Minute)
		r.seal()
		r.run()
		r.want("a late record", "sums")
	})
}

// TestReconcileWaitsForTheLogOfTheReplica: as long as an outcome may lie in the write-ahead log of a replica, none is made up.
func TestReconcileWaitsForTheLogOfTheReplica(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, dir := newReplica(t, db, t.TempDir()), t.TempDir()
		b := newReplica(t, db, dir)
		b.append(request("waits", 2*time.Hour, audit.StageAdmitted), request("lost", 2*time.Hour, audit.StageAdmitted))
		b.silence()
		if _, err := b.audit.Append(t.Context(), request("waits", 2*time.Hour, audit.StageOutcome)); err != nil { // not shipped
			t.Fatal(err)
		}
		if err := b.audit.Close(); err != nil {
			t.Fatal(err)
		}
		if n := a.run(); n != 0 {
			t.Errorf("%d mended while the log of the replica is not read", n)
		}
		a.want("nobody knows", "unfinished lost", "unfinished waits")

		if _, err := audit.Recover(t.Context(), auditIn(dir), dir, db, masterKey(), a.sink, a.log); err != nil {
			t.Fatal(err)
		}
		if n := a.run(); n != 1 {
			t.Errorf("%d mended", n)
		}
		a.run()
		a.want("its log was read", "unfinished lost mended", "unfinished waits closed")
	})
}

// TestReconcileGivesUpALostReplica: after a week nobody waits any more.
func TestReconcileGivesUpALostReplica(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	a, b := newReplica(t, db, t.TempDir()), newReplica(t, db, t.TempDir())
	b.append(request("lost", abandonAfter+time.Hour, audit.StageAdmitted), request("recent", abandonAfter-time.Hour, audit.StageAdmitted))
	b.seal()
	b.silence()
	a.run()
	a.want("a week later", "unfinished lost mended", "unfinished recent")
}

// TestOneReconciles: of many replicas at work at once, none mends what another does.
func TestOneReconciles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var all []*replica
		for range 3 {
			all = append(all, newReplica(t, db, t.TempDir()))
		}
		const lost = 20
		for i := range lost {
			all[i%3].append(request(fmt.Sprintf("r%d", i), 2*time.Hour, audit.StageAdmitted))
		}
		var wg sync.WaitGroup
		for _, r := range all {
			wg.Go(func() {
				for range 4 {
					if _, err := r.Compare(t.Context()); err != nil && !errors.Is(err, ErrRunning) {
						t.Error(err)
					}
					if err := r.audit.Drain(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for _, r := range all {
			r.run()
		}
		if n := all[0].count("SELECT COUNT(*) FROM audit_events WHERE stage = 'outcome'"); n != lost {
			t.Errorf("%d outcomes of %d requests", n, lost)
		}
		if n := all[0].count("SELECT COUNT(*) FROM audit_findings WHERE closed = 0"); n != 0 {
			t.Errorf("%d open", n)
		}
	})
}

// TestReconcileLostItsLease: whoever slept while another took over mends nothing.
func TestReconcileLostItsLease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, t.TempDir())
		s, now := r.store, time.Now()
		lease := oneComparing()
		if err := errors.Join(lease.Take(db, "a", now), lease.Take(db, "a", now.Add(time.Second))); err != nil {
			t.Fatal(err)
		}
		if err := lease.Take(db, "b", now.Add(time.Second)); !errors.Is(err, ErrRunning) {
			t.Errorf("two at once: %v", err)
		}
		late := now.Add(2 * leaseFor)
		if err := lease.Take(db, "b", late); err != nil {
			t.Fatal(err)
		}
		if busy, err := lease.Held(db, late); !busy || err != nil {
			t.Errorf("%v, %v", busy, err)
		}
		if err := s.note(t.Context(), findingRow{Kind: kindUnfinished, Item: "x", Tenant: "bank", Detail: "{}"}); err != nil {
			t.Fatal(err)
		}
		err := s.claim(t.Context(), claim{findingRow{Kind: kindUnfinished, Item: "x"}, "a", "a", func() time.Time { return late }})
		if !errors.Is(err, ErrRunning) {
			t.Errorf("the sleeper claims: %v", err)
		}
		if n := r.count("SELECT COUNT(*) FROM audit_findings WHERE claimant <> ''"); n != 0 {
			t.Error("it was claimed")
		}
	})
}

// TestReconcileFaults: whichever write to the database fails, whether or not it happened, the next run goes on: one outcome, one billing,
// one record of it.
func TestReconcileFaults(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, t.TempDir())
		var mu sync.Mutex
		countdown, persisted, failed := 0, false, false
		fail := func(after bool) func(*gorm.DB) {
			return func(tx *gorm.DB) {
				mu.Lock()
				defer mu.Unlock()
				if after != persisted || countdown == 0 || strings.HasPrefix(strings.TrimSpace(tx.Statement.SQL.String()), "SELECT") {
					return
				}
				if countdown--; countdown == 0 {
					failed = true
					_ = tx.AddError(errors.New("injected"))
				}
			}
		}
		cb := db.Callback()
		if err := errors.Join(
			cb.Raw().Before("gorm:raw").Register("t:before_raw", fail(false)), cb.Raw().After("gorm:raw").Register("t:after_raw", fail(true)),
			cb.Update().Before("gorm:update").Register("t:before_update", fail(false)), cb.Update().After("gorm:update").Register("t:after_update", fail(true)),
			cb.Create().Before("gorm:create").Register("t:before_create", fail(false)), cb.Create().After("gorm:create").Register("t:after_create", fail(true)),
			cb.Delete().Before("gorm:delete").Register("t:before_delete", fail(false)), cb.Delete().After("gorm:delete").Register("t:after_delete", fail(true)),
		); err != nil {
			t.Fatal(err)
		}
		rounds := 0
		for _, flavour := range []bool{false, true} {
			for n := 1; ; n++ {
				cut, unbooked := fmt.Sprintf("cut-%v-%d", flavour, n), fmt.Sprintf("unbooked-%v-%d", flavour, n)
				r.append(request(cut, 2*time.Hour, audit.StageAdmitted))
				r.refuse = func(e audit.Event) bool { return e.Request == unbooked }
				r.whole(unbooked, 2*time.Hour)
				r.refuse = func(audit.Event) bool { return false }

				mu.Lock()
				countdown, persisted, failed = n, flavour, false
				mu.Unlock()
				_, err := r.Compare(t.Context())
				mu.Lock()
				done := !failed
				countdown = 0
				mu.Unlock()
				if done && err != nil {
					t.Fatal(err)
				}
				r.exec("UPDATE audit_lease SET expires = 0 WHERE name = 'reconcile'") // should its release have failed
				r.run()
				r.run()
				if got := len(r.outcomesOf(cut)); got != 1 {
					t.Errorf("write %d, persisted %v: %d outcomes (%v)", n, flavour, got, err)
				}
				if got := r.count("SELECT COUNT(*) FROM billing_usage WHERE request = ?", unbooked); got != 1 {
					t.Errorf("write %d, persisted %v: billed %d times (%v)", n, flavour, got, err)
				}
				if got := r.count("SELECT COUNT(*) FROM audit_events WHERE request = ? AND action = ?", unbooked, repairAction); got != 1 {
					t.Errorf("write %d, persisted %v: %d records of the billing (%v)", n, flavour, got, err)
				}
				if got := r.count("SELECT COUNT(*) FROM audit_findings WHERE closed = 0"); got != 0 {
					t.Errorf("write %d, persisted %v: %d open: %v (%v)", n, flavour, got, r.findings(), err)
				}
				if rounds++; done || t.Failed() {
					break
				}
				if testing.Short() && n >= 5 {
					break
				}
			}
		}
		if rounds < 10 {
			t.Errorf("only %d writes failed", rounds)
		}
		r.mustVerify()
	})
}

// TestReconcileCutOff: a run that ended between noting what it is about to do and saying that it did it.
func TestReconcileCutOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, dir := newReplica(t, db, t.TempDir()), t.TempDir()
		b := newReplica(t, db, dir)
		a.append(request("cut-off", 2*time.Hour, audit.StageAdmitted))
		// b writes the outcome and dies before it is shipped.
		writer := b.audit.Writer()
		b.append(request("other", time.Minute, audit.StageAdmitted))
		a.exec("INSERT INTO audit_findings (kind, item, tenant, detail, first_seen, last_seen, closed, repair, claimant, claimed) VALUES (?, 'cut-off', 'bank', '{}', 1, 1, 0, '', ?, ?)",
			kindUnfinished, writer, time.Now().UnixMicro())
		e, err := a.store.admitted(t.Context(), "cut-off")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.audit.Append(t.Context(), lostOutcome(e, time.Now())); err != nil {
			t.Fatal(err)
		}
		if err := b.audit.Close(); err != nil {
			t.Fatal(err)
		}
		a.run()
		a.want("b may have done it", "unfinished cut-off")
		again := newReplica(t, db, dir)
		if err := again.audit.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.run()
		a.want("b had done it", "unfinished cut-off closed")
		if n := len(a.outcomesOf("cut-off")); n != 1 {
			t.Errorf("%d outcomes", n)
		}
	})
}

// TestSpans: hours join into stretches of at most two days that cover each hour once.
func TestSpans(t *testing.T) {
	for _, c := range []struct {
		hours []int64
		want  []span
	}{
		{nil, nil},
		{[]int64{5}, []span{{5, 6}}},
		{[]int64{5, 6, 9}, []span{{5, 10}}},
		{[]int64{5, 20}, []span{{5, 6}, {20, 21}}},
		{[]int64{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50}, []span{{0, 46}, {50, 51}}},
		{[]int64{0, 6, 12, 18, 24, 30, 36, 42, 47, 48}, []span{{0, 48}, {48, 49}}},
	} {
		var got []span
		for _, w := range spans(c.hours) {
			got = append(got, span{w.from / hour, w.to / hour})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.hours, got, c.want)
		}
	}
}

// TestLinesAskedTwice: a line of a batch that was answered twice, since a process died in between, has two outcomes and one bill, whichever came first; that
// is no finding, and a bill that agrees with neither still is one. Other requests are compared as ever.
func TestLinesAskedTwice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, t.TempDir())
		line := func(id string, ago time.Duration, tokens, cost int64) audit.Event {
			e := request(id, ago, audit.StageOutcome)
			e.Detail = map[string]string{"batch": "batch_1"}
			e.Usage.CompletionTokens, e.Usage.Cost = tokens, cost
			return e
		}
		for id, later := range map[string]int64{"batch_1.1": 9, "batch_1.2": 3, "batch_1.3": 5} {
			r.append(request(id, 3*time.Hour, audit.StageAdmitted), line(id, 3*time.Hour, 5, 700))
			r.append(request(id, 2*time.Hour, audit.StageAdmitted), line(id, 2*time.Hour, later, 100*later))
			if n := r.count("SELECT COUNT(*) FROM billing_usage WHERE request = ? AND completion_tokens = 5 AND cost = 700", id); n != 1 {
				t.Errorf("%s: the first usage is billed %d times", id, n)
			}
		}
		if n := r.count("SELECT SUM(requests) FROM billing_usage_daily"); n != 3 {
			t.Errorf("%d requests in the daily sums", n)
		}
		r.run()
		r.want("lines asked twice")
		r.mustVerify()
		r.exec("UPDATE billing_usage SET cost = 701 WHERE request = 'batch_1.2'")
		if report := r.verify(); report.OK {
			t.Error("a bill that no record says was not noticed")
		}
		r.silence()
		r.run()
		r.want("a bill that no record says", "sums")
	})
}
