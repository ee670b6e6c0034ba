package kernel

// vectors runs every vector kernel on whole blocks and a rest.
func (p *probe) vectors(k Kernels) {
	const n = 96 + 5
	x, y, z := p.vector(n, 4), p.vector(n, 3), p.vector(n, 2)
	dst := make([]float32, n)
	keep := func() { p.out = append(p.out, dst...) }
	for op := opAdd; op <= opTanh; op++ {
		k.apply("probe", op, dst, x, y)
		keep()
	}
	k.Scale(dst, x, 0.3)
	keep()
	k.RMSNorm(dst, x, y, 1e-5)
	keep()
	k.LayerNorm(dst, x, y, z, 1e-5)
	keep()
	for op := sumOfElements; op <= largestMagnitude; op++ {
		copy(dst, x)
		p.out = append(p.out, k.reduce(op, dst, 1.5))
		keep()
	}
	for _, neox := range []bool{false, true} {
		k.Rope(x, 2, 48, 32, y, neox)
		p.out = append(p.out, x...)
	}
	half, q := make([]uint16, n), make([]int8, n)
	k.ToHalf(half, x)
	k.FromHalf(dst, half)
	keep()
	d, sum := k.QuantizeRow(q, x)
	p.out = append(p.out, d, float32(sum))
	for _, v := range q {
		p.out = append(p.out, float32(v))
	}
}

// pages runs attention on both kinds of pages with tiles of every size: rows of queries, columns of heads.
func (p *probe) pages(k Kernels) {
	const dim, n, count = 64 + 32 + 16 + 8, 12 + 6 + 3 + 2, 50
	half, bytes, scales := make([]uint16, dim*PagePositions), make([]int8, dim*PagePositions), make([]float32, PagePositions)
	values, bytes8, scales8 := make([]uint16, dim*PagePositions), make([]int8, dim*PagePositions), make([]float32, PagePositions)
	for pos := range count {
		x := p.vector(dim, 1)
		k.StoreKey(half, pos, x)
		k.StoreValue(values, pos, x)
		k.StoreKey8(bytes, scales, pos, x)
		k.StoreValue8(bytes8, scales8, pos, x)
	}
	q, q8, qd, qsum := p.vector(n*dim, 1), make([]int8, n*dim), make([]float32, n), make([]int32, n)
	for t := range n {
		qd[t], qsum[t] = k.QuantizeRow(q8[t*dim:][:dim], q[t*dim:][:dim])
	}
	for _, rows := range []int{1, 2, 3, n} {
		s, out := make([]float32, rows*PagePositions), make([]float32, rows*dim)
		k.PageScores(s, PagePositions, q, dim, rows, dim, half, count, 0.125)
		k.PageCombine(out, dim, s, PagePositions, rows, dim, values, count)
		p.rows(s, rows, count)
		k.PageScores8(s, PagePositions, q8, qd, qsum, rows, dim, bytes, scales, count, 0.125)
		k.PageCombine8(out, dim, s, PagePositions, rows, dim, bytes8, scales8, count)
		p.rows(s, rows, count)
		p.out = append(p.out, out...)
	}
}

// rows keeps the first count scores of each row: the others are not specified.
func (p *probe) rows(s []float32, rows, count int) {
	for t := range rows {
		p.out = append(p.out, s[t*PagePositions:][:count]...)
	}
}
