package kernel

import (
	"math"
	"unsafe"
)

// smallestBlock keeps 127/max|x| finite.
const smallestBlock = 1.0 / (1 << 100)

// Quantize writes x to row t of a: as signed bytes, 32 elements (Block) or the whole row (Row) under one scale d = max|x|/127,
// q = x·(127/max|x|) rounded to nearest even. Blocks whose largest magnitude is below 2⁻¹⁰⁰ become zero. Dense rows are copied.
func (k Kernels) Quantize(a *Activations, t int, x []float32) {
	if len(x) != a.cols || t < 0 || t >= a.rows {
		mismatch("Quantize", len(x), a.cols, t)
	}
	switch a.in {
	case Dense:
		copy(a.Row(t), x)
	case Block:
		k.quantizeBlocks(a.codes(t), a.scales(t), x)
	case Row:
		s := &a.scales(t)[0]
		d, sum := k.QuantizeRow(a.codes(t), x)
		*s = newScale(d, sum)
	}
}

// quantizeBlocks quantises blocks of 32.
func (k Kernels) quantizeBlocks(q []int8, scales []blockScale, x []float32) {
	switch {
	case k.avx512 && len(scales) >= 4:
		quantizeFoursAVX512(&q[0], &scales[0], &x[0], len(scales))
	case k.avx2 && len(scales) >= 4:
		quantizeFoursAVX2(&q[0], &scales[0], &x[0], len(scales))
	case k.neon:
		quantizeBlocksNEON(&q[0], &scales[0], &x[0], len(scales))
	case k.avx512:
		quantizeBlocksAVX512(&q[0], &scales[0], &x[0], len(scales))
	case k.avx2:
		quantizeBlocksAVX2(&q[0], &scales[0], &x[0], len(scales))
	default:
		refQuantizeBlocks(q, scales, x)
	}
}

// QuantizeRow quantises x under one scale, d = max|x|/127 and q = x·(127/max|x|) to nearest even, and returns d and Σq. Where the
// largest magnitude is below 2⁻¹⁰⁰ all are zero.
func (k Kernels) QuantizeRow(q []int8, x []float32) (d float32, sum int32) {
	if len(q) != len(x) {
		mismatch("QuantizeRow", len(q), len(x))
	}
	d, inverse := k.rowScale(x)
	if d == 0 {
		clear(q)
		return 0, 0
	}
	return d, k.codes(q, x, inverse)
}

// rowScale returns the scale of a row and its inverse: zeros for a row that becomes zero.
func (k Kernels) rowScale(x []float32) (d, inverse float32) {
	top := k.reduce(largestMagnitude, x, 0)
	if !(top >= smallestBlock) {
		return 0, 0
	}
	return top / 127, 127 / top
}

// codes writes x·inverse, rounded to nearest even, and returns the sum.
func (k Kernels) codes(q []int8, x []float32, inverse float32) int32 {
	if k.reference() {
		return refCodes(q, x, inverse)
	}
	var sums [8]int32
	if n := len(x) / blockLen; n > 0 {
		k.codeBlocks(&q[0], &x[0], n, inverse, &sums)
	}
	if head := len(x) &^ (blockLen - 1); head < len(x) {
		var rest [blockLen]float32
		var code [blockLen]int8
		copy(rest[:], x[head:])
		k.codeBlocks(&code[0], &rest[0], 1, inverse, &sums)
		copy(q[head:], code[:])
	}
	sum := int32(0)
	for _, v := range sums {
		sum += v
	}
	return sum
}

func (k Kernels) codeBlocks(q *int8, x *float32, blocks int, inverse float32, sums *[8]int32) {
	switch {
	case k.neon:
		codesNEON(q, x, blocks, inverse, sums)
	case k.avx512:
		codesAVX512(q, x, blocks, inverse, sums)
	default:
		codesAVX2(q, x, blocks, inverse, sums)
	}
}

// The assembly writes the fields of blockScale at fixed offsets.
const _ = -(unsafe.Offsetof(blockScale{}.half) ^ 12 | unsafe.Offsetof(blockScale{}.zero) ^ 8 | unsafe.Sizeof(blockScale{}) ^ 16)

func newScale(d float32, sum int32) blockScale {
	return blockScale{d: d, sum: d * float32(sum), zero: -128 * sum}
}

func refQuantizeBlocks(q []int8, scales []blockScale, x []float32) {
	for b := range scales {
		x, q := x[b*32:b*32+32], q[b*32:b*32+32]
		top := float32(0)
		for _, v := range x {
			top = max(top, float32(math.Abs(float64(v))))
		}
		if !(top >= smallestBlock) {
			clear(q)
			scales[b] = blockScale{}
			continue
		}
		first, last := refCodes(q[:16], x[:16], 127/top), refCodes(q[16:], x[16:], 127/top)
		scales[b] = newScale(top/127, first+last)
		scales[b].half = [2]int16{int16(first), int16(last)}
	}
}

func refCodes(q []int8, x []float32, inverse float32) int32 {
	sum := int32(0)
	for i, v := range x {
		r := int32(math.RoundToEven(float64(v * inverse)))
		q[i] = int8(min(max(r, -127), 127))
		sum += int32(q[i])
	}
	return sum
}
