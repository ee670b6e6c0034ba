package approval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

type kit struct {
	*Store
	t      *testing.T
	db     *gorm.DB
	faults *dbtest.Faults
	time   time.Time
}

func newKit(t *testing.T, db *gorm.DB) *kit {
	t.Helper()
	k := &kit{t: t, db: db, faults: &dbtest.Faults{}, time: time.Now().Truncate(time.Microsecond)}
	k.Store = New(NewTables(k.faults.Over(db)), 5*time.Minute, func() time.Time { return k.time })
	return k
}

func (k *kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) wants(err error, code fault.Code, says string) {
	k.t.Helper()
	if !fault.Is(err, code) || !strings.Contains(fmt.Sprint(err), says) {
		k.t.Errorf("%v, want %s with %q", err, code, says)
	}
}

// asked is the id of an approval that u1 has asked for.
func (k *kit) asked(kind Kind, digest string) string {
	k.t.Helper()
	a, err := k.New(Approval{Tenant: "acme", Kind: kind, Target: "t", Purpose: "case 17", Counts: map[string]int{"texts": 2}, AskedBy: "u1", AskedName: "one"})
	k.must(err)
	k.must(k.AskNow(k.t.Context(), a, digest))
	return a.ID
}

func (k *kit) boss() identity.Principal {
	return identity.Principal{ID: "u2", Name: "two", SignedIn: k.time}
}

func (k *kit) approve(id string) {
	k.t.Helper()
	_, err := k.Approve(k.t.Context(), KindErasure, "acme", id, k.boss())
	k.must(err)
}

func (k *kit) spend(kind Kind, id, digest string) error {
	return k.db.Transaction(func(tx *gorm.DB) error { return k.Spend(tx, kind, id, digest) })
}

// An approval is good for what it was asked for, of its kind, once, for an hour.
func TestGoodForOneThing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		id := k.asked(KindErasure, "d")
		k.wants(k.spend(KindErasure, id, "d"), fault.CodeConflict, "not been given yet")
		k.approve(id)
		k.wants(k.spend(KindErasure, id, "other"), fault.CodeConflict, "something else")
		k.wants(k.spend(KindReveal, id, "d"), fault.CodeConflict, "something else")
		k.wants(k.spend(KindErasure, "none", "d"), fault.CodeConflict, "something else")
		if a, err := k.Spendable(t.Context(), KindErasure, id, "d"); err != nil || a.ApprovedName != "two" || a.Counts["texts"] != 2 {
			t.Errorf("%+v, %v", a, err)
		}
		k.must(k.spend(KindErasure, id, "d"))
		k.wants(k.spend(KindErasure, id, "d"), fault.CodeConflict, "used before")
		_, err := k.Spendable(t.Context(), KindErasure, id, "d")
		k.wants(err, fault.CodeConflict, "used before")
		_, err = k.Decline(t.Context(), KindErasure, "acme", id, "late", k.boss())
		k.wants(err, fault.CodeConflict, "used before")

		late := k.asked(KindErasure, "d")
		k.approve(late)
		k.time = k.time.Add(time.Hour)
		k.wants(k.spend(KindErasure, late, "d"), fault.CodeConflict, "expired")
		for kind, want := range map[Kind]int{KindErasure: 2, KindReveal: 0} {
			if list, err := k.List(t.Context(), kind, "acme"); err != nil || len(list) != want {
				t.Errorf("%s: %+v, %v", kind, list, err)
			}
		}
	})
}

// Whoever has a second factor must have shown it a short time ago; how fresh the password is says nothing then.
func TestFreshSecondFactor(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	long := k.time.Add(-time.Hour)
	for code, who := range map[fault.Code]identity.Principal{
		fault.CodeReauthenticate: {SignedIn: long, FactorAt: k.time},
		fault.CodeStepUp:         {SignedIn: k.time, SecondFactor: true, FactorAt: long},
		"":                       {SignedIn: long, SecondFactor: true, FactorAt: k.time},
	} {
		err := k.RequireFreshSignIn(who)
		if code == "" && err != nil || code != "" && !fault.Is(err, code) {
			t.Errorf("%+v: %v, want %q", who, err, code)
		}
		who.ID = "u2"
		if _, err := k.Approve(t.Context(), KindErasure, "acme", k.asked(KindErasure, "d"), who); code == "" && err != nil || code != "" && !fault.Is(err, code) {
			t.Errorf("approve as %+v: %v, want %q", who, err, code)
		}
	}
	if err := k.RequireFreshSignIn(identity.Principal{SignedIn: k.time, SecondFactor: true}); !fault.Is(err, fault.CodeStepUp) {
		t.Errorf("a factor that was never shown: %v", err)
	}
}

// Of two accounts of which one created the other, neither approves what the other asks for; it may decline it.
func TestCreatorIsNoSecondPerson(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		for id, by := range map[string]string{"u0": "system", "u1": "u0", "u2": "u0", "u3": "u1"} {
			k.must(db.Exec(`INSERT INTO identity_users (id, tenant, name, password_hash, roles, labels, epoch, created_at, created_by, disabled_at)
				VALUES (?, 'acme', ?, '', '', '', 1, 1, ?, 0)`, id, id, by).Error)
		}
		for id, refused := range map[string]bool{"u0": true, "u1": true, "u2": false, "u3": true} {
			a := k.asked(KindErasure, "d") // by u1
			_, err := k.Approve(t.Context(), KindErasure, "acme", a, identity.Principal{ID: id, SignedIn: k.time})
			if fault.Is(err, fault.CodeSecondPerson) != refused || !refused && err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		_, err := k.Decline(t.Context(), KindErasure, "acme", k.asked(KindErasure, "d"), "no", identity.Principal{ID: "u0"})
		k.must(err)
	})
}

// What was declined is neither approved nor used, before or after it was given; everyone sees who declined it, and why.
func TestDeclined(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		decline := func(kind Kind, tenant, id, reason string, who identity.Principal) error {
			_, err := k.Decline(t.Context(), kind, tenant, id, reason, who)
			return err
		}
		waiting, given := k.asked(KindErasure, "d"), k.asked(KindErasure, "d")
		k.approve(given)
		k.wants(decline(KindErasure, "acme", waiting, "mine", identity.Principal{ID: "u1"}), fault.CodeSecondPerson, "second person")
		k.wants(decline(KindErasure, "acme", waiting, " ", k.boss()), fault.CodeMissing, "reason")
		k.wants(decline(KindErasure, "acme", waiting, strings.Repeat("x", maxReason+1), k.boss()), fault.CodeInvalidValue, "bytes")
		k.wants(decline(KindErasure, "other", waiting, "x", k.boss()), fault.CodeNotFound, "")
		k.wants(decline(KindReveal, "acme", waiting, "x", k.boss()), fault.CodeNotFound, "")
		for _, id := range []string{waiting, given} {
			k.must(decline(KindErasure, "acme", id, "the case is open", k.boss()))
			k.wants(decline(KindErasure, "acme", id, "again", k.boss()), fault.CodeConflict, "declined by two: the case is open")
			_, err := k.Approve(t.Context(), KindErasure, "acme", id, k.boss())
			k.wants(err, fault.CodeConflict, "declined by two: the case is open")
			k.wants(k.spend(KindErasure, id, "d"), fault.CodeConflict, "declined by two: the case is open")
			k.time = k.time.Add(-time.Minute) // on a replica whose clock is behind
			k.wants(k.spend(KindErasure, id, "d"), fault.CodeConflict, "declined by two: the case is open")
			k.time = k.time.Add(time.Minute)
		}
		list, err := k.List(t.Context(), KindErasure, "acme")
		if err != nil || len(list) != 2 || list[0].DeclinedName != "two" || list[0].Reason != "the case is open" || list[0].Declined.IsZero() || list[0].Expires.After(k.time) {
			t.Errorf("%+v, %v", list, err)
		}
		for range maxWaiting { // what was declined does not wait
			k.asked(KindErasure, "d")
		}
		a, err := k.New(Approval{Tenant: "acme", Kind: KindErasure, AskedBy: "u1"})
		k.must(err)
		k.wants(k.AskNow(t.Context(), a, "d"), fault.CodeConflict, "wait")
	})
}

// TestReleaseBeforeHeedsADeclinedOne: what that release looks at, approved, used and the end of its time, tells it that one that was declined is
// good for nothing; what it stores is of reveals, and it sees nothing of erasures.
func TestReleaseBeforeHeedsADeclinedOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		var n int64
		k.asked(KindErasure, "d")
		if k.must(db.Table("reveal_approvals").Count(&n).Error); n != 0 {
			t.Error("the release before could decide about an erasure")
		}
		id := k.asked(KindReveal, "d")
		_, err := k.Approve(t.Context(), KindReveal, "acme", id, k.boss())
		k.must(err)
		_, err = k.Decline(t.Context(), KindReveal, "acme", id, "no", k.boss())
		k.must(err)
		k.must(db.Table("reveal_approvals").Where("id = ? AND digest = 'd' AND approved > 0 AND used = 0 AND expires > ?", id, k.time.UnixMicro()).Count(&n).Error)
		if n != 0 {
			t.Error("the release before would use it")
		}
		k.must(db.Exec(`INSERT INTO reveal_approvals (id, tenant, digest, target, purpose, counts, asked_by, asked_name, created, expires, approved_by, approved_name, approved, used)
			VALUES ('old', 'acme', 'd', 't', 'p', '{}', 'u1', 'one', ?, ?, '', '', 0, 0)`, k.time.UnixMicro(), k.time.Add(time.Hour).UnixMicro()).Error)
		if list, err := k.List(t.Context(), KindReveal, "acme"); err != nil || len(list) != 2 || !slices.ContainsFunc(list, func(a Approval) bool { return a.ID == "old" }) {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// Two who decide at the same time: one of them does.
func TestDecidedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		for range 5 {
			id := k.asked(KindErasure, "d")
			var all sync.WaitGroup
			var approved, spent, declined error
			all.Go(func() { _, approved = k.Approve(t.Context(), KindErasure, "acme", id, k.boss()) })
			all.Go(func() { spent = k.spend(KindErasure, id, "d") })
			all.Go(func() { _, declined = k.Decline(t.Context(), KindErasure, "acme", id, "no", k.boss()) })
			all.Wait()
			if spent == nil && (approved != nil || declined == nil) {
				t.Errorf("it was used, approved: %v, declined: %v", approved, declined)
			}
			if declined == nil {
				k.wants(k.spend(KindErasure, id, "d"), fault.CodeConflict, "declined")
			}
		}
	})
}

// TestEveryFailure fails each operation of declining: it is declined or can be, and says so.
func TestEveryFailure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db)
		for _, o := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for n := 1; ; n++ {
				id := k.asked(KindErasure, "d")
				failed, at := "", n
				k.faults.Set(func(op string) dbtest.Outcome {
					if at--; at == 0 {
						failed = op
						return o
					}
					return dbtest.Healthy
				})
				_, err := k.Decline(t.Context(), KindErasure, "acme", id, "no", k.boss())
				k.faults.Set(nil)
				if (err != nil) != (failed != "") || err != nil && (!fault.Is(err, fault.CodeDatabaseUnavailable) || !errors.Is(err, dbtest.ErrInjected)) {
					t.Errorf("%s: %v", failed, err)
				}
				if _, err := k.Decline(t.Context(), KindErasure, "acme", id, "no", k.boss()); err != nil && !fault.Is(err, fault.CodeConflict) {
					t.Errorf("%s, repeated: %v", failed, err)
				}
				k.wants(k.spend(KindErasure, id, "d"), fault.CodeConflict, "declined")
				if failed == "" {
					break
				}
			}
		}
	})
}
