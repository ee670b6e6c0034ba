package rag

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/segment"
)

// stores counts the stores in a directory.
func stores(t *testing.T, dir string) int {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*", "manifest"))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestFailedStartsKeepStores: whatever a start fails at, what lies on the disk stays, and the next start reads none of it again.
func TestFailedStartsKeepStores(t *testing.T) {
	db, dir := dbtest.SQLite(t), t.TempDir()
	s := serviceIn(t, dir, db, newHashed())
	for _, name := range []string{"a", "b", "c"} {
		create(t, s, "acme", name)
		ingest(t, s, name, "x.txt", "some words")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fails := func(why string, s *library, ctx context.Context) {
		t.Helper()
		if err := s.Load(ctx); err == nil {
			t.Errorf("%s: the start did not fail", why)
		}
		if n := stores(t, dir); n != 3 {
			t.Errorf("%s: %d of 3 stores are left", why, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	again := newService(t, Config{Dir: dir}, db, newHashed())
	var opened atomic.Int64 // stores are opened beside each other
	again.openStore = func(ctx context.Context, cfg segment.Config) (passageStore, error) {
		if opened.Add(1) == 2 {
			signal()
		}
		return segment.Open(ctx, cfg)
	}
	fails("a signal", again, ctx)

	var faults dbtest.Faults
	over := faults.Over(db)
	for n := range 20 { // each statement fails once, and with it the start, until one gets by
		var asked atomic.Int64
		faults.Set(func(string) dbtest.Outcome {
			if asked.Add(1) > int64(n) {
				return dbtest.FailsBefore
			}
			return dbtest.Healthy
		})
		s := newService(t, Config{Dir: dir}, over, newHashed())
		if n < 3 {
			fails("no database", s, t.Context())
			continue
		}
		_ = s.Load(t.Context())
		if left := stores(t, dir); left != 3 {
			t.Fatalf("without a database from statement %d on: %d of 3 stores are left", n, left)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if asked.Load() <= int64(n) {
			break
		}
	}
	faults.Set(nil)

	reads := contentReads(t, db)
	s = serviceIn(t, dir, db, newHashed())
	if *reads != 0 {
		t.Errorf("%d versions were read again", *reads)
	}
	wantTexts(t, find(t, s, "c", "words"), "some words")
}

// TestWhatCannotBeOpenedIsNotSwept: the store of a collection that is in the tables stays, also when it was never opened here, and a purge later. One that is not is
// removed.
func TestWhatCannotBeOpenedIsNotSwept(t *testing.T) {
	db, dir := dbtest.SQLite(t), t.TempDir()
	s := serviceIn(t, dir, db, newHashed())
	create(t, s, "acme", "a")
	create(t, s, "acme", "b")
	in := ingest(t, s, "b", "x.txt", "some words")
	ci, err := s.collection("acme", "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "of-nobody"), 0o700); err != nil {
		t.Fatal(err)
	}
	again := newService(t, Config{Dir: dir}, db, newHashed())
	var clock atomic.Int64 // it stands, so that no opening is due again by itself
	clock.Store(time.Now().UnixMicro())
	again.now = func() time.Time { return time.UnixMicro(clock.Load()) }
	var broken atomic.Bool
	broken.Store(true)
	again.openStore = func(ctx context.Context, cfg segment.Config) (passageStore, error) {
		if broken.Load() && cfg.Dir == ci.dir {
			return nil, errInjected
		}
		return segment.Open(ctx, cfg)
	}
	if err := again.Load(t.Context()); err != nil {
		t.Fatal("one store that does not open keeps the others from starting:", err)
	}
	again.purge(t.Context())
	if n := stores(t, dir); n != 2 {
		t.Errorf("%d of 2 stores are left", n)
	}
	if _, err := os.Stat(filepath.Join(dir, "of-nobody")); !os.IsNotExist(err) {
		t.Errorf("a store of no collection is left: %v", err)
	}

	// It is there, and says that it cannot answer.
	wantTexts(t, find(t, again, "a", "words"))
	_, err = again.Search(t.Context(), Query{Tenant: "acme", Collection: "b", Text: "words", TopK: 5})
	wantCode(t, err, fault.CodeRetrievalFailed)
	_, err = again.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "b", DocumentID: in.ID, Version: "v1"})
	wantCode(t, err, fault.CodeRetrievalFailed)
	_, err = again.Search(t.Context(), Query{Tenant: "other", Collection: "b", Text: "words", TopK: 5})
	wantCode(t, err, fault.CodeCollectionNotFound)
	_, err = again.Ingest(t.Context(), Document{Tenant: "acme", Collection: "b", Name: "y.txt", Body: []byte("more words")})
	wantCode(t, err, fault.CodeRetrievalFailed)
	all, err := again.Collections(t.Context(), "acme", nil)
	if err != nil || len(all) != 2 || all[1].Documents != 1 {
		t.Errorf("listed %+v, %v", all, err)
	}
	// A name that is not there is just that.
	_, err = again.Documents(t.Context(), "acme", "none", nil)
	wantCode(t, err, fault.CodeCollectionNotFound)

	broken.Store(false)
	clock.Add(time.Minute.Microseconds())
	follow(t, again)
	wantTexts(t, find(t, again, "b", "words"), "some words")
}

// TestUnopenedCollectionsCanBeDeleted, with their stores.
func TestUnopenedCollectionsCanBeDeleted(t *testing.T) {
	db, dir := dbtest.SQLite(t), t.TempDir()
	s := serviceIn(t, dir, db, newHashed())
	create(t, s, "acme", "a")
	create(t, s, "acme", "b", "board")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Exec("UPDATE rag_collections SET labels = 'null' WHERE name = 'b'").Error; err != nil {
		t.Fatal(err)
	}
	s = serviceIn(t, dir, db, newHashed())
	_, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "b", Labels: []string{"board"}, Text: "words", TopK: 5})
	wantCode(t, err, fault.CodeCollectionNotFound) // nobody has labels that cannot be read
	if err := s.DeleteCollection(t.Context(), "acme", "b"); err != nil {
		t.Fatal(err)
	}
	follow(t, s)
	if n := stores(t, dir); n != 1 {
		t.Errorf("%d stores, one collection", n)
	}
}

// TestOneBadVersionDoesNotStopTheStart: a version that has lost a passage is damaged, not changing: its collection says so, the others answer, and what mends a
// damaged one mends it.
func TestOneBadVersionDoesNotStopTheStart(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "a")
	create(t, s, "acme", "kb")
	ingest(t, s, "a", "x.txt", "some words")
	lost := "# One\n\nwords of kb\n\n# Two\n\nothers"
	ingest(t, s, "kb", "a.md", lost)
	if err := db.Exec("DELETE FROM rag_chunks WHERE chunk = 1").Error; err != nil {
		t.Fatal(err)
	}
	s = service(t, db, newHashed())
	follow(t, s) // it is no failure of following, again and again
	wantTexts(t, find(t, s, "a", "words"), "some words")
	_, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5})
	wantCode(t, err, fault.CodeRetrievalFailed)
	ingest(t, s, "kb", "a.md", lost)
	if got := find(t, s, "kb", "words"); len(got) != 2 || !strings.Contains(got[0].Text, "words of kb") {
		t.Errorf("found %+v", got)
	}
}

// TestFollowingIsWaitedForNoLongerThanOneWants: a caller that asks for a name gives up with his context while somebody else follows.
func TestFollowingIsWaitedForNoLongerThanOneWants(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	if err := s.following.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.following.leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Documents(ctx, "acme", "kb", nil); err == nil {
		t.Error("found a collection that is not there")
	}
}

// TestStoredPassagesInUseAreNotRemoved: a process without an embedding model takes nothing from one that searches.
func TestStoredPassagesInUseAreNotRemoved(t *testing.T) {
	db, dir := dbtest.SQLite(t), t.TempDir()
	s := serviceIn(t, dir, db, newHashed())
	create(t, s, "acme", "kb")
	if err := RemoveStored(dir); !errors.Is(err, segment.ErrInUse) || stores(t, dir) != 1 {
		t.Errorf("%v, and %d of 1 stores are left", err, stores(t, dir))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing
		if err := RemoveStored(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
}

// TestIDsThatAreNoneNameNoDirectory: an id is the name of a directory that may be removed.
func TestIDsThatAreNoneNameNoDirectory(t *testing.T) {
	db, dir := dbtest.SQLite(t), filepath.Join(t.TempDir(), "rag")
	s := serviceIn(t, dir, db, newHashed())
	create(t, s, "acme", "kb")
	if err := db.Exec("UPDATE rag_collections SET id = '..'").Error; err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(dir), "beside")
	if err := os.WriteFile(beside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.follow(t.Context()); !errors.Is(err, errBehind) {
		t.Errorf("followed: %v", err)
	}
	_, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5})
	wantCode(t, err, fault.CodeRetrievalFailed)
	if err := s.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(beside); err != nil {
		t.Error(err)
	}
}
