package workflows

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// falseAlarms simulates rollouts that are looked at after every batch and counts those in which the evidence crosses 1/alpha at
// any evaluation. This is the promise that the always-valid tests make: at most alpha of them, however many looks.
func falseAlarms(t *testing.T, alpha float64, crossed func(r *rand.Rand) bool) {
	t.Helper()
	const runs = 400
	r := rand.New(rand.NewPCG(7, 11))
	n := 0
	for range runs {
		if crossed(r) {
			n++
		}
	}
	// Three standard errors above alpha would be a false alarm of this test once in a thousand seeds; the seed is fixed.
	if limit := alpha + 3*math.Sqrt(alpha*(1-alpha)/runs); float64(n)/runs > limit {
		t.Errorf("%d of %d runs crossed, at most %.3f allowed", n, runs, limit)
	}
}

func TestErrorEvidenceIsValidAtAnyTime(t *testing.T) {
	t.Parallel()
	const alpha, margin = 0.05, 0.03
	cross := func(against func(c, s coin, margin float64) float64, ps, pc float64, share int) func(*rand.Rand) bool {
		return func(r *rand.Rand) bool {
			var s, c coin
			for sample := 0; sample < 1500; sample += 25 {
				for range 25 {
					if r.IntN(100) < share {
						c.n++
						c.k += bern(r, pc)
					} else {
						s.n++
						s.k += bern(r, ps)
					}
				}
				if against(newCoin(c.k, c.n), newCoin(s.k, s.n), margin) >= math.Log(1/alpha) {
					return true
				}
			}
			return false
		}
	}
	t.Run("abort although equal", func(t *testing.T) { falseAlarms(t, alpha, cross(logWorse, 0.02, 0.02, 20)) })
	t.Run("abort at the margin", func(t *testing.T) { falseAlarms(t, alpha, cross(logWorse, 0.02, 0.05, 50)) })
	t.Run("promote at the margin", func(t *testing.T) { falseAlarms(t, alpha, cross(logNotWorse, 0.02, 0.05, 40)) })
	t.Run("promote at the margin, stable small", func(t *testing.T) { falseAlarms(t, alpha, cross(logNotWorse, 0.02, 0.05, 80)) })
}

func bern(r *rand.Rand, p float64) int64 {
	if r.Float64() < p {
		return 1
	}
	return 0
}

func TestLatencyEvidenceIsValidAtAnyTime(t *testing.T) {
	t.Parallel()
	const alpha, q = 0.05, 0.9
	l := limit{ratio: 1.5}
	// The candidate's distribution is stable's, stretched: at 1.5 its quantile lies on the limit exactly. The values are far
	// apart from the bins' rounding, which is the same for both arms.
	cross := func(against func(c, s []Bin, q float64, l limit) float64, stretch float64) func(*rand.Rand) bool {
		return func(r *rand.Rand) bool {
			var s, c []int64
			for range 12 {
				for range 50 {
					v := 1e5 * math.Exp(0.5*r.NormFloat64())
					if r.IntN(2) == 0 {
						s = append(s, int64(v))
					} else {
						c = append(c, int64(v*stretch))
					}
				}
				if against(raw(c), raw(s), q, l) >= math.Log(1/alpha) {
					return true
				}
			}
			return false
		}
	}
	t.Run("abort although equal", func(t *testing.T) { falseAlarms(t, alpha, cross(logSlower, 1)) })
	t.Run("abort at the limit", func(t *testing.T) { falseAlarms(t, alpha, cross(logSlower, 1.5)) })
	t.Run("promote at the limit", func(t *testing.T) { falseAlarms(t, alpha, cross(logNotSlower, 1.5001)) })
}

// raw makes bins without rounding.
func raw(v []int64) []Bin {
	v = slices.Sorted(slices.Values(v))
	var out []Bin
	for _, x := range v {
		if n := len(out); n > 0 && out[n-1].Micros == x {
			out[n-1].Count++
		} else {
			out = append(out, Bin{x, 1})
		}
	}
	return out
}

// TestMinOnLineIsAMinimum compares the golden-section search with a dense grid.
func TestMinOnLineIsAMinimum(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n, m := r.Int64N(400)+1, r.Int64N(400)+1
		c, s := newCoin(r.Int64N(n+1), n), newCoin(r.Int64N(m+1), m)
		margin := r.Float64() * 0.9
		got := minOnLine(c, s, margin)
		least := math.Inf(1)
		for i := range 2001 {
			p := float64(i) / 2000 * (1 - margin)
			least = min(least, s.at(p)+c.at(min(p+margin, 1)))
		}
		if math.IsNaN(got) || got > least+1e-9 {
			t.Fatalf("c %d/%d s %d/%d margin %.3f: minimum %.6f, the grid has %.6f", c.k, c.n, s.k, s.n, margin, got, least)
		}
	}
}

// TestQuantileEvidenceIsTheMinimum holds that the few points the quantile tests look at contain the minimum over all x.
func TestQuantileEvidenceIsTheMinimum(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		var s, c []int64
		for range 30 + r.IntN(30) {
			s, c = append(s, r.Int64N(60)), append(c, r.Int64N(120))
		}
		sb, cb, q, l := raw(s), raw(c), 0.8, limit{ratio: 1.3, floor: 2}
		ss, cs := newSeries(sb), newSeries(cb)
		slower, notSlower := math.Inf(1), math.Inf(1)
		for x := int64(-1); x < 400; x++ {
			slower = min(slower, newCoin(ss.less(x), ss.n).above(q)+newCoin(cs.upTo(l.of(x)), cs.n).below(q))
			notSlower = min(notSlower, newCoin(ss.upTo(x), ss.n).below(q)+newCoin(cs.less(l.of(x)), cs.n).above(q))
		}
		if got := logSlower(cb, sb, q, l); math.Abs(got-max(slower, 0)) > 1e-12 {
			t.Fatalf("slower: %v, everywhere %v", got, slower)
		}
		if got := logNotSlower(cb, sb, q, l); math.Abs(got-max(notSlower, 0)) > 1e-12 {
			t.Fatalf("not slower: %v, everywhere %v", got, notSlower)
		}
	}
}

func TestBinsRoundDownAndCount(t *testing.T) {
	t.Parallel()
	got := bins([]int64{-5, 0, 127, 128, 129, 130, 1000, 1007, 1_000_000})
	want := []Bin{{0, 2}, {127, 1}, {128, 2}, {130, 1}, {1000, 2}, {999424, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for v := int64(1); v < 1<<40; v = v*5/4 + 1 {
		b := bins([]int64{v})[0].Micros
		if b > v || float64(v-b) > 0.016*float64(v) {
			t.Errorf("%d became %d", v, b)
		}
	}
}

func FuzzEvidenceIsANumber(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), 0.05)
	f.Add(int64(10), int64(10), int64(0), int64(5), 0.999999999)
	f.Fuzz(func(t *testing.T, ck, cn, sk, sn int64, margin float64) {
		const most = 1 << 40
		if cn < 0 || sn < 0 || cn > most || sn > most || ck < 0 || ck > cn || sk < 0 || sk > sn || !(margin > 0 && margin < 1) {
			t.Skip()
		}
		c, s := newCoin(ck, cn), newCoin(sk, sn)
		for _, v := range []float64{logWorse(c, s, margin), logNotWorse(c, s, margin), c.above(margin), c.below(margin)} {
			if math.IsNaN(v) {
				t.Fatalf("not a number: c %d/%d s %d/%d margin %g", ck, cn, sk, sn, margin)
			}
		}
		if logWorse(c, s, margin) > 1 && logNotWorse(c, s, margin) > 1 {
			t.Fatal("worse and not worse at once")
		}
	})
}
