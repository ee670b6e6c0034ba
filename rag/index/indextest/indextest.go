// Package indextest is the suite that every implementation of rag/index passes.
package indextest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
)

// Config says what is tested.
type Config struct {
	// New returns an empty index for vectors of dim components.
	New func(t *testing.T, dim int) index.Index
	// Recall is the share of the true neighbours that must be found; 1 for an exact index.
	Recall float64
	// Tolerance is how far a score may be from the true cosine; 0 means 1e-5.
	Tolerance float64
}

// Run runs the suite.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Tolerance == 0 {
		cfg.Tolerance = 1e-5
	}
	for name, test := range map[string]func(*testing.T, Config){
		"nearest":     nearest,
		"filter":      filter,
		"ties":        ties,
		"changes":     changes,
		"refusals":    refusals,
		"extremes":    extremes,
		"close":       closing,
		"cancelled":   cancelled,
		"concurrency": concurrency,
	} {
		t.Run(name, func(t *testing.T) { test(t, cfg) })
	}
}

func vector(rng *rand.Rand, dim int) []float32 {
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func cosine(a, b []float32) float32 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return float32(ab / math.Sqrt(aa) / math.Sqrt(bb))
}

// truth returns the k nearest of the allowed entries.
func truth(entries map[uint32][]float32, q index.Query) []index.Hit {
	var out []index.Hit
	for id, v := range entries {
		if q.Allowed.Contains(id) {
			out = append(out, index.Hit{ID: id, Score: cosine(q.Vector, v)})
		}
	}
	slices.SortFunc(out, func(a, b index.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return out[:min(q.TopK, len(out))]
}

func fill(t *testing.T, x index.Index, rng *rand.Rand, n, dim int) map[uint32][]float32 {
	t.Helper()
	all := map[uint32][]float32{}
	var batch []index.Entry
	for i := range n {
		id := uint32(i * 3)
		all[id] = vector(rng, dim)
		batch = append(batch, index.Entry{ID: id, Vector: slices.Clone(all[id])})
	}
	upsert(t, x, batch...)
	for _, e := range batch {
		clear(e.Vector) // the index must not have kept them
	}
	return all
}

func upsert(t *testing.T, x index.Index, entries ...index.Entry) {
	t.Helper()
	if err := x.Upsert(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

func search(t *testing.T, x index.Index, q index.Query) []index.Hit {
	t.Helper()
	hits, err := x.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// compare checks hits against the truth and returns how many of its ids were found.
func compare(t *testing.T, cfg Config, entries map[uint32][]float32, q index.Query, hits []index.Hit) (found, want int) {
	t.Helper()
	if len(hits) > q.TopK {
		t.Fatalf("%d hits instead of %d", len(hits), q.TopK)
	}
	for i, h := range hits {
		if !q.Allowed.Contains(h.ID) {
			t.Fatalf("hit %d is not allowed", h.ID)
		}
		if s := cosine(q.Vector, entries[h.ID]); math.Abs(float64(h.Score-s)) > cfg.Tolerance {
			t.Fatalf("score of %d is %g, its cosine %g", h.ID, h.Score, s)
		}
		if i > 0 && (hits[i-1].Score < h.Score || hits[i-1].Score == h.Score && hits[i-1].ID >= h.ID) {
			t.Fatalf("hits out of order: %v", hits)
		}
	}
	best := truth(entries, q)
	for _, b := range best {
		if slices.ContainsFunc(hits, func(h index.Hit) bool { return h.ID == b.ID || math.Abs(float64(h.Score-b.Score)) < cfg.Tolerance/10 }) {
			found++
		}
	}
	return found, len(best)
}

func recall(t *testing.T, cfg Config, found, want int) {
	t.Helper()
	if float64(found) < cfg.Recall*float64(want) {
		t.Errorf("found %d of %d neighbours", found, want)
	}
}

func nearest(t *testing.T, cfg Config) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	for _, dim := range []int{1, 7, 8, 33, 128} {
		x := cfg.New(t, dim)
		all := fill(t, x, rng, 300, dim)
		allowed := roaring.New()
		allowed.AddRange(0, 2000)
		found, want := 0, 0
		for _, k := range []int{1, 5, 100, 1000} {
			q := index.Query{Vector: vector(rng, dim), Allowed: allowed, TopK: k}
			f, w := compare(t, cfg, all, q, search(t, x, q))
			found, want = found+f, want+w
		}
		recall(t, cfg, found, want)
	}
}

// filter asks with filters that let everything, a tenth, a hundredth, one and none through.
func filter(t *testing.T, cfg Config) {
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // reproducible
	const n, dim = 2000, 16
	x := cfg.New(t, dim)
	all := fill(t, x, rng, n, dim)
	found, want := 0, 0
	for _, share := range []float64{1, 0.1, 0.01, 0.0005, 0} {
		for range 10 {
			allowed := roaring.New()
			for id := range all {
				if rng.Float64() < share {
					allowed.Add(id)
				}
			}
			allowed.Add(1) // in the filter, not in the index
			q := index.Query{Vector: vector(rng, dim), Allowed: allowed, TopK: 10}
			f, w := compare(t, cfg, all, q, search(t, x, q))
			found, want = found+f, want+w
		}
	}
	recall(t, cfg, found, want)
	for _, q := range []index.Query{
		{Vector: vector(rng, dim), TopK: 5},
		{Vector: vector(rng, dim), TopK: 5, Allowed: roaring.New()},
		{Vector: vector(rng, dim), TopK: 0, Allowed: roaring.BitmapOf(0)},
		{Vector: vector(rng, dim), TopK: -1, Allowed: roaring.BitmapOf(0)},
	} {
		if hits := search(t, x, q); len(hits) != 0 {
			t.Errorf("found %v", hits)
		}
	}
}

func ties(t *testing.T, cfg Config) {
	x := cfg.New(t, 4)
	allowed := roaring.New()
	for _, id := range []uint32{9, 2, 7, 4, 1} {
		upsert(t, x, index.Entry{ID: id, Vector: []float32{1, 2, 3, 4}})
		allowed.Add(id)
	}
	var ids []uint32
	for _, h := range search(t, x, index.Query{Vector: []float32{4, 3, 2, 1}, Allowed: allowed, TopK: 3}) {
		ids = append(ids, h.ID)
	}
	if !slices.Equal(ids, []uint32{1, 2, 4}) {
		t.Errorf("equal scores came as %v", ids)
	}
}

func changes(t *testing.T, cfg Config) {
	rng := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // reproducible
	const dim = 12
	x := cfg.New(t, dim)
	all := map[uint32][]float32{}
	allowed := roaring.New()
	allowed.AddRange(0, 64)
	for range 400 {
		id := rng.Uint32N(64)
		if rng.IntN(3) == 0 {
			if err := x.Delete(t.Context(), []uint32{id, 1 << 30}); err != nil {
				t.Fatal(err)
			}
			delete(all, id)
		} else {
			all[id] = vector(rng, dim)
			upsert(t, x, index.Entry{ID: id, Vector: vector(rng, dim)}, index.Entry{ID: id, Vector: all[id]})
		}
		q := index.Query{Vector: vector(rng, dim), Allowed: allowed, TopK: 64}
		if hits := search(t, x, q); len(hits) != len(all) {
			t.Fatalf("%d entries found of %d", len(hits), len(all))
		} else {
			compare(t, cfg, all, q, hits)
		}
	}
}

func refusals(t *testing.T, cfg Config) {
	x := cfg.New(t, 2)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, v := range [][]float32{nil, {1}, {1, 2, 3}, {nan, 1}, {1, inf}, {-inf, 0}} {
		err := x.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: []float32{1, 0}}, {ID: 2, Vector: v}})
		if !errors.Is(err, index.ErrVector) {
			t.Errorf("storing %v: %v", v, err)
		}
		if _, err := x.Search(t.Context(), index.Query{Vector: v, Allowed: roaring.BitmapOf(1), TopK: 1}); !errors.Is(err, index.ErrVector) {
			t.Errorf("searching %v: %v", v, err)
		}
	}
	if hits := search(t, x, index.Query{Vector: []float32{1, 0}, Allowed: roaring.BitmapOf(1, 2), TopK: 5}); len(hits) != 0 {
		t.Errorf("a refused batch left %v", hits)
	}
}

func extremes(t *testing.T, cfg Config) {
	x := cfg.New(t, 2)
	const big, small = 3e38, 1e-30
	upsert(t, x, index.Entry{ID: 1, Vector: []float32{big, big}}, index.Entry{ID: 2, Vector: []float32{small, 0}}, index.Entry{ID: 3, Vector: []float32{0, 0}})
	hits := search(t, x, index.Query{Vector: []float32{big, 0}, Allowed: roaring.BitmapOf(1, 2, 3), TopK: 3})
	if len(hits) != 3 || hits[0].ID != 2 || math.Abs(float64(hits[0].Score-1)) > cfg.Tolerance || hits[1].ID != 1 ||
		math.Abs(float64(hits[1].Score)-math.Sqrt2/2) > cfg.Tolerance || hits[2].Score != 0 {
		t.Errorf("got %v", hits)
	}
	for _, h := range search(t, x, index.Query{Vector: []float32{0, 0}, Allowed: roaring.BitmapOf(1, 2, 3), TopK: 3}) {
		if h.Score != 0 {
			t.Errorf("a query without direction scored %v", h)
		}
	}
}

func closing(t *testing.T, cfg Config) {
	x := cfg.New(t, 1)
	upsert(t, x, index.Entry{ID: 1, Vector: []float32{1}})
	for range 2 {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(1), TopK: 1})
	for _, err := range []error{err, x.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: []float32{1}}}), x.Delete(t.Context(), []uint32{1})} {
		if !errors.Is(err, index.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func cancelled(t *testing.T, cfg Config) {
	x := cfg.New(t, 1)
	upsert(t, x, index.Entry{ID: 1, Vector: []float32{1}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := x.Search(ctx, index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(1), TopK: 1})
	for _, err := range []error{err, x.Upsert(ctx, []index.Entry{{ID: 2, Vector: []float32{1}}}), x.Delete(ctx, []uint32{1})} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	if hits := search(t, x, index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(1, 2), TopK: 5}); len(hits) != 1 || hits[0].ID != 1 {
		t.Errorf("a cancelled change had an effect: %v", hits)
	}
}

// concurrency changes and searches at once; a search sees a batch whole or not at all.
func concurrency(t *testing.T, cfg Config) {
	x := cfg.New(t, 2)
	pair := func(v float32) []index.Entry {
		return []index.Entry{{ID: 1, Vector: []float32{v, 1}}, {ID: 2, Vector: []float32{v, 1}}}
	}
	upsert(t, x, pair(0)...)
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 300 {
				if err := x.Upsert(t.Context(), pair(float32(w*300+i))); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 300 {
				hits, err := x.Search(t.Context(), index.Query{Vector: []float32{1, 0}, Allowed: roaring.BitmapOf(1, 2), TopK: 2})
				if err != nil || len(hits) != 2 || hits[0].Score != hits[1].Score {
					t.Errorf("saw half a change: %v, %v", hits, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
