package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestPausedSealer stops a sealer in the middle of its transaction, at each table that it writes, while another replica takes over. On
// PostgreSQL the database ends the silent one's transaction; SQLite, whose replicas share a machine, waits for it. Either way one tree
// comes out, and the paused one finds its place in it.
func TestPausedSealer(t *testing.T) {
	for _, table := range []string{"audit_leaves", "audit_hashes", "audit_writers", "audit_checkpoints", "commit"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db *gorm.DB) { testPausedSealer(t, db, table) })
		})
	}
}

func testPausedSealer(t *testing.T, db *gorm.DB, table string) {
	faulty := &dbtest.Faults{}
	a := openTest(t, testConfig(t.TempDir()), faulty.Over(db), countingSink, durable.OS{})
	b := openTest(t, testConfig(t.TempDir()), db, countingSink, durable.OS{})
	b.now = func() time.Time { return time.Now().Add(2 * store.LeaseFor) }
	appendN(t, a, 0, 5)
	appendN(t, b, 10, 4)
	a.work.Lock()
	must(t, a.ship(t.Context()))
	a.work.Unlock()
	must(t, b.pass(t.Context(), false)) // ships only

	paused, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	faulty.Set(func(op string) durabletest.Mode {
		if op == table || writes(op, table) {
			once.Do(func() { close(paused); <-resume })
		}
		return durabletest.Healthy
	})
	done := passUntil(t, a, faulty, paused)
	if database.IsSQLite(db) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := b.pass(ctx, true); err == nil {
			t.Error("two replicas sealed at once")
		}
		cancel()
	} else {
		flush(t, b) // waits until the database has ended a's session
		if r := mustVerify(t, b, db); r.Sealed != 9 {
			t.Errorf("sealed %d while the first sealer is paused, want 9", r.Sealed)
		}
	}
	close(resume)
	if err := <-done; database.IsSQLite(db) != (err == nil) {
		t.Errorf("the paused sealer: %v", err)
	}
	faulty.Rewrite = nil
	faulty.Set(nil)
	appendN(t, a, 20, 2)
	appendN(t, b, 30, 2)
	for _, l := range []*Log{a, b} {
		l.now = func() time.Time { return time.Now().Add(4 * store.LeaseFor) }
		flush(t, l)
		must(t, seal.Release(t.Context(), l.store.DB, l.wal.Writer))
	}
	for _, l := range []*Log{a, b} {
		if r := mustVerify(t, l, db); r.Sealed != 13 || count(t, db, "installation_settings") != 13 {
			t.Errorf("%+v", r)
		}
	}
}

// passUntil begins a pass that is to pause, and returns when it has, with where its error comes. In this pass alone PostgreSQL waits for a second instead of ten for what is silent: a
// machine under load is silent for as long without being paused.
func passUntil(t *testing.T, l *Log, faulty *dbtest.Faults, paused <-chan struct{}) <-chan error {
	t.Helper()
	faulty.Rewrite = strings.NewReplacer("idle_in_transaction_session_timeout = 10000", "idle_in_transaction_session_timeout = 3000")
	done := make(chan error, 1)
	go func() { done <- l.pass(t.Context(), true) }()
	select {
	case <-paused:
	case err := <-done:
		t.Fatalf("the pass has not paused: %v", err)
	}
	return done
}

// TestPausedShipper stops a replica in the middle of shipping while it holds the row of a budget that others need as well: the database
// ends its transaction, the others go on, and what it was shipping arrives once.
func TestPausedShipper(t *testing.T) {
	t.Parallel()
	db := dbtest.Postgres(t)
	must(t, db.Exec("INSERT INTO installation_settings (name, value) VALUES ('budget', '0')").Error)
	book := func(tx *gorm.DB, _ Event) error {
		return tx.Exec("UPDATE installation_settings SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE name = 'budget'").Error
	}
	faulty := &dbtest.Faults{}
	a := openTest(t, testConfig(t.TempDir()), faulty.Over(db), eachEvent(book), durable.OS{})
	b := openTest(t, testConfig(t.TempDir()), db, eachEvent(book), durable.OS{})
	appendN(t, a, 0, 5)
	appendN(t, b, 10, 4)
	paused, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	faulty.Set(func(op string) durabletest.Mode {
		if writes(op, "audit_writers") { // after the sink
			once.Do(func() { close(paused); <-resume })
		}
		return durabletest.Healthy
	})
	done := passUntil(t, a, faulty, paused)
	flush(t, b)
	close(resume)
	if err := <-done; err == nil {
		t.Error("the paused replica shipped although its transaction was ended")
	}
	faulty.Rewrite = nil
	must(t, seal.Release(t.Context(), b.store.DB, b.wal.Writer))
	flush(t, a)
	var total string
	must(t, db.Raw("SELECT value FROM installation_settings WHERE name = 'budget'").Scan(&total).Error)
	if r := mustVerify(t, a, db); r.Sealed != 9 || total != "9" {
		t.Errorf("%s billed, %+v", total, r)
	}
}

// TestSilentDatabase ships through a connection that swallows everything: the step ends by itself, records are taken meanwhile, and the
// next pass, over another connection, delivers them once.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	link := newLink(t, dbtest.PostgresURL(t))
	l := openTest(t, testConfig(t.TempDir()), link.open(t), countingSink, durable.OS{})
	appendN(t, l, 0, 5)
	flush(t, l)
	l.stepTimeout = 100 * time.Millisecond
	link.set(swallow)
	for n := range 3 {
		appendN(t, l, 10+n, 1)
		if err := l.pass(t.Context(), true); !errors.Is(err, errSilent) {
			t.Fatalf("a pass over a dead connection: %v", err)
		}
		if err := l.Ready(); err != nil {
			t.Errorf("not ready although the write-ahead log has room: %v", err)
		}
	}
	l.stepTimeout = time.Minute
	link.set(forward)
	flush(t, l)
	if r := mustVerify(t, l, l.store.DB); r.Sealed != 8 || count(t, l.store.DB, "installation_settings") != 8 {
		t.Errorf("%+v", r)
	}
}

// TestClockJumpsBack sets the clock of the sealer back by hours, to 1971 and ahead by years, and takes the lease with a clock that runs ahead and then
// falls silent. Records stay in the order in which they were made durable, sealing goes on, and the times are what the clock said.
func TestClockJumpsBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, countingSink, durable.OS{})
		var receipts []Receipt
		for i, jump := range []time.Duration{0, 3 * time.Hour, -5 * time.Hour, -55 * 365 * 24 * time.Hour, time.Hour, 10 * 365 * 24 * time.Hour, 0} {
			l.now = func() time.Time { return time.Now().Add(jump) }
			for n := range 3 {
				receipts = append(receipts, appendN(t, l, 10*i+n, 1)...)
			}
			if err := l.pass(t.Context(), true); err != nil { // never errNotSealer: this replica is the only one
				t.Fatalf("after a jump of %v: %v", jump, err)
			}
		}
		flush(t, l)
		mustVerify(t, l, db)
		for i, r := range receipts {
			e, err := l.Get(t.Context(), r.ID)
			if err != nil || e.Index != int64(i) || i > 0 && r.ID <= receipts[i-1].ID {
				t.Errorf("record %d: %+v, %v", i, e, err)
			}
			p, err := l.Prove(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := evidence.VerifyProof(l.VerifierKey(), p); err != nil {
				t.Error(err)
			}
		}
		if ids := searchIDs(t, l, search.Query{Limit: 4}); len(ids) != len(receipts) {
			t.Errorf("a search finds %d of %d", len(ids), len(receipts))
		}

		// The clock of this replica runs an hour ahead, seals, and the replica is gone.
		l.now = func() time.Time { return time.Now().Add(time.Hour) }
		appendN(t, l, 100, 1)
		flush(t, l)
		other := openTest(t, testConfig(t.TempDir()), db, countingSink, durable.OS{})
		appendN(t, other, 200, 1)
		if err := other.pass(t.Context(), true); err != nil {
			t.Errorf("nobody can seal until the clock is where the other one was: %v", err)
		}
		// A clock that is a little ahead keeps its lease.
		other.now = func() time.Time { return time.Now().Add(store.LeaseFor / 2) }
		appendN(t, other, 201, 1)
		flush(t, other)
		appendN(t, l, 300, 1)
		l.now = time.Now
		if err := l.pass(t.Context(), true); !errors.Is(err, seal.ErrNotSealer) {
			t.Errorf("a lease was taken from a holder whose clock is five seconds ahead: %v", err)
		}
	})
}

// TestForkShownToTwoReaders keeps two histories of one log, both signed with its key, and shows each reader one of them. Each finds its own in
// order, as it must; but neither can be shown the other's afterwards, whichever is longer, and what a witness cosigned of the one cannot be
// put under the other.
func TestForkShownToTwoReaders(t *testing.T) {
	for _, more := range []int{0, 1, 300} { // records by which the second history is longer
		t.Run(fmt.Sprintf("%d more", more), func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, first *gorm.DB) {
				second := dbtest.SQLite(t)
				if !database.IsSQLite(first) {
					second = dbtest.Postgres(t)
				}
				w, err := checkpoint.NewWitness("w.example", bytes.Repeat([]byte{7}, 32), time.Now)
				must(t, err)
				readers := map[*gorm.DB]Config{}
				texts := map[*gorm.DB]string{}
				for db, n := range map[*gorm.DB]int{first: 20, second: 20 + more} {
					cfg := testConfig(t.TempDir())
					cfg.Witnesses = []string{w.Key()}
					l := openTest(t, cfg, db, nil, durable.OS{})
					appendN(t, l, 0, n)
					flush(t, l)
					mustVerify(t, l, db)
					texts[db], err = l.Checkpoint(t.Context())
					must(t, err)
					if db == first {
						line, err := w.Cosign(texts[db])
						must(t, err)
						must(t, l.Cosign(t.Context(), checkpoint.Add(texts[db], line)))
						texts[db] = checkpoint.Add(texts[db], line)
					}
					readers[db] = cfg
					must(t, l.Close())
				}
				for mine, other := range map[*gorm.DB]*gorm.DB{first: second, second: first} {
					cfg := readers[mine]
					// Without the records of its own write-ahead log: a reader elsewhere has the checkpoints only.
					must(t, os.RemoveAll(wal.Dir(cfg.Dir)))
					l := openTest(t, cfg, other, nil, durable.OS{})
					appendN(t, l, 900, 1)
					if err := l.Flush(t.Context()); !errors.Is(err, seal.ErrRewritten) {
						t.Errorf("the other history was accepted: %v", err)
					}
					r := verifyLog(t, l, other)
					if r.OK || !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == "fork" || p.Kind == "truncated" }) {
						t.Errorf("%+v", r.Problems)
					}
					if l.Ready() == nil {
						t.Error("ready in front of a forked history")
					}
					if other == second {
						if err := l.Cosign(t.Context(), texts[first]); err == nil {
							t.Error("a cosignature of the first history was taken by the second")
						}
					}
					must(t, l.Close())
				}
			})
		})
	}
}

// writes reports whether op is a statement that changes table.
func writes(op, table string) bool {
	verb, _, _ := strings.Cut(op, " ")
	return (verb == "INSERT" || verb == "UPDATE" || verb == "DELETE") && strings.Contains(op, table)
}
