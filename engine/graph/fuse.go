package graph

import (
	"fmt"
	"slices"
)

// fuseRope moves the rotation and the norms of query and key heads into attention.
func fuseRope(g *Graph, r *Report) error {
	rewrite(g, func(u *uses, n *Node) bool {
		if n.Op != OpAttention || n.Attrs.Flag("packed") {
			return false
		}
		where := fmt.Sprintf("rope of layer %d", n.Attrs.Int("layer", 0))
		done := false
		if n.Attrs.Text("rope") == "" && n.Attrs.Get("eps") == nil {
			done = u.absorbRope(n, where, r)
			if done {
				u = usesOf(g)
			}
		}
		for i, name := range []string{"qnorm", "knorm"} {
			if u.absorbHeadNorm(n, i, name, where, r) {
				done, u = true, usesOf(g)
			}
		}
		if g.pack(n) {
			done = true
		}
		if done {
			r.applied("rope")
		}
		return done
	})
	return nil
}

// absorbRope takes the two rotations if they are the same.
func (u *uses) absorbRope(n *Node, where string, r *Report) bool {
	q, k := u.producer[n.In[0]], u.producer[n.In[1]]
	if q == nil || k == nil || q.Op != OpRope && k.Op != OpRope {
		return false
	}
	if u.made(n.In[0], OpRope) == nil || u.made(n.In[1], OpRope) == nil {
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
	if f := q.Operand("freqs"); f != nil {
		n.In = append(n.In, f)
	}
	n.In[0], n.In[1] = q.In[0], k.In[0]
	u.g.remove(q, k)
	return true
}

// absorbHeadNorm takes the norm of operand i, q or k, whose weight becomes the operand name. Attention norms before it rotates, so a norm of what an earlier
// pass left rotated stays where it is.
func (u *uses) absorbHeadNorm(n *Node, i int, name, where string, r *Report) bool {
	norm := u.made(n.In[i], OpRMSNorm)
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
	at := slices.Index(n.Operands(), name)
	n.In = slices.Insert(n.In, at, norm.In[1])
	n.In[i] = norm.In[0]
	u.g.remove(norm)
	return true
}

// fuseResidual adds a residual where the other summand is made: in a product, or in the norm after it.
func fuseResidual(g *Graph, r *Report) error {
	rewrite(g, func(u *uses, n *Node) bool {
		if n.Op != OpAdd || n.Attrs.Text("quant") != "" || !n.In[0].Type.Equal(n.In[1].Type) {
			return false
		}
		for _, i := range []int{1, 0} {
			made, other := u.made(n.In[i], OpMatMul), n.In[1-i]
			if made == nil {
				made = u.made(n.In[i], OpRMSNorm)
			}
			if made == nil || made.Attrs.Flag("residual") || made.Out.Type.Elem != F32 || other.Weight != nil {
				continue
			}
			n.Op, n.In, n.Attrs = made.Op, append(slices.Clone(made.In), other), slices.Clone(made.Attrs)
			n.Attrs.Set("residual", true)
			g.remove(made)
			r.applied("residual")
			return true
		}
		return false
	})
	return nil
}

// fuseQuantize lets the producer of a value write it as int8 if nothing reads it as float32.
func fuseQuantize(g *Graph, r *Report) error {
	rewrite(g, func(u *uses, n *Node) bool {
		if n.Op != OpQuantize {
			return false
		}
		from := u.producer[n.In[0]]
		where := "quantise of " + n.In[0].ref()
		switch {
		case from == nil:
			r.skip("normquant", where, "an input of the graph", "")
			return false
		case !quantises(from.Op):
			r.skip("normquant", where, "producer cannot quantise", string(from.Op))
			return false
		case !u.once(n.In[0]):
			r.skip("normquant", where, "also used as float32", "")
			return false
		}
		from.Attrs.Set("quant", n.Attrs.Text("per"))
		from.Out = n.Out
		g.remove(n)
		r.applied("normquant")
		return true
	})
	return nil
}

// quantises reports whether an operation has the attribute quant.
func quantises(op Op) bool {
	spec, _ := specOf(op)
	_, ok := spec.spec("quant")
	return ok
}
