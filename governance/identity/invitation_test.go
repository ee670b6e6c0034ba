package identity

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func anybody(Principal, string) error { return nil }

// invited makes an invitation by somebody who may.
func invited(t *testing.T, i *Identity, by User, name string, roles ...string) (Invitation, string) {
	t.Helper()
	made, token, err := i.Invite(t.Context(), Administrator{ID: by.ID}, NewInvitation{Tenant: "acme", Name: name, Roles: roles, Labels: []string{"hr"}})
	if err != nil {
		t.Fatal(err)
	}
	return made, token
}

// TestInvitation: it is accepted once, over all replicas, within its time, and makes an account of its inviter's.
func TestInvitation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, clockA := withTenant(t, db)
		b, clockB := replica(t, db)
		boss := newUser(t, a, "boss", nil, RoleSecurityAdmin)
		made, token := invited(t, a, boss, "Wang.Fang ", RoleDeveloper)
		if made.Name != "wang.fang" || !made.ExpiresAt.Equal(clockA.now().Add(72*time.Hour)) {
			t.Errorf("%+v", made)
		}
		if _, err := a.Login(t.Context(), "wang.fang", password, "", "test"); !fault.Is(err, fault.CodeInvalidLogin) {
			t.Errorf("there is an account before the invitation is accepted: %v", err)
		}
		_, _, err := a.Invite(t.Context(), Administrator{ID: boss.ID}, NewInvitation{Tenant: "acme", Name: "wang.fang", Roles: []string{RoleAuditor}})
		wantCode(t, err, fault.CodeExists)
		_, err = b.Accept(t.Context(), token, "short", "192.0.2.1", anybody)
		wantCode(t, err, fault.CodeInvalidValue)
		u, err := b.Accept(t.Context(), token, password, "192.0.2.1", anybody)
		if err != nil || u.CreatedBy != boss.ID || fmt.Sprint(u.Roles, u.Labels) != "[developer] [hr]" || u.MustChange {
			t.Fatalf("%+v, %v", u, err)
		}
		if creator, err := Creator(db, u.ID); err != nil || creator != boss.ID {
			t.Errorf("%s, %v", creator, err)
		}
		if gave, err := Granted(db, u.ID, boss.ID, clockB.now().Add(-time.Minute)); err != nil || !gave {
			t.Errorf("whoever invites gives the roles: %v, %v", gave, err)
		}
		for _, i := range []*Identity{a, b} {
			_, err = i.Accept(t.Context(), token, another, "192.0.2.1", anybody)
			wantCode(t, err, fault.CodeInvitation)
		}
		poll(t, a)
		signIn(t, a, "wang.fang", password)

		_, late := invited(t, a, boss, "late", RoleDeveloper)
		clockA.advance(72 * time.Hour)
		_, err = a.Accept(t.Context(), late, password, "192.0.2.1", anybody)
		wantCode(t, err, fault.CodeInvitation)
		gone, withdrawn := invited(t, a, boss, "late", RoleDeveloper) // the name is free again
		if _, err := a.WithdrawInvitation(t.Context(), Administrator{ID: boss.ID}, "other", gone.ID); !fault.Is(err, fault.CodeNotFound) {
			t.Error(err)
		}
		for range 2 {
			if _, err := a.WithdrawInvitation(t.Context(), Administrator{ID: boss.ID}, "acme", gone.ID); err != nil {
				t.Fatal(err)
			}
		}
		_, err = a.Accept(t.Context(), withdrawn, password, "192.0.2.1", anybody)
		wantCode(t, err, fault.CodeInvitation)
		var kept []map[string]any
		if err := db.Table("identity_invitations").Find(&kept).Error; err != nil || len(kept) != 3 {
			t.Fatalf("%v, %v", kept, err)
		}
		for _, secret := range []string{token, late, withdrawn} {
			if strings.Contains(fmt.Sprint(kept), secret[len(invitationHead):]) {
				t.Error("a token is stored in clear")
			}
		}
	})
}

// TestInvitersMustStillMay: what the inviter loses, his invitations lose.
func TestInvitersMustStillMay(t *testing.T) {
	i, c := withTenant(t, dbtest.SQLite(t))
	boss := newUser(t, i, "boss", nil, RoleSecurityAdmin)
	by := Administrator{ID: "admin", Platform: true}
	_, token := invited(t, i, boss, "new", RoleDeveloper)
	accept := func(may MayInvite) error {
		_, err := i.Accept(t.Context(), token, password, "192.0.2.1", may)
		return err
	}
	asked := Principal{}
	wantCode(t, accept(func(p Principal, tenant string) error {
		asked = p
		if tenant != "acme" {
			t.Error(tenant)
		}
		return errors.New("no")
	}), fault.CodeInvitation)
	if asked.ID != boss.ID || asked.Kind != "user" || fmt.Sprint(asked.Roles) != "[security_admin]" {
		t.Errorf("%+v", asked)
	}
	if _, err := i.DisableUser(t.Context(), by, "acme", boss.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, accept(anybody), fault.CodeInvitation)
	if _, err := i.EnableUser(t.Context(), by, "acme", boss.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.ResetPassword(t.Context(), by, "acme", boss.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, accept(anybody), fault.CodeInvitation)
	if _, _, err := i.SuspendTenant(t.Context(), "acme", "admin", "unpaid"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, accept(anybody), fault.CodeTenantSuspended)

	// Only a platform administrator invites one, and only as long as he is one.
	_, _, err := i.Invite(t.Context(), Administrator{ID: boss.ID}, NewInvitation{Tenant: "acme", Name: "root", Roles: []string{RolePlatformAdmin}})
	wantCode(t, err, fault.CodeRoleAbove)
	for _, bad := range []NewInvitation{
		{Tenant: "acme", Name: "x", Roles: []string{RoleAuditor, RoleSystemAdmin}},
		{Tenant: "acme", Name: "x", Roles: []string{RoleApplication}},
		{Tenant: "acme", Name: "", Roles: []string{RoleDeveloper}},
		{Tenant: "nowhere", Name: "x", Roles: []string{RoleDeveloper}},
		{Tenant: "acme", Name: "boss", Roles: []string{RoleDeveloper}},
	} {
		if _, _, err := i.Invite(t.Context(), by, bad); err == nil {
			t.Errorf("%+v", bad)
		}
	}
	c.advance(time.Hour)
}

// TestGuessesOfInvitations are slowed by network, and those from one do not keep people elsewhere out.
func TestGuessesOfInvitations(t *testing.T) {
	i, _ := withTenant(t, dbtest.SQLite(t))
	boss := newUser(t, i, "boss", nil, RoleSecurityAdmin)
	_, token := invited(t, i, boss, "new", RoleDeveloper)
	for n := range 20 {
		_, err := i.Invited(t.Context(), fmt.Sprintf("%s%043d", invitationHead, n), "203.0.113.1")
		if want := fault.CodeInvitation; n < freePerPair {
			wantCode(t, err, want)
		} else {
			wantCode(t, err, fault.CodeLoginThrottled)
		}
	}
	_, err := i.Invited(t.Context(), token, "203.0.113.1")
	wantCode(t, err, fault.CodeLoginThrottled)
	if _, err := i.Invited(t.Context(), token, "192.0.2.1"); err != nil {
		t.Error(err)
	}
}

// TestInvitationsWhenTheDatabaseFails: an error before the commit leaves everything as it was.
func TestInvitationsWhenTheDatabaseFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		f := &dbtest.Faults{}
		i, _ := withTenant(t, f.Over(db))
		boss := newUser(t, i, "boss", nil, RoleSecurityAdmin)
		made, token := invited(t, i, boss, "new", RoleDeveloper)
		failEachWrite(t, f, "invite", func() error {
			_, _, err := i.Invite(t.Context(), Administrator{ID: boss.ID}, NewInvitation{Tenant: "acme", Name: "other", Roles: []string{RoleDeveloper}})
			return err
		})
		failEachWrite(t, f, "withdraw", func() error {
			_, err := i.WithdrawInvitation(t.Context(), Administrator{ID: boss.ID}, "acme", made.ID)
			return err
		})
		failEachWrite(t, f, "accept", func() error { _, err := i.Accept(t.Context(), token, password, "192.0.2.1", anybody); return err })
		list, err := i.ListInvitations(t.Context(), "acme")
		users, err2 := i.ListUsers(t.Context(), "acme")
		if err != nil || err2 != nil || len(list) != 1 || !list[0].AcceptedAt.IsZero() || !list[0].WithdrawnAt.IsZero() || len(users) != 1 {
			t.Errorf("%+v, %+v, %v, %v", list, users, err, err2)
		}
		if _, err := i.Accept(t.Context(), token, password, "192.0.2.1", anybody); err != nil {
			t.Error(err)
		}
	})
}
