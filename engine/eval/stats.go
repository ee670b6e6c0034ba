package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// How intervals are made; the reports say it.
const (
	blockTokens = 32   // neighbouring tokens that stay together
	maxBlocks   = 4096 // longer texts get longer blocks
	minBlocks   = 8    // fewer say nothing about the spread
	resamples   = 2000
	z95         = 1.959963984540054 // of the normal distribution
)

// scored is what one predicted token contributes. The baseline's numbers are 0 without one.
type scored struct {
	nll, base   float64 // −log of the probability of the token of the text
	kld         float64 // of the measured distribution from the baseline's
	deltaP      float64 // probability of the token of the text, measured minus baseline
	sameTop     bool
	hasBaseline bool
}

// sums are what neighbouring tokens add up to.
type sums struct{ n, nll, base, kld, squareP, delta, sameTop float64 }

func (s *sums) add(t scored) {
	s.n++
	s.nll += t.nll
	s.base += t.base
	s.kld += t.kld
	s.squareP += t.deltaP * t.deltaP
	if t.hasBaseline {
		s.delta += math.Abs(t.nll - t.base)
	}
	if t.sameTop {
		s.sameTop++
	}
}

func (s *sums) merge(o sums) {
	s.n += o.n
	s.nll += o.nll
	s.base += o.base
	s.kld += o.kld
	s.squareP += o.squareP
	s.delta += o.delta
	s.sameTop += o.sameTop
}

// tally collects scored tokens in blocks.
type tally struct {
	size     int // tokens of a block
	document int
	blocks   []sums
	total    sums
	klds     []float32
	worst    float64 // change of a log-probability
}

func newTally(tokens int) *tally {
	return &tally{size: max(blockTokens, (tokens+maxBlocks-1)/maxBlocks), document: -1}
}

func (t *tally) add(document int, s scored) {
	if n := len(t.blocks); n == 0 || document != t.document || t.blocks[n-1].n >= float64(t.size) {
		t.blocks = append(t.blocks, sums{})
	}
	t.document = document
	t.blocks[len(t.blocks)-1].add(s)
	t.total.add(s)
	if s.hasBaseline {
		t.klds = append(t.klds, float32(s.kld))
		t.worst = max(t.worst, math.Abs(s.nll-s.base))
	}
}

// bootstrap returns the middle 95 % of each statistic over texts drawn, block by block with replacement, from the one that was measured;
// nil if there are too few blocks. Of gets the numbers of the blocks of a draw, and all statistics see the same draws.
func bootstrap(blocks int, seed uint64, statistics int, of func(draw []int) []float64) []*[2]float64 {
	out := make([]*[2]float64, statistics)
	if blocks < minBlocks {
		return out
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable by design
	values := make([][]float64, statistics)
	draw := make([]int, blocks)
	for range resamples {
		for i := range draw {
			draw[i] = random.IntN(blocks)
		}
		for i, v := range of(draw) {
			values[i] = append(values[i], v)
		}
	}
	for i, v := range values {
		slices.Sort(v)
		out[i] = &[2]float64{quantile(v, 0.025), quantile(v, 0.975)}
	}
	return out
}

// quantile of sorted values, between neighbours in proportion.
func quantile[T float32 | float64](sorted []T, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return float64(sorted[low]) + (at-float64(low))*(float64(sorted[high])-float64(sorted[low]))
}

// wilson returns the score interval of the share of tokens with the same top choice, as if there were fewer tokens by the factor by
// which the share of blocks varies more than chance alone would make it: mistakes come in clusters. Unlike percentiles it has a width when
// every single token agrees.
func wilson(blocks []sums) *[2]float64 {
	var total sums
	for _, b := range blocks {
		total.merge(b)
	}
	if len(blocks) < minBlocks {
		return nil
	}
	share := total.sameTop / total.n
	excess := 1.0
	if share > 0 && share < 1 {
		spread := 0.0
		for _, b := range blocks {
			d := b.sameTop - share*b.n
			spread += d * d
		}
		excess = max(1, spread/(total.n*share*(1-share)))
	}
	n := total.n / excess
	middle := (share + z95*z95/(2*n)) / (1 + z95*z95/n)
	half := z95 / (1 + z95*z95/n) * math.Sqrt(share*(1-share)/n+z95*z95/(4*n*n))
	return &[2]float64{max(0, middle-half), min(1, middle+half)}
}

// largest returns the largest score. A score that is no finite number is an error: the model is broken, and no figure would mean
// anything.
func largest(logits []float32) (float64, error) {
	top := float32(math.Inf(-1))
	for i, v := range logits {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return 0, fmt.Errorf("the score of token %d is %g", i, v)
		}
		top = max(top, v)
	}
	return float64(top), nil
}

// surprise returns −log of the probability of token.
func surprise(logits []float32, token int32) (float64, error) {
	top, err := largest(logits)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top - float64(logits[token]), nil
}

// compare scores one prediction: measured against base, where the text goes on with token.
func compare(base, measured []float32, token int32) (scored, error) {
	topP, err := largest(base)
	if err != nil {
		return scored{}, fmt.Errorf("baseline: %w", err)
	}
	topQ, err := largest(measured)
	if err != nil {
		return scored{}, err
	}
	// Σ p·(log p − log q), with both shifted so that their largest is 0: the differences that are summed stay small.
	var sumP, sumQ, cross float64
	for i, v := range base {
		p, q := float64(v)-topP, float64(measured[i])-topQ
		e := math.Exp(p)
		sumP += e
		sumQ += math.Exp(q)
		cross += e * (p - q)
	}
	logP, logQ := math.Log(sumP), math.Log(sumQ)
	s := scored{
		nll: logQ + topQ - float64(measured[token]), base: logP + topP - float64(base[token]),
		kld: max(0, cross/sumP-logP+logQ), hasBaseline: true, sameTop: likeliest(base) == likeliest(measured),
	}
	s.deltaP = math.Exp(-s.nll) - math.Exp(-s.base)
	return s, nil
}

// likeliest returns the first of the largest scores.
func likeliest(logits []float32) int {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return best
}
