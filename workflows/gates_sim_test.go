package workflows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// population is where the requests of a simulated arm come from. Latencies are log-normal with a deviation of 0.4, the total with the first token's
// in it; tokens and costs vary by 0.8 of their mean.
type population struct {
	first, total       []Bin // counts are of a million
	failures, refusals float64
	cost, tokens       float64
	tenant             float64 // how many more requests of one tenant in ten fail
}

func makePopulation(scale float64) population {
	p := population{failures: 0.01, refusals: 0.01, cost: 1, tokens: 200}
	const n = 100_000
	r := rand.New(rand.NewPCG(3, 5))
	var first, total []int64
	for range n {
		f := 2e5 * scale * math.Exp(0.4*r.NormFloat64())
		first = append(first, int64(f))
		total = append(total, int64(f+1e6*scale*math.Exp(0.4*r.NormFloat64())))
	}
	p.first, p.total = bins(first), bins(total)
	for _, b := range [][]Bin{p.first, p.total} {
		for i := range b {
			b[i].Count *= 1_000_000 / n
		}
	}
	return p
}

var world0 = makePopulation(1)

func poisson(r *rand.Rand, mean float64) int64 {
	if mean > 60 {
		return int64(max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	return int64(distuv.Poisson{Lambda: mean, Src: r}.Rand())
}

func drawBins(r *rand.Rand, of []Bin, n float64, into map[int64]int64) {
	for _, b := range of {
		if k := poisson(r, n*float64(b.Count)/1e6); k > 0 {
			into[b.Micros] += k
		}
	}
}

// simArm collects what an arm did.
type simArm struct {
	sums         Sums
	first, total map[int64]int64
	n            int64
	errors       int64
}

func newSimArm() *simArm {
	a := &simArm{first: map[int64]int64{}, total: map[int64]int64{}}
	for i := range 10 {
		a.sums.Tenants = append(a.sums.Tenants, TenantCounts{Tenant: fmt.Sprint("t", i)})
	}
	return a
}

func (a *simArm) draw(r *rand.Rand, p population, n int64) {
	if n == 0 {
		return
	}
	f := float64(n)
	a.n += n
	add := func(to *Ratio, k float64) { *to = Ratio{to.Y + k, to.N + f, to.YY + k, to.YN + k, to.NN + f} }
	var failed, refused int64
	for i := range a.sums.Tenants {
		rate, each := p.failures, n/10
		if i == 0 {
			rate += p.tenant
			each = n - 9*(n/10)
		}
		e, d := min(each, poisson(r, rate*float64(each))), min(each, poisson(r, p.refusals*float64(each)))
		t := &a.sums.Tenants[i]
		t.Requests, t.Errors, t.Refused = t.Requests+each, t.Errors+e, t.Refused+d
		failed, refused = failed+e, refused+d
	}
	a.errors += failed
	add(&a.sums.Failures, float64(failed))
	add(&a.sums.Refusals, float64(refused))
	quantity := func(to *Ratio, mean float64) {
		y := max(0, f*mean+0.8*mean*math.Sqrt(f)*r.NormFloat64())
		*to = Ratio{to.Y + y, to.N + f, to.YY + f*mean*mean*(1+0.8*0.8), to.YN + y, to.NN + f}
	}
	quantity(&a.sums.Tokens, p.tokens)
	quantity(&a.sums.Cost, p.cost)
	add(&a.sums.Slow, f/20)
	drawBins(r, p.first, f, a.first)
	drawBins(r, p.total, f, a.total)
}

func (a *simArm) arm() Arm {
	return armOfSums(ArmSums{FirstToken: a.first, Total: a.total, Sums: Sums{
		Failures: a.sums.Failures, Refusals: a.sums.Refusals, Tokens: a.sums.Tokens, Cost: a.sums.Cost, Slow: a.sums.Slow, Tenants: slices.Clone(a.sums.Tenants),
	}}, 0)
}

func (p population) arm(r *rand.Rand, n int64, _ any) Arm {
	a := newSimArm()
	a.draw(r, p, n)
	return a.arm()
}

// plant is a candidate: what it is like after a part of the way (0 to 1, over all partial steps) and at an hour of the day (0 to 1).
type plant struct {
	name  string
	at    func(way, hour float64) population
	loses int64 // of 10,000 cases of the suite
	// promise marks the candidates about which the gates promise something: equal ones, and those worse by just the margin.
	promise bool
}

func plants() []plant {
	always := func(p population) func(float64, float64) population {
		return func(_, _ float64) population { return p }
	}
	with := func(change func(*population)) func(float64, float64) population {
		p := world0
		change(&p)
		return always(p)
	}
	var slower []population
	for i := range 11 {
		slower = append(slower, makePopulation(1+0.02*float64(i)))
	}
	ten, margin := slower[5], makePopulation(1.05)
	return []plant{
		{name: "equal (A/A)", at: always(world0), promise: true},
		{name: "latency at the margin (+5 %)", at: always(margin), promise: true},
		{name: "latency +10 %", at: always(ten)},
		{name: "latency +20 %", at: always(slower[10])},
		{name: "failures at the margin (+0.5 points)", at: with(func(p *population) { p.failures += 0.005 }), promise: true},
		{name: "failures +1 point", at: with(func(p *population) { p.failures += 0.01 })},
		{name: "refusals +1 point", at: with(func(p *population) { p.refusals += 0.01 })},
		{name: "accuracy at the margin (-0.5 points)", at: always(world0), loses: 50, promise: true},
		{name: "accuracy -1 point", at: always(world0), loses: 100},
		{name: "cost +10 %", at: with(func(p *population) { p.cost *= 1.1 })},
		{name: "tokens +10 %", at: with(func(p *population) { p.tokens *= 1.1 })},
		{name: "one tenant in ten: failures +5 points", at: with(func(p *population) { p.tenant = 0.05 })},
		{name: "slow drift: latency 0 to +20 %", at: func(way, _ float64) population { return slower[int(min(way, 1)*10)] }},
		{name: "failures at the margin at 80 only", at: func(way, _ float64) population {
			p := world0
			if p.failures = 0.002; way > 2.0/3 {
				p.failures = world0.failures + 0.005
			}
			return p
		}, promise: true},
		{name: "six hours a day: latency +20 %", at: func(_, hour float64) population {
			if hour < 0.25 {
				return slower[10]
			}
			return world0
		}},
	}
}

// simEnd is how a simulated rollout ended: in which step (0 to 2; 3 is promoted), and after how many dwells.
type simEnd struct {
	step   int
	failed bool // by proof; else by the deadline
	dwells float64
}

// simulateGates runs one rollout of the partial steps: four evaluations a dwell, an analysis at each full dwell, volume requests a dwell.
func simulateGates(r *rand.Rand, spec Spec, x plant, volume int64) simEnd {
	const polls = 4
	th := spec.Thresholds
	// The suite is drawn anew: 4 % of its cases are answered differently, and the candidate loses more of them than it wins.
	only := func(mean float64) int64 { return poisson(r, mean) }
	results := []Results{{Suite: "s", Both: 9000, OnlyStable: only(20 + float64(x.loses)), OnlyCandidate: only(20), Neither: 900}}
	var earlier []EarlierStep
	dwells := 0.0
	for step, share := range []int64{20, 40, 80} {
		s, c := newSimArm(), newSimArm()
		passed := false
		for poll := 1; poll <= polls*spec.analyses() && !passed; poll++ {
			dwells += 1.0 / polls
			at := x.at((float64(step)+min(float64(poll)/polls, 1))/3, float64((poll-1)%polls)/polls)
			s.draw(r, world0, volume*(100-share)/100/polls)
			c.draw(r, at, volume*share/100/polls)
			ev := Evidence{
				Schema: gateSchema, Phase: fmt.Sprint("canary-", share), Stable: s.arm(), Candidate: c.arm(), Looks: spec.analyses(), Last: share == 80,
				Earlier: earlier, Results: results,
			}
			if poll%polls == 0 {
				ev.Look = poll / polls
			}
			d := Verdict(ev, th)
			switch d.Outcome {
			case Fail:
				return simEnd{step, true, dwells}
			case Pass:
				passed = true
				earlier = append(earlier, earlierStep(Evaluation{Evidence: ev, Decision: d}))
			}
		}
		if !passed {
			return simEnd{step, false, dwells}
		}
	}
	return simEnd{3, false, dwells}
}

func simulatePlant(runs int, x plant, volume int64) []simEnd {
	spec := standardSpec()
	spec.Thresholds.MinRequests = 100
	for i := range spec.Thresholds.Gates {
		spec.Thresholds.Gates[i].MinSample = 100
	}
	ends := make([]simEnd, runs)
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < runs; i += workers {
				ends[i] = simulateGates(rand.New(rand.NewPCG(uint64(i), uint64(volume))), spec, x, volume)
			}
		})
	}
	wait.Wait()
	return ends
}

func promotedShare(ends []simEnd) float64 {
	n := 0
	for _, e := range ends {
		if e.step == 3 {
			n++
		}
	}
	return float64(n) / float64(len(ends))
}

// TestGateSimulation holds the promises of the standard gates on simulated rollouts: an equal candidate is promoted within the horizon, one at a
// margin or beyond is not. The short form runs a few; the long one is what bench/README.md reports: SLUICE_SIM_RUNS rollouts of each candidate whose
// name has SLUICE_SIM_ROWS in it, at SLUICE_SIM_VOLUME requests a step.
func TestGateSimulation(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulation")
	}
	long := os.Getenv("SLUICE_TEST_LONG") == "1"
	runs, volumes, all := 25, []int64{20_000}, plants()
	if long {
		runs, volumes = 10_000, []int64{1_000, 10_000, 100_000}
		if v := os.Getenv("SLUICE_SIM_RUNS"); v != "" {
			if _, err := fmt.Sscan(v, &runs); err != nil {
				t.Fatal(err)
			}
		}
		if v := os.Getenv("SLUICE_SIM_VOLUME"); v != "" {
			volumes = volumes[:1]
			if _, err := fmt.Sscan(v, &volumes[0]); err != nil {
				t.Fatal(err)
			}
		}
		all = slices.DeleteFunc(all, func(x plant) bool { return !strings.Contains(x.name, os.Getenv("SLUICE_SIM_ROWS")) })
	} else {
		all = slices.DeleteFunc(all, func(x plant) bool {
			return !slices.Contains([]string{"equal (A/A)", "latency at the margin (+5 %)", "failures +1 point"}, x.name)
		})
	}
	for _, volume := range volumes {
		var table strings.Builder
		for _, x := range all {
			begin, runs := time.Now(), runs
			if long && !x.promise { // for a table of power a tenth is exact enough
				runs = max(runs/10, 1)
			}
			ends := simulatePlant(runs, x, volume)
			promoted := promotedShare(ends)
			var stopped [3]int
			var proofs int
			var times []float64
			for _, e := range ends {
				if e.step < 3 {
					stopped[e.step]++
					times = append(times, e.dwells)
					if e.failed {
						proofs++
					}
				}
			}
			slices.Sort(times)
			median := "-"
			if len(times) > 0 {
				median = fmt.Sprintf("%.2f", times[len(times)/2])
			}
			pct := func(n int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(runs)) }
			fmt.Fprintf(&table, "| %d | %s | %d | %.2f %% | %s | %s | %s | %s | %s |\n", volume, x.name, runs, 100*promoted, pct(stopped[0]), pct(stopped[1]), pct(stopped[2]), pct(proofs), median)
			if long {
				t.Logf("%s at %d: %v", x.name, volume, time.Since(begin))
			}
			switch limit := 0.01 + 3*math.Sqrt(0.01*0.99/float64(runs)); {
			case x.name == "equal (A/A)" && volume >= 20_000 && promoted < 0.9:
				t.Errorf("%d requests a step: %.1f %% of equal candidates are promoted", volume, 100*promoted)
			case x.promise && x.name != "equal (A/A)" && promoted > limit:
				t.Errorf("%d requests a step: %s is promoted in %.2f %% of rollouts", volume, x.name, 100*promoted)
			}
		}
		t.Logf("\n| requests a step | candidate | rollouts | promoted | stopped at 20 | at 40 | at 80 | by proof | median dwells to the stop |\n|-|-|-|-|-|-|-|-|-|\n%s", table.String())
	}
}
