package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func formats() []Format { return []Format{F32, F16, Q4, Q4K, Q5, Q5K, Q6K, Q8, I8, Q8X} }

// rowsOf returns activations in the form that f reads, in memory that begins off elements late, and a check that nothing around
// them was written.
func rowsOf(f Format, r *rand.Rand, in input, rows, cols, off int) (*Activations, func() error) {
	mem, intact := guarded[byte](ActivationsBytes(f.Input(), rows, cols), 16*off)
	a := &Activations{in: f.Input(), rows: rows, cols: cols, stride: len(mem) / rows, data: mem}
	for t := range rows {
		Generic().Quantize(a, t, fill(r, in, make([]float32, cols)))
	}
	return a, intact
}

// The columns to test a format with: one block, an odd number of blocks, more than a line of scales.
func columns(f Format) []int {
	switch f.Columns() {
	case 1:
		return []int{1, 7, 172}
	case 32:
		return []int{32, 96, 288}
	default:
		return []int{256, 768}
	}
}

func TestMulEqualsReference(t *testing.T) {
	for _, f := range formats() {
		for i, in := range inputs() {
			for j, cols := range columns(f) {
				// Panels and a part of one; enough of them for the kernels that take several at once.
				rows := []int{16, 1, 5*16 + 13}[(i+j)%3]
				if f.Input() == Dense {
					rows = []int{16*16 + 13, 1, 5*16 + 13}[(i+j)%3]
				}
				tokens := []int{1, 4, 25}
				if i == 0 { // every tile
					tokens = []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 31}
				}
				checkMul(t, f, in, rows, cols, tokens...)
			}
		}
	}
}

// Many tokens and more columns than are unpacked at a time: every tile goes on with the sums of earlier columns, and what is left
// over needs every small one. Then more tokens than sums can wait.
func TestWideMulEqualsReference(t *testing.T) {
	for _, f := range formats() {
		cols := max(800, 4*f.Columns())
		for n := wideTokens; n < wideTokens+12; n++ {
			checkMul(t, f, inputs()[0], 5, cols, n)
		}
		checkMul(t, f, inputs()[1], 17, cols, wideSums+9, 2*wideSums)
	}
}

func checkMul(t *testing.T, f Format, in input, rows, cols int, tokens ...int) {
	t.Helper()
	p := newProbe()
	w := p.matrix(f, rows, cols)
	for _, n := range tokens {
		a, intact := rowsOf(f, source(), in, n, cols, n%4)
		stride := w.Stride() + 3*(n%2)
		checkProduct(t, w, in.name, a, n, p.vector(n*stride, 1), stride, n%2 == 0, nil)
		checkProduct(t, w, in.name, a, n, p.vector(n*stride, 1), stride, n%2 == 1, p.vector([]int{rows, w.Stride()}[n/2%2], 1))
		if err := intact(); err != nil {
			t.Fatalf("%s: activations: %v", f, err)
		}
	}
}

// checkProduct compares all tiers with the reference; the destination holds before.
func checkProduct(t *testing.T, w *Matrix, in string, a *Activations, n int, before []float32, stride int, add bool, bias []float32) {
	t.Helper()
	want := append([]float32(nil), before...)
	for panel := range w.Panels() {
		w.refPanel(want[panel*panelRows:], stride, panel, a, 0, n, add, bias)
	}
	for _, k := range tiers(t) {
		dst, whole := guarded[float32](n*stride, n%5)
		copy(dst, before)
		// In two parts, as two threads would.
		k.Mul(dst, stride, w, 0, w.Panels()/2, a, n, add, bias)
		k.Mul(dst, stride, w, w.Panels()/2, w.Panels(), a, n, add, bias)
		what := fmt.Sprintf("%s/%s/%s/%d×%d×%d", w.format, k.ISA(), in, w.rows, w.cols, n)
		sameBits(t, what, dst, want)
		if err := whole(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// The reference itself: against float64 sums of the values that Row gives back, within the rounding of the order it states.
func TestMulIsAProduct(t *testing.T) {
	for _, f := range formats() {
		const rows, tokens = 21, 2
		cols := columns(f)[1]
		w := newProbe().matrix(f, rows, cols)
		a, _ := rowsOf(f, source(), inputs()[0], tokens, cols, 0)
		dst := make([]float32, tokens*w.Stride())
		Generic().Mul(dst, w.Stride(), w, 0, w.Panels(), a, tokens, false, nil)
		row := make([]float32, cols)
		for i := range tokens {
			for r := range rows {
				w.Row(r, row)
				sum, size := 0.0, 0.0
				for c, v := range row {
					x := a.value(i, c)
					sum += float64(v) * x
					size += math.Abs(float64(v) * x)
				}
				if got := float64(dst[i*w.Stride()+r]); math.Abs(got-sum) > size*1e-5 {
					t.Errorf("%s: row %d: %v, want %v", f, r, got, sum)
				}
			}
			for r := rows; r < w.Stride(); r++ {
				if dst[i*w.Stride()+r] != 0 {
					t.Errorf("%s: padding row %d is %v", f, r, dst[i*w.Stride()+r])
				}
			}
		}
	}
}

// value is element c of row t.
func (a *Activations) value(t, c int) float64 {
	switch a.in {
	case Dense:
		return float64(a.Row(t)[c])
	case Block:
		return float64(a.scales(t)[c/32].d) * float64(a.codes(t)[c])
	default:
		return float64(a.scales(t)[0].d) * float64(a.codes(t)[c])
	}
}

// What is stored must come back: Row against the numbers given, exactly.
func TestRowsComeBack(t *testing.T) {
	p := newProbe()
	const rows, cols = 35, 512
	for r := range rows {
		d, m, zero := make([]float32, cols/32), make([]float32, cols/32), make([]float32, cols/32)
		for b := range d {
			d[b], m[b] = p.half(), p.half()
		}
		for _, c := range []struct {
			f         Format
			m         []float32
			low, high int
		}{{Q4, m, 0, 15}, {Q5, m, 0, 31}, {Q5, zero, -16, 15}, {Q8, zero, -128, 127}, {Q8X, m, -128, 127}} {
			q := p.integers(cols, r, c.low, c.high)
			if !Fits(c.f, q, d, c.m) {
				t.Fatalf("%s does not hold %d to %d", c.f, c.low, c.high)
			}
			w, got := NewMatrix(c.f, rows, cols, nil), make([]float32, cols)
			w.SetBlocks(r, q, d, c.m)
			w.Row(r, got)
			for j := range got {
				if want := float32(d[j/32]*float32(q[j])) + c.m[j/32]; math.Abs(float64(got[j]-want)) > 1e-6*math.Abs(float64(d[j/32]))*16 {
					t.Fatalf("%s: row %d column %d is %v, want %v", c.f, r, j, got[j], want)
				}
			}
		}
	}
}

func TestSuperBlocksComeBack(t *testing.T) {
	p := newProbe()
	for _, f := range []Format{Q4K, Q5K} {
		w, got := NewMatrix(f, 35, 512, nil), make([]float32, 512)
		for r := range 35 {
			for b := range 2 {
				var scales, offsets [8]uint8
				var q [256]uint8
				d, dmin := p.half(), p.half()
				for i, v := range p.integers(256, r, 0, map[Format]int{Q4K: 15, Q5K: 31}[f]) {
					q[i] = uint8(v)
				}
				for i, v := range p.integers(16, r, 0, 63) {
					if i < 8 {
						scales[i] = uint8(v)
					} else {
						offsets[i-8] = uint8(v)
					}
				}
				w.SetK(r, b, toHalf(d), toHalf(dmin), &scales, &offsets, &q)
				w.Row(r, got)
				for j := range 256 {
					want := float32(d*float32(scales[j/32])*float32(q[j])) - float32(dmin*float32(offsets[j/32]))
					if got[256*b+j] != want {
						t.Fatalf("%s: row %d column %d is %v, want %v", f, r, j, got[256*b+j], want)
					}
				}
			}
		}
	}
	w, got := NewMatrix(Q6K, 35, 512, nil), make([]float32, 512)
	for r := range 35 {
		for b := range 2 {
			d, q, scales := p.half(), [256]int8(p.integers(256, r, -32, 31)), [16]int8(p.integers(16, r, -128, 127))
			w.SetQ6K(r, b, toHalf(d), &scales, &q)
			w.Row(r, got)
			for j := range 256 {
				if want := float32(d * float32(scales[j/16]) * float32(q[j])); got[256*b+j] != want {
					t.Fatalf("q6k: row %d column %d is %v, want %v", r, j, got[256*b+j], want)
				}
			}
		}
	}
}

func TestFits(t *testing.T) {
	one, zero, off, fine := []float32{1}, []float32{0}, []float32{0.5}, []float32{1.0001}
	q := func(v int8) []int8 { return append(make([]int8, 31), v) }
	for _, c := range []struct {
		name string
		f    Format
		q    []int8
		d, m []float32
		want bool
	}{
		{"q4", Q4, q(15), one, off, true},
		{"q4 too large", Q4, q(16), one, off, false},
		{"q4 negative", Q4, q(-1), one, off, false},
		{"q4 fine scale", Q4, q(1), fine, off, false},
		{"q4 fine offset", Q4, q(1), one, fine, false},
		{"q5", Q5, q(31), one, off, true},
		{"q5 without offsets", Q5, q(31), one, zero, true},
		{"q5 with sign", Q5, q(-16), one, zero, true},
		{"q5 with sign and offset", Q5, q(-16), one, off, false},
		{"q5 too large", Q5, q(32), one, off, false},
		{"q5 offset beyond half precision", Q5, q(-16), []float32{60000}, zero, false},
		{"q8", Q8, q(-128), one, zero, true},
		{"q8 with offset", Q8, q(-128), one, off, false},
		{"q8 fine scale", Q8, q(1), fine, zero, false},
		{"q8x", Q8X, q(-128), fine, fine, true},
		{"dense", F32, q(1), one, zero, false},
	} {
		if got := Fits(c.f, c.q, c.d, c.m); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestFormatNames(t *testing.T) {
	for _, f := range formats() {
		if got, err := ParseFormat(f.String()); err != nil || got != f {
			t.Errorf("%v: %v, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("q3"); err == nil {
		t.Error("q3 is no format")
	}
}

// A matrix in memory of the caller's, filled by another: what a mapped cache is.
func TestMatrixInGivenMemory(t *testing.T) {
	for _, f := range formats() {
		cols := columns(f)[1]
		w := newProbe().matrix(f, 21, cols)
		again := NewMatrix(f, 21, cols, w.Bytes())
		if len(w.Bytes()) != MatrixBytes(f, 21, cols) || len(w.Bytes())%64 != 0 {
			t.Errorf("%s: %d bytes, want %d", f, len(w.Bytes()), MatrixBytes(f, 21, cols))
		}
		x, y := make([]float32, cols), make([]float32, cols)
		w.Row(20, x)
		again.Row(20, y)
		sameBits(t, f.String(), y, x)
	}
}

// NaN and infinities must not fault or write elsewhere; what they give is not specified. Every bit pattern is a weight.
func TestNonFiniteProductsAreHarmless(t *testing.T) {
	bad := input{"bad", func(_ *rand.Rand, i int) float32 {
		return []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1}[i%4]
	}}
	for _, f := range formats() {
		cols := columns(f)[1]
		mem := make([]byte, MatrixBytes(f, 33, cols))
		r := source()
		for i := range mem {
			mem[i] = byte(r.Uint32())
		}
		w := NewMatrix(f, 33, cols, mem)
		for _, k := range tiers(t) {
			a, intact := rowsOf(f, source(), bad, 13, cols, 1)
			dst, whole := guarded[float32](13*w.Stride(), 1)
			k.Mul(dst, w.Stride(), w, 0, w.Panels(), a, 13, false, nil)
			if err1, err2 := intact(), whole(); err1 != nil || err2 != nil {
				t.Errorf("%s/%s: %v %v", f, k.ISA(), err1, err2)
			}
		}
	}
}

func TestWrongProductsPanic(t *testing.T) {
	w, a := NewMatrix(F32, 16, 4, nil), NewActivations(Dense, 1, 4, nil)
	for name, f := range map[string]func(){
		"short destination":  func() { Generic().Mul(make([]float32, 15), 16, w, 0, 1, a, 1, false, nil) },
		"short stride":       func() { Generic().Mul(make([]float32, 16), 15, w, 0, 1, a, 1, false, nil) },
		"short bias":         func() { Generic().Mul(make([]float32, 16), 16, w, 0, 1, a, 1, false, make([]float32, 15)) },
		"panel out of range": func() { Generic().Mul(make([]float32, 32), 32, w, 0, 2, a, 1, false, nil) },
		"too many rows":      func() { Generic().Mul(make([]float32, 32), 16, w, 0, 1, a, 2, false, nil) },
		"other width": func() {
			Generic().Mul(make([]float32, 16), 16, w, 0, 1, NewActivations(Dense, 1, 5, nil), 1, false, nil)
		},
		"other input": func() {
			Generic().Mul(make([]float32, 16), 16, NewMatrix(Q4, 16, 32, nil), 0, 1, NewActivations(Row, 1, 32, nil), 1, false, nil)
		},
		"odd columns":   func() { NewMatrix(Q4K, 16, 128, nil) },
		"other memory":  func() { NewMatrix(Q4, 16, 32, make([]byte, 319)) },
		"other setter":  func() { NewMatrix(Q4, 16, 32, nil).SetRow(0, make([]float32, 32)) },
		"other setter2": func() { w.SetBlocks(0, nil, nil, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestProductsDoNotAllocate(t *testing.T) {
	const tokens = wideTokens + 1
	for _, f := range formats() {
		cols := columns(f)[1]
		w := newProbe().matrix(f, 35, cols)
		a, _ := rowsOf(f, source(), inputs()[0], tokens, cols, 0)
		dst, bias := make([]float32, tokens*w.Stride()), make([]float32, 35)
		for _, k := range tiers(t) {
			for _, n := range []int{1, 7, tokens} {
				if n := testing.AllocsPerRun(3, func() { k.Mul(dst, w.Stride(), w, 0, w.Panels(), a, n, true, bias) }); n != 0 {
					t.Errorf("%s/%s: %v allocations", f, k.ISA(), n)
				}
			}
		}
	}
}

// Any bits are weights and activations: all tiers agree on all of them but NaN and infinities.
func FuzzMul(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 255, 127, 128}, uint8(3), uint8(1), uint8(2))
	f.Add([]byte{255}, uint8(8), uint8(4), uint8(6))
	f.Add([]byte{0, 60, 129}, uint8(40), uint8(17), uint8(7))
	f.Add([]byte{3, 61, 190, 77, 5}, uint8(20), uint8(wideTokens+2), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, rows, tokens, format uint8) {
		kind := formats()[int(format)%len(formats())]
		n, count, cols := int(rows)%40+1, int(tokens)%(wideTokens+4)+1, columns(kind)[0]
		if len(data) == 0 {
			data = []byte{77}
		}
		at := 0
		next := func() byte { at++; return data[at%len(data)] ^ byte(at/len(data)) }
		mem := make([]byte, MatrixBytes(kind, n, cols))
		for i := range mem {
			mem[i] = next() & 0xBF // keeps half-precision scales finite
			if kind == F32 || kind == I8 || kind == Q8X {
				mem[i] &= 0x3F
			}
		}
		w, a := NewMatrix(kind, n, cols, mem), NewActivations(kind.Input(), count, cols, nil)
		x := make([]float32, cols)
		for i := range count {
			for j := range x {
				x[j] = float32(int8(next())) * float32(math.Exp2(float64(int8(next())/8)))
			}
			Generic().Quantize(a, i, x)
		}
		want := make([]float32, count*w.Stride())
		Generic().Mul(want, w.Stride(), w, 0, w.Panels(), a, count, false, nil)
		for _, k := range tiers(t) {
			got := make([]float32, len(want))
			k.Mul(got, w.Stride(), w, 0, w.Panels(), a, count, false, nil)
			sameBits(t, k.ISA()+" "+kind.String(), got, want)
		}
	})
}
