package billing

import (
	"fmt"
	"time"

	"github.com/sluice-project/sluice/billing/price"
)

// terms are what requests read: the price books and budgets as they were at one change of the database. They are never changed.
type terms struct {
	books         []book               // by effective time, then version
	organisations map[string][]*budget // those of organisations, by organisation
	tenants       map[string][]*budget // all others, by tenant
	budgets       map[string]*budget   // by id
}

type book struct {
	version int64
	*price.Book
}

func (b book) name() string { return bookName(b.version) }

func bookName(version int64) string { return fmt.Sprintf("v%d", version) }

// batchPrices is behind the name of a book where it has rated with its prices for the queue class batch: so records, usage and statements say which.
const batchPrices = "/batch"

// rate returns what a book, by its name, charges for the tokens of a model, and the name for that.
func rate(b *price.Book, name, model string, embed, batch bool) (r price.Rate, as string, ok bool) {
	find := b.Generate
	if embed {
		find = b.Embed
	}
	if r, ok = find(model); ok && batch {
		if own, has := b.Batch(r, model, embed); has {
			return own, name + batchPrices, true
		}
	}
	return r, name, ok
}

type budget struct {
	id     string
	scope  Scope
	period Period
	zone   string
	loc    *time.Location
	limit  Money
}

// bookAt returns the book that rates requests admitted at that time.
func (s *terms) bookAt(at time.Time) (book, bool) {
	for i := len(s.books) - 1; i >= 0; i-- {
		if !s.books[i].EffectiveFrom.After(at) {
			return s.books[i], true
		}
	}
	return book{}, false
}

// quote rates the worst case of ask.
func (s *terms) quote(ask Ask) (*Reservation, error) {
	b, ok := s.bookAt(ask.At)
	if !ok {
		return nil, unavailable(fmt.Errorf("no price book is in force at %s; publish one", ask.At.UTC().Format(time.RFC3339)))
	}
	rate, name, ok := rate(b.Book, b.name(), ask.Model, ask.Embed, ask.Batch)
	if !ok {
		purpose := "prompt, cached_prompt and completion"
		if ask.Embed {
			purpose = "embedding"
		}
		return nil, unavailable(fmt.Errorf("price book %s has no %s price for model %q; publish a book that has", b.name(), purpose, ask.Model))
	}
	worst, ok := rate.Worst(ask.PromptTokens, ask.MaxCompletion)
	if !ok {
		return nil, fmt.Errorf("reserve: %d prompt and %d completion tokens are out of range", ask.PromptTokens, ask.MaxCompletion)
	}
	return &Reservation{
		request: ask.Request, rate: rate, worstCase: Money(worst), quote: Charge{Currency: b.Currency, PriceBook: name},
	}, nil
}

// add takes in a budget.
func (s *terms) add(b *budget) {
	s.budgets[b.id] = b
	if b.scope.Organisation != "" {
		s.organisations[b.scope.Organisation] = append(s.organisations[b.scope.Organisation], b)
		return
	}
	s.tenants[b.scope.Tenant] = append(s.tenants[b.scope.Tenant], b)
}

// budgetsFor appends to a list the budgets that a request counts against.
func (s *terms) budgetsFor(of Scope, list []*budget) []*budget {
	for _, b := range s.tenants[of.Tenant] {
		if b.scope.covers(of) {
			list = append(list, b)
		}
	}
	return append(list, s.organisations[of.Organisation]...)
}
