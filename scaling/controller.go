package scaling

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Reading is a value and when it was measured. The zero value is none.
type Reading struct {
	Value float64   `json:"value"`
	At    time.Time `json:"at"`
}

// Signals are what is measured of a pool as a whole.
type Signals struct {
	Rate    Reading `json:"rate"`    // requests a second that arrive
	Waiting Reading `json:"waiting"` // requests that wait
	KVUse   Reading `json:"kv_use"`  // share of the KV pages in use
	Tokens  Reading `json:"tokens"`  // tokens in flight
	Misses  Reading `json:"misses"`  // share of the requests that missed their objective
}

// Fleet is what there is of a pool.
type Fleet struct {
	Ready int `json:"ready"`
	// Base are those of Ready that are there anyway: nobody starts or ends them.
	Base     int `json:"base,omitempty"`
	Starting int `json:"starting"`
	Draining int `json:"draining"`
	// Failed are starts that failed since the last one that did not.
	Failed int `json:"failed"`
}

// Inputs are what a decision is made of.
type Inputs struct {
	Now     time.Time `json:"now"`
	Fleet   Fleet     `json:"fleet"`
	Signals Signals   `json:"signals"`
	Tariff  Tariff    `json:"tariff"`
}

// Override is a target that somebody demands until a moment, whatever is measured or starting. The floor, Max and the rates hold all the same.
type Override struct {
	Target int       `json:"target"`
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Why says what a target comes from.
type Why string

// What wins.
const (
	WhyFloor    Why = "floor"
	WhyForecast Why = "forecast"
	WhyRate     Why = "rate"
	WhyWaiting  Why = "waiting"
	WhyKVUse    Why = "kv_use"
	WhyTokens   Why = "tokens"
	WhyMisses   Why = "misses"
	WhyOverride Why = "override"
)

// Limit says why a target is not what was wanted.
type Limit string

// The limits.
const (
	LimitMax      Limit = "max"       // the pool may have no more
	LimitUp       Limit = "up_rate"   // so many were ordered just now
	LimitDown     Limit = "down_rate" // so many were taken away just now
	LimitFreeze   Limit = "freeze"
	LimitNoData   Limit = "no_data"  // a signal is missing or stale: nobody is taken away
	LimitStarting Limit = "starting" // instances are starting: nobody is taken away
	LimitSettling Limit = "settling" // more was wanted a short while ago
	LimitClock    Limit = "clock"    // the clock went back: nobody is taken away
)

// Alarm is something that people are told about.
type Alarm string

// The alarms.
const (
	AlarmLine    Alarm = "capacity_line" // Max does not carry HeadRoom times the highest rate of the last week
	AlarmMax     Alarm = "at_max"        // more is wanted than the pool may have
	AlarmNoData  Alarm = "no_data"
	AlarmFailing Alarm = "starts_fail" // starts fail in a row
)

// Decision is a target and why.
type Decision struct {
	Inputs
	Slot     string        `json:"slot,omitempty"`
	Floor    int           `json:"floor"`    // the least number of instances now, or when an instance that is ordered now is ready
	Lead     time.Duration `json:"lead"`     // how far ahead was looked
	Forecast *Band         `json:"forecast"` // the highest within the lead; nil: too little is known
	// Needs are the instances that each signal and the forecast ask for; what is missing here said nothing.
	Needs    map[Why]int    `json:"needs"`
	Override *Override      `json:"override,omitempty"`
	Wanted   int            `json:"wanted"` // before limits
	Winner   Why            `json:"winner"`
	Before   int            `json:"before"` // the target until now
	Target   int            `json:"target"`
	Ordered  int            `json:"ordered"`           // of the actuator: the target without the base that stayed
	Domains  map[string]int `json:"domains,omitempty"` // the target by failure domain
	Limits   []Limit        `json:"limits,omitempty"`
	Alarms   []Alarm        `json:"alarms,omitempty"`
	// Line is the number of instances that carries HeadRoom times the highest rate of the last week; 0: it is not known.
	Line   int     `json:"line"`
	Cost   float64 `json:"cost"`   // expected for an hour at the target
	Joules float64 `json:"joules"` // expected for an hour at the target
}

// Changed reports whether the decision changes the target.
func (d Decision) Changed() bool { return d.Target != d.Before }

// Controller decides for one pool. It is safe for concurrent use, and starts nothing.
type Controller struct {
	policy Policy

	mu       sync.Mutex // guards what follows
	forecast Forecaster
	lead     LeadTime
	target   int // 0: none yet
	now      time.Time
	since    time.Time // since when the clock has been behind now; zero: it is not
	wants    []stamped // the highest wants of the last DownAfter, falling
	moves    []stamped // changes of the target within the longest of the rate limits
	override *Override
}

type stamped struct {
	at time.Time
	n  int
}

// New returns a controller.
func New(p Policy) (*Controller, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("scaling: %w", err)
	}
	return &Controller{policy: p.withDefaults()}, nil
}

// Ready notes how long an instance took from the order to readiness.
func (c *Controller) Ready(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lead.Observe(took)
}

// SetOverride demands a target until a moment; nil ends the demand. What is over already has no effect.
func (c *Controller) SetOverride(o *Override) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.override = nil
	if o != nil {
		kept := *o
		c.override = &kept
	}
}

// Decide returns the next target. The first target is what there is, if that is not below the floor.
func (c *Controller) Decide(in Inputs) Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.policy
	d := Decision{Inputs: in, Needs: map[Why]int{}, Lead: c.lead.Ahead()}
	if pause := in.Now.Sub(c.now); c.target > 0 && pause > 0 { // the next decision will come as late as this one did
		d.Lead = min(mostLead, d.Lead+min(pause, longestPause))
	}
	d.Slot, _ = p.Calendar.At(in.Now)
	d.Floor = min(p.Max, max(p.Min, p.Calendar.FloorUntil(in.Now, d.Lead)))
	if d.Before = c.target; c.target == 0 {
		d.Before = min(p.Max, max(1, in.Fleet.Ready+in.Fleet.Starting))
	}
	fresh := c.needs(&d)
	d.Wanted, d.Winner = d.Floor, WhyFloor
	for _, why := range []Why{WhyForecast, WhyRate, WhyWaiting, WhyKVUse, WhyTokens, WhyMisses} {
		if n := d.Needs[why]; n > d.Wanted {
			d.Wanted, d.Winner = n, why
		}
	}
	if c.override != nil && in.Now.Before(c.override.Until) {
		d.Override, d.Wanted, d.Winner = c.override, c.override.Target, WhyOverride
	} else {
		c.override = nil
	}
	back := c.behind(in.Now)
	c.limit(&d, fresh, back)
	c.alarms(&d, fresh)
	if d.Changed() {
		c.moves = append(c.moves, stamped{in.Now, d.Target - d.Before})
	}
	if c.target = d.Target; !back {
		c.now = in.Now
	}
	d.Domains = spread(d.Target, p.Domains)
	d.Cost = float64(d.Target) * p.hourly(in.Tariff)
	d.Joules = float64(d.Target) * p.Cost.Watts * 3600
	return d
}

// Planned is what is expected of a moment that lies ahead.
type Planned struct {
	At       time.Time
	Slot     string // of the calendar
	Floor    int
	Forecast *Band // nil: too little is known
	// Instances is what floor and forecast ask for, within the bounds of the policy. What will be measured then may ask for more.
	Instances int
}

// Plan returns what is expected at moments from now on, n of them.
func (c *Controller) Plan(now time.Time, step time.Duration, n int) []Planned {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Planned, n)
	for i := range out {
		p := &out[i]
		p.At = now.Add(time.Duration(i) * step)
		var floor int
		p.Slot, floor = c.policy.Calendar.At(p.At)
		p.Floor = min(c.policy.Max, max(c.policy.Min, floor))
		p.Instances = p.Floor
		if c.policy.Targets.Rate == 0 || c.policy.IgnoreForecast {
			continue
		}
		if b, ok := c.forecast.At(p.At, c.policy.quantile(Tariff{})); ok {
			p.Forecast = &b
			p.Instances = min(c.policy.Max, max(p.Floor, ceil(b.At/c.policy.Targets.Rate)))
		}
	}
	return out
}

// Undo takes back the latest decision, which was not carried out: the next one begins where it began.
func (c *Controller) Undo(d Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = d.Before
	if n := len(c.moves); d.Changed() && n > 0 {
		c.moves = c.moves[:n-1]
	}
}

// behind reports whether the clock went back. Once it has gone on from there for DownAfter it is taken for right: it was ahead before.
func (c *Controller) behind(now time.Time) bool {
	switch {
	case !now.Before(c.now):
		c.since = time.Time{}
		return false
	case c.since.IsZero() || now.Before(c.since):
		c.since = now
		return true
	case now.Sub(c.since) <= c.policy.DownAfter:
		return true
	}
	for _, all := range [][]stamped{c.wants, c.moves} {
		for i := range all {
			if all[i].at.After(now) {
				all[i].at = now
			}
		}
	}
	c.now, c.since = now, time.Time{}
	return false
}

// longestPause bounds by how much a late decision makes the next ones look further ahead.
const longestPause = 5 * time.Minute

// skew is by how much a reading may come from the future: clocks differ.
const skew = 5 * time.Second

// needs fills in what the forecast and each signal ask for. It reports whether every signal that the policy has a target for is fresh.
func (c *Controller) needs(d *Decision) (fresh bool) {
	p, s := c.policy, d.Signals
	ready := float64(max(1, d.Fleet.Ready))
	fresh = true
	use := func(why Why, r Reading, target, n float64) {
		if target == 0 {
			return
		}
		age := d.Now.Sub(r.At)
		if r.At.IsZero() || age > p.Stale || age < -skew || math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || r.Value < 0 {
			fresh = false
			return
		}
		d.Needs[why] = ceil(n)
	}
	use(WhyRate, s.Rate, p.Targets.Rate, s.Rate.Value/p.Targets.Rate)
	use(WhyTokens, s.Tokens, p.Targets.Tokens, s.Tokens.Value/p.Targets.Tokens)
	use(WhyKVUse, s.KVUse, p.Targets.KVUse, ready*min(1, s.KVUse.Value)/p.Targets.KVUse)
	// A queue that is as long as it may be asks for those that there are; one that is longer, for at most twice as many at a time. One that is
	// shorter asks for none: instances that keep up have no queue, and are not idle.
	waiting := 0.0
	if long := s.Waiting.Value / (ready * p.Targets.Waiting); long > 1 {
		waiting = ready * min(2, long)
	}
	use(WhyWaiting, s.Waiting, p.Targets.Waiting, waiting)
	misses := 0.0
	if s.Misses.Value > p.Targets.Misses {
		misses = max(ready+1, ready*1.2)
	}
	use(WhyMisses, s.Misses, p.Targets.Misses, misses)
	if _, there := d.Needs[WhyRate]; there {
		c.forecast.Observe(s.Rate.At, s.Rate.Value)
	}
	if p.Targets.Rate > 0 {
		if !p.IgnoreForecast {
			if b, ok := c.forecast.Until(d.Now, d.Lead, p.quantile(d.Tariff)); ok {
				d.Forecast = &b
				d.Needs[WhyForecast] = ceil(b.At / p.Targets.Rate)
			}
		}
		if peak, ok := c.forecast.Peak(); ok {
			d.Line = p.Line(peak)
		}
	}
	return fresh
}

// limit makes the target of what is wanted.
func (c *Controller) limit(d *Decision, fresh, back bool) {
	p := c.policy
	if d.Wanted > p.Max {
		d.Limits = append(d.Limits, LimitMax)
	}
	want := min(p.Max, max(d.Floor, d.Wanted))
	c.remember(d.Now, want)
	d.Target = want
	switch {
	case slices.ContainsFunc(p.Freeze, func(s Span) bool { return !d.Now.Before(s.From) && d.Now.Before(s.To) }):
		if d.Target = min(p.Max, max(d.Before, d.Floor)); d.Target != want {
			d.Limits = append(d.Limits, LimitFreeze)
		}
	case want > d.Before:
		room := p.MaxUp
		if room == 0 {
			room = max(4, d.Before)
		}
		if most := d.Before + max(0, room-c.moved(d.Now, p.UpEvery, 1)); want > most {
			d.Target = max(most, d.Floor)
			if d.Target < want {
				d.Limits = append(d.Limits, LimitUp)
			}
		}
	case want < d.Before:
		d.Target = max(d.Floor, c.down(d, want, fresh, back))
	}
}

// down returns how far the target may fall.
func (c *Controller) down(d *Decision, want int, fresh, back bool) int {
	p := c.policy
	stay := func(l Limit) int {
		d.Limits = append(d.Limits, l)
		return d.Before
	}
	demanded := d.Override != nil // by somebody who sees more than the signals say
	switch {
	case back:
		return stay(LimitClock)
	case !fresh && !demanded:
		return stay(LimitNoData)
	case d.Fleet.Starting > 0 && !demanded:
		return stay(LimitStarting)
	}
	if most := c.wants[0].n; !demanded && most > want {
		d.Limits = append(d.Limits, LimitSettling)
		if want = most; want >= d.Before {
			return d.Before
		}
	}
	room := p.MaxDown
	if room == 0 {
		room = max(1, d.Before/10)
	}
	if least := d.Before - max(0, room-c.moved(d.Now, p.DownEvery, -1)); want < least {
		d.Limits = append(d.Limits, LimitDown)
		return least
	}
	return want
}

// remember keeps the wants of the last DownAfter of which none newer is as high. The first one is the highest.
func (c *Controller) remember(now time.Time, want int) {
	c.wants = slices.DeleteFunc(c.wants, func(w stamped) bool { return now.Sub(w.at) > c.policy.DownAfter || w.n <= want })
	c.wants = append(c.wants, stamped{now, want})
	longest := max(c.policy.UpEvery, c.policy.DownEvery)
	c.moves = slices.DeleteFunc(c.moves, func(m stamped) bool { return now.Sub(m.at) > longest })
}

// moved is by how many instances the target went in one direction within a span.
func (c *Controller) moved(now time.Time, span time.Duration, sign int) int {
	sum := 0
	for _, m := range c.moves {
		if now.Sub(m.at) < span && m.n*sign > 0 {
			sum += m.n * sign
		}
	}
	return sum
}

// fewFailures is how many starts may fail in a row before somebody is told.
const fewFailures = 3

func (c *Controller) alarms(d *Decision, fresh bool) {
	if d.Line > c.policy.Max {
		d.Alarms = append(d.Alarms, AlarmLine)
	}
	if d.Wanted > c.policy.Max {
		d.Alarms = append(d.Alarms, AlarmMax)
	}
	if !fresh {
		d.Alarms = append(d.Alarms, AlarmNoData)
	}
	if d.Fleet.Failed >= fewFailures {
		d.Alarms = append(d.Alarms, AlarmFailing)
	}
}
