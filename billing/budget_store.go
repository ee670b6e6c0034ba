package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type budgetRow struct {
	ID        string `gorm:"column:id"`
	Tenant    string `gorm:"column:tenant"`
	Key       string `gorm:"column:api_key"`
	Period    string `gorm:"column:period"`
	Zone      string `gorm:"column:zone"`
	Limit     int64  `gorm:"column:limit_amount"`
	UpdatedAt int64  `gorm:"column:updated_at;autoUpdateTime:false"`
}

func (budgetRow) TableName() string { return "billing_budgets" }

func (budgetRow) columns() []string {
	return []string{"id", "tenant", "api_key", "period", "zone", "limit_amount", "updated_at"}
}

func (r budgetRow) budget() (*budget, error) {
	loc, err := time.LoadLocation(r.Zone)
	if err != nil {
		return nil, fmt.Errorf("budget %s: %w", r.ID, err)
	}
	return &budget{r.ID, scopeOf(r.Tenant, r.Key), Period(r.Period), r.Zone, loc, Money(r.Limit)}, nil
}

type spendRow struct {
	Budget string `gorm:"column:budget"`
	Period string `gorm:"column:period"`
	Spent  int64  `gorm:"column:spent"`
}

func (spendRow) TableName() string { return "billing_spend" }

// budgets returns the budgets of a tenant, of all tenants if it is "".
func (s store) budgets(ctx context.Context, tenant string) ([]budgetRow, error) {
	q := s.db.WithContext(ctx).Select(budgetRow{}.columns()).Order("tenant, api_key, period")
	if tenant != "" {
		q = q.Where("tenant = ?", tenant)
	}
	var rows []budgetRow
	return rows, dbError("read budgets", q.Find(&rows).Error)
}

// setBudget creates or changes a budget. A new one, or one whose days begin at another hour, starts with what its current period
// has used already; usage cannot be recorded meanwhile, so nothing is counted twice or not at all.
func (s store) setBudget(ctx context.Context, want budgetRow, now time.Time) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := holdUsage(tx); err != nil {
			return err
		}
		if err := bumpVersion(tx); err != nil { // also the lock against a second change
			return err
		}
		var have []budgetRow
		err := forUpdate(tx).Select(want.columns()).
			Where("tenant = ? AND api_key = ? AND period = ?", want.Tenant, want.Key, want.Period).Find(&have).Error
		if err != nil {
			return err
		}
		if len(have) > 0 && have[0].Zone == want.Zone {
			return tx.Model(&budgetRow{}).Where("id = ?", have[0].ID).
				Updates(map[string]any{"limit_amount": want.Limit, "updated_at": now.UnixMicro()}).Error
		}
		if len(have) > 0 {
			if err := deleteBudget(tx, have[0].ID); err != nil {
				return err
			}
		}
		return insertBudget(tx, want, now)
	})
	return dbError("set budget", err)
}

// holdUsage keeps others from recording usage until tx ends. It comes first in a transaction: whoever records holds the table
// before anything else. SQLite has one writer at a time anyway.
func holdUsage(tx *gorm.DB) error {
	if database.IsSQLite(tx) {
		return nil
	}
	return tx.Exec("LOCK TABLE billing_usage IN SHARE MODE").Error
}

func insertBudget(tx *gorm.DB, row budgetRow, now time.Time) error {
	row.ID, row.UpdatedAt = uuid.NewString(), now.UnixMicro()
	b, err := row.budget()
	if err != nil {
		return err
	}
	from, to := b.period.bounds(now, b.loc)
	q := tx.Model(&usageRow{}).Select("CAST(COALESCE(SUM(cost), 0) AS BIGINT)").Where("at >= ? AND at < ?", from, to)
	for _, c := range []struct{ column, is string }{
		{"organisation", b.scope.Organisation}, {"tenant", b.scope.Tenant}, {"project", b.scope.Project}, {"api_key", b.scope.Key},
	} {
		if c.is != "" {
			q = q.Where(c.column+" = ?", c.is)
		}
	}
	var spent int64
	if err := q.Row().Scan(&spent); err != nil {
		return err
	}
	if err := tx.Create(&row).Error; err != nil {
		return err
	}
	return tx.Create(&spendRow{b.id, b.period.id(now, b.loc), spent}).Error
}

func deleteBudget(tx *gorm.DB, id string) error {
	if err := tx.Where("id = ?", id).Delete(&budgetRow{}).Error; err != nil {
		return err
	}
	if err := tx.Where("budget = ?", id).Delete(&spendRow{}).Error; err != nil {
		return err
	}
	return tx.Where("budget = ?", id).Delete(&leaseRow{}).Error
}

func (s store) removeBudget(ctx context.Context, tenant, key string, period Period) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := holdUsage(tx); err != nil { // or a recording that has seen the budget would spend of one that is gone
			return err
		}
		if err := bumpVersion(tx); err != nil {
			return err
		}
		var have []budgetRow
		err := forUpdate(tx).Select(budgetRow{}.columns()).
			Where("tenant = ? AND api_key = ? AND period = ?", tenant, key, string(period)).Find(&have).Error
		if err != nil {
			return err
		}
		if len(have) == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("thing.budget"), string(period))
		}
		return deleteBudget(tx, have[0].ID)
	})
	return dbError("delete budget", err)
}

// spentAndReserved returns what a budget has spent and leased in a period.
func (s store) spentAndReserved(ctx context.Context, key leaseKey) (spent, leased Money, err error) {
	var a, b int64
	err = s.db.WithContext(ctx).Raw(`SELECT
		COALESCE((SELECT spent FROM billing_spend WHERE budget = ? AND period = ?), 0),
		CAST(COALESCE((SELECT SUM(amount) FROM billing_leases WHERE budget = ? AND period = ? AND amount > 0), 0) AS BIGINT)`,
		key.budget, key.period, key.budget, key.period).Row().Scan(&a, &b)
	return Money(a), Money(b), dbError("read budget", err)
}
