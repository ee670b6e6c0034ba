package kernel

import (
	"fmt"
	"math"
)

// Kernels computes on one instruction-set tier. It is immutable and safe for concurrent use.
type Kernels struct{ avx2 bool }

// ISA returns the tier's name: "generic" or "avx2".
func (k Kernels) ISA() string {
	if k.avx2 {
		return avx2
	}
	return generic
}

// mismatch panics. Callers test first, so that the lengths are boxed on failure only.
func mismatch(op string, lengths ...int) {
	panic(fmt.Sprintf("kernel: %s: lengths do not fit: %v", op, lengths))
}

// tileTokens is the number of tokens for which a panel is unpacked once.
const tileTokens = 4

// chunkPanels bounds the work of one assembly call.
const chunkPanels = 64

// Mul multiplies the panels [from, to) of w by the first n rows of a. Row t of the product goes to
// dst[t·w.Stride():]; only the columns of these panels are written. Quantised matrices read what [Kernels.Quantize] wrote, dense
// ones read a.Row.
func (k Kernels) Mul(dst []float32, w *Matrix, from, to int, a *Activations, n int) {
	stride := w.Stride()
	if a.cols != w.cols || n > a.rows || len(dst) < n*stride || from < 0 || from > to || to > w.Panels() {
		mismatch("Mul", len(dst), w.rows, w.cols, from, to, a.cols, a.rows, n)
	}
	if n == 0 {
		return
	}
	if n > 1 {
		for p := from; p < to; p++ {
			k.mulPanel(dst[p*8:], stride, w, p, a, n)
		}
		return
	}
	for p := from; p < to; p += chunkPanels {
		k.mul1(dst[p*8:], w, p, min(p+chunkPanels, to), a, 0)
	}
}

// mulPanel multiplies one panel by n rows, in tiles.
func (k Kernels) mulPanel(dst []float32, stride int, w *Matrix, p int, a *Activations, n int) {
	t := 0
	for ; t+tileTokens <= n; t += tileTokens {
		if !k.avx2 {
			for i := t; i < t+tileTokens; i++ {
				w.refMul(dst[i*stride:], p, a, i)
			}
			continue
		}
		d := &dst[t*stride]
		switch w.kind {
		case kindQ4:
			q4x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.blocks(), &a.q[t*a.cols], a.cols, &a.ds[t*2*a.blocks()], 8*a.blocks())
		case kindQ8:
			q8x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.blocks(), &a.q[t*a.cols], a.cols, &a.ds[t*2*a.blocks()], 8*a.blocks())
		case kindF16:
			f16x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.cols, &a.x[t*a.cols], a.cols*4)
		default:
			f32x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.cols, &a.x[t*a.cols], a.cols*4)
		}
		for i := t; i < t+tileTokens; i++ {
			w.addOffsets(dst[i*stride:], p, a, i)
		}
	}
	for ; t < n; t++ {
		k.mul1(dst[t*stride:], w, p, p+1, a, t)
	}
}

// mul1 multiplies the panels [from, to) by row t into dst, which begins at the first of them.
func (k Kernels) mul1(dst []float32, w *Matrix, from, to int, a *Activations, t int) {
	if !k.avx2 {
		for p := from; p < to; p++ {
			w.refMul(dst[(p-from)*8:], p, a, t)
		}
		return
	}
	_ = dst[(to-from)*8-1]
	data := &w.data[from*w.panelBytes]
	switch w.kind {
	case kindQ4:
		q4x1AVX2(&dst[0], data, to-from, w.blocks(), &a.q[t*a.cols], &a.ds[t*2*a.blocks()])
	case kindQ8:
		q8x1AVX2(&dst[0], data, to-from, w.blocks(), &a.q[t*a.cols], &a.ds[t*2*a.blocks()])
	case kindF16:
		f16x1AVX2(&dst[0], data, to-from, w.cols, &a.x[t*a.cols])
	default:
		f32x1AVX2(&dst[0], data, to-from, w.cols, &a.x[t*a.cols])
	}
	for p := from; p < to; p++ {
		w.addOffsets(dst[(p-from)*8:], p, a, t)
	}
}

// Quantize writes row t of a as signed bytes, 32 elements under one scale: d = max|x|/127, q = x·(127/max|x|) rounded to nearest
// even. Blocks whose largest magnitude is below 2⁻¹⁰⁰ become zero. a's columns must be a multiple of 32.
func (k Kernels) Quantize(a *Activations, t int) {
	if a.cols%32 != 0 || t >= a.rows {
		mismatch("Quantize", a.cols, t)
	}
	q, x, ds := a.q[t*a.cols:(t+1)*a.cols], a.Row(t), a.ds[t*2*a.blocks():(t+1)*2*a.blocks()]
	if k.avx2 && len(x) > 0 {
		quantizeAVX2(&q[0], &ds[0], &x[0], len(x)/32)
		return
	}
	refQuantize(q, ds, x)
}

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

// addOffsets adds the offsets of panel p, if the matrix keeps them apart, to its product with row t.
func (w *Matrix) addOffsets(dst []float32, p int, a *Activations, t int) {
	if w.offsets != nil {
		offsetsAVX2(&dst[:8][0], &w.panelOffsets(p)[0], w.blocks(), &a.scales(t)[0])
	}
}
