package native

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-project/sluice/engine/kernel"
)

// sampler picks tokens. It owns scratch memory for one vocabulary; the loop uses it.
type sampler struct {
	k       kernel.Kernels
	scratch []float32
	nucleus []candidate
}

type candidate struct {
	id int32
	p  float32
}

// draw says how one token is to be picked. Seed, choice and step determine the random number, and nothing else does.
type draw struct {
	temperature, topP float64
	seed              uint64
	choice, step      int
}

func newSampler(k kernel.Kernels, vocab int) *sampler {
	return &sampler{k: k, scratch: make([]float32, vocab)}
}

// pick returns the likeliest token at temperature 0, of equals the one with the lowest id; otherwise a random one.
func (s *sampler) pick(logits []float32, d draw) int32 {
	best := s.likeliest(logits)
	if d.temperature <= 0 {
		return best
	}
	top, inv := logits[best], float32(1/d.temperature)
	for i, v := range logits {
		s.scratch[i] = (v - top) * inv
	}
	sum := s.k.ExpSum(s.scratch, 0)
	u := uniform(d.seed, d.choice, d.step)
	if d.topP > 0 && d.topP < 1 {
		return s.pickNucleus(best, sum, d.topP, u)
	}
	return walk(best, u*float64(sum), len(s.scratch), func(i int) (int32, float32) { return int32(i), s.scratch[i] })
}

// pickNucleus samples among the fewest likeliest tokens whose probabilities add up to topP.
func (s *sampler) pickNucleus(best int32, sum float32, topP, u float64) int32 {
	// Tokens below this share are less than 1−topP together, so the nucleus is among the others.
	least := float32((1 - topP) * float64(sum) / float64(len(s.scratch)))
	s.nucleus = s.nucleus[:0]
	for i, p := range s.scratch {
		if p >= least {
			s.nucleus = append(s.nucleus, candidate{int32(i), p})
		}
	}
	slices.SortFunc(s.nucleus, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.id, b.id))
	})
	mass, n := 0.0, 0
	for n < len(s.nucleus) && mass < topP*float64(sum) {
		mass += float64(s.nucleus[n].p)
		n++
	}
	return walk(best, u*mass, n, func(i int) (int32, float32) { return s.nucleus[i].id, s.nucleus[i].p })
}

// walk returns the token at which the sum of probabilities exceeds target; with rounding against us, the last possible one, and
// otherwise when nothing is possible.
func walk(otherwise int32, target float64, n int, at func(int) (int32, float32)) int32 {
	last, mass := otherwise, 0.0
	for i := range n {
		id, p := at(i)
		if p > 0 {
			last = id
			mass += float64(p)
			if mass > target {
				break
			}
		}
	}
	return last
}

// likeliest returns the first of the largest logits.
func (s *sampler) likeliest(logits []float32) int32 {
	return int32(max(0, slices.Index(logits, s.k.Max(logits)))) // none is the largest when some are not numbers
}

// logprobs returns the natural logarithm of the probability of id, and the n likeliest tokens, best first, of equals the lowest id
// first.
func (s *sampler) logprobs(logits []float32, id int32, n int) (chosen float64, top []candidateLog) {
	best := logits[s.likeliest(logits)]
	copy(s.scratch, logits)
	base := float64(best) + math.Log(float64(s.k.ExpSum(s.scratch, best)))
	for i, v := range logits {
		if len(top) == n && (n == 0 || v <= top[n-1].logit) {
			continue
		}
		at := len(top)
		for at > 0 && v > top[at-1].logit {
			at--
		}
		top = slices.Insert(top, at, candidateLog{id: int32(i), logit: v})
		top = top[:min(n, len(top))]
	}
	for i := range top {
		top[i].logprob = min(0, float64(top[i].logit)-base)
	}
	return min(0, float64(logits[id])-base), top
}

type candidateLog struct {
	id      int32
	logit   float32
	logprob float64
}

// uniform returns a number in [0, 1): a hash of its arguments, so that no state is carried from token to token.
func uniform(seed uint64, choice, step int) float64 {
	h := mix(seed + 0x9e3779b97f4a7c15)
	h = mix(h ^ uint64(choice)*0xd1342543de82ef95)
	h = mix(h ^ uint64(step)*0x9e3779b97f4a7c15)
	return float64(h>>11) / (1 << 53)
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
