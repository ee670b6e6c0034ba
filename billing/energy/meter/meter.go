// Package meter is a leaf: it reads how much electrical energy a machine takes, from the kernel, from the tools of accelerators and of the
// board's management controller, from a model, from a declaration, or from a recording.
//
// Every meter says by which [Method] its figures come about and how far they may be off ([Source]). What a meter cannot tell is an error, never
// a zero: [ErrGap] where the energy of a time is lost for good, any other error where a later reading still covers it.
package meter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// Method says how a figure comes about. The order of strength is measured, modelled, declared.
type Method string

// The methods.
const (
	Measured Method = "measured" // by a sensor
	Modelled Method = "modelled" // from the utilisation of the machine and its declared powers
	Declared Method = "declared" // somebody has said so
)

// Weakest returns the method of a sum of figures: that of its weakest part, so that nothing is called better than it is. "" is unknown and
// weaker than all.
func Weakest(methods ...Method) Method {
	order := []Method{"", Declared, Modelled, Measured}
	weakest := len(order) - 1
	for _, m := range methods {
		weakest = min(weakest, max(0, slices.Index(order, m)))
	}
	return order[weakest]
}

// Source describes a meter.
type Source struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"` // what is read: zones, devices, an address
	Method Method `json:"method"`
	// UncertaintyPermille is by how many thousandths a figure may be off, as configured or as the makers of such sensors say.
	UncertaintyPermille int `json:"uncertainty_permille"`
	// Node: the whole machine is measured. Such a meter is never added to others.
	Node bool `json:"node"`
}

// Moment is a time by two clocks. Mono stands still while the machine is suspended, Wall does not; it may be set.
type Moment struct {
	Mono time.Duration // since any fixed time
	Wall time.Time
}

// Clock returns a function that tells the moment.
func Clock() func() Moment {
	begin := time.Now()
	return func() Moment {
		now := time.Now()
		return Moment{Mono: now.Sub(begin), Wall: now.Round(0)}
	}
}

// ErrGap: the energy since the call of Advance before is not known and never will be. The next call counts from now.
var ErrGap = errors.New("the energy of this time is not known")

// Meter tells energy. Its methods may be called from several goroutines.
type Meter interface {
	Source() Source
	// Refresh reads what is slow to read: a program, a controller. It is called about once a period, and does nothing where Advance reads
	// by itself.
	Refresh(ctx context.Context) error
	// Advance returns the microjoules since the call before, and 0 at the first. After an error that is not an ErrGap nothing is lost: the
	// next call covers the longer time. It is quick.
	Advance(now Moment) (int64, error)
}

// jump is by how much the clocks may differ over one interval; more says that the machine was suspended, or the wall clock was set.
const jump = 2 * time.Second

// interrupted reports whether the machine was suspended, or its clock was set, between two moments.
func interrupted(from, to Moment) bool {
	drift := to.Wall.Sub(from.Wall) - (to.Mono - from.Mono)
	return drift > jump || drift < -jump
}

// zone is the reading of one counter.
type zone struct {
	name   string
	energy uint64 // microjoules, cumulative
	top    uint64 // after which it begins again at 0; 0: it does not wrap
}

// counters is a meter of counters that the kernel keeps.
type counters struct {
	source Source
	read   func() ([]zone, error)
	most   uint64 // milliwatts that one zone can take at most: more is no energy but a reset

	mu   sync.Mutex
	base []zone
	at   Moment
}

func (c *counters) Source() Source { return c.source }

// Refresh implements Meter: it says whether Advance can read.
func (c *counters) Refresh(context.Context) error {
	_, err := c.read()
	return err
}

// Advance implements Meter. A counter that went back has wrapped if its range and the time allow it, and was reset otherwise.
func (c *counters) Advance(now Moment) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	zones, err := c.read()
	if err != nil {
		return 0, err
	}
	base, at := c.base, c.at
	if base == nil {
		c.base, c.at = zones, now
		return 0, nil
	}
	c.base, c.at = zones, now
	if interrupted(at, now) {
		return 0, fmt.Errorf("%w: the machine was suspended, or its clock was set", ErrGap)
	}
	if !slices.EqualFunc(base, zones, func(a, b zone) bool { return a.name == b.name && a.top == b.top }) {
		return 0, fmt.Errorf("%w: there are other zones than before", ErrGap)
	}
	var sum uint64
	most := uint64(microjoules(c.most, now.Mono-at.Mono+time.Second)) // a second more, for counters that are updated late
	for i := range zones {
		e, ok := since(base[i].energy, zones[i], most)
		if !ok {
			return 0, fmt.Errorf("%w: %s was reset, or has wrapped more than once", ErrGap, zones[i].name)
		}
		sum += e
	}
	return int64(min(sum, math.MaxInt64)), nil
}

// since returns how far a counter has come from before, if that is certain: at most microjoules can have been added.
func since(before uint64, z zone, most uint64) (uint64, bool) {
	e := z.energy - before
	if z.energy < before {
		if z.top == 0 || before > z.top {
			return 0, false
		}
		e = z.top - before + z.energy
	}
	if z.top != 0 && most >= z.top { // so long a time that it may have wrapped unseen
		return 0, false
	}
	return e, e <= most
}

// power is a meter of a power that is sampled: what was read last holds until the next reading, but no longer than hold.
type power struct {
	source Source
	sample func(ctx context.Context) (milliwatts int64, err error)
	clock  func() Moment
	hold   time.Duration // 0: for ever

	mu     sync.Mutex
	known  bool
	now    int64  // milliwatts
	taken  Moment // when now was read
	until  Moment // to where the energy was told
	begun  bool
	passed int64  // microjoules of readings since then that were replaced
	rest   uint64 // of a microjoule, in 10⁻⁶
	lost   bool   // a part of the time since then had no reading
}

func (p *power) Source() Source { return p.source }

// Refresh implements Meter.
func (p *power) Refresh(ctx context.Context) error {
	mw, err := p.sample(ctx)
	if err != nil {
		return err
	}
	if mw < 0 || mw > maxMilliwatts {
		return fmt.Errorf("%s: a power of %d mW", p.source.Name, mw)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	p.settle(now)
	p.known, p.now, p.taken = true, mw, now
	return nil
}

// settle adds the energy by the reading until now.
func (p *power) settle(now Moment) {
	if !p.begun {
		p.begun, p.until = true, now
		return
	}
	d := now.Mono - p.until.Mono
	switch {
	case d <= 0:
		return
	case interrupted(p.until, now), !p.known, p.hold > 0 && now.Mono-p.taken.Mono > p.hold:
		p.lost = true
	default:
		hi, lo := bits.Mul64(uint64(p.now), uint64(d)) // a megawatt for a day is below 2⁶³ of them: hi is 0 for every real interval
		if hi != 0 {
			p.lost = true
			break
		}
		lo, carry := bits.Add64(lo, p.rest, 0)
		if carry != 0 {
			p.lost = true
			break
		}
		p.passed, p.rest = p.passed+int64(lo/1_000_000), lo%1_000_000
	}
	p.until = now
}

// Advance implements Meter.
func (p *power) Advance(now Moment) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(now)
	e, lost := p.passed, p.lost
	p.passed, p.lost = 0, false
	if lost {
		return 0, fmt.Errorf("%w: %s has no reading of it", ErrGap, p.source.Name)
	}
	return e, nil
}

// maxMilliwatts is a megawatt: far above one machine, far below overflow.
const maxMilliwatts = 1_000_000_000

// microjoules returns milliwatts × d, rounded down: 1 mW × 1 ns is 10⁻⁶ µJ.
func microjoules(milliwatts uint64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(milliwatts, uint64(d))
	if hi >= 1_000_000 {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, 1_000_000)
	return int64(min(q, math.MaxInt64))
}
