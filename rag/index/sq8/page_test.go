package sq8

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/rag/index"
)

// Both ways through the filter see the same rows; ids at the end of their range end nothing early and wrap nothing.
func TestSelections(t *testing.T) {
	x := New(2, kernel.Generic())
	rng := rand.New(rand.NewPCG(4, 4))
	ids := []uint32{0, 1023, 1024, 5000, 5001, 70_000, 1<<32 - 1025, 1<<32 - 1}
	for _, id := range ids {
		if err := x.Upsert(t.Context(), []index.Entry{{ID: id, Vector: []float32{1, 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.order) != 6 {
		t.Errorf("%d pages", len(x.order))
	}
	for range 50 {
		want := roaring.New()
		for _, id := range ids {
			if rng.IntN(2) == 0 {
				want.Add(id)
			}
		}
		asked := want.Clone()
		for range 1000 {
			if id := rng.Uint32N(80_000); !roaring.BitmapOf(ids...).Contains(id) {
				asked.Add(id)
			}
		}
		check := func(name string, asked, want *roaring.Bitmap, seq func(func(uint32, *selection) bool)) {
			got := roaring.New()
			for first, s := range seq {
				if s.page != x.pages[first/pageRows] || s.rows.count() == 0 {
					t.Fatalf("%s: selection at %d", name, first)
				}
				for row := range uint32(pageRows) {
					if s.rows.has(row) {
						got.Add(first + row)
					}
				}
			}
			if !got.Equals(want) {
				t.Errorf("%s: %v instead of %v", name, got, want)
			}
		}
		check("sparse", asked, want, x.sparse(asked))
		asked.RemoveRange(100_000, 1<<32)
		want.RemoveRange(100_000, 1<<32)
		check("dense", asked, want, x.dense(asked))
	}
}

// Nothing of a deleted vector stays in memory, neither in a page that goes on nor in one that goes.
func TestDeleteOverwrites(t *testing.T) {
	x := New(40, kernel.Generic())
	v := make([]float32, 40)
	for i := range v {
		v[i] = float32(i + 1)
	}
	if err := x.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: v}, {ID: 2, Vector: v}}); err != nil {
		t.Fatal(err)
	}
	p := x.pages[0]
	for n, id := range []uint32{1, 2} {
		if err := x.Delete(t.Context(), []uint32{id}); err != nil {
			t.Fatal(err)
		}
		for _, of := range [][]int8{p.row(p.codes, id), p.row(p.rests, id)} {
			for i, b := range of {
				if b != 0 {
					t.Fatalf("byte %d of entry %d is %d", i, id, b)
				}
			}
		}
		if p.scales[id] != 0 || p.errors[id] != 0 || p.has(id) || p.count != 1-n {
			t.Errorf("entry %d left something", id)
		}
	}
	if len(x.pages) != 0 || len(x.order) != 0 {
		t.Errorf("an empty page stays")
	}
}

// A search keeps a bounded number of candidates, also where the codes tell nothing apart.
func TestCandidatesAreBounded(t *testing.T) {
	p := newPage(32)
	v := make([]float32, 32)
	v[3] = 1
	var all rowSet
	for row := range uint32(pageRows) {
		p.set(row, v)
		all.add(row)
	}
	words, norm := integers(make([]int16, 32), v, queryLimit(32))
	s := newSearch(kernel.Generic(), words, norm, 10)
	for i := range uint32(200) {
		s.scan(i*pageRows, p, &all)
	}
	if c := cap(s.candidates) + cap(s.best); c > 20_000 {
		t.Errorf("room for %d candidates", c)
	}
	if hits := s.hits(); len(hits) != 10 || hits[9].ID != 9 || hits[0].Score != 1 {
		t.Errorf("hits %v", hits)
	}
}

// Rows that were written and restored elsewhere score to the bit as before.
func TestRestore(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const dim, n = 33, 1500
	x, y := New(dim, kernel.Generic()), New(dim, kernel.Generic())
	var rows []byte
	q, allowed := make([]float32, dim), roaring.New()
	for id := range uint32(n) {
		for i := range q {
			q[i] = float32(rng.NormFloat64())
		}
		if err := x.Upsert(t.Context(), []index.Entry{{ID: id, Vector: q}}); err != nil {
			t.Fatal(err)
		}
		rows, _ = x.AppendRow(rows, id)
		allowed.Add(id + 700)
	}
	if _, ok := x.AppendRow(nil, n); ok || len(rows) != n*RowBytes(dim) {
		t.Fatalf("%d bytes", len(rows))
	}
	if err := y.Restore(700, rows); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]error{"half a row": y.Restore(0, rows[1:]), "beyond the last id": y.Restore(1<<32-2, rows)} {
		if bad == nil {
			t.Errorf("%s was restored", name)
		}
	}
	all := roaring.New()
	all.AddRange(0, n)
	want, err := x.Search(t.Context(), index.Query{Vector: q, Allowed: all, TopK: 50})
	if err != nil {
		t.Fatal(err)
	}
	got, err := y.Search(t.Context(), index.Query{Vector: q, Allowed: allowed, TopK: 50})
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range want {
		if got[i].ID != h.ID+700 || got[i].Score != h.Score {
			t.Fatalf("hit %d is %v instead of %v", i, got[i], h)
		}
	}
}

// A page has room for what it holds, and where it was nothing stays.
func TestPagesGrow(t *testing.T) {
	const dim = 40
	x := New(dim, kernel.Generic())
	v := make([]float32, dim)
	v[5] = 1
	for _, step := range []struct{ id, rows uint32 }{{0, 64}, {63, 64}, {64, 128}, {100, 128}, {500, 512}, {1023, 1024}} {
		var before []int8
		if p := x.pages[0]; p != nil {
			before = p.codes
		}
		if err := x.Upsert(t.Context(), []index.Entry{{ID: step.id, Vector: v}}); err != nil {
			t.Fatal(err)
		}
		p := x.pages[0]
		if rows := uint32(len(p.scales)); rows != step.rows || len(p.errors) != len(p.scales) || len(p.codes) != int(rows)*64 || len(p.rests) != len(p.codes) {
			t.Errorf("with id %d: %d rows, %d codes", step.id, rows, len(p.codes))
		}
		for _, c := range before {
			if len(before) != len(p.codes) && c != 0 {
				t.Fatal("a vector stays where it was")
			}
		}
	}
	hits, err := x.Search(t.Context(), index.Query{Vector: v, Allowed: roaring.BitmapOf(0, 1, 63, 64, 100, 500, 1023, 1024), TopK: math.MaxInt})
	if err != nil || len(hits) != 6 {
		t.Errorf("%v, %v", hits, err)
	}
}
