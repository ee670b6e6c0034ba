package graph

import (
	"errors"
	"fmt"
	"slices"
)

// Check reports the first thing that is wrong with the graph: names used twice or before they are defined, unknown operations, attributes or symbols, operands
// that do not fit, recorded types that differ from the inferred ones. The error names the node.
func (g *Graph) Check() error {
	c := checker{g: g, defined: map[string]*Value{}, layers: map[int]string{}}
	if err := c.symbols(); err != nil {
		return fmt.Errorf("graph %s: %w", g.Name, err)
	}
	for _, v := range g.Inputs {
		if err := c.input(v); err != nil {
			return fmt.Errorf("graph %s: %w", g.Name, err)
		}
	}
	for _, v := range g.Weights {
		if err := c.weight(v); err != nil {
			return fmt.Errorf("graph %s: %w", g.Name, err)
		}
	}
	for _, n := range g.Nodes {
		if err := c.node(n); err != nil {
			return fmt.Errorf("graph %s: %w", g.Name, err)
		}
	}
	if err := c.outputs(); err != nil {
		return fmt.Errorf("graph %s: %w", g.Name, err)
	}
	return nil
}

type checker struct {
	g       *Graph
	defined map[string]*Value
	layers  map[int]string // causal attention by its layer: two that share a cache would overwrite each other
}

func (c *checker) symbols() error {
	for i, s := range c.g.Symbols {
		if s.Name == "" || s.Min < 0 || s.Max < s.Min || s.Max > maxDim {
			return fmt.Errorf("symbol %q: range %d..%d is not inside 0..%d", s.Name, s.Min, s.Max, maxDim)
		}
		if slices.ContainsFunc(c.g.Symbols[:i], func(o Symbol) bool { return o.Name == s.Name }) {
			return fmt.Errorf("symbol %s is declared twice", s.Name)
		}
	}
	return nil
}

func (c *checker) define(v *Value) error {
	if v.Name == "" {
		return errors.New("a value has no name")
	}
	if c.defined[v.Name] != nil {
		return fmt.Errorf("%s is defined twice", v.ref())
	}
	c.defined[v.Name] = v
	if err := v.Type.check(); err != nil {
		return fmt.Errorf("%s: %w", v.ref(), err)
	}
	for _, d := range v.Type.Shape {
		if d.Symbol != "" && !slices.ContainsFunc(c.g.Symbols, func(s Symbol) bool { return s.Name == d.Symbol }) {
			return fmt.Errorf("%s: symbol %s is not declared", v.ref(), d.Symbol)
		}
	}
	return nil
}

func (c *checker) input(v *Value) error {
	if v.Weight != nil {
		return fmt.Errorf("input %s is a weight", v.ref())
	}
	if v.Type.Elem != F32 && v.Type.Elem != I32 {
		return fmt.Errorf("input %s is %s: inputs are f32 or i32", v.ref(), v.Type)
	}
	return c.define(v)
}

func (c *checker) weight(v *Value) error {
	w := v.Weight
	if w == nil {
		return fmt.Errorf("%s is listed as a weight but has no content", v.ref())
	}
	if err := c.define(v); err != nil {
		return err
	}
	elements := v.Type.elements()
	switch {
	case elements == 0:
		return fmt.Errorf("%s is %s: weights have constant shapes", v.ref(), v.Type)
	case v.Type.Elem == I32 || quantisedElem(v.Type.Elem):
		return fmt.Errorf("%s: weights are not stored as %s", v.ref(), v.Type.Elem)
	case !knownClass(w.Class):
		return fmt.Errorf("%s: unknown class %q", v.ref(), w.Class)
	case w.Data != nil && len(w.Data) != elements:
		return fmt.Errorf("%s is %s but has %d numbers", v.ref(), v.Type, len(w.Data))
	case (w.Data == nil) == (len(w.Parts) == 0):
		return fmt.Errorf("%s needs either parts of the model file or data", v.ref())
	}
	return nil
}

func (c *checker) node(n *Node) error {
	if n.Out == nil {
		return fmt.Errorf("a %s has no result", n.Op)
	}
	where := fmt.Sprintf("%s %s", n.Op, n.Out.ref())
	if n.Out.Weight != nil {
		return fmt.Errorf("%s: the result is a weight", where)
	}
	for _, v := range n.In {
		if v == nil {
			return fmt.Errorf("%s: an operand is nil", where)
		}
		if c.defined[v.Name] != v {
			return fmt.Errorf("%s: operand %s is not defined before it is used", where, v.ref())
		}
	}
	t, err := n.inferType()
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if !t.Equal(n.Out.Type) {
		return fmt.Errorf("%s: is declared as %s but is %s", where, n.Out.Type, t)
	}
	if n.Op == OpAttention && n.Attrs.Flag("causal") {
		layer := n.Attrs.Int("layer", 0)
		if other := c.layers[layer]; other != "" {
			return fmt.Errorf("%s: layer %d already belongs to %s", where, layer, other)
		}
		c.layers[layer] = n.Out.ref()
	}
	if err := c.define(n.Out); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

func (c *checker) outputs() error {
	if len(c.g.Outputs) == 0 {
		return errors.New("nothing is returned")
	}
	for _, v := range c.g.Outputs {
		if v == nil || c.defined[v.Name] != v {
			return errors.New("a returned value is not defined")
		}
		if v.Weight != nil {
			return fmt.Errorf("the weight %s is returned", v.ref())
		}
	}
	return nil
}
