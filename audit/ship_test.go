package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestSinkFailsForAWhile holds back everything while the sink fails, and then bills each event once.
func TestSinkFailsForAWhile(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		failing := true
		book := func(tx *gorm.DB, e Event) error {
			if failing && e.Request == "req-7" {
				return durabletest.ErrInjected
			}
			return countEvent(tx, e)
		}
		l := openTest(t, testConfig(t.TempDir()), db, eachEvent(book), durable.OS{})
		appendN(t, l, 0, 20)
		for range 2 {
			if err := l.Flush(t.Context()); !errors.Is(err, durabletest.ErrInjected) {
				t.Fatalf("flush: %v", err)
			}
			if n := count(t, db, "installation_settings") + count(t, db, "audit_events"); n != 0 {
				t.Fatalf("%d rows of a failed transaction stay", n)
			}
		}
		failing = false
		flush(t, l)
		mustVerify(t, l, db)
		if e, b := count(t, db, "audit_events"), count(t, db, "installation_settings"); e != 20 || b != 20 {
			t.Errorf("%d events, %d billed", e, b)
		}
	})
}

// TestSinkRefusesForGood stores the event, bills the others, and lists the refused one.
func TestSinkRefusesForGood(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		book := func(tx *gorm.DB, e Event) error {
			if e.Request == "req-7" || e.Request == "req-9" {
				// The statement error leaves the transaction unusable on PostgreSQL unless a savepoint holds it.
				if err := tx.Exec("INSERT INTO no_such_table VALUES (1)").Error; err == nil {
					t.Error("no error")
				}
				return fault.New(fault.CodeConflict, "the request was billed differently")
			}
			return countEvent(tx, e)
		}
		l := openTest(t, testConfig(t.TempDir()), db, eachEvent(book), durable.OS{})
		appendN(t, l, 0, 20)
		flush(t, l)
		r := mustVerify(t, l, db)
		if e, b, u := count(t, db, "audit_events"), count(t, db, "installation_settings"), count(t, db, "audit_unbooked"); e != 20 || b != 18 || u != 2 {
			t.Errorf("%d events, %d billed, %d unbooked", e, b, u)
		}
		if len(r.Findings) != 2 || r.Findings[0].Kind != "unbooked" {
			t.Errorf("findings %+v", r.Findings)
		}
	})
}

// TestDuplicateDelivery ships the same records twice, as after a commit whose answer was lost, and refuses a changed one.
func TestDuplicateDelivery(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, countingSink, durable.OS{})
		appendN(t, l, 0, 30)
		seg := l.wal.Segments()[0]
		frames, _, err := seg.Read(&wal.Room{})
		must(t, err)
		for _, part := range [][]wal.Record{frames[:10], frames[:10], frames[5:20], frames} {
			if _, err := l.store.Ship(t.Context(), seg.Writer, part); err != nil {
				t.Fatal(err)
			}
		}
		if b := count(t, db, "installation_settings"); b != 30 {
			t.Errorf("%d billed", b)
		}
		forged := wal.Record{Seq: frames[3].Seq, Payload: []byte(`{"schema":1,"id":"x","stage":"action","time":1}`)}
		if _, err := l.store.Ship(t.Context(), seg.Writer, []wal.Record{forged}); err == nil {
			t.Error("another payload under a shipped sequence was taken")
		}
		flush(t, l)
		mustVerify(t, l, db)
	})
}

// TestTwoReplicas runs two logs over one database whose clocks are a minute apart, so that each takes the lease from the other all
// the time: the worst case of a paused sealer. One tree comes out.
func TestTwoReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var logs []*Log
		var loops, writers sync.WaitGroup
		var skew atomic.Int64
		for range 2 {
			cfg := testConfig(t.TempDir())
			cfg.ShipEvery, cfg.CheckpointEvery = time.Millisecond, time.Millisecond
			l := openTest(t, cfg, db, countingSink, durable.OS{})
			l.now = func() time.Time { return time.Now().Add(time.Duration(skew.Add(1)) * time.Minute) }
			logs = append(logs, l)
			loops.Go(func() {
				if err := l.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			writers.Go(func() { appendN(t, l, 0, 300) })
		}
		writers.Wait()
		for _, l := range logs {
			flush(t, l)
		}
		cancel()
		loops.Wait()
		for _, l := range logs {
			if r := mustVerify(t, l, db); r.Sealed != 600 {
				t.Errorf("sealed %d", r.Sealed)
			}
		}
		if b := count(t, db, "installation_settings"); b != 600 {
			t.Errorf("%d billed", b)
		}
	})
}

func TestLeaseKeepsOneSealer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		b := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		appendN(t, a, 0, 3)
		flush(t, a)
		appendN(t, b, 0, 3)
		if err := b.pass(t.Context(), true); !errors.Is(err, seal.ErrNotSealer) {
			t.Fatalf("the second replica sealed: %v", err)
		}
		b.now = func() time.Time { return time.Now().Add(2 * store.LeaseFor) } // the first one is silent for long enough
		flush(t, b)
		appendN(t, a, 3, 1)
		if err := a.pass(t.Context(), true); !errors.Is(err, seal.ErrNotSealer) {
			t.Fatalf("the paused replica sealed after it was replaced: %v", err)
		}
		must(t, b.Close()) // gives the lease back
		flush(t, a)
		if r := mustVerify(t, a, db); r.Sealed != 7 {
			t.Errorf("sealed %d", r.Sealed)
		}
	})
}

// TestRecoverOverAnother copies the segments of a replica that never came back into another's directory.
func TestRecoverOverAnother(t *testing.T) {
	db := dbtest.SQLite(t)
	lost, heir := testConfig(t.TempDir()), testConfig(t.TempDir())
	l := openTest(t, lost, db, countingSink, durable.OS{})
	appendN(t, l, 0, 9)
	must(t, l.Close())
	must(t, os.MkdirAll(wal.Dir(heir.Dir), 0o700))
	for _, s := range l.wal.Segments() {
		b, err := os.ReadFile(s.Path)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(wal.Dir(heir.Dir), filepath.Base(s.Path)), b, 0o600))
	}
	h := openTest(t, heir, db, countingSink, durable.OS{})
	appendN(t, h, 10, 4)
	flush(t, h)
	if r := mustVerify(t, h, db); r.Sealed != 13 {
		t.Errorf("sealed %d", r.Sealed)
	}
	again := openTest(t, lost, db, countingSink, durable.OS{}) // it came back after all
	flush(t, again)
	if b := count(t, db, "installation_settings"); b != 13 {
		t.Errorf("%d billed", b)
	}
}

// TestVerifyWhileRunning verifies over and over while two goroutines append and the loop ships, seals and retires.
func TestVerifyWhileRunning(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		cfg := testConfig(t.TempDir())
		cfg.ShipEvery, cfg.CheckpointEvery, cfg.SegmentBytes = time.Millisecond, 2*time.Millisecond, 4096
		l := openTest(t, cfg, db, nil, durable.OS{})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = l.Run(ctx) })
		for w := range 2 {
			all.Go(func() {
				for n := 0; n < 400; n++ {
					if _, err := l.Append(context.WithoutCancel(ctx), recordtest.Sample(w*1000+n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 10 {
			mustVerify(t, l, db)
		}
		cancel()
		all.Wait()
		flush(t, l)
		mustVerify(t, l, db)
	})
}

// TestDanglingAdmitted lists an admitted request without an outcome and does not call it tampering.
func TestDanglingAdmitted(t *testing.T) {
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	for i := range 3 {
		e := recordtest.Sample(i)
		e.Stage = StageAdmitted
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	appendN(t, l, 0, 1)
	flush(t, l)
	appendN(t, l, 1, 1) // its outcome is only in the write-ahead log
	r := mustVerify(t, l, db)
	if len(r.Findings) != 1 || r.Findings[0].Kind != "unfinished" || r.Findings[0].Cause != "request req-2 was admitted and has no outcome; it may have been answered, and what this record says is billed" {
		t.Errorf("findings %+v", r.Findings)
	}
}

func count(t testing.TB, db *gorm.DB, table string) int64 {
	t.Helper()
	var n int64
	rows := db.Table(table)
	if table == "installation_settings" { // which is the table of countEvent, and has a row of a migration
		rows = rows.Where("name <> 'sla_counted_since'")
	}
	if err := rows.Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}
