package watermark

import "math"

// Marker marks one choice of an answer. Its tokens are drawn in order, once each; one goroutine uses it.
type Marker struct {
	sub    *subKey
	seen   map[context]struct{}
	factor float32 // of what KGW makes heavier
	green  uint64
}

// Begin returns the marker of a choice, for the seed of its request: the caller's, or the random one drawn for it.
func (k *Key) Begin(seed uint64, choice int) *Marker {
	return k.marker(k.subOf(seed, choice))
}

func (k *Key) marker(sub int) *Marker {
	m := &Marker{sub: k.sub(sub)}
	if k.params.Scheme == KGW {
		m.factor, m.green = float32(math.Exp(k.params.Delta)), green(k.params.Gamma)
	} else {
		m.seen = map[context]struct{}{}
	}
	return m
}

// Mark takes part in the draw of the token that follows completion: all tokens of the choice so far. weights are the probabilities, but for a common
// factor, of the tokens that may be drawn; weights[i] is that of tokens[i], or of token i if tokens is nil. They are no less than 0, and
// one of them is above it.
//
// If it marks, it returns true and the index of the token that is drawn, or −1 after it has changed weights, from which a token is to be
// drawn then. If it does not mark here, it returns −1 and false, and has changed nothing.
func (m *Marker) Mark(completion, tokens []int32, weights []float32) (index int, marked bool) {
	length := m.sub.key.params.Context
	if len(completion) < length {
		return -1, false
	}
	c := at(completion, len(completion), length)
	if m.seen == nil {
		m.weigh(m.sub.numbers(c), tokens, weights)
		return -1, true
	}
	if _, again := m.seen[c]; again {
		return -1, false
	}
	m.seen[c] = struct{}{}
	index = least(m.sub.numbers(c), tokens, weights)
	return index, index >= 0
}

// race is a draw: the token with the least −ln(1−v)/weight wins. Of equals the first one does.
type race struct {
	n     numbers
	index int // of the best one so far; −1: there is none
	bound float64
}

// least returns the index of the token that wins; −1 if none has a weight.
func least(n numbers, tokens []int32, weights []float32) int {
	r := race{n: n, index: -1, bound: math.MaxFloat64}
	if tokens == nil {
		r.all(weights)
		return r.index
	}
	for i, w := range weights {
		t := tokens[i]
		r.enter(i, t, n.firsts(t>>3)>>(8*(t&7)), w)
	}
	return r.index
}

// enter lets a token run. −ln(1−v) is at least v, and v at least its first byte: hardly any token needs more than that.
func (r *race) enter(i int, token int32, first uint64, weight float32) {
	limit := r.bound * float64(weight)
	if float64(first&0xff)*(1.0/256) >= limit {
		return
	}
	v := unit(r.n.rest(token, first))
	if v >= limit {
		return
	}
	if score := -math.Log1p(-v) / float64(weight); score < r.bound {
		r.index, r.bound = i, score
	}
}

// all lets all tokens run, eight at a time. Where the weights are so small that a first byte above 0 rules a token out, and all of them
// are above 0, none of the eight is looked at.
func (r *race) all(weights []float32) {
	small := float32(0)
	i := 0
	for ; i+8 <= len(weights); i += 8 {
		firsts := r.n.firsts(int32(i >> 3))
		w := weights[i : i+8 : i+8]
		if !hasZero(firsts) && w[0] < small && w[1] < small && w[2] < small && w[3] < small && w[4] < small && w[5] < small && w[6] < small && w[7] < small {
			continue
		}
		before := r.index
		for k, weight := range w {
			r.enter(i+k, int32(i+k), firsts>>(8*k), weight)
		}
		if r.index != before {
			small = float32(1 / (256 * r.bound) * (1 - 1e-6)) // a little less, which the rounding may add
		}
	}
	for ; i < len(weights); i++ {
		r.enter(i, int32(i), r.n.firsts(int32(i>>3))>>(8*(i&7)), weights[i])
	}
}

// hasZero reports whether one of the eight bytes is 0.
func hasZero(x uint64) bool {
	const low, high = 0x0101010101010101, 0x8080808080808080
	return (x-low)&^x&high != 0
}

// weigh makes the tokens of the context's share heavier.
func (m *Marker) weigh(n numbers, tokens []int32, weights []float32) {
	group, firsts := int32(-1), uint64(0)
	for i := range weights {
		t := int32(i)
		if tokens != nil {
			t = tokens[i]
		}
		if t>>3 != group {
			group = t >> 3
			firsts = n.firsts(group)
		}
		// Hardly any token has the first byte of the bound: of all others it decides.
		first := firsts >> (8 * (t & 7))
		if b := first & 0xff; b < m.green>>56 || b == m.green>>56 && n.rest(t, first) < m.green {
			weights[i] *= m.factor
		}
	}
}
