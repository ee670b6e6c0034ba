package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// hooks see what may come next and decide what does.
func (s *suite) hooks() {
	s.need(s.generate.HasHooks, "hooks")
	var drawn []int32
	prompt := 0
	req := s.longText()
	req.Temperature, req.TopK, req.Seed, req.MaxTokens = 1, 4, numbered(6), 8
	req.Hook = func(d *engine.Draw) error {
		prompt = len(d.Prompt)
		if !slices.Equal(d.Completion, drawn) || len(d.Candidates) == 0 || len(d.Candidates) > 4 {
			s.Errorf("the hook sees %v and %d candidates after %v", d.Completion, len(d.Candidates), drawn)
		}
		for i, c := range d.Candidates {
			if c.Weight <= 0 || i > 0 && c.Token <= d.Candidates[i-1].Token {
				s.Errorf("candidates %+v", d.Candidates)
			}
		}
		last := &d.Candidates[len(d.Candidates)-1]
		for i := range d.Candidates[:len(d.Candidates)-1] {
			d.Candidates[i].Weight = 0
		}
		drawn = append(drawn, last.Token)
		return nil
	}
	r := s.ok(req)
	if r.usage.PromptTokens != prompt || r.usage.CompletionTokens != len(drawn) {
		s.Errorf("usage %+v, the hook saw %d prompt tokens and was called %d times", r.usage, prompt, len(drawn))
	}
	if s.generate.HasFormats { // only what the format allows is shown
		shaped := s.request()
		shaped.Format = &engine.Format{Choice: []string{"yes", "no"}}
		shaped.Hook = func(*engine.Draw) error { return nil }
		if got := s.ok(shaped).text[0]; got != "yes" && got != "no" {
			s.Errorf("with a hook and a format: %q", got)
		}
	}
	broken := errors.New("the hook has no key")
	failing := s.longText()
	failing.Hook = func(d *engine.Draw) error {
		if len(d.Completion) == 2 {
			return broken
		}
		return nil
	}
	if r := s.collect(s.ctx, failing); !errors.Is(r.err, broken) || r.usage != nil {
		s.Errorf("a hook that fails: %v", r.err)
	}
	s.ok(s.request())
}

// watermarks decide tokens where there is something to choose, and answers say what came of them. An engine that cannot mark says that.
func (s *suite) watermarks() {
	s.needGenerate()
	drawn := map[int]int{} // tokens by choice
	var mu sync.Mutex
	w := &engine.Watermark{Scheme: "heaviest", Key: "k-1", Epoch: 7, Begin: func(seed uint64, choice int) engine.Marker {
		if seed != 6 {
			s.Errorf("seed %d", seed)
		}
		return func(completion, _ []int32, weights []float32) (int, bool) {
			mu.Lock()
			defer mu.Unlock()
			if len(completion) != drawn[choice] {
				s.Errorf("choice %d: the marker sees %d tokens after %d", choice, len(completion), drawn[choice])
			}
			drawn[choice]++
			return slices.Index(weights, slices.Max(weights)), true
		}
	}}
	asked := func(change func(*engine.Request)) engine.Marking {
		req := s.longText()
		req.Temperature, req.Seed, req.MaxTokens, req.Watermark = 1, numbered(6), 8, w
		change(req)
		clear(drawn)
		r := s.ok(req)
		if r.marking == nil {
			s.Fatal("nothing says what came of the watermark")
		}
		m := *r.marking
		if m.Scheme != "heaviest" || m.Key != "k-1" || m.Epoch != 7 || m.Applied != (m.Reason == "") || m.Applied != (m.Tokens > 0) {
			s.Errorf("%+v", m)
		}
		return m
	}
	if !s.generate.HasMarks {
		if m := asked(func(*engine.Request) {}); m.Reason != engine.MarkReasonEngine || len(drawn) > 0 {
			s.Errorf("the model does not promise watermarks: %+v", m)
		}
		return
	}
	greedy := s.longText()
	greedy.MaxTokens, greedy.Choices = 8, 2
	want := s.ok(greedy)
	req := s.longText()
	req.Temperature, req.Seed, req.MaxTokens, req.Choices, req.Watermark = 1, numbered(6), 8, 2, w
	got := s.ok(req)
	if got.marking == nil {
		s.Fatal("nothing says what came of the watermark")
	}
	if got.text[0] != want.text[0] || got.text[1] != want.text[1] || !got.marking.Applied || got.marking.Tokens != got.usage.CompletionTokens {
		s.Errorf("the likeliest tokens, marked: %v, %+v, want %v", got.text, got.marking, want.text)
	}
	if m := asked(func(r *engine.Request) { r.Temperature = 0 }); m.Reason != engine.MarkReasonTemperature || len(drawn) > 0 {
		s.Errorf("at temperature 0: %+v", m)
	}
	if s.generate.HasFormats {
		shape := func(r *engine.Request) { r.Format = &engine.Format{Choice: []string{"yes", "no"}} }
		if m := asked(shape); m.Reason != engine.MarkReasonStructured || len(drawn) > 0 {
			s.Errorf("with a format: %+v", m)
		}
	}
}

// classes: who is more urgent may be answered sooner, and is answered the same.
func (s *suite) classes() {
	s.needGenerate()
	all := []engine.Class{"", engine.ClassInteractive, engine.ClassStandard, engine.ClassBatch}
	got := make([]result, len(all))
	var wg sync.WaitGroup
	for i, class := range all {
		wg.Go(func() {
			req := s.request()
			req.Class, req.Priority, req.Tenant, req.ID = class, i-1, "tenant of "+string(class), "request of "+string(class)
			got[i] = s.collect(s.ctx, req)
		})
	}
	wg.Wait()
	for i, r := range got {
		if r.err != nil {
			s.Errorf("class %q: %v", all[i], r.err)
		} else if s.generate.Deterministic && r.text[0] != got[0].text[0] {
			s.Errorf("class %q: %q, class %q: %q", all[i], r.text[0], all[0], got[0].text[0])
		}
	}
}

// deadlines: what cannot be in time is refused at once, with a time at which it may come again.
func (s *suite) deadlines() {
	s.needGenerate()
	for _, ahead := range []time.Duration{-time.Hour, -time.Nanosecond, time.Nanosecond} {
		req := s.request()
		req.Deadline = time.Now().Add(ahead)
		r := s.collect(s.ctx, req)
		if !fault.Is(r.err, fault.CodeEngineOverloaded) || !errors.Is(r.err, engine.ErrCallerLimit) || fault.Public(r.err).RetryAfter() < time.Second || r.events > 0 {
			s.Errorf("deadline in %v: %d events, %v", ahead, r.events, r.err)
		}
	}
	req := s.request()
	req.Deadline = time.Now().Add(time.Hour)
	s.ok(req)
}

// tenants: a prompt is not computed twice for a tenant, and nobody else can tell that it was.
func (s *suite) tenants() {
	s.need(s.opt.PrefixCache, "to keep prompts")
	prompt := strings.Repeat("The committee met again and said nothing new. ", 12)
	ask := func(model engine.ModelID, tenant, tail string, shared bool) (cached int, text string) {
		req := s.longText()
		req.Model, req.Tenant, req.Prompt, req.SharedPrefix, req.MaxTokens = model, tenant, prompt+tail, shared, 4
		r := s.ok(req)
		return r.usage.CachedTokens, r.text[0]
	}
	_, cold := ask(s.opt.Generate, "a", "", false)
	for i, c := range []struct {
		tenant string
		shared bool
		hit    bool
	}{{"a", false, true}, {"b", false, false}, {"b", false, true}, {"a", true, false}, {"b", true, true}, {"", false, false}} {
		cached, text := ask(s.opt.Generate, c.tenant, "", c.shared)
		if c.hit != (cached > 0) {
			s.Errorf("%d: tenant %q (shared: %v): %d tokens were there", i, c.tenant, c.shared, cached)
		}
		if s.generate.Deterministic && text != cold {
			s.Errorf("%d: with %d tokens from the cache %q, without %q", i, cached, text, cold)
		}
	}
	if cached, _ := ask(s.opt.Generate, "a", "And then", false); cached == 0 {
		s.Error("a prompt that begins alike is computed from its beginning")
	}
	if s.opt.Adapter != "" {
		if cached, _ := ask(s.opt.Adapter, "a", "", false); cached > 0 {
			s.Errorf("an adapter took %d tokens that its base computed", cached)
		}
	}
}

// adapter: an adapter is a model of its own that leaves its base as it is, side by side.
func (s *suite) adapter() {
	s.needGenerate()
	if s.opt.Adapter == "" {
		s.Skip("there is no adapter")
	}
	at := slices.IndexFunc(s.all, func(m engine.Model) bool { return m.ID == s.opt.Adapter })
	if at < 0 {
		s.Fatalf("%s is not listed", s.opt.Adapter)
	}
	if m := s.all[at]; m.Base != s.opt.Generate || !strings.HasPrefix(m.Adapter, "sha256:") || m.Digest != s.generate.Digest {
		s.Errorf("%+v", m)
	}
	ask := func(model engine.ModelID) *engine.Request {
		req := s.longText()
		req.Model = model
		return req
	}
	base, adapted := s.ok(ask(s.opt.Generate)), s.ok(ask(s.opt.Adapter))
	if base.text[0] == adapted.text[0] || adapted.usage.Model == base.usage.Model {
		s.Errorf("%s says %q as %s, its base %q", s.opt.Adapter, adapted.text[0], adapted.usage.Model, base.text[0])
	}
	got := make([]result, 4)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = s.collect(s.ctx, ask([]engine.ModelID{s.opt.Generate, s.opt.Adapter}[i%2])) })
	}
	wg.Wait()
	for i, r := range got {
		if want := []result{base, adapted}[i%2]; r.err != nil || s.generate.Deterministic && r.text[0] != want.text[0] {
			s.Errorf("together: %q, %v; alone %q", r.text[0], r.err, want.text[0])
		}
	}
}

// cancelAnywhere leaves after any number of events, while others stay.
func (s *suite) cancelAnywhere() {
	s.needGenerate()
	want := s.ok(s.request()).text[0]
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			req := s.request()
			req.Choices, req.MaxTokens = 1+i%2, 40
			events := 0
			if i == 0 {
				go cancel()
			}
			for _, err := range Ask(ctx, s.e, req) {
				if err != nil && !errors.Is(err, context.Canceled) && !fault.Is(err, fault.CodeEngineOverloaded) {
					s.Errorf("request %d: %v", i, err)
				}
				if events++; events == i {
					if i%3 == 0 {
						return
					}
					cancel()
				}
			}
		})
	}
	stayed := s.collect(s.ctx, s.request())
	wg.Wait()
	if stayed.err != nil && !fault.Is(stayed.err, fault.CodeEngineOverloaded) || stayed.err == nil && s.generate.Deterministic && stayed.text[0] != want {
		s.Errorf("who stayed got %q, %v; alone %q", stayed.text[0], stayed.err, want)
	}
	s.ok(s.request())
}

// slowReader: who does not read keeps nobody else waiting, and finds everything when he does.
func (s *suite) slowReader() {
	s.needGenerate()
	req := s.request()
	want := s.ok(req).text[0]
	var got strings.Builder
	var last engine.Event
	for ev, err := range Ask(s.ctx, s.e, req) {
		if err != nil {
			s.Fatal(err)
		}
		if got.Len() == 0 { // the stream stands still meanwhile
			for range 3 {
				s.ok(s.request())
			}
		}
		got.WriteString(ev.Text)
		last = ev
	}
	if last.Usage == nil || got.Len() == 0 || s.generate.Deterministic && got.String() != want {
		s.Errorf("a slow reader got %q, usage %v; a quick one %q", got.String(), last.Usage, want)
	}
}
