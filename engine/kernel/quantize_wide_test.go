package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The tiers agree on both terms, and the terms together are within a 2⁻¹⁵ of the largest magnitude of their block or row.
func TestQuantizeInTwoTerms(t *testing.T) {
	for _, in := range []Input{Block, Row} {
		for _, cols := range []int{32, 96, 576, 1536} {
			for _, kind := range inputs() {
				r := rand.New(rand.NewPCG(uint64(cols), 5))
				x := fill(r, kind, make([]float32, cols))
				var want [2][]byte
				for _, k := range append([]Kernels{Generic()}, tiers(t)...) {
					high, low := NewActivations(in, 2, cols, nil), NewActivations(in, 2, cols, nil)
					k.QuantizeWide(high, low, 1, append([]float32(nil), x...))
					name := fmt.Sprintf("%v, %d columns, %s, %s", in, cols, kind.name, k.ISA())
					if want[0] == nil {
						want = [2][]byte{high.data, low.data}
						closeEnough(t, name, high, low, x)
					}
					if !bytes.Equal(high.data, want[0]) || !bytes.Equal(low.data, want[1]) {
						t.Errorf("%s differs from the reference", name)
					}
				}
			}
		}
	}
}

func closeEnough(t *testing.T, name string, high, low *Activations, x []float32) {
	t.Helper()
	block := len(x)
	if high.in == Block {
		block = 32
	}
	for at := 0; at < len(x); at += block {
		top := 0.0
		for _, v := range x[at : at+block] {
			top = max(top, math.Abs(float64(v)))
		}
		for j := at; j < at+block; j++ {
			got := value(high, j, block) + value(low, j, block)
			if d := math.Abs(got - float64(x[j])); d > top/(1<<15)+1e-29 {
				t.Fatalf("%s: element %d is %g, not %g", name, j, got, x[j])
			}
		}
	}
}

func value(a *Activations, j, block int) float64 {
	return float64(a.scales(1)[j/block].d) * float64(a.codes(1)[j])
}
