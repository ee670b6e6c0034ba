package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/identity/webauthntest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// guarded makes an account with a security key, signed in with the password before.
func (s *scene) guarded(name string) (k *webauthntest.Key, token string) {
	s.t.Helper()
	k = webauthntest.New(keySite, keyOrigin)
	return k, s.enrolKey(s.newAccount(name, nil, "auditor").token, "key", k).Session.AccessToken
}

// keyAttacks are about security keys.
func keyAttacks() []attack {
	refused := func(s *scene, what string, r reply) {
		s.t.Helper()
		wantProblem(s.t, what, r, http.StatusForbidden, "wrong_assertion")
	}
	return []attack{
		{"KEY-01", "use what a security key has signed for a sign-in a second time", "W3C WebAuthn Level 3, section 13.4.3", "spendChallenge in identity", func(_ *testing.T, s *scene) {
			k, _ := s.guarded("replayed")
			signed := k.Sign(s.t, s.keyWanted("replayed"))
			s.want("the owner", s.enterWithKey("replayed", longPassword, signed), http.StatusOK)
			refused(s, "the thief", s.enterWithKey("replayed", longPassword, signed))
		}},
		{"KEY-02", "have somebody sign on a page that looks like the console, and pass it on", "W3C WebAuthn Level 3, section 13.4.9", "the origins of identity's relying party", func(_ *testing.T, s *scene) {
			k, _ := s.guarded("phished")
			for _, origin := range []string{"https://sluice.example.evil.test", "http://sluice.example", "https://sluice.example:8443", "https://login.sluice.example"} {
				bent := *k
				bent.Site.Origin = origin
				refused(s, origin, s.enterWithKey("phished", longPassword, bent.Sign(s.t, s.keyWanted("phished"))))
			}
		}},
		{"KEY-03", "sign in to somebody else's account with one's own security key", "W3C WebAuthn Level 3, section 7.2; API2:2023", "", func(_ *testing.T, s *scene) {
			s.guarded("victim-of-key")
			own, _ := s.guarded("thief-with-key")
			refused(s, "for the challenge of the victim", s.enterWithKey("victim-of-key", longPassword, own.Sign(s.t, s.keyWanted("victim-of-key"))))
			refused(s, "for the own challenge", s.enterWithKey("victim-of-key", longPassword, own.Sign(s.t, s.keyWanted("thief-with-key"))))
		}},
		{"KEY-04", "use a copy of a security key", "W3C WebAuthn Level 3, section 6.1.1", "", func(_ *testing.T, s *scene) {
			k, _ := s.guarded("copied")
			stolen := *k
			s.want("the owner", s.enterWithKey("copied", longPassword, k.Sign(s.t, s.keyWanted("copied"))), http.StatusOK)
			wantProblem(s.t, "the copy", s.enterWithKey("copied", longPassword, stolen.Sign(s.t, s.keyWanted("copied"))), http.StatusForbidden, "cloned_security_key")
			stolen.Credential.Counter = 1 << 20 // which has signed more meanwhile
			wantProblem(s.t, "the copy again", s.enterWithKey("copied", longPassword, stolen.Sign(s.t, s.keyWanted("copied"))), http.StatusForbidden, "cloned_security_key")
		}},
		{"KEY-05", "use a stolen security key without its PIN or finger", "W3C WebAuthn Level 3, section 6.1", "", func(_ *testing.T, s *scene) {
			k, _ := s.guarded("pickpocketed")
			k.Authenticator.Options.UserNotVerified = true
			refused(s, "unverified", s.enterWithKey("pickpocketed", longPassword, k.Sign(s.t, s.keyWanted("pickpocketed"))))
		}},
		{"KEY-06", "turn what was signed for one purpose or sign-in to another one", "W3C WebAuthn Level 3, section 13.4.3; API2:2023", "", func(_ *testing.T, s *scene) {
			k, first := s.guarded("two-purposes")
			second := tokenOf(s.t, s.enterWithKey("two-purposes", longPassword, k.Sign(s.t, s.keyWanted("two-purposes"))))
			asked := func(token string) []byte {
				return s.send(http.MethodPost, "/api/v1/me/second-factor/webauthn/challenge", token, nil).body
			}
			refused(s, "a sign-in with what shows", s.enterWithKey("two-purposes", longPassword, k.Sign(s.t, asked(first))))
			refused(s, "a show in another sign-in", s.showKey(second, k.Sign(s.t, asked(first))))
			refused(s, "a show with what signs in", s.showKey(second, k.Sign(s.t, s.keyWanted("two-purposes"))))
			s.want("as it is meant", s.showKey(second, k.Sign(s.t, asked(second))), http.StatusOK)
		}},
		{"KEY-07", "enrol a security key for the account of an open session, or one that somebody else has", "W3C WebAuthn Level 3, section 7.1", "", func(_ *testing.T, s *scene) {
			k, token := s.guarded("open-session")
			other := s.newAccount("enrolling", nil, "auditor").token
			begin := func(token string) []byte {
				return s.send(http.MethodPost, "/api/v1/me/second-factor/webauthn", token, nil).body
			}
			confirm := func(token string, k *webauthntest.Key, options []byte) reply {
				return s.send(http.MethodPost, "/api/v1/me/second-factor/webauthn/confirm", token, newKey("key", k.Make(s.t, options)))
			}
			refused(s, "begun by another account", confirm(other, webauthntest.New(keySite, keyOrigin), begin(token)))
			wantProblem(s.t, "a key that is enrolled", confirm(other, k, begin(other)), http.StatusConflict, "already_exists")
			bent := webauthntest.New(keySite, "https://evil.test")
			refused(s, "made on another page", confirm(other, bent, begin(other)))
		}},
		{"KEY-08", "learn who has a security key, or get a challenge, without the password", "W3C WebAuthn Level 3, section 14.6.2; API2:2023", "", func(_ *testing.T, s *scene) {
			k, _ := s.guarded("hidden-key")
			told := s.keyWanted("hidden-key")
			for what, r := range map[string]reply{
				"a wrong password": s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "hidden-key", "password": "not the password"}),
				"nobody":           s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "nobody-at-all", "password": longPassword}),
				"an assertion":     s.enterWithKey("hidden-key", "not the password", k.Sign(s.t, told)),
			} {
				wantProblem(s.t, what, r, http.StatusUnauthorized, "invalid_login")
				if strings.Contains(string(r.body), "webauthn") || strings.Contains(string(r.body), "second_factors") {
					s.t.Errorf("%s is told %s", what, r.body)
				}
			}
			s.want("the assertion with the password", s.enterWithKey("hidden-key", longPassword, k.Sign(s.t, told)), http.StatusOK)
		}},
		{"KEY-09", "remove somebody else's second factor", "API1:2023", "", func(_ *testing.T, s *scene) {
			_, token := s.guarded("keeps-key")
			_, thief := s.guarded("takes-key")
			var list adminapi.FactorList
			s.send(http.MethodGet, "/api/v1/me/second-factors", token, nil).decode(s.t, &list)
			if len(list.Items) != 1 {
				s.t.Fatalf("%+v", list)
			}
			s.want("the removal", s.send(http.MethodDelete, "/api/v1/me/second-factors/"+list.Items[0].Id, thief, nil), http.StatusNotFound)
			var after adminapi.FactorList
			s.send(http.MethodGet, "/api/v1/me/second-factors", token, nil).decode(s.t, &after)
			if !slices.EqualFunc(list.Items, after.Items, func(a, b adminapi.Factor) bool { return a.Id == b.Id }) {
				s.t.Errorf("%+v", after)
			}
		}},
	}
}
