package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

const ownPassword = "correct horse battery staple"

// separated splits the duties of a running installation and returns a session of each of the four new accounts, by role.
func (in *installation) separated() map[string]string {
	in.t.Helper()
	made, err := server.SplitDuties(in.t.Context(), in.cfg, identity.SeparateAdmins{System: "sys", Security: "sec", Audit: "aud", Compliance: "com"},
		slog.New(slog.DiscardHandler))
	if err != nil {
		in.t.Fatal(err)
	}
	sessions := map[string]string{}
	for _, m := range made {
		eventually(in.t, "the new account of "+m.User.Name, func() bool {
			return in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": m.User.Name, "password": m.Password}).status == http.StatusOK
		})
		var once, own adminapi.Session
		in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": m.User.Name, "password": m.Password}).decode(in.t, &once)
		in.send(http.MethodPost, "/api/v1/me/password", once.AccessToken, map[string]string{"current_password": m.Password, "new_password": ownPassword}).decode(in.t, &own)
		sessions[m.User.Roles[0]] = own.AccessToken
	}
	return sessions
}

// approved asks for the approval of an act and lets somebody give it.
func (in *installation) approved(method, path, asker, approver string, body any) string {
	in.t.Helper()
	a := in.asked(method, path, asker, body)
	r := in.send(http.MethodPost, "/api/v1/approvals/"+a.Id+"/approve?tenant="+url.QueryEscape(a.Tenant), approver, nil)
	if r.status != http.StatusOK {
		in.t.Fatalf("approve %s: %d %s", a.Operation, r.status, r.body)
	}
	return a.Id
}

func (in *installation) asked(method, path, asker string, body any) adminapi.ActApproval {
	in.t.Helper()
	r := in.send(method, path, asker, body, "X-Sluice-Approval", "request", "X-Sluice-Reason", url.QueryEscape("变更单 17"))
	var a adminapi.ActApproval
	if r.status != http.StatusAccepted || json.Unmarshal(r.body, &a) != nil || a.Id == "" {
		in.t.Fatalf("ask for an approval of %s %s: %d %s", method, path, r.status, r.body)
	}
	return a
}

func (in *installation) code(r reply) string {
	var p adminapi.Problem
	_ = json.Unmarshal(r.body, &p)
	return p.Code
}

// TestSeparatedDuties: after the split nobody can do a grave act alone, and an approval is good for exactly one.
func TestSeparatedDuties(t *testing.T) {
	in := start(t, setup{})
	boss := in.signIn("platform_admin")
	var me adminapi.Me
	in.send(http.MethodGet, "/api/v1/me", boss, nil).decode(t, &me)
	if me.Duties == nil || *me.Duties != adminapi.Merged {
		t.Fatalf("duties of a new installation: %v", me.Duties)
	}
	alone := in.send(http.MethodPost, "/api/v1/users", boss, map[string]any{"name": "before", "password": ownPassword, "roles": []string{"security_admin"}})
	if alone.status != http.StatusCreated {
		t.Fatalf("merged duties: %d %s", alone.status, alone.body)
	}
	by := in.separated()
	sec, com, aud := by["security_admin"], by["compliance"], by["auditor"]
	details := func(r reply) string {
		var out string
		eventually(t, "the records of a request", func() bool {
			out = string(in.send(http.MethodGet, "/api/v1/audit/records?request="+r.header.Get("X-Request-Id"), aud, nil).body)
			return strings.Count(out, `"stage"`) >= 2
		})
		return out
	}
	if got := details(alone); !strings.Contains(got, `"duties":"merged"`) {
		t.Errorf("an act that nobody approved does not say so: %s", got)
	}
	if r := in.send(http.MethodGet, "/api/v1/me", boss, nil); r.status != http.StatusUnauthorized {
		t.Errorf("the platform administrator is still signed in: %d", r.status)
	}

	account := map[string]any{"name": "dev", "password": ownPassword, "roles": []string{"developer"}}
	refused := in.send(http.MethodPost, "/api/v1/users", sec, account)
	if refused.status != http.StatusForbidden || in.code(refused) != "act_approval_required" {
		t.Fatalf("a role was granted by one person: %d %s", refused.status, refused.body)
	}
	a := in.asked(http.MethodPost, "/api/v1/users", sec, account)
	if a.Operation != "createUser" || a.Reason != "变更单 17" || a.Body == nil || !strings.Contains(string(*a.Body), `"dev"`) || strings.Contains(string(*a.Body), ownPassword) {
		t.Errorf("what the approver reads: %+v", a)
	}
	give := func(who string) reply {
		return in.send(http.MethodPost, "/api/v1/approvals/"+a.Id+"/approve", who, nil)
	}
	do := func(body any, id string) reply {
		return in.send(http.MethodPost, "/api/v1/users", sec, body, "X-Sluice-Approval", id)
	}
	for who, want := range map[string]int{sec: http.StatusForbidden, aud: http.StatusForbidden} {
		if r := give(who); r.status != want {
			t.Errorf("approved by the asker or by an auditor: %d %s", r.status, r.body)
		}
	}
	if r := do(account, a.Id); r.status != http.StatusConflict {
		t.Errorf("used before it was given: %d %s", r.status, r.body)
	}
	if r := give(com); r.status != http.StatusOK {
		t.Fatalf("approve: %d %s", r.status, r.body)
	}
	other := map[string]any{"name": "dev", "password": ownPassword, "roles": []string{"auditor"}}
	if r := do(other, a.Id); r.status != http.StatusConflict {
		t.Errorf("an approval was good for other roles: %d %s", r.status, r.body)
	}
	if r := in.send(http.MethodPost, "/api/v1/users", by["system_admin"], account, "X-Sluice-Approval", a.Id); r.status != http.StatusForbidden {
		t.Errorf("an approval was good for somebody else: %d %s", r.status, r.body)
	}
	account["password"] = "another battery staple" // which nobody approves
	done := do(account, a.Id)
	if done.status != http.StatusCreated {
		t.Fatalf("the approved act: %d %s", done.status, done.body)
	}
	if got := details(done); !strings.Contains(got, a.Id) || !strings.Contains(got, `"approved_by":"com"`) {
		t.Errorf("the record does not name the approval: %s", got)
	}
	if r := do(account, a.Id); r.status != http.StatusConflict {
		t.Errorf("an approval was good twice: %d %s", r.status, r.body)
	}

	// What is refused changes nothing, and leaves the approval as it was.
	again := in.approved(http.MethodPost, "/api/v1/users", sec, com, account)
	for range 2 {
		if r := do(account, again); r.status != http.StatusConflict || in.code(r) != "already_exists" && in.code(r) != "exists" {
			t.Errorf("the name is taken: %d %s", r.status, r.body)
		}
	}

	// Nobody becomes platform administrator any more.
	for _, act := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/api/v1/users", map[string]any{"name": "root", "password": ownPassword, "roles": []string{"platform_admin"}}},
		{http.MethodPost, "/api/v1/users/" + me.Id + "/enable", nil},
	} {
		id := in.approved(act.method, act.path, sec, com, act.body)
		if r := in.send(act.method, act.path, sec, act.body, "X-Sluice-Approval", id); r.status < 400 || r.status >= 500 {
			t.Errorf("%s %s: %d %s", act.method, act.path, r.status, r.body)
		}
	}

	// A declined request is over, and its asker sees why.
	b := in.asked(http.MethodPost, "/api/v1/users", sec, other)
	if r := in.send(http.MethodPost, "/api/v1/approvals/"+b.Id+"/decline", com, map[string]string{"reason": "name the ticket"}); r.status != http.StatusOK {
		t.Errorf("decline: %d %s", r.status, r.body)
	}
	if r := do(other, b.Id); r.status != http.StatusConflict || !strings.Contains(string(r.body), "name the ticket") {
		t.Errorf("a declined act: %d %s", r.status, r.body)
	}
	var list adminapi.ActApprovalList
	in.send(http.MethodGet, "/api/v1/approvals", aud, nil).decode(t, &list)
	if len(list.Items) != 0 {
		t.Errorf("an auditor asked for nothing and sees %d approvals", len(list.Items))
	}
	in.send(http.MethodGet, "/api/v1/approvals", com, nil).decode(t, &list)
	if !slices.ContainsFunc(list.Items, func(x adminapi.ActApproval) bool { return x.Id == b.Id && x.DeclinedBy != nil }) {
		t.Errorf("the list lacks what was declined: %+v", list.Items)
	}
}

// TestNobodyMakesHimselfASecondPerson: an account that the asker gave its roles does not approve what he asks for.
func TestNobodyMakesHimselfASecondPerson(t *testing.T) {
	in := start(t, setup{})
	by := in.separated()
	sec, com := by["security_admin"], by["compliance"]
	puppet := map[string]any{"name": "puppet", "password": ownPassword, "roles": []string{"auditor"}}
	id := in.approved(http.MethodPost, "/api/v1/users", sec, com, puppet)
	var u adminapi.User
	in.send(http.MethodPost, "/api/v1/users", sec, puppet, "X-Sluice-Approval", id).decode(t, &u)
	change := map[string]any{"roles": []string{"security_admin"}}
	path := "/api/v1/users/" + u.Id
	id = in.approved(http.MethodPatch, path, sec, com, change)
	if r := in.send(http.MethodPatch, path, sec, change, "X-Sluice-Approval", id); r.status != http.StatusOK {
		t.Fatalf("change roles: %d %s", r.status, r.body)
	}
	var s adminapi.Session
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "puppet", "password": ownPassword}).decode(t, &s)
	policy := map[string]any{"tenant": "*", "yaml": "name: x"}
	a := in.asked(http.MethodPost, "/api/v1/policies", sec, policy)
	if r := in.send(http.MethodPost, "/api/v1/approvals/"+a.Id+"/approve?tenant=*", s.AccessToken, nil); r.status != http.StatusForbidden || in.code(r) != "second_person_required" {
		t.Errorf("the asker's own account approved: %d %s", r.status, r.body)
	}
}

// TestServeRefusesMergedDuties: outside a trial nobody holds everything.
func TestServeRefusesMergedDuties(t *testing.T) {
	in := start(t, setup{})
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	serve := func() error {
		ready := false
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := server.Run(ctx, in.cfg, server.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Ready: func(server.Started) error {
			ready = true
			cancel()
			return nil
		}})
		if err == nil && !ready {
			t.Fatal("it neither served nor said why")
		}
		return err
	}
	if err := serve(); err == nil || !strings.Contains(err.Error(), "sluice duties split") {
		t.Errorf("serve with merged duties: %v", err)
	}
	in.cfg.Identity.Duties = identity.DutiesMerged
	if err := serve(); err != nil {
		t.Errorf("serve where merged duties are allowed: %v", err)
	}
	in.cfg.Identity.Duties = ""
	if _, err := server.SplitDuties(t.Context(), in.cfg, identity.SeparateAdmins{System: "a1", Security: "b1", Audit: "c1", Compliance: "d1"}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := serve(); err != nil {
		t.Errorf("serve with separated duties: %v", err)
	}
	if _, err := server.SplitDuties(t.Context(), in.cfg, identity.SeparateAdmins{System: "a2", Security: "b2", Audit: "c2", Compliance: "d2"}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("duties were separated twice")
	}
}

// TestTenantsDoNotRaiseTheirOwnBudget: a tenant's administrator divides the tenant's budget among keys, and does not change it.
func TestTenantsDoNotRaiseTheirOwnBudget(t *testing.T) {
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	in.admin(http.MethodPost, "/users", map[string]any{"tenant": "bank", "name": "clerk", "password": ownPassword, "roles": []string{"system_admin"}}, new(any))
	var key adminapi.CreatedKey
	in.admin(http.MethodPost, "/keys", map[string]any{"tenant": "bank", "name": "app"}, &key)
	in.admin(http.MethodPut, "/budgets", map[string]any{"tenant": "bank", "period": "month", "limit_nano": 1000}, new(any))
	var s adminapi.Session
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "clerk", "password": ownPassword}).decode(t, &s)
	for _, act := range []struct {
		method, path string
		body         any
		want         int
	}{
		{http.MethodPut, "/api/v1/budgets", map[string]any{"period": "month", "limit_nano": 1_000_000}, http.StatusForbidden},
		{http.MethodDelete, "/api/v1/budgets?period=month", nil, http.StatusForbidden},
		{http.MethodPut, "/api/v1/budgets", map[string]any{"period": "month", "limit_nano": 500, "key": key.Key.Id}, http.StatusOK},
	} {
		if r := in.send(act.method, act.path, s.AccessToken, act.body); r.status != act.want {
			t.Errorf("%s %s %v: %d %s, want %d", act.method, act.path, act.body, r.status, r.body, act.want)
		}
	}
}

// TestOperatorActsForEveryTenant: the operator's administrators settle the books of every tenant and publish the policy of all of them, each within
// his duty; those of a tenant do neither, not for themselves either.
func TestOperatorActsForEveryTenant(t *testing.T) {
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	sessions := map[string]string{}
	for _, tenant := range []string{"demo", "bank"} {
		for _, role := range []string{"system_admin", "security_admin"} {
			sessions[tenant+" "+role] = in.signInOf(tenant, tenant+"-"+role, role)
		}
	}
	correction := map[string]any{"tenant": "bank", "month": "2026-01", "amount_nano": -5, "reason": "outage"}
	policy := map[string]any{"tenant": "*", "yaml": "schema: 2\nname: all\nmodels: ['*']\npurposes: []\ncollections: ['*']\nentities:\n  default: {request: token, passage: token, answer: observe}\n"}
	for _, c := range []struct {
		path string
		body any
		who  string
		want int
	}{
		{"/billing/corrections", correction, "demo system_admin", http.StatusCreated},
		{"/billing/corrections", correction, "bank system_admin", http.StatusForbidden},
		{"/billing/corrections", correction, "demo security_admin", http.StatusForbidden},
		{"/policies", policy, "demo security_admin", http.StatusCreated},
		{"/policies", policy, "bank security_admin", http.StatusForbidden},
		{"/policies", policy, "demo system_admin", http.StatusForbidden},
	} {
		if r := in.send(http.MethodPost, "/api/v1"+c.path, sessions[c.who], c.body); r.status != c.want {
			t.Errorf("%s as %s: %d %s, want %d", c.path, c.who, r.status, r.body, c.want)
		}
	}
	if r := in.send(http.MethodGet, "/api/v1/billing/corrections?tenant=bank", sessions["demo system_admin"], nil); !strings.Contains(string(r.body), "outage") {
		t.Errorf("the operator's system administrator does not read them: %d %s", r.status, r.body)
	}
}
