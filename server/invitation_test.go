package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
)

// invite invites somebody as the caller with a token.
func (in *installation) invite(token, name string, more map[string]any, roles ...string) adminapi.CreatedInvitation {
	in.t.Helper()
	var out adminapi.CreatedInvitation
	in.send(http.MethodPost, "/api/v1/invitations", token, merged(map[string]any{"name": name, "roles": roles}, more)).decode(in.t, &out)
	return out
}

// accept accepts an invitation with a password.
func (in *installation) accept(token, password string) reply {
	in.t.Helper()
	return in.send(http.MethodPost, "/api/v1/invitations/accept", "", map[string]string{"token": token, "password": password})
}

// TestInvitations: an account comes about when its person accepts, once, and only while whoever invited may make it.
func TestInvitations(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.signInFirst()
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, new(any))
	guard := in.newAccount("guard", map[string]any{"tenant": "bank"}, "security_admin")
	show := func(token string) reply {
		return in.send(http.MethodPost, "/api/v1/invitations/show", "", map[string]string{"token": token})
	}

	made := in.invite(guard.token, "Wang.Fang", nil, "developer")
	if made.Invitation.State != "open" || made.Invitation.Tenant != "bank" || !strings.HasSuffix(made.Url, "/console/invitation#"+made.Token) {
		t.Errorf("%+v", made)
	}
	wantProblem(t, "before it is accepted", in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "wang.fang", "password": longPassword}), http.StatusUnauthorized, "invalid_login")
	var seen adminapi.OpenInvitation
	show(made.Token).decode(t, &seen)
	if seen.Name != "wang.fang" || seen.InvitedBy != "guard" || seen.Tenant != "bank" || strings.Join(seen.Roles, ",") != "developer" {
		t.Errorf("%+v", seen)
	}
	again := in.send(http.MethodPost, "/api/v1/invitations", guard.token, map[string]any{"name": "wang.fang", "roles": []string{"auditor"}})
	wantProblem(t, "a second one for the name", again, http.StatusConflict, "already_exists")
	wantProblem(t, "an easy password", in.accept(made.Token, "wang.fang-bank"), http.StatusBadRequest, "invalid_value")
	accepted := in.accept(made.Token, longPassword)
	if accepted.status != http.StatusCreated {
		t.Fatalf("%d %s", accepted.status, accepted.body)
	}
	if me := in.send(http.MethodGet, "/api/v1/me", in.enter("wang.fang", longPassword).token, nil); !strings.Contains(string(me.body), `"developer"`) {
		t.Errorf("%s", me.body)
	}
	wantProblem(t, "twice", in.accept(made.Token, longPassword), http.StatusNotFound, "invalid_invitation")
	wantProblem(t, "shown after it was accepted", show(made.Token), http.StatusNotFound, "invalid_invitation")
	eventually(t, "the records of the acceptance", func() bool {
		outcome := ""
		in.eachRecord("tenant=bank&request="+accepted.header.Get("X-Request-Id"), func(e auditEvent, whole json.RawMessage) {
			if e.Action != "admin.acceptInvitation" || e.Actor.Name != "wang.fang" || !strings.Contains(string(whole), guard.id) {
				t.Errorf("%s", whole)
			}
			outcome += e.Outcome
		})
		return outcome == "ok"
	})

	withdrawn := in.invite(guard.token, "gone", nil, "developer")
	in.send(http.MethodPost, "/api/v1/invitations/"+withdrawn.Invitation.Id+"/withdraw", guard.token, nil).decode(t, new(any))
	wantProblem(t, "one that was withdrawn", in.accept(withdrawn.Token, longPassword), http.StatusNotFound, "invalid_invitation")
	wantProblem(t, "withdrawn after it was accepted", in.send(http.MethodPost, "/api/v1/invitations/"+made.Invitation.Id+"/withdraw", guard.token, nil), http.StatusConflict, "conflict")

	suspended := in.invite(guard.token, "later", nil, "developer")
	in.admin(http.MethodPost, "/tenants/bank/suspend", map[string]string{"reason": "unpaid"}, new(any))
	wantProblem(t, "into a suspended tenant", in.accept(suspended.Token, longPassword), http.StatusForbidden, "tenant_suspended")
	var tenants adminapi.TenantPage
	in.admin(http.MethodGet, "/tenants", nil, &tenants)
	for _, one := range tenants.Items {
		if one.Suspension != nil {
			in.admin(http.MethodPost, "/tenants/bank/resume", map[string]any{"since": one.Suspension.Since}, new(any))
		}
	}
	in.admin(http.MethodPatch, "/users/"+guard.id+"?tenant=bank", map[string]any{"roles": []string{"auditor"}}, new(any))
	wantProblem(t, "of one who may no longer", in.accept(suspended.Token, longPassword), http.StatusNotFound, "invalid_invitation")
	in.admin(http.MethodPatch, "/users/"+guard.id+"?tenant=bank", map[string]any{"roles": []string{"security_admin"}}, new(any))
	in.admin(http.MethodPost, "/users/"+guard.id+"/disable?tenant=bank", nil, new(any))
	wantProblem(t, "of one who is disabled", in.accept(suspended.Token, longPassword), http.StatusNotFound, "invalid_invitation")
	in.admin(http.MethodPost, "/users/"+guard.id+"/enable?tenant=bank", nil, new(any))
	if r := in.accept(suspended.Token, longPassword); r.status != http.StatusCreated {
		t.Errorf("once he may again: %d %s", r.status, r.body)
	}

	var page adminapi.InvitationPage
	in.admin(http.MethodGet, "/invitations?tenant=bank", nil, &page)
	states := ""
	for _, i := range page.Items {
		states += string(i.State) + " "
	}
	if states != "accepted withdrawn accepted " {
		t.Error(states)
	}
	kept := in.logs.String()
	for _, tenant := range []string{"demo", "bank"} {
		in.eachRecord("tenant="+tenant, func(_ auditEvent, whole json.RawMessage) { kept += string(whole) })
	}
	for _, secret := range []string{made.Token, withdrawn.Token, suspended.Token, longPassword} {
		if strings.Contains(kept, secret) {
			t.Error("a token or a password is in a log or a record")
		}
	}
}
