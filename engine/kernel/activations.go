package kernel

import "unsafe"

// Input says how the activations are stored that a product reads.
type Input uint8

// The inputs.
const (
	Dense Input = iota // float32
	Block              // signed bytes, one scale per 32 columns
	Row                // signed bytes, one scale per row
)

// blockScale goes with 32 signed bytes (Block) or with a row of them (Row). The kernels read it at fixed offsets.
type blockScale struct {
	d    float32  // value = d·q
	sum  float32  // d·Σq, rounded once
	zero int32    // −128·Σq: what 128 added to each weight adds to an integer sum, negated
	half [2]int16 // Block: Σq of the first and of the last 16 columns
}

const scaleBytes = int(unsafe.Sizeof(blockScale{}))

// Activations are the left side of a product: rows one after the other, each beginning at a multiple of 64 bytes. Of quantised
// rows the bytes come first, then the scales of its blocks, or its one scale. Rows may be written concurrently.
type Activations struct {
	in                 Input
	rows, cols, stride int
	data               []byte
}

// ActivationsBytes is the memory that NewActivations is best given: rows times an odd multiple of 64, so that the same column of
// several rows, which a product reads together, does not compete for one set of the cache.
func ActivationsBytes(in Input, rows, cols int) int { return rows * (activationsRow(in, cols) | 64) }

// activationsRow is the least size of a row.
func activationsRow(in Input, cols int) int {
	switch in {
	case Block:
		return align(cols + cols/32*scaleBytes)
	case Row:
		return align(cols + scaleBytes)
	default:
		return align(4 * cols)
	}
}

func align(n int) int { return (n + 63) &^ 63 }

// NewActivations returns room for rows of cols elements, in mem or, if that is nil, in memory of its own. mem must have rows
// times a multiple of 64 bytes, enough for the elements and scales. Quantised rows need a multiple of 32 columns.
func NewActivations(in Input, rows, cols int, mem []byte) *Activations {
	if rows <= 0 || cols <= 0 || in > Row || (in != Dense && cols%32 != 0) {
		mismatch("NewActivations", int(in), rows, cols)
	}
	if mem == nil {
		mem = alignedBytes(ActivationsBytes(in, rows, cols))
	}
	need := rows * activationsRow(in, cols)
	if len(mem) < need || len(mem)%(64*rows) != 0 || uintptr(unsafe.Pointer(&mem[0]))%16 != 0 {
		mismatch("NewActivations", int(in), rows, cols, len(mem), need)
	}
	return &Activations{in: in, rows: rows, cols: cols, stride: len(mem) / rows, data: mem}
}

// Input tells how the rows are stored.
func (a *Activations) Input() Input { return a.in }

// Row is row t of Dense activations.
func (a *Activations) Row(t int) []float32 {
	if a.in != Dense {
		mismatch("Row", int(a.in))
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&a.row(t)[0])), a.cols)
}

func (a *Activations) row(t int) []byte { return a.data[t*a.stride : (t+1)*a.stride] }

// codes are the bytes of row t of quantised activations.
func (a *Activations) codes(t int) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(&a.row(t)[0])), a.cols)
}

// scales are the scales of row t of quantised activations: one per 32 columns, or one.
func (a *Activations) scales(t int) []blockScale {
	n := 1
	if a.in == Block {
		n = a.cols / 32
	}
	return unsafe.Slice((*blockScale)(unsafe.Pointer(&a.row(t)[a.cols])), n)
}

// alignedBytes returns n bytes that begin at a multiple of 64.
func alignedBytes(n int) []byte {
	b := make([]byte, n+63)
	skip := alignedAt(b)
	return b[skip : skip+n : skip+n]
}

// alignedAt is where b reaches a multiple of 64.
func alignedAt(b []byte) int { return int(-uintptr(unsafe.Pointer(&b[0])) & 63) }
