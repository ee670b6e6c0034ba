package exec

import (
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/kernel"
)

// The tiny models of package arch, with what the transformers library computes for them.
func families() []string {
	return []string{"llama", "mistral", "qwen2", "qwen3", "gemma3", "bert", "xlm-roberta"}
}

type expectation struct {
	Tokens    []int32     `json:"tokens"`
	Logits    [][]float32 `json:"logits"`
	Embedding []float32   `json:"embedding"`
}

func expected(t *testing.T, family string) []expectation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "arch", "testdata", family, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []expectation
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 2 {
		t.Fatal(len(all), err)
	}
	return all
}

// tiers returns what this machine computes with, and the reference.
func tiers() []kernel.Kernels {
	best := kernel.Detect(slog.New(slog.DiscardHandler))
	if best.ISA() == kernel.Generic().ISA() {
		return []kernel.Kernels{best}
	}
	return []kernel.Kernels{best, kernel.Generic()}
}

func compileFamily(t *testing.T, family, plan string, kv8 bool, without ...string) *Program {
	t.Helper()
	return compileChanged(t, family, plan, kv8, func(_ string, x Tensor) Tensor { return x }, without...)
}

// compileChanged compiles a family with other weights than it has.
func compileChanged(t *testing.T, family, plan string, kv8 bool, change func(name string, x Tensor) Tensor, without ...string) *Program {
	t.Helper()
	m, err := arch.Open(filepath.Join("..", "..", "arch", "testdata", family))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	policy, err := graph.NewPrecision(plan, nil)
	if plan == "narrow" { // activations of both kinds in one term
		policy, err = graph.NewPrecision("f32", map[string]string{"attention": "i8", "ffn": "q8"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := graph.Optimize(m.Graph, policy, without...); err != nil {
		t.Fatal(err)
	}
	tensors := func(name string) (Tensor, error) {
		x, err := m.Tensor(name)
		if err != nil {
			return nil, err
		}
		return change(name, x), nil
	}
	p, _, err := Compile(m.Graph, tensors, Options{KV8: kv8, Context: m.Config.Context, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// run feeds the texts together, chunk tokens of each at a time, and returns every output in the order of the tokens of each text.
func run(t *testing.T, prog *Program, k kernel.Kernels, threads, chunk int, texts ...[]int32) [][][]float32 {
	t.Helper()
	pool := NewPool(threads)
	defer pool.Close()
	p := prog.NewPass(k, pool)
	out := make([][][]float32, len(texts))
	caches := make([]*Cache, len(texts))
	for i := range texts {
		caches[i] = p.Pages().NewCache()
	}
	for {
		p.Rows = p.Rows[:0]
		var from []int
		for i, text := range texts {
			c := caches[i]
			n := min(chunk, len(text)-c.Len())
			if !c.Reserve(n) {
				t.Fatal("no page is free")
			}
			for range n {
				p.Rows = append(p.Rows, Row{Token: text[c.Len()], Cache: c, Pos: c.Len(), Wanted: true})
				from = append(from, i)
				c.Advance(1)
			}
		}
		if len(p.Rows) == 0 {
			break
		}
		p.Run()
		if prog.output.arena == arenaSequences {
			for i := range p.groups {
				out[i] = append(out[i], slices.Clone(p.Result(i)))
			}
			continue
		}
		for i := range from {
			out[from[i]] = append(out[from[i]], slices.Clone(p.Result(i)))
		}
	}
	for _, c := range caches {
		c.Release()
	}
	if p.Pages().InUse() != 0 {
		t.Error("pages were not given back")
	}
	return out
}

func tokensOf(all []expectation) [][]int32 {
	texts := make([][]int32, len(all))
	for i := range all {
		texts[i] = all[i].Tokens
	}
	return texts
}

func distance(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range got {
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
	}
	return worst
}

// Every architecture computes what the transformers library computes: in float32 as closely as keys and values in half precision
// allow, with weights rounded more loosely.
func TestProgramsAgreeWithTransformers(t *testing.T) {
	for _, family := range families() {
		all := expected(t, family)
		for _, c := range []struct {
			plan  string
			kv8   bool
			bound float64
		}{{"f32", false, 0.02}, {"native", false, 0.02}, {"f16", false, 0.03}, {"f32", true, 0.6}} {
			prog := compileFamily(t, family, c.plan, c.kv8)
			got := run(t, prog, kernel.Detect(slog.New(slog.DiscardHandler)), 2, 1000, tokensOf(all)...)
			worst := 0.0
			for i, e := range all {
				want := e.Logits
				if e.Embedding != nil {
					want = [][]float32{e.Embedding}
				}
				for j := range want {
					worst = max(worst, distance(got[i][j], want[j]))
				}
			}
			if worst > c.bound {
				t.Errorf("%s, plan %s, kv8 %v: differs by %g", family, c.plan, c.kv8, worst)
			}
			t.Logf("%s, plan %s, kv8 %v: differs by %.2g", family, c.plan, c.kv8, worst)
		}
	}
}

// Which rows are computed together, on how many threads, on which instruction set, and whether passes fused anything: the bits are
// the same.
func TestResultsDoNotDependOnBatchThreadsOrTier(t *testing.T) {
	for _, family := range families() {
		texts := tokensOf(expected(t, family))
		for _, c := range []struct {
			plan string
			kv8  bool
		}{{"f32", false}, {"int8", false}, {"int8", true}} {
			prog := compileFamily(t, family, c.plan, c.kv8)
			encoder := prog.output.arena == arenaSequences
			want := run(t, prog, kernel.Generic(), 1, 1000, texts...)
			for _, k := range tiers() {
				for _, threads := range []int{1, 2, 3} {
					for _, chunk := range []int{1, 3, 1000} {
						if encoder && chunk != 1000 {
							continue
						}
						if got := run(t, prog, k, threads, chunk, texts...); !equal(got, want) {
							t.Errorf("%s, plan %s, kv8 %v: %s, %d threads, chunks of %d differ", family, c.plan, c.kv8, k.ISA(), threads, chunk)
						}
					}
				}
				for i, text := range texts {
					if got := run(t, prog, k, 2, 1000, text); !equal(got, want[i:i+1]) {
						t.Errorf("%s, plan %s, kv8 %v: %s, text %d alone differs", family, c.plan, c.kv8, k.ISA(), i)
					}
				}
			}
			// A residual that is added to two terms one after the other is rounded differently: that fusion stays.
			unfused := compileFamily(t, family, c.plan, c.kv8, "qkv", "gateup", "rope", "rows", "normquant")
			if got := run(t, unfused, tiers()[0], 2, 1000, texts...); !equal(got, want) {
				t.Errorf("%s, plan %s, kv8 %v: without fusion the result differs", family, c.plan, c.kv8)
			}
		}
	}
}

func equal(a, b [][][]float32) bool {
	return slices.EqualFunc(a, b, func(x, y [][]float32) bool { return slices.EqualFunc(x, y, slices.Equal[[]float32]) })
}

// A step allocates nothing once the memory for its size is there.
func TestRunDoesNotAllocate(t *testing.T) {
	for _, kv8 := range []bool{false, true} {
		prog := compileFamily(t, "llama", "int8", kv8)
		pool := NewPool(2)
		defer pool.Close()
		p := prog.NewPass(tiers()[0], pool)
		c := p.Pages().NewCache()
		c.Reserve(100)
		step := func() {
			p.Rows = append(p.Rows[:0], Row{Token: 3, Cache: c, Pos: c.Len(), Wanted: true})
			c.Advance(1)
			p.Run()
		}
		step()
		if n := testing.AllocsPerRun(50, step); n > 0 {
			t.Errorf("kv8 %v: %.1f allocations in a step", kv8, n)
		}
	}
}
