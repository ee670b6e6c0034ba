package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/identity/webauthntest"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// Where the console of an installation under test is for security keys.
const (
	keySite   = "sluice.example"
	keyOrigin = "https://sluice.example"
)

// enrolKey gives the account of a sign-in a security key, and returns what it got.
func (in *installation) enrolKey(token, name string, k *webauthntest.Key) (out adminapi.ConfirmedFactor) {
	in.t.Helper()
	options := in.send(http.MethodPost, "/api/v1/me/second-factor/webauthn", token, nil)
	options.decode(in.t, new(adminapi.WebauthnOptions))
	in.send(http.MethodPost, "/api/v1/me/second-factor/webauthn/confirm", token, newKey(name, k.Make(in.t, options.body))).decode(in.t, &out)
	return out
}

func newKey(name string, attestation []byte) map[string]any {
	return map[string]any{"name": name, "attestation": json.RawMessage(attestation)}
}

// keyWanted returns what a key is to sign for a sign-in with the right password.
func (in *installation) keyWanted(user string) []byte {
	in.t.Helper()
	var p struct {
		Webauthn json.RawMessage `json:"webauthn"`
	}
	r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": user, "password": longPassword})
	wantProblem(in.t, "the password alone", r, http.StatusUnauthorized, "second_factor_required")
	if err := json.Unmarshal(r.body, &p); err != nil || len(p.Webauthn) == 0 {
		in.t.Fatalf("%s: %v", r.body, err)
	}
	return p.Webauthn
}

func (in *installation) enterWithKey(user, password string, assertion []byte) reply {
	in.t.Helper()
	return in.send(http.MethodPost, "/api/v1/session", "", map[string]any{"user": user, "password": password, "assertion": json.RawMessage(assertion)})
}

func (in *installation) showKey(token string, assertion []byte) reply {
	in.t.Helper()
	return in.send(http.MethodPost, "/api/v1/me/second-factor/show", token, map[string]any{"assertion": json.RawMessage(assertion)})
}

// withSecurityKeys has an installation take security keys.
func withSecurityKeys() map[string]any {
	return map[string]any{"identity.webauthn.origins": []string{keyOrigin}}
}

// TestSecurityKeysOverHTTP: a key is enrolled at one replica and signs in at another one, shows itself again, and is lost by an administrator; what is
// replayed, made for another page, purpose or account, or signed by a copy, is refused and recorded. No challenge, key or code is in a log or a record.
func TestSecurityKeysOverHTTP(t *testing.T) {
	t.Parallel()
	url := dbtest.PostgresURL(t)
	a := start(t, setup{database: url, overrides: withSecurityKeys()})
	sec, eve := a.newAccount("sec", nil, "security_admin"), a.newAccount("eve", nil, "security_admin")
	master, err := os.ReadFile(a.cfg.MasterKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "keys", "master.key"), master, 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, setup{dir: dir, database: url, overrides: withSecurityKeys()})

	k := webauthntest.New(keySite, keyOrigin)
	options := a.send(http.MethodPost, "/api/v1/me/second-factor/webauthn", sec.token, nil)
	made := newKey("YubiKey 桌面", k.Make(t, options.body))
	var done adminapi.ConfirmedFactor
	b.send(http.MethodPost, "/api/v1/me/second-factor/webauthn/confirm", sec.token, made).decode(t, &done)
	wantProblem(t, "the enrolment again", b.send(http.MethodPost, "/api/v1/me/second-factor/webauthn/confirm", done.Session.AccessToken, made), http.StatusForbidden, "wrong_assertion")
	if len(done.RecoveryCodes) != 10 {
		t.Fatalf("%d recovery codes", len(done.RecoveryCodes))
	}
	if r := a.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "sec", "password": "not the password"}); strings.Contains(string(r.body), "webauthn") {
		t.Errorf("a wrong password is told what the account has: %s", r.body)
	}
	eventually(t, "the other replica to know", func() bool {
		return a.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "sec", "password": longPassword}).status == http.StatusUnauthorized
	})
	signed := k.Sign(t, a.keyWanted("sec"))
	entered := b.enterWithKey("sec", longPassword, signed)
	token := tokenOf(t, entered)
	for _, in := range []*installation{a, b} {
		wantProblem(t, "the assertion again", in.enterWithKey("sec", longPassword, signed), http.StatusForbidden, "wrong_assertion")
	}
	for what, bend := range map[string]func(*webauthntest.Key){
		"another page":          func(k *webauthntest.Key) { k.Site.Origin = "https://sluice.example.evil.test" },
		"another relying party": func(k *webauthntest.Key) { k.Site.ID = "evil.test" },
		"nobody verified":       func(k *webauthntest.Key) { k.Authenticator.Options.UserNotVerified = true },
	} {
		bent := *k
		bend(&bent)
		wantProblem(t, what, b.enterWithKey("sec", longPassword, bent.Sign(t, a.keyWanted("sec"))), http.StatusForbidden, "wrong_assertion")
	}
	asked := func(in *installation) []byte {
		r := in.send(http.MethodPost, "/api/v1/me/second-factor/webauthn/challenge", token, nil)
		r.decode(t, new(adminapi.WebauthnOptions))
		return r.body
	}
	wantProblem(t, "a challenge of another purpose", a.enterWithKey("sec", longPassword, k.Sign(t, asked(b))), http.StatusForbidden, "wrong_assertion")
	hers := webauthntest.New(keySite, keyOrigin)
	b.enrolKey(eve.token, "hers", hers)
	wantProblem(t, "somebody else's key", a.enterWithKey("sec", longPassword, hers.Sign(t, a.keyWanted("sec"))), http.StatusForbidden, "wrong_assertion")
	wantProblem(t, "both at once", a.send(http.MethodPost, "/api/v1/me/second-factor/show", token, map[string]any{"code": "000000", "assertion": json.RawMessage(k.Sign(t, asked(a)))}),
		http.StatusBadRequest, "invalid_value")
	shown := b.showKey(token, k.Sign(t, asked(a)))
	token = tokenOf(t, shown)
	var list adminapi.FactorList
	a.send(http.MethodGet, "/api/v1/me/second-factors", token, nil).decode(t, &list)
	if len(list.Items) != 1 || list.Items[0].Name != "YubiKey 桌面" || list.Items[0].SignCount == 0 || list.Items[0].LastUsedAt == nil || list.Items[0].BackedUp {
		t.Errorf("%+v", list.Items)
	}
	var me adminapi.Me
	b.send(http.MethodGet, "/api/v1/me", token, nil).decode(t, &me)
	if f := me.SecondFactor; f == nil || f.KeyOrigins == nil || fmt.Sprint(*f.KeyOrigins) != "["+keyOrigin+"]" || f.KeysOff != nil {
		t.Errorf("%+v", me.SecondFactor)
	}

	copied := *k
	tokenOf(t, a.enterWithKey("sec", longPassword, k.Sign(t, a.keyWanted("sec"))))
	cloned := b.enterWithKey("sec", longPassword, copied.Sign(t, b.keyWanted("sec")))
	wantProblem(t, "a copy", cloned, http.StatusForbidden, "cloned_security_key")
	wantProblem(t, "the original afterwards", a.enterWithKey("sec", longPassword, k.Sign(t, a.keyWanted("sec"))), http.StatusForbidden, "cloned_security_key")
	token = tokenOf(t, a.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "sec", "password": longPassword, "code": done.RecoveryCodes[0]}))
	a.send(http.MethodGet, "/api/v1/me/second-factors", token, nil).decode(t, &list)
	if len(list.Items) != 1 || list.Items[0].SuspectSince == nil {
		t.Errorf("%+v", list.Items)
	}
	gone := a.send(http.MethodDelete, "/api/v1/me/second-factors/"+list.Items[0].Id, token, nil)
	if gone.status != http.StatusNoContent {
		t.Fatalf("%d %s", gone.status, gone.body)
	}
	sec.token = a.enter("sec", longPassword).token
	both := a.enrol(a.enrolKey(sec.token, "spare", webauthntest.New(keySite, keyOrigin)).Session.AccessToken)
	var u adminapi.User
	if a.admin(http.MethodPost, "/users/"+sec.id+"/second-factor-reset", nil, &u); u.SecondFactor {
		t.Errorf("%+v", u)
	}
	a.enter("sec", longPassword)
	for action, want := range map[string]struct {
		r             reply
		outcome, text string
	}{
		"admin.login": {entered, "ok", `"second_factor":"webauthn"`}, "admin.showSecondFactor": {shown, "ok", `"second_factor":"webauthn"`},
		"admin.removeOneSecondFactor": {gone, "ok", ""},
	} {
		records := a.records(want.r.header.Get("X-Request-Id"), 2)
		last := records[len(records)-1]
		if last.Action != action || last.Outcome != want.outcome || !strings.Contains(string(last.raw), want.text) {
			t.Errorf("%s: %s", action, last.raw)
		}
	}
	if records := a.records(cloned.header.Get("X-Request-Id"), 2); !strings.Contains(string(records[len(records)-1].raw), `"error_code":"cloned_security_key"`) {
		t.Errorf("%s", records[len(records)-1].raw)
	}
	kept := a.logs.String() + b.logs.String()
	a.eachRecord("", func(_ auditEvent, whole json.RawMessage) { kept += string(whole) })
	id := base64.RawURLEncoding.EncodeToString(k.Credential.ID)
	for _, secret := range append(done.RecoveryCodes, both.secret, id, string(k.Credential.ID), "clientDataJSON", "YubiKey") {
		if strings.Contains(kept, secret) || strings.Contains(kept, strings.ReplaceAll(secret, "-", "")) {
			t.Errorf("%q is in a log or a record", secret)
		}
	}
}
