package graph

import (
	"slices"
	"strconv"
)

// uses answers the questions of passes about a graph. It is stale once the graph has changed.
type uses struct {
	g        *Graph
	users    map[*Value][]*Node
	producer map[*Value]*Node
	names    map[string]bool
}

func usesOf(g *Graph) *uses {
	u := &uses{g: g, users: map[*Value][]*Node{}, producer: map[*Value]*Node{}, names: map[string]bool{}}
	for _, v := range slices.Concat(g.Inputs, g.Weights) {
		u.names[v.Name] = true
	}
	for _, n := range g.Nodes {
		u.producer[n.Out] = n
		u.names[n.Out.Name] = true
		for _, v := range n.In {
			u.users[v] = append(u.users[v], n)
		}
	}
	return u
}

// rewrite offers every node to match, which may change the graph and says whether it did.
func rewrite(g *Graph, match func(u *uses, n *Node) bool) {
	u := usesOf(g)
	for _, n := range slices.Clone(g.Nodes) {
		if u.producer[n.Out] == n && match(u, n) {
			g.orderWeights()
			u = usesOf(g)
		}
	}
}

// made is the node of this operation that produces v, if v is used only once: fusing it then changes nothing for others.
func (u *uses) made(v *Value, op Op) *Node {
	n := u.producer[v]
	if n == nil || n.Op != op || !u.once(v) {
		return nil
	}
	return n
}

// once reports whether v is read exactly once and not returned.
func (u *uses) once(v *Value) bool {
	return len(u.users[v]) == 1 && !slices.Contains(u.g.Outputs, v)
}

// fresh makes a name that nothing has yet.
func (u *uses) fresh(name string) string {
	unique := name
	for i := 2; u.names[unique]; i++ {
		unique = name + "." + strconv.Itoa(i)
	}
	u.names[unique] = true
	return unique
}

func (g *Graph) remove(dead ...*Node) {
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *Node) bool { return slices.Contains(dead, n) })
}

// removeUnused removes those of the nodes whose result nobody reads any more.
func (g *Graph) removeUnused(nodes ...*Node) {
	for _, n := range nodes {
		u := usesOf(g)
		if n != nil && len(u.users[n.Out]) == 0 && !slices.Contains(g.Outputs, n.Out) {
			g.remove(n)
		}
	}
}

func (g *Graph) insertBefore(at, n *Node) {
	g.Nodes = slices.Insert(g.Nodes, slices.Index(g.Nodes, at), n)
}

// replace lets every reader of old read v.
func (g *Graph) replace(old, v *Value) {
	for _, n := range g.Nodes {
		for i := range n.In {
			if n.In[i] == old {
				n.In[i] = v
			}
		}
	}
	for i := range g.Outputs {
		if g.Outputs[i] == old {
			g.Outputs[i] = v
		}
	}
}

// attrsOf builds attributes in the order of their keys.
func attrsOf(values A) Attrs {
	var a Attrs
	for key, val := range values {
		a.Set(key, val)
	}
	return a
}
