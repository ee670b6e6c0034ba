package adminapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/instances"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/accessreview"
	"github.com/sluice-project/sluice/governance/agreement"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/governance/signingkeys"
	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/internal/wrapkey"
	"github.com/sluice-project/sluice/rag"
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/server/compliance"
	"github.com/sluice-project/sluice/server/erasure"
	"github.com/sluice-project/sluice/server/offboard"
	"github.com/sluice-project/sluice/server/provenance"
	"github.com/sluice-project/sluice/server/sla"
	"github.com/sluice-project/sluice/workflows"
)

// Config bounds the API.
type Config struct {
	// MaxBodyBytes bounds a request body; documents are sent in it, base64 encoded.
	MaxBodyBytes int64
	// SecureCookies marks the refresh cookie Secure; on when the public address is https.
	SecureCookies bool
}

// Deps are the parts the API manages.
type Deps struct {
	Identity *identity.Identity
	Access   *access.Enforcer
	Guard    *governance.Guard
	Audit    *audit.Log
	Eraser   *erasure.Eraser
	Reviews  *accessreview.Service
	Offboard *offboard.Service
	Verify   func(ctx context.Context, progress func(done, total int64)) (verify.Report, error)
	// RevealSweep is told that a person looked at the values of so many conversations within an hour that it is an alarm.
	RevealSweep func(ctx context.Context, tenant string, conversations int)
	// BreakGlass is told that an emergency session has begun.
	BreakGlass func(ctx context.Context, use identity.EmergencyUse)
	Ledger     *billing.Ledger
	Router     *route.Router
	Instances  *instances.Registry
	RAG        *rag.Service
	Workflows  *workflows.Service // nil when switched off
	Native     *native.Engine     // nil without native models
	// Scaling are the loops of the pools that this process scales, ordered by name.
	Scaling      []*scaling.Loop
	ServiceLevel *sla.Service
	// LocalEngines are the engines of our own: that of this process and its workers, as they were last. It asks nobody.
	LocalEngines func() []LocalEngine
	// Adapters, LoadAdapter and UnloadAdapter are about what the native engines of this process and of workers have; the latter two change the models
	// that can be asked for with it. The path is what the request says.
	Adapters      func(ctx context.Context) ([]native.Adapter, error)
	LoadAdapter   func(ctx context.Context, cfg native.AdapterConfig) (native.Adapter, error)
	UnloadAdapter func(ctx context.Context, id engine.ModelID) error
	Pipeline      *gateway.Pipeline
	Labels        *label.Labeler
	Credentials   *c2pa.Authority
	Files         labelfile.Writer
	Bodies        *inflight.Limiter
	// Playground answers POST /v1/chat/completions on the admin plane.
	Playground gin.HandlerFunc
	StoreFile  gin.HandlerFunc // POST /batches/files
	BatchFile  gin.HandlerFunc // GET /batches/{id}/files/{file}
	Batches    *batch.Service
	// BaseURL says where applications reach the OpenAI-compatible API, for somebody whose request came the way it did.
	BaseURL func(r *http.Request) string
	// TokenURL says where service accounts get tokens for a plane.
	TokenURL func(p identity.Plane) string
	// ConsoleURL says where somebody whose request came the way it did finds the console; it ends with a slash.
	ConsoleURL func(r *http.Request) string
	// Energy is the account of this machine's energy.
	Energy *energy.Account
	// AuditStatus says how the audit log is doing, of a tenant or, if whole, of all.
	AuditStatus func(ctx context.Context, tenant string, whole bool) (AuditStatus, error)
	// Reconciliation says how the last one went, with a page of at most limit+1 findings: open ones, or all. Reconcile starts one.
	Reconciliation func(ctx context.Context, all bool, offset, limit int) (Reconciliation, error)
	Reconcile      func()
	// SigningKeys are those of signed results.
	SigningKeys *signingkeys.Store
	// WatermarkKeys are those of watermarks, and Watermarks finds them.
	WatermarkKeys *tenantmark.Store
	// Agreements are those on answers without a visible label.
	Agreements *agreement.Store
	Watermarks *tenantmark.Service
	// Provenance says where texts come from.
	Provenance *provenance.Service
	// Registry traces texts to the answers that have them.
	Registry *registry.Service
	// Compliance asks the controls of the compliance matrix for a tenant.
	Compliance func(ctx context.Context, tenant string) (compliance.Evaluation, error)
	// Rotator replaces the wrapping keys.
	Rotator *wrapkey.Rotator
	// Version is that of this program.
	Version string
	// System reports on the installation.
	System func(ctx context.Context) System
}

// Server serves the management API. It is safe for concurrent use.
type Server struct {
	cfg        Config
	deps       Deps
	log        *slog.Logger
	doc        *openapi3.T
	operations map[string]operation
	now        func() time.Time
	formats    map[string]openapi3.StringFormatValidator

	mu   sync.Mutex // guards jobs
	jobs []*verification

	lookups    lookupLimiter
	detections lookupLimiter // of marks, by themselves or all together: whoever may ask without end can edit a text until none is left
	files      chan struct{} // a place for each file that is labelled or read
	traces     lookupLimiter
}

var _ ServerInterface = (*Server)(nil)

// New checks that routes and document agree and registers the API on r.
func New(cfg Config, deps Deps, r gin.IRouter, log *slog.Logger) (*Server, error) {
	api, err := described()
	if err != nil {
		return nil, err
	}
	if cfg.MaxBodyBytes == 0 {
		cfg.MaxBodyBytes = 16 << 20
	}
	s := &Server{cfg: cfg, deps: deps, log: log.With(attr("component", "adminapi")), doc: api.doc, operations: api.operations, now: time.Now, formats: formatValidators(), files: make(chan struct{}, filesAtOnce)}
	group := r.Group("", s.chain)
	group.GET(Prefix+"/audit/log/tile/*path", s.GetLogTile)
	RegisterHandlersWithOptions(group, s, GinServerOptions{
		BaseURL: Prefix,
		ErrorHandler: func(c *gin.Context, err error, _ int) {
			s.Fail(c, fault.Wrap(err, fault.CodeInvalidValue, "request", fault.Say("adminapi.parameter_unreadable")).WithParam("request"))
		},
	})
	return s, nil
}

func attr(key, value string) slog.Attr { return slog.String(key, value) }

func caller(c *gin.Context) identity.Principal {
	p, _ := c.Get(keyPrincipal)
	principal, _ := p.(identity.Principal)
	return principal
}

func tenantOf(c *gin.Context) string { return c.GetString(keyTenant) }

// decode reads the JSON body, which the chain has validated, into v.
func decode[T any](c *gin.Context) (T, error) {
	var v T
	err := c.ShouldBindJSON(&v)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "": // only a number can be of the right kind and not fit
		return v, wrongValue(kind.Field, fault.Say("value.out_of_range"))
	case err != nil:
		return v, genericViolation("body", err)
	}
	return v, nil
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func micros(t int64) time.Time { return time.UnixMicro(t).UTC() }

// optionalMicros is a time in microseconds that may be absent: 0 is.
func optionalMicros(t int64) *time.Time {
	if t == 0 {
		return nil
	}
	at := micros(t)
	return &at
}

// optionalTime is a time that may be absent: the zero one is.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// list returns s, or an empty list for nil: the document promises an array.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// page cuts items, which are complete and in a stable order, at the cursor and the limit. Lists that a store pages itself do not
// use it.
func page[T any](items []T, cursor *string, limit *int) (out []T, next *string, err error) {
	offset, n, err := window(cursor, limit)
	if err != nil {
		return nil, nil, err
	}
	if offset >= len(items) {
		return []T{}, nil, nil
	}
	out = items[offset:]
	if len(out) > n {
		out, next = out[:n], cursorAt(offset+n)
	}
	return out, next, nil
}

// window reads where a page begins and how long it is at most.
func window(cursor *string, limit *int) (offset, n int, err error) {
	n = 50
	if limit != nil {
		n = *limit
	}
	if cursor == nil {
		return 0, n, nil
	}
	raw, derr := base64.RawURLEncoding.DecodeString(*cursor)
	if derr == nil {
		offset, derr = strconv.Atoi(string(raw))
	}
	if derr != nil || offset < 0 {
		return 0, 0, fault.Wrap(errors.Join(derr), fault.CodeInvalidValue, "cursor", fault.Say("adminapi.cursor")).WithParam("cursor")
	}
	return offset, n, nil
}

func cursorAt(offset int) *string {
	c := base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(offset)))
	return &c
}
