package graph

import (
	"slices"
	"strconv"
)

// editor changes a graph and knows at every moment who reads and who produces each value. The list of nodes is put together again at the end, so that a large
// graph takes time in proportion to its size.
type editor struct {
	g        *Graph
	users    map[*Value][]*Node // once for each operand
	producer map[*Value]*Node
	place    map[*Node]int // in the order of the nodes; an inserted node has the place of the one it stands before
	before   map[*Node][]*Node
	names    map[string]bool
	returned map[*Value]bool
}

func edit(g *Graph) *editor {
	e := &editor{
		g: g, users: map[*Value][]*Node{}, producer: map[*Value]*Node{}, place: map[*Node]int{}, before: map[*Node][]*Node{}, names: map[string]bool{},
		returned: map[*Value]bool{},
	}
	for _, v := range slices.Concat(g.Inputs, g.Weights) {
		e.names[v.Name] = true
	}
	for i, n := range g.Nodes {
		e.place[n] = i
		e.names[n.Out.Name] = true
		e.add(n)
	}
	for _, v := range g.Outputs {
		e.returned[v] = true
	}
	return e
}

// rewrite offers every node that is still there to match.
func rewrite(g *Graph, match func(e *editor, n *Node)) {
	e := edit(g)
	for _, n := range g.Nodes {
		if e.has(n) {
			match(e, n)
		}
	}
	e.finish()
}

func (e *editor) finish() {
	var nodes []*Node
	for _, n := range e.g.Nodes {
		for _, b := range append(e.before[n], n) {
			if e.has(b) {
				nodes = append(nodes, b)
			}
		}
	}
	e.g.Nodes = nodes
	e.g.orderWeights()
}

func (e *editor) has(n *Node) bool { return e.producer[n.Out] == n }

// add makes a node known that is in the graph or will be.
func (e *editor) add(n *Node) {
	e.producer[n.Out] = n
	for _, v := range n.In {
		e.users[v] = append(e.users[v], n)
	}
}

// insertBefore adds a new node in front of another.
func (e *editor) insertBefore(at, n *Node) {
	e.before[at] = append(e.before[at], n)
	e.place[n] = e.place[at]
	e.add(n)
}

func (e *editor) remove(n *Node) {
	e.become(n, n.Op, n.Attrs)
	delete(e.producer, n.Out)
}

// removeUnused removes those of the nodes, one after the other, whose result nobody reads any more.
func (e *editor) removeUnused(nodes ...*Node) {
	for _, n := range nodes {
		if e.has(n) && len(e.users[n.Out]) == 0 && !e.returned[n.Out] {
			e.remove(n)
		}
	}
}

// become turns a node into another operation with the same result.
func (e *editor) become(n *Node, op Op, attrs Attrs, in ...*Value) {
	for _, v := range n.In {
		i := slices.Index(e.users[v], n)
		e.users[v] = slices.Delete(e.users[v], i, i+1)
	}
	n.Op, n.Attrs, n.In = op, attrs, in
	for _, v := range in {
		e.users[v] = append(e.users[v], n)
	}
}

// read gives a node other operands.
func (e *editor) read(n *Node, in ...*Value) { e.become(n, n.Op, n.Attrs, in...) }

// produce lets a node produce v, whose producer goes.
func (e *editor) produce(n *Node, v *Value) {
	e.remove(e.producer[v])
	delete(e.producer, n.Out)
	n.Out = v
	e.producer[v] = n
}

// replace lets every reader of old read v.
func (e *editor) replace(old, v *Value) {
	for _, n := range slices.Clone(e.users[old]) {
		if i := slices.Index(n.In, old); i >= 0 {
			in := slices.Clone(n.In)
			for j := range in {
				if in[j] == old {
					in[j] = v
				}
			}
			e.read(n, in...)
		}
	}
	for i := range e.g.Outputs {
		if e.g.Outputs[i] == old {
			e.g.Outputs[i] = v
			e.returned[v] = true
		}
	}
}

// once reports whether v is read exactly once and not returned: fusing it then changes nothing for others.
func (e *editor) once(v *Value) bool { return len(e.users[v]) == 1 && !e.returned[v] }

// made is the node of this operation that produces v, if v is used only once.
func (e *editor) made(v *Value, op Op) *Node {
	n := e.producer[v]
	if n == nil || n.Op != op || !e.once(v) {
		return nil
	}
	return n
}

// fresh makes a name that nothing has yet.
func (e *editor) fresh(name string) string {
	unique := name
	for i := 2; e.names[unique]; i++ {
		unique = name + "." + strconv.Itoa(i)
	}
	e.names[unique] = true
	return unique
}

// attrsOf builds attributes in the order of their keys.
func attrsOf(values A) Attrs {
	var a Attrs
	for key, val := range values {
		a.Set(key, val)
	}
	return a
}
