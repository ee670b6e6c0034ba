package kernel

// Attention over pages where there is no assembly: sixteen sums at a time, as the products of mul_portable.go.

// portablePageScores computes what refPageScores does.
func portablePageScores(scores []float32, sStride int, q []float32, qStride, n, dim int, keys []uint16, count int, scale float32) {
	for from := 0; from < n; from += refTokens {
		rows := min(refTokens, n-from)
		for p := 0; p < count; p += panelRows {
			var acc [refTokens]sums
			var column sums
			for d := range dim {
				column.halves(keys[d*PagePositions+p:][:panelRows])
				for t := range rows {
					acc[t].fma(&column, float64(q[(from+t)*qStride+d]))
				}
			}
			for t := range rows {
				out := scores[(from+t)*sStride+p:][:min(panelRows, count-p)]
				for i := range out {
					out[i] = float32(acc[t][i]) * scale
				}
			}
		}
	}
}

// portablePageCombine computes what refPageCombine does, or, with bytes instead of halves, what refPageCombine8 does.
func portablePageCombine(out []float32, oStride int, w []float32, wStride, n, dim int, halves []uint16, bytes []int8, count int) {
	for from := 0; from < n; from += refTokens {
		rows := min(refTokens, n-from)
		for d := 0; d < dim; d += panelRows {
			var acc [refTokens]sums
			var v sums
			width := min(panelRows, dim-d)
			for t := range rows {
				for i, x := range out[(from+t)*oStride+d:][:width] {
					acc[t][i] = float64(x)
				}
			}
			for p := range count {
				if at := p*dim + d; bytes == nil {
					v.halves(halves[at : at+width])
				} else {
					v.bytes(bytes[at : at+width])
				}
				for t := range rows {
					acc[t].fma(&v, float64(w[(from+t)*wStride+p]))
				}
			}
			for t := range rows {
				for i := range width {
					out[(from+t)*oStride+d+i] = float32(acc[t][i])
				}
			}
		}
	}
}

// halves converts at most sixteen half-precision numbers.
func (acc *sums) halves(h []uint16) {
	for i, v := range h {
		acc[i] = float64(fromHalf(v))
	}
}

func (acc *sums) bytes(b []int8) {
	for i, v := range b {
		acc[i] = float64(v)
	}
}
