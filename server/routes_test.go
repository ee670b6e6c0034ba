package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/httpapi"
)

// TestRouteRoleMatrix asks every route of both planes as every role and as nobody, in the caller's own tenant and in another one, against a running
// server, and holds the answers against testdata/route_matrix.txt, which people review: a route without a row fails. Who lacks the permission gets
// 403 (401 without a credential, and for a session on the business API); who has it gets anything else.
func TestRouteRoleMatrix(t *testing.T) {
	in := start(t, setup{extra: glass + "limits: {key: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}, tenant: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}}\n"})
	admin, err := adminapi.Routes()
	if err != nil {
		t.Fatal(err)
	}
	if len(admin) < 40 {
		t.Fatalf("only %d management routes", len(admin))
	}
	slices.SortFunc(admin, func(a, b adminapi.Route) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	var roles []string
	tokens := map[string]string{}    // of people of the operator's tenant
	customers := map[string]string{} // of people of another one
	for _, role := range access.Roles() {
		if role.ID == "application" {
			continue // keys hold it
		}
		if role.ID == "break_glass" { // an emergency session of the operator's does
			var s adminapi.Session
			in.breakGlass(in.sealed(in.session(), "")...).decode(t, &s)
			roles, tokens[role.ID] = append(roles, role.ID), s.AccessToken
			continue
		}
		roles = append(roles, role.ID)
		tokens[role.ID] = in.signIn(role.ID)
		customers[role.ID] = in.signInOf("bank", "bank-"+strings.ReplaceAll(role.ID, "_", "-"), role.ID)
	}
	key := in.started.Welcome.APIKey.Reveal()
	var table strings.Builder
	fmt.Fprintf(&table, "# Who may use which management route: in his own tenant as one of the operator's, and in another's; in his own as a customer, and in another's.\n# roles: %s\n", strings.Join(roles, " "))
	for _, route := range admin {
		path := fill(route.Path)
		status := func(credential, tenant string) int {
			t.Helper()
			at := path
			if tenant != "" {
				at += "?tenant=" + tenant
			}
			got := in.send(route.Method, at, credential, bodyFor(route.Method)).status
			if got == http.StatusInternalServerError {
				t.Errorf("%s %s: an internal error", route.Method, at)
			}
			return got
		}
		if route.Operation == "logout" {
			continue // it would end the sessions of this test
		}
		for credential, want := range map[string]int{"": http.StatusUnauthorized, key: http.StatusForbidden} { // of keys see TestScopesOverHTTP
			who := "nobody"
			if credential != "" {
				who = "an API key"
			}
			if got := status(credential, ""); !route.Public && got != want {
				t.Errorf("%s %s as %s: %d, want %d", route.Method, path, who, got, want)
			} else if route.Public && got == http.StatusForbidden {
				t.Errorf("%s %s as %s: 403 on a public route", route.Method, path, who)
			}
		}
		fmt.Fprintf(&table, "%s %s", route.Method, route.Path)
		for _, role := range roles {
			table.WriteByte(' ')
			for _, as := range []struct{ credential, tenant string }{{tokens[role], ""}, {tokens[role], "bank"}, {customers[role], ""}, {customers[role], "demo"}} {
				if as.credential == "" { // no customer has it
					table.WriteByte('.')
					continue
				}
				switch got := status(as.credential, as.tenant); got {
				case http.StatusForbidden:
					table.WriteByte('-')
				case http.StatusUnauthorized:
					table.WriteByte('?')
					if !route.Public {
						t.Errorf("%s %s as %s: 401", route.Method, path, role)
					}
				default:
					table.WriteByte('+')
				}
			}
		}
		table.WriteByte('\n')
	}
	const file = "testdata/route_matrix.txt"
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if got := table.String(); err != nil || string(want) != got {
		t.Errorf("who may use which route is not as in %s (%v); if that is meant, run with SLUICE_UPDATE=1 and have the difference reviewed. Now:\n%s", file, err, got)
	}
	for _, route := range httpapi.Routes() {
		path := strings.ReplaceAll(route.Path, "*id", "scripted")
		body, known := dataBodies[route.Path]
		if !known && route.Method != http.MethodGet {
			t.Fatalf("%s %s has no body here: add one to dataBodies", route.Method, route.Path)
		}
		if got := in.send(route.Method, path, "", body).status; got != http.StatusUnauthorized {
			t.Errorf("%s %s as nobody: %d, want 401", route.Method, path, got)
		}
		for role, token := range tokens {
			if got := in.send(route.Method, path, token, body).status; got != http.StatusUnauthorized {
				t.Errorf("%s %s with a session of %s: %d, want 401: sessions are not for the data plane", route.Method, path, role, got)
			}
		}
		if got := in.send(route.Method, path, key, body).status; got == http.StatusUnauthorized || got == http.StatusForbidden {
			t.Errorf("%s %s with a key: %d", route.Method, path, got)
		}
	}
	if n := len(in.scripted.Requests()); n != 6 {
		t.Errorf("the engine was asked %d times, want 6: once each for the key's chats, completions, responses and messages", n)
	}
}

// dataBodies are well-formed bodies: decoding, the first step, comes before the question who asks.
var dataBodies = map[string]any{
	"/v1/chat/completions":       map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}},
	"/v1/completions":            map[string]any{"model": "scripted", "prompt": "hello"},
	"/v1/responses":              map[string]any{"model": "scripted", "input": "hello"},
	"/v1/responses/input_tokens": map[string]any{"model": "scripted", "input": "hello"},
	"/v1/messages":               map[string]any{"model": "scripted", "max_tokens": 9, "messages": []any{map[string]any{"role": "user", "content": "hello"}}},
	"/v1/messages/count_tokens":  map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}},
	"/v1/embeddings":             map[string]any{"model": "scripted", "input": "hello"},
	"/v1/rerank":                 map[string]any{"model": "scripted", "query": "hello", "documents": []any{"hello"}},
	"/rerank":                    map[string]any{"model": "scripted", "query": "hello", "documents": []any{"hello"}},
	"/v1/score":                  map[string]any{"model": "scripted", "text_1": "hello", "text_2": "hello"},
	"/v1/rag/search":             map[string]any{"collection": "none", "query": "hello"},
	"/v1/rag/passages":           map[string]any{"collection": "none", "document_id": "none", "version": "v1", "chunk": 0},
	"/v1/tokenize":               map[string]any{"model": "scripted", "prompt": "hello"},
	"/v1/moderations":            map[string]any{"input": "hello"},
	"/tokenize":                  map[string]any{"model": "scripted", "prompt": "hello"},
	"/v1/detokenize":             map[string]any{"model": "scripted", "tokens": []int{0}},
	"/detokenize":                map[string]any{"model": "scripted", "tokens": []int{0}},
	"/v2/rerank":                 map[string]any{"model": "scripted", "query": "hello", "documents": []any{"hello"}},
	"/api/chat":                  map[string]any{"model": "scripted:latest", "messages": []any{map[string]any{"role": "user", "content": "hello"}}},
	"/api/generate":              map[string]any{"model": "scripted", "prompt": "hello"},
	"/api/embed":                 map[string]any{"model": "scripted", "input": "hello"},
	"/api/embeddings":            map[string]any{"model": "scripted", "prompt": "hello"},
	"/api/show":                  map[string]any{"model": "scripted"},
	"/v2/models/*id":             map[string]any{"inputs": []any{map[string]any{"name": "input", "datatype": "BYTES", "shape": []int{1}, "data": []string{"hello"}}}},

	"/v1/responses/:id": nil, "/v1/files": nil, "/v1/files/:id": nil, "/v1/batches/:id/cancel": nil,
	"/v1/messages/batches": map[string]any{"requests": []any{}}, "/v1/messages/batches/:id": nil, "/v1/messages/batches/:id/cancel": nil,
	"/v1/batches": map[string]any{"input_file_id": "none", "endpoint": "/v1/embeddings", "completion_window": "24h"},
}

// signIn makes a user of the role and returns a session of theirs.
func (in *installation) signIn(role string) string {
	in.t.Helper()
	if role == "platform_admin" {
		in.admin(http.MethodGet, "/me", nil, new(any))
		return in.token
	}
	return in.signInAs("user-"+strings.ReplaceAll(role, "_", "-"), role)
}

// signInAs makes an account of a name and signs it in.
func (in *installation) signInAs(name, role string) string {
	in.t.Helper()
	return in.signInOf("demo", name, role)
}

// signInOf does so in a tenant.
func (in *installation) signInOf(tenant, name, role string) string {
	in.t.Helper()
	const password = "correct horse battery staple"
	in.admin(http.MethodPost, "/users", map[string]any{"tenant": tenant, "name": name, "password": password, "roles": []string{role}}, new(any))
	var s struct {
		AccessToken string `json:"access_token"`
	}
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": name, "password": password}).decode(in.t, &s)
	return s.AccessToken
}

// fill puts a name nobody has into path parameters.
func fill(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, ":") {
			parts[i] = "none"
		}
	}
	return strings.Join(parts, "/")
}

// bodyFor returns a body that no operation accepts: the matrix is about who may ask, and must change nothing.
func bodyFor(method string) any {
	if method == http.MethodGet || method == http.MethodDelete {
		return nil
	}
	return map[string]int{"nothing": 1}
}

// TestUnknownRoutesAreRefused: there is no way around the table.
func TestUnknownRoutesAreRefused(t *testing.T) {
	in := start(t, setup{})
	for _, path := range []string{"/v1/../api/v1/keys", "/api/v1/keys/", "/api/v1//keys", "/api/v2/keys", "/v1/chat/completions/x", "/debug/pprof/", "/api/v1/keys/x/y/z"} {
		r := in.send(http.MethodGet, path, in.started.Welcome.APIKey.Reveal(), nil)
		if r.status != http.StatusNotFound && r.status != http.StatusUnauthorized && r.status != http.StatusForbidden && r.status != http.StatusMovedPermanently && r.status != http.StatusTemporaryRedirect {
			t.Errorf("GET %s: %d %s", path, r.status, fmt.Sprintf("%.100s", r.body))
		}
	}
}

// TestUnknownPathsAndMethods: an unknown path is 404 and a method that a known path does not take 405 with the methods it takes, each in the
// shape of its plane: OpenAI's error object, or a problem document below /api.
func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	for _, c := range []struct {
		method, path  string
		status        int
		problem       bool
		code, allowed string
	}{
		{http.MethodPost, "/v1/nothing", 404, false, "not_found", ""},
		{http.MethodGet, "/", 404, false, "not_found", ""}, // the console is off here
		{http.MethodGet, "/v1/embeddings", 405, false, "method_not_allowed", "POST"},
		{http.MethodPut, "/v1/chat/completions", 405, false, "method_not_allowed", "GET, POST"}, // GET begins a WebSocket
		{http.MethodDelete, "/v1/models/scripted", 405, false, "method_not_allowed", "GET"},
		{http.MethodGet, "/api/v1/nothing", 404, true, "not_found", ""},
		{http.MethodGet, "/api/v2/keys", 404, true, "not_found", ""},
		{http.MethodGet, "/api/nothing", 404, true, "not_found", ""},
		{http.MethodPut, "/api/v1/keys", 405, true, "method_not_allowed", "GET, POST"},
		{http.MethodPatch, "/api/v1/session", 405, true, "method_not_allowed", "DELETE, POST"},
	} {
		for lang, word := range map[string]string{"en": "path", "zh-CN": "路径"} {
			r := in.send(c.method, c.path, "", nil, "Accept-Language", lang)
			var body struct {
				Code, Detail, Type string
				Status             int
				Error              *struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal(r.body, &body); err != nil || r.status != c.status {
				t.Errorf("%s %s: %d %s", c.method, c.path, r.status, r.body)
				continue
			}
			code, sentence, kind := body.Code, body.Detail, "application/problem+json; charset=utf-8"
			if !c.problem {
				if body.Error == nil || body.Error.Type != "invalid_request_error" {
					t.Errorf("%s %s: %s", c.method, c.path, r.body)
					continue
				}
				code, sentence, kind = body.Error.Code, body.Error.Message, "application/json; charset=utf-8"
			} else if body.Error != nil || body.Status != c.status || body.Type != "urn:sluice:problem:"+c.code {
				t.Errorf("%s %s: %s", c.method, c.path, r.body)
			}
			if code != c.code || !strings.Contains(sentence, word) || !strings.Contains(sentence, c.path) || r.header.Get("Content-Type") != kind || r.header.Get("X-Request-Id") == "" {
				t.Errorf("%s %s: %s %v", c.method, c.path, r.body, r.header)
			}
			methods := strings.Split(r.header.Get("Allow"), ", ")
			slices.Sort(methods)
			if strings.Join(methods, ", ") != c.allowed {
				t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, methods, c.allowed)
			}
		}
	}
	for path, allowed := range map[string]string{"/api/chat": "POST", "/api/tags": "GET"} { // below /api, and not the management API's
		r := in.send(http.MethodPut, path, "", nil)
		if code, message, _ := refusalOf(t, r); r.status != http.StatusMethodNotAllowed || code != "method_not_allowed" || !strings.HasPrefix(string(r.body), `{"error":"`) || !strings.Contains(message, path) || r.header.Get("Allow") != allowed {
			t.Errorf("PUT %s: %d %s", path, r.status, r.body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if r := in.send(http.MethodPost, path, "", nil); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d, Allow %q", path, r.status, r.header.Get("Allow"))
		}
	}
	var p struct{ Code string }
	r := in.admin(http.MethodPost, "/users", map[string]any{"name": "both", "password": "correct horse battery staple", "roles": []string{"auditor", "security_admin"}}, nil)
	if err := json.Unmarshal(r.body, &p); err != nil || r.status != http.StatusConflict || p.Code != "conflicting_roles" {
		t.Errorf("roles that exclude each other: %d %s", r.status, r.body)
	}
}

// TestAdminListener: on a listener of its own the management API refuses every unknown path as a problem.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	in := start(t, setup{overrides: map[string]any{"admin_listen": address}})
	for _, path := range []string{"/api/tags", "/v2/health/live", "/v1/audio/speech"} {
		if r := in.send(http.MethodGet, path, in.started.Welcome.APIKey.Reveal(), nil); r.status == http.StatusUnauthorized || strings.Contains(r.header.Get("Content-Type"), "problem") {
			t.Errorf("%s of the business API: %d %s", path, r.status, r.body)
		}
	}
	for _, c := range []struct{ path, kind string }{
		{"/v1/models", "application/problem+json"}, {"/api/v1/nothing", "application/problem+json"}, {"/api/tags", "application/problem+json"}, {"/v2/health/live", "application/problem+json"}, {"/v1/audio/speech", "application/problem+json"},
	} {
		res, err := http.Get("http://" + address + c.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusNotFound || !strings.HasPrefix(res.Header.Get("Content-Type"), c.kind) {
			t.Errorf("%s: %d %s", c.path, res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
	in.testOwnAddress()
}

// testOwnAddress: whoever comes to the business API by another name is told addresses by that name, though it has another port than the management API.
func (in *installation) testOwnAddress() {
	key := in.started.Welcome.APIKey.Reveal()
	var b messageBatch
	in.send(http.MethodPost, "/v1/messages/batches", key, map[string]any{"requests": []any{message("a", "hi")}}).decode(in.t, &b)
	in.untilEnded(key, b.ID)
	req, err := http.NewRequestWithContext(in.t.Context(), http.MethodGet, in.started.BaseURL+"/messages/batches/"+b.ID, http.NoBody)
	if err != nil {
		in.t.Fatal(err)
	}
	req.Host = "ai.bank.example"
	req.Header.Set("X-Api-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		in.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&b); err != nil || b.ResultsURL == nil || *b.ResultsURL != "http://ai.bank.example/v1/messages/batches/"+b.ID+"/results" {
		in.t.Errorf("%+v, %v", b, err)
	}
}
