package kernel

import (
	"encoding/binary"
	"math"
)

type kind uint8

const (
	kindF32 kind = iota
	kindF16
	kindQ8
	kindQ4
)

// Bytes of one block (32 columns of 8 rows).
const (
	q4Block = 16 + 16 + 128
	q8Block = 32 + 256
)

// Matrix is a weight matrix in panels of eight rows. After it is filled it is immutable and safe for concurrent use.
type Matrix struct {
	rows, cols int
	kind       kind
	panelBytes int
	data       []byte
	offsets    []float32 // of a Q8 matrix: 8 per panel and block; nil when all are zero
}

// NewQuantized returns an empty matrix of blocks of 32 columns, each with a scale and an offset. It is a Q4 matrix when wide is
// false: integers 0 to 15, and scales and offsets that are half-precision numbers. Otherwise integers are signed bytes, scales
// and offsets float32. cols must be a multiple of 32.
func NewQuantized(rows, cols int, wide bool) *Matrix {
	if rows <= 0 || cols <= 0 || cols%32 != 0 {
		mismatch("NewQuantized", rows, cols)
	}
	if wide {
		return newMatrix(rows, cols, kindQ8, cols/32*q8Block)
	}
	return newMatrix(rows, cols, kindQ4, cols/32*q4Block)
}

// NewDense returns an empty matrix of float32, or of half-precision numbers if half is set.
func NewDense(rows, cols int, half bool) *Matrix {
	if rows <= 0 || cols <= 0 {
		mismatch("NewDense", rows, cols)
	}
	if half {
		return newMatrix(rows, cols, kindF16, cols*16)
	}
	return newMatrix(rows, cols, kindF32, cols*32)
}

func newMatrix(rows, cols int, k kind, panelBytes int) *Matrix {
	m := &Matrix{rows: rows, cols: cols, kind: k, panelBytes: panelBytes}
	m.data = make([]byte, m.Panels()*panelBytes)
	return m
}

// Rows and Cols give the size without padding.
func (w *Matrix) Rows() int { return w.rows }

// Cols gives the number of columns.
func (w *Matrix) Cols() int { return w.cols }

// Stride is the number of rows with padding: the length of one product.
func (w *Matrix) Stride() int { return (w.rows + 7) &^ 7 }

// Panels is the number of panels.
func (w *Matrix) Panels() int { return (w.rows + 7) / 8 }

// Bytes is the memory one product reads.
func (w *Matrix) Bytes() int { return len(w.data) + 4*len(w.offsets) }

// Quantized reports whether products read quantised activations.
func (w *Matrix) Quantized() bool { return w.kind == kindQ4 || w.kind == kindQ8 }

func (w *Matrix) blocks() int { return w.cols / 32 }

// FitsQ4 reports whether a row of blocks can be stored exactly in a Q4 matrix.
func FitsQ4(q []int8, d, m []float32) bool {
	for _, v := range q {
		if v < 0 || v > 15 {
			return false
		}
	}
	for i := range d {
		if fromHalf(toHalf(d[i])) != d[i] || fromHalf(toHalf(m[i])) != m[i] {
			return false
		}
	}
	return true
}

// SetBlocks stores row r of a quantised matrix: the value of column j is d[j/32]·q[j] + m[j/32]. Different panels may be filled
// concurrently, except the first time an offset of a Q8 matrix is not zero.
func (w *Matrix) SetBlocks(r int, q []int8, d, m []float32) {
	n := w.blocks()
	if !w.Quantized() || r < 0 || r >= w.rows || len(q) != w.cols || len(d) < n || len(m) < n {
		mismatch("SetBlocks", r, len(q), len(d), len(m))
	}
	for b := range n {
		if w.kind == kindQ4 {
			w.setQ4(r, b, q[b*32:b*32+32], d[b], m[b])
		} else {
			w.setQ8(r, b, q[b*32:b*32+32], d[b], m[b])
		}
	}
}

func (w *Matrix) setQ4(r, b int, q []int8, d, m float32) {
	at := r/8*w.panelBytes + b*q4Block
	blk, lane := w.data[at:at+q4Block], r%8
	binary.LittleEndian.PutUint16(blk[2*lane:], toHalf(d))
	binary.LittleEndian.PutUint16(blk[16+2*lane:], toHalf(m))
	for g := range 4 {
		v := blk[32+g*32+lane*4:][:4]
		for i := range v {
			v[i] = byte(q[g*4+i])&15 | byte(q[g*4+16+i])<<4
		}
	}
}

func (w *Matrix) setQ8(r, b int, q []int8, d, m float32) {
	at := r/8*w.panelBytes + b*q8Block
	blk, lane := w.data[at:at+q8Block], r%8
	binary.LittleEndian.PutUint32(blk[4*lane:], math.Float32bits(d))
	for g := range 8 {
		v := blk[32+g*32+lane*4:][:4]
		for i := range v {
			v[i] = byte(q[g*4+i])
		}
	}
	if m != 0 && w.offsets == nil {
		w.offsets = make([]float32, w.Panels()*w.blocks()*8)
	}
	if w.offsets != nil {
		w.offsets[(r/8*w.blocks()+b)*8+lane] = m
	}
}

// SetRow stores row r of a dense matrix.
func (w *Matrix) SetRow(r int, x []float32) {
	if w.Quantized() || r < 0 || r >= w.rows || len(x) != w.cols {
		mismatch("SetRow", r, len(x))
	}
	panel, lane := w.data[r/8*w.panelBytes:], r%8
	for c, v := range x {
		if w.kind == kindF16 {
			binary.LittleEndian.PutUint16(panel[c*16+2*lane:], toHalf(v))
		} else {
			binary.LittleEndian.PutUint32(panel[c*32+4*lane:], math.Float32bits(v))
		}
	}
}

// Row writes row r as float32: the look-up in an embedding table.
func (w *Matrix) Row(r int, dst []float32) {
	if r < 0 || r >= w.rows || len(dst) != w.cols {
		mismatch("Row", r, len(dst))
	}
	panel, lane := w.data[r/8*w.panelBytes:], r%8
	le := binary.LittleEndian
	for c := range dst {
		b, j := c/32, c%32
		switch w.kind {
		case kindF32:
			dst[c] = math.Float32frombits(le.Uint32(panel[c*32+4*lane:]))
		case kindF16:
			dst[c] = fromHalf(le.Uint16(panel[c*16+2*lane:]))
		case kindQ8:
			blk := panel[b*q8Block:]
			d := math.Float32frombits(le.Uint32(blk[4*lane:]))
			dst[c] = d * float32(int8(blk[32+j/4*32+lane*4+j%4]))
			if w.offsets != nil {
				dst[c] += w.offsets[(r/8*w.blocks()+b)*8+lane]
			}
		case kindQ4:
			blk := panel[b*q4Block:]
			d, m := fromHalf(le.Uint16(blk[2*lane:])), fromHalf(le.Uint16(blk[16+2*lane:]))
			v := blk[32+j/4%4*32+lane*4+j%4] >> (j / 16 * 4) & 15
			dst[c] = float32(d*float32(v)) + m
		}
	}
}

func (w *Matrix) panelOffsets(p int) []float32 {
	n := w.blocks() * 8
	return w.offsets[p*n : (p+1)*n]
}
