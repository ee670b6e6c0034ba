package kernel

import "math"

// This file is the reference of the vector kernels: always compiled, the oracle of the tests and what machines without a faster
// tier run.

// fma returns x·y+z rounded once. math.FMA is for float64; going through it would round twice. Here the product is exact in
// float64; rounding the float64 sum again is right unless that sum lies halfway between two float32 numbers, or is so small that
// they are spaced otherwise.
func fma(x, y, z float32) float32 {
	s := float64(x)*float64(y) + float64(z)
	if math.Float64bits(s)&(1<<29-1) != 1<<28 && math.Abs(s) > 1.0/(1<<125) {
		return float32(s)
	}
	return fmaSlow(x, y, z)
}

// fmaSlow rounds the float64 sum to odd, which makes the final rounding correct in every case (Boldo and Melquiond).
func fmaSlow(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	b := s - p
	lost := (p - (s - b)) + (c - b)
	if bits := math.Float64bits(s); lost != 0 && bits&1 == 0 && !math.IsInf(s, 0) && !math.IsNaN(lost) {
		if (lost > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}

func sumLanes(l *[8]float32) float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// The exponential: n = x·log2(e) to nearest, r = x − n·ln 2 in two steps, a polynomial for exp(r), times 2ⁿ.
const (
	expMax = 88
	expMin = -87
	log2e  = 1.44269504088896341
	ln2Hi  = 0.693359375
	ln2Lo  = -2.12194440e-4
	expP0  = 1.9875691500e-4
	expP1  = 1.3981999507e-3
	expP2  = 8.3334519073e-3
	expP3  = 4.1665795894e-2
	expP4  = 1.6666665459e-1
	expP5  = 5.0000001201e-1
)

// exp is zero below −87 and exp(88) above 88.
func exp(x float32) float32 {
	if x < expMin {
		return 0
	}
	if !(x < expMax) {
		x = expMax
	}
	n := float32(math.RoundToEven(float64(x * log2e)))
	r := fma(-n, ln2Hi, x)
	r = fma(-n, ln2Lo, r)
	y := float32(expP0)
	y = fma(y, r, expP1)
	y = fma(y, r, expP2)
	y = fma(y, r, expP3)
	y = fma(y, r, expP4)
	y = fma(y, r, expP5)
	y = fma(y, float32(r*r), r)
	y++
	return y * math.Float32frombits(uint32(int32(n)+127)<<23)
}

func refScores(scores, q []float32, rows []uint16, scale float32) {
	for i := range scores {
		var lanes [8]float32
		for j, h := range rows[i*len(q) : (i+1)*len(q)] {
			lanes[j&7] = fma(q[j], fromHalf(h), lanes[j&7])
		}
		scores[i] = sumLanes(&lanes) * scale
	}
}

// refCombine adds to the elements of dst from the index head on.
func refCombine(dst []float32, head int, weights []float32, rows []uint16) {
	for j := head; j < len(dst); j++ {
		acc := dst[j]
		for i, w := range weights {
			acc = fma(w, fromHalf(rows[i*len(dst)+j]), acc)
		}
		dst[j] = acc
	}
}

// fromHalf converts a half-precision number, exactly.
func fromHalf(h uint16) float32 {
	sign, e, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch e {
	case 0:
		return math.Float32frombits(math.Float32bits(float32(frac)*(1.0/(1<<24))) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (e+112)<<23 | frac<<13)
}

// toHalf rounds to half precision, to nearest even; too large becomes infinite, NaN stays NaN.
func toHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, abs := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x477ff000: // from 65520 on
		return sign | 0x7c00
	case abs < 0x38800000: // below 2⁻¹⁴ the result is subnormal: a multiple of 2⁻²⁴
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*(1<<24)))
	}
	// Drop 13 bits; adding 0xfff plus the lowest bit that stays rounds to nearest even and carries into the exponent.
	return sign | uint16((abs+0xfff+(abs>>13&1)-112<<23)>>13)
}
