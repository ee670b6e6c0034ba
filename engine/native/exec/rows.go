package exec

import (
	"math"

	"github.com/sluice-project/sluice/engine/graph"
)

// norm computes rows of a norm. What is added, or quantised afterwards, is computed beside the output, whose place may be that of an
// operand.
func (p *Pass) norm(worker, from, to int) {
	s := p.step
	for i := from; i < to; i++ {
		x := p.row(&s.in[0], i)
		dst := p.temp(worker, len(x))
		if !s.quant && s.residual < 0 {
			dst = p.row(&s.out, i)
		}
		if s.op == graph.OpLayerNorm {
			p.k.LayerNorm(dst, x, s.vec, s.bias, s.eps)
		} else {
			n := len(x) / s.groups
			for g := range s.groups {
				p.k.RMSNorm(dst[g*n:(g+1)*n], x[g*n:(g+1)*n], s.vec, s.eps)
			}
		}
		if s.residual >= 0 {
			p.k.Add(dst, p.row(&s.in[s.residual], i))
		}
		switch {
		case s.quant:
			p.quantize(i, dst)
		case s.residual >= 0:
			copy(p.row(&s.out, i), dst)
		}
	}
}

// quantize stores a row of the step's output in eight bits, or twice eight; x is used up.
func (p *Pass) quantize(i int, x []float32) {
	a := &p.acts[p.step.out.act]
	if a.low != nil {
		p.k.QuantizeWide(a.high, a.low, i, x)
		return
	}
	p.k.Quantize(a.high, i, x)
}

// temp returns memory of a worker for one row.
func (p *Pass) temp(worker, n int) []float32 {
	w := &p.work[worker]
	if len(w.row) < n {
		w.row = make([]float32, n)
	}
	return w.row[:n]
}

// rowwise computes rows of every other operation.
func (p *Pass) rowwise(worker, from, to int) {
	s := p.step
	for i := from; i < to; i++ {
		var dst []float32
		if s.quant {
			dst = p.temp(worker, s.out.cols)
		} else {
			dst = p.row(&s.out, i)
		}
		p.compute(s, i, dst)
		if s.quant {
			p.quantize(i, dst)
		}
	}
}

func (p *Pass) compute(s *step, i int, dst []float32) {
	switch s.op {
	case graph.OpEmbed:
		p.embedRows(s, i, dst)
	case graph.OpGLU:
		x := p.row(&s.in[0], i)
		p.gate(s.fn, dst, x[:len(dst)], x[len(dst):])
	case graph.OpAct:
		p.activate(s.fn, dst, p.row(&s.in[0], i))
	case graph.OpAdd, graph.OpMul:
		p.combine(s, i, dst)
	case graph.OpScale:
		for j, v := range p.row(&s.in[0], i) {
			dst[j] = v * s.by
		}
	case graph.OpSoftcap:
		copy(dst, p.row(&s.in[0], i))
		p.k.SoftCap(dst, s.by)
	case graph.OpSlice:
		copy(dst, p.row(&s.in[0], i)[s.from:])
	case graph.OpSelect:
		copy(dst, p.row(&s.in[0], p.wanted[i]))
	case graph.OpQuantize:
		copy(dst, p.row(&s.in[0], i))
	case graph.OpRope:
		copy(dst, p.row(&s.in[0], i))
		p.k.Rope(dst, s.rope.heads, s.rope.dim, s.rope.rotated, p.rotateHeads(s.rope, p.Rows[i].Pos), s.rope.neox)
	case graph.OpPool:
		p.gather(s, i, dst)
	case graph.OpNormalize:
		normalize(dst, p.row(&s.in[0], i))
	case graph.OpSoftmax:
		x := p.row(&s.in[0], i)
		copy(dst, x)
		sum := p.k.ExpSum(dst, p.k.Max(dst))
		for j := range dst {
			dst[j] /= sum
		}
	default:
		panic("exec: no way to compute " + string(s.op)) // Compile refuses these
	}
}

func (p *Pass) embedRows(s *step, i int, dst []float32) {
	id := int(p.Rows[i].Token)
	switch {
	case s.in[0].positions:
		id = p.Rows[i].Pos + s.from
	case s.in[0].segments:
		id = int(p.Rows[i].Segment)
	}
	s.w.Row(id, dst)
	if s.by != 1 {
		for j := range dst {
			dst[j] *= s.by
		}
	}
}

func (p *Pass) gate(fn string, dst, gate, up []float32) {
	switch fn {
	case "silu":
		p.k.SiLUMul(dst, gate, up)
	case "gelu_tanh":
		p.k.GELUTanhMul(dst, gate, up)
	default:
		p.activate(fn, dst, gate)
		p.k.MulVec(dst, up)
	}
}

func (p *Pass) activate(fn string, dst, x []float32) {
	switch fn {
	case "gelu":
		p.k.GELU(dst, x)
	case "gelu_tanh":
		p.k.GELUTanh(dst, x)
	case "silu":
		p.k.SiLU(dst, x)
	case "relu":
		p.k.ReLU(dst, x)
	case "tanh":
		p.k.Tanh(dst, x)
	case "sigmoid":
		p.k.Sigmoid(dst, x)
	}
}

// combine adds or multiplies two values, or a value and a vector.
func (p *Pass) combine(s *step, i int, dst []float32) {
	a, b := p.row(&s.in[0], i), s.vec
	if b == nil {
		b = p.row(&s.in[1], i)
	}
	if s.vec == nil && &dst[0] == &b[0] { // in place over the second one: both operations commute
		a, b = b, a
	}
	if &dst[0] != &a[0] {
		copy(dst, a)
	}
	if s.op == graph.OpAdd {
		p.k.Add(dst, b)
	} else {
		p.k.MulVec(dst, b)
	}
}

// gather makes one row of a sequence's rows. The mean sums in float64, row by row.
func (p *Pass) gather(s *step, i int, dst []float32) {
	g := p.groups[i]
	switch s.fn {
	case "cls":
		copy(dst, p.row(&s.in[0], g.first))
	case "last":
		copy(dst, p.row(&s.in[0], g.first+g.count-1))
	default:
		for j := range dst {
			sum := 0.0
			for r := g.first; r < g.first+g.count; r++ {
				sum += float64(p.row(&s.in[0], r)[j])
			}
			dst[j] = float32(sum / float64(g.count))
		}
	}
}

// normalize scales a row to length one.
func normalize(dst, x []float32) {
	square := 0.0
	for _, v := range x {
		square += float64(v) * float64(v)
	}
	length := max(math.Sqrt(square), 1e-12)
	for j, v := range x {
		dst[j] = float32(float64(v) / length)
	}
}

// rotateHeads returns the cosines and sines of a position.
func (p *Pass) rotateHeads(r *rotation, pos int) []float32 {
	return p.tables[r.table][pos*r.rotated : (pos+1)*r.rotated]
}
