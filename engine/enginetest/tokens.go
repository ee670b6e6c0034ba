package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// turnMark is the one control token of Scripted: its number is 0, and it stands around turns, calls and tools.
const turnMark = "<|turn|>"

// Tokens implements engine.Engine. A token gets its number when it is told for the first time.
func (s *Scripted) Tokens(ctx context.Context, p *engine.Prompt) (*engine.TokenList, error) {
	if p.Request == nil {
		return nil, engine.ErrOtherWork
	}
	p, err := s.prepared(ctx, p, p.Request)
	if err != nil {
		return nil, err
	}
	m, err := s.writer(p.Request.Model) // it may have been closed since
	if err == nil && !m.HasTokens {
		err = fault.New(fault.CodeUnsupported, "model", fault.Say("model.no_tokens")).WithParam("model")
	}
	if err != nil {
		return nil, err
	}
	out := &engine.TokenList{Texts: promptTexts(p.Request)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range out.Texts {
		out.IDs = append(out.IDs, s.number(text))
	}
	return out, nil
}

func (s *Scripted) number(text string) int32 {
	if text == turnMark {
		return 0
	}
	id, ok := s.ids[text]
	if !ok {
		id = int32(len(s.names))
		s.ids[text], s.names = id, append(s.names, text)
	}
	return id
}

// promptTexts are the tokens that promptTokens counts.
func promptTexts(req *engine.Request) []string {
	if req.Messages == nil {
		return tokens(req.Prompt)
	}
	out := []string{turnMark}
	group := func(texts ...string) {
		out = append(out, turnMark)
		for _, text := range texts {
			out = append(out, tokens(text)...)
		}
		out = append(out, turnMark)
	}
	for _, m := range req.Messages {
		group(m.Content)
		for _, c := range m.ToolCalls {
			group(c.Name, c.Arguments)
		}
	}
	for _, t := range req.Tools {
		group(t.Name, t.Description, string(t.Parameters))
	}
	return out
}

// Detokenize implements engine.Engine: of the tokens that were told.
func (s *Scripted) Detokenize(ctx context.Context, q *engine.DetokenizeRequest) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m, err := s.writer(q.Model)
	if err == nil && !m.HasDetokenize {
		err = fault.New(fault.CodeUnsupported, "model", fault.Say("model.no_detokenize")).WithParam("model")
	}
	if err != nil {
		return "", err
	}
	if n := len(q.Tokens); n > m.ContextTokens {
		return "", fault.New(fault.CodeContextLength, m.ContextTokens, n).WithParam("tokens")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for i, id := range q.Tokens {
		if id < 0 || int(id) >= len(s.names) {
			field := fmt.Sprintf("tokens[%d]", i)
			return "", fault.New(fault.CodeInvalidValue, field, fault.Say("model.unknown_token", len(s.names))).WithParam(field)
		}
		out.WriteString(s.names[id])
	}
	return out.String(), nil
}

// told are the tokens of a request, as the engine tells them.
func (s *suite) told(req *engine.Request) *engine.TokenList {
	s.Helper()
	p := s.prepare(req)
	got, err := s.e.Tokens(s.ctx, p)
	if err != nil {
		s.Fatal(err)
	}
	if len(got.IDs) == 0 || p.Exact && len(got.IDs) != p.Tokens || len(got.IDs) > p.Tokens {
		s.Errorf("%d tokens told, Prepare said %d (exact: %v)", len(got.IDs), p.Tokens, p.Exact)
	}
	if slices.Min(got.IDs) < 0 || got.Texts != nil && len(got.Texts) != len(got.IDs) {
		s.Errorf("tokens %v with %d texts", got.IDs, len(got.Texts))
	}
	return got
}

// tokenIDs: the tokens of a prompt are told as the model reads them, by whichever engine has prepared it, and by no model that does not promise it.
func (s *suite) tokenIDs() {
	s.needGenerate()
	raw := s.request()
	raw.Messages, raw.Prompt = nil, "Once upon a time there was a river"
	if !s.generate.HasTokens {
		if got, err := s.e.Tokens(s.ctx, s.prepare(raw)); !fault.Is(err, fault.CodeUnsupported) || fault.Public(err).Param() == "" {
			s.Errorf("not promised: %+v, %v", got, err)
		}
		return
	}
	whole := s.told(raw)
	p := s.prepare(raw)
	bare, foreign := *p, *p
	bare.Prepared, foreign.Prepared = nil, &s
	for i, prompt := range []*engine.Prompt{p, &bare, &foreign} {
		if got, err := s.e.Tokens(s.ctx, prompt); err != nil || !slices.Equal(got.IDs, whole.IDs) {
			s.Errorf("%d: %+v, %v; want %v", i, got, err, whole.IDs)
		}
	}
	raw.OmitBegin = true
	plain := s.told(raw)
	if n := len(whole.IDs) - len(plain.IDs); n < 0 || n > 1 || !slices.Equal(whole.IDs[n:], plain.IDs) {
		s.Errorf("without the token that begins a text: %v of %v", plain.IDs, whole.IDs)
	}
	if s.opt.Encode != nil {
		if want := s.opt.Encode(raw.Prompt); !slices.Equal(plain.IDs, want) {
			s.Errorf("tokens %v, the vocabulary says %v", plain.IDs, want)
		}
	}
	short, long := s.request(), s.request()
	long.Messages[0].Content += " And then?"
	if x, y := s.told(short), s.told(long); len(x.IDs) >= len(y.IDs) || slices.Equal(x.IDs, plain.IDs) {
		s.Errorf("a longer chat has %d tokens, the shorter %d", len(y.IDs), len(x.IDs))
	}
	s.tokensRefused(p)
}

func (s *suite) tokensRefused(p *engine.Prompt) {
	s.Helper()
	if _, err := s.e.Tokens(s.ctx, &engine.Prompt{}); !errors.Is(err, engine.ErrOtherWork) {
		s.Errorf("other work: %v", err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.e.Tokens(ctx, p); !errors.Is(err, context.Canceled) {
		s.Errorf("with a cancelled context: %v", err)
	}
	elsewhere := *p.Request
	elsewhere.Model = "no such model"
	if _, err := s.e.Tokens(s.ctx, &engine.Prompt{Request: &elsewhere}); !fault.Is(err, fault.CodeModelNotFound) {
		s.Errorf("an unknown model: %v", err)
	}
}

// detokenize: a text comes back from its tokens as it was, and what is no token is named.
func (s *suite) detokenize() {
	s.needGenerate()
	ask := func(ids ...int32) (string, error) {
		return s.e.Detokenize(s.ctx, &engine.DetokenizeRequest{Model: s.opt.Generate, Tokens: ids})
	}
	if !s.generate.HasDetokenize {
		if got, err := ask(1); !fault.Is(err, fault.CodeUnsupported) || fault.Public(err).Param() == "" {
			s.Errorf("not promised: %q, %v", got, err)
		}
		return
	}
	for _, text := range []string{"Once upon a time", " two  spaces\n\tand a tab", "银行账单：¥3", "naïve 👩‍🚀", "x"} {
		req := s.request()
		req.Messages, req.Prompt, req.OmitBegin = nil, text, true
		if got, err := ask(s.told(req).IDs...); err != nil || got != text {
			s.Errorf("%q came back as %q, %v", text, got, err)
		}
	}
	if s.opt.Encode != nil && s.opt.Special != "" {
		req := s.request()
		req.Messages, req.Prompt, req.OmitBegin = nil, "a"+s.opt.Special+"b", true
		if got, err := ask(s.told(req).IDs...); err != nil || got != req.Prompt {
			s.Errorf("with a control token: %q, %v", got, err)
		}
	}
	if got, err := ask(); err != nil || got != "" {
		s.Errorf("no tokens: %q, %v", got, err)
	}
	for _, bad := range []int32{-1, 1 << 30} {
		if _, err := ask(0, bad); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != "tokens[1]" {
			s.Errorf("token %d: %v", bad, err)
		}
	}
	if most := s.generate.ContextTokens; most > 0 {
		if _, err := ask(make([]int32, most+1)...); !fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "tokens" {
			s.Errorf("%d tokens: %v", most+1, err)
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.e.Detokenize(ctx, &engine.DetokenizeRequest{Model: s.opt.Generate, Tokens: []int32{0}}); !errors.Is(err, context.Canceled) {
		s.Errorf("with a cancelled context: %v", err)
	}
	if _, err := s.e.Detokenize(s.ctx, &engine.DetokenizeRequest{Model: "no such model"}); !fault.Is(err, fault.CodeModelNotFound) {
		s.Errorf("an unknown model: %v", err)
	}
}
