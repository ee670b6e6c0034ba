package graph

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the after part of the pass tests anew")

// plans are the precisions that the property tests go through.
func plans(t testing.TB) []Precision {
	var out []Precision
	for _, name := range []string{"native", "int8", "f16", "f32"} {
		p, err := NewPrecision(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	head, err := NewPrecision("int8", map[string]string{"head": "i8"})
	if err != nil {
		t.Fatal(err)
	}
	return append(out, head)
}

// Every pass keeps the meaning of every graph, alone and after the passes before it.
func TestPassesKeepMeaning(t *testing.T) {
	var mu sync.Mutex
	applied := map[string]int{}
	t.Cleanup(func() {
		for _, p := range Passes(Precision{})[1:] {
			if applied[p.Name] < 20 {
				t.Errorf("the samples gave %s only %d rewrites to do", p.Name, applied[p.Name])
			}
		}
	})
	eachSample(t, 20, func(t *testing.T, s *sample) {
		want := s.eval(t, s.g)
		for _, p := range plans(t) {
			g, r := s.g.Clone(), &Report{}
			before := g.String()
			for _, pass := range Passes(p) {
				if err := pass.Run(g, r); err != nil {
					t.Errorf("%s: %v", pass.Name, err)
					return
				}
				if err := g.Check(); err != nil {
					t.Errorf("after %s: %v\n%s", pass.Name, err, g)
					return
				}
				after := g.String()
				if after == before {
					continue
				}
				before = after
				if err := closeTo(want, s.eval(t, g), 1e-5); err != nil {
					t.Errorf("after %s of plan %s: %v\n%s", pass.Name, p.Name, err, g)
					return
				}
			}
			roundTrip(t, g)
			mu.Lock()
			for name, count := range r.Applied {
				applied[name] += count
			}
			mu.Unlock()
		}
	})
}

// Any pass can be switched off without hurting the others.
func TestPassesWithoutOne(t *testing.T) {
	eachSample(t, 6, func(t *testing.T, s *sample) {
		want := s.eval(t, s.g)
		p := plans(t)[0]
		for _, off := range Passes(p) {
			g := s.g.Clone()
			if _, err := Optimize(g, p, off.Name); err != nil {
				t.Errorf("without %s: %v", off.Name, err)
				return
			}
			if err := closeTo(want, s.eval(t, g), 1e-5); err != nil {
				t.Errorf("without %s: %v", off.Name, err)
			}
		}
	})
}

// A second run finds nothing left to do.
func TestOptimizeIsIdempotent(t *testing.T) {
	eachSample(t, 10, func(t *testing.T, s *sample) {
		for _, p := range plans(t) {
			if _, err := Optimize(s.g, p); err != nil {
				t.Fatal(err)
			}
			before := s.g.String()
			r, err := Optimize(s.g, p)
			if err != nil {
				t.Fatal(err)
			}
			if after := s.g.String(); before != after || len(r.Applied) > 0 {
				t.Errorf("changed again: %v\n%s\n%s", r.Applied, before, after)
			}
		}
	})
}

func TestOptimizeUnknownPass(t *testing.T) {
	g := tinyGraph(t)
	before := g.String()
	_, err := Optimize(g, plans(t)[0], "qkv", "vectorise")
	if err == nil || !strings.Contains(err.Error(), `"vectorise"`) || !strings.Contains(err.Error(), "normquant") {
		t.Fatalf("error %v does not name the pass and the known ones", err)
	}
	if g.String() != before {
		t.Fatal("the graph was changed")
	}
}

// Each file of testdata/passes holds a graph, the passes to run on it, and what comes out: the graph after, and the report.
func TestPassFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/passes/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { passFile(t, file) })
	}
}

func passFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), "-- before --\n")
	before, after, ok2 := strings.Cut(rest, "-- after --\n")
	if !ok || !ok2 {
		t.Fatal("needs the lines -- before -- and -- after --")
	}
	g, err := Parse(before)
	if err != nil {
		t.Fatal(err)
	}
	plan, passes := "native", ""
	for line := range strings.Lines(head) {
		if value, ok := strings.CutPrefix(line, "plan: "); ok {
			plan = strings.TrimSpace(value)
		}
		if value, ok := strings.CutPrefix(line, "passes: "); ok {
			passes = strings.TrimSpace(value)
		}
	}
	p, err := NewPrecision(plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{}
	for _, pass := range Passes(p) {
		if passes != "all" && !slices.Contains(strings.Fields(passes), pass.Name) {
			continue
		}
		if err := pass.Run(g, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	got := g.String()
	for _, s := range r.Skipped {
		got += s.Pass + ": " + s.String() + "\n"
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+"-- before --\n"+before+"-- after --\n"+got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != after {
		t.Errorf("after differs; run with -update and look at the change:\n%s", got)
	}
}

// A model of the usual kind ends up with one product for qkv, one for gate and up, and no norm, rope, add or quantise left over.
func TestOptimizeDecoderShape(t *testing.T) {
	m := newModeller(rand.New(rand.NewPCG(1, 2)), "plain")
	m.formats, m.stored = []string{"q4_1"}, "q4_1"
	m.bias, m.headNorm, m.postNorm, m.rope, m.freqs = false, true, true, true, false
	m.dim, m.hidden, m.headDim = 64, 64, 32
	m.kv = 1 // the norm of a single head has one group
	tok := m.Symbol(Tokens, 1, 64)
	x := m.Add(OpEmbed, "x", nil, m.Input("tokens", I32, tok), m.matrix("embd", ClassEmbed, 50, m.dim))
	n := m.norm("n", x, "norm1")
	q := m.product("q", n, "attn_q", ClassAttention, m.heads*m.headDim)
	k := m.product("k", n, "attn_k", ClassAttention, m.headDim)
	v := m.product("v", n, "attn_v", ClassAttention, m.headDim)
	rope := func(x *Value, heads int) *Value {
		x = m.Add(OpRMSNorm, x.Name+"n", A{"eps": 1e-6, "groups": heads}, x, m.Weight(x.Name+"norm", ClassNorm, "f32", m.headDim))
		return m.Add(OpRope, x.Name+"r", A{"rope": "neox", "heads": heads, "dim": m.headDim, "rotated": m.headDim, "rope_base": 1e6}, x)
	}
	a := m.Add(OpAttention, "a", A{"layer": 0, "heads": m.heads, "kv": 1, "dim": m.headDim, "scale": 1, "causal": true}, rope(q, m.heads), rope(k, 1), v)
	x = m.Add(OpAdd, "x1", nil, x, m.norm("post", m.product("o", a, "attn_output", ClassAttention, m.dim), "post_norm"))
	x = m.Add(OpAdd, "x2", nil, x, m.ffn(m.norm("n2", x, "norm2"), true))
	g, err := m.Graph(x)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Optimize(g, plans(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, n := range g.Nodes {
		ops = append(ops, string(n.Op))
	}
	want := "embed rmsnorm matmul attention matmul rmsnorm rmsnorm matmul glu matmul"
	if got := strings.Join(ops, " "); got != want || len(r.Skipped) > 0 {
		t.Fatalf("got  %s\nwant %s\n%v\n%s", got, want, r.Skipped, g)
	}
}
