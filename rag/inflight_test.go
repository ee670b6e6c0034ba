package rag

import (
	"context"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/segment"
)

// meanwhile is the embedder of a test in which something happens while a text waits for its vector.
func meanwhile(s *library, act func()) EmbedFunc {
	return func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
		act()
		return s.from.Embed(ctx, texts, question)
	}
}

// TestSearchesInFlight: what becomes of a collection while a question waits for its vector holds for that search.
func TestSearchesInFlight(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", "secret words")
	search := func(act func()) ([]Passage, error) {
		return s.Service.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5, Embed: meanwhile(s, act)})
	}
	got, err := search(func() {})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, got, "secret words")

	got, err = search(func() { // a right is taken away, and the store cannot be told
		f := failStore(t, s, "kb")
		f.set(&f.apply, true)
		if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: true}}); err != nil {
			t.Fatal(err)
		}
	})
	wantCode(t, err, fault.CodeRetrievalFailed)
	wantTexts(t, got)
	if list, err := s.Documents(t.Context(), "acme", "kb", &Reader{}); err != nil || len(list) != 0 { // by the tables
		t.Errorf("listed %+v, %v", list, err)
	}
	parts := Rule{Parts: []PartRule{{Version: "v1", Chunks: []int{0}}}}
	if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: parts}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Documents(t.Context(), "acme", "kb", &Reader{}); !fault.Is(err, fault.CodeRetrievalFailed) {
		t.Errorf("a list by a store that was not told: %v", err)
	}
	if all, err := s.Collections(t.Context(), "acme", &Reader{}); err != nil || len(all) != 1 || all[0].Documents != 0 {
		t.Errorf("counted %+v, %v", all, err)
	}
	if all, err := s.Documents(t.Context(), "acme", "kb", nil); err != nil || len(all) != 1 {
		t.Errorf("those who manage it see %+v, %v", all, err)
	}
	follow(t, s)

	got, err = search(func() { // opened again
		ci, err := s.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Revision: 0}); err != nil {
			t.Fatal(err)
		}
		ci.fail(errInjected)
		follow(t, s)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, got, "secret words")

	got, err = search(func() {
		if err := s.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
			t.Fatal(err)
		}
	})
	wantCode(t, err, fault.CodeCollectionNotFound)
	wantTexts(t, got)

	create(t, s, "acme", "kb")
	ingest(t, s, "kb", "b.txt", "public words")
	got, err = search(func() { // another one of that name
		if err := s.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
			t.Fatal(err)
		}
		create(t, s, "acme", "kb")
		ingest(t, s, "kb", "c.txt", "other words")
	})
	wantCode(t, err, fault.CodeCollectionNotFound)
	wantTexts(t, got)
}

// TestIngestOverAReopening: a document whose collection was opened again while it waited for its vectors is stored, found at once, and answered so.
func TestIngestOverAReopening(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	reopened := 0
	draft, err := s.Read(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("some words")})
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Store(t.Context(), draft, meanwhile(s, func() {
		ci, err := s.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		ci.fail(errInjected)
		follow(t, s)
		reopened++
	}))
	if err != nil || in.Version != "v1" || reopened != 1 {
		t.Fatalf("%+v, %v, opened again %d times", in, err, reopened)
	}
	wantTexts(t, find(t, s, "kb", "words"), "some words")

	// Or while the store is told.
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	ci.passages = &leaving{ci.passages, func() {
		ci.fail(errInjected)
		follow(t, s)
	}}
	ingest(t, s, "kb", "b.txt", "more words")
	if got := find(t, s, "kb", "words"); len(got) != 2 {
		t.Errorf("found %+v", got)
	}
}

// leaving is a store that is closed when it is told of a change.
type leaving struct {
	passageStore

	leave func()
}

func (l *leaving) Apply(context.Context, segment.Change) error {
	l.leave()
	return segment.ErrClosed
}
