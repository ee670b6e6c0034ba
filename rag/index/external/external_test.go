package external_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/external"
)

func TestUnit(t *testing.T) {
	t.Parallel()
	const big, small = 3e38, 1e-45
	for _, v := range [][]float32{{big, big, -big}, {small, 0}, {3, 4}, {-2}} {
		sum := 0.0
		for i, x := range external.Unit(v) {
			sum += float64(x) * float64(x)
			if (x < 0) != (v[i] < 0) {
				t.Errorf("%v turned", v)
			}
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Errorf("%v has length² %v", v, sum)
		}
	}
	if got := external.Unit([]float32{0, 0}); !reflect.DeepEqual(got, []float32{0, 0}) {
		t.Errorf("zeros became %v", got)
	}
}

func TestDistinct(t *testing.T) {
	t.Parallel()
	got := external.Distinct([]index.Entry{{ID: 2, Vector: []float32{1}}, {ID: 1}, {ID: 2, Vector: []float32{2}}})
	if len(got) != 2 || got[0].ID != 1 || got[1].Vector[0] != 2 {
		t.Errorf("%v", got)
	}
}

func TestBest(t *testing.T) {
	t.Parallel()
	got := external.Best([]index.Hit{{ID: 3, Score: 0.5}, {ID: 2, Score: 1.0000001}, {ID: 1, Score: 0.5}}, 2)
	if !reflect.DeepEqual(got, []index.Hit{{ID: 2, Score: 1}, {ID: 1, Score: 0.5}}) {
		t.Errorf("%v", got)
	}
}

// TestRuns: the ranges of a set are the set.
func TestRuns(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		set := roaring.New()
		for range rng.IntN(20) {
			at := uint64(rng.Uint32N(300))
			set.AddRange(at, at+uint64(rng.IntN(9)))
		}
		if rng.IntN(4) == 0 {
			set.AddMany([]uint32{math.MaxUint32, 0})
		}
		runs, more := external.Runs(set, math.MaxInt)
		back := roaring.New()
		for i, r := range runs {
			back.AddRange(uint64(r.First), uint64(r.Last)+1)
			if i > 0 && r.First <= runs[i-1].Last+1 {
				t.Fatalf("%v touch", runs)
			}
		}
		if more || !back.Equals(set) {
			t.Fatalf("%v is not %v", runs, set)
		}
		if some, more := external.Runs(set, len(runs)-1); len(runs) > 0 && (!more || len(some) != len(runs)-1) {
			t.Fatalf("%d of %d, %v", len(some), len(runs), more)
		}
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	var d external.Doubts
	d.Add([]uint32{1, 5})
	if !d.About(roaring.BitmapOf(5, 6)) || d.About(roaring.BitmapOf(6)) {
		t.Error("doubts about others")
	}
	d.Settle([]uint32{5, 6})
	if d.About(roaring.BitmapOf(5)) || !d.About(roaring.BitmapOf(1)) {
		t.Error("the wrong doubt was settled")
	}
}
