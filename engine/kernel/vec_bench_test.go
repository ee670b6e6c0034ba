package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkVec reports the time of one vector of the default model's widths.
func BenchmarkVec(b *testing.B) {
	for _, op := range vecCases() {
		for _, n := range []int{64, 576, 1536} {
			x, y, z, dst := fill(source(), inputs()[0], make([]float32, n)), make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range y {
				y[i] = 1 // what is applied again and again neither grows nor vanishes
			}
			for _, k := range tiers(b) {
				b.Run(fmt.Sprintf("%s/%d/%s", op.name, n, k.ISA()), func(b *testing.B) {
					for b.Loop() {
						op.run(k, dst, x, y, z)
					}
					b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "G/s")
				})
			}
		}
	}
}

func BenchmarkQuantize(b *testing.B) {
	for _, in := range []Input{Block, Row} {
		for _, n := range []int{576, 1536} {
			x, a := fill(source(), inputs()[0], make([]float32, n)), NewActivations(in, 1, n, nil)
			for _, k := range tiers(b) {
				b.Run(fmt.Sprintf("%d/%d/%s", in, n, k.ISA()), func(b *testing.B) {
					for b.Loop() {
						k.Quantize(a, 0, x)
					}
					b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "G/s")
				})
			}
		}
	}
}

// BenchmarkPage reports the multiply-accumulate rate of one page that lies in the cache: one row is a step of one head, three are
// the heads of the default model that share keys, 48 a chunk of a prompt.
func BenchmarkPage(b *testing.B) {
	const dim = 64
	for _, n := range []int{1, 3, 12, 48} {
		r := source()
		q, out, s := fill(r, inputs()[0], make([]float32, n*dim)), make([]float32, n*dim), make([]float32, n*PagePositions)
		page, page8, d := fillHalf(r, inputs()[0], make([]uint16, dim*PagePositions)), fillBytes(r, false, make([]int8, dim*PagePositions)), make([]float32, PagePositions)
		q8, qd, qsum := make([]int8, n*dim), make([]float32, n), make([]int32, n)
		for _, k := range tiers(b) {
			for _, op := range []struct {
				name string
				run  func()
			}{
				{"scores", func() { k.PageScores(s, PagePositions, q, dim, n, dim, page, PagePositions, 0.125) }},
				{"combine", func() { k.PageCombine(out, dim, s, PagePositions, n, dim, page, PagePositions) }},
				{"scores8", func() { k.PageScores8(s, PagePositions, q8, qd, qsum, n, dim, page8, d, PagePositions, 0.125) }},
				{"combine8", func() { k.PageCombine8(out, dim, s, PagePositions, n, dim, page8, d, PagePositions) }},
			} {
				b.Run(fmt.Sprintf("%s/%d/%s", op.name, n, k.ISA()), func(b *testing.B) {
					clear(out)
					clear(s)
					for b.Loop() {
						op.run()
					}
					b.ReportMetric(float64(n*dim*PagePositions)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}
