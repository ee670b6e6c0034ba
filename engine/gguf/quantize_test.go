package gguf

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"
)

// sequence is the generator that computed the vectors below with the format's reference: numbers in [−1, 1).
func sequence(n int, seed uint64) []float32 {
	out := make([]float32, n)
	for i := range out {
		seed = seed*6364136223846793005 + 1442695040888963407
		out[i] = float32(float64(seed>>40)/(1<<23) - 1)
	}
	return out
}

// The hashes are of what the reference implementation of the format makes of the same numbers.
func TestQuantizeEqualsReference(t *testing.T) {
	uniform := sequence(4096*4, 1)
	ties := sequence(4096*4, 3) // multiples of a half: many ties, equal extremes
	for i := range ties {
		ties[i] = float32(math.RoundToEven(float64(ties[i]*20))) * 0.5
	}
	spread, tiny := slices.Clone(uniform), slices.Clone(uniform) // over 28 binary orders of magnitude; with scales that are subnormal halves
	for i, e := range sequence(len(spread), 2) {
		spread[i] = float32(math.Ldexp(float64(spread[i]), int(math.Floor(float64(e)*14))))
		tiny[i] *= 0x1p-20
	}
	for _, c := range []struct {
		name string
		in   []float32
		want map[Type]string
	}{
		{"uniform", uniform, map[Type]string{
			F16: "f5c0683f", BF16: "1f3b5801", Q8_0: "c0c6e1ac", Q4_0: "5ed0ce35", Q4_1: "4bbdd2fa", Q5_0: "658a7303", Q5_1: "86203c30",
		}},
		{"ties", ties, map[Type]string{
			F16: "171d6434", BF16: "d95ae802", Q8_0: "86479d55", Q4_0: "af759f09", Q4_1: "ef7f3926", Q5_0: "5134c6a5", Q5_1: "a5b4c988",
		}},
		{"spread", spread, map[Type]string{
			F16: "b2522ce1", BF16: "354d9a5b", Q8_0: "db9fdb1c", Q4_0: "b3807f16", Q4_1: "292b705a", Q5_0: "0c25c5fe", Q5_1: "b862353c",
		}},
		{"tiny", tiny, map[Type]string{
			F16: "b0171b41", BF16: "c191d98a", Q8_0: "883e6b71", Q4_0: "1b9506b5", Q4_1: "1ce20345", Q5_0: "bbcfc9de", Q5_1: "5f243a0f",
		}},
	} {
		for kind, want := range c.want {
			if sum := sha256.Sum256(mustQuantize(t, kind, c.in)); hex.EncodeToString(sum[:4]) != want {
				t.Errorf("%s in %v: %x, want %s", c.name, kind, sum[:4], want)
			}
		}
	}
}

func mustQuantize(t testing.TB, kind Type, in []float32) []byte {
	t.Helper()
	l, _ := kind.layout()
	dst := make([]byte, len(in)/l.elements*l.bytes)
	if err := Quantize(kind, dst, in); err != nil {
		t.Fatal(err)
	}
	return dst
}

// Every half-precision number comes back as itself, and what lies between two goes to the nearer, at a tie to the even one.
func TestToHalf(t *testing.T) {
	for h := range 0x7c00 {
		a, b := fromHalf(uint16(h)), fromHalf(uint16(h+1))
		if got := toHalf(a); got != uint16(h) {
			t.Fatalf("%04x became %04x", h, got)
		}
		if got := toHalf(-a); got != uint16(h)|0x8000 {
			t.Fatalf("−%04x became %04x", h, got)
		}
		if h+1 == 0x7c00 {
			b = 65536
		}
		even := uint16(h + h&1)
		middle := a + (b-a)/2
		below, above := math.Nextafter32(middle, a), math.Nextafter32(middle, b)
		if got := [3]uint16{toHalf(below), toHalf(middle), toHalf(above)}; got != [3]uint16{uint16(h), even, uint16(h + 1)} {
			t.Fatalf("between %04x and its successor: %04x", h, got)
		}
	}
	inf := float32(math.Inf(1))
	if got := [4]uint16{toHalf(inf), toHalf(-inf), toHalf(1e9), toHalf(math.SmallestNonzeroFloat32)}; got != [4]uint16{0x7c00, 0xfc00, 0x7c00, 0} {
		t.Errorf("extremes: %04x", got)
	}
	nan := float32(math.NaN())
	if x := fromHalf(toHalf(nan)); x == x {
		t.Error("NaN became", x)
	}
	if x := math.Float32frombits(uint32(toBrain(nan)) << 16); x == x {
		t.Error("NaN became", x)
	}
}

// The error of a value is at most half a step of its block (a whole one at the end of the range that Q4_0 and Q5_0 lack), plus what
// rounding the scale and the offset to half precision costs.
func TestQuantizeError(t *testing.T) {
	in := sequence(32*512, 9)
	for i := range in {
		in[i] *= float32(1 + i/32)
	}
	for kind, step := range map[Type]float64{Q8_0: 1 / 127., Q4_0: 1 / 8., Q4_1: 2 / 15., Q5_0: 1 / 16., Q5_1: 2 / 31.} {
		data := mustQuantize(t, kind, in)
		out := make([]float32, len(in))
		dequantize(kind, data, out)
		for b := 0; b < len(in); b += 32 {
			peak := 0.0
			for _, v := range in[b : b+32] {
				peak = max(peak, math.Abs(float64(v)))
			}
			bound := peak * (step/2 + 3./2048)
			if kind == Q4_0 || kind == Q5_0 {
				bound += peak * step / 2
			}
			for i := b; i < b+32; i++ {
				if math.Abs(float64(out[i]-in[i])) > bound {
					t.Fatalf("%v: %v became %v, bound %v", kind, in[i], out[i], bound)
				}
			}
		}
	}
}

func TestQuantizeRefuses(t *testing.T) {
	block := func(v float64) []float32 { x := make([]float32, 32); x[7] = float32(v); return x }
	for _, c := range []struct {
		kind  Type
		in    []float32
		bytes int
		want  string
	}{
		{Q4_K, make([]float32, 256), 144, "cannot be converted to Q4_K"},
		{Type(99), block(1), 34, "cannot be converted to type 99"},
		{Q8_0, make([]float32, 31), 34, "31 values and 34 bytes"},
		{Q8_0, make([]float32, 32), 33, "32 values and 33 bytes"},
		{Q8_0, block(math.NaN()), 34, "NaN cannot be held in Q8_0"},
		{Q4_1, block(math.Inf(-1)), 20, "-Inf cannot be held in Q4_1"},
		{Q4_1, block(-70000), 20, "beyond what a scale of Q4_1"},
		{Q5_1, block(3.4e38), 24, "beyond what a scale of Q5_1"},
		{Q8_0, block(1e7), 34, "beyond what a scale of Q8_0"},
		{F16, block(65536), 64, "beyond the range of F16"},
	} {
		if err := Quantize(c.kind, make([]byte, c.bytes), c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.kind, err, c.want)
		}
	}
}

// Numbers whose scale has no finite inverse become the block of zeros, whatever the machine makes of an infinite integer.
func TestQuantizeVanishing(t *testing.T) {
	for kind, scales := range map[Type]int{Q8_0: 2, Q4_0: 2, Q4_1: 4, Q5_0: 2, Q5_1: 4} { // bytes of scales, which may be negative zeros
		zeros := mustQuantize(t, kind, make([]float32, 32))
		for _, v := range []float32{math.SmallestNonzeroFloat32, 1e-40, -1e-38} {
			x := make([]float32, 32)
			x[7] = v
			got := mustQuantize(t, kind, x)
			if !slices.Equal(got[scales:], zeros[scales:]) {
				t.Errorf("%v of %v: %x, want %x", kind, v, got, zeros)
			}
			out := make([]float32, 32)
			dequantize(kind, got, out)
			if slices.ContainsFunc(out, func(x float32) bool { return x != 0 }) {
				t.Errorf("%v of %v: %v", kind, v, out)
			}
		}
	}
}

// Halves go away from zero, as in the format's reference.
func TestQuantizeTies(t *testing.T) {
	x := []float32{127, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 126.5}
	got := mustQuantize(t, Q8_0, append(x, make([]float32, 24)...))
	for i, want := range []int8{127, 1, -1, 2, -2, 3, -3, 127} {
		if int8(got[2+i]) != want {
			t.Errorf("%v became %d, want %d", x[i], int8(got[2+i]), want)
		}
	}
}
