package kernel

import (
	"fmt"
	"log/slog"
	"math"
	"os"
)

// The tiers.
const (
	generic = "generic"
	avx2    = "avx2"
)

// Variable is the environment variable that holds the tier to use at most: "generic" or "avx2". It exists to test one tier on a
// machine that has another, and as a remedy when a tier misbehaves in the field.
const Variable = "SLUICE_ISA"

// Detect returns the fastest tier this processor has and the environment allows, after it passed the self-test. Everything
// unexpected is logged as a warning and ends in the generic tier, which is slow but always right.
func Detect(log *slog.Logger) Kernels {
	k, warning := choose(os.Getenv(Variable), hasAVX2(), func(k Kernels) error { return k.selfTest() })
	if warning != "" {
		log.Warn(warning, slog.String("tier", k.ISA()))
	}
	return k
}

// Generic returns the reference tier.
func Generic() Kernels { return Kernels{} }

func choose(mask string, has bool, test func(Kernels) error) (Kernels, string) {
	switch {
	case mask != "" && mask != generic && mask != avx2:
		return Generic(), fmt.Sprintf("%s=%q names no tier; known are %q and %q", Variable, mask, generic, avx2)
	case mask == generic:
		return Generic(), ""
	case !has && mask == avx2:
		return Generic(), "the AVX2 tier was asked for, but this processor or build lacks AVX2, FMA or F16C"
	case !has:
		return Generic(), ""
	}
	k := Kernels{avx2: true}
	if err := test(k); err != nil {
		return Generic(), fmt.Sprintf("the AVX2 tier failed its self-test and is not used: %v", err)
	}
	return k, ""
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

// probe runs every kernel and collects the results.
type probe struct {
	state uint64
	out   []float32
}

func newProbe() *probe { return &probe{state: 1} }

// next is a number between −1 and 1 (a linear congruential sequence: fixed on every machine).
func (p *probe) next() float32 {
	p.state = p.state*6364136223846793005 + 1442695040888963407
	return float32(int32(p.state>>32)) / (1 << 31)
}

func (p *probe) vector(n int, scale float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = p.next() * scale
	}
	return v
}

func (p *probe) run(k Kernels) {
	const n, rows, tokens = 96, 24, 6
	x, a := NewActivations(Dense, tokens, n, nil), NewActivations(Block, tokens, n, nil)
	for t := range tokens {
		copy(x.Row(t), p.vector(n, float32(t*t+1)))
		k.Quantize(a, t, x.Row(t))
	}
	for _, w := range []*Matrix{p.quantized(rows, n, false), p.quantized(rows, n, true), p.dense(rows, n, true), p.dense(rows, n, false)} {
		for _, count := range []int{1, tokens} {
			dst := make([]float32, count*w.Stride())
			in := x
			if w.Quantized() {
				in = a
			}
			k.Mul(dst, w, 0, w.Panels(), in, count)
			p.out = append(p.out, dst...)
		}
	}
	v, y := p.vector(n+5, 3), p.vector(n+5, 60)
	k.Add(y, v)
	p.out = append(p.out, y...)
	k.SiLUMul(y, v, y)
	p.out = append(p.out, y...)
	k.RMSNorm(y, v, y, 1e-5)
	p.out = append(p.out, y...)
	half := make([]uint16, 64*5)
	k.ToHalf(half, p.vector(len(half), 2))
	scores := make([]float32, 5)
	k.Scores(scores, v[:64], half, 0.125)
	p.out = append(p.out, scores...)
	p.out = append(p.out, k.ExpSum(scores, scores[0]))
	k.Combine(v[:64], scores, half)
	p.out = append(append(p.out, scores...), v...)
	p.out = append(p.out, k.ExpSum(y, 1))
	p.out = append(p.out, y...)
}

func (p *probe) quantized(rows, cols int, wide bool) *Matrix {
	w := NewQuantized(rows, cols, wide)
	q, d, m := make([]int8, cols), make([]float32, cols/32), make([]float32, cols/32)
	for r := range rows {
		for i := range q {
			q[i] = int8(p.next() * 127)
			if i%16 == 0 {
				q[i] = []int8{127, -127, -128, 0}[r%4]
			}
			if !wide {
				q[i] &= 15
			}
		}
		for b := range d {
			d[b], m[b] = fromHalf(toHalf(p.next()/32)), fromHalf(toHalf(p.next()/8))
		}
		w.SetBlocks(r, q, d, m)
	}
	return w
}

func (p *probe) dense(rows, cols int, half bool) *Matrix {
	w := NewDense(rows, cols, half)
	for r := range rows {
		w.SetRow(r, p.vector(cols, 1))
	}
	return w
}
