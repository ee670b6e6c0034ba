package sample

import (
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/fault"
)

func TestGreedyPicksTheLowestOfEquals(t *testing.T) {
	s := New(kernel.Generic(), 4)
	for _, req := range []engine.Request{{}, {Hook: func(*engine.Draw) error { return nil }}, {Temperature: 1, TopK: 1}} {
		if id, err := s.Pick([]float32{1, 3, 3, 2}, rules(t, &req, 0, 4), &Position{}); id != 1 || err != nil {
			t.Errorf("got %d, %v", id, err)
		}
	}
}

// Faulty logits never become a token, on any processor and wherever they lie.
func TestFaultyLogitsAreErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, k := range []kernel.Kernels{kernel.Generic(), kernel.Detect(slog.New(slog.DiscardHandler))} {
		for _, n := range []int{1, 15, 16, 64, 67, 1000} {
			s := New(k, n)
			for _, req := range []engine.Request{{}, {Temperature: 1}, {Temperature: 1, TopP: 0.5}, {Temperature: 1, TopK: 3}, {RepetitionPenalty: 2}} {
				r := rules(t, &req, 0, n)
				for at := range min(n, 70) {
					logits := gaussian(rand.New(rand.NewPCG(1, 1)), n, 1)
					for bad, word := range map[float32]string{nan: "not a number", inf: "infinite"} {
						logits[at] = bad
						if id, err := s.Pick(logits, r, &Position{History: NewHistory(nil, nil)}); err == nil || !strings.Contains(err.Error(), word) {
							t.Fatalf("%s, %v at %d of %d: %d, %v", k.ISA(), bad, at, n, id, err)
						}
					}
				}
			}
		}
	}
	s := New(kernel.Generic(), 3)
	if _, err := s.Pick([]float32{-inf, -inf, -inf}, rules(t, &engine.Request{}, 0, 3), &Position{}); !errors.Is(err, ErrNothingAllowed) {
		t.Error(err)
	}
	if _, err := s.Pick([]float32{1, 2}, rules(t, &engine.Request{}, 0, 3), &Position{}); err == nil {
		t.Error("a row of another length was accepted")
	}
	if _, err := s.Pick([]float32{1, 2, 3}, rules(t, &engine.Request{PresencePenalty: 1}, 0, 3), &Position{}); err == nil {
		t.Error("penalties without a history were accepted")
	}
}

// A forbidden token is never drawn, whatever the temperature and however likely it was; finite extremes stay ordered.
func TestForbiddenTokensAreNeverDrawn(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, k := range []kernel.Kernels{kernel.Generic(), kernel.Detect(slog.New(slog.DiscardHandler))} {
		for _, temperature := range []float64{0, 1e-300, 1e-40, 0.5, 1, 100, 1e30, 1e300} {
			for _, vocab := range []int{70, 128} {
				s := New(k, vocab)
				logits := gaussian(r, vocab, 3)
				logits[5], logits[6], logits[7] = 40, math.MaxFloat32, -math.MaxFloat32
				forbid := []int32{6, 9}
				ok := func(id int32) bool { return id%4 != 1 }
				for step := range 300 {
					req := &engine.Request{Temperature: temperature, TopP: []float64{0, 0.9}[step%2], TopK: []int{0, 0, 30}[step%3], MinP: []float64{0, 1e-3}[step/2%2]}
					id, err := s.Pick(logits, rules(t, req, 1, vocab), &Position{Step: step, Forbidden: forbid, Grammar: &set{ok: ok, size: vocab}})
					if err != nil || slices.Contains(forbid, id) || !ok(id) {
						t.Fatalf("%s, temperature %v: %d, %v", k.ISA(), temperature, id, err)
					}
				}
			}
		}
	}
}

func TestGreedyAsksForTheMaskOnlyWhenItMust(t *testing.T) {
	logits := []float32{0, 3, 2, 1}
	s := New(kernel.Generic(), 4)
	for _, c := range []struct {
		ok    func(int32) bool
		want  int32
		masks int
	}{
		{func(int32) bool { return true }, 1, 0},
		{func(id int32) bool { return id != 1 }, 2, 1},
		{func(id int32) bool { return id == 0 }, 0, 1},
	} {
		g := &set{ok: c.ok, size: 4}
		if id, err := s.Pick(logits, rules(t, &engine.Request{}, 0, 4), &Position{Grammar: g}); id != c.want || g.masks != c.masks || err != nil {
			t.Errorf("%d with %d masks, %v; want %d with %d", id, g.masks, err, c.want, c.masks)
		}
	}
	none := &set{ok: func(int32) bool { return false }, size: 4}
	for _, temperature := range []float64{0, 1} {
		if _, err := s.Pick(logits, rules(t, &engine.Request{Temperature: temperature}, 0, 4), &Position{Grammar: none}); !errors.Is(err, ErrNothingAllowed) {
			t.Errorf("temperature %v: %v", temperature, err)
		}
	}
	failing := &set{ok: func(int32) bool { return false }, size: 4, err: errors.New("too deep")}
	if _, err := s.Pick(logits, rules(t, &engine.Request{}, 0, 4), &Position{Grammar: failing}); !errors.Is(err, failing.err) {
		t.Error(err)
	}
	// Least tokens and a grammar forbid together.
	both := &set{ok: func(id int32) bool { return id == 1 || id == 3 }, size: 4}
	if id, _ := s.Pick(logits, rules(t, &engine.Request{}, 0, 4), &Position{Grammar: both, Forbidden: []int32{1}}); id != 3 {
		t.Errorf("got %d", id)
	}
}

// Of equals at the border of top-k the lowest ids stay; at that of min-p all do.
func TestTies(t *testing.T) {
	for _, c := range []struct {
		req  engine.Request
		want []int32
	}{
		{engine.Request{Temperature: 1, TopK: 2}, []int32{1, 2}},
		{engine.Request{Temperature: 1, TopK: 4}, []int32{1, 2, 4, 5}},
		{engine.Request{Temperature: 1, MinP: 1}, []int32{1, 2, 4, 5, 6}},
		{engine.Request{Temperature: 1, TopP: 0.5}, []int32{1, 2, 4}},
	} {
		s, drawn := New(kernel.Generic(), 8), map[int32]bool{}
		for step := range 500 {
			id, err := s.Pick([]float32{0, 3, 3, -9, 3, 3, 3, 1}, rules(t, &c.req, 1, 8), &Position{Step: step})
			if err != nil {
				t.Fatal(err)
			}
			drawn[id] = true
		}
		for id := range int32(8) {
			if drawn[id] != slices.Contains(c.want, id) {
				t.Errorf("top-k %d, top-p %v, min-p %v: drawn %v, want %v", c.req.TopK, c.req.TopP, c.req.MinP, drawn, c.want)
			}
		}
	}
}

// What the settings promise, for random logits.
func TestSettingsDoWhatTheySay(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const vocab = 200
	s := New(kernel.Generic(), vocab)
	pick := func(logits []float32, req engine.Request, seed uint64, h *History) int32 {
		t.Helper()
		id, err := s.Pick(logits, rules(t, &req, seed, vocab), &Position{History: h})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for range 500 {
		logits, seed := gaussian(r, vocab, 2), r.Uint64()
		greedy := pick(logits, engine.Request{}, seed, nil)
		for _, req := range []engine.Request{{Temperature: 100, TopK: 1}, {Temperature: 1, TopP: 1e-9}, {Temperature: 1, MinP: 1}, {Temperature: 1e-9}} {
			if got := pick(logits, req, seed, nil); got != greedy {
				t.Fatalf("%+v: %d is not the greedy %d", req, got, greedy)
			}
		}
		// A bias of 100 forces, one of −100 forbids.
		id := int32(r.IntN(vocab))
		if got := pick(logits, engine.Request{Temperature: 1, LogitBias: map[int32]float64{id: 100}}, seed, nil); got != id {
			t.Fatalf("%d was forced, %d came", id, got)
		}
		if got := pick(logits, engine.Request{LogitBias: map[int32]float64{greedy: -100}}, seed, nil); got == greedy {
			t.Fatalf("%d was forbidden", got)
		}
		// Penalties repel, rewards attract; the prompt counts for repetition alone.
		seen := NewHistory(nil, []int32{greedy})
		prompt := NewHistory([]int32{greedy}, nil)
		for _, req := range []engine.Request{{RepetitionPenalty: 1e3}, {FrequencyPenalty: 50}, {PresencePenalty: 50}} {
			if got := pick(logits, req, seed, seen); got == greedy {
				t.Fatalf("%+v: %d came again", req, got)
			}
			if got := pick(logits, req, seed, prompt); (got == greedy) != (req.RepetitionPenalty == 0) {
				t.Fatalf("%+v: %d after a prompt with %d", req, got, greedy)
			}
		}
		if got := pick(logits, engine.Request{FrequencyPenalty: -50}, seed, NewHistory([]int32{1}, []int32{id})); got != id {
			t.Fatalf("%d was rewarded, %d came", id, got)
		}
	}
}

func TestSameSeedSameTokenWhateverCameBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const vocab = 300
	used := New(kernel.Generic(), vocab)
	for i := range 300 {
		req, logits, seed := randomRequest(r, vocab), gaussian(r, vocab, 3), r.Uint64()
		at := &Position{Step: i, History: NewHistory(nil, randomTokens(r, 9, vocab))}
		got, err1 := used.Pick(logits, rules(t, req, seed, vocab), at)
		used.Logprobs(logits, got, 3)
		want, err2 := New(kernel.Generic(), vocab).Pick(logits, rules(t, req, seed, vocab), at)
		if got != want || err1 != nil || err2 != nil {
			t.Fatalf("%d and %d, %v %v", got, want, err1, err2)
		}
	}
}

func TestDrawsDependOnSeedChoiceAndStepOnly(t *testing.T) {
	seen := map[float64]bool{}
	for seed := range uint64(10) {
		for choice := range 4 {
			for step := range 20 {
				u := uniform(seed, choice, step)
				if u != uniform(seed, choice, step) || u < 0 || u >= 1 {
					t.Fatal(u)
				}
				seen[u] = true
			}
		}
	}
	if len(seen) != 800 {
		t.Errorf("%d different numbers of 800", len(seen))
	}
}

func TestLogprobsAreTheModelsOwn(t *testing.T) {
	logits := gaussian(rand.New(rand.NewPCG(1, 1)), 500, 3)
	logits[7], logits[3] = 12, 12
	s := New(kernel.Generic(), len(logits))
	if _, err := s.Pick(logits, rules(t, &engine.Request{Temperature: 0.1, LogitBias: map[int32]float64{7: -50}}, 0, 500), &Position{}); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for id := range logits {
		lp, _ := s.Logprobs(logits, int32(id), 0)
		sum += math.Exp(lp)
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("probabilities add up to %v", sum)
	}
	lp, top := s.Logprobs(logits, 7, 5)
	if len(top) != 5 || top[0].Token != 3 || top[1].Token != 7 || top[1].Logprob != lp {
		t.Errorf("%v %+v", lp, top)
	}
	sorted := slices.Clone(logits)
	slices.Sort(sorted)
	for i, c := range top {
		if logits[c.Token] != sorted[len(sorted)-1-i] {
			t.Errorf("place %d: %v", i, c)
		}
	}
	if _, all := s.Logprobs(logits, 0, 600); len(all) != 500 {
		t.Errorf("%d of 500", len(all))
	}
}

func TestHistory(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	prompt, completion := randomTokens(r, 50, 30), randomTokens(r, 80, 30)
	grown := NewHistory(prompt, nil)
	for _, id := range completion[:40] {
		grown.Add(id)
	}
	other := grown.Fork()
	for _, id := range completion[40:] {
		grown.Add(id)
	}
	for i := range int32(100) {
		other.Add(29 + i)
	}
	grown.Add(100) // new to both
	completion = append(completion, 100)
	rebuilt := NewHistory(prompt, completion)
	if !slices.Equal(grown.counts, rebuilt.counts) {
		t.Errorf("%v\n%v", grown.counts, rebuilt.counts)
	}
	for _, e := range rebuilt.counts {
		n := 0
		for _, id := range completion {
			if id == e.token {
				n++
			}
		}
		if int(e.count) != n {
			t.Errorf("token %d: %d, want %d", e.token, e.count, n)
		}
	}
}

func TestRulesAreChecked(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for field, reqs := range map[string][]engine.Request{
		"temperature":        {{Temperature: -1}, {Temperature: nan}, {Temperature: inf}},
		"top_p":              {{TopP: -0.1}, {TopP: 1.1}, {TopP: nan}},
		"top_k":              {{TopK: -1}},
		"min_p":              {{MinP: -0.1}, {MinP: 1.1}, {MinP: nan}},
		"repetition_penalty": {{RepetitionPenalty: -1}, {RepetitionPenalty: nan}, {RepetitionPenalty: inf}, {RepetitionPenalty: 1e-300}},
		"frequency_penalty":  {{FrequencyPenalty: nan}, {FrequencyPenalty: -inf}},
		"presence_penalty":   {{PresencePenalty: nan}, {PresencePenalty: 1e300}},
		"logit_bias": {
			{LogitBias: map[int32]float64{-1: 1}},
			{LogitBias: map[int32]float64{100: 1}},
			{LogitBias: map[int32]float64{1: nan}},
			{LogitBias: map[int32]float64{1: inf}},
		},
	} {
		for _, req := range reqs {
			if _, err := NewRules(&req, 0, 100); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	}
	r := rules(t, &engine.Request{}, 77, 100)
	if r.Counts() || r.Seed() != 77 || !rules(t, &engine.Request{PresencePenalty: 0.1}, 0, 100).Counts() {
		t.Error("the rules of a plain request count")
	}
}

// FuzzPick: whatever the numbers, the answer is a token that is allowed, or an error.
func FuzzPick(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 0x7f, 0x80, 0, 0}, 0.7, 0.9, 3, 0.1, 1.2, 0.3, uint64(5))
	f.Add([]byte{0, 0, 0x80, 0x7f, 0, 0, 0x80, 0xff}, 0.0, 0.0, 0, 0.0, 0.0, 0.0, uint64(0))
	f.Add([]byte{0xff, 0xff, 0x7f, 0x7f, 0xff, 0xff, 0x7f, 0xff}, 1e300, 1e-300, 1, 1.0, 1e6, -1e6, uint64(1)<<63)
	f.Fuzz(func(t *testing.T, data []byte, temperature, topP float64, topK int, minP, repetition, penalty float64, seed uint64) {
		n := len(data) / 4
		if n == 0 || n > 500 {
			return
		}
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24)
		}
		req := &engine.Request{Temperature: temperature, TopP: topP, TopK: topK, MinP: minP, RepetitionPenalty: repetition, FrequencyPenalty: penalty, PresencePenalty: penalty}
		r, err := NewRules(req, seed, n)
		if err != nil {
			return
		}
		ok := func(id int32) bool { return id%3 != int32(seed%3) }
		s := New(kernel.Generic(), n)
		id, err := s.Pick(logits, r, &Position{History: NewHistory([]int32{0}, []int32{int32(n - 1)}), Grammar: &set{ok: ok, size: n}})
		if err == nil && (id < 0 || int(id) >= n || !ok(id) || logits[id] != logits[id] || math.IsInf(float64(logits[id]), -1)) {
			t.Errorf("%d of %v", id, logits)
		}
	})
}
