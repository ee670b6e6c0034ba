package kernel

import "math"

// RMSNorm writes w·x/√(mean(x²)+eps). dst may be x.
func (k Kernels) RMSNorm(dst, x, w []float32, eps float32) {
	n := len(x)
	if len(dst) != n || len(w) != n || n == 0 {
		mismatch("RMSNorm", len(dst), n, len(w))
	}
	var lanes [8]float32
	head := 0
	if k.avx2 && n >= 8 {
		head = n &^ 7
		sumSquaresAVX2(&x[0], head/8, &lanes)
	}
	for i := head; i < n; i++ {
		lanes[i&7] = fma(x[i], x[i], lanes[i&7])
	}
	mean := float32(sumLanes(&lanes)/float32(n)) + eps
	inv := float32(1 / math.Sqrt(float64(mean)))
	head = 0
	if k.avx2 && n >= 8 {
		head = n &^ 7
		scaleAVX2(&dst[0], &x[0], &w[0], head/8, inv)
	}
	for i := head; i < n; i++ {
		dst[i] = float32(x[i]*inv) * w[i]
	}
}

// Add adds x to dst.
func (k Kernels) Add(dst, x []float32) {
	if len(dst) != len(x) {
		mismatch("Add", len(dst), len(x))
	}
	head := 0
	if k.avx2 && len(x) >= 8 {
		head = len(x) &^ 7
		addAVX2(&dst[0], &x[0], head/8)
	}
	for i := head; i < len(x); i++ {
		dst[i] += x[i]
	}
}

// SiLUMul writes gate/(1+exp(−gate))·up. dst may be gate or up.
func (k Kernels) SiLUMul(dst, gate, up []float32) {
	n := len(dst)
	if len(gate) != n || len(up) != n {
		mismatch("SiLUMul", n, len(gate), len(up))
	}
	head := 0
	if k.avx2 && n >= 8 {
		head = n &^ 7
		siluMulAVX2(&dst[0], &gate[0], &up[0], head/8)
	}
	for i := head; i < n; i++ {
		dst[i] = float32(gate[i]/float32(1+exp(-gate[i]))) * up[i]
	}
}

// ExpSum replaces x by exp(x−top) and returns the sum; top is meant to be the largest element.
func (k Kernels) ExpSum(x []float32, top float32) float32 {
	var lanes [8]float32
	head := 0
	if k.avx2 && len(x) >= 8 {
		head = len(x) &^ 7
		expSumAVX2(&x[0], head/8, top, &lanes)
	}
	for i := head; i < len(x); i++ {
		x[i] = exp(x[i] - top)
		lanes[i&7] += x[i]
	}
	return sumLanes(&lanes)
}

// Scores writes scale·(q·row) for each row of rows: len(scores) rows of len(q) half-precision numbers one after the other.
func (k Kernels) Scores(scores, q []float32, rows []uint16, scale float32) {
	if len(rows) != len(scores)*len(q) {
		mismatch("Scores", len(scores), len(q), len(rows))
	}
	if k.avx2 && len(q)%8 == 0 && len(rows) > 0 {
		scoresAVX2(&scores[0], len(scores), &q[0], len(q)/8, &rows[0], scale)
		return
	}
	refScores(scores, q, rows, scale)
}

// Combine adds the sum of weights[i]·row i to dst, one row after the other: len(weights) rows of len(dst) half-precision numbers one after the other.
func (k Kernels) Combine(dst, weights []float32, rows []uint16) {
	if len(rows) != len(weights)*len(dst) {
		mismatch("Combine", len(dst), len(weights), len(rows))
	}
	head := 0
	if k.avx2 && len(dst) >= 8 && len(weights) > 0 {
		head = len(dst) &^ 7
		combineAVX2(&dst[0], head/8, &weights[0], len(weights), &rows[0], len(dst)*2)
	}
	refCombine(dst, head, weights, rows)
}

// ToHalf rounds src to half precision, to nearest even.
func (k Kernels) ToHalf(dst []uint16, src []float32) {
	if len(dst) != len(src) {
		mismatch("ToHalf", len(dst), len(src))
	}
	head := 0
	if k.avx2 && len(src) >= 8 {
		head = len(src) &^ 7
		toHalfAVX2(&dst[0], &src[0], head/8)
	}
	for i := head; i < len(src); i++ {
		dst[i] = toHalf(src[i])
	}
}
