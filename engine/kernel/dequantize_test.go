package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every tier reads quantised rows back as the same numbers, and those are what the products take for them.
func TestDequantize(t *testing.T) {
	for _, in := range []Input{Dense, Block, Row} {
		for _, cols := range []int{32, 96, 576, 1536} {
			for _, kind := range inputs() {
				x := fill(rand.New(rand.NewPCG(uint64(cols), 6)), kind, make([]float32, cols))
				high, low := NewActivations(in, 2, cols, nil), NewActivations(in, 2, cols, nil)
				if in == Dense {
					Generic().Quantize(high, 1, x)
					low = nil
				} else {
					Generic().QuantizeWide(high, low, 1, slices.Clone(x))
				}
				name := fmt.Sprintf("%v, %d columns, %s", in, cols, kind.name)
				for _, second := range []*Activations{nil, low} {
					want := make([]float32, cols)
					Generic().Dequantize(want, high, second, 1)
					checkTerms(t, name, want, high, second, x)
					for _, k := range tiers(t) {
						got := make([]float32, cols)
						k.Dequantize(got, high, second, 1)
						sameBits(t, name+", "+k.ISA(), got, want)
					}
				}
			}
		}
	}
}

// checkTerms compares with the sum of both terms in float64, rounded once.
func checkTerms(t *testing.T, name string, got []float32, high, low *Activations, x []float32) {
	t.Helper()
	if high.in == Dense {
		sameBits(t, name, got, x)
		return
	}
	block := len(x)
	if high.in == Block {
		block = 32
	}
	for j := range got {
		want := float64(float32(value(high, j, block)))
		if low != nil {
			want += value(low, j, block)
		}
		if got[j] != float32(want) {
			t.Fatalf("%s: element %d is %g, not %g", name, j, got[j], want)
		}
	}
}

// A view multiplies like activations with memory of their own, and costs none.
func TestViewOfDenseRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	w := NewMatrix(F32, 16, 24, nil)
	x := NewActivations(Dense, 3, 24, nil)
	for row := range 16 {
		w.SetRow(row, fill(r, inputs()[0], make([]float32, 24)))
	}
	for row := range 3 {
		fill(r, inputs()[0], x.Row(row))
	}
	k := tiers(t)[0]
	want, got := make([]float32, 16), make([]float32, 16)
	var view Activations
	allocs := testing.AllocsPerRun(10, func() {
		view.View(1, 24, x.data[2*x.stride:])
		k.Mul(got, 16, w, 0, 1, &view, 1, false, nil)
	})
	last := NewActivations(Dense, 1, 24, nil)
	copy(last.Row(0), x.Row(2))
	k.Mul(want, 16, w, 0, 1, last, 1, false, nil)
	if !slices.Equal(got, want) || allocs > 0 {
		t.Errorf("the view gives %v, want %v; %.0f allocations", got, want, allocs)
	}
}
