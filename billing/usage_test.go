package billing

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestRecordUsageIsIdempotent(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 1_000_000})
		u := usage("r1", c.now(), Tokens{Prompt: 5, Completion: 7}, Charge{Cost: 75, Currency: "CNY", PriceBook: "v2"})
		var replicas sync.WaitGroup
		for range 8 { // the same record, shipped by many at once
			replicas.Go(func() { mustRecord(t, l, u) })
		}
		replicas.Wait()
		other := u
		other.Cost++
		wantCode(t, record(t.Context(), l, other), fault.CodeConflict)
		wantBudget(t, l, 75, 0)
		rep, err := l.Report(t.Context(), ReportQuery{Tenant: "acme"})
		if err != nil || rep.Total.Requests != 1 || rep.Total.Cost != 75 || rep.Currency != "CNY" {
			t.Errorf("report %+v, %v", rep, err)
		}
	})
}

// TestBilledOnce: of several usages of a request that is billed once the first counts, whether they come one by one or together.
func TestBilledOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 1_000_000})
		first := usage("b.1", c.now(), Tokens{Prompt: 5, Completion: 7}, Charge{Cost: 75, Currency: "CNY", PriceBook: "v2"})
		first.Once = true
		again := first
		again.Cost, again.Tokens.Completion = 99, 9
		mustRecord(t, l, first)
		mustRecord(t, l, again)
		other, twice := first, again
		other.Request, twice.Request = "b.2", "b.2"
		if err := db.Transaction(func(tx *gorm.DB) error { return l.RecordUsage(tx, other, twice) }); err != nil {
			t.Fatal(err)
		}
		var rows []usageRow
		if err := db.Order("request").Find(&rows).Error; err != nil || len(rows) != 2 || rows[0].Cost != 75 || rows[1].Cost != 75 {
			t.Errorf("%+v, %v", rows, err)
		}
		if budgets, err := l.Budgets(t.Context(), "acme"); err != nil || len(budgets) != 1 || budgets[0].Spent != 150 {
			t.Errorf("%+v, %v", budgets, err)
		}
	})
}

func TestConflictDoesNotSpoilTheTransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		u := usage("r1", c.now(), Tokens{Completion: 7}, Charge{Cost: 70})
		mustRecord(t, l, u)
		other, next := u, u
		other.Cost, next.Request = 71, "r2"
		err := db.Transaction(func(tx *gorm.DB) error { // the shipper may note the conflict and go on
			wantCode(t, l.RecordUsage(tx, other), fault.CodeConflict)
			return l.RecordUsage(tx, next)
		})
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := l.Report(t.Context(), ReportQuery{}); err != nil || rep.Total.Cost != 140 {
			t.Errorf("report %+v, %v", rep, err)
		}
	})
}

func TestRecordUsageRefusesNonsense(t *testing.T) {
	db := dbtest.SQLite(t)
	c := newClock()
	l := replica(t, db, "n", c)
	ok := usage("r", c.now(), Tokens{Prompt: 1}, Charge{})
	if err := l.RecordUsage(db, ok); err == nil {
		t.Error("recorded outside a transaction")
	}
	for name, change := range map[string]func(*Usage){
		"no request":     func(u *Usage) { u.Request = "" },
		"no tenant":      func(u *Usage) { u.Tenant = "" },
		"negative cost":  func(u *Usage) { u.Cost = -1 },
		"negative power": func(u *Usage) { u.Energy = -1 },
		"no time":        func(u *Usage) { u.At = 0 },
	} {
		u := ok
		change(&u)
		if err := record(t.Context(), l, u); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v, want a refusal that is final for the audit log", name, err)
		}
	}
}

// TestImpossibleCountsAreRecordedAsRated records what a faulty engine reports: it must not keep the audit log from being shipped.
func TestImpossibleCountsAreRecordedAsRated(t *testing.T) {
	c := newClock()
	l := replica(t, dbtest.SQLite(t), "n", c)
	tok := Tokens{Prompt: 3, Cached: 7, Completion: -5}
	charge := reserve(t, l, "r1", 5).Settle(tok)
	u := usage("r1", c.now(), tok, charge)
	mustRecord(t, l, u)
	mustRecord(t, l, u)
	rep, err := l.Report(t.Context(), ReportQuery{})
	if want := (Tokens{Prompt: 3, Cached: 3}); err != nil || rep.Total.Tokens != want || rep.Total.Cost != charge.Cost || charge.Cost != 0 {
		t.Errorf("charged %+v, reported %+v, %v", charge, rep.Total, err)
	}
}

// TestReportsAddUp records random usage and compares reports under random filters and groupings with sums made here. The parts of
// every report add up to its total.
func TestReportsAddUp(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		rng := rand.New(rand.NewPCG(5, 6))
		l := replica(t, db, "n", newClock())
		base := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC).UnixMicro()
		pick := func(s ...string) string { return s[rng.IntN(len(s))] }
		var all []Usage
		err := db.Transaction(func(tx *gorm.DB) error {
			for i := range 250 {
				prompt := rng.Int64N(1000)
				u := Usage{
					Request: id(i), Tenant: pick("a", "b"), Key: pick("k1", "k2", ""), Model: pick("m1", "m2"),
					At:     base + rng.Int64N(4*dayMicros),
					Tokens: Tokens{Prompt: prompt, Cached: rng.Int64N(prompt + 1), Completion: rng.Int64N(1000)}, Estimated: rng.IntN(3) == 0,
					Cost: Money(rng.Int64N(1 << 50)), Energy: rng.Int64N(1 << 40),
				}
				if i < 8 { // exactly at midnight
					u.At = base + int64(i%4)*dayMicros
				}
				if err := l.RecordUsage(tx, u); err != nil {
					return err
				}
				all = append(all, u)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 120 {
			q := ReportQuery{Tenant: pick("", "a", "b", "none"), Key: pick("", "", "k1"), Model: pick("", "", "m2")}
			if rng.IntN(2) == 0 {
				q.From = base + rng.Int64N(3)*dayMicros
				q.To = q.From + (1+rng.Int64N(3))*dayMicros
			} else if rng.IntN(2) == 0 {
				q.From, q.To = base+rng.Int64N(2*dayMicros), base+2*dayMicros+rng.Int64N(2*dayMicros)
			}
			for _, g := range []string{"tenant", "key", "model", "day"} {
				if rng.IntN(2) == 0 {
					q.GroupBy = append(q.GroupBy, g)
				}
			}
			got, err := l.Report(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			want := fold(t, all, q)
			if !slices.Equal(got.Rows, want.Rows) || got.Total != want.Total {
				t.Fatalf("%+v:\ngot  %+v\nwant %+v", q, got, want)
			}
		}
	})
}

func fold(t *testing.T, all []Usage, q ReportQuery) Report {
	t.Helper()
	groups := map[string]*Row{}
	var out Report
	for _, u := range all {
		if q.Tenant != "" && u.Tenant != q.Tenant || q.Key != "" && u.Key != q.Key || q.Model != "" && u.Model != q.Model ||
			u.At < q.From || q.To != 0 && u.At >= q.To {
			continue
		}
		r := Row{Requests: 1, Tokens: u.Tokens, Cost: u.Cost, Energy: u.Energy}
		if u.Estimated {
			r.Estimated = 1
		}
		if err := out.Total.add(r); err != nil {
			t.Fatal(err)
		}
		key := Row{}
		for _, g := range q.GroupBy {
			switch g {
			case "tenant":
				key.Tenant = u.Tenant
			case "key":
				key.Key = u.Key
			case "model":
				key.Model = u.Model
			case "day":
				key.Day = dayOf(u.At)
			}
		}
		name := fmt.Sprintf("%q", []string{key.Tenant, key.Key, key.Model, key.Day})
		if groups[name] == nil {
			groups[name] = &key
		}
		if err := groups[name].add(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range groups {
		out.Rows = append(out.Rows, *r)
	}
	slices.SortFunc(out.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Day, b.Day))
	})
	return out
}

func TestReportRefuses(t *testing.T) {
	l := replica(t, dbtest.SQLite(t), "n", newClock())
	for _, q := range []ReportQuery{{GroupBy: []string{"hour"}}, {From: 5, To: 4}, {From: -1}} {
		_, err := l.Report(t.Context(), q)
		wantCode(t, err, fault.CodeInvalidValue)
	}
	var r Row
	if r.add(Row{Energy: 1<<63 - 1}) != nil || r.add(Row{Energy: 1}) == nil {
		t.Error("a total wrapped around")
	}
}

// TestUsageInBatches delivers batches that overlap, each in an order of its own, from many replicas at once, and takes some back: every
// usage is counted once, in the reports, in the daily sums and against the budgets.
func TestUsageInBatches(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Day, Limit: 1 << 40})
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme", Key: "k1"}, Period: Total, Limit: 1 << 40})
		r := reserve(t, l, id(0), 50)
		var all []Usage
		var cost Money
		for i := range 1200 {
			u := usage(id(i), c.now(), Tokens{Prompt: int64(i), Completion: 1}, Charge{Cost: Money(i + 10), Currency: "CNY"})
			if i == 0 {
				u = usage(id(0), c.now(), Tokens{Completion: 1}, r.Settle(Tokens{Completion: 1}))
			}
			u.Key, u.Model = []string{"k1", "k2"}[i%2], []string{"m", "m1", "m2"}[i%3]
			all, cost = append(all, u), cost+u.Cost
		}
		var replicas sync.WaitGroup
		for n := range 6 {
			replicas.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), 7))
				batch := slices.Concat(all[n*100:n*100+700], all[n*100:n*100+5]) // five of them twice
				rng.Shuffle(len(batch), func(i, k int) { batch[i], batch[k] = batch[k], batch[i] })
				for _, fails := range []bool{true, false, false} {
					err := db.Transaction(func(tx *gorm.DB) error {
						if err := l.RecordUsage(tx, batch...); err != nil || !fails {
							return err
						}
						return dbtest.ErrInjected
					})
					if (err != nil) != fails {
						t.Error(err)
					}
				}
			})
		}
		replicas.Wait()
		for _, q := range []ReportQuery{{}, {From: c.now().UnixMicro()}} { // of the days, and of the rows themselves
			if rep, err := l.Report(t.Context(), q); err != nil || rep.Total.Requests != 1200 || rep.Total.Cost != cost {
				t.Errorf("%+v: %+v, %v, want cost %d", q, rep.Total, err, cost)
			}
		}
		budgets, err := l.Budgets(t.Context(), "acme")
		var odd Money
		for i, u := range all {
			if i%2 == 0 {
				odd += u.Cost
			}
		}
		if err != nil || len(budgets) != 2 || budgets[0].Spent != cost || budgets[1].Spent != odd {
			t.Errorf("budgets %+v, %v, want %d and %d spent", budgets, err, cost, odd)
		}
		other := all[3]
		other.Cost++
		for _, batch := range [][]Usage{{usage("new", c.now(), Tokens{}, Charge{Cost: 5}), other}, {usage("new", c.now(), Tokens{}, Charge{Cost: 5}), usage("new", c.now(), Tokens{}, Charge{Cost: 6})}} {
			wantCode(t, db.Transaction(func(tx *gorm.DB) error { return l.RecordUsage(tx, batch...) }), fault.CodeConflict)
		}
		if rep, err := l.Report(t.Context(), ReportQuery{}); err != nil || rep.Total.Requests != 1200 || rep.Total.Cost != cost {
			t.Errorf("after refusals %+v, %v", rep.Total, err)
		}
	})
}

// TestSumsSayHowEnergyIsKnown: a sum of figures that came about in several ways is called mixed, one of figures and of nothing known by the figures,
// by day and by request, whatever the order and the number of transactions.
func TestSumsSayHowEnergyIsKnown(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		for i, u := range []struct{ model, method string }{
			{"m1", "declared"}, {"m1", ""}, {"m1", "declared"}, {"m2", ""}, {"m2", "measured"}, {"m3", "measured"}, {"m3", "declared"}, {"m3", "measured"}, {"m4", ""},
		} {
			x := usage(id(i), c.now(), Tokens{Completion: 1}, Charge{})
			if x.Model, x.EnergyMethod = u.model, u.method; u.method != "" {
				x.Energy = 5
			}
			mustRecord(t, l, x)
		}
		for _, whole := range []bool{true, false} { // by daily sums, and by requests
			q := ReportQuery{GroupBy: []string{"model"}, From: 1}
			if whole {
				q.From = 0
			}
			r, err := l.Report(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, row := range r.Rows {
				got[row.Model] = row.EnergyMethod
			}
			if fmt.Sprint(got) != "map[m1:declared m2:measured m3:mixed m4:]" || r.Total.EnergyMethod != "mixed" {
				t.Errorf("daily %v: %v, total %q", whole, got, r.Total.EnergyMethod)
			}
		}
	})
}
