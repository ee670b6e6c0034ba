package graph

import (
	"math"
	"slices"
)

// Cache keeps the keys and values that causal attention has seen, by layer and sequence. The zero value is ready.
type Cache struct {
	layers map[int]map[int][]cached
}

// cached is one position of one layer: the heads of k and of v, one after the other.
type cached struct {
	position int
	k, v     []float32
}

func (c *Cache) add(layer, sequence int, x cached) {
	if c.layers == nil {
		c.layers = map[int]map[int][]cached{}
	}
	if c.layers[layer] == nil {
		c.layers[layer] = map[int][]cached{}
	}
	c.layers[layer][sequence] = append(c.layers[layer][sequence], x)
}

// rotate turns the first columns of one head by a position.
func (n *Node) rotate(x []float32, position int, freqs []float32) {
	rotated := n.Attrs.Int("rotated", 0)
	base, factor := n.Attrs.Float("rope_base", 1), n.Attrs.Float("rope_factor", 1)
	for i := range rotated / 2 {
		angle := float64(position) / factor * math.Pow(base, -2*float64(i)/float64(rotated))
		if freqs != nil {
			angle /= float64(freqs[i])
		}
		a, b := i, i+rotated/2
		if n.Attrs.Text("rope") == "interleaved" {
			a, b = 2*i, 2*i+1
		}
		sin, cos := math.Sincos(angle)
		xa, xb := float64(x[a]), float64(x[b])
		x[a], x[b] = float32(xa*cos-xb*sin), float32(xa*sin+xb*cos)
	}
}

func (e *evaluator) rope(n *Node, in [][]float32, out []float32) {
	copy(out, in[0])
	var freqs []float32
	if len(in) > 1 {
		freqs = in[1]
	}
	heads, dim := n.Attrs.Int("heads", 0), n.Attrs.Int("dim", 0)
	for i := range len(out) / dim {
		n.rotate(out[i*dim:(i+1)*dim], e.env.Positions[i/heads], freqs)
	}
}

// attention computes every op form: packed or not, with or without absorbed norms and rope.
func (e *evaluator) attention(n *Node, in [][]float32, out []float32) {
	heads, kv, dim := n.Attrs.Int("heads", 0), n.Attrs.Int("kv", 0), n.Attrs.Int("dim", 0)
	layer, causal := n.Attrs.Int("layer", 0), n.Attrs.Flag("causal")
	store := e.env.Cache
	if !causal { // what is not causal sees all the tokens of this call and no others
		store = &Cache{}
	}
	queries := make([][]float32, len(e.env.Sequence))
	for t, s := range e.env.Sequence {
		q, k, v := n.heads(in, t, heads*dim, kv*dim)
		n.prepare(in, q, "qnorm", dim, e.env.Positions[t])
		n.prepare(in, k, "knorm", dim, e.env.Positions[t])
		queries[t] = q
		store.add(layer, s, cached{e.env.Positions[t], k, v})
	}
	for t, s := range e.env.Sequence {
		seen := store.layers[layer][s]
		if causal {
			seen = n.visible(seen, e.env.Positions[t])
		}
		for h := range heads {
			at := h / (heads / kv) * dim
			n.attend(out[(t*heads+h)*dim:][:dim], queries[t][h*dim:(h+1)*dim], seen, at)
		}
	}
}

// heads copies the query, key and value heads of token t out of the operands.
func (n *Node) heads(in [][]float32, t, qWidth, kvWidth int) (q, k, v []float32) {
	if n.Attrs.Flag("packed") {
		row := slices.Clone(in[0][t*(qWidth+2*kvWidth):][:qWidth+2*kvWidth])
		return row[:qWidth], row[qWidth : qWidth+kvWidth], row[qWidth+kvWidth:]
	}
	return slices.Clone(in[0][t*qWidth:][:qWidth]), slices.Clone(in[1][t*kvWidth:][:kvWidth]), in[2][t*kvWidth:][:kvWidth]
}

// prepare norms and rotates the heads of q or k as far as attention has absorbed that.
func (n *Node) prepare(in [][]float32, x []float32, norm string, dim, position int) {
	names := n.Operands()
	var w, freqs []float32
	if i := slices.Index(names, norm); i >= 0 {
		w = in[i]
	}
	if i := slices.Index(names, "freqs"); i >= 0 {
		freqs = in[i]
	}
	for head := range slices.Chunk(x, dim) {
		if w != nil {
			rmsNorm(head, head, w, n.Attrs.Float("eps", 0))
		}
		if n.Attrs.Text("rope") != "" {
			n.rotate(head, position, freqs)
		}
	}
}

// visible is the positions that a token at position may look at.
func (n *Node) visible(all []cached, position int) []cached {
	window := n.Attrs.Int("window", 0)
	var seen []cached
	for _, c := range all {
		if c.position <= position && (window == 0 || c.position > position-window) {
			seen = append(seen, c)
		}
	}
	return seen
}

// attend is one head of one token; at is where its key and value heads begin.
func (n *Node) attend(out, q []float32, seen []cached, at int) {
	scale, softcap := n.Attrs.Float("scale", 1), n.Attrs.Float("softcap", 0)
	scores := make([]float64, len(seen))
	top := math.Inf(-1)
	for i, c := range seen {
		scores[i] = scale * dot(q, c.k[at:at+len(q)])
		if softcap > 0 {
			scores[i] = softcap * math.Tanh(scores[i]/softcap)
		}
		top = max(top, scores[i])
	}
	sum := 0.0
	for i := range scores {
		scores[i] = math.Exp(scores[i] - top)
		sum += scores[i]
	}
	for d := range out {
		mix := 0.0
		for i, c := range seen {
			mix += scores[i] * float64(c.v[at+d])
		}
		out[d] = float32(mix / sum)
	}
}
