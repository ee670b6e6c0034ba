package safetensors

import (
	"encoding/binary"
	"math"
	"strings"
)

// Type is a tensor's element type, by the name that the format gives it.
type Type string

// The types that this build reads.
const (
	F32  Type = "F32"
	F16  Type = "F16"
	BF16 Type = "BF16"
	I8   Type = "I8"
	U8   Type = "U8"
)

// readable reports whether Row works for the type.
func (t Type) readable() bool {
	switch t {
	case F32, F16, BF16, I8, U8:
		return true
	}
	return false
}

// size returns the bytes of an element, 0 for a type whose elements this build does not know.
func (t Type) size() int {
	switch t {
	case "F64", "I64", "U64":
		return 8
	case F32, "I32", "U32":
		return 4
	case F16, BF16, "I16", "U16":
		return 2
	case I8, U8, "BOOL", "F8_E4M3", "F8_E5M2":
		return 1
	}
	return 0
}

// Tensor is one tensor of open weights: rows of Cols elements. Its bytes belong to the file.
type Tensor struct {
	Name string
	Type Type
	// Shape has the outermost dimension first, as the file does.
	Shape []int

	data []byte
}

// Format returns the name of the type in small letters: "f32", "bf16".
func (t *Tensor) Format() string { return strings.ToLower(string(t.Type)) }

// Cols returns the elements of a row: the last dimension, 1 for a scalar.
func (t *Tensor) Cols() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// Rows returns the number of rows over all dimensions but the last.
func (t *Tensor) Rows() int {
	n := 1
	for _, d := range t.Shape[:max(0, len(t.Shape)-1)] {
		n *= d
	}
	return n
}

// Raw returns the bytes of row i as they are stored. They must not be changed. It panics when i is out of range, like indexing.
func (t *Tensor) Raw(i int) []byte {
	n := t.Cols() * t.Type.size()
	return t.data[i*n : (i+1)*n : (i+1)*n]
}

// Row converts row i into dst, which has Cols elements, exactly. It panics when i or dst is out of range, like indexing.
func (t *Tensor) Row(i int, dst []float32) { t.Type.convert(dst[:t.Cols()], t.Raw(i)) }

func (t Type) convert(dst []float32, src []byte) {
	le := binary.LittleEndian
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(src[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = half(le.Uint16(src[2*i:]))
		}
	case I8:
		for i := range dst {
			dst[i] = float32(int8(src[i]))
		}
	case U8:
		for i := range dst {
			dst[i] = float32(src[i])
		}
	}
}

// half converts an IEEE 754 half-precision number.
func half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 0: // zero or subnormal: fraction·2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31: // infinity or not a number
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
