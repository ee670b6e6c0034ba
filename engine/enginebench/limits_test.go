package enginebench

import (
	"log/slog"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/engine/kernel"
)

// TestLimitsAreOfThisMachine: figures that a processor of our days can have, and a multiply rate wherever a vector tier runs.
func TestLimitsAreOfThisMachine(t *testing.T) {
	t.Parallel()
	k := kernel.Detect(slog.New(slog.DiscardHandler))
	l := measureLimits(1, 1, k)
	if l.ReadGBs < .05 || l.ReadGBs > 2000 {
		t.Errorf("reading: %g GB/s", l.ReadGBs)
	}
	if vector := k.ISA() == "avx2" || k.ISA() == "avx512"; vector != (l.MultiplyG > 0) || l.MultiplyG > 5000 {
		t.Errorf("%s multiplies at %g GMAC/s", k.ISA(), l.MultiplyG)
	}
	if runtime.NumCPU() > 1 && (l.HandOver < 5 || l.HandOver > 1e8) {
		t.Errorf("hand-over: %g ns", l.HandOver)
	}
	if l := measureLimits(1, 1, kernel.Generic()); l.MultiplyG != 0 || l.ReadGBs <= 0 {
		t.Errorf("the generic tier: %+v", l)
	}
}

// TestLoopsTakeAnyLength: parts of a block need not divide into pieces, and are read to within the last 32 words.
func TestLoopsTakeAnyLength(t *testing.T) {
	t.Parallel()
	read, multiply, each := loops(kernel.Detect(slog.New(slog.DiscardHandler)))
	data := make([]uint64, 100_000)
	for _, n := range []int{0, 1, 31, 32, 33, 32 << 10, 32<<10 + 1, 64<<10 + 31, len(data)} {
		read(data[len(data)-n:])
	}
	if multiply != nil {
		multiply(1)
		if each <= 0 {
			t.Errorf("each %d", each)
		}
	}
}

// TestTogetherCounts: what threads did adds up.
func TestTogetherCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a clock of its own: each call takes a millisecond exactly
		rate := together(3, func(int) int { time.Sleep(time.Millisecond); return 1000 })
		if want := 3 * 1000 / time.Millisecond.Seconds() / 1e9; math.Abs(rate/want-1) > 1e-9 {
			t.Errorf("%g, want %g", rate, want)
		}
	})
}
