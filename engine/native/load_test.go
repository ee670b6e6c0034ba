package native

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// A file that is not what the engine can run gives an error that names what is wrong, at start and not at the first request.
func TestUnusableModelsAreNamed(t *testing.T) {
	drop := func(name string) func(*tiny) {
		return func(f *tiny) {
			f.tensors = slices.DeleteFunc(f.tensors, func(x testmodel.Tensor) bool { return x.Name == name })
		}
	}
	set := func(key string, v any) func(*tiny) { return func(f *tiny) { f.set(key, v) } }
	for name, c := range map[string]struct {
		change func(*tiny)
		want   string
	}{
		"architecture":     {set("general.architecture", "mamba"), `the architecture "mamba" is not supported`},
		"no architecture":  {func(f *tiny) { f.meta = f.meta[1:] }, `"general.architecture": the metadata key is missing`},
		"missing tensor":   {drop("blk.1.ffn_up.weight"), `has no tensor "blk.1.ffn_up.weight"`},
		"missing norm":     {drop("output_norm.weight"), `has no tensor "output_norm.weight"`},
		"missing layer":    {set("llama.block_count", uint32(3)), `has no tensor "blk.2.`},
		"surplus layer":    {set("llama.block_count", uint32(1)), `"blk.1.`},
		"shape":            {set("llama.feed_forward_length", uint32(768)), `tensor "blk.0.ffn_gate.weight" has the shape [512 256]`},
		"heads":            {set("llama.attention.head_count_kv", uint32(3)), "4 attention heads do not divide into 3"},
		"no layers":        {set("llama.block_count", uint32(0)), "the number of layers is 0, outside 1 to 1024"},
		"huge":             {set("llama.context_length", uint32(1<<31)), "outside"},
		"odd rotation":     {set("llama.rope.dimension_count", uint32(3)), "the rotated dimension 3 must be even"},
		"rotation base":    {set("llama.rope.freq_base", float32(-1)), "must be positive"},
		"position scaling": {set("llama.rope.scaling.type", "yarn"), `"yarn" is not supported`},
		"tokenizer":        {set("tokenizer.ggml.model", "rwkv"), `"rwkv" is not supported`},
		"many tokens": {func(f *tiny) {
			tokens, types := byteTokens()
			f.set("tokenizer.ggml.tokens", append(tokens, "more")).set("tokenizer.ggml.token_type", append(types, 1))
		}, "the tokenizer has 261 tokens, the embedding 260"},
		"template": {set("tokenizer.chat_template", "{% for %}"), "chattemplate"},
		"bias": {func(f *tiny) {
			f.tensors = append(f.tensors, testmodel.Tensor{Name: "blk.0.attn_q.bias", Shape: []int{1}, Data: make([]byte, 4)})
		}, `tensor "blk.0.attn_q.bias" has the shape [1 1]`},
	} {
		f := newTiny(gguf.Q8_0)
		c.change(f)
		checkRefused(t, name, f.write(t), c.want)
	}
}

func checkRefused(t *testing.T, name, path, want string) {
	t.Helper()
	e, err := New(Config{Models: []ModelConfig{{ID: tinyID, Path: path}}}, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		_ = e.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), string(tinyID)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	path := newTiny(gguf.Q4_1).write(t)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(t.TempDir(), "half.gguf")
	if err := os.WriteFile(half, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "cut in half", half, "the file is cut short: tensor")
	checkRefused(t, "missing", filepath.Join(t.TempDir(), "none.gguf"), "no such file")
}

func TestConfigValidate(t *testing.T) {
	err := Config{Threads: -1, Concurrency: 1 << 20, Models: []ModelConfig{
		{},
		{ID: "a", Path: "x"},
		{ID: "a", Path: "x"},
		{ID: "b"},
		{ID: "d", Path: "x", Precision: "int3"},
	}}.Validate()
	for _, want := range []string{"threads is -1", "concurrency is 1048576", "models[0] has no id", `"a" occurs twice`, "(b) has no path", `precision plan "int3"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestModelDescription(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q5_1), Config{ContextTokens: 100})
	models, err := e.Models(t.Context())
	if err != nil || len(models) != 1 {
		t.Fatal(models, err)
	}
	m := models[0]
	if m.Precision != "native" || m.ContextTokens != 100 || !strings.HasPrefix(m.Digest, "sha256:") || !strings.HasPrefix(m.Template, "sha256:") ||
		!m.CanGenerate || !m.HasLogprobs || !m.Deterministic || m.CanEmbed {
		t.Errorf("%+v", m)
	}
}
