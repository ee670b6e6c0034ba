package kernel

import (
	"encoding/binary"
	"math"
)

// This file has the products of machines without a faster tier, in Go for any 64-bit processor. Two rows share a register: the layout
// of panels makes the same column of two neighbouring rows lie 32 bits apart, so that a shift and a mask take both, and one
// multiplication gives both products. Sums of either stay far below 32 bits within a block.

type (
	lanes [panelRows]float32
	// sums are the lanes' values as float64, which saves converting them to and fro.
	sums [panelRows]float64
	// weightPairs are the unsigned weights of some columns, two rows each.
	pairs       [panelRows / 2]uint64
	weightPairs [32]pairs
	// panelBlock is 32 columns of a panel taken apart.
	panelBlock struct {
		w    weightPairs
		d, m sums
		sc   [2][panelRows]int32 // Q6K
	}
)

// portablePanel multiplies panel p by the first n rows of a, as refPanel does.
func (w *Matrix) portablePanel(dst []float32, stride, p int, a *Activations, n int, add bool, bias []float32) {
	if bias != nil {
		bias = bias[p*panelRows : min(len(bias), (p+1)*panelRows)]
	}
	for from := 0; from < n; from += refTokens {
		var acc [refTokens]sums
		count := min(refTokens, n-from)
		switch w.format.Input() {
		case Dense:
			w.portableDense(acc[:count], p, a, from)
		case Row:
			w.portableRows(acc[:count], p, a, from)
		default:
			w.portableBlocks(acc[:count], p, a, from)
		}
		for t := range count {
			out := (*lanes)(dst[(from+t)*stride:])
			for r, exact := range acc[t] {
				v := float32(exact)
				if r < len(bias) {
					v += bias[r]
				}
				if add {
					v += out[r]
				}
				out[r] = v
			}
		}
	}
}

func (w *Matrix) portableDense(acc []sums, p int, a *Activations, from int) {
	panel, _ := w.panel(p * panelRows)
	var rows [refTokens][]float32
	for t := range acc {
		rows[t] = a.Row(from + t)
	}
	var column sums
	for c := range w.cols {
		if w.format == F16 {
			v := panel[c*32 : c*32+32]
			for r := range column {
				column[r] = float64(half(v, r))
			}
		} else {
			v := panel[c*64 : c*64+64]
			for r := range column {
				column[r] = float64(math.Float32frombits(binary.LittleEndian.Uint32(v[4*r:])))
			}
		}
		for t := range acc {
			acc[t].fma(&column, float64(rows[t][c]))
		}
	}
}

func (w *Matrix) portableBlocks(acc []sums, p int, a *Activations, from int) {
	var b panelBlock
	var whole [panelRows]int32
	offset := w.format.hasOffsets()
	for n := range w.cols / 32 {
		w.unpack(&b, p, n)
		for t := range acc {
			q, scale := a.codes(from + t)[n*32:n*32+32], &a.scales(from + t)[n]
			if w.format == Q6K {
				b.sumPair(&whole, q, scale)
			} else {
				zero := int32(0)
				if w.format == Q8 || w.format == Q8X {
					zero = scale.zero
				}
				b.sum(&whole, q, zero)
			}
			acc[t].fold(&whole, &b.d, scale.d)
			if offset {
				acc[t].fma(&b.m, float64(scale.sum))
			}
		}
	}
}

func (w *Matrix) portableRows(acc []sums, p int, a *Activations, from int) {
	var b panelBlock
	var part [panelRows]int32
	var whole [refTokens][panelRows]int32
	for t := range acc {
		for r := range whole[t] {
			whole[t][r] = a.scales(from + t)[0].zero
		}
	}
	for n := range w.cols / 32 {
		w.unpack(&b, p, n)
		for t := range acc {
			b.sum(&part, a.codes(from + t)[n*32:n*32+32], 0)
			for r, v := range part {
				whole[t][r] += v
			}
		}
	}
	for t := range acc {
		d := a.scales(from + t)[0].d
		for r, v := range whole[t] {
			acc[t][r] = float64(float32(v) * float32(float32(b.d[r])*d))
		}
	}
}

// fma adds x·y, all of them float32 numbers: see fma for why the float64 sum may be rounded again. Here that is done on its bits: what
// does not lie halfway goes up or down by its 29 bits too many.
func (acc *sums) fma(x *sums, y float64) {
	for r := range acc {
		s := x[r]*y + acc[r]
		if b := math.Float64bits(s); certain(b) {
			acc[r] = math.Float64frombits((b + 1<<28) &^ (1<<29 - 1))
		} else {
			acc[r] = uncertain(s, x[r], y, acc[r])
		}
	}
}

// fold adds whole·(d·scale), the factor in parentheses rounded.
func (acc *sums) fold(whole *[panelRows]int32, d *sums, scale float32) {
	for r := range acc {
		f := float64(float32(d[r] * float64(scale)))
		s := float64(whole[r])*f + acc[r]
		if b := math.Float64bits(s); certain(b) {
			acc[r] = math.Float64frombits((b + 1<<28) &^ (1<<29 - 1))
		} else {
			acc[r] = uncertain(s, float64(whole[r]), f, acc[r])
		}
	}
}

// uncertain rounds s = x·y+z in the other cases. Zeros are frequent: padding.
func uncertain(s, x, y, z float64) float64 {
	if s == 0 {
		return s
	}
	return float64(fmaSlow(float32(x), float32(y), float32(z)))
}

// certain reports whether the bits of a float64 sum decide to what float32 number the exact sum rounds, and that number is neither
// tiny nor infinite.
func certain(b uint64) bool {
	return b&(1<<29-1) != 1<<28 && b>>52&0x7ff-(1023-125) < 125+126
}

// sum writes zero plus the sums of the products of all columns.
func (b *panelBlock) sum(out *[panelRows]int32, q []int8, zero int32) {
	dotPairs(out, b.w[:], q)
	if zero != 0 {
		for r := range out {
			out[r] += zero
		}
	}
}

// sumPair writes sc₀·S₀ + sc₁·S₁; weights have 32 added.
func (b *panelBlock) sumPair(out *[panelRows]int32, q []int8, scale *blockScale) {
	var second [panelRows]int32
	dotPairs(out, b.w[:16], q[:16])
	dotPairs(&second, b.w[16:], q[16:])
	first0, second0 := 32*int32(scale.half[0]), 32*int32(scale.half[1])
	for r := range out {
		out[r] = b.sc[0][r]*(out[r]-first0) + b.sc[1][r]*(second[r]-second0)
	}
}

// dotPairs sums products of some columns. In a sum of pairs the lower half, a number with sign, borrows from the upper one.
func dotPairs(out *[panelRows]int32, w []pairs, q []int8) {
	var s0, s1, s2, s3, s4, s5, s6, s7 uint64
	w = w[:len(q)]
	for c, v := range q {
		x, w := uint64(int64(v)), &w[c]
		s0 += w[0] * x
		s1 += w[1] * x
		s2 += w[2] * x
		s3 += w[3] * x
		s4 += w[4] * x
		s5 += w[5] * x
		s6 += w[6] * x
		s7 += w[7] * x
	}
	for i, s := range [...]uint64{s0, s1, s2, s3, s4, s5, s6, s7} {
		low := int32(uint32(s))
		out[2*i], out[2*i+1] = low, int32(uint32((s-uint64(int64(low)))>>32))
	}
}

// unpack takes block n (32 columns) of panel p apart.
func (w *Matrix) unpack(b *panelBlock, p, n int) {
	panel, _ := w.panel(p * panelRows)
	per := w.layout.cols / 32
	blk := panel[w.layout.head+n/per*w.layout.bytes:][:w.layout.bytes]
	switch w.format {
	case Q4, Q5:
		b.halves(blk, blk[32:])
		b.nibbles(blk[64:])
		if w.format == Q5 {
			b.high(blk[320:], 1)
		}
	case Q4K, Q5K:
		b.halves(blk, blk[32:])
		for r, v := range blk[64+n%8*32:][:panelRows] {
			b.d[r] *= float64(v)
		}
		for r, v := range blk[64+n%8*32+panelRows:][:panelRows] {
			b.m[r] = -(b.m[r] * float64(v))
		}
		if w.format == Q4K {
			b.nibbles(blk[superHead+n%8*256:])
			return
		}
		b.nibbles(blk[superHead+n%8*320:])
		b.high(blk[superHead+n%8*320+256:], 1)
	case Q6K:
		b.halves(blk, blk)
		own := blk[64+n%8*32:]
		for r := range panelRows {
			b.sc[0][r], b.sc[1][r] = int32(int8(own[2*r])), int32(int8(own[2*r+1]))
		}
		b.nibbles(blk[superHead+n%8*384:])
		b.high(blk[superHead+n%8*384+256:], 2)
	case Q8:
		b.halves(panel[n*32:], panel[n*32:])
		b.codes(blk)
	case I8:
		b.floats(&b.d, panel)
		b.codes(blk)
	default:
		b.floats(&b.d, blk)
		b.floats(&b.m, blk[64:])
		b.codes(blk[128:])
	}
}

func (b *panelBlock) halves(d, m []byte) {
	for r := range panelRows {
		b.d[r], b.m[r] = float64(half(d, r)), float64(half(m, r))
	}
}

func (*panelBlock) floats(to *sums, v []byte) {
	for r := range to {
		to[r] = float64(math.Float32frombits(binary.LittleEndian.Uint32(v[4*r:])))
	}
}

// Masks of a pair.
const (
	ones   = 1<<32 | 1
	fours  = 15 * ones
	eights = 255 * ones
)

func (b *panelBlock) nibbles(v []byte) {
	for g := range 4 {
		v := v[64*g : 64*g+64]
		low, high := (*[4]pairs)(b.w[4*g:]), (*[4]pairs)(b.w[4*g+16:])
		for r := range panelRows / 2 {
			u := binary.LittleEndian.Uint64(v[8*r:])
			low[0][r], low[1][r], low[2][r], low[3][r] = u&fours, u>>8&fours, u>>16&fours, u>>24&fours
			u >>= 4
			high[0][r], high[1][r], high[2][r], high[3][r] = u&fours, u>>8&fours, u>>16&fours, u>>24&fours
		}
	}
}

// high adds the bits above the nibbles.
func (b *panelBlock) high(v []byte, bits int) {
	per, mask := 8/bits, uint64(1<<bits-1)*ones
	for g := range 8 {
		v, to, shift := v[64*(g/per):][:64], (*[4]pairs)(b.w[4*g:]), g%per*bits&63
		for r := range panelRows / 2 {
			u := binary.LittleEndian.Uint64(v[8*r:]) >> shift
			to[0][r] |= u & mask << 4
			to[1][r] |= u >> 8 & mask << 4
			to[2][r] |= u >> 16 & mask << 4
			to[3][r] |= u >> 24 & mask << 4
		}
	}
}

// codes reads bytes with 128 added, and leaves it at that.
func (b *panelBlock) codes(v []byte) {
	for g := range 8 {
		v, to := v[64*g:64*g+64], (*[4]pairs)(b.w[4*g:])
		for r := range panelRows / 2 {
			u := binary.LittleEndian.Uint64(v[8*r:])
			to[0][r], to[1][r], to[2][r], to[3][r] = u&eights, u>>8&eights, u>>16&eights, u>>24&eights
		}
	}
}
