package kernel

import "math"

// smallestBlock keeps 127/max|x| finite.
const smallestBlock = 1.0 / (1 << 100)

// Quantize writes x to row t of a: as signed bytes, 32 elements (Block) or the whole row (Row) under one scale d = max|x|/127,
// q = x·(127/max|x|) rounded to nearest even. Blocks whose largest magnitude is below 2⁻¹⁰⁰ become zero. Dense rows are copied.
func (k Kernels) Quantize(a *Activations, t int, x []float32) {
	if len(x) != a.cols || t < 0 || t >= a.rows {
		mismatch("Quantize", len(x), a.cols, t)
	}
	if a.in == Dense {
		copy(a.Row(t), x)
		return
	}
	q, scales := a.codes(t), a.scales(t)
	n := len(q) / len(scales)
	for b := range scales {
		refQuantize(q[b*n:(b+1)*n], &scales[b], x[b*n:(b+1)*n])
	}
}

func refQuantize(q []int8, s *blockScale, x []float32) {
	top := float32(0)
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	if !(top >= smallestBlock) {
		clear(q)
		*s = blockScale{}
		return
	}
	inv, sum, first := 127/top, int32(0), int32(0)
	for j, v := range x {
		r := int32(math.RoundToEven(float64(v * inv)))
		q[j] = int8(min(max(r, -127), 127))
		sum += int32(q[j])
		if j == 15 {
			first = sum
		}
	}
	d := top / 127
	*s = blockScale{d: d, sum: d * float32(sum), zero: -128 * sum}
	if len(x) == 32 {
		s.half = [2]int16{int16(first), int16(sum - first)}
	}
}
