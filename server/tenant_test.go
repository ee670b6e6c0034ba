package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
)

// TestTenantsAreSuspended: whoever runs the installation suspends a tenant with a reason. From then on its keys and its people are refused with a
// code that says so, what it has is kept, the refusals stand in its own log, and the operator acts in it until it is resumed.
func TestTenantsAreSuspended(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	clerk := in.newAccount("clerk", map[string]any{"tenant": "bank"}, "developer")
	var key adminapi.CreatedKey
	in.admin(http.MethodPost, "/keys", map[string]any{"tenant": "bank", "name": "app"}, &key)
	ask := func(stream bool) reply {
		body := map[string]any{"model": "scripted", "stream": stream, "messages": []any{map[string]string{"role": "user", "content": "hi"}}}
		return in.send(http.MethodPost, "/v1/chat/completions", key.Secret, body)
	}
	signIn := func(password string) reply {
		return in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "clerk", "password": password})
	}
	if r := ask(false); r.status != http.StatusOK {
		t.Fatalf("before: %d %s", r.status, r.body)
	}

	wantProblem(t, "no reason", in.admin(http.MethodPost, "/tenants/bank/suspend", map[string]string{}, nil), http.StatusBadRequest, "missing_required_parameter")
	wantProblem(t, "the operator", in.admin(http.MethodPost, "/tenants/demo/suspend", map[string]string{"reason": "x"}, nil), http.StatusConflict, "conflict")
	wantProblem(t, "nobody", in.admin(http.MethodPost, "/tenants/nobody/suspend", map[string]string{"reason": "x"}, nil), http.StatusNotFound, "not_found")
	wantProblem(t, "its own people", in.send(http.MethodPost, "/api/v1/tenants/bank/suspend", clerk.token, map[string]string{"reason": "x"}), http.StatusForbidden, "not_allowed")
	var bank adminapi.Tenant
	suspended := in.admin(http.MethodPost, "/tenants/bank/suspend", map[string]string{"reason": "contract ended"}, &bank)
	if s := bank.Suspension; s == nil || s.Reason != "contract ended" || s.ByName == nil || *s.ByName != in.started.Welcome.AdminUser || s.Since.IsZero() {
		t.Errorf("%+v", bank)
	}
	if e := in.records(suspended.header.Get("X-Request-Id"), 2)[1]; e.Action != "admin.suspendTenant" || !strings.Contains(string(e.raw), `"reason":"contract ended"`) || !strings.Contains(string(e.raw), `"bank"`) {
		t.Errorf("the record of the suspension: %s", e.raw)
	}

	refused := ask(false)
	checkRefusal(t, refused, http.StatusForbidden, "permission_error", "tenant_suspended", "", "operator")
	checkRefusal(t, ask(true), http.StatusForbidden, "permission_error", "tenant_suspended", "", "operator")
	checkRefusal(t, in.send(http.MethodGet, "/v1/models", key.Secret, nil), http.StatusForbidden, "permission_error", "tenant_suspended", "", "operator")
	wantProblem(t, "a session", in.send(http.MethodGet, "/api/v1/me", clerk.token, nil), http.StatusForbidden, "tenant_suspended")
	wantProblem(t, "a renewal", in.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", clerk.cookie), http.StatusForbidden, "tenant_suspended")
	wantProblem(t, "a sign-in", signIn(longPassword), http.StatusForbidden, "tenant_suspended")
	wantProblem(t, "a guess", signIn("some other password"), http.StatusUnauthorized, "invalid_login")
	eventually(t, "the refusal in the log of the tenant", func() bool {
		var page adminapi.AuditPage
		in.admin(http.MethodGet, "/audit/records?tenant=bank&request="+refused.header.Get("X-Request-Id"), nil, &page)
		return len(page.Items) == 1 && strings.Contains(string(page.Items[0].Event), `"tenant_suspended"`) && strings.Contains(string(page.Items[0].Event), key.Key.Id)
	})

	// What it has is there, and the operator acts in it.
	var keys adminapi.KeyPage
	in.admin(http.MethodGet, "/keys?tenant=bank", nil, &keys)
	if len(keys.Items) != 1 || keys.Items[0].Id != key.Key.Id {
		t.Errorf("%+v", keys)
	}
	in.admin(http.MethodPost, "/users/"+clerk.id+"/disable?tenant=bank", nil, new(any))
	in.admin(http.MethodPost, "/users/"+clerk.id+"/enable?tenant=bank", nil, new(any))

	var resumed adminapi.Tenant
	in.admin(http.MethodPost, "/tenants/bank/resume", nil, &resumed)
	if resumed.Suspension != nil {
		t.Errorf("%+v", resumed)
	}
	if r := ask(false); r.status != http.StatusOK {
		t.Errorf("after: %d %s", r.status, r.body)
	}
	if r := signIn(longPassword); r.status != http.StatusOK {
		t.Errorf("after: %d %s", r.status, r.body)
	}
}

// TestLimitsOfTenantsBind: the limit of a tenant counts all its keys together, is no other tenant's, and is in force as soon as it is set.
func TestLimitsOfTenantsBind(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank", "limits": adminapi.Limits{RequestsPerMinute: 2}}, new(any))
	var first, second adminapi.CreatedKey
	in.admin(http.MethodPost, "/keys", map[string]any{"tenant": "bank", "name": "a"}, &first)
	in.admin(http.MethodPost, "/keys", map[string]any{"tenant": "bank", "name": "b"}, &second)
	ask := func(key string) reply {
		return in.send(http.MethodPost, "/v1/chat/completions", key, map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hi"}}})
	}
	for _, key := range []string{first.Secret, second.Secret} {
		if r := ask(key); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if r := ask(first.Secret); r.status != http.StatusTooManyRequests || !strings.Contains(string(r.body), "rate_limit_exceeded") || r.header.Get("Retry-After") == "" {
		t.Errorf("the third request of the tenant: %d %s", r.status, r.body)
	}
	if r := ask(in.started.Welcome.APIKey.Reveal()); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
	var t2 adminapi.Tenant
	in.admin(http.MethodPatch, "/tenants/bank", map[string]any{"limits": adminapi.Limits{RequestsPerMinute: 600}, "name": "First Bank"}, &t2)
	if t2.Name != "First Bank" || t2.Limits.RequestsPerMinute != 600 {
		t.Errorf("%+v", t2)
	}
	eventually(t, "the higher limit", func() bool { return ask(second.Secret).status == http.StatusOK })
	wantProblem(t, "nothing to change", in.admin(http.MethodPatch, "/tenants/bank", map[string]any{}, nil), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "a negative limit", in.admin(http.MethodPatch, "/tenants/bank", map[string]any{"limits": adminapi.Limits{Concurrent: -1}}, nil), http.StatusBadRequest, "invalid_value")
}
