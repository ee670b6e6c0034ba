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

// writeTokenizer writes a folder as those of Hugging Face, with the tokenizer, the template and the shape of a model of llama's architecture that is there as
// GGUF, but without its weights. It is for servers that count tokens and leave answers to others.
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
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := f.Ints("tokenizer.ggml.token_type")
	if err != nil || len(kinds) != len(tokens) {
		t.Fatalf("%d kinds of %d tokens, %v", len(kinds), len(tokens), err)
	}
	merges, err := f.Strings("tokenizer.ggml.merges")
	if err != nil {
		t.Fatal(err)
	}
	vocabulary, added := map[string]int{}, []any{}
	for id, token := range tokens {
		vocabulary[token] = id
		if kinds[id] == control {
			added = append(added, map[string]any{"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
		}
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	write := func(name string, v any) {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), j, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", map[string]any{
		"version": "1.0", "added_tokens": added, "decoder": level,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "Digits", "individual_digits": true}, level}},
		"model":         map[string]any{"type": "BPE", "vocab": vocabulary, "merges": merges},
	})
	number := func(key string) int64 {
		n, err := f.Int(key)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	begin, end := number("tokenizer.ggml.bos_token_id"), number("tokenizer.ggml.eos_token_id")
	template, err := f.String("tokenizer.chat_template")
	if err != nil {
		t.Fatal(err)
	}
	write("tokenizer_config.json", map[string]any{
		"tokenizer_class": "GPT2Tokenizer", "bos_token": tokens[begin], "eos_token": tokens[end], "chat_template": template, "model_max_length": context,
	})
	write("generation_config.json", map[string]any{"bos_token_id": begin, "eos_token_id": end})
	write("config.json", map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_act": "silu", "torch_dtype": "bfloat16", "tie_word_embeddings": true,
		"hidden_size": number("llama.embedding_length"), "intermediate_size": number("llama.feed_forward_length"), "num_hidden_layers": number("llama.block_count"),
		"num_attention_heads": number("llama.attention.head_count"), "num_key_value_heads": number("llama.attention.head_count_kv"), "vocab_size": len(tokens),
		"rms_norm_eps": 1e-5, "rope_theta": 1e5, "max_position_embeddings": context, "bos_token_id": begin, "eos_token_id": end,
	})
}
