package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Fits reports whether a format with blocks of 32 columns (Q4, Q5, Q8, Q8X) holds a row exactly: the value of column j is
// d[j/32]·q[j] + m[j/32]. Q5 takes integers from −16 to 15 when the offsets are zero.
func Fits(f Format, q []int8, d, m []float32) bool {
	low, high := int8(0), int8(127)
	switch f {
	case Q8X:
		return true
	case Q8:
		low = -128
	case Q5:
		if low, high = 0, 31; allZero(m) {
			low, high = -16, 15
			for _, v := range q {
				if v > 15 {
					low, high = 0, 31
				}
			}
		}
	case Q4:
		high = 15
	default:
		return false
	}
	for _, v := range q {
		if v < low || v > high {
			return false
		}
	}
	for i := range d {
		offset := m[i]
		if low == -16 {
			offset = -16 * d[i]
		}
		if fromHalf(toHalf(d[i])) != d[i] || fromHalf(toHalf(offset)) != offset || (f == Q8 && offset != 0) {
			return false
		}
	}
	return true
}

func allZero(x []float32) bool {
	for _, v := range x {
		if v != 0 {
			return false
		}
	}
	return true
}

// SetBlocks stores row r of a Q4, Q5, Q8 or Q8X matrix, rounding what does not fit (see [Fits]): the value of column j is
// d[j/32]·q[j] + m[j/32]. Different rows may be filled concurrently.
func (w *Matrix) SetBlocks(r int, q []int8, d, m []float32) {
	n := w.cols / 32
	if r < 0 || r >= w.rows || len(q) != w.cols || len(d) < n || len(m) < n {
		mismatch("SetBlocks", r, len(q), len(d), len(m))
	}
	// Q5_0 has integers with a sign: they are stored with 16 added.
	lift := uint8(0)
	if w.format == Q5 {
		for _, v := range q {
			if v < 0 {
				lift = 16
			}
		}
	}
	for b := range n {
		blk, lane := w.stream(r, b)
		in := unsigned(q[b*32 : b*32+32])
		switch w.format {
		case Q4, Q5:
			binary.LittleEndian.PutUint16(blk[2*lane:], toHalf(d[b]))
			binary.LittleEndian.PutUint16(blk[32+2*lane:], toHalf(m[b]-float32(lift)*d[b]))
			if lift != 0 {
				var u [32]uint8
				for j, v := range in {
					u[j] = v + lift
				}
				in = u[:]
			}
			putNibbles(blk[64:], lane, in)
			if w.format == Q5 {
				putHigh(blk[320:], lane, 1, in)
			}
		case Q8:
			panel, _ := w.panel(r)
			binary.LittleEndian.PutUint16(panel[b*32+2*lane:], toHalf(d[b]))
			putBytes(blk, lane, in)
		case Q8X:
			binary.LittleEndian.PutUint32(blk[4*lane:], math.Float32bits(d[b]))
			binary.LittleEndian.PutUint32(blk[64+4*lane:], math.Float32bits(m[b]))
			putBytes(blk[128:], lane, in)
		default:
			mismatch("SetBlocks", int(w.format))
		}
	}
}

// SetK stores super-block b (256 columns) of row r of a Q4K or Q5K matrix. d and dmin are the bits of half-precision numbers; the
// value of column j is d·scales[j/32]·q[j] − dmin·offsets[j/32].
func (w *Matrix) SetK(r, b int, d, dmin uint16, scales, offsets *[8]uint8, q *[256]uint8) {
	if (w.format != Q4K && w.format != Q5K) || r < 0 || r >= w.rows {
		mismatch("SetK", int(w.format), r)
	}
	blk, lane := w.stream(r, b)
	binary.LittleEndian.PutUint16(blk[2*lane:], d)
	binary.LittleEndian.PutUint16(blk[32+2*lane:], dmin)
	for g := range 8 {
		blk[64+32*g+lane], blk[80+32*g+lane] = scales[g], offsets[g]
		if w.format == Q4K {
			putNibbles(blk[superHead+256*g:], lane, q[32*g:])
			continue
		}
		putNibbles(blk[superHead+320*g:], lane, q[32*g:])
		putHigh(blk[superHead+320*g+256:], lane, 1, q[32*g:])
	}
}

// SetQ6K stores super-block b (256 columns) of row r of a Q6K matrix: d is the bits of a half-precision number, the value of column
// j is d·scales[j/16]·q[j], q from −32 to 31.
func (w *Matrix) SetQ6K(r, b int, d uint16, scales *[16]int8, q *[256]int8) {
	if w.format != Q6K || r < 0 || r >= w.rows {
		mismatch("SetQ6K", int(w.format), r)
	}
	blk, lane := w.stream(r, b)
	binary.LittleEndian.PutUint16(blk[2*lane:], d)
	var u [32]uint8
	for g := range 8 {
		blk[64+32*g+2*lane], blk[65+32*g+2*lane] = uint8(scales[2*g]), uint8(scales[2*g+1])
		for j := range u {
			u[j] = uint8(q[32*g+j] + 32)
		}
		putNibbles(blk[superHead+384*g:], lane, u[:])
		putHigh(blk[superHead+384*g+256:], lane, 2, u[:])
	}
}

// SetRow stores row r of an F32, F16 or I8 matrix. F16 rounds to nearest even; I8 takes the scale max|x|/127 and rounds as
// [Kernels.Quantize] does.
func (w *Matrix) SetRow(r int, x []float32) {
	if r < 0 || r >= w.rows || len(x) != w.cols {
		mismatch("SetRow", r, len(x))
	}
	panel, lane := w.panel(r)
	switch w.format {
	case F32:
		for c, v := range x {
			binary.LittleEndian.PutUint32(panel[c*64+4*lane:], math.Float32bits(v))
		}
	case F16:
		for c, v := range x {
			binary.LittleEndian.PutUint16(panel[c*32+2*lane:], toHalf(v))
		}
	case I8:
		q := make([]int8, len(x))
		d, _ := Generic().QuantizeRow(q, x)
		w.SetScaledRow(r, q, d)
	default:
		mismatch("SetRow", int(w.format))
	}
}

// SetScaledRow stores row r of an I8 matrix: the value of column j is d·q[j].
func (w *Matrix) SetScaledRow(r int, q []int8, d float32) {
	if w.format != I8 || r < 0 || r >= w.rows || len(q) != w.cols {
		mismatch("SetScaledRow", int(w.format), r, len(q))
	}
	panel, lane := w.panel(r)
	binary.LittleEndian.PutUint32(panel[4*lane:], math.Float32bits(d))
	for b := range w.cols / 32 {
		blk, _ := w.stream(r, b)
		putBytes(blk, lane, unsigned(q[b*32:b*32+32]))
	}
}

// The bytes of four neighbouring columns go through one register.

func putNibbles(v []byte, lane int, q []uint8) {
	v, q = v[4*lane:], q[:32]
	for g := range 4 {
		binary.LittleEndian.PutUint32(v[64*g:], binary.LittleEndian.Uint32(q[4*g:])&0x0f0f0f0f|binary.LittleEndian.Uint32(q[4*g+16:])&0x0f0f0f0f<<4)
	}
}

// putHigh stores the bits above the nibbles: each vector holds so many bits of 8/bits column groups.
func putHigh(v []byte, lane, bits int, q []uint8) {
	v, q = v[4*lane:], q[:32]
	per, mask := 8/bits, uint32(0x01010101)
	if bits == 2 {
		mask = 0x03030303
	}
	for at := range bits {
		all := uint32(0)
		for g := range per {
			all |= binary.LittleEndian.Uint32(q[4*(at*per+g):]) >> 4 & mask << (g * bits)
		}
		binary.LittleEndian.PutUint32(v[64*at:], all)
	}
}

func putBytes(v []byte, lane int, q []uint8) {
	v, q = v[4*lane:], q[:32]
	for g := range 8 {
		binary.LittleEndian.PutUint32(v[64*g:], binary.LittleEndian.Uint32(q[4*g:])^0x80808080)
	}
}

// unsigned is the same memory.
func unsigned(q []int8) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(q))), len(q))
}
