package exec

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine/kernel"
)

// squares is the weighted squared error of a quantised row.
func squares(x []float32, q []int8, d float32, energy []float32) float64 {
	sum := 0.0
	for i, v := range x {
		e, w := float64(v)-float64(d)*float64(q[i]), 1.0
		if energy != nil {
			w = float64(energy[i])
		}
		sum += w * e * e
	}
	return sum
}

// roundingOf is what the rounding of scales to float32 may cost.
func roundingOf(x []float32, energy []float32) float64 {
	return 1e-13 * squares(x, make([]int8, len(x)), 0, energy)
}

// drawnRow draws rows of several kinds: even, normal, with a few large ones, with one huge one, mostly zero.
func drawnRow(rng *rand.Rand, n, kind int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) * 0.02
		switch kind % 5 {
		case 0:
			x[i] = rng.Float32() - 0.5
		case 2:
			if rng.IntN(50) == 0 {
				x[i] *= 8
			}
		case 4:
			if rng.IntN(4) != 0 {
				x[i] = 0
			}
		}
	}
	if kind%5 == 3 {
		x[rng.IntN(n)] = 1.5
	}
	return x
}

func drawnEnergy(rng *rand.Rand, n int) []float32 {
	e := make([]float32, n)
	for i := range e {
		e[i] = float32(math.Exp(2 * rng.NormFloat64()))
	}
	return e
}

func TestFitIsNeverWorseThanTheLargestMagnitude(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	better := 0
	for trial := range 2000 {
		n := 1 + rng.IntN(300)
		x := drawnRow(rng, n, trial)
		var f fitter
		if trial%3 == 0 {
			f.energy = drawnEnergy(rng, n)
		}
		q, plain := make([]int8, n), make([]int8, n)
		d := f.fit(q, x)
		most, _ := kernel.Generic().QuantizeRow(plain, x)
		got, limit := squares(x, q, d, f.energy), squares(x, plain, most, f.energy)
		if got > limit*(1+1e-5)+roundingOf(x, f.energy) {
			t.Fatalf("trial %d, %d columns: error %g, with the largest magnitude %g", trial, n, got, limit)
		}
		if got < 0.97*limit {
			better++
		}
	}
	if better < 500 {
		t.Errorf("only %d of 2000 rows gained", better)
	}
}

func TestFitFindsWhatBruteForceFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for trial := range 500 {
		n := 1 + rng.IntN(40)
		x := drawnRow(rng, n, trial)
		var f fitter
		if trial%2 == 0 {
			f.energy = drawnEnergy(rng, n)
		}
		q := make([]int8, n)
		d := f.fit(q, x)
		top := 0.0
		for _, v := range x {
			top = max(top, math.Abs(float64(v)))
		}
		least := math.Inf(1)
		for n := range clipSteps + 1 {
			codes := make([]int8, len(x))
			scale := top / 127 * (1 - float64(n)/(2*clipSteps))
			for i, v := range x {
				if scale > 0 {
					codes[i] = int8(max(-127, min(127, math.RoundToEven(float64(v)/scale))))
				}
			}
			least = min(least, squares(x, codes, float32(scale), f.energy))
		}
		if got := squares(x, q, d, f.energy); got > least*(1+1e-4)+roundingOf(x, f.energy) {
			t.Fatalf("trial %d: error %g, brute force finds %g", trial, got, least)
		}
	}
}

func TestFitOfUnusualRows(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		x    []float32
		q    []int8
		d    float32
		name string
	}{
		{[]float32{0, 0, 0}, []int8{0, 0, 0}, 0, "zero"},
		{[]float32{1e-31, -1e-35}, []int8{0, 0}, 0, "next to zero"},
		{[]float32{1, nan}, []int8{0, 0}, 0, "not a number"},
		{[]float32{1, inf}, []int8{0, 0}, 0, "infinite"},
		{[]float32{-127}, []int8{-127}, 1, "one"},
		{[]float32{3e38, -3e38}, []int8{127, -127}, 3e38 / 127, "huge"},
	} {
		q := []int8{5, 5, 5}[:len(c.x)]
		f := fitter{}
		if d := f.fit(q, c.x); !slices.Equal(q, c.q) || math.Abs(float64(d-c.d)) > 1e-6*float64(c.d) {
			t.Errorf("%s: %v with %g, want %v with %g", c.name, q, d, c.q, c.d)
		}
	}
}

// correlated draws inputs whose columns go together, of very different sizes and not around zero.
func correlated(rng *rand.Rand, rows, cols int) *inputs {
	in := &inputs{rows: rows, cols: cols, x: make([]float32, rows*cols)}
	size := drawnEnergy(rng, cols)
	mix := make([]float32, cols*8)
	for i := range mix {
		mix[i] = float32(rng.NormFloat64())
	}
	for r := range rows {
		var hidden [8]float32
		for i := range hidden {
			hidden[i] = float32(rng.NormFloat64())
		}
		for c := range cols {
			v := 0.3 + 0.5*float32(rng.NormFloat64())
			for i, h := range hidden {
				v += 0.4 * h * mix[c*8+i]
			}
			in.x[r*cols+c] = v * float32(math.Sqrt(float64(size[c])))
		}
	}
	return in
}

// outputError is the squared error of a matrix's products with inputs, of the weights in want.
func outputError(m *kernel.Matrix, want data, in *inputs) float64 {
	got, off := make([]float32, m.Cols()), make([]float64, m.Cols())
	sum := 0.0
	for r := range m.Rows() {
		m.Row(r, got)
		for c := range off {
			off[c] = float64(want.x[r*want.cols+c]) - float64(got[c])
		}
		for i := range in.rows {
			y := 0.0
			for c, v := range in.x[i*in.cols : (i+1)*in.cols] {
				y += float64(v) * off[c]
			}
			sum += y * y
		}
	}
	return sum
}

func calibratedMatrix(t *testing.T, f kernel.Format, w data, in *inputs, k kernel.Kernels, threads int) *kernel.Matrix {
	t.Helper()
	s := &stack{rows: w.Rows(), cols: w.cols, parts: []Tensor{w}}
	m := kernel.NewMatrix(f, s.rows, s.cols, nil)
	c := &calibrator{from: &Calibration{Kernels: k}, threads: threads, in: *in}
	if err := c.pack(s, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// On data that it was not made from, too: the second half of the inputs.
func TestCompensationMakesProductsBetter(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][2]int{{7, 32}, {40, 96}, {70, 160}} {
		rows, cols := size[0], size[1]
		in := correlated(rng, 600, cols)
		seen := &inputs{rows: 400, cols: cols, x: in.x[:400*cols]}
		fresh := &inputs{rows: 200, cols: cols, x: in.x[400*cols:]}
		w := data{cols: cols}
		for r := range rows {
			w.x = append(w.x, drawnRow(rng, cols, r%3)...)
		}
		for _, f := range []kernel.Format{kernel.I8, kernel.Q8} {
			plain := kernel.NewMatrix(f, rows, cols, nil)
			if err := (&stack{rows: rows, cols: cols, parts: []Tensor{w}}).pack(plain, nil, 1); err != nil {
				t.Fatal(err)
			}
			m := calibratedMatrix(t, f, w, seen, kernel.Generic(), 2)
			for name, x := range map[string]*inputs{"seen": seen, "fresh": fresh} {
				before, after := outputError(plain, w, x), outputError(m, w, x)
				t.Logf("%v, %d×%d, %s inputs: %.3f of the error is left", f, rows, cols, name, after/before)
				if after > 0.5*before {
					t.Errorf("%v, %d×%d, %s inputs: error %g, without compensation %g", f, rows, cols, name, after, before)
				}
			}
		}
	}
}

func TestCompensationIsTheSameEverywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	in := correlated(rng, 150, 192)
	w := data{cols: 192}
	for r := range 100 {
		w.x = append(w.x, drawnRow(rng, 192, r)...)
	}
	for _, f := range []kernel.Format{kernel.I8, kernel.Q8} {
		want := calibratedMatrix(t, f, w, in, kernel.Generic(), 1).Bytes()
		for _, k := range tiers() {
			for _, threads := range []int{1, 2, 3, 8} {
				if got := calibratedMatrix(t, f, w, in, k, threads).Bytes(); !bytes.Equal(got, want) {
					t.Errorf("%v, %s, %d threads: other bytes", f, k.ISA(), threads)
				}
			}
		}
	}
}

// The factor is H: Σ x·xᵀ with its diagonal raised.
func TestFactorIsTheGramMatrix(t *testing.T) {
	for _, n := range []int{1, 31, 32, 70, 130} {
		in := correlated(rand.New(rand.NewPCG(9, uint64(n))), 2*n+3, n)
		f, err := newFactor(kernel.Generic(), in, 2)
		if err != nil {
			t.Fatal(err)
		}
		u := func(j, k int) float64 {
			b := &f.blocks[k/blockColumns]
			switch {
			case j == k:
				return 1
			case j > k:
				return 0
			case j >= b.from:
				return b.near[(k-b.from)*blockColumns+j-b.from]
			}
			row := make([]float32, b.from)
			b.far.Row(k-b.from, row)
			return float64(row[j])
		}
		mean := 0.0
		for _, v := range in.x {
			mean += float64(v) * float64(v) / float64(n)
		}
		for a := range n {
			for b := range n {
				want, got, size := 0.0, 0.0, [2]float64{}
				for r := range in.rows {
					x, y := float64(in.x[r*n+f.order[a]]), float64(in.x[r*n+f.order[b]])
					want, size[0], size[1] = want+x*y, size[0]+x*x, size[1]+y*y
				}
				if a == b {
					want = want*(1+damping) + 1e-6*mean
				}
				for k := max(a, b); k < n; k++ {
					got += u(a, k) * f.d[k] * u(b, k)
				}
				if math.Abs(got-want) > 2e-5*math.Sqrt(size[0]*size[1])+1e-5*size[0] {
					t.Fatalf("n %d: H[%d,%d] is %g, want %g", n, a, b, got, want)
				}
			}
		}
	}
}

func TestCalibrationRefusesWhatIsNotFinite(t *testing.T) {
	in := correlated(rand.New(rand.NewPCG(1, 1)), 40, 32)
	in.x[77] = float32(math.Inf(1))
	w := data{cols: 32, x: make([]float32, 64)}
	c := &calibrator{from: &Calibration{Kernels: kernel.Generic()}, threads: 1, in: *in}
	if err := c.pack(&stack{rows: 2, cols: 32, parts: []Tensor{w}}, kernel.NewMatrix(kernel.I8, 2, 32, nil)); err == nil {
		t.Error("infinite inputs were used")
	}
}

// Bytes are weights.
func BenchmarkFit(b *testing.B) {
	for _, n := range []int{576, 1536} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, q, f := drawnRow(rand.New(rand.NewPCG(1, 2)), n, 1), make([]int8, n), fitter{}
			b.SetBytes(int64(n))
			for b.Loop() {
				f.fit(q, x)
			}
		})
	}
}
