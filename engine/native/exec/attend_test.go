package exec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/graph"
)

// small is a decoder of one layer whose weights the graph holds itself.
type small struct {
	heads, kv, dim, window int
	softcap                float64
	plan                   string
	kv8                    bool
	scale                  float64 // of the values, 0 for 1
}

const smallVocab = 50

func (c small) graph(t *testing.T) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(c.heads*c.dim)))
	b := graph.NewBuilder("small")
	b.Symbol(graph.Tokens, 1, 8192)
	b.Symbol(graph.Wanted, 0, 8192)
	tokens, rows := b.Input("tokens", graph.I32, graph.Dim{Symbol: graph.Tokens, N: 1}), b.Input("rows", graph.I32, graph.Dim{Symbol: graph.Wanted, N: 1})
	width := 32
	weight := func(name string, class graph.Class, scale float64, shape ...int) *graph.Value {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(r.NormFloat64() * scale)
		}
		return b.Const(name, class, data, shape...)
	}
	x := b.Add(graph.OpEmbed, "x", nil, tokens, weight("table", graph.ClassEmbed, 1, smallVocab, width))
	q := b.Add(graph.OpMatMul, "q", nil, x, weight("wq", graph.ClassAttention, 0.3, c.heads*c.dim, width))
	k := b.Add(graph.OpMatMul, "k", nil, x, weight("wk", graph.ClassAttention, 0.3, c.kv*c.dim, width))
	v := b.Add(graph.OpMatMul, "v", nil, x, weight("wv", graph.ClassAttention, 0.3*max(1, c.scale), c.kv*c.dim, width))
	a := b.Add(graph.OpAttention, "a", graph.A{
		"layer": 0, "heads": c.heads, "kv": c.kv, "dim": c.dim, "scale": 0.3, "causal": true, "window": c.window, "softcap": c.softcap,
	}, q, k, v)
	o := b.Add(graph.OpMatMul, "o", nil, a, weight("wo", graph.ClassAttention, 0.2, width, c.heads*c.dim))
	m := b.Add(graph.OpRMSNorm, "m", graph.A{"eps": 1e-5}, o, weight("norm", graph.ClassNorm, 1, width))
	z := b.Add(graph.OpAdd, "z", nil, m, o)
	out := b.Add(graph.OpMatMul, "out", nil, z, weight("wout", graph.ClassHead, 0.3, 24, width))
	g, err := b.Graph(b.Add(graph.OpSelect, "logits", nil, out, rows))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (c small) compile(t *testing.T) (*Program, error) {
	t.Helper()
	g := c.graph(t)
	policy, err := graph.NewPrecision(c.plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := graph.Optimize(g, policy); err != nil {
		t.Fatal(err)
	}
	p, _, err := Compile(g, nil, Options{KV8: c.kv8, Context: 1000, Threads: 2})
	return p, err
}

// interpret computes every row with graph.Eval.
func (c small) interpret(t *testing.T, ids []int32) [][]float32 {
	t.Helper()
	rows := make([]int32, len(ids))
	for i := range rows {
		rows[i] = int32(i)
	}
	ints := func(v []int32) graph.Tensor { return graph.Tensor{Shape: []int{len(v)}, Ints: v} }
	out, err := graph.Eval(c.graph(t), map[string]graph.Tensor{"tokens": ints(ids), "rows": ints(rows)}, graph.Env{})
	if err != nil {
		t.Fatal(err)
	}
	n := out[0].Shape[1]
	want := make([][]float32, len(ids))
	for i := range want {
		want[i] = out[0].Data[i*n : (i+1)*n]
	}
	return want
}

func someTokens(n int) []int32 {
	r, ids := rand.New(rand.NewPCG(7, uint64(n))), make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(smallVocab))
	}
	return ids
}

// Attention over several pages computes what the interpreter computes, with windows that begin and end anywhere in a page, many
// heads to a key and soft caps; and its bits do not depend on how many tokens are computed together.
func TestAttentionOverPages(t *testing.T) {
	ids := someTokens(200)
	for _, c := range []small{
		{heads: 4, kv: 2, dim: 8},
		{heads: 4, kv: 2, dim: 16, window: 1},
		{heads: 2, kv: 1, dim: 32, window: 63},
		{heads: 3, kv: 3, dim: 8, window: 64},
		{heads: 4, kv: 2, dim: 8, window: 65},
		{heads: 4, kv: 4, dim: 8, window: 130, softcap: 3},
		{heads: 20, kv: 1, dim: 8},
		{heads: 34, kv: 2, dim: 4, window: 100},
	} {
		for _, kv8 := range []bool{false, true} {
			c.plan, c.kv8 = "f32", kv8
			prog, err := c.compile(t)
			if err != nil {
				t.Fatal(err)
			}
			want := c.interpret(t, ids)
			got := run(t, prog, tiers()[0], 2, 1000, ids)
			bound := 0.02
			if kv8 {
				bound = 0.6
			}
			for i := range want {
				if d := distance(got[0][i], want[i]); d > bound {
					t.Errorf("%+v: row %d differs by %g", c, i, d)
					break
				}
			}
			for _, chunk := range []int{1, 17, 64} {
				if again := run(t, prog, tiers()[0], 3, chunk, ids); !equal(again, got) {
					t.Errorf("%+v: chunks of %d differ", c, chunk)
				}
			}
		}
	}
}

// A norm whose result is added to something and then quantised.
func TestNormWithResidualIsQuantised(t *testing.T) {
	c := small{heads: 4, kv: 2, dim: 8, plan: "int8"}
	ids := someTokens(40)
	prog, err := c.compile(t)
	if err != nil {
		t.Fatal(err)
	}
	got, want := run(t, prog, tiers()[0], 2, 1000, ids), c.interpret(t, ids)
	for i := range want {
		if d := distance(got[0][i], want[i]); d > 0.15 {
			t.Fatalf("row %d differs by %g", i, d)
		}
	}
}

// Values that half precision cannot hold do not reach tokens before them.
func TestLargeValuesDoNotReachBack(t *testing.T) {
	c := small{heads: 4, kv: 2, dim: 8, plan: "f32", scale: 1e7}
	ids := someTokens(20)
	prog, err := c.compile(t)
	if err != nil {
		t.Fatal(err)
	}
	together, alone := run(t, prog, tiers()[0], 2, 1000, ids), run(t, prog, tiers()[0], 2, 1, ids)
	if !equal(together, alone) {
		t.Error("tokens computed together differ from tokens computed one after the other")
	}
	for i, row := range together[0] {
		for _, v := range row {
			if math.IsNaN(float64(v)) {
				t.Fatalf("row %d is no number", i)
			}
		}
	}
}

// What a plan cannot hold is refused when the model is compiled, not by the first request.
func TestCompileRefusesHeadsThatBytesCannotHold(t *testing.T) {
	for dim, ok := range map[int]bool{2: false, 6: false, 8: true, 10: false} {
		p, err := small{heads: 2, kv: 2, dim: dim, plan: "f32", kv8: true}.compile(t)
		if (err == nil) != ok || (err != nil && !strings.Contains(err.Error(), "-kv8")) {
			t.Errorf("heads of %d: %v", dim, err)
		}
		if p != nil {
			_ = p.Close()
		}
	}
}

// The rotations are the same bits on every processor: this is their digest.
func TestRotationsArePinned(t *testing.T) {
	prog := &Program{context: 4096, rotations: []*rotation{{rotated: 128, base: 1e6, factor: 1}, {rotated: 64, base: 1e5, factor: 1}}}
	p := &Pass{prog: prog, tables: make([][]float32, 2)}
	sum := uint64(14695981039346656037)
	for i := range p.tables {
		p.growTable(i, 4096)
		for _, v := range p.tables[i] {
			sum = (sum ^ uint64(math.Float32bits(v))) * 1099511628211
		}
	}
	if got := fmt.Sprintf("%016x", sum); got != rotationsDigest {
		t.Errorf("digest %s, want %s", got, rotationsDigest)
	}
}

const rotationsDigest = "5c2fe1fc855be39d"
