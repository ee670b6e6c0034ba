package graph

import (
	"fmt"
)

// inferType computes the type of the node's result from its operands and checks both.
func (n *Node) inferType() (Type, error) {
	spec, ok := specOf(n.Op)
	if !ok {
		return Type{}, fmt.Errorf("unknown operation %q", n.Op)
	}
	if err := n.checkAttrs(spec); err != nil {
		return Type{}, err
	}
	names := n.operandSpecs(spec)
	if len(names) != len(n.In) {
		return Type{}, fmt.Errorf("has %d operands, needs %d: %v", len(n.In), len(names), n.Operands())
	}
	for i, name := range names {
		if n.In[i] == nil {
			return Type{}, fmt.Errorf("operand %s is nil", name)
		}
		if err := n.In[i].Type.check(); err != nil {
			return Type{}, fmt.Errorf("operand %s: %w", n.In[i].ref(), err)
		}
		if name[0] == '@' && n.In[i].Weight == nil {
			return Type{}, fmt.Errorf("operand %s (%s) must be a weight", name[1:], n.In[i].ref())
		}
	}
	t, err := spec.infer(n)
	if err != nil {
		return Type{}, err
	}
	return t, t.check()
}

// operand returns operand i after checking its elements and rank.
func (n *Node) operand(i int, elem Elem, rank int) (Type, error) {
	t := n.In[i].Type
	if t.Elem != elem || len(t.Shape) != rank {
		return t, fmt.Errorf("operand %s (%s) is %s, not %s with %d dimensions", n.Operands()[i], n.In[i].ref(), t, elem, rank)
	}
	return t, nil
}

// vector checks that operand i is a float32 vector of n elements.
func (n *Node) vector(i, elements int) error {
	t, err := n.operand(i, F32, 1)
	if err == nil && t.Shape[0] != Size(elements) {
		return fmt.Errorf("operand %s (%s) is %s, not f32[%d]", n.Operands()[i], n.In[i].ref(), t, elements)
	}
	return err
}

// vectors checks all the operands from index i on.
func (n *Node) vectors(i, elements int) error {
	for ; i < len(n.In); i++ {
		if err := n.vector(i, elements); err != nil {
			return err
		}
	}
	return nil
}

// columns is the constant width of operand i, which has two dimensions.
func (n *Node) columns(i int) (int, error) {
	c := n.In[i].Type.last()
	if c == 0 {
		return 0, fmt.Errorf("operand %s (%s) is %s: its last dimension must be constant", n.Operands()[i], n.In[i].ref(), n.In[i].Type)
	}
	return c, nil
}

// matrix is operand i as float32 rows of constant width.
func (n *Node) matrix(i int) (Dim, int, error) {
	t, err := n.operand(i, F32, 2)
	if err != nil {
		return Dim{}, 0, err
	}
	c, err := n.columns(i)
	return t.Shape[0], c, err
}

// quantised replaces the element type by what the attribute quant asks for.
func (n *Node) quantised(t Type, per string) (Type, error) {
	switch per {
	case "":
		return t, nil
	case "row":
		t.Elem = Q8R
	case "row2":
		t.Elem = Q8R2
	case "block":
		t.Elem = Q8B
	case "block2":
		t.Elem = Q8B2
	}
	if (t.Elem == Q8B || t.Elem == Q8B2) && t.last()%32 != 0 {
		return t, fmt.Errorf("blocks of 32 columns do not divide %s", t)
	}
	if t.last() == 0 || len(t.Shape) != 2 {
		return t, fmt.Errorf("only rows of constant width can be quantised, not %s", t)
	}
	return t, nil
}

func inferEmbed(n *Node) (Type, error) {
	ids, err := n.operand(0, I32, 1)
	if err != nil {
		return Type{}, err
	}
	table := n.In[1].Type
	if len(table.Shape) != 2 || table.elements() == 0 {
		return Type{}, fmt.Errorf("operand table (%s) is %s, not a matrix", n.In[1].ref(), table)
	}
	return Type{F32, []Dim{ids.Shape[0], table.Shape[1]}}, nil
}

// Reads is the element type of the values that products with weights of this format read: q8b for the block formats, f32 for f32 and f16.
// Weights in i8 read q8r.
func Reads(format Elem) Elem {
	switch format {
	case "q4", "q4k", "q5", "q5k", "q6k", "q8":
		return Q8B
	case "i8":
		return Q8R
	default:
		return F32
	}
}

// quantisedElem reports whether values of this type are signed bytes with scales.
func quantisedElem(e Elem) bool { return e == Q8B || e == Q8R || e == Q8B2 || e == Q8R2 }

// oneTerm is the type of the first term of a value.
func oneTerm(e Elem) Elem {
	switch e {
	case Q8B2:
		return Q8B
	case Q8R2:
		return Q8R
	default:
		return e
	}
}

func inferMatMul(n *Node) (Type, error) {
	x, w := n.In[0].Type, n.In[1].Type
	if len(w.Shape) != 2 || w.elements() == 0 || w.Elem == I32 || quantisedElem(w.Elem) {
		return Type{}, fmt.Errorf("operand w (%s) is %s, not a matrix", n.In[1].ref(), w)
	}
	if want := Reads(w.Elem); oneTerm(x.Elem) != want {
		return Type{}, fmt.Errorf("operand x (%s) is %s, but weights in %s (%s) read %s", n.In[0].ref(), x.Elem, w.Elem, n.In[1].ref(), want)
	}
	if len(x.Shape) != 2 || x.Shape[1] != w.Shape[1] {
		return Type{}, fmt.Errorf("operand x (%s) is %s, but the rows of %s have %s columns", n.In[0].ref(), x, n.In[1].ref(), w.Shape[1])
	}
	out := Type{F32, []Dim{x.Shape[0], w.Shape[0]}}
	if n.Attrs.Flag("bias") {
		if err := n.vector(2, w.Shape[0].N); err != nil {
			return Type{}, err
		}
	}
	return out, n.checkResidual(out)
}

// checkResidual compares the residual, if there is one, with the type of the result.
func (n *Node) checkResidual(out Type) error {
	if r := n.Operand("residual"); r != nil && !r.Type.Equal(out) {
		return fmt.Errorf("operand residual (%s) is %s, the result is %s", r.ref(), r.Type, out)
	}
	return nil
}

func inferRMSNorm(n *Node) (Type, error) {
	rows, d, err := n.matrix(0)
	if err != nil {
		return Type{}, err
	}
	groups := n.Attrs.Int("groups", 1)
	if d%groups != 0 {
		return Type{}, fmt.Errorf("%d groups do not divide %d columns", groups, d)
	}
	if err := n.vector(1, d/groups); err != nil {
		return Type{}, err
	}
	out := Type{F32, []Dim{rows, Size(d)}}
	if err := n.checkResidual(out); err != nil {
		return Type{}, err
	}
	return n.quantised(out, n.Attrs.Text("quant"))
}

func inferLayerNorm(n *Node) (Type, error) {
	rows, d, err := n.matrix(0)
	if err != nil {
		return Type{}, err
	}
	if err := n.vectors(1, d); err != nil {
		return Type{}, err
	}
	return n.quantised(Type{F32, []Dim{rows, Size(d)}}, n.Attrs.Text("quant"))
}

func inferRope(n *Node) (Type, error) {
	rows, d, err := n.matrix(0)
	if err != nil {
		return Type{}, err
	}
	heads, dim := n.Attrs.Int("heads", 0), n.Attrs.Int("dim", 0)
	if d/dim != heads || d%dim != 0 {
		return Type{}, fmt.Errorf("%d heads of %d columns are not the %d columns of %s", heads, dim, d, n.In[0].ref())
	}
	return Type{F32, []Dim{rows, Size(d)}}, n.checkRope()
}

// checkRope checks the rotation of rope and attention.
func (n *Node) checkRope() error {
	rotated, dim := n.Attrs.Int("rotated", 0), n.Attrs.Int("dim", 0)
	if rotated > dim || rotated%2 != 0 {
		return fmt.Errorf("attribute rotated is %d, not an even number up to dim=%d", rotated, dim)
	}
	if f := n.Operand("freqs"); f != nil && (f.Type.Elem != F32 || len(f.Type.Shape) != 1 || f.Type.Shape[0] != Size(rotated/2)) {
		return fmt.Errorf("operand freqs (%s) is %s, not f32[%d]", f.ref(), f.Type, rotated/2)
	}
	return nil
}

func inferAttention(n *Node) (Type, error) {
	heads, kv, dim := n.Attrs.Int("heads", 0), n.Attrs.Int("kv", 0), n.Attrs.Int("dim", 0)
	if heads%kv != 0 {
		return Type{}, fmt.Errorf("%d key-value heads do not divide %d heads", kv, heads)
	}
	if heads > maxDim/dim {
		return Type{}, fmt.Errorf("%d heads of %d columns are too wide", heads, dim)
	}
	widths := []int{heads * dim, kv * dim, kv * dim}
	if n.Attrs.Flag("packed") {
		widths = []int{(heads + 2*kv) * dim}
	}
	var rows Dim
	for i, want := range widths {
		r, d, err := n.matrix(i)
		if err != nil {
			return Type{}, err
		}
		if d != want || i > 0 && r != rows {
			return Type{}, fmt.Errorf("operand %s (%s) is %s, not %d columns wide or not as long as the others", n.Operands()[i], n.In[i].ref(), n.In[i].Type, want)
		}
		rows = r
	}
	if err := n.checkAbsorbed(dim); err != nil {
		return Type{}, err
	}
	return n.quantised(Type{F32, []Dim{rows, Size(heads * dim)}}, n.Attrs.Text("quant"))
}

// checkAbsorbed checks what attention took over from norms and rope.
func (n *Node) checkAbsorbed(dim int) error {
	for _, name := range []string{"qnorm", "knorm"} {
		w := n.Operand(name)
		if w == nil {
			continue
		}
		if want := (Type{F32, []Dim{Size(dim)}}); !w.Type.Equal(want) {
			return fmt.Errorf("operand %s (%s) is %s, not %s", name, w.ref(), w.Type, want)
		}
		if n.Attrs.Get("eps") == nil {
			return fmt.Errorf("attribute eps is missing, which %s needs", name)
		}
	}
	if n.Attrs.Text("rope") == "" {
		for _, key := range []string{"rotated", "rope_base", "rope_factor", "freqs"} {
			if n.Attrs.Get(key) != nil {
				return fmt.Errorf("attribute %s needs the attribute rope", key)
			}
		}
		return nil
	}
	for _, key := range []string{"rotated", "rope_base"} {
		if n.Attrs.Get(key) == nil {
			return fmt.Errorf("attribute %s is missing, which rope needs", key)
		}
	}
	return n.checkRope()
}

// inferSame is for ops whose result looks like their operand.
func inferSame(n *Node) (Type, error) {
	t := n.In[0].Type
	if t.Elem != F32 {
		return Type{}, fmt.Errorf("operand x (%s) is %s, not f32", n.In[0].ref(), t)
	}
	if t.last() == 0 {
		return Type{}, fmt.Errorf("operand x (%s) is %s: its last dimension must be constant", n.In[0].ref(), t)
	}
	return n.quantised(t, n.Attrs.Text("quant"))
}

func inferGLU(n *Node) (Type, error) {
	rows, d, err := n.matrix(0)
	if err != nil {
		return Type{}, err
	}
	if d%2 != 0 {
		return Type{}, fmt.Errorf("operand gateup (%s) has an odd number of columns: %d", n.In[0].ref(), d)
	}
	return n.quantised(Type{F32, []Dim{rows, Size(d / 2)}}, n.Attrs.Text("quant"))
}

func inferBinary(n *Node) (Type, error) {
	a, b := n.In[0].Type, n.In[1].Type
	row := len(b.Shape) == 1 && len(a.Shape) > 0 && b.Shape[0] == a.Shape[len(a.Shape)-1]
	if a.Elem != F32 || b.Elem != F32 || a.last() == 0 || !a.Equal(b) && !row {
		return Type{}, fmt.Errorf("operands %s (%s) and %s (%s) do not fit: b must have the shape of a, or be one row", n.In[0].ref(), a, n.In[1].ref(), b)
	}
	return n.quantised(a, n.Attrs.Text("quant"))
}

func inferSlice(n *Node) (Type, error) {
	t := n.In[0].Type
	from, to := n.Attrs.Int("from", 0), n.Attrs.Int("to", 0)
	if t.Elem != F32 || t.last() == 0 || from >= to || to > t.last() {
		return Type{}, fmt.Errorf("cannot take columns %d to %d of %s (%s)", from, to, n.In[0].ref(), t)
	}
	shape := append([]Dim{}, t.Shape...)
	shape[len(shape)-1] = Size(to - from)
	return Type{F32, shape}, nil
}

func inferSelect(n *Node) (Type, error) {
	_, d, err := n.matrix(0)
	if err != nil {
		return Type{}, err
	}
	rows, err := n.operand(1, I32, 1)
	if err != nil {
		return Type{}, err
	}
	return Type{F32, []Dim{rows.Shape[0], Size(d)}}, nil
}

func inferPool(n *Node) (Type, error) {
	rows, d, err := n.matrix(0)
	if err != nil {
		return Type{}, err
	}
	if want := (Dim{Tokens, 1}); rows != want {
		return Type{}, fmt.Errorf("operand x (%s) is %s: its rows must be the tokens, %s", n.In[0].ref(), n.In[0].Type, Tokens)
	}
	return Type{F32, []Dim{{Sequences, 1}, Size(d)}}, nil
}

func inferQuantize(n *Node) (Type, error) {
	if t := n.In[0].Type; t.Elem != F32 {
		return Type{}, fmt.Errorf("operand x (%s) is %s, not f32", n.In[0].ref(), t)
	}
	return n.quantised(n.In[0].Type, n.Attrs.Text("per"))
}
