package arch

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/safetensors"
)

// converter writes a directory's model as GGUF, as llama.cpp's conversion does. Its names are written out here and not taken from the
// package, which would only be compared with itself.
type converter struct {
	t    testing.TB
	w    *gguf.Writer
	c    *Config
	from *safetensors.File
}

func decoderTensors(family string) map[string]string {
	names := map[string]string{
		"model.embed_tokens.weight":              "token_embd.weight",
		"model.norm.weight":                      "output_norm.weight",
		"lm_head.weight":                         "output.weight",
		"model.layers.%d.input_layernorm.weight": "blk.%d.attn_norm.weight",
		"model.layers.%d.mlp.gate_proj.weight":   "blk.%d.ffn_gate.weight",
		"model.layers.%d.mlp.up_proj.weight":     "blk.%d.ffn_up.weight",
		"model.layers.%d.mlp.down_proj.weight":   "blk.%d.ffn_down.weight",
	}
	for hf, to := range map[string]string{"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "q_norm": "attn_q_norm", "k_norm": "attn_k_norm"} {
		for _, kind := range []string{"weight", "bias"} {
			names["model.layers.%d.self_attn."+hf+"."+kind] = "blk.%d." + to + "." + kind
		}
	}
	if family == "gemma3" {
		names["model.layers.%d.post_attention_layernorm.weight"] = "blk.%d.post_attention_norm.weight"
		names["model.layers.%d.pre_feedforward_layernorm.weight"] = "blk.%d.ffn_norm.weight"
		names["model.layers.%d.post_feedforward_layernorm.weight"] = "blk.%d.post_ffw_norm.weight"
	} else {
		names["model.layers.%d.post_attention_layernorm.weight"] = "blk.%d.ffn_norm.weight"
	}
	return names
}

func encoderTensors(family string) map[string]string {
	names := map[string]string{
		"embeddings.word_embeddings.weight": "token_embd.weight", "embeddings.position_embeddings.weight": "position_embd.weight",
		"embeddings.token_type_embeddings.weight": "token_types.weight",
		"embeddings.LayerNorm.weight":             "token_embd_norm.weight", "embeddings.LayerNorm.bias": "token_embd_norm.bias",
	}
	head := map[string]string{"pooler.dense": "cls", "classifier": "cls.output"}
	if family == "xlm-roberta-rerank" {
		head = map[string]string{"classifier.dense": "cls", "classifier.out_proj": "cls.output"}
	}
	for hf, to := range head {
		for _, kind := range []string{"weight", "bias"} {
			names[hf+"."+kind] = to + "." + kind
		}
	}
	for hf, to := range map[string]string{
		"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
		"attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
	} {
		for _, kind := range []string{"weight", "bias"} {
			names["encoder.layer.%d."+hf+"."+kind] = "blk.%d." + to + "." + kind
		}
	}
	return names
}

// toGGUF converts the model of a family and returns the path of the file.
func toGGUF(t testing.TB, family string) string {
	t.Helper()
	dir := filepath.Join("testdata", family)
	m := open(t, dir)
	from, err := safetensors.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	c := converter{t: t, w: gguf.NewWriter(), c: &m.Config, from: from}
	names := decoderTensors(family)
	if m.Config.Encoder() {
		names = encoderTensors(family)
		c.encoderMeta()
	} else {
		c.decoderMeta(family)
	}
	for _, name := range from.Tensors() {
		c.tensor(family, name, names)
	}
	path := filepath.Join(t.TempDir(), family+".gguf")
	if err := c.w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *converter) set(key string, value any) {
	c.t.Helper()
	if !strings.Contains(key, ".") || strings.HasPrefix(key, "attention.") || strings.HasPrefix(key, "rope.") {
		key = c.c.Arch + "." + key
	}
	if err := c.w.Set(key, value); err != nil {
		c.t.Fatal(err)
	}
}

func (c *converter) commonMeta() {
	c.set("general.architecture", c.c.Arch)
	c.set("block_count", uint32(c.c.Layers))
	c.set("context_length", uint32(c.c.Context))
	c.set("embedding_length", uint32(c.c.Dim))
	c.set("feed_forward_length", uint32(c.c.Hidden))
	c.set("attention.head_count", uint32(c.c.Heads))
}

func (c *converter) decoderMeta(family string) {
	c.commonMeta()
	c.set("attention.head_count_kv", uint32(c.c.KVHeads))
	c.set("attention.layer_norm_rms_epsilon", float32(c.c.Eps))
	c.set("rope.freq_base", float32(c.c.Rope.Base))
	c.set("tokenizer.ggml.bos_token_id", uint32(1))
	c.set("tokenizer.ggml.eos_token_id", uint32(2))
	switch family {
	case "llama":
		c.set("rope.dimension_count", uint32(8))
		// The divisors of the frequencies are a tensor; the formula is written out as transformers has it.
		divisors := make([]float32, 4)
		for i := range divisors {
			freq := math.Pow(500, -2*float64(i)/8)
			wave, scaled := 2*math.Pi/freq, freq/4
			if wave < 32.0/4 {
				scaled = freq
			} else if wave <= 32.0/1 {
				smooth := (32/wave - 1) / (4 - 1)
				scaled = (1-smooth)*scaled + smooth*freq
			}
			divisors[i] = float32(freq / scaled)
		}
		c.add("rope_freqs.weight", []int{4}, func(_ int, dst []float32) { copy(dst, divisors) })
	case "mistral":
		c.set("rope.scaling.type", "linear")
		c.set("rope.scaling.factor", float32(2))
		c.set("attention.sliding_window", uint32(5))
	case "qwen2":
		c.set("attention.sliding_window", uint32(4))
		c.set("attention.sliding_window_pattern", []bool{false, true})
	case "qwen3":
		c.set("attention.key_length", uint32(16))
		c.set("attention.value_length", uint32(16))
	case "gemma3":
		c.set("attention.key_length", uint32(16))
		c.set("attention.value_length", uint32(16))
		c.set("attention.sliding_window", uint32(4))
		c.set("attention.sliding_window_pattern", uint32(3))
		c.set("attention.scale", 1/math.Sqrt(24))
		c.set("rope.scaling.type", "linear")
		c.set("rope.scaling.factor", float32(8))
	}
}

func (c *converter) encoderMeta() {
	c.commonMeta()
	c.set("attention.layer_norm_epsilon", float32(c.c.Eps))
	c.set("attention.causal", false)
	pooling := map[string]uint32{"mean": 1, "cls": 2}[c.c.Pooling]
	if c.c.Scores {
		pooling = 4
	}
	c.set("pooling_type", pooling)
	c.set("tokenizer.ggml.token_type_count", uint32(c.c.TokenTypes))
}

func (c *converter) add(name string, shape []int, row func(i int, dst []float32)) {
	c.t.Helper()
	err := c.w.Add(name, gguf.F32, shape, func(i int, dst []float32) error {
		row(i, dst)
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// tensor copies one tensor under its new name, with the changes that the format asks for.
func (c *converter) tensor(family, name string, names map[string]string) {
	c.t.Helper()
	if strings.HasPrefix(name, "pooler.") {
		return
	}
	old, err := c.from.Tensor(name)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.c.Scores {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "bert."), "roberta.")
	}
	to := names[name]
	for i := range c.c.Layers {
		dot := fmt.Sprintf(".%d.", i)
		if strings.Contains(name, dot) {
			to = strings.Replace(names[strings.Replace(name, dot, ".%d.", 1)], ".%d.", dot, 1)
		}
	}
	if to == "" {
		c.t.Fatalf("the converter does not know %s", name)
	}
	shape := []int{old.Cols()}
	if len(old.Shape) > 1 {
		shape = append(shape, old.Rows())
	}
	row := old.Row
	switch {
	case c.c.Arch == Llama && strings.Contains(name, "q_proj"):
		row = neighbours(old, c.c.Heads)
	case c.c.Arch == Llama && strings.Contains(name, "k_proj"):
		row = neighbours(old, c.c.KVHeads)
	case family == "gemma3" && strings.HasSuffix(name, "norm.weight"):
		row = func(i int, dst []float32) {
			old.Row(i, dst)
			for j := range dst {
				dst[j]++
			}
		}
	case strings.HasPrefix(family, "xlm-roberta") && strings.Contains(name, "position"):
		shape[1] -= 2
		row = func(i int, dst []float32) { old.Row(i+2, dst) }
	}
	c.add(to, shape, row)
}

// neighbours reorders the rows of queries or keys so that a pair, which lay half a head apart, lies side by side.
func neighbours(old *safetensors.Tensor, heads int) func(i int, dst []float32) {
	dim := old.Rows() / heads
	return func(i int, dst []float32) {
		head, at := i/dim, i%dim
		old.Row(head*dim+at%2*dim/2+at/2, dst)
	}
}

// The same models as GGUF compute the same: the other reader, its names, orders and conventions.
func TestFilesComputeWhatTransformersDoes(t *testing.T) {
	for _, family := range families() {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			m := open(t, toGGUF(t, family))
			if m.Config.Interleaved != (m.Config.Arch == Llama) {
				t.Error("queries and keys of GGUF files are reordered for llama, and only there")
			}
			checkGolden(t, m, readExpected(t, family))
		})
	}
}

// Both files of a model give the same graph, but for how weights are stored, the order of rotated pairs, and the rows of positions that
// a GGUF file leaves out.
func TestBothFormatsGiveOneGraph(t *testing.T) {
	level := func(text string) []string {
		var lines []string
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, " stored=")
			for old, to := range map[string]string{
				`rope="interleaved"`: `rope="neox"`, "f32[42, 32]": "f32[40, 32]", " {offset=2}": "",
			} {
				line = strings.Replace(line, old, to, 1)
			}
			lines = append(lines, strings.TrimSpace(line))
		}
		return lines
	}
	for _, family := range families() {
		a, b := open(t, filepath.Join("testdata", family)), open(t, toGGUF(t, family))
		x, y := level(a.Graph.String()), level(b.Graph.String())
		if len(x) != len(y) {
			t.Errorf("%s: %d and %d lines", family, len(x), len(y))
		}
		for i := range min(len(x), len(y)) {
			if x[i] != y[i] {
				t.Errorf("%s, line %d:\n%s\n%s", family, i+1, x[i], y[i])
			}
		}
	}
}
