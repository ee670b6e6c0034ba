package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const password = "correct horse battery"

func ring() *keyring.Ring { return keyring.FromBytes(bytes.Repeat([]byte{7}, 32)) }

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// quick makes hashes that are worth nothing: the tests make thousands.
var quick = PasswordCost{MemoryKiB: 64, Passes: 1}

// replica returns a loaded identity service over db with a clock of its own.
func replica(t *testing.T, db *gorm.DB) (*Identity, *clock) {
	t.Helper()
	i, err := New(Config{PasswordCost: quick}, Limits{}, db, ring(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{t: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}
	i.now = c.now
	if err := i.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i, c
}

func withTenant(t *testing.T, db *gorm.DB) (*Identity, *clock) {
	t.Helper()
	i, c := replica(t, db)
	if err := i.CreateTenant(t.Context(), Tenant{ID: "acme", Name: "Acme 公司"}); err != nil {
		t.Fatal(err)
	}
	return i, c
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("error is %v, want code %s", err, code)
	}
}

func TestKeyLifeCycle(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, clockA := withTenant(t, db)
		b, clockB := replica(t, db)
		must(t, a.CreateProject(t.Context(), Project{Tenant: "acme", ID: "hotline", Name: "Hotline"}))
		key, credential, err := a.CreateKey(t.Context(), NewKey{
			Tenant: "acme", Project: "hotline", Name: "bot", Labels: []string{"public"}, Models: []string{"smol*"},
			LabelMode: LabelText, Limits: Limits{RequestsPerMinute: 5}, CreatedBy: "u1",
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(credential, "sk-sluice-"+key.ID+"-") || len(key.ID) != keyPrefixSize {
			t.Errorf("credential of key %s is malformed", key.ID)
		}
		p, err := a.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7")
		if err != nil {
			t.Fatal("a new key must work at once where it was made:", err)
		}
		if p.Tenant != "acme" || p.Project != "hotline" || p.Kind != "key" || p.ID != key.ID || p.Limits.RequestsPerMinute != 5 ||
			p.LabelMode != LabelText || fmt.Sprint(p.Roles, p.Labels) != "[application] [public]" {
			t.Errorf("principal %+v", p)
		}
		if !p.MayUse("smollm2") || p.MayUse("other") {
			t.Error("the model patterns of the key are not applied")
		}
		_, err = b.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidKey)
		if err := b.accounts.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err = b.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7"); err != nil {
			t.Error("one poll must bring the key to the other replica:", err)
		}
		_, err = a.Authenticate(t.Context(), AdminPlane, credential, "198.51.100.7")
		wantCode(t, err, fault.CodeKeyScope)

		wantCode(t, a.RevokeKey(t.Context(), "other", key.ID), fault.CodeNotFound)
		if err := a.RevokeKey(t.Context(), "acme", key.ID); err != nil {
			t.Fatal(err)
		}
		if err := b.accounts.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, i := range []*Identity{a, b} {
			_, err = i.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7")
			wantCode(t, err, fault.CodeExpiredKey)
		}
		first := mustKeys(t, a)[0].RevokedAt
		clockA.advance(time.Hour)
		if err := a.RevokeKey(t.Context(), "acme", key.ID); err != nil || !mustKeys(t, a)[0].RevokedAt.Equal(first) {
			t.Errorf("revoking twice must change nothing: %v", err)
		}

		_, short, err := a.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "short", ExpiresAt: clockA.now().Add(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		clockA.advance(time.Minute)
		clockB.advance(time.Minute)
		if err := a.accounts.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = a.Authenticate(t.Context(), DataPlane, short, "198.51.100.7")
		wantCode(t, err, fault.CodeExpiredKey)
	})
}

func mustKeys(t *testing.T, i *Identity) []Key {
	t.Helper()
	keys, err := i.ListKeys(t.Context(), "acme", "")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestKeyExpiryIsMandatory(t *testing.T) {
	i, c := withTenant(t, dbtest.SQLite(t))
	key, _, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "k"})
	if err != nil || !key.ExpiresAt.Equal(c.now().Add(365*24*time.Hour)) {
		t.Errorf("default expiry %v, %v", key.ExpiresAt, err)
	}
	for name, bad := range map[string]NewKey{
		"past":      {Tenant: "acme", Name: "k", ExpiresAt: c.now()},
		"far":       {Tenant: "acme", Name: "k", ExpiresAt: c.now().AddDate(9, 0, 0)},
		"mode":      {Tenant: "acme", Name: "k", LabelMode: "none"},
		"limits":    {Tenant: "acme", Name: "k", Limits: Limits{Concurrent: -1}},
		"pattern":   {Tenant: "acme", Name: "k", Models: []string{"a\n"}},
		"project":   {Tenant: "acme", Name: "k", Project: "../x"},
		"long name": {Tenant: "acme", Name: strings.Repeat("n", 200)},
	} {
		if _, _, err := i.CreateKey(t.Context(), bad); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err = i.CreateKey(t.Context(), NewKey{Tenant: "nowhere", Name: "k"})
	wantCode(t, err, fault.CodeNotFound)
	wantCode(t, i.CreateTenant(t.Context(), Tenant{ID: "acme", Name: "again"}), fault.CodeExists)
	wantCode(t, i.CreateTenant(t.Context(), Tenant{ID: "*", Name: "star"}), fault.CodeInvalidValue)
}

// TestNothingSecretIsStored searches the whole SQLite file for what must not be in it.
func TestNothingSecretIsStored(t *testing.T) {
	db := dbtest.SQLite(t)
	i, _ := withTenant(t, db)
	_, credential, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.EnsureAdmin(t.Context(), "acme", "root", password); err != nil {
		t.Fatal(err)
	}
	s, err := i.Login(t.Context(), "root", password, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	var dump strings.Builder
	for _, table := range []string{"identity_keys", "identity_users", "identity_sessions"} {
		var rows []map[string]any
		if err := db.Table(table).Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(&dump, rows)
	}
	if dump.Len() < 200 {
		t.Fatal("nothing was dumped")
	}
	for _, secret := range []string{credential, credential[len(credential)-keySecretSize:], password, s.Refresh, s.Access} {
		if strings.Contains(dump.String(), secret) {
			t.Error("a secret is stored in clear")
		}
	}
}

func TestNoSnapshotRefusesEverybody(t *testing.T) {
	db := dbtest.SQLite(t)
	i, err := New(Config{PasswordCost: quick}, Limits{}, db, ring(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, plane := range []Plane{DataPlane, AdminPlane} {
		_, err = i.Authenticate(t.Context(), plane, "sk-sluice-x", "198.51.100.7")
		wantCode(t, err, fault.CodeIdentityUnavailable)
	}
}

// TestStaleAccountsAreNotTrusted takes the database away from a replica: it serves for MaxStale, refuses, and serves again when the
// database is back.
func TestStaleAccountsAreNotTrusted(t *testing.T) {
	var faults dbtest.Faults
	i, c := withTenant(t, faults.Over(dbtest.SQLite(t)))
	_, credential, err := i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	c.advance(i.cfg.MaxStale)
	if err := i.accounts.Refresh(t.Context()); err == nil {
		t.Fatal("a look at a database that is away must fail")
	}
	if _, err := i.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7"); err != nil {
		t.Error("a short outage must not stop traffic:", err)
	}
	c.advance(time.Second)
	_, err = i.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7")
	wantCode(t, err, fault.CodeIdentityUnavailable)
	_, _, err = i.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "k", ExpiresAt: c.now().Add(time.Hour)})
	wantCode(t, err, fault.CodeDatabaseUnavailable)
	faults.Set(nil)
	if err := i.accounts.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Authenticate(t.Context(), DataPlane, credential, "198.51.100.7"); err != nil {
		t.Error("the database is back:", err)
	}
}

// only returns accounts that are loaded and have no database.
func only(tb testing.TB, a *accounts) *snapshot.Snapshot[*accounts] {
	tb.Helper()
	s, err := snapshot.New(snapshot.Config{}, snapshot.Source[*accounts]{
		Name: "identity", Load: func(context.Context) (*accounts, error) { return a, nil },
	}, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		err = s.Load(tb.Context())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestRevocationReachesRunningReplica runs the real loop and measures.
func TestRevocationReachesRunningReplica(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, _ := withTenant(t, db)
		b, err := New(Config{PasswordCost: quick}, Limits{}, db, ring(), slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		key, credential, err := a.CreateKey(t.Context(), NewKey{Tenant: "acme", Name: "k", ExpiresAt: time.Now().AddDate(0, 0, 9)})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		if _, err := b.Authenticate(ctx, DataPlane, credential, "198.51.100.7"); err != nil {
			t.Fatal(err)
		}
		if err := a.RevokeKey(ctx, "acme", key.ID); err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		deadline := time.After(2 * time.Second)
		for !fault.Is(func() error { _, err := b.Authenticate(ctx, DataPlane, credential, "198.51.100.7"); return err }(), fault.CodeExpiredKey) {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatal("the revocation was not seen within 2 seconds")
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if mustKeys(t, a)[0].LastUsedAt.IsZero() {
			t.Error("the last use was not written")
		}
	})
}

func TestLogin(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := replica(t, db)
		created, err := i.EnsureAdmin(t.Context(), "demo", "Admin", password)
		if err != nil || !created {
			t.Fatal(created, err)
		}
		if created, err = i.EnsureAdmin(t.Context(), "demo", "admin", "another password!"); err != nil || created {
			t.Errorf("a second start must change nothing: %v %v", created, err)
		}
		s, err := i.Login(t.Context(), " ADMIN ", password, "", "10.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if !s.Principal.Operator || s.Principal.Tenant != "demo" || s.Principal.Roles[0] != RolePlatformAdmin {
			t.Errorf("principal %+v", s.Principal)
		}
		p, err := i.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
		if err != nil || p.ID != s.Principal.ID || p.Session == "" {
			t.Fatal(p, err)
		}
		_, err = i.Authenticate(t.Context(), DataPlane, s.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidKey)
		for _, bad := range [][2]string{{"admin", "wrong password!!"}, {"nobody", password}, {"", ""}, {"admin", strings.Repeat("x", 1000)}} {
			_, err := i.Login(t.Context(), bad[0], bad[1], "", "10.0.0.2")
			wantCode(t, err, fault.CodeInvalidLogin)
		}
		c.advance(15*time.Minute + 3*time.Second)
		if err := i.accounts.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = i.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidSession)
	})
}

func TestRefreshRotatesAndDetectsReuse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := replica(t, db)
		if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
			t.Fatal(err)
		}
		first, err := i.Login(t.Context(), "admin", password, "", "")
		if err != nil {
			t.Fatal(err)
		}
		other, err := i.Login(t.Context(), "admin", password, "", "")
		if err != nil {
			t.Fatal(err)
		}
		second, err := i.Refresh(t.Context(), first.Refresh)
		if err != nil || second.Refresh == first.Refresh {
			t.Fatal(err)
		}
		if _, err := i.Authenticate(t.Context(), AdminPlane, second.Access, "198.51.100.7"); err != nil {
			t.Fatal(err)
		}
		_, err = i.Refresh(t.Context(), first.Refresh) // the thief, or the victim after the thief
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = i.Refresh(t.Context(), second.Refresh)
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = i.Authenticate(t.Context(), AdminPlane, second.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidSession)
		if _, err := i.Authenticate(t.Context(), AdminPlane, other.Access, "198.51.100.7"); err != nil {
			t.Error("another sign-in of the same person must live on:", err)
		}
		if err := i.Logout(t.Context(), other.Refresh); err != nil {
			t.Fatal(err)
		}
		_, err = i.Authenticate(t.Context(), AdminPlane, other.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidSession)
		for _, bad := range []string{"", "sr-sluice-", strings.Repeat("x", 5000), refreshHead + strings.Repeat("A", refreshSize)} {
			_, err = i.Refresh(t.Context(), bad)
			wantCode(t, err, fault.CodeInvalidSession)
		}

		// A sign-in ends for good after SessionTTL however busy it is.
		s, err := i.Login(t.Context(), "admin", password, "", "")
		for n := 0; err == nil && n < 100; n++ {
			c.advance(11 * time.Hour)
			if err := i.accounts.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, err = i.Refresh(t.Context(), s.Refresh)
			if n > 16 && err == nil {
				t.Fatal("the sign-in outlived SessionTTL")
			}
		}
		wantCode(t, err, fault.CodeInvalidSession)
	})
}

// A renewed session says when its password was given, and a token of the release before, which did not, is as good as old.
func TestRenewalDoesNotMoveTheSignIn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := replica(t, db)
		if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
			t.Fatal(err)
		}
		s, err := i.Login(t.Context(), "admin", password, "", "")
		if err != nil {
			t.Fatal(err)
		}
		began := s.Principal.SignedIn
		for range 3 {
			p, err := i.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
			if err != nil || began.IsZero() || !p.SignedIn.Equal(began) || !s.Principal.SignedIn.Equal(began) {
				t.Fatalf("signed in %s, %s, began %s, %v", p.SignedIn, s.Principal.SignedIn, began, err)
			}
			c.advance(10 * time.Minute)
			if err := i.accounts.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s, err = i.Refresh(t.Context(), s.Refresh); err != nil {
				t.Fatal(err)
			}
		}
		again, err := i.Login(t.Context(), "admin", password, "", "")
		if err != nil || again.Principal.SignedIn.Sub(began) < 29*time.Minute {
			t.Errorf("%s, %v", again.Principal.SignedIn, err)
		}
	})
}

func TestConcurrentRefreshSpendsOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, _ := replica(t, db)
		if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
			t.Fatal(err)
		}
		s, err := i.Login(t.Context(), "admin", password, "", "")
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan error)
		for range 6 {
			go func() { _, err := i.Refresh(t.Context(), s.Refresh); results <- err }()
		}
		won := 0
		for range 6 {
			if err := <-results; err == nil {
				won++
			} else {
				wantCode(t, err, fault.CodeInvalidSession)
			}
		}
		if won > 1 {
			t.Errorf("%d refreshes won with one token", won)
		}
	})
}

func TestDisabledUserAndChangedPassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, _ := withTenant(t, db)
		b, _ := replica(t, db)
		u, err := a.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "DEV", Password: password, Roles: []string{RoleDeveloper}})
		wantCode(t, err, fault.CodeExists)
		s, err := a.Login(t.Context(), "dev", password, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.accounts.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7"); err != nil {
			t.Fatal("replicas share session keys:", err)
		}
		if err := a.SetPassword(t.Context(), "acme", u.ID, "a new long password"); err != nil {
			t.Fatal(err)
		}
		_, err = a.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = a.Refresh(t.Context(), s.Refresh)
		wantCode(t, err, fault.CodeInvalidSession)
		// b has not polled since: signing in there must work with the new row.
		if s, err = b.Login(t.Context(), "dev", "a new long password", "", ""); err != nil {
			t.Fatal(err)
		}
		if _, err = b.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7"); err != nil {
			t.Fatal(err)
		}
		_, err = a.DisableUser(t.Context(), Administrator{}, "other", u.ID)
		wantCode(t, err, fault.CodeNotFound)
		if _, err := a.DisableUser(t.Context(), Administrator{}, "acme", u.ID); err != nil {
			t.Fatal(err)
		}
		if err := b.accounts.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = b.Authenticate(t.Context(), AdminPlane, s.Access, "198.51.100.7")
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = b.Login(t.Context(), "dev", "a new long password", "", "")
		wantCode(t, err, fault.CodeInvalidLogin)
	})
}

// TestSignInMeetsAPasswordChange: a password that was right when it was checked opens nothing once it was changed.
func TestSignInMeetsAPasswordChange(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c := withTenant(t, db)
		u, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}})
		if err != nil {
			t.Fatal(err)
		}
		checked, ok, err := i.checkLogin(t.Context(), "dev", password)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := i.SetPassword(t.Context(), "acme", u.ID, "a new long password"); err != nil {
			t.Fatal(err)
		}
		token, sum := i.newRefresh()
		row := sessionRow{Digest: sum, Family: "f", UserID: u.ID, StartedAt: c.now().UnixMicro(), ExpiresAt: c.now().Add(time.Hour).UnixMicro()}
		wantCode(t, i.store.startSession(t.Context(), row, checked.Epoch, 0), fault.CodeInvalidLogin)
		_, err = i.Refresh(t.Context(), token)
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = i.issue(t.Context(), checked, sessionRow{Family: "f"}, token, c.now())
		wantCode(t, err, fault.CodeInvalidLogin)
	})
}

// TestWhoSignsIn: audit records of sign-ins name accounts, never what somebody typed.
func TestWhoSignsIn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, _ := withTenant(t, db)
		if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
			t.Fatal(err)
		}
		u, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "dev", Password: password, Roles: []string{RoleDeveloper}})
		if err != nil {
			t.Fatal(err)
		}
		if p := i.Claimed(" DEV"); p.ID != u.ID || p.Tenant != "acme" {
			t.Errorf("claimed %+v", p)
		}
		if p := i.Claimed("hunter2"); p.ID != "" || p.Name != "" || p.Tenant != "demo" {
			t.Errorf("an unknown name gives %+v", p)
		}
		s, err := i.Login(t.Context(), "dev", password, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if p, found, err := i.Holder(t.Context(), s.Refresh); err != nil || !found || p.ID != u.ID || p.Session != s.Principal.Session {
			t.Errorf("holder %+v %v %v", p, found, err)
		}
		for _, token := range []string{"", "x", refreshHead + strings.Repeat("x", refreshSize)} {
			if _, found, err := i.Holder(t.Context(), token); found || err != nil {
				t.Errorf("%q: %v %v", token, found, err)
			}
		}
	})
}

func TestLastPlatformAdminStays(t *testing.T) {
	i, _ := replica(t, dbtest.SQLite(t))
	if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
		t.Fatal(err)
	}
	users, err := i.ListUsers(t.Context(), AllTenants)
	if err != nil || len(users) != 1 {
		t.Fatal(users, err)
	}
	_, err = i.DisableUser(t.Context(), Administrator{Platform: true}, "demo", users[0].ID)
	wantCode(t, err, fault.CodeConflict)
}

func TestConflictingRolesAreRefusedOnCreate(t *testing.T) {
	i, _ := withTenant(t, dbtest.SQLite(t))
	for roles, code := range map[string]fault.Code{
		"auditor security_admin": fault.CodeConflictingRole, "application": fault.CodeInvalidValue, "root": fault.CodeInvalidValue,
		"": fault.CodeMissing,
	} {
		_, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "x", Password: password, Roles: strings.Fields(roles)})
		wantCode(t, err, code)
	}
	_, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "x", Password: "short", Roles: []string{RoleAuditor}})
	wantCode(t, err, fault.CodeInvalidValue)
}

// TestForgedSessions signs with the right key whatever another part or another version could have signed.
func TestForgedSessions(t *testing.T) {
	i, c := replica(t, dbtest.SQLite(t))
	if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
		t.Fatal(err)
	}
	s, err := i.Login(t.Context(), "admin", password, "", "")
	if err != nil {
		t.Fatal(err)
	}
	now := c.now()
	good := func() jwt.MapClaims {
		return jwt.MapClaims{
			"iss": "sluice", "aud": "sluice-admin", "sub": s.Principal.ID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
			"jti": "j", "sid": s.Principal.Session, "ep": 1,
		}
	}
	current := i.sessions.current(now)
	signAs := func(kid any, method jwt.SigningMethod, key any, c jwt.MapClaims) string {
		token := jwt.NewWithClaims(method, c)
		token.Header["kid"] = kid
		signed, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	sign := func(method jwt.SigningMethod, key any, c jwt.MapClaims) string {
		return signAs(current.id, method, key, c)
	}
	if _, err := i.Authenticate(t.Context(), AdminPlane, sign(jwt.SigningMethodEdDSA, current.private, good()), "198.51.100.7"); err != nil {
		t.Fatal("the pattern of this test must be accepted:", err)
	}
	edits := map[string]func(jwt.MapClaims){
		"issuer":    func(c jwt.MapClaims) { c["iss"] = "other" },
		"audience":  func(c jwt.MapClaims) { c["aud"] = "sluice-data" },
		"no exp":    func(c jwt.MapClaims) { delete(c, "exp") },
		"expired":   func(c jwt.MapClaims) { c["exp"] = now.Add(-time.Minute).Unix() },
		"too long":  func(c jwt.MapClaims) { c["exp"] = now.Add(time.Hour).Unix() },
		"future":    func(c jwt.MapClaims) { c["iat"] = now.Add(time.Minute).Unix() },
		"no jti":    func(c jwt.MapClaims) { delete(c, "jti") },
		"no family": func(c jwt.MapClaims) { delete(c, "sid") },
		"epoch":     func(c jwt.MapClaims) { c["ep"] = 0 },
		"subject":   func(c jwt.MapClaims) { c["sub"] = "nobody" },
	}
	for name, edit := range edits {
		claims := good()
		edit(claims)
		_, err := i.Authenticate(t.Context(), AdminPlane, sign(jwt.SigningMethodEdDSA, current.private, claims), "198.51.100.7")
		if !fault.Is(err, fault.CodeInvalidSession) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, token := range map[string]string{
		"none":                      sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()),
		"hs256 with the public key": sign(jwt.SigningMethodHS256, []byte(publicOf(current)), good()),
		"hs256 with its text":       sign(jwt.SigningMethodHS256, []byte(base64.RawURLEncoding.EncodeToString(publicOf(current))), good()),
		"another key":               sign(jwt.SigningMethodEdDSA, ed25519.NewKeyFromSeed(make([]byte, 32)), good()),
		"another key's id":          signAs(i.sessions.of(i.sessions.number(now)-1).id, jwt.SigningMethodEdDSA, current.private, good()),
		"an unknown id":             signAs("x", jwt.SigningMethodEdDSA, current.private, good()),
		"no id":                     signAs(nil, jwt.SigningMethodEdDSA, current.private, good()),
		"an id that is a list":      signAs([]string{current.id}, jwt.SigningMethodEdDSA, current.private, good()),
		"a key of long ago":         signAs(i.sessions.of(i.sessions.number(now)-2).id, jwt.SigningMethodEdDSA, i.sessions.of(i.sessions.number(now)-2).private, good()),
		"a key of the far future":   signAs(i.sessions.of(i.sessions.number(now)+2).id, jwt.SigningMethodEdDSA, i.sessions.of(i.sessions.number(now)+2).private, good()),
		"dots":                      strings.Repeat(".", 4000),
	} {
		if _, err := i.Authenticate(t.Context(), AdminPlane, token, "198.51.100.7"); !fault.Is(err, fault.CodeInvalidSession) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error holds the token", name)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]Config{
		"long access": {AccessTTL: time.Hour}, "slow poll": {Poll: 3 * time.Second}, "negative": {RefreshTTL: -1}, "stale": {MaxStale: time.Second},
	} {
		if bad.Validate() == nil {
			t.Errorf("%s must be refused", name)
		}
		if _, err := New(bad, Limits{}, nil, ring(), slog.New(slog.DiscardHandler), nil); err == nil {
			t.Errorf("%s: New must refuse it", name)
		}
	}
}

func BenchmarkAuthenticateKey(b *testing.B) {
	i := &Identity{cfg: Config{}.WithDefaults(), keys: newDigester(ring().Derive("x")), now: time.Now}
	id, credential := newCredential()
	i.accounts = only(b, &accounts{keys: map[digest]keyEntry{
		i.keys.sum(credential): {principal: Principal{ID: id}, expires: time.Now().Add(time.Hour).UnixMicro()},
	}})
	for b.Loop() {
		if _, err := i.Authenticate(b.Context(), DataPlane, credential, "198.51.100.7"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestModelPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, model string
		want           bool
	}{
		{"*", "org/model@v1", true},
		{"smol*", "smollm2", true},
		{"smollm2", "smollm2@v3", true},
		{"smollm2@v3", "smollm2", false},
		{"*-instruct", "a-instruct", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "acb", false},
		{"ab*ba", "aba", false},
		{"", "x", false},
		{"s?", "sa", false},
		{"[a]", "a", false},
		{"a**", "a", true},
	} {
		if got := Matches([]string{c.pattern}, c.model); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.model, got)
		}
	}
}

// TestSigningKeysRotate: tokens of the period before open sessions across the change, on every replica, and nobody is signed out; the keys
// are published a period ahead, and verify what is signed.
func TestSigningKeysRotate(t *testing.T) {
	db := dbtest.SQLite(t)
	a, clockA := replica(t, db)
	if _, err := a.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
		t.Fatal(err)
	}
	b, clockB := replica(t, db)
	period := a.sessions.period
	// To a minute before the change, and on.
	rest := period - time.Duration(clockA.now().Unix()%int64(period/time.Second))*time.Second
	for _, d := range []time.Duration{rest - time.Minute} {
		clockA.advance(d)
		clockB.advance(d)
	}
	refresh := func() {
		t.Helper()
		for _, i := range []*Identity{a, b} {
			if err := i.accounts.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	refresh()
	ids := func(i *Identity) (out []string) {
		for _, k := range i.PublicKeys() {
			out = append(out, k.ID)
		}
		return out
	}
	before := ids(a)
	s, err := a.Login(t.Context(), "admin", password, "", "")
	if err != nil {
		t.Fatal(err)
	}
	kid := func(token string) string {
		t.Helper()
		parsed, _, err := jwt.NewParser().ParseUnverified(token, &claims{})
		if err != nil {
			t.Fatal(err)
		}
		id, _ := parsed.Header["kid"].(string)
		return id
	}
	if kid(s.Access) != before[1] {
		t.Errorf("signed by %s of %v", kid(s.Access), before)
	}
	clockA.advance(2 * time.Minute)
	clockB.advance(2 * time.Minute)
	refresh()
	after := ids(b)
	if after[0] != before[1] || after[1] != before[2] {
		t.Errorf("published %v, then %v", before, after)
	}
	for _, i := range []*Identity{a, b} {
		if _, err := i.Authenticate(t.Context(), AdminPlane, s.Access, ""); err != nil {
			t.Error("the change of keys signs people out:", err)
		}
	}
	next, err := b.Refresh(t.Context(), s.Refresh)
	if err != nil || kid(next.Access) != after[1] {
		t.Fatalf("signed by %s of %v, %v", kid(next.Access), after, err)
	}
	if _, err := a.Authenticate(t.Context(), AdminPlane, next.Access, ""); err != nil {
		t.Error(err)
	}
	// Whoever has the published keys, and nothing else, can check.
	for _, k := range b.PublicKeys() {
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize || k.Type != "OKP" || k.Curve != "Ed25519" || k.Algorithm != "EdDSA" {
			t.Fatalf("%+v, %v", k, err)
		}
		_, err = jwt.Parse(next.Access, func(*jwt.Token) (any, error) { return ed25519.PublicKey(x), nil }, jwt.WithTimeFunc(b.now))
		if (err == nil) != (k.ID == after[1]) {
			t.Errorf("%s: %v", k.ID, err)
		}
	}
}
