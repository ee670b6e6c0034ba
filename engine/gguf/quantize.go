package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Quantize converts src into the format t as the format's reference does, bit for bit: every product and sum rounds to float32,
// half rounds away from zero. It supports F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1. src must hold whole blocks, and dst the
// bytes they take. Values that the format cannot hold (not finite in block formats, beyond 65504 in F16 and in the scale of a block)
// are an error; dst is then undefined.
func Quantize(t Type, dst []byte, src []float32) error {
	l, ok := t.layout()
	if !ok || !t.writable() {
		return fmt.Errorf("gguf: values cannot be converted to %v (supported: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1)", t)
	}
	if len(src)%l.elements != 0 || len(dst) != len(src)/l.elements*l.bytes {
		return fmt.Errorf("gguf: %d values and %d bytes do not make whole %v blocks", len(src), len(dst), t)
	}
	switch t {
	case F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
		return nil
	case F16:
		return quantizeHalf(dst, src)
	case BF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], toBrain(x))
		}
		return nil
	default:
		for i := 0; i < len(src); i += l.elements {
			if err := quantizeBlock(t, dst[i/l.elements*l.bytes:], src[i:i+l.elements]); err != nil {
				return fmt.Errorf("gguf: values %d to %d: %w", i, i+l.elements-1, err)
			}
		}
		return nil
	}
}

func (t Type) writable() bool {
	switch t {
	case F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1:
		return true
	default:
		return false
	}
}

func quantizeHalf(dst []byte, src []float32) error {
	for i, x := range src {
		h := toHalf(x)
		if h&0x7fff == 0x7c00 && !math.IsInf(float64(x), 0) {
			return fmt.Errorf("gguf: value %d, %g, is beyond the range of F16; BF16 or F32 can hold it", i, x)
		}
		binary.LittleEndian.PutUint16(dst[2*i:], h)
	}
	return nil
}

// quantizeBlock converts 32 values.
func quantizeBlock(t Type, dst []byte, x []float32) error {
	low, high, peak := x[0], x[0], x[0] // peak is the value furthest from zero, the first of equals
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("%g cannot be held in %v", v, t)
		}
		low, high = min(low, v), max(high, v)
		if abs(v) > abs(peak) {
			peak = v
		}
	}
	var d, m float32
	switch t {
	case Q8_0:
		d = abs(peak) / 127
	case Q4_0:
		d = peak / -8
	case Q5_0:
		d = peak / -16
	case Q4_1:
		d, m = (high-low)/15, low
	default: // Q5_1
		d, m = (high-low)/31, low
	}
	hd, hm := toHalf(d), toHalf(m)
	if hd&0x7fff >= 0x7c00 || hm&0x7fff >= 0x7c00 {
		return fmt.Errorf("values up to %g are beyond what a scale of %v can hold", peak, t)
	}
	inverse := 1 / d
	if d == 0 || math.IsInf(float64(inverse), 0) { // the scale is 0 in half precision as well
		inverse = 0
	}
	binary.LittleEndian.PutUint16(dst, hd)
	switch t {
	case Q8_0:
		for i, v := range x {
			dst[2+i] = byte(int8(math.Round(float64(v * inverse))))
		}
	case Q4_0:
		packNibbles(dst[2:18], round(x, 0, inverse, 8.5, 15))
	case Q5_0:
		q := round(x, 0, inverse, 16.5, 31)
		binary.LittleEndian.PutUint32(dst[2:], packFifth(q))
		packNibbles(dst[6:22], q)
	case Q4_1:
		binary.LittleEndian.PutUint16(dst[2:], hm)
		packNibbles(dst[4:20], round(x, m, inverse, 0.5, 15))
	default: // Q5_1
		binary.LittleEndian.PutUint16(dst[2:], hm)
		q := round(x, m, inverse, 0.5, 31)
		binary.LittleEndian.PutUint32(dst[4:], packFifth(q))
		packNibbles(dst[8:24], q)
	}
	return nil
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// round returns (x−low)·inverse+shift without its fraction, at most limit.
func round(x []float32, low, inverse, shift, limit float32) *[32]byte {
	var q [32]byte
	for i, v := range x {
		q[i] = byte(min(float32((v-low)*inverse)+shift, limit))
	}
	return &q
}

func packNibbles(dst []byte, q *[32]byte) {
	for j := range dst {
		dst[j] = q[j]&15 | q[j+16]<<4
	}
}

func packFifth(q *[32]byte) (bits uint32) {
	for j, v := range q {
		bits |= uint32(v>>4) << j
	}
	return bits
}

// toHalf rounds to half precision, to nearest, ties to even; what is too large becomes infinite, NaN stays NaN.
func toHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, exp, frac := uint16(bits>>16&0x8000), int(bits>>23&0xff)-112, bits&0x7fffff
	switch {
	case exp == 143: // infinite or NaN
		if frac != 0 {
			return sign | 0x7e00 | uint16(frac>>13)
		}
		return sign | 0x7c00
	case exp >= 31:
		return sign | 0x7c00
	case exp < -10:
		return sign
	case exp <= 0: // subnormal: the leading one becomes part of the fraction
		return sign | uint16(shiftEven(frac|0x800000, uint(14-exp)))
	}
	return sign | uint16(shiftEven(uint32(exp)<<23|frac, 13)) // a carry goes into the exponent, up to infinity
}

// toBrain rounds to bfloat16, to nearest, ties to even; NaN stays NaN.
func toBrain(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 64
	}
	return uint16(shiftEven(bits, 16))
}

// shiftEven is v / 2ⁿ, rounded to nearest, ties to even.
func shiftEven(v uint32, n uint) uint32 {
	return uint32((uint64(v) + 1<<(n-1) - 1 + uint64(v>>n&1)) >> n)
}
