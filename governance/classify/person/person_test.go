package person

import (
	"strings"
	"testing"
)

func TestNamesCostNoAllocation(t *testing.T) {
	w := newDetector(strings.Repeat("高度重视周边方案，于是王国马上成功。", 4))
	if n := testing.AllocsPerRun(20, func() {
		for i := range w.End() {
			person(w, i)
			latin(w, i)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWeightsAreWhole: every feature has its line, and every weight its place.
func TestWeightsAreWhole(t *testing.T) {
	lines := 0
	for line := range strings.Lines(weightText) {
		if !strings.HasPrefix(line, "#") {
			lines++
		}
	}
	if lines != int(features) {
		t.Errorf("%d lines of weights for %d features; fit anew: SLUICE_UPDATE=1 go test ./governance/classify/person -run TestFitNames", lines, features)
	}
	if m := nameWeights(); m.format(floats(m)) != weightText {
		t.Error("the weights are not as they were written")
	}
}

func floats(m *model) []float64 {
	w := make([]float64, len(m.weights))
	for i, x := range m.weights {
		w[i] = float64(x) / 100
	}
	return w
}
