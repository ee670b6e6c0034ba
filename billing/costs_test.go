package billing

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/cost"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// testCosts hires a machine for m1 at 1 CNY an hour and measures all else, and owns what m2 runs on without saying for how long.
const testCosts = `
schema: 1
currency: CNY
effective_from: 2026-10-10T00:00:00+08:00
zone: Asia/Shanghai
engines:
  - name: rented
    models: [m1]
    machines: {value: 1, source: contract, date: 2026-10-01}
    machine_hour: {value: 1, source: contract, date: 2026-10-01}
    pue: {value: 1, source: contract, date: 2026-10-01}
    idle_watts: {value: 0, source: contract, date: 2026-10-01}
    space_month: {value: 0, source: contract, date: 2026-10-01}
    staff_month: {value: 0, source: contract, date: 2026-10-01}
    staff_percent: {value: 0, source: contract, date: 2026-10-01}
    slo_first_token_ms: {value: 100, source: contract, date: 2026-10-01}
    slo_total_ms: {value: 1000, source: contract, date: 2026-10-01}
    power: [{hours: [9], value: 2, source: tariff, date: 2026-10-01}, {value: 1, source: tariff, date: 2026-10-01}]
  - name: owned
    models: ["m2*"]
    machines: {value: 1, source: contract, date: 2026-10-01}
    purchase_price: {value: 1000, source: contract, date: 2026-10-01}
`

// TestCosts: the usage of a month becomes that of the engines, by the book of the time, in times that were met and at the prices of the hour.
func TestCosts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := shanghai(t, db, c)
		_, err := l.Costs(t.Context(), "2026-10", "")
		wantCode(t, err, fault.CodeNotFound)
		book, err := l.PublishCosts(t.Context(), []byte(testCosts), "li.wei")
		if err != nil || book.Version != "v1" || book.Actor != "li.wei" || !book.Effective {
			t.Fatal(book, err)
		}
		_, err = l.PublishCosts(t.Context(), []byte(testCosts), "li.wei")
		wantCode(t, err, fault.CodeExists)
		_, err = l.PublishCosts(t.Context(), []byte("schema: 1\n"), "li.wei")
		wantCode(t, err, fault.CodeInvalidValue)
		later := strings.Replace(testCosts, "effective_from: 2026-10", "effective_from: 2026-12", 1)
		if next, err := l.PublishCosts(t.Context(), []byte(later), "li.wei"); err != nil || next.Version != "v2" || next.Effective {
			t.Fatal(next, err)
		}
		const kWh = 3_600_000_000_000
		for i, x := range []struct {
			model, outcome, method string
			first, total, energy   int64
			at                     time.Time
		}{
			{"m1", "ok", "measured", 100_000, 1_000_000, kWh, utc(time.October, 5, 1, 0)}, // in time, at 9 o'clock in Shanghai: 2 CNY
			{"m1", "ok", "measured", 100_001, 900_000, kWh, utc(time.October, 5, 1, 59)},  // the first token is late; 2 CNY
			{"m1", "ok", "measured", 50_000, 1_000_001, kWh, utc(time.October, 5, 2, 0)},  // late; 1 CNY
			{"m1", "failed", "measured", 0, 10_000, kWh, utc(time.October, 5, 0, 59)},     // 1 CNY
			{"m1", "ok", "measured", 1, 1, 0, utc(time.September, 30, 15, 59)},            // of September
			{"m2x", "ok", "", 1, 1, 0, utc(time.October, 7, 0, 0)},
			{"m3", "ok", "", 1, 1, 0, utc(time.October, 7, 0, 0)},
		} {
			bookUsage(t, l, id(i), x.at, func(u *Usage) {
				u.Model, u.Outcome, u.EnergyMethod, u.FirstToken, u.Total, u.Energy = x.model, x.outcome, x.method, x.first, x.total, x.energy
				u.Tokens = Tokens{Prompt: 7, Cached: 2, Completion: 3}
			})
		}
		r, err := l.Costs(t.Context(), "2026-10", "")
		if err != nil {
			t.Fatal(err)
		}
		if !r.Whole || r.Book.Version != "v1" || len(r.Engines) != 2 || len(r.Unassigned) != 1 || r.Unassigned[0] != (UnassignedModel{"m3", 1, 10}) {
			t.Fatalf("%+v", r)
		}
		rented := r.Engines[0]
		if u := rented.Usage; u.Requests != 4 || u.Answered != 3 || u.Good != 1 || u.GoodTokens != 10 || u.Untimed != 0 || u.Prompt != 28 || u.Cached != 8 || u.Completion != 12 || *u.Billed != 4*35 {
			t.Errorf("%+v", u)
		}
		if *rented.Total != 750e9 || *rented.PerAnswer != 250e9 || *rented.PerGoodAnswer != 750e9 { // 31 days × 24 hours, and 6 of power
			t.Errorf("%+v", rented)
		}
		if owned := r.Engines[1]; owned.Total != nil || owned.Lines[0].Missing != "depreciation_months" || owned.Usage.Requests != 1 {
			t.Errorf("%+v", owned)
		}
		now, err := l.Costs(t.Context(), "2026-11", "")
		if err != nil || now.Whole || now.Until != c.now() || *now.Engines[0].Total <= 0 || *now.Engines[0].Total >= 720e9 {
			t.Errorf("%+v, %v", now, err)
		}
		if v2, err := l.Costs(t.Context(), "2026-10", "v2"); err != nil || v2.Book.Version != "v2" {
			t.Errorf("%+v, %v", v2.Book, err)
		}
		_, err = l.Costs(t.Context(), "2026-10", "v9")
		wantCode(t, err, fault.CodeNotFound)
		_, err = l.Costs(t.Context(), "2026-09", "")
		wantCode(t, err, fault.CodeNotFound) // no book was effective then
		for _, month := range []string{"2026-12", "2026-1", ""} {
			_, err = l.Costs(t.Context(), month, "")
			wantCode(t, err, fault.CodeInvalidValue)
		}
		if _, total := cost.Compare(r.Engines[0], now.Engines[0]); *total.Nano != *now.Engines[0].Total-750e9 {
			t.Errorf("%+v", total)
		}
	})
}

// TestTimesAreCompared: a time that was altered is a difference, and a row of before the books had times is none.
func TestTimesAreCompared(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		u := usage("r1", c.now(), Tokens{Prompt: 1}, Charge{Currency: "CNY", PriceBook: "v2"})
		u.FirstToken, u.Total = 10, 20
		mustRecord(t, l, u)
		mustRecord(t, l, u)
		for update, differs := range map[string]bool{"total = 20": false, "total = 21": true, "total = 20, first_token = 9": true, "total = 0, first_token = 0": false} {
			if err := db.Exec("UPDATE billing_usage SET " + update).Error; err != nil {
				t.Fatal(err)
			}
			if d, err := Differences(db, []Usage{u}); err != nil || (len(d) > 0) != differs {
				t.Errorf("%s: %v, %v", update, d, err)
			}
		}
	})
}

// TestExplain: the bill of a request is its tokens at the prices of the book that rated it, for nobody of another tenant.
func TestExplain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		bookUsage(t, l, "r1", c.now(), tokens(7, 2, 3))
		b, err := l.Explain(t.Context(), "acme", "r1")
		if err != nil || len(b.Lines) != 3 || len(b.Books) != 1 || b.Books[0].Version != "v2" || b.Currency != "CNY" || b.Usage.Cost != 35 || !b.At.Equal(c.now()) {
			t.Fatalf("%+v, %v", b, err)
		}
		sum := int64(0)
		for _, x := range b.Lines {
			if sum += x.Amount; x.UnitPrice == nil || *x.UnitPrice*x.Quantity != x.Amount {
				t.Errorf("%+v", x)
			}
		}
		if sum != b.Usage.Cost {
			t.Errorf("lines sum to %d, billed are %d", sum, b.Usage.Cost)
		}
		for _, other := range [][2]string{{"other", "r1"}, {"acme", "r2"}, {"", "r1"}} {
			_, err := l.Explain(t.Context(), other[0], other[1])
			wantCode(t, err, fault.CodeNotFound)
		}
	})
}
