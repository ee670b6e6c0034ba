package billing

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/cost"
	"github.com/sluice-project/sluice/internal/fault"
)

type costBookRow bookRow

func (costBookRow) TableName() string { return "billing_cost_books" }

// CostReport is what the engines of the installation cost in a month, and what they did.
type CostReport struct {
	Month       string
	From, Until time.Time // Until is now where the month is not over
	Whole       bool      // the month is over
	Book        BookVersion
	Engines     []cost.Costs
	Unassigned  []UnassignedModel // that no engine of the book has: their machines are in no figure
}

// UnassignedModel is what was used of a model.
type UnassignedModel struct {
	Model            string
	Requests, Tokens int64
}

// PublishCosts stores a cost book as a new version, which nobody can change any more. CodeInvalidValue names what is wrong with the document; CodeExists
// says that the newest version is the same document.
func (l *Ledger) PublishCosts(ctx context.Context, doc []byte, actor string) (BookVersion, error) {
	b, err := cost.Parse(doc)
	if err != nil {
		return BookVersion{}, err
	}
	row := costBookRow{Digest: digest(doc), Currency: b.Currency, EffectiveFrom: b.EffectiveFrom.UnixMicro(), Document: string(doc), Actor: actor, CreatedAt: l.now().UnixMicro()}
	err = l.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := bumpVersion(tx); err != nil { // the counter row is the lock: publications happen one at a time
			return err
		}
		var last []costBookRow
		if err := tx.Select(bookRow{}.columns()).Order("version DESC").Limit(1).Find(&last).Error; err != nil {
			return err
		}
		row.Version = 1
		if len(last) > 0 {
			row.Version = last[0].Version + 1
			if last[0].Digest == row.Digest {
				return fault.New(fault.CodeExists, fault.Say("thing.cost_book"), bookName(last[0].Version))
			}
		}
		return tx.Create(&row).Error
	})
	if err != nil {
		return BookVersion{}, dbError("publish cost book", err)
	}
	return l.costVersion(ctx, row)
}

// costVersion returns a cost book as it is now.
func (l *Ledger) costVersion(ctx context.Context, row costBookRow) (BookVersion, error) {
	books, err := l.CostBooks(ctx)
	for _, b := range books {
		if b.Version == bookName(row.Version) {
			return b, err
		}
	}
	return BookVersion{}, err
}

// CostBooks returns all cost books, oldest first.
func (l *Ledger) CostBooks(ctx context.Context) ([]BookVersion, error) {
	var rows []costBookRow
	if err := l.store.db.WithContext(ctx).Select(bookRow{}.columns()).Order("version").Find(&rows).Error; err != nil {
		return nil, dbError("read cost books", err)
	}
	now := l.now()
	effective := costBookAt(rows, now)
	out := make([]BookVersion, 0, len(rows))
	for i, r := range rows {
		out = append(out, BookVersion{
			Version: bookName(r.Version), Digest: r.Digest, Currency: r.Currency, EffectiveFrom: time.UnixMicro(r.EffectiveFrom).UTC(),
			Actor: r.Actor, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(), Document: r.Document, Effective: i == effective,
		})
	}
	return out, nil
}

// costBookAt returns the index of the book that is effective at an instant: of those that are, the last to become so; -1: none.
func costBookAt(rows []costBookRow, at time.Time) int {
	found := -1
	for i, r := range rows { // by version
		if r.EffectiveFrom <= at.UnixMicro() && (found < 0 || r.EffectiveFrom >= rows[found].EffectiveFrom) {
			found = i
		}
	}
	return found
}

// Costs returns what the engines cost in a month, such as "2026-10", in the zone of the installation, by a version of the cost book; "" is the one that is
// effective at the end of the month, or now. Of the month that runs it is what has passed. It reads every row of usage of the month. CodeNotFound: there is
// no such book.
func (l *Ledger) Costs(ctx context.Context, month, version string) (CostReport, error) {
	zone, err := time.LoadLocation(l.cfg.Zone)
	if err != nil {
		return CostReport{}, fmt.Errorf("zone of statements: %w", err)
	}
	begin, err := time.Parse("2006-01", month)
	if err != nil {
		return CostReport{}, fault.New(fault.CodeInvalidValue, "month", fault.Say("billing.month")).WithParam("month")
	}
	first, end := Month.bounds(begin.AddDate(0, 0, 14), zone)
	now := l.now().UTC().Truncate(time.Microsecond)
	if first >= now.UnixMicro() {
		return CostReport{}, fault.New(fault.CodeInvalidValue, "month", fault.Say("billing.month_future")).WithParam("month")
	}
	monthEnd := time.UnixMicro(end).UTC()
	out := CostReport{Month: month, From: time.UnixMicro(first).UTC(), Until: monthEnd, Whole: !monthEnd.After(now)}
	if !out.Whole {
		out.Until = now
	}
	book, err := l.costBook(ctx, version, out.Until, &out)
	if err != nil {
		return CostReport{}, err
	}
	db := l.store.db.WithContext(ctx) // in no transaction: on SQLite it would keep requests from being billed for as long as this reads
	models, err := costModels(db, book, &out)
	if err != nil {
		return CostReport{}, dbError("report costs", err)
	}
	for i, e := range book.Engines {
		u, err := costUsage(db, book, e, models[i], out.From, out.Until)
		if err != nil {
			return CostReport{}, dbError("report costs", err)
		}
		c, err := book.Of(e, u, out.From, out.Until, monthEnd)
		if err != nil {
			return CostReport{}, fmt.Errorf("report costs: %w", err)
		}
		out.Engines = append(out.Engines, c)
	}
	return out, nil
}

// costBook returns the book of a version, or that which is effective just before an instant.
func (l *Ledger) costBook(ctx context.Context, version string, until time.Time, out *CostReport) (*cost.Book, error) {
	var rows []costBookRow
	if err := l.store.db.WithContext(ctx).Select(bookRow{}.columns()).Order("version").Find(&rows).Error; err != nil {
		return nil, dbError("read cost books", err)
	}
	i := costBookAt(rows, until.Add(-time.Microsecond))
	if version != "" {
		i = slices.IndexFunc(rows, func(r costBookRow) bool { return bookName(r.Version) == version })
	}
	if i < 0 {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.cost_book"), version)
	}
	b, err := cost.Parse([]byte(rows[i].Document))
	if err != nil {
		return nil, fmt.Errorf("stored cost book %s: %w", bookName(rows[i].Version), err)
	}
	out.Book, err = l.costVersion(ctx, rows[i])
	return b, err
}

// costModels returns the models that were used, by the index of their engine, and notes those that no engine has.
func costModels(tx *gorm.DB, book *cost.Book, out *CostReport) (map[int][]string, error) {
	var rows []UnassignedModel
	err := tx.Table("billing_usage").Select("model, COUNT(*) AS requests, CAST(COALESCE(SUM(prompt_tokens + completion_tokens), 0) AS BIGINT) AS tokens").
		Where("at >= ? AND at < ?", out.From.UnixMicro(), out.Until.UnixMicro()).Group("model").Order("model").Limit(maxRows + 1).Find(&rows).Error
	if err != nil {
		return nil, err
	}
	if len(rows) > maxRows {
		return nil, fmt.Errorf("a report of more than %d models", maxRows)
	}
	models := map[int][]string{}
	for _, r := range rows {
		if i := book.EngineOf(r.Model); i >= 0 {
			models[i] = append(models[i], r.Model)
		} else {
			out.Unassigned = append(out.Unassigned, r)
		}
	}
	return models, nil
}

// costUsage sums what models did in a time, by slots and by how their energy is known.
func costUsage(tx *gorm.DB, book *cost.Book, e cost.Engine, models []string, from, until time.Time) (cost.Usage, error) {
	if len(models) == 0 {
		none := int64(0)
		return cost.Usage{Billed: &none}, nil
	}
	good := "outcome = 'ok' AND total > 0 AND first_token <= " + microseconds(e.FirstTokenMS) + " AND total <= " + microseconds(e.TotalMS)
	list := []string{"at / " + strconv.FormatInt(cost.Slot.Microseconds(), 10) + " AS slot", "energy_method", "COUNT(*) AS requests", "MIN(currency) AS least", "MAX(currency) AS most"}
	for _, c := range [][2]string{
		{"CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END", "answered"},
		{"CASE WHEN outcome = 'ok' AND total = 0 THEN 1 ELSE 0 END", "untimed"},
		{"CASE WHEN " + good + " THEN 1 ELSE 0 END", "good"},
		{"CASE WHEN " + good + " THEN prompt_tokens + completion_tokens ELSE 0 END", "good_tokens"},
		{"prompt_tokens", "prompt"},
		{"cached_tokens", "cached"},
		{"completion_tokens", "completion"},
		{"cost", "billed"},
		{"energy", "energy"},
	} {
		list = append(list, "CAST(COALESCE(SUM("+c[0]+"), 0) AS BIGINT) AS "+c[1])
	}
	var rows []struct {
		Slot                                                                                      int64
		EnergyMethod, Least, Most                                                                 string
		Requests, Answered, Untimed, Good, GoodTokens, Prompt, Cached, Completion, Billed, Energy int64
	}
	err := tx.Table("billing_usage").Select(strings.Join(list, ", ")).Where("model IN ? AND at >= ? AND at < ?", models, from.UnixMicro(), until.UnixMicro()).
		Group("slot, energy_method").Order("slot, energy_method").Find(&rows).Error
	if err != nil {
		return cost.Usage{}, fmt.Errorf("sum usage: %w", err)
	}
	var u cost.Usage
	billed, same := int64(0), true
	for _, r := range rows {
		for _, p := range []struct {
			sum  *int64
			part int64
		}{
			{&u.Requests, r.Requests},
			{&u.Answered, r.Answered},
			{&u.Untimed, r.Untimed},
			{&u.Good, r.Good},
			{&u.GoodTokens, r.GoodTokens},
			{&u.Prompt, r.Prompt},
			{&u.Cached, r.Cached},
			{&u.Completion, r.Completion},
			{&billed, r.Billed},
		} {
			if *p.sum > 1<<62-p.part {
				return cost.Usage{}, fmt.Errorf("a total of engine %s exceeds 62 bits", e.Name)
			}
			*p.sum += p.part
		}
		same = same && r.Least == book.Currency && r.Most == book.Currency
		u.Energy = append(u.Energy, cost.Energy{Start: time.UnixMicro(r.Slot * cost.Slot.Microseconds()).UTC(), Method: r.EnergyMethod, Requests: r.Requests, Microjoules: r.Energy})
	}
	if same {
		u.Billed = &billed
	}
	return u, nil
}

// microseconds writes a declared time for a query; one that is not declared bounds nothing.
func microseconds(ms *cost.Figure) string {
	if ms == nil {
		return strconv.FormatInt(maxTime, 10)
	}
	us := new(big.Rat).Mul(ms.Value.Rat, big.NewRat(1000, 1))
	return new(big.Int).Quo(us.Num(), us.Denom()).String()
}
