package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/scaling"
)

// office is peak on working days from 07:00 to 22:00 in Shanghai.
func office() Plan {
	return Plan{
		Timezone: "Asia/Shanghai", Peak: []scaling.Window{{Days: []int{1, 2, 3, 4, 5}, From: "07:00", To: "22:00"}},
		PeakConcurrency: 8, ValleyConcurrency: 3,
	}
}

func at(t *testing.T, zone, local string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	v, err := time.ParseInLocation("2006-01-02 15:04:05", local, loc)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPlanAt(t *testing.T) {
	t.Parallel()
	night := Plan{Timezone: "Asia/Shanghai", Peak: []scaling.Window{{Days: []int{5}, From: "22:00", To: "06:00"}}, PeakConcurrency: 8, ValleyConcurrency: 3}
	day := Plan{Timezone: "UTC", Peak: []scaling.Window{{Days: []int{0}, From: "00:00", To: "24:00"}}, PeakConcurrency: 8, ValleyConcurrency: 3}
	two := Plan{Timezone: "UTC", Peak: []scaling.Window{{From: "08:00", To: "12:00"}, {From: "12:00", To: "18:00"}}, PeakConcurrency: 8, ValleyConcurrency: 3}
	berlin := Plan{Timezone: "Europe/Berlin", Peak: []scaling.Window{{From: "02:30", To: "03:30"}}, PeakConcurrency: 8, ValleyConcurrency: 3}
	tests := []struct {
		name  string
		plan  Plan
		zone  string
		local string
		want  string
	}{
		{"before", office(), "Asia/Shanghai", "2026-11-02 06:59:59", Valley},
		{"the first instant", office(), "Asia/Shanghai", "2026-11-02 07:00:00", Peak},
		{"the last instant", office(), "Asia/Shanghai", "2026-11-02 21:59:59", Peak},
		{"the end is outside", office(), "Asia/Shanghai", "2026-11-02 22:00:00", Valley},
		{"another zone, the same instant", office(), "UTC", "2026-11-01 23:00:00", Peak},
		{"another zone, still Sunday there", office(), "UTC", "2026-11-01 22:59:59", Valley},
		{"Saturday", office(), "Asia/Shanghai", "2026-11-07 12:00:00", Valley},
		{"past midnight begins", night, "Asia/Shanghai", "2026-11-06 22:00:00", Peak},
		{"past midnight goes on", night, "Asia/Shanghai", "2026-11-07 05:59:59", Peak},
		{"past midnight ends", night, "Asia/Shanghai", "2026-11-07 06:00:00", Valley},
		{"past midnight, the morning of its day", night, "Asia/Shanghai", "2026-11-06 05:00:00", Valley},
		{"whole day begins", day, "UTC", "2026-11-01 00:00:00", Peak},
		{"whole day ends", day, "UTC", "2026-11-02 00:00:00", Valley},
		{"no dip between neighbours", two, "UTC", "2026-11-02 12:00:00", Peak},
		{"summer time ends: the first 02:45", berlin, "UTC", "2026-10-25 00:45:00", Peak},
		{"summer time ends: the second 02:45", berlin, "UTC", "2026-10-25 01:45:00", Peak},
		{"summer time begins: 01:59 then 03:00", berlin, "UTC", "2026-03-29 01:00:00", Peak},
		{"no zone", Plan{ValleyConcurrency: 3}, "UTC", "2026-03-29 01:00:00", Valley},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			slot, n := tt.plan.At(at(t, tt.zone, tt.local))
			if want := map[string]int{Peak: 8, Valley: 3}[tt.want]; slot != tt.want || n != want {
				t.Errorf("got %s %d, want %s", slot, n, tt.want)
			}
		})
	}
}

// TestEdgesAreWhereTheSlotChanges walks a week minute by minute: the slot changes only at an edge.
func TestEdgesAreWhereTheSlotChanges(t *testing.T) {
	t.Parallel()
	plans := []Plan{
		office(),
		{Timezone: "Asia/Shanghai", Peak: []scaling.Window{{Days: []int{5, 6}, From: "22:00", To: "06:00"}, {From: "09:30", To: "10:15"}}, PeakConcurrency: 2, ValleyConcurrency: 1},
		{Timezone: "UTC", Peak: []scaling.Window{{Days: []int{6}, From: "00:00", To: "24:00"}}, PeakConcurrency: 2, ValleyConcurrency: 1},
	}
	for _, p := range plans {
		known := map[string]bool{}
		for _, e := range p.edges() {
			days := e.days
			if len(days) == 0 {
				days = []int{0, 1, 2, 3, 4, 5, 6}
			}
			for _, d := range days {
				known[fmt.Sprint(d, e.minute)] = true
			}
		}
		begin := at(t, p.Timezone, "2026-11-01 00:00:00")
		before, _ := p.At(begin)
		changes := 0
		for m := 1; m <= 7*24*60; m++ {
			now := begin.Add(time.Duration(m) * time.Minute)
			slot, _ := p.At(now)
			if slot != before {
				changes++
				if !known[fmt.Sprint(int(now.Weekday()), now.Hour()*60+now.Minute())] {
					t.Errorf("%v: the slot changes at %s, which is no edge", p.Peak, now)
				}
			}
			before = slot
		}
		if changes < 2 {
			t.Errorf("%v: only %d changes in a week", p.Peak, changes)
		}
	}
}

func TestPlanValidate(t *testing.T) {
	t.Parallel()
	if err := office().Validate(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Plan){
		"timezone":         func(p *Plan) { p.Timezone = "Asia/Atlantis" },
		"timezone ":        func(p *Plan) { p.Timezone = "Local" },
		"peak_concurrency": func(p *Plan) { p.PeakConcurrency = 0 }, "valley_concurrency": func(p *Plan) { p.ValleyConcurrency = 5000 },
		"peak":          func(p *Plan) { p.Peak = make([]scaling.Window, 33) },
		"peak[0].from":  func(p *Plan) { p.Peak[0].From = "24:00" },
		"peak[0].from ": func(p *Plan) { p.Peak[0].From = "7:00" },
		"peak[0].to":    func(p *Plan) { p.Peak[0].To = "24:01" },
		"peak[0].to ":   func(p *Plan) { p.Peak[0].To = "+1:-1" },
		"peak[0]":       func(p *Plan) { p.Peak[0].To = p.Peak[0].From },
		"peak[0].days":  func(p *Plan) { p.Peak[0].Days = []int{7} },
	}
	for field, spoil := range tests {
		p := office()
		spoil(&p)
		if err := p.Validate(); fault.KindOf(err) != fault.Invalid || fault.Public(err).Param() != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
