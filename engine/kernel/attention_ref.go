package kernel

// This file is the reference of attention over pages: always compiled, the oracle of the tests.

func refPageScores(scores []float32, sStride int, q []float32, qStride, n, dim int, keys []uint16, count int, scale float32) {
	for t := range n {
		row, out := q[t*qStride:][:dim], scores[t*sStride:][:count]
		clear(out)
		for d, x := range row {
			for p, h := range keys[d*PagePositions:][:count] {
				out[p] = fma(x, fromHalf(h), out[p])
			}
		}
		for p := range out {
			out[p] *= scale
		}
	}
}

// refPageCombine computes the columns of every row from head on.
func refPageCombine(out []float32, oStride int, w []float32, wStride, n, dim, head int, values []uint16, count int) {
	for t := 0; t < n && head < dim; t++ {
		for p, x := range w[t*wStride:][:count] {
			row := out[t*oStride+head:][:dim-head]
			for d, h := range values[p*dim+head:][:dim-head] {
				row[d] = fma(x, fromHalf(h), row[d])
			}
		}
	}
}

func refPageScores8(scores []float32, sStride int, q []int8, qd []float32, n, dim int, keys []int8, kd []float32, count int, scale float32) {
	for t := range n {
		row, s := q[t*dim:][:dim], float32(qd[t]*scale)
		for p := range count {
			sum := int32(0)
			for d, x := range row {
				sum += int32(x) * int32(keys[(d/4*PagePositions+p)*4+d%4])
			}
			scores[t*sStride+p] = float32(sum) * float32(kd[p]*s)
		}
	}
}

// refPageCombine8 computes the columns of every row from head on; w has 64 scaled weights per row.
func refPageCombine8(out []float32, oStride int, w []float32, n, dim, head int, values []int8, count int) {
	for t := 0; t < n && head < dim; t++ {
		for p, x := range w[t*PagePositions:][:count] {
			row := out[t*oStride+head:][:dim-head]
			for d, v := range values[p*dim+head:][:dim-head] {
				row[d] = fma(x, float32(v), row[d])
			}
		}
	}
}
