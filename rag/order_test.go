package rag

import (
	"fmt"
	"testing"

	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/rank"
)

// TestFoundIsAsItWasFound: what was found is ordered as it was when it was found, whatever is changed meanwhile.
func TestFoundIsAsItWasFound(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	for i, text := range []string{"red fox", "grey wolf", "red wolf"} {
		ingest(t, s, "kb", fmt.Sprintf("d%d.txt", i), text)
	}
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.from.Embed(t.Context(), []string{"red fox"}, true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ci.findVisible(t.Context(), []string{"red fox"}, v[0], viewer{}, 0, maxFused)
	if err != nil {
		t.Fatal(err)
	}
	ingest(t, s, "kb", "d0.txt", "nothing of it")
	if err := s.DeleteDocument(t.Context(), "acme", "kb", "d2.txt"); err != nil {
		t.Fatal(err)
	}
	m, _, err := rank.Learned()
	if err != nil {
		t.Fatal(err)
	}
	got, _ := ci.ordered(f, scores(m, f.features()))
	wantTexts(t, got, "red fox", "red wolf", "grey wolf")
}

// TestFewAreOrdered: no more candidates are read than are ordered, but as many as are asked for.
func TestFewAreOrdered(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	s.cfg.MaxTopK = 60
	create(t, s, "acme", "kb")
	for i := range 70 {
		ingest(t, s, "kb", fmt.Sprintf("d%d.txt", i), fmt.Sprintf("red fox %d", i))
	}
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.from.Embed(t.Context(), []string{"red fox"}, true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ci.findVisible(t.Context(), []string{"red fox"}, v[0], viewer{}, 0, maxFused)
	if err != nil || len(f.passages) != 50 {
		t.Errorf("%d candidates are ordered, %v", len(f.passages), err)
	}
	got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "red fox", TopK: 60})
	if err != nil || len(got) != 60 {
		t.Errorf("%d passages of 60, %v", len(got), err)
	}
}
