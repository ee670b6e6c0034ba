package arch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ropeFreqs is the tensor that divides the frequencies of the rotations.
const ropeFreqs = "rope_freqs.weight"

// hfNames translates the names of Hugging Face files to those of GGUF, without ".weight" and ".bias"; names of a layer stand without
// their prefix.
type hfNames struct {
	roots        []string // a file may leave out or add one of these
	layers       string   // what comes before the number of a layer
	model, layer map[string]string
	ignored      []string // tensors that nothing is computed with: buffers, heads of another task
}

// names returns the names of a model's kind.
func (c *Config) names() hfNames {
	n := namesOf(c.Arch)
	if !c.Scores {
		return n
	}
	// The head of a model that scores. BERT pools for it, which files of embedders have, too, but never use.
	if c.FirstPosition > 0 {
		n.model["classifier.dense"], n.model["classifier.out_proj"] = "cls", "cls.output"
		return n
	}
	n.model["pooler.dense"], n.model["classifier"] = "cls", "cls.output"
	n.ignored = slices.DeleteFunc(n.ignored, func(name string) bool { return strings.HasPrefix(name, "pooler.") })
	return n
}

func namesOf(arch string) hfNames {
	if arch == BERT {
		return encoderNames()
	}
	n := hfNames{
		roots:  []string{"model."},
		layers: "layers.",
		model:  map[string]string{"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"},
		layer: map[string]string{
			"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
			"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
			"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
		},
		ignored: []string{"rotary_emb.inv_freq"},
	}
	if arch == Qwen3 || arch == Gemma3 {
		n.layer["self_attn.q_norm"], n.layer["self_attn.k_norm"] = "attn_q_norm", "attn_k_norm"
	}
	if arch == Gemma3 {
		n.layer["post_attention_layernorm"] = "post_attention_norm"
		n.layer["pre_feedforward_layernorm"], n.layer["post_feedforward_layernorm"] = "ffn_norm", "post_ffw_norm"
	}
	return n
}

func encoderNames() hfNames {
	return hfNames{
		roots:  []string{"bert.", "roberta."},
		layers: "encoder.layer.",
		model: map[string]string{
			"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
			"embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
		},
		layer: map[string]string{
			"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
			"attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
			"intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
		},
		ignored: []string{
			"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.weight", "pooler.dense.bias",
			"cls.predictions.bias", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.predictions.transform.dense.weight",
			"cls.predictions.transform.dense.bias", "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias",
			"cls.predictions.transform.LayerNorm.gamma", "cls.predictions.transform.LayerNorm.beta",
			"cls.seq_relationship.weight", "cls.seq_relationship.bias", "lm_head.bias", "lm_head.decoder.weight", "lm_head.decoder.bias",
			"lm_head.dense.weight", "lm_head.dense.bias", "lm_head.layer_norm.weight", "lm_head.layer_norm.bias",
		},
	}
}

// ignores reports whether nothing is computed with the tensor. What is named here in full stands at the end of a file's name, behind
// a root or a layer.
func (n hfNames) ignores(name string) bool {
	for _, i := range n.ignored {
		if name == i || strings.HasSuffix(name, "."+i) {
			return true
		}
	}
	return false
}

// canonical translates the name of a file; "" means that it is unknown.
func (n hfNames) canonical(name string) string {
	for _, root := range n.roots {
		if rest, ok := strings.CutPrefix(name, root); ok {
			name = rest
			break
		}
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return ""
	}
	stem, kind := name[:dot], name[dot+1:]
	switch kind {
	case "weight", "bias":
	case "gamma": // of checkpoints that came from TensorFlow
		kind = "weight"
	case "beta":
		kind = "bias"
	default:
		return ""
	}
	rest, inLayer := strings.CutPrefix(stem, n.layers)
	if !inLayer {
		if to, ok := n.model[stem]; ok {
			return to + "." + kind
		}
		return ""
	}
	number, stem, _ := strings.Cut(rest, ".")
	i, err := strconv.Atoi(number)
	to, ok := n.layer[stem]
	if err != nil || !ok || i < 0 || strconv.Itoa(i) != number { // one spelling for each number
		return ""
	}
	return fmt.Sprintf("blk.%d.%s.%s", i, to, kind)
}

// original is the name that a file usually has for a canonical one, for messages.
func (n hfNames) original(name string) string {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return name
	}
	stem, kind := name[:dot], name[dot:]
	table, prefix := n.model, ""
	if rest, ok := strings.CutPrefix(stem, "blk."); ok {
		number, inner, _ := strings.Cut(rest, ".")
		table, prefix, stem = n.layer, n.layers+number+".", inner
	}
	for from, to := range table {
		if to == stem {
			return prefix + from + kind
		}
	}
	return name
}
