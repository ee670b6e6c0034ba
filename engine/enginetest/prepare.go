package enginetest

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// Ask has an engine prepare a request and runs the prompt: for tests and measurements. What governs a request stands between the two.
func Ask(ctx context.Context, e engine.Engine, req *engine.Request) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		p, err := e.Prepare(ctx, req)
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		for ev, err := range e.Generate(ctx, p) {
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Embed has an engine prepare a request for vectors and runs the prompt, as Ask does.
func Embed(ctx context.Context, e engine.Engine, req *engine.EmbedRequest) (*engine.Embeddings, error) {
	p, err := e.Prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	return e.Embed(ctx, p)
}

// Score has an engine prepare a request for scores and runs the prompt, as Ask does.
func Score(ctx context.Context, e engine.Engine, req *engine.ScoreRequest) (*engine.Scores, error) {
	p, err := e.Prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	return e.Score(ctx, p)
}

// prepare fails unless the engine prepares req, and checks what holds for every prompt.
func (s *suite) prepare(req *engine.Request) *engine.Prompt {
	s.Helper()
	before := *req
	before.Messages, before.Segments = slices.Clone(req.Messages), slices.Clone(req.Segments)
	p, err := s.e.Prepare(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	if req.Hook == nil && !reflect.DeepEqual(*req, before) { // functions are never equal
		s.Errorf("the caller's request was changed from %+v to %+v", before, *req)
	}
	if p.SegmentsKept < 0 || p.SegmentsKept > len(req.Segments) || p.Tokens < 1 || p.Request.Segments != nil {
		s.Fatalf("%d tokens, %d of %d segments kept, %d left", p.Tokens, p.SegmentsKept, len(req.Segments), len(p.Request.Segments))
	}
	if whole := s.generate.ContextTokens; whole > 0 && (p.Tokens > whole || p.Exact && (p.Tokens == whole || p.Request.MaxTokens < 1 || p.Request.MaxTokens > whole-p.Tokens)) {
		s.Errorf("%d tokens of prompt and %d of completion in a context of %d", p.Tokens, p.Request.MaxTokens, whole)
	}
	if req.MaxTokens > 0 && (p.Request.MaxTokens < 1 || p.Request.MaxTokens > req.MaxTokens) {
		s.Errorf("%d tokens for the completion, asked for were %d", p.Request.MaxTokens, req.MaxTokens)
	}
	if len(req.Messages) > 0 {
		want := slices.Clone(req.Messages)
		last := len(want) - 1
		for i, m := range want {
			if m.Role == "user" {
				last = i
			}
		}
		want[last].Content = strings.Join(req.Segments[:p.SegmentsKept], "") + want[last].Content
		if !reflect.DeepEqual(p.Request.Messages, want) {
			s.Errorf("with %d segments the messages are %+v, want %+v", p.SegmentsKept, p.Request.Messages, want)
		}
	}
	return p
}

// prepared: a prompt is as long as what is used of it, and bounds the completion.
func (s *suite) prepared() {
	s.needGenerate()
	raw := s.request()
	raw.Messages, raw.Prompt = nil, "Once upon a time there was"
	raw.Segments = []string{" a river"} // which need messages
	for _, req := range []*engine.Request{s.request(), raw} {
		for _, asked := range []int{0, 3, 1 << 30} {
			req.MaxTokens = asked
			p := s.prepare(req)
			if whole := s.generate.ContextTokens; p.Exact && asked != 3 && p.Request.MaxTokens != whole-p.Tokens {
				s.Errorf("asked for %d: %d tokens for the completion behind %d of %d", asked, p.Request.MaxTokens, p.Tokens, whole)
			}
			if p.SegmentsKept != 0 || p.Request.Prompt != req.Prompt || len(p.Request.Messages) != len(req.Messages) {
				s.Errorf("prepared %+v of %+v", p.Request, req)
			}
		}
		req.MaxTokens = 3
		p := s.prepare(req)
		if used := s.ok(req).usage.PromptTokens; p.Tokens < used || p.Exact && p.Tokens != used {
			s.Errorf("Prepare said %d (exact: %v), usage says %d", p.Tokens, p.Exact, used)
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.e.Prepare(ctx, s.request()); !errors.Is(err, context.Canceled) {
		s.Errorf("with a cancelled context: %v", err)
	}
	long := s.request()
	if long.Messages[0].Content = strings.Repeat("river ", 2*s.generate.ContextTokens); s.generate.ContextTokens == 0 {
		return
	}
	p, err := s.e.Prepare(s.ctx, long)
	if err == nil && (p.Exact || p.Tokens > s.generate.ContextTokens) || err != nil && (!fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "messages") {
		s.Errorf("a long prompt: %+v, %v", p, err)
	}
}

// passages are segments of different lengths.
func (s *suite) passages() *engine.Request {
	req := s.request()
	req.Messages = append([]engine.Message{{Role: "system", Content: "Answer from these passages."}}, req.Messages...)
	for i, text := range []string{"The river rises in spring.", "The town lies beside it; its mill is old.", "说明：河水上涨。", "No boat has come for years, and the bridge is closed."} {
		req.Segments = append(req.Segments, "<passage number=\""+string(rune('1'+i))+"\">\n"+text+"\n</passage>\n\n")
	}
	return req
}

// segments: the longest prefix that fits is kept, and nothing of the others.
func (s *suite) segments() {
	s.needGenerate()
	req := s.passages()
	req.SegmentTokens = 1
	none := s.prepare(req)
	if none.SegmentsKept != 0 {
		s.Fatalf("%d segments in one token", none.SegmentsKept)
	}
	tokens := []int{none.Tokens} // by the number of segments
	for n := 1; n <= len(req.Segments); n++ {
		fewer := *req
		fewer.Segments, fewer.SegmentTokens = req.Segments[:n], 0
		p := s.prepare(&fewer)
		if p.SegmentsKept != n || p.Tokens <= tokens[n-1] {
			s.Fatalf("%d of %d segments kept, %d tokens after %d", p.SegmentsKept, n, p.Tokens, tokens[n-1])
		}
		tokens = append(tokens, p.Tokens)
	}
	for n := range tokens { // as many tokens as n segments take, and one fewer
		for _, short := range []int{0, 1} {
			want, limit := n-short, tokens[n]-tokens[0]-short
			if limit < 1 {
				continue
			}
			req.SegmentTokens = limit
			if p := s.prepare(req); p.SegmentsKept != want || p.Tokens != tokens[want] {
				s.Errorf("%d tokens: %d segments kept, %d tokens in all; want %d, %d", limit, p.SegmentsKept, p.Tokens, want, tokens[want])
			}
		}
	}
	req.SegmentTokens = 0
	if r := s.ok(req); r.usage.PromptTokens > tokens[len(req.Segments)] || none.Exact && r.usage.PromptTokens != tokens[len(req.Segments)] {
		s.Errorf("usage says %d, Prepare said %d", r.usage.PromptTokens, tokens[len(req.Segments)])
	}
	// A long one in the middle ends the prefix, though the next would fit.
	req.SegmentTokens = tokens[2] - tokens[0]
	req.Segments[1] = strings.Repeat(req.Segments[1], 20)
	if p := s.prepare(req); p.SegmentsKept != 1 || p.Tokens != tokens[1] {
		s.Errorf("a segment that does not fit: %d kept, %d tokens, want %d", p.SegmentsKept, p.Tokens, tokens[1])
	}
}

// segmentRoom: segments take half of the context at most, and leave room for the completion where the engine knows how much there is.
func (s *suite) segmentRoom() {
	s.needGenerate()
	whole := s.generate.ContextTokens
	if whole == 0 {
		s.Skip("the context length is unknown")
	}
	req := s.passages()
	req.Segments, req.SegmentTokens = slices.Repeat(req.Segments[:1], whole), 1
	base := s.prepare(req)
	req.SegmentTokens = 0
	p := s.prepare(req)
	each := (p.Tokens - base.Tokens) / max(1, p.SegmentsKept)
	if taken := p.Tokens - base.Tokens; taken > whole/2 || taken+each <= whole/2 {
		s.Errorf("%d segments take %d of %d tokens, %d each", p.SegmentsKept, taken, whole, each)
	}
	if !p.Exact {
		return
	}
	req.SegmentTokens = 1
	for base = s.prepare(req); base.Tokens < whole*5/8; base = s.prepare(req) {
		req.Messages[1].Content += strings.Repeat(" river", whole/16)
	}
	req.SegmentTokens = 0
	p = s.prepare(req)
	if left := whole - p.Tokens; left < 1 || left > each {
		s.Errorf("%d segments of %d tokens leave room for %d", p.SegmentsKept, each, left)
	}
	req.MaxTokens = 0
	if r := s.ok(req); r.usage.PromptTokens != p.Tokens || r.usage.CompletionTokens > whole-p.Tokens {
		s.Errorf("used %+v of %d", r.usage, whole)
	}
}

// shared: a prompt is run more than once, at the same time, and by engines that have not prepared it.
func (s *suite) shared() {
	s.needGenerate()
	req := s.passages()
	p := s.prepare(req)
	bare, foreign := *p, *p
	bare.Prepared, foreign.Prepared = nil, &s
	want := s.run(s.ctx, p)
	if want.err != nil {
		s.Fatal(want.err)
	}
	got := make([]result, 4)
	var wg sync.WaitGroup
	for i, prompt := range []*engine.Prompt{p, p, &bare, &foreign} {
		wg.Go(func() { got[i] = s.run(s.ctx, prompt) })
	}
	wg.Wait()
	for i, r := range got {
		if fault.Is(r.err, fault.CodeEngineOverloaded) {
			continue
		}
		if r.err != nil || r.usage == nil || i < 2 && (r.usage.PromptTokens != want.usage.PromptTokens || s.generate.Deterministic && r.text[0] != want.text[0]) {
			s.Errorf("%d: %q, %+v, %v; the first was %q, %+v", i, r.text[0], r.usage, r.err, want.text[0], want.usage)
		}
	}
	if again := s.prepare(req); again.Tokens != p.Tokens {
		s.Errorf("prepared again %d tokens, at first %d", again.Tokens, p.Tokens)
	}
}

// preparedInputs: the prompt of texts is as long as what is used of them, runs as often as wanted and is not bound to who prepared it.
func (s *suite) preparedInputs() {
	check := func(kind string, w engine.Work, run func(*engine.Prompt) (int, error)) {
		p, err := s.e.Prepare(s.ctx, w)
		if err != nil {
			s.Fatal(err)
		}
		bare, foreign := *p, *p
		bare.Prepared, foreign.Prepared = nil, &s
		first := 0
		for i, prompt := range []*engine.Prompt{p, p, &bare, &foreign} {
			got, err := run(prompt)
			if err != nil || p.Tokens < got || p.Exact && p.Tokens != got || p.Request != nil || p.SegmentsKept != 0 {
				s.Fatalf("%s: prepared %+v, used %d, %v", kind, p, got, err)
			}
			if i == 0 {
				first = got
			} else if got != first {
				s.Errorf("%s, run %d: %d tokens, at first %d", kind, i+1, got, first)
			}
		}
	}
	if s.opt.Embed != "" {
		req := &engine.EmbedRequest{Model: s.opt.Embed, Input: []string{"the river rises in spring", "银行账单", "x"}, Role: engine.RoleQuery}
		check("vectors", req, func(p *engine.Prompt) (int, error) {
			out, err := s.e.Embed(s.ctx, p)
			if err != nil {
				return 0, err
			}
			if len(out.Vectors) != len(req.Input) || p.Embed == nil {
				s.Errorf("%d vectors of %+v", len(out.Vectors), p)
			}
			return out.PromptTokens, nil
		})
		if whole := s.embedder.ContextTokens; whole > 0 {
			p, err := s.e.Prepare(s.ctx, &engine.EmbedRequest{Model: s.opt.Embed, Input: []string{"a", strings.Repeat("river ", 2*whole)}})
			if err == nil && p.Exact || err != nil && (!fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "input[1]") {
				s.Errorf("a text that is too long was prepared: %+v, %v", p, err)
			}
		}
	}
	if s.opt.Score != "" {
		req := &engine.ScoreRequest{Model: s.opt.Score, Query: "river flood", Documents: []string{"the river", "a ledger of the town bank", "洪水"}}
		check("scores", req, func(p *engine.Prompt) (int, error) {
			out, err := s.e.Score(s.ctx, p)
			if err != nil {
				return 0, err
			}
			if len(out.Scores) != len(req.Documents) || p.Score == nil {
				s.Errorf("%d scores of %+v", len(out.Scores), p)
			}
			return out.PromptTokens, nil
		})
	}
}

// otherWork: a prompt that is given to the method of another kind of work is refused.
func (s *suite) otherWork() {
	p := &engine.Prompt{}
	for ev, err := range s.e.Generate(s.ctx, p) {
		if !errors.Is(err, engine.ErrOtherWork) {
			s.Errorf("generate: %+v, %v", ev, err)
		}
	}
	if _, err := s.e.Embed(s.ctx, p); !errors.Is(err, engine.ErrOtherWork) {
		s.Errorf("embed: %v", err)
	}
	if _, err := s.e.Score(s.ctx, p); !errors.Is(err, engine.ErrOtherWork) {
		s.Errorf("score: %v", err)
	}
	if _, err := s.e.Prepare(s.ctx, nil); !errors.Is(err, engine.ErrOtherWork) {
		s.Errorf("prepare nothing: %v", err)
	}
}
