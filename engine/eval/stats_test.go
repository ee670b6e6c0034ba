package eval

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// exact computes a comparison in 200-bit arithmetic from probabilities that math.Exp gives to the last bit but one; the log-sum-exp is
// not shifted at all, so that a mistake in the shifts shows.
func exact(p, q []float32, token int) (nll, base, kld float64) {
	exp := func(x float64) *big.Float { // by halving the argument until the series is short
		n := 0
		for ; math.Abs(x) > 0.5; n++ {
			x /= 2
		}
		sum, term, v := big.NewFloat(1).SetPrec(200), big.NewFloat(1).SetPrec(200), big.NewFloat(x).SetPrec(200)
		for i := 1; i < 60; i++ {
			term.Mul(term, v)
			term.Quo(term, big.NewFloat(float64(i)))
			sum.Add(sum, term)
		}
		for range n {
			sum.Mul(sum, sum)
		}
		return sum
	}
	log := func(x *big.Float) float64 { // the numbers of the tests lie where a float64 holds them
		f, _ := x.Float64()
		return math.Log(f)
	}
	zp, zq := big.NewFloat(0).SetPrec(200), big.NewFloat(0).SetPrec(200)
	for i := range p {
		zp.Add(zp, exp(float64(p[i])))
		zq.Add(zq, exp(float64(q[i])))
	}
	lp, lq := log(zp), log(zq)
	sum := big.NewFloat(0).SetPrec(200)
	for i := range p {
		w := exp(float64(p[i]))
		w.Quo(w, zp)
		w.Mul(w, big.NewFloat((float64(p[i])-lp)-(float64(q[i])-lq)))
		sum.Add(sum, w)
	}
	kld, _ = sum.Float64()
	return lq - float64(q[token]), lp - float64(p[token]), kld
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*max(1, math.Abs(b)) }

func TestCompareEqualsExactArithmetic(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		size := 2 + random.IntN(40)
		p, q := make([]float32, size), make([]float32, size)
		level, noise := random.Float64()*200-100, math.Pow(10, -5*random.Float64())
		for i := range p {
			p[i] = float32(level + random.NormFloat64()*5)
			q[i] = float32(float64(p[i]) - level/2 + random.NormFloat64()*noise)
		}
		token := random.IntN(size)
		got, err := compare(p, q, int32(token))
		if err != nil {
			t.Fatal(err)
		}
		nll, base, kld := exact(p, q, token)
		if !near(got.nll, nll, 1e-12) || !near(got.base, base, 1e-12) || !near(got.kld, kld, 1e-12) {
			t.Errorf("%d: %+v, want %g %g %g", n, got, nll, base, kld)
		}
		if alone, err := surprise(q, int32(token)); err != nil || !near(alone, nll, 1e-12) {
			t.Errorf("%d: alone %g, want %g: %v", n, alone, nll, err)
		}
		if want := math.Exp(-nll) - math.Exp(-base); !near(got.deltaP, want, 1e-12) {
			t.Errorf("%d: Δp %g, want %g", n, got.deltaP, want)
		}
	}
}

// Scores of any size and tiny differences survive; those are the figures the gates look at.
func TestCompareAtTheEdges(t *testing.T) {
	wide := make([]float32, 50000)
	shifted := make([]float32, len(wide))
	for i := range wide {
		wide[i] = float32(i%7) - 1e5
		shifted[i] = wide[i] + 2e5
	}
	same, err := compare(wide, shifted, 3)
	if err != nil || same.kld > 1e-12 || same.kld < 0 || math.Abs(same.deltaP) > 1e-15 || !same.sameTop {
		t.Errorf("a shift changed the distribution: %+v, %v", same, err)
	}
	far, err := compare([]float32{0, -1000}, []float32{-1000, 0}, 0)
	if err != nil || !near(far.kld, 1000, 1e-12) || !near(far.nll, 1000, 1e-12) || far.base != 0 || far.sameTop {
		t.Errorf("opposite certainties: %+v, %v", far, err)
	}
	if tie, _ := compare([]float32{1, 1, 0}, []float32{1, 1, 0}, 1); !tie.sameTop {
		t.Error("equal scores have different tops")
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		broken := []float32{0, float32(bad), 1}
		if _, err := surprise(broken, 0); err == nil || !strings.Contains(err.Error(), "token 1") {
			t.Errorf("%g: %v", bad, err)
		}
		if _, err := compare([]float32{0, 0, 0}, broken, 0); err == nil || strings.Contains(err.Error(), "baseline") {
			t.Errorf("%g: %v", bad, err)
		}
		if _, err := compare(broken, []float32{0, 0, 0}, 0); err == nil || !strings.Contains(err.Error(), "baseline") {
			t.Errorf("%g: %v", bad, err)
		}
	}
}

// The intervals hold the truth in about 95 of 100 cases, also when neighbouring tokens are alike: then a bootstrap of single tokens
// would be far too narrow.
func TestIntervalsHoldTheTruth(t *testing.T) {
	for _, sticky := range []float64{0, 0.8} {
		const trials, tokens = 200, 3200
		random := rand.New(rand.NewPCG(7, 9))
		inside, insideShare := 0, 0
		for range trials {
			tally := newTally(tokens)
			level, agrees := random.NormFloat64(), true
			for range tokens {
				level = sticky*level + math.Sqrt(1-sticky*sticky)*random.NormFloat64()
				if random.Float64() >= sticky {
					agrees = random.Float64() < 0.9
				}
				tally.add(0, scored{nll: 3 + level, base: 3, sameTop: agrees, hasBaseline: true})
			}
			for _, f := range tally.figures(1) {
				switch f.Name {
				case Perplexity:
					if f.Interval[0] <= math.Exp(3) && math.Exp(3) <= f.Interval[1] {
						inside++
					}
				case Agreement:
					if f.Interval[0] <= 0.9 && 0.9 <= f.Interval[1] {
						insideShare++
					}
				}
			}
		}
		t.Logf("stickiness %.1f: %d and %d of %d", sticky, inside, insideShare, trials)
		if inside < 176 || inside > 199 || insideShare < 176 || insideShare > 199 {
			t.Errorf("stickiness %.1f: the truth was inside %d and %d times of %d", sticky, inside, insideShare, trials)
		}
	}
}

func TestFiguresAreTheOnesThatWereMeasured(t *testing.T) {
	tally := newTally(400)
	for i := range 400 {
		s := scored{nll: math.Log(4), base: math.Log(2), kld: 0.5, deltaP: -0.25, sameTop: i%4 != 0, hasBaseline: true}
		if i == 17 {
			s.kld, s.nll = 3, math.Log(2)+5
		}
		tally.add(i/100, s)
	}
	want := map[string]float64{
		Agreement: 0.75, RMSDeltaP: 0.25, MaxKLD: 3, KLD99: 0.5, MaxDeltaLogprob: 5, MeanKLD: (399*0.5 + 3) / 400,
		Perplexity:         math.Exp((399*math.Log(4) + math.Log(2) + 5) / 400),
		BaselinePerplexity: 2, MeanDeltaLogprob: (399*math.Log(2) + 5) / 400,
		PerplexityChange: math.Exp((399*math.Log(2)+5)/400) - 1,
	}
	got := tally.figures(1)
	if len(got) != len(want) {
		t.Errorf("%d figures, want %d", len(got), len(want))
	}
	for _, f := range got {
		if w, ok := want[f.Name]; !ok || !near(f.Value, w, 1e-9) {
			t.Errorf("%s is %g, want %g", f.Name, f.Value, w)
		}
		if f.Interval != nil && (f.Interval[0] > f.Value*(1+1e-12) || f.Interval[1] < f.Value*(1-1e-12)) {
			t.Errorf("%s: %g is outside of %v", f.Name, f.Value, *f.Interval)
		}
	}
	if n := len(tally.blocks); n != 16 { // four documents of 100 tokens: 32, 32, 32, 4
		t.Errorf("%d blocks", n)
	}
	again := tally.figures(1)
	for i := range got {
		if a, b := got[i].Interval, again[i].Interval; (a == nil) != (b == nil) || a != nil && *a != *b {
			t.Errorf("%s: %v and %v with the same seed", got[i].Name, a, b)
		}
	}
}

func TestShortDataHasNoInterval(t *testing.T) {
	tally := newTally(40)
	for range 40 {
		tally.add(0, scored{nll: 1, base: 1, hasBaseline: true, sameTop: true})
	}
	for _, f := range tally.figures(1) {
		if f.Interval != nil || (f.Name == Agreement && !strings.Contains(f.Method, "2 blocks of tokens, at least 8")) {
			t.Errorf("%+v", f)
		}
	}
	if long := newTally(1 << 20); long.size != 256 {
		t.Errorf("blocks of %d tokens", long.size)
	}
}
