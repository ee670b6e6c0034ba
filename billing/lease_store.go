package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

var (
	errBudgetRemoved = errors.New("budget removed")
	errLeaseLost     = errors.New("lease lost")
)

// shortage reports that a budget has too little left. The figures are read under the lock of the budget, so they are consistent.
type shortage struct {
	limit, spent      Money
	leased            Money // by all leases, without the free part of the caller's own
	sharedWithServers bool  // other servers hold some of it
}

func (s *shortage) remaining() Money { return max(0, s.limit-s.spent-s.leased) }

// Error implements error.
func (s *shortage) Error() string {
	return fmt.Sprintf("budget short: %d of %d spent, %d set aside", s.spent, s.limit, s.leased)
}

// reapGrace is how long after its expiry a lease is taken away. It covers the difference between the clocks of two replicas.
const reapGrace = 30 * time.Second

// leaseRequest asks for a part of a budget.
type leaseRequest struct {
	id, node, owner string
	key             leaseKey
	fresh           bool  // there is no row yet
	need            Money // at least this much
	now, expires    time.Time
}

type leaseRow struct {
	ID        string `gorm:"column:id"`
	Budget    string `gorm:"column:budget"`
	Period    string `gorm:"column:period"`
	Node      string `gorm:"column:node"`
	Owner     string `gorm:"column:owner"`
	Amount    int64  `gorm:"column:amount"`
	ExpiresAt int64  `gorm:"column:expires_at"`
}

func (leaseRow) TableName() string { return "billing_leases" }

// take moves part of what the budget has left into the lease and returns how much: what is needed, or an eighth of what is left
// if that is more. The row of the budget is the lock. A *shortage means that less than needed is left, errLeaseLost that the lease
// expired, errBudgetRemoved that there is no such budget any more.
func (s store) take(ctx context.Context, q leaseRequest) (Money, error) {
	var got Money
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var b budgetRow
		err := forUpdate(tx).Select(b.columns()).Where("id = ?", q.key.budget).Take(&b).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return errBudgetRemoved
		}
		if err != nil {
			return fmt.Errorf("lock budget: %w", err)
		}
		if err := reapBefore(tx.Where("budget = ? AND period = ?", q.key.budget, q.key.period), q.now); err != nil {
			return err
		}
		spent, leased, others, err := spentAndLeased(tx, q)
		if err != nil {
			return err
		}
		left := Money(b.Limit) - spent - leased
		if left < q.need {
			return &shortage{limit: Money(b.Limit), spent: spent, leased: leased, sharedWithServers: others}
		}
		got = max(q.need, left/8)
		return grant(tx, q, got)
	})
	if err != nil {
		return 0, err
	}
	return got, nil
}

// spentAndLeased returns what is spent and leased, and whether other servers lease some of it. An earlier process on this node does
// not count as another server. One statement reads both sums, so a transaction that moves an amount between them is seen whole or not
// at all. A lease below zero comes from a charge above its reservation: the spent sum already has that amount, and only the lease
// itself may offset it, since its owner asks for so much more.
func spentAndLeased(tx *gorm.DB, q leaseRequest) (spent, leased Money, others bool, err error) {
	var a, b, n int64
	err = tx.Raw(`SELECT CAST(COALESCE((SELECT spent FROM billing_spend WHERE budget = ? AND period = ?), 0) AS BIGINT),
		CAST(COALESCE((SELECT SUM(amount) FROM billing_leases WHERE budget = ? AND period = ? AND (amount > 0 OR id = ?)), 0) AS BIGINT),
		(SELECT COUNT(*) FROM billing_leases WHERE budget = ? AND period = ? AND amount > 0 AND owner <> ? AND (node <> ? OR node = ''))`,
		q.key.budget, q.key.period, q.key.budget, q.key.period, q.id, q.key.budget, q.key.period, q.owner, q.node).Row().Scan(&a, &b, &n)
	return Money(a), Money(b), n > 0, err
}

func grant(tx *gorm.DB, q leaseRequest, got Money) error {
	if q.fresh {
		return tx.Create(&leaseRow{
			ID: q.id, Budget: q.key.budget, Period: q.key.period, Node: q.node, Owner: q.owner,
			Amount: int64(got), ExpiresAt: q.expires.UnixMicro(),
		}).Error
	}
	res := tx.Model(&leaseRow{}).Where("id = ?", q.id).
		Updates(map[string]any{"amount": gorm.Expr("amount + ?", int64(got)), "expires_at": q.expires.UnixMicro()})
	if res.Error == nil && res.RowsAffected == 0 {
		return errLeaseLost
	}
	return res.Error
}

// giveBack returns amount from a lease to its budget.
func (s store) giveBack(ctx context.Context, id string, amount Money) error {
	return s.db.WithContext(ctx).Model(&leaseRow{}).Where("id = ?", id).
		Update("amount", gorm.Expr("amount - ?", int64(amount))).Error
}

// drop deletes a lease; whatever was left in it returns to the budget.
func (s store) drop(ctx context.Context, id string) error {
	return s.db.WithContext(ctx).Where("id = ?", id).Delete(&leaseRow{}).Error
}

// renew extends the leases of owner and returns those that exist.
func (s store) renew(ctx context.Context, owner string, expires time.Time) (map[string]bool, error) {
	db := s.db.WithContext(ctx)
	if err := db.Model(&leaseRow{}).Where("owner = ?", owner).Update("expires_at", expires.UnixMicro()).Error; err != nil {
		return nil, err
	}
	var ids []string
	if err := db.Model(&leaseRow{}).Where("owner = ?", owner).Pluck("id", &ids).Error; err != nil {
		return nil, err
	}
	alive := make(map[string]bool, len(ids))
	for _, id := range ids {
		alive[id] = true
	}
	return alive, nil
}

// reap deletes the leases whose owners stopped renewing them: what is left in them returns to the budgets.
func (s store) reap(ctx context.Context, now time.Time) error {
	return reapBefore(s.db.WithContext(ctx), now)
}

func reapBefore(tx *gorm.DB, now time.Time) error {
	return tx.Where("expires_at < ?", now.Add(-reapGrace).UnixMicro()).Delete(&leaseRow{}).Error
}

// spendFromLease moves cost out of one lease: it is spent now.
func spendFromLease(tx *gorm.DB, id string, cost Money) error {
	return tx.Model(&leaseRow{}).Where("id = ?", id).Update("amount", gorm.Expr("amount - ?", int64(cost))).Error
}

// spendFromPreviousProcess moves up to cost out of the leases that an earlier process on the same node left behind.
func spendFromPreviousProcess(tx *gorm.DB, key leaseKey, node, owner string, cost Money) error {
	if node == "" {
		return nil
	}
	var rows []leaseRow
	err := forUpdate(tx).Select("id", "amount").
		Where("budget = ? AND period = ? AND node = ? AND owner <> ? AND amount > 0", key.budget, key.period, node, owner).
		Order("id").Find(&rows).Error
	if err != nil {
		return err
	}
	for _, r := range rows {
		part := min(cost, Money(r.Amount))
		if part == 0 {
			return nil
		}
		if err := spendFromLease(tx, r.ID, part); err != nil {
			return err
		}
		cost -= part
	}
	return nil
}
