package sample

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
)

// earlier is how replay profile 3 introduced sampling with temperature and top-p, kept as the definition of its results.
func earlier(k kernel.Kernels, logits []float32, temperature, topP, u float64) int32 {
	type candidate struct {
		id int32
		p  float32
	}
	best := int32(slices.Index(logits, k.Max(logits)))
	if temperature <= 0 {
		return best
	}
	x := make([]float32, len(logits))
	top, inv := logits[best], float32(1/temperature)
	for i, v := range logits {
		x[i] = (v - top) * inv
	}
	sum := k.ExpSum(x, 0)
	walk := func(target float64, line []candidate) int32 {
		last, mass := best, 0.0
		for _, c := range line {
			if c.p > 0 {
				last = c.id
				mass += float64(c.p)
				if mass > target {
					break
				}
			}
		}
		return last
	}
	var all, nucleus []candidate
	least := float32((1 - topP) * float64(sum) / float64(len(x)))
	for i, p := range x {
		all = append(all, candidate{int32(i), p})
		if p >= least {
			nucleus = append(nucleus, candidate{int32(i), p})
		}
	}
	if topP <= 0 || topP >= 1 {
		return walk(u*float64(sum), all)
	}
	slices.SortFunc(nucleus, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.id, b.id)) })
	mass, n := 0.0, 0
	for n < len(nucleus) && mass < topP*float64(sum) {
		mass += float64(nucleus[n].p)
		n++
	}
	return walk(u*mass, nucleus[:n])
}

// Requests with temperature and top-p alone get the tokens they always got: the replay profile stays.
func TestPlainRequestsReplay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, k := range []kernel.Kernels{kernel.Generic(), kernel.Detect(slog.New(slog.DiscardHandler))} {
		for _, vocab := range []int{2, 17, 500, 49152} {
			s := New(k, vocab)
			for _, scale := range []float64{0, 0.01, 1, 4, 30} {
				logits := gaussian(r, vocab, scale)
				for _, temperature := range []float64{0, 1e-3, 0.2, 0.7, 1, 1.7, 50} {
					for _, topP := range []float64{0, 1e-9, 0.1, 0.5, 0.9, 0.95, 0.999, 1} {
						if vocab == 49152 && r.IntN(4) > 0 {
							continue
						}
						at, seed := Position{Choice: r.IntN(4), Step: r.IntN(100)}, r.Uint64()
						want := earlier(k, logits, temperature, topP, uniform(seed, at.Choice, at.Step))
						got, err := s.Pick(logits, rules(t, &engine.Request{Temperature: temperature, TopP: topP}, seed, vocab), &at)
						if err != nil || got != want {
							t.Fatalf("%s, %d tokens, scale %v, temperature %v, top-p %v: got %d, %v; want %d", k.ISA(), vocab, scale, temperature, topP, got, err, want)
						}
					}
				}
			}
		}
	}
}

// Recorded with the code of replay profile 3, before this package existed.
func TestRecordedTokens(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(10*uniform(7, 1, i)) - 5
	}
	s := New(kernel.Generic(), len(logits))
	for _, c := range []struct {
		temperature, topP float64
		want              []int32
	}{
		{0, 0, []int32{331, 331, 331, 331, 331, 331, 331, 331, 331, 331, 331, 331}},
		{1, 0, []int32{668, 437, 988, 714, 264, 837, 326, 193, 572, 401, 653, 139}},
		{0.3, 1, []int32{617, 331, 989, 683, 219, 829, 309, 162, 544, 331, 617, 124}},
		{1, 0.5, []int32{612, 170, 68, 901, 921, 310, 829, 72, 23, 863, 55, 941}},
		{0.7, 0.9, []int32{221, 745, 958, 775, 170, 957, 932, 544, 997, 668, 823, 669}},
	} {
		r := rules(t, &engine.Request{Temperature: c.temperature, TopP: c.topP}, 12345, len(logits))
		var got []int32
		for step := range len(c.want) {
			id, err := s.Pick(logits, r, &Position{Choice: 1, Step: step})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("temperature %v, top-p %v: %v, want %v", c.temperature, c.topP, got, c.want)
		}
	}
}
