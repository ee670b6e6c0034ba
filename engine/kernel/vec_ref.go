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

// refApply does one operation on every element.
func refApply(op element, dst, x, y []float32) {
	for i := range dst {
		dst[i] = refElement(op, x[i], y[i])
	}
}

func refElement(op element, x, y float32) float32 {
	switch op {
	case opAdd:
		return x + y
	case opMul:
		return x * y
	case opSiLUMul:
		return float32(x/float32(1+exp(-x))) * y
	case opGELUTanhMul:
		return geluTanh(x) * y
	case opSiLU:
		return x / float32(1+exp(-x))
	case opGELU:
		return gelu(x)
	case opGELUTanh:
		return geluTanh(x)
	case opSigmoid:
		return 1 / float32(1+exp(-x))
	default:
		return tanh(x)
	}
}

// The two constants of −2√(2/π)·(1+0.044715·x²).
const (
	geluT0 = -1.5957691216057308
	geluT1 = geluT0 * 0.044715
)

func geluTanh(x float32) float32 {
	return x / float32(1+exp(x*fma(float32(x*x), geluT1, geluT0)))
}

// The complementary error function by formula 7.1.26 of Abramowitz and Stegun, for |x|/√2 and halved: Φ(−|x|) =
// t·(erf1+t·(…))·exp(−x²/2) with t = 1/(1+erfP·|x|). Its error is below 1e-7.
const (
	erfP = 0.3275911 * math.Sqrt2 / 2
	erf1 = 0.5 * 0.254829592
	erf2 = 0.5 * -0.284496736
	erf3 = 0.5 * 1.421413741
	erf4 = 0.5 * -1.453152027
	erf5 = 0.5 * 1.061405429
)

// gelu is max(x, 0) − |x|·Φ(−|x|), which keeps the relative precision of the negative side.
func gelu(x float32) float32 {
	size := float32(math.Abs(float64(x)))
	t := 1 / fma(size, erfP, 1)
	h := float32(erf5)
	h = fma(h, t, erf4)
	h = fma(h, t, erf3)
	h = fma(h, t, erf2)
	h = fma(h, t, erf1)
	h = float32(h*t) * exp(float32(x*x)*-0.5)
	return fma(-size, h, positive(x))
}

// positive is x, or zero where x is not above it.
func positive(x float32) float32 {
	if x > 0 {
		return x
	}
	return 0
}

// The hyperbolic tangent: x+x³·P(x²) below 0.625 (from Cephes), (1−e)/(1+e) with e = exp(−2|x|) from there on.
const (
	tanhSmall = 0.625
	tanh0     = -3.33332819422e-1
	tanh1     = 1.33314422036e-1
	tanh2     = -5.37397155531e-2
	tanh3     = 2.06390887954e-2
	tanh4     = -5.70498872745e-3
)

func tanh(x float32) float32 {
	size := float32(math.Abs(float64(x)))
	if size < tanhSmall {
		z := x * x
		p := float32(tanh4)
		p = fma(p, z, tanh3)
		p = fma(p, z, tanh2)
		p = fma(p, z, tanh1)
		p = fma(p, z, tanh0)
		return fma(float32(p*z), x, x)
	}
	e := exp(-2 * size)
	return float32(math.Copysign(float64((1-e)/(1+e)), float64(x)))
}

func refRope(x []float32, heads, dim, rotated int, table []float32, neox bool) {
	for h := range heads {
		v := x[h*dim:][:rotated]
		for i := range rotated / 2 {
			ia, ib := 2*i, 2*i+1
			if neox {
				ia, ib = i, i+rotated/2
			}
			a, b, cos, sin := v[ia], v[ib], table[2*i], table[2*i+1]
			v[ia] = float32(a*cos) - float32(b*sin)
			v[ib] = float32(a*sin) + float32(b*cos)
		}
	}
}

func refReduce(op reduction, x []float32, arg float32) float32 {
	var lanes [blockLen]float32
	if op == largestElement {
		for i := range lanes {
			lanes[i] = float32(math.Inf(-1))
		}
	}
	for i, v := range x {
		l := &lanes[i%blockLen]
		switch op {
		case sumOfElements:
			*l += v
		case sumOfSquares:
			*l = fma(v, v, *l)
		case sumOfDeviations:
			*l = fma(v-arg, v-arg, *l)
		case sumOfExponentials:
			x[i] = exp(v - arg)
			*l += x[i]
		case largestElement:
			*l = max(*l, v)
		case largestMagnitude:
			*l = max(*l, float32(math.Abs(float64(v))))
		}
	}
	return foldLanes(op, &lanes)
}

// foldLanes joins the upper half of the lanes with the lower one until one is left.
func foldLanes(op reduction, l *[blockLen]float32) float32 {
	for n := blockLen / 2; n > 0; n /= 2 {
		for i := range n {
			if op == largestElement || op == largestMagnitude {
				l[i] = max(l[i], l[i+n])
			} else {
				l[i] += l[i+n]
			}
		}
	}
	return l[0] + 0 // of the largest element, −0 becomes 0: the order does not decide
}
