package search_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestArmSumsAreThoseOfAllRecords draws records of two writers: of requests that were asked again, of two arms, late ones and such of before a time; they
// come in many shipments, between which sums are asked for, forgotten, and cut off. What is kept must be what a sum over every record is.
func TestArmSumsAreThoseOfAllRecords(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		reader := search.NewReader(db, nil)
		ships := &store.Store{DB: db}
		seq := make([]uint64, 2)
		ship := func(writer int, events ...record.Event) {
			var frames []wal.Record
			for _, e := range events {
				seq[writer]++
				payload, err := record.Encode(e)
				if err != nil {
					t.Error(err)
				}
				frames = append(frames, wal.Record{Seq: seq[writer], Payload: payload})
			}
			if len(frames) == 0 {
				return
			}
			if _, err := ships.Ship(t.Context(), fmt.Sprint("w", writer), frames); err != nil {
				t.Error(err)
			}
		}
		r := rand.New(rand.NewPCG(7, 57))
		one := func(of ...string) string { return of[r.IntN(len(of))] }
		n := 0
		draw := func() record.Event {
			n++
			e := recordtest.Sample(n)
			e.ID = fmt.Sprintf("%04x-%d", r.IntN(1<<16), n)
			e.Rollout, e.Arm, e.Outcome = one("ro-1", "ro-1", "ro-1", "ro-2", ""), one("stable", "candidate", "candidate", ""), one("ok", "ok", "ok", "failed", "refused", "aborted", "")
			e.Session, e.Tenant, e.Time, e.Decision = one("", "s1", "s2", "s3"), fmt.Sprint("t", r.IntN(24)), 1+r.Int64N(1000), one("allow", "allow", "refuse")
			if r.IntN(3) == 0 { // asked again, perhaps in another conversation and for another tenant
				e.Request = fmt.Sprint("req-", 1+r.IntN(n))
			}
			if r.IntN(10) == 0 {
				e.Stage = record.StageAdmitted
			}
			e.Latency = record.Latency{FirstToken: r.Int64N(3) * r.Int64N(1000), Total: r.Int64N(1 << r.IntN(30))}
			e.Usage = record.Usage{CompletionTokens: r.Int64N(100), Cost: r.Int64N(2) * 4_000_000_000}
			return e
		}
		same := func(since int64) {
			t.Helper()
			for _, arm := range []string{"stable", "candidate"} {
				got, err := reader.InChunks(1+r.IntN(9)).ArmSums(t.Context(), "ro-1", arm, since)
				if err != nil {
					t.Fatal(err)
				}
				want, err := reader.FullArmSums(t.Context(), "ro-1", arm, since)
				if err != nil {
					t.Fatal(err)
				}
				if diff := differ(got, want); diff != "" {
					t.Fatalf("after %d records, %s since %d: %s\n%+v\nwant\n%+v", n, arm, since, diff, got, want)
				}
			}
		}
		since := func() int64 { return []int64{1, 200, 500, 900}[r.IntN(4)] }
		for range 40 {
			var events []record.Event
			for range r.IntN(12) {
				events = append(events, draw())
			}
			ship(r.IntN(2), events...)
			switch r.IntN(6) {
			case 0:
				if err := reader.ForgetArmSums(t.Context(), "ro-1", since(), since()); err != nil {
					t.Fatal(err)
				}
			case 1, 2:
				if err := reader.InChunks(1+r.IntN(5)).CountOnce(t.Context(), "ro-1", since()); err != nil {
					t.Fatal(err)
				}
			default:
				same(since())
			}
		}
		stillCounting(t, db, reader)
		var all sync.WaitGroup // replicas ship and evaluate at once, and windows are opened meanwhile
		if err := reader.ForgetArmSums(t.Context(), "ro-1"); err != nil {
			t.Fatal(err)
		}
		drawn := make([][]record.Event, 2)
		for i := range 60 {
			drawn[i%2] = append(drawn[i%2], draw())
		}
		for i := range drawn {
			all.Go(func() {
				for part := range slices.Chunk(drawn[i], 5) {
					ship(i, part...)
				}
			})
			all.Go(func() {
				for k := range int64(10) {
					if _, err := reader.InChunks(3).ArmSums(t.Context(), "ro-1", "stable", 100*k+1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for k := range int64(10) {
			same(100*k + 1)
		}
		pruned(t, db, reader)
		same(1)
		must(t, db.Exec("UPDATE audit_arm_windows SET opened = ?", time.Now().Add(-91*24*time.Hour).UnixMicro()).Error)
		must(t, reader.ForgetArmSums(t.Context(), "another"))
		for _, table := range []string{"audit_arm_windows", "audit_arm_units", "audit_arm_news"} {
			var left int64
			if err := db.Table(table).Count(&left).Error; err != nil || left > 0 {
				t.Errorf("%s: %d rows are left, %v", table, left, err)
			}
		}
	})
}

// stillCounting cuts calls off: one says that it is still counting if it got somewhere with what was there before, and not if it did not or if there is
// nothing of that left.
func stillCounting(t *testing.T, db *gorm.DB, reader *search.Reader) {
	t.Helper()
	if err := reader.ForgetArmSums(t.Context(), "ro-1"); err != nil {
		t.Fatal(err)
	}
	cutAfter := func(chunks int) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := 0
		must(t, db.Callback().Update().After("gorm:update").Register("cut", func(tx *gorm.DB) {
			if tx.Statement.Table == "audit_arm_windows" {
				if done++; done > chunks {
					cancel()
				}
			}
		}))
		defer func() { must(t, db.Callback().Update().Remove("cut")) }()
		_, err := reader.InChunks(2).ArmSums(ctx, "ro-1", "stable", 1)
		return err
	}
	if err := cutAfter(0); err == nil || errors.Is(err, search.ErrCounting) {
		t.Errorf("cut off at once: %v", err)
	}
	if err := cutAfter(2); !errors.Is(err, search.ErrCounting) {
		t.Errorf("cut off after two chunks: %v", err)
	}
	if err := cutAfter(math.MaxInt); err != nil {
		t.Error(err)
	}
	news := "INSERT INTO audit_arm_news (rollout, time, id) SELECT rollout, time, 'gone' || id FROM audit_events WHERE rollout = 'ro-1' LIMIT 8" // as many
	must(t, db.Exec(news).Error)
	if err := cutAfter(2); err == nil || errors.Is(err, search.ErrCounting) {
		t.Errorf("cut off among what came: %v", err)
	}
}

// pruned opens a window while a pruning goes on: on PostgreSQL that waits, so that it does not count what goes. SQLite has one writer.
func pruned(t *testing.T, db *gorm.DB, reader *search.Reader) {
	t.Helper()
	if database.IsSQLite(db) {
		return
	}
	must(t, reader.ForgetArmSums(t.Context(), "ro-1"))
	must(t, reader.ForgetArmSums(t.Context(), "ro-2"))
	must(t, db.Transaction(func(tx *gorm.DB) error {
		if err := search.ForgetArmSumsUpTo(tx, 1000); err != nil {
			return err
		}
		start := time.Now()
		if _, err := reader.ArmSums(t.Context(), "ro-1", "stable", 1); err == nil || time.Since(start) > 8*time.Second {
			t.Errorf("a window was opened while records went: %v", err)
		}
		return nil
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// differ says what differs; sums of squares above 2⁵³ depend on the order in which a database adds.
func differ(a, b search.ArmSums) string {
	near := func(x, y search.RatioSums) bool {
		for i, v := range []float64{x.Y, x.N, x.YY, x.YN, x.NN} {
			if w := []float64{y.Y, y.N, y.YY, y.YN, y.NN}[i]; math.Abs(v-w) > 1e-12*math.Abs(w) {
				return false
			}
		}
		return true
	}
	switch {
	case !near(a.Failures, b.Failures):
		return "failures"
	case !near(a.Refusals, b.Refusals):
		return "refusals"
	case !near(a.Tokens, b.Tokens):
		return "tokens"
	case !near(a.Cost, b.Cost):
		return "cost"
	case !near(a.Slow, b.Slow):
		return "slow"
	case !reflect.DeepEqual(a.FirstToken, b.FirstToken) || !reflect.DeepEqual(a.Total, b.Total):
		return "latencies"
	case !reflect.DeepEqual(a.Tenants, b.Tenants):
		return "tenants"
	}
	return ""
}
