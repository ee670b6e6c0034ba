package exec

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/lora"
)

// The adapters of package lora's testdata, with what peft computes with them.
func adapters() map[string]string {
	return map[string]string{"llama": "llama", "llama-head": "llama", "qwen2": "qwen2", "gemma3": "gemma3", "bert": "bert"}
}

func loraDir(name string) string { return filepath.Join("..", "..", "lora", "testdata", name) }

func baseOf(t testing.TB, family string) lora.Base {
	t.Helper()
	m, err := arch.Open(filepath.Join("..", "..", "arch", "testdata", family))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return m.Config.AdapterBase()
}

func openAdapter(t testing.TB, prog *Program, family, name string) *Adapter {
	t.Helper()
	f, err := lora.Open(loraDir(name), baseOf(t, family))
	if err != nil {
		t.Fatal(err)
	}
	a, err := prog.NewAdapter(f.Factors())
	if err == nil {
		err = f.Close() // nothing of it is needed any more
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func expectedOf(t *testing.T, name string) []expectation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(loraDir(name), "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []expectation
	if err := json.Unmarshal(data, &all); err != nil || len(all) != 2 {
		t.Fatal(len(all), err)
	}
	return all
}

func worst(got [][][]float32, want []expectation) float64 {
	out := 0.0
	for i, e := range want {
		rows := e.Logits
		if e.Embedding != nil {
			rows = [][]float32{e.Embedding}
		}
		for j := range rows {
			out = max(out, distance(got[i][j], rows[j]))
		}
	}
	return out
}

// runAdapted feeds each text with its adapter, all together, chunk tokens of each at a time.
func runAdapted(t *testing.T, prog *Program, k kernel.Kernels, threads, chunk int, with []*Adapter, texts ...[]int32) [][][]float32 {
	t.Helper()
	pool := NewPool(threads)
	defer pool.Close()
	p := prog.NewPass(k, pool)
	out, caches := make([][][]float32, len(texts)), make([]*Cache, len(texts))
	for i := range texts {
		caches[i] = p.Pages().NewCache()
	}
	for {
		p.Rows = p.Rows[:0]
		var from []int
		for i, text := range texts {
			c := caches[i]
			n := min(chunk, len(text)-c.Len())
			c.Reserve(n)
			for range n {
				p.Rows = append(p.Rows, Row{Token: text[c.Len()], Cache: c, Pos: c.Len(), Wanted: true, Adapter: with[i]})
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
	return out
}

// Every adapter makes of its model what peft makes of it: as closely in float32 as the model without it, more loosely where weights and
// what they read are rounded.
func TestAdaptersAgreeWithPEFT(t *testing.T) {
	for name, family := range adapters() {
		want := expectedOf(t, name)
		for _, c := range []struct {
			plan  string
			bound float64
		}{{"f32", 0.02}, {"f16", 0.03}, {"int8", 0.8}, {"narrow", 0.8}} {
			prog := compileFamily(t, family, c.plan, false)
			a := openAdapter(t, prog, family, name)
			got := worst(runAdapted(t, prog, tiers()[0], 2, 1000, []*Adapter{a, a}, tokensOf(want)...), want)
			without := worst(run(t, prog, tiers()[0], 2, 1000, tokensOf(want)...), want)
			if got > c.bound || without < 10*got {
				t.Errorf("%s, plan %s: differs by %g with the adapter, by %g without", name, c.plan, got, without)
			}
			t.Logf("%s, plan %s: differs by %.2g with the adapter, by %.2g without; %d bytes", name, c.plan, got, without, a.Bytes())
		}
	}
}

// What a row computes with an adapter does not depend on who else is in the batch, with which adapters, on threads, on chunks or on the
// instruction set; rows without one compute what they compute when there is no adapter at all.
func TestAdaptersInOneBatch(t *testing.T) {
	for _, family := range []string{"llama", "gemma3", "bert"} {
		for _, plan := range []string{"f32", "int8", "narrow"} {
			prog := compileFamily(t, family, plan, false)
			with := []*Adapter{openAdapter(t, prog, family, family), nil, random(t, prog, 5, 1), nil, random(t, prog, 40, 2)}
			with = append(with, with[0], with[2])
			texts := tokensOf(expected(t, family))
			for len(texts) < len(with) {
				texts = append(texts, texts[len(texts)-2][:7])
			}
			var alone [][][]float32
			for i := range texts {
				alone = append(alone, runAdapted(t, prog, kernel.Generic(), 1, 1000, with[i:i+1], texts[i])...)
				if with[i] == nil && !equal(alone[i:], run(t, prog, kernel.Generic(), 1, 1000, texts[i])) {
					t.Errorf("%s, plan %s: a row without adapter changes", family, plan)
				}
			}
			for _, k := range tiers() {
				for _, threads := range []int{1, 3} {
					for _, chunk := range []int{3, 1000} {
						if family == "bert" && chunk != 1000 {
							continue
						}
						if got := runAdapted(t, prog, k, threads, chunk, with, texts...); !equal(got, alone) {
							t.Errorf("%s, plan %s: %s, %d threads, chunks of %d differ", family, plan, k.ISA(), threads, chunk)
						}
					}
				}
			}
		}
	}
}

// numbers are a factor in memory.
type numbers struct {
	cols int
	x    []float32
}

func (m numbers) Rows() int                { return len(m.x) / m.cols }
func (m numbers) Cols() int                { return m.cols }
func (m numbers) Row(i int, dst []float32) { copy(dst, m.x[i*m.cols:]) }

func randomNumbers(r *rand.Rand, rows, cols int, gain float64) numbers {
	m := numbers{cols: cols, x: make([]float32, rows*cols)}
	for i := range m.x {
		m.x[i] = float32(r.NormFloat64() * gain)
	}
	return m
}

// randomFactors changes every product of the program.
func randomFactors(prog *Program, rank int, seed uint64) []lora.Factor {
	r := rand.New(rand.NewPCG(seed, 9))
	var out []lora.Factor
	for _, name := range slices.Sorted(maps.Keys(prog.targets)) {
		at := prog.targets[name][0]
		a := randomNumbers(r, rank, at.cols, 1/math.Sqrt(float64(at.cols)))
		b := randomNumbers(r, at.rows, rank, 0.3/math.Sqrt(float64(rank)))
		out = append(out, lora.Factor{Target: name, Scale: 1.5, A: a, B: b})
	}
	return out
}

func random(t testing.TB, prog *Program, rank int, seed uint64) *Adapter {
	t.Helper()
	a, err := prog.NewAdapter(randomFactors(prog, rank, seed))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// merged gives the tensors of a model with an adapter's product added to them.
type merged struct {
	Tensor
	f lora.Factor
}

func (m merged) Row(i int, dst []float32) {
	m.Tensor.Row(i, dst)
	b, a := make([]float32, m.f.B.Cols()), make([]float32, m.f.A.Cols())
	m.f.B.Row(i, b)
	for r, w := range b {
		m.f.A.Row(r, a)
		for c := range dst {
			dst[c] += m.f.Scale * w * a[c]
		}
	}
}

// An adapter computes what a model computes into whose weights it was merged.
func TestAdaptersEqualMergedWeights(t *testing.T) {
	for _, family := range []string{"llama", "qwen3", "xlm-roberta"} {
		for _, c := range []struct {
			plan  string
			bound float64
		}{{"f32", 0.02}, {"int8", 0.8}} {
			prog := compileFamily(t, family, c.plan, false)
			factors := slices.DeleteFunc(randomFactors(prog, 6, 3), func(f lora.Factor) bool { return f.Target == headWeight })
			a, err := prog.NewAdapter(factors)
			if err != nil {
				t.Fatal(err)
			}
			whole := compileChanged(t, family, c.plan, false, func(name string, x Tensor) Tensor {
				for _, f := range factors {
					if f.Target == name {
						return merged{x, f}
					}
				}
				return x
			})
			texts := tokensOf(expected(t, family))
			got, want := runAdapted(t, prog, tiers()[0], 2, 1000, []*Adapter{a, a}, texts...), run(t, whole, tiers()[0], 2, 1000, texts...)
			far, without := apart(got, want), apart(run(t, prog, tiers()[0], 2, 1000, texts...), want)
			if far > c.bound || without < 10*far {
				t.Errorf("%s, plan %s: %g from the merged model, %g without the adapter", family, c.plan, far, without)
			}
			t.Logf("%s, plan %s: %.2g from the merged model, %.2g without the adapter", family, c.plan, far, without)
		}
	}
}

func apart(a, b [][][]float32) float64 {
	out := 0.0
	for i := range a {
		for j := range a[i] {
			out = max(out, distance(a[i][j], b[i][j]))
		}
	}
	return out
}

func TestAdaptersOfTheWrongShape(t *testing.T) {
	prog := compileFamily(t, "llama", "int8", false)
	f := func(target string, rows, cols, rankA, rankB int) lora.Factor {
		return lora.Factor{Target: target, Scale: 1, A: numbers{cols, make([]float32, rankA*cols)}, B: numbers{rankB, make([]float32, rows*rankB)}}
	}
	good := f("blk.0.attn_k.weight", 16, 32, 2, 2)
	for _, c := range []struct {
		name    string
		factors []lora.Factor
		want    string
	}{
		{"nothing", nil, "changes nothing"},
		{"no such weight", []lora.Factor{good, f("blk.9.attn_k.weight", 16, 32, 2, 2)}, "multiplies nothing"},
		{"an embedding", []lora.Factor{f("token_embd.weight", 96, 32, 2, 2)}, "multiplies nothing"},
		{"a norm", []lora.Factor{f("blk.0.attn_norm.weight", 1, 32, 2, 2)}, "multiplies nothing"},
		{"a stack of them", []lora.Factor{f("blk.0.qkv", 64, 32, 2, 2)}, "multiplies nothing"},
		{"more rows", []lora.Factor{f("blk.0.attn_k.weight", 32, 32, 2, 2)}, "the model has [16 32]"},
		{"fewer columns", []lora.Factor{f("blk.0.attn_k.weight", 16, 16, 2, 2)}, "the model has [16 32]"},
		{"turned over", []lora.Factor{f("blk.0.ffn_down.weight", 64, 32, 2, 2)}, "the model has [32 64]"},
		{"two ranks", []lora.Factor{f("blk.0.attn_k.weight", 16, 32, 2, 3)}, "share a rank"},
		{"no rank", []lora.Factor{{Target: "blk.0.attn_k.weight", A: numbers{cols: 32}, B: numbers{cols: 1}}}, "share a rank"},
		{"twice", []lora.Factor{good, good}, "twice"},
	} {
		if _, err := prog.NewAdapter(c.factors); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := prog.NewAdapter([]lora.Factor{good}); err != nil {
		t.Error(err)
	}
}

// A program takes no adapter that was made for another one.
func TestAdapterOfAnotherProgram(t *testing.T) {
	one, other := compileFamily(t, "llama", "f32", false), compileFamily(t, "llama", "f32", false)
	defer func() {
		if recover() == nil {
			t.Error("it was taken")
		}
	}()
	runAdapted(t, one, tiers()[0], 1, 1, []*Adapter{random(t, other, 2, 1)}, []int32{1})
}

// A step with adapters allocates nothing once the memory for its size is there, whoever has which adapter.
func TestAdaptedRunDoesNotAllocate(t *testing.T) {
	prog := compileFamily(t, "llama", "int8", false)
	all := []*Adapter{random(t, prog, 16, 1), nil, random(t, prog, 8, 2), random(t, prog, 20, 3)}
	pool := NewPool(2)
	defer pool.Close()
	p := prog.NewPass(tiers()[0], pool)
	caches := make([]*Cache, 6)
	for i := range caches {
		caches[i] = p.Pages().NewCache()
		caches[i].Reserve(100)
	}
	n := 0
	step := func() {
		p.Rows = p.Rows[:0]
		for i, c := range caches {
			p.Rows = append(p.Rows, Row{Token: 3, Cache: c, Pos: c.Len(), Wanted: true, Adapter: all[(i*n+i)%len(all)]})
			c.Advance(1)
		}
		n++
		p.Run()
	}
	for range 8 {
		step()
	}
	if n := testing.AllocsPerRun(40, step); n > 0 {
		t.Errorf("%.1f allocations in a step", n)
	}
}

// Who unloads an adapter gets its memory back, although the pass goes on.
func TestAdapterMemoryReturns(t *testing.T) {
	prog := compileFamily(t, "llama", "f32", false)
	pool := NewPool(1)
	defer pool.Close()
	p := prog.NewPass(tiers()[0], pool)
	step := func(a *Adapter) {
		c := p.Pages().NewCache()
		c.Reserve(3)
		p.Rows = p.Rows[:0]
		for i := range 3 {
			p.Rows = append(p.Rows, Row{Token: 3, Cache: c, Pos: i, Wanted: true, Adapter: a})
		}
		c.Advance(3)
		p.Run()
		c.Release()
	}
	gone, packed := make(chan bool, 1000), 0
	for seed := range uint64(2) {
		a := random(t, prog, 16, seed)
		for _, parts := range a.steps {
			for i := range parts {
				runtime.AddCleanup(parts[i].a, func(int) { gone <- true }, 0)
				packed++
			}
		}
		step(a)
	}
	step(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range packed {
		runtime.GC()
		select {
		case <-gone:
		case <-ctx.Done():
			t.Fatal("an adapter that nobody uses stays in memory")
		}
	}
	runtime.KeepAlive(p)
}
