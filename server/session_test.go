package server_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/identity"
)

// TestPublishedKeys: whoever fetches the published keys can check a session token, on the listener of the management API; on that of applications
// they are for the tokens of service accounts; a refresh token that is shown twice ends the whole sign-in.
func TestPublishedKeys(t *testing.T) {
	t.Parallel()
	address, main := freeAddress(t), freeAddress(t)
	in := start(t, setup{overrides: map[string]any{"admin_listen": address, "listen": main, "public_url": "https://ai.example"}})
	res, err := http.Get("http://" + main + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the business API publishes no keys: %d", res.StatusCode)
	}
	ask := func(method, path, token, cookie, body string) (reply, *http.Response) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		if cookie != "" {
			req.Header.Set("Cookie", cookie)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{status: res.StatusCode, header: res.Header, body: raw}, res
	}
	login, res := ask(http.MethodPost, "/api/v1/session", "", "", `{"user": "admin", "password": "`+in.started.Welcome.AdminPassword.Reveal()+`"}`)
	token, cookie := tokenOf(t, login), cookieOf(login)
	for _, c := range res.Cookies() {
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/api/v1/session" {
			t.Errorf("%+v", c)
		}
	}
	if len(res.Cookies()) != 1 {
		t.Errorf("%d cookies", len(res.Cookies()))
	}

	var set struct{ Keys []identity.PublicKey }
	published, _ := ask(http.MethodGet, "/.well-known/jwks.json", "", "", "")
	published.decode(t, &set)
	if len(set.Keys) != 3 || published.header.Get("Content-Type") != "application/jwk-set+json" || published.header.Get("Cache-Control") != "public, max-age=3600" {
		t.Fatalf("%s %v", published.body, published.header)
	}
	if r, _ := ask(http.MethodPost, "/.well-known/jwks.json", "", "", ""); r.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", r.status)
	}
	parts := strings.Split(token, ".")
	decode := func(s string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var head struct{ Kid, Alg string }
	if err := json.Unmarshal(decode(parts[0]), &head); err != nil || head.Alg != "EdDSA" || head.Kid != set.Keys[1].ID {
		t.Fatalf("%+v, %v", head, err)
	}
	if !ed25519.Verify(decode(set.Keys[1].X), []byte(parts[0]+"."+parts[1]), decode(parts[2])) {
		t.Error("the published key does not verify the token")
	}

	refresh := func(cookie string) reply {
		r, _ := ask(http.MethodPost, "/api/v1/session/refresh", "", cookie, "")
		return r
	}
	second := refresh(cookie)
	renewed := tokenOf(t, second)
	if r, _ := ask(http.MethodGet, "/api/v1/me", renewed, "", ""); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	wantProblem(t, "a spent token", refresh(cookie), http.StatusUnauthorized, "invalid_session")
	wantProblem(t, "the one that followed", refresh(cookieOf(second)), http.StatusUnauthorized, "invalid_session")
	ended, _ := ask(http.MethodGet, "/api/v1/me", renewed, "", "")
	wantProblem(t, "its session", ended, http.StatusUnauthorized, "invalid_session")
}
