package billing

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/cost"
	"github.com/sluice-project/sluice/internal/fault"
)

type costBookRow bookRow

func (costBookRow) TableName() string { return "billing_cost_books" }

func (r costBookRow) view(effective bool) BookVersion {
	return BookVersion{
		Version: bookName(r.Version), Digest: r.Digest, Currency: r.Currency, EffectiveFrom: time.UnixMicro(r.EffectiveFrom).UTC(),
		Actor: r.Actor, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(), Document: r.Document, Effective: effective,
	}
}

// CostReport is what the engines of the installation cost in a month, and what they did.
type CostReport struct {
	Month       string
	From, Until time.Time   // Until is now where the month is not over
	Whole       bool        // the month is over
	Book        BookVersion // without its document
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
	row := bookRow{Digest: digest(doc), Currency: b.Currency, EffectiveFrom: b.EffectiveFrom.UnixMicro(), Document: string(doc), Actor: actor, CreatedAt: l.now().UnixMicro()}
	err = l.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		_, err := appendBook(tx, costBookRow{}.TableName(), fault.Say("thing.cost_book"), &row)
		return err
	})
	if err != nil {
		return BookVersion{}, dbError("publish cost book", err)
	}
	return l.costVersion(ctx, row.Version)
}

// costVersion returns a cost book as it is now.
func (l *Ledger) costVersion(ctx context.Context, version int64) (BookVersion, error) {
	books, err := l.CostBooks(ctx)
	for _, b := range books {
		if b.Version == bookName(version) {
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
		out = append(out, r.view(i == effective))
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

// CostMonth asks for the report of a month, such as "2026-10", by a version of the cost book; "" is the one that is effective at the end of the month, or now.
type CostMonth struct{ Month, Book string }

const (
	costTime  = 5 * time.Minute  // that a call of Costs may take
	costRetry = 10 * time.Second // after which it makes sense to ask again
)

// Costs returns what the engines cost in months, in the zone of the installation. Of the month that runs it is what has passed. Each report is one
// statement that reads every row of usage of its month, in no transaction: on SQLite one would keep requests from being billed for as long as that takes.
// A replica serves one call at a time. CodeNotFound: there is no such book; CodeConcurrency, with the time to wait: another call is served.
func (l *Ledger) Costs(ctx context.Context, wanted ...CostMonth) ([]CostReport, error) {
	if !l.reporting.TryLock() {
		return nil, fault.New(fault.CodeConcurrency, fault.Say("billing.cost_reports"), 1).WithRetryAfter(costRetry)
	}
	defer l.reporting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, costTime)
	defer cancel()
	out := make([]CostReport, 0, len(wanted))
	for _, w := range wanted {
		r, err := l.costs(ctx, w)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (l *Ledger) costs(ctx context.Context, w CostMonth) (CostReport, error) {
	zone, err := time.LoadLocation(l.cfg.Zone)
	if err != nil {
		return CostReport{}, fmt.Errorf("zone of statements: %w", err)
	}
	begin, err := time.Parse("2006-01", w.Month)
	if err != nil {
		return CostReport{}, fault.New(fault.CodeInvalidValue, "month", fault.Say("billing.month")).WithParam("month")
	}
	first, end := Month.bounds(begin.AddDate(0, 0, 14), zone)
	now := l.now().UTC().Truncate(time.Microsecond)
	if first >= now.UnixMicro() {
		return CostReport{}, fault.New(fault.CodeInvalidValue, "month", fault.Say("billing.month_future")).WithParam("month")
	}
	monthEnd := time.UnixMicro(end).UTC()
	out := CostReport{Month: w.Month, From: time.UnixMicro(first).UTC(), Until: monthEnd, Whole: !monthEnd.After(now)}
	if !out.Whole {
		out.Until = now
	}
	book, err := l.costBook(ctx, w.Book, &out)
	if err != nil {
		return CostReport{}, err
	}
	used, err := costUsage(l.store.db.WithContext(ctx), book, &out)
	if err != nil {
		return CostReport{}, dbError("report costs", err)
	}
	for i, e := range book.Engines {
		c, err := book.Of(e, used[i], out.From, out.Until, monthEnd)
		if err != nil {
			return CostReport{}, fmt.Errorf("report costs: %w", err)
		}
		out.Engines = append(out.Engines, c)
	}
	return out, nil
}

// costBook returns the book of a version, or that which is effective at the end of the report.
func (l *Ledger) costBook(ctx context.Context, version string, out *CostReport) (*cost.Book, error) {
	db := l.store.db.WithContext(ctx)
	var rows []costBookRow
	if err := db.Select("version", "effective_from").Order("version").Find(&rows).Error; err != nil {
		return nil, dbError("read cost books", err)
	}
	i := costBookAt(rows, out.Until.Add(-time.Microsecond))
	effective := costBookAt(rows, l.now())
	if version != "" {
		i = slices.IndexFunc(rows, func(r costBookRow) bool { return bookName(r.Version) == version })
	}
	switch {
	case i < 0 && version == "":
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.effective_cost_book"), out.Month)
	case i < 0:
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.cost_book"), version)
	}
	var row costBookRow
	if err := db.Select(bookRow{}.columns()).Where("version = ?", rows[i].Version).Take(&row).Error; err != nil {
		return nil, dbError("read cost book", err)
	}
	b, err := cost.Parse([]byte(row.Document))
	if err != nil {
		return nil, fmt.Errorf("stored cost book %s: %w", bookName(row.Version), err)
	}
	row.Document = ""
	out.Book = row.view(i == effective)
	return b, nil
}

// Answers of these have no tokens that come one by one, and so no first one.
const wordless = "action IN ('embeddings', 'rerank', 'score', 'rag.ingest', 'moderations')"

// repeated is what no engine worked for: an answer that is given again costs its prompt as a cached one, and nothing was metered. No engine reports this:
// it computes at least the last token of a prompt.
const repeated = "energy_method = '' AND completion_tokens = 0 AND prompt_tokens > 0 AND cached_tokens = prompt_tokens"

// costLimits are the declared times of an engine in microseconds.
type costLimits struct{ first, total string }

// columns are answers that nobody knows to be in time or late, those in time, and the tokens of these. A first token that is not known came before the end.
func (c costLimits) columns() []string {
	ok := "outcome = 'ok' AND total <= " + c.total
	untimed := "outcome = 'ok' AND total = 0 OR " + ok + " AND first_token = 0 AND total > " + c.first + " AND NOT " + wordless
	good := ok + " AND total > 0 AND first_token <= " + c.first + " AND (first_token > 0 OR total <= " + c.first + " OR " + wordless + ")"
	return []string{"CASE WHEN " + untimed + " THEN 1 ELSE 0 END", "CASE WHEN " + good + " THEN 1 ELSE 0 END", "CASE WHEN " + good + " THEN prompt_tokens + completion_tokens ELSE 0 END"}
}

// costUsage sums what the engines did in the time of a report, by slots and by how their energy is known, and notes the models that no engine has.
func costUsage(db *gorm.DB, book *cost.Book, out *CostReport) ([]cost.Usage, error) {
	sums := []string{"CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "energy"}
	fixed, limitsOf, limits := len(sums), make([]int, len(book.Engines)), []costLimits(nil)
	for i, e := range book.Engines {
		l := costLimits{microseconds(e.FirstTokenMS), microseconds(e.TotalMS)}
		if limitsOf[i] = slices.Index(limits, l); limitsOf[i] < 0 {
			limitsOf[i], limits = len(limits), append(limits, l)
		}
	}
	for _, l := range limits {
		sums = append(sums, l.columns()...)
	}
	query := "SELECT model, at / " + strconv.FormatInt(cost.Slot.Microseconds(), 10) + " AS slot, energy_method, CASE WHEN " + repeated +
		" THEN 1 ELSE 0 END AS repeated, MIN(currency), MAX(currency), COUNT(*)"
	for _, c := range sums {
		query += ", CAST(COALESCE(SUM(" + c + "), 0) AS BIGINT)"
	}
	rows, err := db.Raw(query+" FROM billing_usage WHERE at >= ? AND at < ? GROUP BY 1, 2, 3, 4", out.From.UnixMicro(), out.Until.UnixMicro()).Rows()
	if err != nil {
		return nil, fmt.Errorf("sum usage: %w", err)
	}
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	used := make([]engineUsage, len(book.Engines))
	unassigned := map[string]*UnassignedModel{}
	var r costGroup
	sum := make([]int64, len(sums))
	into := []any{&r.model, &r.slot, &r.method, &r.repeated, &r.least, &r.most, &r.requests}
	for i := range sum {
		into = append(into, &sum[i])
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("sum usage: %w", err)
		}
		r.answered, r.prompt, r.cached, r.completion, r.billed, r.energy = sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]
		i := book.EngineOf(r.model)
		if i < 0 {
			m := unassigned[r.model]
			if m == nil {
				m = &UnassignedModel{Model: r.model}
				unassigned[r.model] = m
			}
			m.Requests, m.Tokens = m.Requests+r.requests, m.Tokens+r.prompt+r.completion
			continue
		}
		by := sum[fixed+3*limitsOf[i]:]
		r.untimed, r.good, r.goodTokens = by[0], by[1], by[2]
		if err := used[i].add(r, book.Currency); err != nil {
			return nil, fmt.Errorf("engine %s: %w", book.Engines[i].Name, err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sum usage: %w", err)
	}
	for _, model := range slices.Sorted(maps.Keys(unassigned)) {
		out.Unassigned = append(out.Unassigned, *unassigned[model])
	}
	usage := make([]cost.Usage, len(used))
	for i, u := range used {
		if usage[i] = u.Usage; !u.foreign {
			usage[i].Billed = &u.billed
		}
	}
	return usage, nil
}

// costGroup is what requests for a model that began in a slot used together. Of repeated ones the limits and counts of answers mean nothing.
type costGroup struct {
	model, method, least, most                                                                                string
	slot, repeated, requests, answered, untimed, good, goodTokens, prompt, cached, completion, billed, energy int64
}

// engineUsage becomes the usage of an engine.
type engineUsage struct {
	cost.Usage
	billed, energy int64
	foreign        bool // some is billed in another currency than that of the book
	at             map[energyOf]int
}

type energyOf struct {
	slot   int64
	method string
}

func (u *engineUsage) add(r costGroup, currency string) error {
	parts := []part{{&u.Requests, r.requests}, {&u.billed, r.billed}}
	if r.repeated == 1 {
		parts = append(parts, part{&u.Repeated, r.requests}, part{&u.RepeatedTokens, r.prompt})
	} else {
		parts = append(parts, part{&u.Answered, r.answered}, part{&u.Untimed, r.untimed}, part{&u.Good, r.good}, part{&u.GoodTokens, r.goodTokens},
			part{&u.Prompt, r.prompt}, part{&u.Cached, r.cached}, part{&u.Completion, r.completion}, part{&u.energy, r.energy})
	}
	if err := addUp(parts...); err != nil {
		return err
	}
	u.foreign = u.foreign || r.least != currency || r.most != currency
	if r.repeated == 1 {
		return nil
	}
	key := energyOf{r.slot, r.method}
	i, there := u.at[key]
	if !there {
		if u.at == nil {
			u.at = map[energyOf]int{}
		}
		i = len(u.Energy)
		u.at[key] = i
		u.Energy = append(u.Energy, cost.Energy{Start: time.UnixMicro(r.slot * cost.Slot.Microseconds()).UTC(), Method: r.method})
	}
	u.Energy[i].Requests += r.requests
	u.Energy[i].Microjoules += r.energy
	return nil
}

// microseconds writes a declared time for a query; one that is not declared bounds nothing.
func microseconds(ms *cost.Figure) string {
	if ms == nil {
		return strconv.FormatInt(maxTime, 10)
	}
	us := new(big.Rat).Mul(ms.Value.Rat, big.NewRat(1000, 1))
	return new(big.Int).Quo(us.Num(), us.Denom()).String()
}
