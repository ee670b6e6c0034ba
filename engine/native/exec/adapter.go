package exec

import (
	"errors"
	"fmt"

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

// NewAdapter packs the factors of an adapter, each number as it is: in half precision where a factor fits it exactly, otherwise in
// float32. The factors are not used afterwards. It is an error when the program multiplies with no such weight, or with one of another
// shape.
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
		r := lowRank{a: a.pack(f.A, 0, f.A.Rows()), scale: f.Scale}
		for from := 0; from < f.B.Rows(); from += tileRows {
			r.b = append(r.b, a.pack(f.B, from, min(from+tileRows, f.B.Rows())))
		}
		for _, at := range places {
			r.from = at.from
			a.steps[at.step] = append(a.steps[at.step], r)
		}
	}
	return a, nil
}

// pack makes a matrix of the rows [from, to).
func (a *Adapter) pack(m lora.Matrix, from, to int) *kernel.Matrix {
	row, half := make([]float32, m.Cols()), make([]uint16, m.Cols())
	format := kernel.F16
	for i := from; i < to && format == kernel.F16; i++ {
		m.Row(i, row)
		if !fitsHalf(row, half) {
			format = kernel.F32
		}
	}
	a.bytes += kernel.MatrixBytes(format, to-from, m.Cols())
	out := kernel.NewMatrix(format, to-from, m.Cols(), nil)
	for i := from; i < to; i++ {
		m.Row(i, row)
		out.SetRow(i-from, row)
	}
	return out
}

// fitsHalf reports whether half precision holds a row exactly.
func fitsHalf(row []float32, half []uint16) bool {
	k, back := kernel.Generic(), make([]float32, len(row))
	k.ToHalf(half, row)
	k.FromHalf(back, half)
	for i, v := range row {
		if back[i] != v {
			return false
		}
	}
	return true
}
