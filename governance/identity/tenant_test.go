package identity

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestSuspendedTenants: the keys, sessions and sign-ins of a suspended tenant are refused, at once here and with the next poll elsewhere, those of
// others are not, and what was there before works again when the tenant is resumed.
func TestSuspendedTenants(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, _ := withTenant(t, db)
		b, _ := replica(t, db)
		if _, err := a.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
			t.Fatal(err)
		}
		dev := newUser(t, a, "dev", nil, RoleDeveloper)
		session, admin := signIn(t, a, "dev", password), signIn(t, a, "admin", password)
		key := func(tenant, owner, maker string, scopes ...string) string {
			t.Helper()
			_, credential, err := a.CreateKey(t.Context(), NewKey{Tenant: tenant, Name: "k", Owner: owner, CreatedBy: maker, Scopes: scopes})
			if err != nil {
				t.Fatal(err)
			}
			return credential
		}
		own, shared, reader, other := key("acme", dev.ID, dev.ID), key("acme", "", "admin"), key("acme", "", dev.ID, ScopeAdminRead), key("demo", "", "admin")

		everywhere := func(code fault.Code) {
			t.Helper()
			poll(t, b)
			for _, i := range []*Identity{a, b} {
				for credential, plane := range map[string]Plane{own: DataPlane, shared: DataPlane, reader: AdminPlane, session.Access: AdminPlane} {
					p, err := i.Authenticate(t.Context(), plane, credential, "198.51.100.7")
					if code == "" && err != nil || code != "" && !fault.Is(err, code) {
						t.Errorf("%v, want %q", err, code)
					}
					if p.Tenant != "acme" || p.ID == "" {
						t.Errorf("the record would not name the caller: %+v", p)
					}
				}
				if _, err := i.Authenticate(t.Context(), DataPlane, other, "198.51.100.7"); err != nil {
					t.Errorf("a key of another tenant: %v", err)
				}
				if _, err := i.Authenticate(t.Context(), AdminPlane, admin.Access, "198.51.100.7"); err != nil {
					t.Errorf("the operator: %v", err)
				}
				if _, err := i.Login(t.Context(), "dev", password, "", "10.0.0.1"); code == "" && err != nil || code != "" && !fault.Is(err, code) {
					t.Errorf("sign-in: %v, want %q", err, code)
				}
				_, err := i.Login(t.Context(), "dev", another, "", "10.0.0.9")
				wantCode(t, err, fault.CodeInvalidLogin) // who has no password learns nothing
			}
		}
		everywhere("")

		by := "operator"
		for reason, code := range map[string]fault.Code{"": fault.CodeMissing, " \n": fault.CodeMissing, strings.Repeat("长", 1025): fault.CodeInvalidValue, "a\x00b": fault.CodeInvalidValue} {
			_, _, err := a.SuspendTenant(t.Context(), "acme", by, reason)
			wantCode(t, err, code)
		}
		_, _, err := a.SuspendTenant(t.Context(), "nobody", by, "unpaid")
		wantCode(t, err, fault.CodeNotFound)
		_, _, err = a.SuspendTenant(t.Context(), "demo", by, "unpaid")
		wantCode(t, err, fault.CodeConflict)
		everywhere("")

		_, first, err := a.SuspendTenant(t.Context(), "acme", by, "unpaid")
		if err != nil || first.Suspension.By != by || first.Suspension.Reason != "unpaid" || first.Suspension.Since.IsZero() {
			t.Fatalf("%+v, %v", first, err)
		}
		everywhere(fault.CodeTenantSuspended)
		_, again, err := a.SuspendTenant(t.Context(), "acme", "somebody", "another reason")
		if err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("%+v, %v", again, err)
		}
		if _, _, err := a.ChangeUser(t.Context(), Administrator{ID: "admin"}, "acme", dev.ID, UserChange{Labels: &[]string{}}); err != nil {
			t.Errorf("the operator's administrators act in the tenant as before: %v", err)
		}
		_, err = a.Refresh(t.Context(), session.Refresh)
		wantCode(t, err, fault.CodeInvalidSession)

		// What was decided about one suspension does not lift another.
		_, _, err = b.ResumeTenant(t.Context(), "acme", first.Suspension.Since.Add(-time.Microsecond))
		wantCode(t, err, fault.CodeConflict)
		was, now, err := b.ResumeTenant(t.Context(), "acme", first.Suspension.Since)
		if err != nil || was.Suspension != first.Suspension || now.Suspension != (Suspension{}) {
			t.Errorf("%+v, %+v, %v", was, now, err)
		}
		_, _, err = b.ResumeTenant(t.Context(), "acme", first.Suspension.Since)
		wantCode(t, err, fault.CodeConflict)
		_, _, err = a.ResumeTenant(t.Context(), "nobody", first.Suspension.Since)
		wantCode(t, err, fault.CodeNotFound)
		poll(t, a)
		_, err = a.Authenticate(t.Context(), AdminPlane, session.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidSession) // who got in before the suspension is not in again
		session = signIn(t, a, "dev", password)
		everywhere("")
	})
}

// TestASuspensionLeavesAnAdministrator: neither a suspension nor what comes after it takes the last platform administrator away.
func TestASuspensionLeavesAnAdministrator(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, _ := withTenant(t, db)
		if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
			t.Fatal(err)
		}
		newUser(t, i, "root", nil, RolePlatformAdmin)
		users, err := i.ListUsers(t.Context(), "demo")
		if err != nil || len(users) != 1 {
			t.Fatal(users, err)
		}
		by := Administrator{ID: "x", Platform: true}
		if _, err := i.DisableUser(t.Context(), by, "demo", users[0].ID); err != nil {
			t.Fatal(err)
		}
		_, _, err = i.SuspendTenant(t.Context(), "acme", "x", "unpaid")
		wantCode(t, err, fault.CodeConflict)
		if _, err := i.EnableUser(t.Context(), by, "demo", users[0].ID); err != nil {
			t.Fatal(err)
		}
		if _, _, err = i.SuspendTenant(t.Context(), "acme", "x", "unpaid"); err != nil {
			t.Fatal(err)
		}
		_, err = i.DisableUser(t.Context(), by, "demo", users[0].ID)
		wantCode(t, err, fault.CodeConflict)
	})
}

// TestLimitsOfTenants: what an administrator sets reaches every caller of the tenant, on every replica, and survives what else changes.
func TestLimitsOfTenants(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, _ := withTenant(t, db)
		b, _ := replica(t, db)
		newUser(t, a, "dev", nil, RoleDeveloper)
		session := signIn(t, a, "dev", password)
		_, credential, err := a.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "k"})
		if err != nil {
			t.Fatal(err)
		}
		want := func(l Limits) {
			t.Helper()
			poll(t, b)
			for _, i := range []*Identity{a, b} {
				for c, plane := range map[string]Plane{credential: DataPlane, session.Access: AdminPlane} {
					if p, err := i.Authenticate(t.Context(), plane, c, ""); err != nil || !slices.Equal(p.Above, []Level{{LevelTenant, "acme", l}, {LevelOrganisation, DefaultOrganisation, Limits{}}}) {
						t.Errorf("%+v, %v, want %+v", p.Above, err, l)
					}
				}
			}
		}
		want(Limits{})
		limits := Limits{RequestsPerMinute: 60, TokensPerMinute: 9000, Concurrent: 3}
		if _, _, err := a.ChangeTenant(t.Context(), "acme", LevelChange{Limits: &limits}); err != nil {
			t.Fatal(err)
		}
		want(limits)
		name := "艾可米"
		_, got, err := b.ChangeTenant(t.Context(), "acme", LevelChange{Name: &name})
		if err != nil || got.Name != name || got.Limits != limits {
			t.Errorf("%+v, %v", got, err)
		}
		for _, bad := range []Limits{{RequestsPerMinute: -1}, {TokensPerMinute: -1}, {Concurrent: -1}, {TokensPerMinute: 3_000_000_000}} {
			_, _, err := a.ChangeTenant(t.Context(), "acme", LevelChange{Limits: &bad})
			wantCode(t, err, fault.CodeInvalidValue)
			wantCode(t, a.CreateTenant(t.Context(), Tenant{ID: "third", Name: "Third", Limits: bad}), fault.CodeInvalidValue)
		}
		empty := ""
		_, _, err = a.ChangeTenant(t.Context(), "acme", LevelChange{Name: &empty})
		wantCode(t, err, fault.CodeMissing)
		poll(t, a)
		want(limits)
		if of, above := a.Above("acme"); of != DefaultOrganisation || len(above) != 2 || above[0].Limits != limits {
			t.Errorf("%q, %+v", of, above)
		}
		if of, above := a.Above("demo"); of != "" || len(above) != 0 {
			t.Errorf("of a tenant that is not there: %q, %+v", of, above)
		}
	})
}
