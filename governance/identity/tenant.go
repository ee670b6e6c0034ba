package identity

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Tenant is a customer, or a department, whose keys, people, policies, budgets and data are its own.
type Tenant struct {
	ID, Name   string
	Operator   bool   // runs the installation
	Limits     Limits // of all its callers together; zero fields take those of the installation
	CreatedAt  time.Time
	Suspension Suspension
	ClosedAt   time.Time // for good, see [CloseTenant]; zero: it is not
}

// Suspension says since when a tenant is suspended. The zero value says that it is not.
type Suspension struct {
	Since      time.Time
	By, Reason string // By is a user id
}

// TenantChange is what an administrator changes of a tenant; nil fields stay.
type TenantChange struct {
	Name   *string
	Limits *Limits
}

// CreateTenant creates a tenant. Errors: CodeInvalidValue, CodeExists.
func (i *Identity) CreateTenant(ctx context.Context, t Tenant) error {
	if err := checkID("id", t.ID); err != nil {
		return err
	}
	if err := CheckText("name", t.Name); err != nil {
		return err
	}
	// Only EnsureAdmin makes a tenant the operator: no management call may.
	row := tenantRow{ID: t.ID, Name: t.Name, CreatedAt: i.now().UnixMicro()}
	if err := row.limit(t.Limits); err != nil {
		return err
	}
	defer i.reload(ctx)
	return i.store.createTenant(ctx, row)
}

// ListTenants returns all tenants ordered by id.
func (i *Identity) ListTenants(ctx context.Context) ([]Tenant, error) {
	rows, err := i.store.tenants(ctx)
	out := make([]Tenant, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out, err
}

// ChangeTenant changes a tenant. Its limits are in force at once here, within two polls elsewhere. Errors: CodeInvalidValue, CodeNotFound.
func (i *Identity) ChangeTenant(ctx context.Context, id string, change TenantChange) (before, after Tenant, err error) {
	return i.changeTenant(ctx, "change tenant", id, func(_ *gorm.DB, row *tenantRow) error {
		if change.Name != nil {
			if err := CheckText("name", *change.Name); err != nil {
				return err
			}
			row.Name = *change.Name
		}
		if change.Limits != nil {
			return row.limit(*change.Limits)
		}
		return nil
	})
}

// SuspendTenant refuses the keys and the people of a tenant with CodeTenantSuspended, at once here and within two polls elsewhere, until it is
// resumed, and ends their sign-ins. Requests that were let in before go on to their end. Nothing of the tenant's is deleted. A tenant that is
// suspended stays so for the first reason. Errors: CodeMissing and CodeInvalidValue of the reason, CodeNotFound, CodeConflict for the tenant that
// runs the installation and for one that has the last platform administrators.
func (i *Identity) SuspendTenant(ctx context.Context, id, by, reason string) (before, after Tenant, err error) {
	if err := CheckReason("reason", reason); err != nil {
		return Tenant{}, Tenant{}, err
	}
	now := i.now().UnixMicro()
	return i.changeTenant(ctx, "suspend tenant", id, func(tx *gorm.DB, row *tenantRow) error {
		if row.IsOperator != 0 {
			return fault.New(fault.CodeConflict, fault.Say("identity.operator_runs"))
		}
		if row.SuspendedAt != 0 {
			return nil
		}
		row.SuspendedAt, row.SuspendedBy, row.Suspension = now, by, reason
		if err := keepOneAdminElsewhere(tx, id); err != nil {
			return err
		}
		return tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE revoked_at = 0 AND user_id IN (SELECT id FROM identity_users WHERE tenant = ?)", now, id).Error
	})
}

// ResumeTenant ends the suspension that began at since: what was decided about one does not lift the next. Keys work again, and people sign in
// again. before has what was ended. Errors: CodeNotFound, CodeConflict where there is no suspension or another one, and where the tenant is closed.
func (i *Identity) ResumeTenant(ctx context.Context, id string, since time.Time) (before, after Tenant, err error) {
	return i.changeTenant(ctx, "resume tenant", id, func(_ *gorm.DB, row *tenantRow) error {
		switch {
		case row.SuspendedAt == 0:
			return fault.New(fault.CodeConflict, fault.Say("identity.not_suspended"))
		case row.SuspendedAt != since.UnixMicro():
			return fault.New(fault.CodeConflict, fault.Say("identity.suspended_again"))
		}
		row.SuspendedAt, row.SuspendedBy, row.Suspension = 0, "", ""
		return nil
	})
}

// TenantLimits returns the limits that a tenant has of its own.
func (i *Identity) TenantLimits(tenant string) Limits {
	s, loaded := i.accounts.Last()
	if !loaded {
		return Limits{}
	}
	return s.tenants[tenant].limits()
}

func (i *Identity) changeTenant(ctx context.Context, step, id string, fn func(tx *gorm.DB, row *tenantRow) error) (before, after Tenant, err error) {
	defer i.reload(ctx)
	was, row, err := i.store.changeTenant(ctx, step, id, fn)
	return was.public(), row.public(), err
}

func (s store) changeTenant(ctx context.Context, step, id string, fn func(tx *gorm.DB, row *tenantRow) error) (before, row tenantRow, err error) {
	err = s.change(ctx, step, func(tx *gorm.DB) error {
		if before, err = tenant(tx, id); err != nil {
			return err
		}
		if err := before.open(); err != nil {
			return err
		}
		row = before
		if err := fn(tx, &row); err != nil || row == before {
			return err
		}
		return tx.Model(&tenantRow{}).Where("id = ?", id).Updates(map[string]any{
			"name": row.Name, "suspended_at": row.SuspendedAt, "suspended_by": row.SuspendedBy, "suspension": row.Suspension,
			"requests_per_minute": row.RequestsPerMinute, "tokens_per_minute": row.TokensPerMinute, "concurrent": row.Concurrent,
		}).Error
	})
	return before, row, err
}

// tenant reads the row of a tenant. Error: CodeNotFound.
func tenant(tx *gorm.DB, id string) (tenantRow, error) {
	row, found, err := one[tenantRow](tx.Where("id = ?", id), tenantColumns)
	if err == nil && !found {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), id)
	}
	return row, err
}

// TenantExists returns nil if a tenant is there, in a migrated database. Errors: CodeNotFound, CodeDatabaseUnavailable.
func TenantExists(ctx context.Context, db *gorm.DB, id string) error {
	_, err := tenant(db.WithContext(ctx), id)
	return database.Unavailable("look for a tenant", err)
}

type tenantRow struct {
	ID, Name                string
	IsOperator              int
	CreatedAt, SuspendedAt  int64
	SuspendedBy, Suspension string
	RequestsPerMinute       int
	TokensPerMinute         int
	Concurrent              int
	ClosedAt                int64
}

func (tenantRow) TableName() string { return "identity_tenants" }

func (r *tenantRow) limit(l Limits) error {
	if err := checkLimits(l); err != nil {
		return err
	}
	r.RequestsPerMinute, r.TokensPerMinute, r.Concurrent = l.RequestsPerMinute, l.TokensPerMinute, l.Concurrent
	return nil
}

func (r tenantRow) limits() Limits {
	return Limits{RequestsPerMinute: r.RequestsPerMinute, TokensPerMinute: r.TokensPerMinute, Concurrent: r.Concurrent}
}

func (r tenantRow) public() Tenant {
	return Tenant{
		ID: r.ID, Name: r.Name, Operator: r.IsOperator != 0, Limits: r.limits(), CreatedAt: at(r.CreatedAt),
		Suspension: Suspension{Since: at(r.SuspendedAt), By: r.SuspendedBy, Reason: r.Suspension}, ClosedAt: at(r.ClosedAt),
	}
}
