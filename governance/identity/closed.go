package identity

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
)

// CloseTenant closes a tenant for good, in the transaction that decides about its erasure: it cannot be resumed, and gets no account, key or change
// any more. Its row stays, so that nobody gets its id. since names the suspension that the decision is about. Closing a closed tenant changes
// nothing. Errors: CodeNotFound; CodeConflict for the tenant that runs the installation, for one that is not suspended, and for another suspension.
// The caller reloads the accounts when tx has ended, see [Identity.Load].
func CloseTenant(tx *gorm.DB, id string, since, now time.Time) error {
	if err := tx.Exec("UPDATE identity_changes SET version = version + 1 WHERE name = 'identity'").Error; err != nil {
		return err
	}
	row, err := tenant(tx, id)
	switch {
	case err != nil:
		return err
	case row.IsOperator != 0:
		return fault.New(fault.CodeConflict, fault.Say("identity.operator_runs"))
	case !row.Level.suspended():
		return fault.New(fault.CodeConflict, fault.Say("identity.not_suspended"))
	case row.Level.SuspendedAt != since.UnixMicro():
		return fault.New(fault.CodeConflict, fault.Say("identity.suspended_again"))
	case row.ClosedAt != 0:
		return nil
	}
	return tx.Exec("UPDATE identity_tenants SET closed_at = ? WHERE id = ? AND closed_at = 0", now.UnixMicro(), id).Error
}

// RequireOpen refuses a tenant that is closed, with CodeConflict. One that nobody knows is open: who looks for it finds that out.
func (i *Identity) RequireOpen(id string) error {
	s, err := i.fresh()
	if err != nil {
		return err
	}
	return s.tenants[id].open()
}

func (r tenantRow) open() error {
	if r.ClosedAt != 0 {
		return fault.New(fault.CodeConflict, fault.Say("identity.tenant_closed"))
	}
	return nil
}

// openTenant is tenant for what a closed one does not get.
func openTenant(tx *gorm.DB, id string) (tenantRow, error) {
	row, err := tenant(tx, id)
	if err == nil {
		err = row.open()
	}
	return row, err
}

// FindTenant returns a tenant as the database has it. Errors: CodeNotFound, CodeDatabaseUnavailable.
func (i *Identity) FindTenant(ctx context.Context, id string) (Tenant, error) {
	row, err := i.store.tenant(ctx, id)
	return row.public(), err
}
