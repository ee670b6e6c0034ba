package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// broken is an instance that fails its requests, before anything of an answer.
type broken struct {
	engine.Engine

	err   error // nil: it says nothing until it is cancelled
	bills bool
	first *engine.Event // said before it fails

	asked, cancelled atomic.Int64
}

func (b *broken) Bills(engine.ModelID) bool { return b.bills }

func (b *broken) Models(context.Context) ([]engine.Model, error) { return nil, nil }

func (b *broken) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	return enginetest.NewScripted(nil).Prepare(ctx, w)
}

func (b *broken) Generate(ctx context.Context, _ *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		b.asked.Add(1)
		if b.first != nil && !yield(*b.first, nil) {
			return
		}
		if b.err == nil {
			<-ctx.Done()
			b.cancelled.Add(1)
			yield(engine.Event{}, ctx.Err())
			return
		}
		yield(engine.Event{}, b.err)
	}
}

func (b *broken) Embed(context.Context, *engine.Prompt) (*engine.Embeddings, error) {
	b.asked.Add(1)
	return nil, b.err
}

func refusedWith(code fault.Code) error {
	return fault.Wrap(fmt.Errorf("%w: 500", engine.ErrRefused), code, "chat")
}

// ask asks a chat and returns its text.
func (w *world) ask(t *testing.T, c *Call) (string, error) {
	t.Helper()
	r, err := w.Chat(t.Context(), c)
	if err != nil {
		return "", err
	}
	defer r.Close()
	a, err := r.Collect()
	if err != nil {
		return "", err
	}
	return a.Choices[0].Text, nil
}

// attempts are those that the last record tells of.
func (w *world) attempts(t *testing.T) (out []string) {
	t.Helper()
	var all []struct {
		Instance, Error string
		Reached, Hedged bool
	}
	text := w.log.events[len(w.log.events)-1].Detail["attempts"]
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		out = append(out, fmt.Sprintf("%s %s %v %v", a.Instance, a.Error, a.Reached, a.Hedged))
	}
	return out
}

// TestRetries: what an instance has failed goes to another one where that can be on nobody's bill twice; the caller pays once; and the record says who failed
// and why.
func TestRetries(t *testing.T) {
	failed := fault.New(fault.CodeUpstreamFailed, "chat")
	for name, c := range map[string]struct {
		err    error
		bills  bool
		repeat route.Repeat
		retry  bool
	}{
		"a refusal":                        {err: refusedWith(fault.CodeUpstreamFailed), bills: true, retry: true},
		"a refusal, never repeated":        {err: refusedWith(fault.CodeUpstreamFailed), bills: true, repeat: route.RepeatNever, retry: true},
		"overload":                         {err: fault.New(fault.CodeEngineOverloaded, "chat"), bills: true, retry: true},
		"a caller's own limit":             {err: fault.Wrap(engine.ErrCallerLimit, fault.CodeEngineOverloaded, "chat")},
		"an own engine that breaks":        {err: failed, retry: true},
		"an own engine, never repeated":    {err: failed, repeat: route.RepeatNever},
		"a cloud that breaks":              {err: failed, bills: true},
		"a cloud that breaks, if so meant": {err: failed, bills: true, repeat: route.RepeatAll, retry: true},
		"a timeout":                        {err: fault.New(fault.CodeUpstreamTimeout, "chat"), retry: true},
		"the request's own fault":          {err: fault.New(fault.CodeInvalidValue, "seed", fault.Say("value.positive"))},
		"a bug":                            {err: errors.New("oops")},
	} {
		t.Run(name, func(t *testing.T) {
			bad := &broken{err: c.err, bills: c.bills}
			w, set := pooledWorld(t, bad, enginetest.NewScripted(nil))
			w.resilience = route.NewResilience(route.Policy{RepeatUnknown: c.repeat})
			text, err := w.ask(t, call("hello"))
			if (err == nil) != c.retry || c.retry && text != "hello" {
				t.Fatalf("%q, %v", text, err)
			}
			if !c.retry {
				own := errors.Is(c.err, engine.ErrCallerLimit)
				if e := w.log.events[1]; (e.Detail["limit"] == "caller") != own || own && e.Outcome != "refused" {
					t.Errorf("%s, %v", e.Outcome, e.Detail)
				}
				if w.ledger.released != 1 || len(w.ledger.settled) != 0 || w.attempts(t) != nil {
					t.Errorf("released %d, settled %v, %v", w.ledger.released, w.ledger.settled, w.attempts(t))
				}
				return
			}
			if len(w.ledger.settled) != 1 || w.ledger.released != 0 || len(w.log.events) != 2 {
				t.Errorf("settled %v, released %d, %s", w.ledger.settled, w.ledger.released, w.log.trail())
			}
			want := []string{fmt.Sprintf("i0 %s true false", fault.Public(c.err).Code())}
			if got := w.attempts(t); !slices.Equal(got, want) || w.log.events[1].Detail["instance"] != "i1" {
				t.Errorf("%v, %v", got, w.log.events[1].Detail)
			}
			for _, i := range set.Instances("p") {
				if n := i.Status().Running; n != 0 {
					t.Errorf("%s still runs %d", i.Name, n)
				}
			}
		})
	}
}

// TestNothingIsRetriedOnceBegun: whatever the policy says.
func TestNothingIsRetriedOnceBegun(t *testing.T) {
	for name, hedge := range map[string]time.Duration{"alone": 0, "hedged": time.Minute} {
		bad := &broken{err: refusedWith(fault.CodeUpstreamFailed), first: &engine.Event{Text: "he"}}
		other := &broken{err: errors.New("asked")}
		w, _ := pooledWorld(t, bad, other)
		w.resilience = route.NewResilience(route.Policy{RepeatUnknown: route.RepeatAll, HedgeAfter: hedge, HedgeTokens: 1 << 20, Fallbacks: route.Fallbacks{Fault: []string{"other"}}})
		_, err := w.ask(t, call("hello"))
		if !fault.Is(err, fault.CodeUpstreamFailed) || other.asked.Load() != 0 || w.log.trail() != "admitted outcome/failed" {
			t.Errorf("%s: %v, %d, %s", name, err, other.asked.Load(), w.log.trail())
		}
	}
}

// TestRetryBudget: a storm of failures is not made larger by more than the budget.
func TestRetryBudget(t *testing.T) {
	bad, worse := &broken{err: refusedWith(fault.CodeUpstreamFailed)}, &broken{err: refusedWith(fault.CodeUpstreamFailed)}
	w, _ := pooledWorld(t, bad, worse)
	w.resilience = route.NewResilience(route.Policy{})
	for range 200 {
		if _, err := w.ask(t, call("hello")); err == nil {
			t.Fatal("answered by nobody")
		}
	}
	// 10 were saved, and 200 requests earn 20.
	if n := worse.asked.Load(); n < 28 || n > 30 {
		t.Errorf("%d of 200 were repeated", n)
	}

	third, last := &broken{err: refusedWith(fault.CodeUpstreamFailed)}, &broken{err: refusedWith(fault.CodeUpstreamFailed)}
	w, _ = pooledWorld(t, bad, worse, third, last)
	w.resilience = route.NewResilience(route.Policy{})
	if _, err := w.ask(t, call("hello")); err == nil || third.asked.Load() != 1 || last.asked.Load() != 0 {
		t.Errorf("%v: a third was asked %d times, a fourth %d", err, third.asked.Load(), last.asked.Load())
	}
	got, err := w.Embed(t.Context(), embedCall("a"))
	if err == nil || third.asked.Load() != 2 || last.asked.Load() != 0 {
		t.Errorf("vectors: %v, %v, %d", got, err, third.asked.Load())
	}
}

func embedCall(text string) *Call {
	c := call("")
	c.Messages, c.Action, c.Model, c.Input, c.Permission = nil, ActionEmbed, "embed", []string{text}, "inference.embed"
	return c
}

// TestSilentInstanceIsGivenUp: for another one, if there is one; the last one has all the time of the request.
func TestSilentInstanceIsGivenUp(t *testing.T) {
	silent := &broken{}
	w, _ := pooledWorld(t, silent, enginetest.NewScripted(nil))
	w.resilience = route.NewResilience(route.Policy{AttemptTimeout: 5 * time.Millisecond})
	text, err := w.ask(t, call("hello"))
	if err != nil || text != "hello" || silent.cancelled.Load() != 1 {
		t.Fatalf("%q, %v; cancelled %d", text, err, silent.cancelled.Load())
	}
	if got := w.attempts(t); !slices.Equal(got, []string{"i0 upstream_timeout true false"}) {
		t.Error(got)
	}

	silent = &broken{}
	w, _ = pooledWorld(t, silent, enginetest.NewScripted(nil)) // of a blocking call that an upstream could answer in one piece, it is asked for a stream
	w.resilience, w.whole = route.NewResilience(route.Policy{AttemptTimeout: 5 * time.Millisecond}), true
	blocking := call("hello")
	blocking.Blocking = true
	if text, err := w.ask(t, blocking); err != nil || text != "hello" || silent.cancelled.Load() != 1 {
		t.Errorf("%q, %v; cancelled %d", text, err, silent.cancelled.Load())
	}

	start := make(chan struct{})
	w, _ = pooledWorld(t, &broken{}, enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: start} }))
	w.resilience = route.NewResilience(route.Policy{AttemptTimeout: time.Millisecond})
	time.AfterFunc(20*time.Millisecond, func() { close(start) })
	if text, err := w.ask(t, call("hello")); err != nil || text != "hello" {
		t.Errorf("the last one was given up: %q, %v", text, err)
	}
}

// TestHedge: the one that begins first answers, the other one is stopped, and only one is paid for.
func TestHedge(t *testing.T) {
	silent := &broken{}
	w, set := pooledWorld(t, silent, enginetest.NewScripted(nil))
	w.resilience = route.NewResilience(route.Policy{HedgeAfter: time.Millisecond, HedgeTokens: 1 << 20})
	text, err := w.ask(t, call("hello"))
	if err != nil || text != "hello" || silent.cancelled.Load() != 1 || len(w.ledger.settled) != 1 {
		t.Fatalf("%q, %v; cancelled %d, settled %v", text, err, silent.cancelled.Load(), w.ledger.settled)
	}
	if got := w.attempts(t); !slices.Equal(got, []string{"i0  true true"}) || w.log.events[1].Detail["instance"] != "i1" {
		t.Error(got, w.log.events[1].Detail)
	}
	for _, i := range set.Instances("p") {
		if st := i.Status(); st.Running != 0 || st.Cause != nil {
			t.Errorf("%+v", st)
		}
	}

	for name, c := range map[string]struct {
		policy route.Policy
		first  *broken
	}{
		"a long answer":    {route.Policy{HedgeAfter: time.Millisecond}, &broken{}},
		"what a cloud has": {route.Policy{HedgeAfter: time.Millisecond, HedgeTokens: 1 << 20}, &broken{bills: true}},
	} {
		other := &broken{err: errors.New("asked")}
		w, _ := pooledWorld(t, c.first, other)
		w.resilience = route.NewResilience(c.policy)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		r, err := w.Chat(ctx, call("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Collect(); err == nil || other.asked.Load() != 0 {
			t.Errorf("%s: %v, another was asked %d times", name, err, other.asked.Load())
		}
		cancel()
	}

	// A first one that fails before its time is a retry like any other.
	w, _ = pooledWorld(t, &broken{err: refusedWith(fault.CodeUpstreamFailed)}, enginetest.NewScripted(nil))
	w.resilience = route.NewResilience(route.Policy{HedgeAfter: time.Minute, HedgeTokens: 1 << 20})
	if text, err := w.ask(t, call("hello")); err != nil || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	// Where the hedge fails, the first one still answers.
	start := make(chan struct{})
	slow := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: start} })
	failing := &broken{err: refusedWith(fault.CodeUpstreamFailed)}
	w, _ = pooledWorld(t, slow, failing)
	w.resilience = route.NewResilience(route.Policy{HedgeAfter: time.Millisecond, HedgeTokens: 1 << 20})
	time.AfterFunc(20*time.Millisecond, func() { close(start) })
	if text, err := w.ask(t, call("hello")); err != nil || text != "hello" || failing.asked.Load() != 1 {
		t.Errorf("%q, %v, %d", text, err, failing.asked.Load())
	}
	if d := w.log.events[1].Detail; d["instance"] != "i0" && d["instance"] != "" {
		t.Error(d)
	}
}

// byModel leads each model to an engine of its own; only "chat" has a policy.
type byModel struct {
	*world

	engines map[string]engine.Engine
}

func (m byModel) Pick(a route.Ask) (route.Choice, error) {
	c, err := m.world.Pick(a)
	if e := m.engines[a.Model]; e == nil {
		return route.Choice{}, fault.New(fault.CodeModelNotFound, a.Model)
	} else if c.Instance != nil {
		c.Instance = pool.Alone(e)
	}
	c.Version.Model, c.Resilience = a.Model, m.Resilience(a.Model)
	return c, err
}

func (m byModel) Resilience(model string) *route.Resilience {
	if model == "chat" {
		return m.resilience
	}
	return nil
}

// TestFallbacks: another model answers for the causes of its list, and for no others, as if the caller had asked for it: what he may not use he does not get
// this way. The reply and the record name who answered, and one answer is paid for.
func TestFallbacks(t *testing.T) {
	filtered := &broken{first: &engine.Event{Finish: engine.FinishFilter}}
	lists := route.Fallbacks{Context: []string{"longer"}, Content: []string{"freer"}, Capacity: []string{"smaller"}, Fault: []string{"secret", "elsewhere", "other"}}
	for name, c := range map[string]struct {
		fails engine.Engine
		want  string // the model that answers; "" for the error
		cause route.Cause
		code  fault.Code
		world func(*world, *Call)
	}{
		"too long":                       {fails: &narrow{}, want: "longer", cause: route.CauseContext},
		"too long, found late":           {fails: &curt{}, want: "longer", cause: route.CauseContext},
		"filtered":                       {fails: filtered, want: "freer", cause: route.CauseContent},
		"overloaded":                     {fails: &broken{err: fault.New(fault.CodeEngineOverloaded, "chat")}, want: "smaller", cause: route.CauseCapacity},
		"broken":                         {fails: &broken{err: refusedWith(fault.CodeUpstreamFailed)}, want: "other", cause: route.CauseFault},
		"not reached":                    {fails: &broken{err: errUnreached}, want: "other", cause: route.CauseFault},
		"the request's own fault":        {fails: &broken{err: fault.New(fault.CodeInvalidValue, "seed", fault.Say("value.positive"))}, code: fault.CodeInvalidValue},
		"a version that was named":       {fails: &broken{err: errUnreached}, code: fault.CodeEngineUnavailable, world: func(_ *world, c *Call) { c.Model = "chat@v1" }},
		"filtered, and nobody else":      {fails: filtered, code: fault.CodeFilteredByEngine, world: func(w *world, _ *Call) { w.principal.Models = []string{"chat"} }},
		"filtered, of several choices":   {fails: &broken{first: &engine.Event{Finish: engine.FinishFilter}, err: errUnreached}, code: fault.CodeEngineUnavailable, world: func(_ *world, c *Call) { c.Choices = 2 }},
		"a line of a batch":              {fails: &broken{err: errUnreached}, code: fault.CodeEngineUnavailable, world: func(_ *world, c *Call) { c.Batch = "batch-1" }},
		"a key that may not":             {fails: &narrow{}, code: fault.CodeContextLength, world: func(w *world, _ *Call) { w.principal.Models = []string{"chat"} }},
		"a policy that does not":         {fails: &narrow{}, code: fault.CodeContextLength, world: func(w *world, _ *Call) { w.fail["admit longer"] = fault.New(fault.CodeModelNotAllowed, "longer") }},
		"a budget that is used up":       {fails: &narrow{}, code: fault.CodeContextLength, world: func(w *world, _ *Call) { w.fail["reserve"] = fault.New(fault.CodeKeyBudget) }},
		"a call that must not be masked": {fails: &broken{err: errUnreached}, code: fault.CodeBlockedContent, world: func(w *world, _ *Call) { w.fail["mask"] = fault.New(fault.CodeBlockedContent, "x") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.principal.Models = []string{"chat", "longer", "freer", "smaller", "elsewhere", "other"} // and not secret
			w.resilience, w.rollout = route.NewResilience(route.Policy{Fallbacks: lists}), [2]string{"ro", "candidate"}
			good := func() engine.Engine { return enginetest.NewScripted(nil) }
			secret := &broken{err: errors.New("asked")}
			w.deps.Router = byModel{w, map[string]engine.Engine{"chat": c.fails, "chat@v1": c.fails, "longer": good(), "freer": good(), "smaller": good(), "other": good(), "secret": secret}}
			asked := call("hello")
			if c.world != nil {
				c.world(w, asked)
			}
			r, err := w.Chat(t.Context(), asked)
			var text string
			if err == nil {
				defer r.Close()
				var a *Answer
				if a, err = r.Collect(); err == nil {
					text = a.Choices[0].Text
				}
			}
			if secret.asked.Load() != 0 {
				t.Error("a model was asked that the caller may not use")
			}
			if c.want == "" {
				if !fault.Is(err, c.code) || len(w.ledger.settled) != 0 || !w.slotFree(t) {
					t.Errorf("%q, %v; settled %v", text, err, w.ledger.settled)
				}
				return
			}
			if err != nil || text != "hello" || string(r.Model) != c.want || r.FallbackFrom != "chat" || r.FallbackCause != c.cause {
				t.Fatalf("%q, %v; %s for %s because of %s", text, err, r.Model, r.FallbackFrom, r.FallbackCause)
			}
			last := w.log.events[len(w.log.events)-1]
			if d := last.Detail; d["fallback_of"] != "req-1" || d["fallback_from"] != "chat" || d["fallback_cause"] != string(c.cause) || last.Model.Asked != c.want ||
				!strings.HasPrefix(last.Request, "req-1.fallback") || last.Outcome != outcomeOK {
				t.Errorf("%+v", last)
			}
			if last.Rollout != "" || last.Arm != "" {
				t.Errorf("a fallback, which has waited for another model, counts for the arm %q", last.Arm)
			}
			if first := w.log.events[0]; first.Arm == "" || first.Request != "req-1" || first.Model.Asked != "chat" || first.Detail["fallback_of"] != "" {
				t.Errorf("%+v", first)
			}
			if len(w.ledger.settled) != 1 || w.ledger.asks[len(w.ledger.asks)-1].Model != c.want || !w.slotFree(t) {
				t.Errorf("settled %v, asked %+v", w.ledger.settled, w.ledger.asks)
			}
		})
	}
}

// unready is an instance that is not reached when it is to prepare a prompt.
type unready struct {
	engine.Engine

	asked atomic.Int64
}

func (*unready) Prepare(context.Context, engine.Work) (*engine.Prompt, error) {
	return nil, errUnreached
}

func (u *unready) Generate(context.Context, *engine.Prompt) iter.Seq2[engine.Event, error] {
	u.asked.Add(1)
	return func(yield func(engine.Event, error) bool) { yield(engine.Event{}, errUnreached) }
}

// TestSharedAnswersAreRetried: where an answer is shared, no instance is gone to twice either, and the record says who failed; that of one who gets a kept answer
// does not.
func TestSharedAnswersAreRetried(t *testing.T) {
	for _, mode := range []bool{false, true} {
		first, second := &unready{}, &broken{err: refusedWith(fault.CodeUpstreamFailed)}
		w, _ := pooledWorld(t, first, second, enginetest.NewScripted(nil))
		w.caching.On, w.caching.Keep, w.caching.TTL, w.caching.Bytes = mode, true, time.Minute, 1<<20
		w.resilience = route.NewResilience(route.Policy{})
		want := "[i0 engine_unavailable false false i1 upstream_failed true false]"
		if text, err := w.ask(t, coldCall("a", "hello")); err != nil || text != "hello" || first.asked.Load() != 0 || second.asked.Load() != 1 || fmt.Sprint(w.attempts(t)) != want {
			t.Errorf("shared %v: %q, %v; asked %d and %d; %v", mode, text, err, first.asked.Load(), second.asked.Load(), w.attempts(t))
		}
		if !mode {
			continue
		}
		if _, err := w.ask(t, coldCall("b", "hello")); err != nil || second.asked.Load() != 1 {
			t.Error(err, second.asked.Load())
		}
		if e := w.outcomes()["b"]; e.Detail["instance"] != "i2" || e.Detail["cache"] != "hit" || strings.Contains(e.Detail["attempts"], "i1") {
			t.Errorf("%+v", e.Detail)
		}
	}
}

// TestBegunSharedAnswersDoNotFallBack: an engine that breaks while its text is still held back has begun to answer.
func TestBegunSharedAnswersDoNotFallBack(t *testing.T) {
	for _, shared := range []bool{false, true} {
		w := newWorld(t, nil)
		w.caching.On = shared
		w.resilience = route.NewResilience(route.Policy{Fallbacks: route.Fallbacks{Fault: []string{"other"}}})
		other := &broken{err: errors.New("asked")}
		w.deps.Router = byModel{w, map[string]engine.Engine{"chat": &broken{first: &engine.Event{Text: "⟦"}, err: fault.New(fault.CodeUpstreamFailed, "chat")}, "other": other}}
		if _, err := w.ask(t, coldCall("a", "SECRET1")); !fault.Is(err, fault.CodeUpstreamFailed) || other.asked.Load() != 0 {
			t.Errorf("shared %v: %v; asked %d", shared, err, other.asked.Load())
		}
	}
}

// TestFallbackIsLetGo: a reply that nobody reads ends its engine, and what has begun is the reply, whatever becomes of it.
func TestFallbackIsLetGo(t *testing.T) {
	w := newWorld(t, nil)
	w.resilience = route.NewResilience(route.Policy{Fallbacks: route.Fallbacks{Fault: []string{"other"}}})
	hanging := &broken{first: &engine.Event{Text: "hello"}}
	w.deps.Router = byModel{w, map[string]engine.Engine{"chat": hanging, "other": enginetest.NewScripted(nil)}}
	r, err := w.Chat(t.Context(), call("hello"))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	for range r.Events() {
		t.Error("a closed reply says something")
	}
	if w.log.trail() != "admitted outcome/aborted" || !w.slotFree(t) {
		t.Error(w.log.trail())
	}
}

// TestSlowIsNotGivenUp: where the budget has no retry left when its time is over, a silent instance has all the time of the request.
func TestSlowIsNotGivenUp(t *testing.T) {
	for _, hedge := range []time.Duration{0, 5 * time.Millisecond} {
		start, other := make(chan struct{}), &broken{err: errors.New("asked")}
		var w *world
		slow := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan {
			for w.resilience.Spend() { // others have the same trouble
			}
			return enginetest.Plan{Start: start}
		})
		w, _ = pooledWorld(t, slow, other)
		w.resilience = route.NewResilience(route.Policy{AttemptTimeout: 10 * time.Millisecond, HedgeAfter: hedge, HedgeTokens: 1 << 20})
		time.AfterFunc(30*time.Millisecond, func() { close(start) })
		if text, err := w.ask(t, call("hello")); err != nil || text != "hello" || other.asked.Load() != 0 {
			t.Errorf("%q, %v; another was asked %d times", text, err, other.asked.Load())
		}
	}
}

// streaming is an instance that answers others while it is silent to one.
type streaming struct {
	broken

	at *pool.Instance
}

func (s *streaming) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	s.at.Began(0)
	return s.broken.Generate(ctx, p)
}

// TestWhoIsJudgedBySilence: an instance that begins nothing, and not one that begins other requests.
func TestWhoIsJudgedBySilence(t *testing.T) {
	for _, hedge := range []time.Duration{0, time.Millisecond} {
		for _, busy := range []bool{false, true} {
			var bad, other engine.Engine = &broken{}, &broken{}
			if busy {
				bad, other = &streaming{}, &streaming{}
			}
			w, set := pooledWorld(t, bad, other, enginetest.NewScripted(nil))
			for n, e := range []engine.Engine{bad, other} {
				if s, ok := e.(*streaming); ok {
					s.at = set.Instances("p")[n]
				}
			}
			for range 3 {
				w.resilience = route.NewResilience(route.Policy{AttemptTimeout: 5 * time.Millisecond, HedgeAfter: hedge, HedgeTokens: 1 << 20})
				if text, err := w.ask(t, call("hello")); err != nil || text != "hello" {
					t.Fatal(text, err)
				}
			}
			set.Refresh(t.Context())
			if st := set.Instances("p")[0].Status().State; (st == pool.StateReady) != busy {
				t.Errorf("hedged after %s, busy %v: %v", hedge, busy, st)
			}
		}
	}
}

// TestBatchesWait: their lines take what the others leave, so their silence says nothing.
func TestBatchesWait(t *testing.T) {
	start := make(chan struct{})
	slow := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: start} })
	other := &broken{err: errors.New("asked")}
	w, _ := pooledWorld(t, slow, other)
	w.resilience = route.NewResilience(route.Policy{AttemptTimeout: time.Millisecond, HedgeAfter: time.Millisecond, HedgeTokens: 1 << 20})
	c := call("hello")
	c.Class = engine.ClassBatch
	time.AfterFunc(20*time.Millisecond, func() { close(start) })
	if text, err := w.ask(t, c); err != nil || text != "hello" || other.asked.Load() != 0 {
		t.Errorf("%q, %v; another was asked %d times", text, err, other.asked.Load())
	}
}

// TestHedgesAreBounded: two that are silent beside each other are given up for a third, as one is.
func TestHedgesAreBounded(t *testing.T) {
	first, second := &broken{}, &broken{}
	w, _ := pooledWorld(t, first, second, enginetest.NewScripted(nil))
	w.resilience = route.NewResilience(route.Policy{HedgeAfter: time.Millisecond, AttemptTimeout: 5 * time.Millisecond, HedgeTokens: 1 << 20})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := w.Chat(ctx, call("hello"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.Collect()
	if err != nil || a.Choices[0].Text != "hello" || first.cancelled.Load() != 1 || second.cancelled.Load() != 1 {
		t.Fatalf("%v; cancelled %d and %d", err, first.cancelled.Load(), second.cancelled.Load())
	}
	if got := w.attempts(t); !slices.Equal(got, []string{"i0 upstream_timeout true false", "i1 upstream_timeout true false"}) {
		t.Error(got)
	}
	// Where the hedge finds nobody, the first one is given up, too, once there is somebody: a cloud is asked instead, and not beside.
	for name, c := range map[string]struct {
		engines []engine.Engine
		want    []string
	}{
		"a cloud":         {[]engine.Engine{&broken{}, &cloud{enginetest.NewScripted(nil)}}, []string{"i0 upstream_timeout true false"}},
		"own behind that": {[]engine.Engine{&broken{}, &cloud{&broken{}}, enginetest.NewScripted(nil)}, []string{"i0  true true"}},
	} {
		w, _ := pooledWorld(t, c.engines...)
		w.resilience = route.NewResilience(route.Policy{RepeatUnknown: route.RepeatAll, HedgeAfter: time.Millisecond, AttemptTimeout: 20 * time.Millisecond, HedgeTokens: 1 << 20})
		if text, err := w.ask(t, call("hello")); err != nil || text != "hello" || !slices.Equal(w.attempts(t), c.want) {
			t.Errorf("%s: %q, %v, %v", name, text, err, w.attempts(t))
		}
	}
}

type cloud struct{ engine.Engine }

func (*cloud) Bills(engine.ModelID) bool { return true }

// stubborn is an instance that lets go of a prompt only when it is told.
type stubborn struct {
	engine.Engine

	release chan struct{}
}

func (s *stubborn) Generate(context.Context, *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(func(engine.Event, error) bool) { <-s.release }
}

// TestLosersHoldNothing: the first text is there before who lost has let go.
func TestLosersHoldNothing(t *testing.T) {
	loser := &stubborn{enginetest.NewScripted(nil), make(chan struct{})}
	w, _ := pooledWorld(t, loser, enginetest.NewScripted(nil))
	w.resilience = route.NewResilience(route.Policy{HedgeAfter: time.Millisecond, HedgeTokens: 1 << 20})
	r, err := w.Chat(t.Context(), call("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	begun := false
	for ev, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.HasOutput() && !begun {
			begun = true
			close(loser.release)
		}
	}
	if !begun {
		t.Error("nothing came")
	}
}
