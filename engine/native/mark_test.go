package native

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native/sample"
	"github.com/sluice-project/sluice/engine/toolcall"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
)

func markKey(t testing.TB, tenant string, p watermark.Params) *watermark.Key {
	t.Helper()
	k, err := watermark.NewKey(watermark.KeyConfig{Secret: []byte("a secret of thirty-two bytes, or"), Tenant: tenant, Epoch: 3, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// markWith is the watermark of a key, as the engine gets it.
func markWith(k *watermark.Key) *engine.Watermark {
	return &engine.Watermark{
		Scheme: string(k.Params().Scheme), Key: k.ID(), Epoch: k.Epoch(), Greedy: k.Greedy(),
		Begin: func(seed uint64, choice int) engine.Marker { return k.Begin(seed, choice).Mark },
	}
}

// A real model's text of 200 tokens is found by its key alone, from the text, and by no other key; without a mark nothing is found.
func TestMarkedTextIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	e := openEngine(t, Config{Concurrency: 4, ContextTokens: 512})
	k := markKey(t, "a", watermark.Params{})
	mine, err1 := watermark.NewDetector(watermark.DetectorConfig{Keys: []*watermark.Key{k}})
	other, err2 := watermark.NewDetector(watermark.DetectorConfig{Keys: []*watermark.Key{markKey(t, "b", watermark.Params{})}})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	answers := make([]collected, 3)
	var wg sync.WaitGroup
	for i, c := range []struct {
		w    *engine.Watermark
		topP float64
	}{{markWith(k), 1}, {markWith(k), 0.9}, {nil, 1}} {
		wg.Go(func() {
			answers[i] = collect(t.Context(), e, &engine.Request{
				Model: smol, Messages: []engine.Message{{Role: "user", Content: "Tell me about the town where you were born."}},
				Temperature: 1, TopP: c.topP, Seed: seed(11), MaxTokens: 200, MinTokens: 200, Logprobs: -1, Watermark: c.w,
			})
		})
	}
	wg.Wait()
	for i, a := range answers {
		if a.err != nil {
			t.Fatal(a.err)
		}
		tokens := e.generators[smol].tokens.Encode(a.texts[0], false)
		with, err1 := mine.Detect(t.Context(), tokens)
		against, err2 := other.Detect(t.Context(), tokens)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		t.Logf("answer %d: %d of %d tokens marked, p %.3g with the key, %.3g with another", i, a.tokensMarked(), a.usage.CompletionTokens, with.P, against.P)
		if against.P < 1e-9 || i == 2 && with.P < 1e-9 {
			t.Errorf("answer %d: p %v with another key, %v with the key", i, against.P, with.P)
		}
		if i == 2 {
			continue
		}
		if with.P > 1e-9 || with.Best == nil || with.Best.Key != k {
			t.Errorf("answer %d: %+v", i, with)
		}
		if m := a.marking; m == nil || !m.Applied || m.Tokens < 150 || m.Key != k.ID() || m.Epoch != 3 || m.Scheme != "gumbel" {
			t.Errorf("%+v", m)
		}
	}
	if answers[2].marking != nil {
		t.Errorf("nobody asked for a watermark: %+v", answers[2].marking)
	}
}

func (c collected) tokensMarked() int {
	if c.marking == nil {
		return 0
	}
	return c.marking.Tokens
}

// At temperature 0 and where a format shapes the answer there is no mark, and not a byte differs.
func TestWatermarkLeavesAlone(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q4_1), Config{})
	w := markWith(markKey(t, "a", watermark.Params{}))
	kgw := markWith(markKey(t, "b", watermark.Params{Scheme: watermark.KGW, Context: 1, Gamma: 0.05, Delta: 20}))
	free := &engine.Format{Regex: "[a-z]{40}"}
	for name, c := range map[string]struct {
		req    engine.Request
		w      *engine.Watermark
		same   bool
		reason engine.MarkReason
	}{
		"temperature 0":         {engine.Request{MaxTokens: 40}, w, true, engine.MarkReasonTemperature},
		"format":                {engine.Request{MaxTokens: 60, Temperature: 1, Format: free}, w, true, engine.MarkReasonStructured},
		"short":                 {engine.Request{MaxTokens: 3, Temperature: 1}, w, true, engine.MarkReasonShort},
		"text":                  {engine.Request{MaxTokens: 40, MinTokens: 40, Temperature: 1}, w, false, ""},
		"temperature 0 and KGW": {engine.Request{MaxTokens: 40, MinTokens: 40}, kgw, false, ""},
	} {
		c.req.Model, c.req.Prompt, c.req.Seed, c.req.Logprobs = tinyID, "something else ", seed(5), -1
		plain := collect(t.Context(), e, &c.req)
		c.req.Watermark = c.w
		got := collect(t.Context(), e, &c.req)
		if got.err != nil || plain.err != nil || got.marking == nil {
			t.Fatalf("%s: %+v, %+v", name, got, plain)
		}
		if m := got.marking; (got.texts[0] == plain.texts[0]) != c.same || m.Reason != c.reason || m.Applied != (c.reason == "") || m.Applied != (m.Tokens > 0) || m.Key != c.w.Key {
			t.Errorf("%s: %q, %+v, without a mark %q", name, got.texts, m, plain.texts)
		}
		if wants := strings.Contains(got.usage.Replay, "."+c.w.Scheme+"-"+c.w.Key+"-3."); wants == c.same && c.reason != engine.MarkReasonShort {
			t.Errorf("%s: replay %q", name, got.usage.Replay)
		}
	}
}

// The same marked answer comes whatever is guessed ahead, how often it was asked and who is answered beside it.
func TestMarkedAnswersReplay(t *testing.T) {
	f := newTiny(gguf.Q4_1)
	plain, guessing := openTiny(t, f, Config{NoSpeculation: true, Threads: 1, Concurrency: 1}), openTiny(t, f, Config{Concurrency: 6})
	for _, w := range []*engine.Watermark{markWith(markKey(t, "a", watermark.Params{})), markWith(markKey(t, "a", watermark.Params{Scheme: watermark.KGW, Context: 2}))} {
		for i := range 6 {
			req := &engine.Request{
				Model: tinyID, Prompt: strings.Repeat(fmt.Sprintf("line %d\n", i), 6), MaxTokens: 80, Seed: seed(uint64(i)), Logprobs: 1,
				Temperature: []float64{0.2, 1}[i%2], Choices: 1 + i%3, Watermark: w, TopK: i % 3 * 20,
			}
			want := collect(t.Context(), plain, req)
			if want.marking == nil || !want.marking.Applied {
				t.Fatalf("%+v, %v", want.marking, want.err)
			}
			for range 3 { // the second time, whole answers are guessed
				got := collect(t.Context(), guessing, req)
				sameAnswers(t, fmt.Sprint(w.Scheme, i), got, want)
				if *got.marking != *want.marking || got.usage.Replay != want.usage.Replay {
					t.Errorf("%s %d: %+v %q, want %+v %q", w.Scheme, i, got.marking, got.usage.Replay, want.marking, want.usage.Replay)
				}
			}
		}
	}
	settled(t, guessing)
	accepted, proposed := 0, 0
	for _, s := range guessing.StepPage(nil, stepLogSize) {
		accepted, proposed = accepted+s.Accepted, proposed+s.Load.Drafts
	}
	t.Logf("%d of %d guesses were right", accepted, proposed)
	if accepted == 0 {
		t.Errorf("%d of %d guesses were right: the test shows nothing", accepted, proposed)
	}
}

// Over the keys, the sampler draws every token with the probability that it has without a mark, whatever narrows the choice.
func TestMarkedTokensKeepTheirProbabilities(t *testing.T) {
	const vocab, draws = 40, 20_000
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(i%7) / 2
	}
	k := markKey(t, "a", watermark.Params{SubKeys: 1 << 16})
	for name, req := range map[string]engine.Request{
		"plain": {Temperature: 0.8}, "top-k": {Temperature: 1.3, TopK: 12}, "top-p and min-p": {Temperature: 1, TopP: 0.9, MinP: 0.1},
		"penalties": {Temperature: 1, FrequencyPenalty: 1, LogitBias: map[int32]float64{6: 1}},
	} {
		rules, err := sample.NewRules(&req, 1, vocab)
		if err != nil {
			t.Fatal(err)
		}
		s := sample.New(kernel.Generic(), vocab)
		text := []int32{1, 13, 13, 4}
		var plain, marked [vocab]float64
		for n := range draws {
			at := &sample.Position{Step: n, Completion: text, History: sample.NewHistory(nil, text)}
			id, err := s.Pick(logits, rules, at)
			if err != nil {
				t.Fatal(err)
			}
			plain[id]++
			at.Mark = &sample.Mark{Marker: k.Begin(uint64(n), 0).Mark}
			if id, err = s.Pick(logits, rules, at); err != nil || at.Mark.Tokens != 1 {
				t.Fatal(at.Mark.Tokens, err)
			}
			marked[id]++
		}
		square, freedom := 0.0, -1.0
		for id := range plain {
			if both := plain[id] + marked[id]; both > 0 {
				square += (plain[id] - marked[id]) * (plain[id] - marked[id]) / both
				freedom++
			}
		}
		if freedom < 5 || square > freedom+5*math.Sqrt(2*freedom) { // beyond five standard deviations
			t.Errorf("%s: chi-square %.1f with %v degrees of freedom", name, square, freedom)
		}
	}
}

// A watermark without a marker is an error, and no answer without a mark.
func TestWatermarkNeedsAMarker(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q4_1), Config{})
	for _, begin := range []func(uint64, int) engine.Marker{nil, func(uint64, int) engine.Marker { return nil }} {
		req := &engine.Request{Model: tinyID, Prompt: "a", MaxTokens: 4, Temperature: 1, Logprobs: -1, Watermark: &engine.Watermark{Key: "k", Begin: begin}}
		if got := collect(t.Context(), e, req); !fault.Is(got.err, fault.CodeInternal) {
			t.Errorf("%+v", got)
		}
	}
}

// Where one candidate alone is left, the answer says so; where no engine that can mark was expected, that.
func TestWhyThereIsNoMark(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q4_1), Config{})
	w := markWith(markKey(t, "a", watermark.Params{}))
	for want, change := range map[engine.MarkReason]func(*engine.Request){
		engine.MarkReasonCertain: func(r *engine.Request) { r.TopK = 1 },
		engine.MarkReasonShort:   func(r *engine.Request) { r.MaxTokens = 3 },
		engine.MarkReasonEngine:  func(r *engine.Request) { r.Watermark = &engine.Watermark{Scheme: "gumbel"} },
	} {
		req := &engine.Request{Model: tinyID, Prompt: "a", MaxTokens: 12, MinTokens: 3, Temperature: 1, TopP: 1, Seed: seed(3), Logprobs: -1, Watermark: w}
		change(req)
		got := collect(t.Context(), e, req)
		if got.err != nil || got.marking == nil || got.marking.Applied || got.marking.Reason != want {
			t.Errorf("%s: %+v, %v", want, got.marking, got.err)
		}
	}
}

// What makes tokens of texts says where they end in the text.
func TestWhereTokensEnd(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q4_1), Config{})
	tokenize := e.Tokenizers()[0]
	tokens, ends := tokenize("abba")
	if len(tokens) == 0 || len(ends) != len(tokens) || ends[len(ends)-1] != 4 {
		t.Errorf("%v end at %v", tokens, ends)
	}
	for i, joined := 0, 0; i < len(tokens); i++ {
		if joined += len(e.generators[tinyID].tokens.Bytes(tokens[i])); joined != ends[i] {
			t.Errorf("token %d ends at %d, not at %d", i, joined, ends[i])
		}
	}
	g := e.generators[tinyID].tokens
	if got := endsIn(g, g.Encode("abba", false), "abb"); got != nil {
		t.Errorf("of another text: %v", got)
	}
}

// The calls of an answer are not marked.
func TestCallsAreNotMarked(t *testing.T) {
	j := &job{marks: []*sample.Mark{{}}, marking: &engine.Marking{Reason: engine.MarkReasonShort}}
	s := &sequence{job: j, mark: j.marks[0], calls: toolcall.Hermes.Parser(toolcall.Options{Names: []string{"f"}})}
	if s.marks() != s.mark || j.marked().Reason != engine.MarkReasonShort {
		t.Error("text before a call is not marked")
	}
	s.calls.Write("I ask. <tool_call>\n{\"name\"")
	if s.marks() != nil || j.marked().Reason != engine.MarkReasonStructured {
		t.Errorf("a call is marked: %+v", j.marked())
	}
	s.calls.Write(": \"f\", \"arguments\": {}}\n</tool_call>\nAnd on.")
	if s.marks() != s.mark {
		t.Error("text behind a call is not marked")
	}
	if s.mark.Certain = 1; j.marked().Reason != engine.MarkReasonStructured {
		t.Errorf("%+v", j.marked())
	}
	if j.shaped = false; j.marked().Reason != engine.MarkReasonCertain {
		t.Errorf("of one candidate alone: %+v", j.marked())
	}
	s.mark.Tokens = 2
	if m := j.marked(); !m.Applied || m.Reason != "" || m.Tokens != 2 {
		t.Errorf("%+v", m)
	}
}
