package billing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Statement returns the statement of a tenant for a month, such as "2026-10", in the zone of the installation. That of a closed month is as
// it was closed; any other is provisional. It is read in a snapshot, for which no request waits. CodeNotFound says that the month lies before the first that
// was closed.
func (l *Ledger) Statement(ctx context.Context, tenant, month string) (statement.Statement, error) {
	var s statement.Statement
	err := database.Snapshot(ctx, l.store.db, func(tx *gorm.DB) (err error) {
		s, err = l.statement(tx, tenant, month)
		return err
	})
	return s, dbError("make statement", err)
}

// Statements returns the statements of the closed months, newest first.
func (l *Ledger) Statements(ctx context.Context, tenant string) ([]statement.Statement, error) {
	closed, err := closedMonths(l.store.db.WithContext(ctx), tenant)
	slices.Reverse(closed)
	return closed, dbError("read statements", err)
}

// CloseMonth freezes the figures of a month that is over. Months are closed in order, so that each usage is in exactly one statement: what is
// billed for a closed month later stands in the first one that is open. CodeConflict says why a month cannot be closed yet, CodeExists that
// it is closed.
func (l *Ledger) CloseMonth(ctx context.Context, tenant, month, actor string) (statement.Statement, error) {
	var s statement.Statement
	err := l.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		err := bumpVersion(tx) // the counter row is the lock: months close one at a time
		if err != nil {
			return err
		}
		if s, err = l.statement(tx, tenant, month); err != nil {
			return err
		}
		if s.State == statement.Closed {
			return fault.New(fault.CodeExists, fault.Say("thing.statement"), s.Number)
		}
		if now := l.now(); s.Until.After(now) {
			return fault.New(fault.CodeConflict, fault.Say("billing.month_not_over", s.Until.Format(time.RFC3339)))
		}
		if err := mayClose(tx, s); err != nil {
			return err
		}
		s.State, s.ClosedBy = statement.Closed, actor
		return insertStatement(tx, s)
	})
	return s, dbError("close month", err)
}

// mayClose refuses a month that would leave an earlier one behind.
func mayClose(tx *gorm.DB, s statement.Statement) error {
	closed, err := closedMonths(tx, s.Tenant)
	if err != nil {
		return err
	}
	if n := len(closed); n > 0 {
		if next := monthAfter(closed[n-1].Month); next != s.Month {
			return fault.New(fault.CodeConflict, fault.Say("billing.month_order", next))
		}
		return nil
	}
	first, err := firstBilled(tx, s.Tenant)
	if err != nil || first == 0 || first >= s.From.UnixMicro() {
		return err
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		return err
	}
	return fault.New(fault.CodeConflict, fault.Say("billing.month_order", Month.id(time.UnixMicro(first), zone)))
}

// statement reads a closed statement, or makes one of what is billed now.
func (l *Ledger) statement(tx *gorm.DB, tenant, month string) (statement.Statement, error) {
	s, err := l.header(tenant, month)
	if err != nil {
		return s, err
	}
	closed, err := closedMonths(tx, tenant)
	if err != nil {
		return s, err
	}
	if i := slices.IndexFunc(closed, func(c statement.Statement) bool { return c.Month == month }); i >= 0 {
		return closed[i], nil
	}
	first := true // of those that are open
	if n := len(closed); n > 0 {
		if month < closed[0].Month {
			return s, fault.New(fault.CodeNotFound, fault.Say("thing.statement"), s.Number)
		}
		if first = monthAfter(closed[n-1].Month) == month; first {
			s.From = closed[n-1].Until // whatever the zone was then
		}
	}
	if s.Usage, s.Currency, err = usageGroups(tx, tenant, s.From, s.Until); err != nil {
		return s, err
	}
	if first {
		late, err := lateUsage(tx, closed, s.From)
		if err != nil {
			return s, err
		}
		s.Usage = append(s.Usage, late...)
	}
	s.Corrections = []statement.Correction{}
	if err := openCorrections(tx, &s, closed, first); err != nil {
		return s, err
	}
	return s, l.price(tx, &s)
}

// header returns what is known of a statement before anything is read.
func (l *Ledger) header(tenant, month string) (statement.Statement, error) {
	if tenant == "" {
		return statement.Statement{}, fault.New(fault.CodeMissing, "tenant").WithParam("tenant")
	}
	zone, err := time.LoadLocation(l.cfg.Zone)
	if err != nil {
		return statement.Statement{}, fmt.Errorf("zone of statements: %w", err)
	}
	begin, err := time.Parse("2006-01", month)
	if err != nil {
		return statement.Statement{}, fault.New(fault.CodeInvalidValue, "month", fault.Say("billing.month")).WithParam("month")
	}
	from, until := Month.bounds(begin.AddDate(0, 0, 14), zone)
	now := l.now().UTC().Truncate(time.Microsecond)
	if from > now.UnixMicro() {
		return statement.Statement{}, fault.New(fault.CodeInvalidValue, "month", fault.Say("billing.month_future")).WithParam("month")
	}
	return statement.Statement{
		Number: month + "-" + tenant, State: statement.Provisional, Tenant: tenant, Month: month, Zone: l.cfg.Zone,
		From: time.UnixMicro(from).UTC(), Until: time.UnixMicro(until).UTC(), AsOf: now,
	}, nil
}

// price completes a statement with the price books that rated its usage.
func (l *Ledger) price(tx *gorm.DB, s *statement.Statement) error {
	var rows []bookRow
	if err := tx.Select(bookRow{}.columns()).Order("version").Find(&rows).Error; err != nil {
		return err
	}
	books := map[string]*price.Book{}
	s.Books = []statement.Book{}
	for _, r := range rows {
		s.Currency = cmp.Or(s.Currency, r.Currency)
		if !slices.ContainsFunc(s.Usage, func(u statement.Usage) bool { return strings.TrimSuffix(u.Book, batchPrices) == bookName(r.Version) }) {
			continue
		}
		b, err := price.Parse([]byte(r.Document))
		if err != nil {
			return fmt.Errorf("stored price book %s: %w", bookName(r.Version), err)
		}
		books[bookName(r.Version)] = b
		s.Books = append(s.Books, statement.Book{Version: bookName(r.Version), Digest: r.Digest, EffectiveFrom: time.UnixMicro(r.EffectiveFrom).UTC()})
	}
	return s.Complete(func(name, model string, embed bool) (price.Rate, bool) {
		version, batch := strings.CutSuffix(name, batchPrices)
		b := books[version]
		if b == nil {
			return price.Rate{}, false
		}
		r, _, ok := rate(b, version, model, embed, batch)
		return r, ok
	})
}

// monthAfter returns the month behind one.
func monthAfter(month string) string {
	t, err := time.Parse("2006-01", month)
	if err != nil {
		return ""
	}
	return t.AddDate(0, 1, 0).Format("2006-01")
}

// lateUsage returns what is billed of months that are closed and stands in no statement. The books only grow, so what is there now less
// what statements have is what came late, whenever and through whichever replica it came.
func lateUsage(tx *gorm.DB, closed []statement.Statement, until time.Time) ([]statement.Usage, error) {
	if len(closed) == 0 {
		return nil, nil
	}
	tenant, counted, stated := closed[0].Tenant, map[statement.Group]statement.Usage{}, int64(0)
	for _, s := range closed {
		stated += s.Requests
		for _, u := range s.Usage {
			u.Month = cmp.Or(u.Month, s.Month)
			sum := counted[u.Group()]
			counted[u.Group()] = plus(sum, u, 1)
		}
	}
	billed, err := requestsBefore(tx, tenant, until)
	if err != nil || billed == stated { // most often
		return nil, err
	}
	if billed < stated {
		return nil, fmt.Errorf("the books have %d requests, the statements %d", billed, stated)
	}
	var late []statement.Usage
	look := func(month string, from, until time.Time) error {
		groups, _, err := usageGroups(tx, tenant, from, until)
		for _, u := range groups {
			u.Month = month
			switch rest := plus(u, counted[u.Group()], -1); {
			case rest.Requests < 0:
				return fmt.Errorf("the books have %d requests of %s less than its statement", -rest.Requests, month)
			case rest.Requests > 0:
				late = append(late, rest)
			}
		}
		return err
	}
	if err := look("<"+closed[0].Month, time.UnixMicro(0), closed[0].From); err != nil {
		return nil, err
	}
	for _, s := range closed {
		if err := look(s.Month, s.From, s.Until); err != nil {
			return nil, err
		}
	}
	return late, nil
}

// plus adds b, times 1 or -1, to a.
func plus(a, b statement.Usage, sign int64) statement.Usage {
	a.Requests += sign * b.Requests
	a.Estimated += sign * b.Estimated
	a.Prompt += sign * b.Prompt
	a.Cached += sign * b.Cached
	a.Completion += sign * b.Completion
	a.Cost += sign * b.Cost
	a.Energy += sign * b.Energy
	return a
}
