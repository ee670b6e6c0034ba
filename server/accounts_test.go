package server_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluice-project/sluice/server/adminapi"
)

const longPassword = "correct horse battery staple"

// account is a user that a test made, and the credentials of a sign-in.
type account struct{ id, name, token, cookie string }

// newAccount makes a user and signs him in.
func (in *installation) newAccount(name string, more map[string]any, roles ...string) account {
	in.t.Helper()
	body := map[string]any{"name": name, "password": longPassword, "roles": roles}
	for k, v := range more {
		body[k] = v
	}
	var u adminapi.User
	in.admin(http.MethodPost, "/users", body, &u)
	a := in.enter(name, longPassword)
	a.id = u.Id
	return a
}

// enter signs in.
func (in *installation) enter(name, password string) account {
	in.t.Helper()
	r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": name, "password": password})
	return account{name: name, token: tokenOf(in.t, r), cookie: cookieOf(r)}
}

func tokenOf(t *testing.T, r reply) string {
	t.Helper()
	var s adminapi.Session
	r.decode(t, &s)
	return s.AccessToken
}

func cookieOf(r reply) string {
	value, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	return value
}

// wantProblem fails unless r is a problem with that status and code.
func wantProblem(t *testing.T, what string, r reply, status int, code string) {
	t.Helper()
	var p adminapi.Problem
	if err := json.Unmarshal(r.body, &p); err != nil || r.status != status || p.Code != code {
		t.Errorf("%s: %d %s, want %d %s", what, r.status, r.body, status, code)
	}
}

// TestPasswordsOverHTTP: changing one's own, having it reset, and what a one-time password opens. No password is in a record, a log or an
// error.
func TestPasswordsOverHTTP(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	dev := in.newAccount("dev", nil, "developer")
	elsewhere := in.enter("dev", longPassword)
	const next, guess = "planted-second password", "planted-guess password"

	change := func(token, current, next string) reply {
		return in.send(http.MethodPost, "/api/v1/me/password", token, map[string]string{"current_password": current, "new_password": next})
	}
	wrong := change(dev.token, guess, next)
	wantProblem(t, "a wrong current password", wrong, http.StatusForbidden, "wrong_password")
	wantProblem(t, "a short one", change(dev.token, longPassword, "short"), http.StatusBadRequest, "invalid_value")
	for _, weak := range []string{"woaini1314520", "dev-sluice-demo-1", "password12345"} {
		wantProblem(t, "an easy one", change(dev.token, longPassword, weak), http.StatusBadRequest, "invalid_value")
	}
	wantProblem(t, "the same one", change(dev.token, longPassword, longPassword), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "nobody", change("", longPassword, next), http.StatusUnauthorized, "invalid_session")
	changed := change(dev.token, longPassword, next)
	dev.token = tokenOf(t, changed)
	if r := in.send(http.MethodGet, "/api/v1/me", dev.token, nil); r.status != http.StatusOK {
		t.Errorf("the session of the answer: %d %s", r.status, r.body)
	}
	wantProblem(t, "the other sign-in", in.send(http.MethodGet, "/api/v1/me", elsewhere.token, nil), http.StatusUnauthorized, "invalid_session")
	wantProblem(t, "its renewal", in.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", elsewhere.cookie), http.StatusUnauthorized, "invalid_session")
	if r := in.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", cookieOf(changed)); r.status != http.StatusOK {
		t.Errorf("the renewal of this sign-in: %d %s", r.status, r.body)
	}

	var reset adminapi.PasswordReset
	r := in.admin(http.MethodPost, "/users/"+dev.id+"/password-reset", nil, &reset)
	wantProblem(t, "the sign-in before the reset", in.send(http.MethodGet, "/api/v1/me", dev.token, nil), http.StatusUnauthorized, "invalid_session")
	if !reset.User.MustChangePassword || len(reset.Password) < 16 || reset.User.OneTimeUntil == nil || time.Until(*reset.User.OneTimeUntil) > 24*time.Hour {
		t.Fatalf("%+v", reset.User)
	}
	dev = in.enter("dev", reset.Password)
	in.onlyPasswordChange(dev)
	wantProblem(t, "the one-time password again", change(dev.token, reset.Password, reset.Password), http.StatusBadRequest, "invalid_value")
	dev.token = tokenOf(t, change(dev.token, reset.Password, "planted-third password"))
	if r := in.send(http.MethodGet, "/api/v1/keys", dev.token, nil); r.status != http.StatusOK {
		t.Errorf("after the change: %d %s", r.status, r.body)
	}

	for _, request := range []string{wrong.header.Get("X-Request-Id"), changed.header.Get("X-Request-Id"), r.header.Get("X-Request-Id")} {
		if records := in.records(request, 2); len(records) != 2 {
			t.Errorf("%d records of %s", len(records), request)
		}
	}
	if e := in.records(wrong.header.Get("X-Request-Id"), 2)[1]; e.Action != "admin.changePassword" || e.Outcome != "refused" || e.ErrorCode != "wrong_password" {
		t.Errorf("%s", e.raw)
	}
	kept := in.logs.String()
	in.eachRecord("", func(_ auditEvent, whole json.RawMessage) { kept += string(whole) })
	for _, secret := range []string{"planted-", longPassword, reset.Password} {
		if strings.Contains(kept, secret) {
			t.Errorf("%q is in a log or a record", secret)
		}
	}

	for range 5 {
		change(dev.token, guess, next)
	}
	wantProblem(t, "guessing", change(dev.token, guess, next), http.StatusTooManyRequests, "login_throttled")
}

// TestFirstPasswordIsChanged: what the first start prints opens nothing but its change.
func TestFirstPasswordIsChanged(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.onlyPasswordChange(in.enter(in.started.Welcome.AdminUser, in.started.Welcome.AdminPassword.Reveal()))
	in.signInFirst()
	if r := in.send(http.MethodGet, "/api/v1/keys", in.token, nil); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// onlyPasswordChange: somebody with a one-time password may do nothing but see who he is and change it.
func (in *installation) onlyPasswordChange(a account) {
	in.t.Helper()
	in.onlyMay(a, "password_change_required", "getMe", "changePassword")
	var me adminapi.Me
	in.send(http.MethodGet, "/api/v1/me", a.token, nil).decode(in.t, &me)
	if me.MustChangePassword == nil || !*me.MustChangePassword {
		in.t.Errorf("%+v", me)
	}
	// Renewing the session does not get around it.
	r := in.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", a.cookie)
	wantProblem(in.t, "after a renewal", in.send(http.MethodGet, "/api/v1/keys", tokenOf(in.t, r), nil), http.StatusForbidden, "password_change_required")
}

// onlyMay walks every operation: but for some of them, an account is refused with a code.
func (in *installation) onlyMay(a account, code string, operations ...string) {
	in.t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("adminapi/openapi.yaml")
	if err != nil {
		in.t.Fatal(err)
	}
	refused := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if public, _ := op.Extensions["x-public"].(bool); public || slices.Contains(operations, op.OperationID) {
				continue
			}
			target, body := sampleRequest(path, op)
			wantProblem(in.t, method+" "+path, in.send(method, adminapi.Prefix+target, a.token, body), http.StatusForbidden, code)
			refused++
		}
	}
	if refused < 60 {
		in.t.Errorf("only %d operations were tried", refused)
	}
}

// TestNobodyClimbs: who changes accounts cannot widen what he himself may, nor reach into another tenant.
func TestNobodyClimbs(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, nil)
	guard := in.newAccount("guard", map[string]any{"tenant": "bank"}, "security_admin")
	clerk := in.newAccount("clerk", map[string]any{"tenant": "bank"}, "developer")
	officer := in.newAccount("officer", nil, "security_admin")
	dev := in.newAccount("dev", nil, "developer")
	second := in.newAccount("second", nil, "platform_admin")
	var me adminapi.Me
	in.admin(http.MethodGet, "/me", nil, &me)

	patch := func(by account, id, query string, change any) reply {
		return in.send(http.MethodPatch, "/api/v1/users/"+id+query, by.token, change)
	}
	roles := func(names ...string) any { return map[string]any{"roles": names} }
	act := func(by account, id, what, query string) reply {
		return in.send(http.MethodPost, "/api/v1/users/"+id+"/"+what+query, by.token, nil)
	}
	for name, c := range map[string]struct {
		got    reply
		status int
		code   string
	}{
		"own roles":                       {patch(officer, officer.id, "", roles("security_admin", "developer")), 409, "conflict"},
		"own labels":                      {patch(officer, officer.id, "", map[string]any{"labels": []string{"secret"}}), 409, "conflict"},
		"own reset":                       {act(officer, officer.id, "password-reset", ""), 409, "conflict"},
		"making a platform administrator": {patch(officer, dev.id, "", roles("platform_admin")), 403, "role_not_grantable"},
		"taking the platform's role":      {patch(officer, me.Id, "", roles("developer")), 403, "role_not_grantable"},
		"labelling the platform's":        {patch(officer, me.Id, "", map[string]any{"labels": []string{}}), 403, "role_not_grantable"},
		"resetting the platform's":        {act(officer, me.Id, "password-reset", ""), 403, "role_not_grantable"},
		"disabling the platform's":        {act(officer, second.id, "disable", ""), 403, "role_not_grantable"},
		"enabling the platform's":         {act(officer, second.id, "enable", ""), 403, "role_not_grantable"},
		"creating the platform's":         {in.send(http.MethodPost, "/api/v1/users", officer.token, map[string]any{"name": "third", "password": longPassword, "roles": []string{"platform_admin"}}), 403, "role_not_grantable"},
		"excluding roles":                 {patch(officer, dev.id, "", roles("security_admin", "auditor")), 0, "conflicting_roles"},
		"a developer":                     {patch(dev, guard.id, "", roles("developer")), 403, "not_allowed"},
		"another tenant, named":           {patch(guard, dev.id, "?tenant=demo", roles("auditor")), 403, "not_allowed"},
		"another tenant, not named":       {patch(guard, dev.id, "", roles("auditor")), 404, "not_found"},
		"another tenant's password":       {act(guard, dev.id, "password-reset", ""), 404, "not_found"},
		"another tenant's account":        {act(guard, dev.id, "enable", ""), 404, "not_found"},
		"every tenant":                    {patch(guard, dev.id, "?tenant=*", roles("auditor")), 403, "not_allowed"},
		"the operator's, from the bank":   {act(guard, me.Id, "password-reset", "?tenant=demo"), 403, "not_allowed"},
		"own end":                         {in.admin(http.MethodPost, "/users/"+me.Id+"/disable", nil, nil), 409, "conflict"},
	} {
		status := c.status
		if status == 0 {
			status = c.got.status
		}
		wantProblem(t, name, c.got, status, c.code)
	}
	if r := patch(guard, clerk.id, "", roles("auditor", "developer")); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := act(officer, clerk.id, "password-reset", "?tenant=bank"); r.status != http.StatusOK {
		t.Errorf("the operator's security administrator has no hand in a tenant: %d %s", r.status, r.body)
	}

	// The roles of a sign-in that goes on are the new ones.
	changed := patch(officer, dev.id, "", roles("auditor"))
	wantProblem(t, "the old token", in.send(http.MethodGet, "/api/v1/keys", dev.token, nil), http.StatusUnauthorized, "invalid_session")
	renewed := tokenOf(t, in.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", dev.cookie))
	in.send(http.MethodGet, "/api/v1/me", renewed, nil).decode(t, &me)
	if !slices.Equal(me.Roles, []string{"auditor"}) {
		t.Errorf("%+v", me)
	}
	records := in.records(changed.header.Get("X-Request-Id"), 2)
	if last := string(records[1].raw); !strings.Contains(last, `"former_roles":"developer"`) || !strings.Contains(last, `"roles":"auditor"`) {
		t.Errorf("the record does not say what changed: %s", last)
	}

	// Disabled and enabled again.
	if r := act(officer, dev.id, "disable", ""); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	wantProblem(t, "disabled", in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "dev", "password": longPassword}), 401, "invalid_login")
	var u adminapi.User
	act(officer, dev.id, "enable", "").decode(t, &u)
	if u.Disabled || u.LastSignInAt == nil {
		t.Errorf("%+v", u)
	}
	in.enter("dev", longPassword)
}

// TestDevelopersHaveTheirOwnKeys: they see, make, change and end their own, no wider than they are themselves, and nobody else's.
func TestDevelopersHaveTheirOwnKeys(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: "identity: {key_ttl: 720h}\n"})
	dev := in.newAccount("dev", map[string]any{"labels": []string{"public"}}, "developer")
	other := in.newAccount("other", nil, "developer")
	theirs := in.issueKey(map[string]any{"name": "of the tenant"})
	make := func(by account, body map[string]any) reply {
		return in.send(http.MethodPost, "/api/v1/keys", by.token, body)
	}

	var defaults adminapi.KeyDefaults
	in.send(http.MethodGet, "/api/v1/keys/defaults", dev.token, nil).decode(t, &defaults)
	if defaults.LifetimeDays != 30 || defaults.Limits.RequestsPerMinute != 6000 || defaults.OwnKeys != 20 || defaults.BaseUrl != in.started.BaseURL {
		t.Errorf("%+v", defaults)
	}
	var created adminapi.CreatedKey
	made := make(dev, map[string]any{"name": "mine", "labels": []string{"public"}, "label_mode": "text"})
	made.decode(t, &created)
	if created.Key.Owner == nil || created.Key.Owner.Id != dev.id || *created.Key.Owner.Name != "dev" || created.BaseUrl != in.started.BaseURL {
		t.Errorf("%+v", created.Key)
	}
	for _, line := range []string{created.Curl, created.Python} {
		if !strings.Contains(line, created.BaseUrl) || !strings.Contains(line, "scripted") || !strings.Contains(line, "SLUICE_API_KEY") || strings.Contains(line, created.Secret) {
			t.Errorf("%s", line)
		}
	}
	for name, body := range map[string]map[string]any{
		"a label he lacks": {"name": "x", "labels": []string{"public", "secret"}},
		"less marked":      {"name": "x", "label_mode": "metadata"},
		"longer":           {"name": "x", "expires_at": "2029-01-01T00:00:00Z"},
		"more requests":    {"name": "x", "limits": map[string]int{"requests_per_minute": 6001, "tokens_per_minute": 0, "concurrent": 0}},
	} {
		wantProblem(t, name, make(dev, body), http.StatusBadRequest, "invalid_value")
	}
	wantProblem(t, "another tenant", make(dev, map[string]any{"name": "x", "tenant": "bank"}), http.StatusForbidden, "not_allowed")
	wantProblem(t, "an owner of his choice", make(dev, map[string]any{"name": "x", "owner": other.id}), http.StatusBadRequest, "unsupported_parameter")

	patch := func(by account, id string, body map[string]any) reply {
		return in.send(http.MethodPatch, "/api/v1/keys/"+id, by.token, body)
	}
	wantProblem(t, "widened labels", patch(dev, created.Key.Id, map[string]any{"labels": []string{"secret"}}), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "a longer life", patch(dev, created.Key.Id, map[string]any{"expires_at": "2029-01-01T00:00:00Z"}), http.StatusBadRequest, "invalid_value")
	for who, by := range map[string]account{"the tenant's key": dev, "another's key": other} {
		id := theirs.id
		if by == other {
			id = created.Key.Id
		}
		wantProblem(t, who+", changed", patch(by, id, map[string]any{"name": "taken"}), http.StatusNotFound, "not_found")
		wantProblem(t, who+", revoked", in.send(http.MethodPost, "/api/v1/keys/"+id+"/revoke", by.token, nil), http.StatusNotFound, "not_found")
	}
	changed := patch(dev, created.Key.Id, map[string]any{"name": "renamed", "limits": map[string]int{"requests_per_minute": 7, "tokens_per_minute": 0, "concurrent": 0}})
	if changed.status != http.StatusOK {
		t.Fatalf("%d %s", changed.status, changed.body)
	}
	limits := map[string]int{"requests_per_minute": 3, "tokens_per_minute": 0, "concurrent": 0}
	in.admin(http.MethodPatch, "/keys/"+created.Key.Id, map[string]any{"limits": limits}, new(any))
	limits["requests_per_minute"] = 7
	wantProblem(t, "a limit given back", patch(dev, created.Key.Id, map[string]any{"limits": limits}), http.StatusBadRequest, "invalid_value")
	in.admin(http.MethodPatch, "/keys/"+created.Key.Id, map[string]any{"limits": limits}, new(any))
	list := func(token string) []adminapi.Key {
		var page adminapi.KeyPage
		in.send(http.MethodGet, "/api/v1/keys?limit=200", token, nil).decode(t, &page)
		return page.Items
	}
	if mine := list(dev.token); len(mine) != 1 || mine[0].Name != "renamed" || mine[0].Limits.RequestsPerMinute != 7 || mine[0].LabelMode != "text" {
		t.Errorf("%+v", mine)
	}
	if all := list(in.session()); len(all) != 3 {
		t.Errorf("the administrator sees %d keys", len(all))
	}
	last := string(in.records(changed.header.Get("X-Request-Id"), 2)[1].raw)
	for _, want := range []string{`"former_name":"mine"`, `"name":"renamed"`, `"limits":"requests_per_minute=7 `} {
		if !strings.Contains(last, want) {
			t.Errorf("the record lacks %s: %s", want, last)
		}
	}

	// The key ends with the account, and says so.
	ask := map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hi"}}}
	if r := in.send(http.MethodPost, "/v1/chat/completions", created.Secret, ask); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	in.admin(http.MethodPost, "/users/"+dev.id+"/disable", nil, nil)
	checkRefusal(t, in.send(http.MethodPost, "/v1/chat/completions", created.Secret, ask), 401, "authentication_error", "suspended_api_key", "", "ask an administrator")
	i := slices.IndexFunc(list(in.session()), func(k adminapi.Key) bool { return k.Id == created.Key.Id })
	if k := list(in.session())[i]; k.State != "suspended" || k.LastUsedAt == nil {
		t.Errorf("%+v", k)
	}
	in.admin(http.MethodPost, "/users/"+dev.id+"/enable", nil, nil)
	if r := in.send(http.MethodPost, "/v1/chat/completions", created.Secret, ask); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	// The credential stayed through all of it, and ends when it is revoked.
	dev = in.enter("dev", longPassword)
	if r := in.send(http.MethodPost, "/api/v1/keys/"+created.Key.Id+"/revoke", dev.token, nil); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	checkRefusal(t, in.send(http.MethodPost, "/v1/chat/completions", created.Secret, ask), 401, "authentication_error", "expired_api_key", "", "Create a new one")
}

// TestOwnKeysLeadToTheirOwner: what somebody asked with a key of his own is found under him, by digest and as the actor, and goes with him.
func TestOwnKeysLeadToTheirOwner(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": keepPolicy("masked")}, new(any))
	dev := in.newAccount("dev", nil, "developer")
	officer, auditor := in.signIn("compliance"), in.signIn("auditor")
	var created adminapi.CreatedKey
	in.send(http.MethodPost, "/api/v1/keys", dev.token, map[string]any{"name": "mine"}).decode(t, &created)
	ask := func(credential, who string) string {
		body := map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hi"}}}
		if who != "" {
			body["user"] = who
		}
		r := in.send(http.MethodPost, "/v1/chat/completions", credential, body)
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		request := r.header.Get("X-Request-Id")
		in.records(request, 2)
		return request
	}
	own, forAlice, elsewhere := ask(created.Secret, ""), ask(created.Secret, "alice"), ask(in.issueKey(map[string]any{"name": "of the tenant"}).secret, "")

	var digest adminapi.SubjectDigest
	in.send(http.MethodPost, "/api/v1/audit/subjects", auditor, map[string]string{"subject": dev.id}).decode(t, &digest)
	for filter, want := range map[string][]string{"on_behalf_of=" + digest.Digest: {own}, "actor=" + dev.id: {own, forAlice}} {
		found := string(in.send(http.MethodGet, "/api/v1/audit/records?limit=200&action=chat.completions&"+filter, auditor, nil).body)
		for _, request := range []string{own, forAlice, elsewhere} {
			if strings.Contains(found, request) != slices.Contains(want, request) {
				t.Errorf("%s, %s: %s", filter, request, found)
			}
		}
	}
	var done adminapi.Erasure
	r := in.send(http.MethodPost, "/api/v1/audit/erasures", officer, map[string]string{"subject": dev.id})
	if r.decode(t, &done); r.status != http.StatusCreated || done.Contents == nil || *done.Contents != 2 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestBudgetsAreRemoved: by whom, on record, and that nothing is refused for one afterwards.
func TestBudgetsAreRemoved(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	ask := map[string]any{"model": "scripted", "max_tokens": 5, "messages": []any{map[string]string{"role": "user", "content": "hi"}}}
	in.admin(http.MethodPut, "/budgets", map[string]any{"period": "month", "limit_nano": 0}, new(any))
	if r := in.chat(ask); r.status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", r.status, r.body)
	}
	guard := in.newAccount("guard", nil, "security_admin")
	wantProblem(t, "a security administrator", in.send(http.MethodDelete, "/api/v1/budgets?period=month", guard.token, nil), http.StatusForbidden, "not_allowed")
	wantProblem(t, "another period", in.admin(http.MethodDelete, "/budgets?period=day", nil, nil), http.StatusNotFound, "not_found")
	wantProblem(t, "no period", in.admin(http.MethodDelete, "/budgets", nil, nil), http.StatusBadRequest, "missing_required_parameter")
	removed := in.admin(http.MethodDelete, "/budgets?period=month", nil, nil)
	if removed.status != http.StatusNoContent {
		t.Fatalf("%d %s", removed.status, removed.body)
	}
	if r := in.chat(ask); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	records := in.records(removed.header.Get("X-Request-Id"), 2)
	if e := records[1]; e.Action != "admin.removeBudget" || !strings.Contains(string(e.raw), `"period":"month"`) || !strings.Contains(string(e.raw), `"demo/"`) {
		t.Errorf("%s", e.raw)
	}
	wantProblem(t, "again", in.admin(http.MethodDelete, "/budgets?period=month", nil, nil), http.StatusNotFound, "not_found")
}

// TestPoliciesNameTheirPublisher: a version by its full name, and who published it by name.
func TestPoliciesNameTheirPublisher(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	guard := in.newAccount("guard", nil, "security_admin")
	publish := func(by account, target string) reply {
		return in.send(http.MethodPost, "/api/v1/policies", by.token, map[string]string{"tenant": target, "yaml": openPolicy})
	}
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, new(any))
	teller := in.newAccount("teller", map[string]any{"tenant": "bank"}, "security_admin")
	wantProblem(t, "every tenant, from the bank", publish(teller, "*"), http.StatusForbidden, "not_allowed")
	wantProblem(t, "the operator's, from the bank", publish(teller, "demo"), http.StatusForbidden, "not_allowed")
	var p adminapi.Policy
	publish(guard, "demo").decode(t, &p)
	if p.Name != "demo@1" || p.CreatedByName == nil || *p.CreatedByName != "guard" || p.CreatedBy != guard.id {
		t.Errorf("%+v", p)
	}
	var page adminapi.PolicyPage
	in.admin(http.MethodGet, "/policies", nil, &page)
	if len(page.Items) != 2 || page.Items[0].Name != "demo@1" || !page.Items[0].Active || page.Items[1].Name != "*@1" || page.Items[1].Active || page.Items[1].CreatedBy != "setup" {
		t.Errorf("%+v", page.Items)
	}
}

// TestPoliciesArePublishedOverWhatWasCompared: where another version came into force meanwhile, nothing is published. The console asks for
// one version of the target, the one in force.
func TestPoliciesArePublishedOverWhatWasCompared(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	publish := func(target, expected string) reply {
		return in.admin(http.MethodPost, "/policies", map[string]string{"tenant": target, "yaml": openPolicy, "expected": expected}, nil)
	}
	inUse := func(target, want string) {
		t.Helper()
		var page adminapi.PolicyPage
		in.admin(http.MethodGet, "/policies?limit=1&tenant="+url.QueryEscape(target), nil, &page)
		if len(page.Items) != 1 || page.Items[0].Name != want || !page.Items[0].Active {
			t.Errorf("in force for %s: %+v, want %s", target, page.Items, want)
		}
	}
	for _, step := range []struct{ target, expected, then string }{
		{"demo", "", "*@1"},          // not nothing: the one for every tenant
		{"demo", "demo@1", "*@1"},    // not there yet
		{"demo", "*@1", "demo@1"},    // published
		{"demo", "*@1", "demo@1"},    // by somebody who saw what was before
		{"demo", "demo@1", "demo@2"}, // published
		{"*", "demo@2", "*@1"},       // of another target
		{"*", "*@1", "*@2"},          // published
	} {
		r := publish(step.target, step.expected)
		if r.status != http.StatusCreated {
			wantProblem(t, step.expected, r, http.StatusConflict, "policy_changed")
			if !strings.Contains(string(r.body), step.then) {
				t.Errorf("%q: %s, want %s named", step.expected, r.body, step.then)
			}
		}
		inUse(step.target, step.then)
	}
}
