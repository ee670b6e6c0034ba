package flat_test

import (
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/flat"
	"github.com/sluice-project/sluice/rag/index/indextest"
)

func TestContract(t *testing.T) {
	indextest.Run(t, indextest.Config{New: func(_ *testing.T, dim int) index.Index { return flat.New(dim) }, Recall: 1})
}

func BenchmarkSearch(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n, dim = 20_000, 384
	x := flat.New(dim)
	vector := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	allowed := roaring.New()
	for i := range uint32(n) {
		if err := x.Upsert(b.Context(), []index.Entry{{ID: i, Vector: vector()}}); err != nil {
			b.Fatal(err)
		}
		allowed.Add(i)
	}
	q := index.Query{Vector: vector(), Allowed: allowed, TopK: 100}
	for b.Loop() {
		if _, err := x.Search(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}
