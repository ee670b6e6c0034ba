package arch

import "github.com/sluice-project/sluice/engine/graph"

// encoder builds a model that turns each text into one vector of length 1, or each pair of texts into one number. Tokens and their
// positions in the text, counted from 0, are inputs, and the segments of models that tell two texts apart; otherwise every token has the
// first type.
func (b *builder) encoder() *graph.Value {
	c := b.c
	t := b.Symbol(graph.Tokens, 1, maxTokens)
	b.Symbol(graph.Sequences, 1, maxTokens)
	tokens, positions := b.Input("tokens", graph.I32, t), b.Input("positions", graph.I32, t)
	x := b.Add(graph.OpEmbed, "words", nil, tokens, b.weight("token_embd.weight", graph.ClassEmbed, c.Vocab, c.Dim))
	attrs := graph.A{}
	if c.FirstPosition > 0 {
		attrs["offset"] = c.FirstPosition
	}
	p := b.Add(graph.OpEmbed, "places", attrs, positions, b.weight("position_embd.weight", graph.ClassEmbed, c.Positions, c.Dim))
	x = b.add("placed", x, p)
	if c.Segments() {
		table := b.weight("token_types.weight", graph.ClassEmbed, c.TokenTypes, c.Dim)
		x = b.add("typed", x, b.Add(graph.OpEmbed, "types", nil, b.Input("segments", graph.I32, t), table))
	} else {
		x = b.add("typed", x, b.weight("token_types.weight", graph.ClassOther, c.Dim))
	}
	x = b.layernorm("x", x, "token_embd_norm")
	for i := range c.Layers {
		if b.err != nil || b.Err() != nil {
			return x
		}
		x = b.encoderLayer(i, x)
	}
	x = b.Add(graph.OpPool, "pooled", graph.A{"kind": c.Pooling}, x)
	if c.Scores {
		return b.score(x)
	}
	return b.Add(graph.OpNormalize, "embedding", nil, x)
}

// score is the head of a model that scores: a layer with tanh, and one number. GGUF files made of BERT leave the layer out, because their
// converter does; what they compute is what the file says.
func (b *builder) score(x *graph.Value) *graph.Value {
	if b.has("cls.weight") {
		x = b.matmul("dense", x, "cls", graph.ClassHead, b.c.Dim, b.c.Dim, maybeBias)
		x = b.Add(graph.OpAct, "tanh", graph.A{"fn": "tanh"}, x)
	}
	return b.matmul("score", x, "cls.output", graph.ClassHead, 1, b.c.Dim, maybeBias)
}

func (b *builder) encoderLayer(i int, x *graph.Value) *graph.Value {
	c, name, at := b.c, prefixed("blk.%d.", i), prefixed("l%d.", i)
	q := b.matmul(at("q"), x, name("attn_q"), graph.ClassAttention, c.Heads*c.HeadDim, c.Dim, withBias)
	k := b.matmul(at("k"), x, name("attn_k"), graph.ClassAttention, c.Heads*c.HeadDim, c.Dim, withBias)
	v := b.matmul(at("v"), x, name("attn_v"), graph.ClassAttention, c.Heads*c.HeadDim, c.Dim, withBias)
	y := b.Add(graph.OpAttention, at("attn"),
		graph.A{"layer": i, "heads": c.Heads, "kv": c.Heads, "dim": c.HeadDim, "scale": c.AttnScale, "causal": false}, q, k, v)
	y = b.matmul(at("o"), y, name("attn_output"), graph.ClassAttention, c.Dim, c.Heads*c.HeadDim, withBias)
	x = b.layernorm(at("attn_norm"), b.add(at("x_attn"), x, y), name("attn_output_norm"))
	y = b.matmul(at("up"), x, name("ffn_up"), graph.ClassFFN, c.Hidden, c.Dim, withBias)
	y = b.Add(graph.OpAct, at("act"), graph.A{"fn": c.Act}, y)
	y = b.matmul(at("down"), y, name("ffn_down"), graph.ClassDown, c.Dim, c.Hidden, withBias)
	return b.layernorm(at("x"), b.add(at("x_ffn"), x, y), name("layer_output_norm"))
}
