package sched

import (
	"math/rand/v2"
	"testing"
	"time"
)

// settled returns a controller that knows the machine.
func settled(t *testing.T, cfg ControllerConfig, truth func(Load) float64) *Controller {
	t.Helper()
	c, rng := NewController(cfg), rand.New(rand.NewPCG(1, 1))
	for range 400 {
		l := randomLoad(rng)
		c.Observe(l, microseconds(truth(l)))
	}
	return c
}

func randomDemand(rng *rand.Rand) Demand {
	var d Demand
	for i := range d.Classes {
		q := &d.Classes[i]
		if rng.IntN(2) == 0 {
			q.Decoding = rng.IntN(1 << rng.IntN(7))
			q.Context = q.Decoding * rng.IntN(3000)
			q.Drafts = q.Decoding * rng.IntN(5)
			q.Ahead = rng.IntN(q.Decoding+1) * rng.IntN(2)
		}
		if rng.IntN(2) == 0 {
			q.Prefill = rng.IntN(1 << rng.IntN(13))
			q.PrefillContext = q.Prefill * rng.IntN(3000)
			q.Behind = rng.IntN(q.Prefill+1) * rng.IntN(2)
		}
		q.Waiting = rng.IntN(3)
	}
	d.Acceptance = rng.Float64()
	d.Beside = time.Duration(rng.IntN(30)) * time.Millisecond
	return d
}

func TestPlanKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		c := NewController(ControllerConfig{PromptRows: 16 + rng.IntN(200), MinPrefill: 1 + rng.IntN(8), FreeRows: rng.IntN(8)})
		truth := linear(rng.Float64()*5000, rng.Float64()*2000, rng.Float64()*2000, rng.Float64())
		var d Demand
		var skipped, held [Classes]int
		for step := range 2000 {
			if rng.IntN(10) == 0 {
				d = randomDemand(rng)
			}
			got := c.Plan(d)
			if got.Load.Rows() > 0 {
				c.Observe(got.Load, microseconds(truth(got.Load)))
			}
			checkPlan(t, c, d, got)
			for i, q := range d.Classes {
				skipped[i], held[i] = count(skipped[i], q.Decoding, got.Classes[i].Decode), count(held[i], q.Prefill, got.Classes[i].Prefill)
				if skipped[i] > starvationLimit || held[i] >= 2*starvationLimit {
					t.Fatalf("seed %d, step %d: %s was left out for %d steps, its prompts for %d: %+v", seed, step, ClassName(i), skipped[i], held[i], got)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d:\n%+v\n%+v", seed, step, d, got)
			}
		}
	}
}

func checkPlan(t *testing.T, c *Controller, d Demand, got Decision) {
	t.Helper()
	urgent, prompts, wanted := Classes, 0, 0
	for i, q := range d.Classes {
		k := got.Classes[i]
		if got.Yield && i >= got.YieldClass {
			q.Decoding, q.Prefill, q.Drafts = q.Decoding-q.Ahead, q.Behind, 0
		}
		if k.Decode < 0 || k.Decode > q.Decoding || k.Prefill < 0 || k.Prefill > q.Prefill || k.Drafts < 0 || k.Drafts > q.Drafts {
			t.Errorf("%s gets what it does not want", ClassName(i))
		}
		if urgent == Classes && q.Decoding+q.Prefill > 0 {
			urgent = i
			if k.Decode < q.Decoding {
				t.Errorf("sequences of the most urgent class are left out")
			}
		}
		wanted += q.Prefill
		prompts += k.Prefill
	}
	if prompts > c.cfg.PromptRows || wanted > 0 && prompts < min(wanted, c.cfg.MinPrefill) && prompts == 0 {
		t.Errorf("%d prompt tokens go in, %d wait", prompts, wanted)
	}
	if wanted > 0 && got.Load.Drafts > 0 {
		t.Errorf("drafts go in while prompts wait")
	}
	if (urgent == Classes) != (got.Reason == ReasonIdle) || (got.Load.Rows() == 0) != (urgent == Classes) {
		t.Errorf("reason %q with %d rows", got.Reason, got.Load.Rows())
	}
	if got.Reason != ReasonIdle && got.Reason != ReasonFloor && got.Mean > got.Budget+got.Budget/50+2*time.Millisecond {
		t.Errorf("the step is to take %v, its budget is %v, its reason %q", got.Mean, got.Budget, got.Reason)
	}
}

func TestPlanReasons(t *testing.T) {
	t.Parallel()
	truth := linear(1000, 800, 800, 0.1)
	cases := []struct {
		name   string
		demand [Classes]ClassDemand
		reason Reason
		check  func(Decision) bool
	}{
		{"nothing", [Classes]ClassDemand{}, ReasonIdle, func(d Decision) bool { return d.Load.Rows() == 0 }},
		{
			"a lone prompt that fits",
			[Classes]ClassDemand{{Prefill: 50}},
			ReasonAll,
			func(d Decision) bool { return d.Classes[0].Prefill == 50 },
		},
		{
			"a long prompt while nothing decodes",
			[Classes]ClassDemand{{}, {Prefill: 5000}},
			ReasonChunk,
			func(d Decision) bool { return d.Classes[1].Prefill == 128 },
		},
		{
			"a long interactive prompt leaves time for newcomers",
			[Classes]ClassDemand{{Prefill: 5000}},
			ReasonChunk,
			func(d Decision) bool { return d.Classes[0].Prefill > 50 && d.Classes[0].Prefill < 100 },
		},
		{
			"a long prompt beside an interactive sequence",
			[Classes]ClassDemand{{Decoding: 1, Context: 100}, {}, {Prefill: 5000}},
			ReasonTarget,
			func(d Decision) bool {
				return d.Classes[0].Decode == 1 && d.Classes[2].Prefill >= 10 && d.Classes[2].Prefill <= 21
			},
		},
		{
			"batch sequences are left out",
			[Classes]ClassDemand{{Decoding: 4, Context: 400}, {}, {Decoding: 60, Context: 60}},
			ReasonSkip,
			func(d Decision) bool { return d.Classes[0].Decode == 4 && d.Classes[2].Decode < 20 },
		},
		{
			"batch sequences all run where only batch runs",
			[Classes]ClassDemand{{}, {}, {Decoding: 60, Context: 60}},
			ReasonAll,
			func(d Decision) bool { return d.Classes[2].Decode == 60 },
		},
		{
			"more interactive sequences than the target allows",
			[Classes]ClassDemand{{Decoding: 60, Context: 60}, {}, {Prefill: 300}},
			ReasonFloor,
			func(d Decision) bool { return d.Classes[0].Decode == 60 && d.Classes[2].Prefill == 4 },
		},
		{
			"a tenant that is ahead stands back",
			[Classes]ClassDemand{{}, {Decoding: 20, Context: 2000, Ahead: 18, Prefill: 300, Behind: 100}, {Decoding: 5, Context: 5, Ahead: 5}},
			ReasonYield,
			func(d Decision) bool {
				return d.Yield && d.YieldClass == Standard && d.Classes[1].Decode == 2 && d.Classes[1].Prefill > 40 && d.Classes[1].Prefill <= 100 && d.Classes[2].Decode == 0
			},
		},
		{
			"a chat goes on while others stand back",
			[Classes]ClassDemand{{Decoding: 1, Context: 100, Ahead: 1}, {Decoding: 20, Context: 2000, Ahead: 20, Prefill: 100, Behind: 100}},
			ReasonYield,
			func(d Decision) bool {
				return d.YieldClass == Standard && d.Classes[0].Decode == 1 && d.Classes[1].Decode == 0 && d.Classes[1].Prefill > 8
			},
		},
		{
			"nobody stands back for a few tokens",
			[Classes]ClassDemand{{}, {Decoding: 8, Context: 800, Ahead: 8, Prefill: 4, Behind: 4}},
			ReasonAll,
			func(d Decision) bool { return !d.Yield && d.Classes[1].Decode == 8 && d.Classes[1].Prefill == 4 },
		},
		{
			"an interactive prompt before batch tokens that are not due",
			[Classes]ClassDemand{{Prefill: 5000}, {}, {Decoding: 10, Context: 10}},
			ReasonSkip,
			func(d Decision) bool { return d.Classes[0].Prefill > 50 && d.Classes[2].Decode < 10 },
		},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := settled(t, ControllerConfig{}, truth)
			if got := c.Plan(Demand{Classes: k.demand}); got.Reason != k.reason || !k.check(got) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPlanDrafts(t *testing.T) {
	t.Parallel()
	plan := func(d Demand) Decision {
		return settled(t, ControllerConfig{FreeRows: 3}, linear(4000, 800, 800, 0.1)).Plan(d)
	}
	one := Demand{Acceptance: 0.8}
	one.Classes[Interactive] = ClassDemand{Decoding: 1, Context: 10, Drafts: 4}
	if got := plan(one); got.Load.Drafts != 4 {
		t.Errorf("drafts that pay are left out: %+v", got)
	}
	one.Acceptance = 0.05
	if got := plan(one); got.Load.Drafts != 2 {
		t.Errorf("drafts that do not pay go into %d rows, two are free", got.Load.Drafts)
	}
	many := Demand{Acceptance: 0.6}
	many.Classes[Batch] = ClassDemand{Decoding: 40, Context: 40, Drafts: 100}
	if got := plan(many); got.Load.Drafts != 0 {
		t.Errorf("drafts go in though sequences use the time better: %+v", got)
	}
	busy := Demand{Acceptance: 1}
	busy.Classes[Interactive] = ClassDemand{Decoding: 8, Context: 10, Drafts: 64}
	if got := plan(busy); got.Load.Drafts == 0 || got.P99 > 21*time.Millisecond {
		t.Errorf("drafts are not what is left of the budget: %+v", got)
	}
}

// A machine that cannot meet the target even for one sequence serves all the same, and its prompts do not wait for ever.
func TestMachineTooSlowForTheTarget(t *testing.T) {
	t.Parallel()
	s := newSimulation(1, linear(90e3, 4000, 8000, 5), &ControllerConfig{}, 0)
	s.add(3, simClient{class: Interactive, prompt: 100, output: 30, think: time.Second})
	s.until(300 * time.Second)
	if first := quantile(s.first[Interactive], 0.5); first > 6*time.Second || len(s.first[Interactive]) < 20 {
		t.Errorf("a prompt of 100 tokens takes %v, of 100 tokens alone 0.9 s; %d came", first, len(s.first[Interactive]))
	}
	if p99 := quantile(s.gaps[Interactive], 0.99); p99 > 250*time.Millisecond {
		t.Errorf("P99 is %v, one sequence alone takes 95 ms", p99)
	}
	if e := s.c.State().Classes[Interactive].EffectiveMs; e < 120 || e > 400 {
		t.Errorf("the effective target is %v ms", e)
	}
}

func TestOtherWorkComesOffTheTarget(t *testing.T) {
	t.Parallel()
	c := settled(t, ControllerConfig{}, linear(1000, 800, 800, 0.1))
	d := Demand{}
	d.Classes[Interactive] = ClassDemand{Decoding: 1, Context: 100, Prefill: 1000}
	alone := c.Plan(d).Load.Prefill
	d.Beside = 8 * time.Millisecond
	if beside := c.Plan(d).Load.Prefill; alone-beside < 6 || beside < 4 {
		t.Errorf("%d prompt tokens, beside work of 8 ms %d", alone, beside)
	}
}

func TestMarginFollowsObservedGaps(t *testing.T) {
	t.Parallel()
	c := NewController(ControllerConfig{})
	margin := func() float64 { return c.State().Classes[Interactive].Margin }
	for range 10 * gapsBetween {
		c.ObserveGap(Interactive, 10*time.Millisecond, false)
	}
	if margin() != 1 {
		t.Errorf("after short gaps the margin is %v", margin())
	}
	for i := range gapsBetween { // in the window of 512, one in 51 is over
		c.ObserveGap(Interactive, time.Duration(10+30*(i%12/11))*time.Millisecond, false)
	}
	if m := margin(); m >= 1 || m < 0.8 {
		t.Errorf("after one P99 over the target the margin is %v", m)
	}
	for range 100 * gapsBetween {
		c.ObserveGap(Interactive, 30*time.Millisecond, false)
	}
	if margin() != minMargin {
		t.Errorf("after long gaps the margin is %v", margin())
	}
	if other := c.State().Classes[Batch].Margin; other != initialMargin {
		t.Errorf("the margin of another class moved to %v", other)
	}
	c.ObserveGap(Interactive, time.Hour, false)
	for range 2 * gapWindow {
		c.ObserveGap(Interactive, 19*time.Millisecond, false)
	}
	if m := margin(); m != minMargin {
		t.Errorf("gaps just under the target moved the margin to %v", m)
	}
}

func TestMaxSequences(t *testing.T) {
	t.Parallel()
	c := settled(t, ControllerConfig{MaxSequences: 100}, linear(1000, 800, 800, 0.5))
	none := [Classes]int{}
	alone := [Classes]int{c.MaxSequences(Interactive, none, 100), c.MaxSequences(Standard, none, 100), c.MaxSequences(Batch, none, 100)}
	if alone[0] < 6 || alone[0] > 11 || alone[1] < 18 || alone[1] > 27 || alone[2] != 100 {
		t.Errorf("alone %v may run", alone)
	}
	for class := range Classes {
		most := 1 << 30
		for n := range 120 {
			for _, context := range []int{100, 2000, 100000} {
				got := c.MaxSequences(class, [Classes]int{n, n / 2, n}, context)
				if got < 1 || got > 100 {
					t.Fatalf("%d may run", got)
				}
				if context == 100 {
					if n > 0 && got > most {
						t.Fatalf("%s: the more run, the more may", ClassName(class))
					}
					if n > 0 {
						most = got
					}
				}
			}
		}
	}
	few, many := c.MaxSequences(Interactive, [Classes]int{0, 0, 8}, 100), c.MaxSequences(Interactive, [Classes]int{0, 8, 0}, 100)
	if few < many || few < alone[0]-3 {
		t.Errorf("batch sequences weigh too much: %d beside batch, %d beside standard, %d alone", few, many, alone[0])
	}
	if deep := c.MaxSequences(Interactive, none, 4000); deep >= alone[0] {
		t.Errorf("%d long sequences may run, %d short ones", deep, alone[0])
	}
	if got := c.State().Classes[Interactive].MaxSequences; got < 1 {
		t.Errorf("the state does not tell the bound")
	}
	// With as many as may run, the target holds.
	d := Demand{}
	d.Classes[Interactive] = ClassDemand{Decoding: alone[0], Context: alone[0] * 100, Prefill: 1000}
	if got := c.Plan(d); got.P99 > 20*time.Millisecond {
		t.Errorf("%+v", got)
	}
}

// While interactive prompts keep coming, sequences of less urgent classes compute their tokens as often as their own targets ask, and
// batch not more often than about twice that.
func TestOthersTokensAreInTimeBesideUrgentPrompts(t *testing.T) {
	t.Parallel()
	for _, class := range []int{Standard, Batch} {
		truth := linear(1000, 800, 800, 0.1)
		c := settled(t, ControllerConfig{}, truth)
		const n = 10
		d := Demand{}
		d.Classes[Interactive] = ClassDemand{Prefill: 1 << 20}
		d.Classes[class] = ClassDemand{Decoding: n, Context: n * 100}
		var last [n]time.Duration
		var now, most time.Duration
		total := 0
		for range 500 {
			got := c.Plan(d)
			took := microseconds(truth(got.Load))
			c.Observe(got.Load, took)
			now += took
			for range got.Classes[class].Decode {
				gap := now - last[total%n]
				most = max(most, gap)
				c.ObserveGap(class, gap, false)
				last[total%n] = now
				total++
			}
		}
		target := c.cfg.Targets[class]
		if most > target {
			t.Errorf("%s: a token took %v, the target is %v", ClassName(class), most, target)
		}
		if asked := n * int(now/target); class == Batch && (total < asked || total > 3*asked) {
			t.Errorf("%d tokens of batch in %v, its target asks for %d", total, now, asked)
		}
	}
}

// A step of batch work is no longer than the sequences of another model can wait.
func TestPlanKeepsTheLimitOfOthers(t *testing.T) {
	c := NewController(ControllerConfig{Prior: Coefficients{Step: 500, Decode: 800, Prefill: 800, Context: 0.01}})
	d := Demand{}
	d.Classes[Batch] = ClassDemand{Decoding: 40, Context: 4000, Prefill: 2000}
	if free := c.Plan(d); free.Mean < 50*time.Millisecond {
		t.Fatalf("without a limit the step takes %v: the test shows nothing", free.Mean)
	}
	d.Limit = 10 * time.Millisecond
	if got := c.Plan(d); got.Mean > 14*time.Millisecond || got.Load.Rows() == 0 {
		t.Errorf("%v for %d rows, limit %v", got.Mean, got.Load.Rows(), d.Limit)
	}
}

// Who is ahead stands back in every other step at most, and beside a stream of prompts of others its sequences and prompts of every class
// still come at least once in nine steps.
func TestYieldingStarvesNobody(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := NewController(ControllerConfig{})
		truth := linear(rng.Float64()*9000, rng.Float64()*3000, rng.Float64()*3000, 0)
		var d Demand
		for i := range d.Classes { // one sequence that is not ahead each, and one prompt that is not behind
			d.Classes[i] = ClassDemand{Decoding: 1 + rng.IntN(9), Prefill: 2000}
			d.Classes[i].Ahead, d.Classes[i].Behind = d.Classes[i].Decoding-1, rng.IntN(1000)
		}
		var ahead, prompts [Classes]int
		yielded := false
		for step := range 500 {
			got := c.Plan(d)
			if got.Yield && yielded {
				t.Fatalf("seed %d, step %d: others yield twice in a row", seed, step)
			}
			yielded = got.Yield
			c.Observe(got.Load, microseconds(truth(got.Load)))
			for i, q := range d.Classes {
				yields := got.Yield && i >= got.YieldClass
				ahead[i], prompts[i] = count(ahead[i], q.Ahead, got.Classes[i].Decode), count(prompts[i], 1, got.Classes[i].Prefill)
				if yields {
					ahead[i], prompts[i] = count(ahead[i]-min(ahead[i], 0), q.Ahead, 0), prompts[i]+1
				}
				if ahead[i] > 2*starvationLimit || prompts[i] > 3*starvationLimit {
					t.Fatalf("seed %d, step %d: %s: nothing of those who yield for %d steps, of their prompts for %d: %+v", seed, step, ClassName(i), ahead[i], prompts[i], got)
				}
			}
		}
	}
}
