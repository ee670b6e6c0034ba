package identity

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestPasswordStrength: what is on lists, on the keyboard, repeated, a date, or made of names is refused however long it is.
func TestPasswordStrength(t *testing.T) {
	for _, weak := range []string{
		"password1234", "Password12345!", "123456789012", "qwertyuiopas", "1qaz2wsx3edc4rfv", "aaaaaaaaaaaaaaaa", "abcabcabcabcabc", strings.Repeat("ab1!", 16),
		"woaini1314520", "wodemima123456", "zhongguo2008", "a123456789a", "5201314520131", "110101199003078515", "138-0013-8000-1", "我爱你我爱你我爱你我爱你", "密码密码qwertyuiop12", "梧qwertyuiopas", "管理员管理员管理员管理员",
		"Sluice@2026!", "sluice-sluice-sluice", "wang.fang2024!", "WangFang-2024-Wang", "acme-acme-2026-x", "wang.fang" + "wang.fang",
	} {
		if err := checkPassword("password", weak, "wang.fang", "acme"); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%q is accepted: %v", weak, err)
		}
	}
	for _, strong := range []string{password, "correct horse battery staple", "W7YQK2NRB4H3XJ5C6VZTDPMLAE", randomText(oneTimeSize), "梧桐更兼细雨到黄昏点点滴滴", strings.Repeat("kettle 47 Ümlaut ", 12), "sluice gate over violet tundra"} {
		if err := checkPassword("password", strong, "wang.fang", "acme"); err != nil {
			t.Errorf("%q: %v", strong, err)
		}
	}
}

// TestOneTimePasswordsEnd: one that somebody else has set is of no use after its time, neither to sign in nor to change it; that of the first
// start is until it was changed.
func TestOneTimePasswordsEnd(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, clock := withTenant(t, db)
		u, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}, MustChange: true})
		if err != nil || !u.OneTimeUntil.Equal(clock.now().Add(24*time.Hour)) {
			t.Fatalf("%+v, %v", u, err)
		}
		advance := func(d time.Duration) {
			t.Helper()
			clock.advance(d)
			if err := i.accounts.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		advance(24*time.Hour - time.Second)
		s, err := i.Login(t.Context(), "dev", password, "", "")
		if err != nil || !s.Principal.MustChange {
			t.Fatalf("%+v, %v", s.Principal, err)
		}
		advance(time.Second)
		_, err = i.Login(t.Context(), "dev", password, "", "")
		wantCode(t, err, fault.CodeOneTimeExpired)
		_, err = i.Login(t.Context(), "dev", password+"x", "", "")
		wantCode(t, err, fault.CodeInvalidLogin)
		_, err = i.ChangePassword(t.Context(), s.Principal, password, "a new long password", "")
		wantCode(t, err, fault.CodeOneTimeExpired)

		_, again, err := i.ResetPassword(t.Context(), Administrator{ID: "x"}, "acme", u.ID)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = i.Login(t.Context(), "dev", again, "", ""); err != nil {
			t.Fatal(err)
		}
		if s, err = i.ChangePassword(t.Context(), s.Principal, again, "a new long password", ""); err != nil || s.Principal.MustChange {
			t.Fatalf("%+v, %v", s.Principal, err)
		}
		advance(1000 * time.Hour)
		if s, err = i.Login(t.Context(), "dev", "a new long password", "", ""); err != nil || s.Principal.MustChange {
			t.Errorf("%+v, %v", s.Principal, err)
		}

		if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
			t.Fatal(err)
		}
		advance(1000 * time.Hour)
		if s, err = i.Login(t.Context(), "admin", password, "", ""); err != nil || !s.Principal.MustChange {
			t.Errorf("%+v, %v", s.Principal, err)
		}
	})
}

// TestPasswordsAge: where the configuration says so, one that is too old opens nothing but its change, in sessions that are open, too.
func TestPasswordsAge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, clock := withTenant(t, db)
		i.cfg.PasswordMaxAge = 30 * 24 * time.Hour
		u, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}})
		if err != nil {
			t.Fatal(err)
		}
		_, credential, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "own", Owner: u.ID})
		if err != nil {
			t.Fatal(err)
		}
		mustChange := func(want bool) Session {
			t.Helper()
			s, err := i.Login(t.Context(), "dev", password, "", "")
			if err != nil {
				t.Fatal(err)
			}
			p, err := i.Authenticate(t.Context(), AdminPlane, s.Access, "")
			if err != nil || p.MustChange != want || s.Principal.MustChange != want {
				t.Errorf("%+v, %v, want %t", p, err, want)
			}
			return s
		}
		mustChange(false)
		clock.advance(30 * 24 * time.Hour)
		if err := i.accounts.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := mustChange(false)
		clock.advance(time.Second)
		if p, err := i.Authenticate(t.Context(), AdminPlane, s.Access, ""); err != nil || !p.MustChange {
			t.Errorf("an open session: %+v, %v", p, err)
		}
		s = mustChange(true)
		if _, err := i.Authenticate(t.Context(), DataPlane, credential, ""); err != nil {
			t.Error("an application must not stop with the age of a password:", err)
		}
		if s, err = i.ChangePassword(t.Context(), s.Principal, password, "a new long password", ""); err != nil || s.Principal.MustChange {
			t.Errorf("%+v, %v", s.Principal, err)
		}
	})
}

// TestFormerPasswords: the last ones are not chosen again, a reset between does not help, and no more of them are kept than the configuration says.
func TestFormerPasswords(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, clock := withTenant(t, db)
		i.cfg.PasswordHistory = 2
		u, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}})
		if err != nil {
			t.Fatal(err)
		}
		current := password
		change := func(next string) error {
			t.Helper()
			clock.advance(time.Minute)
			s, err := i.Login(t.Context(), "dev", current, "", "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = i.ChangePassword(t.Context(), s.Principal, current, next, "")
			if err == nil {
				current = next
			}
			return err
		}
		const second, third = "violet kettle over tundra", "marble anchor seven fjords"
		for _, next := range []string{second, third} {
			if err := change(next); err != nil {
				t.Fatal(err)
			}
		}
		for _, former := range []string{password, second} {
			wantCode(t, change(former), fault.CodeInvalidValue)
		}
		clock.advance(time.Minute)
		_, oneTime, err := i.ResetPassword(t.Context(), Administrator{ID: "x"}, "acme", u.ID)
		if err != nil {
			t.Fatal(err)
		}
		current = oneTime
		wantCode(t, change(third), fault.CodeInvalidValue) // the one before the reset
		wantCode(t, change(second), fault.CodeInvalidValue)
		if err := change(password); err != nil { // two others came after it
			t.Error(err)
		}
		if kept, err := i.store.formerPasswords(t.Context(), u.ID, maxHistory); err != nil || len(kept) != 2 {
			t.Errorf("%d kept, %v", len(kept), err)
		}
		i.cfg.PasswordHistory = 0
		if err := change(second); err != nil {
			t.Error(err)
		}
		if kept, err := i.store.formerPasswords(t.Context(), u.ID, maxHistory); err != nil || len(kept) != 0 {
			t.Errorf("%d kept without a history, %v", len(kept), err)
		}
	})
}
