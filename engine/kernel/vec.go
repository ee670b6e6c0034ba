package kernel

import "math"

// The vector kernels. Assembly works on blocks of sixteen elements; what is left over goes through a block of its own, filled up
// with elements that change nothing.

const blockLen = 16

// element is an operation on one element, or on two of the same place.
type element uint8

const (
	opAdd element = iota
	opMul
	opSiLUMul
	opGELUTanhMul
	opSiLU
	opGELU
	opGELUTanh
	opSigmoid
	opTanh
)

// Add adds x to dst.
func (k Kernels) Add(dst, x []float32) { k.apply("Add", opAdd, dst, dst, x) }

// MulVec multiplies dst by x.
func (k Kernels) MulVec(dst, x []float32) { k.apply("MulVec", opMul, dst, dst, x) }

// SiLUMul writes gate/(1+exp(−gate))·up. dst may be gate or up.
func (k Kernels) SiLUMul(dst, gate, up []float32) { k.apply("SiLUMul", opSiLUMul, dst, gate, up) }

// GELUTanhMul writes gelu(gate)·up with the approximation of [Kernels.GELUTanh]. dst may be gate or up.
func (k Kernels) GELUTanhMul(dst, gate, up []float32) {
	k.apply("GELUTanhMul", opGELUTanhMul, dst, gate, up)
}

// SiLU writes x/(1+exp(−x)). dst may be x.
func (k Kernels) SiLU(dst, x []float32) { k.apply("SiLU", opSiLU, dst, x, x) }

// GELU writes x·Φ(x), within 1e-6 of the exact value where |x| < 16, exact beyond. dst may be x.
func (k Kernels) GELU(dst, x []float32) { k.apply("GELU", opGELU, dst, x, x) }

// GELUTanh writes ½·x·(1+tanh(√(2/π)·(x+0.044715·x³))), computed as x/(1+exp(−2…)). dst may be x.
func (k Kernels) GELUTanh(dst, x []float32) { k.apply("GELUTanh", opGELUTanh, dst, x, x) }

// Sigmoid writes 1/(1+exp(−x)). dst may be x.
func (k Kernels) Sigmoid(dst, x []float32) { k.apply("Sigmoid", opSigmoid, dst, x, x) }

// Tanh writes the hyperbolic tangent, with a relative error below 3e-7. dst may be x.
func (k Kernels) Tanh(dst, x []float32) { k.apply("Tanh", opTanh, dst, x, x) }

// SoftCap replaces x by limit·tanh(x/limit), with x·(1/limit) for the quotient.
func (k Kernels) SoftCap(x []float32, limit float32) {
	k.Scale(x, x, 1/limit)
	k.Tanh(x, x)
	k.Scale(x, x, limit)
}

// ReLU writes x where it is positive and zero elsewhere. dst may be x.
func (k Kernels) ReLU(dst, x []float32) {
	if len(dst) != len(x) {
		mismatch("ReLU", len(dst), len(x))
	}
	for i, v := range x {
		if !(v > 0) {
			v = 0
		}
		dst[i] = v
	}
}

func (k Kernels) apply(name string, op element, dst, x, y []float32) {
	n := len(dst)
	if len(x) != n || len(y) != n {
		mismatch(name, n, len(x), len(y))
	}
	if k.reference() {
		refApply(op, dst, x, y)
		return
	}
	if n >= blockLen {
		k.applyBlocks(op, &dst[0], &x[0], &y[0], n/blockLen)
	}
	if head := n &^ (blockLen - 1); head < n {
		var d, a, b [blockLen]float32
		copy(a[:], x[head:])
		copy(b[:], y[head:])
		k.applyBlocks(op, &d[0], &a[0], &b[0], 1)
		copy(dst[head:], d[:])
	}
}

// applyBlocks does not take the operation as a function: through one, its arguments would escape to the heap.
func (k Kernels) applyBlocks(op element, dst, x, y *float32, blocks int) {
	if k.neon {
		applyNEON(op, dst, x, y, blocks)
		return
	}
	if k.avx512 {
		switch op {
		case opAdd:
			addAVX512(dst, x, y, blocks)
		case opMul:
			mulAVX512(dst, x, y, blocks)
		case opSiLUMul:
			siluMulAVX512(dst, x, y, blocks)
		case opGELUTanhMul:
			geluTanhMulAVX512(dst, x, y, blocks)
		case opSiLU:
			siluAVX512(dst, x, blocks)
		case opGELU:
			geluAVX512(dst, x, blocks)
		case opGELUTanh:
			geluTanhAVX512(dst, x, blocks)
		case opSigmoid:
			sigmoidAVX512(dst, x, blocks)
		case opTanh:
			tanhAVX512(dst, x, blocks)
		}
		return
	}
	switch op {
	case opAdd:
		addAVX2(dst, x, y, blocks)
	case opMul:
		mulAVX2(dst, x, y, blocks)
	case opSiLUMul:
		siluMulAVX2(dst, x, y, blocks)
	case opGELUTanhMul:
		geluTanhMulAVX2(dst, x, y, blocks)
	case opSiLU:
		siluAVX2(dst, x, blocks)
	case opGELU:
		geluAVX2(dst, x, blocks)
	case opGELUTanh:
		geluTanhAVX2(dst, x, blocks)
	case opSigmoid:
		sigmoidAVX2(dst, x, blocks)
	case opTanh:
		tanhAVX2(dst, x, blocks)
	}
}

// blocksOf returns how many whole blocks of n elements vectors take; the reference takes none.
func (k Kernels) blocksOf(n int) int {
	if k.reference() {
		return 0
	}
	return n / blockLen
}

// ToHalf rounds src to half precision, to nearest even.
func (k Kernels) ToHalf(dst []uint16, src []float32) {
	if len(dst) != len(src) {
		mismatch("ToHalf", len(dst), len(src))
	}
	head := k.blocksOf(len(src)) * blockLen
	switch {
	case head == 0:
	case k.neon:
		toHalfNEON(&dst[0], &src[0], head/blockLen)
	default:
		toHalfAVX2(&dst[0], &src[0], head/blockLen)
	}
	for i := head; i < len(src); i++ {
		dst[i] = toHalf(src[i])
	}
}

// FromHalf converts half precision, exactly.
func (k Kernels) FromHalf(dst []float32, src []uint16) {
	if len(dst) != len(src) {
		mismatch("FromHalf", len(dst), len(src))
	}
	head := k.blocksOf(len(src)) * blockLen
	switch {
	case head == 0:
	case k.neon:
		fromHalfNEON(&dst[0], &src[0], head/blockLen)
	default:
		fromHalfAVX2(&dst[0], &src[0], head/blockLen)
	}
	for i := head; i < len(src); i++ {
		dst[i] = fromHalf(src[i])
	}
}

// Rope rotates the first rotated elements of each of the heads, dim elements apart, by one position: table holds the cosine and the
// sine of each pair. Pair i is the elements 2i and 2i+1 or, with neox, i and i+rotated/2: a·cos − b·sin and a·sin + b·cos, each
// product rounded.
func (k Kernels) Rope(x []float32, heads, dim, rotated int, table []float32, neox bool) {
	if rotated < 0 || rotated%2 != 0 || rotated > dim || len(table) < rotated || !fit(len(x), dim, heads, rotated) {
		mismatch("Rope", len(x), heads, dim, rotated, len(table))
	}
	switch {
	case heads == 0 || rotated == 0:
	case k.neon && !neox && rotated%8 == 0:
		ropePairsNEON(&x[0], heads, 4*dim, rotated/8, &table[0])
	case k.neon && neox && rotated%16 == 0:
		ropeHalvesNEON(&x[0], heads, 4*dim, rotated/16, &table[0])
	case k.avx2 && !neox && rotated%8 == 0:
		ropePairsAVX2(&x[0], heads, 4*dim, rotated/8, &table[0])
	case k.avx2 && neox && rotated%16 == 0:
		ropeHalvesAVX2(&x[0], heads, 4*dim, rotated/16, &table[0])
	default:
		refRope(x, heads, dim, rotated, table, neox)
	}
}

// RMSNorm writes w·x/√(mean(x²)+eps). dst may be x.
func (k Kernels) RMSNorm(dst, x, w []float32, eps float32) {
	n := len(x)
	if len(dst) != n || len(w) != n || n == 0 {
		mismatch("RMSNorm", len(dst), n, len(w))
	}
	inv := inverseRoot(k.reduce(sumOfSquares, x, 0), n, eps)
	if k.reference() {
		for i, v := range x {
			dst[i] = float32(v*inv) * w[i]
		}
		return
	}
	if n >= blockLen {
		k.scaleMul(&dst[0], &x[0], &w[0], n/blockLen, inv)
	}
	if head := n &^ (blockLen - 1); head < n {
		var d, a, b [blockLen]float32
		copy(a[:], x[head:])
		copy(b[:], w[head:])
		k.scaleMul(&d[0], &a[0], &b[0], 1, inv)
		copy(dst[head:], d[:])
	}
}

func (k Kernels) scaleMul(dst, x, w *float32, blocks int, s float32) {
	switch {
	case k.neon:
		scaleMulNEON(dst, x, w, blocks, s)
	case k.avx512:
		scaleMulAVX512(dst, x, w, blocks, s)
	default:
		scaleMulAVX2(dst, x, w, blocks, s)
	}
}

// LayerNorm writes fma((x−mean)·s, w, b) with s = 1/√(mean((x−mean)²)+eps). dst may be x.
func (k Kernels) LayerNorm(dst, x, w, b []float32, eps float32) {
	n := len(x)
	if len(dst) != n || len(w) != n || len(b) != n || n == 0 {
		mismatch("LayerNorm", len(dst), n, len(w), len(b))
	}
	mean := k.reduce(sumOfElements, x, 0) / float32(n)
	inv := inverseRoot(k.reduce(sumOfDeviations, x, mean), n, eps)
	if k.reference() {
		for i, v := range x {
			dst[i] = fma(float32(v-mean)*inv, w[i], b[i])
		}
		return
	}
	if n >= blockLen {
		k.shiftScaleMul(&dst[0], &x[0], &w[0], &b[0], n/blockLen, mean, inv)
	}
	if head := n &^ (blockLen - 1); head < n {
		var d, xs, ws, bs [blockLen]float32
		copy(xs[:], x[head:])
		copy(ws[:], w[head:])
		copy(bs[:], b[head:])
		k.shiftScaleMul(&d[0], &xs[0], &ws[0], &bs[0], 1, mean, inv)
		copy(dst[head:], d[:])
	}
}

func (k Kernels) shiftScaleMul(dst, x, w, b *float32, blocks int, mean, s float32) {
	switch {
	case k.neon:
		shiftScaleMulNEON(dst, x, w, b, blocks, mean, s)
	case k.avx512:
		shiftScaleMulAVX512(dst, x, w, b, blocks, mean, s)
	default:
		shiftScaleMulAVX2(dst, x, w, b, blocks, mean, s)
	}
}

func inverseRoot(sum float32, n int, eps float32) float32 {
	return float32(1 / math.Sqrt(float64(float32(sum/float32(n))+eps)))
}

// Scale writes x·s. dst may be x.
func (k Kernels) Scale(dst, x []float32, s float32) {
	if len(dst) != len(x) {
		mismatch("Scale", len(dst), len(x))
	}
	head := 0
	if !k.reference() && len(x) >= blockLen {
		head = len(x) &^ (blockLen - 1)
		if k.neon {
			scaleNEON(&dst[0], &x[0], head/blockLen, s)
		} else {
			scaleAVX2(&dst[0], &x[0], head/blockLen, s)
		}
	}
	for i := head; i < len(x); i++ {
		dst[i] = x[i] * s
	}
}
