package signin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/sluice-project/sluice/governance/identity"
)

const (
	callTimeout = 10 * time.Second // of one sign-in's talk with the provider
	maxAnswer   = 1 << 20          // bytes of an answer of the provider's
	maxToken    = 64 << 10
	maxGroups   = 1000
	knownFor    = time.Hour       // until the description is read again
	keptFor     = 24 * time.Hour  // that it stands for if it cannot be read again
	failedFor   = 5 * time.Second // until it is tried again: strangers must not have us call without end
	oldestToken = 10 * time.Minute
)

// algorithms are those that a token may be signed with: none that needs a secret shared with the provider, and none at all is not one.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}
}

// refusal is why what a provider has said is not accepted: a word for the record.
type refusal struct {
	reason string
	cause  error // for the log, without anything of a token
	alone  bool  // whoever came could bring it about without an account at the provider: it counts for his network
}

func (r refusal) Error() string {
	if r.cause == nil {
		return "refused: " + r.reason
	}
	return "refused: " + r.reason + ": " + r.cause.Error()
}

func refuse(reason string) error { return refusal{reason: reason} }

func refuseAlone(reason string) error { return refusal{reason: reason, alone: true} }

// errUnavailable is that the provider cannot be asked now.
var errUnavailable = errors.New("the identity provider cannot be reached")

// provider talks to an OpenID provider. It is safe for concurrent use.
type provider struct {
	cfg    identity.Provider
	now    func() time.Time
	client *http.Client
	keys   *http.Client // for the signing keys: at a bounded rate

	reading singleflight.Group

	mu       sync.Mutex // guards what follows
	known    *description
	read     time.Time // known
	next     time.Time // that it is read
	lastFail error
}

// description is what a provider says about itself.
type description struct {
	provider    *oidc.Provider
	keysAt      string
	keys        *oidc.RemoteKeySet // with the keys that it has read
	endpoint    oauth2.Endpoint
	endSession  string
	namesItself bool // in answers: RFC 9207
}

func newProvider(cfg identity.Provider, now func() time.Time) *provider {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: callTimeout,
	}
	client := func(next http.RoundTripper) *http.Client {
		return &http.Client{
			Timeout: callTimeout, Transport: next,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the secret goes where the description says
		}
	}
	return &provider{
		cfg: cfg, now: now, client: client(bounded{transport}),
		// Anybody can send a token that names a key that is not there, and each has the keys read again.
		keys: client(paced{bounded{transport}, rate.NewLimiter(rate.Every(5*time.Second), 5)}),
	}
}

// bounded bounds answers.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	got, err := b.next.RoundTrip(r)
	if err == nil {
		got.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(got.Body, maxAnswer), got.Body}
	}
	return got, err
}

// paced refuses requests beyond a rate.
type paced struct {
	next http.RoundTripper
	rate *rate.Limiter
}

func (p paced) RoundTrip(r *http.Request) (*http.Response, error) {
	if !p.rate.Allow() {
		return nil, errors.New("the keys were read too often")
	}
	return p.next.RoundTrip(r)
}

// describe returns what the provider says about itself: of an hour ago at most, or of a day where it cannot be read again, so that a provider that is
// back for a moment is believed when it says that somebody has signed out. It waits for one reading at most, and no longer than ctx. Error:
// errUnavailable.
func (p *provider) describe(ctx context.Context) (*description, error) {
	if known, err, due := p.current(); !due {
		return known, err
	}
	done := p.reading.DoChan("", func() (any, error) {
		if _, _, due := p.current(); due { // another one may just have ended
			p.readAgain(context.WithoutCancel(ctx)) // others wait for it
		}
		return nil, nil //nolint:nilnil // it is in p
	})
	select {
	case <-done:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errUnavailable, ctx.Err())
	}
	known, err, _ := p.current()
	return known, err
}

// current returns what is known, and whether it has to be read again.
func (p *provider) current() (known *description, err error, due bool) { //nolint:revive // due says whether the others count
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.known != nil && now.Sub(p.read) < keptFor {
		return p.known, nil, !now.Before(p.next)
	}
	return nil, p.lastFail, !now.Before(p.next)
}

func (p *provider) readAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known, err := p.discover(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.lastFail, p.next = fmt.Errorf("%w: %w", errUnavailable, err), p.now().Add(failedFor)
		return
	}
	if p.known != nil && p.known.keysAt == known.keysAt {
		known.keys = p.known.keys
	}
	p.known, p.read, p.next = known, p.now(), p.now().Add(knownFor)
}

func (p *provider) discover(ctx context.Context) (*description, error) {
	got, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	var network *url.Error
	switch {
	case errors.As(err, &network):
		return nil, fmt.Errorf("read the description: %w", network)
	case err != nil:
		return nil, errors.New("read the description: it is none of this issuer, or cannot be read") // the library repeats what came
	}
	var said struct {
		Keys        string   `json:"jwks_uri"`
		EndSession  string   `json:"end_session_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := got.Claims(&said); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	out := &description{
		provider: got, endpoint: got.Endpoint(), endSession: said.EndSession, namesItself: said.NamesItself, keysAt: said.Keys,
		keys: oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), p.keys), said.Keys),
	}
	needed := []string{out.endpoint.AuthURL, out.endpoint.TokenURL, said.Keys}
	if p.cfg.UserInfo {
		needed = append(needed, got.UserInfoEndpoint())
	}
	for _, address := range needed {
		if err := p.checkEndpoint(address); err != nil {
			return nil, fmt.Errorf("an endpoint of the description: %w", err)
		}
	}
	if said.EndSession != "" && p.checkEndpoint(said.EndSession) != nil {
		out.endSession = ""
	}
	out.endpoint.AuthStyle = oauth2.AuthStyleInHeader // trying both would spend the code
	if len(said.AuthMethods) > 0 && !slices.Contains(said.AuthMethods, "client_secret_basic") {
		out.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return out, nil
}

// checkEndpoint refuses an address of a description that a secret or a person must not be sent to. One of another machine has nothing on this one.
func (p *provider) checkEndpoint(address string) error {
	if strings.HasPrefix(p.cfg.Issuer, "https:") && !strings.HasPrefix(address, "https:") {
		return errors.New("not https, as the issuer is")
	}
	return identity.CheckEndpoint(strings.SplitN(address, "?", 2)[0])
}

func (p *provider) oauth(d *description, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret.Reveal(), Endpoint: d.endpoint, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}

// idClaims are what is read of an ID token beside what the library reads.
type idClaims struct {
	NotBefore int64  `json:"nbf"`
	AuthTime  int64  `json:"auth_time"`
	AZP       string `json:"azp"`
	ACR       string `json:"acr"`
	AMR       any    `json:"amr"`
	SID       string `json:"sid"`
}

// person exchanges a code for what the provider says about the person. Errors: errUnavailable; a refusal.
func (p *provider) person(ctx context.Context, d *description, redirect, code string, t transaction, k keys) (identity.Federated, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), callTimeout)
	defer cancel()
	token, err := p.oauth(d, redirect).Exchange(ctx, code, oauth2.VerifierOption(k.verifier(t)))
	var said *oauth2.RetrieveError
	switch {
	case errors.As(err, &said) && said.Response != nil && said.Response.StatusCode < 500:
		why := refusal{"code", fmt.Errorf("status %d", said.Response.StatusCode), true} // the body may quote what we sent
		if said.Response.StatusCode != http.StatusBadRequest || said.ErrorCode == "invalid_client" || said.ErrorCode == "unauthorized_client" {
			why.reason, why.alone = "client", false // it does not know us, or our secret: RFC 6749, section 5.2
		}
		return identity.Federated{}, why
	case err != nil:
		return identity.Federated{}, fmt.Errorf("%w: the exchange of the code failed", errUnavailable)
	}
	raw, _ := token.Extra("id_token").(string)
	got, err := p.verify(ctx, d, raw)
	if err != nil {
		return identity.Federated{}, err
	}
	var c idClaims
	all := map[string]any{}
	if got.Claims(&c) != nil || got.Claims(&all) != nil {
		return identity.Federated{}, refuse("token")
	}
	if err := p.check(got, c, t, k); err != nil {
		return identity.Federated{}, err
	}
	if got.AccessTokenHash != "" && got.VerifyAccessToken(token.AccessToken) != nil {
		return identity.Federated{}, refuse("access_token")
	}
	if p.cfg.UserInfo {
		if err := p.addUserInfo(ctx, d, token, got.Subject, all); err != nil {
			return identity.Federated{}, err
		}
	}
	out := identity.Federated{Issuer: got.Issuer, Subject: got.Subject, ProvedAt: time.Unix(c.AuthTime, 0), ACR: c.ACR, AMR: texts(c.AMR), Session: c.SID, Groups: texts(claim(all, p.cfg.GroupsClaim))}
	out.Name, _ = claim(all, p.cfg.NameClaim).(string)
	return out, nil
}

// verify checks who has signed a token, and what the two kinds have in common. Its errors say nothing of what is in the token.
func (p *provider) verify(ctx context.Context, d *description, raw string) (*oidc.IDToken, error) {
	if raw == "" || len(raw) > maxToken {
		return nil, refuse("token")
	}
	watched := &watchedKeys{set: d.keys}
	// What the library would check beside the signature is checked below, where the reason is known and clocks may differ by what is configured.
	v := oidc.NewVerifier(p.cfg.Issuer, watched, &oidc.Config{SupportedSigningAlgs: algorithms(), SkipClientIDCheck: true, SkipExpiryCheck: true, SkipIssuerCheck: true})
	got, err := v.Verify(ctx, raw)
	switch {
	case watched.unreadable:
		return nil, fmt.Errorf("%w: its keys cannot be read", errUnavailable)
	case err != nil:
		return nil, refuse("signature")
	case got.Issuer != p.cfg.Issuer:
		return nil, refuse("issuer")
	case !slices.Contains(got.Audience, p.cfg.ClientID):
		return nil, refuse("audience")
	}
	now, skew := p.now(), p.cfg.ClockSkew
	switch {
	case !now.Before(got.Expiry.Add(skew)):
		return nil, refuse("expired")
	case got.IssuedAt.After(now.Add(skew)):
		return nil, refuse("not_yet_valid")
	case now.Sub(got.IssuedAt) > oldestToken+skew:
		return nil, refuse("too_old")
	}
	return got, nil
}

// watchedKeys notes whether the keys could be read: the library's error does not tell.
type watchedKeys struct {
	set        oidc.KeySet
	unreadable bool
}

func (w *watchedKeys) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	payload, err := w.set.VerifySignature(ctx, raw)
	w.unreadable = err != nil && strings.HasPrefix(err.Error(), "fetching keys")
	return payload, err
}

// check holds an ID token against the sign-in that it answers: OpenID Connect Core, section 3.1.3.7.
func (p *provider) check(got *oidc.IDToken, c idClaims, t transaction, k keys) error {
	now, skew := p.now(), p.cfg.ClockSkew
	authenticated := time.Unix(c.AuthTime, 0)
	switch {
	case len(got.Audience) > 1 && c.AZP == "", c.AZP != "" && c.AZP != p.cfg.ClientID:
		return refuse("authorized_party")
	case subtle.ConstantTimeCompare([]byte(got.Nonce), []byte(k.nonce(t))) != 1:
		return refuse("nonce")
	case got.Subject == "" || len(got.Subject) > identity.MaxSubject || strings.ContainsFunc(got.Subject, func(r rune) bool { return r <= ' ' || r > '~' }):
		return refuse("subject")
	case c.NotBefore > 0 && time.Unix(c.NotBefore, 0).After(now.Add(skew)):
		return refuse("not_yet_valid")
	case authenticated.After(now.Add(skew)), now.Sub(authenticated) > p.cfg.SessionTTL+skew: // or not said, though max_age has asked for it
		return refuse("auth_time")
	case t.Fresh && authenticated.Before(time.Unix(t.Began, 0).Add(-skew)):
		return refuse("auth_time")
	}
	return nil
}

// addUserInfo adds claims that the ID token lacks. Those of the token, which is signed, stay.
func (p *provider) addUserInfo(ctx context.Context, d *description, token *oauth2.Token, subject string, all map[string]any) error {
	info, err := d.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return fmt.Errorf("%w: userinfo cannot be read", errUnavailable)
	}
	more := map[string]any{}
	if info.Subject != subject || info.Claims(&more) != nil {
		return refuse("userinfo")
	}
	for name, value := range more {
		if _, there := all[name]; !there {
			all[name] = value
		}
	}
	return nil
}

// loggedOut checks a logout token: OpenID Connect Back-Channel Logout, section 2.6.
func (p *provider) loggedOut(ctx context.Context, d *description, raw string) (identity.FederatedLogout, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), callTimeout)
	defer cancel()
	got, err := p.verify(ctx, d, raw)
	if err != nil {
		return identity.FederatedLogout{}, err
	}
	var c struct {
		Events map[string]json.RawMessage `json:"events"`
		SID    string                     `json:"sid"`
		JTI    string                     `json:"jti"`
		Nonce  *json.RawMessage           `json:"nonce"`
	}
	if got.Claims(&c) != nil {
		return identity.FederatedLogout{}, refuse("token")
	}
	event, is := c.Events["http://schemas.openid.net/event/backchannel-logout"]
	var object map[string]any
	switch {
	case !is || json.Unmarshal(event, &object) != nil || object == nil:
		return identity.FederatedLogout{}, refuse("no_logout")
	case c.Nonce != nil: // it would be an ID token
		return identity.FederatedLogout{}, refuse("nonce")
	case c.JTI == "" || len(c.JTI) > 255 || len(c.SID) > 255 || got.Subject == "" && c.SID == "":
		return identity.FederatedLogout{}, refuse("token")
	}
	expires := got.Expiry
	if got.IssuedAt.Add(oldestToken).Before(expires) { // when it is refused as too old
		expires = got.IssuedAt.Add(oldestToken)
	}
	return identity.FederatedLogout{Issuer: got.Issuer, Subject: got.Subject, Session: c.SID, ID: c.JTI, Expires: expires.Add(2 * p.cfg.ClockSkew)}, nil
}

// claim returns a claim by its name, or by a path of names with dots between.
func claim(all map[string]any, name string) any {
	if v, there := all[name]; there {
		return v
	}
	first, rest, deeper := strings.Cut(name, ".")
	if below, is := all[first].(map[string]any); is && deeper {
		return claim(below, rest)
	}
	return nil
}

// texts returns the texts of a claim that is one or a list of them.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, one := range v[:min(len(v), maxGroups)] {
			if s, is := one.(string); is {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
