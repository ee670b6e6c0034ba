package scaling

import (
	"testing"
	"time"
)

// TestPlanAhead: the plan of the next day has the floors of the calendar, and where enough is known what the forecast asks for, within the bounds.
func TestPlanAhead(t *testing.T) {
	t.Parallel()
	p := bank()
	c := controller(t, p)
	for _, x := range c.Plan(start, time.Hour, 24) {
		slot, floor := p.Calendar.At(x.At)
		if x.Forecast != nil || x.Slot != slot || x.Floor != min(p.Max, max(p.Min, floor)) || x.Instances != x.Floor {
			t.Fatalf("before anything is known: %+v", x)
		}
	}
	now := start.Add(16 * 24 * time.Hour)
	for at := start; at.Before(now); at = at.Add(forecastStep) {
		rate := 1.0
		if at.UTC().Hour() == 3 {
			rate = p.Targets.Rate * float64(p.Max) * 3
		}
		c.forecast.Observe(at, rate)
	}
	most, foreseen := 0, 0
	for _, x := range c.Plan(now, 15*time.Minute, 96) {
		if x.Forecast != nil {
			foreseen++
		}
		if most = max(most, x.Instances); x.Instances < x.Floor || x.Instances > p.Max {
			t.Fatalf("%+v", x)
		}
	}
	if foreseen < 90 || most != p.Max {
		t.Errorf("%d moments are foreseen, at most %d instances", foreseen, most)
	}
}
