package workflows

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// The statistics of a rollout. One tool does everything: the beta-binomial mixture martingale of a coin,
//
//	M(k, n; p) = ∫ x^k (1-x)^(n-k) dπ(x) / (p^k (1-p)^(n-k)),   π = Beta(1/2, 1/2),
//
// which under the true p is a non-negative martingale that starts at 1. By Ville's inequality it ever exceeds 1/α with
// probability at most α, however often one looks: looking at every poll interval costs nothing. ½ + ½M has the same property and
// never falls below ½, so that a test of two arms does not lose much through the arm that has nothing to say. Such a value is
// called evidence here; its logarithm is what the functions return, and 1/evidence is a p-value that is valid at any time.
//
// Two independent arms multiply. A null hypothesis about both, such as "the candidate fails at most 2 points more often than
// stable", is refuted when every pair of rates it allows is: the evidence against it is the minimum over these pairs.

// coin counts the successes of n trials. mix is log ∫ x^k (1-x)^(n-k) dπ(x).
type coin struct {
	k, n int64
	mix  float64
}

func newCoin(k, n int64) coin {
	return coin{k: k, n: n, mix: mathext.Lbeta(float64(k)+0.5, float64(n-k)+0.5) - math.Log(math.Pi)}
}

// logM returns log M(k, n; p).
func (c coin) logM(p float64) float64 {
	out := c.mix
	if c.k > 0 {
		out -= float64(c.k) * math.Log(p)
	}
	if c.k < c.n {
		out -= float64(c.n-c.k) * math.Log1p(-p)
	}
	return out
}

// logHedge returns log(½ + ½·exp(m)) without overflow.
func logHedge(m float64) float64 {
	if m > 0 {
		return m + math.Log1p(math.Exp(-m)) - math.Ln2
	}
	return math.Log1p(math.Exp(m)) - math.Ln2
}

func (c coin) at(p float64) float64 { return logHedge(c.logM(p)) }

// above returns the log evidence against "the rate is at most p": the least over the rates it allows. M falls up to the observed
// rate, so that is p itself, or the observed rate if p allows it.
func (c coin) above(p float64) float64 { return c.at(min(p, c.rate(p))) }

// below returns the log evidence against "the rate is at least p".
func (c coin) below(p float64) float64 { return c.at(max(p, c.rate(p))) }

func (c coin) rate(none float64) float64 {
	if c.n == 0 {
		return none
	}
	return float64(c.k) / float64(c.n)
}

// logWorse returns the log evidence against "the candidate's rate is at most margin above stable's".
func logWorse(candidate, stable coin, margin float64) float64 {
	if candidate.n == 0 || stable.n == 0 || candidate.rate(0)-stable.rate(0) <= margin {
		return 0
	}
	return minOnLine(candidate, stable, margin)
}

// logNotWorse returns the log evidence against "the candidate's rate is at least margin above stable's".
func logNotWorse(candidate, stable coin, margin float64) float64 {
	if candidate.n == 0 || stable.n == 0 || candidate.rate(0)-stable.rate(0) >= margin {
		return 0
	}
	return minOnLine(candidate, stable, margin)
}

// minOnLine minimises the joint evidence over the line "candidate = stable + margin". It is convex there, because log M is convex
// in p and the hedge keeps that, so a golden-section search finds the minimum; the ends are looked at too, since the search only
// comes near them.
func minOnLine(candidate, stable coin, margin float64) float64 {
	f := func(p float64) float64 { return stable.at(p) + candidate.at(min(p+margin, 1)) }
	lo, hi := 0.0, 1-margin
	best := min(f(lo), f(hi))
	const ratio = 0.6180339887498949
	x1, x2 := hi-ratio*(hi-lo), lo+ratio*(hi-lo)
	f1, f2 := f(x1), f(x2)
	for range 60 {
		if f1 < f2 {
			hi, x2, f2 = x2, x1, f1
			x1 = hi - ratio*(hi-lo)
			f1 = f(x1)
		} else {
			lo, x1, f1 = x1, x2, f2
			x2 = lo + ratio*(hi-lo)
			f2 = f(x2)
		}
	}
	return min(best, f1, f2)
}

// limit is the latency up to which the candidate may go when stable's quantile is x: ratio times as much, and never less than
// floor more, because nobody feels microseconds.
type limit struct {
	ratio float64
	floor int64
}

func (l limit) of(x int64) int64 {
	return max(int64(l.ratio*float64(x)), x+l.floor)
}

// logSlower returns the log evidence against "the candidate's q-quantile is within the limit of stable's".
//
// If x is stable's quantile, fewer than q of stable's requests are expected below x, and at least q of the candidate's up to
// limit(x). Both are coins; the minimum over all x is the evidence. It is enough to look at stable's own values and at infinity:
// between two of them stable's count does not move, and the candidate is refuted least at the upper end.
func logSlower(candidate, stable []Bin, q float64, l limit) float64 {
	s, c := newSeries(stable), newSeries(candidate)
	if s.n == 0 || c.n == 0 {
		return 0
	}
	least := newCoin(s.n, s.n).above(q) + newCoin(c.n, c.n).below(q)
	for _, b := range stable {
		x := b.Micros
		least = min(least, newCoin(s.less(x), s.n).above(q)+newCoin(c.upTo(l.of(x)), c.n).below(q))
	}
	return max(least, 0)
}

// logNotSlower returns the log evidence against "the candidate's q-quantile is at or beyond the limit of stable's". The mirror of
// [logSlower]: at least q of stable's requests lie up to its quantile x, at most q of the candidate's below limit(x).
func logNotSlower(candidate, stable []Bin, q float64, l limit) float64 {
	s, c := newSeries(stable), newSeries(candidate)
	if s.n == 0 || c.n == 0 {
		return 0
	}
	least := newCoin(0, s.n).below(q) + newCoin(0, c.n).above(q)
	for _, b := range stable {
		x := b.Micros
		least = min(least, newCoin(s.upTo(x), s.n).below(q)+newCoin(c.less(l.of(x)), c.n).above(q))
	}
	return max(least, 0)
}

// series answers how many samples lie below a value.
type series struct {
	bins []Bin
	cum  []int64 // cum[i] = samples in bins[:i]
	n    int64
}

func newSeries(b []Bin) series {
	s := series{bins: b, cum: make([]int64, len(b)+1)}
	for i, x := range b {
		s.cum[i+1] = s.cum[i] + x.Count
	}
	s.n = s.cum[len(b)]
	return s
}

func (s series) less(x int64) int64 {
	i, _ := slices.BinarySearchFunc(s.bins, x, func(b Bin, x int64) int {
		switch {
		case b.Micros < x:
			return -1
		case b.Micros > x:
			return 1
		}
		return 0
	})
	return s.cum[i]
}

func (s series) upTo(x int64) int64 { return s.less(x + 1) }

// quantile returns the smallest value with at least q of the samples up to it; it is for people to read, no verdict uses it.
func (s series) quantile(q float64) int64 {
	need := int64(math.Ceil(q * float64(s.n)))
	for i, b := range s.bins {
		if s.cum[i+1] >= need {
			return b.Micros
		}
	}
	return 0
}
