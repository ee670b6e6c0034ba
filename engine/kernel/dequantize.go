package kernel

import "unsafe"

// Dequantize writes row t of a, and of low where that is not nil, to dst: −fma(−d, q, 0) of each element, then with low
// −fma(−d', q', fma(−d, q, 0)), so that the second term is added before anything is rounded again. Dense rows are copied.
func (k Kernels) Dequantize(dst []float32, a, low *Activations, t int) {
	if len(dst) != a.cols || t < 0 || t >= a.rows || (low != nil && (low.in != a.in || low.cols != a.cols || t >= low.rows)) {
		mismatch("Dequantize", len(dst), a.cols, t)
	}
	if a.in == Dense {
		copy(dst, a.Row(t))
		return
	}
	clear(dst)
	k.subtract(dst, a, t)
	if low != nil {
		k.subtract(dst, low, t)
	}
	k.Scale(dst, dst, -1)
}

// subtract takes row t of quantised activations off dst, each element fma(−d, q, dst).
func (k Kernels) subtract(dst []float32, a *Activations, t int) {
	q, scales := a.codes(t), a.scales(t)
	stride := scaleBytes
	if a.in == Row {
		stride = 0
	}
	if k.avx2 {
		restAVX2(&dst[0], &dst[0], &q[0], &scales[0], len(dst)/32, stride)
		return
	}
	for b := range len(dst) / 32 {
		d := -scales[b*stride/scaleBytes].d
		q, x := q[b*32:b*32+32], dst[b*32:b*32+32]
		for j, v := range x {
			x[j] = fma(d, float32(q[j]), v)
		}
	}
}

// View makes a the view of rows of cols float32 numbers in mem, as [NewActivations] does, but takes no memory: callers that compute with
// other rows at every step keep the views.
func (a *Activations) View(rows, cols int, mem []byte) {
	if rows <= 0 || cols <= 0 || len(mem) < rows*activationsRow(Dense, cols) || len(mem)%(64*rows) != 0 || uintptr(unsafe.Pointer(&mem[0]))%16 != 0 {
		mismatch("View", rows, cols, len(mem))
	}
	*a = Activations{in: Dense, rows: rows, cols: cols, stride: len(mem) / rows, data: mem}
}
