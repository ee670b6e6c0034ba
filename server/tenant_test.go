package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

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
	wantProblem(t, "a renewal", in.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", clerk.cookie), http.StatusUnauthorized, "invalid_session")
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
	wantProblem(t, "another suspension", in.admin(http.MethodPost, "/tenants/bank/resume", adminapi.Resumption{Since: bank.Suspension.Since.Add(-time.Second)}, nil), http.StatusConflict, "conflict")
	r := in.admin(http.MethodPost, "/tenants/bank/resume", adminapi.Resumption{Since: bank.Suspension.Since}, &resumed)
	if resumed.Suspension != nil {
		t.Errorf("%+v", resumed)
	}
	if e := in.records(r.header.Get("X-Request-Id"), 2)[1]; !strings.Contains(string(e.raw), `"suspended_for":"contract ended"`) {
		t.Errorf("the record does not say what was ended: %s", e.raw)
	}
	if r := ask(false); r.status != http.StatusOK {
		t.Errorf("after: %d %s", r.status, r.body)
	}
	if r := signIn(longPassword); r.status != http.StatusOK {
		t.Errorf("after: %d %s", r.status, r.body)
	}
}

// TestResumingNeedsASecondPerson: with separated duties the system administrator suspends a tenant alone, since it may be urgent, and resumes it with a
// second person, once, and no other suspension by it. Nobody of the operator's reads the tenant's records meanwhile.
func TestResumingNeedsASecondPerson(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	by := in.separated()
	system := by["system_admin"]
	suspend := func() adminapi.Resumption {
		t.Helper()
		var bank adminapi.Tenant
		in.send(http.MethodPost, "/api/v1/tenants/bank/suspend", system, map[string]string{"reason": "breach"}).decode(t, &bank)
		return adminapi.Resumption{Since: bank.Suspension.Since}
	}
	body := suspend()
	resume := func(headers ...string) reply {
		return in.send(http.MethodPost, "/api/v1/tenants/bank/resume", system, body, headers...)
	}
	wantProblem(t, "alone", resume(), http.StatusForbidden, "act_approval_required")
	a := in.asked(http.MethodPost, "/api/v1/tenants/bank/resume", system, body)
	wantProblem(t, "approved by oneself", in.send(http.MethodPost, "/api/v1/approvals/"+a.Id+"/approve", system, nil), http.StatusForbidden, "second_person_required")
	if r := in.send(http.MethodPost, "/api/v1/approvals/"+a.Id+"/approve", by["security_admin"], nil); r.status >= http.StatusMultipleChoices {
		t.Fatalf("%d %s", r.status, r.body)
	}
	wantProblem(t, "the operator's auditor", in.send(http.MethodGet, "/api/v1/audit/records?tenant=bank", by["auditor"], nil), http.StatusForbidden, "not_allowed")
	if r := resume("X-Sluice-Approval", a.Id); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	body = suspend()
	if r := resume("X-Sluice-Approval", a.Id); r.status < http.StatusBadRequest {
		t.Errorf("an approval lifted another suspension: %d %s", r.status, r.body)
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
	changed := in.admin(http.MethodPatch, "/tenants/bank", map[string]any{"limits": adminapi.Limits{RequestsPerMinute: 600}, "name": "First Bank"}, &t2)
	if t2.Name != "First Bank" || t2.Limits.RequestsPerMinute != 600 {
		t.Errorf("%+v", t2)
	}
	if e := in.records(changed.header.Get("X-Request-Id"), 2)[1]; !strings.Contains(string(e.raw), `"former_limits":"requests_per_minute=2 `) || !strings.Contains(string(e.raw), `"former_name":"Bank"`) {
		t.Errorf("the record does not say what changed: %s", e.raw)
	}
	since := time.Now()
	for range 4 {
		eventually(t, "a request under the higher limit", func() bool { return ask(second.Secret).status == http.StatusOK })
	}
	if took := time.Since(since); took > 50*time.Second { // under the limit of before each waits for half a minute, under this one for a tenth of a second
		t.Errorf("four requests took %s", took)
	}
	wantProblem(t, "a negative limit", in.admin(http.MethodPatch, "/tenants/bank", map[string]any{"limits": adminapi.Limits{Concurrent: -1}}, nil), http.StatusBadRequest, "invalid_value")
}
