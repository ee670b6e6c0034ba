package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// stackable says why products of one input cannot become one product, or "".
func (e *editor) stackable(parallel []*Node) (reason, detail string) {
	first := parallel[0]
	var formats []string
	for i, n := range parallel {
		w := n.In[1]
		formats = append(formats, string(w.Type.Elem))
		switch {
		case slices.Contains(parallel[:i], n):
			return "one product has two roles", n.Out.ref()
		case n.In[0] != first.In[0]:
			return "inputs differ", n.In[0].ref()
		case n.Attrs.Flag("residual"):
			return "has a residual", n.Out.ref()
		case n.Attrs.Flag("bias") != first.Attrs.Flag("bias"):
			return "some have a bias", ""
		}
		for _, c := range n.In[1:] {
			if len(e.users[c]) != 1 {
				return "weight used elsewhere", c.ref()
			}
			if (c.Weight.Data == nil) != (first.In[1].Weight.Data == nil) {
				return "part is a constant", c.ref()
			}
		}
	}
	for _, f := range formats {
		if f != formats[0] {
			return "formats differ", strings.Join(formats, ", ")
		}
	}
	return "", ""
}

// stack replaces parallel products by one and a slice of it for each.
func (e *editor) stack(parallel []*Node, name string) {
	prefix := commonPrefix(parallel)
	// before the earliest, where the operands are already defined
	first := slices.MinFunc(parallel, func(a, b *Node) int { return cmp.Compare(e.place[a], e.place[b]) })
	out := &Node{Op: OpMatMul, In: []*Value{parallel[0].In[0]}}
	for i := range parallel[0].In[1:] {
		column := make([]*Value, len(parallel))
		for j, n := range parallel {
			column[j] = n.In[i+1]
		}
		suffix := ""
		if i > 0 {
			suffix = ".bias"
		}
		out.In = append(out.In, stackWeights(column, e.fresh(prefix+name+suffix)))
	}
	if parallel[0].Attrs.Flag("bias") {
		out.Attrs.Set("bias", true)
	}
	total := out.In[1].Type.Shape[0]
	out.Out = &Value{Name: e.fresh(parallel[0].Out.Name + "." + name), Type: Type{F32, []Dim{parallel[0].Out.Type.Shape[0], total}}}
	e.insertBefore(first, out)
	from := 0
	for _, n := range parallel {
		width := n.In[1].Type.Shape[0].N
		e.become(n, OpSlice, attrsOf(A{"from": from, "to": from + width}), out.Out)
		from += width
	}
}

// commonPrefix is what the weights' names begin with, up to a dot.
func commonPrefix(parallel []*Node) string {
	prefix := parallel[0].In[1].Name
	for _, n := range parallel[1:] {
		i := 0
		for i < min(len(prefix), len(n.In[1].Name)) && prefix[i] == n.In[1].Name[i] {
			i++
		}
		prefix = prefix[:i]
	}
	return prefix[:strings.LastIndexByte(prefix, '.')+1]
}

// stackWeights puts the rows of weights under each other.
func stackWeights(parts []*Value, name string) *Value {
	t := Type{parts[0].Type.Elem, slices.Clone(parts[0].Type.Shape)}
	w := &Weight{Class: parts[0].Weight.Class, Stored: parts[0].Weight.Stored}
	t.Shape[0].N = 0
	for _, p := range parts {
		t.Shape[0].N += p.Type.Shape[0].N
		w.Parts = append(w.Parts, p.Weight.Parts...)
		w.Data = append(w.Data, p.Weight.Data...)
		if p.Weight.Stored != w.Stored {
			w.Stored = "mixed"
		}
	}
	return &Value{Name: name, Type: t, Weight: w}
}

// fuseQKV makes the products that feed one attention's queries, keys and values one product, and lets attention read its result where nothing lies between.
func fuseQKV(g *Graph, r *Report) error {
	rewrite(g, func(e *editor, n *Node) {
		if n.Op != OpAttention || n.Attrs.Flag("packed") || e.pack(n) {
			return
		}
		where := fmt.Sprintf("qkv of layer %d", n.Attrs.Int("layer", 0))
		var parallel []*Node
		for _, v := range n.In[:3] {
			m := e.behind(v)
			if m != nil && m.Op == OpSlice {
				return // stacked already; what lies between keeps attention from reading it packed
			}
			if m == nil || m.Op != OpMatMul {
				r.skip("qkv", where, "not a product", v.ref())
				return
			}
			parallel = append(parallel, m)
		}
		if reason, detail := e.stackable(parallel); reason != "" {
			r.skip("qkv", where, reason, detail)
			return
		}
		e.stack(parallel, "qkv")
		e.pack(n)
		r.applied("qkv")
	})
	return nil
}

// behind is the node that produces v, seen through rope and the norms of heads.
func (e *editor) behind(v *Value) *Node {
	n := e.producer[v]
	for n != nil && (n.Op == OpRope || n.Op == OpRMSNorm && !n.Attrs.Flag("residual")) {
		n = e.producer[n.In[0]]
	}
	return n
}

// pack lets attention read q, k and v as one operand if they are the slices of one value that follow each other.
func (e *editor) pack(n *Node) bool {
	if n.Attrs.Flag("packed") {
		return false
	}
	var thirds [3]*Node
	at := 0
	for i := range thirds {
		s := e.producer[n.In[i]]
		if s == nil || s.Op != OpSlice || s.Attrs.Int("from", -1) != at || i > 0 && s.In[0] != thirds[0].In[0] {
			return false
		}
		thirds[i] = s
		at = s.Attrs.Int("to", 0)
	}
	whole := thirds[0].In[0]
	if whole.Type.last() != at {
		return false
	}
	n.Attrs.Set("packed", true)
	e.read(n, slices.Concat([]*Value{whole}, n.In[3:])...)
	e.removeUnused(thirds[:]...)
	return true
}

// fuseGateUp makes the two products of a gated feed-forward one product, and fn(gate)·up one operation.
func fuseGateUp(g *Graph, r *Report) error {
	rewrite(g, func(e *editor, n *Node) {
		if n.Op != OpMul {
			return
		}
		act, up := e.made(n.In[0], OpAct), n.In[1]
		if act == nil {
			act, up = e.made(n.In[1], OpAct), n.In[0]
		}
		if act == nil || act.Attrs.Text("quant") != "" {
			return
		}
		parallel := []*Node{e.made(act.In[0], OpMatMul), e.made(up, OpMatMul)}
		if parallel[0] != nil && parallel[1] != nil {
			if reason, detail := e.stackable(parallel); reason != "" {
				r.skip("gateup", "gate and up of "+n.Out.ref(), reason, detail)
				return
			}
			e.stack(parallel, "gateup")
		}
		if e.absorbHalves(n, act, up) {
			r.applied("gateup")
		}
	})
	return nil
}

// absorbHalves turns act(x[first half])·x[second half] into glu(x).
func (e *editor) absorbHalves(n, act *Node, up *Value) bool {
	a, b := e.producer[act.In[0]], e.producer[up]
	if a == nil || b == nil || a.Op != OpSlice || b.Op != OpSlice || a.In[0] != b.In[0] {
		return false
	}
	whole, half := a.In[0], a.Attrs.Int("to", 0)
	if a.Attrs.Int("from", -1) != 0 || b.Attrs.Int("from", 0) != half || b.Attrs.Int("to", 0) != 2*half || whole.Type.last() != 2*half || len(whole.Type.Shape) != 2 {
		return false
	}
	attrs := attrsOf(A{"fn": act.Attrs.Text("fn")})
	if quant := n.Attrs.Text("quant"); quant != "" {
		attrs.Set("quant", quant)
	}
	e.become(n, OpGLU, attrs, whole)
	e.removeUnused(act, a, b)
	return true
}
