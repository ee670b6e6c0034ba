package graph

import "slices"

// selectEarly moves the selection of the rows whose output is wanted up to where rows stop being independent: the last attention. What follows it, a feed-forward
// among others, is then computed for those rows only; a step of a long prompt wants one of them, or none.
func selectEarly(g *Graph, r *Report) error {
	e := edit(g)
	for i := len(g.Nodes) - 1; i >= 0; i-- { // a node comes after all its readers, so that one sweep moves a selection all the way
		n := g.Nodes[i]
		if rows := e.selectedBy(n); rows != nil && n.rowwise() {
			e.selectOperands(n, rows)
			r.applied("rows")
		}
	}
	e.finish()
	return nil
}

// selectedBy is the operand rows of the selections that are the only readers of n's result; nil if there is another reader.
func (e *editor) selectedBy(n *Node) *Value {
	if e.returned[n.Out] || !e.has(n) {
		return nil
	}
	var rows *Value
	for _, user := range e.users[n.Out] {
		if user.Op != OpSelect || rows != nil && user.In[1] != rows {
			return nil
		}
		rows = user.In[1]
	}
	return rows // an input of the graph, as no operation makes integers: known wherever the selection may move
}

// rowwise reports whether each row of the result needs only the same row of the operands.
func (n *Node) rowwise() bool {
	switch n.Op {
	case OpMatMul, OpRMSNorm, OpLayerNorm, OpAct, OpGLU, OpAdd, OpMul, OpScale, OpSoftcap, OpSlice, OpNormalize, OpSoftmax:
	default:
		return false
	}
	for _, v := range n.In {
		if v.Weight == nil && (len(v.Type.Shape) != 2 || v.Type.Elem != F32) {
			return false
		}
	}
	return n.Out.Type.Elem == F32 && len(n.Out.Type.Shape) == 2
}

// selectOperands lets n compute the selected rows only: its operands are selected, and the selections of its result go.
func (e *editor) selectOperands(n *Node, rows *Value) {
	in := make([]*Value, len(n.In))
	for i, v := range n.In {
		in[i] = v
		if v.Weight == nil {
			in[i] = e.selected(n, v, rows)
		}
	}
	e.read(n, in...)
	all, readers := n.Out, slices.Clone(e.users[n.Out])
	// the result takes over a name by which readers of the graph may know it
	some := &Value{Name: readers[0].Out.Name, Type: readers[0].Out.Type}
	delete(e.producer, all)
	n.Out = some
	e.producer[some] = n
	for _, s := range readers {
		e.replace(s.Out, some)
		e.remove(s)
	}
}

// selected is the selection of these rows of v, in front of n; one is shared by all that need it.
func (e *editor) selected(n *Node, v, rows *Value) *Value {
	for _, user := range e.users[v] {
		if user.Op != OpSelect || user.In[1] != rows {
			continue
		}
		if e.place[user] > e.place[n] { // it moves up
			e.remove(user)
			e.insertBefore(n, &Node{Op: OpSelect, In: []*Value{v, rows}, Out: user.Out})
		}
		return user.Out
	}
	out := &Value{Name: e.fresh(v.Name + ".selected"), Type: Type{F32, []Dim{rows.Type.Shape[0], v.Type.Shape[1]}}}
	e.insertBefore(n, &Node{Op: OpSelect, In: []*Value{v, rows}, Out: out})
	return out
}
