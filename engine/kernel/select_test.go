package kernel

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// The tests of a tier must not pass silently on a lower one.
func TestTierIsSelectedWhereRequired(t *testing.T) {
	for _, tier := range []string{avx2, avx512, neon, neonDot} {
		t.Run(tier, func(t *testing.T) {
			if !testmodel.Required(tier) {
				t.Skipf("SLUICE_REQUIRE does not name %s", tier)
			}
			t.Setenv(Variable, "")
			got := Detect(slog.Default())
			if !slices.ContainsFunc(ladder(got), func(k Kernels) bool { return k.ISA() == tier }) {
				t.Fatalf("SLUICE_REQUIRE names %s, but the tier is %s", tier, got.ISA())
			}
		})
	}
}

func TestChoose(t *testing.T) {
	ok := func(Kernels) error { return nil }
	bad := func(Kernels) error { return errors.New("result 3 differs") }
	bad512 := func(k Kernels) error {
		if k.avx512 {
			return errors.New("result 4 differs")
		}
		return nil
	}
	one, two := Kernels{avx2: true}, Kernels{avx2: true, avx512: true}
	arm := Kernels{neon: true, dot: true}
	for _, c := range []struct {
		name, mask string
		best       Kernels
		test       func(Kernels) error
		want, warn string
	}{
		{"present", "", one, ok, avx2, ""},
		{"best", "", two, ok, avx512, ""},
		{"absent", "", Kernels{}, ok, generic, ""},
		{"masked", "generic", two, ok, generic, ""},
		{"masked from above", "avx2", two, ok, avx2, ""},
		{"asked", "avx2", one, ok, avx2, ""},
		{"asked for the best", "avx512", two, ok, avx512, ""},
		{"asked but absent", "avx2", Kernels{}, ok, generic, "lacks"},
		{"asked for more than there is", "avx512", one, ok, avx2, "lacks"},
		{"misspelt", "avx3", two, ok, generic, `"avx3" names no tier`},
		{"broken", "", one, bad, generic, "avx2 failed its self-test"},
		{"best broken", "", two, bad512, avx2, "avx512 failed its self-test"},
		{"arm64", "", arm, ok, neonDot, ""},
		{"arm64 masked", "neon", arm, ok, neon, ""},
		{"arm64 without dot product", "", Kernels{neon: true}, ok, neon, ""},
		{"arm64 asked for the other architecture", "avx2", arm, ok, neonDot, "lacks"},
		{"arm64 broken", "", arm, bad, generic, "neon-dot failed its self-test"},
		{"all broken", "", two, bad, generic, "avx2 failed its self-test"},
	} {
		k, warnings := choose(c.mask, c.best, c.test)
		if all := strings.Join(warnings, "; "); k.ISA() != c.want || !strings.Contains(all, c.warn) || (all == "") != (c.warn == "") {
			t.Errorf("%s: got %s, warning %q", c.name, k.ISA(), all)
		}
	}
}

func TestSelfTest(t *testing.T) {
	for _, k := range tiers(t) {
		if err := k.selfTest(); err != nil {
			t.Errorf("%s: %v", k.ISA(), err)
		}
	}
}

// tiers returns every tier of this machine, the reference first.
func tiers(testing.TB) []Kernels {
	all := ladder(detect())
	slices.Reverse(all)
	return all
}
