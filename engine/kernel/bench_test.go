package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkMul reports the multiply-accumulate rate of one core, with weights larger than the caches for one token.
func BenchmarkMul(b *testing.B) {
	p := newProbe()
	const rows, cols = 1536, 576
	for name, w := range map[string]*Matrix{"q4": p.quantized(rows, cols, false), "q8": p.quantized(rows, cols, true), "f32": p.dense(rows, cols, false)} {
		for _, tokens := range []int{1, 4, 64} {
			x, q := NewActivations(Dense, tokens, cols, nil), NewActivations(Block, tokens, cols, nil)
			for t := range tokens {
				copy(x.Row(t), p.vector(cols, 1))
				Generic().Quantize(q, t, x.Row(t))
			}
			a := pick(w, x, q)
			for _, k := range tiers(b) {
				b.Run(fmt.Sprintf("%s/%d/%s", name, tokens, k.ISA()), func(b *testing.B) {
					dst := make([]float32, tokens*w.Stride())
					for b.Loop() {
						k.Mul(dst, w, 0, w.Panels(), a, tokens)
					}
					b.ReportMetric(float64(rows*cols*tokens)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}
