package sample

import (
	"math"
	"slices"
)

// Logprob is a token with the natural logarithm of its probability.
type Logprob struct {
	Token   int32
	Logprob float64
	logit   float32
}

// Logprobs returns the natural logarithm of the probability of id under the model's own distribution, before everything that a
// request changes about it, and the n likeliest tokens, best first, of equals the lowest id first. The logits are a row that Pick
// has accepted. The slice is valid until the next call.
func (s *Sampler) Logprobs(logits []float32, id int32, n int) (chosen float64, top []Logprob) {
	best := s.k.Max(logits)
	copy(s.scratch, logits)
	base := float64(best) + math.Log(float64(s.k.ExpSum(s.scratch, best)))
	top = s.likeliestOf(logits, n)
	for i := range top {
		top[i].Logprob = min(0, float64(top[i].logit)-base)
	}
	return min(0, float64(logits[id])-base), top
}

// likeliestOf returns the n tokens with the largest logits.
func (s *Sampler) likeliestOf(logits []float32, n int) []Logprob {
	s.top = s.top[:0]
	if n <= 0 {
		return s.top
	}
	for i, v := range logits {
		if len(s.top) == n {
			if v <= s.top[n-1].logit {
				continue
			}
			s.top = s.top[:n-1]
		}
		at := len(s.top)
		for at > 0 && v > s.top[at-1].logit {
			at--
		}
		s.top = slices.Insert(s.top, at, Logprob{Token: int32(i), logit: v})
	}
	return s.top
}
