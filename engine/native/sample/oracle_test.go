package sample

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
)

// entry is a possible token of the oracle with its probability.
type entry struct {
	token int32
	p     float64
}

// chain is the definition in float64: the tokens that may be drawn, in the order in which they are lined up for the draw. sure is false
// where rounding may decide which tokens are among them.
func chain(logits []float32, req *engine.Request, prompt, completion, forbid []int32, allow func(int32) bool) (out []entry, sure bool) {
	x := adjustedOracle(logits, req, prompt, completion)
	for _, t := range forbid {
		x[t] = math.Inf(-1)
	}
	for i := range x {
		if allow != nil && !allow(int32(i)) {
			x[i] = math.Inf(-1)
		}
	}
	top := slices.Max(x)
	temperature := req.Temperature
	if temperature == 0 {
		temperature = 1
	}
	for i, v := range x {
		if p := math.Exp((v - top) / temperature); p >= math.Exp(-87) {
			out = append(out, entry{int32(i), p})
		}
	}
	sure = true
	byWeight := func(a, b entry) int { return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.token, b.token)) }
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-5*math.Abs(b) }
	if req.TopK > 0 && req.TopK < len(out) {
		slices.SortFunc(out, byWeight)
		sure = sure && !near(out[req.TopK].p, out[req.TopK-1].p)
		out = out[:req.TopK]
	}
	if req.TopP > 0 && req.TopP < 1 {
		slices.SortFunc(out, byWeight)
		total, mass, n := mass(out), 0.0, 0
		for n < len(out) && mass < req.TopP*total {
			mass += out[n].p
			n++
			sure = sure && !near(mass, req.TopP*total)
		}
		sure = sure && (n == len(out) || !near(out[n].p, out[n-1].p))
		out = out[:n]
	}
	least := req.MinP * slices.MaxFunc(out, func(a, b entry) int { return cmp.Compare(a.p, b.p) }).p
	out = slices.DeleteFunc(out, func(e entry) bool {
		sure = sure && (least == 0 || !near(e.p, least))
		return e.p < least
	})
	if req.TopK > 0 && req.TopK < len(logits) || req.TopP > 0 && req.TopP < 1 {
		slices.SortFunc(out, byWeight)
	}
	return out, sure
}

func mass(entries []entry) (sum float64) {
	for _, e := range entries {
		sum += e.p
	}
	return sum
}

func adjustedOracle(logits []float32, req *engine.Request, prompt, completion []int32) []float64 {
	x := make([]float64, len(logits))
	for i, v := range logits {
		id := int32(i)
		x[i] = float64(v) + req.LogitBias[id]
		count := 0
		for _, t := range completion {
			if t == id {
				count++
			}
		}
		if r := req.RepetitionPenalty; r != 0 && (count > 0 || slices.Contains(prompt, id)) {
			if x[i] > 0 {
				x[i] /= r
			} else {
				x[i] *= r
			}
		}
		if count > 0 {
			x[i] -= req.FrequencyPenalty*float64(count) + req.PresencePenalty
		}
	}
	return x
}

// set is a grammar that allows a set of tokens, and counts what is asked of it.
type set struct {
	ok    func(int32) bool
	size  int
	masks int
	err   error
}

func (s *set) Allows(t int32) bool { return s.ok(t) }

func (s *set) Mask(dst []uint64) error {
	s.masks++
	for i := range s.size {
		if s.ok(int32(i)) {
			dst[i/64] |= 1 << (i % 64)
		}
	}
	return s.err
}

func rules(t testing.TB, req *engine.Request, seed uint64, vocab int) *Rules {
	t.Helper()
	r, err := NewRules(req, seed, vocab)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func gaussian(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// randomRequest has every knob at some setting, each off about half of the time.
func randomRequest(r *rand.Rand, vocab int) *engine.Request {
	pick := func(values ...float64) float64 { return values[r.IntN(len(values))] }
	req := &engine.Request{
		Temperature: pick(0, 0.3, 0.7, 1, 1.5), TopP: pick(0, 1, 0.5, 0.9), TopK: int(pick(0, 0, 1, 3, 20, 1e6)), MinP: pick(0, 0, 0.01, 0.2),
		RepetitionPenalty: pick(0, 1, 1.3, 0.8), FrequencyPenalty: pick(0, 0, 0.5, -0.3), PresencePenalty: pick(0, 0, 0.7, -0.2),
	}
	for range int(pick(0, 0, 5)) {
		if req.LogitBias == nil {
			req.LogitBias = map[int32]float64{}
		}
		req.LogitBias[int32(r.IntN(vocab))] = r.NormFloat64() * 5
	}
	return req
}

func randomTokens(r *rand.Rand, n, vocab int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.IntN(vocab))
	}
	return x
}

// Every pick is the token at which the definition's probabilities reach the random number, for random logits, settings, histories,
// grammars and hooks.
func TestPickFollowsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	k := kernel.Generic()
	checked, unsure := 0, 0
	for range 3000 {
		vocab := []int{5, 64, 300, 1000}[r.IntN(4)]
		s := New(k, vocab)
		req, logits := randomRequest(r, vocab), gaussian(r, vocab, 3)
		before := slices.Clone(logits)
		prompt, completion := randomTokens(r, r.IntN(20), vocab), randomTokens(r, r.IntN(20), vocab)
		at := &Position{Choice: r.IntN(3), Step: len(completion), Prompt: prompt, Completion: completion, History: NewHistory(prompt, completion)}
		allow := func(int32) bool { return true }
		if r.IntN(2) == 0 {
			allow = func(id int32) bool { return id%3 != 1 }
			at.Grammar = &set{ok: allow, size: vocab}
		}
		if r.IntN(3) == 0 {
			at.Forbidden = randomTokens(r, 1, vocab)
		}
		want, sure := chain(logits, req, prompt, completion, at.Forbidden, allow)
		if r.IntN(3) == 0 {
			req.Hook = func(*engine.Draw) error { return nil }
			slices.SortFunc(want, func(a, b entry) int { return cmp.Compare(a.token, b.token) })
		}
		seed := r.Uint64()
		got, err := s.Pick(logits, rules(t, req, seed, vocab), at)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(before, logits) {
			t.Fatal("the logits were changed")
		}
		if !sure {
			unsure++
			continue
		}
		checked++
		u := uniform(seed, at.Choice, at.Step)
		if req.Temperature == 0 {
			best := slices.MaxFunc(want, func(a, b entry) int { return cmp.Or(cmp.Compare(a.p, b.p), cmp.Compare(b.token, a.token)) })
			if got != best.token {
				t.Fatalf("%+v: picked %d, the likeliest is %d", req, got, best.token)
			}
			continue
		}
		if !reaches(want, got, u) {
			t.Fatalf("%+v: picked %d, which does not lie at %v", req, got, u)
		}
	}
	if checked < 2500 {
		t.Errorf("only %d of %d cases could be checked", checked, checked+unsure)
	}
}

// reaches reports whether u, but for rounding, lies where token is in line.
func reaches(line []entry, token int32, u float64) bool {
	total, sum := mass(line), 0.0
	for _, e := range line {
		if e.token == token {
			return u > sum/total-1e-4 && u < (sum+e.p)/total+1e-4
		}
		sum += e.p
	}
	return false
}

// The frequencies of many draws match the definition's probabilities: chi-square at fixed seeds, for each knob and for all together.
func TestDrawsFollowTheDistribution(t *testing.T) {
	logits := []float32{0, 1, 2, -1, 3, 0.5, -30, 2.5, 1.5, 0.25}
	prompt, completion := []int32{1, 7}, []int32{4, 4, 2}
	odd := func(id int32) bool { return id != 4 }
	for name, c := range map[string]struct {
		req   engine.Request
		allow func(int32) bool
		hook  bool
	}{
		"plain":       {req: engine.Request{Temperature: 1}},
		"cold":        {req: engine.Request{Temperature: 0.5, TopP: 1}},
		"hot":         {req: engine.Request{Temperature: 2}},
		"top-p":       {req: engine.Request{Temperature: 1, TopP: 0.8}},
		"top-k":       {req: engine.Request{Temperature: 1, TopK: 4}},
		"min-p":       {req: engine.Request{Temperature: 1, MinP: 0.1}},
		"penalties":   {req: engine.Request{Temperature: 1, RepetitionPenalty: 1.5, FrequencyPenalty: 0.4, PresencePenalty: 0.3}},
		"bias":        {req: engine.Request{Temperature: 1, LogitBias: map[int32]float64{3: 4, 4: -2}}},
		"grammar":     {req: engine.Request{Temperature: 1}, allow: odd},
		"hook":        {req: engine.Request{Temperature: 1, TopP: 0.9}, hook: true},
		"all of them": {req: engine.Request{Temperature: 0.9, TopP: 0.95, TopK: 6, MinP: 0.02, RepetitionPenalty: 1.2, LogitBias: map[int32]float64{0: 1}}, allow: odd, hook: true},
	} {
		req := c.req
		want, sure := chain(logits, &req, prompt, completion, nil, c.allow)
		if !sure {
			t.Fatalf("%s: choose other numbers", name)
		}
		if c.hook { // halves even tokens
			req.Hook = func(d *engine.Draw) error {
				for i := range d.Candidates {
					if d.Candidates[i].Token%2 == 0 {
						d.Candidates[i].Weight /= 2
					}
				}
				return nil
			}
			for i := range want {
				if want[i].token%2 == 0 {
					want[i].p /= 2
				}
			}
		}
		at := &Position{History: NewHistory(prompt, completion)}
		if c.allow != nil {
			at.Grammar = &set{ok: c.allow, size: len(logits)}
		}
		chi, freedom, err := chiSquare(logits, rules(t, &req, 42, len(logits)), at, want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Far beyond the 99.9th percentile at any of these degrees of freedom.
		if chi > float64(freedom)+5*math.Sqrt(2*float64(max(1, freedom)))+3 {
			t.Errorf("%s: chi-square %.1f at %d degrees of freedom", name, chi, freedom)
		}
	}
}

func chiSquare(logits []float32, r *Rules, at *Position, want []entry) (chi float64, freedom int, err error) {
	const n = 40_000
	s := New(kernel.Generic(), len(logits))
	counts := map[int32]int{}
	for i := range n {
		at.Step = i
		id, err := s.Pick(logits, r, at)
		if err != nil {
			return 0, 0, err
		}
		counts[id]++
	}
	total := mass(want)
	for _, e := range want {
		expected := n * e.p / total
		seen := float64(counts[e.token])
		delete(counts, e.token)
		if expected < 5 {
			continue
		}
		chi += (seen - expected) * (seen - expected) / expected
		freedom++
	}
	if len(counts) > 0 {
		return 0, 0, errors.New("impossible tokens were drawn")
	}
	return chi, freedom - 1, nil
}
