package retention

import (
	"context"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
)

// ActionTenantErased is the action of the record that certifies the erasure of a whole tenant. It explains what is gone, so it never goes.
const ActionTenantErased = "offboarding.erased"

// KeptSubjects returns the digests of the people of a tenant of whom something is kept, in order, n at most.
func KeptSubjects(ctx context.Context, db *gorm.DB, tenant string, n int) (subjects []string, err error) {
	err = db.WithContext(ctx).Model(&store.KeyRow{}).Distinct("subject").Where("tenant = ?", tenant).Order("subject").Limit(n).Pluck("subject", &subjects).Error
	return subjects, database.Unavailable("look for kept texts", err)
}
