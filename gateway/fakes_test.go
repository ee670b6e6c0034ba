package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
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

// world is a pipeline over fakes that fail on demand, and everything they saw.
type world struct {
	*Pipeline

	mu        sync.Mutex // guards what calls at one time note: the guard's asks, kept, agreementFor
	engine    *enginetest.Scripted
	principal identity.Principal
	fail      map[string]error // by step
	guard     *fakeGuard
	ledger    *fakeLedger
	log       *fakeAudit
	rag       *fakeRAG
	version   route.Version
	rollout   [2]string
	plain     bool // the model does nothing but text
	elsewhere bool // it runs on another machine
	audience  engine.Audience
	shares    bool // the policy lets tenants share prefixes
	streams   bool // the policy wants streams of other servers
	whole     bool // the model sends answers in one piece
	answers   bool // the policy has answers first
	signs     bool // the policy has all answers signed
	signErr   error
	marks     governance.Watermarking // as the policy has it
	answering governance.Answering    // the same
	markErr   error
	canMark   bool            // the engine says so
	closed    []*engine.Model // of instances that take no requests now
	markKeys  int             // how many were asked for
	wrap      func(engine.Engine) engine.Engine
	caching   governance.Caching
	place     func(masked bool) governance.Placing // where texts may go; nil: anywhere
	patient   bool                                 // the policy allows nothing interactive
	keep      string                               // the form in which the policy has texts kept
	kept      int                                  // calls of StoreValues
	keepFails int                                  // which of them fails

	resilience *route.Resilience

	agreement    string // on answers without a visible label
	agreementFor string // whom the last question was about
	demands      string // an agreement: "policy" or "installation"
}

func newWorld(t testing.TB, plan func(n int, req *engine.Request) enginetest.Plan) *world {
	t.Helper()
	w := &world{
		engine: enginetest.NewScripted(plan), fail: map[string]error{}, ledger: &fakeLedger{}, rag: &fakeRAG{},
		principal: identity.Principal{Tenant: "acme", Project: "p", Kind: "key", ID: "k1", Name: "shop", Labels: []string{"public"}, Limits: identity.Limits{Concurrent: 1}},
		version:   route.Version{Model: "chat", Version: "v1", Engine: "native", EngineModel: "scripted", Digest: "sha256:w", Precision: "q4"},
	}
	w.guard, w.log = &fakeGuard{w: w}, &fakeAudit{w: w}
	w.ledger.w, w.rag.w = w, w
	limits, err := limit.NewMemory(limit.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.Pipeline, err = New(Config{Timeout: time.Minute}, Deps{
		Identity: w, Access: w, Limits: fakeLimits{w, limits}, Guard: w.guard, Router: w, Ledger: w.ledger, Retriever: w.rag, Embedding: route.Ask{Engine: "native", Model: "embed", Need: route.Embed},
		Audit: w.log, Energy: fakeMeter{}, Labels: w, Agreements: w, Signers: w, Marks: w, Issuer: "test.local/audit", Keys: keyring.FromBytes(make([]byte, 32)),
		Log: slog.New(slog.DiscardHandler),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) Above(string) (string, []identity.Level) { return "", nil }

func (w *world) Act(_ context.Context, a identity.Acting, _ string) (identity.Principal, error) {
	if a.ID != w.principal.ID {
		return identity.Principal{}, fault.New(fault.CodeInvalidKey)
	}
	return w.principal, w.fail["authenticate"]
}

func (w *world) Authenticate(_ context.Context, _ identity.Plane, credential, _ string) (identity.Principal, error) {
	if credential != "good" {
		return identity.Principal{}, fault.New(fault.CodeInvalidKey)
	}
	if err := w.fail["authenticate"]; err != nil {
		return identity.Principal{}, err
	}
	return w.principal, nil
}

func (w *world) Allow(_ identity.Principal, perm access.Permission, _ string) error {
	if perm == "" {
		return fault.New(fault.CodeNotAllowed, "none")
	}
	return w.fail["allow "+string(perm)]
}

func (w *world) Pick(a route.Ask) (out route.Choice, _ error) {
	if err := w.fail["route"]; err != nil {
		return route.Choice{}, err
	}
	if err := w.fail["route "+a.Engine]; err != nil {
		return route.Choice{}, err
	}
	all, _ := w.engine.Models(context.Background())
	v, info := w.version, all[0]
	defer func() { out.Info.Local, out.Info.Audience = !w.elsewhere, w.audience }()
	switch a.Need {
	case route.Embed:
		v.EngineModel, info = "scripted-embed", all[1]
	case route.Score:
		v.EngineModel, info = "scripted-rerank", all[2]
	case route.Generate:
		info.NonStreaming, info.HasMarks = w.whole, w.canMark
		if w.plain {
			info.HasFormats, info.HasTools, info.HasSampling, info.HasLogprobs = false, false, false, false
		}
	}
	var e engine.Engine = w.engine
	if w.wrap != nil {
		e = w.wrap(e)
	}
	out = route.Choice{Version: v, Info: info, Rollout: w.rollout[0], Arm: w.rollout[1], Resilience: w.resilience}
	if a.Fits == nil || a.Fits(pool.Offer{Model: &info}) { // as a router does
		out.Instance = pool.Alone(e)
	} else {
		out.Closed = w.closed
	}
	return out, nil
}

func (w *world) Again(route.Choice, []*pool.Instance) (route.Choice, error) {
	return route.Choice{}, fault.New(fault.CodeEngineUnavailable, "chat")
}

func (w *world) Models() []route.Model {
	chats := engine.Model{ID: "m", CanGenerate: true}
	return []route.Model{{Name: "theirs", Info: engine.Model{ID: "t", CanGenerate: true, CanEmbed: true, Audience: engine.AudienceOf([]string{"globex", "acme-2"})}}, {Name: "gone", Gone: true}, {Name: "chat", Info: chats}, {Name: "hidden", Info: chats}, {Name: "other", Info: engine.Model{ID: "e", CanEmbed: true}}}
}

func (w *world) Make(request, _ string) label.Label {
	return label.Label{Label: "1", ProduceID: request}
}

func (w *world) KeyID(tenant string) string { return "lk_" + tenant }

type fakeLimits struct {
	w    *world
	real *limit.Limiter
}

func (f fakeLimits) Acquire(ctx context.Context, a limit.Request) (*limit.Permit, limit.State, error) {
	if err := f.w.fail["limit"]; err != nil {
		return nil, limit.State{}, err
	}
	return f.real.Acquire(ctx, a)
}

// fakeGuard masks the word SECRETn as ⟦n⟧ and restores it. An answer with the word FORBIDDEN is blocked.
type fakeGuard struct {
	w    *world
	asks []governance.AdmitRequest
}

func (g *fakeGuard) Admit(_ context.Context, ask governance.AdmitRequest) (Decision, error) {
	a := &fakeAdmission{w: g.w}
	if err := g.w.fail["admit"]; err != nil {
		return nil, err
	}
	if err := g.w.fail["admit "+ask.Model]; err != nil {
		return a, err
	}
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.asks = append(g.asks, ask)
	return a, nil
}

func (g *fakeGuard) Models(_ context.Context, _, _ string, all []string) []string {
	var out []string
	for _, m := range all {
		if m != "hidden" {
			out = append(out, m)
		}
	}
	return out
}

type fakeAdmission struct {
	w      *world
	masked int
	known  []classify.Known
	fields []governance.Field
}

func (a *fakeAdmission) mask(s string) string {
	for i := range 10 {
		word := fmt.Sprintf("SECRET%d", i)
		if n := strings.Count(s, word); n > 0 {
			a.masked += n
			s = strings.ReplaceAll(s, word, fmt.Sprintf("⟦%d⟧", i))
		}
	}
	return s
}

func (a *fakeAdmission) Policy() governance.PolicyRef {
	return governance.PolicyRef{Version: "policy-7", Digest: "digest"}
}
func (a *fakeAdmission) Masked() bool                   { return a.masked > 0 }
func (a *fakeAdmission) LabelMode(m string) string      { return m }
func (a *fakeAdmission) DemandsAgreement() bool         { return a.w != nil && a.w.demands == "policy" }
func (a *fakeAdmission) AllowsCollection(n string) bool { return n != "forbidden" }
func (a *fakeAdmission) SharesPrefixCache() bool        { return a.w.shares }
func (a *fakeAdmission) Placing() governance.Placing {
	if a.w == nil || a.w.place == nil {
		return governance.Anywhere()
	}
	return a.w.place(a.masked > 0)
}
func (a *fakeAdmission) UpstreamNonStreaming() bool { return !a.w.streams }
func (a *fakeAdmission) RespondBeforeRecord() bool  { return a.w != nil && a.w.answers }
func (a *fakeAdmission) Signs() bool                { return a.w != nil && a.w.signs }

func (a *fakeAdmission) Watermark() governance.Watermarking {
	if a.w == nil {
		return governance.Watermarking{}
	}
	return a.w.marks
}

func (a *fakeAdmission) Answering(string) governance.Answering {
	if a.w == nil {
		return governance.Answering{}
	}
	return a.w.answering
}

func (a *fakeAdmission) Caching() governance.Caching {
	if a.w == nil {
		return governance.Caching{}
	}
	return a.w.caching
}

func (a *fakeAdmission) Urgency(asked string) string {
	if a.w.patient && asked == "interactive" {
		return "standard"
	}
	return asked
}

func (a *fakeAdmission) Findings() []governance.Finding {
	if a.masked == 0 {
		return nil
	}
	return []governance.Finding{{Direction: "request", Class: "secret", Action: "token", Count: a.masked}}
}

// MaskQuery masks without a count.
func (a *fakeAdmission) MaskQuery(s string) (string, error) {
	before := a.masked
	defer func() { a.masked = before }()
	return a.mask(s), a.w.fail["question"]
}

// Mask masks the word that stands for a value.
func (a *fakeAdmission) Mask(known []classify.Known, fields []governance.Field) error {
	a.known, a.fields = append(a.known, known...), append(a.fields, fields...)
	if err := a.w.fail["mask"]; err != nil {
		a.masked = 1
		return err
	}
	for _, f := range fields {
		*f.Text = a.mask(*f.Text)
	}
	return nil
}

// Examine counts what Mask would mask.
func (a *fakeAdmission) Examine(s string) []governance.Finding {
	before := a.masked
	if a.mask(s); a.masked == before {
		return nil
	}
	return []governance.Finding{{Direction: "request", Class: "secret", Action: "token", Count: a.masked - before}}
}
func (a *fakeAdmission) Examined() []string { return []string{"secret"} }

func (a *fakeAdmission) MaskPassage(s string) (string, error) {
	return a.mask(s), a.w.fail["mask passage"]
}
func (a *fakeAdmission) MaskDisplayed(s string) (string, error) { return a.MaskPassage(s) }
func (a *fakeAdmission) Release() egress.Release                { return &fakeRelease{} }
func (a *fakeAdmission) ReleaseFound() egress.Release           { return a.Release() }
func (a *fakeAdmission) ReleaseCitation() egress.Release        { return &fakeRelease{} }

// StoreValues fails at the call that the world says: 1 is the one before the record of the admission.
func (a *fakeAdmission) StoreValues(context.Context) error {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.kept++
	if a.w.kept == a.w.keepFails {
		return fault.New(fault.CodeVaultUnavailable)
	}
	return nil
}

func (a *fakeAdmission) Record() string { return a.w.keep }

// Redact hides the word BROUGHT.
func (a *fakeAdmission) Redact(s string) string { return strings.ReplaceAll(s, "BROUGHT", "〔〕") }

type fakeRelease struct{ seen, open, masked string }

func (r *fakeRelease) Masked() string { return r.masked }
func (r *fakeRelease) Held() int      { return utf8.RuneCountInString(r.open) }

func (r *fakeRelease) Write(s string) (string, error) {
	r.seen += s
	r.open += s
	if strings.Contains(r.seen, "FORBIDDEN") {
		return "", fault.New(fault.CodeBlockedAnswer, "forbidden")
	}
	cut := len(r.open)
	if i := strings.LastIndex(r.open, "⟦"); i >= 0 && !strings.Contains(r.open[i:], "⟧") {
		cut = i
	}
	out := r.open[:cut]
	r.open, r.masked = r.open[cut:], out
	return restore(out), nil
}

func (r *fakeRelease) Close(...string) (string, error) {
	out := r.open
	r.open, r.masked = "", out
	return restore(out), nil
}

func restore(s string) string {
	for i := range 10 {
		s = strings.ReplaceAll(s, fmt.Sprintf("⟦%d⟧", i), fmt.Sprintf("SECRET%d", i))
	}
	return s
}

// fakeLedger prices a prompt token at 2 and a completion token at 5.
type fakeLedger struct {
	w        *world
	mu       sync.Mutex
	asks     []billing.Ask
	settled  []billing.Tokens
	released int
	renewed  int
}

type fakeReservation struct {
	l    *fakeLedger
	done bool
}

func (l *fakeLedger) Price(model string, embed bool) (billing.Price, bool) {
	return billing.Price{Rate: price.Rate{Prompt: 200}, Currency: "CNY", PriceBook: "v1"}, model != "unpriced" && !embed
}

func (l *fakeLedger) Reserve(_ context.Context, a billing.Ask) (Reservation, error) {
	if err := l.w.fail["reserve"]; err != nil {
		return nil, err
	}
	if err := l.w.fail["reserve "+map[bool]string{false: "generation", true: "vectors"}[a.Embed]]; err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks = append(l.asks, a)
	return &fakeReservation{l: l}, nil
}

func (r *fakeReservation) Renew() { r.l.renewed++ }

func (r *fakeReservation) Quote(t billing.Tokens) billing.Charge {
	return billing.Charge{Cost: billing.Money(2*t.Prompt + 5*t.Completion), Currency: "CNY", PriceBook: "b1"}
}

func (r *fakeReservation) Settle(t billing.Tokens) billing.Charge {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.done {
		panic("settled or released twice")
	}
	r.done = true
	r.l.settled = append(r.l.settled, t)
	return billing.Charge{Cost: billing.Money(2*t.Prompt + 5*t.Completion), Currency: "CNY", PriceBook: "b1"}
}

func (r *fakeReservation) Release() {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.done {
		panic("settled or released twice")
	}
	r.done = true
	r.l.released++
}

type fakeAudit struct {
	w      *world
	mu     sync.Mutex
	events []audit.Event
	kept   []kept
	failAt map[audit.Stage]error
	loses  bool          // records under best effort
	takes  time.Duration // each record
	hold   chan struct{} // outcomes wait for it, and every record of a part
}

// kept is a text that came with a record.
type kept struct {
	stage         audit.Stage
	subject, form string
	text          string
}

func (a *fakeAudit) AppendWith(ctx context.Context, e audit.Event, subject string, texts ...audit.Text) (audit.Receipt, error) {
	if a.hold != nil && (e.Stage == audit.StageOutcome || e.Detail["parent"] != "") {
		<-a.hold
	}
	time.Sleep(a.takes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return audit.Receipt{}, err
	}
	if err := a.failAt[e.Stage]; err != nil {
		return audit.Receipt{}, err
	}
	a.events = append(a.events, e)
	for _, t := range texts {
		if t.Text != "" {
			a.kept = append(a.kept, kept{e.Stage, subject, t.Direction + "/" + t.Form, t.Text})
		}
	}
	if a.loses {
		return audit.Receipt{ID: "lost"}, nil
	}
	return audit.Receipt{ID: fmt.Sprintf("r%d", len(a.events)), Writer: "w"}, nil
}

// trail is the stages and outcomes so far, such as "admitted outcome/ok".
func (a *fakeAudit) trail() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, e := range a.events {
		s := string(e.Stage)
		if e.Outcome != "" {
			s += "/" + e.Outcome
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

type fakeRAG struct {
	w        *world
	asks     []rag.Query
	quotes   []rag.PassageRef
	passages []rag.Passage
	expanded []rag.Expansion
	faq      *rag.Passage
	hang     bool           // until its context ends
	parts    int            // how many the question is asked in; 0: it is not
	then     func()         // after the vectors have come
	texts    []string       // of a document that is read
	read     []rag.Document // so far
	stored   int
}

// Read reads what the test says.
func (r *fakeRAG) Read(_ context.Context, d rag.Document) (*rag.ParsedDocument, error) {
	r.read = append(r.read, d)
	return &rag.ParsedDocument{Texts: r.texts}, r.w.fail["read"]
}

// Store asks for the vectors of one text after the other.
func (r *fakeRAG) Store(ctx context.Context, d *rag.ParsedDocument, vectors rag.EmbedFunc) (rag.IngestResult, error) {
	for _, t := range d.Texts {
		if _, err := vectors(ctx, []string{t}, false); err != nil {
			return rag.IngestResult{}, fault.Wrap(err, fault.CodeRetrievalFailed, "docs")
		}
	}
	if err := r.w.fail["store"]; err != nil {
		return rag.IngestResult{}, err
	}
	r.stored++
	return rag.IngestResult{ID: "d1", Version: "v1", Chunks: len(d.Texts)}, nil
}

func (r *fakeRAG) Passages(_ context.Context, q rag.PassageRef) ([]rag.Passage, error) {
	r.quotes = append(r.quotes, q)
	return append([]rag.Passage(nil), r.passages...), r.w.fail["open"]
}

func (r *fakeRAG) Search(ctx context.Context, ask rag.Query) ([]rag.Passage, error) {
	if r.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.asks = append(r.asks, ask)
	if ask.Trace != nil {
		if ask.Trace.Expanded = r.expanded; ask.FAQ {
			ask.Trace.FAQ = r.faq
		}
	}
	for i := range r.parts {
		part := ask.Text[i*len(ask.Text)/r.parts : (i+1)*len(ask.Text)/r.parts]
		if _, err := ask.Embed(ctx, []string{part}, true); err != nil {
			return nil, fault.Wrap(err, fault.CodeRetrievalFailed, ask.Collection)
		}
	}
	if r.then != nil {
		r.then()
	}
	return append([]rag.Passage(nil), r.passages...), r.w.fail["retrieve"]
}

type fakeMeter struct{}

func (fakeMeter) Begin(string, bool) func() { return func() {} }
func (fakeMeter) Abandon(string)            {}
func (fakeMeter) End(_ string, busy time.Duration, _ int) energy.Figure {
	return energy.Figure{Microjoules: 1 + busy.Microseconds(), Method: "declared"}
}

var errBroken = errors.New("broken")

// call is a valid chat call.
func call(text string) *Call {
	return &Call{
		Credential: "good", Plane: identity.DataPlane, Permission: access.InferenceGenerate, RequestID: "req-1", Source: "192.0.2.1",
		Route: "POST /v1/chat/completions", Dialect: "openai", Action: ActionChat, Model: "chat",
		Messages: []engine.Message{{Role: "user", Content: text}}, Logprobs: -1,
	}
}

// digest is what the record of an answer says of its text.
func (w *world) digest(text string) string {
	d := audit.NewAnswerDigest(w.deps.Keys, "acme")
	_, _ = d.WriteString(text)
	return d.String()
}

// slotFree reports whether the one slot of the key is free again.
func (w *world) slotFree(t testing.TB) bool {
	t.Helper()
	w.fail["limit"] = nil
	k, _, err := w.deps.Limits.Acquire(context.Background(), limit.Request{
		Tenant: "acme", Bounds: []limit.Bound{{Scope: limit.Key, ID: "k1", Limits: limit.Limits{Concurrent: 1}}},
	})
	if err != nil {
		return false
	}
	k.Release(context.Background(), 0)
	return true
}

func (w *world) Signer(_ context.Context, tenant string) (*signature.Signer, error) {
	if w.signErr != nil {
		return nil, w.signErr
	}
	seed := make([]byte, signature.SeedSize)
	copy(seed, tenant)
	return signature.NewSigner(signature.EdDSA, seed)
}

// Effective and Demanded are of the agreements on answers without a visible label.
func (w *world) Effective(tenant, project, key string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agreementFor = tenant + "/" + project + "/" + key
	return w.agreement
}
func (w *world) Demanded() bool { return w.demands == "installation" }

func (w *world) MarkKey(_ context.Context, tenant string, p watermark.Params) (*watermark.Key, error) {
	w.markKeys++
	if w.markErr != nil {
		return nil, w.markErr
	}
	secret := make([]byte, 32)
	copy(secret, tenant)
	return watermark.NewKey(watermark.KeyConfig{Secret: secret, Tenant: tenant, Epoch: 1, Params: p})
}

// Resilience implements router.
func (w *world) Resilience(string) *route.Resilience { return w.resilience }
