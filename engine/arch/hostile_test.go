package arch

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// copyDir returns a copy of a family's directory that a test may spoil.
func copyDir(t *testing.T, family string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", family))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// store is a safetensors file in pieces.
type store struct {
	header map[string]json.RawMessage
	data   []byte
}

func readStore(t *testing.T, dir string) *store {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	s := &store{data: b[8+n:]}
	if err := json.Unmarshal(b[8:8+n], &s.header); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *store) write(t *testing.T, dir string) {
	t.Helper()
	head, err := json.Marshal(s.header)
	if err != nil {
		t.Fatal(err)
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), append(append(b, head...), s.data...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *store) rename(t *testing.T, from, to string) {
	t.Helper()
	entry, ok := s.header[from]
	if !ok {
		t.Fatalf("there is no %s", from)
	}
	s.header[to] = entry
	delete(s.header, from)
}

// edit replaces text in a settings file.
func edit(t *testing.T, dir, name, old, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(b), old, text, 1)
	if changed == string(b) {
		t.Fatalf("%s has no %q", name, old)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

func checkRefused(t *testing.T, name, path, want string) {
	t.Helper()
	m, err := Open(path)
	if err == nil {
		_ = m.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
		t.Errorf("%s: %v, want %q and the path", name, err, want)
	}
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	tensors := func(change func(*store)) func(string) {
		return func(dir string) {
			s := readStore(t, dir)
			change(s)
			s.write(t, dir)
		}
	}
	for name, c := range map[string]struct {
		family string
		spoil  func(dir string)
		want   string
	}{
		"unknown tensor": {
			"llama", tensors(func(s *store) { s.rename(t, "model.norm.weight", "model.layers.0.self_attn.sinks.weight") }),
			`the tensor "model.layers.0.self_attn.sinks.weight", which the architecture llama`,
		},
		"strange number": {
			"llama", tensors(func(s *store) { s.rename(t, "model.layers.1.mlp.up_proj.weight", "model.layers.01.mlp.up_proj.weight") }),
			`"model.layers.01.mlp.up_proj.weight"`,
		},
		"missing tensor": {
			"qwen3", tensors(func(s *store) {
				s.rename(t, "model.layers.1.self_attn.k_norm.weight", "model.layers.1.self_attn.rotary_emb.inv_freq")
			}),
			`no tensor "layers.1.self_attn.k_norm.weight"`,
		},
		"missing bias": {
			"qwen2", tensors(func(s *store) { s.rename(t, "model.layers.0.self_attn.v_proj.bias", "rotary_emb.inv_freq") }),
			`no tensor "layers.0.self_attn.v_proj.bias"`,
		},
		"surplus norm": {
			"qwen2", tensors(func(s *store) {
				s.rename(t, "model.layers.0.self_attn.v_proj.bias", "model.layers.0.self_attn.q_norm.weight")
			}),
			`"model.layers.0.self_attn.q_norm.weight", which the architecture qwen2`,
		},
		"surplus layer": {
			"llama", tensors(func(s *store) { s.rename(t, "model.layers.1.mlp.up_proj.weight", "model.layers.7.mlp.up_proj.weight") }),
			`no tensor "layers.1.mlp.up_proj.weight"`,
		},
		"fewer layers": {"llama", func(dir string) { edit(t, dir, "config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 1`) }, `the tensor "layers.1.`},
		"more layers":  {"llama", func(dir string) { edit(t, dir, "config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 1000`) }, `no tensor "layers.2.`},
		"width":        {"llama", func(dir string) { edit(t, dir, "config.json", `"hidden_size": 32`, `"hidden_size": 64`) }, `has the shape [96 32], the model's numbers call for [96 64]`},
		"feed-forward": {"llama", func(dir string) { edit(t, dir, "config.json", `"intermediate_size": 64`, `"intermediate_size": 65536`) }, `"layers.0.mlp.gate_proj.weight" has the shape [64 32]`},
		"no head":      {"llama", tensors(func(s *store) { s.rename(t, "lm_head.weight", "rotary_emb.inv_freq") }), `no tensor "lm_head.weight"`},
		"no embedding": {"bert", tensors(func(s *store) { s.rename(t, "embeddings.word_embeddings.weight", "embeddings.position_ids") }), `no tensor "embeddings.word_embeddings.weight"`},
		"classifier":   {"bert", tensors(func(s *store) { s.rename(t, "pooler.dense.weight", "classifier.weight") }), `"classifier.weight", which the architecture bert`},
		"two names":    {"bert", tensors(func(s *store) { s.rename(t, "pooler.dense.bias", "bert.embeddings.LayerNorm.beta") }), "under two names"},
		"bare integers": {"llama", tensors(func(s *store) {
			s.header["model.norm.weight"] = []byte(strings.Replace(strings.Replace(string(s.header["model.norm.weight"]), `"F32"`, `"I8"`, 1), `[32]`, `[128]`, 1))
		}), "the type I8, whose scale nothing tells"},
		"cut":         {"llama", func(dir string) { cut(t, filepath.Join(dir, "model.safetensors"), 4) }, "model.safetensors"},
		"no weights":  {"llama", func(dir string) { remove(t, filepath.Join(dir, "model.safetensors")) }, "model.safetensors"},
		"no settings": {"llama", func(dir string) { remove(t, filepath.Join(dir, "config.json")) }, "config.json"},
		"not JSON":    {"llama", func(dir string) { edit(t, dir, "config.json", `{`, `[`) }, "config.json"},
		"max pooling": {"bert", func(dir string) {
			edit(t, dir, "1_Pooling/config.json", `pooling_mode_mean_tokens": true`, `pooling_mode": "max"`)
		}, `the pooling "max" is not supported`},
		"two poolings":   {"bert", func(dir string) { edit(t, dir, "1_Pooling/config.json", `_cls_token": false`, `_cls_token": true`) }, `2 ways of pooling [cls mean]`},
		"dense behind":   {"bert", func(dir string) { edit(t, dir, "modules.json", "models.Normalize", "models.Dense") }, `"sentence_transformers.models.Dense"`},
		"odd generation": {"llama", func(dir string) { edit(t, dir, "generation_config.json", `"eos_token_id": 2`, `"eos_token_id": {}`) }, "generation_config.json"},
	} {
		dir := copyDir(t, c.family)
		c.spoil(dir)
		checkRefused(t, name, dir, c.want)
	}
	checkRefused(t, "nothing there", filepath.Join(t.TempDir(), "none"), "no such file")
}

func cut(t *testing.T, path string, bytes int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// rewrite writes a GGUF file again with other metadata, without some tensors and with others.
func rewrite(t *testing.T, path string, set map[string]any, drop string, extra ...testmodel.Tensor) string {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := gguf.NewWriter()
	w.CopyMeta(f)
	for key, value := range set {
		if err := w.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	for tensor := range f.All() {
		if tensor.Name == drop {
			continue
		}
		if err := w.Copy(tensor); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range extra {
		err := w.Add(x.Name, gguf.F32, x.Shape, func(int, []float32) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "changed.gguf")
	if err := w.WriteFile(out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFilesThatAreRefused(t *testing.T) {
	files := map[string]string{}
	for _, family := range families() {
		files[family] = toGGUF(t, family)
	}
	for name, c := range map[string]struct {
		family string
		set    map[string]any
		drop   string
		extra  string
		want   string
	}{
		"architecture":    {"llama", map[string]any{"general.architecture": "mamba"}, "", "", `the architecture "mamba" is not supported`},
		"no layers":       {"llama", map[string]any{"llama.block_count": uint32(0)}, "", "", "number of layers is 0"},
		"many layers":     {"llama", map[string]any{"llama.block_count": uint32(1 << 31)}, "", "", "llama.block_count = 2147483648 is outside"},
		"more layers":     {"llama", map[string]any{"llama.block_count": uint32(1000)}, "", "", `no tensor "blk.2.`},
		"fewer layers":    {"llama", map[string]any{"llama.block_count": uint32(1)}, "", "", `"blk.1.`},
		"no heads":        {"llama", map[string]any{"llama.attention.head_count": uint32(0)}, "", "", "number of attention heads is 0"},
		"heads":           {"llama", map[string]any{"llama.attention.head_count_kv": uint32(3)}, "", "", "4 attention heads do not divide into 3"},
		"long context":    {"llama", map[string]any{"llama.context_length": uint64(1 << 62)}, "", "", "llama.context_length"},
		"feed-forward":    {"llama", map[string]any{"llama.feed_forward_length": uint32(96)}, "", "", `tensor "blk.0.ffn_gate.weight" has the shape [64 32], the model's numbers call for [96 32]`},
		"odd rotation":    {"llama", map[string]any{"llama.rope.dimension_count": uint32(3)}, "", "", "rotated dimension 3"},
		"rotation base":   {"llama", map[string]any{"llama.rope.freq_base": float32(-1)}, "", "", "rotation base -1"},
		"experts":         {"llama", map[string]any{"llama.expert_count": uint32(8)}, "", "", "the model mixes 8 experts (llama.expert_count)"},
		"yarn":            {"llama", map[string]any{"llama.rope.scaling.type": "yarn"}, "", "", `the position scaling "yarn" is not supported (supported: none, linear, llama3)`},
		"value length":    {"qwen3", map[string]any{"qwen3.attention.value_length": uint32(8)}, "", "", "keys and values of different length"},
		"kind of number":  {"qwen3", map[string]any{"qwen3.attention.key_length": "16"}, "", "", "qwen3.attention.key_length"},
		"pattern":         {"qwen2", map[string]any{"qwen2.attention.sliding_window_pattern": []bool{true}}, "", "", "1 entries for 2 layers"},
		"window":          {"gemma3", map[string]any{"gemma3.attention.sliding_window": uint32(1 << 30)}, "", "", "attention window is 1073741824"},
		"pooling":         {"bert", map[string]any{"bert.pooling_type": uint32(0)}, "", "", "pooling of type 0"},
		"positions":       {"bert", map[string]any{"bert.context_length": uint32(80)}, "", "", `tensor "position_embd.weight" has the shape [40 32]`},
		"missing tensor":  {"gemma3", nil, "blk.1.post_ffw_norm.weight", "", `no tensor "blk.1.post_ffw_norm.weight"`},
		"missing norm":    {"llama", nil, "output_norm.weight", "", `no tensor "output_norm.weight"`},
		"no embedding":    {"llama", nil, "token_embd.weight", "", `no tensor "token_embd.weight"`},
		"no types":        {"bert", nil, "token_types.weight", "", `no tensor "token_types.weight"`},
		"unknown tensor":  {"llama", nil, "", "blk.0.ffn_gate_exps.weight", `"blk.0.ffn_gate_exps.weight", which the architecture llama`},
		"misshapen bias":  {"llama", nil, "", "blk.0.attn_q.bias", `"blk.0.attn_q.bias" has the shape [1 5]`},
		"norms of gemma":  {"qwen3", nil, "", "blk.0.post_ffw_norm.weight", `"blk.0.post_ffw_norm.weight", which the architecture qwen3`},
		"divisors' shape": {"qwen3", nil, "", "rope_freqs.weight", `"rope_freqs.weight" has the shape [1 5]`},
	} {
		var extra []testmodel.Tensor
		if c.extra != "" {
			extra = append(extra, testmodel.Tensor{Name: c.extra, Shape: []int{5}})
		}
		checkRefused(t, name, rewrite(t, files[c.family], c.set, c.drop, extra...), c.want)
	}
}

// What a file leaves out or spells differently without meaning something else is accepted.
func TestHarmlessVariantsAreAccepted(t *testing.T) {
	prefix := func(root string) func(string) {
		return func(dir string) {
			s := readStore(t, dir)
			for name := range maps.Clone(s.header) {
				if rest, ok := strings.CutPrefix(name, "model."); ok && root == "" {
					s.rename(t, name, rest)
				} else if root != "" && name != "__metadata__" {
					s.rename(t, name, root+name)
				}
			}
			s.write(t, dir)
		}
	}
	for name, c := range map[string]struct {
		family string
		change func(dir string)
	}{
		"without root":  {"qwen3", prefix("")},
		"with root":     {"bert", prefix("bert.")},
		"of TensorFlow": {"bert", func(dir string) { gammaBeta(t, dir) }},
		"untold pooling": {"bert", func(dir string) {
			remove(t, filepath.Join(dir, "1_Pooling", "config.json"))
			remove(t, filepath.Join(dir, "modules.json"))
		}},
		"pooling by name": {"xlm-roberta", func(dir string) {
			edit(t, dir, "1_Pooling/config.json", `"pooling_mode_cls_token": true`, `"pooling_mode": "cls"`)
		}},
		"untold layers":  {"qwen2", func(dir string) { edit(t, dir, "config.json", `"layer_types"`, `"x"`) }},
		"untold pattern": {"gemma3", func(dir string) { edit(t, dir, "config.json", `"layer_types"`, `"x"`) }},
		"repeated head":  {"qwen3", func(dir string) { repeatHead(t, dir) }},
		"no generation":  {"qwen3", func(dir string) { remove(t, filepath.Join(dir, "generation_config.json")) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, c.family)
			c.change(dir)
			checkGolden(t, open(t, dir), readExpected(t, c.family))
		})
	}
}

// repeatHead adds the embedding again as the head, as some files do although they say that the two are one.
func repeatHead(t *testing.T, dir string) {
	t.Helper()
	s := readStore(t, dir)
	var e struct {
		Type    string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets []int  `json:"data_offsets"`
	}
	if err := json.Unmarshal(s.header["model.embed_tokens.weight"], &e); err != nil {
		t.Fatal(err)
	}
	from, to := e.Offsets[0], e.Offsets[1]
	e.Offsets = []int{len(s.data), len(s.data) + to - from}
	s.data = append(s.data, s.data[from:to]...)
	head, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	s.header["lm_head.weight"] = head
	s.write(t, dir)
}

func gammaBeta(t *testing.T, dir string) {
	t.Helper()
	s := readStore(t, dir)
	for name := range maps.Clone(s.header) {
		if stem, ok := strings.CutSuffix(name, "LayerNorm.weight"); ok {
			s.rename(t, name, stem+"LayerNorm.gamma")
		}
		if stem, ok := strings.CutSuffix(name, "LayerNorm.bias"); ok {
			s.rename(t, name, stem+"LayerNorm.beta")
		}
	}
	s.write(t, dir)
}
