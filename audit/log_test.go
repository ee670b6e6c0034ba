package audit

import (
	"context"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestAppendShipSealVerify(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var sunk []string
		book := func(_ *gorm.DB, e Event) error { sunk = append(sunk, e.ID); return nil }
		l := openTest(t, testConfig(t.TempDir()), db, eachEvent(book), durable.OS{})
		receipts := appendN(t, l, 0, 700)
		flush(t, l)
		r := mustVerify(t, l, db)
		if r.Records != 700 || r.Sealed != 700 || r.CheckpointSize != 700 {
			t.Errorf("report %+v", r)
		}
		if len(sunk) != 700 {
			t.Errorf("the sink saw %d events", len(sunk))
		}
		for i := range 5 {
			id := receipts[i*100].ID
			e, err := l.Get(t.Context(), id)
			if err != nil || e.Index < 0 {
				t.Fatalf("get: %+v, %v", e, err)
			}
			p, err := l.Prove(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			got, err := evidence.VerifyProof(l.VerifierKey(), p)
			if err != nil || got.ID != id {
				t.Fatalf("proof: %+v, %v", got, err)
			}
		}
	})
}

// TestSurvivesReopen ships what an earlier run left behind, once.
func TestSurvivesReopen(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		counts := map[string]int{}
		book := func(_ *gorm.DB, e Event) error { counts[e.ID]++; return nil }
		cfg := testConfig(t.TempDir())
		var ids []string
		for run := range 3 {
			l := openTest(t, cfg, db, eachEvent(book), durable.OS{})
			for _, r := range appendN(t, l, run*100, 100) {
				ids = append(ids, r.ID)
			}
			if run == 1 { // shipped and sealed, but the segment is still there
				flush(t, l)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		l := openTest(t, cfg, db, eachEvent(book), durable.OS{})
		flush(t, l)
		mustVerify(t, l, db)
		for _, id := range ids {
			if counts[id] != 1 {
				t.Errorf("record %s was sunk %d times", id, counts[id])
			}
		}
		if segs := l.wal.Segments(); len(segs) != 0 {
			t.Errorf("segments of earlier runs stay: %+v", segs)
		}
	})
}

// TestDatabaseAway appends while the database is closed and ships after it is back.
func TestDatabaseAway(t *testing.T) {
	path := t.TempDir() + "/a.db"
	cfg := testConfig(t.TempDir())
	db := openMigrated(t, path)
	if err := database.Close(db); err != nil {
		t.Fatal(err)
	}
	l := openTest(t, cfg, db, nil, durable.OS{})
	receipts := appendN(t, l, 0, 50)
	if err := l.Flush(t.Context()); err == nil {
		t.Fatal("flush succeeded without a database")
	}
	if err := l.Ready(); err != nil {
		t.Errorf("not ready although the write-ahead log has room: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	db = openMigrated(t, path)
	l = openTest(t, cfg, db, nil, durable.OS{})
	flush(t, l)
	mustVerify(t, l, db)
	ids := searchIDs(t, l, search.Query{Limit: 500})
	for _, r := range receipts {
		if !slices.Contains(ids, r.ID) {
			t.Errorf("record %s was lost", r.ID)
		}
	}
}

func searchIDs(t testing.TB, l *Log, q search.Query) []string {
	t.Helper()
	var ids []string
	for {
		p, err := l.Search(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Events {
			ids = append(ids, e.ID)
		}
		if p.Next == "" {
			return ids
		}
		q.Cursor = p.Next
	}
}
