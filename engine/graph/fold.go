package graph

// maxFolded bounds the constants that folding may make: the outer product of two vectors is large.
const maxFolded = 1 << 20

// fold computes what depends on constants only, and merges scales into each other and into the embedding.
func fold(g *Graph, r *Report) error {
	var failed error
	rewrite(g, func(e *editor, n *Node) {
		if failed != nil {
			return
		}
		done, err := e.foldConstant(n)
		failed = err
		if done || e.foldScale(n) {
			r.applied("fold")
		}
	})
	return failed
}

// foldConstant replaces a node whose operands are all numbers that the graph holds.
func (e *editor) foldConstant(n *Node) (bool, error) {
	switch n.Op {
	case OpEmbed, OpRope, OpAttention, OpSelect, OpPool, OpQuantize, OpConv2D, OpMaxPool2D, OpAvgPool2D:
		return false, nil // these depend on the tokens of a step, or need operands that a constant cannot be
	default:
	}
	for _, v := range n.In {
		if v.Weight == nil || v.Weight.Data == nil {
			return false, nil
		}
	}
	if size := n.Out.Type.elements(); n.Out.Type.Elem != F32 || size == 0 || size > maxFolded || e.returned[n.Out] {
		return false, nil
	}
	t, err := (&evaluator{}).node(n)
	if err != nil {
		return false, err
	}
	class := n.In[0].Weight.Class
	v := &Value{Name: n.Out.Name, Type: n.Out.Type, Weight: &Weight{Class: class, Data: t.Data}}
	e.replace(n.Out, v)
	e.remove(n)
	return true, nil
}

// foldScale drops a scale by one, and multiplies a scale into the scale or embedding that feeds it.
func (e *editor) foldScale(n *Node) bool {
	if n.Op != OpScale || e.returned[n.Out] {
		return false
	}
	by, x := n.Attrs.Float("by", 1), n.In[0]
	if by == 1 {
		e.replace(n.Out, x)
		e.remove(n)
		return true
	}
	from, key := e.made(x, OpScale), "by"
	if from == nil {
		from, key = e.made(x, OpEmbed), "scale"
	}
	if from == nil {
		return false
	}
	product := from.Attrs.Float(key, 1) * by
	spec, _ := specOf(from.Op)
	if a, _ := spec.spec(key); a.check(product) != nil {
		return false // it overflows
	}
	from.Attrs.Set(key, product)
	e.replace(n.Out, x)
	e.remove(n)
	return true
}
