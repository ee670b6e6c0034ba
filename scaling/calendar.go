package scaling

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // the container's base is empty: the zones must come with the binary
)

// The slots of a day.
const (
	SlotPeak   = "peak"
	SlotValley = "valley"
	SlotIdle   = "idle"
)

// Calendar is the least number of instances by the time of the day. What neither a peak nor an idle window covers is valley; where both cover a
// moment it is peak. The zero value has no floors.
type Calendar struct {
	// Timezone is the IANA name of the zone in which the windows are meant.
	Timezone string `json:"timezone" koanf:"timezone"`
	// Total is the number of instances of the day, of which the shares are.
	Total int      `json:"total" koanf:"total"`
	Peak  []Window `json:"peak,omitempty" koanf:"peak"`
	Idle  []Window `json:"idle,omitempty" koanf:"idle"`
	// Shares of Total, above 0 to 1; 0 means 1 at peak, 0.6 in the valley and 0.35 while idle. What they give is rounded up.
	PeakShare   float64 `json:"peak_share,omitempty" koanf:"peak_share"`
	ValleyShare float64 `json:"valley_share,omitempty" koanf:"valley_share"`
	IdleShare   float64 `json:"idle_share,omitempty" koanf:"idle_share"`
}

// Window is a span of local time, From included, To excluded. If To is not after From, it ends on the next day.
type Window struct {
	// Days on which the window begins, 0 = Sunday; none means every day.
	Days []int  `json:"days,omitempty" koanf:"days"`
	From string `json:"from" koanf:"from"` // HH:MM
	To   string `json:"to" koanf:"to"`     // HH:MM, 24:00 is the end of the day
}

// IsZero reports whether there are no floors.
func (c Calendar) IsZero() bool {
	return c.Timezone == "" && c.Total == 0 && len(c.Peak) == 0 && len(c.Idle) == 0 && c.PeakShare == 0 && c.ValleyShare == 0 && c.IdleShare == 0
}

// Validate reports what is wrong with the calendar; the message begins with the name of the field.
func (c Calendar) Validate() error {
	if c.IsZero() {
		return nil
	}
	if _, err := Zone(c.Timezone); err != nil {
		return fmt.Errorf("timezone: must be an IANA name, such as Asia/Shanghai: %w", err)
	}
	if c.Total < 1 || c.Total > MaxInstances {
		return fmt.Errorf("total: must lie between 1 and %d", MaxInstances)
	}
	for _, s := range []struct {
		name  string
		share float64
	}{{"peak_share", c.PeakShare}, {"valley_share", c.ValleyShare}, {"idle_share", c.IdleShare}} {
		if !(s.share >= 0 && s.share <= 1) { // also NaN
			return fmt.Errorf("%s: must lie between 0 and 1", s.name)
		}
	}
	for _, list := range []struct {
		name    string
		windows []Window
	}{{"peak", c.Peak}, {"idle", c.Idle}} {
		if len(list.windows) > maxWindows {
			return fmt.Errorf("%s: at most %d windows", list.name, maxWindows)
		}
		for i, w := range list.windows {
			if err := w.validate(); err != nil {
				return fmt.Errorf("%s[%d].%w", list.name, i, err)
			}
		}
	}
	return nil
}

const maxWindows = 32

func (w Window) validate() error {
	from, err := ClockMinutes(w.From)
	if err != nil || from == 24*60 {
		return errors.New("from: must be a time such as 08:30")
	}
	to, err := ClockMinutes(w.To)
	if err != nil {
		return errors.New("to: must be a time such as 22:00, or 24:00")
	}
	if from == to {
		return errors.New("to: must not be the time at which the window begins")
	}
	if slices.ContainsFunc(w.Days, func(d int) bool { return d < 0 || d > 6 }) {
		return errors.New("days: must lie between 0 (Sunday) and 6")
	}
	return nil
}

// At returns the slot of a moment and its floor. The wall clock of the zone decides, so a window keeps its local times over a change to or from
// summer time. Without floors the slot is "" and the floor 0; a calendar that is not valid is all peak, which is the safe side.
func (c Calendar) At(t time.Time) (slot string, floor int) {
	if c.IsZero() {
		return "", 0
	}
	zone, err := Zone(c.Timezone)
	if err != nil {
		return SlotPeak, c.share(c.PeakShare, 1)
	}
	return c.in(t.In(zone))
}

// in is At with the wall clock of the zone.
func (c Calendar) in(local time.Time) (slot string, floor int) {
	covered := func(w Window) bool { return w.Covers(local) }
	switch {
	case slices.ContainsFunc(c.Peak, covered):
		return SlotPeak, c.share(c.PeakShare, 1)
	case slices.ContainsFunc(c.Idle, covered):
		return SlotIdle, c.share(c.IdleShare, 0.35)
	}
	return SlotValley, c.share(c.ValleyShare, 0.6)
}

// FloorUntil returns the highest floor from a moment to the end of a span, both included. Floors change on full minutes.
func (c Calendar) FloorUntil(from time.Time, span time.Duration) int {
	zone, err := Zone(c.Timezone)
	if c.IsZero() || err != nil {
		_, floor := c.At(from)
		return floor
	}
	from = from.In(zone)
	_, most := c.in(from)
	for t := from.Truncate(time.Minute).Add(time.Minute); t.Before(from.Add(span)); t = t.Add(time.Minute) {
		if _, n := c.in(t); n > most {
			most = n
		}
	}
	_, last := c.in(from.Add(span))
	return max(most, last)
}

func (c Calendar) share(s, otherwise float64) int {
	if s == 0 {
		s = otherwise
	}
	return ceil(s * float64(c.Total))
}

// Zone returns the time zone of an IANA name. It refuses the empty name and "Local", which would mean something else on every machine.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("time zone %q", name)
	}
	return time.LoadLocation(name)
}

// Covers reports whether the window covers a moment, by the wall clock that the moment is given in. A window that is not valid covers none.
func (w Window) Covers(local time.Time) bool {
	from, err1 := ClockMinutes(w.From)
	to, err2 := ClockMinutes(w.To)
	if err1 != nil || err2 != nil {
		return false
	}
	minute, day := local.Hour()*60+local.Minute(), int(local.Weekday())
	if from < to {
		return w.begins(day) && minute >= from && minute < to
	}
	return w.begins(day) && minute >= from || w.begins((day+6)%7) && minute < to
}

func (w Window) begins(day int) bool { return len(w.Days) == 0 || slices.Contains(w.Days, day) }

// ClockMinutes reads HH:MM as minutes since midnight; 24:00 is allowed.
func ClockMinutes(s string) (int, error) {
	if len(s) != 5 || s[2] != ':' {
		return 0, fmt.Errorf("time %q", s)
	}
	h, err1 := strconv.ParseUint(s[:2], 10, 8)
	m, err2 := strconv.ParseUint(s[3:], 10, 8)
	if err1 != nil || err2 != nil || m > 59 || h > 24 || h == 24 && m != 0 {
		return 0, fmt.Errorf("time %q", s)
	}
	return int(h*60 + m), nil
}

// ceil rounds up. What lies above a whole number by no more than floating point makes of it stays that number: 0.35 × 20 is 7. What is beyond all
// bounds is MaxInstances, and what is no number is 0.
func ceil(x float64) int {
	switch {
	case math.IsNaN(x) || x <= 0:
		return 0
	case x > MaxInstances:
		return MaxInstances
	}
	return int(math.Ceil(x - 1e-9))
}

// spread distributes n instances over failure domains as evenly as it goes; the first ones get what is left over. Without domains it returns nil.
func spread(n int, domains []string) map[string]int {
	if len(domains) == 0 {
		return nil
	}
	out := make(map[string]int, len(domains))
	for i, d := range domains {
		out[d] = n / len(domains)
		if i < n%len(domains) {
			out[d]++
		}
	}
	return out
}
