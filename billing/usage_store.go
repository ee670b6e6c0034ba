package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/fault"
)

type usageRow struct {
	Request      string `gorm:"column:request"`
	Digest       string `gorm:"column:digest"`
	Tenant       string `gorm:"column:tenant"`
	Project      string `gorm:"column:project"`
	Key          string `gorm:"column:api_key"`
	Actor        string `gorm:"column:actor"`
	Action       string `gorm:"column:action"`
	Model        string `gorm:"column:model"`
	Version      string `gorm:"column:model_version"`
	At           int64  `gorm:"column:at"`
	Prompt       int64  `gorm:"column:prompt_tokens"`
	Cached       int64  `gorm:"column:cached_tokens"`
	Completion   int64  `gorm:"column:completion_tokens"`
	Estimated    int64  `gorm:"column:estimated"`
	Cost         int64  `gorm:"column:cost"`
	Currency     string `gorm:"column:currency"`
	PriceBook    string `gorm:"column:price_book"`
	Energy       int64  `gorm:"column:energy"`
	EnergyMethod string `gorm:"column:energy_method"`
	Outcome      string `gorm:"column:outcome"`
	RecordedAt   int64  `gorm:"column:recorded_at"`
}

func (usageRow) TableName() string { return "billing_usage" }

// dailyRow is what one group used: stored by day, and the result of a report.
type dailyRow struct {
	Tenant     string `gorm:"column:tenant"`
	Key        string `gorm:"column:api_key"`
	Model      string `gorm:"column:model"`
	Day        string `gorm:"column:day"`
	Requests   int64  `gorm:"column:requests"`
	Estimated  int64  `gorm:"column:estimated"`
	Prompt     int64  `gorm:"column:prompt_tokens"`
	Cached     int64  `gorm:"column:cached_tokens"`
	Completion int64  `gorm:"column:completion_tokens"`
	Cost       int64  `gorm:"column:cost"`
	Energy     int64  `gorm:"column:energy"`
}

func (dailyRow) TableName() string { return "billing_usage_daily" }

// RecordUsage writes the usage, its daily sums and what it spends of the budgets inside tx, which must be a transaction. The same
// usage again changes nothing; another payload for the same request is CodeConflict and changes nothing. Token counts that no
// engine can mean are recorded as they were rated: bounded. If tx is rolled back, all of it is, and RecordUsage must be called
// again.
func (l *Ledger) RecordUsage(tx *gorm.DB, u Usage) error {
	result, err := l.record(tx, u)
	l.metrics.usage.WithLabelValues(result).Inc()
	return err
}

func (l *Ledger) record(tx *gorm.DB, u Usage) (result string, err error) {
	if _, ok := tx.Statement.ConnPool.(gorm.TxCommitter); !ok {
		return "failed", errors.New("record usage: not inside a transaction")
	}
	if err := u.check(); err != nil {
		return "failed", fmt.Errorf("record usage: %w", err)
	}
	row, err := u.row(l.now())
	u.Tokens = u.Tokens.Bounded()
	if err != nil {
		return "failed", fmt.Errorf("record usage: %w", err)
	}
	fresh, err := insertUsage(tx, row)
	if err != nil {
		if fault.Is(err, fault.CodeConflict) {
			return "conflict", err
		}
		return "failed", fmt.Errorf("record usage: %w", err)
	}
	var slices []*slice
	if r := l.reservation(u.Request); r != nil {
		slices = r.markRecorded()
	}
	if !fresh {
		return "replay", nil
	}
	if err := addDaily(tx, u); err != nil {
		return "failed", fmt.Errorf("record daily usage: %w", err)
	}
	if err := l.spend(tx, u, slices); err != nil {
		return "failed", fmt.Errorf("record spending: %w", err)
	}
	return "new", nil
}

func (u Usage) row(now time.Time) (usageRow, error) {
	d, err := u.digest()
	estimated := int64(0)
	if u.Estimated {
		estimated = 1
	}
	u.Tokens = u.Tokens.Bounded()
	return usageRow{
		Request: u.Request, Digest: d, Tenant: u.Tenant, Project: u.Project, Key: u.Key, Actor: u.Actor, Action: u.Action,
		Model: u.Model, Version: u.Version, At: u.At, Prompt: u.Tokens.Prompt, Cached: u.Tokens.Cached,
		Completion: u.Tokens.Completion, Estimated: estimated, Cost: int64(u.Cost), Currency: u.Currency, PriceBook: u.PriceBook,
		Energy: u.Energy, EnergyMethod: u.EnergyMethod, Outcome: u.Outcome, RecordedAt: now.UnixMicro(),
	}, err
}

// insertUsage reports whether the row is new. The unique key decides, also between two transactions that race.
func insertUsage(tx *gorm.DB, row usageRow) (fresh bool, err error) {
	created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
	if created.Error != nil || created.RowsAffected == 1 {
		return created.Error == nil, created.Error
	}
	var have usageRow
	if err := tx.Select("request", "digest").Where("request = ?", row.Request).Take(&have).Error; err != nil {
		return false, err
	}
	if have.Digest != row.Digest {
		return false, fault.New(fault.CodeConflict, fault.Say("other usage is recorded for request %s", "请求 %s 已记录了其他用量", row.Request))
	}
	return false, nil
}

func addDaily(tx *gorm.DB, u Usage) error {
	estimated := int64(0)
	if u.Estimated {
		estimated = 1
	}
	add := func(tx *gorm.DB) *gorm.DB {
		return tx.Model(&dailyRow{}).Where("tenant = ? AND api_key = ? AND model = ? AND day = ?", u.Tenant, u.Key, u.Model, u.day()).
			Updates(map[string]any{
				"requests":          gorm.Expr("requests + 1"),
				"estimated":         gorm.Expr("estimated + ?", estimated),
				"prompt_tokens":     gorm.Expr("prompt_tokens + ?", u.Tokens.Prompt),
				"cached_tokens":     gorm.Expr("cached_tokens + ?", u.Tokens.Cached),
				"completion_tokens": gorm.Expr("completion_tokens + ?", u.Tokens.Completion),
				"cost":              gorm.Expr("cost + ?", int64(u.Cost)),
				"energy":            gorm.Expr("energy + ?", u.Energy),
			})
	}
	return addOrInsert(tx, add, func(tx *gorm.DB) error {
		return tx.Create(&dailyRow{
			u.Tenant, u.Key, u.Model, u.day(), 1, estimated, u.Tokens.Prompt, u.Tokens.Cached, u.Tokens.Completion, int64(u.Cost), u.Energy,
		}).Error
	})
}

// spend adds the cost to every budget that covers the request and takes it out of the lease that held it: that of this process's
// reservation, else those an earlier process on this node left behind.
func (l *Ledger) spend(tx *gorm.DB, u Usage, slices []*slice) error {
	if u.Cost == 0 {
		return nil
	}
	var rows []budgetRow
	err := tx.Select(budgetRow{}.columns()).Where("tenant = ? AND api_key IN ?", u.Tenant, []string{"", u.Key}).
		Order("id").Find(&rows).Error
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Key != "" && r.Key != u.Key {
			continue
		}
		b, err := r.budget()
		if err != nil {
			return err
		}
		key := sliceKey{b.id, b.period.id(time.UnixMicro(u.At), b.loc)}
		var held *slice
		for _, s := range slices {
			if s.key.budget == b.id {
				held, key = s, s.key
			}
		}
		if err := addSpent(tx, key, u.Cost); err != nil {
			return err
		}
		if held != nil {
			err = shrink(tx, held.lease, u.Cost)
		} else {
			err = shrinkFormer(tx, key, l.cfg.Node, l.owner, u.Cost)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func addSpent(tx *gorm.DB, key sliceKey, cost Money) error {
	add := func(tx *gorm.DB) *gorm.DB {
		return tx.Model(&spendRow{}).Where("budget = ? AND period = ?", key.budget, key.period).
			Update("spent", gorm.Expr("spent + ?", int64(cost)))
	}
	return addOrInsert(tx, add, func(tx *gorm.DB) error {
		return tx.Create(&spendRow{key.budget, key.period, int64(cost)}).Error
	})
}

// recorded returns which of the requests have a committed usage row.
func (s store) recorded(ctx context.Context, requests []string) (map[string]bool, error) {
	var found []string
	err := s.db.WithContext(ctx).Model(&usageRow{}).Where("request IN ?", requests).Pluck("request", &found).Error
	out := make(map[string]bool, len(found))
	for _, id := range found {
		out[id] = true
	}
	return out, err
}
