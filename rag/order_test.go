package rag

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag/index/flat"
	"github.com/sluice-project/sluice/rag/rank"
)

// ordered returns a collection with one passage per text, under names d0, d1 and so on, with the vectors of hashed.
func ordered(t *testing.T, texts ...string) (*collectionIndex, *hashed) {
	t.Helper()
	e := newHashed()
	ci, err := newCollectionIndex(collectionRow{ID: "c", Name: "kb", Labels: encodeLabels(nil)}, e.model, flat.New(e.dim), ruleKeeper{keyring.FromBytes(bytes.Repeat([]byte{7}, 32))}, time.Now)
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
	made := &indexedVersion{name: id, chunks: []chunkRow{{End: len(text), Vector: encodeVector(v[0])}}}
	made.Document, made.Content, made.Embedder = id, text, e.model
	made.Version = 1
	b := &indexedDocument{labels: []string{}}
	b.ID, b.Name, b.Labels = id, id, encodeLabels(nil)
	if old := ci.document(id); old != nil {
		made.Version, b.Revision = old.versions[0].Version+1, old.Revision+1
	}
	made.ID = versionID(id, made.Version)
	b.versions = []datedVersion{{indexedVersion: made, from: 1, embedder: e.model}}
	b.spans = []span{{id: made.ID, from: 1, embedder: e.model}}
	if err := ci.prepare(context.Background(), made); err != nil {
		t.Fatal(err)
	}
	dropped, shown := ci.show(b)
	if err := ci.drop(context.Background(), dropped); err != nil || !shown {
		t.Fatal(shown, err)
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
	f, err := ci.findVisible(t.Context(), "red fox", v[0], viewer{}, 0, maxFused)
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
	f, err := ci.findVisible(t.Context(), "red fox", v[0], viewer{}, 0, maxFused)
	if err != nil || len(f.chunks) != 50 {
		t.Errorf("%d candidates are ordered, %v", len(f.chunks), err)
	}
	m, _, err := rank.Learned()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ci.search(t.Context(), m, "red fox", v[0], viewer{}, 0, 60); err != nil || len(got) != 60 {
		t.Errorf("%d passages of 60, %v", len(got), err)
	}
}

// TestNumbersLieTogether: documents that replace others all over a collection get numbers that are near each other, and no more
// numbers are in use than the documents need twice over.
func TestNumbersLieTogether(t *testing.T) {
	t.Parallel()
	const documents, chunks = 2000, 3 // chunks of a document in the mean
	var ci collectionIndex
	rng, held, most := rand.New(rand.NewPCG(1, 2)), make([][]uint32, documents), uint32(0)
	for i := range held {
		held[i] = ci.take(1 + rng.IntN(2*chunks-1))
	}
	span := 0
	const changes = 20_000
	for range changes {
		i := rng.IntN(documents)
		taken := ci.take(1 + rng.IntN(2*chunks-1))
		ci.free(held[i])
		held[i] = taken
		most = max(most, slices.Max(taken))
		span += int(slices.Max(taken) - slices.Min(taken) + 1)
	}
	if mean := float64(span) / changes; mean > 30*chunks {
		t.Errorf("the numbers of a document of %d chunks span %v", chunks, mean)
	}
	if most > 4*documents*chunks {
		t.Errorf("numbers go up to %d for %d chunks", most, documents*chunks)
	}
	used := map[uint32]bool{}
	for _, n := range slices.Concat(held...) {
		if used[n] {
			t.Fatalf("%d is in use twice", n)
		}
		used[n] = true
	}
}
