package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
)

// servingRow is one line of the serving comparison.
type servingRow struct {
	clients, prompt int
	shared          bool // three quarters of the prompt are the same in all
	open            bool // requests come at their own times; clients is the number of slots
}

func (r servingRow) name() string {
	name := fmt.Sprintf("%d clients, prompt %d", r.clients, r.prompt)
	if r.clients == 1 {
		name = fmt.Sprintf("1 client, prompt %d", r.prompt)
	}
	if r.open {
		name = fmt.Sprintf("open loop, %d slots, prompt %d", r.clients, r.prompt)
	}
	if r.shared {
		name += ", shared prefix"
	}
	return name
}

// bar is what is asked of the ratio of the throughputs against a form of the model; 0 where nothing is.
func (r servingRow) bar(form string) (floor, aim float64) {
	if r.clients != 8 || r.open || r.shared {
		return 0, 0
	}
	if form == "" {
		return 2.5, 4
	}
	return 1, 1.5
}

// perSlot is a context that holds a request.
func (r servingRow) perSlot(output int) int { return (r.prompt + output + 64 + 255) / 256 * 256 }

// planServing lays out the rows: all closed loops, and behind them open ones with the number of slots that is asked for.
func planServing(clients, prompts []int, openSlots int) []servingRow {
	var rows []servingRow
	for _, c := range clients {
		for _, p := range prompts {
			rows = append(rows, servingRow{c, p, false, false}, servingRow{c, p, true, false})
		}
	}
	if slices.Contains(clients, openSlots) {
		for _, p := range prompts {
			rows = append(rows, servingRow{openSlots, p, false, true})
		}
	}
	return rows
}

// figures are what one side reached in one round of a row.
type figures struct {
	rate             float64 // tokens/s of completions
	first50, first99 float64 // ms
	gap50, gap99     float64 // ms
	worst            float64 // ms, the longest gap
	seconds          float64
	perChunk         float64 // tokens
	cached           float64 // share of the prompt tokens
	generator        float64 // processors that the load generator itself took
	perSecond        float64 // requests
}

func (s *seen) figures(generator time.Duration) figures {
	var first, gaps []time.Duration
	var prompt, cached, completion, chunks int
	for _, a := range s.answers {
		first, gaps = append(first, a.first), append(gaps, a.gaps...)
		prompt, cached, completion, chunks = prompt+a.prompt, cached+a.cached, completion+a.completion, chunks+len(a.gaps)+1
	}
	slices.Sort(first)
	slices.Sort(gaps)
	t := s.took.Seconds()
	f := figures{
		rate: float64(completion) / t, first50: ms(quantile(first, .5)), first99: ms(quantile(first, .99)), gap50: ms(quantile(gaps, .5)),
		gap99: ms(quantile(gaps, .99)), seconds: t, perChunk: float64(completion) / float64(max(1, chunks)), generator: generator.Seconds() / t,
		cached: float64(cached) / float64(max(1, prompt)), perSecond: float64(len(s.answers)) / t,
	}
	if len(gaps) > 0 {
		f.worst = ms(gaps[len(gaps)-1])
	}
	return f
}

// collect takes one figure out of several rounds.
func collect(rounds []figures, of func(figures) float64) []float64 {
	out := make([]float64, len(rounds))
	for i, f := range rounds {
		out[i] = of(f)
	}
	return out
}

func spreadOf(rounds []figures, of func(figures) float64) enginebench.Spread {
	return enginebench.SpreadOf(collect(rounds, of))
}

// ratioOf divides one figure round by round; its median is that of the medians.
func ratioOf(a, b []figures, of func(figures) float64) enginebench.Spread {
	x, y := collect(a, of), collect(b, of)
	r := enginebench.SpreadOf(ratios(x, y))
	r.Median = enginebench.SpreadOf(x).Median / enginebench.SpreadOf(y).Median
	return r
}

// arrivals are times at which a rate of requests come, independent of each other. The same seed gives the same times.
func arrivals(n int, perSecond float64, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a load that can be repeated
	out := make([]time.Duration, n)
	at := 0.0
	for i := range out {
		out[i] = time.Duration(at * float64(time.Second))
		at += random.ExpFloat64() / perSecond
	}
	return out
}
