package arch

import (
	"fmt"

	"github.com/sluice-project/sluice/engine/graph"
)

// decoder builds a model that continues texts. All families share one form: norm, attention, norm, gated feed-forward, each added to
// what came in; they differ in the norms around them.
func (b *builder) decoder() *graph.Value {
	c := b.c
	t := b.Symbol(graph.Tokens, 1, maxTokens)
	r := b.Symbol(graph.Wanted, 0, maxTokens)
	tokens, rows := b.Input("tokens", graph.I32, t), b.Input("rows", graph.I32, r)
	table := b.weight("token_embd.weight", graph.ClassEmbed, c.Vocab, c.Dim)
	attrs := graph.A{}
	if c.EmbedScale != 1 {
		attrs["scale"] = c.EmbedScale
	}
	x := b.Add(graph.OpEmbed, "x", attrs, tokens, table)
	for i := range c.Layers {
		if b.err != nil || b.Err() != nil {
			return x
		}
		x = b.decoderLayer(i, x)
	}
	x = b.Add(graph.OpSelect, "wanted", nil, x, rows)
	x = b.rmsnorm("norm", x, "output_norm", c.Dim, 1)
	x = b.Add(graph.OpMatMul, "logits", nil, x, b.head(table))
	if c.LogitSoftcap > 0 {
		x = b.Add(graph.OpSoftcap, "capped", graph.A{"by": c.LogitSoftcap}, x)
	}
	return x
}

func (b *builder) head(table *graph.Value) *graph.Value {
	if b.c.Tied {
		return b.Tied("output.weight", graph.ClassHead, table)
	}
	return b.weight("output.weight", graph.ClassHead, b.c.Vocab, b.c.Dim)
}

func (b *builder) decoderLayer(i int, x *graph.Value) *graph.Value {
	c, name, at := b.c, prefixed("blk.%d.", i), prefixed("l%d.", i)
	n := b.rmsnorm(at("attn_norm"), x, name("attn_norm"), c.Dim, 1)
	y := b.attention(i, n)
	y = b.matmul(at("o"), y, name("attn_output"), graph.ClassAttention, c.Dim, c.Heads*c.HeadDim, maybeBias)
	if c.Arch == Gemma3 {
		y = b.rmsnorm(at("o_norm"), y, name("post_attention_norm"), c.Dim, 1)
	}
	x = b.add(at("x_attn"), x, y)
	n = b.rmsnorm(at("ffn_norm"), x, name("ffn_norm"), c.Dim, 1)
	gate := b.matmul(at("gate"), n, name("ffn_gate"), graph.ClassFFN, c.Hidden, c.Dim, maybeBias)
	up := b.matmul(at("up"), n, name("ffn_up"), graph.ClassFFN, c.Hidden, c.Dim, maybeBias)
	act := b.Add(graph.OpAct, at("act"), graph.A{"fn": c.Act}, gate)
	y = b.Add(graph.OpMul, at("glu"), nil, act, up)
	y = b.matmul(at("down"), y, name("ffn_down"), graph.ClassDown, c.Dim, c.Hidden, maybeBias)
	if c.Arch == Gemma3 {
		y = b.rmsnorm(at("down_norm"), y, name("post_ffw_norm"), c.Dim, 1)
	}
	return b.add(at("x"), x, y)
}

// attention is everything between the norm and the projection of the result.
func (b *builder) attention(i int, n *graph.Value) *graph.Value {
	c, name, at := b.c, prefixed("blk.%d.", i), prefixed("l%d.", i)
	bias := maybeBias
	if c.Arch == Qwen2 {
		bias = withBias
	}
	q := b.matmul(at("q"), n, name("attn_q"), graph.ClassAttention, c.Heads*c.HeadDim, c.Dim, bias)
	k := b.matmul(at("k"), n, name("attn_k"), graph.ClassAttention, c.KVHeads*c.HeadDim, c.Dim, bias)
	v := b.matmul(at("v"), n, name("attn_v"), graph.ClassAttention, c.KVHeads*c.HeadDim, c.Dim, bias)
	if c.Arch == Qwen3 || c.Arch == Gemma3 {
		q = b.rmsnorm(at("q_norm"), q, name("attn_q_norm"), c.HeadDim, c.Heads)
		k = b.rmsnorm(at("k_norm"), k, name("attn_k_norm"), c.HeadDim, c.KVHeads)
	}
	rope := c.Rope
	if c.window(i) > 0 {
		rope = c.LocalRope
	}
	q = b.rope(at("q_rope"), q, rope, c.Heads)
	k = b.rope(at("k_rope"), k, rope, c.KVHeads)
	attrs := graph.A{"layer": i, "heads": c.Heads, "kv": c.KVHeads, "dim": c.HeadDim, "scale": c.AttnScale, "causal": true}
	if w := c.window(i); w > 0 {
		attrs["window"] = w
	}
	if c.AttnSoftcap > 0 {
		attrs["softcap"] = c.AttnSoftcap
	}
	return b.Add(graph.OpAttention, at("attn"), attrs, q, k, v)
}

func (b *builder) rope(out string, x *graph.Value, r Rope, heads int) *graph.Value {
	attrs := graph.A{"heads": heads, "dim": b.c.HeadDim, "rotated": b.c.Rotated, "rope": "neox", "rope_base": r.Base}
	if b.c.Interleaved {
		attrs["rope"] = "interleaved"
	}
	if r.Factor != 1 {
		attrs["rope_factor"] = r.Factor
	}
	in := []*graph.Value{x}
	if r.Divided {
		attrs["freqs"] = true
		in = append(in, b.weight(ropeFreqs, graph.ClassOther, b.c.Rotated/2))
	}
	return b.Add(graph.OpRope, out, attrs, in...)
}

// prefixed returns a function that puts a layer's prefix before a name.
func prefixed(format string, layer int) func(string) string {
	p := fmt.Sprintf(format, layer)
	return func(name string) string { return p + name }
}
