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
	// Sampled: the power is read now and then, by Refresh. Advance tells nothing before the next sample.
	Sampled bool `json:"-"`
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

// ErrGap says that the energy since the call of Advance before is not known and never will be. The next call counts from now.
var ErrGap = errors.New("the energy of this time is not known")

// Meter tells energy. Its methods may be called from several goroutines.
type Meter interface {
	Source() Source
	// Refresh reads what is slow to read: a program, a controller. It is called about once a period. Where Advance reads by itself it says
	// whether that can.
	Refresh(ctx context.Context) error
	// Advance returns the microjoules since the call before, and 0 at the first. After an error that is not an ErrGap nothing is lost: the
	// next call covers the longer time. It is quick. A meter that is Sampled needs a Refresh between two calls.
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
	most := uint64(Microjoules(c.most, now.Mono-at.Mono+time.Second, 1)) // a second more, for counters that are updated late
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

// power is a meter of a power that is sampled. A sample tells of the time since the one before, but of no longer time than hold: what will be
// drawn after it nobody knows.
type power struct {
	source Source
	sample func(ctx context.Context) (milliwatts int64, err error)
	hold   time.Duration

	mu    sync.Mutex
	fresh bool   // there was a sample since the last call of Advance
	now   int64  // milliwatts
	begun bool   // there was a call of Advance
	until Moment // the last one
	rest  uint64 // of a microjoule, in 10⁻⁶
}

func (p *power) Source() Source { return p.source }

// Refresh implements Meter.
func (p *power) Refresh(ctx context.Context) error {
	mw, err := p.sample(ctx)
	if err != nil {
		return err
	}
	if mw < 0 || mw > MaxMilliwatts {
		return fmt.Errorf("%s: a power of %d mW", p.source.Name, mw)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh, p.now = true, mw
	return nil
}

// Advance implements Meter.
func (p *power) Advance(now Moment) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, begun, fresh := p.until, p.begun, p.fresh
	d := now.Mono - from.Mono
	late := begun && (d > p.hold || interrupted(from, now))
	if begun && !fresh && !late {
		return 0, fmt.Errorf("%s: no sample since the last one", p.source.Name)
	}
	p.begun, p.until, p.fresh = true, now, false
	switch {
	case !begun || d <= 0:
		return 0, nil
	case late:
		return 0, fmt.Errorf("%w: %s has no sample of it", ErrGap, p.source.Name)
	}
	e, rest := integrate(p.now, d, p.rest)
	p.rest = rest
	return e, nil
}

// constant is a meter of a declared power.
type constant struct {
	source     Source
	milliwatts int64

	mu    sync.Mutex
	begun bool
	until Moment
	rest  uint64
}

func (c *constant) Source() Source { return c.source }

// Refresh implements Meter: there is nothing to read.
func (*constant) Refresh(context.Context) error { return nil }

// Advance implements Meter.
func (c *constant) Advance(now Moment) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, begun := c.until, c.begun
	c.begun, c.until = true, now
	switch d := now.Mono - from.Mono; {
	case !begun || d <= 0:
		return 0, nil
	case interrupted(from, now) || d > time.Hour:
		return 0, fmt.Errorf("%w: the machine was suspended, or its clock was set", ErrGap)
	default:
		e, rest := integrate(c.milliwatts, d, c.rest)
		c.rest = rest
		return e, nil
	}
}

// integrate returns milliwatts × d in whole microjoules, with the rest of the time before, and its own rest in 10⁻⁶ µJ. A megawatt for an hour
// fits easily.
func integrate(milliwatts int64, d time.Duration, before uint64) (microjoules int64, rest uint64) {
	hi, lo := bits.Mul64(uint64(milliwatts), uint64(d))
	lo, carry := bits.Add64(lo, before, 0)
	q, rest := bits.Div64(hi+carry, lo, 1_000_000)
	return int64(q), rest
}

// MaxMilliwatts is a megawatt: far above one machine, far below overflow.
const MaxMilliwatts = 1_000_000_000

// Microjoules returns milliwatts × d ÷ share, rounded down: 1 mW × 1 ns is 10⁻⁶ µJ. The product is kept in 128 bits. A time that is not positive
// has none; share is positive.
func Microjoules(milliwatts uint64, d time.Duration, share int) int64 {
	if d <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(milliwatts, uint64(d))
	divisor := 1_000_000 * uint64(share)
	if hi >= divisor {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, divisor)
	return int64(min(q, math.MaxInt64))
}
