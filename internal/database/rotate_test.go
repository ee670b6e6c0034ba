package database_test

import (
	"net/url"
	"testing"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestNewConnectionsSignInAsNow: who rotates the password of the database restarts nothing. Servers of tests may ask for no password, but
// they say who signed in.
func TestNewConnectionsSignInAsNow(t *testing.T) {
	u, err := url.Parse(dbtest.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	owner, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(u.String())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(owner) }()
	at := func(role string) string {
		name := role + u.Path[1:]
		for _, q := range []string{"CREATE ROLE " + name + " LOGIN PASSWORD 'planted'", "GRANT CONNECT ON DATABASE " + u.Path[1:] + " TO " + name} {
			if err := owner.Exec(q).Error; err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if admin, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(u.String())}); err == nil {
				_ = admin.Exec("DROP OWNED BY " + name).Error
				_ = admin.Exec("DROP ROLE " + name).Error
				_ = database.Close(admin)
			}
		})
		as := *u
		as.User = url.UserPassword(name, "planted")
		return as.String()
	}
	before, after := at("before_"), at("after_")
	now := keyring.Inline(before)
	db, err := database.Open(t.Context(), database.Config{URL: now, MaxConnections: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxIdleConns(0) // every question is asked by a new connection
	who := func() (user string) {
		if err := db.Raw("SELECT current_user").Scan(&user).Error; err != nil {
			t.Fatal(err)
		}
		return user
	}
	if got := who(); got != "before_"+u.Path[1:] {
		t.Fatalf("signed in as %s", got)
	}
	now.Set(after)
	if got := who(); got != "after_"+u.Path[1:] {
		t.Errorf("after the rotation signed in as %s", got)
	}
}
