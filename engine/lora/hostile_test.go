package lora_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/lora"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// peft is a directory that tests damage before they write it.
type peft struct {
	config  map[string]any
	text    string // in place of config
	tensors map[string][2]int
	bad     float32 // the last number of the last tensor, if not 0
	kind    string  // element type
}

const (
	qA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
	qB = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
)

func small() *peft {
	return &peft{
		config:  map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "target_modules": []string{"q_proj"}},
		tensors: map[string][2]int{qA: {2, 32}, qB: {32, 2}},
		kind:    "F32",
	}
}

func (p *peft) write(t testing.TB) string {
	t.Helper()
	header, body := map[string]any{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(p.tensors)) {
		shape, begin := p.tensors[name], len(body)
		n := shape[0] * shape[1]
		for i := range n {
			if p.kind == "F32" {
				body = binary.LittleEndian.AppendUint32(body, math.Float32bits(float32(i%7)/8))
			} else {
				body = append(body, byte(i))
			}
		}
		header[name] = map[string]any{"dtype": p.kind, "shape": shape[:], "data_offsets": []int{begin, len(body)}}
	}
	if p.bad != 0 {
		binary.LittleEndian.PutUint32(body[len(body)-4:], math.Float32bits(p.bad))
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	weights := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), body...)
	text := []byte(p.text)
	if p.text == "" {
		if text, err = json.Marshal(p.config); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"adapter_config.json": text, "adapter_model.safetensors": weights} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (p *peft) set(key string, value any) *peft { p.config[key] = value; return p }
func (p *peft) as(text string) *peft            { p.text = text; return p }
func (p *peft) with(name string, rows, cols int) *peft {
	p.tensors[name] = [2]int{rows, cols}
	return p
}
func (p *peft) without(name string) *peft { delete(p.tensors, name); return p }

func many(n int) map[string]int {
	out := map[string]int{}
	for i := range n {
		out[fmt.Sprintf("layers.%d.x", i)] = 1
	}
	return out
}

func bad(v float64) *peft { p := small(); p.bad = float32(v); return p }

func ints() *peft { p := small(); p.kind = "I8"; return p }

// What an adapter must not ask for, and what it must not be, is refused by its name.
func TestPEFTRefusals(t *testing.T) {
	base := baseOf(t, "llama", false)
	if _, err := lora.Open(small().write(t), base); err != nil {
		t.Fatal("the adapter that the cases change is refused itself:", err)
	}
	layer := func(rest string) string { return "base_model.model.model.layers.0." + rest }
	for _, c := range []struct {
		name string
		p    *peft
		want string
	}{
		{"another kind", small().set("peft_type", "LOHA"), "only LORA"},
		{"no kind", small().as(`{"r":2}`), "only LORA"},
		{"DoRA by its setting", small().set("use_dora", true), "DoRA"},
		{"DoRA by its tensor", small().with(layer("self_attn.q_proj.lora_magnitude_vector"), 1, 32), "DoRA"},
		{"biases by their setting", small().set("bias", "all"), "biases"},
		{"bias by its tensor", small().with(layer("self_attn.q_proj.bias"), 1, 32), "bias"},
		{"bias of a factor", small().set("lora_bias", true), "biases"},
		{"whole modules", small().set("modules_to_save", []string{"lm_head"}), "whole modules"},
		{"a whole module", small().with("base_model.model.lm_head.weight", 96, 32), "replaces a tensor"},
		{"a copy of the head", small().with("base_model.model.lm_head.base_layer.weight", 96, 32), "save_embedding_layers=False"},
		{"embedding", small().with("base_model.model.model.embed_tokens.lora_embedding_A", 2, 96), "embedding"},
		{"embedding as a product", small().with("base_model.model.model.embed_tokens.lora_A.weight", 2, 96), "embeddings are not supported"},
		{"trained tokens", small().set("trainable_token_indices", []int{1}), "embeddings"},
		{"repeated layers", small().set("layer_replication", [][]int{{0, 1}}), "repeats layers"},
		{"behind tokens only", small().set("alora_invocation_tokens", []int{1}), "behind certain tokens"},
		{"parameters of experts", small().set("target_parameters", []string{"x"}), "known to change nothing"},
		{"a setting of the future", small().set("use_everything", true), "known to change nothing"},
		{"an object of the future", small().set("new_config", map[string]any{"x": 1}), "known to change nothing"},
		{"other base weights", small().set("init_lora_weights", "pissa_niter_4"), "path_initial_model_for_weight_conversion"},
		{"another rank", small().set("r", 4), "its rank is 2, the settings say 4"},
		{"another rank by pattern", small().set("rank_pattern", map[string]int{"q_proj": 3}), "its rank is 2, the settings say 3"},
		{"rank 0", small().set("r", 0), "outside 1 to"},
		{"rank of text", small().set("r", "2"), `the setting "r"`},
		{"fractional rank", small().set("r", 2.5), `the setting "r"`},
		{"huge rank", small().set("r", 1<<20).with(qA, 2048, 32).with(qB, 32, 2048), "outside 1 to"},
		{"huge rank of a tensor", small().with(qA, 2048, 32).with(qB, 32, 2048), "rank is 2048"},
		{"ranks differ", small().with(qA, 3, 32), "do not share a rank"},
		{"turned over", small().with(qA, 32, 2).with(qB, 2, 32), "the settings say 2"},
		{"half of a pair", small().without(qB), "is missing"},
		{"no tensors", small().without(qA).without(qB), "no factors"},
		{"scale without end", small().as(`{"peft_type":"LORA","r":2,"lora_alpha":1e300}`), "scale"},
		{"not a number", bad(math.NaN()), "not finite"},
		{"infinite", bad(math.Inf(-1)), "not finite"},
		{"absurdly large", bad(1e7), "not finite, or beyond"},
		{"integers", ints(), "whose scale nothing tells"},
		{"unknown product", small().with(layer("mlp.experts.0.lora_A.weight"), 2, 32), "does not have"},
		{"layer with two spellings", small().with("base_model.model.layers.0.self_attn.q_proj.lora_A.weight", 2, 32), "twice"},
		{"no layer number", small().with(strings.Replace(qA, ".0.", ".00.", 1), 2, 32), "does not have"},
		{"pattern", small().set("rank_pattern", map[string]int{"q_(?=proj)": 2}), "cannot be read"},
		{"long pattern", small().set("rank_pattern", map[string]int{strings.Repeat("(a*)*", 1000): 2}), "one of more than"},
		{"many patterns", small().set("alpha_pattern", many(5000)), "has more than"},
		{"patterns of text", small().set("alpha_pattern", map[string]string{"q_proj": "1"}), "does not map"},
		{"patterns as a list", small().set("alpha_pattern", []int{1}), "is no object"},
		{"settings cut short", small().as(`{"peft_type":"LORA","r":2`), "no JSON object"},
		{"settings of nothing", small().as(" "), "no JSON object"},
		{"settings that are a list", small().as(`[1]`), "no JSON object"},
		{"deep settings", small().as(strings.Repeat(`{"x":`, 1<<17) + "1" + strings.Repeat("}", 1<<17)), "no JSON object"},
		{"long settings", small().as(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`), "longer than"},
	} {
		dir := c.p.write(t)
		var err error
		memory := allocated(func() { _, err = lora.Open(dir, base) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %.300v, want %q", c.name, err, c.want)
			continue
		}
		if memory > 16<<20 || len(err.Error()) > 700+len(dir) {
			t.Errorf("%s: %d bytes of memory, an error of %d bytes", c.name, memory, len(err.Error()))
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Settings that say nothing about what is computed are not in the way.
func TestPEFTSettingsThatChangeNothing(t *testing.T) {
	for key, value := range map[string]any{
		"use_dora": false, "modules_to_save": nil, "layer_replication": []int{}, "eva_config": map[string]int{"rho": 2}, "init_lora_weights": "gaussian",
		"fan_in_fan_out": true, "qalora_group_size": 16, "a_parameter_of_the_future": 0.5, "a_mode_of_the_future": "fast", "task_type": "CAUSAL_LM",
		"loftq_config": map[string]any{}, "rank_pattern": map[string]int{}, "alpha_pattern": nil,
	} {
		if _, err := lora.Open(small().set(key, value).write(t), baseOf(t, "llama", false)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestMissingFiles(t *testing.T) {
	base := baseOf(t, "llama", false)
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"no settings": {func(dir string) error { return os.Remove(filepath.Join(dir, "adapter_config.json")) }, "adapter_config.json"},
		"no weights":  {func(dir string) error { return os.Remove(filepath.Join(dir, "adapter_model.safetensors")) }, "adapter_model.safetensors"},
		"a pickle": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "adapter_model.safetensors"), filepath.Join(dir, "adapter_model.bin"))
		}, "can run code"},
	} {
		dir := small().write(t)
		if err := c.damage(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := lora.Open(dir, base); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := small().write(t)
	if _, err := lora.Open(filepath.Join(dir, "adapter_model.safetensors"), base); err == nil || !strings.Contains(err.Error(), "give the directory") {
		t.Error("the weights alone:", err)
	}
	if _, err := lora.Open(filepath.Join(dir, "absent"), base); err == nil {
		t.Error("a path of nothing is accepted")
	}
}

func ggufAdapter(meta map[string]any, tensors map[string][]int) []byte {
	var pairs []testmodel.Pair
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		pairs = append(pairs, testmodel.Pair{Key: key, Value: meta[key]})
	}
	var list []testmodel.Tensor
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		n := 4
		for _, d := range tensors[name] {
			n *= d
		}
		list = append(list, testmodel.Tensor{Name: name, Type: uint32(gguf.F32), Shape: tensors[name], Data: make([]byte, n)})
	}
	return testmodel.GGUF(pairs, list)
}

func smallGGUF() (map[string]any, map[string][]int) {
	return map[string]any{"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora", "adapter.lora.alpha": float32(4)},
		map[string][]int{"blk.0.attn_q.weight.lora_a": {32, 2}, "blk.0.attn_q.weight.lora_b": {2, 32}}
}

func TestGGUFRefusals(t *testing.T) {
	base := baseOf(t, "llama", false)
	openBytes := func(data []byte) error {
		path := filepath.Join(t.TempDir(), "adapter.gguf")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := lora.Open(path, base)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	if err := openBytes(ggufAdapter(smallGGUF())); err != nil {
		t.Fatal("the adapter that the cases change is refused itself:", err)
	}
	type change func(meta map[string]any, tensors map[string][]int)
	set := func(key string, v any) change { return func(meta map[string]any, _ map[string][]int) { meta[key] = v } }
	drop := func(key string) change { return func(meta map[string]any, _ map[string][]int) { delete(meta, key) } }
	tensor := func(name string, shape ...int) change {
		return func(_ map[string]any, tensors map[string][]int) { tensors[name] = shape }
	}
	for _, c := range []struct {
		name string
		by   change
		want string
	}{
		{"a model", drop("general.type"), "no adapter"},
		{"another type", set("general.type", "model"), "no adapter"},
		{"a control vector", set("adapter.type", "control_vector"), "only adapters of the kind lora"},
		{"another architecture", set("general.architecture", "qwen2"), "another model"},
		{"behind tokens only", set("adapter.alora.invocation_tokens", []int32{1}), "behind certain tokens"},
		{"alpha of text", set("adapter.lora.alpha", "4"), "not a number"},
		{"alpha without end", set("adapter.lora.alpha", float32(math.Inf(1))), "scale"},
		{"alpha that is none", set("adapter.lora.alpha", float32(math.NaN())), "scale"},
		{"norm", tensor("blk.0.attn_norm.weight", 32), "no factor"},
		{"bias", tensor("blk.0.attn_q.bias.lora_a", 2, 2), "no factor"},
		{"embedding", tensor("token_embd.weight.lora_a", 2, 96), "embeddings"},
		{"half", tensor("blk.1.attn_q.weight.lora_a", 32, 2), "missing"},
		{"three dimensions", tensor("blk.0.attn_q.weight.lora_a", 32, 2, 2), "dimensions"},
		{"ranks differ", tensor("blk.0.attn_q.weight.lora_a", 32, 3), "share a rank"},
		{"odd heads", tensor("blk.0.attn_q.weight.lora_b", 2, 33), "heads"},
	} {
		meta, tensors := smallGGUF()
		c.by(meta, tensors)
		if err := openBytes(ggufAdapter(meta, tensors)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %.300v, want %q", c.name, err, c.want)
		}
	}
	data := ggufAdapter(smallGGUF())
	for n := 0; n < len(data); n += 7 {
		if openBytes(data[:n]) == nil {
			t.Fatalf("a file cut to %d of %d bytes was accepted", n, len(data))
		}
	}
}

// Whatever the files say, the answer is an error or factors that can be read.
func check(t *testing.T, path string, base lora.Base) {
	t.Helper()
	f, err := lora.Open(path, base)
	if err != nil {
		return
	}
	defer f.Close()
	for _, x := range f.Factors() {
		if x.A.Rows() != x.B.Cols() || x.A.Rows() < 1 || x.Scale-x.Scale != 0 || x.Target == "" {
			t.Errorf("the factor %+v was accepted", x)
		}
		for _, m := range []lora.Matrix{x.A, x.B} {
			for _, row := range rows(m) {
				if slices.ContainsFunc(row, func(v float32) bool { return v-v != 0 }) {
					t.Error("a number that is not finite was accepted")
				}
			}
		}
	}
}

func FuzzPEFT(f *testing.F) {
	for _, p := range []*peft{small(), bad(math.NaN()), small().set("rank_pattern", map[string]int{"a|^model.*q_proj": 2}), ints()} {
		dir := p.write(f)
		settings, err := os.ReadFile(filepath.Join(dir, "adapter_config.json"))
		if err != nil {
			f.Fatal(err)
		}
		weights, err := os.ReadFile(filepath.Join(dir, "adapter_model.safetensors"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(settings, weights)
	}
	base := baseOf(f, "llama", true)
	f.Fuzz(func(t *testing.T, settings, weights []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"adapter_config.json": settings, "adapter_model.safetensors": weights} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check(t, dir, base)
	})
}

func FuzzGGUF(f *testing.F) {
	f.Add(ggufAdapter(smallGGUF()))
	meta, tensors := smallGGUF()
	meta["adapter.lora.alpha"], tensors["output.weight.lora_a"], tensors["output.weight.lora_b"] = float32(-1), []int{32, 3}, []int{3, 96}
	f.Add(ggufAdapter(meta, tensors))
	base := baseOf(f, "llama", false)
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "a.gguf")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, path, base)
	})
}
