package oauth

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

// Where the endpoint and its description are.
const (
	TokenPath    = "/oauth2/token" //nolint:gosec // a path
	MetadataPath = "/.well-known/oauth-authorization-server"
	keysPath     = "/.well-known/jwks.json"
)

const (
	maxBody       = 16 << 10
	auditDeadline = 10 * time.Second // bounds an append after the client may have gone
	keyRequestID  = "request_id"     // set by the edge
)

// Config is what an endpoint gives tokens for.
type Config struct {
	// Base is how the listener is reached, such as https://ai.example.com. Assertions are addressed to it, or to the endpoint below it: to what
	// a request says its host is nobody's assertion is compared, since whoever sends it chooses that.
	Base string
	// Planes are those that the listener serves.
	Planes []identity.Plane
}

// Endpoint gives tokens to service accounts. It is safe for concurrent use.
type Endpoint struct {
	cfg    Config
	deps   Deps
	base   string
	accept []string
}

// Deps are the parts that an endpoint works with.
type Deps struct {
	Identity *identity.Identity
	Audit    *audit.Log
	Bodies   *inflight.Limiter
	Log      *slog.Logger
}

// Register adds the endpoint and its description to r.
func Register(cfg Config, deps Deps, r gin.IRouter) {
	base := strings.TrimSuffix(cfg.Base, "/")
	e := &Endpoint{cfg: cfg, deps: deps, base: base, accept: []string{base + TokenPath, base, base + "/"}}
	r.POST(TokenPath, e.token)
	r.GET(MetadataPath, e.metadata)
}

// TokenURL returns where tokens are got of a listener that is reached at base.
func TokenURL(base string) string { return strings.TrimSuffix(base, "/") + TokenPath }

// metadata says what there is: RFC 8414.
func (e *Endpoint) metadata(c *gin.Context) {
	scopes := identity.Scopes()
	if !slices.Contains(e.cfg.Planes, identity.AdminPlane) {
		scopes = slices.DeleteFunc(scopes, func(s string) bool { return s == identity.ScopeAdminRead })
	}
	c.Header("Cache-Control", "public, max-age=3600")
	c.JSON(http.StatusOK, map[string]any{
		"issuer": e.base, "token_endpoint": e.base + TokenPath, "jwks_uri": e.base + keysPath, "scopes_supported": scopes,
		"grant_types_supported": []string{grantType}, "response_types_supported": []string{},
		"token_endpoint_auth_methods_supported":            []string{"client_secret_basic", "client_secret_post", "private_key_jwt"},
		"token_endpoint_auth_signing_alg_values_supported": []string{"ES256", "EdDSA", "RS256"},
	})
}

// token implements POST /oauth2/token.
func (e *Endpoint) token(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	c.Header("Pragma", "no-cache")
	body, release, err := e.deps.Bodies.Body(c.Writer, c.Request, inflight.Caller{ID: c.ClientIP()}, maxBody)
	defer release()
	if err != nil {
		e.fail(c, err)
		return
	}
	in, wrong := parse(c.Request, body)
	if wrong != (refusal{}) {
		refuse(c, statusOf(wrong.code), wrong.code, wrong.why)
		return
	}
	in.Planes, in.Audiences, in.Source = e.cfg.Planes, e.accept, c.ClientIP()
	if wait := e.deps.Identity.TokenWait(in); wait > 0 {
		e.fail(c, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait))
		return
	}
	who := e.deps.Identity.ClaimedClient(in)
	if err := e.record(c, who, audit.StageAdmitted, in, nil); err != nil {
		e.fail(c, err)
		return
	}
	got, err := e.deps.Identity.IssueToken(c.Request.Context(), in)
	e.answer(c, got, err)
	if rerr := e.record(c, who, audit.StageOutcome, in, err); rerr != nil {
		// The admitted record is durable; the missing outcome is itself a finding of the verifier.
		e.deps.Log.ErrorContext(c.Request.Context(), "audit outcome of a token was not written", slog.String("request_id", c.GetString(keyRequestID)), slog.Any("error", rerr))
	}
}

func (e *Endpoint) answer(c *gin.Context, got identity.ServiceToken, err error) {
	if err != nil {
		e.fail(c, err)
		return
	}
	out := map[string]any{"access_token": got.Access, "token_type": "Bearer", "expires_in": int64(got.ExpiresIn / time.Second)}
	if got.Scope != "" {
		out["scope"] = got.Scope
	}
	c.JSON(http.StatusOK, out)
}

// fail words an error as RFC 6749, section 5.2, does. That of a client never says what about it was wrong.
func (e *Endpoint) fail(c *gin.Context, err error) {
	public := fault.Public(err)
	switch {
	case public.Code() == fault.CodeInvalidClient:
		refuse(c, http.StatusUnauthorized, invalidClient, "")
	case public.Code() == fault.CodeInvalidValue && public.Param() == "scope":
		refuse(c, http.StatusBadRequest, invalidScope, "a scope is unknown, given twice, or none that the client has")
	case public.Kind() == fault.RateLimited:
		c.Header("Retry-After", strconv.Itoa(int(public.RetryAfter().Seconds()+0.999)))
		refuse(c, http.StatusTooManyRequests, unavailable, "too many attempts; wait")
	case public.Kind() == fault.TooLarge || public.Kind() == fault.Invalid:
		refuse(c, public.Kind().Status(), invalidRequest, "the body cannot be read, or is too large")
	default:
		e.deps.Log.ErrorContext(c.Request.Context(), "token request failed", slog.String("request_id", c.GetString(keyRequestID)), slog.Any("error", err))
		refuse(c, public.Kind().Status(), unavailable, "the server cannot answer now")
	}
}

func statusOf(code string) int {
	if code == invalidClient {
		return http.StatusUnauthorized
	}
	return http.StatusBadRequest
}

func refuse(c *gin.Context, status int, code, why string) {
	if code == invalidClient {
		c.Header("WWW-Authenticate", `Basic realm="sluice"`)
	}
	out := map[string]string{"error": code}
	if why != "" {
		out["error_description"] = why
	}
	raw, _ := json.Marshal(out) // of strings
	c.Data(status, "application/json; charset=utf-8", raw)
}

// record writes one stage of a request, on a context that the client cannot cancel.
func (e *Endpoint) record(c *gin.Context, who identity.Principal, stage audit.Stage, in identity.TokenRequest, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), auditDeadline)
	defer cancel()
	event := audit.Event{
		Request: c.GetString(keyRequestID), Stage: stage, Tenant: who.Tenant, Project: who.Project,
		Actor: audit.Actor{Kind: who.Kind, ID: who.ID, Name: who.Name}, Source: c.ClientIP(),
		Action: "admin.issueToken", Route: "POST " + TokenPath, Dialect: "admin", Resource: who.ID, Decision: "allow",
		Detail: map[string]string{"method": method(in)},
	}
	if stage == audit.StageOutcome {
		event.Status, event.Outcome = c.Writer.Status(), "ok"
		if failed != nil {
			public := fault.Public(failed)
			event.Outcome, event.ErrorKind, event.ErrorCode = "refused", public.Kind().String(), string(public.Code())
			if public.Kind() == fault.Internal || public.Kind() == fault.Unavailable {
				event.Outcome = "failed"
			}
		}
	}
	_, err := e.deps.Audit.Append(ctx, event)
	return err
}

// method names how a client proves who it is.
func method(in identity.TokenRequest) string {
	if in.Assertion != "" {
		return "private_key_jwt"
	}
	return "client_secret"
}
