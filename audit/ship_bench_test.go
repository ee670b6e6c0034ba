package audit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// BenchmarkShip measures what a thousand answered requests cost this process behind their answers: two records and one usage each, shipped,
// booked under a budget, sealed and retired. A PostgreSQL server is another process and is not counted.
func BenchmarkShip(b *testing.B) {
	for name, open := range map[string]func(testing.TB) *gorm.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		b.Run(name, func(b *testing.B) { benchmarkShip(b, open(b)) })
	}
}

func benchmarkShip(b *testing.B, db *gorm.DB) {
	ledger, err := billing.New(billing.Config{Node: "n"}, db, slog.New(slog.DiscardHandler), nil)
	must(b, err)
	must(b, ledger.Load(b.Context()))
	must(b, ledger.SetBudget(b.Context(), billing.Budget{Tenant: "tenant-1", Period: billing.Day, Limit: 1 << 60}))
	cfg := testConfig(b.TempDir())
	cfg.SegmentBytes, cfg.MaxBytes = 16<<20, 8<<30
	l := openTest(b, cfg, db, func(tx *gorm.DB, events []Event) error {
		var usages []billing.Usage
		for _, e := range events {
			if e.Stage == StageOutcome {
				usages = append(usages, usageOf(e))
			}
		}
		return ledger.RecordUsage(tx, usages...)
	}, diskFiles{})
	const requests = 1000
	var n int
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		events := make([]Event, 0, 2*requests)
		for range requests {
			admitted, outcome := exchange(n)
			events = append(events, admitted, outcome)
			n++
		}
		appendAll(b, l, events)
		before := cpuTime(b)
		b.StartTimer()
		flush(b, l)
		spent += cpuTime(b) - before
	}
	b.ReportMetric(spent.Seconds()*1000/float64(n), "cpu-s/1000-requests")
	b.ReportMetric(0, "ns/op")
}

// exchange is the two records of a request as the gateway writes them, from one of a few tenants, keys, models and documents.
func exchange(n int) (admitted, outcome Event) {
	outcome = recordtest.Sample(n)
	outcome.Request, outcome.Time = fmt.Sprintf("0199a0de-7c1e-7000-8000-%012d", n), time.Now().UnixMicro()
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

// appendAll makes the events durable, many at a time.
func appendAll(t testing.TB, l *Log, events []Event) {
	t.Helper()
	var all sync.WaitGroup
	for part := range slices.Chunk(events, 16) {
		all.Go(func() {
			for _, e := range part {
				if _, err := l.Append(context.Background(), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
