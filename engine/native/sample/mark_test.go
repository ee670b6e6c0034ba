package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
)

// A marker sees exactly the tokens that may be drawn with the right relative weights, after everything else that changes them. If it does
// not mark, the token is the one that comes without it.
func TestMarkerSeesWhatMayBeDrawn(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 6))
	dense, listed := 0, 0
	for range 500 {
		const vocab = 400
		req, logits := randomRequest(r, vocab), gaussian(r, vocab, 3)
		prompt, completion := randomTokens(r, 5, vocab), randomTokens(r, 5, vocab)
		odd := func(id int32) bool { return id%2 == 1 }
		want, sure := chain(logits, req, prompt, completion, nil, odd)
		if !sure || req.Temperature == 0 {
			continue
		}
		seen := map[int32]float64{}
		mark := &Mark{Marker: func(text, tokens []int32, weights []float32) (int, bool) {
			if !slices.Equal(text, completion) {
				t.Errorf("the marker sees %v, not %v", text, completion)
			}
			if tokens == nil {
				dense++
			} else {
				listed++
			}
			for i, w := range weights {
				if w > 0 {
					seen[named(tokens, i)] = float64(w)
				}
			}
			return -7, false
		}}
		s := New(kernel.Generic(), vocab)
		at := &Position{Choice: 3, Prompt: prompt, Completion: completion, History: NewHistory(prompt, completion), Grammar: &set{ok: odd, size: vocab}}
		plain, err := s.Pick(logits, rules(t, req, 1, vocab), at)
		if err != nil {
			t.Fatal(err)
		}
		at.Mark = mark
		got, err := s.Pick(logits, rules(t, req, 1, vocab), at)
		if err != nil || got != plain || mark.Tokens != 0 {
			t.Fatalf("%+v: %d, %v, without a marker %d; %d tokens were marked", req, got, err, plain, mark.Tokens)
		}
		if len(seen) != len(want) {
			t.Fatalf("%+v: %d tokens, want %d", req, len(seen), len(want))
		}
		for _, c := range want {
			if math.Abs(seen[c.token]-c.p) > 1e-5*c.p+1e-30 {
				t.Fatalf("%+v: token %d has %v, want %v", req, c.token, seen[c.token], c.p)
			}
		}
	}
	if dense < 20 || listed < 20 {
		t.Errorf("%d draws among all tokens, %d among some", dense, listed)
	}
}

// What a marker decides is what comes: a token, or weights.
func TestMarkerDecides(t *testing.T) {
	logits := []float32{0, 1, 2, 3}
	s := New(kernel.Generic(), 4)
	place := func(want int32) engine.Marker {
		return func(_, tokens []int32, weights []float32) (int, bool) {
			for i := range weights {
				if named(tokens, i) == want {
					return i, true
				}
			}
			return -1, false
		}
	}
	only := func(want int32, w float32) engine.Marker {
		return func(_, tokens []int32, weights []float32) (int, bool) {
			for i := range weights {
				if named(tokens, i) == want {
					weights[i] = w
				} else if w == 1 {
					weights[i] = 0
				}
			}
			return -1, true
		}
	}
	hook := func(d *engine.Draw) error {
		d.Candidates[1].Weight = 0
		return nil
	}
	for name, c := range map[string]struct {
		req    engine.Request
		marker engine.Marker
		greedy bool
		want   int32
		tokens int
	}{
		"a token":              {engine.Request{Temperature: 1}, place(2), false, 2, 1},
		"of few":               {engine.Request{Temperature: 1, TopK: 3}, place(1), false, 1, 1},
		"after a hook":         {engine.Request{Temperature: 1, Hook: hook}, place(0), false, 0, 1},
		"weights":              {engine.Request{Temperature: 1}, only(0, 1), false, 0, 1},
		"weights of few":       {engine.Request{Temperature: 1, TopK: 3}, only(2, 1), false, 2, 1},
		"at temperature 0":     {engine.Request{}, place(0), false, 3, 0},
		"asked at temperature": {engine.Request{}, only(2, 5), true, 2, 1},
		"too weak to change":   {engine.Request{}, only(2, 0.5), true, 3, 1},
		"with a hook at 0":     {engine.Request{Hook: hook}, only(0, 5), true, 0, 1},
	} {
		mark := &Mark{Marker: c.marker, Greedy: c.greedy}
		id, err := s.Pick(logits, rules(t, &c.req, 1, 4), &Position{Mark: mark})
		if id != c.want || err != nil || mark.Tokens != c.tokens {
			t.Errorf("%s: %d, %v, %d marked; want %d", name, id, err, mark.Tokens, c.want)
		}
	}
	alone := &Mark{Marker: place(3)}
	if id, err := s.Pick(logits, rules(t, &engine.Request{Temperature: 1, TopK: 1}, 1, 4), &Position{Mark: alone}); id != 3 || err != nil || alone.Tokens != 0 {
		t.Errorf("of one token, %d came (%v), and %d count", id, err, alone.Tokens)
	}
	equal := &Mark{Greedy: true, Marker: func(_, _ []int32, weights []float32) (int, bool) {
		for i := range weights {
			weights[i] = 1
		}
		return -1, true
	}}
	if id, err := s.Pick(logits, rules(t, &engine.Request{}, 1, 4), &Position{Mark: equal}); id != 3 || err != nil {
		t.Errorf("of equals, %d came (%v)", id, err)
	}
}

// A marker that is wrong ends the request: no token comes that it could not have meant.
func TestBadMarkersAreErrors(t *testing.T) {
	nan := float32(math.NaN())
	set := func(v float32) engine.Marker {
		return func(_, _ []int32, weights []float32) (int, bool) {
			for i := range weights {
				weights[i] = v
			}
			return -1, true
		}
	}
	for name, c := range map[string]struct {
		marker engine.Marker
		want   string
	}{
		"behind the end":  {func(_, _ []int32, w []float32) (int, bool) { return len(w), true }, "no token that may be drawn"},
		"forbidden token": {func(_, _ []int32, w []float32) (int, bool) { return slices.Index(w, 0), true }, "no token that may be drawn"},
		"no weight":       {set(0), "no token with a weight"},
		"not a number":    {set(nan), "became NaN"},
		"negative":        {set(-1), "became -1"},
		"infinite":        {set(float32(math.Inf(1))), "became +Inf"},
		"panic":           {func(_, _ []int32, w []float32) (int, bool) { return int(w[len(w)]), true }, "panicked"},
		"own panic":       {func([]int32, []int32, []float32) (int, bool) { panic("the text") }, "panicked with a string"},
	} {
		s := New(kernel.Generic(), 70)
		logits := gaussian(rand.New(rand.NewPCG(1, 1)), 70, 1)
		mark := &Mark{Marker: c.marker}
		id, err := s.Pick(logits, rules(t, &engine.Request{Temperature: 1}, 1, 70), &Position{Mark: mark, Forbidden: []int32{5}})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "the text") || mark.Tokens != 0 {
			t.Errorf("%s: %d, %v, want %q", name, id, err, c.want)
		}
		if again, err := s.Pick(logits, rules(t, &engine.Request{Temperature: 1}, 1, 70), &Position{}); err != nil || again < 0 {
			t.Errorf("after %s: %v", name, err)
		}
	}
}
