// Package fleet plays a pool on a virtual clock: a load that was recorded or is shaped like one, instances that take a while to start, and whoever
// decides how many there are.
//
// It is a fluid model. An instance does one second of work a second; a request is the work of its prompt and of its answer at the rates of the
// machine; what does not fit waits, first come first served. So it knows waiting, utilisation, instance-hours and power, and nothing of what happens
// within a batch, of prefixes that are kept, or of a request that is too long for one instance. The same configuration gives the same report.
package fleet

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sluice-project/sluice/scaling"
)

// Load is what arrives in one step.
type Load struct{ Requests, In, Out float64 } // In and Out are tokens, of all requests together

// Trace is the load of consecutive steps.
type Trace struct {
	Start time.Time
	Step  time.Duration
	Loads []Load
}

// End is when the last step is over.
func (t Trace) End() time.Time { return t.Start.Add(time.Duration(len(t.Loads)) * t.Step) }

// Machine is what one instance does and takes.
type Machine struct {
	Prefill  float64 // tokens of prompts a second
	Decode   float64 // tokens of answers a second, of all requests of the batch together
	IdleWatt float64
	BusyWatt float64
	Hour     float64 // price of an instance-hour, without power
	KWh      float64 // price of a kilowatt-hour
}

// seconds is the work of a load.
func (m Machine) seconds(l Load) float64 { return l.In/m.Prefill + l.Out/m.Decode }

// Config is a run.
type Config struct {
	Trace   Trace
	Machine Machine
	// Wait is the longest wait that a request may have; one that waits longer has missed its objective.
	Wait time.Duration
	// StartMin and StartMax bound how long an instance takes to be ready.
	StartMin, StartMax time.Duration
	// FailStarts is the share of starts that fail, after the whole time that they take.
	FailStarts float64
	// Blind are spans in which nothing is measured.
	Blind []scaling.Span
	// Every is the time between decisions; 0 means 30 seconds.
	Every time.Duration
	// Uncounted is how much of the beginning of the trace is played and not reported.
	Uncounted time.Duration
	Seed      uint64
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	m := c.Machine
	switch {
	case len(c.Trace.Loads) == 0 || c.Trace.Step <= 0:
		return errors.New("trace: is empty")
	case !(m.Prefill > 0) || !(m.Decode > 0):
		return errors.New("machine: rates must be above 0")
	case !(m.IdleWatt >= 0) || !(m.BusyWatt >= m.IdleWatt) || !(m.Hour >= 0) || !(m.KWh >= 0):
		return errors.New("machine: power and prices must not be negative, and busy not below idle")
	case c.Wait <= 0 || c.StartMin < 0 || c.StartMax < c.StartMin || c.Every < 0 || c.Uncounted < 0:
		return errors.New("times: must not be negative, and the longest wait above 0")
	case !(c.FailStarts >= 0 && c.FailStarts < 1):
		return errors.New("failed starts: must lie between 0 and 1")
	case c.Uncounted >= c.Trace.End().Sub(c.Trace.Start):
		return errors.New("trace: is not longer than what is not counted")
	}
	return nil
}

// Report is what came of a run.
type Report struct {
	Requests      float64       `json:"requests"`
	Missed        float64       `json:"missed"` // waited longer than they may, those that never ran among them
	InstanceHours float64       `json:"instance_hours"`
	Cost          float64       `json:"cost"` // of instances and power
	Joules        float64       `json:"joules"`
	Use           float64       `json:"use"` // share of the time of ready instances in which they worked
	LongestWait   time.Duration `json:"longest_wait"`
	Least         int           `json:"least"` // ready instances at the least, and at the most
	Most          int           `json:"most"`
	Changes       int           `json:"changes"` // decisions that changed the target
	Starts        int           `json:"starts"`
	// Hours are the ready instances at the end of each hour.
	Hours []Hour `json:"-"`
}

// Hour is a point of a run.
type Hour struct {
	At     time.Time
	Ready  int
	Target int
	Rate   float64 // requests a second in the last step
}

// MissShare is the share of the requests that missed their objective.
func (r Report) MissShare() float64 {
	if r.Requests == 0 {
		return 0
	}
	return r.Missed / r.Requests
}

// chunk is what arrived in one step and has not run yet.
type chunk struct {
	at                time.Time
	work, requests    float64
	requestsPerSecond float64 // of work
}

// player is a run in the making.
type player struct {
	cfg      Config
	decide   *scaling.Controller // nil: the number stays
	random   *rand.Rand
	now      time.Time
	target   int
	ready    int
	starting []start
	failed   int
	queue    []chunk
	waiting  float64 // requests in queue
	// since the last decision
	arrived, missed float64
	since           time.Time
	counting        bool
	used, offered   float64
	report          Report
}

type start struct {
	ordered, ready time.Time
	fails          bool
}

// Run plays the trace with a controller, or with a number of instances that stays if there is none. It begins with n instances.
func Run(cfg Config, c *scaling.Controller, n int) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, fmt.Errorf("fleet: %w", err)
	}
	if n < 1 || n > scaling.MaxInstances {
		return Report{}, fmt.Errorf("fleet: instances must lie between 1 and %d", scaling.MaxInstances)
	}
	if cfg.Every == 0 {
		cfg.Every = 30 * time.Second
	}
	p := &player{
		cfg: cfg, decide: c, random: rand.New(rand.NewPCG(cfg.Seed, 0x5ca1e)), //nolint:gosec // a run repeats
		now: cfg.Trace.Start, target: n, ready: n, since: cfg.Trace.Start, report: Report{Least: math.MaxInt},
	}
	counted := cfg.Trace.Start.Add(cfg.Uncounted)
	next := p.now
	for _, l := range cfg.Trace.Loads {
		p.counting = !p.now.Before(counted)
		p.arrive()
		if c != nil && !p.now.Before(next) {
			p.scale()
			next = p.now.Add(cfg.Every)
		}
		p.step(l)
	}
	if p.offered > 0 {
		p.report.Use = p.used / p.offered
	}
	for _, w := range p.queue { // they never ran; those that wait no longer than they may have missed nothing
		if p.now.Sub(w.at) > cfg.Wait {
			p.report.Missed += w.requests
		}
	}
	return p.report, nil
}

// arrive makes instances ready whose time has come.
func (p *player) arrive() {
	kept := p.starting[:0]
	for _, s := range p.starting {
		switch {
		case p.now.Before(s.ready):
			kept = append(kept, s)
		case s.fails:
			p.failed++
		default:
			p.failed = 0
			p.ready++
			p.decide.Ready(s.ready.Sub(s.ordered))
		}
	}
	p.starting = kept
	p.order()
}

// order starts what is missing.
func (p *player) order() {
	for p.ready+len(p.starting) < p.target {
		took := p.cfg.StartMin + time.Duration(p.random.Int64N(int64(p.cfg.StartMax-p.cfg.StartMin)+1))
		p.starting = append(p.starting, start{p.now, p.now.Add(took), p.random.Float64() < p.cfg.FailStarts})
		if p.counting {
			p.report.Starts++
		}
	}
}

func (p *player) scale() {
	seconds := max(1, p.now.Sub(p.since).Seconds())
	in := scaling.Inputs{
		Now: p.now, Fleet: scaling.Fleet{Ready: p.ready, Starting: len(p.starting), Failed: p.failed}, Tariff: scaling.Tariff{Price: p.cfg.Machine.KWh},
	}
	if !p.blind() {
		in.Signals = scaling.Signals{
			Rate: scaling.Reading{Value: p.arrived / seconds, At: p.now}, Waiting: scaling.Reading{Value: p.waiting, At: p.now},
			Misses: scaling.Reading{Value: p.missed / max(1, p.arrived), At: p.now},
		}
	}
	d := p.decide.Decide(in)
	if d.Changed() && p.counting {
		p.report.Changes++
	}
	p.target = d.Target
	if over := p.ready + len(p.starting) - p.target; over > 0 { // those that start are given up first
		gone := min(over, len(p.starting))
		p.starting = p.starting[:len(p.starting)-gone]
		p.ready -= over - gone
	}
	p.order()
	p.arrived, p.missed, p.since = 0, 0, p.now
}

func (p *player) blind() bool {
	for _, s := range p.cfg.Blind {
		if !p.now.Before(s.From) && p.now.Before(s.To) {
			return true
		}
	}
	return false
}

// step plays one step of the load.
func (p *player) step(l Load) {
	dt := p.cfg.Trace.Step
	if work := p.cfg.Machine.seconds(l); l.Requests > 0 && work > 0 {
		p.queue = append(p.queue, chunk{p.now, work, l.Requests, l.Requests / work})
		p.waiting += l.Requests
	}
	p.arrived += l.Requests
	capacity := float64(p.ready) * dt.Seconds()
	left := capacity
	for left > 0 && len(p.queue) > 0 {
		w := &p.queue[0]
		done := min(left, w.work)
		left -= done
		// It begins when what came before it is done, and not before it has arrived.
		begins := p.now.Add(time.Duration((capacity - left - done) / capacity * float64(dt)))
		p.ran(done*w.requestsPerSecond, begins.Sub(w.at))
		if w.work -= done; w.work <= 1e-9 {
			p.queue = p.queue[1:]
		}
	}
	if len(p.queue) == 0 {
		p.queue, p.waiting = nil, 0
	}
	if p.counting {
		p.count(l, capacity, capacity-left, dt)
	}
	p.now = p.now.Add(dt)
	if p.counting && p.now.Truncate(time.Hour).Equal(p.now) {
		p.report.Hours = append(p.report.Hours, Hour{p.now, p.ready, p.target, l.Requests / dt.Seconds()})
	}
}

// ran notes requests that began after a wait. Those that share a step with what they wait for wait no longer than the step: that is no miss.
func (p *player) ran(requests float64, wait time.Duration) {
	p.waiting = max(0, p.waiting-requests)
	missed := wait > max(p.cfg.Wait, p.cfg.Trace.Step)
	if missed {
		p.missed += requests
	}
	if p.counting {
		p.report.LongestWait = max(p.report.LongestWait, wait)
		if missed {
			p.report.Missed += requests
		}
	}
}

func (p *player) count(l Load, capacity, used float64, dt time.Duration) {
	r, m := &p.report, p.cfg.Machine
	r.Requests += l.Requests
	p.used, p.offered = p.used+used, p.offered+capacity
	hours := float64(p.ready+len(p.starting)) * dt.Hours() // who starts is paid for
	r.InstanceHours += hours
	joules := m.IdleWatt*hours*3600 + (m.BusyWatt-m.IdleWatt)*used
	r.Joules += joules
	r.Cost += hours*m.Hour + joules/3.6e6*m.KWh
	r.Least, r.Most = min(r.Least, p.ready), max(r.Most, p.ready)
}
