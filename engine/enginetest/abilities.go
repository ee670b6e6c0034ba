package enginetest

import (
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// need skips a test of what the model under test does not promise.
func (s *suite) need(promised bool, what string) {
	s.Helper()
	s.needGenerate()
	if !promised {
		s.Skip("the model does not promise " + what)
	}
}

// lacks reports whether the engine is known to refuse a field, and holds it to doing so: what it does not honour it must not ignore.
func (s *suite) lacks(field string, req *engine.Request) bool {
	s.Helper()
	if !slices.Contains(s.opt.Unsupported, field) {
		return false
	}
	if r := s.collect(s.ctx, req); !fault.Is(r.err, fault.CodeUnsupported) || fault.Public(r.err).Param() == "" || r.events > 0 {
		s.Errorf("%s is not honoured, so that it must be refused: %d events, %v", field, r.events, r.err)
	}
	return true
}

// unpromised: what a model does not promise is refused, never left out in silence.
func (s *suite) unsupportedFields() {
	s.needGenerate()
	m := s.generate
	for _, c := range []struct {
		promised bool
		field    string
		set      func(*engine.Request)
	}{
		{m.HasFormats, "Format", func(r *engine.Request) { r.Format = &engine.Format{JSONObject: true} }},
		{m.HasTools, "Tools", func(r *engine.Request) { r.Tools = []engine.Tool{{Name: "f"}} }},
		{m.HasHooks, "Hook", func(r *engine.Request) { r.Hook = func(*engine.Draw) error { return nil } }},
		{m.HasSampling, "TopK", func(r *engine.Request) { r.TopK = 3 }},
		{m.HasSampling, "MinTokens", func(r *engine.Request) { r.MinTokens = 3 }},
		{m.HasSampling, "RepetitionPenalty", func(r *engine.Request) { r.RepetitionPenalty = 1.5 }},
		{m.HasSampling, "LogitBias", func(r *engine.Request) { r.LogitBias = map[int32]float64{1: 1} }},
	} {
		req := s.request()
		c.set(req)
		if c.promised {
			continue
		}
		if r := s.collect(s.ctx, req); !fault.Is(r.err, fault.CodeUnsupported) || fault.Public(r.err).Param() == "" || r.events > 0 {
			s.Errorf("%s: %d events, %v", c.field, r.events, r.err)
		}
	}
}

// tokens returns the tokens of a text.
func (s *suite) tokens(text string) []int32 {
	s.Helper()
	s.needGenerate()
	if s.opt.Encode == nil {
		s.Skip("the tokens of the model are not known")
	}
	ids := s.opt.Encode(text)
	if len(ids) == 0 {
		s.Fatalf("%q has no tokens", text)
	}
	return ids
}

// longText is a request whose answer is as free as can be.
func (s *suite) longText() *engine.Request {
	req := s.request()
	req.Messages, req.Prompt = nil, "Once upon a time there was"
	return req
}

func numbered(n uint64) *uint64 { return &n }

// follow puts the parts of calls together and checks their order: a call begins with its ID and name, after the one before it.
func (s *suite) follow(calls map[int][]engine.ToolCall, ev *engine.Event) {
	s.Helper()
	for _, d := range ev.Calls {
		have := calls[ev.Choice]
		switch {
		case d.Index == len(have):
			if d.ID == "" || d.Name == "" || slices.ContainsFunc(have, func(c engine.ToolCall) bool { return c.ID == d.ID }) {
				s.Errorf("call %d begins as %+v, after %+v", d.Index, d, have)
			}
			have = append(have, engine.ToolCall{ID: d.ID, Name: d.Name})
		case d.Index < 0 || d.Index > len(have) || d.ID != "" || d.Name != "":
			s.Fatalf("a part of call %d of %d: %+v", d.Index, len(have), d)
		}
		have[d.Index].Arguments += d.Arguments
		calls[ev.Choice] = have
	}
}
