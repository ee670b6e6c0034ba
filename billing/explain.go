package billing

import (
	"context"
	"time"

	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/internal/fault"
)

// Bill is what one request was billed, and how that came about.
type Bill struct {
	Usage    statement.Usage  // of the one request
	At       time.Time        // admission
	Currency string           //
	Lines    []statement.Line // tokens by kind × price; they sum to Usage.Cost
	Books    []statement.Book // that rated it; none: it is not there any more
}

// Explain returns the bill of a request. CodeNotFound says that the tenant has no such request.
func (l *Ledger) Explain(ctx context.Context, tenant, request string) (Bill, error) {
	db := l.store.db.WithContext(ctx)
	var rows []usageRow
	if err := db.Where("request = ? AND tenant = ?", request, tenant).Limit(1).Find(&rows).Error; err != nil {
		return Bill{}, dbError("explain a bill", err)
	}
	if len(rows) == 0 {
		return Bill{}, fault.New(fault.CodeNotFound, fault.Say("thing.billed_request"), request)
	}
	r := rows[0]
	s := statement.Statement{Currency: r.Currency, Usage: []statement.Usage{{
		Action: r.Action, Model: r.Model, Book: r.PriceBook, EnergyMethod: r.EnergyMethod, Requests: 1, Estimated: r.Estimated,
		Prompt: r.Prompt, Cached: r.Cached, Completion: r.Completion, Cost: r.Cost, Energy: r.Energy,
	}}}
	if err := l.price(db, &s); err != nil {
		return Bill{}, dbError("explain a bill", err)
	}
	return Bill{Usage: s.Usage[0], At: time.UnixMicro(r.At).UTC(), Currency: s.Currency, Lines: s.Lines, Books: s.Books}, nil
}
