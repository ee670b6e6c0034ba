package kernel

// QuantizeWide writes x to row t of two activations: high takes x as [Kernels.Quantize] does, low what that leaves over, each element
// x − d·q rounded once. The sum of a product with either is a product with x to nearly sixteen bits. Row activations use x up.
func (k Kernels) QuantizeWide(high, low *Activations, t int, x []float32) {
	k.Quantize(high, t, x)
	k.rest(high, low, t, 0, x)
}

// QuantizeBlocksWide does the same for the columns from on, as [Kernels.QuantizeBlocks] does.
func (k Kernels) QuantizeBlocksWide(high, low *Activations, t, from int, x []float32) {
	k.QuantizeBlocks(high, t, from, x)
	k.rest(high, low, t, from, x)
}

// restColumns is how many columns are left over at a time.
const restColumns = 512

// rest quantises what high leaves over of x.
func (k Kernels) rest(high, low *Activations, t, from int, x []float32) {
	if low.in != high.in || low.cols != high.cols || t >= low.rows || high.in == Dense {
		mismatch("QuantizeWide", int(low.in), low.cols, low.rows, t)
	}
	q, scales := high.codes(t), high.scales(t)
	if high.in == Row {
		k.restRow(low, t, x, q, scales[0].d)
		return
	}
	var r [restColumns]float32
	for at := 0; at < len(x); at += restColumns {
		n := min(restColumns, len(x)-at)
		k.restBlocks(r[:n], x[at:at+n], q[from+at:], scales[(from+at)/32:])
		k.QuantizeBlocks(low, t, from+at, r[:n])
	}
}

// restRow has one scale for the row, so all of it must be there before it is quantised: it goes into x.
func (k Kernels) restRow(low *Activations, t int, x []float32, q []int8, d float32) {
	one := [1]blockScale{{d: d}}
	n := 0
	if k.avx2 {
		n = len(x) &^ 31
		if n > 0 {
			restAVX2(&x[0], &x[0], &q[0], &one[0], n/32, 0)
		}
	}
	for j := n; j < len(x); j++ {
		x[j] = fma(-d, float32(q[j]), x[j])
	}
	k.Quantize(low, t, x)
}

func (k Kernels) restBlocks(r, x []float32, q []int8, scales []blockScale) {
	if k.avx2 {
		restAVX2(&r[0], &x[0], &q[0], &scales[0], len(x)/32, scaleBytes)
		return
	}
	for j, v := range x {
		r[j] = fma(-scales[j/32].d, float32(q[j]), v)
	}
}
