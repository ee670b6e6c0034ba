package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// exactAnswers is a policy under which equal calls share an answer, and later ones get it again.
func exactAnswers() governance.Caching {
	return governance.Caching{On: true, Keep: true, TTL: time.Minute, Bytes: 1 << 20}
}

// coldCall is a call whose answer is a function of it.
func coldCall(id, text string) *Call {
	c, zero := call(text), 0.0
	c.RequestID, c.Temperature = id, &zero
	return c
}

// slowEngine takes some time for each event.
type slowEngine struct {
	engine.Engine
	by time.Duration
}

func (e slowEngine) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for ev, err := range e.Engine.Generate(ctx, p) {
			select {
			case <-time.After(e.by):
			case <-ctx.Done():
				yield(engine.Event{}, ctx.Err())
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// slow has the engine take some time for each event.
func (w *world) slow(by time.Duration) {
	w.wrap = func(e engine.Engine) engine.Engine { return slowEngine{e, by} }
}

// outcomes returns the outcome records, by request.
func (w *world) outcomes() map[string]audit.Event {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	out := map[string]audit.Event{}
	for _, e := range w.log.events {
		if e.Stage == audit.StageOutcome {
			out[e.Request] = e
		}
	}
	return out
}

// TestEqualCallsShareAnAnswer: an engine is asked once for a hundred equal calls at one time, and not for a later one. Each has records, a receipt, a label, a
// signature and a bill line of his own; who led pays for the engine's work, the others for their prompt, as one that was cached.
func TestEqualCallsShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Texts: []string{"It is open from nine to five."}}
		})
		w.caching, w.signs = exactAnswers(), true
		w.slow(time.Second)
		w.principal.Limits.Concurrent = 0
		var all sync.WaitGroup
		var mu sync.Mutex
		signatures, states := map[string]string{}, map[string]string{}
		ask := func(id string) {
			c := coldCall(id, "When are you open?")
			c.Blocking = strings.HasSuffix(id, "0")
			r, err := w.Chat(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			a, err := r.Collect()
			if err != nil || a.Choices[0].Text != "It is open from nine to five." {
				t.Errorf("%s: %+v, %v", id, a, err)
				return
			}
			signer, _ := w.Signer(t.Context(), "acme")
			x, err := signature.Verify(r.Summary().Signature, []signature.Key{signer.Key})
			if err != nil || !x.Matches(signedAnswers(a)) || x.Request != id || x.Receipt != r.Receipt || !strings.Contains(string(x.Label), id) {
				t.Errorf("%s: the signature says %+v, %v", id, x, err)
			}
			mu.Lock()
			defer mu.Unlock()
			signatures[r.Summary().Signature], states[id] = id, r.Cache()
		}
		for i := range 100 {
			all.Go(func() { ask(fmt.Sprintf("r%d", i)) })
		}
		all.Wait()
		ask("later")
		if n := len(w.engine.Requests()); n != 1 {
			t.Fatalf("an engine was asked %d times", n)
		}
		if len(signatures) != 101 {
			t.Errorf("%d signatures", len(signatures))
		}
		count, origin := map[string]int{}, ""
		for id, e := range w.outcomes() {
			count[e.Detail["cache"]]++
			if e.Detail["cache"] == "miss" {
				origin = id
			}
			if e.Detail["cache"] != states[id] || e.Outcome != "ok" || !strings.Contains(e.Label, id) || e.AnswerDigest != w.digest("It is open from nine to five.") {
				t.Errorf("%s: %+v", id, e)
			}
		}
		if count["miss"] != 1 || count["coalesced"] != 99 || count["hit"] != 1 || states["later"] != "hit" {
			t.Errorf("%v", count)
		}
		full, spared := 0, 0
		for id, e := range w.outcomes() {
			switch u := e.Usage; {
			case id == origin && u.CompletionTokens > 0 && u.CachedTokens == 0 && u.Energy > 0 && e.Detail["cache_origin"] == "":
				full++
			case u.CompletionTokens == 0 && u.CachedTokens == u.PromptTokens && u.PromptTokens > 0 && u.Energy == 0 && u.Cost == 2*u.PromptTokens && e.Detail["cache_origin"] == origin:
				spared++
			}
		}
		if full != 1 || spared != 100 || len(w.ledger.settled) != 101 || w.ledger.released != 0 {
			t.Errorf("%d paid all, %d the prompt; %d settled", full, spared, len(w.ledger.settled))
		}
	})
}

// TestWhatIsNotShared: nothing is shared unless the policy says so and the answer is a function of the call, and never what a mark makes the call's own.
func TestWhatIsNotShared(t *testing.T) {
	seed, warm := uint64(7), 0.7
	for name, x := range map[string]struct {
		change func(w *world, c *Call)
		calls  int
		state  string
		why    string
	}{
		"off":            {func(w *world, _ *Call) { w.caching = governance.Caching{} }, 2, "", ""},
		"cold":           {func(*world, *Call) {}, 1, "hit", ""},
		"coalesced only": {func(w *world, _ *Call) { w.caching.Keep = false }, 2, "miss", ""},
		"warm":           {func(_ *world, c *Call) { c.Temperature = &warm }, 2, "bypass", "sampled"},
		"seeded":         {func(_ *world, c *Call) { c.Temperature, c.Seed = &warm, &seed }, 1, "hit", ""},
		"policy":         {func(w *world, c *Call) { w.caching.Sampled, c.Temperature, c.Choices = true, &warm, 2 }, 1, "hit", ""},
		"marked": {func(w *world, c *Call) {
			w.caching.Sampled, w.canMark, w.marks.On, c.Temperature = true, true, true, &warm
		}, 2, "bypass", "watermark"},
		"rollout":          {func(w *world, _ *Call) { w.rollout = [2]string{"r1", "stable"} }, 2, "bypass", "rollout"},
		"marked, but at 0": {func(w *world, _ *Call) { w.canMark, w.marks.On = true, true }, 1, "hit", ""},
		"marked, greedy": {func(w *world, _ *Call) {
			w.canMark, w.marks = true, governance.Watermarking{On: true, Greedy: true, Params: watermark.Params{Scheme: watermark.KGW}.WithDefaults()}
		}, 2, "bypass", "watermark"},
		"masked, one conversation":  {func(_ *world, c *Call) { c.Messages[0].Content = "SECRET1" }, 1, "hit", ""},
		"masked, two conversations": {func(_ *world, c *Call) { c.Messages[0].Content, c.Session = "SECRET1", c.RequestID }, 2, "miss", ""},
	} {
		w := newWorld(t, nil)
		w.caching = exactAnswers()
		last := ""
		for _, id := range []string{"a", "b"} {
			c := coldCall(id, "hello")
			x.change(w, c)
			r, _ := chat(t, w, c)
			last = r.Cache()
		}
		e := w.outcomes()["b"]
		if n := len(w.engine.Requests()); n != x.calls || last != x.state || e.Detail["cache"] != x.state || e.Detail["cache_bypass"] != x.why {
			t.Errorf("%s: %d calls, %s, %v", name, n, last, e.Detail)
		}
	}
}

// TestSeedsOfEnginesThatPromiseNothing: a seed says nothing on an engine that does not keep to it.
func TestSeedsOfEnginesThatPromiseNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.caching = exactAnswers()
	r := &run{p: w.Pipeline}
	seed := uint64(1)
	r.prompt.text = &engine.Prompt{Request: &engine.Request{Temperature: 1, Seed: &seed}}
	if why := r.unshared(w.caching); why != bypassSampled {
		t.Errorf("%q", why)
	}
	if r.choice.Info.Deterministic = true; r.unshared(w.caching) != "" {
		t.Error("an engine that keeps to seeds")
	}
	if r.prompt.text.Request.Hook = func(*engine.Draw) error { return nil }; r.unshared(w.caching) != bypassHook {
		t.Error("a hook")
	}
}

// TestSharedAnswersAreEachRestored: what is kept has pseudonyms; each caller gets his own values, and a rule for answers holds for a kept one, too.
func TestSharedAnswersAreEachRestored(t *testing.T) {
	w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"Dear ⟦1⟧."}} })
	w.caching = exactAnswers()
	for _, id := range []string{"a", "b"} {
		if _, a := chat(t, w, coldCall(id, "I am SECRET1")); a.Choices[0].Text != "Dear SECRET1." {
			t.Errorf("%s got %q", id, a.Choices[0].Text)
		}
	}
	if len(w.engine.Requests()) != 1 {
		t.Error("not shared")
	}
	if _, a := chat(t, w, coldCall("c", "I am ⟦1⟧")); len(w.engine.Requests()) != 2 {
		t.Errorf("masked and unmasked mix: %q", a.Choices[0].Text)
	}
	w = newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"FORBIDDEN"}} })
	w.caching = exactAnswers()
	for _, id := range []string{"a", "b"} {
		r, err := w.Chat(t.Context(), coldCall(id, "hello"))
		if err == nil {
			_, err = r.Collect()
		}
		if !fault.Is(err, fault.CodeBlockedAnswer) || w.outcomes()[id].Outcome != "refused" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestSharedAnswerFails: whoever waited for an answer that its engine failed to give has it asked again, once, and pays only for what he got. A stale answer
// takes its place where the policy says so.
func TestSharedAnswerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := fault.Wrap(errBroken, fault.CodeEngineUnavailable, "chat")
		w := newWorld(t, func(n int, _ *engine.Request) enginetest.Plan {
			if n == 0 || n >= 3 {
				return enginetest.Plan{Err: broken}
			}
			return enginetest.Plan{Texts: []string{"yes"}}
		})
		w.caching = exactAnswers()
		w.caching.Stale = time.Minute
		w.slow(time.Second)
		w.principal.Limits.Concurrent = 0
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				r, err := w.Chat(t.Context(), coldCall(fmt.Sprint(i), "hello"))
				if err == nil {
					_, err = r.Collect()
				}
				if err != nil && !errors.Is(err, errBroken) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		count := map[string]int{}
		for _, e := range w.outcomes() {
			count[e.Outcome+" "+e.Detail["cache"]]++
		}
		if n := len(w.engine.Requests()); n != 2 || count["failed miss"] != 1 || count["ok miss"] != 1 || count["ok coalesced"] != 3 {
			t.Errorf("%d calls: %v", n, count)
		}
		time.Sleep(90 * time.Second)
		chat(t, w, coldCall("again", "other")) // the third
		if r, a := chat(t, w, coldCall("late", "hello")); r.Cache() != "stale" || a.Choices[0].Text != "yes" || r.Summary().Cache != "stale" || w.outcomes()["late"].Detail["cache"] != "stale" {
			t.Errorf("%s, %v", r.Cache(), w.outcomes()["late"].Detail)
		}
	})
}

// TestLeadingAndLeaving: who leads and leaves pays for what the engine has done by then, and the answer goes on for the next, who pays for it. So nobody
// gets an answer without paying by asking twice and leaving once.
func TestLeadingAndLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Texts: []string{"one two three four"}}
		})
		w.caching = exactAnswers()
		w.slow(time.Second)
		w.principal.Limits.Concurrent = 0
		began := time.Now()
		leads, err := w.Chat(t.Context(), coldCall("leads", "hello"))
		if err != nil {
			t.Fatal(err)
		}
		follows, err := w.Chat(t.Context(), coldCall("follows", "hello"))
		if err != nil || follows.Cache() != "coalesced" {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			n := 0
			for ev := range leads.Events() {
				if n += len(ev.Text); n > 4 {
					break
				}
			}
		})
		if a, err := follows.Collect(); err != nil || a.Choices[0].Text != "one two three four" {
			t.Errorf("%+v, %v", a, err)
		}
		all.Wait()
		first, second := w.outcomes()["leads"], w.outcomes()["follows"]
		if first.Outcome != "aborted" || first.Usage.CompletionTokens == 0 || !first.Usage.Estimated {
			t.Errorf("%+v", first.Usage)
		}
		if second.Outcome != "ok" || second.Usage.CompletionTokens == 0 || second.Usage.CachedTokens != 0 || second.Usage.Energy == 0 {
			t.Errorf("%+v", second.Usage)
		}
		if sum, run := first.Usage.Energy+second.Usage.Energy, time.Since(began).Microseconds(); sum > run+2 { // two calls of the meter, which begins with 1
			t.Errorf("the energy of %d µs is on the record of a run of %d", sum, run)
		}
		if len(w.engine.Requests()) != 1 {
			t.Error("the engine was asked again")
		}
		r, err := w.Chat(t.Context(), coldCall("closed", "bye"))
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if e := w.outcomes()["closed"]; e.Usage.Cost != 0 || e.Usage.Energy != 0 || w.ledger.released != 1 {
			t.Errorf("%+v", e.Usage)
		}
	})
}

// TestForgottenAnswers: what an erasure or an offboarding drops is gone at once.
func TestForgottenAnswers(t *testing.T) {
	w := newWorld(t, nil)
	w.caching = exactAnswers()
	chat(t, w, coldCall("a", "hello"))
	w.ForgetAnswers("globex")
	if r, _ := chat(t, w, coldCall("b", "hello")); r.Cache() != "hit" {
		t.Errorf("%s: nothing is kept, or another tenant's are gone", r.Cache())
	}
	w.ForgetAnswers("acme")
	for _, want := range []string{"miss", "hit"} {
		if r, _ := chat(t, w, coldCall(want, "hello")); r.Cache() != want {
			t.Errorf("%s instead of %s", r.Cache(), want)
		}
	}
}

// TestSharingNothingCostsNothing: a call whose policy has nothing shared takes no memory more for the step.
func TestSharingNothingCostsNothing(t *testing.T) {
	w := newWorld(t, nil)
	r := w.newRun(call("hello"), route.Generate)
	r.admission.decision = &fakeAdmission{w: w}
	if n := testing.AllocsPerRun(100, func() {
		r.shareAnswer()
		if r.sharedAnswer(t.Context()) != nil {
			t.Error("shared")
		}
		r.leaveShared()
		r.noteCache(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// keyed is a call as its key sees it, with every field set.
func keyed(w *world, change func(r *run)) *run {
	seed, temp := uint64(3), 0.0
	c := coldCall("req-1", "hello")
	c.Seed, c.Temperature = &seed, &temp
	r := w.newRun(c, route.Generate)
	r.caller = caller{Principal: identity.Principal{Tenant: "acme", Project: "p", Organisation: "o", Roles: []string{"a", "b"}, Labels: []string{"public"}}}
	r.call.RAG = &RAG{Collection: "docs", TopK: 2}
	r.admission.decision, r.admission.policy = &fakeAdmission{w: w}, governance.PolicyRef{Version: "v1", Digest: "d"}
	r.choice = route.Choice{Version: route.Version{Model: "chat"}, Info: engine.Model{ID: "chat", NonStreaming: true}}
	r.sources.passages = []rag.Passage{{Collection: "docs"}, {DocumentID: "x"}}
	r.prompt.text = &engine.Prompt{SegmentsKept: 2, Request: &engine.Request{
		Messages: []engine.Message{{Role: "user", Content: "hello", ToolCalls: []engine.ToolCall{{ID: "c"}}}}, Tools: []engine.Tool{{Name: "t"}}, Segments: []string{"s"}, Stop: []string{"."},
		Format: &engine.Format{Choice: []string{"x"}}, Seed: &seed, LogitBias: map[int32]float64{1: 2}, Watermark: &engine.Watermark{}, NonStreaming: true,
	}}
	if change != nil {
		change(r)
	}
	return r
}

// TestKeyHasEveryField: whatever a call, its caller, its admission, its route, its passages and its request to an engine consist of is in the key, or is
// left out for a reason that stands here. A new field is neither.
func TestKeyHasEveryField(t *testing.T) {
	w := newWorld(t, nil)
	const (
		later    = "done for each caller by himself, whatever the engine says"
		earlier  = "judged for each caller before"
		made     = "the request to the engine has what was made of it"
		measures = "says how, and changes nothing of what is said"
		request  = "names one request"
		routed   = "where it runs; what it runs is in the key"
		apart    = "nothing is shared under a rollout"
	)
	for _, x := range []struct {
		of   func(r *run) reflect.Value
		left map[string]string // field: why it is not in the key
	}{
		{func(r *run) reflect.Value { return reflect.ValueOf(r.prompt.text.Request).Elem() }, map[string]string{
			"ID": request, "Deadline": "an engine is not told of it", "SharedPrefix": "the policy says it, which is in the key",
			"NonStreaming": "together with the model's, which is set here", "Hook": "such an answer is not shared",
		}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.prompt.text.Request.Messages[0]).Elem() }, nil},
		{func(r *run) reflect.Value {
			return reflect.ValueOf(&r.prompt.text.Request.Messages[0].ToolCalls[0]).Elem()
		}, nil},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.prompt.text.Request.Tools[0]).Elem() }, nil},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.prompt.text.Request.ToolChoice).Elem() }, nil},
		{func(r *run) reflect.Value { return reflect.ValueOf(r.prompt.text.Request.Format).Elem() }, nil},
		{func(r *run) reflect.Value { return reflect.ValueOf(r.prompt.text.Request.Watermark).Elem() }, map[string]string{"Begin": "is made of the key, whose name is in ours"}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.caller.Principal).Elem() }, map[string]string{
			"Kind": earlier, "ID": "who asks: equal callers share", "Name": "who asks", "Owner": "who asks", "Provider": "who asks", "LabelMode": "what becomes of it is in the key", "Limits": earlier, "Above": earlier,
			"Operator": earlier, "Scopes": earlier, "Models": earlier, "Session": "who asks", "MustChange": earlier, "MustEnrol": earlier, "SecondFactor": earlier, "Factor": earlier,
			"FactorAt": earlier, "SignedIn": earlier, "proof": earlier,
		}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.admission.visible).Elem() }, nil},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.admission.policy).Elem() }, nil},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.admission).Elem() }, map[string]string{
			"decision": "the policy is in the key", "policy": "above", "recordForm": later, "conversation": "in the key where values are masked", "promptDigest": made, "subject": "who asks", "visible": "above", "generation": "says whether the answer is kept", "placing": "of a part, which shares nothing",
		}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.choice.Version).Elem() }, map[string]string{"Defaults": made, "CreatedAt": "a version is never changed"}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.choice).Elem() }, map[string]string{
			"Version": "above", "Instance": routed, "Info": "below", "Closed": routed, "Away": routed, "Resilience": routed, "ask": routed, "precision": "the version has it",
			"Rollout": apart, "Arm": apart,
		}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.choice.Info).Elem() }, map[string]string{
			"ContextTokens": made, "EmbedDim": made, "Audience": earlier, "Local": routed, "CanGenerate": made, "PromptOnly": made, "CanEmbed": made, "CanScore": made, "HasLogprobs": made,
			"HasFormats": made, "HasTools": made, "HasHooks": made, "HasMarks": made, "HasClasses": made, "HasSampling": made, "HasTokens": made, "HasDetokenize": made,
			"Deterministic": "says whether the answer is shared",
		}},
		{func(r *run) reflect.Value { return reflect.ValueOf(r.call.RAG).Elem() }, map[string]string{"OmitQuotes": later}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.sources.passages[0]).Elem() }, map[string]string{
			"Text": made, "Title": later, "Section": later, "Start": later, "End": later, "Score": later, "ByWords": later, "Evidence": earlier, "Duplicates": later, "FAQ": earlier, "faq": earlier, "Known": made, "Document": later, "Revision": "of the collection; the passage has its own version",
		}},
		{func(r *run) reflect.Value { return reflect.ValueOf(&r.call).Elem() }, map[string]string{
			"Credential": earlier, "As": earlier, "Batch": measures, "Resource": measures, "Plane": earlier, "Permission": earlier, "Tenant": "the caller's is in the key", "RequestID": request, "parent": request,
			"DataGrade": "what it comes to is in the key", "ClientID": request, "Session": "in the key where values are masked", "OnBehalfOf": later, "Purpose": "the policy's is in the key", "Source": measures, "Route": measures, "Dialect": "what it says is in the key",
			"Language": measures, "Received": request, "Model": "what it was routed to is in the key", "Messages": made, "Places": measures, "Prompt": made, "Tokens": made, "Input": made, "Role": made, "Query": made,
			"RAG": "above", "Passage": made, "Document": made, "Documents": made, "Queries": made, "TopN": made, "ReturnDocuments": made, "Known": "what was masked for it is in the key", "Tools": made, "ToolChoice": made,
			"ParallelTools": made, "OmitBegin": made, "TokenTexts": measures, "FieldNames": measures, "Format": made, "FormatField": measures, "Priority": made, "FirstTokenTimeout": "each waits by his own clock",
			"Blocking": "what the engine is told of it is in the key", "Signed": later, "MaxTokens": made, "Choices": made, "Temperature": made, "TopP": made, "Seed": made, "Stop": made, "Logprobs": made,
			"Sampling": made, "Dimensions": made, "authenticated": measures, "fallback": "the model that it was routed to is in the key, and what it does where a filter leaves nothing", "Signature": later,
		}},
	} {
		base := keyed(w, nil)
		typ, before := x.of(base).Type(), base.answerKey()
		for i := range typ.NumField() {
			f := typ.Field(i)
			r := keyed(w, nil)
			if _, out := x.left[f.Name]; out {
				continue
			}
			v := x.of(r).Field(i)
			if !f.IsExported() { // of this package
				v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
			}
			if !altered(v) {
				t.Errorf("%s.%s: say here why it is not in the key, or teach the test to change it", typ, f.Name)
			} else if r.answerKey() == before {
				t.Errorf("%s.%s is neither in the key nor left out for a reason", typ, f.Name)
			}
		}
	}
	// Together: the parts that a field alone does not show.
	before := keyed(w, nil).answerKey()
	if keyed(w, func(r *run) { r.choice.Info.NonStreaming = false }).answerKey() == before {
		t.Error("whether the engine sends one piece")
	}
	masks := keyed(w, func(r *run) { r.admission.decision = &fakeAdmission{w: w, masked: 1} })
	if masks.answerKey() == before {
		t.Error("whether a value is masked")
	}
	other := keyed(w, func(r *run) { r.admission.decision, r.admission.conversation = &fakeAdmission{w: w, masked: 1}, "c2" })
	if other.answerKey() == masks.answerKey() {
		t.Error("the conversation of masked values")
	}
	if keyed(w, func(r *run) { r.admission.conversation = "c2" }).answerKey() != before {
		t.Error("the conversation of a call without masked values keeps equal calls apart")
	}
	filtered := func(f *fallback) func(*run) {
		return func(r *run) {
			r.call.fallback, r.choice.Resilience = f, route.NewResilience(route.Policy{Fallbacks: route.Fallbacks{Content: []string{"freer"}}})
		}
	}
	if keyed(w, filtered(&fallback{})).answerKey() == before || keyed(w, filtered(&fallback{of: "req-0"})).answerKey() != before {
		t.Error("whether what a filter has emptied is no answer")
	}
	graded := func(g governance.DataGrade, places ...string) func(*run) {
		return func(r *run) {
			r.admission.decision = &fakeAdmission{w: &world{place: func(bool) governance.Placing { return governance.PlacingAt(g, places...) }}}
		}
	}
	third := keyed(w, graded(3, "centre")).answerKey()
	if third == before || keyed(w, graded(2, "centre")).answerKey() == third || keyed(w, graded(3, "edge")).answerKey() == third {
		t.Error("the grade of the data, and where it may go")
	}
	if keyed(w, func(r *run) { r.caller.Roles = []string{"b", "a"} }).answerKey() != before {
		t.Error("the order of roles keeps equal calls apart")
	}
}

// altered gives a value another one.
func altered(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.5)
	case reflect.Pointer:
		if v.IsNil() {
			return false
		}
		v.Set(reflect.Zero(v.Type()))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[int32]float64{1: 3}))
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = at.Add(time.Second)
			return true
		}
		return altered(v.Field(0))
	default:
		return false
	}
	return true
}

// TestKeysOfRandomCalls: equal calls have equal keys, and a text that moves from one field into the next makes another key.
func TestKeysOfRandomCalls(t *testing.T) {
	w := newWorld(t, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	seen := map[[32]byte]string{}
	for range 300 {
		parts := make([]string, 6)
		for i := range parts {
			parts[i] = strings.Repeat("a", rnd.IntN(3))
		}
		fill := func(r *run) {
			q := r.prompt.text.Request
			q.Messages = []engine.Message{{Role: parts[0], Content: parts[1]}, {Role: parts[2], Content: parts[3]}}
			q.Stop, q.Temperature = []string{parts[4], parts[5]}, math.Copysign(0, 1)
		}
		key, spelt := keyed(w, fill).answerKey(), strings.Join(parts, ",")
		if keyed(w, fill).answerKey() != key {
			t.Fatal("equal calls have two keys")
		}
		if was, ok := seen[key]; ok && was != spelt {
			t.Fatalf("%q and %q have one key", was, spelt)
		}
		seen[key] = spelt
	}
}

// TestTenantsShareNothing: two tenants with everything else alike never get the other's answer.
func TestTenantsShareNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.caching = exactAnswers()
	for i, tenant := range []string{"acme", "globex", "acme"} {
		w.principal.Tenant = tenant
		r, _ := chat(t, w, coldCall(fmt.Sprint(i), "hello"))
		if want := []string{"miss", "miss", "hit"}[i]; r.Cache() != want {
			t.Errorf("%s: %s", tenant, r.Cache())
		}
	}
}

// TestFollowersHaveTheirOwnDeadline: who waits for an answer of another is not held longer than he asked for, and holds nobody.
func TestFollowersHaveTheirOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"late"}} })
		w.caching = exactAnswers()
		w.slow(10 * time.Second)
		w.principal.Limits.Concurrent = 0
		var all sync.WaitGroup
		all.Go(func() { chat(t, w, coldCall("leads", "hello")) })
		synctest.Wait()
		c := coldCall("hurries", "hello")
		c.FirstTokenTimeout = time.Second
		r, err := w.Chat(t.Context(), c)
		if err == nil {
			_, err = r.Collect()
		}
		if !fault.Is(err, fault.CodeFirstTokenTimeout) {
			t.Error(err)
		}
		if r, err := w.Chat(t.Context(), coldCall("leaves", "hello")); err != nil {
			t.Error(err)
		} else {
			r.Close()
		}
		all.Wait()
		if e := w.outcomes()["leads"]; e.Outcome != "ok" || len(w.engine.Requests()) != 1 {
			t.Errorf("%+v", e)
		}
		if e := w.outcomes()["hurries"]; e.Usage.Cost != 0 {
			t.Errorf("%+v", e.Usage)
		}
	})
}

// TestLeftOutForSlowness: a leader who does not read while others wait is told so. That says nothing of the model, and he pays for what had come by then.
func TestLeftOutForSlowness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Texts: []string{strings.Repeat("abc", 5000)}} // a token is three letters
		})
		w.caching = exactAnswers()
		w.principal.Limits.Concurrent = 0
		long := func(id string) *Call {
			c := coldCall(id, "hello")
			c.MaxTokens = new(4091) // what the model takes
			return c
		}
		leads, err := w.Chat(t.Context(), long("leads"))
		if err != nil {
			t.Fatal(err)
		}
		follows, err := w.Chat(t.Context(), long("follows"))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var slow error
		all.Go(func() {
			n := 0
			for _, err := range leads.Events() {
				if n++; n == 100 {
					time.Sleep(30 * time.Second)
				}
				slow = err
			}
		})
		if _, err := follows.Collect(); err != nil {
			t.Error(err)
		}
		all.Wait()
		if !fault.Is(slow, fault.CodeReadTooSlowly) {
			t.Error(slow)
		}
		first, second := w.outcomes()["leads"], w.outcomes()["follows"]
		if u := first.Usage; first.Outcome != "refused" || first.ErrorCode != string(fault.CodeReadTooSlowly) || u.Cost == 0 || u.CompletionTokens < 100 || u.CompletionTokens > 3900 || !u.Estimated {
			t.Errorf("%s %s %+v", first.Outcome, first.ErrorCode, u)
		}
		if first.Usage.Energy > 1+2*5_000_000 { // he was left out long before he read again
			t.Errorf("%d of energy", first.Usage.Energy)
		}
		if second.Outcome != "ok" || second.Usage.CompletionTokens < 4091 {
			t.Errorf("%s %+v", second.Outcome, second.Usage)
		}
	})
}

// TestClocksOfTheLeader: his total time ends his answer with a timeout and nobody else's, and no engine is told of the time that he allows.
func TestClocksOfTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Texts: []string{"one two thre"}}
		})
		w.caching = exactAnswers()
		w.cfg.Timeout = 4 * time.Second
		w.slow(time.Second)
		w.principal.Limits.Concurrent = 0
		ask := func(id string, c *Call) error {
			c.RequestID, c.Received = id, time.Now()
			r, err := w.Chat(t.Context(), c)
			if err == nil {
				_, err = r.Collect()
			}
			return err
		}
		var all sync.WaitGroup
		all.Go(func() {
			c := coldCall("", "hello")
			c.FirstTokenTimeout = 3 * time.Second
			if err := ask("leads", c); !fault.Is(err, fault.CodeTimeout) {
				t.Error(err)
			}
		})
		time.Sleep(2500 * time.Millisecond)
		if err := ask("follows", coldCall("", "hello")); err != nil {
			t.Error(err)
		}
		all.Wait()
		if e := w.outcomes()["follows"]; e.Outcome != "ok" || e.Usage.Cost == 0 {
			t.Errorf("%+v", e)
		}
		if asked := w.engine.Requests(); len(asked) != 1 || !asked[0].Deadline.IsZero() {
			t.Errorf("%+v", asked)
		}
	})
}

// TestErasedWhileUnderWay: what was retrieved before an erasure is in no answer that is kept.
func TestErasedWhileUnderWay(t *testing.T) {
	w := newWorld(t, nil)
	w.caching = exactAnswers()
	w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "d", Version: "1", Text: "of somebody"}}
	for i, x := range []struct {
		state  string
		erases bool
	}{{"miss", true}, {"miss", false}, {"hit", false}} {
		w.rag.then = func() {
			if x.erases {
				w.ForgetAnswers("acme")
			}
		}
		c := coldCall(fmt.Sprint(i), "hello")
		c.RAG = &RAG{Collection: "docs"}
		if r, _ := chat(t, w, c); r.Cache() != x.state {
			t.Errorf("%d: %s", i, r.Cache())
		}
	}
}
