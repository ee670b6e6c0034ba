package enginetest

import (
	"bytes"
	"math"
	"strings"
	"sync"

	"github.com/sluice-project/sluice/engine"
)

// sampling: where a bound leaves only the likeliest token, no temperature changes the text.
func (s *suite) sampling() {
	s.need(s.generate.HasSampling, "sampling")
	req := s.longText()
	req.MaxTokens = 6
	want := s.ok(req).text[0]
	for name, set := range map[string]func(*engine.Request){
		"TopK": func(r *engine.Request) { r.TopK = 1 },
		"MinP": func(r *engine.Request) { r.MinP = 1 },
		"TopP": func(r *engine.Request) { r.TopP = 1e-6 },
	} {
		hot := s.longText()
		hot.MaxTokens, hot.Temperature, hot.Seed = 6, 1.9, numbered(3)
		set(hot)
		if got := s.ok(hot).text[0]; got != want {
			s.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	wild := 0
	for seed := range uint64(3) { // without a bound it does
		hot := s.longText()
		hot.MaxTokens, hot.Temperature, hot.Seed = 6, 1.9, numbered(seed)
		if s.ok(hot).text[0] != want {
			wild++
		}
	}
	if wild == 0 {
		s.Error("temperature 1.9 draws the likeliest tokens only")
	}
}

// logitBias: a large bias makes a token the only one there is, or one that never comes.
func (s *suite) logitBias() {
	s.need(s.generate.HasSampling, "sampling")
	ids := s.tokens(" the")
	req := s.longText()
	req.MaxTokens, req.LogitBias = 4, map[int32]float64{ids[0]: 100}
	if got, want := s.ok(req).text[0], strings.Repeat(" the", 4); len(ids) == 1 && got != want {
		s.Errorf("forced: %q, want %q", got, want)
	}
	plain := s.longText()
	plain.MaxTokens = 1
	first := s.ok(plain).text[0]
	likeliest := s.tokens(first)
	if len(likeliest) != 1 {
		s.Skipf("the likeliest token %q is not spelled as one", first)
	}
	plain.LogitBias = map[int32]float64{likeliest[0]: -100}
	if got := s.ok(plain).text[0]; got == first {
		s.Errorf("forbidden, and yet %q", got)
	}
}

// penalties: a text that goes round in circles without them does so less with each of them.
func (s *suite) penalties() {
	s.need(s.generate.HasSampling, "sampling")
	ask := func(set func(*engine.Request)) float64 {
		req := s.longText()
		req.Prompt, req.MaxTokens = strings.TrimSpace(strings.Repeat("row, ", 7)), 10
		set(req)
		return repetition(s.ok(req).text[0])
	}
	plain := ask(func(*engine.Request) {})
	if plain < 0.5 {
		s.Skipf("the model repeats %v of the words only", plain)
	}
	for name, set := range map[string]func(*engine.Request){
		"RepetitionPenalty": func(r *engine.Request) { r.RepetitionPenalty = 1.9 },
		"FrequencyPenalty":  func(r *engine.Request) { r.FrequencyPenalty = 2 },
		"PresencePenalty":   func(r *engine.Request) { r.PresencePenalty = 2 },
	} {
		if got := ask(set); got >= plain {
			s.Errorf("%s: %v of the words come again, without it %v", name, got, plain)
		}
	}
}

// repetition is the share of a text's words that stood in it before.
func repetition(text string) float64 {
	words := strings.Fields(text)
	seen := map[string]bool{}
	for _, w := range words {
		seen[w] = true
	}
	return 1 - float64(len(seen))/float64(max(1, len(words)))
}

// minTokens: neither a stop string nor the model's own end ends a choice early.
func (s *suite) minTokens() {
	s.need(s.generate.HasSampling, "sampling")
	req := s.request()
	req.MinTokens = 6
	if s.lacks("MinTokens", req) {
		return
	}
	req.Stop = []string{"e", "a", "o", "i", " "}
	if r := s.ok(req); r.usage.CompletionTokens < 6 {
		s.Errorf("stopped after %d tokens, %q", r.usage.CompletionTokens, r.text[0])
	}
	short := s.request()
	short.Messages[0].Content, short.MaxTokens = "Answer with one word: is the sky blue?", 40
	n := s.ok(short).usage.CompletionTokens
	if n >= 36 {
		s.Skipf("the model answers with %d tokens", n)
	}
	short.MinTokens = n + 4
	if r := s.ok(short); r.usage.CompletionTokens < n+4 {
		s.Errorf("%d tokens, at least %d were asked for", r.usage.CompletionTokens, n+4)
	}
}

// stopBetween finds a stop string that begins in one token and ends in the next, and one that is said only in part.
func (s *suite) stopBetween() {
	s.need(s.generate.HasSampling, "sampling")
	ids := s.tokens(" the")
	if len(ids) != 1 {
		s.Skip("the word is more than one token")
	}
	whole, longer := strings.Repeat(" the", 4), strings.Repeat(" the", 6) // of what only begins a stop string nothing may be lost
	for stop, want := range map[string]string{"e t": " th", whole[2:10]: " t", "e x": whole, longer: whole} {
		req := s.longText()
		req.MaxTokens, req.LogitBias, req.Stop = 4, map[int32]float64{ids[0]: 100}, []string{stop}
		r := s.ok(req)
		finish := engine.FinishStop
		if want == whole {
			finish = engine.FinishLength
		}
		if s.opt.TruncatesTails && want == whole {
			continue
		}
		if r.text[0] != want || r.finish[0] != finish {
			s.Errorf("stop %q: %q (%s), want %q (%s)", stop, r.text[0], r.finish[0], want, finish)
		}
	}
}

// seeds: the same seed gives the same text however busy the engine is, another seed another one.
func (s *suite) seeds() {
	s.need(s.generate.Deterministic, "to be deterministic")
	ask := func(seed uint64) *engine.Request {
		req := s.longText()
		req.Temperature, req.Seed, req.TopP = 1.1, numbered(seed), 0.95
		return req
	}
	alone := s.ok(ask(11)).text[0]
	var wg sync.WaitGroup
	got := make([]result, 6)
	for i := range got {
		wg.Go(func() { got[i] = s.collect(s.ctx, ask(11+uint64(i%3))) })
	}
	wg.Wait()
	other := false
	for i, r := range got {
		if r.err != nil {
			s.Errorf("request %d: %v", i, r.err)
		} else if i%3 == 0 && r.text[0] != alone {
			s.Errorf("request %d: %q, alone %q", i, r.text[0], alone)
		}
		other = other || r.text[0] != alone
	}
	if !other {
		s.Logf("three seeds give one text: %q", alone)
	}
}

// different: choices are drawn each for itself, and the same ones for the same seed.
func (s *suite) different() {
	s.needGenerate()
	req := s.longText()
	req.Choices, req.Temperature, req.Seed = 3, 1.3, numbered(21)
	a := s.ok(req)
	if s.generate.HasSampling && (a.text[0] == a.text[1] || a.text[1] == a.text[2] || a.text[0] == a.text[2]) {
		s.Errorf("choices repeat one another: %q, %q, %q", a.text[0], a.text[1], a.text[2])
	}
	if !s.generate.Deterministic {
		return
	}
	b := s.ok(req)
	for i := range 3 {
		if a.text[i] != b.text[i] {
			s.Errorf("choice %d: %q, then %q", i, a.text[i], b.text[i])
		}
	}
}

// echo: the text begins with the prompt, and log-probabilities with its tokens, of whose first one nothing is known.
func (s *suite) echo() {
	s.need(s.generate.HasSampling, "sampling")
	req := s.longText()
	req.Echo, req.MaxTokens, req.Choices = true, 3, 2
	if s.lacks("Echo", req) {
		return
	}
	for _, top := range []int{-1, 0, 2} {
		req.Logprobs = top
		if top >= 0 && !s.generate.HasLogprobs {
			return
		}
		r := s.ok(req)
		for i := range 2 {
			if !strings.HasPrefix(r.text[i], req.Prompt) || r.text[i] == req.Prompt {
				s.Errorf("choice %d: %q", i, r.text[i])
			}
			if top >= 0 {
				s.echoed(r, i)
			}
		}
	}
}

func (s *suite) echoed(r result, choice int) {
	s.Helper()
	lps := r.logprobs[choice]
	var spelled bytes.Buffer
	for i, lp := range lps {
		spelled.Write(lp.Bytes)
		if math.IsNaN(lp.Logprob) != (i == 0) || lp.Logprob > 0 {
			s.Errorf("token %d of an echoed prompt: %+v", i, lp)
		}
	}
	if len(lps) < r.usage.PromptTokens || !strings.HasPrefix(spelled.String(), r.text[choice]) {
		s.Errorf("%d log-probabilities of %d prompt tokens spell %q, the text is %q", len(lps), r.usage.PromptTokens, spelled.String(), r.text[choice])
	}
}

// alternatives are a part of a distribution: ordered, in sum at most one, with the chosen token among them or below them all.
func (s *suite) alternatives() {
	s.need(s.generate.HasLogprobs, "log-probabilities")
	for _, top := range []int{1, 20} {
		req := s.longText()
		req.Logprobs, req.Temperature, req.Seed, req.MaxTokens = top, 1.5, numbered(9), 6
		for _, lp := range s.ok(req).logprobs[0] {
			sum, among := 0.0, false
			for k, a := range lp.Top {
				sum += math.Exp(a.Logprob)
				among = among || bytes.Equal(a.Bytes, lp.Bytes)
				if k > 0 && a.Logprob > lp.Top[k-1].Logprob || a.Top != nil {
					s.Errorf("alternatives out of order: %+v", lp.Top)
				}
			}
			if len(lp.Top) != top {
				s.Fatalf("%d alternatives, %d were asked for", len(lp.Top), top)
			}
			if sum > 1+1e-4 || !among && lp.Logprob > lp.Top[top-1].Logprob+1e-6 {
				s.Errorf("alternatives sum to %v; chosen %v, among them: %v, the last has %v", sum, lp.Logprob, among, lp.Top[top-1].Logprob)
			}
		}
	}
}
