package conform_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
)

// control is the kind of a token that GGUF calls a control token.
const control = 3

// modelFolder is a folder as those of Hugging Face that is being written from a GGUF file.
type modelFolder struct {
	*testing.T

	from *gguf.File
	to   string
}

// writeTokenizer writes a folder with the tokenizer, the template and the shape of a model of llama's architecture, but without its weights. It is for servers
// that count tokens and leave answers to others.
func writeTokenizer(t *testing.T, from, to string, context int) {
	t.Helper()
	f, err := gguf.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := os.MkdirAll(to, 0o750); err != nil {
		t.Fatal(err)
	}
	m := modelFolder{t, f, to}
	tokens := m.texts("tokenizer.ggml.tokens")
	m.tokenizer(tokens)
	begin, end := m.number("tokenizer.ggml.bos_token_id"), m.number("tokenizer.ggml.eos_token_id")
	template, err := f.String("tokenizer.chat_template")
	if err != nil {
		t.Fatal(err)
	}
	m.write("tokenizer_config.json", map[string]any{
		"tokenizer_class": "GPT2Tokenizer", "bos_token": tokens[begin], "eos_token": tokens[end], "chat_template": template, "model_max_length": context,
	})
	m.write("generation_config.json", map[string]any{"bos_token_id": begin, "eos_token_id": end})
	m.write("config.json", map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_act": "silu", "torch_dtype": "bfloat16", "tie_word_embeddings": true,
		"hidden_size": m.number("llama.embedding_length"), "intermediate_size": m.number("llama.feed_forward_length"), "num_hidden_layers": m.number("llama.block_count"),
		"num_attention_heads": m.number("llama.attention.head_count"), "num_key_value_heads": m.number("llama.attention.head_count_kv"), "vocab_size": len(tokens),
		"rms_norm_eps": 1e-5, "rope_theta": 1e5, "max_position_embeddings": context, "bos_token_id": begin, "eos_token_id": end,
	})
}

// tokenizer writes the tokenizer of the SmolLM family: byte pairs, digits one by one.
func (m modelFolder) tokenizer(tokens []string) {
	m.Helper()
	kinds, err := m.from.Ints("tokenizer.ggml.token_type")
	if err != nil || len(kinds) != len(tokens) {
		m.Fatalf("%d kinds of %d tokens, %v", len(kinds), len(tokens), err)
	}
	vocabulary, added := map[string]int{}, []any{}
	for id, token := range tokens {
		vocabulary[token] = id
		if kinds[id] == control {
			added = append(added, map[string]any{"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
		}
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	m.write("tokenizer.json", map[string]any{
		"version": "1.0", "added_tokens": added, "decoder": level,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "Digits", "individual_digits": true}, level}},
		"model":         map[string]any{"type": "BPE", "vocab": vocabulary, "merges": m.texts("tokenizer.ggml.merges")},
	})
}

func (m modelFolder) texts(key string) []string {
	m.Helper()
	v, err := m.from.Strings(key)
	if err != nil {
		m.Fatal(err)
	}
	return v
}

func (m modelFolder) number(key string) int64 {
	m.Helper()
	v, err := m.from.Int(key)
	if err != nil {
		m.Fatal(err)
	}
	return v
}

func (m modelFolder) write(name string, v any) {
	m.Helper()
	j, err := json.Marshal(v)
	if err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.to, name), j, 0o600); err != nil {
		m.Fatal(err)
	}
}
