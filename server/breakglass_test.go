package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/adminapi"
)

// glass lets a server accept sealed credentials; a review is due at once.
const glass = "identity: {break_glass: {enabled: true, review_within: 1s}}\n"

// sealed makes a sealed credential as somebody, with an approval if there is one, and returns its halves.
func (in *installation) sealed(who, approval string) []string {
	in.t.Helper()
	var out adminapi.SealedCredentials
	in.send(http.MethodPost, "/api/v1/break-glass/seals", who, map[string]any{}, "X-Sluice-Approval", approval).decode(in.t, &out)
	if len(out.Items) != 1 || len(out.Items[0].Secrets) != 2 {
		in.t.Fatalf("%+v", out)
	}
	return out.Items[0].Secrets
}

func (in *installation) breakGlass(halves ...string) reply {
	in.t.Helper()
	return in.send(http.MethodPost, "/api/v1/session/break-glass", "", map[string]any{"halves": halves, "reason": "nobody can sign in"})
}

// TestBreakGlass: while the duties are separated, two custodians bring an administrator back, and people are told at once. The emergency reads no record, shows no
// value, exports, publishes and deletes nothing, approves nothing, and brings nobody back who could do so for it; each act is marked; whoever it has touched does
// not review it, and it is over when it is reviewed.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	soc := listen(t)
	in := start(t, setup{extra: glass + soc.config()})
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, new(any))
	in.admin(http.MethodPost, "/tenants/bank/suspend", map[string]string{"reason": "by mistake"}, nil)
	in.admin(http.MethodPost, "/organisations", map[string]string{"id": "group", "name": "Group"}, new(any))
	in.admin(http.MethodPost, "/organisations/group/suspend", map[string]string{"reason": "by mistake"}, nil)
	key := in.issueKey(map[string]any{"name": "leaked"})
	by := in.separated()
	sec, sys, aud := by["security_admin"], by["system_admin"], by["auditor"]
	users := func(token string) map[string]string {
		var page adminapi.UserPage
		in.send(http.MethodGet, "/api/v1/users", token, nil).decode(t, &page)
		out := map[string]string{}
		for _, u := range page.Items {
			out[u.Roles[0]] = u.Id
		}
		return out
	}
	id := users(aud)
	in.erasureNeedsTwo(by["compliance"], sec, sys)

	alone := in.send(http.MethodPost, "/api/v1/break-glass/seals", sec, map[string]any{})
	wantProblem(t, "a seal of one person", alone, http.StatusForbidden, "act_approval_required")
	halves := in.sealed(sec, in.approved(http.MethodPost, "/api/v1/break-glass/seals", sec, sys, map[string]any{}))
	wantProblem(t, "one half", in.breakGlass(halves[0]), http.StatusUnauthorized, "invalid_login")
	opened := in.breakGlass(halves[1], halves[0])
	var s adminapi.Session
	opened.decode(t, &s)
	glassy := s.AccessToken
	soc.waitFor(t, "identity.break_glass_open")
	eventually(t, "the record of the opening", func() bool {
		got := string(in.send(http.MethodGet, "/api/v1/audit/records?request="+opened.header.Get("X-Request-Id"), aud, nil).body)
		return strings.Count(got, "admin.openBreakGlass") == 2 && strings.Contains(got, "nobody can sign in") && strings.Contains(got, strings.Split(halves[0], "-")[1])
	})
	wantProblem(t, "a second time", in.breakGlass(halves...), http.StatusUnauthorized, "invalid_login")
	var me adminapi.Me
	in.send(http.MethodGet, "/api/v1/me", glassy, nil).decode(t, &me)
	if me.Kind != "break_glass" || me.Tenant != "demo" {
		t.Errorf("%+v", me)
	}

	for what, r := range map[string]reply{
		"the records":          in.send(http.MethodGet, "/api/v1/audit/records", glassy, nil),
		"an export":            in.send(http.MethodGet, "/api/v1/audit/export", glassy, nil),
		"a verification":       in.send(http.MethodPost, "/api/v1/audit/verifications", glassy, nil),
		"values":               in.send(http.MethodPost, "/api/v1/reveal", glassy, map[string]any{"session": "s", "tokens": []string{"x"}, "purpose": "x"}),
		"a policy":             in.send(http.MethodPost, "/api/v1/policies", glassy, map[string]string{"yaml": "x"}),
		"an erasure":           in.send(http.MethodPost, erasuresPath, glassy, map[string]string{"subject": "x"}),
		"offboardings":         in.send(http.MethodGet, "/api/v1/offboardings", glassy, nil),
		"approvals":            in.send(http.MethodPost, "/api/v1/approvals/x/approve", glassy, nil),
		"another seal":         in.send(http.MethodPost, "/api/v1/break-glass/seals", glassy, map[string]any{}),
		"its own review":       in.send(http.MethodPost, "/api/v1/break-glass/uses/"+me.Id+"/review", glassy, map[string]string{"reason": "fine"}),
		"a suspension":         in.send(http.MethodPost, "/api/v1/tenants/bank/suspend", glassy, map[string]string{"reason": "x"}),
		"a role":               in.send(http.MethodPatch, "/api/v1/users/"+id["system_admin"], glassy, map[string]any{"roles": []string{"auditor"}}),
		"an auditor's account": in.send(http.MethodPost, "/api/v1/users/"+id["auditor"]+"/password-reset", glassy, nil),
		"an officer's account": in.send(http.MethodPost, "/api/v1/users/"+id["compliance"]+"/second-factor-reset", glassy, nil),
		"a new auditor":        in.send(http.MethodPost, "/api/v1/users", glassy, map[string]any{"name": "spy", "password": longPassword, "roles": []string{"auditor"}}),
		"a service account":    in.send(http.MethodPost, "/api/v1/service-accounts", glassy, map[string]any{"name": "spy", "roles": []string{"application"}, "owner": id["security_admin"]}),
		"an invitation":        in.send(http.MethodPost, "/api/v1/invitations", glassy, map[string]any{"name": "spy", "roles": []string{"security_admin"}}),
		"a security key":       in.send(http.MethodPost, "/api/v1/me/second-factor/webauthn", glassy, nil),
		"a project":            in.send(http.MethodPost, "/api/v1/projects", glassy, map[string]string{"id": "x", "name": "x"}),
		"an organisation":      in.send(http.MethodPost, "/api/v1/organisations", glassy, map[string]string{"id": "x", "name": "x"}),
		"a move":               in.send(http.MethodPost, "/api/v1/tenants/bank/move", glassy, map[string]string{"organisation": "group"}),
		"a new emergency":      in.send(http.MethodPost, "/api/v1/users", sec, map[string]any{"name": "spy", "password": longPassword, "roles": []string{"break_glass"}}, "X-Sluice-Approval", "request", "X-Sluice-Reason", "x"),
		"the data plane":       in.send(http.MethodGet, "/v1/models", glassy, nil),
	} {
		if r.status != http.StatusForbidden && r.status != http.StatusUnauthorized && what != "a new emergency" || strings.Contains(string(r.body), `"items"`) {
			t.Errorf("%s: %d %.200s", what, r.status, r.body)
		}
	}
	var tenants adminapi.TenantPage
	in.send(http.MethodGet, "/api/v1/tenants", glassy, nil).decode(t, &tenants)
	var since time.Time
	for _, x := range tenants.Items {
		if x.Suspension != nil {
			since = x.Suspension.Since
		}
	}
	var groups adminapi.OrganisationPage
	in.send(http.MethodGet, "/api/v1/organisations", glassy, nil).decode(t, &groups)
	var ended map[string]any
	for _, x := range groups.Items {
		if x.Suspension != nil {
			ended = map[string]any{"since": x.Suspension.Since}
		}
	}
	acts := map[string]reply{
		"resumeOrganisation": in.send(http.MethodPost, "/api/v1/organisations/group/resume", glassy, ended),
		"resetPassword":      in.send(http.MethodPost, "/api/v1/users/"+id["security_admin"]+"/password-reset", glassy, nil),
		"createUser":         in.send(http.MethodPost, "/api/v1/users", glassy, map[string]any{"name": "helper", "password": longPassword, "roles": []string{"security_admin"}}),
		"revokeKey":          in.send(http.MethodPost, "/api/v1/keys/"+key.id+"/revoke", glassy, nil),
		"resumeTenant":       in.send(http.MethodPost, "/api/v1/tenants/bank/resume", glassy, map[string]any{"since": since}),
	}
	for what, r := range acts {
		if r.status >= http.StatusBadRequest {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
		eventually(t, "the record of "+what, func() bool {
			got := string(in.send(http.MethodGet, "/api/v1/audit/records?tenant=demo&request="+r.header.Get("X-Request-Id"), aud, nil).body)
			return strings.Count(got, `"kind":"break_glass"`) == 2 && strings.Contains(got, "admin."+what) && strings.Contains(got, me.Id)
		})
	}
	told := func() int { return strings.Count(soc.text(), `"code":"identity.break_glass_open"`) }
	before := told()
	in.restart() // a start looks at once at what is due
	eventually(t, "the open emergency to be told again", func() bool { return told() > before })
	in.reviewed(t, glassy, me.Id, aud, acts["resetPassword"])
	if text := soc.text(); strings.Contains(text, halves[0]) || strings.Contains(in.logs.String(), halves[1]) || strings.Contains(text, glassy) {
		t.Error("a half or a session was told or logged")
	}
}

// reviewed closes the review of an emergency.
func (in *installation) reviewed(t *testing.T, glassy, use, aud string, reset reply) {
	t.Helper()
	path := "/api/v1/break-glass/uses/" + use + "/review"
	found := map[string]string{"reason": "an administrator was brought back"}
	var once adminapi.PasswordReset
	if err := json.Unmarshal(reset.body, &once); err != nil {
		t.Fatal(err)
	}
	var s adminapi.Session
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": once.User.Name, "password": once.Password}).decode(t, &s)
	in.send(http.MethodPost, "/api/v1/me/password", s.AccessToken, map[string]string{"current_password": once.Password, "new_password": "another " + ownPassword}).decode(t, &s)
	wantProblem(t, "who was brought back", in.send(http.MethodPost, path, s.AccessToken, found), http.StatusForbidden, "second_person_required")
	helper := in.enter("helper", longPassword)
	wantProblem(t, "who was made by it", in.send(http.MethodPost, path, helper.token, found), http.StatusForbidden, "second_person_required")
	var list adminapi.BreakGlassList
	in.send(http.MethodGet, "/api/v1/break-glass", aud, nil).decode(t, &list)
	if len(list.Uses) != 1 || !list.Uses[0].Open || list.Uses[0].Reason != "nobody can sign in" || list.Seals[0].SpentAt == nil || !list.Enabled {
		t.Errorf("%+v", list)
	}
	if r := in.send(http.MethodGet, "/api/v1/users", glassy, nil); r.status != http.StatusOK {
		t.Errorf("the session did not survive a restart: %d %s", r.status, r.body)
	}
	var done adminapi.BreakGlassUse
	in.send(http.MethodPost, path, aud, found).decode(t, &done)
	if done.Open || done.ReviewedBy == nil || *done.Review != found["reason"] {
		t.Errorf("%+v", done)
	}
	if r := in.send(http.MethodGet, "/api/v1/users", glassy, nil); r.status != http.StatusUnauthorized {
		t.Errorf("it goes on behind its review: %d %s", r.status, r.body)
	}
}

// TestBreakGlassIsOff: a new installation has none.
func TestBreakGlassIsOff(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	wantProblem(t, "a seal", in.send(http.MethodPost, "/api/v1/break-glass/seals", in.session(), map[string]any{}), http.StatusConflict, "conflict")
	wantProblem(t, "an opening", in.breakGlass("bg-x", "bg-y"), http.StatusConflict, "conflict")
}
