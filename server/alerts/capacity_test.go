package alerts

import (
	"context"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/server/sla"
)

// TestBurnsAndCapacity: a budget that burns and a pool below its line are told, each by its own name, and what is as it should be is not.
func TestBurnsAndCapacity(t *testing.T) {
	t.Parallel()
	rate := 20.0
	burns := Burns(func(context.Context) ([]sla.Burn, int, error) {
		return []sla.Burn{
			{Objective: sla.Objective{Model: "m", Availability: 99.9}, Budget: sla.Budget{Of: "availability", Burn1h: &rate, Burning: sla.BurningFast}},
			{Objective: sla.Objective{Availability: 99.9}, Budget: sla.Budget{Of: "total", Burning: sla.BurningSlow}},
		}, 2, nil
	})
	if got, want := find(t, burns), []string{"sla.unreadable ", "sla.burn_fast m / * / * availability", "sla.burn_slow * / * / * total"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	line := CapacityLine("n1", func() []ScaledPool {
		return []ScaledPool{
			{Name: "chat", Most: 4, Decision: scaling.Decision{Line: 6, Alarms: []scaling.Alarm{scaling.AlarmNoData, scaling.AlarmLine}}},
			{Name: "calm", Most: 9, Decision: scaling.Decision{Line: 6}},
		}
	})
	if got, want := find(t, line), []string{"scaling.capacity_line n1/chat"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
