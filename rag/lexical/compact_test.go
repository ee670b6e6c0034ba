package lexical

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// TestChangesGoOnWhileSegmentsMerge: documents are added, replaced and removed between the merge of segments and its taking over. Nothing is
// lost, nothing comes back, and scores are those of an index that was built at once.
func TestChangesGoOnWhileSegmentsMerge(t *testing.T) {
	t.Parallel()
	for _, rewritten := range []bool{false, true} {
		changesWhileMerging(t, rewritten)
	}
}

// changesWhileMerging has a change write one of the sources again, or not.
func changesWhileMerging(t *testing.T, rewritten bool) {
	t.Helper()
	x, texts := New(), map[uint32]string{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(from, to uint32, word string) {
		var docs []Document
		for id := from; id < to; id++ {
			texts[id] = fmt.Sprintf("fox %s %d", word, id%7)
			docs = append(docs, Document{id, texts[id]})
		}
		must(x.Add(docs...))
	}
	const step = 600
	for i := range uint32(fanIn) { // together more than a change merges itself
		add(i*step, (i+1)*step, "red")
	}
	some := due(x.snapshot(), 1<<30)
	if len(some) != fanIn || due(x.snapshot(), smallDocs) != nil {
		t.Fatalf("%d segments are due", len(some))
	}
	merged, err := mergeParts(some...)
	must(err)
	add(0, 200, "grey") // replaced
	if rewritten {
		add(5*step, 5*step+400, "white") // so much that the change writes what is left again
	}
	for id := uint32(2 * step); id < 3*step; id++ {
		delete(texts, id) // a whole segment
		must(x.Remove(id))
	}
	must(x.Remove(3))
	delete(texts, 3)
	x.takeOver(some, merged)
	must(x.Compact())
	if parts := len(x.snapshot()); parts >= fanIn {
		t.Errorf("%d segments are left", parts)
	}
	if x.Len() != len(texts) {
		t.Errorf("%d documents of %d", x.Len(), len(texts))
	}
	fresh, everything := New(), roaring.New()
	var docs []Document
	for id, text := range texts {
		docs = append(docs, Document{id, text})
	}
	everything.AddRange(0, 10_000)
	must(fresh.Add(docs...))
	for _, q := range []string{"red", "grey fox 3", "white 1", "fox"} {
		var hits [2][]Hit
		for i, index := range []*Index{x, fresh} {
			r, err := index.Rank(q, everything)
			must(err)
			hits[i], err = r.Best(10_000)
			must(err)
		}
		if !reflect.DeepEqual(hits[0], hits[1]) {
			t.Errorf("%q finds %d documents, %d if built at once", q, len(hits[0]), len(hits[1]))
		}
	}
}
