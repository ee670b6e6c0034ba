package sched

import (
	"math/rand/v2"
	"testing"
	"time"
)

// One step in a hundred takes twice as long, for reasons that no step can help: the controller must neither shrink steps nor admit fewer
// for it. Eight clients with prompts of 128 tokens and answers of 64 get at least five sixths of what they would without targets.
func TestPausesDoNotShrinkSteps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		with := eightClients(seed, [Classes]time.Duration{}, t)
		without := eightClients(seed, [Classes]time.Duration{time.Minute, time.Minute, time.Minute}, t)
		if with < without*5/6 {
			t.Errorf("%.0f tokens per second, %.0f without targets", with, without)
		}
	}
}

// eightClients returns the tokens per second of a machine whose steps take 2 ms and 0.65 ms a row.
func eightClients(seed uint64, targets [Classes]time.Duration, t *testing.T) float64 {
	type sequence struct{ prompt, out, context int }
	rng := rand.New(rand.NewPCG(seed, 1))
	c := NewController(ControllerConfig{Targets: targets, MaxSequences: 8})
	var running []*sequence
	tokens, total, least := 0, time.Duration(0), 8
	for step := range 3000 {
		for len(running) < 8 && (len(running) == 0 || len(running) < c.MaxSequences(Interactive, [Classes]int{len(running)}, 160)) {
			running = append(running, &sequence{prompt: 128})
		}
		if step > 500 {
			least = min(least, c.classes[Interactive].most)
		}
		var d Demand
		q := &d.Classes[Interactive]
		for _, s := range running {
			if s.prompt > 0 {
				q.Prefill, q.PrefillContext = q.Prefill+s.prompt, q.PrefillContext+ChunkContext(s.context, s.prompt)
			} else {
				q.Decoding, q.Context = q.Decoding+1, q.Context+s.context
			}
		}
		q.Waiting = 8 - len(running)
		l := c.Plan(d).Load
		took := (2000 + 650*float64(l.Rows()) + 0.4*float64(l.Context)) * (1 + 0.05*rng.Float64())
		if rng.Float64() < 0.01 {
			took *= 2
		}
		total += microseconds(took)
		c.Observe(l, microseconds(took))
		decode, prefill := l.Decode, l.Prefill
		left := running[:0]
		for _, s := range running {
			switch {
			case s.prompt > 0:
				n := min(prefill, s.prompt)
				s.prompt, s.context, prefill = s.prompt-n, s.context+n, prefill-n
			case decode > 0:
				decode--
				s.out, s.context, tokens = s.out+1, s.context+1, tokens+1
				c.ObserveGap(Interactive, microseconds(took), false)
			}
			if s.out < 64 {
				left = append(left, s)
			}
		}
		running = left
	}
	if least < 5 {
		t.Errorf("seed %d: at some time only %d sequences were let in", seed, least)
	}
	return float64(tokens) / total.Seconds()
}
