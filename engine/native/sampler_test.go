package native

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine/kernel"
)

func TestGreedyPicksTheLowestOfEquals(t *testing.T) {
	s := newSampler(kernel.Generic(), 4)
	if id := s.pick([]float32{1, 3, 3, 2}, draw{}); id != 1 {
		t.Errorf("got %d", id)
	}
	nan := float32(math.NaN())
	if id := s.pick([]float32{nan, nan, nan, nan}, draw{temperature: 1}); id < 0 || id > 3 {
		t.Errorf("NaN: got %d", id)
	}
}

// The frequencies of many draws match the probabilities, with and without temperature and top-p.
func TestSamplingFollowsTheDistribution(t *testing.T) {
	logits := []float32{0, 1, 2, -1, 3, 0.5, -30}
	const n = 40_000
	for _, c := range []struct{ temperature, topP float64 }{{1, 0}, {0.5, 1}, {2, 0}, {1, 0.8}, {1, 0.6}, {0.7, 0.9}} {
		want := distribution(logits, c.temperature, c.topP)
		s := newSampler(kernel.Generic(), len(logits))
		counts := make([]int, len(logits))
		for i := range n {
			counts[s.pick(logits, draw{temperature: c.temperature, topP: c.topP, seed: 42, step: i})]++
		}
		for id, p := range want {
			bound := 5*math.Sqrt(p*(1-p)/n) + 1e-9
			if got := float64(counts[id]) / n; math.Abs(got-p) > bound {
				t.Errorf("%+v: token %d has the share %.4f, want %.4f", c, id, got, p)
			}
		}
	}
}

// distribution is the definition.
func distribution(logits []float32, temperature, topP float64) []float64 {
	p := make([]float64, len(logits))
	sum := 0.0
	for i, v := range logits {
		p[i] = math.Exp(float64(v) / temperature)
		sum += p[i]
	}
	order := make([]int, len(p))
	for i := range p {
		p[i] /= sum
		order[i] = i
	}
	if topP <= 0 || topP >= 1 {
		return p
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if p[a] > p[b] {
			return -1
		}
		return 1
	})
	mass, n := 0.0, 0
	for mass < topP {
		mass += p[order[n]]
		n++
	}
	out := make([]float64, len(p))
	for _, i := range order[:n] {
		out[i] = p[i] / mass
	}
	return out
}

func TestDrawsDependOnSeedChoiceAndStepOnly(t *testing.T) {
	seen := map[float64]bool{}
	for seed := range uint64(10) {
		for choice := range 4 {
			for step := range 20 {
				u := uniform(seed, choice, step)
				if u != uniform(seed, choice, step) || u < 0 || u >= 1 {
					t.Fatal(u)
				}
				seen[u] = true
			}
		}
	}
	if len(seen) != 800 {
		t.Errorf("%d different numbers of 800", len(seen))
	}
}

func TestLogprobs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 500)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
	}
	logits[7], logits[3] = 12, 12
	s := newSampler(kernel.Generic(), len(logits))
	sum := 0.0
	for id := range logits {
		lp, _ := s.logprobs(logits, int32(id), 0)
		sum += math.Exp(lp)
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("probabilities add up to %v", sum)
	}
	lp, top := s.logprobs(logits, 7, 5)
	if len(top) != 5 || top[0].id != 3 || top[1].id != 7 || top[1].logprob != lp {
		t.Errorf("%v %+v", lp, top)
	}
	sorted := slices.Clone(logits)
	slices.Sort(sorted)
	for i, c := range top {
		if c.logit != sorted[len(sorted)-1-i] {
			t.Errorf("place %d: %v", i, c)
		}
	}
}
