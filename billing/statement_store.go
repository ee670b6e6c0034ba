package billing

import (
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/statement"
)

type statementRow struct {
	Tenant   string `gorm:"column:tenant"`
	Month    string `gorm:"column:month"`
	From     int64  `gorm:"column:from_at"`
	Until    int64  `gorm:"column:until_at"`
	ClosedAt int64  `gorm:"column:closed_at"`
	Actor    string `gorm:"column:actor"`
	Digest   string `gorm:"column:digest"`
	Content  string `gorm:"column:content"`
}

func (statementRow) TableName() string { return "billing_statements" }

func (statementRow) columns() []string {
	return []string{"tenant", "month", "from_at", "until_at", "closed_at", "actor", "digest", "content"}
}

// closedMonths returns the statements of closed months, oldest first. One whose content was altered is an error.
func closedMonths(tx *gorm.DB, tenant string) ([]statement.Statement, error) {
	var rows []statementRow
	if err := tx.Select(statementRow{}.columns()).Where("tenant = ?", tenant).Order("month").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read statements: %w", err)
	}
	out := make([]statement.Statement, 0, len(rows))
	for _, r := range rows {
		s, err := statement.Parse([]byte(r.Content), r.Digest)
		if err != nil {
			return nil, fmt.Errorf("stored statement %s of %s: %w", r.Month, r.Tenant, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func insertStatement(tx *gorm.DB, s statement.Statement) error {
	content, err := s.Canonical()
	if err != nil {
		return err
	}
	digest, err := s.Digest()
	if err != nil {
		return err
	}
	return tx.Create(&statementRow{
		Tenant: s.Tenant, Month: s.Month, From: s.From.UnixMicro(), Until: s.Until.UnixMicro(), ClosedAt: s.AsOf.UnixMicro(), Actor: s.ClosedBy,
		Digest: digest, Content: string(content),
	}).Error
}

// groupRow is what requests of one group used together.
type groupRow struct {
	Action       string `gorm:"column:action"`
	Model        string `gorm:"column:model"`
	PriceBook    string `gorm:"column:price_book"`
	EnergyMethod string `gorm:"column:energy_method"`
	Currency     string `gorm:"column:currency"`
	Requests     int64  `gorm:"column:requests"`
	Estimated    int64  `gorm:"column:estimated"`
	Prompt       int64  `gorm:"column:prompt_tokens"`
	Cached       int64  `gorm:"column:cached_tokens"`
	Completion   int64  `gorm:"column:completion_tokens"`
	Cost         int64  `gorm:"column:cost"`
	Energy       int64  `gorm:"column:energy"`
}

// usageGroups returns the billed usage of a tenant that was admitted in a range, and its currency.
func usageGroups(tx *gorm.DB, tenant string, from, until time.Time) (groups []statement.Usage, currency string, err error) {
	const groupColumns = "action, model, price_book, energy_method, currency"
	list := groupColumns + ", COUNT(*) AS requests"
	for _, c := range []string{"estimated", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "energy"} {
		list += ", CAST(COALESCE(SUM(" + c + "), 0) AS BIGINT) AS " + c
	}
	var rows []groupRow
	err = tx.Table("billing_usage").Select(list).Where("tenant = ? AND at >= ? AND at < ?", tenant, from.UnixMicro(), until.UnixMicro()).
		Group(groupColumns).Order(groupColumns).Limit(maxRows + 1).Find(&rows).Error
	if err != nil {
		return nil, "", fmt.Errorf("sum usage: %w", err)
	}
	if len(rows) > maxRows {
		return nil, "", fmt.Errorf("a statement of more than %d groups", maxRows)
	}
	for _, r := range rows {
		if currency == "" {
			currency = r.Currency
		}
		if r.Currency != currency && r.Currency != "" {
			return nil, "", errors.New("usage in two currencies")
		}
		groups = append(groups, statement.Usage{
			Action: r.Action, Model: r.Model, Book: r.PriceBook, EnergyMethod: r.EnergyMethod, Requests: r.Requests, Estimated: r.Estimated,
			Prompt: r.Prompt, Cached: r.Cached, Completion: r.Completion, Cost: r.Cost, Energy: r.Energy,
		})
	}
	return groups, currency, nil
}

// requestsBefore counts the billed requests of a tenant that were admitted before an instant, from daily sums but for the day it lies in.
func requestsBefore(tx *gorm.DB, tenant string, until time.Time) (int64, error) {
	var days, rest int64
	midnight := until.UTC().Truncate(24 * time.Hour)
	err := tx.Table("billing_usage_daily").Select("CAST(COALESCE(SUM(requests), 0) AS BIGINT)").
		Where("tenant = ? AND day < ?", tenant, midnight.Format(time.DateOnly)).Scan(&days).Error
	if err == nil {
		err = tx.Table("billing_usage").Where("tenant = ? AND at >= ? AND at < ?", tenant, midnight.UnixMicro(), until.UnixMicro()).Count(&rest).Error
	}
	if err != nil {
		return 0, fmt.Errorf("count usage: %w", err)
	}
	return days + rest, nil
}

// firstBilled returns when the first usage or correction of a tenant was, 0 if there is none.
func firstBilled(tx *gorm.DB, tenant string) (int64, error) {
	first := int64(0)
	for _, table := range []string{"billing_usage", "billing_corrections"} {
		var at []int64
		if err := tx.Table(table).Where("tenant = ?", tenant).Order("at").Limit(1).Pluck("at", &at).Error; err != nil {
			return 0, fmt.Errorf("read first usage: %w", err)
		}
		if len(at) > 0 && (first == 0 || at[0] < first) {
			first = at[0]
		}
	}
	return first, nil
}
