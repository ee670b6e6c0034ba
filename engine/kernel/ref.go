package kernel

import (
	"encoding/binary"
	"math"
)

// This file is the reference of the matrix products: always compiled, the oracle of the tests and what machines without a faster
// tier run.

// refMul multiplies panel p by row t of a into dst[:8].
func (w *Matrix) refMul(dst []float32, p int, a *Activations, t int) {
	panel := w.data[p*w.panelBytes : (p+1)*w.panelBytes]
	var acc [8]float32
	switch w.kind {
	case kindQ4:
		refQ4(&acc, panel, a.codes(t), a.scales(t))
	case kindQ8:
		refQ8(&acc, panel, a.codes(t), a.scales(t))
	case kindF16:
		for c, x := range a.Row(t) {
			for r := range acc {
				acc[r] = fma(fromHalf(binary.LittleEndian.Uint16(panel[c*16+2*r:])), x, acc[r])
			}
		}
	default:
		for c, x := range a.Row(t) {
			for r := range acc {
				acc[r] = fma(math.Float32frombits(binary.LittleEndian.Uint32(panel[c*32+4*r:])), x, acc[r])
			}
		}
	}
	copy(dst[:8], acc[:])
	if w.offsets != nil {
		refOffsets(dst[:8], w.panelOffsets(p), a.scales(t))
	}
}

func refQ4(acc *[8]float32, panel []byte, q []int8, ds []blockScale) {
	for b := range len(q) / 32 {
		blk, x := panel[b*q4Block:(b+1)*q4Block], q[b*32:b*32+32]
		for r := range acc {
			sum := int32(0)
			for g := range 4 {
				for i := range 4 {
					v := blk[32+g*32+r*4+i]
					sum += int32(v&15)*int32(x[g*4+i]) + int32(v>>4)*int32(x[g*4+16+i])
				}
			}
			d, m := fromHalf(binary.LittleEndian.Uint16(blk[2*r:])), fromHalf(binary.LittleEndian.Uint16(blk[16+2*r:]))
			acc[r] = fma(float32(sum), float32(d*ds[b].d), acc[r])
			acc[r] = fma(m, ds[b].sum, acc[r])
		}
	}
}

func refQ8(acc *[8]float32, panel []byte, q []int8, ds []blockScale) {
	for b := range len(q) / 32 {
		blk, x := panel[b*q8Block:(b+1)*q8Block], q[b*32:b*32+32]
		for r := range acc {
			sum := int32(0)
			for g := range 8 {
				for i := range 4 {
					sum += int32(int8(blk[32+g*32+r*4+i])) * int32(x[g*4+i])
				}
			}
			d := math.Float32frombits(binary.LittleEndian.Uint32(blk[4*r:]))
			acc[r] = fma(float32(sum), float32(d*ds[b].d), acc[r])
		}
	}
}

// refOffsets adds the offsets of a panel after its products: acc = fma(m, sa, acc) block by block.
func refOffsets(dst, offsets []float32, ds []blockScale) {
	for b := range len(offsets) / 8 {
		for r := range dst {
			dst[r] = fma(offsets[b*8+r], ds[b].sum, dst[r])
		}
	}
}
