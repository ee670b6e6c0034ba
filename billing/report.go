package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/billing/cost"
	"github.com/sluice-project/sluice/internal/fault"
)

// ReportQuery selects usage. Empty fields select everything.
type ReportQuery struct {
	Tenant, Project, Key, Model string
	From, To                    int64    // Unix microseconds of the admission, To excluded; 0: open
	GroupBy                     []string // of "tenant", "project", "key", "model", "day" (UTC), "price_book"
}

// Row is the exact sum of a group of requests. The fields it is not grouped by are empty.
type Row struct {
	Tenant, Project, Key, Model, Day string
	PriceBook                        string // with "/batch" behind it where its prices for batches were used
	Requests, Estimated              int64  // Estimated: those whose token counts are estimates
	Tokens                           Tokens
	Cost                             Money  // of the requests, and what corrections change
	Energy                           int64  // microjoules
	EnergyMethod                     string // measured, modelled, declared, or mixed; "" where nothing is known
	Corrections                      Money  // their part of Cost
}

// Report is the answer to a query. Total is the sum of Rows.
type Report struct {
	Currency string
	Rows     []Row
	Total    Row
}

// maxRows bounds a report.
const maxRows = 10_000

// dayMicros is the length of a UTC day.
const dayMicros = 24 * 3600 * 1_000_000

// dimensions are what a report can be grouped by.
func dimensions() []string { return []string{"tenant", "project", "key", "model", "day", "price_book"} }

// Report sums recorded usage. Totals are exact whatever the filter; a range of whole UTC days is answered from daily sums, which know neither projects nor price books. A
// correction is of no project and of no price book.
func (l *Ledger) Report(ctx context.Context, q ReportQuery) (Report, error) {
	for _, g := range q.GroupBy {
		if !slices.Contains(dimensions(), g) {
			return Report{}, fault.New(fault.CodeInvalidValue, "group_by", fault.Say("billing.group_by")).WithParam("group_by")
		}
	}
	if q.From < 0 || q.To < 0 || (q.To != 0 && q.To < q.From) {
		return Report{}, fault.New(fault.CodeInvalidValue, "to", fault.Say("billing.range_reversed")).WithParam("to")
	}
	rows, err := l.store.report(ctx, q)
	if err != nil {
		return Report{}, dbError("report usage", err)
	}
	corrections, err := l.store.correctionSums(ctx, q)
	if err != nil {
		return Report{}, dbError("report corrections", err)
	}
	if rows, err = withCorrections(rows, corrections); err != nil {
		return Report{}, fmt.Errorf("report usage: %w", err)
	}
	if len(rows) > maxRows {
		return Report{}, fault.New(fault.CodeInvalidValue, "group_by", fault.Say("billing.report_too_large")).WithParam("group_by")
	}
	rep := Report{Rows: rows}
	for _, r := range rows {
		if err := rep.Total.add(r); err != nil {
			return Report{}, fmt.Errorf("report usage: %w", err)
		}
	}
	if last, loaded := l.terms.Last(); loaded {
		if b, ok := last.bookAt(l.now()); ok {
			rep.Currency = b.Currency
		}
	}
	return rep, nil
}

// CostOf returns what requests have cost whose ids begin alike, such as those of a batch, and their currency; "" where nothing is billed of them. It is what the
// books have, without corrections. Error: CodeDatabaseUnavailable.
func (l *Ledger) CostOf(ctx context.Context, tenant, prefix string) (Money, string, error) {
	cost, currency, err := l.store.costOf(ctx, tenant, prefix)
	return cost, currency, dbError("sum what requests cost", err)
}

// withCorrections adds corrections to the rows of their groups, or as rows of their own. They are in the same order.
func withCorrections(rows, corrections []Row) ([]Row, error) {
	group := func(r Row) [6]string { return [6]string{r.Tenant, r.Project, r.Key, r.Model, r.Day, r.PriceBook} }
	at := make(map[[6]string]int, len(rows))
	for i, r := range rows {
		at[group(r)] = i
	}
	alone := false
	for _, c := range corrections {
		i, ok := at[group(c)]
		if !ok {
			rows, alone = append(rows, c), true
			continue
		}
		if err := rows[i].add(c); err != nil {
			return nil, err
		}
	}
	if alone {
		slices.SortFunc(rows, func(a, b Row) int {
			return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Day, b.Day), cmp.Compare(a.PriceBook, b.PriceBook))
		})
	}
	return rows, nil
}

// add sums r into t and refuses to wrap around.
func (t *Row) add(r Row) error {
	amount, corrections := int64(t.Cost), int64(t.Corrections)
	for _, p := range []struct {
		sum  *int64
		part int64
	}{
		{&t.Requests, r.Requests},
		{&t.Estimated, r.Estimated},
		{&t.Tokens.Prompt, r.Tokens.Prompt},
		{&t.Tokens.Cached, r.Tokens.Cached},
		{&t.Tokens.Completion, r.Tokens.Completion},
		{&amount, int64(r.Cost)},
		{&t.Energy, r.Energy},
		{&corrections, int64(r.Corrections)},
	} {
		sum := *p.sum + p.part
		if (sum < *p.sum) != (p.part < 0) {
			return errors.New("a total exceeds 63 bits")
		}
		*p.sum = sum
	}
	t.Cost, t.Corrections, t.EnergyMethod = Money(amount), Money(corrections), cost.MergeMethods(t.EnergyMethod, r.EnergyMethod)
	return nil
}

// daily reports whether daily sums answer the query: the range begins and ends at UTC midnights, and neither projects nor price books are asked for.
func (q ReportQuery) daily() bool {
	return q.From%dayMicros == 0 && q.To%dayMicros == 0 && q.Project == "" && !slices.Contains(q.GroupBy, "project") && !slices.Contains(q.GroupBy, "price_book")
}
