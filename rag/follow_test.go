package rag

import (
	"context"
	"fmt"
	"strings"
	"sync"
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
				second := ingest(t, s, "kb", "b.txt", "other words")
				follow(t, s)
				follow(t, other)
				follow(t, stopped)
				if err := stopped.Close(); err != nil {
					t.Fatal(err)
				}
				unnoted(t, db, in.ID)
				if more {
					if _, err := other.SetAccess(t.Context(), "acme", "kb", second.ID, Access{}); err != nil {
						t.Fatal(err)
					}
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

// watched is a store that says what it is told, before it is.
type watched struct {
	passageStore

	apply   func(c segment.Change)
	prepare func(d *segment.Document)
}

func (w *watched) Apply(ctx context.Context, c segment.Change) error {
	if w.apply != nil {
		w.apply(c)
	}
	return w.passageStore.Apply(ctx, c)
}

func (w *watched) IndexWords(ctx context.Context, d *segment.Document) error {
	if w.prepare != nil {
		w.prepare(d)
	}
	return w.passageStore.IndexWords(ctx, d)
}

// watch puts a store that says what it is told in the place of that of a collection.
func watch(t *testing.T, s *library, collection string, w *watched) *collectionIndex {
	t.Helper()
	ci, err := s.collection("acme", collection)
	if err != nil {
		t.Fatal(err)
	}
	w.passageStore = ci.passages
	ci.passages = w
	return ci
}

// TestMuchIsReadInParts: no change that a store is told has more passages than are read at a time, or than the largest version, however many documents with
// however many versions there are: when a replica begins with nothing, and when it follows.
func TestMuchIsReadInParts(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	begun := service(t, db, newHashed())
	for i := range 4 {
		for v := range 3 {
			ingest(t, s, "kb", fmt.Sprintf("%d.txt", i), strings.Repeat(fmt.Sprintf("words %d of %d ", v, i), 200)) // some seven passages
		}
	}
	const most = 20
	largest, told, changes := 0, 0, 0
	count := func(c segment.Change) {
		sum := 0
		for _, d := range c.Put {
			sum += len(d.Passages)
		}
		if sum > 0 {
			changes++
		}
		largest, told = max(largest, sum), told+sum
	}
	check := func(s *library) {
		t.Helper()
		if largest > most || told < 12*5 || changes < 4 {
			t.Errorf("%d passages in %d changes, %d in one", told, changes, largest)
		}
		sameAnswers(t, s, db, "in parts")
		largest, told, changes = 0, 0, 0
	}
	begun.atOnce = most
	watch(t, begun, "kb", &watched{apply: count})
	follow(t, begun)
	check(begun)

	fresh := newService(t, Config{Dir: t.TempDir()}, db, newHashed())
	open := fresh.openStore
	fresh.openStore = func(ctx context.Context, cfg segment.Config) (passageStore, error) {
		p, err := open(ctx, cfg)
		return &watched{passageStore: p, apply: count}, err
	}
	fresh.atOnce = most
	if err := fresh.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(fresh)
	if v := fresh.all()[0].passages.View(); v.Revision() == 0 {
		t.Error("it does not say up to where it is complete")
	}
}

// TestOpeningKeepsNobody: while a store is made again, turns of following end, others are followed, and it is searched when it is there.
func TestOpeningKeepsNobody(t *testing.T) {
	db := dbtest.SQLite(t)
	s, other := service(t, db, newHashed()), service(t, db, newHashed())
	create(t, s, "acme", "kb")
	create(t, s, "acme", "other")
	ingest(t, s, "kb", "a.txt", "some words")
	follow(t, s)
	follow(t, other)
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	held, let, open := make(chan struct{}), make(chan struct{}), s.openStore
	s.openStore = func(ctx context.Context, cfg segment.Config) (passageStore, error) {
		close(held)
		<-let
		return open(ctx, cfg)
	}
	ci.fail(segment.ErrDamaged)
	if err := s.freshness.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	<-held
	ingest(t, other, "other", "b.txt", "other words")
	if err := s.freshness.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	wantTexts(t, find(t, s, "other", "words"), "other words")
	_, err = s.Documents(t.Context(), "acme", "unknown", nil) // it waits for nobody either
	wantCode(t, err, fault.CodeCollectionNotFound)
	_, err = s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5})
	wantCode(t, err, fault.CodeRetrievalFailed)
	close(let)
	follow(t, s)
	wantTexts(t, find(t, s, "kb", "words"), "some words")
}

// TestChangesWhileAStoreIsOpened: what is taken away here just before a store that was made again is shown is not found in it.
func TestChangesWhileAStoreIsOpened(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", "secret words")
	ingest(t, s, "kb", "b.txt", "other words")
	follow(t, s)
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	open := s.openStore
	revoked := false
	s.openStore = func(ctx context.Context, cfg segment.Config) (passageStore, error) {
		p, err := open(ctx, cfg)
		return &watched{passageStore: p, apply: func(c segment.Change) {
			if c.Revision == 0 || revoked { // the last change before it is shown says that it is complete
				return
			}
			revoked = true
			if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: true}}); err != nil {
				t.Error(err)
			}
		}}, err
	}
	ci.fail(segment.ErrDamaged)
	follow(t, s)
	if !revoked {
		t.Fatal("nothing was revoked meanwhile")
	}
	wantTexts(t, find(t, s, "kb", "words"), "other words")
}

// TestOpeningPauses: what cannot be opened is tried again at once a few times, and then ever more rarely.
func TestOpeningPauses(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	now := time.Now()
	s.now = func() time.Time { return now }
	create(t, s, "acme", "kb")
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	ci.fail(segment.ErrDamaged)
	tries, open := 0, s.openStore
	s.openStore = func(context.Context, segment.Config) (passageStore, error) {
		tries++
		return nil, errInjected
	}
	for range 3600 {
		if err := s.follow(t.Context()); err == nil {
			t.Fatal("following succeeds")
		}
		now = now.Add(time.Second)
	}
	if tries < openTries+8 || tries > openTries+16 {
		t.Errorf("%d tries in an hour", tries)
	}
	s.openStore = open
	now = now.Add(openLongest)
	follow(t, s)
	if err := s.freshness.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	ingest(t, s, "kb", "a.txt", "some words")
	wantTexts(t, find(t, s, "kb", "words"), "some words")
}

// TestLongJournals: who changes something waits for a part of what others changed, not for all of it.
func TestLongJournals(t *testing.T) {
	db := dbtest.SQLite(t)
	a, b := service(t, db, newHashed()), service(t, db, newHashed())
	create(t, a, "acme", "kb")
	in := ingest(t, a, "kb", "a.txt", "secret words")
	busy := ingest(t, a, "kb", "b.txt", "other words")
	follow(t, b)
	const changes = 6 * journalPart
	execute(t, db, // as if each were a change of b.txt
		fmt.Sprintf("INSERT INTO rag_journal (collection, revision, document, mark) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "+
			"SELECT (SELECT id FROM rag_collections), (SELECT version FROM rag_changes WHERE name = 'rag') + i, '%s', 'm' FROM n", changes, busy.ID),
		fmt.Sprintf("UPDATE rag_changes SET version = version + %d WHERE name = 'rag'", changes),
		"UPDATE rag_collections SET revision = (SELECT version FROM rag_changes WHERE name = 'rag')")
	last := version(t, db)
	stored := make(chan struct{})
	done := make(chan error, 1)
	parts, before := 0, 0
	var ci *collectionIndex
	ci = watch(t, b, "kb", &watched{apply: func(c segment.Change) {
		if len(c.Move) > 0 {
			before = parts
			return
		}
		if parts++; parts == 2 { // what is stored then only has to get the lock before the last part
			for version(t, db) == last {
				<-time.After(time.Millisecond)
			}
		}
		if parts > 1 {
			<-time.After(time.Millisecond) // a lock that somebody has waited for this long is his next
			return
		}
		if ci.change.TryLock() {
			t.Error("the store is told without the lock")
		}
		go func() {
			_, err := b.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: true}})
			done <- err
		}()
		<-stored
	}})
	if err := db.Callback().Update().After("gorm:update").Register("test:stored", func(tx *gorm.DB) {
		if tx.Statement.Table == "rag_documents" {
			close(stored)
		}
	}); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.followAccess(t.Context(), 0, true)
	if err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if parts < changes/journalPart || before == 0 || before >= parts {
		t.Errorf("told after %d of %d parts", before, parts)
	}
	wantTexts(t, find(t, b, "kb", "words"), "other words")
}

// version returns how many changes of collections and documents are stored.
func version(t *testing.T, db *gorm.DB) (n int64) {
	t.Helper()
	if err := db.Raw("SELECT version FROM rag_changes WHERE name = 'rag'").Row().Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTextsAreReadWithoutTheLock: what the parts of a rule need to know of a version is read before the store is locked, and nothing is changed until it is known.
func TestTextsAreReadWithoutTheLock(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	ids := filled(t, s, 6) // the first and the last have rules with parts
	follow(t, s)
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	known := outlines{}
	lacks, err := s.settle(t.Context(), ci, ids, nil, known)
	if err != nil || len(lacks) != 3 {
		t.Fatalf("lacks %d, %v", len(lacks), err)
	}
	if err := known.read(lacks); err != nil {
		t.Fatal(err)
	}
	if lacks, err = s.settle(t.Context(), ci, ids, nil, known); err != nil || len(lacks) != 0 {
		t.Fatalf("lacks %d, %v", len(lacks), err)
	}
}

// TestSlowCollectionsAreFollowedAlone: while following one collection takes long, what is taken away in another ends here.
func TestSlowCollectionsAreFollowedAlone(t *testing.T) {
	db := dbtest.SQLite(t)
	a, b := service(t, db, newHashed()), service(t, db, newHashed())
	b.cfg.Poll = time.Millisecond
	create(t, a, "acme", "slow")
	create(t, a, "acme", "kb")
	ingest(t, a, "slow", "s.txt", "slow words")
	in := ingest(t, a, "kb", "a.txt", "secret words")
	follow(t, b)
	held, let, revoked := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	watch(t, b, "slow", &watched{apply: func(segment.Change) {
		once.Do(func() { close(held) })
		<-let
	}})
	watch(t, b, "kb", &watched{apply: func(c segment.Change) {
		if len(c.Move) > 0 {
			close(revoked)
		}
	}})
	if err := a.DeleteDocument(t.Context(), "acme", "slow", "s.txt"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { b.watchAccess(ctx) })
	<-held
	if _, err := a.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: true}}); err != nil {
		t.Error(err)
	}
	<-revoked
	close(let)
	cancel()
	ended.Wait()
}

// TestTablesPutBackWhileSomethingIsPending: a store that lacks a version, and was told meanwhile that a document is open to all, does not open it where the
// tables are put back to before that.
func TestTablesPutBackWhileSomethingIsPending(t *testing.T) {
	db, dir := dbtest.SQLite(t), t.TempDir()
	s, other := serviceIn(t, dir, db, newHashed()), service(t, db, newHashed())
	create(t, other, "acme", "kb")
	in := ingest(t, other, "kb", "a.txt", "secret words", "board")
	follow(t, s)
	f := failStore(t, s, "kb")
	f.set(&f.prepare, true)
	ingest(t, other, "kb", "b.txt", "other words")
	if err := s.follow(t.Context()); err == nil {
		t.Fatal("nothing is pending")
	}
	before := version(t, db)
	if _, err := other.SetAccess(t.Context(), "acme", "kb", in.ID, Access{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.followAccess(t.Context(), 0, true); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, find(t, s, "kb", "words"), "secret words")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, db,
		fmt.Sprintf("DELETE FROM rag_journal WHERE revision > %d", before),
		fmt.Sprintf("UPDATE rag_collections SET revision = %d", before),
		fmt.Sprintf("UPDATE rag_documents SET labels = '[\"board\"]', revision = %d WHERE id = '%s'", before-1, in.ID),
		fmt.Sprintf("UPDATE rag_changes SET version = %d WHERE name = 'rag'", before))
	wantTexts(t, find(t, serviceIn(t, dir, db, newHashed()), "kb", "words"), "other words")
}
