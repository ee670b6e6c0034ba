package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
)

// emergency is what the attacks on break-glass have: an open session, the halves that it was opened with, and those of a credential that nobody has used.
type emergency struct {
	token        string
	spent, spare []string
}

// openEmergency seals two credentials and opens one.
func (s *scene) openEmergency() *emergency {
	e := &emergency{spent: s.sealed(s.token, ""), spare: s.sealed(s.token, "")}
	var session adminapi.Session
	s.breakGlass(e.spent...).decode(s.t, &session)
	e.token = session.AccessToken
	return e
}

// emergencyAttacks are on sealed credentials, and from within an emergency session.
func emergencyAttacks() []attack {
	refused := func(s *scene, what string, halves ...string) {
		s.t.Helper()
		r := s.breakGlass(halves...)
		if r.status != http.StatusUnauthorized && r.status != http.StatusTooManyRequests || strings.Contains(string(r.body), "access_token") {
			s.t.Errorf("%s: %d %s", what, r.status, r.body)
		}
	}
	return []attack{
		{"BRK-01", "use a sealed credential again that has opened an emergency", "API2:2023", "", func(_ *testing.T, s *scene) {
			refused(s, "a spent one", s.emergency.spent...)
		}},
		{"BRK-02", "open an emergency as one custodian: with one half alone, twice, or with one of another credential", "API2:2023", "", func(_ *testing.T, s *scene) {
			mine, other := s.emergency.spare[0], s.emergency.spent[1]
			refused(s, "one half", mine)
			refused(s, "one half twice", mine, mine)
			refused(s, "that of another", mine, other)
		}},
		{"BRK-03", "guess the second half", "API4:2023", "", func(_ *testing.T, s *scene) {
			waits := 0
			for n := 0; n < 40 && waits < 3; n++ { // the pauses grow, so they are met however slow the machine is
				r := s.breakGlass(s.emergency.spare[0], s.emergency.spare[1][:12]+strings.Repeat("x", 32))
				if r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" {
					waits++
				} else if r.status != http.StatusUnauthorized {
					s.t.Errorf("%d %s", r.status, r.body)
				}
			}
			if waits < 3 {
				s.t.Errorf("only %d of 40 guesses had to wait", waits)
			}
		}},
		{"BRK-04", "read the audit log, kept texts and values in an emergency, and export them", "API5:2023", "", func(_ *testing.T, s *scene) {
			for _, path := range []string{
				"/audit/records", "/audit/records/" + s.loot.record, "/audit/records/" + s.loot.record + "/content", "/audit/records/" + s.loot.record + "/proof", "/audit/export", "/audit/holds", "/audit/erasures", "/approvals",
				"/offboardings", "/usage", "/policies", "/rag/collections",
			} {
				s.want(path, s.send(http.MethodGet, "/api/v1"+path, s.emergency.token, nil), http.StatusForbidden)
			}
			for path, body := range map[string]any{
				"/reveal": map[string]any{"session": lootSession, "tokens": s.loot.tokens, "purpose": "complaint"}, "/audit/erasures": map[string]any{"subject": "alice"},
				"/audit/erasures/approvals/" + s.loot.erasure + "/approve": nil, "/policies": map[string]any{"yaml": revealPolicy(20, usualRules)}, "/audit/verifications": nil,
				"/tenants/bank/offboarding": map[string]any{"reason": "x"}, "/break-glass/seals": map[string]any{}, "/playground/chat": map[string]any{},
			} {
				if r := s.send(http.MethodPost, "/api/v1"+path, s.emergency.token, body); r.status != http.StatusForbidden && r.status != http.StatusNotFound {
					s.t.Errorf("%s: %d %s", path, r.status, r.body)
				}
			}
		}},
		{"BRK-05", "make or bring back an account in an emergency that may read the audit log", "API5:2023", "", func(_ *testing.T, s *scene) {
			for _, role := range []string{"auditor", "compliance"} {
				for _, act := range []string{"/password-reset", "/second-factor-reset", "/enable"} {
					s.want(act, s.send(http.MethodPost, "/api/v1/users/"+s.demo[role].id+act, s.emergency.token, nil), http.StatusForbidden)
				}
				s.want("a new one", s.send(http.MethodPost, "/api/v1/users", s.emergency.token, map[string]any{"name": "spy-" + role, "password": longPassword, "roles": []string{role}}), http.StatusForbidden)
			}
			s.want("its role", s.send(http.MethodPatch, "/api/v1/users/"+s.demo["developer"].id, s.emergency.token, map[string]any{"roles": []string{"auditor"}}), http.StatusForbidden)
			if r := s.send(http.MethodPost, "/api/v1/users", s.token, map[string]any{"name": "always", "password": longPassword, "roles": []string{"break_glass"}}); r.status == http.StatusCreated {
				s.t.Error("an account has the role of emergencies")
			}
		}},
	}
}
