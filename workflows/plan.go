package workflows

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/scaling"
)

// The slots of a day.
const (
	Peak   = "peak"
	Valley = "valley"
)

// Plan is the peak/valley schedule of the engine's concurrency. What no peak window covers is valley.
type Plan struct {
	// Timezone is the IANA name of the zone in which the windows are meant.
	Timezone string `json:"timezone" koanf:"timezone"`
	// Peak lists the windows with peak concurrency. They may overlap and may pass midnight.
	Peak              []scaling.Window `json:"peak" koanf:"peak"`
	PeakConcurrency   int              `json:"peak_concurrency" koanf:"peak_concurrency"`
	ValleyConcurrency int              `json:"valley_concurrency" koanf:"valley_concurrency"`
}

// maxConcurrency is the most a plan may ask for.
const maxConcurrency = 4096

// IsZero reports whether there is no plan.
func (p Plan) IsZero() bool {
	return p.Timezone == "" && len(p.Peak) == 0 && p.PeakConcurrency == 0 && p.ValleyConcurrency == 0
}

// Validate reports what is wrong with the plan.
func (p Plan) Validate() error {
	bad := func(field string, want fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, field, want).WithParam(field)
	}
	if _, err := scaling.Zone(p.Timezone); err != nil {
		return bad("timezone", fault.Say("capacity.zone"))
	}
	if p.PeakConcurrency < 1 || p.PeakConcurrency > maxConcurrency {
		return bad("peak_concurrency", fault.Say("capacity.concurrency"))
	}
	if p.ValleyConcurrency < 1 || p.ValleyConcurrency > maxConcurrency {
		return bad("valley_concurrency", fault.Say("capacity.concurrency"))
	}
	if len(p.Peak) > 32 {
		return bad("peak", fault.Say("capacity.window_count"))
	}
	for i, w := range p.Peak {
		field := fmt.Sprintf("peak[%d]", i)
		from, err1 := scaling.ClockMinutes(w.From)
		to, err2 := scaling.ClockMinutes(w.To)
		switch {
		case err1 != nil || from == 24*60:
			return bad(field+".from", fault.Say("capacity.from"))
		case err2 != nil:
			return bad(field+".to", fault.Say("capacity.to"))
		case from == to:
			return bad(field, fault.Say("capacity.empty_window"))
		case slices.ContainsFunc(w.Days, func(d int) bool { return d < 0 || d > 6 }):
			return bad(field+".days", fault.Say("capacity.days"))
		}
	}
	return nil
}

// At returns the slot and the concurrency of the instant t. The wall clock of the plan's zone decides, so a window keeps its
// local times over a change to or from summer time. A plan that is not valid is all valley.
func (p Plan) At(t time.Time) (slot string, concurrency int) {
	zone, err := scaling.Zone(p.Timezone)
	if err != nil {
		return Valley, p.ValleyConcurrency
	}
	local := t.In(zone)
	if slices.ContainsFunc(p.Peak, func(w scaling.Window) bool { return w.Covers(local) }) {
		return Peak, p.PeakConcurrency
	}
	return Valley, p.ValleyConcurrency
}

// edge is a local time at which the slot may change.
type edge struct {
	days   []int // none means every day
	minute int   // of the day, 0 to 1439
}

// edges returns when the windows begin and end.
func (p Plan) edges() []edge {
	var out []edge
	for _, w := range p.Peak {
		from, err1 := scaling.ClockMinutes(w.From)
		to, err2 := scaling.ClockMinutes(w.To)
		if err1 != nil || err2 != nil {
			continue
		}
		end := edge{days: w.Days, minute: to % (24 * 60)}
		if to <= from || to == 24*60 {
			end.days = nil
			for _, d := range w.Days {
				end.days = append(end.days, (d+1)%7)
			}
		}
		out = append(out, edge{days: w.Days, minute: from}, end)
	}
	return out
}
