package scaling

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// MaxInstances is the most that a pool may have.
const MaxInstances = 10000

// Policy says how a pool is scaled.
type Policy struct {
	// Min and Max bound the target whatever else is said. Min is at least 1.
	Min int `json:"min" koanf:"min"`
	Max int `json:"max" koanf:"max"`
	// Calendar has the floors of the day. A floor above Max is refused.
	Calendar Calendar `json:"calendar" koanf:"calendar"`
	// Targets of the signals; a target of 0 leaves that signal out. The target is a number of instances with which the signal is where it should be.
	Targets Targets `json:"targets" koanf:"targets"`
	// IgnoreForecast leaves the forecast out: then only the calendar looks ahead.
	IgnoreForecast bool `json:"ignore_forecast,omitempty" koanf:"ignore_forecast"`
	// Domains are the failure domains that the instances are spread over.
	Domains []string `json:"domains,omitempty" koanf:"domains"`

	// MaxUp instances are ordered within UpEvery at most, other than for the floor; 0 means as many as there are, and at least 4, in a minute.
	MaxUp   int           `json:"max_up,omitempty" koanf:"max_up"`
	UpEvery time.Duration `json:"up_every,omitempty" koanf:"up_every"`
	// MaxDown instances are taken away within DownEvery at most; 0 means a tenth of those that there are, and at least 1, in a minute.
	MaxDown   int           `json:"max_down,omitempty" koanf:"max_down"`
	DownEvery time.Duration `json:"down_every,omitempty" koanf:"down_every"`
	// DownAfter is how long nothing may have wanted more before instances are taken away; 0 means 5 minutes.
	DownAfter time.Duration `json:"down_after,omitempty" koanf:"down_after"`
	// Stale is the age from which on a signal says nothing; 0 means 1 minute.
	Stale time.Duration `json:"stale,omitempty" koanf:"stale"`
	// Freeze are spans in which the target stays, unless the floor lies above it.
	Freeze []Span `json:"freeze,omitempty" koanf:"freeze"`

	// HeadRoom is how many times the highest rate of the last week Max has to carry, else there is an alarm; 0 means 1.4.
	HeadRoom float64 `json:"head_room,omitempty" koanf:"head_room"`
	// Cost is what the objective weighs.
	Cost Cost `json:"cost" koanf:"cost"`
}

// Targets of the signals.
type Targets struct {
	Rate    float64 `json:"rate,omitempty" koanf:"rate"`       // requests a second that one instance carries within the objective
	Waiting float64 `json:"waiting,omitempty" koanf:"waiting"` // requests that may wait for each instance
	KVUse   float64 `json:"kv_use,omitempty" koanf:"kv_use"`   // share of the KV pages in use, up to 1
	Tokens  float64 `json:"tokens,omitempty" koanf:"tokens"`   // tokens in flight for each instance
	Misses  float64 `json:"misses,omitempty" koanf:"misses"`   // share of requests that may miss their objective, up to 1
}

// Span is from one moment to another.
type Span struct {
	From time.Time `json:"from" koanf:"from"`
	To   time.Time `json:"to" koanf:"to"`
}

// Cost is what the objective weighs. With a price of a miss and of an instance, the forecast is taken at the quantile at which one more instance costs
// as much as the misses that it avoids; without, at 0.9.
type Cost struct {
	Instance float64 `json:"instance,omitempty" koanf:"instance"` // of one instance for an hour, without power
	Watts    float64 `json:"watts,omitempty" koanf:"watts"`       // that an instance draws
	Miss     float64 `json:"miss,omitempty" koanf:"miss"`         // of an hour in which one instance is missing
	Carbon   float64 `json:"carbon,omitempty" koanf:"carbon"`     // of a kilogram of carbon dioxide
}

// Tariff is what power costs and emits at a moment. It may change from decision to decision.
type Tariff struct {
	Price  float64 `json:"price"`  // of a kilowatt-hour
	Carbon float64 `json:"carbon"` // kilograms for each kilowatt-hour
}

func (p Policy) withDefaults() Policy {
	p.UpEvery = cmp.Or(p.UpEvery, time.Minute)
	p.DownEvery = cmp.Or(p.DownEvery, time.Minute)
	p.DownAfter = cmp.Or(p.DownAfter, 5*time.Minute)
	p.Stale = cmp.Or(p.Stale, time.Minute)
	p.HeadRoom = cmp.Or(p.HeadRoom, 1.4)
	return p
}

// Validate reports what is wrong with the policy; the message begins with the name of the field.
func (p Policy) Validate() error {
	if p.Min < 1 || p.Max < p.Min || p.Max > MaxInstances {
		return fmt.Errorf("min and max: must be at least 1 and at most %d, and max not below min", MaxInstances)
	}
	if err := p.Calendar.Validate(); err != nil {
		return fmt.Errorf("calendar.%w", err)
	}
	for _, share := range [][2]float64{{p.Calendar.PeakShare, 1}, {p.Calendar.ValleyShare, 0.6}, {p.Calendar.IdleShare, 0.35}} {
		if p.Calendar.share(share[0], share[1]) > p.Max {
			return errors.New("calendar.total: a floor lies above max")
		}
	}
	for _, n := range []struct {
		name       string
		value, top float64
	}{
		{"targets.rate", p.Targets.Rate, 0},
		{"targets.waiting", p.Targets.Waiting, 0},
		{"targets.kv_use", p.Targets.KVUse, 1},
		{"targets.tokens", p.Targets.Tokens, 0},
		{"targets.misses", p.Targets.Misses, 1},
		{"head_room", p.HeadRoom, 0},
		{"cost.instance", p.Cost.Instance, 0},
		{"cost.watts", p.Cost.Watts, 0},
		{"cost.miss", p.Cost.Miss, 0},
		{"cost.carbon", p.Cost.Carbon, 0},
	} {
		switch {
		case !(n.value >= 0) || math.IsInf(n.value, 0): // also NaN
			return fmt.Errorf("%s: must be a number that is not negative", n.name)
		case n.top > 0 && n.value > n.top:
			return fmt.Errorf("%s: must lie between 0 and %g", n.name, n.top)
		}
	}
	if p.MaxUp < 0 || p.MaxDown < 0 {
		return errors.New("max_up and max_down: must not be negative")
	}
	for _, d := range []time.Duration{p.UpEvery, p.DownEvery, p.DownAfter, p.Stale} {
		if d < 0 || d > 24*time.Hour {
			return errors.New("up_every, down_every, down_after and stale: must lie between 0 and a day")
		}
	}
	seen := map[string]bool{}
	for _, d := range p.Domains {
		if d == "" || seen[d] {
			return errors.New("domains: names must not be empty, and each there only once")
		}
		seen[d] = true
	}
	if slices.ContainsFunc(p.Freeze, func(s Span) bool { return !s.To.After(s.From) }) {
		return errors.New("freeze: a span must end after it begins")
	}
	return nil
}

// quantile is that of the forecast at which one more instance costs as much as what it avoids: the critical ratio of the newsvendor.
func (p Policy) quantile(t Tariff) float64 {
	over := p.hourly(t)
	if p.Cost.Miss == 0 || over == 0 {
		return 0.9
	}
	return min(0.99, max(0.5, p.Cost.Miss/(p.Cost.Miss+over)))
}

// hourly is the cost of one instance for an hour.
func (p Policy) hourly(t Tariff) float64 {
	return p.Cost.Instance + p.Cost.Watts/1000*(t.Price+t.Carbon*p.Cost.Carbon)
}

// Line is the number of instances that carries HeadRoom times a rate; 0 without a target of the rate.
func (p Policy) Line(peak float64) int {
	if p.Targets.Rate == 0 {
		return 0
	}
	return ceil(p.withDefaults().HeadRoom * peak / p.Targets.Rate)
}
