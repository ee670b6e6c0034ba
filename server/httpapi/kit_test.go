package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	billingenergy "github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag"
)

const (
	goodKey = "sk-sluice-planted-key"
	secret  = "SECRET1"
)

// kit is a server over a real pipeline with small fakes around it.
type kit struct {
	*httptest.Server

	api    *API
	edge   http.Handler // what the server serves
	engine *enginetest.Scripted
	logs   *lockedBuffer
	fail   map[string]error
	deny   access.Permission
	tenant string // of the caller; "" is acme
	cache  governance.Caching

	mu     sync.Mutex
	events []audit.Event
	kept   []audit.Text
	ended  chan struct{} // one value per outcome
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newKit(t testing.TB, cfg Config, plan func(n int, req *engine.Request) enginetest.Plan) *kit {
	t.Helper()
	return newKitWith(t, cfg, plan, nothing)
}

func nothing(*gateway.Deps) {}

// newKitWith changes what the pipeline is made of.
func newKitWith(t testing.TB, cfg Config, plan func(n int, req *engine.Request) enginetest.Plan, change func(*gateway.Deps)) *kit {
	t.Helper()
	k := newEdge(t, cfg, plan, change)
	k.Server = httptest.NewServer(k.edge)
	t.Cleanup(k.Close)
	return k
}

// newEdge makes a kit without a server.
func newEdge(t testing.TB, cfg Config, plan func(n int, req *engine.Request) enginetest.Plan, change func(*gateway.Deps)) *kit {
	t.Helper()
	k := &kit{engine: enginetest.NewScripted(plan), logs: &lockedBuffer{}, fail: map[string]error{}, ended: make(chan struct{}, 1000)}
	log := slog.New(slog.NewTextHandler(k.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	limits, err := limit.NewMemory(limit.Config{Key: limit.Limits{RequestsPerMinute: 100_000, TokensPerMinute: 50_000_000}}, log)
	if err != nil {
		t.Fatal(err)
	}
	deps := gateway.Deps{
		Identity: k, Access: k, Limits: limits, Guard: kitGuard{k}, Router: k, Ledger: kitLedger{k}, Retriever: kitRAG{}, Audit: k,
		Energy: kitMeter{}, Labels: kitLabels{}, Agreements: kitLabels{}, Signers: kitLabels{}, Marks: kitLabels{}, Issuer: "test.local/audit", Keys: keyring.FromBytes(make([]byte, 32)), Log: log,
	}
	change(&deps)
	p, err := gateway.New(gateway.Config{}, deps, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k.api, err = New(cfg, p, log, nil); err != nil {
		t.Fatal(err)
	}
	handler, err := k.api.NewEngine(k.api.WriteError)
	if err != nil {
		t.Fatal(err)
	}
	k.api.Register(handler)
	k.edge = handler
	return k
}

func (k *kit) Above(string) (string, []identity.Level) { return "", nil }

func (k *kit) Act(context.Context, identity.Acting, string) (identity.Principal, error) {
	return identity.Principal{}, fault.New(fault.CodeInvalidKey)
}

func (k *kit) Authenticate(_ context.Context, _ identity.Plane, credential, _ string) (identity.Principal, error) {
	if credential != goodKey {
		return identity.Principal{}, fault.New(fault.CodeInvalidKey)
	}
	return identity.Principal{Tenant: cmp.Or(k.tenant, "acme"), Kind: "key", ID: "k1"}, nil
}

func (k *kit) Allow(_ identity.Principal, perm access.Permission, _ string) error {
	if perm == "" || perm == k.deny {
		return fault.New(fault.CodeNotAllowed, string(perm))
	}
	return nil
}

func (k *kit) Pick(a route.Ask) (route.Choice, error) {
	all, err := k.engine.Models(context.Background())
	if err != nil {
		return route.Choice{}, err
	}
	a.Model = strings.TrimSuffix(a.Model, "@v1")
	v := route.Version{Model: a.Model, Version: "v1", Engine: "native", EngineModel: "scripted", Precision: "q4"}
	switch {
	case a.Model == "chat" && a.Need == route.Generate:
		return route.Choice{Version: v, Instance: pool.Alone(k.engine), Info: all[0]}, nil
	case a.Model == "embed" && a.Need == route.Embed:
		v.EngineModel = "scripted-embed"
		return route.Choice{Version: v, Instance: pool.Alone(k.engine), Info: all[1]}, nil
	case a.Model == "rank" && a.Need == route.Score:
		v.EngineModel = "scripted-rerank"
		return route.Choice{Version: v, Instance: pool.Alone(k.engine), Info: all[2]}, nil
	case a.Model == "plain" && a.Need == route.Generate: // does nothing but text
		info := all[0]
		info.HasFormats, info.HasTools, info.HasSampling, info.HasLogprobs, info.HasTokens, info.HasDetokenize = false, false, false, false, false, false
		choice := route.Choice{Version: v, Info: info}
		if a.Fits(pool.Offer{Model: &info}) { // as a router does
			choice.Instance = pool.Alone(k.engine)
		}
		return choice, nil
	}
	return route.Choice{}, fault.New(fault.CodeModelNotFound, a.Model).WithParam("model")
}

func (k *kit) Again(route.Choice, []*pool.Instance) (route.Choice, error) {
	return route.Choice{}, fault.New(fault.CodeEngineUnavailable, "chat")
}

func (k *kit) Models() []route.Model {
	all, err := k.engine.Models(context.Background())
	if err != nil {
		return nil
	}
	return []route.Model{
		{Name: "chat", Stable: "v1", CreatedAt: 1_700_000_000_000_000, Engine: "native", Info: all[0]},
		{Name: "org/embed", Stable: "v1", Engine: "upstream", Info: all[1]},
		{Name: "away", Stable: "v1", Engine: "upstream", Err: fault.New(fault.CodeEngineUnavailable, "away")},
	}
}

func (k *kit) AppendWith(_ context.Context, e audit.Event, _ string, texts ...audit.Text) (audit.Receipt, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, texts...)
	if err := k.fail["audit"]; err != nil {
		return audit.Receipt{}, err
	}
	k.events = append(k.events, e)
	if e.Stage == audit.StageOutcome {
		select {
		case k.ended <- struct{}{}:
		default: // a test that does not look
		}
	}
	return audit.Receipt{ID: fmt.Sprintf("receipt-%d", len(k.events)), Writer: "w"}, nil
}

func (k *kit) last() audit.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.events[len(k.events)-1]
}

type kitGuard struct{ k *kit }

func (g kitGuard) Admit(context.Context, governance.AdmitRequest) (gateway.Decision, error) {
	if err := g.k.fail["admit"]; err != nil {
		return nil, err
	}
	return &kitAdmission{cache: g.k.cache}, nil
}

func (kitGuard) Models(_ context.Context, _, _ string, all []string) []string { return all }

type kitAdmission struct {
	n     int
	cache governance.Caching
}

func (a *kitAdmission) Policy() governance.PolicyRef {
	return governance.PolicyRef{Version: "policy-7"}
}
func (a *kitAdmission) Masked() bool                 { return a.n > 0 }
func (a *kitAdmission) LabelMode(m string) string    { return m }
func (a *kitAdmission) DemandsAgreement() bool       { return false }
func (a *kitAdmission) AllowsCollection(string) bool { return true }
func (a *kitAdmission) SharesPrefixCache() bool      { return false }
func (a *kitAdmission) Placing() governance.Placing  { return governance.Anywhere() }
func (a *kitAdmission) UpstreamNonStreaming() bool   { return true }
func (a *kitAdmission) RespondBeforeRecord() bool    { return false }
func (a *kitAdmission) Signs() bool                  { return false }
func (a *kitAdmission) Caching() governance.Caching  { return a.cache }
func (a *kitAdmission) Answering(string) governance.Answering {
	return governance.Answering{}
}

func (a *kitAdmission) Watermark() governance.Watermarking {
	return governance.Watermarking{}
}
func (a *kitAdmission) Urgency(asked string) string     { return asked }
func (a *kitAdmission) Record() string                  { return "" }
func (a *kitAdmission) Redact(answer string) string     { return answer }
func (a *kitAdmission) Release() egress.Release         { return &kitRelease{} }
func (a *kitAdmission) ReleaseFound() egress.Release    { return a.Release() }
func (a *kitAdmission) ReleaseCitation() egress.Release { return a.Release() }
func (a *kitAdmission) MaskQuery(s string) (string, error) {
	return strings.ReplaceAll(s, secret, "⟦1⟧"), nil
}

func (a *kitAdmission) Mask(_ []classify.Known, fields []governance.Field) error {
	for _, f := range fields {
		*f.Text, _ = a.MaskPassage(*f.Text)
	}
	return nil
}

// Examine flags the word that stands for a value, and notes another.
func (a *kitAdmission) Examine(s string) []governance.Finding {
	n := strings.Count(s, secret)
	a.n += n
	var out []governance.Finding
	if strings.Contains(s, "seen") {
		out = append(out, governance.Finding{Direction: "request", Class: "noted", Action: "observe", Count: 1})
	}
	if n > 0 {
		out = append(out, governance.Finding{Direction: "request", Class: "secret", Detector: "secret@1", Action: "token", Count: n})
	}
	return out
}
func (a *kitAdmission) Examined() []string { return []string{"noted", "secret"} }

func (a *kitAdmission) StoreValues(context.Context) error      { return nil }
func (a *kitAdmission) MaskDisplayed(s string) (string, error) { return a.MaskPassage(s) }
func (a *kitAdmission) MaskPassage(s string) (string, error) {
	a.n += strings.Count(s, secret)
	return strings.ReplaceAll(s, secret, "⟦1⟧"), nil
}

func (a *kitAdmission) Findings() []governance.Finding {
	if a.n == 0 {
		return nil
	}
	return []governance.Finding{{Direction: "request", Class: "secret", Action: "token", Count: a.n}}
}

// kitRelease restores; it holds back from an open bracket on.
type kitRelease struct{ open, masked string }

func (r *kitRelease) Write(s string) (string, error) {
	r.open += s
	cut := len(r.open)
	if i := strings.LastIndex(r.open, "⟦"); i >= 0 && !strings.Contains(r.open[i:], "⟧") {
		cut = i
	}
	out := r.open[:cut]
	r.open, r.masked = r.open[cut:], out
	return strings.ReplaceAll(out, "⟦1⟧", secret), nil
}

func (r *kitRelease) Close(...string) (string, error) {
	r.masked = r.open
	return r.open, nil
}
func (r *kitRelease) Masked() string { return r.masked }
func (r *kitRelease) Held() int      { return len(r.open) }

type (
	kitLedger      struct{ k *kit }
	kitReservation struct{}
)

func (l kitLedger) Price(string, bool) (billing.Price, bool) {
	return billing.Price{Rate: price.Rate{Prompt: 1500, Cached: 150, Completion: 7}, Currency: "CNY", PriceBook: "v2"}, true
}

func (l kitLedger) Reserve(context.Context, billing.Ask) (gateway.Reservation, error) {
	return kitReservation{}, l.k.fail["reserve"]
}

func (kitReservation) Renew() {}

func (r kitReservation) Quote(t billing.Tokens) billing.Charge { return r.Settle(t) }

func (kitReservation) Settle(t billing.Tokens) billing.Charge {
	return billing.Charge{Cost: billing.Money(t.Prompt + t.Completion), Currency: "CNY", PriceBook: "b"}
}
func (kitReservation) Release() {}

type kitRAG struct{}

func (k kitRAG) Passages(ctx context.Context, q rag.PassageRef) ([]rag.Passage, error) {
	return k.Search(ctx, rag.Query{Collection: q.Collection})
}

func (kitRAG) Read(context.Context, rag.Document) (*rag.ParsedDocument, error) {
	return &rag.ParsedDocument{}, nil
}

func (kitRAG) Store(context.Context, *rag.ParsedDocument, rag.EmbedFunc) (rag.IngestResult, error) {
	return rag.IngestResult{}, nil
}

func (kitRAG) Search(_ context.Context, ask rag.Query) ([]rag.Passage, error) {
	if ask.Collection != "docs" {
		return nil, fault.New(fault.CodeCollectionNotFound, ask.Collection)
	}
	return []rag.Passage{{Collection: "docs", Document: "Fees", DocumentID: "d1", Version: "1", Chunk: 2, Text: "5 <b>", Start: 3, End: 8, Score: 0.5}}, nil
}

type kitMeter struct{}

func (kitMeter) Begin(string, bool) func() { return func() {} }
func (kitMeter) Abandon(string)            {}
func (kitMeter) End(string, time.Duration, int) billingenergy.Figure {
	return billingenergy.Figure{Microjoules: 42, Method: "declared"}
}

type kitLabels struct{}

func (kitLabels) Effective(string, string, string) string { return "" }
func (kitLabels) Demanded() bool                          { return false }

func (kitLabels) Signer(context.Context, string) (*signature.Signer, error) {
	return signature.NewSigner(signature.EdDSA, make([]byte, signature.SeedSize))
}

func (kitLabels) MarkKey(_ context.Context, tenant string, p watermark.Params) (*watermark.Key, error) {
	return watermark.NewKey(watermark.KeyConfig{Secret: make([]byte, 32), Tenant: tenant, Epoch: 1, Params: p})
}

func (kitLabels) KeyID(string) string { return "lk_1" }

func (kitLabels) Make(string, string) label.Label { return label.Label{Label: "1", ProduceID: "x"} }

// post sends a body with the good key and returns the reply with its body read.
func (k *kit) post(t testing.TB, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return k.do(t, http.MethodPost, path, strings.NewReader(body), headers...)
}

func (k *kit) do(t testing.TB, method, path string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	if path == socketSurface {
		return k.overSocket(t, body, headers...)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, k.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodKey)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	asDescribed(t, req, resp, b)
	return resp, string(b)
}

func decode[T any](t testing.TB, body string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

// events splits a stream; the last entry is "[DONE]" when it ended well.
func events(t testing.TB, body string) []string {
	t.Helper()
	r := openai.NewEventReader(strings.NewReader(body), 8<<20)
	var out []string
	for {
		ev, err := r.Next()
		if err == io.EOF { //nolint:errorlint // as returned
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(ev.Data))
	}
}

func (*kit) Resilience(string) *route.Resilience { return nil }
