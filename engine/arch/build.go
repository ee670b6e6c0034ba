package arch

import (
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/engine/graph"
)

// maxTokens bounds the tokens of one step, which may belong to many sequences: the engine feeds long texts in pieces.
const maxTokens = 8192

// builder puts the graph of a model together and checks its tensors on the way.
type builder struct {
	*graph.Builder
	m    *Model
	c    *Config
	used map[string]bool
	err  error
}

// build makes the graph and makes sure that it uses every tensor of the file.
func (m *Model) build() error {
	b := &builder{Builder: graph.NewBuilder(m.Config.Arch), m: m, c: &m.Config, used: map[string]bool{}}
	var out *graph.Value
	if m.Config.Encoder() {
		out = b.encoder()
	} else {
		out = b.decoder()
	}
	if b.err != nil {
		return b.err
	}
	g, err := b.Graph(out)
	if err != nil {
		return err
	}
	m.Graph = g
	return b.unused()
}

// unused names a tensor that the graph does not use: such a file computes something else than the graph does.
func (b *builder) unused() error {
	var names []string
	for name := range b.m.tensors {
		if !b.used[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("the file has the tensor %q, which the architecture %s, as supported here, does not use (%d such tensors)",
		b.m.original(names[0]), b.c.Arch, len(names))
}

func (b *builder) has(name string) bool { return b.m.tensors[name] != nil }

// weight declares a tensor of the file with the shape that the model's numbers call for: rows by columns, or one row.
func (b *builder) weight(name string, class graph.Class, shape ...int) *graph.Value {
	stored := ""
	if b.err == nil {
		stored, b.err = b.check(name, shape)
	}
	b.used[name] = true
	return b.Weight(name, class, stored, shape...)
}

func (b *builder) check(name string, shape []int) (stored string, err error) {
	t, err := b.m.Tensor(name)
	if err != nil {
		return "", err
	}
	rows, cols := 1, shape[len(shape)-1]
	if len(shape) > 1 {
		rows = shape[0]
	}
	if t.Rows() != rows || t.Cols() != cols {
		return "", fmt.Errorf("tensor %q has the shape [%d %d], the model's numbers call for [%d %d]", b.m.original(name), t.Rows(), t.Cols(), rows, cols)
	}
	return t.Format(), nil
}

// matmul multiplies by the tensor name.weight and adds name.bias: always, never, or where the file has it.
func (b *builder) matmul(out string, x *graph.Value, name string, class graph.Class, rows, cols int, bias biasing) *graph.Value {
	attrs, in := graph.A{}, []*graph.Value{x, b.weight(name+".weight", class, rows, cols)}
	if bias == withBias || bias == maybeBias && b.has(name+".bias") {
		attrs["bias"] = true
		in = append(in, b.weight(name+".bias", graph.ClassBias, rows))
	}
	return b.Add(graph.OpMatMul, out, attrs, in...)
}

type biasing uint8

const (
	noBias biasing = iota
	maybeBias
	withBias
)

// rmsnorm normalises x in groups of as many columns as the weight has.
func (b *builder) rmsnorm(out string, x *graph.Value, name string, cols, groups int) *graph.Value {
	attrs := graph.A{"eps": b.c.Eps}
	if groups > 1 {
		attrs["groups"] = groups
	}
	return b.Add(graph.OpRMSNorm, out, attrs, x, b.weight(name+".weight", graph.ClassNorm, cols))
}

func (b *builder) layernorm(out string, x *graph.Value, name string) *graph.Value {
	return b.Add(graph.OpLayerNorm, out, graph.A{"eps": b.c.Eps}, x,
		b.weight(name+".weight", graph.ClassNorm, b.c.Dim), b.weight(name+".bias", graph.ClassBias, b.c.Dim))
}

func (b *builder) add(out string, x, y *graph.Value) *graph.Value {
	return b.Add(graph.OpAdd, out, nil, x, y)
}
