package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// panelRows is the number of rows of a panel: one 64-byte vector holds a float32 of each.
const panelRows = 16

// Matrix is a weight matrix in panels of sixteen rows. After it is filled it is immutable and safe for concurrent use.
type Matrix struct {
	rows, cols int
	format     Format
	layout     layout
	panelBytes int
	data       []byte
}

// MatrixBytes is the memory that NewMatrix needs.
func MatrixBytes(f Format, rows, cols int) int {
	return (rows + panelRows - 1) / panelRows * f.panelBytes(cols)
}

// NewMatrix returns a matrix in mem, of MatrixBytes bytes, which may be read-only if it is filled already; with nil it takes memory
// of its own, all zero. cols must be a multiple of the format's Columns.
func NewMatrix(f Format, rows, cols int, mem []byte) *Matrix {
	if rows <= 0 || cols <= 0 || f > Q8X || cols%f.Columns() != 0 {
		mismatch("NewMatrix", int(f), rows, cols)
	}
	need := MatrixBytes(f, rows, cols)
	if mem == nil {
		mem = alignedBytes(need)
	}
	if len(mem) != need || uintptr(unsafe.Pointer(&mem[0]))%4 != 0 {
		mismatch("NewMatrix", int(f), rows, cols, len(mem), need)
	}
	return &Matrix{rows: rows, cols: cols, format: f, layout: f.layout(cols), panelBytes: f.panelBytes(cols), data: mem}
}

// Rows and Cols give the size without padding.
func (w *Matrix) Rows() int { return w.rows }

// Cols gives the number of columns.
func (w *Matrix) Cols() int { return w.cols }

// Stride is the number of rows with padding: the least length of one product.
func (w *Matrix) Stride() int { return w.Panels() * panelRows }

// Panels is the number of panels.
func (w *Matrix) Panels() int { return (w.rows + panelRows - 1) / panelRows }

// Format returns how the weights are stored.
func (w *Matrix) Format() Format { return w.format }

// Bytes is the matrix's memory: what a product reads once, and what NewMatrix accepts again.
func (w *Matrix) Bytes() []byte { return w.data }

// panel is the panel that row r is in, lane its place there.
func (w *Matrix) panel(r int) (panel []byte, lane int) {
	p := r / panelRows
	return w.data[p*w.panelBytes : (p+1)*w.panelBytes], r % panelRows
}

// stream returns block b of the row's panel and the row's place.
func (w *Matrix) stream(r, b int) (blk []byte, lane int) {
	panel, lane := w.panel(r)
	at := w.layout.head + b*w.layout.bytes
	return panel[at : at+w.layout.bytes], lane
}

// Row writes row r as float32: the look-up in an embedding table.
func (w *Matrix) Row(r int, dst []float32) {
	if r < 0 || r >= w.rows || len(dst) != w.cols {
		mismatch("Row", r, len(dst))
	}
	panel, lane := w.panel(r)
	switch w.format {
	case F32:
		for c := range dst {
			dst[c] = math.Float32frombits(binary.LittleEndian.Uint32(panel[c*64+4*lane:]))
		}
	case F16:
		for c := range dst {
			dst[c] = fromHalf(binary.LittleEndian.Uint16(panel[c*32+2*lane:]))
		}
	default:
		var b block
		for i := range w.cols / 32 {
			w.decode(r, i, &b)
			out := dst[i*32 : i*32+32]
			for j := range out {
				out[j] = float32(b.d*float32(b.q[j]*b.scale[j/16])) + b.m
			}
		}
	}
}

// block is 32 columns of one row taken apart: the value of column j is d·scale[j/16]·q[j] + m.
type block struct {
	q     [32]int32
	scale [2]int32
	d, m  float32
}

// decode takes block b (32 columns) of row r of a quantised matrix apart.
func (w *Matrix) decode(r, b int, out *block) {
	out.scale, out.m = [2]int32{1, 1}, 0
	switch w.format {
	case Q4:
		blk, lane := w.stream(r, b)
		out.d, out.m = half(blk, lane), half(blk[32:], lane)
		getNibbles(out, blk[64:], lane)
	case Q5:
		blk, lane := w.stream(r, b)
		out.d, out.m = half(blk, lane), half(blk[32:], lane)
		getNibbles(out, blk[64:], lane)
		getHigh(out, blk[320:], lane, 1)
	case Q4K, Q5K:
		blk, lane := w.stream(r, b/8)
		own := blk[64+b%8*32:]
		out.d = half(blk, lane) * float32(own[lane])
		out.m = -(half(blk[32:], lane) * float32(own[16+lane]))
		if w.format == Q4K {
			getNibbles(out, blk[superHead+b%8*256:], lane)
			return
		}
		getNibbles(out, blk[superHead+b%8*320:], lane)
		getHigh(out, blk[superHead+b%8*320+256:], lane, 1)
	case Q6K:
		blk, lane := w.stream(r, b/8)
		own := blk[64+b%8*32+2*lane:]
		out.d, out.scale = half(blk, lane), [2]int32{int32(int8(own[0])), int32(int8(own[1]))}
		getNibbles(out, blk[superHead+b%8*384:], lane)
		getHigh(out, blk[superHead+b%8*384+256:], lane, 2)
		for j := range out.q {
			out.q[j] -= 32
		}
	case Q8:
		blk, lane := w.stream(r, b)
		panel, _ := w.panel(r)
		out.d = half(panel[b*32:], lane)
		getBytes(out, blk, lane)
	case I8:
		blk, lane := w.stream(r, b)
		panel, _ := w.panel(r)
		out.d = math.Float32frombits(binary.LittleEndian.Uint32(panel[4*lane:]))
		getBytes(out, blk, lane)
	default:
		blk, lane := w.stream(r, b)
		out.d, out.m = math.Float32frombits(binary.LittleEndian.Uint32(blk[4*lane:])), math.Float32frombits(binary.LittleEndian.Uint32(blk[64+4*lane:]))
		getBytes(out, blk[128:], lane)
	}
}

func half(v []byte, lane int) float32 { return fromHalf(binary.LittleEndian.Uint16(v[2*lane:])) }

// The bytes of four neighbouring columns go through one register.

func (b *block) put4(at int, v uint32) {
	q := b.q[at : at+4]
	q[0], q[1], q[2], q[3] = int32(v&255), int32(v>>8&255), int32(v>>16&255), int32(v>>24)
}

// getNibbles reads four vectors: the low halves are columns 0 to 15.
func getNibbles(out *block, v []byte, lane int) {
	for g := range 4 {
		n := binary.LittleEndian.Uint32(v[64*g+4*lane:])
		out.put4(4*g, n&0x0f0f0f0f)
		out.put4(4*g+16, n>>4&0x0f0f0f0f)
	}
}

// getHigh adds the bits above the nibbles: each vector holds so many bits of 8/bits column groups.
func getHigh(out *block, v []byte, lane, bits int) {
	per := 8 / bits
	for g := range 8 {
		for i, b := range v[64*(g/per)+4*lane:][:4] {
			out.q[4*g+i] |= int32(b>>(g%per*bits)) & (1<<bits - 1) << 4
		}
	}
}

// getBytes reads eight vectors of bytes that have 128 added.
func getBytes(out *block, v []byte, lane int) {
	for g := range 8 {
		n := binary.LittleEndian.Uint32(v[64*g+4*lane:]) ^ 0x80808080
		q := out.q[4*g : 4*g+4]
		q[0], q[1], q[2], q[3] = int32(int8(n)), int32(int8(n>>8)), int32(int8(n>>16)), int32(int8(n>>24))
	}
}
