package graph

import (
	"fmt"
	"slices"
)

// Tensor is the content of an input or result, row by row: Ints for i32, Data for everything else.
type Tensor struct {
	Shape []int
	Data  []float32
	Ints  []int32
}

// Rows is a tensor of the model file. A vector is one row.
type Rows interface {
	Rows() int
	Cols() int
	Row(i int, dst []float32)
}

// Env is what a graph needs beside its inputs when it is interpreted.
type Env struct {
	// Tensor opens a tensor of the model file by a name that the weights' Parts use.
	Tensor func(name string) (Rows, error)
	// Positions of the tokens in their sequences; nil: 0, 1, 2, …
	Positions []int
	// Sequence of each token: numbers from 0 on, which are also the rows that pool returns; nil: all belong to sequence 0.
	Sequence []int
	// Cache keeps keys and values between calls, so that a sequence can be fed in pieces; nil: each call stands alone.
	Cache *Cache
	// Quantize replaces a row by what is left of it after rounding to int8 per "block" or "row"; nil: rows stay as they are, so that a graph means
	// the same before and after its precisions were chosen.
	Quantize func(per string, row []float32)
}

// Eval interprets the graph, fused or not: every operation as its description says, sums in float64, results in float32. It is the oracle that the passes and
// the engine are tested against, and slow. The results are in the order of g.Outputs. g must have passed Check.
func Eval(g *Graph, inputs map[string]Tensor, env Env) ([]Tensor, error) {
	e := &evaluator{env: env, values: map[*Value]Tensor{}, dims: map[string]int{}}
	if e.env.Cache == nil {
		e.env.Cache = &Cache{}
	}
	for _, v := range g.Inputs {
		t, ok := inputs[v.Name]
		if !ok {
			return nil, fmt.Errorf("graph %s: input %s is missing", g.Name, v.ref())
		}
		if err := e.bind(g, v, t); err != nil {
			return nil, fmt.Errorf("graph %s: input %s: %w", g.Name, v.ref(), err)
		}
		e.values[v] = t
	}
	if err := e.context(); err != nil {
		return nil, fmt.Errorf("graph %s: %w", g.Name, err)
	}
	last := lastUses(g)
	for i, n := range g.Nodes {
		t, err := e.node(n)
		if err != nil {
			return nil, fmt.Errorf("graph %s: %s %s: %w", g.Name, n.Op, n.Out.ref(), err)
		}
		e.values[n.Out] = t
		for _, v := range n.In {
			if last[v] == i {
				delete(e.values, v)
			}
		}
	}
	out := make([]Tensor, len(g.Outputs))
	for i, v := range g.Outputs {
		out[i] = e.values[v]
	}
	return out, nil
}

// lastUses maps every value to the last node that reads it; returned values to the number of nodes.
func lastUses(g *Graph) map[*Value]int {
	last := map[*Value]int{}
	for i, n := range g.Nodes {
		for _, v := range n.In {
			last[v] = i
		}
	}
	for _, v := range g.Outputs {
		last[v] = len(g.Nodes)
	}
	return last
}

type evaluator struct {
	env    Env
	values map[*Value]Tensor
	dims   map[string]int
}

// bind compares an input with its declared type and learns the symbols from it.
func (e *evaluator) bind(g *Graph, v *Value, t Tensor) error {
	if len(t.Shape) != len(v.Type.Shape) {
		return fmt.Errorf("has %d dimensions, not those of %s", len(t.Shape), v.Type)
	}
	total := 1
	for i, d := range v.Type.Shape {
		want := d.N
		if d.Symbol != "" {
			if _, ok := e.dims[d.Symbol]; !ok {
				e.dims[d.Symbol] = t.Shape[i] / d.N
			}
			want *= e.dims[d.Symbol]
		}
		if t.Shape[i] != want {
			return fmt.Errorf("dimension %d is %d, not %d", i, t.Shape[i], want)
		}
		total *= want
	}
	for _, s := range g.Symbols {
		if n, ok := e.dims[s.Name]; ok && (n < s.Min || n > s.Max) {
			return fmt.Errorf("%s = %d is outside %d..%d", s.Name, n, s.Min, s.Max)
		}
	}
	if have := max(len(t.Data), len(t.Ints)); have != total || (v.Type.Elem == I32) != (t.Ints != nil || total == 0) && total > 0 {
		return fmt.Errorf("has %d elements or the wrong kind of them, needs %d of %s", have, total, v.Type.Elem)
	}
	return nil
}

// context completes what is known of the tokens.
func (e *evaluator) context() error {
	tokens := e.dims[Tokens]
	if e.env.Positions == nil {
		for i := range tokens {
			e.env.Positions = append(e.env.Positions, i)
		}
	}
	if e.env.Sequence == nil {
		e.env.Sequence = make([]int, tokens)
	}
	if len(e.env.Positions) != tokens || len(e.env.Sequence) != tokens {
		return fmt.Errorf("%d positions and %d sequences for %d tokens", len(e.env.Positions), len(e.env.Sequence), tokens)
	}
	if _, ok := e.dims[Sequences]; !ok && tokens > 0 {
		e.dims[Sequences] = slices.Max(e.env.Sequence) + 1
	}
	for i, s := range e.env.Sequence {
		if s < 0 || e.env.Positions[i] < 0 || s >= e.dims[Sequences] {
			return fmt.Errorf("token %d: position %d of sequence %d", i, e.env.Positions[i], s)
		}
	}
	return nil
}

// shape is the type's shape with the symbols bound.
func (e *evaluator) shape(t Type) ([]int, error) {
	out := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		out[i] = d.N
		if d.Symbol == "" {
			continue
		}
		n, ok := e.dims[d.Symbol]
		if !ok {
			return nil, fmt.Errorf("nothing says how much %s is", d.Symbol)
		}
		out[i] *= n
	}
	return out, nil
}

// in returns operand i as float32 numbers: a value that was computed, or a whole weight.
func (e *evaluator) in(n *Node, i int) ([]float32, error) {
	v := n.In[i]
	if v.Weight == nil {
		return e.values[v].Data, nil
	}
	if v.Weight.Data != nil {
		return v.Weight.Data, nil
	}
	var all []float32
	for _, name := range v.Weight.Parts {
		t, err := e.env.Tensor(name)
		if err != nil {
			return nil, err
		}
		row := make([]float32, t.Cols())
		for r := range t.Rows() {
			t.Row(r, row)
			all = append(all, row...)
		}
	}
	if want := v.Type.elements(); len(all) != want {
		return nil, fmt.Errorf("weight %s has %d elements in the file, not %d", v.ref(), len(all), want)
	}
	return all, nil
}

// rows opens a matrix row by row, so that a large one need not fit in memory as float32.
func (e *evaluator) rows(v *Value) (func(r int, dst []float32), error) {
	cols := v.Type.last()
	if d := v.Weight.Data; d != nil {
		return func(r int, dst []float32) { copy(dst, d[r*cols:(r+1)*cols]) }, nil
	}
	var parts []Rows
	total := 0
	for _, name := range v.Weight.Parts {
		t, err := e.env.Tensor(name)
		if err != nil {
			return nil, err
		}
		if t.Cols() != cols {
			return nil, fmt.Errorf("tensor %s has %d columns, the weight %s has %d", name, t.Cols(), v.ref(), cols)
		}
		parts = append(parts, t)
		total += t.Rows()
	}
	if total != v.Type.Shape[0].N {
		return nil, fmt.Errorf("weight %s has %d rows in the file, not %s", v.ref(), total, v.Type.Shape[0])
	}
	return func(r int, dst []float32) {
		i := 0
		for ; r >= parts[i].Rows(); i++ {
			r -= parts[i].Rows()
		}
		parts[i].Row(r, dst)
	}, nil
}

// node computes one operation.
func (e *evaluator) node(n *Node) (Tensor, error) {
	shape, err := e.shape(n.Out.Type)
	if err != nil {
		return Tensor{}, err
	}
	total := 1
	for _, d := range shape {
		total *= d
	}
	t := Tensor{Shape: shape, Data: make([]float32, total)}
	if err := e.compute(n, t.Data, shape); err != nil {
		return Tensor{}, err
	}
	per := n.Attrs.Text("quant")
	if n.Op == OpQuantize {
		per = n.Attrs.Text("per")
	}
	if per != "" && e.env.Quantize != nil {
		for row := range slices.Chunk(t.Data, n.Out.Type.last()) {
			e.env.Quantize(per, row)
		}
	}
	return t, nil
}

// compute fills the result of a node.
func (e *evaluator) compute(n *Node, out []float32, shape []int) error {
	switch n.Op {
	case OpEmbed:
		return e.embed(n, out)
	case OpMatMul:
		return e.matmul(n, out)
	default:
	}
	in := make([][]float32, len(n.In))
	for i := range n.In {
		var err error
		if in[i], err = e.in(n, i); err != nil {
			return err
		}
	}
	switch n.Op {
	case OpRope:
		e.rope(n, in, out)
	case OpAttention:
		e.attention(n, in, out)
	case OpSelect:
		return e.selectRows(n, in[0], out)
	case OpPool:
		return e.pool(n, in[0], out)
	case OpConv2D, OpMaxPool2D, OpAvgPool2D:
		from, err := e.shape(n.In[0].Type)
		if err != nil {
			return err
		}
		if n.Op == OpConv2D {
			conv2D(n, in, out, from, shape)
		} else {
			pool2D(n, in[0], out, from, shape)
		}
	default:
		return computePlain(n, in, out)
	}
	return nil
}
