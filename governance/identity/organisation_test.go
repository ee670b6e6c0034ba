package identity

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// withGroup returns identities with the organisation group, to which the tenants acme and court belong; demo runs the installation.
func withGroup(t *testing.T, db *gorm.DB) *Identity {
	t.Helper()
	i, _ := withTenant(t, db)
	_, err := i.EnsureAdmin(t.Context(), "demo", "admin", password)
	must(t, err)
	must(t, i.CreateOrganisation(t.Context(), Organisation{ID: "group", Name: "Group", Labels: map[string]string{"cost_center": "4711"}}))
	_, _, err = i.MoveTenant(t.Context(), "acme", "group")
	must(t, err)
	must(t, i.CreateTenant(t.Context(), Tenant{ID: "court", Name: "Court", Organisation: "group"}))
	return i
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keyOf(t *testing.T, i *Identity, tenant, project string) string {
	t.Helper()
	_, credential, err := i.CreateKey(t.Context(), NewKey{Tenant: tenant, Project: project, Name: "k"})
	must(t, err)
	return credential
}

// TestSuspendedOrganisations: the keys, sessions and sign-ins of all tenants of a suspended organisation are refused, at once here and with the next
// poll elsewhere, and of no other; no tenant leaves or joins it meanwhile; a resumption lifts its own suspension and no other.
func TestSuspendedOrganisations(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a := withGroup(t, db)
		b, _ := replica(t, db)
		newUser(t, a, "dev", nil, RoleDeveloper)
		session := signIn(t, a, "dev", password)
		inside := map[string]Plane{keyOf(t, a, "acme", ""): DataPlane, keyOf(t, a, "court", ""): DataPlane, session.Access: AdminPlane}
		outside := keyOf(t, a, "demo", "")
		everywhere := func(code fault.Code) {
			t.Helper()
			poll(t, b)
			for _, i := range []*Identity{a, b} {
				for credential, plane := range inside {
					p, err := i.Authenticate(t.Context(), plane, credential, "")
					if code == "" && err != nil || code != "" && !fault.Is(err, code) || p.ID == "" || p.Organisation != "group" {
						t.Errorf("%+v, %v, want %q", p, err, code)
					}
				}
				if p, err := i.Authenticate(t.Context(), DataPlane, outside, ""); err != nil || p.Organisation != DefaultOrganisation {
					t.Errorf("another organisation: %+v, %v", p, err)
				}
				if _, err := i.Login(t.Context(), "dev", password, "", "10.0.0.1"); code == "" && err != nil || code != "" && !fault.Is(err, code) {
					t.Errorf("sign-in: %v, want %q", err, code)
				}
			}
		}
		everywhere("")
		_, _, err := a.SuspendOrganisation(t.Context(), "group", "operator", " ")
		wantCode(t, err, fault.CodeMissing)
		_, _, err = a.SuspendOrganisation(t.Context(), "nobody", "operator", "unpaid")
		wantCode(t, err, fault.CodeNotFound)
		_, _, err = a.SuspendOrganisation(t.Context(), DefaultOrganisation, "operator", "unpaid")
		wantCode(t, err, fault.CodeConflict)
		everywhere("")

		_, first, err := a.SuspendOrganisation(t.Context(), "group", "operator", "unpaid")
		if err != nil || first.Suspension.Reason != "unpaid" || first.Suspension.By != "operator" || first.Operator {
			t.Fatalf("%+v, %v", first, err)
		}
		everywhere(fault.CodeOrganisationSuspended)
		_, err = a.Refresh(t.Context(), session.Refresh)
		wantCode(t, err, fault.CodeInvalidSession)
		if _, again, err := b.SuspendOrganisation(t.Context(), "group", "somebody", "another reason"); err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("%+v, %v", again, err)
		}
		_, _, err = a.MoveTenant(t.Context(), "acme", DefaultOrganisation) // which would let it in without a second person
		wantCode(t, err, fault.CodeConflict)
		_, _, err = a.MoveTenant(t.Context(), "demo", "group")
		wantCode(t, err, fault.CodeConflict)
		wantCode(t, a.CreateTenant(t.Context(), Tenant{ID: "third", Name: "Third", Organisation: "group"}), fault.CodeConflict)
		everywhere(fault.CodeOrganisationSuspended)

		_, _, err = b.ResumeOrganisation(t.Context(), "group", first.Suspension.Since.Add(-time.Microsecond))
		wantCode(t, err, fault.CodeConflict)
		was, now, err := b.ResumeOrganisation(t.Context(), "group", first.Suspension.Since)
		if err != nil || was.Suspension != first.Suspension || now.Suspension != (Suspension{}) {
			t.Errorf("%+v, %+v, %v", was, now, err)
		}
		_, _, err = b.ResumeOrganisation(t.Context(), "group", first.Suspension.Since)
		wantCode(t, err, fault.CodeConflict)
		poll(t, a)
		delete(inside, session.Access) // who got in before the suspension is not in again
		everywhere("")
	})
}

// TestAnOrganisationLeavesAnAdministrator: the suspension of an organisation does not take the last platform administrator away, and neither does
// what comes after it.
func TestAnOrganisationLeavesAnAdministrator(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i := withGroup(t, db)
		newUser(t, i, "root", nil, RolePlatformAdmin)
		users, err := i.ListUsers(t.Context(), "demo")
		must(t, err)
		by := Administrator{ID: "x", Platform: true}
		_, err = i.DisableUser(t.Context(), by, "demo", users[0].ID)
		must(t, err)
		_, _, err = i.SuspendOrganisation(t.Context(), "group", "x", "unpaid")
		wantCode(t, err, fault.CodeConflict)
		_, err = i.EnableUser(t.Context(), by, "demo", users[0].ID)
		must(t, err)
		_, _, err = i.SuspendOrganisation(t.Context(), "group", "x", "unpaid")
		must(t, err)
		_, err = i.DisableUser(t.Context(), by, "demo", users[0].ID)
		wantCode(t, err, fault.CodeConflict)
	})
}

// TestOrganisationsHaveTenants: what is set of an organisation reaches the callers of its tenants, also of one that is moved into it, on every replica.
func TestOrganisationsHaveTenants(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a := withGroup(t, db)
		b, _ := replica(t, db)
		limits, name, labels := Limits{TokensPerMinute: 900}, "集团", map[string]string{"system": "core", "cost_center": "8"}
		before, after, err := a.ChangeOrganisation(t.Context(), "group", LevelChange{Name: &name, Labels: &labels, Limits: &limits})
		if err != nil || before.Labels["cost_center"] != "4711" || after.Name != name || !maps.Equal(after.Labels, labels) || after.Limits != limits {
			t.Errorf("%+v, %+v, %v", before, after, err)
		}
		credential := keyOf(t, a, "acme", "")
		stands := func(organisation string, l Limits) {
			t.Helper()
			poll(t, b)
			p, err := b.Authenticate(t.Context(), DataPlane, credential, "")
			if err != nil || p.Organisation != organisation || !reflect.DeepEqual(p.Above, []Level{{LevelTenant, "acme", Limits{}}, {LevelOrganisation, organisation, l}}) {
				t.Errorf("%+v, %v", p, err)
			}
			if b.OrganisationOf("acme") != organisation {
				t.Errorf("of %q, want %q", b.OrganisationOf("acme"), organisation)
			}
		}
		stands("group", limits)
		was, is, err := a.MoveTenant(t.Context(), "acme", DefaultOrganisation)
		if err != nil || was.Organisation != "group" || is.Organisation != DefaultOrganisation {
			t.Errorf("%+v, %+v, %v", was, is, err)
		}
		stands(DefaultOrganisation, Limits{})
		_, _, err = a.MoveTenant(t.Context(), "acme", "nobody")
		wantCode(t, err, fault.CodeNotFound)
		_, _, err = a.MoveTenant(t.Context(), "nobody", "group")
		wantCode(t, err, fault.CodeNotFound)
		wantCode(t, a.CreateTenant(t.Context(), Tenant{ID: "third", Name: "Third", Organisation: "nobody"}), fault.CodeNotFound)
		wantCode(t, a.CreateOrganisation(t.Context(), Organisation{ID: "group", Name: "Again"}), fault.CodeExists)
		wantCode(t, a.CreateOrganisation(t.Context(), Organisation{ID: "org:x", Name: "X"}), fault.CodeInvalidValue)
		all, err := b.ListOrganisations(t.Context())
		if err != nil || len(all) != 2 || all[0].ID != DefaultOrganisation || !all[0].Operator || all[1].ID != "group" || all[1].Operator {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// TestLabelsOfLevels: labels are few, named like ids, and lines.
func TestLabelsOfLevels(t *testing.T) {
	i := withGroup(t, dbtest.SQLite(t))
	many := map[string]string{}
	for n := range maxLabels + 1 {
		many[fmt.Sprint("l", n)] = "x"
	}
	for name, labels := range map[string]map[string]string{
		"many": many, "a name": {"Cost Center": "1"}, "no name": {"": "1"}, "two lines": {"a": "b\nc"}, "long": {"a": strings.Repeat("长", 129)}, "empty": {"a": ""},
	} {
		_, _, err := i.ChangeTenant(t.Context(), "acme", LevelChange{Labels: &labels})
		if k := fault.KindOf(err); k != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := map[string]string{}
	if _, o, err := i.ChangeOrganisation(t.Context(), "group", LevelChange{Labels: &none}); err != nil || len(o.Labels) != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestProjectsHaveKeys: a key names a project of its tenant, whose limits it stands on and whose suspension refuses it, and no other tenant's; what
// the release before made without a row bounds nothing.
func TestProjectsHaveKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a := withGroup(t, db)
		b, _ := replica(t, db)
		limits := Limits{Concurrent: 3}
		must(t, a.CreateProject(t.Context(), Project{Tenant: "acme", ID: "shop", Name: "Shop", Limits: limits, Labels: map[string]string{"system": "erp"}}))
		must(t, a.CreateProject(t.Context(), Project{Tenant: "court", ID: "files", Name: "Files"}))
		wantCode(t, a.CreateProject(t.Context(), Project{Tenant: "acme", ID: "shop", Name: "Again"}), fault.CodeExists)
		wantCode(t, a.CreateProject(t.Context(), Project{Tenant: "nobody", ID: "shop", Name: "Shop"}), fault.CodeNotFound)
		wantCode(t, a.CreateProject(t.Context(), Project{Tenant: "acme", ID: "a/b", Name: "Shop"}), fault.CodeInvalidValue)
		for _, unknown := range []string{"files", "nothing"} { // one of another tenant is none
			_, _, err := a.CreateKey(t.Context(), NewKey{Tenant: "acme", Project: unknown, Name: "k"})
			wantCode(t, err, fault.CodeNotFound)
			_, err = a.Project(t.Context(), "acme", unknown)
			wantCode(t, err, fault.CodeNotFound)
			_, _, err = a.SuspendProject(t.Context(), "acme", unknown, "x", "why")
			wantCode(t, err, fault.CodeNotFound)
		}
		key, credential, err := a.CreateKey(t.Context(), NewKey{Tenant: "acme", Project: "shop", Name: "k"})
		must(t, err)
		free := keyOf(t, a, "acme", "")
		everywhere := func(code fault.Code) {
			t.Helper()
			poll(t, b)
			for _, i := range []*Identity{a, b} {
				p, err := i.Authenticate(t.Context(), DataPlane, credential, "")
				if code == "" && err != nil || code != "" && !fault.Is(err, code) || p.Project != "shop" || len(p.Above) != 3 || p.Above[0] != (Level{LevelProject, "shop", limits}) {
					t.Errorf("%+v, %v, want %q", p, err, code)
				}
				if _, err := i.Authenticate(t.Context(), DataPlane, free, ""); err != nil {
					t.Errorf("a key of no project: %v", err)
				}
				if k, err := i.Key(t.Context(), "acme", key.ID); err != nil || k.Suspended != (code != "") {
					t.Errorf("%+v, %v", k, err)
				}
			}
		}
		everywhere("")
		_, first, err := a.SuspendProject(t.Context(), "acme", "shop", "x", "leak")
		must(t, err)
		everywhere(fault.CodeProjectSuspended)
		_, _, err = a.CreateKey(t.Context(), NewKey{Tenant: "acme", Project: "shop", Name: "k"})
		wantCode(t, err, fault.CodeConflict)
		name := "renamed"
		if _, _, err := a.ChangeKey(t.Context(), "acme", key.ID, KeyChange{Name: &name}); err != nil {
			t.Errorf("what else a key of it has may change: %v", err)
		}
		_, _, err = b.ResumeProject(t.Context(), "acme", "shop", first.Suspension.Since.Add(time.Microsecond))
		wantCode(t, err, fault.CodeConflict)
		_, _, err = b.ResumeProject(t.Context(), "acme", "shop", first.Suspension.Since)
		must(t, err)
		poll(t, a)
		everywhere("")
		limits = Limits{RequestsPerMinute: 8}
		_, _, err = a.ChangeProject(t.Context(), "acme", "shop", LevelChange{Limits: &limits})
		must(t, err)
		everywhere("")

		must(t, db.Exec("UPDATE identity_keys SET project = 'text' WHERE id = ?", key.ID).Error)
		must(t, a.Load(t.Context()))
		if p, err := a.Authenticate(t.Context(), DataPlane, credential, ""); err != nil || p.Project != "text" || len(p.Above) != 2 {
			t.Errorf("%+v, %v", p, err)
		}
		mine, err := b.ListProjects(t.Context(), "acme")
		all, err2 := b.ListProjects(t.Context(), AllTenants)
		if err != nil || err2 != nil || len(mine) != 1 || len(all) != 2 || mine[0].Labels["system"] != "erp" {
			t.Errorf("%+v, %+v, %v, %v", mine, all, err, err2)
		}
	})
}

// TestOwnersKeepTheProject: the owner of a key does not take it from the policy, the limits and the budgets of its project.
func TestOwnersKeepTheProject(t *testing.T) {
	i := withGroup(t, dbtest.SQLite(t))
	must(t, i.CreateProject(t.Context(), Project{Tenant: "acme", ID: "shop", Name: "Shop"}))
	dev := newUser(t, i, "dev", nil, RoleDeveloper)
	key, _, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Project: "shop", Name: "k", Owner: dev.ID, CreatedBy: dev.ID})
	must(t, err)
	none := ""
	_, _, err = i.ChangeKey(t.Context(), "acme", key.ID, KeyChange{Project: &none, ByOwner: true})
	wantCode(t, err, fault.CodeInvalidValue)
	if _, after, err := i.ChangeKey(t.Context(), "acme", key.ID, KeyChange{Project: &none}); err != nil || after.Project != "" {
		t.Errorf("an administrator: %+v, %v", after, err)
	}
}

// TestLevelsSurviveFaults: whatever write fails, an act on a level is done whole or not at all, and the caller learns of it.
func TestLevelsSurviveFaults(t *testing.T) {
	acts := []struct {
		name string
		do   func(i *Identity, since time.Time) error
	}{
		{"create organisation", func(i *Identity, _ time.Time) error {
			return i.CreateOrganisation(t.Context(), Organisation{ID: "new", Name: "New"})
		}},
		{"create tenant", func(i *Identity, _ time.Time) error {
			return i.CreateTenant(t.Context(), Tenant{ID: "new", Name: "New", Organisation: "group"})
		}},
		{"create project", func(i *Identity, _ time.Time) error {
			return i.CreateProject(t.Context(), Project{Tenant: "acme", ID: "new", Name: "New"})
		}},
		{"change organisation", func(i *Identity, _ time.Time) error {
			_, _, err := i.ChangeOrganisation(t.Context(), "group", LevelChange{Labels: &map[string]string{"a": "b"}})
			return err
		}},
		{"move tenant", func(i *Identity, _ time.Time) error {
			_, _, err := i.MoveTenant(t.Context(), "court", DefaultOrganisation)
			return err
		}},
		{"suspend organisation", func(i *Identity, _ time.Time) error {
			_, _, err := i.SuspendOrganisation(t.Context(), "group", "x", "why")
			return err
		}},
		{"suspend project", func(i *Identity, _ time.Time) error {
			_, _, err := i.SuspendProject(t.Context(), "acme", "shop", "x", "why")
			return err
		}},
		{"resume organisation", func(i *Identity, since time.Time) error {
			_, _, err := i.ResumeOrganisation(t.Context(), "closed", since)
			return err
		}},
		{"resume project", func(i *Identity, since time.Time) error {
			_, _, err := i.ResumeProject(t.Context(), "acme", "closed", since)
			return err
		}},
	}
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i := withGroup(t, db)
		newUser(t, i, "dev", nil, RoleDeveloper)
		session := signIn(t, i, "dev", password)
		must(t, i.CreateProject(t.Context(), Project{Tenant: "acme", ID: "shop", Name: "Shop"}))
		must(t, i.CreateProject(t.Context(), Project{Tenant: "acme", ID: "closed", Name: "Closed"}))
		must(t, i.CreateOrganisation(t.Context(), Organisation{ID: "closed", Name: "Closed"}))
		_, o, err := i.SuspendOrganisation(t.Context(), "closed", "x", "why")
		must(t, err)
		_, _, err = i.SuspendProject(t.Context(), "acme", "closed", "x", "why")
		must(t, err)
		var faults dbtest.Faults
		faulty, _ := New(Config{}, Limits{}, faults.Over(db), ring(), slog.New(slog.DiscardHandler), nil)
		faulty.now = i.now
		for _, act := range acts {
			for n := 1; ; n++ { // the n-th write
				before, seen := levelState(t, db), 0
				faults.Set(func(op string) dbtest.Outcome {
					if op == "begin" || strings.HasPrefix(op, "SELECT") {
						return dbtest.Healthy
					}
					if seen++; seen == n {
						return dbtest.FailsBefore
					}
					return dbtest.Healthy
				})
				err := act.do(faulty, o.Suspension.Since)
				faults.Set(nil)
				if seen < n {
					must(t, err)
					if n < 4 || levelState(t, db) == before { // the counter, the row, the commit
						t.Errorf("%s: %d writes", act.name, n-1)
					}
					break
				}
				if err == nil || levelState(t, db) != before {
					t.Errorf("%s: write %d failed, with %v: half of it is there", act.name, n, err)
				}
			}
		}
		_, err = i.Refresh(t.Context(), session.Refresh)
		wantCode(t, err, fault.CodeInvalidSession) // the suspension has ended it
	})
}

// levelState is all that acts on levels change.
func levelState(t *testing.T, db *gorm.DB) string {
	t.Helper()
	var out []string
	for _, q := range []string{
		"SELECT id || name || labels || suspended_at || requests_per_minute FROM identity_organisations ORDER BY id",
		"SELECT id || name || labels || organisation || suspended_at FROM identity_tenants ORDER BY id",
		"SELECT tenant || id || name || labels || suspended_at FROM identity_projects ORDER BY tenant, id",
		"SELECT digest || revoked_at FROM identity_sessions ORDER BY digest",
		"SELECT CAST(version AS TEXT) FROM identity_changes",
	} {
		var rows []string
		must(t, db.Raw(q).Scan(&rows).Error)
		out = append(out, rows...)
	}
	return strings.Join(out, "\n")
}
