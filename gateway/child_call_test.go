package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// vectoring notes what an engine is asked vectors of, and lets a test interfere.
type vectoring struct {
	engine.Engine

	asked []engine.EmbedRequest
	meet  func(ctx context.Context, n int) error
}

func (v *vectoring) Embed(ctx context.Context, p *engine.Prompt) (*engine.Embeddings, error) {
	v.asked = append(v.asked, *p.Embed)
	if v.meet != nil {
		if err := v.meet(ctx, len(v.asked)); err != nil {
			return nil, err
		}
	}
	return v.Engine.Embed(ctx, p)
}

// searching is a world whose collections need the vectors of the question.
func searching(t testing.TB) (*world, *vectoring) {
	t.Helper()
	w := newWorld(t, nil)
	w.rag.parts = 1
	v := &vectoring{}
	w.wrap = func(e engine.Engine) engine.Engine {
		v.Engine = e
		return v
	}
	return w, v
}

func asking(text string) *Call {
	c := call(text)
	c.RAG = &RAG{Collection: "docs"}
	return c
}

// of returns the records of a request.
func (a *fakeAudit) of(request string) []audit.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.events), func(e audit.Event) bool { return e.Request != request })
}

// idle fails the test if the world still holds something of its calls.
func (w *world) idle(t testing.TB) {
	t.Helper()
	w.Drain()
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	if !w.slotFree(t) || w.running.Load() != 0 || len(w.ledger.asks) != len(w.ledger.settled)+w.ledger.released {
		t.Errorf("%d at work; of %d reservations %d were settled and %d released", w.running.Load(), len(w.ledger.asks), len(w.ledger.settled), w.ledger.released)
	}
}

// TestQuestionOfAChat: its vectors are a call of their own, of masked text, without a slot and without a record that anybody waits for.
func TestQuestionOfAChat(t *testing.T) {
	w, v := searching(t)
	w.log.hold = make(chan struct{})
	r, err := w.Chat(t.Context(), asking("who is SECRET1 anyway")) // the key has one slot
	if err != nil {
		t.Fatal(err)
	}
	if got := w.log.trail(); got != "admitted" || len(w.log.of("req-1")) != 1 {
		t.Errorf("the chat was admitted with %q", got)
	}
	close(w.log.hold)
	if _, err := r.Collect(); err != nil {
		t.Fatal(err)
	}
	w.idle(t)
	if q := v.asked[0]; len(v.asked) != 1 || q.Input[0] != "who is ⟦1⟧ anyway" || q.Class != engine.ClassInteractive || q.Role != engine.RoleQuery || q.Tenant != "acme" || q.Model != "scripted-embed" {
		t.Errorf("the engine was asked %+v", v.asked)
	}
	if a := w.ledger.asks[0]; a.Request != "req-1.vectors" || a.Tenant != "acme" || a.Key != "k1" || !a.Embed || a.PromptTokens != int64(len("who is ⟦1⟧ anyway")+4) || len(w.ledger.asks) != 2 {
		t.Errorf("reserved %+v", w.ledger.asks)
	}
	both := w.log.of("req-1.vectors")
	if len(both) != 2 || both[0].Stage != audit.StageAdmitted || both[1].Stage != audit.StageOutcome || both[1].Outcome != outcomeOK {
		t.Fatalf("%+v", both)
	}
	if first, second := both[0], both[1]; first.Time < r.Created.UnixMicro() || first.Time > second.Time || second.Time-second.Latency.Total != r.Created.UnixMicro() {
		t.Errorf("a question of %d was admitted at %d and ended at %d", r.Created.UnixMicro(), first.Time, second.Time)
	}
	for _, e := range both {
		u := e.Usage
		if e.Action != "embeddings" || e.Detail["parent"] != "req-1" || e.Tenant != "acme" || e.Actor.ID != "k1" || e.Model.Asked != "embed" || e.Resource != "docs" ||
			e.Policy != "policy-7" || e.PriceBook != "b1" || u.PromptTokens == 0 || u.Cost != 2*u.PromptTokens || u.Energy == 0 || u.EnergyMethod != "declared" {
			t.Errorf("recorded %+v", e)
		}
	}
	if parent := w.log.of("req-1")[1]; parent.Usage.Cost != r.Summary().Usage.Cost || parent.Detail["parent"] != "" || len(w.log.kept) != 0 {
		t.Errorf("the chat: %+v", parent)
	}
}

// TestQuestionThatCanWait: the vectors of a chat that can wait wait like it, and are reserved at its prices.
func TestQuestionThatCanWait(t *testing.T) {
	for _, class := range []engine.Class{engine.ClassBatch, engine.ClassStandard} {
		w, v := searching(t)
		c := asking("who is SECRET1 anyway")
		c.Class = class
		r, err := w.Chat(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Collect(); err != nil {
			t.Fatal(err)
		}
		w.idle(t)
		waits := class == engine.ClassBatch
		if len(v.asked) != 1 || (v.asked[0].Class == engine.ClassBatch) != waits || len(w.ledger.asks) != 2 || w.ledger.asks[0].Batch != waits || w.ledger.asks[1].Batch != waits {
			t.Errorf("%s: the engine was asked %+v, reserved %+v", class, v.asked, w.ledger.asks)
		}
	}
}

// TestQuestionOfASearch: the same, where the caller is known to be admitted.
func TestQuestionOfASearch(t *testing.T) {
	w, v := searching(t)
	c := call("")
	c.Action, c.Permission, c.Model, c.Messages, c.Query, c.RAG = ActionSearch, access.RAGSearch, "", nil, "SECRET2 fees", &RAG{Collection: "docs"}
	if _, err := w.Search(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.idle(t)
	if v.asked[0].Input[0] != "⟦2⟧ fees" || len(w.log.of("req-1")) != 2 || len(w.log.of("req-1.vectors")) != 2 {
		t.Errorf("%+v, %s", v.asked, w.log.trail())
	}
	w.fail["reserve vectors"] = fault.New(fault.CodeTenantBudget)
	c.Credential = "good"
	if _, err := w.Search(t.Context(), c); !fault.Is(err, fault.CodeTenantBudget) {
		t.Errorf("without a budget: %v", err)
	}
	w.idle(t)
}

// TestQuestionIsPaid: what its vectors cost is kept, whatever becomes of the chat.
func TestQuestionIsPaid(t *testing.T) {
	for name, prepare := range map[string]func(w *world, leave func()){
		"mask":     func(w *world, _ func()) { w.fail["mask"] = fault.New(fault.CodeBlockedContent, "x") },
		"reserve":  func(w *world, _ func()) { w.fail["reserve generation"] = fault.New(fault.CodeTenantBudget) },
		"audit":    func(w *world, _ func()) { w.keepFails = 2 },
		"search":   func(w *world, _ func()) { w.fail["retrieve"] = errBroken },
		"departed": func(w *world, leave func()) { w.rag.then = leave },
		"panic":    func(w *world, _ func()) { w.rag.then = func() { panic("the index is broken") } },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := searching(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			prepare(w, leave)
			func() {
				defer func() { _ = recover() }()
				if _, err := w.Chat(ctx, asking("what does it cost")); err == nil {
					t.Error("answered")
				}
			}()
			w.idle(t)
			if both := w.log.of("req-1.vectors"); len(both) != 2 || len(w.ledger.settled)+w.ledger.released == 0 || both[1].Usage.PromptTokens == 0 || name != "panic" && both[1].Usage.Cost == 0 {
				t.Errorf("%+v, settled %v", both, w.ledger.settled)
			}
			if parent := w.log.of("req-1"); len(parent) != 1 || parent[0].Usage.Cost != 0 || parent[0].Outcome == outcomeOK {
				t.Errorf("%+v", parent)
			}
		})
	}
}

// TestQuestionRefused: what keeps it from the engine refuses the chat, whose record is the only one.
func TestQuestionRefused(t *testing.T) {
	for name, want := range map[string]fault.Code{"reserve vectors": fault.CodeTenantBudget, "route native": fault.CodeRetrievalFailed} {
		w, v := searching(t)
		w.fail[name] = fault.New(fault.CodeTenantBudget)
		if want == fault.CodeRetrievalFailed {
			w.fail[name] = fault.New(fault.CodeEngineUnavailable, "embed")
		}
		if _, err := w.Chat(t.Context(), asking("what does it cost")); !fault.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		w.idle(t)
		if got := w.log.trail(); got != "outcome/refused" || len(v.asked) != 0 {
			t.Errorf("%s: %s, the engine was asked %+v", name, got, v.asked)
		}
	}
}

// TestQuestionFails: an engine that fails at it costs nothing, and the chat is not taken for one that failed at its model.
func TestQuestionFails(t *testing.T) {
	w, v := searching(t)
	v.meet = func(context.Context, int) error { return fault.New(fault.CodeEngineOverloaded, 1) }
	if _, err := w.Chat(t.Context(), asking("what does it cost")); !fault.Is(err, fault.CodeRetrievalFailed) {
		t.Error(err)
	}
	w.idle(t)
	if both := w.log.of("req-1.vectors"); len(both) != 2 || both[1].Outcome != outcomeFailed || both[1].ErrorCode != string(fault.CodeEngineOverloaded) || both[1].Usage.Cost != 0 || both[1].PriceBook != "" {
		t.Errorf("%+v", both)
	}
	if parent := w.log.of("req-1"); len(parent) != 1 || parent[0].Outcome != outcomeRefused {
		t.Errorf("%+v", parent)
	}
	w, v = searching(t)
	ctx, leave := context.WithCancel(t.Context())
	v.meet = func(context.Context, int) error {
		leave()
		return errBroken // whatever an engine makes of it
	}
	if _, err := w.Chat(ctx, asking("what does it cost")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.idle(t)
	if both := w.log.of("req-1.vectors"); len(both) != 2 || both[1].Outcome != outcomeAborted || w.log.of("req-1")[0].Outcome != outcomeAborted {
		t.Errorf("after the caller left: %s", w.log.trail())
	}
	w, v = searching(t)
	v.meet = func(context.Context, int) error { panic("the engine is broken") }
	func() {
		defer func() { _ = recover() }()
		_, _ = w.Chat(t.Context(), asking("what does it cost"))
	}()
	w.idle(t)
	if got := w.log.of("req-1.vectors"); len(got) != 2 || got[1].Outcome != outcomeFailed || len(w.log.of("req-1")) != 1 {
		t.Errorf("after a panic: %s", w.log.trail())
	}
}

// TestLongQuestion: the parts that a question is asked in are one call.
func TestLongQuestion(t *testing.T) {
	w, v := searching(t)
	w.rag.parts = 3
	r, _ := chat(t, w, asking("one two three four five six"))
	w.idle(t)
	both := w.log.of("req-1.vectors")
	sum := 0
	for _, q := range v.asked {
		got, err := enginetest.Embed(t.Context(), w.engine, &q)
		if err != nil {
			t.Fatal(err)
		}
		sum += got.PromptTokens
	}
	if len(v.asked) != 3 || len(both) != 2 || both[1].Usage.PromptTokens != int64(sum) || len(w.ledger.asks) != 2 || r.Summary().Usage.PromptTokens == 0 {
		t.Errorf("%d calls of %d tokens, recorded %+v", len(v.asked), sum, both)
	}
}

// TestQuestionTakesTooLong: the clock of the chat runs while its question is embedded.
func TestQuestionTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := searching(t)
		v.meet = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		if _, err := w.Chat(t.Context(), asking("what does it cost")); !fault.Is(err, fault.CodeTimeout) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		w.idle(t)
		if both := w.log.of("req-1.vectors"); len(both) != 2 || both[1].Outcome != outcomeFailed || both[1].ErrorCode != string(fault.CodeTimeout) || both[1].Usage.Energy < time.Minute.Microseconds() {
			t.Errorf("%+v", both)
		}
	})
}

// TestQuestionEnergy: an engine's work is what its calls take, not what the index does in between.
func TestQuestionEnergy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := searching(t)
		w.rag.parts, w.rag.then = 2, func() { time.Sleep(10 * time.Second) } // of the bubble's clock
		v.meet = func(context.Context, int) error {
			time.Sleep(time.Second)
			return nil
		}
		chat(t, w, asking("what does it cost"))
		w.idle(t)
		if e := w.log.of("req-1.vectors")[1]; e.Usage.Energy != 1+2*time.Second.Microseconds() {
			t.Errorf("energy %d", e.Usage.Energy)
		}
	})
}

// TestOverheadWithoutEngines: own time is what the steps take; the engine that embeds the question is no more in it than the one that answers.
func TestOverheadWithoutEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := searching(t)
		w.rag.parts, w.rag.then = 2, func() { time.Sleep(20 * time.Millisecond) } // of the bubble's clock, here and below
		v.meet = func(context.Context, int) error {
			time.Sleep(time.Second) // in its queue, and at work
			return nil
		}
		w.log.takes = 3 * time.Millisecond
		r, err := w.Chat(t.Context(), asking("what does it cost"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute / 2) // the caller takes his time
		if _, err := r.Collect(); err != nil {
			t.Fatal(err)
		}
		if r.Steps.Retrieve != 2_020_000 || r.Steps.Record != 3_000 || r.Embedding != 2*time.Second || r.Overhead() != 23*time.Millisecond {
			t.Errorf("%+v, of which %s for vectors: own time %s", r.Steps, r.Embedding, r.Overhead())
		}
		c := call("")
		c.Action, c.Permission, c.Model, c.Messages, c.Query, c.RAG = ActionSearch, access.RAGSearch, "", nil, "fees", &RAG{Collection: "docs"}
		found, err := w.Search(t.Context(), c)
		if err != nil || found.Embedding != 2*time.Second || found.Overhead() != 23*time.Millisecond {
			t.Errorf("a search: %v, own time %s", err, found.Overhead())
		}
		reg, said := prometheus.NewRegistry(), httptest.NewRecorder()
		reg.MustRegister(w.metrics.overhead)
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(said, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if text := said.Body.String(); !strings.Contains(text, "seconds_sum 0.046\n") || !strings.Contains(text, "seconds_count 2\n") {
			t.Errorf("the metric says\n%s", text)
		}
		w.idle(t)
	})
}

// TestQuestionUnrecorded: a log that is away refuses the chat, and says what it has lost.
func TestQuestionUnrecorded(t *testing.T) {
	w, _ := searching(t)
	w.log.failAt = map[audit.Stage]error{audit.StageAdmitted: errBroken}
	if _, err := w.Chat(t.Context(), asking("what does it cost")); !fault.Is(err, fault.CodeAuditUnavailable) {
		t.Error(err)
	}
	w.idle(t)
	if got := w.log.of("req-1.vectors"); len(got) != 0 {
		t.Errorf("an outcome without an admission: %+v", got)
	}
}

func bringing(texts ...string) *Call {
	c := call("")
	c.Action, c.Permission, c.Model, c.Messages, c.Tenant = ActionIngest, access.RAGWrite, "", nil, "bank"
	c.Document = &rag.Document{Collection: "docs", Name: "a.txt", Body: []byte(strings.Join(texts, "\n"))}
	return c
}

// TestIngest: a document takes the stages of a call, once, however often its engine is asked.
func TestIngest(t *testing.T) {
	w, v := searching(t)
	w.keep, w.answers = governance.RecordClear, true
	w.rag.texts = []string{"a passport costs 120", "ask SECRET1"}
	v.meet = func(context.Context, int) error {
		if got := w.log.trail(); got != "admitted" || w.ledger.released+len(w.ledger.settled) != 0 {
			t.Errorf("the engine was asked when the log held %q", got)
		}
		return nil
	}
	got, err := w.Ingest(t.Context(), bringing(w.rag.texts...))
	if err != nil || got.ID != "d1" || got.Chunks != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	both := w.log.of("req-1.document") // there although the policy has answers first
	if len(both) != 2 || len(w.log.events) != 2 || both[1].Outcome != outcomeOK || both[0].Usage.Cost != 0 {
		t.Fatalf("%+v", w.log.events)
	}
	w.idle(t)
	if w.ledger.renewed != len(v.asked) {
		t.Errorf("the reservation was renewed %d times for %d calls: the ledger would give up that of a long document", w.ledger.renewed, len(v.asked))
	}
	if u := both[1].Usage; u.PromptTokens < 2 || u.Cost != 2*u.PromptTokens || u.Energy == 0 || w.ledger.settled[0].Prompt != u.PromptTokens {
		t.Errorf("%+v", u)
	}
	for _, e := range both {
		if e.Action != "rag.ingest" || e.Detail["parent"] != "req-1" || e.Detail["class"] != "batch" || e.Tenant != "bank" || e.Actor.ID != "k1" || e.Resource != "docs" || e.Model.Asked != "embed" || e.Policy != "policy-7" {
			t.Errorf("recorded %+v", e)
		}
	}
	for i, q := range v.asked {
		if q.Input[0] != w.rag.texts[i] || q.Class != engine.ClassBatch || q.Role != engine.RolePassage || q.Tenant != "bank" {
			t.Errorf("the engine was asked %+v", q)
		}
	}
	if a := w.ledger.asks[0]; a.Request != "req-1.document" || a.Tenant != "bank" || a.Key != "k1" || !a.Embed || a.PromptTokens != int64(len("a passport costs 120ask SECRET1")+8) {
		t.Errorf("reserved %+v", a)
	}
	if g := w.guard.asks[0]; !g.Ingest || g.Model != "" || g.Tenant != "bank" || g.Action != "rag.ingest" || w.rag.read[0].Tenant != "bank" || len(w.log.kept) != 0 {
		t.Errorf("the policy was asked %+v, %v was read, %v kept", g, w.rag.read, w.log.kept)
	}
}

// TestDocumentsLeaveTheirTenantsTokens: a document has more tokens than a minute may have; chats go on all the same.
func TestDocumentsLeaveTheirTenantsTokens(t *testing.T) {
	w, _ := searching(t)
	w.principal.Limits.TokensPerMinute = 50
	w.rag.texts = slices.Repeat([]string{"a passport costs 120 "}, 500)
	if _, err := w.Ingest(t.Context(), bringing(w.rag.texts...)); err != nil {
		t.Fatal(err)
	}
	w.principal.Tenant = "bank" // whose document it was
	q := call("hello")
	q.MaxTokens = new(5)
	if _, err := w.Chat(t.Context(), q); err != nil {
		t.Errorf("a chat after a document of %d passages: %v", len(w.rag.texts), err)
	}
}

// TestIngestRefused: whoever may not, or cannot pay, stores nothing, and has one record that says so.
func TestIngestRefused(t *testing.T) {
	for step, code := range map[string]fault.Code{
		"allow rag.write": fault.CodeNotAllowed, "limit": fault.CodeRateLimited, "admit": fault.CodePolicyUnavailable, "route native": fault.CodeEngineUnavailable,
		"read": fault.CodeInvalidDocument, "reserve": fault.CodeTenantBudget,
	} {
		w, v := searching(t)
		w.rag.texts = []string{"one"}
		w.fail[step] = fault.New(code)
		if _, err := w.Ingest(t.Context(), bringing("one")); !fault.Is(err, code) {
			t.Errorf("%s: %v", step, err)
		}
		delete(w.fail, step)
		w.idle(t)
		home := map[bool]string{true: "acme", false: "bank"}[step == "allow rag.write"]
		if es := w.log.of("req-1.document"); len(es) != 1 || es[0].Stage != audit.StageOutcome || es[0].Tenant != home || es[0].Usage.Cost != 0 || len(v.asked) != 0 || w.rag.stored != 0 {
			t.Errorf("%s: %+v", step, es)
		}
	}
	w, v := searching(t)
	w.rag.texts, w.log.failAt = []string{"one"}, map[audit.Stage]error{audit.StageAdmitted: errBroken}
	if _, err := w.Ingest(t.Context(), bringing("one")); !fault.Is(err, fault.CodeAuditUnavailable) || len(v.asked) != 0 || w.rag.stored != 0 {
		t.Errorf("without the log: %v", err)
	}
	w.idle(t)
}

// TestIngestFails: our failure costs nothing; what a rule, or somebody who leaves, stops costs what was made until then.
func TestIngestFails(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *world, v *vectoring, leave func())
		outcome string
		costs   bool
	}{
		"engine": {func(_ *world, v *vectoring, _ func()) {
			v.meet = nth(2, func() error { return fault.New(fault.CodeEngineOverloaded, 1) })
		}, outcomeFailed, false},
		"database": {func(w *world, _ *vectoring, _ func()) { w.fail["store"] = fault.New(fault.CodeDatabaseUnavailable) }, outcomeFailed, false},
		"conflict": {func(w *world, _ *vectoring, _ func()) { w.fail["store"] = fault.New(fault.CodeConflict) }, outcomeRefused, true},
		"departed": {func(_ *world, v *vectoring, leave func()) {
			v.meet = nth(2, func() error { leave(); return context.Canceled })
		}, outcomeAborted, true},
		"panic": {func(_ *world, v *vectoring, _ func()) { v.meet = nth(2, func() error { panic("broken") }) }, outcomeFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, v := searching(t)
			w.rag.texts = []string{"one", "two"}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			c.prepare(w, v, leave)
			func() {
				defer func() { _ = recover() }()
				if _, err := w.Ingest(ctx, bringing("one", "two")); err == nil {
					t.Error("stored")
				}
			}()
			w.idle(t)
			if es := w.log.of("req-1.document"); len(es) != 2 || es[1].Outcome != c.outcome || (es[1].Usage.Cost > 0) != c.costs || w.rag.stored != 0 {
				t.Errorf("%+v", es)
			}
		})
	}
}

// nth does something at the nth call.
func nth(at int, do func() error) func(context.Context, int) error {
	return func(_ context.Context, n int) error {
		if n == at {
			return do()
		}
		return nil
	}
}

// TestIngestUnchanged: a document that is there already costs nothing, also without a budget.
func TestIngestUnchanged(t *testing.T) {
	w, v := searching(t)
	if _, err := w.Ingest(t.Context(), bringing("one")); err != nil {
		t.Fatal(err)
	}
	w.idle(t)
	if es := w.log.of("req-1.document"); len(es) != 2 || es[1].Outcome != outcomeOK || es[1].Usage.Cost != 0 || es[1].PriceBook != "" || len(v.asked) != 0 || w.ledger.asks[0].PromptTokens != 0 {
		t.Errorf("%+v, reserved %+v", es, w.ledger.asks)
	}
}

// TestIngestTakesLong: a document has more time than an answer, and not all the time in the world.
func TestIngestTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := searching(t)
		w.rag.texts = []string{"one"}
		v.meet = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		_, err := w.Ingest(t.Context(), bringing("one"))
		if !fault.Is(err, fault.CodeTimeout) || time.Since(began) != maxIngestTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if refusal := new(Refusal); !errors.As(err, &refusal) || refusal.Receipt == "" {
			t.Errorf("%v without a receipt", err)
		}
		w.idle(t)
	})
}
