package energy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-project/sluice/billing/energy"
)

func TestAttribute(t *testing.T) {
	m, err := energy.New(energy.Config{IdleMilliwatts: 20_000, BusyMilliwatts: 60_000, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		busy       time.Duration
		concurrent int
		want       int64
	}{
		{time.Second, 1, 10_000_000}, // 40 W over 4 slots for 1 s = 10 J
		{time.Second, 4, 10_000_000},
		{time.Second, 8, 5_000_000},
		{99 * time.Nanosecond, 1, 0}, // rounded down, never up
		{100 * time.Nanosecond, 1, 1},
		{0, 1, 0},
		{-time.Second, 1, 0},
		{time.Second, -3, 10_000_000},
		{math.MaxInt64, 1, 92_233_720_368_547_758},
	} {
		if got := m.Attribute(c.busy, c.concurrent); got != c.want {
			t.Errorf("%s with %d: got %d, want %d", c.busy, c.concurrent, got, c.want)
		}
	}
	if got := (energy.Model{}).Attribute(time.Second, 0); got != 0 {
		t.Errorf("zero model: %d", got)
	}
}

// TestPartsNeverExceedTheMeter runs random overlapping requests in a window and adds their shares, each with the highest
// concurrency it saw, as the gateway does.
func TestPartsNeverExceedTheMeter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		idle := rng.Int64N(100_000)
		busy := idle + rng.Int64N(1_000_000)
		m, err := energy.New(energy.Config{IdleMilliwatts: idle, BusyMilliwatts: busy, Slots: rng.IntN(6)})
		if err != nil {
			t.Fatal(err)
		}
		const ticks, tick = 40, 12_345_677 * time.Nanosecond
		type span struct{ from, to int }
		spans := make([]span, 1+rng.IntN(12))
		var load [ticks]int
		for i := range spans {
			from := rng.IntN(ticks)
			spans[i] = span{from, from + 1 + rng.IntN(ticks-from)}
			for k := spans[i].from; k < spans[i].to; k++ {
				load[k]++
			}
		}
		var sum int64
		for _, s := range spans {
			peak := 0
			for k := s.from; k < s.to; k++ {
				peak = max(peak, load[k])
			}
			share := m.Attribute(time.Duration(s.to-s.from)*tick, peak)
			if share < 0 {
				t.Fatalf("negative share %d", share)
			}
			sum += share
		}
		if meter := busy * int64(ticks*tick) / 1_000_000; sum > meter { // 1 mW × 1 ns is 10⁻⁶ µJ
			t.Fatalf("parts %d exceed the meter %d", sum, meter)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []energy.Config{
		{IdleMilliwatts: -1}, {IdleMilliwatts: 5, BusyMilliwatts: 4}, {BusyMilliwatts: 2_000_000_000}, {Slots: -1}, {Slots: 1 << 21},
	} {
		if _, err := energy.New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
