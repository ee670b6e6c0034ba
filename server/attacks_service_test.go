package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-project/sluice/server/adminapi"
)

// programForge makes access tokens as somebody does who has the signing key of the installation. Its own token has to open the door that it is
// for, else it proves nothing.
func (s *scene) programForge(name, role, door string) (program, forge) {
	s.t.Helper()
	p := s.newProgram(name, nil, role)
	f := s.forgeFor(accessOf(s.t, s.byProgram(p, nil)))
	s.want("a token as the server makes it", s.send(http.MethodGet, door, f.with(nil, nil, nil), nil), http.StatusOK)
	return p, f
}

const (
	dataDoor  = "/v1/models"
	adminDoor = "/api/v1/me"
)

// shutBoth fails if a credential opens a plane.
func (s *scene) shutBoth(what, token string) {
	s.t.Helper()
	for _, door := range []string{dataDoor, adminDoor} {
		s.want(what+" at "+door, s.send(http.MethodGet, door, token, nil), http.StatusUnauthorized)
	}
}

// byHMAC signs with a secret, whatever the head says.
func byHMAC(secret []byte) func(text string) []byte {
	return func(text string) []byte {
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
}

// newProgramScene is an installation behind a proxy, with people of two tenants.
func newProgramScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{proxied: true}
	s.installation = start(t, setup{extra: unlimited + "http: {trusted_proxies: [127.0.0.1/32]}\n"})
	s.people()
	return s
}

// serviceAttacks are about the accounts of programs.
func serviceAttacks() []attack {
	return []attack{
		{"SVC-01", "an access token with the algorithm none, or signed by HMAC with the published key", "CVE-2015-9235; RFC 8725, section 2.1", "the signature in authenticateService", func(_ *testing.T, s *scene) {
			_, f := s.programForge("forged", "application", dataDoor)
			for _, alg := range []string{"none", "None", ""} {
				s.shutBoth(alg, f.with(map[string]any{"alg": alg}, nil, func(string) []byte { return nil }))
			}
			var set struct{ Keys []map[string]string }
			s.send(http.MethodGet, "/.well-known/jwks.json", "", nil).decode(s.t, &set)
			for _, k := range set.Keys {
				raw, _ := base64.RawURLEncoding.DecodeString(k["x"])
				s.shutBoth("HS256", f.with(map[string]any{"alg": "HS256", "kid": k["kid"]}, nil, byHMAC(raw)))
			}
		}},
		{"SVC-02", "use an access token at the other plane, and a session token as one", "RFC 9068, section 4; RFC 8725, section 3.9", "the audience in authenticateService", func(_ *testing.T, s *scene) {
			_, data := s.programForge("of the data plane", "application", dataDoor)
			_, admin := s.programForge("of the admin plane", "auditor", adminDoor)
			s.want("data at admin", s.send(http.MethodGet, adminDoor, data.with(nil, nil, nil), nil), http.StatusUnauthorized)
			s.want("admin at data", s.send(http.MethodGet, dataDoor, admin.with(nil, nil, nil), nil), http.StatusUnauthorized)
			// With the audience of the other plane it is still of an account that is for this one.
			s.want("data with its audience changed", s.send(http.MethodGet, adminDoor, data.with(nil, map[string]any{"aud": "sluice-admin"}, nil), nil), http.StatusUnauthorized)
			s.want("admin with its audience changed", s.send(http.MethodGet, dataDoor, admin.with(nil, map[string]any{"aud": "sluice-data"}, nil), nil), http.StatusUnauthorized)
			for _, claims := range []map[string]any{{"aud": nil}, {"aud": "elsewhere"}, {"iss": "elsewhere"}, {"exp": nil}, {"jti": nil}, {"client_id": "svc-other"}, {"ep": 99}} {
				s.shutBoth(fmt.Sprint(claims), admin.with(nil, claims, nil))
			}
			s.shutBoth("a token of a program as a session", admin.with(map[string]any{"typ": "JWT"}, nil, nil))
			session := s.goodForge()
			s.shutBoth("a session as a token of a program", session.with(map[string]any{"typ": "at+jwt"}, nil, nil))
		}},
		{"SVC-03", "show an assertion that was accepted a second time", "RFC 7523, section 3", "spendAssertion", func(_ *testing.T, s *scene) {
			p := s.newSigner("replayed", "application")
			raw := p.assertion(s.t, p.claims())
			s.want("the first time", s.grant(signed(raw)), http.StatusOK)
			for range 2 {
				wantOAuth(s.t, "again", s.grant(signed(raw)), http.StatusUnauthorized, "invalid_client")
			}
		}},
		{"SVC-04", "show an assertion that is addressed to somebody else, to two, or that never ends", "RFC 7523, section 3; RFC 8725, section 3.9", "the audience in checkAssertion", func(_ *testing.T, s *scene) {
			p := s.newSigner("addressed", "application")
			other := s.newSigner("another", "application")
			for _, change := range []map[string]any{
				{"aud": "https://idp.example.com/oauth2/token"},
				{"aud": []string{p.TokenUrl, "https://idp.example.com"}},
				{"aud": nil},
				{"aud": p.TokenUrl + "/"},
				{"exp": nil},
				{"exp": time.Now().Add(time.Hour).Unix()},
				{"exp": time.Now().Add(-time.Minute).Unix()},
				{"iat": time.Now().Add(-time.Hour).Unix()},
				{"jti": nil},
				{"jti": strings.Repeat("x", 300)},
				{"sub": other.Account.Id},
				{"iss": other.Account.Id},
				{"iss": other.Account.Id, "sub": other.Account.Id},
				{"nbf": time.Now().Add(time.Hour).Unix()},
			} {
				claims := p.claims()
				for k, v := range change {
					if claims[k] = v; v == nil {
						delete(claims, k)
					}
				}
				r := s.grant(signed(p.assertion(s.t, claims)))
				s.want(fmt.Sprint(change), r, http.StatusUnauthorized, http.StatusTooManyRequests)
			}
			s.want("who it is of", s.byProgram(other, nil), http.StatusOK)
		}},
		{"SVC-05", "sign an assertion by HMAC with the registered public key, with none, or with another algorithm", "CVE-2016-10555; RFC 8725, section 3.1", "verifiers", func(_ *testing.T, s *scene) {
			p := s.newSigner("confused", "application")
			public := []byte(publicPEM(s.t, p.private))
			for alg, sign := range map[string]func(string) []byte{
				"HS256": byHMAC(public), "none": func(string) []byte { return nil }, "ES384": byHMAC(public), "PS256": byHMAC(public),
			} {
				text := segment(map[string]any{"alg": alg, "typ": "JWT"}) + "." + segment(p.claims())
				wantOAuth(s.t, alg, s.grant(signed(text+"."+base64.RawURLEncoding.EncodeToString(sign(text)))), http.StatusUnauthorized, "invalid_client")
			}
			token := jwt.NewWithClaims(p.method, p.claims())
			token.Header["crit"] = []string{"exp"}
			raw, err := token.SignedString(p.private)
			if err != nil {
				s.t.Fatal(err)
			}
			wantOAuth(s.t, "a critical member that nobody knows", s.grant(signed(raw)), http.StatusUnauthorized, "invalid_client")
		}},
		{"SVC-06", "use the tokens and credentials of a program that was disabled", "API2:2023", "the epoch in authenticateService", func(_ *testing.T, s *scene) {
			p, f := s.programForge("disabled", "auditor", adminDoor)
			s.admin(http.MethodPost, "/service-accounts/"+p.Account.Id+"/disable", nil, new(any))
			s.shutBoth("its token", f.with(nil, nil, nil))
			wantOAuth(s.t, "its secret", s.byProgram(p, nil), http.StatusUnauthorized, "invalid_client")
			s.admin(http.MethodPost, "/service-accounts/"+p.Account.Id+"/enable", nil, new(any))
			s.shutBoth("its token of before", f.with(nil, nil, nil))
		}},
		{"SVC-07", "guess the secret of a program", "API2:2023; RFC 6749, section 2.3.1", "TokenWait, and throttle.begin in IssueToken", func(_ *testing.T, s *scene) {
			p := s.newProgram("guessed", nil, "application")
			statuses := map[int]int{}
			for range 12 {
				statuses[s.grant(map[string]string{"client_id": p.Account.Id, "client_secret": "ss-sluice-" + p.Account.Id + "-x"}).status]++
			}
			if statuses[http.StatusUnauthorized] > 6 || statuses[http.StatusTooManyRequests] < 6 {
				s.t.Errorf("%v", statuses)
			}
		}},
		{"SVC-08", "be a second person, make accounts, see what people wrote, seal credentials for an emergency, review their use and erase a tenant, as a program", "API5:2023", "ForPeople", func(_ *testing.T, s *scene) {
			_, security := s.programForge("overreaching", "security_admin", adminDoor)
			token := security.with(nil, nil, nil)
			for path, body := range map[string]any{
				"/approvals/x/approve": nil, "/reveal": map[string]any{"session": "x", "tokens": []string{"x"}, "purpose": "complaint"},
				"/reveal/approvals/x/approve": nil, "/users": map[string]any{"name": "made", "password": longPassword, "roles": []string{"developer"}},
				"/service-accounts": map[string]any{"name": "made", "roles": []string{"system_admin"}}, "/invitations": map[string]any{"name": "made", "roles": []string{"auditor"}},
				"/users/" + s.other.id + "/disable": nil, "/policies": map[string]any{"yaml": "version: 1"}, "/keyring/rotate": nil, "/me/password": map[string]any{"current_password": "x", "new_password": longPassword},
				"/break-glass/uses/x/review": map[string]any{"reason": "x"}, "/break-glass/seals": map[string]any{},
				"/tenants/demo/offboarding/erase": map[string]any{"plan": "x"},
			} {
				s.want(path, s.send(http.MethodPost, "/api/v1"+path, token, body), http.StatusForbidden, http.StatusUnauthorized)
			}
			s.want("another tenant", s.send(http.MethodGet, "/api/v1/keys?tenant=bank", token, nil), http.StatusForbidden)
			s.want("all tenants", s.send(http.MethodGet, "/api/v1/keys?tenant=*", token, nil), http.StatusForbidden)
		}},
		{"SVC-09", "list, change and take over a program of another tenant", "API1:2023", "the tenant in identity's service", func(_ *testing.T, s *scene) {
			p := s.newProgram("of demo", nil, "auditor")
			s.hidden("security_admin", "/service-accounts", p.Account.Id)
			for _, act := range []struct {
				method, path string
				body         any
			}{
				{http.MethodGet, "", nil},
				{http.MethodPatch, "", map[string]any{"roles": []string{"security_admin"}}},
				{http.MethodPost, "/secret", map[string]any{}},
				{http.MethodPost, "/keys", map[string]any{"keys": publicPEM(s.t, s.newSigner("thief", "application").private)}},
				{http.MethodPost, "/disable", nil},
				{http.MethodDelete, "", nil},
			} {
				s.foreign("security_admin", act.method, "/service-accounts/"+p.Account.Id+act.path, act.body)
			}
			s.want("the program", s.byProgram(p, nil), http.StatusOK)
		}},
		{"INV-01", "accept an invitation a second time, with another password, and at the same time", "API2:2023", "open in accept", func(_ *testing.T, s *scene) {
			made := s.invite(s.demo["security_admin"].token, "invited-once", nil, "developer")
			statuses := make(chan int, 4)
			for n := range 4 {
				go func() { statuses <- s.accept(made.Token, fmt.Sprint(longPassword, " ", n)).status }()
			}
			created := 0
			for range 4 {
				if <-statuses == http.StatusCreated {
					created++
				}
			}
			if created != 1 {
				s.t.Errorf("%d accounts of one invitation", created)
			}
			wantProblem(s.t, "later", s.accept(made.Token, longPassword), http.StatusNotFound, "invalid_invitation")
		}},
		{"INV-02", "guess the token of an invitation", "API2:2023; RFC 9700, section 4.14.2", "throttle.begin in Invited", func(_ *testing.T, s *scene) {
			statuses := map[int]int{}
			for n := range 12 {
				guess := fmt.Sprintf("si-sluice-%043d", n)
				statuses[s.send(http.MethodPost, "/api/v1/invitations/show", "", map[string]string{"token": guess}).status]++
			}
			if statuses[http.StatusNotFound] > 6 || statuses[http.StatusTooManyRequests] < 6 {
				s.t.Errorf("%v", statuses)
			}
		}},
		{"INV-03", "rise by inviting, or by accepting with more roles than were given", "API5:2023; API3:2023", "Manages in Invite", func(_ *testing.T, s *scene) {
			guard := s.demo["security_admin"].token
			for _, roles := range [][]string{{"platform_admin"}, {"developer", "platform_admin"}, {"auditor", "security_admin"}, {"application"}, {"root"}} {
				r := s.send(http.MethodPost, "/api/v1/invitations", guard, map[string]any{"name": "risen", "roles": roles})
				s.want(fmt.Sprint(roles), r, http.StatusForbidden, http.StatusConflict, http.StatusBadRequest)
			}
			for _, role := range []string{"developer", "auditor", "system_admin", "compliance"} {
				s.want(role, s.send(http.MethodPost, "/api/v1/invitations", s.demo[role].token, map[string]any{"name": "risen", "roles": []string{"developer"}}), http.StatusForbidden)
			}
			s.want("another tenant", s.send(http.MethodPost, "/api/v1/invitations", s.bank["security_admin"].token, map[string]any{"tenant": "demo", "name": "risen", "roles": []string{"developer"}}), http.StatusForbidden)
			made := s.invite(guard, "not-risen", nil, "developer")
			for _, more := range []map[string]any{{"roles": []string{"platform_admin"}}, {"tenant": "bank"}, {"name": "admin"}} {
				body := merged(map[string]any{"token": made.Token, "password": longPassword}, more)
				s.want(fmt.Sprint(more), s.send(http.MethodPost, "/api/v1/invitations/accept", "", body), http.StatusBadRequest)
			}
			s.want("accepted", s.accept(made.Token, longPassword), http.StatusCreated)
			var me adminapi.Me
			s.send(http.MethodGet, adminDoor, s.enter("not-risen", longPassword).token, nil).decode(s.t, &me)
			if strings.Join(me.Roles, ",") != "developer" || me.Tenant != "demo" {
				raw, _ := json.Marshal(me)
				s.t.Errorf("%s", raw)
			}
		}},
	}
}
