package gguf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Type is a tensor's storage format, with the numbers of the file format.
type Type uint32

// The supported types.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q2_K Type = 10
	Q3_K Type = 11
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30
)

type layout struct {
	name            string
	elements, bytes int // of one block
}

func (t Type) layout() (layout, bool) {
	switch t {
	case F32:
		return layout{"F32", 1, 4}, true
	case F16:
		return layout{"F16", 1, 2}, true
	case BF16:
		return layout{"BF16", 1, 2}, true
	case Q4_0:
		return layout{"Q4_0", 32, 18}, true
	case Q4_1:
		return layout{"Q4_1", 32, 20}, true
	case Q5_0:
		return layout{"Q5_0", 32, 22}, true
	case Q5_1:
		return layout{"Q5_1", 32, 24}, true
	case Q8_0:
		return layout{"Q8_0", 32, 34}, true
	case Q2_K:
		return layout{"Q2_K", 256, 84}, true
	case Q3_K:
		return layout{"Q3_K", 256, 110}, true
	case Q4_K:
		return layout{"Q4_K", 256, 144}, true
	case Q5_K:
		return layout{"Q5_K", 256, 176}, true
	case Q6_K:
		return layout{"Q6_K", 256, 210}, true
	}
	return layout{}, false
}

// String returns the type's usual name.
func (t Type) String() string {
	if l, ok := t.layout(); ok {
		return l.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// HasBlocks reports whether [Tensor.Blocks] works for the type.
func (t Type) HasBlocks() bool {
	switch t {
	case Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K:
		return true
	default:
		return false
	}
}

// Block returns how many elements a block of the type has and how many bytes it takes, 0 and 0 for an unknown type.
func (t Type) Block() (elements, bytes int) {
	l, _ := t.layout()
	return l.elements, l.bytes
}

// rowBytes returns the bytes of a row of whole blocks.
func (t Type) rowBytes(cols int) int {
	l, _ := t.layout()
	return cols / l.elements * l.bytes
}

// size returns the bytes of a tensor, or an error when the type is not supported or rows do not divide into blocks.
func (t Type) size(shape []int) (uint64, error) {
	l, ok := t.layout()
	if !ok {
		return 0, fmt.Errorf("its %v is not supported (supported: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K to Q6_K)", t)
	}
	if shape[0]%l.elements != 0 {
		return 0, fmt.Errorf("rows of %d elements do not divide into %v blocks of %d", shape[0], t, l.elements)
	}
	n := uint64(shape[0]/l.elements) * uint64(l.bytes)
	for _, d := range shape[1:] {
		if n > math.MaxInt64/uint64(d) {
			return 0, errors.New("its size overflows")
		}
		n *= uint64(d)
	}
	return n, nil
}

// Tensor is one tensor of an open file: rows of Cols elements. Its bytes belong to the file.
type Tensor struct {
	Name string
	Type Type
	// Shape has the innermost dimension first, as the file does.
	Shape []int

	data     []byte
	rowBytes int
}

func newTensor(in tensorInfo, data []byte) *Tensor {
	return &Tensor{Name: in.name, Type: in.kind, Shape: in.shape, data: data, rowBytes: in.kind.rowBytes(in.shape[0])}
}

// Format returns the name of the type in small letters: "f16", "q4_1".
func (t *Tensor) Format() string { return strings.ToLower(t.Type.String()) }

// Cols returns the elements of a row.
func (t *Tensor) Cols() int { return t.Shape[0] }

// Rows returns the number of rows over all outer dimensions.
func (t *Tensor) Rows() int { return len(t.data) / t.rowBytes }

// Raw returns the bytes of row i as they are stored. They belong to the file and must not be changed. It panics when i is out of
// range, like indexing.
func (t *Tensor) Raw(i int) []byte {
	end := (i + 1) * t.rowBytes
	return t.data[i*t.rowBytes : end : end]
}

// Row dequantises row i into dst, which has Cols elements. It panics when i or dst is out of range, like indexing.
func (t *Tensor) Row(i int, dst []float32) {
	dequantize(t.Type, t.Raw(i), dst[:t.Cols()])
}

// Blocks reads row i as blocks of 32 elements: element j has the value d[j/32]·q[j] + m[j/32]. It works for types with HasBlocks;
// q has Cols elements, d and m a 32nd of them. It panics when an argument is out of range, like indexing.
func (t *Tensor) Blocks(i int, q []int8, d, m []float32) {
	unpack(t.Type, t.Raw(i), q[:t.Cols()], d, m)
}

// NewTensor returns a tensor whose bytes another format keeps in one of the types of this one. Shape has the innermost dimension first.
func NewTensor(name string, kind Type, shape []int, data []byte) (*Tensor, error) {
	if len(shape) == 0 || slices.ContainsFunc(shape, func(n int) bool { return n < 1 }) {
		return nil, fmt.Errorf("the tensor %.60q has the shape %v", name, shape)
	}
	size, err := kind.size(shape)
	if err != nil {
		return nil, fmt.Errorf("the tensor %.60q: %w", name, err)
	}
	if uint64(len(data)) != size {
		return nil, fmt.Errorf("the tensor %.60q has %d bytes, its shape %v in %v takes %d", name, len(data), shape, kind, size)
	}
	return newTensor(tensorInfo{name: name, kind: kind, shape: shape}, data), nil
}
