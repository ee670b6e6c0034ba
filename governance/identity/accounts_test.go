package identity

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func newUser(t *testing.T, i *Identity, name string, labels []string, roles ...string) User {
	t.Helper()
	u, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: name, Password: password, Roles: roles, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func signIn(t *testing.T, i *Identity, name, password string) Session {
	t.Helper()
	s, err := i.Login(t.Context(), name, password, "", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func poll(t *testing.T, i *Identity) {
	t.Helper()
	if err := i.accounts.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const another = "another long password"

func TestChangePassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		newUser(t, a, "dev", nil, RoleDeveloper)
		mine, elsewhere := signIn(t, a, "dev", password), signIn(t, a, "dev", password)
		for name, bad := range map[string]struct {
			current, next string
			code          fault.Code
		}{
			"wrong":    {"not the password", another, fault.CodeWrongPassword},
			"long":     {strings.Repeat("x", 300), another, fault.CodeWrongPassword},
			"short":    {password, "short", fault.CodeInvalidValue},
			"the same": {password, password, fault.CodeInvalidValue},
		} {
			_, err := a.ChangePassword(t.Context(), mine.Principal, bad.current, bad.next, "10.0.0.1")
			if wantCode(t, err, bad.code); err != nil && (strings.Contains(err.Error(), bad.current) || strings.Contains(err.Error(), bad.next)) {
				t.Errorf("%s: the error repeats a password: %v", name, err)
			}
		}
		c.advance(time.Minute)
		renewed, err := a.ChangePassword(t.Context(), mine.Principal, password, another, "10.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		poll(t, b)
		for _, i := range []*Identity{a, b} {
			for _, ended := range []Session{mine, elsewhere} {
				_, err := i.Authenticate(t.Context(), AdminPlane, ended.Access, "198.51.100.7")
				wantCode(t, err, fault.CodeInvalidSession)
				_, err = i.Refresh(t.Context(), ended.Refresh)
				wantCode(t, err, fault.CodeInvalidSession)
			}
		}
		p, err := a.Authenticate(t.Context(), AdminPlane, renewed.Access, "198.51.100.7")
		if err != nil || !p.SignedIn.Equal(c.now()) {
			t.Errorf("%+v, %v", p, err)
		}
		if _, err := a.Refresh(t.Context(), renewed.Refresh); err != nil {
			t.Error(err)
		}
		_, err = a.Login(t.Context(), "dev", password, "", "")
		wantCode(t, err, fault.CodeInvalidLogin)
		signIn(t, a, "dev", another)
		_, err = a.ChangePassword(t.Context(), Principal{Kind: "key", Name: "dev"}, another, password, "")
		wantCode(t, err, fault.CodeInvalidSession)
	})
}

// TestPasswordGuessesAreThrottled: guessing the current one is guessing at the door, and both count together.
func TestPasswordGuessesAreThrottled(t *testing.T) {
	i, _ := withTenant(t, dbtest.SQLite(t))
	newUser(t, i, "dev", nil, RoleDeveloper)
	p := signIn(t, i, "dev", password).Principal
	for range freePerPair {
		_, err := i.ChangePassword(t.Context(), p, "a wrong guess", another, "10.0.0.9")
		wantCode(t, err, fault.CodeWrongPassword)
	}
	_, err := i.ChangePassword(t.Context(), p, password, another, "10.0.0.9")
	wantCode(t, err, fault.CodeLoginThrottled)
	_, err = i.Login(t.Context(), "dev", password, "", "10.0.0.9")
	wantCode(t, err, fault.CodeLoginThrottled)
}

// TestPasswordChangeMeetsAReset: of a change and a reset at the same moment, what was checked against the older password loses.
func TestPasswordChangeMeetsAReset(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		u := newUser(t, i, "dev", nil, RoleDeveloper)
		checked, ok, err := i.checkLogin(t.Context(), "dev", password)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, _, err := i.ResetPassword(t.Context(), Administrator{ID: "admin"}, "acme", u.ID); err != nil {
			t.Fatal(err)
		}
		_, sum := i.newRefresh()
		err = i.store.renewPassword(t.Context(), checked, i.cfg.PasswordCost.hash(another), 0, i.signIn(checked, sum, "", c.now()), c.now().UnixMicro())
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = i.Login(t.Context(), "dev", another, "", "")
		wantCode(t, err, fault.CodeInvalidLogin)
	})
}

func TestResetPassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		u := newUser(t, a, "dev", nil, RoleDeveloper)
		old := signIn(t, a, "dev", password)
		got, once, err := a.ResetPassword(t.Context(), Administrator{ID: "admin"}, "acme", u.ID)
		if err != nil || !got.MustChange || len(once) != oneTimeSize {
			t.Fatalf("%+v, %v", got, err)
		}
		poll(t, b)
		for _, i := range []*Identity{a, b} {
			_, err = i.Authenticate(t.Context(), AdminPlane, old.Access, "198.51.100.7")
			wantCode(t, err, fault.CodeInvalidSession)
		}
		_, err = b.Login(t.Context(), "dev", password, "", "")
		wantCode(t, err, fault.CodeInvalidLogin)
		c.advance(time.Second)
		s := signIn(t, b, "dev", once)
		p, err := b.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
		if err != nil || !p.MustChange || !s.Principal.MustChange {
			t.Fatalf("%+v, %v", p, err)
		}
		_, err = b.ChangePassword(t.Context(), p, once, once, "")
		wantCode(t, err, fault.CodeInvalidValue)
		s, err = b.ChangePassword(t.Context(), p, once, another, "")
		if err != nil || s.Principal.MustChange {
			t.Fatalf("%+v, %v", s.Principal, err)
		}
		now, err := a.User(t.Context(), "acme", u.ID)
		if err != nil || now.MustChange || now.LastSignInAt.IsZero() {
			t.Errorf("%+v, %v", now, err)
		}
		_, _, err = a.ResetPassword(t.Context(), Administrator{ID: "admin"}, "other", u.ID)
		wantCode(t, err, fault.CodeNotFound)
		_, _, err = a.ResetPassword(t.Context(), Administrator{ID: u.ID}, "acme", u.ID)
		wantCode(t, err, fault.CodeConflict)
	})
}

func TestFirstPasswordMayBeForOnce(t *testing.T) {
	i, _ := withTenant(t, dbtest.SQLite(t))
	if _, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "new", Password: password, Roles: []string{RoleAuditor}, MustChange: true}); err != nil {
		t.Fatal(err)
	}
	if s := signIn(t, i, "new", password); !s.Principal.MustChange {
		t.Errorf("%+v", s.Principal)
	}
}

// TestRolesChangeAtOnce: a token of before opens nothing any more, and the sign-in goes on with the new roles.
func TestRolesChangeAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, _ := withTenant(t, db)
		b, _ := replica(t, db)
		u := newUser(t, a, "dev", []string{"public"}, RoleDeveloper)
		s := signIn(t, a, "dev", password)
		before, after, err := a.ChangeUser(t.Context(), Administrator{ID: "admin"}, "acme", u.ID, UserChange{Roles: &[]string{RoleAuditor}, Labels: &[]string{"secret"}})
		if err != nil || fmt.Sprint(before.Roles, before.Labels, after.Roles, after.Labels) != "[developer] [public] [auditor] [secret]" {
			t.Fatalf("%+v, %+v, %v", before, after, err)
		}
		poll(t, b)
		for _, i := range []*Identity{a, b} {
			_, err = i.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
			wantCode(t, err, fault.CodeInvalidSession)
		}
		if s, err = b.Refresh(t.Context(), s.Refresh); err != nil {
			t.Fatal(err)
		}
		if p, err := b.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7"); err != nil || fmt.Sprint(p.Roles, p.Labels) != "[auditor] [secret]" {
			t.Errorf("%+v, %v", p, err)
		}
		// Nothing to change: nobody has to get a new token for it.
		if _, _, err := a.ChangeUser(t.Context(), Administrator{ID: "admin"}, "acme", u.ID, UserChange{Roles: &[]string{RoleAuditor}}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7"); err != nil {
			t.Error(err)
		}
	})
}

func TestWhoMayChangeWhom(t *testing.T) {
	i, _ := withTenant(t, dbtest.SQLite(t))
	dev := newUser(t, i, "dev", nil, RoleDeveloper)
	root := newUser(t, i, "root", nil, RolePlatformAdmin)
	second := newUser(t, i, "second", nil, RolePlatformAdmin)
	officer, platform := Administrator{ID: "officer"}, Administrator{ID: root.ID, Platform: true}
	roles := func(by Administrator, id string, roles ...string) error {
		_, _, err := i.ChangeUser(t.Context(), by, "acme", id, UserChange{Roles: &roles})
		return err
	}
	wantCode(t, roles(officer, dev.ID, RolePlatformAdmin), fault.CodeRoleAbove)
	wantCode(t, roles(officer, root.ID, RoleDeveloper), fault.CodeRoleAbove)
	wantCode(t, roles(officer, officer.ID, RoleSecurityAdmin), fault.CodeConflict)
	wantCode(t, roles(platform, root.ID, RoleDeveloper), fault.CodeConflict)
	wantCode(t, roles(officer, dev.ID, RoleAuditor, RoleSecurityAdmin), fault.CodeConflictingRole)
	wantCode(t, roles(officer, dev.ID, RoleApplication), fault.CodeInvalidValue)
	wantCode(t, roles(officer, dev.ID), fault.CodeMissing)
	wantCode(t, roles(officer, "nobody", RoleAuditor), fault.CodeNotFound)
	_, _, err := i.ResetPassword(t.Context(), officer, "acme", root.ID)
	wantCode(t, err, fault.CodeRoleAbove)
	labels := []string{"secret"}
	_, _, err = i.ChangeUser(t.Context(), officer, "acme", root.ID, UserChange{Labels: &labels})
	wantCode(t, err, fault.CodeRoleAbove)
	_, err = i.DisableUser(t.Context(), officer, "acme", second.ID)
	wantCode(t, err, fault.CodeRoleAbove)
	if _, err := i.DisableUser(t.Context(), platform, "acme", second.ID); err != nil {
		t.Fatal(err)
	}
	_, err = i.EnableUser(t.Context(), officer, "acme", second.ID)
	wantCode(t, err, fault.CodeRoleAbove)
	wantCode(t, roles(Administrator{ID: "other", Platform: true}, root.ID, RoleDeveloper), fault.CodeConflict) // the last one that is active
	_, err = i.DisableUser(t.Context(), Administrator{ID: "other", Platform: true}, "acme", root.ID)
	wantCode(t, err, fault.CodeConflict)
	_, err = i.DisableUser(t.Context(), platform, "acme", root.ID)
	wantCode(t, err, fault.CodeConflict)
	if u, err := i.EnableUser(t.Context(), platform, "acme", second.ID); err != nil || u.Disabled {
		t.Errorf("%+v, %v", u, err)
	}
	if err := roles(platform, second.ID, RoleDeveloper); err != nil {
		t.Error(err)
	}
}

// TestOneOfTwoAdministratorsStays: two who take each other's role away at the same moment do not both succeed.
func TestOneOfTwoAdministratorsStays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, _ := withTenant(t, db)
		b, _ := replica(t, db)
		one, two := newUser(t, a, "one", nil, RolePlatformAdmin), newUser(t, a, "two", nil, RolePlatformAdmin)
		var done atomic.Int64
		var both sync.WaitGroup
		for i, other := range map[*Identity][2]string{a: {one.ID, two.ID}, b: {two.ID, one.ID}} {
			both.Go(func() {
				_, _, err := i.ChangeUser(context.WithoutCancel(t.Context()), Administrator{ID: other[0], Platform: true}, "acme", other[1], UserChange{Roles: &[]string{RoleDeveloper}})
				if err == nil {
					done.Add(1)
				} else {
					wantCode(t, err, fault.CodeConflict)
				}
			})
		}
		both.Wait()
		if done.Load() != 1 {
			t.Errorf("%d of two succeeded", done.Load())
		}
	})
}

func TestDisableAndEnable(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		u := newUser(t, i, "dev", nil, RoleDeveloper)
		s := signIn(t, i, "dev", password)
		for range 2 {
			if _, err := i.DisableUser(t.Context(), Administrator{}, "acme", u.ID); err != nil {
				t.Fatal(err)
			}
		}
		_, err := i.EnableUser(t.Context(), Administrator{ID: "admin"}, "other", u.ID)
		wantCode(t, err, fault.CodeNotFound)
		if got, err := i.EnableUser(t.Context(), Administrator{ID: "admin"}, "acme", u.ID); err != nil || got.Disabled {
			t.Fatalf("%+v, %v", got, err)
		}
		_, err = i.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = i.Refresh(t.Context(), s.Refresh)
		wantCode(t, err, fault.CodeInvalidSession)
		c.advance(time.Second)
		signIn(t, i, "dev", password)
	})
}

// TestAccountsWhenTheDatabaseFails: an error before the commit leaves everything as it was.
func TestAccountsWhenTheDatabaseFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		f := &dbtest.Faults{}
		i, _ := withTenant(t, f.Over(db))
		u := newUser(t, i, "dev", []string{"a"}, RoleDeveloper)
		s := signIn(t, i, "dev", password)
		k, credential, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "mine", Owner: u.ID, Labels: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		by := Administrator{ID: "admin"}
		for name, act := range map[string]func() error{
			"roles": func() error {
				_, _, err := i.ChangeUser(t.Context(), by, "acme", u.ID, UserChange{Roles: &[]string{RoleAuditor}})
				return err
			},
			"reset":    func() error { _, _, err := i.ResetPassword(t.Context(), by, "acme", u.ID); return err },
			"disable":  func() error { _, err := i.DisableUser(t.Context(), by, "acme", u.ID); return err },
			"suspend":  func() error { _, _, err := i.SuspendTenant(t.Context(), "acme", "admin", "unpaid"); return err },
			"password": func() error { _, err := i.ChangePassword(t.Context(), s.Principal, password, another, ""); return err },
			"key": func() error {
				_, _, err := i.ChangeKey(t.Context(), "acme", k.ID, KeyChange{Labels: &[]string{}})
				return err
			},
		} {
			for _, op := range []string{"commit", "UPDATE"} {
				f.Set(func(got string) dbtest.Outcome {
					if strings.HasPrefix(got, op) {
						return dbtest.FailsBefore
					}
					return dbtest.Healthy
				})
				err := act()
				f.Set(nil)
				if !fault.Is(err, fault.CodeDatabaseUnavailable) {
					t.Errorf("%s, %s: %v", name, op, err)
				}
			}
		}
		poll(t, i)
		if _, err := i.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7"); err != nil {
			t.Errorf("the session: %v", err)
		}
		if p, err := i.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7"); err != nil || len(p.Labels) != 1 {
			t.Errorf("the key: %+v, %v", p, err)
		}
	})
}

func TestKeysOfPeople(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		dev := newUser(t, a, "dev", []string{"public", "hr"}, RoleDeveloper)
		auditor := newUser(t, a, "auditor", nil, RoleAuditor)
		if err := a.CreateTenant(t.Context(), Tenant{ID: "other", Name: "Other"}); err != nil {
			t.Fatal(err)
		}
		make := func(k NewKey) error {
			k.Name = "x"
			if k.Tenant == "" {
				k.Tenant = "acme"
			}
			_, _, err := a.CreateKey(t.Context(), k)
			return err
		}
		wantCode(t, make(NewKey{Owner: dev.ID, Labels: []string{"public", "secret"}}), fault.CodeInvalidValue)
		wantCode(t, make(NewKey{Owner: dev.ID, LabelMode: LabelMetadata}), fault.CodeInvalidValue)
		wantCode(t, make(NewKey{Owner: dev.ID, ExpiresAt: c.now().Add(a.KeyLifetime() + time.Second)}), fault.CodeInvalidValue)
		wantCode(t, make(NewKey{Owner: auditor.ID}), fault.CodeConflict)
		wantCode(t, make(NewKey{Owner: dev.ID, Tenant: "other"}), fault.CodeNotFound)

		k, credential, err := a.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "mine", Owner: dev.ID, Labels: []string{"public", "hr"}, LabelMode: LabelText})
		if err != nil || k.Owner != dev.ID {
			t.Fatal(k, err)
		}
		if err := make(NewKey{Labels: []string{"anything"}, LabelMode: LabelMetadata, ExpiresAt: c.now().AddDate(4, 0, 0)}); err != nil {
			t.Errorf("a key of the tenant: %v", err)
		}
		if mine, err := a.ListKeys(t.Context(), "acme", dev.ID); err != nil || len(mine) != 1 || mine[0].ID != k.ID {
			t.Errorf("%+v, %v", mine, err)
		}
		change := func(ch KeyChange) error { _, _, err := a.ChangeKey(t.Context(), "acme", k.ID, ch); return err }
		metadata, late := LabelMetadata, c.now().Add(a.KeyLifetime()+time.Hour)
		wantCode(t, change(KeyChange{Labels: &[]string{"public", "secret"}}), fault.CodeInvalidValue)
		wantCode(t, change(KeyChange{LabelMode: &metadata}), fault.CodeInvalidValue)
		wantCode(t, change(KeyChange{ExpiresAt: &late}), fault.CodeInvalidValue)
		c.advance(24 * time.Hour) // the end counts from the creation: changing it again and again does not move it
		poll(t, a)
		later := c.now().Add(a.KeyLifetime())
		wantCode(t, change(KeyChange{ExpiresAt: &later}), fault.CodeInvalidValue)

		// What the owner loses the key loses, at once here and with the next poll elsewhere.
		on := func(step string, labels string, code fault.Code) {
			t.Helper()
			poll(t, b)
			for _, i := range []*Identity{a, b} {
				p, err := i.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7")
				if code != "" {
					wantCode(t, err, code)
					continue
				}
				if err != nil || fmt.Sprint(p.Labels) != labels {
					t.Errorf("%s: %v, %v", step, p.Labels, err)
				}
			}
			if got, err := b.Key(t.Context(), "acme", k.ID); err != nil || got.Suspended != (code != "") {
				t.Errorf("%s: %+v, %v", step, got, err)
			}
		}
		by := Administrator{ID: "admin"}
		user := func(ch UserChange) {
			t.Helper()
			if _, _, err := a.ChangeUser(t.Context(), by, "acme", dev.ID, ch); err != nil {
				t.Fatal(err)
			}
		}
		on("new", "[public hr]", "")
		user(UserChange{Labels: &[]string{"public"}})
		on("label taken", "[public]", "")
		name := "renamed" // allowed although the key still names a label that its owner lost
		if err := change(KeyChange{Name: &name}); err != nil {
			t.Error(err)
		}
		if _, err := a.DisableUser(t.Context(), by, "acme", dev.ID); err != nil {
			t.Fatal(err)
		}
		on("disabled", "", fault.CodeSuspendedKey)
		wantCode(t, make(NewKey{Owner: dev.ID}), fault.CodeConflict)
		if _, err := a.EnableUser(t.Context(), by, "acme", dev.ID); err != nil {
			t.Fatal(err)
		}
		on("enabled", "[public]", "")
		_, once, err := a.ResetPassword(t.Context(), by, "acme", dev.ID)
		if err != nil {
			t.Fatal(err)
		}
		on("has to change his password", "", fault.CodeSuspendedKey)
		if _, err := a.ChangePassword(t.Context(), signIn(t, a, "dev", once).Principal, once, another, ""); err != nil {
			t.Fatal(err)
		}
		on("changed it", "[public]", "")
		user(UserChange{Roles: &[]string{RoleAuditor}})
		on("role taken", "", fault.CodeSuspendedKey)
	})
}

// TestOwnersOnlyNarrow: a person gives himself no more than the installation gives a key, and nothing back that was taken from it.
func TestOwnersOnlyNarrow(t *testing.T) {
	i, c := withTenant(t, dbtest.SQLite(t))
	i.limits = Limits{RequestsPerMinute: 60, TokensPerMinute: 1000} // requests at once: no bound
	dev := newUser(t, i, "dev", nil, RoleDeveloper)
	create := func(l Limits) (Key, error) {
		k, _, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "mine", Owner: dev.ID, Limits: l})
		return k, err
	}
	for _, l := range []Limits{{RequestsPerMinute: 61}, {TokensPerMinute: 1001}} {
		_, err := create(l)
		wantCode(t, err, fault.CodeInvalidValue)
	}
	k, err := create(Limits{RequestsPerMinute: 60, Concurrent: 1000})
	if err != nil {
		t.Fatal(err)
	}
	change := func(ch KeyChange) error { _, _, err := i.ChangeKey(t.Context(), "acme", k.ID, ch); return err }
	limits := func(byOwner bool, l Limits) error { return change(KeyChange{Limits: &l, ByOwner: byOwner}) }
	end := func(byOwner bool, d time.Duration) error {
		at := c.now().Add(d)
		return change(KeyChange{ExpiresAt: &at, ByOwner: byOwner})
	}
	for _, step := range []struct {
		what string
		err  error
		code fault.Code
	}{
		{"no bound where there was one", limits(true, Limits{RequestsPerMinute: 60}), fault.CodeInvalidValue},
		{"lowered", limits(true, Limits{RequestsPerMinute: 50, Concurrent: 9}), ""},
		{"lowered by an administrator", limits(false, Limits{RequestsPerMinute: 5, TokensPerMinute: 10, Concurrent: 1}), ""},
		{"raised", limits(true, Limits{RequestsPerMinute: 6, TokensPerMinute: 10, Concurrent: 1}), fault.CodeInvalidValue},
		{"raised by leaving out", limits(true, Limits{RequestsPerMinute: 5, Concurrent: 1}), fault.CodeInvalidValue},
		{"raised by an administrator", limits(false, Limits{RequestsPerMinute: 600, Concurrent: 1}), ""},
		{"as it is", limits(true, Limits{RequestsPerMinute: 600, TokensPerMinute: 1000, Concurrent: 1}), ""},
		{"shortened", end(true, 2*time.Hour), ""},
		{"lengthened", end(true, 3*time.Hour), fault.CodeInvalidValue},
		{"lengthened by an administrator", end(false, 3*time.Hour), ""},
	} {
		if step.code != "" {
			wantCode(t, step.err, step.code)
		} else if step.err != nil {
			t.Errorf("%s: %v", step.what, step.err)
		}
	}
}

// TestOwnKeysAreFew: what is revoked or expired does not count, and of two made at the same moment on two replicas one is refused.
func TestOwnKeysAreFew(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		dev, other := newUser(t, a, "dev", nil, RoleDeveloper), newUser(t, a, "other", nil, RoleDeveloper)
		create := func(i *Identity, owner string, life time.Duration) (Key, error) {
			k, _, err := i.CreateKey(context.WithoutCancel(t.Context()), NewKey{Tenant: "acme", Name: "x", Owner: owner, ExpiresAt: c.now().Add(life)})
			return k, err
		}
		var first Key
		for n := range MaxOwnKeys - 1 {
			k, err := create(a, dev.ID, time.Hour)
			if err != nil {
				t.Fatal(n, err)
			}
			first = k
		}
		var refused atomic.Int64
		var both sync.WaitGroup
		for _, i := range []*Identity{a, b} {
			both.Go(func() {
				if _, err := create(i, dev.ID, time.Hour); err != nil {
					wantCode(t, err, fault.CodeConflict)
					refused.Add(1)
				}
			})
		}
		both.Wait()
		if refused.Load() != 1 {
			t.Errorf("%d of two were refused", refused.Load())
		}
		for _, owner := range []string{other.ID, ""} {
			if _, err := create(a, owner, time.Hour); err != nil {
				t.Errorf("a key of %q: %v", owner, err)
			}
		}
		if err := a.RevokeKey(t.Context(), "acme", first.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := create(a, dev.ID, time.Hour); err != nil {
			t.Error(err)
		}
		c.advance(2 * time.Hour)
		poll(t, a)
		if _, err := create(a, dev.ID, time.Hour); err != nil {
			t.Errorf("those of before have expired: %v", err)
		}
	})
}

func TestChangeKey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, c := withTenant(t, db)
		b, _ := replica(t, db)
		k, credential, err := a.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "bot", Labels: []string{"x"}, Limits: Limits{RequestsPerMinute: 1}})
		if err != nil {
			t.Fatal(err)
		}
		must(t, a.CreateProject(t.Context(), Project{Tenant: "acme", ID: "hotline", Name: "Hotline"}))
		name, project, mode, end := "robot", "hotline", LabelText, c.now().Add(time.Hour)
		before, after, err := a.ChangeKey(t.Context(), "acme", k.ID, KeyChange{
			Name: &name, Project: &project, LabelMode: &mode, Labels: &[]string{"y", "z"}, Limits: &Limits{TokensPerMinute: 9, Concurrent: 2}, ExpiresAt: &end,
		})
		if err != nil || before.Name != "bot" || after.Name != "robot" || !after.ExpiresAt.Equal(end) {
			t.Fatalf("%+v, %+v, %v", before, after, err)
		}
		poll(t, b)
		p, err := b.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7")
		if err != nil || p.Name != "robot" || p.Project != "hotline" || p.LabelMode != LabelText || fmt.Sprint(p.Labels, p.Limits) != "[y z] {0 9 2}" {
			t.Errorf("%+v, %v", p, err)
		}
		if used, err := b.Key(t.Context(), "acme", k.ID); err != nil || used.LastUsedAt.IsZero() {
			t.Errorf("the use of a moment ago is not shown: %+v, %v", used, err)
		}
		change := func(tenant string, ch KeyChange) error {
			_, _, err := a.ChangeKey(t.Context(), tenant, k.ID, ch)
			return err
		}
		empty, past, far, odd := "", c.now(), c.now().AddDate(6, 0, 0), "loud"
		wantCode(t, change("acme", KeyChange{Name: &empty}), fault.CodeMissing)
		wantCode(t, change("acme", KeyChange{ExpiresAt: &past}), fault.CodeInvalidValue)
		wantCode(t, change("acme", KeyChange{ExpiresAt: &far}), fault.CodeInvalidValue)
		wantCode(t, change("acme", KeyChange{LabelMode: &odd}), fault.CodeInvalidValue)
		wantCode(t, change("acme", KeyChange{Limits: &Limits{Concurrent: -1}}), fault.CodeInvalidValue)
		wantCode(t, change("other", KeyChange{}), fault.CodeNotFound)
		if got := mustKeys(t, a)[0]; got.Name != "robot" || got.Limits.Concurrent != 2 {
			t.Errorf("a refused change was made: %+v", got)
		}
		c.advance(2 * time.Hour)
		poll(t, a)
		if err := change("acme", KeyChange{Project: &empty}); err != nil {
			t.Errorf("an expired key may get another project: %v", err)
		}
		if err := a.RevokeKey(t.Context(), "acme", k.ID); err != nil {
			t.Fatal(err)
		}
		wantCode(t, change("acme", KeyChange{Name: &name}), fault.CodeConflict)
	})
}
