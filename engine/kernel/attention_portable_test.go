package kernel

import "testing"

// Attention where there is no assembly, beside the reference that it must equal: TestPagesEqualReference compares.
func BenchmarkPortablePage(b *testing.B) {
	const dim, n, count = 64, 3, PagePositions
	q, s, out := fill(source(), inputs()[0], make([]float32, n*dim)), make([]float32, n*PagePositions), make([]float32, n*dim)
	page := fillHalf(source(), inputs()[0], make([]uint16, dim*PagePositions))
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"scores/reference", func() { refPageScores(s, PagePositions, q, dim, n, dim, page, count, 0.1) }},
		{"scores/portable", func() { portablePageScores(s, PagePositions, q, dim, n, dim, page, count, 0.1) }},
		{"combine/reference", func() { refPageCombine(out, dim, s, PagePositions, n, dim, 0, page, count) }},
		{"combine/portable", func() { portablePageCombine(out, dim, s, PagePositions, n, dim, page, nil, count) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.run()
			}
		})
	}
}
