package lora_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/lora"
)

// baseOf is what the tiny model of a family says of itself, as a Hugging Face directory or as if it were a GGUF file.
func baseOf(t testing.TB, family string, file bool) lora.Base {
	t.Helper()
	m, err := arch.Open(filepath.Join("..", "arch", "testdata", family))
	if err != nil {
		t.Fatal(err)
	}
	c := m.Config
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if file && c.Arch == arch.Llama {
		c.Interleaved = true
	}
	return c.AdapterBase()
}

func open(t testing.TB, path string, base lora.Base) *lora.File {
	t.Helper()
	f, err := lora.Open(path, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func find(t testing.TB, f *lora.File, target string) lora.Factor {
	t.Helper()
	for _, x := range f.Factors() {
		if x.Target == target {
			return x
		}
	}
	t.Fatalf("there is no factor for %s", target)
	return lora.Factor{}
}

func rows(m lora.Matrix) [][]float32 {
	out := make([][]float32, m.Rows())
	for i := range out {
		out[i] = make([]float32, m.Cols())
		m.Row(i, out[i])
	}
	return out
}

// What peft wrote is found under the graph's names, with the ranks and scales that its settings give.
func TestAdaptersOfPEFT(t *testing.T) {
	for _, c := range []struct {
		dir, family string
		factors     int
		rank        int
		target      string
		shape       [3]int // rank, columns, rows
		scale       float64
	}{
		{"llama", "llama", 14, 6, "blk.0.attn_q.weight", [3]int{6, 32, 32}, 8.0 / 6},
		{"llama", "llama", 14, 6, "blk.1.attn_v.weight", [3]int{2, 32, 16}, 4},
		{"llama", "llama", 14, 6, "blk.0.ffn_down.weight", [3]int{4, 64, 32}, 3.0 / 4},
		{"llama", "llama", 14, 6, "blk.1.ffn_down.weight", [3]int{4, 64, 32}, 2},
		{"llama-head", "llama", 3, 3, "output.weight", [3]int{3, 32, 96}, 4 / math.Sqrt(3)},
		{"qwen2", "qwen2", 6, 8, "blk.1.ffn_up.weight", [3]int{8, 32, 64}, 1},
		{"gemma3", "gemma3", 28, 2, "blk.3.attn_output.weight", [3]int{2, 64, 32}, 2},
		{"bert", "bert", 10, 4, "blk.1.ffn_down.weight", [3]int{4, 64, 32}, 1.5},
	} {
		f := open(t, filepath.Join("testdata", c.dir), baseOf(t, c.family, false))
		x := find(t, f, c.target)
		shape := [3]int{x.A.Rows(), x.A.Cols(), x.B.Rows()}
		rank, numbers := 0, 0
		for _, x := range f.Factors() {
			rank = max(rank, x.A.Rows())
			numbers += x.A.Rows() * (x.A.Cols() + x.B.Rows())
		}
		if c.dir == "qwen2" && numbers != 2*8*(32+32+32+16+32+64) {
			t.Errorf("%s: %d numbers", c.dir, numbers)
		}
		if n := len(f.Factors()); n != c.factors || rank != c.rank || shape != c.shape || x.B.Cols() != c.shape[0] || x.Scale != float32(c.scale) {
			t.Errorf("%s, %s: %d factors, rank %d, shape %v, scale %v; want %+v", c.dir, c.target, n, rank, shape, x.Scale, c)
		}
		if !slices.IsSortedFunc(f.Factors(), func(a, b lora.Factor) int { return strings.Compare(a.Target, b.Target) }) {
			t.Errorf("%s: the factors are not in order", c.dir)
		}
	}
}

func TestDigestCoversSettingsAndWeights(t *testing.T) {
	dir := filepath.Join("testdata", "llama")
	sum := sha256.New()
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(data)
	}
	if got, want := open(t, dir, baseOf(t, "llama", false)).Digest(), "sha256:"+hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
}

// toGGUF converts an adapter as llama.cpp does: names written out, rows of queries and keys of llama taken apart into
// heads × 2 × half and put together as heads × half × 2. Alpha is given in place of the scale.
func toGGUF(t testing.TB, f *lora.File, base lora.Base, alpha float32) string {
	t.Helper()
	w := gguf.NewWriter()
	set := func(key string, value any) {
		if err := w.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	set("general.type", "adapter")
	set("general.architecture", base.Arch)
	set("adapter.type", "lora")
	set("adapter.lora.alpha", alpha)
	for _, x := range f.Factors() {
		a, b := rows(x.A), rows(x.B)
		heads := map[string]int{"attn_q": base.Heads, "attn_k": base.KVHeads}[strings.Split(x.Target+"...", ".")[2]]
		if heads > 0 && base.Arch == arch.Llama {
			var order [][]float32
			n := len(b) / heads
			for h := range heads {
				for pair := range n / 2 {
					order = append(order, b[h*n+pair], b[h*n+n/2+pair])
				}
			}
			b = order
		}
		add := func(name string, m [][]float32) {
			err := w.Add(name, gguf.F32, []int{len(m[0]), len(m)}, func(i int, dst []float32) error {
				copy(dst, m[i])
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		add(x.Target+".lora_a", a)
		add(x.Target+".lora_b", b)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// An adapter gives the same factors from either kind of file, in the order of the model it is for, whatever that was loaded from.
func TestBothFormatsFitBothModels(t *testing.T) {
	for _, family := range []string{"llama", "gemma3"} {
		plain := open(t, filepath.Join("testdata", family), baseOf(t, family, false))
		path := toGGUF(t, plain, baseOf(t, family, false), 8)
		for _, file := range []bool{false, true} {
			base := baseOf(t, family, file)
			one, other := open(t, filepath.Join("testdata", family), base), open(t, path, base)
			moved := 0
			for i, x := range one.Factors() {
				y := other.Factors()[i]
				same := func(a, b lora.Matrix) bool { return slices.EqualFunc(rows(a), rows(b), slices.Equal[[]float32]) }
				if x.Target != y.Target || !same(x.A, y.A) || !same(x.B, y.B) {
					t.Errorf("%s, model in a file %v: %s differs between the formats", family, file, x.Target)
				}
				if y.Scale != 8/float32(y.A.Rows()) {
					t.Errorf("%s: %s has the scale %v", family, y.Target, y.Scale)
				}
				if !same(x.B, plain.Factors()[i].B) {
					moved++
				}
			}
			want := 0
			if file && family == "llama" {
				want = 4 // queries and keys of two layers
			}
			if moved != want {
				t.Errorf("%s, model in a file %v: %d factors have another order, want %d", family, file, moved, want)
			}
		}
	}
}

// What llama.cpp's own converter made of an adapter of peft has the same factors.
func TestFilesOfTheConverter(t *testing.T) {
	for _, family := range []string{"llama", "gemma3"} {
		for _, file := range []bool{false, true} {
			base := baseOf(t, family, file)
			want, got := open(t, filepath.Join("testdata", family), base).Factors(), open(t, filepath.Join("testdata", family+".gguf"), base).Factors()
			if len(got) != len(want) {
				t.Fatalf("%s: %d factors, want %d", family, len(got), len(want))
			}
			for i, x := range want {
				same := func(a, b lora.Matrix) bool { return slices.EqualFunc(rows(a), rows(b), slices.Equal[[]float32]) }
				if got[i].Target != x.Target || !same(got[i].A, x.A) || !same(got[i].B, x.B) {
					t.Errorf("%s, model in a file %v: %s differs", family, file, x.Target)
				}
				if got[i].Scale != x.Scale && x.Target != "blk.0.ffn_down.weight" {
					t.Errorf("%s: %s has the scale %v, want %v", family, x.Target, got[i].Scale, x.Scale)
				}
			}
		}
	}
}

// A GGUF file without alpha has the scale 1, as llama.cpp has it.
func TestGGUFWithoutAlpha(t *testing.T) {
	base := baseOf(t, "qwen2", false)
	f := open(t, toGGUF(t, open(t, filepath.Join("testdata", "qwen2"), base), base, 0), base)
	if got := f.Factors()[0].Scale; got != 1 {
		t.Errorf("the scale is %v", got)
	}
}

func TestDigestOfAFileIsItsOwn(t *testing.T) {
	base := baseOf(t, "qwen2", false)
	path := toGGUF(t, open(t, filepath.Join("testdata", "qwen2"), base), base, 8)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if got, want := open(t, path, base).Digest(), "sha256:"+hex.EncodeToString(sum[:]); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
}
