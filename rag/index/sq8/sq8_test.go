package sq8_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/flat"
	"github.com/sluice-project/sluice/rag/index/indextest"
	"github.com/sluice-project/sluice/rag/index/sq8"
)

func detect() kernel.Kernels { return kernel.Detect(slog.New(slog.DiscardHandler)) }

func TestContract(t *testing.T) {
	for _, k := range []kernel.Kernels{kernel.Generic(), detect()} {
		t.Run(k.ISA(), func(t *testing.T) {
			// The suite has vectors of one to sixteen components, where rounding to 16 bits shows most.
			indextest.Run(t, indextest.Config{New: func(_ *testing.T, dim int) index.Index { return sq8.New(dim, k) }, Recall: 1, Tolerance: 3e-5})
		})
	}
}

// levels is what the package promises to store, computed on its own: the integers nearest to v when its largest is limit.
func levels(v []float32, limit float64) []float64 {
	largest := 0.0
	for _, c := range v {
		largest = max(largest, math.Abs(float64(c)))
	}
	out := make([]float64, len(v))
	for i, c := range v {
		if largest > 0 {
			out[i] = math.RoundToEven(float64(c) / largest * limit)
		}
	}
	return out
}

func cosine(a, b []float64) float32 {
	var ab, aa, bb float64 // integers: exact
	for i := range a {
		ab += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return float32(ab * ((1 / math.Sqrt(bb)) * (1 / math.Sqrt(aa))))
}

// limit is the largest integer of a query.
func limit(dim int) float64 { return math.Floor(min(32512, math.MaxInt32/(128*float64(dim)))) }

// kinds of vectors: far apart, in tight clusters that the codes do not tell apart, all alike, with zeros between; and the worst for the rounding: with
// one component far above the others, with the others almost nothing, with every component at its limit, so that sums are as large as they get.
func kinds(rng *rand.Rand, dim int) map[string]func(i int) []float32 {
	normal := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	near := func(v []float32, by float64) []float32 {
		v = slices.Clone(v)
		for i := range v {
			v[i] += float32(rng.NormFloat64() * by)
		}
		return v
	}
	centres := [][]float32{normal(), normal(), normal()}
	return map[string]func(i int) []float32{
		"normal":   func(int) []float32 { return normal() },
		"clusters": func(i int) []float32 { return near(centres[i%3], 1e-4) },
		"alike":    func(int) []float32 { return centres[0] },
		"one way":  func(int) []float32 { return near(centres[1], 0.3) },
		"outlier": func(int) []float32 {
			v := normal()
			v[rng.IntN(dim)] = 20
			return v
		},
		"one hot": func(i int) []float32 {
			v := normal()
			for j := range v {
				v[j] *= 1.5e-5
			}
			if i%5 > 0 {
				v[i%3%dim] = 1
			}
			return v
		},
		"extreme": func(i int) []float32 {
			v := normal()
			for j := range v {
				if v[j] = float32(math.Copysign(1, float64(v[j]))); i%7 == 1 {
					v[j] = 1
				} else if i%7 == 2 {
					v[j] = -1
				}
			}
			return v
		},
		"zeros": func(i int) []float32 {
			if i%2 == 0 {
				return make([]float32, dim)
			}
			return normal()
		},
	}
}

// alone skips what one goroutine does in the race detector's short form.
func alone(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
}

// The hits are those of comparing everything, to the bit, whatever the vectors, the filter and k are.
func TestSearchIsExact(t *testing.T) {
	alone(t)
	rng := rand.New(rand.NewPCG(8, 15))
	// Several pages, and more than what a search keeps at a time; and dimensions for which queries are rounded more.
	for dim, n := range map[int]int{3: 6000, 100: 6000, 517: 600, 1536: 300, 1 << 16: 40} {
		made := kinds(rng, dim)
		for name, vector := range made {
			t.Run(fmt.Sprintf("%s/%d", name, dim), func(t *testing.T) {
				x := sq8.New(dim, detect())
				stored := map[uint32][]float64{}
				var batch []index.Entry
				for i := range n {
					id := uint32(i + i/3000*5000) // with pages that nobody uses
					v := vector(i)
					stored[id] = levels(v, 32512)
					batch = append(batch, index.Entry{ID: id, Vector: v})
				}
				if err := x.Upsert(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
				for i, q := range [][]float32{vector(1), make([]float32, dim)} {
					words := levels(q, limit(dim))
					var all []index.Hit
					for id, v := range stored {
						all = append(all, index.Hit{ID: id, Score: cosine(v, words)})
					}
					slices.SortFunc(all, func(a, b index.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
					for _, share := range []float64{1, 0.5, 0.05, 0.002} {
						allowed := roaring.New()
						for id := range uint32(12_000) {
							if rng.Float64() < share {
								allowed.Add(id)
							}
						}
						want := slices.DeleteFunc(slices.Clone(all), func(h index.Hit) bool { return !allowed.Contains(h.ID) })
						for _, k := range []int{1, 10, 3000} {
							got, err := x.Search(t.Context(), index.Query{Vector: q, Allowed: allowed, TopK: k})
							if err != nil {
								t.Fatal(err)
							}
							if want := want[:min(k, len(want))]; !slices.Equal(got, want) {
								t.Fatalf("query %d, %g allowed, the best %d: %d hits, %d expected, first difference %v", i, share, k, len(got), len(want), differ(got, want))
							}
						}
					}
				}
			})
		}
	}
}

func differ(a, b []index.Hit) [2]index.Hit {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return [2]index.Hit{a[i], b[i]}
		}
	}
	return [2]index.Hit{}
}

// Against vectors of float32: the same ten in all but what lies within the rounding.
func TestRecallAgainstFloat32(t *testing.T) {
	alone(t)
	rng := rand.New(rand.NewPCG(23, 42))
	const n, dim, k = 10_000, 128, 10
	x, exact := sq8.New(dim, detect()), flat.New(dim)
	vector := kinds(rng, dim)["one way"]
	var batch []index.Entry
	allowed := roaring.New()
	for i := range uint32(n) {
		batch = append(batch, index.Entry{ID: i, Vector: vector(0)})
		allowed.Add(i)
	}
	for _, i := range []index.Index{x, exact} {
		if err := i.Upsert(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	found, worst := 0, 0.0
	const queries = 50
	for range queries {
		q := index.Query{Vector: vector(0), Allowed: allowed, TopK: k}
		got, err := x.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want, err := exact.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range want {
			worst = max(worst, math.Abs(float64(h.Score-got[i].Score)))
			if slices.ContainsFunc(got, func(g index.Hit) bool { return g.ID == h.ID }) {
				found++
			}
		}
	}
	if recall := float64(found) / (queries * k); recall < 0.999 || worst > 1e-5 {
		t.Errorf("recall@%d %.4f, worst difference of a score %g", k, recall, worst)
	}
}

// Scores are as near to the cosine of the vectors as they came as the package says: for the worst vectors, and for usual ones.
func TestScoreError(t *testing.T) {
	alone(t)
	rng := rand.New(rand.NewPCG(2, 7))
	for _, dim := range []int{64, 128, 517, 1536, 4096} {
		bound := math.Sqrt(float64(dim)) / 2 * (1.0/32512 + 1/limit(dim)) * 1.01
		for name, vector := range kinds(rng, dim) {
			usual, seen := 2e-5, 0.0
			if name == "one hot" || name == "outlier" {
				usual = 1e-4
			}
			x := sq8.New(dim, detect())
			for i := range 60 {
				v, q := vector(i), vector(i+1)
				if err := x.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: v}}); err != nil {
					t.Fatal(err)
				}
				hits, err := x.Search(t.Context(), index.Query{Vector: q, Allowed: roaring.BitmapOf(1), TopK: 1})
				if err != nil || len(hits) != 1 {
					t.Fatal(hits, err)
				}
				var vq, vv, qq float64
				for j := range v {
					vq, vv, qq = vq+float64(v[j])*float64(q[j]), vv+float64(v[j])*float64(v[j]), qq+float64(q[j])*float64(q[j])
				}
				if vv > 0 && qq > 0 {
					seen = max(seen, math.Abs(float64(hits[0].Score)-vq/math.Sqrt(vv*qq)))
				}
			}
			t.Logf("%d components, %s: %.1e of at most %.1e", dim, name, seen, bound)
			if seen > min(bound, usual) {
				t.Errorf("%d components, %s: %g", dim, name, seen)
			}
		}
	}
	// The worst: what is stored loses all components but one, and these are all that the query has.
	v, q := slices.Repeat([]float32{1.5e-5}, 128), slices.Repeat([]float32{1}, 128)
	v[0], q[0] = 1, 0
	x := sq8.New(128, detect())
	if err := x.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: v}}); err != nil {
		t.Fatal(err)
	}
	hits, err := x.Search(t.Context(), index.Query{Vector: q, Allowed: roaring.BitmapOf(1), TopK: 1})
	if err != nil || hits[0].Score != 0 { // the cosine is 1.7·10⁻⁴
		t.Errorf("%v, %v", hits, err)
	}
}

func BenchmarkSearch(b *testing.B) {
	const n, dim = 200_000, 128
	x := sq8.New(dim, detect())
	vector := kinds(rand.New(rand.NewPCG(1, 1)), dim)["normal"]
	var batch []index.Entry
	for i := range uint32(n) {
		batch = append(batch, index.Entry{ID: i, Vector: vector(0)})
	}
	if err := x.Upsert(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	for _, every := range []uint32{1, 10, 100, 10_000} {
		b.Run(fmt.Sprintf("one in %d", every), func(b *testing.B) {
			allowed := roaring.New()
			for i := uint32(0); i < n; i += every {
				allowed.Add(i)
			}
			q := index.Query{Vector: vector(0), Allowed: allowed, TopK: 200}
			for b.Loop() {
				if _, err := x.Search(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
