package audit

import (
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func drainedOf(t *testing.T, db *gorm.DB, writer string) int64 {
	t.Helper()
	var at int64
	if err := db.Raw("SELECT drained FROM audit_writers WHERE writer = ?", writer).Row().Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestStatus: what waits is counted and dated, also what an earlier run left, and Drain says of both runs what is known of them.
func TestStatus(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		cfg := testConfig(t.TempDir())
		l := openTest(t, cfg, db, nil, durable.OS{})
		status := func(l *Log) Status {
			t.Helper()
			s, err := l.Status()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		if s := status(l); s.Waiting != 0 || s.Checkpoint.Size != 0 {
			t.Errorf("an empty log: %+v", s)
		}
		appendN(t, l, 0, 7)
		if s := status(l); s.Waiting != 7 {
			t.Errorf("7 records wait: %+v", s)
		}
		flush(t, l)
		if s := status(l); s.Waiting != 0 || s.Oldest != 0 || s.Checkpoint.Size != 7 || s.Seen.IsZero() {
			t.Errorf("all are sealed: %+v", s)
		}
		appendN(t, l, 7, 3)
		former := l.Writer()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}

		next := openTest(t, cfg, db, nil, durable.OS{})
		if s := status(next); s.Waiting != 10 { // it does not know yet what the run before it shipped
			t.Errorf("a second run: %+v", s)
		}
		appendN(t, next, 10, 1)
		before := next.now().UnixMicro()
		if err := next.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := status(next); s.Waiting != 0 {
			t.Errorf("drained: %+v", s)
		}
		if at := drainedOf(t, db, former); at != store.Forever {
			t.Errorf("the run before is over: %d", at)
		}
		if at := drainedOf(t, db, next.Writer()); at < before || at == store.Forever {
			t.Errorf("this run is shipped up to %d, want %d", at, before)
		}
		if n, err := next.Unsealed(t.Context()); err != nil || n != 4 {
			t.Errorf("unsealed: %d, %v", n, err)
		}
	})
}

// TestStatusWhileTheDatabaseIsAway: nothing of what is durable here is called shipped, and its age shows.
func TestStatusWhileTheDatabaseIsAway(t *testing.T) {
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	appendN(t, l, 0, 1)
	flush(t, l)
	if err := db.Exec("ALTER TABLE audit_events RENAME TO away").Error; err != nil {
		t.Fatal(err)
	}
	r := appendN(t, l, 1, 5)
	if err := l.Drain(t.Context()); err == nil {
		t.Fatal("drained without a database")
	}
	s, err := l.Status()
	if err != nil || s.Waiting != 5 || s.Oldest == 0 {
		t.Errorf("%+v, %v (%v)", s, err, r)
	}
	if at := drainedOf(t, db, l.Writer()); at != 0 {
		t.Errorf("drained up to %d", at)
	}
}

// TestBillAgain: what the sink refused is offered once more; a second refusal, or a failure of what belongs to it, changes nothing.
func TestBillAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.Exec("CREATE TABLE booked (id TEXT PRIMARY KEY)").Error; err != nil {
			t.Fatal(err)
		}
		refuse := true
		book := func(tx *gorm.DB, e Event) error {
			if refuse {
				return fault.New(fault.CodeConflict, fault.Quote("refused", "拒绝"))
			}
			return tx.Exec("INSERT INTO booked VALUES (?)", e.ID).Error
		}
		l := openTest(t, testConfig(t.TempDir()), db, eachEvent(book), durable.OS{})
		for i := range 3 {
			e := recordtest.Sample(i)
			if _, err := l.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, l)
		first, err := l.Unbilled(t.Context(), Unbilled{}, 2)
		if err != nil || len(first) != 2 {
			t.Fatalf("%v, %v", first, err)
		}
		rest, err := l.Unbilled(t.Context(), first[1], 10)
		if err != nil || len(rest) != 1 || rest[0].Cause != string(fault.CodeConflict) || rest[0].Event.ID == "" {
			t.Fatalf("%+v, %v", rest, err)
		}
		nothing := func(*gorm.DB) error { return nil }
		if billed, err := l.Bill(t.Context(), rest[0], nothing); billed || !fault.Is(err, fault.CodeConflict) {
			t.Errorf("refused again: %v, %v", billed, err)
		}
		refuse = false
		if billed, err := l.Bill(t.Context(), rest[0], func(*gorm.DB) error { return durabletest.ErrInjected }); billed || err == nil {
			t.Errorf("what belongs to it failed: %v, %v", billed, err)
		}
		count := func(query string) (n int64) {
			if err := db.Raw(query).Scan(&n).Error; err != nil {
				t.Fatal(err)
			}
			return n
		}
		if u, b := count("SELECT COUNT(*) FROM audit_unbooked"), count("SELECT COUNT(*) FROM booked"); u != 3 || b != 0 {
			t.Errorf("unbooked %d, billed %d", u, b)
		}
		if billed, err := l.Bill(t.Context(), rest[0], nothing); !billed || err != nil {
			t.Errorf("taken: %v, %v", billed, err)
		}
		if billed, err := l.Bill(t.Context(), rest[0], nothing); billed || err != nil {
			t.Errorf("a second time: %v, %v", billed, err)
		}
		if u, b := count("SELECT COUNT(*) FROM audit_unbooked"), count("SELECT COUNT(*) FROM booked"); u != 2 || b != 1 {
			t.Errorf("unbooked %d, billed %d", u, b)
		}
	})
}
