package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// vecCase runs one kernel on x, y, z, which it may change, and writes what it gives to dst.
type vecCase struct {
	name string
	run  func(k Kernels, dst, x, y, z []float32)
}

func vecCases() []vecCase {
	inPlace := func(f func(dst, x, y []float32)) func(dst, x, y []float32) {
		return func(dst, x, y []float32) {
			copy(dst, x)
			f(dst, dst, y)
		}
	}
	scalar := func(dst []float32, v float32) {
		if len(dst) > 0 {
			dst[0] = v
		}
	}
	return []vecCase{
		{"Add", func(k Kernels, dst, x, y, _ []float32) { copy(dst, y); k.Add(dst, x) }},
		{"MulVec", func(k Kernels, dst, x, y, _ []float32) { copy(dst, y); k.MulVec(dst, x) }},
		{"SoftCap", func(k Kernels, dst, x, _, _ []float32) { copy(dst, x); k.SoftCap(dst, 30) }},
		{"SiLUMul", func(k Kernels, dst, x, y, _ []float32) { k.SiLUMul(dst, x, y) }},
		{"SiLUMul in place", func(k Kernels, dst, x, y, _ []float32) {
			inPlace(func(d, a, b []float32) { k.SiLUMul(d, a, b) })(dst, x, y)
		}},
		{"GELUTanhMul", func(k Kernels, dst, x, y, _ []float32) { k.GELUTanhMul(dst, x, y) }},
		{"SiLU", func(k Kernels, dst, x, _, _ []float32) { k.SiLU(dst, x) }},
		{"GELU", func(k Kernels, dst, x, _, _ []float32) { k.GELU(dst, x) }},
		{"GELU in place", func(k Kernels, dst, x, _, _ []float32) { copy(dst, x); k.GELU(dst, dst) }},
		{"GELUTanh", func(k Kernels, dst, x, _, _ []float32) { k.GELUTanh(dst, x) }},
		{"Sigmoid", func(k Kernels, dst, x, _, _ []float32) { k.Sigmoid(dst, x) }},
		{"Tanh", func(k Kernels, dst, x, _, _ []float32) { k.Tanh(dst, x) }},
		{"ReLU", func(k Kernels, dst, x, _, _ []float32) { k.ReLU(dst, x) }},
		{"Scale", func(k Kernels, dst, x, _, _ []float32) { k.Scale(dst, x, 0.3) }},
		{"RMSNorm", func(k Kernels, dst, x, y, _ []float32) {
			if len(x) > 0 {
				k.RMSNorm(dst, x, y, 1e-5)
			}
		}},
		{"RMSNorm in place", func(k Kernels, dst, x, y, _ []float32) {
			if copy(dst, x); len(x) > 0 {
				k.RMSNorm(dst, dst, y, 1e-5)
			}
		}},
		{"LayerNorm", func(k Kernels, dst, x, y, z []float32) {
			if len(x) > 0 {
				k.LayerNorm(dst, x, y, z, 1e-5)
			}
		}},
		{"LayerNorm in place", func(k Kernels, dst, x, y, z []float32) {
			if copy(dst, x); len(x) > 0 {
				k.LayerNorm(dst, dst, y, z, 1e-5)
			}
		}},
		{"ExpSum", func(k Kernels, dst, x, _, _ []float32) {
			copy(dst, x)
			scalar(dst, k.ExpSum(dst, 3))
		}},
		{"ExpSum elements", func(k Kernels, dst, x, _, _ []float32) {
			copy(dst, x)
			k.ExpSum(dst, k.Max(dst))
		}},
		{"Max", func(k Kernels, dst, x, _, _ []float32) { scalar(dst, k.Max(x)) }},
		{"Sum", func(k Kernels, dst, x, _, _ []float32) { scalar(dst, k.Sum(x)) }},
		{"halves", func(k Kernels, dst, x, _, _ []float32) {
			h := make([]uint16, len(x))
			k.ToHalf(h, x)
			k.FromHalf(dst, h)
		}},
		{"Rope pairs", func(k Kernels, dst, x, y, _ []float32) {
			copy(dst, x)
			heads, dim := ropeShape(len(x))
			k.Rope(dst, heads, dim, dim&^1, y, false)
		}},
		{"Rope halves", func(k Kernels, dst, x, y, _ []float32) {
			copy(dst, x)
			heads, dim := ropeShape(len(x))
			k.Rope(dst, heads, dim, dim&^1, y, true)
		}},
		{"QuantizeRow", func(k Kernels, dst, x, _, _ []float32) {
			q := make([]int8, len(x))
			d, sum := k.QuantizeRow(q, x)
			for i, v := range q {
				dst[i] = float32(v)
			}
			scalar(dst, d+float32(sum))
		}},
	}
}

// ropeShape cuts n elements into heads: three if that leaves enough.
func ropeShape(n int) (heads, dim int) {
	if n >= 48 {
		return 3, n / 3
	}
	return 1, n
}

// vecInputs adds zeros of both signs: which of them is the largest must not depend on the order.
func vecInputs() []input {
	return append(inputs(), input{"signed zeros", func(r *rand.Rand, _ int) float32 {
		return float32(math.Copysign(0, float64(r.IntN(2))-0.5))
	}})
}

func TestVecEqualsReference(t *testing.T) {
	ns := []int{95, 96, 97, 192, 576, 1001}
	for n := range 67 {
		ns = append(ns, n)
	}
	for _, op := range vecCases() {
		for _, in := range vecInputs() {
			for _, n := range ns {
				checkVec(t, op, in, n, n%9)
			}
		}
	}
}

func checkVec(t *testing.T, op vecCase, in input, n, off int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 7))
	var v [3][]float32
	for i := range v {
		v[i] = fill(r, in, make([]float32, n))
	}
	want := make([]float32, n)
	op.run(Generic(), want, append([]float32(nil), v[0]...), v[1], v[2])
	for _, k := range tiers(t) {
		var at [3][]float32
		for i := range at {
			at[i], _ = guarded[float32](n, (off+i)%8)
			copy(at[i], v[i])
		}
		dst, intact := guarded[float32](n, off)
		clear(dst)
		op.run(k, dst, at[0], at[1], at[2])
		what := fmt.Sprintf("%s/%s/%s/%d+%d", op.name, k.ISA(), in.name, n, off)
		sameBits(t, what, dst, want)
		if err := intact(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// The reference against float64.
func TestFunctionsAreAccurate(t *testing.T) {
	phi := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	for _, c := range []struct {
		name     string
		f        func(dst, x []float32)
		want     func(x float64) float64
		abs, rel float64 // |error| ≤ abs + rel·|want|
	}{
		{"SiLU", func(d, x []float32) { Generic().SiLU(d, x) }, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, 1e-30, 4e-7},
		{"Sigmoid", func(d, x []float32) { Generic().Sigmoid(d, x) }, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 1e-30, 4e-7},
		{"GELU", func(d, x []float32) { Generic().GELU(d, x) }, func(x float64) float64 { return x * phi(x) }, 4e-7, 8e-8},
		{"GELUTanh", func(d, x []float32) { Generic().GELUTanh(d, x) }, func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}, 4e-7, 3e-7},
		{"Tanh", func(d, x []float32) { Generic().Tanh(d, x) }, math.Tanh, 0, 3e-7},
		{"exp", func(d, x []float32) { copy(d, x); Generic().ExpSum(d, 0) }, math.Exp, 2e-38, 2e-7},
	} {
		worst, where := 0.0, float32(0)
		var x, y [1]float32
		for v := -30.0; v < 30; v += 0.00037 {
			for _, at := range []float32{float32(v), float32(v * v * v / 1e4)} {
				x[0] = at
				c.f(y[:], x[:])
				want := c.want(float64(at))
				if e := math.Abs(float64(y[0])-want) / (c.abs + c.rel*math.Abs(want)); e > worst {
					worst, where = e, at
				}
			}
		}
		t.Logf("%s: at worst %.2f of the bound, at %v", c.name, worst, where)
		if worst > 1 {
			t.Errorf("%s: %.2f of the bound at %v", c.name, worst, where)
		}
	}
}

func TestNormsAreAccurate(t *testing.T) {
	r := source()
	const n = 576
	x, w, b, dst := fill(r, inputs()[0], make([]float32, n)), fill(r, inputs()[0], make([]float32, n)), fill(r, inputs()[0], make([]float32, n)), make([]float32, n)
	for i := range x {
		x[i] += 3
	}
	mean, square, variance := 0.0, 0.0, 0.0
	for _, v := range x {
		mean += float64(v) / n
		square += float64(v) * float64(v) / n
	}
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / n
	}
	Generic().RMSNorm(dst, x, w, 1e-5)
	for i, v := range dst {
		if want := float64(x[i]) * float64(w[i]) / math.Sqrt(square+1e-5); math.Abs(float64(v)-want) > 1e-6*(1+math.Abs(want)) {
			t.Fatalf("RMSNorm: element %d is %v, want %v", i, v, want)
		}
	}
	Generic().LayerNorm(dst, x, w, b, 1e-5)
	for i, v := range dst {
		if want := (float64(x[i])-mean)/math.Sqrt(variance+1e-5)*float64(w[i]) + float64(b[i]); math.Abs(float64(v)-want) > 2e-6*(1+math.Abs(want)) {
			t.Fatalf("LayerNorm: element %d is %v, want %v", i, v, want)
		}
	}
}

// A rotation by a known angle, and by both namings of pairs the same one.
func TestRopeRotates(t *testing.T) {
	const rotated, dim = 16, 20
	table, x, y := make([]float32, rotated), make([]float32, 2*dim), make([]float32, 2*dim)
	for i := range rotated / 2 {
		sin, cos := math.Sincos(float64(i) * 0.7)
		table[2*i], table[2*i+1] = float32(cos), float32(sin)
	}
	fill(source(), inputs()[0], x)
	for h := range 2 {
		for i := range rotated / 2 {
			y[h*dim+i], y[h*dim+rotated/2+i] = x[h*dim+2*i], x[h*dim+2*i+1]
		}
		copy(y[h*dim+rotated:(h+1)*dim], x[h*dim+rotated:])
	}
	was := append([]float32(nil), x...)
	Generic().Rope(x, 2, dim, rotated, table, false)
	Generic().Rope(y, 2, dim, rotated, table, true)
	for h := range 2 {
		for i := range rotated / 2 {
			a, b, angle := float64(was[h*dim+2*i]), float64(was[h*dim+2*i+1]), float64(i)*0.7
			if got := float64(x[h*dim+2*i]); math.Abs(got-(a*math.Cos(angle)-b*math.Sin(angle))) > 1e-6 {
				t.Fatalf("head %d, pair %d: %v", h, i, got)
			}
			if x[h*dim+2*i] != y[h*dim+i] || x[h*dim+2*i+1] != y[h*dim+rotated/2+i] {
				t.Fatalf("head %d: pair %d depends on where it lies", h, i)
			}
		}
		sameBits(t, "elements beyond the rotated ones", x[h*dim+rotated:(h+1)*dim], was[h*dim+rotated:(h+1)*dim])
	}
}

func TestVecNonFiniteInputIsHarmless(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	bad := input{"bad", func(_ *rand.Rand, i int) float32 {
		return []float32{nan, inf, -inf, 1, math.MaxFloat32, -math.MaxFloat32, 1e-45}[i%7]
	}}
	for _, k := range tiers(t) {
		for _, op := range vecCases() {
			for _, n := range []int{5, 16, 67} {
				dst, intact := guarded[float32](n, 1)
				x, xIntact := guarded[float32](n, 1)
				r := source()
				op.run(k, dst, fill(r, bad, x), fill(r, bad, make([]float32, n)), fill(r, bad, make([]float32, n)))
				if err1, err2 := intact(), xIntact(); err1 != nil || err2 != nil {
					t.Errorf("%s: %v %v", op.name, err1, err2)
				}
			}
		}
	}
}

func TestVecAllocatesNothing(t *testing.T) {
	for _, k := range tiers(t) {
		x, y, z, q, half := make([]float32, 67), make([]float32, 67), make([]float32, 67), make([]int8, 67), make([]uint16, 67)
		if n := testing.AllocsPerRun(10, func() {
			k.Add(x, y)
			k.MulVec(x, y)
			k.SiLUMul(x, y, z)
			k.GELUTanhMul(x, y, z)
			k.GELU(x, y)
			k.Tanh(x, y)
			k.Scale(x, y, 2)
			k.RMSNorm(x, y, z, 1)
			k.LayerNorm(x, y, z, z, 1)
			k.ExpSum(x, k.Max(x))
			k.ToHalf(half, x)
			k.FromHalf(x, half)
			k.Rope(x, 1, 64, 64, y, true)
			k.QuantizeRow(q, x)
		}); n != 0 {
			t.Errorf("%s: %v allocations", k.ISA(), n)
		}
	}
}

func FuzzVec(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x7f, 0xff, 0x80, 9, 9}, uint8(19), uint8(3))
	f.Add([]byte{0xff, 0xff, 0x7f, 0x7f}, uint8(64), uint8(20))
	f.Fuzz(func(t *testing.T, data []byte, size, which uint8) {
		ops := vecCases()
		at := 0
		in := input{"fuzz", func(*rand.Rand, int) float32 {
			var b uint32
			for range 4 {
				if at++; len(data) > 0 {
					b = b<<8 | uint32(data[at%len(data)])
				}
			}
			if b&0x7f800000 == 0x7f800000 {
				b &^= 0x40000000 // no infinities and NaN: their bits need not agree
			}
			return math.Float32frombits(b)
		}}
		op := ops[int(which)%len(ops)]
		n := int(size) % 70
		v := [3][]float32{fill(nil, in, make([]float32, n)), fill(nil, in, make([]float32, n)), fill(nil, in, make([]float32, n))}
		var first []float32
		for _, k := range tiers(t) {
			dst := make([]float32, n)
			op.run(k, dst, append([]float32(nil), v[0]...), v[1], v[2])
			if first == nil {
				first = dst
				continue
			}
			for i, w := range first {
				if !finite(w) {
					return // overflowed on the way: not specified
				}
				if math.Float32bits(w) != math.Float32bits(dst[i]) {
					t.Fatalf("%s/%s: element %d of %d is %v, want %v", op.name, k.ISA(), i, n, dst[i], w)
				}
			}
		}
	})
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
