package exec

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// BenchmarkAdapters reports how much longer a step takes on one thread than one without adapters, both at their best, taking turns.
func BenchmarkAdapters(b *testing.B) {
	m, err := arch.Open(testmodel.Path(b, testmodel.SmolLM2))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	policy, err := graph.NewPrecision("native", nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := graph.Optimize(m.Graph, policy); err != nil {
		b.Fatal(err)
	}
	prog, _, err := Compile(m.Graph, func(name string) (Tensor, error) { return m.Tensor(name) }, Options{Context: 512, Threads: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer prog.Close()
	delete(prog.targets, headWeight) // adapters rarely change the head
	for _, c := range []struct{ rank, sequences, rows, adapters int }{
		{16, 1, 1, 1}, {64, 1, 1, 1}, {16, 8, 1, 1}, {16, 8, 1, 8}, {16, 1, 128, 1}, {64, 1, 128, 1}, {16, 4, 32, 4},
	} {
		b.Run(fmt.Sprintf("rank=%d/sequences=%d/rows=%d/adapters=%d", c.rank, c.sequences, c.rows, c.adapters), func(b *testing.B) {
			pool := NewPool(1)
			defer pool.Close()
			p := prog.NewPass(tiers()[0], pool)
			var all []*Adapter
			for i := range c.adapters {
				all = append(all, random(b, prog, c.rank, uint64(i)))
			}
			step := func(adapted bool) time.Duration {
				var caches []*Cache
				p.Rows = p.Rows[:0]
				for i := range c.sequences {
					cache := p.Pages().NewCache()
					cache.Reserve(c.rows)
					for pos := range c.rows {
						r := Row{Token: int32(100 + pos), Cache: cache, Pos: pos, Wanted: pos == c.rows-1}
						if adapted {
							r.Adapter = all[i%len(all)]
						}
						p.Rows = append(p.Rows, r)
					}
					cache.Advance(c.rows)
					caches = append(caches, cache)
				}
				begin := time.Now()
				p.Run()
				took := time.Since(begin)
				for _, cache := range caches {
					cache.Release()
				}
				return took
			}
			with, without := time.Hour, time.Hour
			for b.Loop() {
				without, with = min(without, step(false)), min(with, step(true))
			}
			b.ReportMetric(float64(with)/float64(without), "ratio")
			b.ReportMetric(float64(without.Microseconds()), "µs-without")
			b.ReportMetric(float64(all[0].Bytes())/1e6, "MB/adapter")
		})
	}
}
