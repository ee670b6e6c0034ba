package sample

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
)

// paths are the ways through the sampler.
func paths() map[string]engine.Request {
	hook := func(d *engine.Draw) error { return nil }
	return map[string]engine.Request{
		"greedy":          {},
		"greedy-penalty":  {RepetitionPenalty: 1.1},
		"plain":           {Temperature: 0.8},
		"top-p":           {Temperature: 0.8, TopP: 0.95},
		"top-k":           {Temperature: 0.8, TopK: 40},
		"top-k-top-p":     {Temperature: 0.8, TopK: 40, TopP: 0.95},
		"min-p":           {Temperature: 0.8, MinP: 0.05},
		"hook":            {Temperature: 0.8, Hook: hook},
		"hook-top-p":      {Temperature: 0.8, TopP: 0.95, Hook: hook},
		"penalties-top-p": {Temperature: 0.8, TopP: 0.95, RepetitionPenalty: 1.1, FrequencyPenalty: 0.1},
	}
}

// modelLike returns logits with the shape that language models have: a few likely tokens above a wide bulk.
func modelLike(vocab int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	x := gaussian(r, vocab, 2)
	for range 50 {
		x[r.IntN(vocab)] += float32(6 + 6*r.Float64())
	}
	return x
}

type words struct{ mask []uint64 }

func (w *words) Allows(t int32) bool     { return w.mask[t/64]>>(t%64)&1 == 1 }
func (w *words) Mask(dst []uint64) error { copy(dst, w.mask); return nil }

func BenchmarkPick(b *testing.B) {
	const vocab = 49152
	r := rand.New(rand.NewPCG(1, 2))
	s := New(kernel.Detect(slog.New(slog.DiscardHandler)), vocab)
	h := NewHistory(randomTokens(r, 500, vocab), randomTokens(r, 500, vocab))
	sparse := &words{make([]uint64, vocab/64)}
	for i := range sparse.mask {
		sparse.mask[i] = r.Uint64() & r.Uint64() & r.Uint64()
	}
	run := func(name string, logits []float32, req engine.Request, g Grammar) {
		rules := rules(b, &req, 1, vocab)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			at := &Position{History: h, Grammar: g}
			for b.Loop() {
				at.Step++
				if _, err := s.Pick(logits, rules, at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	model, flat := modelLike(vocab), gaussian(r, vocab, 1)
	for name, req := range paths() {
		run(name, model, req, nil)
	}
	run("greedy-grammar", model, engine.Request{}, sparse)
	run("top-p-grammar", model, engine.Request{Temperature: 0.8, TopP: 0.95}, sparse)
	run("flat-plain", flat, engine.Request{Temperature: 1}, nil)
	run("flat-top-p", flat, engine.Request{Temperature: 1, TopP: 0.95}, nil)
	run("flat-top-k-1000", flat, engine.Request{Temperature: 1, TopK: 1000}, nil)
	b.Run("logprobs-5", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Logprobs(model, 1, 5)
		}
	})
}

// Once its scratch memory has grown, the sampler allocates nothing.
func TestPickAllocatesNothing(t *testing.T) {
	const vocab = 5000
	s := New(kernel.Generic(), vocab)
	logits := modelLike(vocab)
	g := &words{make([]uint64, vocab/64+1)}
	for i := range g.mask {
		g.mask[i] = ^uint64(0) << (i % 7)
	}
	for name, req := range paths() {
		r := rules(t, &req, 1, vocab)
		at := &Position{History: NewHistory([]int32{1, 2}, []int32{3}), Grammar: g}
		if n := testing.AllocsPerRun(20, func() {
			at.Step++
			if _, err := s.Pick(logits, r, at); err != nil {
				t.Fatal(err)
			}
			s.Logprobs(logits, 1, 5)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		at.Mark = &Mark{Marker: func(_, tokens []int32, weights []float32) (int, bool) { return -1, len(tokens) > 20 }, Greedy: true}
		if n := testing.AllocsPerRun(20, func() {
			at.Step++
			if _, err := s.Pick(logits, r, at); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s, marked: %v allocations", name, n)
		}
	}
}
