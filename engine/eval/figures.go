package eval

import (
	"fmt"
	"math"
	"slices"
)

// figures turns the tally into results.
func (t *tally) figures(seed uint64) []Figure {
	type statistic struct {
		name string
		of   func(sums) float64
	}
	list := []statistic{{Perplexity, func(s sums) float64 { return math.Exp(s.nll / s.n) }}}
	compared := len(t.klds) > 0
	if compared {
		list = append(
			list,
			statistic{BaselinePerplexity, func(s sums) float64 { return math.Exp(s.base / s.n) }},
			statistic{PerplexityChange, func(s sums) float64 { return math.Expm1((s.nll - s.base) / s.n) }},
			statistic{MeanKLD, func(s sums) float64 { return s.kld / s.n }},
			statistic{RMSDeltaP, func(s sums) float64 { return math.Sqrt(s.squareP / s.n) }},
			statistic{MeanDeltaLogprob, func(s sums) float64 { return s.delta / s.n }},
		)
	}
	values := make([]float64, len(list))
	intervals := bootstrap(len(t.blocks), seed, len(list), func(draw []int) []float64 {
		var all sums
		for _, i := range draw {
			all.merge(t.blocks[i])
		}
		for i, s := range list {
			values[i] = s.of(all)
		}
		return values
	})
	method := fmt.Sprintf("percentiles of %d bootstrap draws of %d blocks of up to %d tokens", resamples, len(t.blocks), t.size)
	var out []Figure
	for i, s := range list {
		f := Figure{Name: s.name, Value: s.of(t.total), Interval: intervals[i], Method: method}
		if f.Interval == nil {
			f.Method = tooShort(len(t.blocks), "blocks of tokens")
		}
		out = append(out, f)
	}
	if !compared {
		return out
	}
	agreement := Figure{Name: Agreement, Value: t.total.sameTop / t.total.n, Interval: wilson(t.blocks), Method: "Wilson score interval, widened by the spread between blocks"}
	if agreement.Interval == nil {
		agreement.Method = tooShort(len(t.blocks), "blocks of tokens")
	}
	slices.Sort(t.klds)
	return append(
		out,
		agreement,
		Figure{Name: KLD99, Value: quantile(t.klds, 0.99)},
		Figure{Name: MaxKLD, Value: float64(t.klds[len(t.klds)-1])},
		Figure{Name: MaxDeltaLogprob, Value: t.worst},
	)
}

func tooShort(n int, of string) string {
	return fmt.Sprintf("no interval: %d %s, at least %d are needed", n, of, minBlocks)
}
