package exec

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/lora"
)

// Adapter is what rows may add to the products of a program: for a product with W, scale·B·(A·x) of the x that the product reads. It is
// immutable, and rows of several passes may use it. It holds memory of its own only, until nobody refers to it.
type Adapter struct {
	prog  *Program
	steps [][]lowRank // by step; nil: the step stays as it is
	bytes int
}

// lowRank adds to the columns of a product from one on: those of one of the weights that were stacked into its matrix.
type lowRank struct {
	a     *kernel.Matrix   // rank × columns
	b     []*kernel.Matrix // rows × rank, tileRows of them each
	from  int
	scale float32
}

// tileRows is how many columns of a product one unit of work adds to.
const tileRows = 128

// target is where a weight of the model file went.
type target struct{ step, from, rows, cols int }

// headWeight is the name of the weight that makes logits, whether a file has it or ties it to the embedding.
const headWeight = "output.weight"

// aim notes which columns of a product the weights give that its matrix was stacked from.
func (b *assembler) aim(n *graph.Node, w packed) {
	from := 0
	for i, name := range n.In[1].Weight.Parts {
		if name == "token_embd.weight" {
			name = headWeight
		}
		b.p.targets[name] = append(b.p.targets[name], target{len(b.p.steps), from, w.parts[i], w.matrix.Cols()})
		from += w.parts[i]
	}
}

// Bytes is the memory of the adapter.
func (a *Adapter) Bytes() int { return a.bytes }

// NewAdapter packs the factors of an adapter, in half precision unless the program keeps the weight itself in float32: then in float32,
// where half precision does not hold the factor exactly. The factors are not used afterwards. It is an error when the program
// multiplies with no such weight, or with one of another shape.
func (p *Program) NewAdapter(factors []lora.Factor) (*Adapter, error) {
	if len(factors) == 0 {
		return nil, errors.New("the adapter changes nothing")
	}
	a := &Adapter{prog: p, steps: make([][]lowRank, len(p.steps))}
	seen := map[string]bool{}
	for _, f := range factors {
		places := p.targets[f.Target]
		switch {
		case len(places) == 0:
			return nil, fmt.Errorf("the adapter changes %.120q, with which the model multiplies nothing; it was made for another model", f.Target)
		case seen[f.Target]:
			return nil, fmt.Errorf("the adapter changes %.120q twice", f.Target)
		case f.A.Rows() != f.B.Cols() || f.A.Rows() < 1:
			return nil, fmt.Errorf("the adapter's factors of %.120q do not share a rank", f.Target)
		case f.A.Cols() != places[0].cols || f.B.Rows() != places[0].rows:
			return nil, fmt.Errorf("the adapter changes %.120q as if it were [%d %d], the model has [%d %d]; it was made for another model",
				f.Target, f.B.Rows(), f.A.Cols(), places[0].rows, places[0].cols)
		}
		seen[f.Target] = true
		r := a.pack(f, p.steps[places[0].step].w.Format() == kernel.F32)
		for _, at := range places {
			r.from = at.from
			a.steps[at.step] = append(a.steps[at.step], r)
		}
	}
	return a, nil
}

// pack makes the matrices of a pair of factors.
func (a *Adapter) pack(f lora.Factor, exact bool) lowRank {
	down, up := choose(f.A, exact), choose(f.B, exact)
	r := lowRank{a: a.matrix(f.A, 0, f.A.Rows(), down), scale: f.Scale / down.by / up.by}
	for from := 0; from < f.B.Rows(); from += tileRows {
		r.b = append(r.b, a.matrix(f.B, from, min(from+tileRows, f.B.Rows()), up))
	}
	return r
}

// packing is how a factor is kept: its numbers times a power of two, which the scale takes off again.
type packing struct {
	format kernel.Format
	by     float32
}

// The largest number of a factor in half precision comes near the top of that format, so that small ones keep their digits, too: factors
// that were trained in sixteen bits lose nothing.
const (
	topExponent = 14
	mostShift   = 40
)

// choose finds the packing of a factor. exact: no number may be rounded.
func choose(m lora.Matrix, exact bool) packing {
	row, top := make([]float32, m.Cols()), float32(0)
	for i := range m.Rows() {
		m.Row(i, row)
		for _, v := range row {
			top = max(top, magnitude(v))
		}
	}
	p := packing{kernel.F16, 1}
	if top > 0 {
		_, exponent := math.Frexp(float64(top))
		p.by = float32(math.Ldexp(1, min(max(topExponent-exponent, -mostShift), mostShift)))
	}
	if !exact {
		return p
	}
	half, back := make([]uint16, m.Cols()), make([]float32, m.Cols())
	for i := range m.Rows() {
		m.Row(i, row)
		kernel.Generic().Scale(row, row, p.by)
		kernel.Generic().ToHalf(half, row)
		kernel.Generic().FromHalf(back, half)
		if !slices.Equal(row, back) {
			return packing{kernel.F32, 1}
		}
	}
	return p
}

// matrix packs the rows [from, to) of a factor.
func (a *Adapter) matrix(m lora.Matrix, from, to int, p packing) *kernel.Matrix {
	row := make([]float32, m.Cols())
	a.bytes += kernel.MatrixBytes(p.format, to-from, m.Cols())
	out := kernel.NewMatrix(p.format, to-from, m.Cols(), nil)
	for i := from; i < to; i++ {
		m.Row(i, row)
		kernel.Generic().Scale(row, row, p.by)
		out.SetRow(i-from, row)
	}
	return out
}
