package rag

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/segment"
)

// onQuery has a function called before each statement that reads a table.
func onQuery(t *testing.T, db *gorm.DB, table string, do func(tx *gorm.DB)) {
	t.Helper()
	name := "test:" + t.Name() + table
	err := db.Callback().Query().Before("gorm:query").Register(name, func(tx *gorm.DB) {
		if tx.Statement.Table == table {
			do(tx)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Callback().Query().Remove(name) })
}

func execute(t *testing.T, db *gorm.DB, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if err := db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
	}
}

// unnoted is a change of a document by who notes none: it is the board's from now on.
func unnoted(t *testing.T, db *gorm.DB, document string) {
	t.Helper()
	execute(t, db,
		"UPDATE rag_changes SET version = version + 1 WHERE name = 'rag'",
		"UPDATE rag_collections SET revision = (SELECT version FROM rag_changes WHERE name = 'rag')",
		"UPDATE rag_documents SET labels = '[\"board\"]', revision = (SELECT version FROM rag_changes WHERE name = 'rag') WHERE id = '"+document+"'")
}

// TestRevocationThatCannotBeFollowedEndsInRefusal: where a right was taken away and this replica cannot read that, the collection is refused after MaxStale,
// however well the rest of it is followed, and searched again when it was read.
func TestRevocationThatCannotBeFollowedEndsInRefusal(t *testing.T) {
	db := dbtest.SQLite(t)
	s, other := service(t, db, newHashed()), service(t, db, newHashed())
	now := time.Now()
	s.now = func() time.Time { return now }
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", "secret words")
	follow(t, s)
	follow(t, other)
	if _, err := other.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Labels: []string{"board"}}); err != nil {
		t.Fatal(err)
	}
	down := true
	onQuery(t, db, "rag_journal", func(tx *gorm.DB) {
		if down {
			_ = tx.AddError(errInjected)
		}
	})
	for range 12 {
		_, _, _ = s.followAccess(t.Context(), 0, true)
		if err := s.freshness.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(snapshot.DefaultMaxAge / 10)
	}
	if err := s.freshness.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5})
	wantCode(t, err, fault.CodeRetrievalFailed)
	down = false
	if err := s.freshness.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, find(t, s, "kb", "words"))
	wantTexts(t, find(t, s, "kb", "words", "board"), "secret words")
}

// TestQuietCollectionsKeepTheirStores: however many changes others had, a replica that stands on the last change of a collection goes on from there; what is
// older is dropped.
func TestQuietCollectionsKeepTheirStores(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, other := service(t, db, newHashed()), service(t, db, newHashed())
		create(t, s, "acme", "kb")
		in := ingest(t, s, "kb", "a.txt", "words of kb")
		follow(t, s)
		follow(t, other)
		reads := contentReads(t, db)
		for range 2 {
			execute(t, db, fmt.Sprintf("UPDATE rag_changes SET version = version + %d WHERE name = 'rag'", keptJournal+1))
			if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{}); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*library{s, other} {
				if _, _, err := s.followAccess(t.Context(), 0, true); err != nil {
					t.Error(err)
				}
				wantTexts(t, find(t, s, "kb", "words"), "words of kb")
			}
		}
		if *reads != 0 {
			t.Errorf("%d versions were read again", *reads)
		}
		var kept int64
		if err := db.Model(&journalRow{}).Count(&kept).Error; err != nil || kept != 2 { // the last change, and the one that replicas stand on
			t.Errorf("%d entries are kept, %v", kept, err)
		}
	})
}

// TestGapInTheJournal: a change without an entry is noticed, whether or not others with entries follow, by a replica that runs, one that starts again and one
// that has nothing: nobody sees what was taken from him.
func TestGapInTheJournal(t *testing.T) {
	for _, more := range []bool{false, true} {
		t.Run(fmt.Sprintf("followed by others %t", more), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
				dir := t.TempDir()
				s, other, stopped := service(t, db, newHashed()), service(t, db, newHashed()), serviceIn(t, dir, db, newHashed())
				create(t, s, "acme", "kb")
				in := ingest(t, s, "kb", "a.txt", "secret words")
				ingest(t, s, "kb", "b.txt", "other words")
				follow(t, s)
				follow(t, other)
				follow(t, stopped)
				if err := stopped.Close(); err != nil {
					t.Fatal(err)
				}
				unnoted(t, db, in.ID)
				if more {
					ingest(t, other, "kb", "c.txt", "third words")
				}
				_, _, _ = s.followAccess(t.Context(), 0, true)
				if got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "secret words", TopK: 5}); err == nil && len(got) > 1 {
					t.Errorf("found %+v", got)
				}
				_ = s.follow(t.Context())
				for _, s := range []*library{s, serviceIn(t, dir, db, newHashed()), service(t, db, newHashed())} {
					for _, p := range find(t, s, "kb", "secret words") {
						if p.DocumentID == in.ID {
							t.Errorf("found %+v", p)
						}
					}
					if got := find(t, s, "kb", "other words"); len(got) == 0 {
						t.Error("nothing else is found")
					}
					if err := s.follow(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestOpeningOutlastsATurn: a store that is made again is made once, however often those who wait for it give up.
func TestOpeningOutlastsATurn(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	for i := range 2 * fillDocuments {
		ingest(t, s, "kb", fmt.Sprintf("%d.txt", i), "words")
	}
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	ci.fail(segment.ErrDamaged)
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	onQuery(t, db, "rag_chunks", func(*gorm.DB) {
		reads++
		cancel() // whoever waits gives up
	})
	_ = s.follow(ctx)
	follow(t, s)
	if got := find(t, s, "kb", "words"); len(got) == 0 {
		t.Error("nothing is found")
	}
	if reads > 2 {
		t.Errorf("read in %d statements", reads)
	}
}

