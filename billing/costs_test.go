package billing

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
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

func costsOf(t *testing.T, l *Ledger, month, book string) (CostReport, error) {
	t.Helper()
	r, err := l.Costs(t.Context(), CostMonth{month, book})
	if err != nil {
		return CostReport{}, err
	}
	return r[0], nil
}

// TestCosts: the usage of a month becomes that of the engines, by the book of the time, in times that were met and at the prices of the hour.
func TestCosts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := shanghai(t, db, c)
		_, err := costsOf(t, l, "2026-10", "")
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
			{"m1", "aborted", "measured", 0, 10_000, kWh, utc(time.October, 5, 0, 59)},    // 1 CNY
			{"m1", "ok", "measured", 1, 1, 0, utc(time.September, 30, 15, 59)},            // of September
			{"m2x", "ok", "", 1, 1, 0, utc(time.October, 7, 0, 0)},
			{"m3", "ok", "", 1, 1, 0, utc(time.October, 7, 0, 0)},
		} {
			bookUsage(t, l, id(i), x.at, func(u *Usage) {
				u.Model, u.Outcome, u.EnergyMethod, u.FirstToken, u.Total, u.Energy = x.model, x.outcome, x.method, x.first, x.total, x.energy
				u.Tokens = Tokens{Prompt: 7, Cached: 2, Completion: 3}
			})
		}
		r, err := costsOf(t, l, "2026-10", "")
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
		now, err := costsOf(t, l, "2026-11", "")
		if err != nil || now.Whole || now.Until != c.now() || *now.Engines[0].Total <= 0 || *now.Engines[0].Total >= 720e9 {
			t.Errorf("%+v, %v", now, err)
		}
		if v2, err := costsOf(t, l, "2026-10", "v2"); err != nil || v2.Book.Version != "v2" || v2.Book.Document != "" {
			t.Errorf("%+v, %v", v2.Book, err)
		}
		_, err = costsOf(t, l, "2026-10", "v9")
		wantCode(t, err, fault.CodeNotFound)
		_, err = costsOf(t, l, "2026-09", "")
		wantCode(t, err, fault.CodeNotFound) // no book was effective then
		if says := fault.Public(err).Message(fault.English); !strings.Contains(says, "cost book effective in '2026-09'") {
			t.Error(says)
		}
		for _, month := range []string{"2026-12", "2026-1", ""} {
			_, err = costsOf(t, l, month, "")
			wantCode(t, err, fault.CodeInvalidValue)
		}
		if _, total := cost.Compare(r.Engines[0], now.Engines[0]); *total.Nano != *now.Engines[0].Total-750e9 {
			t.Errorf("%+v", total)
		}
	})
}

// TestTimesNobodyKnows: an answer whose first token nobody has timed is in time only if its end was in time for the first token, and late only if its end was
// late. What has no tokens that come one by one is not asked for a first one.
func TestTimesNobodyKnows(t *testing.T) {
	const first = "    slo_first_token_ms: {value: 100, source: contract, date: 2026-10-01}\n"
	rented := testCosts[strings.Index(testCosts, "  - name: rented"):strings.Index(testCosts, "  - name: owned")]
	type times struct{ good, untimed int64 }
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l, doc, want := shanghai(t, db, newClock()), testCosts, map[string]times{}
		for i, x := range []struct {
			action, outcome string
			first, total    int64
			want, alone     times // with a limit of first tokens, and without
		}{
			{"chat.completions", "ok", 0, 900_000, times{0, 1}, times{1, 0}}, // in one piece, after its first token had to be there
			{"chat.completions", "ok", 0, 100_000, times{1, 0}, times{1, 0}},
			{"chat.completions", "ok", 0, 1_000_001, times{0, 0}, times{0, 0}},
			{"chat.completions", "ok", 100_000, 1_000_000, times{1, 0}, times{1, 0}},
			{"chat.completions", "ok", 100_001, 1_000_000, times{0, 0}, times{1, 0}},
			{"chat.completions", "ok", 0, 0, times{0, 1}, times{0, 1}}, // of before the books had times
			{"chat.completions", "refused", 0, 900_000, times{0, 0}, times{0, 0}},
			{"chat.completions", "refused", 0, 0, times{0, 0}, times{0, 0}},
			{"embeddings", "ok", 0, 900_000, times{1, 0}, times{1, 0}},
			{"rerank", "ok", 0, 1_000_001, times{0, 0}, times{0, 0}},
			{"embeddings", "ok", 0, 0, times{0, 1}, times{0, 1}},
		} {
			for model, w := range map[string]times{id(i, "with"): x.want, id(i, "alone"): x.alone} {
				engine := rented
				if want[model] = w; strings.HasSuffix(model, "alone") {
					engine = strings.Replace(engine, first, "", 1)
				}
				doc += strings.NewReplacer("name: rented", "name: "+model, "[m1]", "["+model+"]").Replace(engine)
				bookUsage(t, l, model, utc(time.October, 5, 1, 0), func(u *Usage) {
					u.Model, u.Action, u.Outcome, u.FirstToken, u.Total, u.Tokens = model, x.action, x.outcome, x.first, x.total, Tokens{Prompt: 2, Completion: 1}
				})
			}
		}
		if _, err := l.PublishCosts(t.Context(), []byte(doc), "li.wei"); err != nil {
			t.Fatal(err)
		}
		r, err := costsOf(t, l, "2026-10", "")
		if err != nil || len(r.Engines) != 2+len(want) {
			t.Fatal(r.Engines, err)
		}
		for _, e := range r.Engines[2:] {
			if got := (times{e.Usage.Good, e.Usage.Untimed}); got != want[e.Engine.Name] || e.Usage.GoodTokens != 3*got.good || got.untimed > 0 && e.PerGoodAnswer != nil {
				t.Errorf("%s: %+v, want %+v", e.Engine.Name, e.Usage, want[e.Engine.Name])
			}
		}
	})
}

// TestCostsOfRealTraffic: an answer that was given again is billed and no work of a machine. A request whose energy nobody knows makes the total unknown, but
// not where power costs nothing, nor where a figure is declared for such requests.
func TestCostsOfRealTraffic(t *testing.T) {
	free := strings.Replace(testCosts, "power: [{hours: [9], value: 2, source: tariff, date: 2026-10-01}, {value: 1,", "power: [{value: 0,", 1)
	declared := strings.Replace(testCosts, "    slo_first", "    request_watt_hours: {value: 500, source: data sheet, date: 2026-10-01}\n    slo_first", 1)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := shanghai(t, db, newClock())
		for _, doc := range []string{testCosts, free, declared} {
			if _, err := l.PublishCosts(t.Context(), []byte(doc), "li.wei"); err != nil {
				t.Fatal(err)
			}
		}
		nine := utc(time.October, 5, 1, 0) // in Shanghai: 2 CNY
		bookUsage(t, l, "worked", nine, func(u *Usage) {
			u.Model, u.EnergyMethod, u.FirstToken, u.Total, u.Energy, u.Tokens = "m1", "measured", 1, 1, 3_600_000_000_000, Tokens{Prompt: 7, Completion: 3}
		})
		bookUsage(t, l, "repeated", nine, func(u *Usage) {
			u.Model, u.EnergyMethod, u.Total, u.Tokens = "m1", "", 1, Tokens{Prompt: 7, Cached: 7}
		})
		r, err := costsOf(t, l, "2026-10", "v1")
		if err != nil {
			t.Fatal(err)
		}
		e := r.Engines[0]
		if u := e.Usage; u.Requests != 2 || u.Repeated != 1 || u.RepeatedTokens != 7 || u.Answered != 1 || u.Good != 1 || u.Prompt != 7 || u.Cached != 0 || *u.Billed != 37 {
			t.Errorf("%+v", u)
		}
		if e.Total == nil || *e.Total != 746e9 || *e.PerAnswer != 746e9 || *e.PerMillion != 74_600_000e9 || e.Margin == nil { // 744 of rent, 2 of power
			t.Errorf("%+v", e)
		}
		bookUsage(t, l, "remote", nine, func(u *Usage) {
			u.Model, u.EnergyMethod, u.FirstToken, u.Total, u.Tokens = "m1", "", 1, 1, Tokens{Prompt: 7, Completion: 3}
		})
		for version, want := range map[string]struct {
			total   int64
			basis   string
			missing string
		}{"v1": {0, "", "energy"}, "v2": {744e9, "mixed", ""}, "v3": {747e9, "mixed", ""}} { // half a kilowatt-hour at 2
			r, err := costsOf(t, l, "2026-10", version)
			if err != nil {
				t.Fatal(err)
			}
			e := r.Engines[0]
			if x := e.Lines[1]; (e.Total != nil) != (want.total > 0) || e.Total != nil && *e.Total != want.total || x.Basis != want.basis || x.Missing != want.missing || e.Microjoules != 3_600_000_000_000 {
				t.Errorf("%s: %+v", version, e)
			}
		}
	})
}

// TestReportsWaitForNobody: a report of costs is one statement on the books, and neither it nor a statement needs the lock of those who write. A second report
// is told to come again.
func TestReportsWaitForNobody(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := shanghai(t, db, newClock())
		if _, err := l.PublishCosts(t.Context(), []byte(testCosts), "li.wei"); err != nil {
			t.Fatal(err)
		}
		bookUsage(t, l, "r1", utc(time.October, 5, 1, 0), tokens(7, 2, 3))
		var reads, second atomic.Int64
		watch := func(tx *gorm.DB) {
			if !strings.Contains(tx.Statement.SQL.String(), "billing_usage") && tx.Statement.Table != "billing_usage" {
				return
			}
			reads.Add(1)
			_, err := l.Costs(t.Context(), CostMonth{Month: "2026-10"})
			var e *fault.Error
			if errors.As(err, &e) && e.Code() == fault.CodeConcurrency && e.RetryAfter() > 0 {
				second.Add(1)
			}
		}
		if err := errors.Join(db.Callback().Row().Before("gorm:row").Register("watch", watch), db.Callback().Query().Before("gorm:query").Register("watch", watch)); err != nil {
			t.Fatal(err)
		}
		err := db.Transaction(func(tx *gorm.DB) error {
			if err := bumpVersion(tx); err != nil { // a writer
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // SQLite waits for its lock for 10
			defer cancel()
			if _, err := l.Costs(ctx, CostMonth{Month: "2026-10"}, CostMonth{Month: "2026-10", Book: "v1"}); err != nil {
				t.Errorf("costs: %v", err)
			}
			if n := reads.Load(); n != 2 || second.Load() != 2 {
				t.Errorf("two reports read the books %d times, a second caller was refused %d times", n, second.Load())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Callback().Row().Remove("watch"), db.Callback().Query().Remove("watch")); err != nil {
			t.Fatal(err)
		}
		err = db.Transaction(func(tx *gorm.DB) error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := l.Statement(ctx, "acme", "2026-10")
			return errors.Join(bumpVersion(tx), err)
		})
		if err != nil {
			t.Errorf("statement: %v", err)
		}
		if _, err := l.Costs(t.Context(), CostMonth{Month: "2026-10"}); err != nil {
			t.Errorf("after the others: %v", err)
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
		for update, differs := range map[string]bool{"total = 20, first_token = 10": false, "total = 21": true, "total = 20, first_token = 9": true, "total = 0, first_token = 777": true, "total = 0, first_token = 0": false} {
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
