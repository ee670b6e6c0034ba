package kernel

import "fmt"

// Format is how the weights of a matrix are stored.
type Format uint8

// The formats. Q4 holds Q4_0 and Q4_1, Q5 holds Q5_0 and Q5_1; the K formats are the super-blocks of their names; Q8 is Q8_0; I8 has
// one scale per row and reads activations with one scale per row. Q8X, with float32 scales and offsets, is the way out for blocks
// whose numbers no other format holds exactly.
const (
	F32 Format = iota
	F16
	Q4
	Q4K
	Q5
	Q5K
	Q6K
	Q8
	I8
	Q8X
	wide  // not stored: what products of many tokens unpack to, up to four bits
	wide5 // the same, up to five
	wide6 // the same, Q6K
)

//nolint:gochecknoglobals // a constant table
var formatNames = [...]string{"f32", "f16", "q4", "q4k", "q5", "q5k", "q6k", "q8", "i8", "q8x"}

// String returns the format's name in graphs.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// ParseFormat is the inverse of String.
func ParseFormat(name string) (Format, error) {
	for i, n := range formatNames {
		if n == name {
			return Format(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no weight format; known are %v", name, formatNames)
}

// Input is what activations the products of a format read.
func (f Format) Input() Input {
	switch f {
	case F32, F16:
		return Dense
	case I8:
		return Row
	default:
		return Block
	}
}

// Columns is what the number of columns of a matrix must be a multiple of.
func (f Format) Columns() int {
	switch f {
	case F32, F16:
		return 1
	case Q4K, Q5K, Q6K:
		return 256
	default:
		return 32
	}
}

// layout describes a panel: head bytes of scales, then blocks of so many bytes and columns.
type layout struct{ head, bytes, cols int }

func (f Format) layout(cols int) layout {
	switch f {
	case F32:
		return layout{0, 64, 1}
	case F16:
		return layout{0, 32, 1}
	case Q4:
		return layout{0, 64 + 256, 32}
	case Q5:
		return layout{0, 64 + 256 + 64, 32}
	case Q4K:
		return layout{0, superHead + 8*256, 256}
	case Q5K:
		return layout{0, superHead + 8*(256+64), 256}
	case Q6K:
		return layout{0, superHead + 8*(256+128), 256}
	case Q8:
		return layout{align(cols), 512, 32}
	case I8:
		return layout{64, 512, 32}
	default:
		return layout{0, 128 + 512, 32}
	}
}

// superHead is what a super-block begins with: scales and offsets of half precision (64 bytes), then 32 bytes for each block.
const superHead = 64 + 8*32

func (f Format) panelBytes(cols int) int {
	l := f.layout(cols)
	return align(l.head + cols/l.cols*l.bytes)
}
