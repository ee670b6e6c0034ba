package identity

import (
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestClosedTenants: a tenant that is closed can neither be changed nor moved nor resumed, and gets no account, key or project, also from who was invited before.
func TestClosedTenants(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		ctx := t.Context()
		i := withGroup(t, db)
		boss := newUser(t, i, "boss", nil, RoleSecurityAdmin)
		must(t, i.CreateProject(ctx, Project{Tenant: "acme", ID: "shop", Name: "Shop"}))
		_, shop, err := i.SuspendProject(ctx, "acme", "shop", "u1", "a leak")
		must(t, err)
		_, token, err := i.Invite(ctx, Administrator{ID: boss.ID}, NewInvitation{Tenant: "acme", Name: "wang.fang", Roles: []string{RoleDeveloper}})
		must(t, err)
		_, was, err := i.SuspendTenant(ctx, "acme", "u1", "it has left")
		must(t, err)
		wantCode(t, CloseTenant(db, "demo", was.Suspension.Since, i.now()), fault.CodeConflict)
		wantCode(t, CloseTenant(db, "court", was.Suspension.Since, i.now()), fault.CodeConflict)
		must(t, CloseTenant(db, "acme", was.Suspension.Since, i.now()))
		must(t, i.Load(ctx))

		name := "Other"
		for what, act := range map[string]func() error{
			"change":          func() error { _, _, err := i.ChangeTenant(ctx, "acme", LevelChange{Name: &name}); return err },
			"move":            func() error { _, _, err := i.MoveTenant(ctx, "acme", DefaultOrganisation); return err },
			"suspend":         func() error { _, _, err := i.SuspendTenant(ctx, "acme", "u1", "again"); return err },
			"resume":          func() error { _, _, err := i.ResumeTenant(ctx, "acme", was.Suspension.Since); return err },
			"new project":     func() error { return i.CreateProject(ctx, Project{Tenant: "acme", ID: "new", Name: "New"}) },
			"change project":  func() error { _, _, err := i.ChangeProject(ctx, "acme", "shop", LevelChange{Name: &name}); return err },
			"suspend project": func() error { _, _, err := i.SuspendProject(ctx, "acme", "shop", "u1", "again"); return err },
			"resume project":  func() error { _, _, err := i.ResumeProject(ctx, "acme", "shop", shop.Suspension.Since); return err },
			"new user": func() error {
				_, err := i.CreateUser(ctx, NewUser{Tenant: "acme", Name: "new", Password: password, Roles: []string{RoleDeveloper}})
				return err
			},
			"new key": func() error { _, _, err := i.CreateKey(ctx, NewKey{Tenant: "acme", Name: "new"}); return err },
			"new service account": func() error {
				_, _, err := i.CreateServiceAccount(ctx, NewServiceAccount{Tenant: "acme", Name: "new", Roles: []string{RoleApplication}, Owner: boss.ID, CreatedBy: boss.ID})
				return err
			},
			"new invitation": func() error {
				_, _, err := i.Invite(ctx, Administrator{ID: boss.ID}, NewInvitation{Tenant: "acme", Name: "new", Roles: []string{RoleDeveloper}})
				return err
			},
			"its use": func() error { return i.RequireOpen("acme") },
		} {
			if err := act(); !fault.Is(err, fault.CodeConflict) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = i.Accept(ctx, token, password, "192.0.2.1", anybody)
		wantCode(t, err, fault.CodeTenantSuspended)
		must(t, i.RequireOpen("court"))
		now, err := i.FindTenant(ctx, "acme")
		if err != nil || now.ClosedAt.IsZero() || now.Organisation != "group" || now.Name == name || now.Suspension != was.Suspension {
			t.Errorf("%+v, %v", now, err)
		}
		moved, err := i.ListProjects(ctx, "acme")
		if err != nil || len(moved) != 1 || moved[0].Suspension != shop.Suspension {
			t.Errorf("%+v, %v", moved, err)
		}
	})
}
