package rag

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluice-project/sluice/rag/index/flat"
	"github.com/sluice-project/sluice/rag/rank"
)

// ordered returns a collection with one passage per text, under names d0, d1 and so on, with the vectors of hashed.
func ordered(t *testing.T, texts ...string) (*collectionIndex, *hashed) {
	t.Helper()
	e := newHashed()
	ci, err := newCollectionIndex(collectionRow{ID: "c", Name: "kb", Labels: encodeLabels(nil)}, e.model, flat.New(e.dim))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		putText(t, ci, e, fmt.Sprintf("d%d", i), text)
	}
	return ci, e
}

func putText(t testing.TB, ci *collectionIndex, e *hashed, id, text string) {
	t.Helper()
	v, err := e.Embed(context.Background(), []string{text}, false)
	if err != nil {
		t.Fatal(err)
	}
	b := &indexedDocument{chunks: []chunkRow{{End: len(text), Vector: encodeVector(v[0])}}}
	b.ID, b.Name, b.Content, b.Embedder, b.Labels = id, id, text, e.model, encodeLabels(nil)
	if err := ci.put(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

// TestOrderingNeedsNoLock: what was found is ordered while a change holds the collection, and as it was when it was found.
func TestOrderingNeedsNoLock(t *testing.T) {
	t.Parallel()
	ci, e := ordered(t, "red fox", "grey wolf", "red wolf")
	v, err := e.Embed(t.Context(), []string{"red fox"}, true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ci.findVisible(t.Context(), "red fox", v[0], nil, maxFused)
	if err != nil {
		t.Fatal(err)
	}
	putText(t, ci, e, "d0", "nothing of it")
	if err := ci.remove(t.Context(), "d2"); err != nil {
		t.Fatal(err)
	}
	m, _, err := rank.Learned()
	if err != nil {
		t.Fatal(err)
	}
	ci.mu.Lock() // as a change does
	defer ci.mu.Unlock()
	got := ci.passages(f, f.scores(m))
	wantTexts(t, got, "red fox", "red wolf", "grey wolf")
}

// TestFewAreOrdered: no more candidates are read than are ordered, but as many as are asked for.
func TestFewAreOrdered(t *testing.T) {
	t.Parallel()
	texts := make([]string, 70)
	for i := range texts {
		texts[i] = fmt.Sprintf("red fox %d", i)
	}
	ci, e := ordered(t, texts...)
	v, err := e.Embed(t.Context(), []string{"red fox"}, true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ci.findVisible(t.Context(), "red fox", v[0], nil, maxFused)
	if err != nil || len(f.chunks) != 50 {
		t.Errorf("%d candidates are ordered, %v", len(f.chunks), err)
	}
	m, _, err := rank.Learned()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ci.search(t.Context(), m, "red fox", v[0], nil, 60); err != nil || len(got) != 60 {
		t.Errorf("%d passages of 60, %v", len(got), err)
	}
}
