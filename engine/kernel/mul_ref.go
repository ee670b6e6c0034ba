package kernel

import (
	"encoding/binary"
	"math"
)

// This file is the reference of the matrix products: always compiled, the oracle of the tests. Machines without a faster tier run
// mul_portable.go.

// refTokens is how many tokens a row of weights is taken apart for at once.
const refTokens = 16

// refPanel multiplies panel p by rows from, from+1, … of a: n of them. Row t of the product goes to dst[t·stride:][:16].
func (w *Matrix) refPanel(dst []float32, stride, p int, a *Activations, from, n int, add bool, bias []float32) {
	for r := p * panelRows; r < (p+1)*panelRows; r++ {
		for t := 0; t < n; t += refTokens {
			var acc [refTokens]float32
			count := min(refTokens, n-t)
			if w.format.Input() == Dense {
				w.refDense(acc[:count], r, a, from+t)
			} else {
				w.refBlocks(acc[:count], r, a, from+t)
			}
			for i, v := range acc[:count] {
				out := &dst[(t+i)*stride+r%panelRows]
				if r < len(bias) {
					v += bias[r]
				}
				if add {
					v += *out
				}
				*out = v
			}
		}
	}
}

func (w *Matrix) refDense(acc []float32, r int, a *Activations, from int) {
	panel, lane := w.panel(r)
	for i := range acc {
		for c, x := range a.Row(from + i) {
			if w.format == F16 {
				acc[i] = fma(half(panel[c*32:], lane), x, acc[i])
			} else {
				acc[i] = fma(math.Float32frombits(binary.LittleEndian.Uint32(panel[c*64+4*lane:])), x, acc[i])
			}
		}
	}
}

func (w *Matrix) refBlocks(acc []float32, r int, a *Activations, from int) {
	var whole [refTokens]int32
	var b block
	for n := range w.cols / 32 {
		w.decode(r, n, &b)
		for i := range acc {
			q := a.codes(from + i)[n*32 : n*32+32]
			var sums [2]int32
			for j, v := range q {
				sums[j/16] += b.q[j] * int32(v)
			}
			sum := b.scale[0]*sums[0] + b.scale[1]*sums[1]
			if w.format == I8 {
				whole[i] += sum
				continue
			}
			s := a.scales(from + i)[n]
			acc[i] = fma(float32(sum), float32(b.d*s.d), acc[i])
			if w.format.hasOffsets() {
				acc[i] = fma(b.m, s.sum, acc[i])
			}
		}
	}
	if w.format == I8 {
		for i := range acc {
			acc[i] = float32(whole[i]) * float32(b.d*a.scales(from + i)[0].d)
		}
	}
}

func (f Format) hasOffsets() bool { return f != Q8 && f != Q6K && f.Input() == Block }
