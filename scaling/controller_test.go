package scaling

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday

func bank() Policy {
	return Policy{
		Min: 2, Max: 30, Calendar: Calendar{
			Timezone: "UTC", Total: 20, Peak: []Window{{From: "07:00", To: "22:00"}}, Idle: []Window{{From: "22:00", To: "07:00"}},
		},
		Targets: Targets{Rate: 10, Waiting: 2, KVUse: 0.8, Tokens: 5000, Misses: 0.05},
	}
}

func controller(t *testing.T, p Policy) *Controller {
	t.Helper()
	c, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// measured are fresh signals of a fleet with nothing to do but rate.
func measured(now time.Time, rate float64) Signals {
	return Signals{Rate: Reading{rate, now}, Waiting: Reading{0, now}, KVUse: Reading{0, now}, Tokens: Reading{0, now}, Misses: Reading{0, now}}
}

// TestControllerIsSafe: over random loads and faults the target never lies below the floor or above the maximum, falls only with fresh signals and
// nobody starting, rises and falls no faster than it may, and is the same whenever the inputs are.
func TestControllerIsSafe(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := bank()
		p.MaxUp, p.MaxDown, p.DownAfter = 1+random.IntN(6), 1+random.IntN(3), time.Duration(random.IntN(600)+1)*time.Second
		p.Freeze = []Span{{start.Add(5 * time.Hour), start.Add(8 * time.Hour)}}
		one, two := controller(t, p), controller(t, p)
		now, ready := start, 20
		type change struct {
			at    time.Time
			delta int
			floor bool
		}
		var changes []change
		for range 800 {
			now = now.Add(time.Duration(random.IntN(90)) * time.Second)
			in := Inputs{Now: now, Signals: measured(now, 400*random.Float64()*random.Float64()), Fleet: Fleet{Ready: ready}}
			in.Signals.Waiting.Value, in.Signals.KVUse.Value = float64(random.IntN(100)), random.Float64()*1.2
			fault := random.IntN(12)
			switch fault {
			case 0:
				in.Signals.Tokens = Reading{}
			case 1:
				in.Signals.Misses.At = now.Add(-2 * time.Minute)
			case 2:
				in.Signals.Rate.Value = math.NaN()
			case 3:
				in.Fleet.Starting = 1 + random.IntN(5)
			case 4:
				in.Now = now.Add(-time.Hour)
			case 5:
				in.Signals.Waiting.At = now.Add(time.Minute)
			case 6:
				in.Fleet.Ready, in.Fleet.Failed = 0, random.IntN(9)
			case 7:
				o := &Override{Target: random.IntN(60) - 10, Until: now.Add(time.Minute)}
				one.SetOverride(o)
				two.SetOverride(o)
			case 8:
				took := time.Duration(random.IntN(300)) * time.Second
				one.Ready(took)
				two.Ready(took)
			}
			d, again := one.Decide(in), two.Decide(in)
			a, _ := json.Marshal(d.Target)
			b, _ := json.Marshal(again.Target)
			if string(a) != string(b) || !slices.Equal(d.Limits, again.Limits) || d.Winner != again.Winner {
				t.Fatalf("seed %d: the same inputs gave %s and %s", seed, a, b)
			}
			if _, floor := p.Calendar.At(in.Now); d.Target < floor || d.Target < p.Min || d.Target > p.Max {
				t.Fatalf("seed %d: target %d, floor %d", seed, d.Target, floor)
			}
			if d.Target < d.Before && (fault <= 5 && d.Override == nil || fault == 4) {
				t.Fatalf("seed %d: fault %d took instances away: %+v", seed, fault, d)
			}
			frozen := !in.Now.Before(p.Freeze[0].From) && in.Now.Before(p.Freeze[0].To)
			if frozen && d.Changed() && d.Target != d.Floor {
				t.Fatalf("seed %d: %d became %d while frozen", seed, d.Before, d.Target)
			}
			if d.Changed() && fault != 4 {
				changes = append(changes, change{in.Now, d.Target - d.Before, d.Target == d.Floor})
			}
			ready = max(0, d.Target-random.IntN(3))
		}
		for i, c := range changes {
			up, down := 0, 0
			for _, later := range changes[i:] {
				if later.at.Sub(c.at) >= time.Minute {
					break
				}
				if later.delta > 0 && !later.floor {
					up += later.delta
				}
				down -= min(0, later.delta)
			}
			if up > p.MaxUp || down > p.MaxDown {
				t.Fatalf("seed %d: %d up and %d down in a minute, of %d and %d", seed, up, down, p.MaxUp, p.MaxDown)
			}
		}
	}
}

// TestNightIsSevenOfTwenty: at night exactly 7 of 20 stay, and 20 are ordered before the peak by the lead that was learned.
func TestNightIsSevenOfTwenty(t *testing.T) {
	t.Parallel()
	c := controller(t, bank())
	c.Ready(10 * time.Minute)
	at, ready := map[string]int{}, 20
	for now := start; now.Before(start.Add(48 * time.Hour)); now = now.Add(time.Minute) {
		d := c.Decide(Inputs{Now: now, Signals: measured(now, 1), Fleet: Fleet{Ready: ready}})
		ready = d.Target
		at[now.Format("02 15:04")] = ready
	}
	for when, want := range map[string]int{"02 06:43": 7, "02 06:44": 20, "02 21:59": 20, "03 02:00": 7, "03 06:43": 7, "03 06:44": 20, "03 12:00": 20} {
		if at[when] != want {
			t.Errorf("%s: %d instances, want %d", when, at[when], want)
		}
	}
}

func TestCalendarFloors(t *testing.T) {
	t.Parallel()
	for share, want := range map[int]int{20: 7, 3: 2, 1: 1, 40: 14, 100: 35, 200: 70} {
		c := Calendar{Timezone: "UTC", Total: share, Idle: []Window{{From: "00:00", To: "24:00"}}}
		if slot, n := c.At(start); slot != SlotIdle || n != want {
			t.Errorf("35 %% of %d: %d in %s", share, n, slot)
		}
	}
	// Windows that meet or overlap leave no gap.
	c := Calendar{Timezone: "Asia/Shanghai", Total: 10, Peak: []Window{{From: "08:00", To: "12:00"}, {From: "12:00", To: "18:00"}, {From: "17:00", To: "23:00"}}}
	zone, _ := time.LoadLocation("Asia/Shanghai")
	for m := 8 * 60; m < 23*60; m++ {
		if slot, n := c.At(time.Date(2026, 3, 2, 0, m, 59, 0, zone)); slot != SlotPeak || n != 10 {
			t.Fatalf("minute %d: %d in %s", m, n, slot)
		}
	}
	if slot, n := c.At(time.Date(2026, 3, 2, 23, 0, 0, 0, zone)); slot != SlotValley || n != 6 {
		t.Errorf("in the evening: %d in %s", n, slot)
	}
	if slot, n := (Calendar{Timezone: "Nowhere", Total: 4}).At(start); slot != SlotPeak || n != 4 {
		t.Errorf("without a zone: %d in %s", n, slot)
	}
	if s := spread(7, []string{"a", "b", "c"}); s["a"] != 3 || s["b"] != 2 || s["c"] != 2 {
		t.Errorf("%v", s)
	}
}

func TestSignalsWin(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name   string
		change func(*Signals)
		want   int
		why    Why
	}{
		{"nothing", func(*Signals) {}, 7, WhyFloor},
		{"rate", func(s *Signals) { s.Rate.Value = 101 }, 11, WhyRate},
		{"queue", func(s *Signals) { s.Waiting.Value = 21 }, 11, WhyWaiting},
		{"long queue", func(s *Signals) { s.Waiting.Value = 9999 }, 14, WhyWaiting}, // at most twice as many, and as fast as may be
		{"kv", func(s *Signals) { s.KVUse.Value = 1 }, 9, WhyKVUse},
		{"tokens", func(s *Signals) { s.Tokens.Value = 40001 }, 9, WhyTokens},
		{"misses", func(s *Signals) { s.Misses.Value = 0.06 }, 9, WhyMisses},
	} {
		now := start.Add(2 * time.Hour)
		s := measured(now, 1)
		x.change(&s)
		d := controller(t, bank()).Decide(Inputs{Now: now, Signals: s, Fleet: Fleet{Ready: 7}})
		if d.Target != x.want || d.Winner != x.why {
			t.Errorf("%s: %d by %s, want %d by %s (%v)", x.name, d.Target, d.Winner, x.want, x.why, d.Needs)
		}
	}
}

func TestOverrideExpires(t *testing.T) {
	t.Parallel()
	c := controller(t, bank())
	now := start.Add(2 * time.Hour)
	c.SetOverride(&Override{Target: 3, Until: now.Add(10 * time.Minute), By: "ops"})
	target := 10
	for range 10 { // also without any signal: a person demands it
		d := c.Decide(Inputs{Now: now, Fleet: Fleet{Ready: target}})
		target, now = d.Target, now.Add(time.Minute)
	}
	if target != 7 {
		t.Errorf("an override below the floor gave %d", target)
	}
	if d := c.Decide(Inputs{Now: now, Fleet: Fleet{Ready: 7}}); d.Override != nil || d.Winner != WhyFloor || !slices.Contains(d.Alarms, AlarmNoData) {
		t.Errorf("after its end: %+v", d)
	}
}

func TestCapacityLine(t *testing.T) {
	t.Parallel()
	c := controller(t, bank())
	d := c.Decide(Inputs{Now: start, Signals: measured(start, 200), Fleet: Fleet{Ready: 20}})
	if d.Line != 28 || len(d.Alarms) != 0 {
		t.Errorf("1.4 × 200 at 10 each: %d %v", d.Line, d.Alarms)
	}
	now := start.Add(forecastStep)
	if d = c.Decide(Inputs{Now: now, Signals: measured(now, 301), Fleet: Fleet{Ready: 20}}); d.Line != 43 || !slices.Equal(d.Alarms, []Alarm{AlarmLine, AlarmMax}) || d.Target != 30 {
		t.Errorf("1.4 × 301 at 10 each: %d %v %d", d.Line, d.Alarms, d.Target)
	}
}

// TestTariffMovesTheQuantile: what an instance costs and emits at that hour lowers how certain the forecast has to be.
func TestTariffMovesTheQuantile(t *testing.T) {
	t.Parallel()
	p := bank()
	p.Cost = Cost{Instance: 1, Watts: 1000, Miss: 9, Carbon: 0.5}
	if q := p.quantile(Tariff{}); math.Abs(q-0.9) > 1e-9 {
		t.Errorf("%g", q)
	}
	if q := p.quantile(Tariff{Price: 2, Carbon: 4}); math.Abs(q-9.0/14) > 1e-9 {
		t.Errorf("%g", q)
	}
	d := controller(t, p).Decide(Inputs{Now: start, Signals: measured(start, 1), Fleet: Fleet{Ready: 7}, Tariff: Tariff{Price: 2}})
	if d.Cost != 7*3 || d.Joules != 7*3.6e6 {
		t.Errorf("cost %g, joules %g", d.Cost, d.Joules)
	}
}

// TestForecastCovers: the intervals hold what they say on loads with noise, and a peak is seen before it comes.
func TestForecastCovers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	day := func(at time.Time) float64 {
		h := float64(at.Hour()) + float64(at.Minute())/60
		return 20 + 80*math.Exp(-(h-14)*(h-14)/18)
	}
	c := controller(t, bank())
	under, over, n := 0, 0, 0
	for at := start; at.Before(start.Add(28 * 24 * time.Hour)); at = at.Add(forecastStep) {
		real := day(at) * (1 + 0.1*random.NormFloat64())
		if b, ok := c.forecast.At(at.Add(30*time.Minute), 0.9); ok && at.Sub(start) > 15*24*time.Hour {
			later := day(at.Add(30*time.Minute)) * (1 + 0.1*random.NormFloat64())
			if n++; later < b.Low {
				under++
			} else if later > b.High {
				over++
			}
		}
		c.forecast.Observe(at, real)
	}
	if lo, hi := float64(under)/float64(n), float64(over)/float64(n); n < 3000 || lo < 0.06 || lo > 0.14 || hi < 0.06 || hi > 0.14 {
		t.Errorf("of %d, %.3f lay below the interval and %.3f above", n, lo, hi)
	}
	if _, ok := c.forecast.At(start.Add(60*24*time.Hour), 0.9); ok {
		t.Error("it predicts what lies beyond its season")
	}
	// At 10 in the morning half an hour of lead sees more than there is.
	now := start.Add(28*24*time.Hour + 9*time.Hour)
	c.Ready(40 * time.Minute)
	d := c.Decide(Inputs{Now: now, Signals: measured(now, day(now)), Fleet: Fleet{Ready: 20}})
	if d.Lead != time.Hour || d.Forecast == nil || d.Forecast.Mid < day(now)*1.1 {
		t.Errorf("the peak that comes: %+v of %g", d.Forecast, day(now))
	}
}

func TestForecasterTakesAnything(t *testing.T) {
	t.Parallel()
	var f Forecaster
	random := rand.New(rand.NewPCG(3, 3))
	at := start
	for i := range 30000 {
		at = at.Add(time.Duration(random.IntN(1200)-60) * time.Second)
		if i%7000 == 6999 {
			at = at.Add(time.Duration(random.IntN(9)) * 7 * 24 * time.Hour)
		}
		f.Observe(at, []float64{random.Float64(), 0, math.NaN(), -1, math.Inf(1)}[random.IntN(5)])
		if len(f.values) > keptSteps {
			t.Fatalf("%d steps are kept", len(f.values))
		}
		if b, ok := f.At(at.Add(time.Hour), 0.9); ok && (math.IsNaN(b.At) || b.At < 0) {
			t.Fatalf("%+v", b)
		}
	}
}

func TestLeadTime(t *testing.T) {
	t.Parallel()
	var l LeadTime
	if l.Ahead() != firstLead {
		t.Error(l.Ahead())
	}
	l.Observe(time.Second)
	if l.Ahead() != firstLead {
		t.Error("one quick start is taken for the rule")
	}
	for i := range 100 {
		l.Observe(time.Duration(i) * time.Second)
	}
	l.Observe(-time.Hour)
	if l.Ahead() != 96*time.Second*3/2 { // of 36 to 99, the 61st
		t.Error(l.Ahead())
	}
	l.Observe(24 * time.Hour)
	for range 5 {
		l.Observe(24 * time.Hour)
	}
	if l.Ahead() != mostLead {
		t.Error(l.Ahead())
	}
}

func TestPolicyValidates(t *testing.T) {
	t.Parallel()
	if err := bank().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Policy){
		"min":           func(p *Policy) { p.Min = 0 },
		"max":           func(p *Policy) { p.Max = 1 },
		"floor":         func(p *Policy) { p.Max = 19 },
		"zone":          func(p *Policy) { p.Calendar.Timezone = "Local" },
		"share":         func(p *Policy) { p.Calendar.IdleShare = math.NaN() },
		"window":        func(p *Policy) { p.Calendar.Peak[0].To = "07:00" },
		"hour":          func(p *Policy) { p.Calendar.Idle[0].From = "24:00" },
		"day":           func(p *Policy) { p.Calendar.Idle[0].Days = []int{7} },
		"rate":          func(p *Policy) { p.Targets.Rate = math.Inf(1) },
		"kv":            func(p *Policy) { p.Targets.KVUse = 1.1 },
		"up":            func(p *Policy) { p.MaxUp = -1 },
		"stale":         func(p *Policy) { p.Stale = -1 },
		"domains":       func(p *Policy) { p.Domains = []string{"a", "a"} },
		"freeze":        func(p *Policy) { p.Freeze = []Span{{start, start}} },
		"negative cost": func(p *Policy) { p.Cost.Miss = -1 },
	} {
		p := bank()
		change(&p)
		if p.Validate() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestClockThatWasAhead: a clock that went back takes nobody away; once it has gone on for a while it is the time, and what is measured counts again.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	c := controller(t, bank())
	wrong := start.Add(365*24*time.Hour + 2*time.Hour)
	c.Decide(Inputs{Now: wrong, Signals: measured(wrong, 200), Fleet: Fleet{Ready: 20}})
	target := 20
	for m := range 20 {
		now := start.Add(2*time.Hour + time.Duration(m)*time.Minute)
		d := c.Decide(Inputs{Now: now, Signals: measured(now, 1), Fleet: Fleet{Ready: target}})
		if target = d.Target; m <= 5 && (target != 20 || !slices.Equal(d.Limits, []Limit{LimitClock})) {
			t.Fatalf("after %d minutes: %d %v", m, target, d.Limits)
		}
	}
	if target >= 20 {
		t.Errorf("the time that was wrong holds: %d instances", target)
	}
	if c.forecast.last().After(start.Add(3 * time.Hour)) {
		t.Errorf("readings are dropped until %s", c.forecast.last())
	}
}
