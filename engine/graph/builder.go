package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A writes attributes in a literal: A{"eps": 1e-5, "groups": 4}. Integers are accepted for numbers with a fraction.
type A map[string]any

// Builder puts a graph together node by node. Shapes are inferred at once; the first mistake is kept and returned by Graph, so that calls need not be checked.
type Builder struct {
	g     *Graph
	names map[string]*Value
	err   error
}

// NewBuilder starts a graph.
func NewBuilder(name string) *Builder {
	return &Builder{g: &Graph{Name: name}, names: map[string]*Value{}}
}

// Err is the first mistake so far.
func (b *Builder) Err() error { return b.err }

func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// Symbol declares a dimension that is known only when a step runs.
func (b *Builder) Symbol(name string, lo, hi int) Dim {
	b.g.Symbols = append(b.g.Symbols, Symbol{name, Range{lo, hi}})
	return Dim{name, 1}
}

func (b *Builder) value(name string, t Type, w *Weight) *Value {
	v := &Value{Name: name, Type: t, Weight: w}
	if b.names[name] != nil {
		b.fail("%s is defined twice", v.ref())
		return v
	}
	b.names[name] = v
	return v
}

// Input declares an input of the graph.
func (b *Builder) Input(name string, elem Elem, shape ...Dim) *Value {
	v := b.value(name, Type{elem, shape}, nil)
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// Weight declares a tensor of the model file, stored there in a format such as "q4_1"; asking again for the same name and shape returns the same weight.
// The type says f32 until the precision pass chooses a format.
func (b *Builder) Weight(name string, class Class, stored string, shape ...int) *Value {
	t := Type{F32, sizes(shape)}
	if v := b.names[name]; v != nil {
		if v.Weight == nil || !v.Type.Equal(t) {
			b.fail("weight @%s %s: the name belongs to %s %s", name, t, v.ref(), v.Type)
		}
		return v
	}
	v := b.value(name, t, &Weight{Class: class, Parts: []string{name}, Stored: stored})
	b.g.Weights = append(b.g.Weights, v)
	return v
}

// Tied declares a weight of another name and class with the content of w, such as the head of a model that shares its embedding: each can get a format of its
// own, and becomes one weight again where the formats agree.
func (b *Builder) Tied(name string, class Class, w *Value) *Value {
	if w == nil || w.Weight == nil {
		b.fail("weight @%s: is tied to something that is not a weight", name)
		return &Value{Name: name, Weight: &Weight{Class: class, Parts: []string{name}}}
	}
	v := b.value(name, w.Type, &Weight{Class: class, Parts: slices.Clone(w.Weight.Parts), Stored: w.Weight.Stored, Data: w.Weight.Data})
	b.g.Weights = append(b.g.Weights, v)
	return v
}

// Const declares a weight whose numbers the builder knows, row by row.
func (b *Builder) Const(name string, class Class, data []float32, shape ...int) *Value {
	v := b.value(name, Type{F32, sizes(shape)}, &Weight{Class: class, Data: data})
	b.g.Weights = append(b.g.Weights, v)
	return v
}

func sizes(shape []int) []Dim {
	dims := make([]Dim, len(shape))
	for i, n := range shape {
		dims[i] = Size(n)
	}
	return dims
}

// Add appends an operation and returns its result, named out.
func (b *Builder) Add(op Op, out string, attrs A, operands ...*Value) *Value {
	n := &Node{Op: op, In: operands, Out: &Value{Name: out, Type: Type{Elem: F32}}}
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		n.Attrs.Set(key, attrs[key])
	}
	if b.err != nil {
		return n.Out
	}
	n.Attrs.normalise(op)
	if b.names[out] != nil {
		b.fail("%s %%%s: the name is taken", op, out)
		return n.Out
	}
	t, err := n.inferType()
	if err != nil {
		b.fail("%s %%%s: %w", op, out, err)
		return n.Out
	}
	n.Out.Type = t
	b.names[out] = n.Out
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out
}

// normalise turns integers into float64 where the op's table says so; the text form does not tell them apart.
func (a Attrs) normalise(op Op) {
	spec, _ := specOf(op)
	for i := range a {
		if s, ok := spec.spec(a[i].Key); ok && s.kind == kindFloat {
			switch v := a[i].Val.(type) {
			case int:
				a[i].Val = float64(v)
			case float32:
				a[i].Val = float64(v)
			}
		}
	}
}

// Graph returns the finished and checked graph.
func (b *Builder) Graph(outputs ...*Value) (*Graph, error) {
	if b.err != nil {
		return nil, fmt.Errorf("graph %s: %w", b.g.Name, b.err)
	}
	if slices.Contains(outputs, nil) {
		return nil, errors.New("an output is nil")
	}
	b.g.Outputs = outputs
	b.g.orderWeights()
	return b.g, b.g.Check()
}

// orderWeights lists the weights that are used, in the order of their first use.
func (g *Graph) orderWeights() {
	var used []*Value
	seen := map[*Value]bool{}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Weight != nil && !seen[v] {
				seen[v] = true
				used = append(used, v)
			}
		}
	}
	g.Weights = used
}
