package billing

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

// reportRow is the result of a report.
type reportRow struct {
	Daily   dailyRow `gorm:"embedded"`
	Project string   `gorm:"column:project"`
	Book    string   `gorm:"column:price_book"`
}

// knownMethod is how energy is known, NULL where nothing is.
const knownMethod = "NULLIF(energy_method, '')"

// report reads the sums, ordered by the grouping columns. More than maxRows rows are cut at one above it.
func (s store) report(ctx context.Context, q ReportQuery) ([]Row, error) {
	db := s.db.WithContext(ctx)
	day, requests := "day", "requests"
	if q.daily() {
		db = db.Table("billing_usage_daily")
		db = between(db, "day", q.From, q.To, func(t int64) any { return time.UnixMicro(t).UTC().Format(time.DateOnly) })
	} else {
		day, requests = s.dayOf("at"), "1"
		db = db.Table("billing_usage")
		db = between(db, "at", q.From, q.To, func(t int64) any { return t })
	}
	for column, want := range map[string]string{"tenant": q.Tenant, "project": q.Project, "api_key": q.Key, "model": q.Model} {
		if want != "" {
			db = db.Where(column+" = ?", want)
		}
	}
	var list []string
	for _, c := range []struct{ name, column, expr string }{
		{"tenant", "tenant", "tenant"},
		{"project", "project", "project"},
		{"key", "api_key", "api_key"},
		{"model", "model", "model"},
		{"day", "day", day},
		{"price_book", "price_book", "price_book"},
	} {
		if !slices.Contains(q.GroupBy, c.name) {
			list = append(list, "'' AS "+c.column)
			continue
		}
		list = append(list, c.expr+" AS "+c.column)
		db = db.Group(c.expr).Order(c.column)
	}
	for _, c := range []struct{ expr, column string }{
		{requests, "requests"},
		{"estimated", "estimated"},
		{"prompt_tokens", "prompt_tokens"},
		{"cached_tokens", "cached_tokens"},
		{"completion_tokens", "completion_tokens"},
		{"cost", "cost"},
		{"energy", "energy"},
	} {
		list = append(list, "CAST(COALESCE(SUM("+c.expr+"), 0) AS BIGINT) AS "+c.column)
	}
	list = append(list, "COALESCE(CASE WHEN MIN("+knownMethod+") = MAX("+knownMethod+") THEN MIN("+knownMethod+") WHEN MIN("+knownMethod+") IS NULL THEN '' ELSE 'mixed' END, '') AS energy_method")
	var found []reportRow
	if err := db.Select(strings.Join(list, ", ")).Limit(maxRows + 1).Find(&found).Error; err != nil {
		return nil, err
	}
	out := make([]Row, 0, len(found))
	for _, f := range found {
		r := f.Daily
		if r.Requests == 0 { // the empty sum of an ungrouped report
			continue
		}
		out = append(out, Row{
			Tenant: r.Tenant, Project: f.Project, Key: r.Key, Model: r.Model, Day: r.Day, PriceBook: f.Book, Requests: r.Requests, Estimated: r.Estimated,
			Tokens: Tokens{Prompt: r.Prompt, Cached: r.Cached, Completion: r.Completion}, Cost: Money(r.Cost), Energy: r.Energy, EnergyMethod: r.Method,
		})
	}
	return out, nil
}

// correctionSums reads the sums of corrections, grouped as the report is.
func (s store) correctionSums(ctx context.Context, q ReportQuery) ([]Row, error) {
	if q.Project != "" {
		return nil, nil
	}
	db := between(s.db.WithContext(ctx).Table("billing_corrections"), "at", q.From, q.To, func(t int64) any { return t })
	for column, want := range map[string]string{"tenant": q.Tenant, "api_key": q.Key, "model": q.Model} {
		if want != "" {
			db = db.Where(column+" = ?", want)
		}
	}
	var list []string
	for _, c := range []struct{ name, column, expr string }{
		{"tenant", "tenant", "tenant"}, {"key", "api_key", "api_key"}, {"model", "model", "model"}, {"day", "day", s.dayOf("at")},
	} {
		if !slices.Contains(q.GroupBy, c.name) {
			list = append(list, "'' AS "+c.column)
			continue
		}
		list = append(list, c.expr+" AS "+c.column)
		db = db.Group(c.expr)
	}
	list = append(list, "COUNT(*) AS requests", "CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS cost")
	var found []dailyRow
	if err := db.Select(strings.Join(list, ", ")).Limit(maxRows + 1).Find(&found).Error; err != nil {
		return nil, err
	}
	var out []Row
	for _, r := range found {
		if r.Requests > 0 { // else the empty sum of an ungrouped report
			out = append(out, Row{Tenant: r.Tenant, Key: r.Key, Model: r.Model, Day: r.Day, Cost: Money(r.Cost), Corrections: Money(r.Cost)})
		}
	}
	return out, nil
}

// dayOf is the SQL for the UTC day of a column with Unix microseconds.
func (s store) dayOf(column string) string {
	if database.IsSQLite(s.db) {
		return "strftime('%Y-%m-%d', " + column + " / 1000000, 'unixepoch')"
	}
	return "to_char(to_timestamp(" + column + " / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
}

func between(db *gorm.DB, column string, from, to int64, value func(int64) any) *gorm.DB {
	if from != 0 {
		db = db.Where(column+" >= ?", value(from))
	}
	if to != 0 {
		db = db.Where(column+" < ?", value(to))
	}
	return db
}
