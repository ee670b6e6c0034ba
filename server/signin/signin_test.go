package signin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/inflight"
)

func TestOwnPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/console/keys": "/console/keys", "/console/rag?c=1#x": "/console/rag?c=1#x", "": "/console/", "/": "/console/", "/api/v1/me": "/console/",
		"https://evil.example/console/": "/console/", "//evil.example/console/": "/console/", `/console/\evil`: "/console/", "/console/\nX: y": "/console/",
		"javascript:alert(1)": "/console/", "/console/" + strings.Repeat("x", 2000): "/console/", "/consoles": "/console/",
	} {
		if got := ownPath("/console/", path); got != want {
			t.Errorf("%q leads to %q, want %q", path, got, want)
		}
	}
}

// FuzzOwnPath: whatever somebody wants to come back to, a browser stays where it is.
func FuzzOwnPath(f *testing.F) {
	for _, s := range []string{"//e", `/\e`, "/console//e", "https://e", "/a\tb", "/%2f%2fe", "/..//e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, home := range []string{"/", "/console/"} {
			base := &url.URL{Scheme: "https", Host: "ai.example.com", Path: "/oidc/corp/callback"}
			at, err := base.Parse(ownPath(home, path))
			if err != nil || at.Host != base.Host || at.Scheme != base.Scheme || strings.HasPrefix(at.Path, `/\`) {
				t.Errorf("%q leads to %v (%v)", path, at, err)
			}
		}
	})
}

// TestTransactions: a cookie is read as it was made, in its time, and never otherwise.
func TestTransactions(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	k, other := keys{[]byte("one")}, keys{[]byte("other")}
	made := begin("corp", "/console/keys", true, now)
	value := k.pack(made)
	if got, ok := k.unpack(value, now.Add(transactionLife-time.Second)); !ok || got != made {
		t.Errorf("%+v %v", got, ok)
	}
	for what, at := range map[string]time.Time{"too old": now.Add(transactionLife), "of the future": now.Add(-2 * time.Minute)} {
		if _, ok := k.unpack(value, at); ok {
			t.Errorf("a cookie %s is read", what)
		}
	}
	if _, ok := other.unpack(value, now); ok {
		t.Error("a cookie of another key is read")
	}
	for n := range len(value) {
		changed := []byte(value)
		changed[n] ^= 1
		if got, ok := k.unpack(string(changed), now); ok && got != made { // the last character has bits that say nothing
			t.Fatalf("byte %d changed: %+v", n, got)
		}
	}
	if k.state(made) == k.nonce(made) || k.state(made) == k.verifier(made) || strings.Contains(value, k.verifier(made)) {
		t.Error("what is sent to the provider is in the cookie, or the same twice")
	}
}

// fake is a provider that the test can have fail.
type fake struct {
	*httptest.Server

	calls, keyCalls atomic.Int64
	away            atomic.Bool
	held            chan struct{} // until it is closed nothing is answered
	key             *rsa.PrivateKey
	described       map[string]any
	token           func(w http.ResponseWriter) // answers the exchange of a code
}

func newFake(t *testing.T) *fake {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{key: key, held: make(chan struct{})}
	close(f.held)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		<-f.held
		if f.away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.URL.Path == "/keys" {
			f.keyCalls.Add(1)
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{
				"kty": "RSA", "kid": "k", "use": "sig", "alg": "RS256", "n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
				"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
			}}})
			return
		}
		if r.URL.Path == "/token" {
			f.token(w)
			return
		}
		_ = json.NewEncoder(w).Encode(f.described)
	}))
	t.Cleanup(f.Close)
	f.described = map[string]any{
		"issuer": f.URL, "authorization_endpoint": f.URL + "/auth", "token_endpoint": f.URL + "/token", "jwks_uri": f.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
	}
	return f
}

func (f *fake) config() identity.Provider {
	return identity.Provider{Name: "corp", Issuer: f.URL, ClientID: "sluice", Tenant: "default"}.WithDefaults()
}

// TestDescription: it is read when it is wanted, kept for an hour, and not asked for again and again while the provider is away; one of another
// issuer, or that sends secrets over plain HTTP, is none.
func TestDescription(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	now := time.Now()
	p := newProvider(f.config(), func() time.Time { return now })
	f.away.Store(true)
	for range 5 {
		if _, err := p.describe(t.Context()); !errors.Is(err, errUnavailable) {
			t.Fatal(err)
		}
	}
	if f.calls.Load() != 1 {
		t.Errorf("%d calls of a provider that is away", f.calls.Load())
	}
	f.away.Store(false)
	now = now.Add(failedFor)
	for range 5 {
		if _, err := p.describe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if f.calls.Load() != 2 {
		t.Errorf("%d calls", f.calls.Load())
	}
	for what, value := range map[string]string{"issuer": "https://elsewhere.example", "token_endpoint": "http://elsewhere.example/token", "jwks_uri": "http://elsewhere.example/keys", "authorization_endpoint": "javascript:alert(1)", "userinfo_endpoint": "http://elsewhere.example/me"} {
		before := f.described[what]
		f.described[what] = value
		cfg := f.config()
		cfg.UserInfo = what == "userinfo_endpoint"
		if _, err := newProvider(cfg, time.Now).describe(t.Context()); !errors.Is(err, errUnavailable) {
			t.Errorf("%s %s: %v", what, value, err)
		}
		f.described[what] = before
	}
}

// TestDescriptionIsKept: one that cannot be read again stands for a day, with the keys that were read by it, so that a logout is believed.
func TestDescriptionIsKept(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	now := time.Now()
	p := newProvider(f.config(), func() time.Time { return now })
	token := func() string {
		made := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
			"iss": f.URL, "aud": "sluice", "sub": "ada", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": "1",
			"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
		})
		made.Header["kid"] = "k"
		text, err := made.SignedString(f.key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	logout := func(when string) {
		t.Helper()
		d, err := p.describe(t.Context())
		if err == nil {
			_, err = p.loggedOut(t.Context(), d, token())
		}
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	logout("at first")
	now = now.Add(knownFor)
	logout("read again")
	if n := f.keyCalls.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
	f.away.Store(true)
	now = now.Add(knownFor)
	before := f.calls.Load()
	logout("the provider is away")
	logout("and still is")
	if n := f.calls.Load() - before; n != 1 {
		t.Errorf("%d calls of a provider that is away", n)
	}
	now = now.Add(keptFor)
	if _, err := p.describe(t.Context()); !errors.Is(err, errUnavailable) {
		t.Errorf("it stands for longer than a day: %v", err)
	}
}

// TestDescriptionIsNotWaitedFor: whoever has gone does not wait for a provider that says nothing.
func TestDescriptionIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.held = make(chan struct{})
	p := newProvider(f.config(), time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.describe(ctx); !errors.Is(err, errUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(f.held)
	if _, err := p.describe(t.Context()); err != nil { // the same reading
		t.Error(err)
	}
	if n := f.calls.Load(); n != 1 {
		t.Errorf("%d readings", n)
	}
}

// TestAuthTime: a provider that was asked for it has to say when the person proved himself.
func TestAuthTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, k := newProvider(identity.Provider{ClientID: "sluice"}.WithDefaults(), func() time.Time { return now }), keys{[]byte("k")}
	for _, fresh := range []bool{false, true} {
		began := begin("corp", "", fresh, now.Add(-time.Minute))
		for at, ok := range map[time.Time]bool{
			time.Unix(0, 0): false, now.Add(-13 * time.Hour): false, now.Add(-time.Hour): !fresh, now.Add(-time.Second): true, now.Add(time.Minute): false,
		} {
			err := p.check(&oidc.IDToken{Subject: "ada", Audience: []string{"sluice"}, Nonce: k.nonce(began)}, idClaims{AuthTime: at.Unix()}, began, k)
			if (err == nil) != ok {
				t.Errorf("proved at %s, asked anew %v: %v", at, fresh, err)
			}
		}
	}
}

// TestEndpoints: a provider elsewhere cannot have the server call what listens on its own machine.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		issuer, address string
		ok              bool
	}{
		{"https://login.example.com", "https://token.example.com/t?x=1", true},
		{"https://login.example.com", "http://127.0.0.1:1/token", false},
		{"https://login.example.com", "http://localhost/token", false},
		{"http://127.0.0.1:5", "http://127.0.0.1:6/token", true},
		{"http://127.0.0.1:5", "http://login.example.com/token", false},
	} {
		p := newProvider(identity.Provider{Issuer: c.issuer}, time.Now)
		if err := p.checkEndpoint(c.address); (err == nil) != c.ok {
			t.Errorf("%s at %s: %v", c.address, c.issuer, err)
		}
	}
}

// TestExchanges: what the provider says about us is our fault, and does not count for the network of whoever came; what it says about the code does.
func TestExchanges(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := newProvider(f.config(), time.Now)
	d, err := p.describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		code   string
		want   refusal
	}{
		{400, "invalid_grant", refusal{reason: "code", alone: true}},
		{400, "invalid_client", refusal{reason: "client"}},
		{400, "unauthorized_client", refusal{reason: "client"}},
		{401, "invalid_client", refusal{reason: "client"}},
		{403, "", refusal{reason: "client"}},
	} {
		f.token = func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": c.code})
		}
		_, err := p.person(t.Context(), d, "https://ai.example.com/", "a code", begin("corp", "", false, time.Now()), keys{[]byte("k")})
		var why refusal
		if !errors.As(err, &why) || why.reason != c.want.reason || why.alone != c.want.alone {
			t.Errorf("%d %s: %+v", c.status, c.code, err)
		}
	}
}

// TestSignatures: neither no signature nor one with the client's secret counts, and who sends tokens of unknown keys does not have us ask the provider
// for each.
func TestSignatures(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := newProvider(f.config(), time.Now)
	d, err := p.describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{"iss": f.URL, "aud": "sluice", "sub": "ada", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	sign := func(m jwt.SigningMethod, kid string, key any) string {
		token := jwt.NewWithClaims(m, claims)
		token.Header["kid"] = kid
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if _, err := p.verify(t.Context(), d, sign(jwt.SigningMethodRS256, "k", f.key)); err != nil {
		t.Error(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{
		"none": sign(jwt.SigningMethodNone, "k", jwt.UnsafeAllowNoneSignatureType), "the secret": sign(jwt.SigningMethodHS256, "k", []byte("secret")),
		"another key": sign(jwt.SigningMethodRS256, "k", other), "nothing": "", "too long": strings.Repeat("x", maxToken+1),
	} {
		var why refusal
		if _, err := p.verify(t.Context(), d, token); !errors.As(err, &why) {
			t.Errorf("signed with %s: %v", what, err)
		}
	}
	for range 50 {
		if _, err := p.verify(context.WithoutCancel(t.Context()), d, sign(jwt.SigningMethodRS256, "unknown", f.key)); err == nil {
			t.Fatal("a token of an unknown key is accepted")
		}
	}
	if n := f.keyCalls.Load(); n > 6 {
		t.Errorf("the keys were read %d times for strangers", n)
	}
	if _, err := p.verify(t.Context(), d, sign(jwt.SigningMethodRS256, "k", f.key)); err != nil {
		t.Errorf("after them: %v", err)
	}
}

// TestLogoutsOfStrangers: a logout token that cannot be read, and one that there is no room for, is asked for again and cannot fill the log; what is none
// is a bad request.
func TestLogoutsOfStrangers(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.ReleaseMode)
	f := newFake(t)
	var log bytes.Buffer
	bodies := inflight.New(inflight.Config{All: 1 << 20, PerTenant: 1 << 20, PerCaller: 1 << 20})
	e := &endpoint{
		deps:      Deps{Bodies: bodies, Log: slog.New(slog.NewTextHandler(&log, nil))},
		providers: map[string]*provider{"corp": newProvider(f.config(), time.Now)},
	}
	r := gin.New()
	r.POST("/:provider", e.backchannel)
	send := func(body string) int {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/corp", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w.Code
	}
	made := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{"iss": f.URL})
	made.Header["kid"] = "unknown"
	token, err := made.SignedString(f.key)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]int{}
	for range 20 {
		got[send("logout_token="+token)]++
	}
	if len(got) != 2 || got[http.StatusBadRequest] == 0 || got[http.StatusServiceUnavailable] == 0 { // the keys are read at a pace
		t.Errorf("tokens of an unknown key: %v", got)
	}
	f.away.Store(true)
	e.providers["corp"] = newProvider(f.config(), time.Now)
	if status := send("logout_token=x"); status != http.StatusServiceUnavailable {
		t.Errorf("while the provider is away: %d", status)
	}
	if log.Len() != 0 {
		t.Errorf("the log has %s", log.String())
	}
	for what, body := range map[string]string{"no form": "%", "nothing": "", "too large": strings.Repeat("x", maxBody+1)} {
		if status := send(body); status != http.StatusBadRequest {
			t.Errorf("%s: %d", what, status)
		}
	}
	for what, who := range map[string]inflight.Caller{"of his own": {ID: "192.0.2.1"}, "of all": {ID: "192.0.2.2"}} {
		if err := bodies.Acquire(who, 1<<20); err != nil {
			t.Fatal(err)
		}
		if status := send("logout_token=x"); status != http.StatusServiceUnavailable {
			t.Errorf("no room %s: %d", what, status)
		}
		bodies.Release(who, 1<<20)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	all := map[string]any{"https://x.example/groups": []any{"a", 1.0, "b"}, "realm_access": map[string]any{"roles": []any{"r"}}, "one": "single", "n": 5.0}
	for name, want := range map[string]string{"https://x.example/groups": "a b", "realm_access.roles": "r", "one": "single", "n": "", "none": "", "realm_access.none": "", "one.more": ""} {
		if got := strings.Join(texts(claim(all, name)), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
