package billing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// shanghai returns a ledger whose months begin at 16:00 UTC of the day before.
func shanghai(t *testing.T, db *gorm.DB, c *clock) *Ledger {
	t.Helper()
	l := replica(t, db, "n", c)
	l.cfg.Zone = "Asia/Shanghai"
	return l
}

// bookUsage records the usage of a request as testBook rates it.
func bookUsage(t *testing.T, l *Ledger, request string, at time.Time, change func(*Usage)) {
	t.Helper()
	u := usage(request, at, Tokens{}, Charge{Currency: "CNY", PriceBook: "v2"})
	u.Action, u.EnergyMethod = "chat.completions", "declared"
	change(&u)
	switch u.Action {
	case "embeddings", "rerank", "rag.ingest":
		u.Cost = Money(3 * u.Tokens.Prompt)
	default:
		u.Cost = Money(u.Tokens.Prompt - u.Tokens.Cached + 10*u.Tokens.Completion)
	}
	mustRecord(t, l, u)
}

func tokens(prompt, cached, completion int64) func(*Usage) {
	return func(u *Usage) {
		u.Tokens, u.Energy = Tokens{Prompt: prompt, Cached: cached, Completion: completion}, prompt
	}
}

func utc(month time.Month, day, hour, minute int) time.Time {
	return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
}

// october books a month, worked out by hand: 16:00 UTC is midnight in Shanghai.
//
//	chat m1: 100+50 prompt, 20 cached, 7+3 completion → 130 × 1 + 20 × 0 + 10 × 10 = 230
//	chat m2: 1000 prompt, 0 cached, 1 completion      → 1000 + 10                  = 1010
//	embeddings m1: 11 prompt                          → 33
//	rerank m1: 4 prompt                               → 12
//	                                                    sum                          1285
func october(t *testing.T, l *Ledger) {
	t.Helper()
	bookUsage(t, l, "sep-last", utc(time.September, 30, 15, 59), func(u *Usage) { tokens(1_000_000, 0, 0)(u); u.Tenant = "other" })
	bookUsage(t, l, "first", utc(time.September, 30, 16, 0), func(u *Usage) { tokens(100, 20, 7)(u); u.Model = "m1" })
	bookUsage(t, l, "second", utc(time.October, 12, 3, 0), func(u *Usage) {
		tokens(50, 0, 3)(u)
		u.Model, u.Key, u.Estimated, u.EnergyMethod = "m1", "k2", true, "measured"
	})
	bookUsage(t, l, "third", utc(time.October, 12, 4, 0), func(u *Usage) { tokens(1000, 0, 1)(u); u.Model = "m2" })
	bookUsage(t, l, "question", utc(time.October, 20, 4, 0), func(u *Usage) { tokens(11, 0, 0)(u); u.Model, u.Action = "m1", "embeddings" })
	bookUsage(t, l, "last", utc(time.October, 31, 15, 59), func(u *Usage) { tokens(4, 0, 0)(u); u.Model, u.Action = "m1", "rerank" })
	bookUsage(t, l, "november", utc(time.October, 31, 16, 0), tokens(500, 0, 0))
}

func get(t *testing.T, l *Ledger, month string) statement.Statement {
	t.Helper()
	s, err := l.Statement(t.Context(), "acme", month)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeMonth(t *testing.T, l *Ledger, month string) statement.Statement {
	t.Helper()
	s, err := l.CloseMonth(t.Context(), "acme", month, "li.wei")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inLines(lines []statement.Line) string {
	var out []string
	for _, l := range lines {
		price := "-"
		if l.UnitPrice != nil {
			price = fmt.Sprint(*l.UnitPrice)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %d×%s=%d", l.Month, l.Kind, l.Model, l.Book, l.Quantity, price, l.Amount)))
	}
	return strings.Join(out, "\n")
}

// TestStatement is the golden month, on both databases: every figure is worked out above.
func TestStatement(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := shanghai(t, db, c)
		october(t, l)
		s := get(t, l, "2026-10")
		want := `input m1 v2 130×1=130
cached_input m1 v2 20×0=0
output m1 v2 10×10=100
embedding m1 v2 11×3=33
rerank m1 v2 4×3=12
input m2 v2 1000×1=1000
output m2 v2 1×10=10`
		if got := inLines(s.Lines); got != want {
			t.Errorf("lines\n%s\nwant\n%s", got, want)
		}
		if a := s.Amounts; a != (statement.Amounts{Usage: 1285, Total: 1285}) || s.State != statement.Provisional || s.Requests != 5 || s.Estimated != 1 {
			t.Errorf("%+v, %s, %d requests, %d estimated", a, s.State, s.Requests, s.Estimated)
		}
		if want := []statement.Energy{{Method: "declared", Requests: 4, Microjoules: 1115}, {Method: "measured", Requests: 1, Microjoules: 50}}; !slices.Equal(s.Energy, want) {
			t.Errorf("%+v", s.Energy)
		}
		if s.Currency != "CNY" || len(s.Books) != 1 || s.Books[0].Version != "v2" || len(s.Books[0].Digest) != 64 || s.Number != "2026-10-acme" {
			t.Errorf("%s, %+v, %s", s.Currency, s.Books, s.Number)
		}
		// The usage report of the same period has the same total.
		rep, err := l.Report(t.Context(), ReportQuery{Tenant: "acme", From: s.From.UnixMicro(), To: s.Until.UnixMicro(), GroupBy: []string{"model", "key"}})
		if err != nil || int64(rep.Total.Cost) != s.Amounts.Total || rep.Total.Requests != s.Requests {
			t.Errorf("report %+v, %v", rep.Total, err)
		}
		if now := get(t, l, "2026-11"); now.Amounts.Total != 500 || now.State != statement.Provisional || now.Until.Before(c.now()) {
			t.Errorf("%+v", now)
		}
		for month, code := range map[string]fault.Code{"2026-12": fault.CodeInvalidValue, "october": fault.CodeInvalidValue, "2026-13": fault.CodeInvalidValue} {
			_, err := l.Statement(t.Context(), "acme", month)
			wantCode(t, err, code)
		}
		_, err = l.Statement(t.Context(), "", "2026-10")
		wantCode(t, err, fault.CodeMissing)
	})
}

// TestClosedMonthsAreFrozen: what comes late, and what is corrected, stands in the first month that is open, once, and no closed figure moves.
func TestClosedMonthsAreFrozen(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := shanghai(t, db, c)
		october(t, l)
		_, err := l.CloseMonth(t.Context(), "acme", "2026-11", "li.wei")
		wantCode(t, err, fault.CodeConflict) // not over
		closed := closeMonth(t, l, "2026-10")
		digest, err := closed.Digest()
		if err != nil || closed.State != statement.Closed || closed.ClosedBy != "li.wei" || closed.Amounts.Total != 1285 {
			t.Errorf("%+v, %v", closed, err)
		}
		_, err = l.CloseMonth(t.Context(), "acme", "2026-10", "li.wei")
		wantCode(t, err, fault.CodeExists)

		// Late: one into a group that the statement has, one into a new group, one of before.
		bookUsage(t, l, "late-1", utc(time.October, 5, 0, 0), func(u *Usage) { tokens(7, 0, 0)(u); u.Model = "m1" })
		bookUsage(t, l, "late-2", utc(time.October, 31, 15, 59), func(u *Usage) { tokens(0, 0, 2)(u); u.Model = "m3" })
		bookUsage(t, l, "late-3", utc(time.September, 1, 0, 0), tokens(9, 0, 0))
		if _, err := l.Correct(t.Context(), Correction{Tenant: "acme", Request: "first", Amount: -30, Reason: "outage", Actor: "li.wei"}); err != nil {
			t.Fatal(err)
		}
		again := get(t, l, "2026-10")
		if d, err := again.Digest(); err != nil || d != digest || again.Amounts.Total != 1285 {
			t.Errorf("a closed month moved: %+v, %v", again.Amounts, err)
		}
		november := get(t, l, "2026-11")
		wantLate := `2026-10 input m1 v2 7×1=7
2026-10 output m3 v2 2×10=20
<2026-10 input m v2 9×1=9`
		if got := inLines(november.Late); got != wantLate {
			t.Errorf("late\n%s\nwant\n%s", got, wantLate)
		}
		if a := november.Amounts; a.Usage != 500 || a.Late != 36 || a.Corrections != -30 || a.Total != 506 {
			t.Errorf("%+v", a)
		}
		if x := november.Corrections; len(x) != 1 || x[0].Request != "first" || x[0].Month != "2026-10" || x[0].Model != "m1" || x[0].Key != "k1" {
			t.Errorf("%+v", x)
		}

		// A year later everything that was billed is in exactly one statement.
		c.advance(20 * 24 * time.Hour)
		closeMonth(t, l, "2026-11")
		bookUsage(t, l, "late-4", utc(time.October, 5, 0, 0), func(u *Usage) { tokens(1, 0, 0)(u); u.Model = "m1" })
		december := get(t, l, "2026-12")
		if got := inLines(december.Late); got != "2026-10 input m1 v2 1×1=1" || december.Amounts.Corrections != 0 {
			t.Errorf("%s, %+v", got, december.Amounts)
		}
		list, err := l.Statements(t.Context(), "acme")
		if err != nil || len(list) != 2 || list[0].Month != "2026-11" || list[1].Month != "2026-10" {
			t.Fatalf("%d statements, %v", len(list), err)
		}
		rep, err := l.Report(t.Context(), ReportQuery{Tenant: "acme"})
		if sum := list[0].Amounts.Total + list[1].Amounts.Total + december.Amounts.Total; err != nil || sum != int64(rep.Total.Cost) {
			t.Errorf("statements are %d, the report %d, %v", sum, rep.Total.Cost, err)
		}
		_, err = l.Statement(t.Context(), "acme", "2026-09")
		wantCode(t, err, fault.CodeNotFound)
	})
}

// TestMonthsCloseInOrder: no month that has something is left behind an open one.
func TestMonthsCloseInOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := shanghai(t, db, c)
		bookUsage(t, l, "august", utc(time.August, 5, 0, 0), tokens(7, 0, 0))
		_, err := l.CloseMonth(t.Context(), "acme", "2026-10", "li.wei")
		wantCode(t, err, fault.CodeConflict)
		if err == nil || !strings.Contains(err.Error(), "2026-08") {
			t.Errorf("%v does not say which is next", err)
		}
		closeMonth(t, l, "2026-08")
		_, err = l.CloseMonth(t.Context(), "acme", "2026-10", "li.wei")
		wantCode(t, err, fault.CodeConflict)
		if s := closeMonth(t, l, "2026-09"); s.Amounts != (statement.Amounts{}) || len(s.Lines) != 0 || s.Currency != "CNY" {
			t.Errorf("%+v", s)
		}
		closeMonth(t, l, "2026-10")
	})
}

// TestMonthIsClosedOnce: of replicas that close a month at once, one does.
func TestMonthIsClosedOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := shanghai(t, db, newClock())
		october(t, l)
		var all sync.WaitGroup
		results := make([]error, 6)
		for i := range results {
			all.Go(func() { _, results[i] = l.CloseMonth(t.Context(), "acme", "2026-10", id(i)) })
		}
		all.Wait()
		done := 0
		for _, err := range results {
			if err == nil {
				done++
			} else {
				wantCode(t, err, fault.CodeExists)
			}
		}
		if done != 1 {
			t.Errorf("closed %d times: %v", done, results)
		}
	})
}

// TestAlteredStatementsAreFound: a stored statement that somebody changed is no statement, and books that shrank are not billed.
func TestAlteredStatementsAreFound(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := shanghai(t, db, newClock())
		october(t, l)
		closeMonth(t, l, "2026-10")
		if err := db.Exec("DELETE FROM billing_usage_daily WHERE model = 'm2'").Error; err != nil {
			t.Fatal(err)
		}
		if _, err := l.Statement(t.Context(), "acme", "2026-11"); err == nil || !strings.Contains(err.Error(), "the statements 5") {
			t.Errorf("usage vanished: %v", err)
		}
		if err := db.Exec("UPDATE billing_statements SET content = REPLACE(content, '1285', '1')").Error; err != nil {
			t.Fatal(err)
		}
		for _, month := range []string{"2026-10", "2026-11"} {
			if _, err := l.Statement(t.Context(), "acme", month); err == nil || !strings.Contains(err.Error(), "altered") {
				t.Errorf("%s: %v", month, err)
			}
		}
	})
}

func TestCorrectionsAreRefused(t *testing.T) {
	l := shanghai(t, dbtest.SQLite(t), newClock())
	ok := Correction{Tenant: "acme", Month: "2026-10", Amount: 5, Reason: "r", Actor: "a"}
	for name, c := range map[string]struct {
		change func(*Correction)
		code   fault.Code
	}{
		"no tenant":       {func(c *Correction) { c.Tenant = "" }, fault.CodeMissing},
		"nothing":         {func(c *Correction) { c.Amount = 0 }, fault.CodeInvalidValue},
		"too much":        {func(c *Correction) { c.Amount = 1<<60 + 1 }, fault.CodeInvalidValue},
		"too little":      {func(c *Correction) { c.Amount = -1<<60 - 1 }, fault.CodeInvalidValue},
		"no reason":       {func(c *Correction) { c.Reason = " \t" }, fault.CodeInvalidValue},
		"a long reason":   {func(c *Correction) { c.Reason = strings.Repeat("长", maxReason+1) }, fault.CodeInvalidValue},
		"no month":        {func(c *Correction) { c.Month = "2026" }, fault.CodeInvalidValue},
		"nobody's":        {func(c *Correction) { c.Request = "r0" }, fault.CodeNotFound},
		"another's usage": {func(c *Correction) { c.Request = "theirs" }, fault.CodeNotFound},
	} {
		bookUsage(t, l, "theirs", utc(time.October, 5, 0, 0), func(u *Usage) { u.Tenant = "other" })
		bad := ok
		c.change(&bad)
		_, err := l.Correct(t.Context(), bad)
		if !fault.Is(err, c.code) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if list, err := l.Corrections(t.Context(), "acme"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := l.Correct(t.Context(), ok); err != nil {
		t.Error(err)
	}
}

// TestStatementsAndReportsAgree: random usage that is billed before and after months are closed, in any order, and corrections. All statements
// together have what the report has, and every row of the report is a sum of others.
func TestStatementsAndReportsAgree(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		random := rand.New(rand.NewPCG(20, 26))
		c := newClock()
		c.micros.Store(utc(time.August, 3, 0, 0).UnixMicro())
		l := shanghai(t, db, c)
		months, next := []string{"2026-08", "2026-09", "2026-10", "2026-11"}, 0
		for i := range 120 {
			at := utc(time.August, 1, 0, 0).Add(time.Duration(random.Int64N(int64(c.now().Sub(utc(time.August, 1, 0, 0))))))
			bookUsage(t, l, id(i), at, func(u *Usage) {
				tokens(random.Int64N(1000)+1, 0, random.Int64N(100))(u)
				u.Model, u.Key = "m"+id(random.IntN(3)), id("k", random.IntN(2))
				u.Action = []string{"chat.completions", "embeddings"}[random.IntN(2)]
				if u.Action == "embeddings" {
					u.Tokens.Completion = 0
				}
			})
			if random.IntN(6) == 0 {
				x := Correction{Tenant: "acme", Amount: Money(random.Int64N(2000) - 1000), Reason: "r", Actor: "a"}
				if random.IntN(2) == 0 {
					x.Request = id(random.IntN(i + 1))
				}
				if x.Amount == 0 {
					x.Amount = 1
				}
				refresh(t, l)
				if _, err := l.Correct(t.Context(), x); err != nil {
					t.Fatal(err)
				}
			}
			c.advance(time.Duration(random.Int64N(int64(2 * 24 * time.Hour))))
			if now := c.now().In(time.FixedZone("", 8*3600)).Format("2006-01"); next < len(months) && months[next] < now && random.IntN(3) == 0 {
				closeMonth(t, l, months[next])
				next++
			}
		}
		list, err := l.Statements(t.Context(), "acme")
		if err != nil || len(list) < 2 {
			t.Fatalf("%d statements, %v", len(list), err)
		}
		sum, requests, late := int64(0), int64(0), 0
		for _, s := range list {
			sum, requests, late = sum+s.Amounts.Total, requests+s.Requests, late+len(s.Late)
		}
		for month := monthAfter(list[0].Month); month <= c.now().In(time.FixedZone("", 8*3600)).Format("2006-01"); month = monthAfter(month) {
			s := get(t, l, month)
			sum, requests, late = sum+s.Amounts.Total, requests+s.Requests, late+len(s.Late)
		}
		if late == 0 {
			t.Error("nothing came late: the test tries nothing")
		}
		for _, group := range [][]string{nil, {"day"}, {"tenant", "model"}, {"key", "model", "day"}} {
			rep, err := l.Report(t.Context(), ReportQuery{Tenant: "acme", GroupBy: group})
			rows := Row{}
			for _, r := range rep.Rows {
				if err := rows.add(r); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil || int64(rep.Total.Cost) != sum || rep.Total.Requests != requests || rows != rep.Total || rep.Total.Corrections == 0 {
				t.Errorf("by %v: report %+v, rows %+v, statements %d in %d requests, %v", group, rep.Total, rows, sum, requests, err)
			}
		}
	})
}
