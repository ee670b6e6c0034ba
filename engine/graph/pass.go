package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Pass rewrites a graph into one that means the same. A rewrite that cannot apply leaves the graph as it is and says why in the report.
type Pass struct {
	Name string
	Run  func(g *Graph, r *Report) error
}

// Skip is a rewrite that did not apply.
type Skip struct {
	Pass   string
	Where  string // "qkv of layer 3"
	Reason string // one of few: fit to label a metric
	Detail string // what exactly, such as the formats that differ
}

// String prints "qkv of layer 3: formats differ (q4k, q6k)".
func (s Skip) String() string {
	if s.Detail == "" {
		return s.Where + ": " + s.Reason
	}
	return s.Where + ": " + s.Reason + " (" + s.Detail + ")"
}

// Report says what the passes did: how many rewrites each made, and which they did not make.
type Report struct {
	Applied map[string]int
	Skipped []Skip
}

func (r *Report) applied(pass string) {
	if r.Applied == nil {
		r.Applied = map[string]int{}
	}
	r.Applied[pass]++
}

func (r *Report) skip(pass, where, reason, detail string) {
	r.Skipped = append(r.Skipped, Skip{pass, where, reason, detail})
}

// Passes lists the passes in the order in which they run.
func Passes(p Precision) []Pass {
	return []Pass{
		{"infer", infer},
		{"fold", fold},
		{"dce", deadCode},
		{"rows", selectEarly},
		{"precision", p.assign},
		{"qkv", fuseQKV},
		{"gateup", fuseGateUp},
		{"rope", fuseRope},
		{"residual", fuseResidual},
		{"normquant", fuseQuantize},
		{"convact", fuseConv},
	}
}

// Optimize runs all passes on g except the named ones, and checks the graph after each.
func Optimize(g *Graph, p Precision, without ...string) (*Report, error) {
	passes := Passes(p)
	for _, name := range without {
		if !slices.ContainsFunc(passes, func(p Pass) bool { return p.Name == name }) {
			names := make([]string, len(passes))
			for i, p := range passes {
				names[i] = p.Name
			}
			return nil, fmt.Errorf("there is no pass %q to switch off; there are: %s", name, strings.Join(names, ", "))
		}
	}
	if err := g.Check(); err != nil {
		return nil, err
	}
	r := &Report{}
	for _, pass := range passes {
		if slices.Contains(without, pass.Name) {
			continue
		}
		if err := pass.Run(g, r); err != nil {
			return r, fmt.Errorf("pass %s: %w", pass.Name, err)
		}
		if err := g.Check(); err != nil {
			return r, fmt.Errorf("pass %s broke the graph: %w", pass.Name, err)
		}
	}
	return r, nil
}

// infer recomputes the type of every node.
func infer(g *Graph, _ *Report) error {
	for _, n := range g.Nodes {
		t, err := n.inferType()
		if err != nil {
			return fmt.Errorf("%s %s: %w", n.Op, n.Out.ref(), err)
		}
		n.Out.Type = t
	}
	return nil
}

// deadCode removes nodes and weights that no output needs.
func deadCode(g *Graph, r *Report) error {
	needed := map[*Value]bool{}
	for _, v := range g.Outputs {
		needed[v] = true
	}
	kept := []*Node{}
	for _, n := range slices.Backward(g.Nodes) {
		if !needed[n.Out] {
			r.applied("dce")
			continue
		}
		for _, v := range n.In {
			needed[v] = true
		}
		kept = append(kept, n)
	}
	slices.Reverse(kept)
	g.Nodes = kept
	g.orderWeights()
	return nil
}

// Clone copies a graph, so that passes can change one and leave the other. The numbers of constants are shared.
func (g *Graph) Clone() *Graph {
	values := map[*Value]*Value{}
	value := func(v *Value) *Value {
		if values[v] == nil {
			c := &Value{Name: v.Name, Type: Type{v.Type.Elem, slices.Clone(v.Type.Shape)}}
			if v.Weight != nil {
				w := *v.Weight
				w.Parts = slices.Clone(w.Parts)
				c.Weight = &w
			}
			values[v] = c
		}
		return values[v]
	}
	all := func(from []*Value) []*Value {
		to := make([]*Value, len(from))
		for i, v := range from {
			to[i] = value(v)
		}
		return to
	}
	c := &Graph{Name: g.Name, Symbols: slices.Clone(g.Symbols), Inputs: all(g.Inputs), Weights: all(g.Weights)}
	for _, n := range g.Nodes {
		c.Nodes = append(c.Nodes, &Node{Op: n.Op, In: all(n.In), Attrs: slices.Clone(n.Attrs), Out: value(n.Out)})
	}
	c.Outputs = all(g.Outputs)
	return c
}
