package kernel

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// The tests of AVX2 must not pass silently on the reference.
func TestAVX2IsSelectedWhereRequired(t *testing.T) {
	if !testmodel.Required(avx2) {
		t.Skip("SLUICE_REQUIRE does not name avx2")
	}
	t.Setenv(Variable, "")
	if got := Detect(slog.Default()).ISA(); got != avx2 {
		t.Fatalf("SLUICE_REQUIRE names avx2, but the tier is %s", got)
	}
}

func TestChoose(t *testing.T) {
	ok := func(Kernels) error { return nil }
	bad := func(Kernels) error { return errors.New("result 3 differs") }
	for _, c := range []struct {
		name, mask string
		has        bool
		test       func(Kernels) error
		want, warn string
	}{
		{"present", "", true, ok, avx2, ""},
		{"absent", "", false, ok, generic, ""},
		{"masked", "generic", true, ok, generic, ""},
		{"asked", "avx2", true, ok, avx2, ""},
		{"asked but absent", "avx2", false, ok, generic, "lacks AVX2"},
		{"misspelt", "avx3", true, ok, generic, `"avx3" names no tier`},
		{"broken", "", true, bad, generic, "failed its self-test"},
	} {
		k, warning := choose(c.mask, c.has, c.test)
		if k.ISA() != c.want || !strings.Contains(warning, c.warn) || (warning == "") != (c.warn == "") {
			t.Errorf("%s: got %s, warning %q", c.name, k.ISA(), warning)
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

func tiers(testing.TB) []Kernels {
	all := []Kernels{Generic()}
	if hasAVX2() {
		all = append(all, Kernels{avx2: true})
	}
	return all
}
