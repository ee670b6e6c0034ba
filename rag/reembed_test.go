package rag

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/reduce"
)

// acts collects what re-embedding records.
type acts struct {
	mu   sync.Mutex
	list []ReembedRecord
	fail error
	told chan struct{} // gets one for each
}

func newActs() *acts { return &acts{told: make(chan struct{}, 100)} }

func (a *acts) record(_ context.Context, r ReembedRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		return a.fail
	}
	a.list = append(a.list, r)
	a.told <- struct{}{}
	return nil
}

// other is a model of another dimension.
func other() *hashed { return &hashed{dim: 64, model: "hashed-64"} }

// again is a service with another model, ready to make vectors anew.
func again(t *testing.T, db *gorm.DB, e embedder) (*library, *acts) {
	t.Helper()
	s, a := service(t, db, e), newActs()
	s.Reembed(Reembedding{Embed: e.Embed, Record: a.record})
	return s, a
}

// foreignOf returns the documents of the only collection that have vectors of another model.
func foreignOf(t *testing.T, s *library) []string {
	t.Helper()
	rows, err := s.store.collections(t.Context())
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	ids, err := s.store.foreign(t.Context(), rows[0].ID, s.model.ID, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// after has a turn of re-embedding at a later time.
func after(t *testing.T, s *library, d time.Duration) error {
	t.Helper()
	before := s.now
	defer func() { s.now = before }()
	s.now = func() time.Time { return before().Add(d) }
	return s.reembedPending(t.Context())
}

// queries counts the queries of each table until the test ends.
func queries(t *testing.T, db *gorm.DB) map[string]int {
	t.Helper()
	n := map[string]int{}
	if err := db.Callback().Query().Before("gorm:query").Register("test:count", func(tx *gorm.DB) {
		if tx.Statement.Parse(tx.Statement.Model) == nil {
			n[tx.Statement.Schema.Table]++
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Callback().Query().Remove("test:count") })
	return n
}

func byWords(t *testing.T, found []Passage) (names []string) {
	t.Helper()
	for _, p := range found {
		if p.ByWords {
			names = append(names, p.Document)
		}
	}
	return names
}

// TestDocumentsOfAnotherModelAreFoundByTheirWords: a search goes on, says which passages it found by their words alone, and hides nothing.
func TestDocumentsOfAnotherModelAreFoundByTheirWords(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		ingest(t, s, "kb", "a.txt", "opening hours of the library")
		ingest(t, s, "kb", "b.txt", "library board minutes", "board")
		s, _ = again(t, db, other())
		ingest(t, s, "kb", "c.txt", "the swimming pool")
		if got := byWords(t, find(t, s, "kb", "library hours", "board")); !slices.Equal(got, []string{"a.txt", "b.txt"}) {
			t.Errorf("found by words: %v", got)
		}
		if got := find(t, s, "kb", "library hours"); len(got) != 2 || got[0].Document != "a.txt" || got[1].ByWords {
			t.Errorf("without the label: %+v", got)
		}
		// What has no vector is not put behind what has one, as it would be with a cosine of zero.
		ingest(t, s, "kb", "d.txt", "library hours, library hours and other words so that it is not the best")
		if got := find(t, s, "kb", "opening hours of the library"); got[0].Document != "a.txt" {
			t.Errorf("%+v", got)
		}
		list, err := s.Collections(t.Context(), "acme", nil)
		if err != nil || list[0].Documents != 4 || list[0].Pending != 2 {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err = s.Collections(t.Context(), "acme", &Reader{}); err != nil || list[0].Pending != 1 { // of those that may be seen
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestVectorsAreMadeAnew: all documents get the vectors of the new model, as versions that they are, once, with records before and after, and
// another replica sees it.
func TestVectorsAreMadeAnew(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		first := ingest(t, s, "kb", "a.txt", long("library"), "staff")
		ingest(t, s, "kb", "b.md", "# Parking\n\n12 yuan an hour")
		e := other()
		s, recorded := again(t, db, e)
		replica := service(t, db, e)
		if err := s.reembedPending(t.Context()); err != nil {
			t.Fatal(err)
		}
		whole := find(t, s, "kb", "library parking", "staff")
		if got := byWords(t, whole); len(got) != 0 {
			t.Errorf("by words: %v", got)
		}
		fresh := service(t, dbtest.SQLite(t), e)
		create(t, fresh, "acme", "kb")
		ingest(t, fresh, "kb", "a.txt", long("library"), "staff")
		ingest(t, fresh, "kb", "b.md", "# Parking\n\n12 yuan an hour")
		scores := func(found []Passage) (out []string) {
			for _, p := range found {
				out = append(out, fmt.Sprintf("%s %d %s %s %.6f", p.Document, p.Chunk, p.Section, p.Version, p.Score))
			}
			slices.Sort(out)
			return out
		}
		if a, b := scores(whole), scores(find(t, fresh, "kb", "library parking", "staff")); !slices.Equal(a, b) {
			t.Errorf("made anew:\n%v\nas if new:\n%v", a, b)
		}
		want := []ReembedRecord{
			{Tenant: "acme", Collection: "kb", Documents: 2, Model: "hashed-64"},
			{Tenant: "acme", Collection: "kb", Documents: 2, Model: "hashed-64", Done: true},
		}
		if !slices.Equal(recorded.list, want) {
			t.Errorf("recorded %+v", recorded.list)
		}
		if err := s.reembedPending(t.Context()); err != nil || len(recorded.list) != 2 {
			t.Errorf("a second time: %v, %+v", err, recorded.list)
		}
		follow(t, replica)
		if got := find(t, replica, "kb", "library parking", "staff"); !slices.Equal(scores(got), scores(whole)) {
			t.Error("another replica finds something else")
		}
		first.Access = AccessChange{}
		if again := ingest(t, s, "kb", "a.txt", long("library"), "staff"); !reflect.DeepEqual(again, first) {
			t.Errorf("the same again is %+v, was %+v", again, first)
		}
	})
}

// TestReembeddingGoesOnAfterFailures: whatever fails, a document has all vectors of one model or of the other, and the next turn does the rest.
func TestReembeddingGoesOnAfterFailures(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		for i := range 4 {
			ingest(t, s, "kb", fmt.Sprintf("%d.txt", i), long("word"))
		}
		e := other()
		s, recorded := again(t, db, e)
		whole := func(left int) {
			t.Helper()
			var mixed, old int64
			if err := db.Raw(`SELECT COUNT(*) FROM rag_versions v JOIN rag_chunks c ON c.document = v.document AND c.version = v.version
				WHERE LENGTH(c.vector) <> CASE v.embedder WHEN 'hashed-64' THEN 256 ELSE 512 END`).Row().Scan(&mixed); err != nil || mixed != 0 {
				t.Errorf("%d passages have vectors that are not their version's model's: %v", mixed, err)
			}
			if err := db.Raw("SELECT COUNT(*) FROM rag_versions WHERE embedder <> 'hashed-64'").Row().Scan(&old); err != nil || old != int64(left) {
				t.Errorf("%d versions are left, want %d: %v", old, left, err)
			}
			list, err := s.Collections(t.Context(), "acme", nil)
			if err != nil || list[0].Pending != left {
				t.Errorf("%d documents are left in memory, want %d: %v", list[0].Pending, left, err)
			}
			if n := withTheirLikes(find(t, s, "kb", "word")); n != 50 {
				t.Errorf("%d passages are found", n)
			}
		}
		recorded.fail = errInjected
		if err := s.reembedPending(t.Context()); err == nil {
			t.Error("without a record it goes on")
		}
		whole(4)
		recorded.fail = nil
		e.failAt(2) // in the middle of the first document
		if err := s.reembedPending(t.Context()); err == nil {
			t.Error("no error of the engine")
		}
		whole(4) // what is not the document's own fault ends the turn
		if err := s.reembedPending(t.Context()); err != nil {
			t.Error(err)
		}
		whole(1) // the others do not wait for it
		creates, name := 0, "test:fail"
		if err := db.Callback().Create().Before("gorm:create").Register(name, func(tx *gorm.DB) {
			if tx.Statement.Table == "rag_chunks" {
				creates++
				_ = tx.AddError(errInjected)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := after(t, s, time.Minute); !fault.Is(err, fault.CodeDatabaseUnavailable) || creates != 1 {
			t.Errorf("after %d statements: %v", creates, err)
		}
		whole(1)
		if err := db.Callback().Create().Remove(name); err != nil {
			t.Fatal(err)
		}
		s, _ = again(t, db, e) // as after a crash
		if err := s.reembedPending(t.Context()); err != nil {
			t.Error(err)
		}
		whole(0)
	})
}

// TestReembeddingYieldsToChanges: a document that is replaced, or deleted, while its vectors are being made keeps what was done to it.
func TestReembeddingYieldsToChanges(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		old := service(t, db, newHashed())
		create(t, old, "acme", "kb")
		ingest(t, old, "kb", "a.txt", "first words")
		ingest(t, old, "kb", "b.txt", "other words")
		e := other()
		s, _ := again(t, db, e)
		meanwhile := func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
			switch {
			case strings.Contains(texts[0], "first"):
				ingest(t, old, "kb", "a.txt", "second words")
			default:
				if err := old.DeleteDocument(t.Context(), "acme", "kb", "b.txt"); err != nil {
					return nil, err
				}
			}
			return e.Embed(ctx, texts, question)
		}
		s.again.Embed = meanwhile
		ci, err := s.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range foreignOf(t, s) {
			state, _, err := s.store.state(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			replaced := state.Name == "a.txt" // it has ended: its vectors are still wanted
			if done, err := s.reembedDocument(t.Context(), ci, id); done != replaced || err != nil {
				t.Errorf("%t, %v", done, err)
			}
		}
		follow(t, s)
		wantTexts(t, find(t, s, "kb", "words"), "second words")
		if got := find(t, s, "kb", "words"); !got[0].ByWords || len(foreignOf(t, s)) != 1 {
			t.Errorf("%+v", got)
		}
		s.again.Embed = e.Embed
		if err := s.reembedPending(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := find(t, s, "kb", "words"); len(got) != 1 || got[0].ByWords || got[0].Version != "v2" {
			t.Errorf("%+v", got)
		}
	})
}

// TestOneReplicaReembeds: of replicas with different models only the one that leads changes vectors, the next one goes on where it stopped, and both
// together leave one record that begins and one that is done.
func TestOneReplicaReembeds(t *testing.T) {
	db := dbtest.SQLite(t)
	older, undone := again(t, db, newHashed())
	create(t, older, "acme", "kb")
	for i := range 3 {
		ingest(t, older, "kb", fmt.Sprintf("%d.txt", i), "some words")
	}
	newer, recorded := again(t, db, other())
	twin, _ := again(t, db, other())
	twin.again.Record = recorded.record
	var leader *library
	leads := func(s *library) {
		s.again.Leads = func(context.Context) (bool, error) { return leader == s, nil }
	}
	leads(older)
	leads(newer)
	leads(twin)
	turn := func(s *library, pending int) {
		t.Helper()
		s.again.ledAt = time.Time{}
		follow(t, s)
		if err := s.reembedPending(t.Context()); err != nil && !errors.Is(err, errNotLeading) {
			t.Error(err)
		}
		if got := len(foreignOf(t, newer)); got != pending {
			t.Errorf("%d documents are left, want %d", got, pending)
		}
	}
	leader = older
	turn(newer, 3)
	turn(older, 3)
	leader = newer
	embed := newer.again.Embed
	newer.again.Embed = func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
		leader, newer.again.ledAt = twin, time.Time{} // it stops leading after the first document
		return embed(ctx, texts, question)
	}
	turn(newer, 2)
	turn(older, 2)
	turn(twin, 0)
	turn(older, 0)
	want := []ReembedRecord{
		{Tenant: "acme", Collection: "kb", Documents: 3, Model: "hashed-64"},
		{Tenant: "acme", Collection: "kb", Documents: 3, Model: "hashed-64", Done: true},
	}
	if !slices.Equal(recorded.list, want) || len(undone.list) != 0 {
		t.Errorf("recorded %+v and %+v", recorded.list, undone.list)
	}
	leader = older // somebody goes back: the newer ones have stopped
	turn(older, 3)
	if len(undone.list) != 2 {
		t.Errorf("recorded %+v", undone.list)
	}
}

// TestWhatCannotBeDoneWaits: a document that fails by its own fault is tried ever more seldom, keeps no other, and is recorded once.
func TestWhatCannotBeDoneWaits(t *testing.T) {
	db := dbtest.SQLite(t)
	old := service(t, db, newHashed())
	create(t, old, "acme", "kb")
	ingest(t, old, "kb", "a.txt", "bad words")
	ingest(t, old, "kb", "b.txt", "good words")
	e := other()
	s, recorded := again(t, db, e)
	bad, tries := true, 0
	s.again.Embed = func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
		if bad && strings.ContainsAny(texts[0], "bad") && !strings.Contains(texts[0], "good") {
			if strings.HasSuffix(texts[0], "bad words") { // the whole text, not a half of it
				tries++
			}
			return nil, fault.New(fault.CodeContextLength, 0, 1)
		}
		return e.Embed(ctx, texts, question)
	}
	for i := range 60 { // ten minutes of looking every ten seconds
		if err := after(t, s, time.Duration(i)*reembedEvery); err != nil {
			t.Fatal(err)
		}
	}
	if got := foreignOf(t, s); len(got) != 1 || tries != 4 { // at 0, 1, 3 and 7 minutes
		t.Errorf("%d documents are left after %d tries", len(got), tries)
	}
	if len(recorded.list) != 1 {
		t.Errorf("recorded %+v", recorded.list)
	}
	bad = false
	recorded.fail = errInjected
	if err := after(t, s, 2*time.Hour); err == nil {
		t.Error("what is done needs no record")
	}
	recorded.fail = nil
	if err := after(t, s, 2*time.Hour); err != nil || len(recorded.list) != 2 || !recorded.list[1].Done || recorded.list[1].Documents != 2 {
		t.Errorf("%v, %+v", err, recorded.list)
	}
}

// TestAnEngineThatIsDownEndsTheTurn: it is asked once, not once for each document.
func TestAnEngineThatIsDownEndsTheTurn(t *testing.T) {
	db := dbtest.SQLite(t)
	old := service(t, db, newHashed())
	create(t, old, "acme", "kb")
	for i := range 5 {
		ingest(t, old, "kb", fmt.Sprintf("%d.txt", i), "some words")
	}
	s, _ := again(t, db, other())
	asked := 0
	s.again.Embed = func(context.Context, []string, bool) ([][]float32, error) {
		asked++
		return nil, fault.New(fault.CodeEngineUnavailable, "embedder")
	}
	if err := s.reembedPending(t.Context()); !fault.Is(err, fault.CodeEngineUnavailable) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// TestIdleReembeddingAsksForTheCounter: nothing else is read while nothing changes, and then only of the collection that changed.
func TestIdleReembeddingAsksForTheCounter(t *testing.T) {
	db := dbtest.SQLite(t)
	s, _ := again(t, db, newHashed())
	for _, name := range []string{"one", "two", "three"} {
		create(t, s, "acme", name)
		ingest(t, s, name, "a.txt", "some words")
	}
	follow(t, s)
	if err := s.reembedPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := queries(t, db)
	for range 3 {
		if err := s.reembedPending(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n["rag_changes"] != 3 || n["rag_documents"]+n["rag_versions"]+n["rag_collections"]+n["rag_chunks"] != 0 {
		t.Errorf("three turns without a change read %v", n)
	}
	ingest(t, s, "two", "b.txt", "more words")
	clear(n)
	for range 3 {
		if err := s.reembedPending(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n["rag_versions"] != 0 || n["rag_documents"] != 0 || n["rag_collections"] != 1 { // the store knows what came in
		t.Errorf("after one change three turns read %v", n)
	}
	ingest(t, s, "three", "b.txt", "more words")
	follow(t, s)
	clear(n)
	if err := s.reembedPending(t.Context()); err != nil || n["rag_versions"] != 0 {
		t.Errorf("what memory knows is read again: %v, %v", n, err)
	}
}

// TestVectorsAreReadWithTheirModel: a document that gets other vectors between the reading of its row and of its passages is not taken for one of the
// model before.
func TestVectorsAreReadWithTheirModel(t *testing.T) {
	db := dbtest.SQLite(t)
	old := service(t, db, newHashed())
	create(t, old, "acme", "kb")
	ingest(t, old, "kb", "a.txt", "some words")
	s, _ := again(t, db, other())
	id, once := foreignOf(t, s)[0], true
	if err := db.Callback().Query().Before("gorm:query").Register("test:between", func(tx *gorm.DB) {
		if tx.Statement.Parse(tx.Statement.Dest) == nil && tx.Statement.Schema.Table == "rag_chunks" && once {
			once = false
			if err := s.reembedPending(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	v, err := old.store.content(t.Context(), versionID(id, 1))
	if err != nil || v.Embedder != s.model.ID || len(v.chunks[0].Vector) != 4*s.model.Dim || once { // it is read once more
		t.Errorf("%+v, %v", v, err)
	}
	follow(t, old)
	if got := byWords(t, find(t, old, "kb", "words")); len(got) != 1 {
		t.Error("vectors of another model are compared")
	}
}

// withTheirLikes counts passages, and those that were left out since they say the same.
func withTheirLikes(found []Passage) int {
	n := len(found)
	for _, p := range found {
		n += p.Duplicates
	}
	return n
}

// TestNewVectorsAreStoredAtOnce: the lock that all changes need is held for few statements.
func TestNewVectorsAreStoredAtOnce(t *testing.T) {
	db := dbtest.SQLite(t)
	old := service(t, db, newHashed())
	create(t, old, "acme", "kb")
	ingest(t, old, "kb", "a.txt", strings.Repeat(long("library"), 3))
	s, _ := again(t, db, other())
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	id := foreignOf(t, s)[0]
	statements := 0
	count := func(*gorm.DB) { statements++ }
	for _, err := range []error{
		db.Callback().Create().Before("gorm:create").Register("test:count", count), db.Callback().Update().Before("gorm:update").Register("test:count", count),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if done, err := s.reembedDocument(t.Context(), ci, id); !done || err != nil {
		t.Fatal(done, err)
	}
	chunks := ci.passages.View().Find(id)[0].Passages
	if most := 5 + (chunks+99)/100; statements > most || chunks < 20 {
		t.Errorf("%d passages in %d statements, want %d", chunks, statements, most)
	}
	if got := find(t, s, "kb", "library"); withTheirLikes(got) < 20 || got[0].ByWords {
		t.Errorf("%d passages, by words %t", withTheirLikes(got), got[0].ByWords)
	}
}

// TestRunReembeds: it begins by itself, and ends with its context.
func TestRunReembeds(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	ingest(t, s, "kb", "a.txt", "some words")
	s, recorded := again(t, db, other())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for range 2 {
		select {
		case <-recorded.told:
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was done")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := find(t, s, "kb", "words"); got[0].ByWords {
		t.Errorf("%+v", got)
	}
}

// TestVectorsAreMadeShorter: with a map, what is stored and compared has its dimension, and its name stands beside the vectors.
func TestVectorsAreMadeShorter(t *testing.T) {
	rows := make([][]float64, 16)
	for i := range rows {
		rows[i] = make([]float64, 128)
		for j := range rows[i] {
			rows[i][j] = float64((i*37+j*11)%23) - 11
		}
	}
	short, err := reduce.Parse(reduce.Encode([32]byte{1}, rows))
	if err != nil {
		t.Fatal(err)
	}
	db, e := dbtest.SQLite(t), newHashed()
	ring := keyring.FromBytes(bytes.Repeat([]byte{7}, 32))
	whole := service(t, db, e)
	create(t, whole, "acme", "kb")
	ingest(t, whole, "kb", "a.txt", "opening hours")
	s, err := New(Config{Dir: t.TempDir()}, db, ring, Model{ID: e.model, Dim: e.dim, Reduce: short}, whole.log, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &library{s, e}
	if got := byWords(t, find(t, l, "kb", "opening hours")); len(got) != 1 {
		t.Error("vectors of another dimension were compared")
	}
	ingest(t, l, "kb", "a.txt", "opening hours")
	var vector []byte
	var model string
	if err := db.Raw("SELECT c.vector, v.embedder FROM rag_chunks c JOIN rag_versions v ON v.document = c.document AND v.version = c.version WHERE c.version = 2").Row().Scan(&vector, &model); err != nil || len(vector) != 4*16 || model != e.model+"+"+short.ID() {
		t.Errorf("%d bytes by %q: %v", len(vector), model, err)
	}
	if got := find(t, l, "kb", "opening hours"); len(got) != 1 || got[0].ByWords {
		t.Errorf("%+v", got)
	}
	if _, err := New(Config{Dir: t.TempDir()}, db, ring, Model{ID: e.model, Dim: 64, Reduce: short}, whole.log, nil); err == nil {
		t.Error("a map for vectors of another length is taken")
	}
	if bytes.Equal(vector, make([]byte, len(vector))) {
		t.Error("the vector is empty")
	}
}

// asOf searches what was in effect at a time.
func asOf(t *testing.T, s *library, text string, at time.Time, labels ...string) []Passage {
	t.Helper()
	out, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: text, Labels: labels, TopK: 50, AsOf: at})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPastVersionsAreEmbeddedAgain: a version of the past, and one of the future, get new vectors with the rest, here and on a replica; what they say, when
// and to whom does not change, neither before, while only the newest is done, nor after.
func TestPastVersionsAreEmbeddedAgain(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		clock := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		first := clock
		timed := func(e embedder) *library {
			s := newService(t, Config{Dir: t.TempDir()}, db, e)
			s.now = func() time.Time { return clock }
			if err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s
		}
		old := timed(newHashed())
		create(t, old, "acme", "kb")
		ingest(t, old, "kb", "fees.txt", "the fee is ten yuan at the desk", "staff")
		ingest(t, old, "kb", "open.txt", "the fee of the pool")
		clock = clock.Add(time.Hour)
		in := ingest(t, old, "kb", "fees.txt", "the fee is twelve yuan at the desk", "staff")
		later := clock.Add(time.Hour)
		if _, err := old.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "fees.txt", Body: []byte("the fee is twenty yuan at the desk"), ValidFrom: later}); err != nil {
			t.Fatal(err)
		}
		e := other()
		s, replica := timed(e), timed(e)
		s.Reembed(Reembedding{Embed: e.Embed, Record: newActs().record})
		vector, err := e.Embed(t.Context(), []string{"fee desk"}, true)
		if err != nil {
			t.Fatal(err)
		}
		// near is how many passages the vectors alone find of what was in effect: the searches below could have them of their words.
		near := func(s *library, at time.Time) int {
			t.Helper()
			ci, err := s.collection("acme", "kb")
			if err != nil {
				t.Fatal(err)
			}
			micros := int64(0)
			if !at.IsZero() {
				micros = at.UnixMicro()
			}
			in, err := ci.allowed(viewer{labels: []string{"staff"}}, micros)
			if err != nil {
				t.Fatal(err)
			}
			hits, err := in.withVectors.Near(t.Context(), vector[0], 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(hits)
		}
		check := func(stage string, byWordsNow, byWordsThen int) {
			t.Helper()
			for name, s := range map[string]*library{"here": s, "on a replica": replica} {
				follow(t, s)
				now, then := asOf(t, s, "fee desk", time.Time{}, "staff"), asOf(t, s, "fee desk", first, "staff")
				if len(now) != 2 || len(then) != 2 || now[0].Text != "the fee is twelve yuan at the desk" || then[0].Text != "the fee is ten yuan at the desk" || then[0].Version != "v1" {
					t.Errorf("%s, %s: now %+v, then %+v", stage, name, now, then)
				}
				if a, b := len(byWords(t, now)), len(byWords(t, then)); a != byWordsNow || b != byWordsThen {
					t.Errorf("%s, %s: %d and %d are found by their words, want %d and %d", stage, name, a, b, byWordsNow, byWordsThen)
				}
				if a, b := near(s, time.Time{}), near(s, first); a != 2-byWordsNow || b != 2-byWordsThen {
					t.Errorf("%s, %s: the vectors find %d and %d", stage, name, a, b)
				}
				for _, at := range []time.Time{{}, first} {
					if got := asOf(t, s, "fee desk", at); len(got) != 1 || got[0].Document != "open.txt" {
						t.Errorf("LEAK %s, %s: without the label %+v", stage, name, got)
					}
				}
			}
		}
		check("before", 2, 2)
		versions := func() []VersionInfo {
			t.Helper()
			all, err := s.Versions(t.Context(), "acme", "kb", in.ID)
			if err != nil {
				t.Fatal(err)
			}
			for i := range all {
				all[i].Revision = 0 // it grows
			}
			return all
		}
		before := versions()
		access, err := s.DocumentAccess(t.Context(), "acme", "kb", in.ID)
		if err != nil {
			t.Fatal(err)
		}
		ci, err := s.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		for n := int64(3); n >= 2; n-- { // the newest, of the future; then the one that is in effect
			if done, err := s.reembedVersion(t.Context(), ci, versionID(in.ID, n)); !done || err != nil {
				t.Fatal(done, err)
			}
		}
		check("the newest is done", 1, 2)
		if err := s.reembedPending(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("after", 0, 0)
		if after := versions(); !slices.Equal(after, before) {
			t.Errorf("the versions were %+v, are %+v", before, after)
		}
		if after, err := s.DocumentAccess(t.Context(), "acme", "kb", in.ID); err != nil || !slices.Equal(after.Labels, access.Labels) {
			t.Errorf("who may see it: %+v, was %+v, %v", after, access, err)
		}
		clock = later
		for _, s := range []*library{s, replica} {
			if err := s.freshness.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := asOf(t, s, "fee desk", time.Time{}, "staff"); len(got) != 2 || got[0].Text != "the fee is twenty yuan at the desk" || len(byWords(t, got)) != 0 {
				t.Errorf("when the next one begins: %+v", got)
			}
		}
	})
}

// TestWritesOfVectorsThatFail lets every operation on the database fail in turn, before it is carried out and after: a version has all vectors of one model
// or of the other, searches agree with the tables once they were followed, and the next turn does the rest.
func TestWritesOfVectorsThatFail(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var faults dbtest.Faults
		e := other()
		s := &library{service(t, faults.Over(db), e).Service, e}
		turns := 0
		for _, outcome := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for failed, nth := true, 1; failed; nth++ {
				old := service(t, db, newHashed())
				name := fmt.Sprintf("kb%d", turns)
				turns++
				create(t, old, "acme", name)
				ingest(t, old, name, "a.txt", "first words")
				ingest(t, old, name, "a.txt", "second words")
				follow(t, s)
				s.again = &reembedder{Reembedding: Reembedding{Embed: e.Embed, Record: newActs().record}, service: s.Service}
				failed = false
				left := nth
				faults.Set(func(string) dbtest.Outcome {
					if left--; left == 0 {
						failed = true
						return outcome
					}
					return dbtest.Healthy
				})
				err := s.reembedPending(t.Context())
				faults.Set(nil)
				if !failed && err != nil {
					t.Fatal(err)
				}
				check := func(when string) {
					t.Helper()
					var mixed, foreign int64
					if err := db.Raw(`SELECT COUNT(*) FROM rag_versions v JOIN rag_chunks c ON c.document = v.document AND c.version = v.version
						WHERE LENGTH(c.vector) <> CASE v.embedder WHEN 'hashed-64' THEN 256 ELSE 512 END`).Row().Scan(&mixed); err != nil || mixed != 0 {
						t.Errorf("operation %d fails, %s: %d passages have vectors of another model than their version: %v", nth, when, mixed, err)
					}
					if err := db.Raw("SELECT COUNT(*) FROM rag_versions v JOIN rag_collections c ON c.id = v.collection WHERE c.name = ? AND v.version = 2 AND v.embedder <> 'hashed-64'", name).Row().Scan(&foreign); err != nil {
						t.Fatal(err)
					}
					follow(t, s)
					if got := find(t, s, name, "words"); len(got) != 1 || got[0].Text != "second words" || len(byWords(t, got)) != int(foreign) {
						t.Errorf("operation %d fails, %s: %d versions are left, found %+v", nth, when, foreign, got)
					}
				}
				check("after it")
				if err := after(t, s, time.Hour); err != nil {
					t.Errorf("operation %d fails, the turn after: %v", nth, err)
				}
				check("after the next turn")
				if got := byWords(t, find(t, s, name, "words")); len(got) != 0 {
					t.Errorf("operation %d fails: %v is left for good", nth, got)
				}
				if err := s.DeleteCollection(t.Context(), "acme", name); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%d turns", turns)
	})
}

// TestReembeddingStopsWithTheCollection: a collection that is deleted while it is worked on stays deleted, costs no further text, and is not called done.
func TestReembeddingStopsWithTheCollection(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		old := service(t, db, newHashed())
		create(t, old, "acme", "kb")
		for i := range 3 {
			ingest(t, old, "kb", fmt.Sprintf("%d.txt", i), long("word"))
		}
		e := other()
		s, recorded := again(t, db, e)
		asked := 0
		s.again.Embed = func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
			if asked++; asked == 1 {
				if err := s.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
					return nil, err
				}
			}
			return e.Embed(ctx, texts, question)
		}
		for range 2 {
			if err := s.reembedPending(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if asked != 1 || len(recorded.list) != 1 {
			t.Errorf("asked %d times, recorded %+v", asked, recorded.list)
		}
		var rows int64
		if err := db.Raw("SELECT (SELECT COUNT(*) FROM rag_versions) + (SELECT COUNT(*) FROM rag_chunks) + (SELECT COUNT(*) FROM rag_changes WHERE name LIKE 'reembed %')").Row().Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows are left: %v", rows, err)
		}
	})
}

// TestGoneVersionsStayGone: a version that is deleted, or whose document is replaced, while its vectors are made is not stored again; the other one is done.
func TestGoneVersionsStayGone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		old := service(t, db, newHashed())
		create(t, old, "acme", "kb")
		in := ingest(t, old, "kb", "a.txt", "first words")
		ingest(t, old, "kb", "a.txt", "second words")
		e := other()
		s, _ := again(t, db, e)
		s.again.Embed = func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
			if strings.Contains(texts[0], "first") {
				if err := old.DeleteVersion(t.Context(), "acme", "kb", in.ID, "v1"); err != nil {
					return nil, err
				}
			}
			return e.Embed(ctx, texts, question)
		}
		if err := s.reembedPending(t.Context()); err != nil {
			t.Fatal(err)
		}
		var versions, chunks int64
		if err := db.Raw("SELECT (SELECT COUNT(*) FROM rag_versions), (SELECT COUNT(*) FROM rag_chunks)").Row().Scan(&versions, &chunks); err != nil || versions != 1 || chunks != 1 {
			t.Errorf("%d versions and %d passages are stored: %v", versions, chunks, err)
		}
		follow(t, s)
		if got := find(t, s, "kb", "words"); len(got) != 1 || got[0].Text != "second words" || got[0].ByWords {
			t.Errorf("%+v", got)
		}
		if ci, err := s.collection("acme", "kb"); err != nil || len(ci.passages.View().Find(in.ID)) != 1 {
			t.Errorf("the store has another number of versions: %v", err)
		}
	})
}

// TestFollowingWithoutTheIndex: a replica whose index fails while it takes over new vectors is behind, and takes them over when it works again.
func TestFollowingWithoutTheIndex(t *testing.T) {
	db := dbtest.SQLite(t)
	old := service(t, db, newHashed())
	create(t, old, "acme", "kb")
	ingest(t, old, "kb", "a.txt", "some words")
	e := other()
	l := service(t, db, e)
	f := failStore(t, l, "kb")
	s, _ := again(t, db, e)
	if err := s.reembedPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.set(&f.prepare, true)
	if err := l.follow(t.Context()); !errors.Is(err, errInjected) {
		t.Errorf("following says %v", err)
	}
	if got := find(t, l, "kb", "words"); len(got) != 1 || !got[0].ByWords {
		t.Errorf("%+v", got)
	}
	f.set(&f.prepare, false)
	follow(t, l)
	if got := find(t, l, "kb", "words"); len(got) != 1 || got[0].ByWords {
		t.Errorf("%+v", got)
	}
}

// TestGoingBackToTheOtherModel: a replica that still has the model before finds by their words what another one has embedded again meanwhile.
func TestGoingBackToTheOtherModel(t *testing.T) {
	db := dbtest.SQLite(t)
	old := service(t, db, newHashed())
	create(t, old, "acme", "kb")
	ingest(t, old, "kb", "a.txt", "some words")
	s, _ := again(t, db, other())
	if err := s.reembedPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	follow(t, old)
	if got := find(t, old, "kb", "words"); len(got) != 1 || !got[0].ByWords {
		t.Errorf("%+v", got)
	}
	old.Reembed(Reembedding{Embed: old.from.Embed, Record: newActs().record})
	if err := old.reembedPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	for s, words := range map[*library]bool{old: false, s: true} {
		follow(t, s)
		if got := find(t, s, "kb", "words"); len(got) != 1 || got[0].ByWords != words {
			t.Errorf("%s: %+v", s.model.ID, got)
		}
	}
}

// TestNotesOfReembeddingDoNotPileUp: what was noted for a model that is no more, or for a collection that is gone, goes with the next one that is done.
func TestNotesOfReembeddingDoNotPileUp(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	ingest(t, s, "kb", "a.txt", "opening hours")
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ci.id, "d3b07384-0000-4000-8000-000000000000"} {
		if err := s.store.beginReembedding(t.Context(), id, "a model of before", 1); err != nil {
			t.Fatal(err)
		}
	}
	s, _ = again(t, db, other())
	if err := s.reembedPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := db.Model(&changeRow{}).Where("name LIKE ?", reembedPrefix+"%").Pluck("name", &names).Error; err != nil || len(names) != 0 {
		t.Errorf("left: %q, %v", names, err)
	}
}

// TestAnotherReplicaDeletesTheCollection: what is stored for a collection that another replica has deleted meanwhile is nothing, and no failure.
func TestAnotherReplicaDeletesTheCollection(t *testing.T) {
	db := dbtest.SQLite(t)
	old := service(t, db, newHashed())
	create(t, old, "acme", "kb")
	ingest(t, old, "kb", "a.txt", "some words")
	e := other()
	s, _ := again(t, db, e)
	s.again.Embed = func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
		if err := old.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
			return nil, err
		}
		return e.Embed(ctx, texts, question)
	}
	if err := s.reembedPending(t.Context()); err != nil {
		t.Error(err)
	}
	var rows int64
	if err := db.Raw("SELECT (SELECT COUNT(*) FROM rag_versions) + (SELECT COUNT(*) FROM rag_chunks)").Row().Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows are stored again: %v", rows, err)
	}
}
