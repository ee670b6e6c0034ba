package billing

import (
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestNewBudgetCountsWhatThePeriodHasUsed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		at := func(s string) time.Time {
			v, err := time.Parse(time.RFC3339, s)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		for i, v := range []time.Time{
			at("2026-10-31T15:59:59Z"), // the 31st in Shanghai
			at("2026-10-31T16:00:00Z"), // the 1st
			at("2026-11-20T15:59:59Z"), // the 20th
			at("2026-11-20T16:00:00Z"), // the 21st
			at("2026-11-21T02:00:00Z"),
		} {
			mustRecord(t, l, usage(id(i), v, Tokens{Completion: 1}, Charge{Cost: 1 << (4 * i)}))
		}
		for _, b := range []struct {
			budget Budget
			want   Money
		}{
			{Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Zone: "Asia/Shanghai", Limit: 1}, 0x11000},
			{Budget{Scope: Scope{Tenant: "acme", Key: "k1"}, Period: Month, Zone: "Asia/Shanghai", Limit: 1}, 0x11110},
			{Budget{Scope: Scope{Tenant: "acme", Key: "other"}, Period: Total, Zone: "UTC", Limit: 1}, 0},
			{Budget{Scope: Scope{Tenant: "acme", Key: "k1"}, Period: Total, Zone: "UTC", Limit: 1}, 0x11111},
			{Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Zone: "UTC", Limit: 7}, 0x10000}, // the first one, moved to another zone
		} {
			setBudget(t, l, b.budget)
			states, err := l.Budgets(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, s := range states {
				if s.Budget == b.budget {
					found = true
					if s.Spent != b.want {
						t.Errorf("%+v has spent %#x, want %#x", b.budget, s.Spent, b.want)
					}
				}
			}
			if !found {
				t.Errorf("%+v not in %+v", b.budget, states)
			}
		}
	})
}

// TestBudgetsSetDuringShippingMissNothing sets a budget while usage is recorded: every record counts once.
func TestBudgetsSetDuringShippingMissNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		zones := []string{"UTC", "Asia/Shanghai", "Europe/Berlin"}
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Go(func() {
				for i := range 20 {
					mustRecord(t, l, usage(id(w, "-", i), c.now(), Tokens{Completion: 1}, Charge{Cost: 10}))
				}
			})
		}
		wg.Go(func() {
			for i := range 12 {
				setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Zone: zones[i%3], Limit: 5})
			}
		})
		wg.Wait()
		wantBudget(t, l, 600, 0)
	})
}

func TestBudgetValidation(t *testing.T) {
	l := replica(t, dbtest.SQLite(t), "n", newClock())
	for name, c := range map[string]struct {
		b    Budget
		code fault.Code
	}{
		"tenant": {Budget{Period: Day}, fault.CodeMissing},
		"period": {Budget{Scope: Scope{Tenant: "a"}, Period: "week"}, fault.CodeInvalidValue},
		"limit":  {Budget{Scope: Scope{Tenant: "a"}, Period: Day, Limit: -1}, fault.CodeInvalidValue},
		"zone":   {Budget{Scope: Scope{Tenant: "a"}, Period: Day, Zone: "Nowhere/Land"}, fault.CodeInvalidValue},
		"local":  {Budget{Scope: Scope{Tenant: "a"}, Period: Day, Zone: "Local"}, fault.CodeInvalidValue},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, l.SetBudget(t.Context(), c.b), c.code) })
	}
	_, err := l.Budgets(t.Context(), "")
	wantCode(t, err, fault.CodeMissing)
	for _, cfg := range []Config{{Zone: "x"}, {Lease: 1}, {Poll: time.Minute}, {ReservationTimeout: -1}} {
		if cfg.Validate() == nil {
			t.Errorf("%+v is valid", cfg)
		}
	}
}

// TestPeriodBoundsAgreeWithIDs walks over clock changes hour by hour: an instant lies in the bounds of its period exactly when it
// has its id.
func TestPeriodBoundsAgreeWithIDs(t *testing.T) {
	for _, name := range []string{"UTC", "Asia/Shanghai", "Europe/Berlin", "America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Period{Day, Month, Total} {
			for _, around := range []time.Time{
				time.Date(2018, 11, 3, 0, 0, 0, 0, time.UTC),  // São Paulo skips midnight
				time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC),  // Beirut skips midnight, Berlin two o'clock
				time.Date(2011, 12, 29, 0, 0, 0, 0, time.UTC), // Apia skips a day
			} {
				for h := range 72 {
					at := around.Add(time.Duration(h) * time.Hour)
					from, to := p.bounds(at, zone)
					for _, edge := range []struct {
						micros int64
						in     bool
					}{{from, true}, {from - 1, false}, {to - 1, true}, {to, false}, {at.UnixMicro(), true}} {
						if p == Total && !edge.in {
							continue
						}
						if same := p.id(time.UnixMicro(edge.micros), zone) == p.id(at, zone); same != edge.in {
							t.Fatalf("%s %s at %s: edge %s, same id %v", name, p, at, time.UnixMicro(edge.micros).In(zone), same)
						}
					}
				}
			}
		}
	}
}

func TestPriceBooks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		books, err := l.Books(t.Context())
		if err != nil || len(books) != 2 || books[0].Actor != "system" || books[0].Effective || !books[1].Effective {
			t.Fatalf("books %+v, %v", books, err)
		}
		replica(t, db, "other", c) // a second start seeds nothing
		next := []byte(`{schema: 1, currency: CNY, effective_from: "2026-11-21T12:00:00Z", models: [{model: m, prompt: 2, cached_prompt: 2, completion: 2}]}`)
		v, err := l.Publish(t.Context(), next, "alice")
		if err != nil || v.Version != "v3" || v.Effective {
			t.Fatalf("published %+v, %v", v, err)
		}
		_, err = l.Publish(t.Context(), next, "alice")
		wantCode(t, err, fault.CodeExists)
		_, err = l.Publish(t.Context(), []byte("schema: 9"), "alice")
		wantCode(t, err, fault.CodeInvalidPriceBook)

		early := reserve(t, l, "r1", 10) // admitted before the new book is in force, settled after
		c.advance(3 * time.Hour)
		refresh(t, l)
		late := reserve(t, l, "r2", 10)
		if a, b := early.Settle(Tokens{Completion: 1}), late.Settle(Tokens{Completion: 1}); a.PriceBook != "v2" || a.Cost != 10 || b.PriceBook != "v3" || b.Cost != 2 {
			t.Errorf("charges %+v, %+v", a, b)
		}
		dollars := []byte(`{schema: 1, currency: USD, effective_from: 2026-01-01T00:00:00Z, models: [{model: m, embedding: 1}]}`)
		mustRecord(t, l, usage("r1", c.now(), Tokens{}, Charge{Cost: 1}))
		_, err = l.Publish(t.Context(), dollars, "alice")
		wantCode(t, err, fault.CodeInvalidPriceBook)
	})
}
