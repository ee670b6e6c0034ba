package billing

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestBatchPrice: whoever can wait pays what the book says of that, from the reservation on; the others, and models without a percentage, pay as before. Usage,
// reports and statements say which prices they were.
func TestBatchPrice(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := replica(t, db, "n", newClock())
		book := []byte(`{schema: 1, currency: CNY, effective_from: "2026-11-21T09:00:00Z", batch_percent: 50, models: [
			{model: m, prompt: 3, cached_prompt: 1, completion: 10, embedding: 4}, {model: full, prompt: 3, cached_prompt: 1, completion: 10, batch_percent: 100}]}`)
		if _, err := l.Publish(t.Context(), book, "alice"); err != nil {
			t.Fatal(err)
		}
		setBudget(t, l, Budget{Scope: Scope{Tenant: "acme"}, Period: Month, Limit: 250})
		for i, c := range []struct {
			model        string
			batch, embed bool
			cost         Money
			book         string
		}{
			{"m", true, false, 7*2 + 3*1 + 5*5, "v3/batch"},
			{"m", false, false, 7*3 + 3*1 + 5*10, "v3"},
			{"full", true, false, 7*3 + 3*1 + 5*10, "v3"},
			{"m", true, true, 10 * 2, "v3/batch"},
		} {
			a := ask(fmt.Sprint("r", i), 5)
			a.Model, a.Batch, a.Embed, a.PromptTokens = c.model, c.batch, c.embed, 10
			if c.embed {
				a.MaxCompletion = 0
			}
			r, err := l.Reserve(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			used := Tokens{Prompt: 10, Cached: 3, Completion: a.MaxCompletion}
			if q := r.Quote(used); q.Cost != c.cost || q.PriceBook != c.book {
				t.Errorf("%+v: quoted %+v", c, q)
			}
			charge := r.Settle(used)
			if charge.Cost != c.cost || charge.PriceBook != c.book {
				t.Errorf("%+v: charged %+v", c, charge)
			}
			u := usage(a.Request, l.now(), used, charge)
			u.Model, u.Action = c.model, "chat.completions"
			if c.embed {
				u.Action = "embeddings"
			}
			mustRecord(t, l, u)
		}
		rep, err := l.Report(t.Context(), ReportQuery{Tenant: "acme", GroupBy: []string{"price_book"}})
		if err != nil || len(rep.Rows) != 2 || rep.Rows[0].PriceBook != "v3" || rep.Rows[0].Cost != 148 || rep.Rows[1].PriceBook != "v3/batch" || rep.Rows[1].Cost != 62 || rep.Total.Cost != 210 {
			t.Errorf("%+v, %v", rep, err)
		}
		s := get(t, l, "2026-11")
		want := `input full v3 7×3=21
cached_input full v3 3×1=3
output full v3 5×10=50
input m v3 7×3=21
cached_input m v3 3×1=3
output m v3 5×10=50
input m v3/batch 7×2=14
cached_input m v3/batch 3×1=3
output m v3/batch 5×5=25
embedding m v3/batch 10×2=20`
		if got := inLines(s.Lines); got != want || s.Amounts.Total != 210 || len(s.Books) != 1 || s.Books[0].Version != "v3" {
			t.Errorf("lines\n%s\nwant\n%s, %+v, %+v", got, want, s.Amounts, s.Books)
		}
		// The budget was reserved at the price of a batch: of the 40 that are left, a batch fits and the same request of another class does not.
		last := ask("last", 3)
		last.PromptTokens = 10
		if _, err := l.Reserve(t.Context(), last); err == nil {
			t.Error("60 were reserved where 40 are left")
		}
		last.Batch = true
		if _, err := l.Reserve(t.Context(), last); err != nil {
			t.Errorf("a batch for 35: %v", err)
		}
		if p, ok := l.Price("m", false); !ok || p.Batch == nil || *p.Batch != (price.Rate{Prompt: 2, Cached: 1, Completion: 5}) || p.PriceBook != "v3" {
			t.Errorf("%+v", p)
		}
		if p, ok := l.Price("full", false); !ok || p.Batch != nil {
			t.Errorf("%+v", p)
		}
	})
}

// TestBatchNeverAboveReservation: whatever the book says and the engine reports within what was asked, what is settled is at most what was reserved, and a batch
// never costs more than the same request of another class. Without a percentage both are the same.
func TestBatchNeverAboveReservation(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range 3000 {
		percent := ""
		if i%3 > 0 {
			percent = fmt.Sprintf("batch_percent: %d, ", rng.IntN(101))
		}
		b, err := price.Parse(fmt.Appendf(nil, "{schema: 1, currency: CNY, effective_from: 2026-01-01T00:00:00Z, %smodels: [{model: m, prompt: %d, cached_prompt: %d, completion: %d, embedding: %d}]}",
			percent, rng.Int64N(price.MaxUnit+1), rng.Int64N(1000), rng.Int64N(price.MaxUnit+1), rng.Int64N(1000)))
		if err != nil {
			t.Fatal(err)
		}
		s := &terms{books: []book{{1, b}}}
		a := Ask{Request: "r", Model: "m", At: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), PromptTokens: rng.Int64N(1_000_000), MaxCompletion: rng.Int64N(1_000_000), Embed: i%5 == 0}
		plain, err := s.quote(a)
		if err != nil {
			t.Fatal(err)
		}
		a.Batch = true
		batch, err := s.quote(a)
		if err != nil {
			t.Fatal(err)
		}
		prompt := rng.Int64N(a.PromptTokens + 1)
		used := Tokens{Prompt: prompt, Cached: rng.Int64N(prompt + 1), Completion: rng.Int64N(a.MaxCompletion + 1)}
		if got := batch.Quote(used).Cost; got > batch.worstCase || got > plain.Quote(used).Cost || got < 0 || batch.worstCase > plain.worstCase {
			t.Fatalf("%s: %d of %d reserved, %d of %d without", percent, got, batch.worstCase, plain.Quote(used).Cost, plain.worstCase)
		}
		if percent == "" && (batch.Quote(used) != plain.Quote(used) || batch.worstCase != plain.worstCase) {
			t.Fatal("a batch differs although the book does not say so")
		}
	}
}
