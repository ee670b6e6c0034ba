package billing

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// committedNow returns spent plus all leases of the only budget, in one statement.
func committedNow(t *testing.T, db *gorm.DB) (spent, leased int64) {
	t.Helper()
	err := db.Raw(`SELECT COALESCE((SELECT SUM(spent) FROM billing_spend), 0), COALESCE((SELECT SUM(amount) FROM billing_leases), 0)`).
		Row().Scan(&spent, &leased)
	if err != nil {
		t.Fatal(err)
	}
	return spent, leased
}

// TestConcurrentReplicasNeverOvershoot runs random requests on two replicas against one hard budget. Shippers roll back, commit
// and claim to have failed, and deliver twice; replicas tidy and give leases back meanwhile. At every look the budget holds, at
// the end it is nearly used up and nothing is reserved. So it is for the budget of each scope, whose callers differ in all that the scope leaves open.
func TestConcurrentReplicasNeverOvershoot(t *testing.T) {
	for name, of := range map[string]Scope{
		"organisation": {Organisation: "group"}, "tenant": {Tenant: "t0"}, "project": {Tenant: "t0", Project: "p0"}, "key": {Tenant: "t0", Key: "k0"},
	} {
		t.Run(name, func(t *testing.T) { neverOvershoots(t, of) })
	}
}

// caller is the n-th of those whom a scope covers.
func (s Scope) caller(n int) Scope {
	c := Scope{Organisation: "group", Tenant: fmt.Sprint("t", n%2), Project: fmt.Sprint("p", n%3), Key: fmt.Sprint("k", n)}
	return Scope{
		Organisation: cmp.Or(s.Organisation, c.Organisation), Tenant: cmp.Or(s.Tenant, c.Tenant), Project: cmp.Or(s.Project, c.Project), Key: cmp.Or(s.Key, c.Key),
	}
}

func neverOvershoots(t *testing.T, of Scope) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		const limit, workers, requests = 15_000, 4, 30
		c := newClock()
		f := &dbtest.Faults{}
		ledgers := []*Ledger{replica(t, f.Over(db), "a", c), replica(t, f.Over(db), "b", c)}
		setBudget(t, ledgers[0], Budget{Scope: of, Period: Total, Limit: limit})
		if err := ledgers[1].terms.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			for {
				if spent, leased := committedNow(t, db); spent+leased > limit {
					t.Errorf("spent %d + leased %d exceed the limit", spent, leased)
					return
				}
				for _, l := range ledgers {
					_ = l.tidy(t.Context(), true) // may meet an injected fault
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		var mu sync.Mutex
		var used Money
		var refused int
		var work sync.WaitGroup
		for w := range 2 * workers {
			work.Go(func() {
				l, rng := ledgers[w%2], rand.New(rand.NewPCG(uint64(w), 7))
				for i := range requests {
					name, worst := id(w, "-", i), 1+rng.Int64N(60)
					q := ask(name, worst)
					q.Scope = of.caller(w)
					r, err := l.Reserve(t.Context(), q)
					if err != nil {
						if fault.KindOf(err) != fault.Quota && !fault.Is(err, fault.CodeBillingUnavailable) {
							t.Errorf("reserve: %v", err)
						}
						mu.Lock()
						refused++
						mu.Unlock()
						continue
					}
					if rng.IntN(6) == 0 {
						r.Release()
						continue
					}
					if rng.IntN(8) == 0 {
						f.Set(once("commit", dbtest.FailsAfter))
					}
					tok := Tokens{Completion: rng.Int64N(worst + 1)}
					u := usage(name, c.now(), tok, r.Settle(tok))
					u.Tenant, u.Project, u.Key = q.Tenant, q.Project, q.Key
					ship(t, l, u, rng)
					mu.Lock()
					used += u.Cost
					mu.Unlock()
				}
			})
		}
		work.Wait()
		close(stop)
		watch.Wait()
		f.Set(nil)
		for _, l := range ledgers {
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := ledgers[0].AllBudgets(t.Context()); err != nil || len(all) != 1 || all[0].Scope != of || all[0].Spent != used || all[0].Reserved != 0 {
			t.Errorf("%+v, %v, want %d spent", all, err, used)
		}
		if used > limit {
			t.Errorf("used %d of %d", used, limit)
		}
		if used < limit*8/10 || refused == 0 {
			t.Errorf("the test is too weak: used %d of %d, %d refused", used, limit, refused)
		}
		if spent, leased := committedNow(t, db); spent != int64(used) || leased != 0 {
			t.Errorf("spent %d, leased %d, used %d", spent, leased, used)
		}
	})
}

// ship delivers u at least once: some transactions roll back, some commit and report an error, some come twice.
func ship(t *testing.T, l *Ledger, u Usage, rng *rand.Rand) {
	for done := false; !done; {
		again := rng.IntN(4)
		err := l.store.db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
			if err := l.RecordUsage(tx, u); err != nil {
				return err
			}
			if again == 0 {
				return dbtest.ErrInjected
			}
			return nil
		})
		done = err == nil && again != 1
	}
}

func TestRestartedNodeSettlesAgainstItsOldLease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		crashed := replica(t, db, "node-1", c)
		setBudget(t, crashed, Budget{Scope: Scope{Tenant: "acme"}, Period: Total, Limit: 1000})
		r := reserve(t, crashed, "r1", 50)
		tok := Tokens{Completion: 40}
		u := usage("r1", c.now(), tok, r.Settle(tok)) // in the write-ahead log, not shipped
		reserve(t, crashed, "r2", 30)                 // never ended
		other := replica(t, db, "node-2", c)
		reserve(t, other, "r3", 10).Release()
		_, before := spentAndReserved(t, other)

		restarted := replica(t, db, "node-1", c)
		mustRecord(t, restarted, u)
		mustRecord(t, restarted, u)
		if spent, leased := spentAndReserved(t, restarted); spent != 400 || leased != before-400 {
			t.Errorf("spent %d, leased %d of %d", spent, leased, before)
		}
		_, err := restarted.Reserve(t.Context(), ask("r4", 60))
		wantCode(t, err, fault.CodeOverBudget) // the crashed process's reservation still counts
		if err := other.Close(t.Context()); err != nil {
			t.Fatal(err)
		}

		c.advance(3 * time.Minute) // nobody renews the old leases
		reserve(t, restarted, "r4", 60).Release()
		if err := restarted.store.reap(t.Context(), c.now()); err != nil {
			t.Fatal(err)
		}
		if err := restarted.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, restarted, 400, 0)
	})
}

func TestRenewalKeepsLeasesAndLostOnesRetire(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l, other := replica(t, db, "a", c), replica(t, db, "b", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Total, Limit: 1000})
		r := reserve(t, l, "r1", 50)
		for range 10 {
			c.advance(time.Minute)
			if err := l.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := other.store.reap(t.Context(), c.now()); err != nil {
				t.Fatal(err)
			}
		}
		wantBudget(t, l, 0, 500)

		c.advance(time.Hour / 2) // no renewal: the process hung, or could not reach the database
		if err := other.store.reap(t.Context(), c.now()); err != nil {
			t.Fatal(err)
		}
		wantBudget(t, l, 0, 0)
		refresh(t, l)
		reserve(t, l, "r2", 20) // does not hand out from the lost lease: takes a new one
		wantBudget(t, l, 0, 200)
		if err := l.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		tok := Tokens{Completion: 50}
		mustRecord(t, l, usage("r1", c.now(), tok, r.Settle(tok)))
		wantBudget(t, l, 500, 200)
	})
}

func TestIdleAndOutdatedLeasesAreGivenBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l, other := replica(t, db, "a", c), replica(t, db, "b", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 8000})
		reserve(t, l, "r1", 1).Release()
		wantBudget(t, l, 0, 1000) // an eighth
		tidy := func(idle bool) {
			t.Helper()
			if err := l.tidy(t.Context(), idle); err != nil {
				t.Fatal(err)
			}
		}
		tidy(true) // used since the last time
		wantBudget(t, l, 0, 1000)
		tidy(true)
		wantBudget(t, l, 0, 0)

		r := reserve(t, l, "r2", 10)
		setBudget(t, other, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 50})
		if err := l.terms.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		tidy(false)
		wantBudget(t, l, 0, 100) // only what a request holds
		_, err := l.Reserve(t.Context(), ask("r3", 1))
		wantCode(t, err, fault.CodeOverBudget)
		r.Release()
		tidy(false)
		reserve(t, l, "r3", 5).Release()

		c.advance(24 * time.Hour)
		tidy(false)
		if spent, leased := committedNow(t, db); spent != 0 || leased != 0 {
			t.Errorf("yesterday's lease remains: %d, %d", spent, leased)
		}
		if err := other.DeleteBudget(t.Context(), Scope{Tenant: "acme"}, Day); err != nil {
			t.Fatal(err)
		}
		wantCode(t, other.DeleteBudget(t.Context(), Scope{Tenant: "acme"}, Day), fault.CodeNotFound)
		if err := l.terms.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		reserve(t, l, "r4", 100_000).Release() // unlimited again
	})
}

func TestRunFollowsAndGivesBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l, other := replica(t, db, "a", c), replica(t, db, "b", c)
		l.cfg.Poll = 2 * time.Millisecond
		l.cfg.Lease = 12 * time.Millisecond // only the pace of the loop: expiry goes by c, which stands still
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		setBudget(t, other, Budget{Scope: Scope{Tenant: "acme"}, Period: Total, Limit: 100})
		deadline, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		for tick := time.NewTicker(time.Millisecond); ; {
			r, err := l.Reserve(t.Context(), ask("probe", 20))
			if fault.Is(err, fault.CodeOverBudget) {
				tick.Stop()
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
			select {
			case <-tick.C:
			case <-deadline.Done():
				t.Fatal("the new budget was never seen")
			}
		}
		reserve(t, l, "r1", 10).Release()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		wantBudget(t, other, 0, 0)
	})
}
