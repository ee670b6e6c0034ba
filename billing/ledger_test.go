package billing

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestReserveSettleRecord(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 1000})

		r := reserve(t, l, "r1", 50)
		if r.worstCase != 500 {
			t.Errorf("worst case %d", r.worstCase)
		}
		_, err := l.Reserve(t.Context(), ask("r2", 60))
		wantCode(t, err, fault.CodeOverBudget)

		tok := Tokens{Prompt: 3, Cached: 1, Completion: 20}
		charge := r.Settle(tok)
		if want := (Charge{Cost: 202, Currency: "CNY", PriceBook: "v2"}); charge != want {
			t.Errorf("charge %+v, want %+v", charge, want)
		}
		if again := r.Settle(Tokens{Completion: 1}); again != charge {
			t.Errorf("second settlement charged %+v", again)
		}
		r.Release() // no-op after Settle

		mustRecord(t, l, usage("r1", c.now(), tok, charge))
		r2 := reserve(t, l, "r2", 79) // 790 of the 798 that are left
		wantBudget(t, l, 202, 790)
		r2.Release()
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, l, 202, 0)
	})
}

func TestRefusals(t *testing.T) {
	db := dbtest.SQLite(t)
	c := newClock()
	l := replica(t, db, "n", c)
	setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 10_000})
	setBudget(t, l, Budget{Scope: Scope{Tenant: "acme", Key: "k1"}, Period: Month, Limit: 100})

	_, err := l.Reserve(t.Context(), ask("r", 20))
	wantCode(t, err, fault.CodeOverBudget)
	other := ask("r", 20)
	other.Key = "k2"
	r, err := l.Reserve(t.Context(), other) // the refused request gave back what it had taken from the tenant's budget
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Reserve(t.Context(), other)
	wantCode(t, err, fault.CodeConflict)
	if wait := fault.Public(err).RetryAfter(); wait != time.Second { // it passes
		t.Errorf("to come back after %s", wait)
	}
	r.Release()

	foreign := ask("r", 1_000_000)
	foreign.Tenant = "nobody" // without a budget: unlimited
	if r, err := l.Reserve(t.Context(), foreign); err != nil {
		t.Error(err)
	} else {
		r.Release()
	}
	for name, change := range map[string]func(*Ask){
		"unpriced model":      func(a *Ask) { a.Model = "other" },
		"before every book":   func(a *Ask) { a.At = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) },
		"embed unpriced":      func(a *Ask) { a.Embed, a.Model = true, "x" },
		"no tenant":           func(a *Ask) { a.Tenant = "" },
		"no request id":       func(a *Ask) { a.Request = "" },
		"negative tokens":     func(a *Ask) { a.PromptTokens = -1 },
		"absurdly many":       func(a *Ask) { a.MaxCompletion = 1 << 62 },
		"exactly above limit": func(a *Ask) { a.MaxCompletion = 10; a.PromptTokens = 1 },
	} {
		a := ask("r", 1)
		change(&a)
		if _, err := l.Reserve(t.Context(), a); err == nil {
			t.Errorf("%s: granted", name)
		}
	}
	unpriced := ask("r", 1)
	unpriced.Model = "other"
	_, err = l.Reserve(t.Context(), unpriced)
	wantCode(t, err, fault.CodeBillingUnavailable)
	if len(l.open) != 0 {
		t.Errorf("%d reservations leaked", len(l.open))
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	states, err := l.Budgets(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if s.Reserved != 0 || s.Spent != 0 {
			t.Errorf("left behind: %+v", s)
		}
	}

	fresh, err := New(Config{}, db, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, fresh.Ready(), fault.CodeBillingUnavailable)
	_, err = fresh.Reserve(t.Context(), ask("r", 1))
	wantCode(t, err, fault.CodeBillingUnavailable)
}

func TestEmbeddingIsRatedAsSuch(t *testing.T) {
	l := replica(t, dbtest.SQLite(t), "n", newClock())
	r, err := l.Reserve(t.Context(), Ask{Request: "r", Scope: Scope{Tenant: "acme"}, Model: "m", PromptTokens: 10, Embed: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Settle(Tokens{Prompt: 7}); r.worstCase != 30 || c.Cost != 21 {
		t.Errorf("worst %d, cost %d", r.worstCase, c.Cost)
	}
}

func TestChargeAboveReservationIsPaidByTheBudget(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Total, Limit: 1000})
		r := reserve(t, l, "r1", 10)
		tok := Tokens{Completion: 95} // far above the 10 that were announced
		charge := r.Settle(tok)
		if charge.Cost != 950 {
			t.Errorf("charge %d", charge.Cost)
		}
		_, err := l.Reserve(t.Context(), ask("r2", 6))
		wantCode(t, err, fault.CodeOverBudget)
		mustRecord(t, l, usage("r1", c.now(), tok, charge))
		reserve(t, l, "r3", 5).Release()
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, l, 950, 0)
	})
}

func TestDatabaseFaults(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		f := &dbtest.Faults{}
		l := replica(t, f.Over(db), "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 1000})

		f.Set(once("begin", dbtest.FailsBefore))
		_, err := l.Reserve(t.Context(), ask("r1", 50))
		wantCode(t, err, fault.CodeBillingUnavailable)
		f.Set(once("commit", dbtest.FailsAfter)) // the lease is granted, but nobody is told
		_, err = l.Reserve(t.Context(), ask("r1", 50))
		wantCode(t, err, fault.CodeBillingUnavailable)
		wantBudget(t, l, 0, 500)
		if err := l.tidy(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, l, 0, 0) // returned

		r := reserve(t, l, "r1", 50)
		tok := Tokens{Completion: 30}
		u := usage("r1", c.now(), tok, r.Settle(tok))
		f.Set(once("begin", dbtest.FailsBefore))
		if err := record(t.Context(), l, u); err == nil {
			t.Error("recorded without a transaction")
		}
		f.Set(once("commit", dbtest.FailsAfter))
		if err := record(t.Context(), l, u); err == nil {
			t.Error("no error after the commit")
		}
		mustRecord(t, l, u) // the shipper tries again
		wantBudget(t, l, 300, 200)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, l, 300, 0)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = l.Reserve(ctx, ask("r2", 10))
		wantCode(t, err, fault.CodeBillingUnavailable)
	})
}

func TestRolledBackRecordLeavesTheLeaseWhole(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 1000})
		r := reserve(t, l, "r1", 100)
		tok := Tokens{Completion: 60}
		u := usage("r1", c.now(), tok, r.Settle(tok))
		err := db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
			if err := l.RecordUsage(tx, u); err != nil {
				t.Fatal(err)
			}
			return dbtest.ErrInjected
		})
		if err == nil {
			t.Fatal("no rollback")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, l, 0, 600) // what was used stays covered until it is recorded
		mustRecord(t, l, u)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, l, 600, 0)
		if len(l.open)+len(l.leases)+len(l.retired) != 0 {
			t.Errorf("left in memory: %d reservations, %d slices, %d retired", len(l.open), len(l.leases), len(l.retired))
		}
	})
}

func TestAbandonedReservationsExpire(t *testing.T) {
	c := newClock()
	l := replica(t, dbtest.SQLite(t), "n", c)
	setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Total, Limit: 1000})
	never := reserve(t, l, "never-settled", 40)
	lost := reserve(t, l, "never-recorded", 40)
	lost.Settle(Tokens{Completion: 40})
	refused := reserve(t, l, "rolled-back", 10)
	u := usage("rolled-back", c.now(), Tokens{Completion: 10}, refused.Settle(Tokens{Completion: 10}))
	if err := l.store.db.Transaction(func(tx *gorm.DB) error { return errors.Join(l.RecordUsage(tx, u), dbtest.ErrInjected) }); err == nil {
		t.Fatal("no rollback")
	}
	c.advance(2 * time.Hour)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantBudget(t, l, 0, 0)
	if got := never.Settle(Tokens{Completion: 4}); got.Cost != 40 {
		t.Errorf("late settlement charged %d", got.Cost)
	}
}

// TestStalePricesAreNotTrusted takes the database away: requests are priced for MaxStale, refused, and priced again when it is back.
func TestStalePricesAreNotTrusted(t *testing.T) {
	var faults dbtest.Faults
	c := newClock()
	l := replica(t, faults.Over(dbtest.SQLite(t)), "n1", c)
	priced := func() error {
		r, err := l.Reserve(t.Context(), ask("r1", 10))
		if err == nil {
			r.Release()
		}
		return err
	}
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	c.advance(snapshot.DefaultMaxAge)
	if l.terms.Refresh(t.Context()) == nil {
		t.Fatal("a look at a database that is away must fail")
	}
	if err := errors.Join(priced(), l.Ready()); err != nil {
		t.Error("a short outage must not stop traffic:", err)
	}
	c.advance(time.Second)
	wantCode(t, priced(), fault.CodeBillingUnavailable)
	wantCode(t, l.Ready(), fault.CodeBillingUnavailable)
	if _, found := l.Price("m", false); found {
		t.Error("a price that nobody can pay is shown")
	}
	faults.Set(nil)
	refresh(t, l)
	if err := errors.Join(priced(), l.Ready()); err != nil {
		t.Error("the database is back:", err)
	}
}
