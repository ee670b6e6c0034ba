package server_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/sluice-project/sluice/server/adminapi"
)

const formType = "application/x-www-form-urlencoded"

// program is a service account with its secret, or with the key that it signs with.
type program struct {
	adminapi.CreatedServiceAccount

	private crypto.Signer
	method  jwt.SigningMethod
}

func (p program) secret() string {
	if p.Secret == nil {
		return ""
	}
	return *p.Secret
}

// newProgram makes a service account with a secret.
func (in *installation) newProgram(name string, more map[string]any, roles ...string) program {
	in.t.Helper()
	body := map[string]any{"name": name, "roles": roles}
	maps.Copy(body, more)
	var out program
	in.admin(http.MethodPost, "/service-accounts", body, &out.CreatedServiceAccount)
	return out
}

// publicPEM is the public half of a key, as programs register it.
func publicPEM(t *testing.T, private crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// newSigner makes a service account that signs with ES256.
func (in *installation) newSigner(name string, roles ...string) program {
	in.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		in.t.Fatal(err)
	}
	p := in.newProgram(name, map[string]any{"keys": publicPEM(in.t, private)}, roles...)
	p.private, p.method = private, jwt.SigningMethodES256
	return p
}

// claims are what an assertion of a program has to say.
func (p program) claims() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": p.Account.Id, "sub": p.Account.Id, "aud": p.TokenUrl, "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(), "jti": uuid.NewString(),
	}
}

// assertion signs claims as the program does.
func (p program) assertion(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	out, err := jwt.NewWithClaims(p.method, claims).SignedString(p.private)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// grant asks for a token; form is what is said beside the grant type.
func (in *installation) grant(form map[string]string, header ...string) reply {
	in.t.Helper()
	body := url.Values{"grant_type": {"client_credentials"}}
	for k, v := range form {
		body.Set(k, v)
	}
	return in.send(http.MethodPost, "/oauth2/token", "", body.Encode(), append([]string{"Content-Type", formType}, header...)...)
}

// signed is the form of an assertion.
func signed(assertion string) map[string]string {
	return map[string]string{"client_assertion": assertion, "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}
}

// byProgram asks for a token as a program does.
func (in *installation) byProgram(p program, more map[string]string) reply {
	in.t.Helper()
	form := map[string]string{"client_id": p.Account.Id, "client_secret": p.secret()}
	if p.private != nil {
		form = signed(p.assertion(in.t, p.claims()))
	}
	maps.Copy(form, more)
	return in.grant(form)
}

// accessOf reads an access token.
func accessOf(t *testing.T, r reply) string {
	t.Helper()
	var out struct {
		AccessToken string `json:"access_token"`
	}
	r.decode(t, &out)
	return out.AccessToken
}

// wantOAuth fails unless an answer is the error of RFC 6749 that is wanted.
func wantOAuth(t *testing.T, what string, r reply, status int, code string) {
	t.Helper()
	var out struct{ Error string }
	if err := json.Unmarshal(r.body, &out); err != nil || r.status != status || out.Error != code {
		t.Errorf("%s: %d %s, want %d %s", what, r.status, r.body, status, code)
	}
	if r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: may be cached: %v", what, r.header)
	}
}

// TestServiceAccounts: a program gets tokens in each of the three ways, uses them at the plane that they are for, is recorded and billed as what it
// is, and is out as soon as its account or the credential is.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: unlimited})
	base := strings.TrimSuffix(in.started.BaseURL, "/v1")

	t.Run("clients of others", func(t *testing.T) {
		in.admin(http.MethodPost, "/projects", map[string]any{"id": "sales", "name": "Sales"}, new(any))
		app := in.newProgram("crm", map[string]any{"project": "sales"}, "application")
		if app.TokenUrl != base+"/oauth2/token" || app.Account.State != "active" || !app.Account.HasSecret || *app.Account.Owner.Name != in.started.Welcome.AdminUser {
			t.Errorf("%+v", app)
		}
		for _, style := range []oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams} {
			cfg := clientcredentials.Config{ClientID: app.Account.Id, ClientSecret: app.secret(), TokenURL: app.TokenUrl, Scopes: []string{"chat"}, AuthStyle: style}
			token, err := cfg.Token(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if life := time.Until(token.Expiry); token.Type() != "Bearer" || life > 15*time.Minute || life < 14*time.Minute {
				t.Errorf("%+v", token)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/models", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := cfg.Client(t.Context()).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("the token at the data plane: %d", res.StatusCode)
			}
		}
	})

	t.Run("chats are the program's", func(t *testing.T) {
		app := in.newProgram("chatter", nil, "application")
		granted := in.byProgram(app, nil)
		token := accessOf(t, granted)
		r := in.send(http.MethodPost, "/v1/chat/completions", token, question("hi"))
		if r.status != http.StatusOK {
			t.Fatalf("a chat: %d %s", r.status, r.body)
		}
		e := in.records(r.header.Get("X-Request-Id"), 2)[1]
		if e.Actor.Kind != "service" || e.Actor.ID != app.Account.Id || e.Actor.Name != "chatter" || e.Outcome != "ok" {
			t.Errorf("%s", e.raw)
		}
		eventually(t, "the usage of the program", func() bool { return in.usage("?key="+url.QueryEscape(app.Account.Id)).Requests == 1 })
		issued := in.records(granted.header.Get("X-Request-Id"), 2)[1]
		if issued.Action != "admin.issueToken" || issued.Actor.ID != app.Account.Id || issued.Outcome != "ok" {
			t.Errorf("%s", issued.raw)
		}
		in.admin(http.MethodPut, "/budgets", map[string]any{"period": "month", "key": app.Account.Id, "limit_nano": 1}, new(any))
		eventually(t, "its budget to hold", func() bool {
			return in.send(http.MethodPost, "/v1/chat/completions", token, question("hi")).status == http.StatusTooManyRequests
		})
		wantProblem(t, "the management API", in.send(http.MethodGet, "/api/v1/me", token, nil), http.StatusUnauthorized, "invalid_token")
	})

	t.Run("scopes narrow", func(t *testing.T) {
		app := in.newProgram("narrow", map[string]any{"scopes": []string{"chat", "search"}}, "application")
		token := accessOf(t, in.byProgram(app, map[string]string{"scope": "search"}))
		if r := in.send(http.MethodPost, "/v1/chat/completions", token, question("hi")); r.status != http.StatusForbidden {
			t.Errorf("a chat with a token for searches: %d %s", r.status, r.body)
		}
		for _, scope := range []string{"embed", "chat chat", "chat root", "admin-read"} {
			wantOAuth(t, scope, in.byProgram(app, map[string]string{"scope": scope}), http.StatusBadRequest, "invalid_scope")
		}
	})

	t.Run("management", func(t *testing.T) {
		bot := in.newSigner("bot", "security_admin")
		token := accessOf(t, in.byProgram(bot, nil))
		var me adminapi.Me
		in.send(http.MethodGet, "/api/v1/me", token, nil).decode(t, &me)
		if me.Kind != "service" || me.Id != bot.Account.Id || slices.Contains(me.Permissions, "approvals.give") || slices.Contains(me.Permissions, "users.write") || !slices.Contains(me.Permissions, "keys.write") {
			t.Errorf("%+v", me)
		}
		made := in.send(http.MethodPost, "/api/v1/keys", token, map[string]any{"name": "made by a program"})
		if made.status != http.StatusCreated {
			t.Errorf("a key: %d %s", made.status, made.body)
		}
		if e := in.records(made.header.Get("X-Request-Id"), 2)[1]; e.Actor.Kind != "service" || e.Actor.ID != bot.Account.Id {
			t.Errorf("%s", e.raw)
		}
		wantProblem(t, "what takes a second person", in.send(http.MethodPost, "/api/v1/policies", token, map[string]string{"yaml": "version: 1"}), http.StatusForbidden, "person_required")
		wantProblem(t, "what its owner could approve", in.send(http.MethodPost, "/api/v1/labels/agreements", token, map[string]any{
			"recipient": "x", "contact": "x", "purpose": "x", "until": time.Now().AddDate(0, 1, 0), "text_digest": "x",
		}), http.StatusForbidden, "person_required")
		wantProblem(t, "an account", in.send(http.MethodPost, "/api/v1/users/x/disable", token, nil), http.StatusForbidden, "not_allowed")
		if r := in.send(http.MethodPost, "/v1/chat/completions", token, question("hi")); r.status != http.StatusUnauthorized {
			t.Errorf("the data plane: %d %s", r.status, r.body)
		}
		dev := accessOf(t, in.byProgram(in.newProgram("dev-bot", nil, "developer"), nil))
		for _, route := range []string{"GET /batches", "GET /batches/batch_1", "POST /batches/batch_1/cancel", "GET /batches/batch_1/files/input", "POST /batches/files", "POST /batches"} {
			method, path, _ := strings.Cut(route, " ") // what is there is people's own: no program sees the batches of its tenant
			wantProblem(t, route, in.send(method, "/api/v1"+path, dev, nil), http.StatusForbidden, "person_required")
		}
		read := accessOf(t, in.byProgram(bot, map[string]string{"scope": "admin-read"}))
		wantProblem(t, "a key with a token for reading", in.send(http.MethodPost, "/api/v1/keys", read, map[string]any{"name": "x"}), http.StatusForbidden, "key_scope")
		in.admin(http.MethodPost, "/tenants", map[string]string{"id": "elsewhere", "name": "Elsewhere"}, new(any))
		wantProblem(t, "another tenant", in.send(http.MethodGet, "/api/v1/keys?tenant=elsewhere", token, nil), http.StatusForbidden, "not_allowed")
	})

	t.Run("ends", func(t *testing.T) {
		app := in.newProgram("ending", nil, "application")
		path := "/service-accounts/" + app.Account.Id
		_, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		works := func(token string) int { return in.send(http.MethodGet, "/v1/models", token, nil).status }
		var after adminapi.ServiceAccount
		in.admin(http.MethodPost, path+"/keys", map[string]any{"keys": publicPEM(t, private)}, &after)
		signer := app
		signer.private, signer.method = private, jwt.SigningMethodEdDSA
		token := accessOf(t, in.byProgram(signer, nil))
		if len(after.Keys) != 1 || after.Keys[0].Algorithm != "EdDSA" || works(token) != http.StatusOK {
			t.Errorf("%+v", after)
		}
		in.admin(http.MethodDelete, path+"/keys/"+url.PathEscape(after.Keys[0].Id), nil, new(any))
		if got := works(token); got != http.StatusUnauthorized {
			t.Errorf("a token after its key was removed: %d", got)
		}
		wantOAuth(t, "the key that was removed", in.byProgram(signer, nil), http.StatusUnauthorized, "invalid_client")

		token = accessOf(t, in.byProgram(app, nil))
		var rotated program
		in.admin(http.MethodPost, path+"/secret", map[string]any{"overlap_hours": 1}, &rotated.CreatedServiceAccount)
		if works(token) != http.StatusOK || in.byProgram(app, nil).status != http.StatusOK || in.byProgram(rotated, nil).status != http.StatusOK {
			t.Error("both secrets, and the tokens, are good within the overlap")
		}
		in.admin(http.MethodPost, path+"/secret", map[string]any{"overlap_hours": 0}, &rotated.CreatedServiceAccount)
		if got := works(token); got != http.StatusUnauthorized {
			t.Errorf("a token after a rotation without an overlap: %d", got)
		}
		wantOAuth(t, "a secret of before", in.byProgram(app, nil), http.StatusUnauthorized, "invalid_client")

		token = accessOf(t, in.byProgram(rotated, nil))
		in.admin(http.MethodPost, path+"/disable", nil, new(any))
		if got := works(token); got != http.StatusUnauthorized {
			t.Errorf("a token of a disabled account: %d", got)
		}
		wantOAuth(t, "a disabled account", in.byProgram(rotated, nil), http.StatusUnauthorized, "invalid_client")
		in.admin(http.MethodPost, path+"/enable", nil, new(any))
		if got := works(token); got != http.StatusUnauthorized {
			t.Errorf("a token of before the account was disabled: %d", got)
		}
		token = accessOf(t, in.byProgram(rotated, nil))
		if r := in.admin(http.MethodDelete, path, nil, nil); r.status != http.StatusNoContent || works(token) != http.StatusUnauthorized {
			t.Errorf("removed: %d %s", r.status, r.body)
		}
		wantProblem(t, "one that was removed", in.admin(http.MethodGet, path, nil, nil), http.StatusNotFound, "not_found")
	})

	t.Run("its owner and tenant", func(t *testing.T) {
		in.admin(http.MethodPost, "/tenants", map[string]string{"id": "shop", "name": "Shop"}, new(any))
		boss := in.newAccount("shop-boss", map[string]any{"tenant": "shop"}, "developer")
		checker := in.newAccount("shop-checker", map[string]any{"tenant": "shop"}, "auditor")
		app := in.newProgram("till", map[string]any{"tenant": "shop", "owner": "shop-boss"}, "application")
		token := accessOf(t, in.byProgram(app, nil))
		in.admin(http.MethodPost, "/users/"+boss.id+"/disable?tenant=shop", nil, new(any))
		if r := in.send(http.MethodGet, "/v1/models", token, nil); r.status != http.StatusUnauthorized {
			t.Errorf("without its owner: %d %s", r.status, r.body)
		}
		in.admin(http.MethodPost, "/users/"+boss.id+"/enable?tenant=shop", nil, new(any))
		clash := map[string]any{"tenant": "shop", "owner": checker.name, "name": "clash", "roles": []string{"security_admin"}}
		wantProblem(t, "an owner with another duty", in.admin(http.MethodPost, "/service-accounts", clash, nil), http.StatusConflict, "conflicting_roles")
		for _, role := range []string{"platform_admin", "compliance"} {
			wantProblem(t, role, in.admin(http.MethodPost, "/service-accounts", map[string]any{"name": "x", "roles": []string{role}}, nil), http.StatusBadRequest, "invalid_value")
		}
		in.admin(http.MethodPost, "/tenants/shop/suspend", map[string]string{"reason": "unpaid"}, new(any))
		wantOAuth(t, "a suspended tenant", in.byProgram(app, nil), http.StatusUnauthorized, "invalid_client")
		if r := in.send(http.MethodGet, "/v1/models", token, nil); r.status != http.StatusForbidden {
			t.Errorf("a token of a suspended tenant: %d %s", r.status, r.body)
		}
	})

	t.Run("requests", func(t *testing.T) {
		app := in.newProgram("asking", nil, "application")
		id, secret := app.Account.Id, app.secret()
		wantOAuth(t, "another grant", in.grant(map[string]string{"grant_type": "password"}), http.StatusBadRequest, "unsupported_grant_type")
		wantOAuth(t, "no credential", in.grant(nil), http.StatusUnauthorized, "invalid_client")
		basic := oauth2Basic(id, secret)
		wantOAuth(t, "two ways at once", in.grant(map[string]string{"client_id": id, "client_secret": secret}, "Authorization", basic), http.StatusBadRequest, "invalid_request")
		wantOAuth(t, "two clients", in.grant(map[string]string{"client_id": "other"}, "Authorization", basic), http.StatusUnauthorized, "invalid_client")
		if r := in.grant(nil, "Authorization", basic); r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
			t.Errorf("the header alone: %d %s", r.status, r.body)
		}
		twice := "grant_type=client_credentials&client_id=" + id + "&client_id=" + id + "&client_secret=" + secret
		wantOAuth(t, "a parameter twice", in.send(http.MethodPost, "/oauth2/token", "", twice, "Content-Type", formType), http.StatusBadRequest, "invalid_request")
		wantOAuth(t, "in the address", in.send(http.MethodPost, "/oauth2/token?client_secret=x", "", twice, "Content-Type", formType), http.StatusBadRequest, "invalid_request")
		wantOAuth(t, "as JSON", in.send(http.MethodPost, "/oauth2/token", "", map[string]string{"grant_type": "client_credentials"}), http.StatusBadRequest, "invalid_request")
		var meta map[string]any
		in.send(http.MethodGet, "/.well-known/oauth-authorization-server", "", nil).decode(t, &meta)
		if meta["issuer"] != base || meta["token_endpoint"] != app.TokenUrl || meta["jwks_uri"] != base+"/.well-known/jwks.json" {
			t.Errorf("%v", meta)
		}
	})

	t.Run("nothing is told", func(t *testing.T) {
		kept := in.logs.String()
		in.eachRecord("", func(_ auditEvent, whole json.RawMessage) { kept += string(whole) })
		if strings.Contains(kept, "ss-sluice-") || strings.Contains(kept, "eyJ") {
			t.Error("a secret, a token or an assertion is in a log or a record")
		}
	})
}

func oauth2Basic(id, secret string) string {
	r, _ := http.NewRequest(http.MethodPost, "/", nil)
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return r.Header.Get("Authorization")
}
