package sched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// randomLoad is a step of a busy engine.
func randomLoad(rng *rand.Rand) Load {
	l := Load{Decode: rng.IntN(9), Prefill: rng.IntN(3) * rng.IntN(40)}
	if l.Rows() == 0 {
		l.Decode = 1
	}
	l.Context = l.Decode*rng.IntN(1000) + ChunkContext(rng.IntN(300), l.Prefill)
	return l
}

// worst returns the largest relative error of predictions for loads that may occur.
func worst(f *fit, truth func(Load) float64) float64 {
	var most float64
	for _, l := range []Load{
		{Decode: 1, Context: 100}, {Decode: 8, Context: 4000}, {Decode: 4, Prefill: 20, Context: 3000}, {Prefill: 60, Context: 6000},
	} {
		most = max(most, math.Abs(f.predict(l)/truth(l)-1))
	}
	return most
}

func TestFitConvergesFromWrongPriors(t *testing.T) {
	t.Parallel()
	truth := linear(900, 700, 500, 0.6)
	for name, prior := range map[string]Coefficients{
		"ten times too slow":   {9000, 7000, 5000, 6},
		"ten times too fast":   {90, 70, 50, 0.06},
		"all in the step":      {20000, 1, 1, 0.001},
		"a thousandth":         {0.9, 0.7, 0.5, 0.0006},
		"a thousand times":     {9e5, 7e5, 5e5, 600},
		"the wrong way around": {10, 100, 5000, 0.01},
	} {
		for seed := range uint64(5) {
			f, rng := newFit(prior), rand.New(rand.NewPCG(seed, 7))
			for i := range 50 {
				l := randomLoad(rng)
				took := truth(l) * math.Exp(0.05*rng.NormFloat64())
				if i == 0 && seed > 2 {
					took *= 8 // the first step touches memory for the first time
				}
				f.observe(l, microseconds(took))
			}
			if e := worst(&f, truth); e > 0.2 {
				t.Errorf("%s, seed %d: after 50 steps predictions are off by %.0f %%: %+v", name, seed, 100*e, f.coefficients())
			}
		}
	}
}

func TestFitFollowsAMachineThatChanges(t *testing.T) {
	t.Parallel()
	truth := linear(900, 700, 500, 0.6)
	for _, factor := range []float64{0.5, 2, 3} {
		f, rng := newFit(Coefficients{500, 800, 800, 0.5}), rand.New(rand.NewPCG(3, 7))
		slow := func(l Load) float64 { return factor * truth(l) }
		for i := range 1000 {
			l := randomLoad(rng)
			now := truth
			if i >= 960 {
				now = slow
			}
			f.observe(l, microseconds(now(l)*math.Exp(0.05*rng.NormFloat64())))
		}
		if late := f.lateness(); late > 0.6*slow(Load{Decode: 16, Prefill: 64}) {
			t.Errorf("forty steps after the change the lateness is still %.0f µs", late)
		}
		if e := worst(&f, slow); e > 0.15 {
			t.Errorf("forty steps after the machine took %.1f times as long, predictions are off by %.0f %%", factor, 100*e)
		}
	}
}

func TestFitIgnoresPauses(t *testing.T) {
	t.Parallel()
	truth := linear(900, 700, 500, 0.6)
	f, rng := newFit(Coefficients{500, 800, 800, 0.5}), rand.New(rand.NewPCG(5, 7))
	for i := range 2000 {
		l := randomLoad(rng)
		took := truth(l) * math.Exp(0.05*rng.NormFloat64())
		if i%25 == 24 {
			took += 60e3
		}
		f.observe(l, microseconds(took))
		if i > 200 {
			if e := worst(&f, truth); e > 0.15 {
				t.Fatalf("step %d: a pause of 60 ms moved predictions by %.0f %%", i, 100*e)
			}
		}
	}
	if f.outliers < 60 {
		t.Errorf("of 80 pauses %d were noticed", f.outliers)
	}
	if late := f.lateness(); late < 50e3 {
		t.Errorf("one step in 25 pauses for 60 ms, the lateness is %.0f µs", late)
	}
}

func TestFitHoldsWhatHasNoEvidence(t *testing.T) {
	t.Parallel()
	truth := linear(900, 700, 500, 0.6)
	f, rng := newFit(Coefficients{500, 800, 800, 0.5}), rand.New(rand.NewPCG(5, 7))
	for range 300 {
		l := randomLoad(rng)
		f.observe(l, microseconds(truth(l)*math.Exp(0.05*rng.NormFloat64())))
	}
	before := f.coefficients()
	for i := range 20000 { // an hour without a prompt, the same sequences all the time
		l := Load{Decode: 3, Context: 1500 + i%100}
		f.observe(l, microseconds(truth(l)*math.Exp(0.05*rng.NormFloat64())))
	}
	after := f.coefficients()
	if r := after.Prefill / before.Prefill; r < 0.9 || r > 1.1 {
		t.Errorf("without prompts the cost of a prompt token went from %.0f to %.0f µs", before.Prefill, after.Prefill)
	}
	if e := worst(&f, truth); e > 0.35 {
		t.Errorf("predictions are off by %.0f %%: %+v, was %+v", 100*e, after, before)
	}
}

func TestFitStaysSane(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 9))
	f := newFit(Coefficients{500, 800, 800, 0.5})
	for i := range 50000 {
		l := Load{Decode: rng.IntN(50) * rng.IntN(2), Prefill: rng.IntN(2) * rng.IntN(1000), Context: rng.IntN(1 << 22), Drafts: rng.IntN(3)}
		f.observe(l, time.Duration(rng.ExpFloat64()*float64(time.Second)*float64(rng.IntN(2))-1))
		for k, v := range f.theta {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("step %d: coefficient %d is %v", i, k, v)
			}
		}
		if p := f.predict(l); !(p > 0) || math.IsInf(p, 0) {
			t.Fatalf("step %d: prediction %v", i, p)
		}
	}
}

func TestWindowAgainstSorting(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 9))
	for _, size := range []int{1, 2, 7, 100, 256} {
		w := newWindow(size)
		var all []float64
		for i := range 3 * size {
			v := float64(rng.IntN(20))
			w.add(v)
			w.add(math.NaN())
			all = append(all, v)
			recent := slices.Sorted(slices.Values(all[max(0, len(all)-size):]))
			rank := 0 // how many must not exceed it
			for 100*rank < 99*len(recent) {
				rank++
			}
			if got := w.p99(); got != recent[rank-1] || w.len() != len(recent) {
				t.Fatalf("size %d, after %d values: P99 %v of %d, want %v of %d", size, i+1, got, w.len(), recent[rank-1], len(recent))
			}
		}
		if w.clear(); w.p99() != 0 || w.len() != 0 {
			t.Errorf("a cleared window is not empty")
		}
	}
}
