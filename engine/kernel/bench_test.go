package kernel

import (
	"fmt"
	"testing"
	"time"
)

// best returns the shortest time of f in a few dozen tries: the machine may be busy with other things.
func best(tries int, f func()) float64 {
	least := time.Duration(1 << 62)
	for range tries {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least.Seconds()
}

// multiplyLimit is in products per second.
func multiplyLimit(k Kernels) float64 {
	n := 0
	return 1 / (best(200, func() { n = k.MultiplyLoop(1 << 20) }) / float64(n))
}

// readLimit is in bytes per second, of memory as large as that of a matrix.
func readLimit(k Kernels, size int) float64 {
	mem := make([]byte, size)
	for i := range mem {
		mem[i] = 1
	}
	n := 0
	return 1 / (best(20, func() { n = k.ReadLoop(mem) }) / float64(n))
}

// BenchmarkMul reports the best rate of many runs on one core, and its share of the tier's limit measured in the same run: of the
// int8 multiply rate, and for one token also of the read rate on memory of the matrix's size. The head of a small model is larger
// than the caches near the core, the other matrix is not.
func BenchmarkMul(b *testing.B) {
	p := newProbe()
	for _, shape := range [][2]int{{1536, 576}, {49152, 576}} {
		for _, f := range formats() {
			rows, cols := shape[0], shape[1]
			if cols%f.Columns() != 0 {
				cols = 512
			}
			var w *Matrix
			for _, n := range []int{1, 2, 4, 8, 16, 64, 256} {
				if n > 1 && rows > 10000 {
					continue
				}
				for _, k := range tiers(b)[1:] {
					b.Run(fmt.Sprintf("%s/%d/n=%d/%s", f, rows, n, k.ISA()), func(b *testing.B) {
						if w == nil {
							w = p.matrix(f, rows, cols)
						}
						a, _ := rowsOf(f, source(), inputs()[0], n, cols, 0)
						dst := make([]float32, n*w.Stride())
						run := func() { k.Mul(dst, w.Stride(), w, 0, w.Panels(), a, n, false, nil) }
						least := 1e9
						for b.Loop() {
							least = min(least, best(1, run))
						}
						rate := float64(rows) * float64(cols) * float64(n) / least
						b.ReportMetric(rate/1e9, "GMAC/s")
						b.ReportMetric(100*rate/multiplyLimit(k), "%mul")
						b.ReportMetric(0, "ns/op")
						if n == 1 {
							read := float64(len(w.Bytes())) / least
							b.ReportMetric(read/1e9, "GB/s")
							b.ReportMetric(100*read/readLimit(k, len(w.Bytes())), "%read")
						}
					})
				}
			}
		}
	}
}

func BenchmarkLimits(b *testing.B) {
	for _, k := range tiers(b)[1:] {
		b.Run(k.ISA(), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(multiplyLimit(k)/1e9, "GMAC/s")
				for _, mb := range []int{1, 16, 64} {
					b.ReportMetric(readLimit(k, mb<<20)/1e9, fmt.Sprintf("GB/s@%dMiB", mb))
				}
			}
		})
	}
}
