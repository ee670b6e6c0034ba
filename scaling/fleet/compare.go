package fleet

import (
	"fmt"

	"github.com/sluice-project/sluice/scaling"
)

// Outcome is what came of one way of scaling.
type Outcome struct {
	Name string `json:"name"`
	Report
	// Rate is the target of the signal that the run had, in requests a second of an instance; 0 without a controller.
	Rate float64 `json:"rate,omitempty"`
}

// The ways of scaling that are compared.
const (
	Fixed      = "fixed"      // as many as the calendar's total, always
	Reactive   = "reactive"   // by what the load needs now
	Scheduled  = "scheduled"  // and by the calendar
	Predictive = "predictive" // and by the forecast
	EqualHours = "reactive_equal_hours"
)

// Compare plays one load with every way of scaling: a number that stays, the signals alone, with the calendar, with the forecast too, and once more
// the signals alone with so much in reserve that they take as many instance-hours as the forecast did. That last one says what prediction is worth:
// the same hours, placed otherwise.
func Compare(cfg Config, p scaling.Policy, fixed int) ([]Outcome, error) {
	reactive, scheduled := p, p
	reactive.Calendar, reactive.IgnoreForecast = scaling.Calendar{}, true
	scheduled.IgnoreForecast = true
	var out []Outcome
	run := func(name string, p scaling.Policy) (Outcome, error) {
		c, err := scaling.New(p)
		if err != nil {
			return Outcome{}, err
		}
		r, err := Run(cfg, c, fixed)
		return Outcome{name, r, p.Targets.Rate}, err
	}
	r, err := Run(cfg, nil, fixed)
	if err != nil {
		return nil, err
	}
	out = append(out, Outcome{Name: Fixed, Report: r})
	for _, x := range []struct {
		name   string
		policy scaling.Policy
	}{{Reactive, reactive}, {Scheduled, scheduled}, {Predictive, p}} {
		o, err := run(x.name, x.policy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
		out = append(out, o)
	}
	equal, err := equalHours(reactive, out[3].InstanceHours, func(p scaling.Policy) (Outcome, error) { return run(EqualHours, p) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EqualHours, err)
	}
	return append(out, equal), nil
}

// equalHours looks for the target of the rate with which a policy takes at least as many instance-hours, and few more.
func equalHours(p scaling.Policy, hours float64, run func(scaling.Policy) (Outcome, error)) (Outcome, error) {
	low, high := p.Targets.Rate/8, p.Targets.Rate*2 // a lower target takes more hours
	best := Outcome{}
	for range 9 {
		p.Targets.Rate = (low + high) / 2
		o, err := run(p)
		if err != nil {
			return Outcome{}, err
		}
		if o.InstanceHours < hours {
			high = p.Targets.Rate
			continue
		}
		low = p.Targets.Rate
		best = o
	}
	if best.Name == "" {
		p.Targets.Rate = low
		return run(p)
	}
	return best, nil
}
