package arch

import (
	"path/filepath"
	"testing"
)

// Every name that a graph uses has a name in Hugging Face files, which leads back to it.
func TestNamesLeadBack(t *testing.T) {
	for _, family := range families() {
		m := open(t, filepath.Join("testdata", family))
		names := m.Config.names()
		for _, w := range m.Graph.Weights {
			for _, part := range w.Weight.Parts {
				if part == ropeFreqs {
					continue
				}
				if back := names.canonical(names.original(part)); back != part {
					t.Errorf("%s: %s is %s, which is %s", family, part, names.original(part), back)
				}
			}
		}
	}
}

func TestCanonicalNames(t *testing.T) {
	for _, c := range []struct{ arch, name, want string }{
		{Llama, "model.embed_tokens.weight", "token_embd.weight"},
		{Llama, "embed_tokens.weight", "token_embd.weight"},
		{Llama, "lm_head.weight", "output.weight"},
		{Llama, "model.layers.31.self_attn.o_proj.bias", "blk.31.attn_output.bias"},
		{Llama, "model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
		{Gemma3, "model.layers.0.post_attention_layernorm.weight", "blk.0.post_attention_norm.weight"},
		{Gemma3, "model.layers.0.pre_feedforward_layernorm.weight", "blk.0.ffn_norm.weight"},
		{BERT, "roberta.encoder.layer.3.attention.output.LayerNorm.gamma", "blk.3.attn_output_norm.weight"},
		{BERT, "encoder.layer.3.output.LayerNorm.beta", "blk.3.layer_output_norm.bias"},
		{Llama, "model.layers.0.self_attn.q_norm.weight", ""},
		{Llama, "model.layers.-1.mlp.up_proj.weight", ""},
		{Llama, "model.layers.1e1.mlp.up_proj.weight", ""},
		{Llama, "model.layers..mlp.up_proj.weight", ""},
		{Llama, "model.layers.0.mlp.up_proj.weight.weight", ""},
		{Llama, "model.layers.0.mlp.up_proj.scale", ""},
		{Llama, "weight", ""},
		{Llama, "", ""},
	} {
		if got := namesOf(c.arch).canonical(c.name); got != c.want {
			t.Errorf("%s: %q is %q, want %q", c.arch, c.name, got, c.want)
		}
	}
	if n := namesOf(Llama); !n.ignores("model.layers.0.self_attn.rotary_emb.inv_freq") || n.ignores("lm_head.weight") {
		t.Error("buffers are ignored, weights are not")
	}
}
