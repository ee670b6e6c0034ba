package audit

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

const (
	leaseFor = 10 * time.Second
	maxSkew  = time.Minute // between the clocks of replicas, at most
)

// takeLease makes holder the sealer, for this transaction and the time after it, or fails with errNotSealer at once: a row that another
// transaction holds is not waited for. A lease that ends far in the future was taken by a clock that ran ahead and is void: else nobody
// would seal until the time comes.
func takeLease(tx *gorm.DB, holder string, now time.Time) error {
	if err := hurry(tx); err != nil {
		return err
	}
	if !database.IsSQLite(tx) {
		var free []string
		if err := tx.Raw("SELECT name FROM audit_lease WHERE name = 'seal' FOR UPDATE SKIP LOCKED").Scan(&free).Error; err != nil {
			return err
		}
		if len(free) == 0 {
			return errNotSealer
		}
	}
	res := tx.Exec("UPDATE audit_lease SET holder = ?, expires = ? WHERE name = 'seal' AND (holder = ? OR expires < ? OR expires > ?)",
		holder, now.Add(leaseFor).UnixMicro(), holder, now.UnixMicro(), now.Add(leaseFor+maxSkew).UnixMicro())
	if res.Error == nil && res.RowsAffected == 0 {
		return errNotSealer
	}
	return res.Error
}

// hurry lets the database end this transaction when its replica falls silent in the middle of it: one that is paused, or cut off, would
// keep its locks and hold up the others until its connection dies, which can take hours. SQLite has one machine and no such replica.
func hurry(tx *gorm.DB) error {
	if database.IsSQLite(tx) {
		return nil
	}
	if err := tx.Exec(fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", leaseFor.Milliseconds())).Error; err != nil {
		return fmt.Errorf("bound transaction: %w", err)
	}
	return nil
}

// releaseLease lets another replica seal at once.
func (s *store) releaseLease(ctx context.Context, holder string) error {
	err := s.db.WithContext(ctx).Exec("UPDATE audit_lease SET holder = '', expires = 0 WHERE name = 'seal' AND holder = ?", holder).Error
	if err != nil {
		return fmt.Errorf("release sealing lease: %w", err)
	}
	return nil
}
