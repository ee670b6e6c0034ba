package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// The suite compares every operation on every tier with the reference, bit for bit, over sizes, offsets in memory and kinds of
// input. Each destination lies between guards.

const guard = 0xA5

// guarded returns n elements that begin off elements into an allocation, and a check that nothing around them was written.
func guarded[T any](n, off int) ([]T, func() error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	const pad = 64
	raw := make([]byte, (n+off)*size+2*pad*size)
	for i := range raw {
		raw[i] = guard
	}
	all := unsafe.Slice((*T)(unsafe.Pointer(&raw[0])), len(raw)/size)
	from := pad/2 + off
	return all[from : from+n : from+n], func() error {
		for i, b := range raw {
			if (i < from*size || i >= (from+n)*size) && b != guard {
				return fmt.Errorf("byte %d outside the destination was written", i-from*size)
			}
		}
		return nil
	}
}

// input makes vectors of a certain kind.
type input struct {
	name string
	next func(r *rand.Rand, i int) float32
}

func inputs() []input {
	return []input{
		{"normal", func(r *rand.Rand, _ int) float32 { return float32(r.NormFloat64()) }},
		{"wide", func(r *rand.Rand, _ int) float32 { return float32(r.NormFloat64() * math.Exp(r.NormFloat64()*12)) }},
		{"extremes", func(_ *rand.Rand, i int) float32 { return []float32{127, -127, 127, 63.5, 0, -0.5, 1e-30, -126.5}[i%8] }},
		{"zeros", func(*rand.Rand, int) float32 { return 0 }},
		{"outlier", func(r *rand.Rand, i int) float32 {
			if i%37 == 5 {
				return 5000
			}
			return float32(r.NormFloat64()) / 100
		}},
		{"tiny", func(r *rand.Rand, _ int) float32 { return float32(r.NormFloat64() * 1e-38) }},
	}
}

func fill(r *rand.Rand, in input, x []float32) []float32 {
	for i := range x {
		x[i] = in.next(r, i)
	}
	return x
}

func source() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func sizes() []int {
	out := []int{576, 1536, 1001}
	for n := 0; n <= 67; n++ {
		out = append(out, n)
	}
	return out
}

// sameBits compares floats, zeros of both signs apart, NaN equal to NaN.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
			t.Fatalf("%s: element %d of %d is %v (%x), want %v (%x)", what, i, len(want), got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// vectorOp runs one operation on copies of x and y and returns all it produced. dst is guarded.
type vectorOp struct {
	name string
	run  func(k Kernels, dst, x, y []float32)
}

func vectorOps() []vectorOp {
	return []vectorOp{
		{"RMSNorm", func(k Kernels, dst, x, y []float32) {
			if len(x) > 0 {
				k.RMSNorm(dst, x, y, 1e-5)
			}
		}},
		{"RMSNorm in place", func(k Kernels, dst, x, y []float32) {
			if copy(dst, x); len(x) > 0 {
				k.RMSNorm(dst, dst, y, 1e-5)
			}
		}},
		{"Add", func(k Kernels, dst, x, y []float32) { copy(dst, y); k.Add(dst, x) }},
		{"SiLUMul", func(k Kernels, dst, x, y []float32) { k.SiLUMul(dst, x, y) }},
		{"SiLUMul in place", func(k Kernels, dst, x, y []float32) { copy(dst, x); k.SiLUMul(dst, dst, y) }},
		{"ExpSum", func(k Kernels, dst, x, _ []float32) {
			copy(dst, x)
			sum := k.ExpSum(dst, 3)
			if len(dst) > 0 {
				dst[0] += sum
			}
		}},
	}
}

func TestVectorsEqualReference(t *testing.T) {
	r := source()
	for _, op := range vectorOps() {
		for _, in := range inputs() {
			for _, n := range sizes() {
				for _, off := range []int{0, 1, 7} {
					x, y := fill(r, in, make([]float32, n)), fill(r, in, make([]float32, n))
					want := make([]float32, n)
					op.run(Generic(), want, x, y)
					for _, k := range tiers(t) {
						xo, _ := guarded[float32](n, off)
						yo, _ := guarded[float32](n, (off+3)%8)
						dst, intact := guarded[float32](n, off)
						copy(xo, x)
						copy(yo, y)
						op.run(k, dst, xo, yo)
						what := fmt.Sprintf("%s/%s/%s/%d+%d", op.name, k.ISA(), in.name, n, off)
						sameBits(t, what, dst, want)
						if err := intact(); err != nil {
							t.Fatalf("%s: %v", what, err)
						}
					}
				}
			}
		}
	}
}

// activations returns rows of the given kind, quantised where that is possible, in memory that begins off elements late.
func activations(k Kernels, r *rand.Rand, in input, rows, cols, off int) (x, q *Activations, intact func() error) {
	x, c := both(rows, cols, off)
	for t := range rows {
		fill(r, in, x.Row(t))
		if c.a != nil {
			k.Quantize(c.a, t, x.Row(t))
		}
	}
	return x, c.a, c.check
}

type checked struct {
	a     *Activations
	check func() error
}

// both returns rows as float32 and, where blocks fit, quantised ones, which are guarded and begin off elements late.
func both(rows, cols, off int) (*Activations, checked) {
	x := NewActivations(Dense, rows, cols, nil)
	if cols%32 != 0 {
		return x, checked{check: func() error { return nil }}
	}
	raw := alignedBytes(ActivationsBytes(Block, rows, cols) + 16*off + 64)
	for i := range raw {
		raw[i] = guard
	}
	from, to := 16*off, len(raw)-64
	return x, checked{NewActivations(Block, rows, cols, raw[from:to]), func() error {
		for i, b := range raw {
			if (i < from || i >= to) && b != guard {
				return fmt.Errorf("byte %d outside the activations was written", i-from)
			}
		}
		return nil
	}}
}

func TestQuantizeEqualsReference(t *testing.T) {
	for _, in := range inputs() {
		for _, cols := range []int{32, 64, 96, 576} {
			for _, off := range []int{0, 1, 5} {
				_, want, _ := activations(Generic(), source(), in, 3, cols, 0)
				for _, k := range tiers(t) {
					_, got, intact := activations(k, source(), in, 3, cols, off)
					what := fmt.Sprintf("%s/%s/%d+%d", k.ISA(), in.name, cols, off)
					for row := range 3 {
						for i, q := range want.codes(row) {
							if got.codes(row)[i] != q {
								t.Fatalf("%s: element %d is %d, want %d", what, i, got.codes(row)[i], q)
							}
							if q == -128 {
								t.Fatalf("%s: −128 breaks the product kernels", what)
							}
						}
						if !slices.Equal(got.scales(row), want.scales(row)) {
							t.Fatalf("%s: scales are %v, want %v", what, got.scales(row), want.scales(row))
						}
					}
					if err := intact(); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
			}
		}
	}
}

// Quantisation must be close to what it stands for, not only equal on all tiers.
func TestQuantizeIsAccurate(t *testing.T) {
	for _, in := range inputs() {
		dense, a, _ := activations(Generic(), source(), in, 1, 576, 0)
		for i, x := range dense.Row(0) {
			d := a.scales(0)[i/32].d
			if math.Abs(float64(d*float32(a.codes(0)[i])-x)) > float64(d)*0.501+1e-30 {
				t.Fatalf("%s: %v became %d·%v", in.name, x, a.codes(0)[i], d)
			}
		}
		for b, s := range a.scales(0) {
			var half [2]int
			for i, q := range a.codes(0)[b*32 : b*32+32] {
				half[i/16] += int(q)
			}
			sum := half[0] + half[1]
			if s.sum != s.d*float32(sum) || s.zero != int32(-128*sum) || int(s.half[0]) != half[0] || int(s.half[1]) != half[1] {
				t.Fatalf("%s: the sums of block %d are wrong", in.name, b)
			}
		}
	}
}

func TestToHalfEqualsReference(t *testing.T) {
	special := []float32{0, 65504, 65519.9, 65520, 1e30, float32(math.Inf(1)), 6e-8, 2.98e-8, 2.99e-8, 6.1e-5, 5.96e-8, 1e-10, 1, 1.00048828125, 1.0009765625, 2049}
	for _, n := range sizes() {
		x := fill(source(), inputs()[1], make([]float32, n))
		for i := range x {
			if v := special[i%len(special)]; i%3 == 0 {
				x[i] = v
			} else if i%3 == 1 {
				x[i] = -v
			}
		}
		for _, k := range tiers(t) {
			dst, intact := guarded[uint16](n, 1)
			k.ToHalf(dst, x)
			for i, v := range x {
				if dst[i] != toHalf(v) {
					t.Fatalf("%s: %v became %#x, want %#x", k.ISA(), v, dst[i], toHalf(v))
				}
			}
			if err := intact(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestHalfRoundTrip(t *testing.T) {
	for h := range 1 << 16 {
		f := fromHalf(uint16(h))
		if f != f {
			continue
		}
		if got := toHalf(f); got != uint16(h) {
			t.Fatalf("%#x became %v became %#x", h, f, got)
		}
	}
}

// fma is compared with exact arithmetic: math.FMA in float64 where the product is exact, then a check that no nearer float32 exists.
func TestFMARoundsOnce(t *testing.T) {
	r := source()
	for range 200_000 {
		x, y := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
		z := float32(float64(x) * float64(y) * (r.Float64() - 0.5) * math.Exp2(float64(r.IntN(60)-30)))
		if r.IntN(4) == 0 { // sums that lie halfway between two float32 numbers, moved by less than float64 sees
			x, y = 1+float32(r.IntN(1<<12))/(1<<12), 1+float32(r.IntN(1<<12))/(1<<12)
			z = float32(math.Ldexp(float64(1+r.IntN(3)), -26-r.IntN(40))) * float32(1-2*r.IntN(2))
		}
		if want := exactFMA(x, y, z); math.Float32bits(fma(x, y, z)) != math.Float32bits(want) && want == want {
			t.Fatalf("fma(%v, %v, %v) = %v, want %v", x, y, z, fma(x, y, z), want)
		}
	}
}

func TestExpIsAccurate(t *testing.T) {
	for x := float32(-87); x < 88; x += 0.00317 {
		want := math.Exp(float64(x))
		if got := float64(exp(x)); math.Abs(got-want) > 2e-7*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if exp(-100) != 0 || exp(0) != 1 || exp(1000) != exp(88) {
		t.Error("limits")
	}
}

// NaN and infinities must not fault or write elsewhere; what they give is not specified.
func TestNonFiniteInputIsHarmless(t *testing.T) {
	bad := input{"bad", func(_ *rand.Rand, i int) float32 {
		return []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1}[i%4]
	}}
	for _, k := range tiers(t) {
		for _, op := range vectorOps() {
			dst, intact := guarded[float32](67, 1)
			op.run(k, dst, fill(source(), bad, make([]float32, 67)), fill(source(), bad, make([]float32, 67)))
			if err := intact(); err != nil {
				t.Errorf("%s: %v", op.name, err)
			}
		}
		_, _, intact := activations(k, source(), bad, 5, 64, 1)
		if err := intact(); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"add": func() { Generic().Add(make([]float32, 2), make([]float32, 3)) },
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

func TestNoAllocations(t *testing.T) {
	for _, k := range tiers(t) {
		v, a, _ := activations(k, source(), inputs()[0], 5, 64, 0)
		x, y, half := make([]float32, 64), make([]float32, 64), make([]uint16, 64)
		if n := testing.AllocsPerRun(10, func() {
			k.Quantize(a, 0, v.Row(0))
			k.RMSNorm(x, y, y, 1)
			k.SiLUMul(x, x, y)
			k.Add(x, y)
			k.ToHalf(half, x)
			k.ExpSum(x, 1)
		}); n != 0 {
			t.Errorf("%s: %v allocations", k.ISA(), n)
		}
	}
}
