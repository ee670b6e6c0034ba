package native

import (
	"math"

	"github.com/sluice-project/sluice/engine/kernel"
)

// row is one token to be computed: the token, the cache it belongs to and its position there. Rows of one cache come in the order
// of their positions, and the cache has room for them.
type row struct {
	token  int32
	cache  *cache
	pos    int
	logits bool // whether the scores of the next token are wanted
}

// pass computes batches of rows with one model. It owns the scratch memory; one goroutine uses it.
type pass struct {
	m     *llama
	k     kernel.Kernels
	pool  *pool
	pages *pages

	rows []row
	room int // rows the scratch memory holds

	x, tmp        []float32 // residual stream; output of a matrix
	q, kv, ffn    []float32
	in, att, hid  input // of: q, k, v and gate, up; o; down
	out           input // of the head
	logits        []float32
	wanted        []int       // rows whose logits are wanted
	scores        [][]float32 // per worker
	layer         int
	products      []product
	count         int // rows of the products
	fnMul         func(worker, from, to int)
	fnNormIn      func(worker, from, to int)
	fnRope        func(worker, from, to int)
	fnAttend      func(worker, from, to int)
	fnQuantizeAtt func(worker, from, to int)
	fnNormFFN     func(worker, from, to int)
	fnGate        func(worker, from, to int)
}

// product is one matrix product of a parallel region.
type product struct {
	w   *kernel.Matrix
	in  *input
	dst []float32
}

// input holds rows of floats and, where blocks fit, their quantised form.
type input struct{ x, q *kernel.Activations }

func newInput(rows, cols int) input {
	in := input{x: kernel.NewActivations(kernel.Dense, rows, cols, nil)}
	if cols%32 == 0 {
		in.q = kernel.NewActivations(kernel.Block, rows, cols, nil)
	}
	return in
}

// of returns the form that w reads.
func (in *input) of(w *kernel.Matrix) *kernel.Activations {
	if readsBlocks(w) {
		return in.q
	}
	return in.x
}

func newPass(m *llama, k kernel.Kernels, workers *pool) *pass {
	p := &pass{m: m, k: k, pool: workers, pages: newPages(len(m.layers), m.kvHeads, m.headDim)}
	for range workers.threads {
		p.scores = append(p.scores, make([]float32, m.context))
	}
	p.fnMul, p.fnNormIn, p.fnRope, p.fnAttend = p.mul, p.normIn, p.ropeAndStore, p.attend
	p.fnQuantizeAtt, p.fnNormFFN, p.fnGate = p.quantizeAtt, p.normFFN, p.gateUp
	return p
}

// grow makes room for n rows.
func (p *pass) grow(n int) {
	if n <= p.room {
		return
	}
	m, y := p.m, &p.m.layers[0]
	n = max(n, 2*p.room, chunkAlone)
	p.room = n
	p.x, p.tmp = make([]float32, n*m.dim), make([]float32, n*max(y.o.Stride(), y.down.Stride()))
	p.q, p.kv = make([]float32, n*y.q.Stride()), make([]float32, 2*n*y.k.Stride())
	p.ffn = make([]float32, 2*n*y.gate.Stride())
	p.in, p.att = newInput(n, m.dim), newInput(n, m.heads*m.headDim)
	p.hid, p.out = newInput(n, m.hidden), newInput(n, m.dim)
}

// run computes p.rows. Afterwards the i-th row that wants logits finds them in result(i).
func (p *pass) run() {
	n, m := len(p.rows), p.m
	p.grow(n)
	for i, r := range p.rows {
		m.embed.Row(int(r.token), p.x[i*m.dim:(i+1)*m.dim])
	}
	for p.layer = range m.layers {
		y := &m.layers[p.layer]
		p.each(p.fnNormIn)
		kv := y.k.Stride()
		p.multiply(product{y.q, &p.in, p.q}, product{y.k, &p.in, p.kv[:n*kv]}, product{y.v, &p.in, p.kv[n*kv : 2*n*kv]})
		p.each(p.fnRope)
		p.pool.run(n*m.heads, max(1, n*m.heads/(4*p.pool.threads)), p.fnAttend)
		p.each(p.fnQuantizeAtt)
		p.multiply(product{y.o, &p.att, p.tmp})
		p.each(p.fnNormFFN)
		ffn := y.gate.Stride()
		p.multiply(product{y.gate, &p.in, p.ffn[:n*ffn]}, product{y.up, &p.in, p.ffn[n*ffn : 2*n*ffn]})
		p.each(p.fnGate)
		p.multiply(product{y.down, &p.hid, p.tmp})
	}
	p.finish()
}

// finish computes the logits.
func (p *pass) finish() {
	p.wanted = p.wanted[:0]
	for i, r := range p.rows {
		if r.logits {
			p.wanted = append(p.wanted, i)
		}
	}
	if len(p.wanted) == 0 {
		return
	}
	if need := len(p.wanted) * p.m.head.Stride(); len(p.logits) < need {
		p.logits = make([]float32, need)
	}
	for i, from := range p.wanted {
		p.addTmp(from, p.m.layers[len(p.m.layers)-1].down.Stride())
		p.k.RMSNorm(p.out.x.Row(i), p.x[from*p.m.dim:(from+1)*p.m.dim], p.m.norm, p.m.eps)
		if readsBlocks(p.m.head) {
			p.k.Quantize(p.out.q, i, p.out.x.Row(i))
		}
	}
	p.multiplyRows(len(p.wanted), product{p.m.head, &p.out, p.logits})
}

// result returns the logits of the i-th row that wanted them, valid until the next run.
func (p *pass) result(i int) []float32 {
	s := p.m.head.Stride()
	return p.logits[i*s : i*s+p.m.vocab]
}

// each runs fn over the rows. A single row is done in place, without waking anybody.
func (p *pass) each(fn func(worker, from, to int)) {
	n := len(p.rows)
	p.pool.run(n, max(1, n/(2*p.pool.threads)), fn)
}

func (p *pass) multiply(products ...product) { p.multiplyRows(len(p.rows), products...) }

// multiplyRows computes products of n rows in one parallel region.
func (p *pass) multiplyRows(n int, products ...product) {
	p.products = append(p.products[:0], products...)
	p.count = n
	units := 0
	for _, q := range products {
		units += q.w.Panels()
	}
	p.pool.run(units, max(1, units/(4*p.pool.threads)), p.fnMul)
}

// mul computes a range of the panels of all products of the region, counted through.
func (p *pass) mul(_, from, to int) {
	for i := range p.products {
		q := &p.products[i]
		n := q.w.Panels()
		if from < n && from < to {
			p.k.Mul(q.dst, q.w.Stride(), q.w, from, min(to, n), q.in.of(q.w), p.count, false, nil)
		}
		from, to = max(0, from-n), to-n
	}
}

func (p *pass) residual(i int) []float32 { return p.x[i*p.m.dim : (i+1)*p.m.dim] }

// normIn prepares the input of q, k and v. From the second layer on it first adds what the layer before left in tmp.
func (p *pass) normIn(_, from, to int) {
	y := &p.m.layers[p.layer]
	for i := from; i < to; i++ {
		if p.layer > 0 {
			p.addTmp(i, p.m.layers[p.layer-1].down.Stride())
		}
		p.k.RMSNorm(p.in.x.Row(i), p.residual(i), y.attnNorm, p.m.eps)
		if y.quantIn {
			p.k.Quantize(p.in.q, i, p.in.x.Row(i))
		}
	}
}

func (p *pass) addTmp(i, stride int) { p.k.Add(p.residual(i), p.tmp[i*stride:i*stride+p.m.dim]) }

// ropeAndStore turns queries and keys by their positions and stores keys and values.
func (p *pass) ropeAndStore(_, from, to int) {
	m, y := p.m, &p.m.layers[p.layer]
	n, kv := len(p.rows), y.k.Stride()
	for i := from; i < to; i++ {
		r := &p.rows[i]
		turn := m.rope[r.pos*m.rotated : (r.pos+1)*m.rotated]
		rotate(p.q[i*y.q.Stride():], m.heads, m.headDim, turn)
		keys, values := p.kv[i*kv:(i+1)*kv], p.kv[(n+i)*kv:(n+i+1)*kv]
		rotate(keys, m.kvHeads, m.headDim, turn)
		pg, at := r.cache.pages[r.pos/pagePositions], r.pos%pagePositions*m.headDim
		for h := range m.kvHeads {
			p.k.ToHalf(p.pages.keys(pg, p.layer, h)[at:at+m.headDim], keys[h*m.headDim:(h+1)*m.headDim])
			p.k.ToHalf(p.pages.values(pg, p.layer, h)[at:at+m.headDim], values[h*m.headDim:(h+1)*m.headDim])
		}
	}
}

// rotate turns the neighbouring pairs of each head; turn holds cosine and sine of each pair.
func rotate(x []float32, heads, headDim int, turn []float32) {
	for h := range heads {
		v := x[h*headDim:][:len(turn)]
		for i := 0; i+1 < len(turn); i += 2 {
			a, b, cos, sin := v[i], v[i+1], turn[i], turn[i+1]
			v[i] = float32(a*cos) - float32(b*sin)
			v[i+1] = float32(a*sin) + float32(b*cos)
		}
	}
}

// attend computes heads counted through all rows: softmax(q·k/√d)·v over the positions up to the row's own.
func (p *pass) attend(worker, from, to int) {
	m := p.m
	scale := float32(1 / math.Sqrt(float64(m.headDim)))
	for u := from; u < to; u++ {
		i, h := u/m.heads, u%m.heads
		r := &p.rows[i]
		query := p.q[i*m.layers[p.layer].q.Stride()+h*m.headDim:][:m.headDim]
		out := p.att.x.Row(i)[h*m.headDim : (h+1)*m.headDim]
		group := h / (m.heads / m.kvHeads)
		scores := p.scores[worker][:r.pos+1]
		for at := 0; at < len(scores); at += pagePositions {
			part := scores[at:min(at+pagePositions, len(scores))]
			keys := p.pages.keys(r.cache.pages[at/pagePositions], p.layer, group)
			p.k.Scores(part, query, keys[:len(part)*m.headDim], scale)
		}
		sum := p.k.ExpSum(scores, largest(scores))
		clear(out)
		for at := 0; at < len(scores); at += pagePositions {
			part := scores[at:min(at+pagePositions, len(scores))]
			values := p.pages.values(r.cache.pages[at/pagePositions], p.layer, group)
			p.k.Combine(out, part, values[:len(part)*m.headDim])
		}
		for j := range out {
			out[j] /= sum
		}
	}
}

func largest(x []float32) float32 {
	top := x[0]
	for _, v := range x[1:] {
		if v > top {
			top = v
		}
	}
	return top
}

func (p *pass) quantizeAtt(_, from, to int) {
	if !p.m.layers[p.layer].quantO {
		return
	}
	for i := from; i < to; i++ {
		p.k.Quantize(p.att.q, i, p.att.x.Row(i))
	}
}

// normFFN adds the attention's output and prepares the input of gate and up.
func (p *pass) normFFN(_, from, to int) {
	y := &p.m.layers[p.layer]
	for i := from; i < to; i++ {
		p.addTmp(i, y.o.Stride())
		p.k.RMSNorm(p.in.x.Row(i), p.residual(i), y.ffnNorm, p.m.eps)
		if y.quantFFN {
			p.k.Quantize(p.in.q, i, p.in.x.Row(i))
		}
	}
}

// gateUp prepares the input of down.
func (p *pass) gateUp(_, from, to int) {
	y, n := &p.m.layers[p.layer], len(p.rows)
	s := y.gate.Stride()
	for i := from; i < to; i++ {
		gate, up := p.ffn[i*s:i*s+p.m.hidden], p.ffn[(n+i)*s:(n+i)*s+p.m.hidden]
		p.k.SiLUMul(p.hid.x.Row(i), gate, up)
		if y.quantDownI {
			p.k.Quantize(p.hid.q, i, p.hid.x.Row(i))
		}
	}
}
