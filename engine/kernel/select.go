package kernel

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
)

// The tiers. Of one architecture, each needs all that the ones before need.
const (
	generic = "generic"
	avx2    = "avx2"     // AVX2, FMA, F16C
	avx512  = "avx512"   // AVX-512 F, BW, DQ, VL and VNNI
	neon    = "neon"     // arm64
	neonDot = "neon-dot" // with the dot product of ARMv8.2
)

// Variable is the environment variable that holds the tier to use at most: "generic", "avx2", "avx512", "neon" or "neon-dot". It
// exists to test one
// tier on a machine that has a better one, and as a remedy when a tier misbehaves in the field.
const Variable = "SLUICE_ISA"

// Detect returns the fastest tier this processor has and the environment allows, after it passed the self-test; one that fails
// makes way for the next. Everything unexpected is logged as a warning. The generic tier is slow but always right.
func Detect(log *slog.Logger) Kernels {
	k, warnings := choose(os.Getenv(Variable), detect(), Kernels.selfTest)
	for _, w := range warnings {
		log.Warn(w, slog.String("tier", k.ISA()))
	}
	return k
}

// Generic returns the tier without assembly.
func Generic() Kernels { return Kernels{} }

// ladder returns the tiers a processor has, the best one first.
func ladder(best Kernels) []Kernels {
	switch {
	case best.avx512:
		return []Kernels{best, {avx2: true}, {}}
	case best.avx2:
		return []Kernels{best, {}}
	case best.dot:
		return []Kernels{best, {neon: true}, {}}
	case best.neon:
		return []Kernels{best, {}}
	default:
		return []Kernels{{}}
	}
}

func choose(mask string, best Kernels, test func(Kernels) error) (Kernels, []string) {
	var warnings []string
	tiers := ladder(best)
	switch mask {
	case "":
	case generic, avx2, avx512, neon, neonDot:
		at := slices.IndexFunc(tiers, func(k Kernels) bool { return k.ISA() == mask })
		if at < 0 {
			at = 0
			warnings = append(warnings, fmt.Sprintf("%s=%s asks for a tier that this processor or build lacks", Variable, mask))
		}
		tiers = tiers[at:]
	default:
		return Generic(), []string{fmt.Sprintf("%s=%q names no tier; known are %q", Variable, mask, []string{generic, avx2, avx512, neon, neonDot})}
	}
	for _, k := range tiers[:len(tiers)-1] {
		err := test(k)
		if err == nil {
			return k, warnings
		}
		warnings = append(warnings, fmt.Sprintf("the tier %s failed its self-test and is not used: %v", k.ISA(), err))
	}
	return Generic(), warnings
}

// selfTest compares every kernel of k with the reference on one fixed input that has extremes, both signs and an odd tail.
func (k Kernels) selfTest() error {
	want, got := newProbe(), newProbe()
	want.run(Generic())
	got.run(k)
	for i, w := range want.out {
		if math.Float32bits(w) != math.Float32bits(got.out[i]) {
			return fmt.Errorf("result %d of %d is %x, not %x", i, len(want.out), math.Float32bits(got.out[i]), math.Float32bits(w))
		}
	}
	return nil
}
