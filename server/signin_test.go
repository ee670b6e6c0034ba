package server_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/testnode"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/adminapi"
)

const oidcSecret = "a secret of the test only"

// oidcConfig is the configuration for the provider at issuer.
func oidcConfig(issuer string) string {
	return fmt.Sprintf(`identity:
  oidc:
    - name: corp
      label: Example SSO
      issuer: %s
      client_id: sluice
      client_secret: %q
      tenant: demo
      groups:
        - {group: devs, roles: [developer], labels: [internal]}
        - {group: auditors, roles: [auditor]}
        - {group: guards, roles: [security_admin]}
      second_factor: {amr: [otp]}
`, issuer, oidcSecret)
}

// oidcProvider is npm's oidc-provider behind a proxy that can change what it says.
type oidcProvider struct {
	t      *testing.T
	issuer string

	mu     sync.Mutex // guards what follows
	target *url.URL
	down   bool
	tamper func(claims map[string]any) // of ID tokens; nil leaves them as they are
}

func newOIDCProvider(t *testing.T) *oidcProvider {
	t.Helper()
	p := &oidcProvider{t: t}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(p.target)
			r.SetXForwarded()
		},
		ModifyResponse: p.change,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		away := p.down || p.target == nil
		p.mu.Unlock()
		if away {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	p.issuer = s.URL
	return p
}

// run starts the provider for installations that are there by now.
func (p *oidcProvider) run(logoutAt string, bases ...string) {
	p.t.Helper()
	node, script := testnode.Script(p.t, "oidc-provider-9", "node", "testdata/oidc-provider.mjs")
	var back, after []string
	for _, b := range bases {
		back, after = append(back, b+"/oidc/corp/callback"), append(after, b+"/", b+"/console/")
	}
	cmd := exec.CommandContext(p.t.Context(), node, script)
	cmd.Env = append(os.Environ(), "ISSUER="+p.issuer, "REDIRECT_URIS="+strings.Join(back, " "), "AFTER_LOGOUT="+strings.Join(after, " "), "LOGOUT_URI="+logoutAt+"/oidc/corp/backchannel-logout")
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if port, found := strings.CutPrefix(lines.Text(), "port "); found {
			p.mu.Lock()
			p.target = &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
			p.mu.Unlock()
			return
		}
	}
	p.t.Fatalf("the provider did not start: %s", stderr.String())
}

// ask does something at the provider's test addresses.
func (p *oidcProvider) ask(path, body string) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.target.String()+"/test/"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %d %v", path, res.StatusCode, err)
	}
	return string(raw)
}

// person says who signs in at the provider next, of which groups.
func (p *oidcProvider) person(id string, groups ...string) {
	p.t.Helper()
	p.ask("person?"+url.Values{"id": {id}, "group": groups}.Encode(), "")
}

func (p *oidcProvider) sign(claims map[string]any) string {
	p.t.Helper()
	raw, err := json.Marshal(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.ask("sign", string(raw))
}

// change signs an ID token anew, with other claims.
func (p *oidcProvider) change(r *http.Response) error {
	p.mu.Lock()
	tamper := p.tamper
	p.mu.Unlock()
	if r.Request.URL.Path != "/token" || tamper == nil {
		return nil
	}
	var all map[string]any
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		return err
	}
	parts := strings.Split(fmt.Sprint(all["id_token"]), ".")
	claims := map[string]any{}
	if raw, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)]); err == nil && json.Unmarshal(raw, &claims) == nil {
		tamper(claims)
		token := p.sign(claims)
		if claims["broken"] != nil {
			token = token[:len(token)-8] + "AAAAAAAA"
		}
		all["id_token"] = token
	}
	raw, err := json.Marshal(all)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.Header.Set("Content-Length", fmt.Sprint(len(raw)))
	return err
}

func (p *oidcProvider) set(down bool, tamper func(claims map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.tamper = down, tamper
}

// agent is a browser, as far as a sign-in needs one.
type agent struct {
	t      *testing.T
	client *http.Client
	base   string
	last   *url.URL // with which the provider sent it back
}

func newAgent(t *testing.T, in *installation) *agent {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &agent{t: t, base: strings.TrimSuffix(in.started.BaseURL, "/v1"), client: &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (a *agent) do(method, to string, form url.Values, header ...string) reply {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, to, strings.NewReader(form.Encode()))
	if err != nil {
		a.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", formType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: raw}
}

// follow goes where it is sent until there is a page, or stop says so.
func (a *agent) follow(to string, stop func(u *url.URL) bool) reply {
	a.t.Helper()
	for range 12 {
		r := a.do(http.MethodGet, to, nil)
		if r.status/100 != 3 {
			return r
		}
		at, err := url.Parse(to)
		if err == nil {
			at, err = at.Parse(r.header.Get("Location"))
		}
		if err != nil {
			a.t.Fatal(err)
		}
		if strings.HasSuffix(at.Path, "/callback") {
			a.last = at
		}
		if stop(at) || strings.HasPrefix(at.String(), a.base) && !strings.HasPrefix(at.Path, "/oidc/") {
			return reply{status: r.status, header: http.Header{"Location": {at.String()}}}
		}
		to = at.String()
	}
	a.t.Fatal("redirected without end")
	return reply{}
}

func never(*url.URL) bool      { return false }
func coming(u *url.URL) bool   { return strings.HasSuffix(u.Path, "/callback") }
func (a *agent) signIn() reply { a.t.Helper(); return a.follow(a.base+"/oidc/corp/login", never) }

// token renews the session, as the console does when it opens.
func (a *agent) token() string {
	a.t.Helper()
	var s adminapi.Session
	a.do(http.MethodPost, a.base+"/api/v1/session/refresh", nil).decode(a.t, &s)
	return s.AccessToken
}

// enter signs somebody in in a browser of its own and returns who he is here.
func (p *oidcProvider) enter(in *installation, id string, groups ...string) (*agent, string, adminapi.Me) {
	p.t.Helper()
	p.person(id, groups...)
	a := newAgent(p.t, in)
	if r := a.signIn(); r.status != http.StatusSeeOther {
		p.t.Fatalf("%s: %d %s", id, r.status, r.body)
	}
	token := a.token()
	var me adminapi.Me
	in.send(http.MethodGet, "/api/v1/me", token, nil).decode(p.t, &me)
	return a, token, me
}

// TestSignInByOIDC signs people in at a real provider, npm's oidc-provider, with two replicas of the server: into the roles of their groups and no
// others, into accounts of their own, and out again by what the provider says. What it did not say, or not for this sign-in, is refused and recorded.
func TestSignInByOIDC(t *testing.T) {
	t.Parallel()
	p := newOIDCProvider(t)
	database := dbtest.PostgresURL(t)
	a := start(t, setup{database: database, extra: oidcConfig(p.issuer)})
	master, err := os.ReadFile(a.cfg.MasterKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "keys", "master.key"), master, 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, setup{dir: dir, database: database, extra: oidcConfig(p.issuer)})
	first, second := newAgent(t, a).base, newAgent(t, b).base
	p.run(second, first, second)

	p.rolesFollowGroups(a)
	p.accountsAreTheirOwn(a)
	p.wrongAnswers(a)
	p.wrongBrowsers(a)
	p.logouts(a, b)
	p.outage(a)
	for _, in := range []*installation{a, b} {
		for _, secret := range []string{oidcSecret, "id_token", "code="} {
			if strings.Contains(in.logs.String(), secret) {
				t.Errorf("the log has %q", secret)
			}
		}
	}
}

func (p *oidcProvider) rolesFollowGroups(in *installation) {
	t := p.t
	t.Helper()
	_, token, me := p.enter(in, "ada", "devs", "others")
	if me.Name != "corp:ada" || !slices.Equal(me.Roles, []string{"developer"}) || !slices.Equal(me.Labels, []string{"internal"}) || me.Provider == nil || *me.Provider != "corp" || me.SecondFactor.Enrolled || me.SecondFactor.Available {
		t.Errorf("a developer is %+v", me)
	}
	wantProblem(t, "a factor of one's own", in.send(http.MethodPost, "/api/v1/me/second-factor/totp", token, nil), http.StatusConflict, "conflict")
	var key adminapi.CreatedKey
	in.send(http.MethodPost, "/api/v1/keys", token, map[string]any{"name": "own"}).decode(t, &key)
	wantProblem(t, "roles by hand", in.admin(http.MethodPatch, "/users/"+me.Id, map[string]any{"roles": []string{"auditor"}}, nil), http.StatusConflict, "conflict")
	wantProblem(t, "a password", in.admin(http.MethodPost, "/users/"+me.Id+"/password-reset", map[string]any{}, nil), http.StatusConflict, "conflict")

	_, _, again := p.enter(in, "ada", "auditors")
	if again.Id != me.Id || !slices.Equal(again.Roles, []string{"auditor"}) || len(again.Labels) != 0 {
		t.Errorf("with other groups: %+v", again)
	}
	if r := in.send(http.MethodGet, "/api/v1/me", token, nil); r.status != http.StatusUnauthorized {
		t.Errorf("the session of before has its roles still: %d", r.status)
	}
	if r := in.send(http.MethodGet, "/v1/models", key.Secret, nil); r.status != http.StatusUnauthorized {
		t.Errorf("a key of the developer that she was: %d", r.status)
	}
	for _, refused := range []struct {
		groups []string
		code   string
	}{{[]string{"auditors", "guards"}, "conflicting_roles"}, {nil, "no_role"}, {[]string{"Devs", "devs ", "system_admin"}, "no_role"}} {
		_, token, _ = p.enter(in, "ada", "auditors")
		p.person("ada", refused.groups...)
		if r := newAgent(t, in).signIn(); !strings.Contains(string(r.body), `"`+refused.code+`"`) {
			t.Errorf("groups %q: %d %s", refused.groups, r.status, r.body)
		}
		if r := in.send(http.MethodGet, "/api/v1/me", token, nil); r.status != http.StatusUnauthorized {
			t.Errorf("a session with the roles of before after %s: %d", refused.code, r.status)
		}
		p.person("stranger", refused.groups...)
		newAgent(t, in).signIn()
	}
	var users adminapi.UserPage
	in.admin(http.MethodGet, "/users?limit=200", nil, &users)
	for _, u := range users.Items {
		if u.Name == "corp:stranger" {
			t.Error("somebody without a role has an account")
		}
		if u.Name == "corp:ada" && len(u.Roles) != 0 {
			t.Errorf("whoever has no group has %q", u.Roles)
		}
	}
	in.wantSignIn("no_role", "")
	old := time.Now().Add(-time.Hour).Unix()
	for _, asked := range []struct {
		what, code string
		tamper     func(claims map[string]any)
	}{
		{"a factor that was shown long ago", "reauthenticate", func(c map[string]any) { c["auth_time"] = old }},
		{"no factor", "not_found", func(c map[string]any) { c["auth_time"], c["amr"] = old, []string{"pwd"} }},
		{"a factor that was shown now", "not_found", nil},
	} {
		p.set(false, asked.tamper)
		_, token, _ = p.enter(in, "gus", "guards")
		if r := in.send(http.MethodPost, "/api/v1/users/none/enable", token, nil); in.code(r) != asked.code {
			t.Errorf("an act of a guard with %s: %d %s", asked.what, r.status, r.body)
		}
	}
	_, _, guard := p.enter(in, "gus", "guards")
	if !slices.Equal(guard.Roles, []string{"security_admin"}) || guard.SecondFactor.ShownAt == nil {
		t.Errorf("a guard who has shown a factor at the provider is %+v", guard)
	}
	var matrix adminapi.ComplianceMatrix
	in.admin(http.MethodGet, "/compliance/matrix", nil, &matrix)
	for _, c := range matrix.Controls {
		if c.Id == "second-factor" && !strings.HasPrefix(valueOf(c, 0), "1 / ") {
			t.Errorf("a guard who shows a factor at the provider: %+v", c)
		}
	}
	stranger := identity.Provider{Issuer: p.issuer}.SubjectDigest("stranger")
	eventually(t, "records of what became of accounts", func() bool {
		raw := string(in.admin(http.MethodGet, "/audit/records?limit=200&action=admin.federatedSignIn&stage=outcome", nil, nil).body)
		return !slices.ContainsFunc([]string{
			`"created":"true"`, `"former_roles":"developer"`, `"former_roles":"auditor"`, `"roles":"security_admin"`, `"former_labels":"internal"`, `"subject":"` + stranger + `"`,
		}, func(want string) bool { return !strings.Contains(raw, want) })
	})
	in.admin(http.MethodPost, "/users/"+guard.Id+"/disable", nil, new(any))
	if r := newAgent(t, in).signIn(); !strings.Contains(string(r.body), `"account_disabled"`) {
		t.Errorf("a disabled account: %d %s", r.status, r.body)
	}
}

// wantSignIn demands a record of a refused sign-in, with its reason if there is one.
func (in *installation) wantSignIn(code, reason string) {
	in.t.Helper()
	eventually(in.t, "a record of "+code+" "+reason, func() bool {
		there := false
		in.eachRecord("action=admin.federatedSignIn&stage=outcome", func(e auditEvent, _ json.RawMessage) {
			there = there || e.ErrorCode == code && e.Detail["reason"] == reason && e.Detail["provider"] == "corp"
		})
		return there
	})
}

func (p *oidcProvider) accountsAreTheirOwn(in *installation) {
	t := p.t
	t.Helper()
	local := in.newAccount("corp:eve", nil, "auditor")
	_, _, me := p.enter(in, "eve", "devs")
	if me.Id == local.id || me.Name == "corp:eve" || !strings.HasPrefix(me.Name, "corp:eve~") {
		t.Errorf("a person called as a local account is %+v", me)
	}
	if r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "corp:eve", "password": longPassword}); r.status != http.StatusOK {
		t.Errorf("the local account: %d", r.status)
	}
	for _, password := range []string{"", "eve", longPassword} {
		if r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": me.Name, "password": password}); r.status == http.StatusOK {
			t.Error("an account of the provider's has a password")
		}
	}
	p.ask("rotate", "")
	if _, _, again := p.enter(in, "eve", "devs"); again.Id != me.Id {
		t.Errorf("with another key of the provider's: %+v", again)
	}
}

// wrongAnswers: each claim that is not as this sign-in needs it.
func (p *oidcProvider) wrongAnswers(in *installation) {
	t := p.t
	t.Helper()
	now := time.Now().Unix()
	for reason, wrong := range map[string]map[string]any{
		"issuer":           {"iss": p.issuer + "/other"},
		"audience":         {"aud": "somebody else"},
		"authorized_party": {"aud": []string{"sluice", "other"}, "azp": "other"},
		"nonce":            {"nonce": "of another sign-in"},
		"subject":          {"sub": ""},
		"expired":          {"exp": now - 31, "iat": now - 60},
		"too_old":          {"iat": now - 3600},
		"not_yet_valid":    {"nbf": now + 300},
		"auth_time":        {"auth_time": 0},
		"access_token":     {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
		"signature":        {"broken": true},
	} {
		p.set(false, func(c map[string]any) {
			for k, v := range wrong {
				c[k] = v
			}
		})
		p.person("mallory", "devs")
		if r := newAgent(t, in).signIn(); r.status != http.StatusUnauthorized || !strings.Contains(string(r.body), `"sign_in_refused"`) {
			t.Errorf("%s: %d %s", reason, r.status, r.body)
		}
		in.wantSignIn("sign_in_refused", reason)
	}
	p.set(false, func(c map[string]any) { c["exp"], c["iat"] = now-5, now-60 }) // within the difference of clocks
	p.enter(in, "late", "devs")
	p.set(false, nil)
}

// wrongBrowsers: what comes back in another browser, twice, or because of another site.
func (p *oidcProvider) wrongBrowsers(in *installation) {
	t := p.t
	t.Helper()
	p.person("mallory", "devs")
	refused := func(what string, r reply) {
		t.Helper()
		if r.status != http.StatusUnauthorized || !strings.Contains(string(r.body), `"sign_in_refused"`) {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
	}
	mallory, victim := newAgent(t, in), newAgent(t, in)
	mallory.follow(mallory.base+"/oidc/corp/login", coming)
	refused("a sign-in of somebody else", victim.do(http.MethodGet, mallory.last.String(), nil))
	victim.follow(victim.base+"/oidc/corp/login", func(u *url.URL) bool { return strings.HasPrefix(u.String(), p.issuer) })
	refused("the same after one of one's own", victim.do(http.MethodGet, mallory.last.String(), nil))

	victim.follow(victim.base+"/oidc/corp/login", coming)
	q := victim.last.Query()
	q.Set("code", mallory.last.Query().Get("code")) // whose code challenge is another
	refused("the code of somebody else", victim.do(http.MethodGet, victim.base+victim.last.Path+"?"+q.Encode(), nil))
	in.wantSignIn("sign_in_refused", "code")

	own := newAgent(t, in)
	own.follow(own.base+"/oidc/corp/login", coming)
	at, err := url.Parse(own.base)
	if err != nil {
		t.Fatal(err)
	}
	kept := own.client.Jar.Cookies(at)
	if r := own.do(http.MethodGet, own.last.String(), nil); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	own.client.Jar.SetCookies(at, kept)
	refused("the same answer again", own.do(http.MethodGet, own.last.String(), nil))
	in.wantSignIn("sign_in_refused", "replayed")

	q = own.last.Query()
	q.Set("iss", "https://elsewhere.example")
	other := newAgent(t, in)
	other.follow(other.base+"/oidc/corp/login", coming)
	q.Set("state", other.last.Query().Get("state"))
	refused("the answer of another provider", other.do(http.MethodGet, other.base+other.last.Path+"?"+q.Encode(), nil))

	if r := own.do(http.MethodGet, own.base+"/oidc/corp/login", nil, "Sec-Fetch-Site", "cross-site"); r.status != http.StatusUnauthorized || r.header.Get("Set-Cookie") != "" {
		t.Errorf("begun by another site: %d %q", r.status, r.header)
	}
	for _, to := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/ok\r\nX: y", "javascript:alert(1)"} {
		a := newAgent(t, in)
		if r := a.follow(a.base+"/oidc/corp/login?return="+url.QueryEscape(to), never); r.header.Get("Location") != a.base+"/" {
			t.Errorf("return %q leads to %q", to, r.header.Get("Location"))
		}
	}
	if r := own.do(http.MethodGet, own.base+"/oidc/nobody/login", nil); r.status != http.StatusNotFound {
		t.Errorf("an unknown provider: %d", r.status)
	}
}

// logouts: what the provider says to one replica ends the sign-ins of the other; what it did not say ends nothing.
func (p *oidcProvider) logouts(a, b *installation) {
	t := p.t
	t.Helper()
	one, token, _ := p.enter(a, "leo", "devs")
	_, elsewhere, _ := p.enter(a, "leo", "devs") // another browser, another session of the provider's
	_, other, _ := p.enter(a, "mia", "devs")
	alive := func(token string) bool {
		return a.send(http.MethodGet, "/api/v1/me", token, nil).status == http.StatusOK
	}

	now := time.Now().Unix()
	good := func() map[string]any {
		return map[string]any{
			"iss": p.issuer, "aud": "sluice", "iat": now, "exp": now + 120, "jti": fmt.Sprint("j", now), "sub": "leo",
			"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
		}
	}
	send := func(claims map[string]any) int {
		return newAgent(t, b).do(http.MethodPost, newAgent(t, b).base+"/oidc/corp/backchannel-logout", url.Values{"logout_token": {p.sign(claims)}}).status
	}
	for what, wrong := range map[string]map[string]any{
		"audience": {"aud": "other"}, "issuer": {"iss": "https://elsewhere.example"}, "expired": {"exp": now - 60}, "events": {"events": map[string]any{}},
		"nonce": {"nonce": "n"}, "jti": {"jti": ""}, "nobody": {"sub": ""},
	} {
		claims := good()
		for k, v := range wrong {
			claims[k] = v
		}
		if status := send(claims); status != http.StatusBadRequest {
			t.Errorf("a logout with a wrong %s: %d", what, status)
		}
	}
	if !alive(token) || !alive(elsewhere) || !alive(other) {
		t.Fatal("a logout that is none has ended a session")
	}

	// The person signs out here and then at the provider, which tells the other replica.
	confirm := one.follow(one.base+"/oidc/corp/logout", never)
	xsrf := regexp.MustCompile(`name="xsrf" value="([^"]+)"`).FindSubmatch(confirm.body)
	if xsrf == nil {
		t.Fatalf("no page to sign out at the provider: %d %s", confirm.status, confirm.body)
	}
	if r := one.do(http.MethodPost, p.issuer+"/session/end/confirm", url.Values{"xsrf": {string(xsrf[1])}, "logout": {"yes"}}); r.status/100 != 3 || !strings.HasPrefix(r.header.Get("Location"), one.base+"/") {
		t.Fatalf("after the logout: %d %q %s", r.status, r.header, r.body)
	}
	eventually(t, "the session ends on the other replica", func() bool { return !alive(token) })
	if !alive(elsewhere) || !alive(other) {
		t.Error("the logout of one session has ended another one")
	}
	if r := one.do(http.MethodPost, one.base+"/api/v1/session/refresh", nil); r.status != http.StatusUnauthorized {
		t.Errorf("the ended session is renewed: %d", r.status)
	}
	all := good()
	if status := send(all); status != http.StatusOK {
		t.Errorf("the logout of a person: %d", status)
	}
	eventually(t, "every session of the person ends", func() bool { return !alive(elsewhere) })
	if !alive(other) {
		t.Error("somebody else's session has ended")
	}
	if status := send(all); status != http.StatusBadRequest {
		t.Errorf("the same logout again: %d", status)
	}
	eventually(t, "records of the logouts", func() bool {
		raw := string(a.admin(http.MethodGet, "/audit/records?limit=200&action=admin.federatedLogout&stage=outcome", nil, nil).body)
		return strings.Count(raw, `"ended":"1"`) >= 2
	})
}

// outage: a provider that is away opens nothing and stops nothing else.
func (p *oidcProvider) outage(in *installation) {
	t := p.t
	t.Helper()
	p.person("ada", "devs")
	a := newAgent(t, in)
	a.follow(a.base+"/oidc/corp/login", coming)
	p.set(true, nil)
	if r := a.do(http.MethodGet, a.last.String(), nil); r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), `"identity_provider_unavailable"`) {
		t.Errorf("while the provider is away: %d %s", r.status, r.body)
	}
	if r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": in.started.Welcome.AdminUser, "password": adminPassword}); r.status != http.StatusOK {
		t.Errorf("a local account while the provider is away: %d", r.status)
	}
	p.set(false, nil)
}
