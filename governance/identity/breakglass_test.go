package identity

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// emergencies is an identity service with break-glass, over faults.
func emergencies(t *testing.T, db *gorm.DB, cfg BreakGlass) (*Identity, *clock, *dbtest.Faults) {
	t.Helper()
	faults := &dbtest.Faults{}
	cfg.Enabled = true
	i, err := New(Config{BreakGlass: cfg, PasswordCost: quick}, Limits{}, faults.Over(db), ring(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{t: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}
	i.now = c.now
	if err := i.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := i.EnsureAdmin(t.Context(), "demo", "admin", password); err != nil {
		t.Fatal(err)
	}
	return i, c, faults
}

func sealed(t *testing.T, i *Identity) []string {
	t.Helper()
	_, secrets, err := i.MakeSeals(t.Context(), Principal{ID: "u1", Name: "sec"}, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	return secrets[0]
}

// TestBreakGlass: both halves open one session that lasts its time on every replica and is an emergency's; nothing less does, and nothing twice; what is stored opens
// nothing.
func TestBreakGlass(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c, _ := emergencies(t, db, BreakGlass{Networks: []string{"10.0.0.0/8"}})
		off, _ := replica(t, db)
		_, _, err := off.MakeSeals(t.Context(), Principal{}, 1, false)
		wantCode(t, err, fault.CodeConflict)
		halves, others := sealed(t, i), sealed(t, i)
		open := func(from string, given ...string) error {
			_, _, err := i.OpenEmergency(t.Context(), given, "nobody can sign in", from)
			return err
		}
		wantCode(t, open("192.0.2.1", halves...), fault.CodeConflict)
		_, _, err = off.OpenEmergency(t.Context(), halves, "x", "10.0.0.1")
		wantCode(t, err, fault.CodeConflict)
		_, _, err = i.OpenEmergency(t.Context(), halves, " ", "10.0.0.1")
		wantCode(t, err, fault.CodeMissing)
		for n, given := range [][]string{
			{},
			{halves[0]},
			{halves[1]},
			{halves[0], halves[0]},
			{halves[0], others[1]},
			{halves[0], strings.Repeat("x", 2000)},
			{halves[0], halves[1][:len(halves[1])-1]},
			{halves[0], halves[1], halves[1]},
		} {
			if err := open("10.0.1."+string(rune('0'+n)), given...); !fault.Is(err, fault.CodeInvalidLogin) {
				t.Errorf("%d: %v", n, err)
			}
		}
		var rows []string
		if err := db.Raw("SELECT halves FROM identity_break_glass").Scan(&rows).Error; err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		for _, half := range slices.Concat(halves, others) {
			if strings.Contains(strings.Join(rows, ""), half[12:]) || len(half) < 40 {
				t.Errorf("the half %q stands in the database, or is short", half)
			}
		}

		s, use, err := i.OpenEmergency(t.Context(), []string{halves[1], halves[0]}, " nobody can sign in ", "10.0.0.1") // in any order
		if err != nil || use.Reason != "nobody can sign in" || !use.Open(c.now()) || s.Refresh != "" {
			t.Fatalf("%+v, %v", use, err)
		}
		wantCode(t, open("10.0.2.1", halves...), fault.CodeInvalidLogin)
		b, _, _ := emergencies(t, db, BreakGlass{})
		for _, x := range []*Identity{i, b} {
			p, err := x.Authenticate(t.Context(), AdminPlane, s.Access, "10.0.0.1")
			if err != nil || p.Kind != KindEmergency || p.ID != use.ID || !slices.Equal(p.Roles, []string{RoleBreakGlass}) || p.Tenant != "demo" || !p.Operator {
				t.Errorf("%+v, %v", p, err)
			}
		}
		for _, refused := range []*Identity{off} {
			poll(t, refused)
			_, err = refused.Authenticate(t.Context(), AdminPlane, s.Access, "10.0.0.1")
			wantCode(t, err, fault.CodeInvalidSession)
		}
		_, err = i.Authenticate(t.Context(), DataPlane, s.Access, "10.0.0.1")
		wantCode(t, err, fault.CodeInvalidKey)
		c.t = c.t.Add(time.Hour + 3*time.Second)
		poll(t, i)
		_, err = i.Authenticate(t.Context(), AdminPlane, s.Access, "10.0.0.1")
		wantCode(t, err, fault.CodeInvalidSession)
	})
}

// TestOneOpens: of many who try the same credential at once one gets in.
func TestOneOpens(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, _, _ := emergencies(t, db, BreakGlass{})
		halves := sealed(t, i)
		var in sync.Map
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				_, use, err := i.OpenEmergency(t.Context(), slices.Clone(halves), "x", "10.0.0."+string(rune('1'+n)))
				if err == nil {
					in.Store(use.ID, true)
				} else if !fault.Is(err, fault.CodeInvalidLogin) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		n := 0
		in.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d sessions of one credential", n)
		}
	})
}

// TestGuessingHalvesWaits: failures are slowed, also where each comes from another network, and one that waits is not even tried.
func TestGuessingHalvesWaits(t *testing.T) {
	i, c, _ := emergencies(t, dbtest.SQLite(t), BreakGlass{})
	i.nobody = "" // quick: the halves below are of no credential
	halves := sealed(t, i)
	codes := map[bool]int{}
	for n := range 25 {
		_, _, err := i.OpenEmergency(t.Context(), []string{"bg-x", "bg-x"}, "x", "10.0."+string(rune('a'+n))+".1")
		codes[fault.Is(err, fault.CodeLoginThrottled)]++
	}
	if codes[false] != freePerAccount || codes[true] != 5 {
		t.Errorf("%v", codes)
	}
	if _, _, err := i.OpenEmergency(t.Context(), halves, "x", "10.0.0.99"); !fault.Is(err, fault.CodeLoginThrottled) || i.EmergencyWait("10.0.0.99") == 0 {
		t.Errorf("%v", err)
	}
	c.t = c.t.Add(2 * time.Hour)
	if _, _, err := i.OpenEmergency(t.Context(), halves, "x", "10.0.0.99"); err != nil {
		t.Error(err)
	}
}

// TestSealsAndReviews: a revoked credential opens nothing; what an emergency has touched reviews nothing; a review ends the session, once.
func TestSealsAndReviews(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, c, _ := emergencies(t, db, BreakGlass{})
		for _, n := range []int{0, 11} {
			_, _, err := i.MakeSeals(t.Context(), Principal{ID: "u1"}, n, true)
			wantCode(t, err, fault.CodeInvalidValue)
		}
		made, secrets, err := i.MakeSeals(t.Context(), Principal{ID: "u1", Name: "sec"}, 2, true)
		if err != nil || len(made) != 2 || made[0].Halves != 1 {
			t.Fatal(made, err)
		}
		if err := i.RevokeSeal(t.Context(), made[0].ID); err != nil {
			t.Fatal(err)
		}
		wantCode(t, i.RevokeSeal(t.Context(), made[0].ID), fault.CodeConflict)
		wantCode(t, i.RevokeSeal(t.Context(), "none"), fault.CodeNotFound)
		_, _, err = i.OpenEmergency(t.Context(), secrets[0], "x", "10.0.0.1")
		wantCode(t, err, fault.CodeInvalidLogin)
		s, use, err := i.OpenEmergency(t.Context(), secrets[1], "x", "10.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, i.RevokeSeal(t.Context(), made[1].ID), fault.CodeConflict)

		by := Administrator{ID: use.ID, Emergency: true}
		if err := i.CreateTenant(t.Context(), Tenant{ID: "acme", Name: "Acme"}); err != nil {
			t.Fatal(err)
		}
		dev, auditor := newUser(t, i, "dev", nil, RoleDeveloper), newUser(t, i, "aud", nil, RoleAuditor)
		_, _, err = i.ResetPassword(t.Context(), by, "acme", auditor.ID)
		wantCode(t, err, fault.CodeRoleAbove)
		_, err = i.ResetFactor(t.Context(), by, "acme", auditor.ID)
		wantCode(t, err, fault.CodeRoleAbove)
		if _, _, err := i.ResetPassword(t.Context(), by, "acme", dev.ID); err != nil {
			t.Fatal(err)
		}
		own, err := i.CreateUser(t.Context(), NewUser{Tenant: "acme", Name: "own", Password: password, Roles: []string{RoleSecurityAdmin}, CreatedBy: use.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, touched := range []string{dev.ID, own.ID} {
			_, err := i.ReviewEmergency(t.Context(), use.ID, "fine", Principal{ID: touched})
			wantCode(t, err, fault.CodeSecondPerson)
		}
		_, err = i.ReviewEmergency(t.Context(), use.ID, " ", Principal{ID: auditor.ID})
		wantCode(t, err, fault.CodeMissing)
		done, err := i.ReviewEmergency(t.Context(), use.ID, "one account brought back", Principal{ID: auditor.ID, Name: "aud"})
		if err != nil || done.Open(c.now()) || done.ReviewedBy != "aud" || done.Reviewed.IsZero() {
			t.Errorf("%+v, %v", done, err)
		}
		_, err = i.Authenticate(t.Context(), AdminPlane, s.Access, "10.0.0.1")
		wantCode(t, err, fault.CodeInvalidSession)
		_, err = i.ReviewEmergency(t.Context(), use.ID, "again", Principal{ID: auditor.ID})
		wantCode(t, err, fault.CodeConflict)
		_, err = i.EndEmergency(t.Context(), "none")
		wantCode(t, err, fault.CodeNotFound)
		if all, err := i.EmergencyUses(t.Context()); err != nil || len(all) != 1 || all[0].Review != "one account brought back" {
			t.Errorf("%+v, %v", all, err)
		}
		wantCode(t, CheckRoles([]string{RoleBreakGlass}), fault.CodeInvalidValue)
	})
}

// TestBreakGlassFailsClosed: whatever write fails, there is no session without a spent credential and a use.
func TestBreakGlassFailsClosed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		i, _, faults := emergencies(t, db, BreakGlass{})
		for _, o := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for n := 1; ; n++ {
				_, secrets, err := i.MakeSeals(t.Context(), Principal{ID: "u1"}, 1, true)
				if err != nil {
					t.Fatal(err)
				}
				halves := secrets[0]
				failed, at := false, n
				faults.Set(func(op string) dbtest.Outcome {
					if strings.HasPrefix(op, "SELECT") {
						return dbtest.Healthy
					}
					if at--; at == 0 {
						failed = true
						return o
					}
					return dbtest.Healthy
				})
				s, use, err := i.OpenEmergency(t.Context(), halves, "x", "10.0.0.1")
				faults.Set(nil)
				if (err != nil) != failed || err != nil && s.Access != "" {
					t.Errorf("%d: %+v, %v", n, use, err)
				}
				var spent, uses int64
				id := strings.Split(halves[0], "-")[1]
				db.Raw("SELECT COUNT(*) FROM identity_break_glass WHERE id = ? AND spent_at <> 0", id).Scan(&spent)
				db.Raw("SELECT COUNT(*) FROM identity_break_glass_uses WHERE credential = ?", id).Scan(&uses)
				if spent != uses || err == nil && uses != 1 {
					t.Errorf("%d: %d spent, %d uses", n, spent, uses)
				}
				if !failed {
					break
				}
			}
		}
	})
}

func TestBreakGlassConfig(t *testing.T) {
	for _, bad := range []BreakGlass{{Duration: 5 * time.Hour}, {Duration: time.Second}, {Networks: []string{"x"}}, {ReviewWithin: -time.Hour}} {
		if (Config{BreakGlass: bad}).Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
