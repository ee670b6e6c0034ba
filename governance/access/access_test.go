package access

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

func enforcer(t testing.TB) *Enforcer {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func holder(tenant string, roles ...string) identity.Principal {
	return identity.Principal{Tenant: tenant, Kind: "user", ID: "u", Roles: roles}
}

// TestMatrix holds every role × permission × domain against the data that the console lists.
func TestMatrix(t *testing.T) {
	e := enforcer(t)
	for _, role := range Roles() {
		for _, perm := range Permissions() {
			granted := slices.Contains(role.Permissions, perm)
			platform := role.ID == identity.RolePlatformAdmin
			for _, operator := range []bool{false, true} {
				p := holder("acme", role.ID)
				p.Operator = operator
				check := func(tenant string, want bool) {
					t.Helper()
					err := e.Allow(p, perm, tenant)
					if (err == nil) != want {
						t.Errorf("%s (operator %v) %s in %q: %v, want allowed %v", role.ID, operator, perm, tenant, err, want)
					}
					if err != nil && !fault.Is(err, fault.CodeNotAllowed) {
						t.Errorf("refusal has code %v", err)
					}
				}
				check("acme", granted && (platform || operator || !Installation(perm) && !OperatorAlone(perm)))
				everywhere := platform || granted && operator && (OperatorAlone(perm) || OfOperator(role.ID, perm) && !Installation(perm))
				check("other", everywhere)
				check(AllTenants, everywhere || granted && operator && Installation(perm))
				check("", false)
			}
		}
	}
}

// TestSeveralRoles takes the path through casbin itself and must agree with the table of single decisions.
func TestSeveralRoles(t *testing.T) {
	e := enforcer(t)
	for _, role := range Roles() {
		for _, perm := range Permissions() {
			for _, tenant := range []string{"acme", "other", AllTenants} {
				single := e.Allow(holder("acme", role.ID), perm, tenant) == nil
				double := e.Allow(holder("acme", role.ID, "nobody"), perm, tenant) == nil
				if single != double {
					t.Errorf("%s %s in %s: table says %v, casbin says %v", role.ID, perm, tenant, single, double)
				}
			}
		}
	}
	p := holder("acme", identity.RoleAuditor, identity.RoleDeveloper)
	if e.Allow(p, AuditRead, "acme") != nil || e.Allow(p, InferenceGenerate, "acme") != nil || e.Allow(p, PolicyWrite, "acme") == nil {
		t.Error("two roles must grant the union and no more")
	}
}

func TestDenyWins(t *testing.T) {
	extra := append(rules(), rule{identity.RoleAuditor, ownTenant, InferenceGenerate, "deny"})
	e, err := build(extra)
	if err != nil {
		t.Fatal(err)
	}
	if e.Allow(holder("acme", identity.RoleDeveloper), InferenceGenerate, "acme") != nil {
		t.Error("developer alone must be allowed")
	}
	if e.Allow(holder("acme", identity.RoleDeveloper, identity.RoleAuditor), InferenceGenerate, "acme") == nil {
		t.Error("a deny rule must win over an allow rule of another role")
	}
}

func TestRefusals(t *testing.T) {
	e := enforcer(t)
	cases := map[string]struct {
		p      identity.Principal
		perm   Permission
		tenant string
	}{
		"zero principal":             {identity.Principal{}, ModelsRead, "acme"},
		"no tenant":                  {holder("", identity.RolePlatformAdmin), ModelsRead, "acme"},
		"tenant named star":          {holder("*", identity.RoleAuditor), ModelsRead, "*"},
		"unknown role":               {holder("acme", "root"), ModelsRead, "acme"},
		"role list, two strings":     {holder("acme", "root platform_admin", "x"), ModelsRead, "acme"},
		"role list in one string":    {holder("acme", "root platform_admin"), ModelsRead, "acme"},
		"unknown permission":         {holder("acme", identity.RolePlatformAdmin), "models.destroy", "acme"},
		"developer in another realm": {holder("acme", identity.RoleDeveloper), ModelsRead, "acme2"},
	}
	for name, c := range cases {
		if err := e.Allow(c.p, c.perm, c.tenant); !fault.Is(err, fault.CodeNotAllowed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScopes: a scope opens what is listed for it, of what the role grants, and no key reaches beyond its tenant. What keys may read of the
// management API changes nothing, is of one tenant, and shows neither kept texts nor values.
func TestScopes(t *testing.T) {
	e := enforcer(t)
	want := map[string][]Permission{
		"chat": {InferenceGenerate, BatchesUse, ModelsRead}, "embed": {InferenceEmbed, BatchesUse, ModelsRead}, "rerank": {InferenceRerank, ModelsRead}, "search": {RAGSearch},
		"admin-read": {ModelsRead}, "": {InferenceGenerate, InferenceEmbed, InferenceRerank, BatchesUse, ModelsRead, RAGSearch}, "PolicyWrite": nil,
	}
	for scope, perms := range want {
		p := holder("acme", identity.RoleApplication)
		p.Kind = "key"
		if scope != "" {
			p.Scopes = []string{scope}
		}
		for _, perm := range Permissions() {
			err := e.Allow(p, perm, "acme")
			switch ofRole := slices.Contains(want[""], perm); {
			case slices.Contains(perms, perm) && err != nil:
				t.Errorf("%q, %s: %v", scope, perm, err)
			case ofRole && !slices.Contains(perms, perm) && !fault.Is(err, fault.CodeKeyScope):
				t.Errorf("%q, %s: %v, want a refusal for the scope", scope, perm, err)
			case !ofRole && !fault.Is(err, fault.CodeNotAllowed):
				t.Errorf("%q, %s: %v, want a refusal for the role", scope, perm, err)
			}
		}
	}
	for _, scope := range identity.Scopes() {
		if len(Scope(scope)) == 0 {
			t.Errorf("the scope %s opens nothing", scope)
		}
	}
	reader := holder("acme", identity.RolePlatformAdmin)
	reader.Kind, reader.Scopes = "key", []string{identity.ScopeAdminRead}
	for _, perm := range Permissions() {
		read := strings.HasSuffix(string(perm), ".read") && !Installation(perm)
		if err := e.Allow(reader, perm, "acme"); (err == nil) != read {
			t.Errorf("%s: %v", perm, err)
		}
		for _, other := range []string{"bank", AllTenants} {
			if err := e.Allow(reader, perm, other); !fault.Is(err, fault.CodeNotAllowed) {
				t.Errorf("%s in %s: %v", perm, other, err)
			}
		}
	}
}

func TestMatcherErrorDenies(t *testing.T) {
	broken := []rule{{identity.RoleDeveloper, "nonsense", ModelsRead, "allow"}}
	if _, err := build(broken); err == nil {
		t.Error("rules with an unknown scope must not build")
	}
	e, err := compile(append(rules(), broken...))
	if err != nil {
		t.Fatal(err)
	}
	p := holder("acme", identity.RoleDeveloper, identity.RoleAuditor)
	if err := e.Allow(p, ModelsRead, "acme"); !fault.Is(err, fault.CodeNotAllowed) {
		t.Errorf("a failing matcher must deny: %v", err)
	}
}

func TestPlatformAdminAloneReachesEverywhere(t *testing.T) {
	for _, r := range rules() {
		if (r.scope == everywhere) != (r.role == identity.RolePlatformAdmin) {
			t.Errorf("%s holds %s with scope %s", r.role, r.perm, r.scope)
		}
		if r.role == "*" || r.perm == "*" {
			t.Errorf("wildcard in rule %+v", r)
		}
	}
}

func TestConflicts(t *testing.T) {
	admins := []string{identity.RolePlatformAdmin, identity.RoleSystemAdmin, identity.RoleSecurityAdmin, identity.RoleAuditor}
	for _, a := range admins {
		for _, b := range admins {
			if a != b && !fault.Is(Conflicts([]string{a, b}), fault.CodeConflictingRole) {
				t.Errorf("%s and %s must exclude each other", a, b)
			}
		}
		if err := Conflicts([]string{a, identity.RoleDeveloper}); err != nil {
			t.Error(err)
		}
	}
	if err := Conflicts([]string{identity.RoleDeveloper, identity.RoleApplication}); !fault.Is(err, fault.CodeConflictingRole) {
		t.Errorf("an application is no person: %v", err)
	}
	for _, bad := range [][]string{nil, {"root"}, {identity.RoleDeveloper, identity.RoleDeveloper}} {
		if Conflicts(bad) == nil {
			t.Errorf("%v must be refused", bad)
		}
	}
}

// TestWhoOwnsKeys: identities suspend the keys of people who may no longer have any, and know that by role.
func TestWhoOwnsKeys(t *testing.T) {
	for _, role := range Roles() {
		if own := slices.Contains(role.Permissions, KeysOwn); own != identity.OwnsKeys([]string{role.ID}) {
			t.Errorf("%s may have keys of its own: %v", role.ID, own)
		}
	}
}

func FuzzAllow(f *testing.F) {
	e := enforcer(f)
	f.Add("acme", "developer", "models.read", "acme")
	f.Add("*", "platform_admin", "*", "*")
	f.Add("a' || true || '", "auditor developer", "x", "r.home")
	f.Fuzz(func(t *testing.T, tenant, role, perm, dom string) {
		p := holder(tenant, role, "x")
		if e.Allow(p, Permission(perm), dom) == nil && tenant != dom && role != identity.RolePlatformAdmin {
			t.Errorf("%q of %q was allowed %q in %q", role, tenant, perm, dom)
		}
	})
}

func BenchmarkAllow(b *testing.B) {
	e := enforcer(b)
	p := holder("acme", identity.RoleApplication)
	for b.Loop() {
		if e.Allow(p, InferenceGenerate, "acme") != nil {
			b.Fatal("refused")
		}
	}
}

// TestWhatProgramsNeverDo: a service account with a role that grants them is refused what a person has to answer for.
func TestWhatProgramsNeverDo(t *testing.T) {
	e := enforcer(t)
	for _, perm := range []Permission{
		ApprovalsGive, MaskingApprove, MaskingReveal, UsersWrite, KeyringRotate, AuditContent, AuditErase, AuditHold, KeysOwn, PlaygroundUse, BreakGlassSeal, BreakGlassReview, TenantsOffboard,
	} {
		p := holder("acme", identity.RolePlatformAdmin)
		p.Operator = true
		if err := e.Allow(p, perm, "acme"); err != nil {
			t.Errorf("a person, %s: %v", perm, err)
		}
		p.Kind = "service"
		if err := e.Allow(p, perm, "acme"); !fault.Is(err, fault.CodeNotAllowed) {
			t.Errorf("a program, %s: %v", perm, err)
		}
	}
}

// TestExplainAgrees: the first check that refuses is what Allow returns, and roles that are named grant it.
func TestExplainAgrees(t *testing.T) {
	e := enforcer(t)
	for _, kind := range []string{"user", "key", "service"} {
		for _, role := range append(Roles(), Role{ID: ""}) {
			for _, scopes := range [][]string{nil, {identity.ScopeChat}, {identity.ScopeAdminRead}} {
				for _, perm := range Permissions() {
					for _, tenant := range []string{"acme", "other", AllTenants, ""} {
						p := holder("acme", role.ID)
						p.Kind, p.Scopes = kind, scopes
						if role.ID == "" {
							p.Roles = nil
						}
						want, got := e.Allow(p, perm, tenant), error(nil)
						for _, c := range e.Explain(p, perm, tenant) {
							if got == nil {
								got = c.Err
							}
							if c.Err == nil && c.Name == "roles" && !slices.Equal(c.Roles, p.Roles) {
								t.Errorf("%s %s: %v grants it, and %v is named", role.ID, perm, p.Roles, c.Roles)
							}
							for _, r := range c.Roles {
								p := p
								if p.Roles = []string{r}; c.Err != nil && e.allowRoles(p, perm, tenant) != nil {
									t.Errorf("%s %s: %s is named, and does not grant it", role.ID, perm, r)
								}
							}
						}
						if (want == nil) != (got == nil) || want != nil && want.Error() != got.Error() {
							t.Errorf("%s %s %v %s in %q: %v, explained as %v", kind, role.ID, scopes, perm, tenant, want, got)
						}
					}
				}
			}
		}
	}
}
