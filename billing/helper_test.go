package billing

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// testBook prices one prompt token at 1, cached at 0, one completion token at 10 and one embedded token at 3.
const testBook = `
schema: 1
currency: CNY
effective_from: 2020-01-01T00:00:00Z
models:
  - {model: "m*", prompt: 1, cached_prompt: 0, completion: 10, embedding: 3}
`

type clock struct{ micros atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.micros.Store(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.micros.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// replica returns a loaded ledger on db that goes by c and rates with testBook.
func replica(t *testing.T, db *gorm.DB, node string, c *clock) *Ledger {
	t.Helper()
	l, err := New(Config{Node: node, Organisation: func(string) string { return "group" }}, db, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	l.now = c.now
	if err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Publish(t.Context(), []byte(testBook), "test"); err != nil && !fault.Is(err, fault.CodeExists) {
		t.Fatal(err)
	}
	return l
}

func refresh(t *testing.T, l *Ledger) {
	t.Helper()
	if err := l.terms.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func setBudget(t *testing.T, l *Ledger, b Budget) {
	t.Helper()
	if err := l.SetBudget(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func ask(request string, completion int64) Ask {
	return Ask{Request: request, Scope: Scope{Organisation: "group", Tenant: "acme", Project: "shop", Key: "k1"}, Model: "m", MaxCompletion: completion}
}

func reserve(t *testing.T, l *Ledger, request string, completion int64) *Reservation {
	t.Helper()
	r, err := l.Reserve(t.Context(), ask(request, completion))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// usage is what the request of ask used when it was charged c.
func usage(request string, at time.Time, tok Tokens, c Charge) Usage {
	return Usage{
		Request: request, Tenant: "acme", Project: "shop", Key: "k1", Model: "m", At: at.UnixMicro(), Tokens: tok, Cost: c.Cost, Currency: c.Currency,
		PriceBook: c.PriceBook, Outcome: "ok",
	}
}

func record(ctx context.Context, l *Ledger, u Usage) error {
	return l.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return l.RecordUsage(tx, u) })
}

func mustRecord(t *testing.T, l *Ledger, u Usage) {
	t.Helper()
	if err := record(t.Context(), l, u); err != nil {
		t.Fatal(err)
	}
}

// spentAndReserved returns spent and reserved of the only budget of acme.
func spentAndReserved(t *testing.T, l *Ledger) (spent, reserved Money) {
	t.Helper()
	b, err := l.Budgets(t.Context(), "acme")
	if err != nil || len(b) != 1 {
		t.Fatalf("budgets %+v, %v", b, err)
	}
	return b[0].Spent, b[0].Reserved
}

func wantBudget(t *testing.T, l *Ledger, spent, reserved Money) {
	t.Helper()
	if s, r := spentAndReserved(t, l); s != spent || r != reserved {
		t.Errorf("spent %d and reserved %d, want %d and %d", s, r, spent, reserved)
	}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("got %v, want code %s", err, code)
	}
}

// once gives the next operation called op an outcome; those after it, and all others, are healthy.
func once(op string, o dbtest.Outcome) func(string) dbtest.Outcome {
	var done atomic.Bool
	return func(got string) dbtest.Outcome {
		if got == op && done.CompareAndSwap(false, true) {
			return o
		}
		return dbtest.Healthy
	}
}

func id(n ...any) string { return fmt.Sprint(append([]any{"r"}, n...)...) }
