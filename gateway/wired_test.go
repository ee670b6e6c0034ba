package gateway_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/agreement"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/governance/signingkeys"
	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag"
)

// wired is a pipeline over the real parts, with a scripted engine at its end.
type wired struct {
	*gateway.Pipeline

	db     *gorm.DB
	engine *enginetest.Scripted
	log    *audit.Log
	ledger *billing.Ledger
	guard  *governance.Guard
	rag    *rag.Service
	dir    string
	key    string
	keyID  string
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wire(t testing.TB, plan func(int, *engine.Request) enginetest.Plan) *wired {
	t.Helper()
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	w := &wired{db: dbtest.SQLite(t), engine: enginetest.NewScripted(plan), dir: t.TempDir()}
	keys := keyring.FromBytes([]byte(strings.Repeat("k", 32)))

	ids := must(identity.New(identity.Config{PasswordCost: identity.PasswordCost{MemoryKiB: 64, Passes: 1}}, identity.Limits{}, w.db, keys, log, nil))(t)
	ok(t, ids.Load(ctx))
	ok(t, ids.CreateTenant(ctx, identity.Tenant{ID: "acme", Name: "Acme"}))
	ok(t, ids.CreateProject(ctx, identity.Project{Tenant: "acme", ID: "p", Name: "P"}))
	key, secret, err := ids.CreateKey(ctx, identity.NewKey{Tenant: "acme", Project: "p", Name: "shop", Labels: []string{"public"}})
	ok(t, err)
	w.key, w.keyID = secret, key.ID

	w.guard = must(governance.New(governance.Config{}, governance.NewPolicyStore(w.db), keys, classify.New(classify.Classes()...), log, nil))(t)
	must(w.guard.EnsureDefault(ctx, "test"))(t)
	ok(t, w.guard.Load(ctx))

	w.ledger = must(billing.New(billing.Config{Node: "n1"}, w.db, log, nil))(t)
	ok(t, w.ledger.Load(ctx))
	w.log = must(audit.Open(audit.Config{Dir: w.dir, Origin: "test.local/audit"}, w.db, keys, w.record, log, nil))(t)
	t.Cleanup(func() { _ = w.log.Close() })

	router := must(route.New(route.Config{}, w.db, pool.Each(map[string]engine.Engine{"native": w.engine}), log, nil))(t)
	ok(t, router.Load(ctx))
	ok(t, router.Register(ctx, route.Version{Model: "chat", Version: "v1", Engine: "native", EngineModel: "scripted"}))

	w.rag = must(rag.New(rag.Config{Dir: t.TempDir()}, w.db, keys, rag.Model{ID: "scripted-embed", Dim: 32}, log, nil))(t)
	t.Cleanup(func() { _ = w.rag.Close() })
	ok(t, w.rag.Load(ctx))

	signers := must(signingkeys.New(signingkeys.Config{DB: w.db, Keys: keys, Suite: seal.Intl, Algorithm: signature.EdDSA, Log: log}))(t)
	ok(t, signers.Load(ctx))
	marks := must(tenantmark.New(tenantmark.Config{DB: w.db, Keys: keys, Suite: seal.Intl, Log: log}))(t)
	ok(t, marks.Load(ctx))
	agreed := must(agreement.New(agreement.Config{DB: w.db, Log: log}))(t)
	ok(t, agreed.Load(ctx))
	w.Pipeline = must(gateway.New(gateway.Config{}, gateway.Deps{
		Identity: ids, Access: must(access.New())(t), Limits: must(limit.NewMemory(limit.Config{}, log))(t), Guard: gateway.FromGuard(w.guard),
		Router: router, Ledger: gateway.FromLedger(w.ledger), Retriever: w.rag, Embedding: route.Ask{Engine: "native", Model: "scripted-embed", Need: route.Embed}, Audit: w.log,
		Energy: must(energy.NewAccount(energy.AccountConfig{Config: energy.Config{IdleMilliwatts: 10_000, BusyMilliwatts: 60_000}}))(t), Labels: must(label.New(label.Config{}, keys))(t), Agreements: agreed, Signers: signers, Marks: marks,
		Keys: keys, Log: log,
	}, nil))(t)
	return w
}

// record writes the usage rows of outcomes in the transaction that ships them, as the server does.
func (w *wired) record(tx *gorm.DB, events []audit.Event) error {
	var usages []billing.Usage
	for _, e := range events {
		if e.Stage != audit.StageOutcome || e.PriceBook == "" {
			continue
		}
		usages = append(usages, billing.Usage{
			Request: e.Request, Tenant: e.Tenant, Project: e.Project, Key: e.Actor.ID, Actor: e.Actor.Name, Action: e.Action, Model: "chat",
			Version: e.Model.Version, At: e.Time - e.Latency.Total, Cost: billing.Money(e.Usage.Cost), Currency: e.Usage.Currency, PriceBook: e.PriceBook,
			Tokens: billing.Tokens{Prompt: e.Usage.PromptTokens, Cached: e.Usage.CachedTokens, Completion: e.Usage.CompletionTokens},
			Energy: e.Usage.Energy, EnergyMethod: e.Usage.EnergyMethod, Estimated: e.Usage.Estimated, Outcome: e.Outcome,
		})
	}
	return w.ledger.RecordUsage(tx, usages...)
}

func (w *wired) call(id, text string) *gateway.Call {
	return &gateway.Call{
		Credential: w.key, Plane: identity.DataPlane, Permission: access.InferenceGenerate, RequestID: id, Action: gateway.ActionChat,
		Model: "chat", Messages: []engine.Message{{Role: "user", Content: text}}, Logprobs: -1, Dialect: "openai",
	}
}

const (
	residentID = "11010519491231002X"
	mobile     = "13812345678"
)

// TestRealParts: a resident id and a mobile number never reach the engine, come back in the answer, and leave two provable records
// and one usage row.
func TestRealParts(t *testing.T) {
	w := wire(t, nil) // the engine repeats what it is given
	text := "我的身份证号是" + residentID + "，手机号是" + mobile + "，请登记。"
	reply := must(w.Chat(t.Context(), w.call("req-1", text)))(t)
	answer := must(reply.Collect())(t)
	if answer.Choices[0].Text != text {
		t.Errorf("the caller got %q", answer.Choices[0].Text)
	}
	for _, q := range w.engine.Requests() {
		if c := q.Messages[0].Content; strings.Contains(c, residentID) || strings.Contains(c, mobile) {
			t.Errorf("the engine saw %q", c)
		}
	}
	ok(t, w.log.Flush(t.Context()))
	page := must(w.log.Search(t.Context(), search.Query{Tenant: "acme", Request: "req-1"}))(t)
	if len(page.Events) != 2 {
		t.Fatalf("%d records", len(page.Events))
	}
	masked := 0
	for _, e := range page.Events {
		if e.Stage == audit.StageOutcome {
			for _, f := range e.Findings {
				if f.Action == "token" {
					masked += f.Count
				}
			}
			if e.Usage.Cost == 0 || e.Usage.Energy == 0 || e.Policy == "" || e.Label == "" {
				t.Errorf("outcome %+v", e.Event)
			}
		}
	}
	if masked != 2 {
		t.Errorf("%d values recorded as tokens", masked)
	}
	report := must(w.ledger.Report(t.Context(), billing.ReportQuery{Tenant: "acme", To: time.Now().Add(time.Hour).UnixMicro()}))(t)
	if report.Total.Cost != billing.Money(reply.Summary().Usage.Cost) {
		t.Errorf("billed %d, told %d", report.Total.Cost, reply.Summary().Usage.Cost)
	}
	verified := must(verify.Run(t.Context(), verify.Source{Dir: w.dir, DB: w.db, VerifierKey: w.log.VerifierKey()}, nil))(t)
	if !verified.OK {
		t.Errorf("%+v", verified)
	}
}

func TestRealRefusals(t *testing.T) {
	w := wire(t, nil)
	c := w.call("a", "hello")
	c.Credential = w.key + "x"
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeInvalidKey) {
		t.Errorf("foreign key: %v", err)
	}
	c = w.call("b", "hello")
	c.Permission = access.PolicyWrite
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeNotAllowed) {
		t.Errorf("permission: %v", err)
	}
	c = w.call("c", "hello")
	c.Model = "nope"
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("model: %v", err)
	}
	ok(t, w.ledger.SetBudget(t.Context(), billing.Budget{Scope: billing.Scope{Tenant: "acme"}, Period: billing.Total, Limit: 1}))
	if _, err := w.Chat(t.Context(), w.call("d", "hello")); !fault.Is(err, fault.CodeOverBudget) {
		t.Errorf("budget: %v", err)
	}
	ok(t, w.log.Flush(t.Context()))
	page := must(w.log.Search(t.Context(), search.Query{Tenant: "acme"}))(t)
	if len(page.Events) != 3 || len(w.engine.Requests()) != 0 {
		t.Errorf("%d records, want one for each refusal of a known caller; engine asked %d times", len(page.Events), len(w.engine.Requests()))
	}
	ok(t, w.log.Close())
	if _, err := w.Chat(t.Context(), w.call("e", "hello")); !fault.Is(err, fault.CodeAuditUnavailable) {
		t.Errorf("closed log: %v", err)
	}
}

func TestRealRetrieval(t *testing.T) {
	w := wire(t, nil)
	ok(t, w.rag.CreateCollection(t.Context(), rag.Collection{Tenant: "acme", Name: "docs", Labels: []string{"public"}}))
	ok(t, w.rag.CreateCollection(t.Context(), rag.Collection{Tenant: "acme", Name: "secret", Labels: []string{"board"}}))
	must(w.Ingest(t.Context(), &gateway.Call{
		Credential: w.key, Plane: identity.DataPlane, Permission: access.RAGSearch, RequestID: "i1", Action: gateway.ActionIngest,
		Document: &rag.Document{Collection: "docs", Name: "fees.txt", MIME: "text/plain", Body: []byte("A passport costs 120 yuan. Call " + mobile + ".")},
	}))(t)
	c := w.call("r1", "What does a passport cost?")
	c.RAG = &gateway.RAG{Collection: "docs"}
	reply := must(w.Chat(t.Context(), c))(t)
	must(reply.Collect())(t)
	q := w.engine.Requests()[0]
	if !strings.Contains(q.Messages[1].Content, "120 yuan") || strings.Contains(q.Messages[1].Content, mobile) || len(reply.Citations) != 1 {
		t.Errorf("the engine was given %q, citations %+v", q.Messages[1].Content, reply.Citations)
	}
	c = w.call("r2", "x")
	c.RAG = &gateway.RAG{Collection: "secret"}
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeCollectionNotFound) {
		t.Errorf("a collection for others: %v", err)
	}
	s := &gateway.Call{Credential: w.key, Plane: identity.DataPlane, Permission: access.RAGSearch, RequestID: "s1", Action: gateway.ActionSearch, Query: "passport", RAG: &gateway.RAG{Collection: "docs"}}
	found := must(w.Search(t.Context(), s))(t)
	if len(found.Passages) != 1 || !strings.Contains(found.Passages[0].Text, "120 yuan") {
		t.Errorf("%+v", found.Passages)
	}
}

// BenchmarkGoverned measures the whole governed path with the real parts, fsync of both audit records included.
func BenchmarkGoverned(b *testing.B) {
	w := wire(b, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"ok"}} })
	b.ReportAllocs()
	for b.Loop() {
		reply, err := w.Chat(b.Context(), w.call(time.Now().String(), "我的手机号是"+mobile+"，请登记。"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := reply.Collect(); err != nil {
			b.Fatal(err)
		}
	}
}
