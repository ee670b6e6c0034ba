package enginetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// Options tell the suite which models of the engine under test to use.
type Options struct {
	Generate engine.ModelID // a model that generates; "" skips these tests
	Embed    engine.ModelID // a model that embeds; "" skips these tests
	Score    engine.ModelID // a model that scores; "" skips these tests
	Adapter  engine.ModelID // an adapter of Generate that changes its answers; "" skips these tests
	// Ask is a message the model answers with at least a dozen tokens; "" means a question in English.
	Ask string
	// Encode returns the tokens of a text in the model that generates; nil skips tests that name tokens.
	Encode func(text string) []int32
	// Special is the text of a token with a meaning of its own, such as the end of a turn: in a caller's text it has none. "" skips.
	Special string
	// Unsupported names what the engine refuses with CodeUnsupported although a flag of the model stands for it: fields of engine.Request
	// and engine.Format, such as "Regex".
	Unsupported []string
	// TruncatesTails: what only begins a stop string is missing at the end of a text.
	TruncatesTails bool
	// Roles: the model that embeds tells queries from passages.
	Roles bool
	// OwnFormats: the engine holds answers to formats and calls itself: a required call begins at the first token, and costly formats
	// take bounded time and memory of this process.
	OwnFormats bool
	// PrefixCache: the engine keeps what it computed of prompts, for their tenant alone, and says so in Usage.CachedTokens.
	PrefixCache bool
	// Limit is the time one test may take; 0 means 60 s.
	Limit time.Duration
}

// Run holds an engine to the contract in package engine. open returns a fresh engine; Run closes it.
func Run(t *testing.T, open func(t *testing.T) (engine.Engine, Options)) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"models", (*suite).models},
		{"stream shape", (*suite).shape},
		{"raw prompt", (*suite).rawPrompt},
		{"choices", (*suite).choices},
		{"whole answers", (*suite).whole},
		{"max tokens", (*suite).maxTokens},
		{"stop strings", (*suite).stop},
		{"deterministic", (*suite).deterministic},
		{"logprobs", (*suite).logprobs},
		{"sampling", (*suite).sampling},
		{"logit bias", (*suite).logitBias},
		{"penalties", (*suite).penalties},
		{"min tokens", (*suite).minTokens},
		{"stop between tokens", (*suite).stopBetween},
		{"seeds under load", (*suite).seeds},
		{"different choices", (*suite).different},
		{"echo", (*suite).echo},
		{"alternatives", (*suite).alternatives},
		{"formats", (*suite).formats},
		{"invalid formats", (*suite).invalidFormats},
		{"costly formats", (*suite).costlyFormats},
		{"tools", (*suite).tools},
		{"turns of tools", (*suite).toolTurns},
		{"forged tokens", (*suite).forged},
		{"hooks", (*suite).hooks},
		{"watermarks", (*suite).watermarks},
		{"what is not promised", (*suite).unsupportedFields},
		{"classes", (*suite).classes},
		{"deadlines", (*suite).deadlines},
		{"tenants", (*suite).tenants},
		{"adapter", (*suite).adapter},
		{"cancel anywhere", (*suite).cancelAnywhere},
		{"slow reader", (*suite).slowReader},
		{"unknown model", (*suite).unknownModel},
		{"context overflow", (*suite).overflow},
		{"prepare", (*suite).prepared},
		{"segments", (*suite).segments},
		{"room for segments", (*suite).segmentRoom},
		{"prompts are shared", (*suite).shared},
		{"break stops", (*suite).breakStops},
		{"cancel stops", (*suite).cancelStops},
		{"cancelled before", (*suite).cancelledBefore},
		{"concurrency", (*suite).concurrency},
		{"embed", (*suite).embed},
		{"embed cancelled", (*suite).embedCancelled},
		{"roles and dimensions", (*suite).embedShapes},
		{"odd inputs", (*suite).embedOdd},
		{"scores", (*suite).scores},
		{"odd documents", (*suite).scoreOdd},
		{"prepare inputs", (*suite).preparedInputs},
		{"other work", (*suite).otherWork},
		{"tokens", (*suite).tokenIDs},
		{"text of tokens", (*suite).detokenize},
		{"close", (*suite).close},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, opt := open(t)
			t.Cleanup(func() { _ = e.Close() })
			if opt.Limit == 0 {
				opt.Limit = time.Minute
			}
			if opt.Ask == "" {
				opt.Ask = "Tell me a short story about a river and the town beside it."
			}
			ctx, cancel := context.WithTimeout(t.Context(), opt.Limit)
			defer cancel()
			s := &suite{T: t, e: e, opt: opt, ctx: ctx}
			s.load()
			c.test(s)
		})
	}
}

type suite struct {
	*testing.T
	e        engine.Engine
	opt      Options
	ctx      context.Context //nolint:containedctx // the context of one test
	all      []engine.Model
	generate engine.Model
	embedder engine.Model
	scorer   engine.Model
}

func (s *suite) load() {
	s.Helper()
	all, err := s.e.Models(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	s.all = all
	for _, m := range all {
		if m.ID == s.opt.Generate {
			s.generate = m
		}
		if m.ID == s.opt.Embed {
			s.embedder = m
		}
		if m.ID == s.opt.Score {
			s.scorer = m
		}
	}
}

func (s *suite) needGenerate() {
	s.Helper()
	if s.opt.Generate == "" {
		s.Skip("the engine under test does not generate")
	}
}

// request is a greedy question with a small answer.
func (s *suite) request() *engine.Request {
	return &engine.Request{
		Model: s.opt.Generate, Messages: []engine.Message{{Role: "user", Content: s.opt.Ask}}, MaxTokens: 12, Logprobs: -1,
	}
}

// result is a collected stream.
type result struct {
	text     map[int]string
	finish   map[int]engine.Finish
	stopped  map[int]int // StoppedBy
	logprobs map[int][]engine.TokenLogprob
	calls    map[int][]engine.ToolCall
	usage    *engine.Usage
	marking  *engine.Marking
	events   int
	err      error
}

// collect prepares and runs req and checks everything the contract says about the order of events.
func (s *suite) collect(ctx context.Context, req *engine.Request) result {
	s.Helper()
	return s.read(req, Ask(ctx, s.e, req))
}

// run is collect for a prompt.
func (s *suite) run(ctx context.Context, p *engine.Prompt) result {
	s.Helper()
	return s.read(p.Request, s.e.Generate(ctx, p))
}

func (s *suite) read(req *engine.Request, events iter.Seq2[engine.Event, error]) result {
	s.Helper()
	r := result{text: map[int]string{}, finish: map[int]engine.Finish{}, stopped: map[int]int{}, logprobs: map[int][]engine.TokenLogprob{}, calls: map[int][]engine.ToolCall{}}
	more := false
	defer func() {
		if more {
			s.Error("an event said that there is more, and was the last")
		}
	}()
	for ev, err := range events {
		if r.err != nil || r.usage != nil {
			s.Fatal("an event after the last one")
		}
		more = ev.More
		if err != nil {
			if fmt.Sprint(ev) != fmt.Sprint(engine.Event{}) {
				s.Errorf("the event beside an error must be zero, got %+v", ev)
			}
			r.err = err
			continue
		}
		r.events++
		if ev.Choice < 0 || ev.Choice >= max(1, req.Choices) {
			s.Fatalf("choice %d", ev.Choice)
		}
		if r.finish[ev.Choice] != engine.FinishNone && (ev.Text != "" || len(ev.Calls) > 0 || ev.Finish != engine.FinishNone) {
			s.Fatalf("choice %d goes on after its finish", ev.Choice)
		}
		if !utf8.ValidString(ev.Text) {
			s.Errorf("text %q is not UTF-8", ev.Text)
		}
		r.text[ev.Choice] += ev.Text
		r.logprobs[ev.Choice] = append(r.logprobs[ev.Choice], ev.Logprobs...)
		s.follow(r.calls, &ev)
		if ev.Finish != engine.FinishNone {
			r.finish[ev.Choice], r.stopped[ev.Choice] = ev.Finish, ev.StoppedBy
		}
		r.usage, r.marking = ev.Usage, ev.Marking
		if has := req.Watermark != nil && ev.Usage != nil; has != (ev.Marking != nil) {
			s.Errorf("the marking is %+v, the usage %v", ev.Marking, ev.Usage)
		}
	}
	return r
}

// ok collects req and fails unless it ended well.
func (s *suite) ok(req *engine.Request) result {
	s.Helper()
	r := s.collect(s.ctx, req)
	if r.err != nil {
		s.Fatal(r.err)
	}
	if r.usage == nil {
		s.Fatal("the stream ended without usage")
	}
	for i := range max(1, req.Choices) {
		f := r.finish[i]
		if f != engine.FinishStop && f != engine.FinishLength && f != engine.FinishTools {
			s.Errorf("choice %d: finish %q", i, f)
		}
		if f != engine.FinishLength && (f == engine.FinishTools) != (len(r.calls[i]) > 0) {
			s.Errorf("choice %d: finish %q with %d calls", i, f, len(r.calls[i]))
		}
	}
	return r
}

func (s *suite) models() {
	for i, m := range s.all {
		if m.ID == "" || i > 0 && s.all[i-1].ID >= m.ID {
			s.Errorf("models must be ordered by ID, without doubles: %v", s.all)
		}
		if m.CanEmbed != (m.EmbedDim > 0) {
			s.Errorf("%s: CanEmbed and EmbedDim disagree", m.ID)
		}
		if !m.CanEmbed && !m.CanGenerate && !m.CanScore {
			s.Errorf("%s can do nothing", m.ID)
		}
	}
	if s.opt.Generate != "" && !s.generate.CanGenerate {
		s.Errorf("%s is not listed as generating", s.opt.Generate)
	}
	if s.opt.Embed != "" && !s.embedder.CanEmbed {
		s.Errorf("%s is not listed as embedding", s.opt.Embed)
	}
	if s.opt.Score != "" && !s.scorer.CanScore {
		s.Errorf("%s is not listed as scoring", s.opt.Score)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.e.Models(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.Errorf("Models with a cancelled context: %v", err)
	}
}

func (s *suite) shape() {
	s.needGenerate()
	req := s.request()
	r := s.ok(req)
	if r.text[0] == "" {
		s.Error("no text")
	}
	u := r.usage
	if u.PromptTokens <= 0 || u.CompletionTokens <= 0 || u.CachedTokens < 0 || u.CachedTokens > u.PromptTokens || u.Model == "" {
		s.Errorf("usage %+v", u)
	}
	if p := s.prepare(req); p.Tokens < u.PromptTokens || p.Exact && p.Tokens != u.PromptTokens {
		s.Errorf("Prepare said %d (exact: %v), usage says %d", p.Tokens, p.Exact, u.PromptTokens)
	}
}

func (s *suite) rawPrompt() {
	s.needGenerate()
	req := s.request()
	req.Messages, req.Prompt = nil, "Once upon a time there was"
	r := s.ok(req)
	if r.usage.PromptTokens <= 0 || r.text[0] == "" {
		s.Errorf("usage %+v, %d bytes", r.usage, len(r.text[0]))
	}
}

func (s *suite) choices() {
	s.needGenerate()
	req := s.request()
	req.Choices = 3
	r := s.ok(req)
	for i := range 3 {
		if r.text[i] == "" {
			s.Errorf("choice %d is empty", i)
		}
	}
	if r.usage.CompletionTokens < 3 {
		s.Errorf("usage must count all choices: %+v", r.usage)
	}
}

// whole: an answer that nobody reads before it is complete says the same and counts the same.
func (s *suite) whole() {
	s.needGenerate()
	for _, choices := range []int{1, 2} {
		pieces := s.request()
		pieces.Choices = choices
		if s.generate.HasLogprobs {
			pieces.Logprobs = 2
		}
		whole := *pieces
		whole.NonStreaming = true
		p, w := s.ok(pieces), s.ok(&whole)
		for i := range choices {
			if len(w.logprobs[i]) != len(p.logprobs[i]) || w.finish[i] != p.finish[i] || s.generate.Deterministic && w.text[i] != p.text[i] {
				s.Errorf("choice %d: whole %q (%s, %d log-probabilities), in pieces %q (%s, %d)",
					i, w.text[i], w.finish[i], len(w.logprobs[i]), p.text[i], p.finish[i], len(p.logprobs[i]))
			}
		}
		if !p.usage.Estimated && (w.usage.PromptTokens != p.usage.PromptTokens || w.usage.CompletionTokens != p.usage.CompletionTokens) {
			s.Errorf("whole used %+v, in pieces %+v", w.usage, p.usage)
		}
	}
}

func (s *suite) maxTokens() {
	s.needGenerate()
	for _, n := range []int{1, 5} {
		req := s.request()
		req.MaxTokens = n
		r := s.ok(req)
		if r.usage.CompletionTokens > n || r.finish[0] == engine.FinishLength && r.usage.CompletionTokens != n && !r.usage.Estimated {
			s.Errorf("max %d: finish %q with %d tokens", n, r.finish[0], r.usage.CompletionTokens)
		}
	}
}

// stop cuts a known greedy answer at a string taken from its own middle, and at one that spans pieces.
func (s *suite) stop() {
	s.needGenerate()
	if !s.generate.Deterministic {
		s.Skip("needs a deterministic model")
	}
	full := s.ok(s.request()).text[0]
	runes := []rune(full)
	if len(runes) < 8 {
		s.Skipf("the answer has %d characters only", len(runes))
	}
	for _, width := range []int{1, 4} {
		stop := string(runes[len(runes)/2 : len(runes)/2+width])
		req := s.request()
		req.Stop = []string{"\x00never\x00", stop}
		r := s.ok(req)
		want := full[:strings.Index(full, stop)]
		if r.text[0] != want || r.finish[0] != engine.FinishStop {
			s.Errorf("stop %q: got %q (%s), want %q", stop, r.text[0], r.finish[0], want)
		}
		if by := r.stopped[0]; by != 0 && by != 2 { // many servers do not tell
			s.Errorf("stop %q: stopped by %d, want 2", stop, by)
		}
	}
}

func (s *suite) deterministic() {
	s.needGenerate()
	if !s.generate.Deterministic {
		s.Skip("the model does not promise it")
	}
	seed := uint64(7)
	for _, temperature := range []float64{0, 0.8} {
		req := s.request()
		req.Temperature, req.Seed = temperature, &seed
		a, b := s.ok(req), s.ok(req)
		if a.text[0] != b.text[0] {
			s.Errorf("temperature %v: %q, then %q", temperature, a.text[0], b.text[0])
		}
	}
}

func (s *suite) logprobs() {
	s.needGenerate()
	if !s.generate.HasLogprobs {
		s.Skip("the model has none")
	}
	req := s.request()
	if r := s.ok(req); len(r.logprobs[0]) > 0 {
		s.Error("log-probabilities that nobody asked for")
	}
	for _, top := range []int{0, 3} {
		req.Logprobs = top
		r := s.ok(req)
		var text strings.Builder
		for _, lp := range r.logprobs[0] {
			text.Write(lp.Bytes)
			if lp.Logprob > 0 || math.IsNaN(lp.Logprob) || len(lp.Top) != top {
				s.Fatalf("top %d: %+v", top, lp)
			}
			for k := 1; k < len(lp.Top); k++ {
				if lp.Top[k].Logprob > lp.Top[k-1].Logprob || lp.Top[k].Top != nil {
					s.Errorf("alternatives must be ordered, best first, without alternatives: %+v", lp.Top)
				}
			}
			if top > 0 && lp.Top[0].Logprob < lp.Logprob-1e-4 {
				s.Errorf("an alternative must be at least as likely as the chosen token: %+v", lp)
			}
		}
		// A special token that ends the answer may have an entry without being part of the text.
		if !strings.HasPrefix(text.String(), strings.TrimRight(r.text[0], "\uFFFD")) {
			s.Errorf("tokens spell %q, the text is %q", text.String(), r.text[0])
		}
	}
}

func (s *suite) unknownModel() {
	s.needGenerate()
	req := s.request()
	req.Model = "no-such-model"
	if r := s.collect(s.ctx, req); !fault.Is(r.err, fault.CodeModelNotFound) || r.events > 0 {
		s.Errorf("Generate: %v", r.err)
	}
	if _, err := s.e.Prepare(s.ctx, req); !fault.Is(err, fault.CodeModelNotFound) {
		s.Errorf("Prepare: %v", err)
	}
	known := s.prepare(s.request())
	known.Request.Model = "no-such-model"
	for _, err := range s.e.Generate(s.ctx, known) {
		if !fault.Is(err, fault.CodeModelNotFound) {
			s.Errorf("Generate with a prompt: %v", err)
		}
	}
	if _, err := Embed(s.ctx, s.e, &engine.EmbedRequest{Model: "no-such-model", Input: []string{"a"}}); !fault.Is(err, fault.CodeModelNotFound) {
		s.Errorf("Embed: %v", err)
	}
}

func (s *suite) overflow() {
	s.needGenerate()
	if s.generate.ContextTokens == 0 {
		s.Skip("the context length is unknown")
	}
	req := s.request()
	req.Messages[0].Content = strings.Repeat("river ", 2*s.generate.ContextTokens)
	r := s.collect(s.ctx, req)
	if !fault.Is(r.err, fault.CodeContextLength) || r.events > 0 {
		s.Errorf("%d events, error %v", r.events, r.err)
	}
}

func (s *suite) breakStops() {
	s.needGenerate()
	req := s.request()
	req.MaxTokens = 200
	first := func() {
		for _, err := range Ask(s.ctx, s.e, req) {
			if err != nil {
				s.Error(err)
			}
			break
		}
	}
	first()
	// What the request held is free again: a small engine answers as many more as it likes.
	for range 3 {
		first()
	}
	s.ok(s.request())
}

func (s *suite) cancelStops() {
	s.needGenerate()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	req := s.request()
	req.MaxTokens = 200
	var last error
	after := 0
	finished := false
	for ev, err := range Ask(ctx, s.e, req) {
		if ctx.Err() != nil && err == nil {
			after++
		}
		last = err
		finished = finished || ev.Usage != nil
		cancel()
	}
	if !errors.Is(last, context.Canceled) && !finished {
		s.Errorf("after the cancellation: %v", last)
	}
	if after > 16 {
		s.Errorf("%d events after the cancellation", after)
	}
	s.ok(s.request())
}

func (s *suite) cancelledBefore() {
	s.needGenerate()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	r := s.collect(ctx, s.request())
	if r.events > 0 || !errors.Is(r.err, context.Canceled) {
		s.Errorf("%d events, %v", r.events, r.err)
	}
}

// concurrency runs more requests than a small engine has slots; a refusal must be an honest overload, and with a deterministic
// model every answer equals the lone one.
func (s *suite) concurrency() {
	s.needGenerate()
	want := s.ok(s.request()).text[0]
	const n = 6
	var wg sync.WaitGroup
	results := make([]result, n)
	for i := range n {
		wg.Go(func() { results[i] = s.collect(s.ctx, s.request()) })
	}
	wg.Wait()
	answered := 0
	for i, r := range results {
		switch {
		case fault.Is(r.err, fault.CodeEngineOverloaded):
		case r.err != nil:
			s.Errorf("request %d: %v", i, r.err)
		default:
			answered++
			if s.generate.Deterministic && r.text[0] != want {
				s.Errorf("request %d: %q, alone %q", i, r.text[0], want)
			}
		}
	}
	if answered == 0 {
		s.Error("nobody was answered")
	}
}

func (s *suite) embed() {
	if s.opt.Embed == "" {
		s.Skip("the engine under test does not embed")
	}
	in := []string{"the river rises in spring", "银行账单", "the river rises in spring", "x"}
	got, err := Embed(s.ctx, s.e, &engine.EmbedRequest{Model: s.opt.Embed, Input: in})
	if err != nil {
		s.Fatal(err)
	}
	if len(got.Vectors) != len(in) || got.PromptTokens <= 0 || got.Model == "" {
		s.Fatalf("%d vectors, %d tokens, model %q", len(got.Vectors), got.PromptTokens, got.Model)
	}
	dot := func(a, b []float32) (sum float64) {
		for i := range a {
			sum += float64(a[i]) * float64(b[i])
		}
		return sum
	}
	for i, v := range got.Vectors {
		if len(v) != s.embedder.EmbedDim || math.Abs(dot(v, v)-1) > 1e-3 {
			s.Errorf("vector %d: %d values, squared length %v", i, len(v), dot(v, v))
		}
	}
	if same := dot(got.Vectors[0], got.Vectors[2]); same < 0.999 {
		s.Errorf("equal texts: cosine %v", same)
	}
	if other := dot(got.Vectors[0], got.Vectors[1]); other > 0.99 {
		s.Errorf("different texts: cosine %v", other)
	}
}

func (s *suite) embedCancelled() {
	if s.opt.Embed == "" {
		s.Skip("the engine under test does not embed")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	req := &engine.EmbedRequest{Model: s.opt.Embed, Input: []string{"a"}}
	if _, err := s.e.Prepare(ctx, req); !errors.Is(err, context.Canceled) {
		s.Errorf("prepared: %v", err)
	}
	p, err := s.e.Prepare(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.e.Embed(ctx, p); !errors.Is(err, context.Canceled) {
		s.Errorf("got %v", err)
	}
}

// close holds that requests in flight and later ones end with CodeEngineUnavailable.
func (s *suite) close() {
	s.needGenerate()
	if err := s.e.Close(); err != nil {
		s.Fatal(err)
	}
	if r := s.collect(s.ctx, s.request()); !fault.Is(r.err, fault.CodeEngineUnavailable) || r.events > 0 {
		s.Errorf("after Close: %d events, %v", r.events, r.err)
	}
	if err := s.e.Close(); err != nil {
		s.Errorf("second Close: %v", err)
	}
}
