package audit

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// BenchmarkShip measures what a thousand answered requests cost this process behind their answers: two records and one usage each, shipped,
// billed under a budget, sealed and retired. A PostgreSQL server is another process and is not counted.
func BenchmarkShip(b *testing.B) {
	for name, open := range map[string]func(testing.TB) *gorm.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		b.Run(name, func(b *testing.B) { benchmarkShip(b, open(b)) })
	}
}

func benchmarkShip(b *testing.B, db *gorm.DB) {
	l := openBilled(b, db, db)
	const requests = 1000
	var n int
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		appendRequests(b, l, n, requests)
		n += requests
		before := cpuTime(b)
		b.StartTimer()
		flush(b, l)
		spent += cpuTime(b) - before
	}
	b.ReportMetric(spent.Seconds()*1000/float64(n), "cpu-s/1000-requests")
	b.ReportMetric(0, "ns/op")
}

// TestShippingInBulk: what a pass asks of the database does not grow with the records, but for the statements that are full.
func TestShippingInBulk(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var faulty dbtest.Faults
		l := openBilled(t, db, faulty.Over(db))
		appendRequests(t, l, 0, 100) // the budget, the attribute sets and the daily sums of later requests
		flush(t, l)
		operations := func(from, requests int) (n int) {
			appendRequests(t, l, from, requests)
			faulty.Set(func(string) dbtest.Outcome { n++; return dbtest.Healthy })
			flush(t, l)
			faulty.Set(nil)
			return n
		}
		few, many := operations(100, 32), operations(200, 240)
		if many > few+1 { // 480 records have more than 500 hashes
			t.Errorf("64 records are %d operations, 480 are %d", few, many)
		}
		if n := count(t, db, "billing_usage"); n != 372 {
			t.Errorf("%d billed", n)
		}
		mustVerify(t, l, db)
	})
}

// openBilled opens a log over shipTo whose sink is a ledger with a budget.
func openBilled(t testing.TB, db, shipTo *gorm.DB) *Log {
	t.Helper()
	ledger, err := billing.New(billing.Config{Node: "n"}, db, discard(), nil)
	must(t, err)
	must(t, ledger.Load(t.Context()))
	must(t, ledger.SetBudget(t.Context(), billing.Budget{Scope: billing.Scope{Tenant: "tenant-1"}, Period: billing.Day, Limit: 1 << 60}))
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes, cfg.MaxBytes = 16<<20, 8<<30
	return openTest(t, cfg, shipTo, func(tx *gorm.DB, events []Event) error {
		var usages []billing.Usage
		for _, e := range events {
			if e.Stage == StageOutcome {
				usages = append(usages, usageOf(e))
			}
		}
		return ledger.RecordUsage(tx, usages...)
	}, durable.OS{})
}

// exchange is the two records of a request as the gateway writes them, from one of a few tenants, keys, models and documents.
func exchange(n int) (admitted, outcome Event) {
	outcome = recordtest.Sample(n)
	outcome.Request = fmt.Sprintf("0199a0de-7c1e-7000-8000-%012d", n)
	outcome.Tenant, outcome.Actor.ID = fmt.Sprintf("tenant-%d", n%4), fmt.Sprintf("0199a0de-0000-7000-8000-%012d", n%16)
	outcome.Documents, outcome.Resource, outcome.Source = nil, "", fmt.Sprintf("10.0.0.%d", n%64)
	outcome.PromptDigest, outcome.AnswerDigest = fmt.Sprintf("%064d", n), fmt.Sprintf("%064d", n+1)
	admitted = outcome
	admitted.Stage, admitted.Usage, admitted.Outcome, admitted.ErrorCode, admitted.AnswerDigest = StageAdmitted, Usage{}, "", "", ""
	return admitted, outcome
}

func usageOf(e Event) billing.Usage {
	return billing.Usage{
		Request: e.Request, Tenant: e.Tenant, Project: e.Project, Key: e.Actor.ID, Actor: e.Actor.Name, Action: e.Action, Model: e.Model.Asked,
		Version: e.Model.Version, At: e.Time - e.Latency.Total, Cost: billing.Money(e.Usage.Cost), Currency: e.Usage.Currency, PriceBook: e.PriceBook,
		Tokens: billing.Tokens{Prompt: e.Usage.PromptTokens, Cached: e.Usage.CachedTokens, Completion: e.Usage.CompletionTokens},
		Energy: e.Usage.Energy, EnergyMethod: e.Usage.EnergyMethod, Outcome: e.Outcome,
	}
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// appendRequests makes the records of requests durable, many at a time.
func appendRequests(t testing.TB, l *Log, from, n int) {
	t.Helper()
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := from + worker; i < from+n; i += 64 {
				admitted, outcome := exchange(i)
				for _, e := range []Event{admitted, outcome} {
					if _, err := l.Append(context.Background(), e); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
}
