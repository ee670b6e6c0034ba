package graph

import (
	"fmt"
	"slices"
)

// fuseRope moves the rotation and the norms of query and key heads into attention.
func fuseRope(g *Graph, r *Report) error {
	rewrite(g, func(e *editor, n *Node) {
		if n.Op != OpAttention || n.Attrs.Flag("packed") {
			return
		}
		where := fmt.Sprintf("rope of layer %d", n.Attrs.Int("layer", 0))
		done := e.absorbRope(n, where, r)
		for i, name := range []string{"qnorm", "knorm"} {
			done = e.absorbHeadNorm(n, i, name, where, r) || done
		}
		if e.pack(n) || done {
			r.applied("rope")
		}
	})
	return nil
}

// absorbRope takes the two rotations if they are the same.
func (e *editor) absorbRope(n *Node, where string, r *Report) bool {
	if n.Attrs.Text("rope") != "" || n.Attrs.Get("eps") != nil {
		return false // attention rotates already, or norms what was rotated before
	}
	q, k := e.producer[n.In[0]], e.producer[n.In[1]]
	if q == nil || k == nil || q.Op != OpRope && k.Op != OpRope {
		return false
	}
	if e.made(n.In[0], OpRope) == nil || e.made(n.In[1], OpRope) == nil {
		r.skip("rope", where, "rotated value used elsewhere", "or only one of q and k is rotated")
		return false
	}
	qa, ka := slices.Clone(q.Attrs), slices.Clone(k.Attrs)
	qa.Set("heads", 0)
	ka.Set("heads", 0)
	if !slices.Equal(qa, ka) || q.Operand("freqs") != k.Operand("freqs") || q.Attrs.Int("dim", 0) != n.Attrs.Int("dim", 0) {
		r.skip("rope", where, "rotations of q and k differ", "")
		return false
	}
	for _, key := range []string{"rope", "rotated", "rope_base", "rope_factor", "freqs"} {
		if v := q.Attrs.Get(key); v != nil {
			n.Attrs.Set(key, v)
		}
	}
	in := append([]*Value{q.In[0], k.In[0]}, n.In[2:]...)
	if f := q.Operand("freqs"); f != nil {
		in = append(in, f)
	}
	e.read(n, in...)
	e.removeUnused(q, k)
	return true
}

// absorbHeadNorm takes the norm of operand i, q or k, whose weight becomes the operand name. Attention norms before it rotates, so a norm of what an earlier
// pass left rotated stays where it is.
func (e *editor) absorbHeadNorm(n *Node, i int, name, where string, r *Report) bool {
	norm := e.made(n.In[i], OpRMSNorm)
	if norm == nil || n.Attrs.Flag(name) {
		return false
	}
	heads, dim := n.In[i].Type.last()/n.Attrs.Int("dim", 1), n.Attrs.Int("dim", 0)
	if norm.Attrs.Int("groups", 1) != heads || norm.In[1].Type.last() != dim || norm.Attrs.Flag("residual") {
		return false
	}
	eps := norm.Attrs.Float("eps", 0)
	if have := n.Attrs.Get("eps"); have != nil && have != eps {
		r.skip("rope", where, "norms of q and k differ", fmt.Sprintf("eps %v, %v", have, eps))
		return false
	}
	n.Attrs.Set("eps", eps)
	n.Attrs.Set(name, true)
	in := slices.Insert(slices.Clone(n.In), slices.Index(n.Operands(), name), norm.In[1])
	in[i] = norm.In[0]
	e.read(n, in...)
	e.removeUnused(norm)
	return true
}

// fuseResidual adds a residual where the other summand is made: in a product, or in the norm after it.
func fuseResidual(g *Graph, r *Report) error {
	rewrite(g, func(e *editor, n *Node) {
		if n.Op != OpAdd || n.Attrs.Text("quant") != "" || !n.In[0].Type.Equal(n.In[1].Type) {
			return
		}
		for _, i := range []int{1, 0} {
			made, other := e.made(n.In[i], OpMatMul), n.In[1-i]
			if made == nil {
				made = e.made(n.In[i], OpRMSNorm)
			}
			if made == nil || made.Attrs.Flag("residual") || made.Out.Type.Elem != F32 || other.Weight != nil {
				continue
			}
			attrs := slices.Clone(made.Attrs)
			attrs.Set("residual", true)
			e.become(n, made.Op, attrs, append(slices.Clone(made.In), other)...)
			e.removeUnused(made)
			r.applied("residual")
			return
		}
	})
	return nil
}

// fuseQuantize lets the producer of a value write it as int8 if nothing reads it as float32.
func fuseQuantize(g *Graph, r *Report) error {
	rewrite(g, func(e *editor, n *Node) {
		if n.Op != OpQuantize {
			return
		}
		from := e.producer[n.In[0]]
		where := "quantise of " + n.In[0].ref()
		switch {
		case from == nil:
			r.skip("normquant", where, "an input of the graph", "")
			return
		case !quantises(from.Op):
			r.skip("normquant", where, "producer cannot quantise", string(from.Op))
			return
		case !e.once(n.In[0]):
			r.skip("normquant", where, "also used as float32", "")
			return
		}
		from.Attrs.Set("quant", n.Attrs.Text("per"))
		e.produce(from, n.Out)
		r.applied("normquant")
	})
	return nil
}

// quantises reports whether an operation has the attribute quant.
func quantises(op Op) bool {
	spec, _ := specOf(op)
	_, ok := spec.spec("quant")
	return ok
}
