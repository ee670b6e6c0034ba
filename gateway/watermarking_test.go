package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
)

// marking is an engine that says it has marked what it was asked to mark.
type marking struct {
	engine.Engine
	asked *engine.Watermark
}

func (m *marking) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		m.asked = p.Request.Watermark
		for ev, err := range m.Engine.Generate(ctx, p) {
			if ev.Marking != nil {
				ev.Marking.Applied, ev.Marking.Reason, ev.Marking.Tokens = true, "", 7
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// TestMarkedAnswers: what the policy wants reaches the engine as what marks, with the key of the tenant; what came of it is in the reply and the record, however the answer came.
func TestMarkedAnswers(t *testing.T) {
	for _, how := range []string{"stream", "blocking", "in one piece", "log-probabilities", "answer first"} {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"yes", "no"}} })
		marks := &marking{Engine: w.engine}
		w.wrap, w.canMark = func(engine.Engine) engine.Engine { return marks }, true
		w.marks = governance.Watermarking{On: true, Params: watermark.Params{Scheme: watermark.KGW}, Greedy: true}
		if w.whole, w.answers = how == "in one piece", how == "answer first"; w.whole {
			w.wrap = func(engine.Engine) engine.Engine { return onePiece{marks} }
		}
		c := call("hello")
		c.Choices, c.Blocking = 2, how != "stream"
		if how == "log-probabilities" {
			c.Logprobs = 0
		}
		r, _ := chat(t, w, c)
		k, err := w.MarkKey(t.Context(), "acme", w.marks.Params)
		if err != nil {
			t.Fatal(err)
		}
		want := engine.Marking{Applied: true, Tokens: 7, Scheme: "kgw", Key: k.ID(), Epoch: 1}
		if m := r.Summary().Watermark; m == nil || *m != want {
			t.Errorf("%s: the reply says %+v", how, m)
		}
		w.Drain()
		if e := w.log.events; e[0].Watermark != "" || e[len(e)-1].Watermark != k.ID() {
			t.Errorf("%s: the records say %q and %q", how, e[0].Watermark, e[len(e)-1].Watermark)
		}
		if marks.asked == nil || !marks.asked.Greedy || marks.asked.Begin(1, 0) == nil {
			t.Errorf("%s: the engine got %+v", how, marks.asked)
		}
	}
}

// TestUnmarkedAnswers: an engine that cannot mark answers all the same, and reply and record say that there is no mark; without a policy nothing is said.
func TestUnmarkedAnswers(t *testing.T) {
	w := newWorld(t, nil)
	if r, _ := chat(t, w, call("hello")); r.Summary().Watermark != nil {
		t.Errorf("nobody wants a watermark: %+v", r.Summary().Watermark)
	}
	w.marks = governance.Watermarking{On: true}
	r, _ := chat(t, w, call("hello"))
	if m := r.Summary().Watermark; m == nil || m.Applied || m.Reason != engine.MarkReasonEngine || m.Scheme != "gumbel" || m.Key != "" {
		t.Errorf("%+v", m)
	}
	w.canMark = true
	cold := call("hello")
	cold.Temperature = new(0.0)
	r, _ = chat(t, w, cold)
	if m := r.Summary().Watermark; m == nil || m.Applied || w.markKeys > 0 {
		t.Errorf("where nothing can be marked, %d keys were asked for: %+v", w.markKeys, m)
	}
	w.wrap = func(e engine.Engine) engine.Engine { return silent{e} }
	r, _ = chat(t, w, call("hello"))
	if m := r.Summary().Watermark; m == nil || m.Applied || m.Reason != engine.MarkReasonEngine || m.Key == "" || w.markKeys != 1 {
		t.Errorf("of an engine that says nothing of the mark: %+v", m)
	}
	if e := w.log.events[len(w.log.events)-1]; e.Watermark != "" {
		t.Errorf("the record says %q", e.Watermark)
	}
}

// TestMarkIsDemanded: what the policy demands and cannot be had is refused before an engine works; where nothing is generated, nothing is demanded.
func TestMarkIsDemanded(t *testing.T) {
	w := newWorld(t, nil)
	w.marks = governance.Watermarking{On: true, Required: true}
	if _, err := w.Chat(t.Context(), call("hello")); !fault.Is(err, fault.CodeUnsupported) || fault.Public(err).Param() != "model" || !strings.Contains(err.Error(), "watermark") {
		t.Errorf("an engine that cannot mark: %v", err)
	}
	c := call("")
	c.Action, c.Input = ActionEmbed, []string{"text"}
	if _, err := w.Embed(t.Context(), c); err != nil {
		t.Errorf("vectors: %v", err)
	}
	c = call("hello")
	c.Action = ActionCount
	w.markErr = fault.Wrap(errors.New("no table"), fault.CodeDatabaseUnavailable)
	if _, err := w.Count(t.Context(), c); err != nil {
		t.Errorf("a count: %v", err)
	}
	w.closed = []*engine.Model{{}, {HasMarks: true}}
	if _, err := w.Chat(t.Context(), call("hello")); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("while the engine that can mark warms up: %v", err)
	}
	w.marks.Required, w.canMark = false, true
	if _, err := w.Chat(t.Context(), call("hello")); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("a key that cannot be read: %v", err)
	}
	for _, q := range w.engine.Requests() {
		t.Errorf("an engine was asked: %+v", q)
	}
	if !w.slotFree(t) {
		t.Error("a slot is lost")
	}
}

// silent is an engine that says nothing of watermarks.
type silent struct{ engine.Engine }

func (s silent) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for ev, err := range s.Engine.Generate(ctx, p) {
			if ev.Marking = nil; !yield(ev, err) {
				return
			}
		}
	}
}

// TestBrokenOffMarkedAnswers: the record of an answer that broke off notes the key by which what has left of it may be marked; the reply says nothing of it.
func TestBrokenOffMarkedAnswers(t *testing.T) {
	for _, can := range []bool{true, false} {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Texts: []string{"one two three four five"}}
		})
		w.marks, w.canMark = governance.Watermarking{On: true}, can
		r, err := w.Chat(t.Context(), call("hello"))
		if err != nil {
			t.Fatal(err)
		}
		for ev := range r.Events() {
			if ev.Text != "" {
				break
			}
		}
		w.Drain()
		want := ""
		if can {
			k, err := w.MarkKey(t.Context(), "acme", w.marks.Params)
			if err != nil {
				t.Fatal(err)
			}
			want = k.ID()
		}
		if e := w.log.events[len(w.log.events)-1]; e.Outcome != outcomeAborted || e.Watermark != "" || e.Detail["watermark_key"] != want || r.Summary().Watermark != nil {
			t.Errorf("the record says %s, %q, %q, want the key %q", e.Outcome, e.Watermark, e.Detail["watermark_key"], want)
		}
	}
}

// canMark is an engine that lists that it marks.
type canMark struct{ engine.Engine }

func (c canMark) Models(ctx context.Context) ([]engine.Model, error) {
	all, err := c.Engine.Models(ctx)
	out := slices.Clone(all)
	for i := range out {
		out[i].HasMarks = true
	}
	return out, err
}

// TestMarksInAMixedPool: where the policy demands marks, only those of the instances are asked that can; where it only wants them, the key is there for whichever is.
func TestMarksInAMixedPool(t *testing.T) {
	plain, marker := enginetest.NewScripted(nil), enginetest.NewScripted(nil)
	w, set := pooledWorld(t, plain, canMark{marker})
	w.deps.Router = placingRouter{w, set}
	set.Refresh(t.Context())
	w.marks = governance.Watermarking{On: true, Required: true}
	for range 8 {
		chat(t, w, call("hello"))
	}
	if len(plain.Requests()) > 0 || len(marker.Requests()) != 8 {
		t.Errorf("%d requests went to the engine that cannot mark, %d to the other one", len(plain.Requests()), len(marker.Requests()))
	}
	w.marks.Required = false
	for range 8 {
		chat(t, w, call("hello"))
	}
	for _, q := range append(plain.Requests(), marker.Requests()...) {
		if q.Watermark == nil || q.Watermark.Key == "" {
			t.Errorf("an engine got %+v", q.Watermark)
		}
	}
	w, set = pooledWorld(t, plain)
	w.deps.Router = placingRouter{w, set}
	set.Refresh(t.Context())
	w.marks = governance.Watermarking{On: true}
	if chat(t, w, call("hello")); w.markKeys > 0 {
		t.Error("a key was asked for where nothing marks")
	}
}
