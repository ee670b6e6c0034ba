package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

// enrolled is what somebody gets who enrols a second factor, and the code that confirmed it.
type enrolled struct {
	adminapi.ConfirmedFactor

	secret, code string
}

// enrol gives the account of a sign-in a second factor.
func (in *installation) enrol(token string) enrolled {
	in.t.Helper()
	var made adminapi.TotpSecret
	in.send(http.MethodPost, "/api/v1/me/second-factor/totp", token, nil).decode(in.t, &made)
	code, err := totp.GenerateCode(made.Secret, time.Now())
	if err != nil {
		in.t.Fatal(err)
	}
	out := enrolled{secret: made.Secret, code: code}
	in.send(http.MethodPost, "/api/v1/me/second-factor/totp/confirm", token, map[string]string{"code": code}).decode(in.t, &out.ConfirmedFactor)
	return out
}

// TestSecondFactorOverHTTP: an account with a second factor signs in with a code of it, shows it again for what is grave, and loses it by an
// administrator. Neither its secret nor a code is in a record or a log.
func TestSecondFactorOverHTTP(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: "governance: {reveal: {fresh: 10s}}\n"})
	sec := in.newAccount("sec", nil, "security_admin")
	done := in.enrol(sec.token)
	officer := in.enrol(in.newAccount("officer", nil, "compliance").token)
	login := func(password, code string) reply {
		return in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "sec", "password": password, "code": code})
	}
	wantProblem(t, "the password alone", login(longPassword, ""), http.StatusUnauthorized, "second_factor_required")
	wantProblem(t, "a wrong password", login("not the password", ""), http.StatusUnauthorized, "invalid_login")
	wantProblem(t, "a wrong password with a code", login("not the password", done.RecoveryCodes[0]), http.StatusUnauthorized, "invalid_login")
	wantProblem(t, "a code of before", login(longPassword, done.code), http.StatusForbidden, "wrong_code")
	wantProblem(t, "the sign-in of before", in.send(http.MethodGet, "/api/v1/me", sec.token, nil), http.StatusUnauthorized, "invalid_session")
	in.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", sec.cookie).decode(t, new(adminapi.Session))
	entered := login(longPassword, done.RecoveryCodes[0])
	token := tokenOf(t, entered)
	wantProblem(t, "a recovery code again", login(longPassword, done.RecoveryCodes[0]), http.StatusForbidden, "wrong_code")

	grave := map[string]func(token string) reply{
		"a key": func(token string) reply {
			return in.send(http.MethodPost, "/api/v1/keys", token, map[string]string{"name": "app"})
		},
		"an act":         func(token string) reply { return in.send(http.MethodPost, "/api/v1/users/none/enable", token, nil) },
		"another factor": func(token string) reply { return in.send(http.MethodPost, "/api/v1/me/second-factor/totp", token, nil) },
	}
	for what, do := range grave {
		var r reply
		eventually(t, "the factor to be shown too long ago for "+what, func() bool { r = do(token); return r.status == http.StatusForbidden })
		wantProblem(t, what, r, http.StatusForbidden, "step_up_required")
	}
	in.textsWantFactor(officer)
	wantProblem(t, "a wrong code", in.send(http.MethodPost, "/api/v1/me/second-factor/show", token, map[string]string{"code": "000000"}), http.StatusForbidden, "wrong_code")
	shown := in.send(http.MethodPost, "/api/v1/me/second-factor/show", token, map[string]string{"code": done.RecoveryCodes[1]})
	token = tokenOf(t, shown)
	if r := grave["a key"](token); r.status != http.StatusCreated {
		t.Errorf("a key after the factor was shown again: %d %s", r.status, r.body)
	}
	if r := grave["an act"](token); in.code(r) != "not_found" {
		t.Errorf("an act after the factor was shown again: %d %s", r.status, r.body)
	}
	var me adminapi.Me
	in.send(http.MethodGet, "/api/v1/me", token, nil).decode(t, &me)
	if f := me.SecondFactor; f == nil || !f.Available || !f.Enrolled || f.MustEnrol || f.ShownAt == nil {
		t.Errorf("%+v", me.SecondFactor)
	}

	var users adminapi.UserPage
	in.admin(http.MethodGet, "/users", nil, &users)
	if n := slices.IndexFunc(users.Items, func(u adminapi.User) bool { return u.Id == sec.id }); n < 0 || !users.Items[n].SecondFactor {
		t.Errorf("%+v", users.Items)
	}
	var u adminapi.User
	reset := in.admin(http.MethodPost, "/users/"+sec.id+"/second-factor-reset", nil, &u)
	if u.SecondFactor {
		t.Errorf("%+v", u)
	}
	wantProblem(t, "a session after the reset", in.send(http.MethodGet, "/api/v1/me", token, nil), http.StatusUnauthorized, "invalid_session")
	sec = in.enter("sec", longPassword)
	wantProblem(t, "a code without a factor", in.send(http.MethodPost, "/api/v1/me/second-factor/show", sec.token, map[string]string{"code": done.RecoveryCodes[2]}), http.StatusConflict, "conflict")

	for action, r := range map[string]reply{"admin.login": entered, "admin.showSecondFactor": shown, "admin.resetSecondFactor": reset} {
		records := in.records(r.header.Get("X-Request-Id"), 2)
		last := records[len(records)-1]
		if last.Action != action || last.Outcome != "ok" || action != "admin.resetSecondFactor" && !strings.Contains(string(last.raw), `"second_factor":"recovery_code"`) {
			t.Errorf("%s: %s", action, last.raw)
		}
	}
	// Whoever has the machine lets somebody in whom nobody could help in the product.
	done.secret = in.enrol(sec.token).secret
	if err := server.ResetFactors(t.Context(), in.cfg, "sec", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server to know", func() bool { return login(longPassword, "").status == http.StatusOK })
	if err := server.ResetFactors(t.Context(), in.cfg, "sec", slog.New(slog.DiscardHandler)); !fault.Is(err, fault.CodeConflict) {
		t.Error(err)
	}
	outcomes := map[string]int{}
	in.eachRecord("action=installation.reset_second_factors&stage=outcome", func(e auditEvent, _ json.RawMessage) { outcomes[e.Outcome]++ })
	if outcomes["ok"] != 1 || outcomes["refused"] != 1 {
		t.Errorf("%v", outcomes)
	}
	kept := in.logs.String()
	in.eachRecord("", func(_ auditEvent, whole json.RawMessage) { kept += string(whole) })
	for _, secret := range append(done.RecoveryCodes, done.secret, "otpauth:", longPassword) {
		if strings.Contains(kept, secret) || strings.Contains(kept, strings.ReplaceAll(secret, "-", "")) {
			t.Errorf("%q is in a log or a record", secret)
		}
	}
}

// textsWantFactor: what is kept of people is read and erased by who has shown his factor a short time ago, if he has one. Too much time has passed since.
func (in *installation) textsWantFactor(officer enrolled) {
	in.t.Helper()
	acts := map[string]func(token string) reply{
		"a kept text": func(token string) reply {
			return in.send(http.MethodGet, "/api/v1/audit/records/none/content", token, nil)
		},
		"erasing a person": func(token string) reply {
			return in.send(http.MethodPost, "/api/v1/audit/erasures", token, map[string]string{"subject": "nobody"})
		},
		"erasing some values": func(token string) reply {
			return in.send(http.MethodPost, "/api/v1/reveal/erasures", token, map[string]string{"session": "none"})
		},
	}
	for what, do := range acts {
		r := do(officer.Session.AccessToken)
		wantProblem(in.t, what, r, http.StatusForbidden, "step_up_required")
		if records := in.records(r.header.Get("X-Request-Id"), 1); records[0].Outcome != "refused" {
			in.t.Errorf("%s: %s", what, records[0].raw)
		}
	}
	token := tokenOf(in.t, in.send(http.MethodPost, "/api/v1/me/second-factor/show", officer.Session.AccessToken, map[string]string{"code": officer.RecoveryCodes[0]}))
	for what, do := range acts {
		if r := do(token); in.code(r) == "step_up_required" {
			in.t.Errorf("%s after the factor was shown: %s", what, r.body)
		}
	}
}

// TestAdministratorsEnrolFirst: where they must have a second factor, one without may do nothing but enrol it.
func TestAdministratorsEnrolFirst(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.newAccount("audit", nil, "auditor")
	in.newAccount("dev", nil, "developer")
	in.cfg.Identity.SecondFactor = identity.SecondFactorsAdministrators
	in.restart()
	a := in.enter("audit", longPassword)
	in.onlyMay(a, "second_factor_enrolment_required", "getMe", "changePassword", "startTotp", "confirmTotp", "startWebauthn", "confirmWebauthn")
	var me adminapi.Me
	in.send(http.MethodGet, "/api/v1/me", a.token, nil).decode(t, &me)
	if me.SecondFactor == nil || !me.SecondFactor.MustEnrol {
		t.Errorf("%+v", me.SecondFactor)
	}
	done := in.enrol(a.token)
	if r := in.send(http.MethodGet, "/api/v1/audit/records", done.Session.AccessToken, nil); r.status != http.StatusOK {
		t.Errorf("after the enrolment: %d %s", r.status, r.body)
	}
	if r := in.send(http.MethodGet, "/api/v1/keys", in.enter("dev", longPassword).token, nil); r.status != http.StatusOK {
		t.Errorf("a developer: %d %s", r.status, r.body)
	}
}
