package server_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/httpapi"
)

// objectAttacks reach for what another tenant has. Whoever tries holds the role that opens the same thing in his own tenant.
func objectAttacks() []attack {
	return []attack{
		{"OBJ-01", "list the keys of another tenant", "API1:2023", "the tenant in identity's lists", func(_ *testing.T, s *scene) {
			s.hidden("security_admin", "/keys?limit=200", s.loot.key.id)
			s.hidden("auditor", "/keys?limit=200", s.loot.key.id)
		}},
		{"OBJ-02", "change, rotate, retire and revoke a key of another tenant", "API1:2023", "the tenant in identity's key", func(_ *testing.T, s *scene) {
			at := "/keys/" + s.loot.key.id
			s.foreign("security_admin", http.MethodPatch, at, map[string]any{"name": "mine now"})
			s.foreign("security_admin", http.MethodPost, at+"/rotate", map[string]any{})
			s.foreign("security_admin", http.MethodPost, at+"/retire", nil)
			s.foreign("security_admin", http.MethodPost, at+"/revoke", nil)
			s.works("the key", s.loot.key.secret)
		}},
		{"OBJ-03", "change, rotate and revoke the key of a colleague as a developer", "API1:2023", "theirKey", func(_ *testing.T, s *scene) {
			for path, body := range map[string]any{"/rotate": map[string]any{}, "/retire": nil, "/revoke": nil} {
				s.want(path, s.send(http.MethodPost, "/api/v1/keys/"+s.loot.key.id+path, s.other.token, body), http.StatusNotFound)
			}
			s.want("change", s.send(http.MethodPatch, "/api/v1/keys/"+s.loot.key.id, s.other.token, map[string]any{"name": "mine now"}), http.StatusNotFound)
			if r := s.send(http.MethodGet, "/api/v1/keys?limit=200", s.other.token, nil); strings.Contains(string(r.body), s.loot.key.id) {
				s.t.Errorf("%s", r.body)
			}
			s.works("the key", s.loot.key.secret)
		}},
		{"OBJ-04", "list the accounts of another tenant", "API1:2023", "the tenant in identity's lists", func(_ *testing.T, s *scene) {
			s.hidden("security_admin", "/users?limit=200", s.other.id)
			s.hidden("auditor", "/users?limit=200", s.other.id)
		}},
		{"OBJ-05", "change, reset, disable and enable an account of another tenant", "API1:2023", "the tenant in identity's user", func(_ *testing.T, s *scene) {
			at := "/users/" + s.other.id
			s.foreign("security_admin", http.MethodPatch, at, map[string]any{"labels": []string{"secret"}})
			for _, act := range []string{"/password-reset", "/disable", "/enable"} {
				s.foreign("security_admin", http.MethodPost, at+act, nil)
			}
			s.want("the account", s.send(http.MethodGet, "/api/v1/me", s.other.token, nil), http.StatusOK)
		}},
		{"OBJ-06", "make an account or a key in another tenant", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			s.forbidden("security_admin", http.MethodPost, "/users", map[string]any{"name": "intruder", "password": longPassword, "roles": []string{"auditor"}})
			s.forbidden("security_admin", http.MethodPost, "/keys", map[string]any{"name": "intruder"})
			for _, list := range []string{"/users?limit=200", "/keys?limit=200"} {
				if r := s.admin(http.MethodGet, list, nil, nil); strings.Contains(string(r.body), "intruder") {
					s.t.Errorf("%s", r.body)
				}
			}
		}},
		{"OBJ-07", "list and read the policies of another tenant", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			s.hidden("security_admin", "/policies?limit=200", "demo@1")
			for _, version := range []string{"demo@1", url.PathEscape("demo@1"), "demo%401"} {
				s.foreign("security_admin", http.MethodGet, "/policies/"+version, nil)
			}
		}},
		{"OBJ-08", "publish a policy for another tenant and for all", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			s.forbidden("security_admin", http.MethodPost, "/policies", map[string]any{"yaml": openPolicy})
			var page adminapi.PolicyPage
			s.admin(http.MethodGet, "/policies?limit=1&tenant=demo", nil, &page)
			if len(page.Items) != 1 || page.Items[0].Name != "demo@1" {
				s.t.Errorf("%+v", page)
			}
		}},
		{"OBJ-09", "read, set and remove the budgets of another tenant", "API1:2023", "the look for the key in SetBudget", func(_ *testing.T, s *scene) {
			s.hidden("system_admin", "/budgets", s.loot.key.id)
			s.foreign("system_admin", http.MethodPut, "/budgets", map[string]any{"period": "month", "key": s.loot.key.id, "limit_nano": 0})
			s.foreign("system_admin", http.MethodDelete, "/budgets?period=month&key="+s.loot.key.id, nil)
			s.works("the key", s.loot.key.secret)
		}},
		{"OBJ-10", "read the usage of another tenant, and of a key of its", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			s.forbidden("developer", http.MethodGet, "/usage", nil)
			if n := s.usage("?key=" + s.started.Welcome.APIKey.Reveal()[len("sk-sluice-"):][:12]).Requests; n == 0 {
				s.t.Error("the key has no usage that could be seen")
			}
			var report struct{ Total usageTotal }
			s.send(http.MethodGet, "/api/v1/usage?key="+s.started.Welcome.APIKey.Reveal()[len("sk-sluice-"):][:12], s.bank["developer"].token, nil).decode(s.t, &report)
			if report.Total.Requests != 0 {
				s.t.Errorf("%+v", report)
			}
		}},
		{"OBJ-11", "read the statements and corrections of another tenant", "API1:2023", "the tenant in billing's list of corrections", func(_ *testing.T, s *scene) {
			s.hidden("developer", "/billing/corrections", s.loot.fix)
			month := time.Now().UTC().Format("2006-01")
			for _, path := range []string{"/billing/statements", "/billing/statements/" + month, "/billing/statements/" + month + "?format=csv", "/energy-report?month=" + month, "/usage/" + s.loot.request} {
				s.forbidden("compliance", http.MethodGet, path, nil)
			}
			s.foreign("compliance", http.MethodGet, "/usage/"+s.loot.request, nil)
			for _, path := range []string{"/cost-books", "/cost-report?month=" + month} { // of the installation
				s.forbidden("compliance", http.MethodGet, path, nil)
			}
			if r := s.send(http.MethodGet, "/api/v1/billing/statements/"+month, s.bank["compliance"].token, nil); strings.Contains(string(r.body), s.loot.fix) {
				s.t.Errorf("%s", r.body)
			}
		}},
		{"OBJ-12", "search, read and export the audit records of another tenant", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			s.hidden("auditor", "/audit/records?limit=200&request="+s.loot.request, s.loot.record)
			s.foreign("auditor", http.MethodGet, "/audit/records/"+s.loot.record, nil)
			s.foreign("auditor", http.MethodGet, "/audit/records/"+s.loot.record+"/proof", nil)
			for _, path := range []string{"/audit/export", "/audit/export/size", "/audit/status"} {
				s.forbidden("auditor", http.MethodGet, path, nil)
			}
			if r := s.send(http.MethodGet, "/api/v1/audit/export", s.bank["auditor"].token, nil); strings.Contains(string(r.body), s.loot.record) {
				s.t.Error("the export has a record of another tenant")
			}
		}},
		{"OBJ-13", "read what is kept of a prompt of another tenant", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			at := "/audit/records/" + s.loot.record + "/content"
			if r := s.send(http.MethodGet, "/api/v1"+at, s.demo["compliance"].token, nil); r.status != http.StatusOK {
				s.t.Errorf("there is nothing to read: %d %s", r.status, r.body)
			}
			s.foreign("compliance", http.MethodGet, at, nil)
		}},
		{"OBJ-14", "list, place and release legal holds of another tenant", "API1:2023", "the tenant in the list of holds", func(_ *testing.T, s *scene) {
			s.hidden("compliance", "/audit/holds", s.loot.hold)
			s.foreign("compliance", http.MethodPost, "/audit/holds/"+s.loot.hold+"/release", map[string]any{"reason": "x"})
			s.forbidden("compliance", http.MethodPost, "/audit/holds", map[string]any{"reason": "x", "actor": "x"})
		}},
		{"OBJ-15", "erase a person of another tenant, whose name somebody of one's own may have", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			officer := s.bank["compliance"]
			s.forbidden("compliance", http.MethodPost, "/audit/erasures", map[string]any{"subject": "alice"})
			s.forbidden("compliance", http.MethodPost, "/audit/erasures/preview", map[string]any{"subject": "alice"})
			s.forbidden("compliance", http.MethodPost, "/reveal/erasures", map[string]any{"session": lootSession})
			s.want("the own alice", s.send(http.MethodPost, erasuresPath, officer.token, map[string]any{"subject": "alice"}), http.StatusCreated)
			s.send(http.MethodPost, "/api/v1/reveal/erasures", officer.token, map[string]any{"session": lootSession})
			if got := s.sees(s.demo["compliance"].token, lootSession, s.loot.tokens); got != "clear "+lootNumber {
				s.t.Errorf("it reached another tenant: %s", got)
			}
		}},
		{"OBJ-16", "approve and decline the erasure of another tenant", "API1:2023", "the tenant in approval.find", func(_ *testing.T, s *scene) {
			at := "/audit/erasures/approvals/" + s.loot.erasure
			s.hidden("compliance", "/audit/erasures/approvals", s.loot.erasure)
			s.foreign("compliance", http.MethodPost, at+"/approve", nil)
			s.foreign("compliance", http.MethodPost, at+"/decline", map[string]any{"reason": "x"})
		}},
		{"OBJ-17", "see values behind the pseudonyms of another tenant", "API1:2023; LLM02:2025", "tenantOf in Reveal", func(_ *testing.T, s *scene) {
			officer := s.bank["compliance"].token
			if got := s.sees(s.demo["compliance"].token, lootSession, s.loot.tokens); got != "clear "+lootNumber {
				s.t.Errorf("there is nothing to see: %s", got)
			}
			for _, by := range []map[string]any{{"session": lootSession, "tokens": s.loot.tokens}, {"request": s.loot.request, "tokens": s.loot.tokens}} {
				a, r := s.revealed(officer, by)
				if strings.Contains(string(r.body), lootNumber) || shown(a) == "clear "+lootNumber {
					s.t.Errorf("%d %s", r.status, r.body)
				}
				s.forbidden("compliance", http.MethodPost, "/reveal", merged(by, map[string]any{"purpose": "complaint"}))
			}
		}},
		{"OBJ-18", "approve and decline the reveal of another tenant", "API1:2023", "the tenant in approval.find", func(_ *testing.T, s *scene) {
			at := "/reveal/approvals/" + s.loot.reveal
			s.foreign("security_admin", http.MethodPost, at+"/approve", nil)
			s.foreign("security_admin", http.MethodPost, at+"/decline", map[string]any{"reason": "x"})
			s.hidden("security_admin", "/reveal/approvals", s.loot.reveal)
		}},
		{"OBJ-19", "list the tenants, and make one, as a customer", "API1:2023", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			for role, a := range s.bank {
				s.want(role, s.send(http.MethodGet, "/api/v1/tenants", a.token, nil), http.StatusForbidden)
				s.want(role, s.send(http.MethodPost, "/api/v1/tenants", a.token, map[string]string{"id": "mine", "name": "Mine"}), http.StatusForbidden)
			}
		}},
		{"OBJ-20", "go on in a list of another tenant with its cursor", "API1:2023", "the tenant in identity's lists", func(_ *testing.T, s *scene) {
			for _, list := range []string{"/keys", "/users", "/policies", "/audit/records"} {
				role := "security_admin"
				if list == "/audit/records" {
					role = "auditor"
				}
				var page, own struct {
					Items []json.RawMessage
					Next  string
				}
				s.send(http.MethodGet, "/api/v1"+list+"?limit=1", s.demo[role].token, nil).decode(s.t, &page)
				if page.Next == "" {
					s.t.Errorf("%s has one page", list)
				}
				r := s.send(http.MethodGet, "/api/v1"+list+"?limit=200&cursor="+url.QueryEscape(page.Next), s.bank[role].token, nil)
				if r.status == http.StatusOK {
					r.decode(s.t, &own)
				}
				for _, item := range own.Items {
					var of struct {
						Tenant string
						Event  struct{ Tenant string }
					}
					if err := json.Unmarshal(item, &of); err != nil || of.Tenant == "demo" || of.Event.Tenant == "demo" {
						s.t.Errorf("%s: %s", list, item)
					}
				}
			}
		}},
		{"OBJ-21", "name two tenants, in the query, in the body, and in both", "API1:2023", "requestedTenant", func(_ *testing.T, s *scene) {
			by := s.bank["security_admin"].token
			for target, body := range map[string]string{
				"?tenant=bank&tenant=demo": `{"name":"pollution"}`,
				"?tenant=bank":             `{"name":"pollution","tenant":"demo"}`,
				"?x=1":                     `{"name":"pollution","tenant":"bank","tenant":"demo"}`,
				"?x=2":                     `{"name":"pollution","tenant":"bank","Tenant":"demo"}`,
				"?x=3":                     `{"name":"pollution","TENANT":"demo"}`,
				"?x=4":                     `{"name":"pollution","tenant":"bank","\u0074enant":"demo"}`,
				"?tenant=bank%00demo":      `{"name":"pollution"}`,
				"?tenant=Demo":             `{"name":"pollution"}`,
				"?tenant=%20demo":          `{"name":"pollution"}`,
			} {
				if r := s.send(http.MethodPost, "/api/v1/keys"+target, by, body); r.status >= http.StatusInternalServerError {
					s.t.Errorf("%s %s: %d %s", target, body, r.status, r.body)
				}
			}
			if r := s.admin(http.MethodGet, "/keys?limit=200&tenant=demo", nil, nil); strings.Contains(string(r.body), "pollution") {
				s.t.Errorf("%s", r.body)
			}
		}},
		{"OBJ-22", "have a pseudonym of another tenant's conversation restored", "API1:2023; LLM02:2025", "", func(_ *testing.T, s *scene) {
			for _, secret := range []string{s.bankKey.secret, s.loot.key.secret} { // nor in another conversation of the same tenant
				r := s.send(http.MethodPost, "/v1/chat/completions", secret, question("Repeat "+s.loot.tokens[0]), "X-Sluice-Session", "stolen")
				if r.status != http.StatusOK || strings.Contains(string(r.body), lootNumber) {
					s.t.Errorf("%d %s", r.status, r.body)
				}
			}
			r := s.send(http.MethodPost, "/v1/chat/completions", s.bankKey.secret, question("Repeat "+s.loot.tokens[0]), "X-Sluice-Session", lootSession)
			if strings.Contains(string(r.body), lootNumber) {
				s.t.Errorf("with the name of the conversation: %d %s", r.status, r.body)
			}
		}},
		{"OBJ-23", "use and find a model that the tenant's policy does not have", "API1:2023", "allowsModel", func(_ *testing.T, s *scene) {
			s.admin(http.MethodPost, "/tenants", map[string]string{"id": "mute", "name": "Mute"}, new(any))
			s.admin(http.MethodPost, "/policies", map[string]string{"tenant": "mute", "yaml": strings.Replace(openPolicy, `models: ["*"]`, `models: [theirs]`, 1)}, new(any))
			key := s.issueKey(map[string]any{"tenant": "mute", "name": "mute"}).secret
			for _, model := range []string{"scripted", "SCRIPTED", "scripted ", "./scripted", "theirs/../scripted"} {
				body := question("hi")
				body["model"] = model
				s.want(model, s.send(http.MethodPost, "/v1/chat/completions", key, body), http.StatusForbidden, http.StatusNotFound)
			}
			if r := s.send(http.MethodGet, "/v1/models", key, nil); strings.Contains(string(r.body), "scripted") {
				s.t.Errorf("%s", r.body)
			}
			s.want("one model", s.send(http.MethodGet, "/v1/models/scripted", key, nil), http.StatusNotFound, http.StatusForbidden)
		}},
		{"OBJ-24", "use the keys and the sign-ins of a suspended tenant, and resume it as one of its people", "API2:2023", "", func(_ *testing.T, s *scene) {
			s.admin(http.MethodPost, "/tenants", map[string]string{"id": "paused", "name": "Paused"}, new(any))
			key := s.issueKey(map[string]any{"tenant": "paused", "name": "paused"}).secret
			boss := s.newAccount("paused-boss", map[string]any{"tenant": "paused"}, "system_admin")
			s.works("the key", key)
			s.admin(http.MethodPost, "/tenants/paused/suspend", map[string]string{"reason": "unpaid"}, new(any))
			s.want("the key", s.send(http.MethodPost, "/v1/chat/completions", key, question("hi")), http.StatusForbidden)
			s.want("the session", s.send(http.MethodGet, "/api/v1/keys", boss.token, nil), http.StatusForbidden, http.StatusUnauthorized)
			s.want("its renewal", s.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", boss.cookie), http.StatusForbidden, http.StatusUnauthorized)
			s.want("a sign-in", s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "paused-boss", "password": longPassword}), http.StatusForbidden, http.StatusUnauthorized)
			for _, by := range []string{boss.token, s.bank["system_admin"].token, s.demo["security_admin"].token, key} {
				r := s.send(http.MethodPost, "/api/v1/tenants/paused/resume", by, map[string]string{"reason": "paid"})
				s.want("resume", r, http.StatusForbidden, http.StatusUnauthorized)
			}
			s.want("the key", s.send(http.MethodGet, "/v1/models", key, nil), http.StatusForbidden)
		}},
		{"OBJ-25", "list, make, change, suspend and resume a project of another tenant", "API1:2023", "", func(_ *testing.T, s *scene) {
			at := "/projects/" + s.loot.project
			s.hidden("security_admin", "/projects?limit=200", s.loot.project)
			s.forbidden("security_admin", http.MethodPost, "/projects", map[string]any{"id": "intruder", "name": "x"})
			s.foreign("security_admin", http.MethodPatch, at, map[string]any{"name": "mine now"})
			s.foreign("security_admin", http.MethodPost, at+"/suspend", map[string]any{"reason": "x"})
			s.foreign("security_admin", http.MethodPost, at+"/resume", map[string]any{"since": time.Now()})
			if r := s.admin(http.MethodGet, "/projects?limit=200", nil, nil); strings.Contains(string(r.body), "intruder") || strings.Contains(string(r.body), "suspension") || strings.Contains(string(r.body), "mine now") {
				s.t.Errorf("%s", r.body)
			}
		}},
		{"OBJ-26", "put a key, a budget and a policy under a project of another tenant, and ask for its usage", "API1:2023", "", func(_ *testing.T, s *scene) {
			guard, project := s.bank["security_admin"].token, s.loot.project
			s.want("a key", s.send(http.MethodPost, "/api/v1/keys", guard, map[string]any{"name": "x", "project": project}), http.StatusNotFound)
			s.want("a change", s.send(http.MethodPatch, "/api/v1/keys/"+s.bankKey.id, guard, map[string]any{"project": project}), http.StatusNotFound)
			s.want("a path", s.send(http.MethodPost, "/api/v1/keys", guard, map[string]any{"name": "x", "project": "../demo/" + project}), http.StatusBadRequest)
			s.foreign("security_admin", http.MethodPost, "/policies", map[string]any{"project": project, "yaml": openPolicy})
			s.foreign("security_admin", http.MethodGet, "/policies?project="+project, nil)
			s.foreign("system_admin", http.MethodPut, "/budgets", map[string]any{"period": "month", "project": project, "limit_nano": 0})
			s.foreign("system_admin", http.MethodDelete, "/budgets?period=month&project="+project, nil)
			for _, tenant := range []string{"demo/" + project, "org:default", "*/" + project} { // the names that scopes of policies have are no tenants
				s.want(tenant, s.send(http.MethodPost, "/api/v1/policies", guard, map[string]any{"tenant": tenant, "yaml": openPolicy}), http.StatusForbidden)
			}
		}},
		{"OBJ-27", "see, change, suspend and join an organisation, and set its policy and its budget, as one of its tenants", "API1:2023", "", func(_ *testing.T, s *scene) {
			refused := func(role, method, path string, body any) {
				s.t.Helper()
				s.want(method+" "+path, s.send(method, "/api/v1"+path, s.bank[role].token, body), http.StatusForbidden)
			}
			for _, role := range []string{"system_admin", "security_admin"} {
				refused(role, http.MethodGet, "/organisations", nil)
				refused(role, http.MethodPost, "/organisations", map[string]any{"id": "intruder", "name": "x"})
				refused(role, http.MethodPatch, "/organisations/default", map[string]any{"limits": adminapi.Limits{Concurrent: 1}})
				refused(role, http.MethodPost, "/organisations/default/suspend", map[string]any{"reason": "x"})
				refused(role, http.MethodPost, "/tenants/bank/move", map[string]any{"organisation": "default"})
			}
			policy := map[string]any{"organisation": "default", "yaml": openPolicy}
			refused("security_admin", http.MethodPost, "/policies", policy)
			refused("security_admin", http.MethodPost, "/policies", merged(policy, map[string]any{"tenant": "bank"}))
			refused("security_admin", http.MethodPost, "/policies?organisation=default", map[string]any{"yaml": openPolicy})
			refused("security_admin", http.MethodGet, "/policies?organisation=default", nil)
			refused("security_admin", http.MethodGet, "/policies/1?organisation=default&tenant=bank", nil)
			budget := map[string]any{"organisation": "default", "period": "month", "limit_nano": 0}
			refused("system_admin", http.MethodPut, "/budgets", budget)
			refused("system_admin", http.MethodPut, "/budgets", merged(budget, map[string]any{"tenant": "bank"}))
			refused("system_admin", http.MethodGet, "/budgets?organisation=default&tenant=bank", nil)
			refused("system_admin", http.MethodDelete, "/budgets?organisation=default&period=month", nil)
			refused("system_admin", http.MethodPut, "/budgets", map[string]any{"period": "month", "limit_nano": int64(1e15)}) // nor that of his tenant
			s.works("a key of the organisation", s.loot.key.secret)
		}},
		{"OBJ-28", "take one's own key out of the project whose policy, limits and budgets bind it", "API1:2023", "", func(_ *testing.T, s *scene) {
			var key adminapi.CreatedKey
			s.send(http.MethodPost, "/api/v1/keys", s.other.token, map[string]any{"name": "mine", "project": s.loot.project}).decode(s.t, &key)
			for _, to := range []string{"", "default"} {
				s.want("to "+to, s.send(http.MethodPatch, "/api/v1/keys/"+key.Key.Id, s.other.token, map[string]any{"project": to}), http.StatusBadRequest)
			}
			if r := s.send(http.MethodGet, "/api/v1/keys?limit=200", s.other.token, nil); !strings.Contains(string(r.body), s.loot.project) {
				s.t.Errorf("%s", r.body)
			}
		}},
	}
}

// beyond asks every route that a role does not open, and returns how many those were.
func (s *scene) beyond(role, token string) (n int) {
	s.t.Helper()
	var may []access.Permission
	for _, r := range access.Roles() {
		if r.ID == role {
			may = r.Permissions
		}
	}
	if len(may) == 0 {
		s.t.Fatalf("no role %s", role)
	}
	for _, route := range s.routes() {
		if route.Permission == "" || slices.Contains(may, route.Permission) || route.Own != "" && slices.Contains(may, route.Own) {
			continue
		}
		n++
		s.want(role+" "+route.Operation, s.send(route.Method, fill(route.Path), token, bodyFor(route.Method)), http.StatusForbidden)
	}
	return n
}

// functionAttacks do what a role does not open.
func functionAttacks() []attack {
	atLeast := func(role string, least int) func(*testing.T, *scene) {
		return func(t *testing.T, s *scene) {
			if n := s.beyond(role, s.demo[role].token); n < least {
				t.Errorf("only %d routes were tried", n)
			}
		}
	}
	return []attack{
		{"FUN-01", "call every administrator's function as a developer", "API5:2023", "access.Enforcer.Allow", atLeast("developer", 50)},
		{"FUN-02", "call every function that changes something as an auditor", "API5:2023", "access.Enforcer.Allow", atLeast("auditor", 25)},
		{"FUN-03", "call the functions of the other duties as a security administrator", "API5:2023", "access.Enforcer.Allow", atLeast("security_admin", 40)},
		{"FUN-04", "call the functions of the other duties as a system administrator", "API5:2023", "access.Enforcer.Allow", atLeast("system_admin", 25)},
		{"FUN-05", "call the functions of the other duties as a compliance officer", "API5:2023", "access.Enforcer.Allow", atLeast("compliance", 40)},
		{"FUN-06", "change anything with an API key that has every scope", "API5:2023", "the method in chain, access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "all scopes", "scopes": identity.Scopes()}).secret
			for _, route := range s.routes() {
				if route.Method != http.MethodGet && !route.Public {
					s.want(route.Operation, s.send(route.Method, fill(route.Path), key, bodyFor(route.Method)), http.StatusForbidden)
				}
			}
		}},
		{"FUN-07", "call every function of the management API with no credential", "CVE-2026-12795", "chain.authenticate", func(_ *testing.T, s *scene) {
			for _, route := range s.routes() {
				if !route.Public {
					s.want(route.Operation, s.send(route.Method, fill(route.Path), "", bodyFor(route.Method)), http.StatusUnauthorized)
				}
			}
		}},
		{"FUN-08", "change prices, models, policies and capacity of the installation with no more than an account", "CVE-2026-35029", "access.Enforcer.Allow", func(_ *testing.T, s *scene) {
			for name, by := range map[string]string{"developer": s.demo["developer"].token, "a customer's system administrator": s.bank["system_admin"].token, "a key": s.loot.key.secret} {
				for _, act := range []struct {
					method, path string
					body         any
				}{
					{http.MethodPost, "/price-books", map[string]any{"yaml": "name: free\n"}},
					{http.MethodPost, "/policies", map[string]any{"tenant": "*", "yaml": openPolicy}},
					{http.MethodPost, "/model-versions", map[string]any{"model": "scripted", "version": "v9", "engine": "upstream", "engine_model": "scripted"}},
					{http.MethodPost, "/rollouts", map[string]any{"model": "scripted", "candidate": "v9", "preset": "trial"}},
					{http.MethodPut, "/capacity", map[string]any{"timezone": "UTC", "peak": []any{}, "peak_concurrency": 1, "valley_concurrency": 1}},
					{http.MethodPost, "/engine/adapters", map[string]any{"id": "a", "model": "scripted", "path": "a"}},
					{http.MethodPost, "/billing/corrections", map[string]any{"amount_nano": -1_000_000, "reason": "a gift"}},
				} {
					s.want(name+" "+act.path, s.send(act.method, "/api/v1"+act.path, by, act.body), http.StatusForbidden)
				}
			}
		}},
		{"FUN-09", "turn a reading request into a changing one by an override header", "API5:2023", "a server without override of methods", func(_ *testing.T, s *scene) {
			made := s.issueKey(map[string]any{"name": "overridden"})
			for _, h := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
				s.want(h, s.send(http.MethodGet, "/api/v1/keys", s.demo["auditor"].token, nil, h, http.MethodPost), http.StatusOK)
				s.send(http.MethodPost, "/api/v1/session?_method=DELETE", "", map[string]string{"user": "", "password": ""}, h, http.MethodDelete)
			}
			s.want("a path that only takes POST", s.send(http.MethodGet, "/api/v1/keys/"+made.id+"/revoke", s.session(), nil, "X-HTTP-Method-Override", http.MethodPost), http.StatusMethodNotAllowed)
			s.works("the key", made.secret)
		}},
		{"FUN-10", "reach the management API by HEAD, OPTIONS and TRACE", "API5:2023", "a server without override of methods", func(_ *testing.T, s *scene) {
			for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodTrace, "PROPFIND", "get"} {
				for _, credential := range []string{"", s.session()} {
					for _, a := range s.raw(s.line(method, "/api/v1/users", credential)) {
						if a.status < 400 || strings.Contains(string(a.body), "Bearer") || strings.Contains(string(a.body), s.other.id) {
							s.t.Errorf("%s: %d %s", method, a.status, a.body)
						}
					}
				}
			}
		}},
		{"FUN-11", "use a session of the management API on the business API", "API5:2023", "identity.Authenticate by plane", func(_ *testing.T, s *scene) {
			for _, r := range httpapi.Routes() {
				s.want(r.Method+" "+r.Path, s.send(r.Method, r.Path, s.session(), dataBodies[r.Path]), http.StatusUnauthorized)
			}
		}},
		{"FUN-12", "look for paths that other gateways have: configuration, proxies, debugging", "CVE-2026-35029; API9:2023", "httpapi.NewEngine without more routes", func(_ *testing.T, s *scene) {
			for _, path := range []string{
				"/config/update", "/v1/config/update", "/key/generate", "/user/new", "/v1/proxy/https://example.invalid/", "/api/v0/users", "/api/v2/users", "/api/users", "/v1/api/v1/users", "/v2/models",
				"/openapi.json", "/swagger/index.html", "/debug/vars", "/actuator/env", "/.env", "/.git/config", "/graphql", "/mcp", "/sse", "/v1/mcp/tools", "/server-status", "/admin",
			} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					s.want(method+" "+path, s.send(method, path, s.session(), nil), http.StatusNotFound)
				}
			}
		}},
		{"FUN-13", "grant oneself, and others, the role of a platform administrator", "API5:2023", "Administrator.Manages", func(_ *testing.T, s *scene) {
			by := s.demo["security_admin"]
			for name, r := range map[string]reply{
				"a new one":           s.send(http.MethodPost, "/api/v1/users", by.token, map[string]any{"name": "root", "password": longPassword, "roles": []string{"platform_admin"}}),
				"a puppet":            s.send(http.MethodPatch, "/api/v1/users/"+s.other.id, by.token, map[string]any{"roles": []string{"developer", "platform_admin"}}),
				"himself":             s.send(http.MethodPatch, "/api/v1/users/"+by.id, by.token, map[string]any{"roles": []string{"platform_admin"}}),
				"a role that is none": s.send(http.MethodPatch, "/api/v1/users/"+s.other.id, by.token, map[string]any{"roles": []string{"*"}}),
			} {
				s.want(name, r, http.StatusForbidden, http.StatusConflict, http.StatusBadRequest)
			}
			var me adminapi.Me
			s.send(http.MethodGet, "/api/v1/me", s.other.token, nil).decode(s.t, &me)
			if !slices.Equal(me.Roles, []string{"developer"}) {
				s.t.Errorf("%+v", me)
			}
		}},
		{"FUN-14", "read through a key what its maker may not read", "API5:2023", "readingRoles", func(_ *testing.T, s *scene) {
			var made adminapi.CreatedKey
			s.send(http.MethodPost, "/api/v1/keys", s.other.token, map[string]any{"name": "reader", "scopes": []string{"admin-read"}}).decode(s.t, &made)
			for _, path := range []string{"/users", "/audit/records", "/policies", "/budgets", "/users?tenant=bank", "/tenants", "/system"} {
				s.want(path, s.send(http.MethodGet, "/api/v1"+path, made.Secret, nil), http.StatusForbidden)
			}
		}},
	}
}

// assignmentAttacks put members into bodies that are not the caller's to set.
func assignmentAttacks() []attack {
	refuse := func(s *scene, method, path, token string, body map[string]any, members map[string]any) {
		s.t.Helper()
		for name, value := range members {
			r := s.send(method, "/api/v1"+path, token, merged(body, map[string]any{name: value}))
			if r.status != http.StatusBadRequest && r.status != http.StatusForbidden {
				s.t.Errorf("%s %s with %s: %d %s", method, path, name, r.status, r.body)
			}
		}
	}
	return []attack{
		{"MASS-01", "make an account with an id, a state, a creator or the operator's mark of one's choice", "API3:2023", "chain.validate", func(_ *testing.T, s *scene) {
			refuse(s, http.MethodPost, "/users", s.demo["security_admin"].token, map[string]any{"name": "assigned", "password": longPassword, "roles": []string{"developer"}}, map[string]any{
				"id": s.other.id, "disabled": false, "created_by": "x", "operator": true, "kind": "key", "epoch": 0, "password_hash": "x", "Roles": []string{"platform_admin"}, "role": "platform_admin", "one_time_until": "2099-01-01T00:00:00Z",
			})
			if r := s.admin(http.MethodGet, "/users?limit=200", nil, nil); strings.Contains(string(r.body), `"assigned"`) {
				s.t.Errorf("%s", r.body)
			}
		}},
		{"MASS-02", "move an account to another tenant, or give it a password, with a change", "API3:2023", "chain.validate", func(_ *testing.T, s *scene) {
			refuse(s, http.MethodPatch, "/users/"+s.other.id, s.demo["security_admin"].token, map[string]any{"labels": []string{}}, map[string]any{
				"tenant": "bank", "name": "root", "password": longPassword, "must_change_password": false, "id": "x", "disabled": false, "permissions": []string{"*"},
			})
		}},
		{"MASS-03", "make a key with a secret, an id, a state or an owner of one's choice", "API3:2023", "chain.validate", func(_ *testing.T, s *scene) {
			refuse(s, http.MethodPost, "/keys", s.demo["developer"].token, map[string]any{"name": "assigned"}, map[string]any{
				"id": s.loot.key.id, "secret": "sk-sluice-x", "prefix": "x", "owner": s.other.id, "created_by": "x", "state": "active", "digest": "x", "revoked_at": nil, "tenant": "bank", "roles": []string{"platform_admin"},
			})
		}},
		{"MASS-04", "move a key to another owner or tenant, or undo its end, with a change", "API3:2023", "chain.validate", func(_ *testing.T, s *scene) {
			refuse(s, http.MethodPatch, "/keys/"+s.loot.key.id, s.demo["security_admin"].token, map[string]any{"name": "loot"}, map[string]any{
				"tenant": "bank", "owner": s.other.id, "secret": "x", "id": "x", "state": "active", "revoked_at": nil, "digest": "x", "former_digest": "x",
			})
		}},
		{"MASS-05", "make a tenant that operates the installation", "API3:2023", "chain.validate", func(_ *testing.T, s *scene) {
			refuse(s, http.MethodPost, "/tenants", s.session(), map[string]any{"id": "assigned", "name": "x"}, map[string]any{"operator": true, "is_operator": true, "created_at": "2020-01-01T00:00:00Z"})
		}},
		{"MASS-06", "be billed, recorded and routed as somebody else by members and headers of a chat", "API3:2023", "sluiceOptions", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "plain chat"})
			body := merged(question("hi"), map[string]any{"tenant": "bank", "project": "bank", "key": s.bankKey.id, "cost": 0, "api_key": s.bankKey.secret, "metadata": map[string]string{"tenant": "bank", "user_api_key_team_id": "bank"}})
			r := s.send(http.MethodPost, "/v1/chat/completions", key.secret, body, "X-Sluice-Tenant", "bank", "X-Tenant-Id", "bank", "OpenAI-Organization", "bank", "X-Sluice-Key", s.bankKey.id, "X-Forwarded-User", "admin", "X-Remote-User", "admin")
			if r.status == http.StatusOK {
				e := s.records(r.header.Get("X-Request-Id"), 2)[1]
				if e.Tenant != "demo" || e.Actor.ID != key.id || e.Usage.PromptTokens == 0 {
					s.t.Errorf("%s", e.raw)
				}
			}
			s.want("a word that the server does not know", s.send(http.MethodPost, "/v1/chat/completions", key.secret, merged(question("hi"), map[string]any{"sluice": map[string]any{"policy": "none"}})), http.StatusBadRequest)
		}},
		{"MASS-07", "change somebody else's password by naming him", "API3:2023", "chain.validate", func(_ *testing.T, s *scene) {
			refuse(s, http.MethodPost, "/me/password", s.other.token, map[string]any{"current_password": longPassword, "new_password": "nine purple lanterns sing"}, map[string]any{"user": "admin", "id": s.demo["auditor"].id, "name": "demo-auditor", "tenant": "bank"})
			s.want("the sign-in", s.send(http.MethodGet, "/api/v1/me", s.other.token, nil), http.StatusOK)
		}},
		{"MASS-08", "widen one's own key beyond oneself", "API3:2023", "", func(_ *testing.T, s *scene) {
			var made adminapi.CreatedKey
			s.send(http.MethodPost, "/api/v1/keys", s.other.token, map[string]any{"name": "to widen"}).decode(s.t, &made)
			for name, change := range map[string]map[string]any{
				"labels": {"labels": []string{"secret"}}, "life": {"expires_at": "2099-01-01T00:00:00Z"}, "less marked": {"label_mode": "metadata"},
			} {
				s.want(name, s.send(http.MethodPatch, "/api/v1/keys/"+made.Key.Id, s.other.token, change), http.StatusBadRequest)
			}
		}},
		{"MASS-09", "hand a name of a member in another case, or twice, past whoever checks it", "RFC 8259, section 4", "single", func(_ *testing.T, s *scene) {
			by := s.demo["security_admin"].token
			for _, body := range []string{
				`{"name":"twice","password":"` + longPassword + `","roles":["developer"],"ROLES":["platform_admin"]}`,
				`{"name":"twice","password":"` + longPassword + `","roles":["developer"],"roles":["platform_admin"]}`,
				`{"name":"twice","password":"` + longPassword + `","roles":["platform_admin"],"roleſ":["developer"]}`,
				`{"name":"twice","password":"` + longPassword + `","roles":["developer"]}{"roles":["platform_admin"]}`,
			} {
				s.want(body, s.send(http.MethodPost, "/api/v1/users", by, body), http.StatusBadRequest, http.StatusForbidden)
			}
			if r := s.admin(http.MethodGet, "/users?limit=200", nil, nil); strings.Contains(string(r.body), `"twice"`) {
				s.t.Errorf("%s", r.body)
			}
		}},
	}
}
