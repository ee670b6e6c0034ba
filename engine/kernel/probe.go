package kernel

// probe runs every kernel and collects the results.
type probe struct {
	state uint64
	out   []float32
}

func newProbe() *probe { return &probe{state: 1} }

// next is a number between −1 and 1 (a linear congruential sequence: fixed on every machine).
func (p *probe) next() float32 {
	p.state = p.state*6364136223846793005 + 1442695040888963407
	return float32(int32(p.state>>32)) / (1 << 31)
}

func (p *probe) vector(n int, scale float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = p.next() * scale
	}
	return v
}

func (p *probe) run(k Kernels) {
	p.products(k)
	p.vectors(k)
	p.pages(k)
	p.scans(k)
}

// products runs a tile of every width in every format, in several panels.
func (p *probe) products(k Kernels) {
	const tokens = 16 + 8 + 4 + 2 + 1
	for f := F32; f <= Q8X; f++ {
		rows, few := 2*panelRows+3, 1
		if f.Input() == Dense { // a token takes up to eight panels at once
			rows, few = 9*panelRows+3, 10
		}
		cols := max(40, f.Columns())
		if cols%f.Columns() != 0 {
			cols = 2 * f.Columns()
		}
		w, a := p.matrix(f, rows, cols), NewActivations(f.Input(), tokens, cols, nil)
		for t := range tokens {
			k.Quantize(a, t, p.vector(cols, float32(t*t+1)))
		}
		bias := p.vector(rows, 1)
		for n := 1; n <= 8; n++ {
			dst := make([]float32, n*w.Stride())
			k.Mul(dst, w.Stride(), w, 0, few, a, n, false, nil)
			p.out = append(p.out, dst...)
		}
		dst := p.vector(tokens*w.Stride(), 1)
		k.Mul(dst, w.Stride(), w, w.Panels()-2, w.Panels(), a, tokens, true, bias)
		p.out = append(p.out, dst...)
	}
}

// matrix returns a matrix with extreme integers, scales of both signs and half precision.
func (p *probe) matrix(f Format, rows, cols int) *Matrix {
	w := NewMatrix(f, rows, cols, nil)
	for r := range rows {
		switch f {
		case F32, F16:
			w.SetRow(r, p.vector(cols, 1))
		case I8:
			w.SetScaledRow(r, p.integers(cols, r, -128, 127), p.next()/32)
		case Q4K, Q5K:
			p.superBlocks(w, r)
		case Q6K:
			p.superBlocks6(w, r)
		default:
			p.blocks(w, r)
		}
	}
	return w
}

// integers from low to high; every fourth row begins with a run of an extreme, so that sums reach their bounds.
func (p *probe) integers(n, r, low, high int) []int8 {
	q := make([]int8, n)
	for i := range q {
		q[i] = int8(low + int((p.next()+1)/2*float32(high-low)+0.5))
		switch {
		case i < n/2 && r%4 == 0:
			q[i] = int8(high)
		case i < n/2 && r%4 == 1:
			q[i] = int8(low)
		}
	}
	return q
}

func (p *probe) half() float32 { return fromHalf(toHalf(p.next() / 16)) }

func (p *probe) blocks(w *Matrix, r int) {
	low, high := 0, map[Format]int{Q4: 15, Q5: 31, Q8: 127, Q8X: 127}[w.format]
	if high == 127 {
		low = -128
	}
	d, m := make([]float32, w.cols/32), make([]float32, w.cols/32)
	for b := range d {
		if d[b] = p.half(); w.format != Q8 {
			m[b] = p.half()
		}
	}
	w.SetBlocks(r, p.integers(w.cols, r, low, high), d, m)
}

func (p *probe) superBlocks(w *Matrix, r int) {
	high := 15
	if w.format == Q5K {
		high = 31
	}
	for b := range w.cols / 256 {
		var scales, offsets [8]uint8
		var q [256]uint8
		for i, v := range p.integers(256, r, 0, high) {
			q[i] = uint8(v)
		}
		for i, v := range p.integers(8, r/2, 0, 63) {
			scales[i], offsets[7-i] = uint8(v), uint8(v)
		}
		w.SetK(r, b, toHalf(p.half()), toHalf(p.half()), &scales, &offsets, &q)
	}
}

func (p *probe) superBlocks6(w *Matrix, r int) {
	for b := range w.cols / 256 {
		q, scales := [256]int8(p.integers(256, r, -32, 31)), [16]int8(p.integers(16, r/2, -128, 127))
		w.SetQ6K(r, b, toHalf(p.half()), &scales, &q)
	}
}

// scans runs the scan kernels on whole groups and a rest.
func (p *probe) scans(k Kernels) {
	const n, dim = 4*2 + 3, 96
	rows, query, at := make([]int8, n*dim), make([]int16, dim), []uint32{10, 0, 3, 3, 7}
	for r := range n {
		copy(rows[r*dim:], p.integers(dim, r, -128, 127))
	}
	for i := range query {
		query[i] = int16(p.next() * 32767)
	}
	dst := make([]int32, n)
	for _, run := range []func(){func() { k.ScanRows(dst, rows, query) }, func() { k.ScanRowsAt(dst[:len(at)], rows, query, at) }} {
		run()
		for _, v := range dst {
			p.out = append(p.out, float32(v>>16), float32(v&0xffff)) // both exact
		}
	}
}
