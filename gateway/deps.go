package gateway

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/answercache"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/registry/fingerprint"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag"
)

// Config bounds requests. Zero values mean the defaults named at each field.
type Config struct {
	// Timeout bounds a whole request, from its arrival; 0 means 10 minutes.
	Timeout time.Duration `koanf:"timeout"`
	// FirstTokenTimeout bounds the time from the arrival of a request to the first text of its answer; 0 means no bound but Timeout. A caller's own
	// bound holds where it is shorter. Neither holds for an answer that an upstream sends in one piece.
	FirstTokenTimeout time.Duration `koanf:"first_token_timeout"`
	// IdleTimeout bounds the time between two events of a stream, after its first text; 0 means 2 minutes. It does not hold for the class batch.
	IdleTimeout time.Duration `koanf:"idle_timeout"`
	// SettleTimeout bounds what is written after a request has ended; 0 means 10 seconds.
	SettleTimeout time.Duration `koanf:"settle_timeout"`
	// DefaultTokens is the completion limit of a request that names none, on a version without one; 0 means 1024.
	DefaultTokens int `koanf:"default_tokens"`
	// MaxTokens is the highest completion limit on a model whose context length is unknown; 0 means 8192.
	MaxTokens int `koanf:"max_tokens"`
	// PassageTokens is the room kept for retrieved passages; 0 means 2048. A model's context is never filled by more than half.
	PassageTokens int `koanf:"passage_tokens"`
	// TopK is the number of passages when the caller does not say; 0 means 4.
	TopK int `koanf:"top_k"`
	// CacheBytes is the most that kept answers of all tenants take of the memory; 0 means 64 MiB. Nothing is kept unless a policy says so.
	CacheBytes int64 `koanf:"cache_bytes"`
}

// MaxTopK is the most passages a caller may ask for.
const MaxTopK = 20

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Timeout < 0 || c.FirstTokenTimeout < 0 || c.IdleTimeout < 0 || c.SettleTimeout < 0 {
		return errors.New("timeout, first_token_timeout, idle_timeout and settle_timeout: must not be negative")
	}
	if c.DefaultTokens < 0 || c.MaxTokens < 0 || c.PassageTokens < 0 {
		return errors.New("default_tokens, max_tokens and passage_tokens: must not be negative")
	}
	if c.CacheBytes < 0 {
		return errors.New("cache_bytes: must not be negative")
	}
	if c.TopK < 0 || c.TopK > MaxTopK {
		return fmt.Errorf("top_k: must lie between 0 and %d", MaxTopK)
	}
	return nil
}

// MaxDuration is the longest that a request may take, but for a document that is taken in, with what is written after it has ended.
func (c Config) MaxDuration() time.Duration {
	c = c.withDefaults()
	return c.Timeout + c.SettleTimeout
}

// TotalTimeout is the most time that a request has.
func (c Config) TotalTimeout() time.Duration { return c.withDefaults().Timeout }

func (c Config) withDefaults() Config {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.DefaultTokens, 1024)
	set(&c.MaxTokens, 8192)
	set(&c.PassageTokens, 2048)
	set(&c.TopK, 4)
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 2 * time.Minute
	}
	if c.SettleTimeout == 0 {
		c.SettleTimeout = 10 * time.Second
	}
	return c
}

// The collaborators: what each step needs, and no more, so that a test can make any step fail.
type (
	authenticator interface {
		// Authenticate may return a principal beside an error, for the record.
		Authenticate(ctx context.Context, plane identity.Plane, credential, source string) (identity.Principal, error)
		// Act is Authenticate for what somebody has left to be asked in his name.
		Act(ctx context.Context, a identity.Acting, source string) (identity.Principal, error)
		// Above returns the organisation of a tenant and the levels above its callers.
		Above(tenant string) (organisation string, above []identity.Level)
	}
	enforcer interface {
		Allow(p identity.Principal, perm access.Permission, tenant string) error
	}
	limiter interface {
		Acquire(ctx context.Context, ask limit.Request) (*limit.Permit, limit.State, error)
	}
	guard interface {
		// Admit may return a decision beside an error, for the record.
		Admit(ctx context.Context, ask governance.AdmitRequest) (Decision, error)
		Models(ctx context.Context, tenant, project string, all []string) []string
	}
	router interface {
		Pick(ask route.Ask) (route.Choice, error)
		Again(c route.Choice, tried []*pool.Instance) (route.Choice, error)
		Models() []route.Model
		// Resilience returns what is done when the engines of a model fail; nil: nothing.
		Resilience(model string) *route.Resilience
	}
	ledger interface {
		Reserve(ctx context.Context, ask billing.Ask) (Reservation, error)
		Price(model string, embed bool) (billing.Price, bool)
	}
	retriever interface {
		Search(ctx context.Context, ask rag.Query) ([]rag.Passage, error)
		Passages(ctx context.Context, q rag.PassageRef) ([]rag.Passage, error)
		Read(ctx context.Context, d rag.Document) (*rag.ParsedDocument, error)
		Store(ctx context.Context, d *rag.ParsedDocument, vectors rag.EmbedFunc) (rag.IngestResult, error)
	}
	recorder interface {
		AppendWith(ctx context.Context, e audit.Event, subject string, texts ...audit.Text) (audit.Receipt, error)
	}
	meter interface {
		// Begin notes that an engine of this machine begins to work for a request. stepped: the engine logs its steps for it.
		Begin(request string, stepped bool) (pause func())
		// End returns the energy of a request that was at work on this machine; without a method it is not known.
		End(request string, busy time.Duration, concurrent int) energy.Figure
		// Abandon forgets a request that another machine answered.
		Abandon(request string)
	}
	signers interface {
		// Signer returns what signs for a tenant.
		Signer(ctx context.Context, tenant string) (*signature.Signer, error)
	}
	markers interface {
		// MarkKey returns the key by which the answers of a tenant are marked with these parameters.
		MarkKey(ctx context.Context, tenant string, p watermark.Params) (*watermark.Key, error)
	}
	agreements interface {
		// Effective returns the id of the agreement under which a caller gets answers without a visible label now; "" without one, and where nobody can tell.
		Effective(tenant, project, key string) string
		// Demanded reports whether the installation demands one of everybody.
		Demanded() bool
	}
	registered interface {
		// Key returns that of the fingerprints of a tenant's answers.
		Key(ctx context.Context, tenant string) (*fingerprint.Key, error)
	}
	labeler interface {
		Make(request, tenant string) label.Label
		KeyID(tenant string) string
	}
)

// Decision is an admission by the guard; it holds the pseudonyms of this call.
type Decision interface {
	Policy() governance.PolicyRef
	Findings() []governance.Finding // so far, ordered
	Masked() bool
	// MaskQuery masks a text for a search, before Mask; nothing is counted.
	MaskQuery(text string) (string, error)
	// Mask masks the fields of the request, once; known is what documents say is sensitive.
	Mask(known []classify.Known, fields []governance.Field) error
	// Examine says what masking would do to a text of the request, in the place of doing it.
	Examine(text string) []governance.Finding
	Examined() []string // the classes that are looked for in requests
	MaskPassage(text string) (string, error)
	// MaskDisplayed masks a passage that no engine is given, only the caller.
	MaskDisplayed(text string) (string, error)
	// StoreValues stores the values behind new pseudonyms, if the policy lets anybody see them again, before the pseudonyms leave.
	StoreValues(ctx context.Context) error
	Release() egress.Release
	// ReleaseCitation is Release for what is cited beside an answer.
	ReleaseCitation() egress.Release
	// ReleaseFound is Release for the text of a document that is shown as an answer.
	ReleaseFound() egress.Release
	LabelMode(asked string) string
	DemandsAgreement() bool // answers go without a visible label only under an agreement
	AllowsCollection(name string) bool
	SharesPrefixCache() bool
	UpstreamNonStreaming() bool
	RespondBeforeRecord() bool
	Signs() bool // every answer is signed
	Caching() governance.Caching
	// Placing says where the texts may go, by what was found until now.
	Placing() governance.Placing
	Watermark() governance.Watermarking
	Answering(collection string) governance.Answering
	Urgency(asked string) string
	Record() string              // the form in which the texts are kept, "" for not at all
	Redact(answer string) string // a masked answer, as it may be kept
}

// Reservation is a worst-case cost set aside.
type Reservation interface {
	Quote(t billing.Tokens) billing.Charge // what Settle would charge
	Renew()                                // the call is still at work
	Settle(t billing.Tokens) billing.Charge
	Release()
}

// Deps are the parts a pipeline joins. All must be set, except Retriever and Embedding in an installation without retrieval, and Registry. They fit as they
// are, but for the guard and the ledger, which [FromGuard] and [FromLedger] adapt: what those return is an interface here, so
// that tests can make it fail.
type Deps struct {
	Identity  authenticator
	Access    enforcer
	Limits    limiter
	Guard     guard
	Router    router
	Ledger    ledger
	Retriever retriever
	Embedding route.Ask // where the vectors of the Retriever come from: a model of an engine in this process
	Audit     recorder
	Energy    meter
	Labels    labeler
	// Agreements are those on answers without a visible label.
	Agreements agreements
	Signers    signers
	Marks      markers
	Registry   registered // what remembers answers; nil for nothing
	Issuer     string     // this installation, as signed results call it
	Keys       *keyring.Ring
	Log        *slog.Logger
}

// Pipeline answers calls. It is safe for concurrent use.
type Pipeline struct {
	deps     Deps
	cfg      Config
	metrics  *metrics
	answers  *answercache.Cache[sharedAt]
	prefixes maphash.Seed // of the hashes of prompts
	now      func() time.Time
	running  atomic.Int64   // calls that an engine is working on
	detached sync.WaitGroup // records that are written while nobody waits for them
}

// New returns a pipeline over its parts. reg may be nil.
func New(cfg Config, deps Deps, reg prometheus.Registerer) (*Pipeline, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if deps.Identity == nil || deps.Access == nil || deps.Limits == nil || deps.Guard == nil || deps.Router == nil || deps.Ledger == nil ||
		deps.Audit == nil || deps.Energy == nil || deps.Labels == nil || deps.Agreements == nil || deps.Signers == nil || deps.Marks == nil || deps.Keys == nil || deps.Log == nil {
		return nil, errors.New("gateway: a part is missing: without it requests would go on unchecked")
	}
	deps.Log = deps.Log.With(slog.String("component", "gateway"))
	return &Pipeline{deps: deps, cfg: cfg.withDefaults(), metrics: newMetrics(reg), answers: answercache.New[sharedAt](cfg.CacheBytes), prefixes: maphash.MakeSeed(), now: time.Now}, nil
}

// Drain waits for the records that are on their way. Call it when no call is at work any more, before the log is closed.
func (p *Pipeline) Drain() {
	p.answers.Wait()
	p.detached.Wait()
}
