package kernel

// tileTokens is the number of tokens for which a panel is unpacked once.
const tileTokens = 4

// chunkPanels bounds the work of one assembly call.
const chunkPanels = 64

// Mul multiplies the panels [from, to) of w by the first n rows of a. Row t of the product goes to
// dst[t·w.Stride():]; only the columns of these panels are written. Quantised matrices read what [Kernels.Quantize] wrote, dense
// ones read a.Row.
func (k Kernels) Mul(dst []float32, w *Matrix, from, to int, a *Activations, n int) {
	stride := w.Stride()
	if (a.in == Block) != w.Quantized() || a.in == Row || a.cols != w.cols || n > a.rows || len(dst) < n*stride || from < 0 || from > to || to > w.Panels() {
		mismatch("Mul", len(dst), w.rows, w.cols, from, to, a.cols, a.rows, n)
	}
	if n == 0 {
		return
	}
	if n > 1 {
		for p := from; p < to; p++ {
			k.mulPanel(dst[p*8:], stride, w, p, a, n)
		}
		return
	}
	for p := from; p < to; p += chunkPanels {
		k.mul1(dst[p*8:], w, p, min(p+chunkPanels, to), a, 0)
	}
}

// mulPanel multiplies one panel by n rows, in tiles.
func (k Kernels) mulPanel(dst []float32, stride int, w *Matrix, p int, a *Activations, n int) {
	t := 0
	for ; t+tileTokens <= n; t += tileTokens {
		if !k.avx2 {
			for i := t; i < t+tileTokens; i++ {
				w.refMul(dst[i*stride:], p, a, i)
			}
			continue
		}
		d := &dst[t*stride]
		switch w.kind {
		case kindQ4:
			q4x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.blocks(), &a.codes(t)[0], a.stride, &a.scales(t)[0], a.stride)
		case kindQ8:
			q8x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.blocks(), &a.codes(t)[0], a.stride, &a.scales(t)[0], a.stride)
		case kindF16:
			f16x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.cols, &a.Row(t)[0], a.stride)
		default:
			f32x4AVX2(d, stride*4, &w.data[p*w.panelBytes], w.cols, &a.Row(t)[0], a.stride)
		}
		for i := t; i < t+tileTokens; i++ {
			w.addOffsets(dst[i*stride:], p, a, i)
		}
	}
	for ; t < n; t++ {
		k.mul1(dst[t*stride:], w, p, p+1, a, t)
	}
}

// mul1 multiplies the panels [from, to) by row t into dst, which begins at the first of them.
func (k Kernels) mul1(dst []float32, w *Matrix, from, to int, a *Activations, t int) {
	if !k.avx2 {
		for p := from; p < to; p++ {
			w.refMul(dst[(p-from)*8:], p, a, t)
		}
		return
	}
	_ = dst[(to-from)*8-1]
	data := &w.data[from*w.panelBytes]
	switch w.kind {
	case kindQ4:
		q4x1AVX2(&dst[0], data, to-from, w.blocks(), &a.codes(t)[0], &a.scales(t)[0])
	case kindQ8:
		q8x1AVX2(&dst[0], data, to-from, w.blocks(), &a.codes(t)[0], &a.scales(t)[0])
	case kindF16:
		f16x1AVX2(&dst[0], data, to-from, w.cols, &a.Row(t)[0])
	default:
		f32x1AVX2(&dst[0], data, to-from, w.cols, &a.Row(t)[0])
	}
	for p := from; p < to; p++ {
		w.addOffsets(dst[(p-from)*8:], p, a, t)
	}
}

// addOffsets adds the offsets of panel p, if the matrix keeps them apart, to its product with row t.
func (w *Matrix) addOffsets(dst []float32, p int, a *Activations, t int) {
	if w.offsets != nil {
		offsetsAVX2(&dst[:8][0], &w.panelOffsets(p)[0], w.blocks(), &a.scales(t)[0])
	}
}
