package server_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestTenantsStayApart: what the administrators of one tenant may not do to another, or to the installation, and where the attempt
// is recorded.
func TestTenantsStayApart(t *testing.T) {
	in := start(t, setup{})
	const secret = "correct horse battery staple"
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	in.admin(http.MethodPost, "/users", map[string]any{"tenant": "bank", "name": "guard", "password": secret, "roles": []string{"security_admin"}}, new(any))
	in.admin(http.MethodPost, "/users", map[string]any{"tenant": "bank", "name": "checker", "password": secret, "roles": []string{"auditor"}}, new(any))
	signIn := func(name string) (string, reply) {
		var s struct {
			AccessToken string `json:"access_token"`
		}
		r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": name, "password": secret})
		r.decode(t, &s)
		return s.AccessToken, r
	}
	guard, login := signIn("guard")

	create := func(role, tenant string) reply {
		return in.send(http.MethodPost, "/api/v1/users", guard, map[string]any{"tenant": tenant, "name": "new-" + role, "password": secret, "roles": []string{role}})
	}
	if r := create("developer", "bank"); r.status != http.StatusCreated {
		t.Fatalf("a security administrator could not make a user: %d %s", r.status, r.body)
	}
	if r := create("platform_admin", "bank"); r.status != http.StatusForbidden {
		t.Errorf("a tenant's security administrator made a platform administrator: %d %s", r.status, r.body)
	}
	foreign := create("auditor", "demo")
	if foreign.status != http.StatusForbidden {
		t.Errorf("a user was made in another tenant: %d %s", foreign.status, foreign.body)
	}

	long := in.send(http.MethodPost, "/api/v1/rollouts/"+strings.Repeat("x", 50_000)+"/approve", guard, map[string]string{"reason": "x"})
	if long.status != http.StatusForbidden {
		t.Errorf("a refusal of an act on a long name: %d %.200s", long.status, long.body)
	}

	checker, _ := signIn("checker")
	events := func(query string) string {
		return string(in.send(http.MethodGet, "/api/v1/audit/records?limit=200&"+query, checker, nil).body)
	}
	request := func(r reply) string { return "request=" + r.header.Get("X-Request-Id") }
	eventually(t, "the refusal in the log of whoever tried", func() bool {
		return strings.Contains(events(request(foreign)), `"tenant":"demo"`)
	})
	eventually(t, "the refusal of an act on a long name", func() bool { return strings.Contains(events(request(long)), `"not_allowed"`) })
	eventually(t, "the sign-in in the log of its tenant", func() bool {
		got := events(request(login))
		return strings.Contains(got, `"admin.login"`) && strings.Contains(got, `"ok"`) && strings.Contains(got, `"guard"`)
	})
}

// TestStrangersCannotFillTheAuditLog: what needs no credential leaves no record where it changes nothing, and what somebody types
// as a name is not repeated.
func TestStrangersCannotFillTheAuditLog(t *testing.T) {
	in := start(t, setup{})
	const typed = "my-password-in-the-wrong-field"
	statuses := map[int]int{}
	for range 12 {
		statuses[in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": typed, "password": "x"}).status]++
		if r := in.send(http.MethodDelete, "/api/v1/session", "", nil, "Cookie", "sluice_refresh=sr-sluice-"+strings.Repeat("a", 43)); r.status != http.StatusNoContent {
			t.Errorf("sign out: %d %s", r.status, r.body)
		}
	}
	if statuses[http.StatusUnauthorized] != 5 || statuses[http.StatusTooManyRequests] != 7 {
		t.Errorf("answers to guesses: %v", statuses)
	}
	if r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "a", "password": strings.Repeat("x", 20<<10)}); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body of a stranger: %d %s", r.status, r.body)
	}
	if r := in.send(http.MethodPost, "/api/v1/session?tenant=other", "", map[string]string{"user": "nobody", "password": "x"}); r.status != http.StatusUnauthorized && r.status != http.StatusBadRequest {
		t.Errorf("a stranger names a tenant: %d %s", r.status, r.body)
	}
	count := func(query string) (n int, text string) {
		var page struct {
			Items []struct{ Event auditEvent }
		}
		r := in.admin(http.MethodGet, "/audit/records?limit=200&"+query, nil, &page)
		return len(page.Items), string(r.body)
	}
	eventually(t, "the records of the guesses", func() bool {
		n, text := count("action=admin.login&outcome=refused")
		if strings.Contains(text, typed) {
			t.Fatalf("a record repeats what was typed: %s", text)
		}
		return n == 6 // the last is that of "nobody"
	})
	if n, text := count("action=admin.logout"); n != 0 {
		t.Errorf("sessions that do not exist were recorded as ended: %s", text)
	}
	if strings.Contains(in.logs.String(), typed) {
		t.Error("the log repeats what was typed")
	}
}
