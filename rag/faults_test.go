package rag

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// long returns a text of many chunks that all contain word.
func long(word string) string {
	return strings.Repeat(strings.Repeat(word+" filler text. ", 20)+"\n\n", 80)
}

func TestIngestIsAtomic(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		e := newHashed()
		s := service(t, db, e)
		create(t, s, "acme", "kb")
		ingest(t, s, "kb", "a.txt", "old words")
		replaceFails := func(code fault.Code) {
			t.Helper()
			_, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte(long("new"))})
			wantCode(t, err, code)
			wantTexts(t, find(t, s, "kb", "old new"), "old words")
			wantTexts(t, find(t, service(t, db, newHashed()), "kb", "old new"), "old words")
		}
		e.failAt(2) // the second batch
		replaceFails(fault.CodeRetrievalFailed)
		e.wrong = true
		_, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("new")})
		wantCode(t, err, fault.CodeRetrievalFailed)
		e.wrong = false

		inserts := 0
		name := "test:fail"
		if err := db.Callback().Create().Before("gorm:create").Register(name, func(tx *gorm.DB) {
			if tx.Statement.Table == "rag_chunks" {
				if inserts++; inserts == 2 { // the second batch of chunks
					_ = tx.AddError(errInjected)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		body := long("new") + long("new") + long("new")
		_, err = s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte(body)})
		wantCode(t, err, fault.CodeDatabaseUnavailable)
		if inserts < 2 {
			t.Errorf("only %d batches were written", inserts)
		}
		wantTexts(t, find(t, s, "kb", "old new"), "old words")
		wantTexts(t, find(t, service(t, db, newHashed()), "kb", "old new"), "old words")
		if err := db.Callback().Create().Remove(name); err != nil {
			t.Fatal(err)
		}
		if in := ingest(t, s, "kb", "a.txt", long("new")); in.Version != "v2" || in.Chunks < 40 {
			t.Errorf("ingested %+v", in)
		}
		for _, p := range find(t, s, "kb", "old new") {
			if p.Version != "v2" {
				t.Errorf("found %+v", p)
			}
		}
	})
}

func TestErrorsAreNotEmptyAnswers(t *testing.T) {
	db := dbtest.SQLite(t)
	e := newHashed()
	s := service(t, db, e)
	create(t, s, "acme", "kb")
	f := failStore(t, s, "kb")
	in := ingest(t, s, "kb", "a.txt", "first words")
	q := Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5}

	e.failAt(1)
	_, err := s.Search(t.Context(), q)
	wantCode(t, err, fault.CodeRetrievalFailed)

	f.set(&f.prepare, true)
	_, err = s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("second words")})
	wantCode(t, err, fault.CodeRetrievalFailed)
	wantTexts(t, find(t, s, "kb", "words"), "first words")
	wantTexts(t, find(t, service(t, db, e), "kb", "words"), "first words") // nothing is stored that cannot be indexed
	ingest(t, service(t, db, e), "kb", "a.txt", "second words")
	if err := s.follow(t.Context()); err == nil {
		t.Error("following succeeded without indexing")
	}
	f.set(&f.prepare, false)
	follow(t, s)
	wantTexts(t, find(t, s, "kb", "words"), "second words")

	// What is stored and cannot be told to the store here is not answered wrongly: nothing is, until it was opened again.
	for _, act := range []func() error{
		func() error {
			_, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: true}})
			return err
		},
		func() error { return s.DeleteDocument(t.Context(), "acme", "kb", "a.txt") },
	} {
		f.set(&f.apply, true)
		if err := act(); err != nil {
			t.Fatal(err)
		}
		_, err = s.Search(t.Context(), q)
		wantCode(t, err, fault.CodeRetrievalFailed)
		_, err = s.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "kb", DocumentID: in.ID, Version: "v2"})
		wantCode(t, err, fault.CodeRetrievalFailed)
		follow(t, s)
		wantTexts(t, find(t, s, "kb", "words"))
		f = failStore(t, s, "kb")
	}
	ingest(t, s, "kb", "b.txt", "third words")
	f.set(&f.apply, true)
	_, err = s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "b.txt", Body: []byte("fourth words")})
	wantCode(t, err, fault.CodeRetrievalFailed)
	_, err = s.Search(t.Context(), q)
	wantCode(t, err, fault.CodeRetrievalFailed)
	follow(t, s)
	wantTexts(t, find(t, s, "kb", "words"), "fourth words")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Search(ctx, q)
	wantCode(t, err, fault.CodeRetrievalFailed)
}

func TestDamagedRowsFailClosed(t *testing.T) {
	for name, sql := range map[string]string{
		"labels null":  "UPDATE rag_documents SET labels = 'null' WHERE name = 'a.txt'",
		"labels empty": "UPDATE rag_documents SET labels = '' WHERE name = 'a.txt'",
		"offsets":      "UPDATE rag_chunks SET end_at = 999 WHERE document = (SELECT id FROM rag_documents WHERE name = 'a.txt')",
		"vector":       "UPDATE rag_chunks SET vector = X'010203' WHERE document = (SELECT id FROM rag_documents WHERE name = 'a.txt')",
	} {
		t.Run(name, func(t *testing.T) {
			db := dbtest.SQLite(t)
			s := service(t, db, newHashed())
			create(t, s, "acme", "kb")
			ingest(t, s, "kb", "a.txt", "private words", "board")
			ingest(t, s, "kb", "b.txt", "public words")
			if err := db.Exec(sql).Error; err != nil {
				t.Fatal(err)
			}
			s = service(t, db, newHashed())
			_, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5})
			wantCode(t, err, fault.CodeRetrievalFailed)
			ingest(t, s, "kb", "a.txt", "private words", "board") // the remedy
			wantTexts(t, find(t, s, "kb", "words"), "public words")
			if err := db.Exec(sql).Error; err != nil {
				t.Fatal(err)
			}
			s = service(t, db, newHashed())
			if err := s.DeleteDocument(t.Context(), "acme", "kb", "a.txt"); err != nil { // the other remedy
				t.Fatal(err)
			}
			wantTexts(t, find(t, s, "kb", "words"), "public words")
		})
	}
}

// TestTextsLongerThanTheModelTakes embeds chunks and queries that exceed the model's context, among others that do not. What stands
// at the end of a chunk counts like the rest.
func TestTextsLongerThanTheModelTakes(t *testing.T) {
	e := newHashed()
	e.limit = 40
	s := service(t, dbtest.SQLite(t), e)
	create(t, s, "acme", "kb")
	ingest(t, s, "kb", "long.txt", strings.Repeat("一二三四五六七八九十", 30)+"户口迁移")
	ingest(t, s, "kb", "short.md", "# a\n\nshort\n\n# b\n\n"+strings.Repeat("long text of words ", 9)+"\n\n# c\n\nshort again")
	if got := find(t, s, "kb", strings.Repeat("户口迁移", 40)); got[0].Document != "long.txt" {
		t.Errorf("found %+v", got[0])
	}
	vectors, err := s.embed(t.Context(), e.Embed, []string{"户口", strings.Repeat("一二三四五六七八九十", 7) + "户口户口户口户口户口户口户口"}, false)
	if err != nil {
		t.Fatal(err)
	}
	together := float32(0)
	for i := range vectors[0] {
		together += vectors[0][i] * vectors[1][i]
	}
	if together <= 0 {
		t.Error("the end of a long text was left out")
	}
	e.limit = 1
	e.failAt(0)
	if _, err := s.embed(t.Context(), e.Embed, []string{"ab"}, false); err != nil {
		t.Errorf("single characters fit: %v", err)
	}
}

// TestConcurrentUse ingests, deletes, searches and follows at once. A search sees one version of a document, whole.
func TestConcurrentUse(t *testing.T) {
	db := dbtest.SQLite(t)
	s, other := service(t, db, newHashed()), service(t, db, newHashed())
	create(t, s, "acme", "kb")
	follow(t, other)
	body := func(v int) []byte {
		return []byte(fmt.Sprintf("# one\n\nversion %d common\n\n# two\n\nversion %d common\n", v, v))
	}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for _, r := range []*library{s, other, s} {
		readers.Go(func() {
			for {
				got, err := r.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "common version", TopK: 5})
				if err != nil {
					t.Errorf("search: %v", err)
					return
				}
				if n := len(got); n != 0 && n != 2 || n == 2 && got[0].Version != got[1].Version {
					t.Errorf("saw half a document: %+v", got)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	readers.Go(func() {
		for {
			if err := other.follow(t.Context()); err != nil && !strings.Contains(err.Error(), errChanged.Error()) {
				t.Errorf("follow: %v", err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for w := range 2 {
		writers.Go(func() {
			for i := range 15 {
				if i%5 == 4 {
					_ = s.DeleteDocument(t.Context(), "acme", "kb", "d.md") // may be gone already
					continue
				}
				if _, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "d.md", Body: body(w*100 + i)}); err != nil {
					t.Errorf("ingest: %v", err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// TestStaleCollectionsAreNotSearched takes the database away, and then lets one index fail: what is behind is searched for MaxStale,
// refused, and searched again when it has caught up. An index that fails alone is refused alone.
func TestStaleCollectionsAreNotSearched(t *testing.T) {
	var faults dbtest.Faults
	db := dbtest.SQLite(t)
	s := service(t, faults.Over(db), newHashed())
	now := time.Now()
	s.now = func() time.Time { return now }
	create(t, s, "acme", "other")
	create(t, s, "acme", "kb")
	f := failStore(t, s, "kb")
	ingest(t, s, "kb", "a.txt", "first words")
	search := func(collection string) error {
		_, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: collection, Text: "words", TopK: 5})
		return err
	}
	searched := func() {
		t.Helper()
		if err := errors.Join(s.freshness.Refresh(t.Context()), search("kb"), search("other")); err != nil {
			t.Error(err)
		}
	}
	searched()
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	now = now.Add(snapshot.DefaultMaxAge)
	if s.freshness.Refresh(t.Context()) == nil {
		t.Error("a look at a database that is away must fail")
	}
	if err := search("kb"); err != nil {
		t.Error("a short outage must not stop searches:", err)
	}
	now = now.Add(time.Second)
	wantCode(t, search("kb"), fault.CodeRetrievalFailed)
	wantCode(t, search("other"), fault.CodeRetrievalFailed)
	faults.Set(nil)
	searched()

	f.set(&f.prepare, true)
	ingest(t, service(t, db, newHashed()), "kb", "a.txt", "second words")
	searched() // it is behind from now on
	now = now.Add(snapshot.DefaultMaxAge + time.Second)
	if err := errors.Join(s.freshness.Refresh(t.Context()), search("other")); err != nil {
		t.Error("a collection that is not behind is searched:", err)
	}
	wantCode(t, search("kb"), fault.CodeRetrievalFailed)
	f.set(&f.prepare, false)
	searched()
}
