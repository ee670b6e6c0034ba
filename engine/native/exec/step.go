package exec

import (
	"unsafe"

	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/kernel"
)

// The arenas: one for each symbol that counts rows.
const (
	arenaTokens = iota
	arenaWanted
	arenaSequences
	arenas
)

// operand says where the rows of a value lie.
type operand struct {
	arena     int
	offset    int // bytes for each row that is computed
	rowBytes  int
	cols      int
	input     kernel.Input // how the elements are stored
	wide      bool         // in two terms: the second one behind the first
	act       int          // of a value that products read: index into Pass.acts; otherwise −1
	positions bool         // not a value, but the positions of the rows
	segments  bool         // nor is this: the segments of the rows
}

// step is one instruction of a program.
type step struct {
	op       graph.Op
	index    int // among the steps of the program
	in       []operand
	out      operand
	w        *kernel.Matrix
	matrix   string    // name of w
	vec      []float32 // weight of a norm, or a row that is added to or multiplied with every row
	bias     []float32
	residual int // index into in of what is added, or −1
	eps      float32
	by       float32
	groups   int
	from     int
	quant    bool   // whether the rows of out are quantised
	fn       string // of act and glu; the kind of pool
	att      *attention
	rope     *rotation
}

// rotation is how positions turn the heads of a row.
type rotation struct {
	table        int // index into Pass.tables
	heads, dim   int
	rotated      int
	neox         bool
	base, factor float64
	divisors     []float32 // nil: none
}

// attention is one attention step.
type attention struct {
	layer           int
	heads, kv, dim  int
	qIn, kIn, vIn   int // which operands hold queries, keys and values,
	q, k, v         int // and from which column on
	scale           float32
	causal          bool
	window          int
	softcap         float32
	rope            *rotation
	qnorm, knorm    []float32
	eps             float32
	quantizeInPlace bool // a head is made of whole blocks, so that each can be quantised by itself
}

// floats returns n rows of float32 at an operand; the stride in elements is rowBytes/4.
func floats(mem []byte, o *operand, n int) []float32 {
	if n == 0 {
		return nil
	}
	at := o.offset * n
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[at])), o.rowBytes/4*n)
}

// alignedFloats allocates memory that begins at a 64-byte border and holds no pointers.
func alignedFloats(bytes int) []byte {
	raw := make([]byte, bytes+64)
	skip := -int(uintptr(unsafe.Pointer(&raw[0]))) & 63
	return raw[skip : skip+bytes : skip+bytes]
}
