package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
)

// A hook sees exactly the tokens that may be drawn, in the order of their ids, with the right relative weights, and the texts.
func TestHookSeesTheCandidates(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 500 {
		const vocab = 400
		req, logits := randomRequest(r, vocab), gaussian(r, vocab, 3)
		prompt, completion := randomTokens(r, 5, vocab), randomTokens(r, 5, vocab)
		odd := func(id int32) bool { return id%2 == 1 }
		want, sure := chain(logits, req, prompt, completion, nil, odd)
		if !sure {
			continue
		}
		slices.SortFunc(want, func(a, b entry) int { return int(a.token - b.token) })
		var seen engine.Draw
		req.Hook = func(d *engine.Draw) error {
			seen = *d
			seen.Candidates = slices.Clone(d.Candidates)
			return nil
		}
		s := New(kernel.Generic(), vocab)
		at := &Position{Choice: 3, Prompt: prompt, Completion: completion, History: NewHistory(prompt, completion), Grammar: &set{ok: odd, size: vocab}}
		if _, err := s.Pick(logits, rules(t, req, 1, vocab), at); err != nil {
			t.Fatal(err)
		}
		if seen.Choice != 3 || !slices.Equal(seen.Prompt, prompt) || !slices.Equal(seen.Completion, completion) || len(seen.Candidates) != len(want) {
			t.Fatalf("%+v: %d candidates, want %d", req, len(seen.Candidates), len(want))
		}
		for i, c := range seen.Candidates {
			if c.Token != want[i].token || !(c.Weight > 0) || math.Abs(float64(c.Weight)-want[i].p) > 1e-5*want[i].p+1e-30 {
				t.Fatalf("%+v: candidate %d is %+v, want %+v", req, i, c, want[i])
			}
		}
	}
}

func TestHookDecides(t *testing.T) {
	logits := []float32{0, 1, 2, 3}
	s := New(kernel.Generic(), 4)
	only := func(token int32) engine.Hook {
		return func(d *engine.Draw) error {
			for i := range d.Candidates {
				if d.Candidates[i].Token != token {
					d.Candidates[i].Weight = 0
				}
			}
			d.Candidates = nil // no harm
			return nil
		}
	}
	for _, temperature := range []float64{0, 1} {
		for token := range int32(4) {
			for step := range 20 {
				id, err := s.Pick(logits, rules(t, &engine.Request{Temperature: temperature, Hook: only(token)}, 1, 4), &Position{Step: step})
				if id != token || err != nil {
					t.Fatalf("%d, %v; the hook left %d", id, err, token)
				}
			}
		}
	}
	// A greedy hook that makes others equal to the best keeps the best.
	level := func(d *engine.Draw) error {
		for i := range d.Candidates {
			d.Candidates[i].Weight = 5
		}
		return nil
	}
	if id, err := s.Pick(logits, rules(t, &engine.Request{Hook: level}, 1, 4), &Position{}); id != 3 || err != nil {
		t.Errorf("%d, %v", id, err)
	}
}

// At every temperature the likeliest token weighs 1, and no token more.
func TestHookWeightsAtExtremes(t *testing.T) {
	s := New(kernel.Generic(), 4)
	for _, temperature := range []float64{0, 1e-300, 1e-40, 1, 1e30, 1e300} {
		hook := func(d *engine.Draw) error {
			for _, c := range d.Candidates {
				if c.Token == 2 && c.Weight != 1 || c.Weight > 1 || c.Token == 3 {
					t.Errorf("temperature %v: %+v", temperature, c)
				}
			}
			return nil
		}
		if _, err := s.Pick([]float32{1, -5, 30, float32(math.Inf(-1))}, rules(t, &engine.Request{Temperature: temperature, Hook: hook}, 1, 4), &Position{}); err != nil {
			t.Error(err)
		}
	}
}

func TestFailingHooksAreErrors(t *testing.T) {
	broken := errors.New("key store is down")
	all := func(w float32) engine.Hook {
		return func(d *engine.Draw) error {
			for i := range d.Candidates {
				d.Candidates[i].Weight = w
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		hook engine.Hook
		says string
	}{
		"error":     {func(*engine.Draw) error { return broken }, "key store is down"},
		"zero":      {all(0), "no token with a weight"},
		"negative":  {all(-1), "weights are numbers from 0 on"},
		"nan":       {all(float32(math.NaN())), "weights are numbers from 0 on"},
		"infinite":  {all(float32(math.Inf(1))), "weights are numbers from 0 on"},
		"swapped":   {func(d *engine.Draw) error { d.Candidates[0].Token = 2; return nil }, "changed the token"},
		"index":     {func(d *engine.Draw) error { d.Candidates[len(d.Prompt)+9].Weight = 1; return nil }, "panicked: runtime error"},
		"panic":     {func(*engine.Draw) error { panic("the prompt was: secret") }, "panicked with a string"},
		"panic nil": {func(*engine.Draw) error { panic(nil) }, "panicked"},
		"own error": {func(*engine.Draw) error { panic(fmt.Errorf("secret")) }, "panicked with a *fmt.wrapError"},
	} {
		for _, temperature := range []float64{0, 1} {
			s := New(kernel.Generic(), 3)
			_, err := s.Pick([]float32{1, 2, 3}, rules(t, &engine.Request{Temperature: temperature, Hook: c.hook}, 1, 3), &Position{})
			if name == "own error" && err != nil && strings.Contains(err.Error(), "panicked with a *") {
				err = errors.New(c.says)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", name, err)
			}
			if name == "error" && !errors.Is(err, broken) {
				t.Errorf("%v hides its cause", err)
			}
			// The sampler goes on with the next sequence.
			if id, err := s.Pick([]float32{1, 2, 3}, rules(t, &engine.Request{}, 1, 3), &Position{}); id != 2 || err != nil {
				t.Errorf("%s: afterwards %d, %v", name, id, err)
			}
		}
	}
}
