package identity

import (
	"cmp"
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Tenant is a customer, or a department, whose keys, people, policies, budgets and data are its own.
type Tenant struct {
	ID, Name     string
	Organisation string // it belongs to
	Operator     bool   // runs the installation
	Labels       map[string]string
	Limits       Limits // of all its callers together; zero fields take those of the installation
	CreatedAt    time.Time
	Suspension   Suspension
	ClosedAt     time.Time // for good, see [CloseTenant]; zero: it is not
}

// CreateTenant creates a tenant, of DefaultOrganisation where it names none. Errors: CodeInvalidValue, CodeMissing, CodeExists, CodeNotFound and
// CodeConflict of the organisation, which is not there or suspended.
func (i *Identity) CreateTenant(ctx context.Context, t Tenant) error {
	if err := checkID("id", t.ID); err != nil {
		return err
	}
	level, err := newLevel(t.Name, t.Labels, t.Limits)
	if err != nil {
		return err
	}
	// Only EnsureAdmin makes a tenant the operator: no management call may.
	row := tenantRow{ID: t.ID, Name: t.Name, Organisation: cmp.Or(t.Organisation, DefaultOrganisation), CreatedAt: i.now().UnixMicro(), Level: level}
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

// ChangeTenant changes a tenant. Its limits are in force at once here, within two polls elsewhere. Errors: CodeInvalidValue, CodeMissing, CodeNotFound.
func (i *Identity) ChangeTenant(ctx context.Context, id string, change LevelChange) (before, after Tenant, err error) {
	return i.changeTenant(ctx, "change tenant", id, func(_ *gorm.DB, row *tenantRow) error { return change.apply(&row.Name, &row.Level) })
}

// MoveTenant puts a tenant into another organisation, whose limits, budgets and policy are in force for it at once here, within two polls elsewhere.
// What it has spent so far stays with the organisation of before. Errors: CodeNotFound, CodeConflict where either organisation is suspended.
func (i *Identity) MoveTenant(ctx context.Context, id, organisation string) (before, after Tenant, err error) {
	return i.changeTenant(ctx, "move tenant", id, func(tx *gorm.DB, row *tenantRow) error {
		if row.Organisation == organisation {
			return nil
		}
		for _, o := range []string{row.Organisation, organisation} {
			if err := openOrganisation(tx, o); err != nil {
				return err
			}
		}
		row.Organisation = organisation
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
		if !row.Level.suspend(now, by, reason) {
			return nil
		}
		if err := keepOneAdminElsewhere(tx, []string{id}); err != nil {
			return err
		}
		return endSignIns(tx, now, []string{id})
	})
}

// ResumeTenant ends the suspension that began at since: what was decided about one does not lift the next. Keys work again, and people sign in
// again. before has what was ended. Errors: CodeNotFound, CodeConflict where there is no suspension or another one, and where the tenant is closed.
func (i *Identity) ResumeTenant(ctx context.Context, id string, since time.Time) (before, after Tenant, err error) {
	return i.changeTenant(ctx, "resume tenant", id, func(_ *gorm.DB, row *tenantRow) error { return row.Level.resume(since) })
}

func (i *Identity) changeTenant(ctx context.Context, step, id string, fn func(tx *gorm.DB, row *tenantRow) error) (before, after Tenant, err error) {
	defer i.reload(ctx)
	was, row, err := changeLevel(ctx, i.store, step, func(tx *gorm.DB) (tenantRow, error) { return openTenant(tx, id) }, fn)
	return was.public(), row.public(), err
}

// tenant reads the row of a tenant. Error: CodeNotFound.
func tenant(tx *gorm.DB, id string) (tenantRow, error) {
	row, found, err := one[tenantRow](tx.Where("id = ?", id), tenantColumns())
	if err == nil && !found {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), id)
	}
	return row, err
}

// openHome reads the row of a tenant that is neither suspended nor closed, nor its organisation suspended. Errors: CodeNotFound, CodeTenantSuspended,
// CodeOrganisationSuspended.
func openHome(tx *gorm.DB, id string) (tenantRow, error) {
	home, err := tenant(tx, id)
	if err != nil {
		return home, err
	}
	if home.Level.suspended() || home.ClosedAt != 0 {
		return home, fault.New(fault.CodeTenantSuspended)
	}
	over, err := organisation(tx, home.Organisation)
	if err == nil && over.Level.suspended() {
		err = fault.New(fault.CodeOrganisationSuspended)
	}
	return home, err
}

// TenantExists returns nil if a tenant is there, in a migrated database. Errors: CodeNotFound, CodeDatabaseUnavailable.
func TenantExists(ctx context.Context, db *gorm.DB, id string) error {
	_, err := tenant(db.WithContext(ctx), id)
	return database.Unavailable("look for a tenant", err)
}

// Organisations returns the organisation of every tenant of a migrated database. Error: CodeDatabaseUnavailable.
func Organisations(ctx context.Context, db *gorm.DB) (map[string]string, error) {
	var rows []tenantRow
	err := db.WithContext(ctx).Select(tenantColumns()).Find(&rows).Error
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r.ID] = r.Organisation
	}
	return out, database.Unavailable("read the organisations of tenants", err)
}

type tenantRow struct {
	ID, Name, Organisation string
	IsOperator             int
	CreatedAt, ClosedAt    int64
	Level                  levelRow `gorm:"embedded"`
}

func (tenantRow) TableName() string { return "identity_tenants" }

func tenantColumns() []string {
	return append([]string{"id", "name", "organisation", "is_operator", "created_at", "closed_at"}, levelColumns...)
}

func (r tenantRow) where(tx *gorm.DB) *gorm.DB { return tx.Where("id = ?", r.ID) }

func (r tenantRow) changed() map[string]any {
	return r.Level.with(map[string]any{"name": r.Name, "organisation": r.Organisation})
}

func (r tenantRow) public() Tenant {
	return Tenant{
		ID: r.ID, Name: r.Name, Organisation: r.Organisation, Operator: r.IsOperator != 0, Labels: r.Level.labels(), Limits: r.Level.limits(),
		CreatedAt: at(r.CreatedAt), Suspension: r.Level.suspension(), ClosedAt: at(r.ClosedAt),
	}
}
