package kernel

import (
	"fmt"
	"testing"
)

// The products of machines without a faster tier, beside the reference that they must equal: TestMulEqualsReference compares.
func BenchmarkPortable(b *testing.B) {
	const rows, cols = 64, 768
	for _, f := range formats() {
		for _, n := range []int{1, 16} {
			p := newProbe()
			w, a := p.matrix(f, rows, cols), NewActivations(f.Input(), n, cols, nil)
			for t := range n {
				Generic().Quantize(a, t, p.vector(cols, 1))
			}
			dst := make([]float32, n*w.Stride())
			measure := func(name string, product func(panel int)) {
				b.Run(fmt.Sprintf("%s/%d/%s", f, n, name), func(b *testing.B) {
					for b.Loop() {
						for panel := range w.Panels() {
							product(panel)
						}
					}
					b.ReportMetric(float64(rows*cols*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
			measure("reference", func(panel int) { w.refPanel(dst[panel*panelRows:], w.Stride(), panel, a, 0, n, false, nil) })
			measure("portable", func(panel int) { w.portablePanel(dst[panel*panelRows:], w.Stride(), panel, a, n, false, nil) })
		}
	}
}
