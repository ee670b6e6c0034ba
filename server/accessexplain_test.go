package server_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestAccessExplained holds explanations against what happens: for people and operations against the reviewed table of TestRouteRoleMatrix, which real
// requests made; for keys against the error that a request with the key gets.
func TestAccessExplained(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: glass})
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	explain := func(q url.Values) (out adminapi.AccessExplanation) {
		t.Helper()
		in.admin(http.MethodGet, "/access/explain?"+q.Encode(), nil, &out)
		first := ""
		for _, x := range out.Checks {
			if x.Verdict == adminapi.AccessRefuses && first == "" {
				first = *x.Code
			}
		}
		if out.Allowed != (first == "") {
			t.Errorf("%v: allowed %v, and %s", q, out.Allowed, first)
		}
		return out
	}
	first := func(out adminapi.AccessExplanation) string {
		for _, x := range out.Checks {
			if x.Verdict == adminapi.AccessRefuses {
				return x.Check + " " + *x.Code
			}
		}
		return ""
	}

	table, err := os.ReadFile("testdata/route_matrix.txt")
	if err != nil {
		t.Fatal(err)
	}
	operations := map[string]adminapi.Route{}
	routes, err := adminapi.Routes()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		operations[r.Method+" "+r.Path] = r
	}
	for _, role := range access.Roles() {
		if role.ID == "break_glass" || role.ID == "application" {
			continue
		}
		in.newAccount("here-"+role.ID, nil, role.ID)
		in.newAccount("there-"+role.ID, map[string]any{"tenant": "bank"}, role.ID)
	}
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	roles := strings.Fields(strings.TrimPrefix(lines[1], "# roles:"))
	held := 0
	for _, line := range lines[2:] {
		cells := strings.Fields(line)
		route := operations[cells[0]+" "+cells[1]]
		if route.Permission == "" {
			continue // public, or for whoever is signed in
		}
		for n, role := range roles {
			if role == "break_glass" {
				continue
			}
			for at, q := range []url.Values{{"principal": {"here-" + role}}, {"principal": {"there-" + role}, "tenant": {"bank"}, "in": {"demo"}}} {
				q.Set("act", route.Operation)
				want := cells[2+n][at*3] == '+'
				if out := explain(q); out.Allowed != want {
					t.Errorf("%s as %s, %v: allowed %v (%s), and the table says %c", route.Operation, role, q, out.Allowed, first(out), cells[2+n][at*3])
				}
				held++
			}
		}
	}
	if held < 1000 {
		t.Errorf("only %d answers were held against the table", held)
	}

	asked := map[string]string{"inference.generate": "/v1/chat/completions", "inference.embed": "/v1/embeddings"}
	bodies := map[string]any{
		"/v1/chat/completions": map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}},
		"/v1/embeddings":       map[string]any{"model": "scripted", "input": "hello"},
	}
	key := func(more map[string]any) issuedKey {
		more["name"] = "k"
		return in.issueKey(more)
	}
	revoked := key(map[string]any{})
	in.admin(http.MethodPost, "/keys/"+revoked.id+"/revoke", nil, nil)
	for name, c := range map[string]struct {
		key        issuedKey
		act, check string
	}{
		"any":           {key(map[string]any{}), "inference.generate", ""},
		"scope":         {key(map[string]any{"scopes": []string{"embed"}}), "inference.generate", "scopes key_scope"},
		"its own scope": {key(map[string]any{"scopes": []string{"chat"}}), "inference.generate", ""},
		"other models":  {key(map[string]any{"models": []string{"others-*"}}), "inference.generate", "models model_not_allowed"},
		"revoked":       {revoked, "inference.generate", "account expired_api_key"},
	} {
		out := explain(url.Values{"principal": {c.key.id}, "act": {c.act}, "model": {"scripted"}})
		if got := first(out); got != c.check || out.Kind != "key" {
			t.Errorf("%s: %s %q, want %q", name, out.Kind, got, c.check)
		}
		r := in.send(http.MethodPost, asked[c.act], c.key.secret, bodies[asked[c.act]])
		if code := c.check[strings.Index(c.check, " ")+1:]; code == "" && r.status != http.StatusOK || !strings.Contains(string(r.body), code) {
			t.Errorf("%s: a request gets %d %s, want %s", name, r.status, r.body, code)
		}
	}
	if out := explain(url.Values{"principal": {key(map[string]any{"networks": []string{"10.1.0.0/16"}}).id}, "act": {"inference.generate"}}); !out.Allowed || !demands(out, "network", "10.1.0.0/16") {
		t.Errorf("%+v", out)
	}
	for _, x := range explain(url.Values{"principal": {"there-developer"}, "tenant": {"bank"}, "in": {"demo"}, "act": {"inference.generate"}, "model": {"scripted"}}).Checks {
		if x.Check == "policy" {
			t.Error("what another tenant's policy allows is told")
		}
	}
	var once adminapi.User
	in.admin(http.MethodPost, "/users", map[string]any{"name": "new", "password": longPassword, "roles": []string{"developer"}, "must_change_password": true}, &once)
	for act, want := range map[string]string{"changePassword": "", "getMe": "", "listKeys": "account password_change_required"} {
		if got := first(explain(url.Values{"principal": {once.Id}, "act": {act}})); got != want {
			t.Errorf("%s of one who has to change his password: %q, want %q", act, got, want)
		}
	}
	if got := first(explain(url.Values{"principal": {"here-platform_admin"}, "act": {"createUser"}, "in": {"nowhere"}})); got != "tenant not_found" {
		t.Errorf("in a tenant that is not there: %q", got)
	}
	// Who grants it is told where nobody's role does.
	for _, x := range explain(url.Values{"principal": {"here-developer"}, "act": {"createUser"}}).Checks {
		if x.Check == "roles" && strings.Join(x.Roles, " ") != "platform_admin security_admin" {
			t.Errorf("%v", x.Roles)
		}
	}

	// Whoever may not read the people of a tenant learns nothing of them, and a stranger's id is as one that nobody has.
	wantProblem(t, "a developer", in.send(http.MethodGet, "/api/v1/access/explain?act=createUser&principal=here-auditor", in.enter("here-developer", longPassword).token, nil), http.StatusForbidden, "not_allowed")
	for _, who := range []string{"here-auditor", "nobody"} {
		wantProblem(t, who, in.send(http.MethodGet, "/api/v1/access/explain?act=createUser&principal="+who, in.enter("there-auditor", longPassword).token, nil), http.StatusNotFound, "not_found")
	}
	for _, act := range []string{"login", "everything"} {
		wantProblem(t, act, in.send(http.MethodGet, "/api/v1/access/explain?principal=here-auditor&act="+act, in.session(), nil), http.StatusBadRequest, "invalid_value")
	}

	sessions := in.separated()
	r := in.send(http.MethodGet, "/api/v1/access/explain?principal=sec&act=createUser", sessions["security_admin"], nil)
	var out adminapi.AccessExplanation
	r.decode(t, &out)
	if !out.Allowed || !demands(out, "second_person", "") {
		t.Errorf("%+v", out)
	}
}

func demands(out adminapi.AccessExplanation, check, why string) bool {
	for _, x := range out.Checks {
		if x.Check == check && x.Verdict == adminapi.AccessDemands && strings.Contains(*x.Why, why) {
			return true
		}
	}
	return false
}
