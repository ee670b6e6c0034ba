package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/alerts"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/httpapi"
	"github.com/sluice-project/sluice/server/oauth"
	"github.com/sluice-project/sluice/server/signin"
	"github.com/sluice-project/sluice/server/verifypage"
	"github.com/sluice-project/sluice/web"
)

const consolePrefix = "/console/"

// addresses are how the listeners are reached from outside.
type addresses struct{ main, admin string }

// edge is the HTTP face of an installation: the business API on the main listener, the management API and the console beside it, or on a
// listener of their own.
type edge struct {
	parts     *parts
	version   string
	addresses addresses
	startedAt time.Time
	draining  atomic.Bool

	health health

	main, admin, operations, inference http.Handler // nil without a listener of its own

	endSockets func() // has WebSockets end
}

func newEdge(p *parts, version string, a addresses) (*edge, error) {
	e := &edge{parts: p, version: version, addresses: a, startedAt: time.Now().UTC()}
	e.health.check, e.health.now = e.checks, time.Now
	p.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg := p.cfg.HTTP
	cfg.Version, cfg.BaseURL, cfg.PublicURL = version, e.ownURL, p.cfg.PublicURL
	api, err := httpapi.New(cfg, p.pipeline, p.log, p.reg)
	if err != nil {
		return nil, err
	}
	var admin *adminapi.Server
	problem := func(c *gin.Context, err error) { admin.Fail(c, err) }
	engine, err := api.NewEngine(func(c *gin.Context, err error) {
		if path := c.Request.URL.Path; strings.HasPrefix(path, "/api/") && !httpapi.Serves(path) { // whoever asks for it reads problem documents, on whichever listener
			problem(c, err)
			return
		}
		api.WriteError(c, err)
	})
	if err != nil {
		return nil, err
	}
	api.Keep(p.files, p.batches, p.replies)
	api.Register(engine)
	e.endSockets = api.Drain
	if p.cfg.InferenceListen != "" {
		if e.inference, err = api.RPC(); err != nil {
			return nil, err
		}
	}
	p.askLine = api.Asker(engine)
	check := verifypage.Deps{Keys: p.signing.Public, Published: p.signing.Published, Fail: api.WriteError}
	if err := verifypage.Register(check, engine); err != nil {
		return nil, err
	}
	if p.cfg.Operations.Listen != "" {
		mux := e.mux(http.NotFoundHandler())
		e.mountOperations(mux)
		e.operations = fromOperations(mux)
	}
	mainMux := e.mux(engine)
	if p.cfg.AdminListen == "" {
		if admin, err = e.mountAdmin(api, problem, engine, mainMux); err != nil {
			return nil, err
		}
		e.tokens(api, engine, a.main, identity.DataPlane, identity.AdminPlane)
		e.main = mainMux
		return e, nil
	}
	adminEngine, err := api.NewEngine(problem)
	if err != nil {
		return nil, err
	}
	adminMux := e.mux(adminEngine)
	if admin, err = e.mountAdmin(api, problem, adminEngine, adminMux); err != nil {
		return nil, err
	}
	e.tokens(api, engine, a.main, identity.DataPlane)
	e.tokens(api, adminEngine, a.admin, identity.AdminPlane)
	mainMux.Handle("/.well-known/jwks.json", readOnly(e.publicKeys))
	e.main, e.admin = mainMux, adminMux
	return e, nil
}

// tokens lets service accounts get tokens for the planes of a listener that is reached at base.
func (e *edge) tokens(api *httpapi.API, r gin.IRouter, base string, planes ...identity.Plane) {
	oauth.Register(oauth.Config{Base: base, Planes: planes}, oauth.Deps{
		Identity: e.parts.identity, Audit: e.parts.audit, Bodies: api.Bodies(), Log: e.parts.log,
	}, r)
}

// tokenURL says where service accounts get tokens for a plane.
func (e *edge) tokenURL(p identity.Plane) string {
	if p == identity.AdminPlane {
		return oauth.TokenURL(e.addresses.admin)
	}
	return oauth.TokenURL(e.addresses.main)
}

// consoleAt says where the console is for somebody whose request came this way: at the configured address, else where it came to.
func (e *edge) consoleAt(r *http.Request) string {
	cfg := e.parts.cfg
	if cfg.AdminURL != "" || cfg.PublicURL != "" && cfg.AdminListen == "" {
		return strings.TrimSuffix(e.addresses.admin, "/") + consolePrefix
	}
	return schemeOf(r) + "://" + r.Host + consolePrefix
}

// schemeOf is how a request came. A proxy is believed whoever it is: it only words the answer to who says so.
func schemeOf(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

// mux answers the probes itself, without access lines, and hands everything else to gin.
func (e *edge) mux(engine http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/healthz", readOnly(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	}))
	mux.Handle("/readyz", readOnly(e.ready))
	mux.Handle("/", engine)
	return mux
}

// readOnly refuses every method but GET and HEAD, which the pattern of a mux with a handler for all paths does not.
func readOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		next(w, r)
	})
}

func (e *edge) mountAdmin(api *httpapi.API, problem func(*gin.Context, error), engine *gin.Engine, mux *http.ServeMux) (*adminapi.Server, error) {
	p := e.parts
	admin, err := adminapi.New(adminapi.Config{
		SecureCookies: secureCookies(p.cfg, e.addresses.admin),
	}, adminapi.Deps{
		BaseURL: e.baseURL, TokenURL: e.tokenURL, ConsoleURL: e.consoleAt,
		Identity: p.identity, Access: p.access, Guard: p.guard, Audit: p.audit, Eraser: p.eraser, Reviews: p.reviews, Offboard: p.offboard, Ledger: p.ledger, Router: p.router, Instances: p.instances, RAG: p.rag,
		Native: p.native, LocalEngines: p.localEngines, Scaling: p.scalingLoops(), ServiceLevel: p.serviceLevel(), Adapters: p.adapters, LoadAdapter: p.loadAdapter, UnloadAdapter: p.unloadAdapter, Workflows: p.flows, Pipeline: p.pipeline, Labels: p.labels, Credentials: p.authority, Files: p.marker, Energy: p.energy, System: e.system,
		Playground: api.Playground(problem), StoreFile: api.StoreFile(problem), BatchFile: api.BatchFile(problem), Batches: p.batches, Bodies: api.Bodies(), Version: e.version,
		Verify: func(ctx context.Context, progress func(done, total int64)) (verify.Report, error) {
			report, err := verify.Run(ctx, VerifySource(p.cfg, p.db, p.audit.VerifierKey()), progress)
			if err == nil && !report.OK {
				p.notify.Notify(ctx, alerts.VerificationFailed(len(report.Problems)))
			}
			return report, err
		},
		RevealSweep: func(ctx context.Context, tenant string, conversations int) {
			p.notify.Notify(ctx, alerts.RevealSweep(tenant, conversations))
		},
		BreakGlass: func(ctx context.Context, use identity.EmergencyUse) {
			p.log.LogAttrs(ctx, slog.LevelWarn, "an emergency session has begun", slog.String("use", use.ID), slog.String("source", use.Source), slog.Time("expires", use.Expires))
			p.notify.Notify(ctx, alerts.BreakGlassOpened(use))
		},
		AuditStatus: e.auditStatus, Reconciliation: p.reconciliation, Reconcile: p.reconciler.Trigger, Rotator: p.rotator, SigningKeys: p.signing, WatermarkKeys: p.marks, Agreements: p.agreements, Watermarks: p.watermarks, Provenance: p.provenance, Registry: p.registry, Compliance: p.evaluate,
	}, engine, p.log)
	if err != nil {
		return nil, err
	}
	page := ""
	if p.cfg.Console {
		page = consolePrefix
	}
	signin.Register(signin.Config{Base: e.addresses.admin, Console: page, Secure: secureCookies(p.cfg, e.addresses.admin)}, signin.Deps{
		Identity: p.identity, Audit: p.audit, Keys: p.keys, Bodies: api.Bodies(), Log: p.log, Begin: admin.BeginSession, Fail: admin.Fail,
	}, engine)
	mux.Handle("/.well-known/jwks.json", readOnly(e.publicKeys))
	if p.cfg.Operations.Listen == "" {
		e.mountOperations(mux)
	}
	if !p.cfg.Console {
		return admin, nil
	}
	console, err := web.Handler(consolePrefix)
	if err != nil {
		return nil, err
	}
	mux.Handle(consolePrefix, readOnly(console.ServeHTTP))
	mux.Handle("/{$}", readOnly(http.RedirectHandler(consolePrefix, http.StatusFound).ServeHTTP))
	return admin, nil
}

// publicKeys publishes the keys of session and access tokens, for whoever has to check one: RFC 7517. They may be cached for far less than the time
// that a key is published before it is used.
func (e *edge) publicKeys(w http.ResponseWriter, _ *http.Request) {
	raw, err := json.Marshal(map[string]any{"keys": e.parts.identity.PublicKeys()})
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(raw)
}

// secureCookies reports whether browsers reach the management API over https.
func secureCookies(cfg *config.Config, admin string) bool {
	if cfg.AdminURL != "" {
		return strings.HasPrefix(cfg.AdminURL, "https:")
	}
	return strings.HasPrefix(admin, "https:") || strings.HasPrefix(cfg.PublicURL, "https:")
}

// baseURL says where applications reach the business API: at the configured address, else where the request came to. Where this API has
// a listener of its own the business API has another port, on the same host if it listens on every address.
func (e *edge) baseURL(r *http.Request) string {
	cfg := e.parts.cfg
	if cfg.PublicURL != "" || cfg.AdminListen == "" {
		return e.ownURL(r)
	}
	listens, _, err := net.SplitHostPort(cfg.Listen)
	if ip := net.ParseIP(listens); err == nil && (listens == "" || ip != nil && ip.IsUnspecified()) {
		main, err := url.Parse(e.addresses.main)
		host := (&url.URL{Host: r.Host}).Hostname()
		if err == nil && host != "" {
			return schemeOf(r) + "://" + net.JoinHostPort(host, main.Port()) + "/v1"
		}
	}
	return e.addresses.main + "/v1"
}

// ownURL says where whoever has sent a request to the business API reaches it: at the configured address, else where the request came to.
func (e *edge) ownURL(r *http.Request) string {
	if public := e.parts.cfg.PublicURL; public != "" {
		return strings.TrimSuffix(public, "/") + "/v1"
	}
	return schemeOf(r) + "://" + r.Host + "/v1"
}

func (e *edge) consoleURL() string {
	if !e.parts.cfg.Console || !web.Included() {
		return ""
	}
	return e.addresses.admin + consolePrefix
}

// exampleModel names a model that generates, for the first words of a newcomer.
func (e *edge) exampleModel(context.Context) string {
	for _, m := range e.parts.router.Models() {
		if m.Err == nil && gateway.ActionChat.Can(m.Info) {
			return m.Name
		}
	}
	return ""
}

// drain makes the readiness probe fail, so that load balancers send no more, and ends WebSockets that have nothing to do.
func (e *edge) drain() {
	e.draining.Store(true)
	e.endSockets()
}

// system describes the installation for its administrators.
func (e *edge) system(ctx context.Context) adminapi.System {
	s := adminapi.System{
		Version: e.version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Console: web.Included(),
		StartedAt: e.startedAt, Parts: e.health.parts(ctx),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range info.Settings {
			switch kv.Key {
			case "vcs.revision":
				s.Commit = kv.Value
			case "vcs.time":
				s.BuiltAt = &kv.Value
			}
		}
	}
	if st, err := migrations.Check(ctx, e.parts.db); err == nil {
		kind := "postgres"
		if database.IsSQLite(e.parts.db) {
			kind = "sqlite"
		}
		text := kind + " schema " + strconv.FormatInt(st.Current, 10)
		s.Installation = &text
	}
	return s
}
