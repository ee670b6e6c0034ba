package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/httpapi"
)

// openTo says which scopes open which route of the business API.
var openTo = map[string][]string{
	"/v1/chat/completions": {"chat"},
	"/v1/completions":      {"chat"},
	"/v1/embeddings":       {"embed"},
	"/v1/rerank":           {"rerank"},
	"/rerank":              {"rerank"},
	"/v1/tokenize":         {"chat"},
	"/v1/moderations":      {"chat"},
	"/tokenize":            {"chat"},
	"/v1/detokenize":       {"chat"},
	"/detokenize":          {"chat"},
	"/v2/rerank":           {"rerank"},
	"/v1/score":            {"rerank"},
	"/v1/openapi.yaml":     {"chat", "embed", "rerank", "admin-read"},
	"/v1/models":           {"chat", "embed", "rerank", "admin-read"},
	"/v1/models/*id":       {"chat", "embed", "rerank", "admin-read"},
	"/v1/messages":         {"chat"},
	"/v2":                  {"chat", "embed", "rerank", "admin-read"},
	"/v2/health/live":      {"chat", "embed", "rerank", "admin-read"},
	"/v2/health/ready":     {"chat", "embed", "rerank", "admin-read"},
	"GET /v2/models/*id":   {"chat", "embed", "rerank", "admin-read"},
	"POST /v2/models/*id":  {"embed"},

	"/v1/messages/count_tokens":        {"chat"},
	"/v1/messages/batches":             {"chat", "embed"},
	"/v1/messages/batches/:id":         {"chat", "embed"},
	"/v1/messages/batches/:id/cancel":  {"chat", "embed"},
	"/v1/messages/batches/:id/results": {"chat", "embed"},

	"/v1/responses":              {"chat"},
	"/v1/responses/input_tokens": {"chat"},

	"/v1/responses/:id":             {"chat"},
	"/v1/responses/:id/input_items": {"chat"},

	"/v1/files":              {"chat", "embed"},
	"/v1/files/:id":          {"chat", "embed"},
	"/v1/files/:id/content":  {"chat", "embed"},
	"/v1/batches":            {"chat", "embed"},
	"/v1/batches/:id":        {"chat", "embed"},
	"/v1/batches/:id/cancel": {"chat", "embed"},

	"/api/chat":        {"chat"},
	"/api/generate":    {"chat"},
	"/api/embed":       {"embed"},
	"/api/embeddings":  {"embed"},
	"/api/tags":        {"chat", "embed", "rerank", "admin-read"},
	"/api/ps":          {"chat", "embed", "rerank", "admin-read"},
	"/api/show":        {"chat", "embed", "rerank", "admin-read"},
	"/api/version":     {"chat", "embed", "rerank", "admin-read"},
	"/v1/rag/search":   {"search"},
	"/v1/rag/passages": {"search"},
}

// opens reports whether a scope opens a route.
func opens(scope string, r httpapi.Route) bool {
	return slices.Contains(openTo[r.Path], scope) || slices.Contains(openTo[r.Method+" "+r.Path], scope)
}

// TestScopesOverHTTP asks every route of the business API, and every reading one of the management API, with a key of each scope: what the
// scope does not cover is refused with 403 key_scope and recorded under the key, what it covers is not.
func TestScopesOverHTTP(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: "limits: {key: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}, tenant: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}}\n"})
	refused := ""
	for _, scope := range identity.Scopes() {
		key := in.issueKey(map[string]any{"name": scope, "scopes": []string{scope}})
		for _, route := range httpapi.Routes() {
			r := in.send(route.Method, strings.ReplaceAll(route.Path, "*id", "scripted"), key.secret, dataBodies[route.Path])
			if opens(scope, route) {
				if r.status == http.StatusForbidden || r.status == http.StatusUnauthorized {
					t.Errorf("%s, %s: %d %s", scope, route.Path, r.status, r.body)
				}
				continue
			}
			if text := string(r.body); r.status != http.StatusForbidden || !strings.Contains(text, `"code":"key_scope"`) || !strings.Contains(text, "Use a key whose scopes do") { // in the shape of its dialect
				t.Errorf("%s, %s: %d %s", scope, route.Path, r.status, text)
			}
			refused = r.header.Get("X-Request-Id")
		}
		admin, err := adminapi.Routes()
		if err != nil {
			t.Fatal(err)
		}
		for _, route := range admin {
			if route.Public {
				continue
			}
			r := in.send(route.Method, fill(route.Path), key.secret, bodyFor(route.Method))
			if route.Path == "/api/v1/me/second-factors" { // of a person, and a key has none
				continue
			}
			opens := scope == "admin-read" && route.Method == http.MethodGet && (route.Permission == "" || slices.Contains(access.Scope(scope), route.Permission))
			if opens != (r.status != http.StatusForbidden) || r.status == http.StatusUnauthorized || r.status >= 500 {
				t.Errorf("%s, %s %s: %d %s", scope, route.Method, route.Path, r.status, r.body)
			}
		}
	}
	records := in.records(refused, 1)
	if e := records[len(records)-1]; e.ErrorCode != "key_scope" || e.Actor.Kind != "key" || e.Actor.Name != "admin-read" {
		t.Errorf("%s", e.raw)
	}
	// Sources of a chat are searched: that takes both.
	ask := map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hi"}}, "rag": map[string]string{"collection": "none"}}
	for _, scopes := range [][]string{{"chat"}, {"chat", "search"}} {
		r := in.send(http.MethodPost, "/v1/chat/completions", in.issueKey(map[string]any{"name": "x", "scopes": scopes}).secret, ask)
		if strings.Contains(string(r.body), `"key_scope"`) != (len(scopes) == 1) || len(scopes) == 1 && r.status != http.StatusForbidden {
			t.Errorf("%v: %d %s", scopes, r.status, r.body)
		}
	}
}

// TestReadingKeysOverHTTP: nobody reads through a key what he may not read himself, nor beyond its tenant, and the reading is recorded.
func TestReadingKeysOverHTTP(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, nil)
	guard := in.newAccount("guard", nil, "security_admin")
	dev := in.newAccount("dev", nil, "developer")
	make := func(token string) issuedKey {
		var out adminapi.CreatedKey
		in.send(http.MethodPost, "/api/v1/keys", token, map[string]any{"name": "reader", "scopes": []string{"admin-read"}}).decode(t, &out)
		return issuedKey{out.Key.Id, out.Secret}
	}
	whole, narrow, own := make(in.session()), make(guard.token), make(dev.token)
	get := func(key issuedKey, path string, status int, code string) reply {
		t.Helper()
		r := in.send(http.MethodGet, "/api/v1"+path, key.secret, nil)
		if status == http.StatusOK {
			if r.status != status {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
			return r
		}
		wantProblem(t, path, r, status, code)
		return r
	}
	read := get(whole, "/audit/records", http.StatusOK, "")
	records := in.records(read.header.Get("X-Request-Id"), 2)
	if e := records[1]; e.Actor.Kind != "key" || e.Actor.ID != whole.id || e.Action != "admin.searchAudit" && !strings.HasPrefix(e.Action, "admin.") {
		t.Errorf("%s", e.raw)
	}
	get(whole, "/users", http.StatusOK, "")
	get(whole, "/users?tenant=bank", http.StatusForbidden, "not_allowed")
	get(whole, "/users?tenant=*", http.StatusForbidden, "not_allowed")
	get(whole, "/tenants", http.StatusForbidden, "key_scope")
	get(narrow, "/users", http.StatusOK, "")
	get(narrow, "/audit/records", http.StatusForbidden, "not_allowed")
	get(own, "/models", http.StatusOK, "")
	get(own, "/users", http.StatusForbidden, "not_allowed")
	get(own, "/keys", http.StatusForbidden, "not_allowed") // his own he sees himself
	change := in.send(http.MethodPost, "/api/v1/keys", whole.secret, map[string]any{"name": "another"})
	wantProblem(t, "a change", change, http.StatusForbidden, "key_scope")
	if e := in.records(change.header.Get("X-Request-Id"), 1)[0]; e.Action != "admin.createKey" || e.Actor.ID != whole.id || e.ErrorCode != "key_scope" {
		t.Errorf("%s", e.raw)
	}
	wantProblem(t, "an invented key", in.send(http.MethodGet, "/api/v1/users", "sk-sluice-abcdefghijkl-0123456789012345678901234567890123456789", nil), http.StatusUnauthorized, "invalid_api_key")

	in.admin(http.MethodPatch, "/users/"+guard.id, map[string]any{"roles": []string{"auditor"}}, nil)
	get(narrow, "/audit/records", http.StatusOK, "")
	in.admin(http.MethodPost, "/users/"+guard.id+"/disable", nil, nil)
	get(narrow, "/users", http.StatusForbidden, "not_allowed")
}

// TestNetworksOverHTTP: behind a trusted proxy the address is the one that the proxy names. A refusal is recorded under the key, and says
// neither the networks nor the address.
func TestNetworksOverHTTP(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: "http: {trusted_proxies: [127.0.0.1]}\n"})
	key := in.issueKey(map[string]any{"name": "edge", "networks": []string{"192.0.2.77/24", "2001:db8::/32"}, "scopes": []string{"chat", "admin-read"}})
	ask := func(from string) reply {
		return in.send(http.MethodPost, "/v1/chat/completions", key.secret, dataBodies["/v1/chat/completions"], "X-Forwarded-For", from)
	}
	for _, from := range []string{"192.0.2.9", "::ffff:192.0.2.9", "2001:db8:1::9", "203.0.113.5, 192.0.2.9"} {
		if r := ask(from); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", from, r.status, r.body)
		}
	}
	for _, from := range []string{"192.0.3.9", "2001:db9::9", "192.0.2.9, 203.0.113.5", "nonsense"} {
		r := ask(from)
		checkRefusal(t, r, 403, "permission_error", "key_network", "", "add the network you call from")
		for _, told := range []string{"192.0.2", "2001:db8", "192.0.3.9"} {
			if strings.Contains(string(r.body), told) {
				t.Errorf("the refusal tells: %s", r.body)
			}
		}
		if e := in.records(r.header.Get("X-Request-Id"), 1)[0]; e.ErrorCode != "key_network" || e.Actor.ID != key.id || e.Outcome != "refused" {
			t.Errorf("%s", e.raw)
		}
	}
	elsewhere := in.send(http.MethodGet, "/api/v1/models", key.secret, nil, "X-Forwarded-For", "203.0.113.5")
	wantProblem(t, "the management API", elsewhere, http.StatusForbidden, "key_network")
	if e := in.records(elsewhere.header.Get("X-Request-Id"), 1)[0]; e.Actor.ID != key.id {
		t.Errorf("%s", e.raw)
	}
	if r := in.send(http.MethodGet, "/api/v1/models", key.secret, nil, "X-Forwarded-For", "192.0.2.9"); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	k := in.keyNamed("edge")
	if !slices.Equal(k.Networks, []string{"192.0.2.0/24", "2001:db8::/32"}) || k.LastUsedAt == nil || k.LastUsedFrom == nil || *k.LastUsedFrom != "192.0.2.0/24" {
		t.Errorf("%+v", k)
	}
	wantProblem(t, "no network", in.admin(http.MethodPatch, "/keys/"+key.id, map[string]any{"networks": []string{"here"}}, nil), http.StatusBadRequest, "invalid_value")
	in.admin(http.MethodPatch, "/keys/"+key.id, map[string]any{"networks": []string{}}, nil)
	if r := ask("203.0.113.5"); r.status != http.StatusOK {
		t.Errorf("a key that is free again: %d %s", r.status, r.body)
	}
}

func (in *installation) keyNamed(name string) adminapi.Key {
	in.t.Helper()
	var page adminapi.KeyPage
	in.admin(http.MethodGet, "/keys?limit=200", nil, &page)
	i := slices.IndexFunc(page.Items, func(k adminapi.Key) bool { return k.Name == name })
	if i < 0 {
		in.t.Fatalf("no key %s", name)
	}
	return page.Items[i]
}

// TestModelsOfAKey: it asks and sees its models only, and what it was bound to is in the record of its making.
func TestModelsOfAKey(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	var out adminapi.CreatedKey
	r := in.admin(http.MethodPost, "/keys", map[string]any{"name": "bound", "models": []string{"other*"}, "scopes": []string{"chat"}, "networks": []string{"127.0.0.0/8"}}, &out)
	raw := string(in.records(r.header.Get("X-Request-Id"), 2)[1].raw)
	for _, want := range []string{`"models":"other*"`, `"scopes":"chat"`, `"networks":"127.0.0.0/8"`} {
		if !strings.Contains(raw, want) {
			t.Errorf("the record lacks %s: %s", want, raw)
		}
	}
	ask := func() reply {
		return in.send(http.MethodPost, "/v1/chat/completions", out.Secret, dataBodies["/v1/chat/completions"])
	}
	checkRefusal(t, ask(), 403, "permission_error", "model_not_allowed", "model", "Choose one that")
	if r := in.send(http.MethodGet, "/v1/models", out.Secret, nil); r.status != http.StatusOK || strings.Contains(string(r.body), "scripted") {
		t.Errorf("%d %s", r.status, r.body)
	}
	changed := in.admin(http.MethodPatch, "/keys/"+out.Key.Id, map[string]any{"models": []string{"script*"}}, nil)
	if r := ask(); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if raw := string(in.records(changed.header.Get("X-Request-Id"), 2)[1].raw); !strings.Contains(raw, `"former_models":"other*"`) || !strings.Contains(raw, `"models":"script*"`) {
		t.Errorf("%s", raw)
	}
}

// TestRotationOverHTTP: applications change to the new secret one after the other; no secret is in a record or a log.
func TestRotationOverHTTP(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	dev, other := in.newAccount("dev", nil, "developer"), in.newAccount("other", nil, "developer")
	var first, second, third adminapi.CreatedKey
	in.send(http.MethodPost, "/api/v1/keys", dev.token, map[string]any{"name": "mine"}).decode(t, &first)
	act := func(by account, what string, body any) reply {
		return in.send(http.MethodPost, "/api/v1/keys/"+first.Key.Id+"/"+what, by.token, body)
	}
	works := func(what, secret string, yes bool) {
		t.Helper()
		r := in.send(http.MethodPost, "/v1/chat/completions", secret, dataBodies["/v1/chat/completions"])
		if (r.status == http.StatusOK) != yes || !yes && r.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
	}
	works("the first secret", first.Secret, true)
	wantProblem(t, "somebody else's key", act(other, "rotate", map[string]any{}), http.StatusNotFound, "not_found")
	wantProblem(t, "somebody else's secret", act(other, "retire", nil), http.StatusNotFound, "not_found")
	wantProblem(t, "too long", act(dev, "rotate", map[string]any{"overlap_hours": 721}), http.StatusBadRequest, "invalid_value")
	rotated := act(dev, "rotate", map[string]any{})
	rotated.decode(t, &second)
	if second.Secret == first.Secret || second.Key.Id != first.Key.Id || !strings.HasPrefix(second.Secret, first.Key.Prefix+"-") || second.Key.FormerSecret == nil ||
		second.Key.FormerSecret.LastUsedAt == nil || second.Key.RotatedAt == nil || second.BaseUrl != in.started.BaseURL {
		t.Fatalf("%+v", second.Key)
	}
	works("the first beside the second", first.Secret, true)
	works("the second", second.Secret, true)
	wantProblem(t, "twice", act(dev, "rotate", map[string]any{}), http.StatusConflict, "conflict")
	act(dev, "retire", nil)
	works("the first, retired", first.Secret, false)
	works("the second", second.Secret, true)
	act(dev, "rotate", map[string]any{"overlap_hours": 0}).decode(t, &third)
	if third.Key.FormerSecret != nil {
		t.Errorf("%+v", third.Key.FormerSecret)
	}
	works("the second after a leak", second.Secret, false)
	works("the third", third.Secret, true)
	if raw := string(in.records(rotated.header.Get("X-Request-Id"), 2)[1].raw); !strings.Contains(raw, `"overlap_hours":"24"`) || !strings.Contains(raw, first.Key.Id) {
		t.Errorf("%s", raw)
	}
	in.admin(http.MethodPost, "/keys/"+first.Key.Id+"/revoke", nil, nil)
	works("the third, revoked", third.Secret, false)
	wantProblem(t, "what has ended", act(dev, "rotate", map[string]any{}), http.StatusConflict, "conflict")
	kept := in.logs.String()
	in.eachRecord("", func(e auditEvent, _ json.RawMessage) { kept += string(e.raw) })
	for _, secret := range []string{first.Secret, second.Secret, third.Secret} {
		if strings.Contains(kept, secret[len(secret)-20:]) {
			t.Error("a secret is in a log or a record")
		}
	}
}
