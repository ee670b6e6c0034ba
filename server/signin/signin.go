package signin

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/oauth2"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/internal/keyring"
)

// prefix is where the addresses of all providers begin: below it are the name of one and login, callback, logout and backchannel-logout.
const prefix = "/oidc/"

const (
	maxBody       = maxToken + 1<<10
	maxDetail     = 256              // bytes of a text in a record
	auditDeadline = 10 * time.Second // bounds an append after the client may have gone
	keyRequestID  = "request_id"     // set by the edge
)

// What the log says of refusals.
const (
	refusedSignIn = "a sign-in at a provider was refused"
	refusedLogout = "a logout of a provider was refused"
)

// The acts as the audit log calls them.
const (
	actSignIn = "admin.federatedSignIn"
	actLogout = "admin.federatedLogout"
)

// Config says how browsers and providers reach the endpoint.
type Config struct {
	Base    string // of the listener, such as https://ai.example.com: the host that a request names is not believed
	Console string // path of the console, which ends with a slash; "" where there is none
	Secure  bool   // browsers come over https
}

// Deps are the parts that the endpoint works with.
type Deps struct {
	Identity *identity.Identity
	Audit    *audit.Log
	Keys     *keyring.Ring
	Bodies   *inflight.Limiter
	Log      *slog.Logger
	// Begin gives the browser the refresh token of a sign-in.
	Begin func(c *gin.Context, refresh string)
	// Fail answers an error where there is no console to show it.
	Fail func(c *gin.Context, err error)
}

// endpoint signs people in. It is safe for concurrent use.
type endpoint struct {
	cfg       Config
	deps      Deps
	keys      keys
	now       func() time.Time
	providers map[string]*provider
}

// Register adds the addresses of every configured provider to r. It calls none of them.
func Register(cfg Config, deps Deps, r gin.IRouter) {
	cfg.Base = strings.TrimSuffix(cfg.Base, "/")
	e := &endpoint{cfg: cfg, deps: deps, keys: keys{deps.Keys.Derive("signin/oidc/v1")}, now: time.Now, providers: map[string]*provider{}}
	for _, p := range deps.Identity.Providers() {
		e.providers[p.Name] = newProvider(p, func() time.Time { return e.now() })
	}
	r.GET(prefix+":provider/login", e.login)
	r.GET(prefix+":provider/callback", e.callback)
	r.GET(prefix+":provider/logout", e.logout)
	r.POST(prefix+":provider/backchannel-logout", e.backchannel)
}

// find returns the provider that a path names, or has answered.
func (e *endpoint) find(c *gin.Context) (*provider, bool) {
	c.Header("Cache-Control", "no-store")
	c.Header("Referrer-Policy", "no-referrer") // codes are in addresses
	p, ok := e.providers[c.Param("provider")]
	if !ok {
		e.deps.Fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.path"), "/oidc"))
	}
	return p, ok
}

// home is where a person goes on who has not said where.
func (e *endpoint) home() string { return cmp.Or(e.cfg.Console, "/") }

func (e *endpoint) redirectURL(p *provider) string {
	return e.cfg.Base + prefix + p.cfg.Name + "/callback"
}

// login sends the browser to the provider. The page to come back to is ?return=; with ?fresh=1 the provider has to ask who it is.
func (e *endpoint) login(c *gin.Context) {
	p, ok := e.find(c)
	if !ok {
		return
	}
	// No other site begins a sign-in for somebody. Browsers that do not say who asks are covered by the cookie.
	if site := c.GetHeader("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		e.back(c, fault.New(fault.CodeSignInRefused))
		return
	}
	d, err := p.describe(c.Request.Context())
	if err != nil {
		e.back(c, e.public(c, refusedSignIn, err))
		return
	}
	t := begin(p.cfg.Name, ownPath(e.home(), c.Query("return")), c.Query("fresh") == "1", e.now())
	options := []oauth2.AuthCodeOption{
		oauth2.S256ChallengeOption(e.keys.verifier(t)), oauth2.SetAuthURLParam("nonce", e.keys.nonce(t)),
		oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(p.cfg.SessionTTL/time.Second))), // by which it has to say when it asked
	}
	if t.Fresh {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	if len(p.cfg.SecondFactor.ACR) > 0 {
		options = append(options, oauth2.SetAuthURLParam("acr_values", strings.Join(p.cfg.SecondFactor.ACR, " ")))
	}
	http.SetCookie(c.Writer, e.cookie(e.keys.pack(t)))
	c.Redirect(http.StatusSeeOther, p.oauth(d, e.redirectURL(p)).AuthCodeURL(e.keys.state(t), options...))
}

// callback is where the provider sends the browser back to.
func (e *endpoint) callback(c *gin.Context) {
	p, ok := e.find(c)
	if !ok {
		return
	}
	t, ok := e.transaction(c, p)
	http.SetCookie(c.Writer, e.cookie("")) // it comes back once
	if !ok {
		e.back(c, fault.New(fault.CodeSignInRefused))
		return
	}
	if wait := e.deps.Identity.FederatedWait(c.ClientIP()); wait > 0 {
		e.back(c, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait))
		return
	}
	who, err := e.asked(c, p, t)
	if err != nil {
		var why refusal
		if errors.As(err, &why) && why.alone {
			e.deps.Identity.FederatedFailed(c.ClientIP())
		}
		e.refused(c, p, identity.Principal{Kind: "user", Tenant: p.cfg.Tenant}, err)
		return
	}
	account, found, err := e.deps.Identity.FederatedAccount(c.Request.Context(), who.Issuer, who.Subject)
	if err != nil {
		e.refused(c, p, identity.Principal{Kind: "user", Tenant: p.cfg.Tenant}, err)
		return
	}
	account.Kind, account.Tenant = "user", p.cfg.Tenant
	detail := map[string]string{"provider": p.cfg.Name}
	if !found {
		detail["subject"] = p.cfg.SubjectDigest(who.Subject) // by which whoever is refused can be found
	}
	if err := e.record(c, actSignIn, account, audit.StageAdmitted, detail, nil); err != nil {
		e.back(c, e.public(c, refusedSignIn, err))
		return
	}
	session, changed, err := e.deps.Identity.SignInFederated(c.Request.Context(), who, c.ClientIP())
	noteChange(detail, changed)
	if changed.After.ID != "" {
		account.ID, account.Name = changed.After.ID, changed.After.Name
	}
	if err == nil {
		if kind := session.Principal.Factor; kind != "" {
			detail["second_factor"] = kind
		}
	}
	if rerr := e.record(c, actSignIn, account, audit.StageOutcome, detail, err); rerr != nil {
		// The admitted record is durable; the missing outcome is itself a finding of the verifier.
		e.deps.Log.ErrorContext(c.Request.Context(), "audit outcome of a sign-in was not written", slog.String("request_id", c.GetString(keyRequestID)), slog.Any("error", rerr))
	}
	if err != nil {
		e.back(c, e.public(c, refusedSignIn, err))
		return
	}
	e.deps.Begin(c, session.Refresh)
	c.Redirect(http.StatusSeeOther, ownPath(e.home(), t.Return))
}

// noteChange adds to the detail of a record what a sign-in has made of an account.
func noteChange(detail map[string]string, c identity.FederatedChange) {
	if c.Before.ID == "" && c.After.ID != "" {
		detail["created"] = "true"
	}
	short := func(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxDetail)], "\uFFFD") }
	note := func(what string, before, after []string) {
		if was, is := strings.Join(before, ","), strings.Join(after, ","); was != is {
			detail[what], detail["former_"+what] = short(is), short(was)
		}
	}
	note("roles", c.Before.Roles, c.After.Roles)
	note("labels", c.Before.Labels, c.After.Labels)
}

// transaction returns the sign-in that this browser has begun at this provider, if the answer is to it.
func (e *endpoint) transaction(c *gin.Context, p *provider) (transaction, bool) {
	value, err := c.Cookie(e.cookieName())
	if err != nil {
		return transaction{}, false
	}
	t, ok := e.keys.unpack(value, e.now())
	state := c.QueryArray("state")
	return t, ok && t.Provider == p.cfg.Name && len(state) == 1 && subtle.ConstantTimeCompare([]byte(state[0]), []byte(e.keys.state(t))) == 1
}

// asked returns what the provider says about the person. Errors: a refusal; errUnavailable; CodeDatabaseUnavailable.
func (e *endpoint) asked(c *gin.Context, p *provider, t transaction) (identity.Federated, error) {
	ctx := c.Request.Context()
	fresh, err := e.deps.Identity.SpendSignIn(ctx, t.Secret, time.Unix(t.Began, 0).Add(2*transactionLife))
	if err != nil {
		return identity.Federated{}, err
	}
	if !fresh {
		return identity.Federated{}, refuseAlone("replayed")
	}
	d, err := p.describe(ctx)
	if err != nil {
		return identity.Federated{}, err
	}
	code, named := c.QueryArray("code"), c.QueryArray("iss")
	switch {
	case len(named) > 1 || len(named) == 1 && named[0] != p.cfg.Issuer || len(named) == 0 && d.namesItself: // RFC 9207
		return identity.Federated{}, refuseAlone("issuer")
	case c.Query("error") == "access_denied":
		return identity.Federated{}, refuseAlone("declined")
	case c.Query("error") != "" || len(code) != 1 || code[0] == "":
		return identity.Federated{}, refuseAlone("provider")
	}
	return p.person(ctx, d, e.redirectURL(p), code[0], t, e.keys)
}

// refused records a refusal with its reason and sends the browser back.
func (e *endpoint) refused(c *gin.Context, p *provider, who identity.Principal, err error) {
	detail := map[string]string{"provider": p.cfg.Name}
	var why refusal
	if errors.As(err, &why) {
		detail["reason"] = why.reason
	}
	public := e.public(c, refusedSignIn, err)
	if rerr := e.record(c, actSignIn, who, audit.StageOutcome, detail, public); rerr != nil {
		public = e.public(c, refusedSignIn, rerr)
	}
	e.back(c, public)
}

// public returns the error as the person reads it, and logs what happened.
func (e *endpoint) public(c *gin.Context, what string, err error) error {
	var why refusal
	var known *fault.Error
	switch {
	case errors.As(err, &why):
		err = fault.Wrap(err, fault.CodeSignInRefused)
	case errors.Is(err, errUnavailable):
		err = fault.Wrap(err, fault.CodeProviderUnavailable)
	case !errors.As(err, &known):
		err = fault.Wrap(err, fault.CodeInternal)
	}
	e.deps.Log.WarnContext(c.Request.Context(), what, slog.String("provider", c.Param("provider")), slog.String("request_id", c.GetString(keyRequestID)), slog.Any("error", err))
	return err
}

// back shows an error in the console, by its code: nothing of it is taken from what came in.
func (e *endpoint) back(c *gin.Context, err error) {
	if e.cfg.Console == "" {
		e.deps.Fail(c, err)
		return
	}
	query := url.Values{"sign_in": {string(fault.Public(err).Code())}, "request": {c.GetString(keyRequestID)}}
	c.Redirect(http.StatusSeeOther, e.cfg.Console+"?"+query.Encode())
}

// logout sends the browser to the provider, to sign out there, too. It changes nothing here.
func (e *endpoint) logout(c *gin.Context) {
	p, ok := e.find(c)
	if !ok {
		return
	}
	d, err := p.describe(c.Request.Context())
	if err != nil || d.endSession == "" {
		c.Redirect(http.StatusSeeOther, e.cfg.Base+e.home())
		return
	}
	to, err := url.Parse(d.endSession)
	if err != nil {
		c.Redirect(http.StatusSeeOther, e.cfg.Base+e.home())
		return
	}
	q := to.Query()
	q.Set("client_id", p.cfg.ClientID)
	q.Set("post_logout_redirect_uri", e.cfg.Base+e.home())
	to.RawQuery = q.Encode()
	c.Redirect(http.StatusSeeOther, to.String())
}

// backchannel is where the provider says that a person has signed out there: OpenID Connect Back-Channel Logout, section 2.5.
func (e *endpoint) backchannel(c *gin.Context) {
	p, ok := e.find(c)
	if !ok {
		return
	}
	body, release, err := e.deps.Bodies.Body(c.Writer, c.Request, inflight.Caller{ID: c.ClientIP()}, maxBody)
	defer release()
	if err != nil && !fault.Is(err, fault.CodeBodyTooLarge) && !fault.Is(err, fault.CodeInvalidJSON) { // no room for it now: it has to be sent again
		answer(c, http.StatusServiceUnavailable, "temporarily_unavailable")
		return
	}
	media, _, _ := strings.Cut(c.GetHeader("Content-Type"), ";")
	form, ferr := url.ParseQuery(string(body))
	if err != nil || ferr != nil || !strings.EqualFold(strings.TrimSpace(media), "application/x-www-form-urlencoded") || len(form["logout_token"]) != 1 {
		answer(c, http.StatusBadRequest, "invalid_request")
		return
	}
	ctx := c.Request.Context()
	d, err := p.describe(ctx)
	var said identity.FederatedLogout
	if err == nil {
		said, err = p.loggedOut(ctx, d, form.Get("logout_token"))
	}
	if err == nil {
		err = e.deps.Identity.ObeyedFederated(ctx, said)
	}
	if err != nil { // a stranger's, or one of before: no record
		e.failLogout(c, err)
		return
	}
	account := identity.Principal{}
	if said.Subject != "" {
		if account, _, err = e.deps.Identity.FederatedAccount(ctx, said.Issuer, said.Subject); err != nil {
			e.failLogout(c, err)
			return
		}
	}
	account.Kind, account.Tenant = "user", p.cfg.Tenant
	detail := map[string]string{"provider": p.cfg.Name}
	if err := e.record(c, actLogout, account, audit.StageAdmitted, detail, nil); err != nil {
		e.failLogout(c, err)
		return
	}
	// A provider that does not wait for the answer has said it nevertheless.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	ended, users, err := e.deps.Identity.EndFederated(ending, said)
	if err != nil {
		e.failLogout(c, err)
	} else {
		detail["ended"] = strconv.Itoa(ended)
		if account.ID == "" && len(users) == 1 { // it has named a session only
			account.ID, account.Name = users[0], e.deps.Identity.NameOf(users[0])
		}
		c.Status(http.StatusOK)
	}
	if rerr := e.record(c, actLogout, account, audit.StageOutcome, detail, err); rerr != nil {
		e.deps.Log.ErrorContext(ctx, "audit outcome of a logout was not written", slog.String("request_id", c.GetString(keyRequestID)), slog.Any("error", rerr))
	}
}

// failLogout words a refusal as section 2.8 does: what is not accepted is a bad request, and what cannot be done now is asked for again.
func (e *endpoint) failLogout(c *gin.Context, err error) {
	var why refusal
	unread := errors.Is(err, errUnavailable)
	if unread || errors.As(err, &why) && (why.reason == "signature" || why.reason == "token") { // anybody can send such a one
		e.deps.Log.DebugContext(c.Request.Context(), refusedLogout, slog.String("provider", c.Param("provider")), slog.Any("error", err))
	}
	switch {
	case unread:
		answer(c, http.StatusServiceUnavailable, "temporarily_unavailable")
		return
	case why.reason == "signature", why.reason == "token":
		answer(c, http.StatusBadRequest, "invalid_request")
		return
	}
	public := fault.Public(e.public(c, refusedLogout, err))
	if k := public.Kind(); k == fault.Unavailable || k == fault.Internal || k == fault.Timeout {
		answer(c, http.StatusServiceUnavailable, "temporarily_unavailable")
		return
	}
	answer(c, http.StatusBadRequest, "invalid_request")
}

func answer(c *gin.Context, status int, code string) {
	c.JSON(status, map[string]string{"error": code})
}

// record writes one stage of an act, on a context that the client cannot cancel.
func (e *endpoint) record(c *gin.Context, act string, who identity.Principal, stage audit.Stage, detail map[string]string, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), auditDeadline)
	defer cancel()
	event := audit.Event{
		Request: c.GetString(keyRequestID), Stage: stage, Tenant: who.Tenant,
		Actor: audit.Actor{Kind: who.Kind, ID: who.ID, Name: who.Name}, Source: c.ClientIP(),
		Action: act, Route: c.Request.Method + " " + c.FullPath(), Dialect: "admin", Resource: who.ID, Decision: "allow", Detail: detail,
	}
	if stage == audit.StageOutcome {
		event.Status, event.Outcome = http.StatusOK, "ok"
		if failed != nil {
			public := fault.Public(failed)
			event.Status, event.Outcome, event.ErrorKind, event.ErrorCode = public.Kind().Status(), "refused", public.Kind().String(), string(public.Code())
			switch public.Kind() { //nolint:exhaustive // the rest are the caller's
			case fault.Denied:
				event.Decision = "refuse"
			case fault.Internal, fault.Unavailable, fault.Timeout:
				event.Outcome = "failed"
			}
		}
	}
	_, err := e.deps.Audit.Append(ctx, event)
	return err
}
