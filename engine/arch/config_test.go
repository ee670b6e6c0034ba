package arch

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func parseSettings(t *testing.T, text string) (*Config, []float32, error) {
	t.Helper()
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	c, divisors, err := s.config()
	if err == nil {
		err = c.validate()
	}
	return c, divisors, err
}

// The settings of published models, as their makers wrote them: what does not concern us is left out.
const (
	llama32 = `{"model_type": "llama", "attention_bias": false, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64,
		"hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 131072, "num_attention_heads": 32,
		"num_hidden_layers": 16, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
		"low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
		"tie_word_embeddings": true, "vocab_size": 128256}`
	mistral7 = `{"model_type": "mistral", "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
		"max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
		"rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000}`
	qwen25 = `{"model_type": "qwen2", "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "intermediate_size": 4864,
		"max_position_embeddings": 32768, "max_window_layers": 21, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
		"rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936}`
	qwen3 = `{"model_type": "qwen3", "attention_bias": false, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
		"hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16,
		"num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
		"tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936}`
	gemma1b = `{"model_type": "gemma3_text", "attn_logit_softcapping": null, "bos_token_id": 2, "eos_token_id": [1, 106], "final_logit_softcapping": null,
		"head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912, "max_position_embeddings": 32768,
		"num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
		"rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144}`
	e5 = `{"model_type": "bert", "hidden_act": "gelu", "hidden_size": 384, "intermediate_size": 1536, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
		"num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute", "tokenizer_class": "XLMRobertaTokenizer",
		"type_vocab_size": 2, "vocab_size": 250037}`
	xlmr = `{"model_type": "xlm-roberta", "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
		"layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1,
		"type_vocab_size": 1, "vocab_size": 250002}`
)

func TestSettingsOfPublishedModels(t *testing.T) {
	plain := func(base float64) Rope { return Rope{Base: base, Factor: 1} }
	all := make([]bool, 32)
	for i := range all {
		all[i] = true
	}
	gemmaLocal := make([]bool, 26)
	for i := range gemmaLocal {
		gemmaLocal[i] = i%6 != 5
	}
	for name, c := range map[string]struct {
		text string
		want Config
	}{
		"Llama 3.2 1B": {llama32, Config{
			Arch: Llama, Layers: 16, Dim: 2048, Hidden: 8192, Heads: 32, KVHeads: 8, HeadDim: 64, Vocab: 128256, Context: 131072, Eps: 1e-5, Act: "silu", Tied: true,
			AttnScale: 0.125, EmbedScale: 1, Rope: Rope{Base: 500000, Factor: 1, Divided: true}, LocalRope: Rope{Base: 500000, Factor: 1, Divided: true},
			Rotated: 64, BOS: 128000, EOS: []int{128001, 128008, 128009},
		}},
		"Mistral 7B v0.1": {mistral7, Config{
			Arch: Llama, Layers: 32, Dim: 4096, Hidden: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 32000, Context: 32768, Eps: 1e-5, Act: "silu",
			AttnScale: 1 / math.Sqrt(128), EmbedScale: 1, Rope: plain(10000), LocalRope: plain(10000), Rotated: 128, Window: 4096, Local: all, BOS: 1, EOS: []int{2},
		}},
		"Qwen2.5 0.5B": {qwen25, Config{
			Arch: Qwen2, Layers: 24, Dim: 896, Hidden: 4864, Heads: 14, KVHeads: 2, HeadDim: 64, Vocab: 151936, Context: 32768, Eps: 1e-6, Act: "silu", Tied: true,
			AttnScale: 0.125, EmbedScale: 1, Rope: plain(1e6), LocalRope: plain(1e6), Rotated: 64, BOS: 151643, EOS: []int{151645},
		}},
		"Qwen3 0.6B": {qwen3, Config{
			Arch: Qwen3, Layers: 28, Dim: 1024, Hidden: 3072, Heads: 16, KVHeads: 8, HeadDim: 128, Vocab: 151936, Context: 40960, Eps: 1e-6, Act: "silu", Tied: true,
			AttnScale: 1 / math.Sqrt(128), EmbedScale: 1, Rope: plain(1e6), LocalRope: plain(1e6), Rotated: 128, BOS: 151643, EOS: []int{151645},
		}},
		"Gemma 3 1B": {gemma1b, Config{
			Arch: Gemma3, Layers: 26, Dim: 1152, Hidden: 6912, Heads: 4, KVHeads: 1, HeadDim: 256, Vocab: 262144, Context: 32768, Eps: 1e-6, Act: "gelu_tanh", Tied: true,
			AttnScale: 1.0 / 16, EmbedScale: math.Sqrt(1152), Rope: plain(1e6), LocalRope: plain(10000), Rotated: 256, Window: 512, Local: gemmaLocal, BOS: 2, EOS: []int{1, 106},
		}},
		"multilingual E5": {e5, Config{
			Arch: BERT, Layers: 12, Dim: 384, Hidden: 1536, Heads: 12, KVHeads: 12, HeadDim: 32, Vocab: 250037, Context: 512, Eps: 1e-12, Act: "gelu",
			AttnScale: 1 / math.Sqrt(32), EmbedScale: 1, Pooling: "mean", TokenTypes: 2, Positions: 512, BOS: -1,
		}},
		"XLM-RoBERTa": {xlmr, Config{
			Arch: BERT, Layers: 12, Dim: 768, Hidden: 3072, Heads: 12, KVHeads: 12, HeadDim: 64, Vocab: 250002, Context: 512, Eps: 1e-5, Act: "gelu",
			AttnScale: 0.125, EmbedScale: 1, Pooling: "mean", TokenTypes: 1, Positions: 514, FirstPosition: 2, BOS: 0, EOS: []int{2},
		}},
	} {
		got, _, err := parseSettings(t, c.text)
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, c.want)
		}
	}
}

// The spelling of settings changed; both give the same numbers.
func TestSettingsInTheNewSpelling(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		replace []string
	}{
		"llama":         {llama32, []string{`"rope_scaling": {"factor"`, `"rope_parameters": {"rope_theta": 500000.0, "factor"`, `"rope_theta": 500000.0,`, ``}},
		"llama, oldest": {llama32, []string{`"rope_type": "llama3"`, `"type": "llama3"`}},
		"qwen3":         {qwen3, []string{`"rope_scaling": null, "rope_theta": 1000000,`, `"rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},`}},
		"gemma": {gemma1b, []string{
			`"rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000,`,
			`"rope_parameters": {"full_attention": {"rope_theta": 1000000, "rope_type": "default"}, "sliding_attention": {"rope_theta": 10000, "rope_type": "default"}},`,
			`"sliding_window_pattern": 6`, `"_sliding_window_pattern": 6`,
		}},
		"gemma, layer types": {gemma1b, []string{
			`"sliding_window_pattern": 6`,
			`"layer_types": [` + strings.Repeat(strings.Repeat(`"sliding_attention", `, 5)+`"full_attention", `, 4) + `"sliding_attention", "sliding_attention"]`,
		}},
		"mistral, no scaling": {mistral7, []string{`"rope_theta"`, `"rope_scaling": {"rope_type": "default"}, "rope_theta"`}},
	} {
		want, wantDivisors, err := parseSettings(t, c.text)
		if err != nil {
			t.Fatal(name, err)
		}
		text := strings.NewReplacer(c.replace...).Replace(c.text)
		if text == c.text {
			t.Fatalf("%s: nothing was replaced", name)
		}
		got, divisors, err := parseSettings(t, text)
		if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(divisors, wantDivisors) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want)
		}
	}
}

// The divisors of Llama 3.1 and 3.2 with 64 numbers a head, from the formula of its publication worked out beside.
func TestLlama3Divisors(t *testing.T) {
	_, divisors, err := parseSettings(t, llama32)
	if err != nil || len(divisors) != 32 {
		t.Fatal(err, len(divisors))
	}
	for i, d := range divisors {
		freq := math.Pow(500000, -2*float64(i)/64)
		wave := 2 * math.Pi / freq
		want := freq
		switch {
		case wave > 8192:
			want = freq / 32
		case wave > 2048:
			smooth := (8192/wave - 1) / 3
			want = (1-smooth)*freq/32 + smooth*freq
		}
		if got := freq / float64(d); math.Abs(got/want-1) > 1e-6 {
			t.Errorf("pair %d: %v, want %v", i, got, want)
		}
	}
	if divisors[0] != 1 || divisors[31] != 32 || divisors[16] <= 1 || divisors[16] >= 32 {
		t.Errorf("%v", divisors)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, old, new, want string }{
		"architecture":     {llama32, `"llama"`, `"mamba"`, `the architecture "mamba" is not supported`},
		"no architecture":  {llama32, `"model_type": "llama"`, `"x": 1`, `the architecture "" is not supported`},
		"images":           {gemma1b, `"gemma3_text"`, `"gemma3"`, "image reader"},
		"both ways":        {gemma1b, `"head_dim"`, `"use_bidirectional_attention": true, "head_dim"`, "use_bidirectional_attention"},
		"quantised":        {llama32, `"attention_bias"`, `"quantization_config": {"quant_method": "awq"}, "attention_bias"`, `quantised by "awq"`},
		"yarn":             {llama32, `"rope_type": "llama3"`, `"rope_type": "yarn"`, `position scaling "yarn" is not supported`},
		"dynamic":          {mistral7, `"rope_theta"`, `"rope_scaling": {"type": "dynamic", "factor": 2}, "rope_theta"`, `"dynamic"`},
		"linear factor":    {mistral7, `"rope_theta"`, `"rope_scaling": {"type": "linear"}, "rope_theta"`, "factor 0"},
		"llama3 numbers":   {llama32, `"low_freq_factor": 1.0`, `"low_freq_factor": 9`, "larger high_freq_factor"},
		"scaling's kind":   {llama32, `"rope_type": "llama3"`, `"rope_type": 3`, "position scaling"},
		"theta":            {llama32, `"rope_theta": 500000.0`, `"rope_theta": -1`, "rotation base -1"},
		"activation":       {llama32, `"silu"`, `"xielu"`, `activation "xielu"`},
		"layers":           {llama32, `"num_hidden_layers": 16`, `"num_hidden_layers": 1000000000`, "number of layers is 1000000000"},
		"windowed layers":  {mistral7, `"num_hidden_layers": 32`, `"num_hidden_layers": 1000000000`, "number of layers is 1000000000"},
		"no heads":         {llama32, `"num_attention_heads": 32`, `"num_attention_heads": 0`, "num_attention_heads is 0"},
		"heads":            {llama32, `"num_key_value_heads": 8`, `"num_key_value_heads": 5`, "32 attention heads do not divide into 5"},
		"negative heads":   {llama32, `"num_key_value_heads": 8`, `"num_key_value_heads": -8`, "number of key-value heads is -8"},
		"odd head":         {llama32, `"head_dim": 64`, `"head_dim": 63`, "rotated dimension 63"},
		"vocabulary":       {llama32, `"vocab_size": 128256`, `"vocab_size": 0`, "vocabulary is 0"},
		"epsilon":          {llama32, `"rms_norm_eps": 1e-05`, `"rms_norm_eps": 0`, "epsilon of the norms is 0"},
		"end":              {llama32, `[128001, 128008, 128009]`, `"</s>"`, "eos_token_id"},
		"layer types":      {gemma1b, `"sliding_window_pattern": 6`, `"layer_types": ["full_attention"]`, "1 entries for 26 layers"},
		"layer type":       {strings.Replace(gemma1b, `"num_hidden_layers": 26`, `"num_hidden_layers": 1`, 1), `"sliding_window_pattern": 6`, `"layer_types": ["chunked"]`, `layer type "chunked"`},
		"relative places":  {e5, `"absolute"`, `"relative_key"`, `position embedding "relative_key"`},
		"too few places":   {xlmr, `"max_position_embeddings": 514`, `"max_position_embeddings": 2`, "context length is 0"},
		"odd padding":      {xlmr, `"pad_token_id": 1`, `"pad_token_id": -9`, "row of the first position is -8"},
		"partial rotation": {llama32, `"rope_type": "llama3"`, `"rope_type": "default", "partial_rotary_factor": 7`, "partial_rotary_factor is 7"},
	} {
		text := strings.Replace(c.text, c.old, c.new, 1)
		if text == c.text {
			t.Fatalf("%s: nothing was replaced", name)
		}
		if _, _, err := parseSettings(t, text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
