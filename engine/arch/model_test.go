package arch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// The digest is that of the weights, as catalogues and `sha256sum` have it.
func TestDigest(t *testing.T) {
	dir := copyDir(t, "bert")
	digest := func() string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		sum, m := sha256.Sum256(data), open(t, dir)
		if d := m.Digest(); d != "sha256:"+hex.EncodeToString(sum[:]) || d != m.Digest() {
			t.Errorf("the digest is %s, the file's %x", d, sum)
		}
		return m.Digest()
	}
	before := digest()
	s := readStore(t, dir)
	s.data[0] ^= 1
	s.write(t, dir)
	if digest() == before {
		t.Error("other weights have the same digest")
	}
}

func TestClosedModelsHaveNoTensors(t *testing.T) {
	m, err := Open(filepath.Join("testdata", "llama"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := m.Tensor(ropeFreqs)
	if err != nil || x.Rows() != 1 || x.Cols() != 4 || x.Format() != "f32" {
		t.Error(x, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error("closing twice:", err)
	}
	if _, err := m.Tensor("token_embd.weight"); err == nil {
		t.Error("a closed model gives tensors")
	}
}

func TestRealModels(t *testing.T) {
	m := open(t, testmodel.Path(t, testmodel.SmolLM2))
	if d := m.Digest(); d != "sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53" {
		t.Error(d)
	}
	c := m.Config
	if c.Layers != 30 || c.Heads != 9 || c.KVHeads != 3 || !c.Tied || !c.Interleaved || c.Rope != (Rope{Base: 100000, Factor: 1}) || c.Eps != 1e-5 {
		t.Errorf("%+v", c)
	}
	x, err := m.Tensor("blk.0.ffn_down.weight")
	if err != nil || x.Format() != "q4_1" || x.Rows() != 576 || x.Cols() != 1536 {
		t.Error(x, err)
	}
	e := open(t, testmodel.Path(t, testmodel.MiniLM)).Config
	if e.Layers != 6 || e.Pooling != "mean" || e.Context != 256 || e.Positions != 512 || e.FirstPosition != 0 {
		t.Errorf("%+v", e)
	}
}

// Whatever settings say, they end in a checked description or an error, and take no memory beyond a checked number of layers.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{
		llama32, mistral7, qwen25, qwen3, gemma1b, e5, xlmr, `{}`, `{"model_type": "llama", "num_attention_heads": -1}`,
		strings.Replace(llama32, `"head_dim": 64`, `"head_dim": 4611686018427387904`, 1),
		strings.Replace(gemma1b, `"num_hidden_layers": 26`, `"num_hidden_layers": 4611686018427387904`, 1),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s settings
		if json.Unmarshal(text, &s) != nil {
			return
		}
		c, divisors, err := s.config()
		if err != nil {
			return
		}
		if len(c.Local) > maxLayers || len(divisors) > maxHeadDim/2 {
			t.Fatalf("%d layers, %d divisors", len(c.Local), len(divisors))
		}
		if c.validate() == nil && !c.Encoder() && (c.Rotated%2 != 0 || c.Rope.Divided && len(divisors) != c.Rotated/2) {
			t.Fatalf("%+v has %d divisors", c, len(divisors))
		}
	})
}

// Whatever one number of a GGUF file says, and whichever tensor is missing, the file is opened with a graph that fits its tensors, or
// refused.
func FuzzMetadata(f *testing.F) {
	files := map[string]*gguf.File{}
	for _, family := range families() {
		file, err := gguf.Open(toGGUF(f, family))
		if err != nil {
			f.Fatal(err)
		}
		defer file.Close()
		files[family] = file
	}
	f.Add("llama", "llama.block_count", uint8(0), uint64(1<<30), -1)
	f.Add("llama", "llama.attention.key_length", uint8(0), uint64(4096), -1)
	f.Add("gemma3", "gemma3.attention.sliding_window_pattern", uint8(1), uint64(1<<63), -1)
	f.Add("gemma3", "gemma3.rope.scaling.factor", uint8(2), math.Float64bits(math.NaN()), -1)
	f.Add("qwen2", "qwen2.attention.sliding_window_pattern", uint8(3), uint64(1), -1)
	f.Add("bert", "bert.pooling_type", uint8(4), uint64(9), 3)
	f.Add("xlm-roberta", "general.name", uint8(0), uint64(9), 0)
	f.Fuzz(func(t *testing.T, family, key string, kind uint8, bits uint64, drop int) {
		file := files[family]
		if file == nil {
			return
		}
		w := gguf.NewWriter()
		w.CopyMeta(file)
		values := []any{uint32(bits), bits, math.Float64frombits(bits), []bool{bits&1 != 0, bits&2 != 0}, strconv.FormatUint(bits, 10), bits&1 != 0}
		if w.Set(key, values[int(kind)%len(values)]) != nil {
			return
		}
		for i, name := range file.Tensors() {
			tensor, err := file.Tensor(name)
			if err == nil && i != drop {
				err = w.Copy(tensor)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), "model.gguf")
		if err := w.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if err != nil {
			return
		}
		defer m.Close()
		if err := m.Graph.Check(); err != nil {
			t.Fatal(err)
		}
		for _, v := range m.Graph.Weights {
			if _, err := m.Tensor(v.Weight.Parts[0]); err != nil {
				t.Fatal(err)
			}
		}
	})
}
