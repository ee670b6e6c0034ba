package identity

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// DefaultOrganisation is the organisation of tenants that name none. It is there from the first start.
const DefaultOrganisation = "default"

// Organisation is a customer, or a group of companies, with one tenant or several.
type Organisation struct {
	ID, Name   string
	Operator   bool // the tenant that runs the installation is one of its
	Labels     map[string]string
	Limits     Limits // of all callers of its tenants together; a zero field bounds nothing
	CreatedAt  time.Time
	Suspension Suspension
}

// CreateOrganisation creates an organisation without tenants. Errors: CodeInvalidValue, CodeMissing, CodeExists.
func (i *Identity) CreateOrganisation(ctx context.Context, o Organisation) error {
	if err := checkID("id", o.ID); err != nil {
		return err
	}
	level, err := newLevel(o.Name, o.Labels, o.Limits)
	if err != nil {
		return err
	}
	row := organisationRow{ID: o.ID, Name: o.Name, CreatedAt: i.now().UnixMicro(), Level: level}
	defer i.reload(ctx)
	return i.store.change(ctx, "create organisation", func(tx *gorm.DB) error { return insert(tx, &row, fault.Say("thing.organisation"), row.ID) })
}

// ListOrganisations returns all organisations ordered by id.
func (i *Identity) ListOrganisations(ctx context.Context) ([]Organisation, error) {
	var rows []organisationRow
	db := i.store.db.WithContext(ctx)
	if err := db.Select(organisationColumns()).Order("id").Find(&rows).Error; err != nil {
		return nil, database.Unavailable("list organisations", err)
	}
	operators, err := operatorOrganisations(db)
	out := make([]Organisation, len(rows))
	for n, r := range rows {
		out[n] = r.public(operators[r.ID])
	}
	return out, database.Unavailable("list organisations", err)
}

// Organisation returns one organisation. Error: CodeNotFound.
func (i *Identity) Organisation(ctx context.Context, id string) (Organisation, error) {
	db := i.store.db.WithContext(ctx)
	row, err := organisation(db, id)
	if err != nil {
		return Organisation{}, database.Unavailable("find organisation", err)
	}
	operators, err := operatorOrganisations(db)
	return row.public(operators[id]), database.Unavailable("find organisation", err)
}

// ChangeOrganisation changes an organisation: at once here, within two polls elsewhere. Errors: CodeInvalidValue, CodeMissing, CodeNotFound.
func (i *Identity) ChangeOrganisation(ctx context.Context, id string, change LevelChange) (before, after Organisation, err error) {
	return i.changeOrganisation(ctx, "change organisation", id, func(_ *gorm.DB, row *organisationRow) error {
		return change.apply(&row.Name, &row.Level)
	})
}

// SuspendOrganisation refuses the keys and the people of all its tenants with CodeOrganisationSuspended, as SuspendTenant does those of one. Errors:
// CodeMissing and CodeInvalidValue of the reason, CodeNotFound, CodeConflict for the organisation of the tenant that runs the installation and for
// one that has the last platform administrators.
func (i *Identity) SuspendOrganisation(ctx context.Context, id, by, reason string) (before, after Organisation, err error) {
	if err := CheckReason("reason", reason); err != nil {
		return Organisation{}, Organisation{}, err
	}
	now := i.now().UnixMicro()
	return i.changeOrganisation(ctx, "suspend organisation", id, func(tx *gorm.DB, row *organisationRow) error {
		operators, err := operatorOrganisations(tx)
		if err != nil {
			return err
		}
		if operators[id] {
			return fault.New(fault.CodeConflict, fault.Say("identity.operator_organisation"))
		}
		if !row.Level.suspend(now, by, reason) {
			return nil
		}
		var tenants []string
		if err := tx.Model(&tenantRow{}).Where("organisation = ?", id).Pluck("id", &tenants).Error; err != nil || len(tenants) == 0 {
			return err
		}
		if err := keepOneAdminElsewhere(tx, tenants); err != nil {
			return err
		}
		return endSignIns(tx, now, tenants)
	})
}

// ResumeOrganisation ends the suspension that began at since, as ResumeTenant does. A tenant that is suspended itself stays so. Errors: CodeNotFound,
// CodeConflict where there is no suspension or another one.
func (i *Identity) ResumeOrganisation(ctx context.Context, id string, since time.Time) (before, after Organisation, err error) {
	return i.changeOrganisation(ctx, "resume organisation", id, func(_ *gorm.DB, row *organisationRow) error { return row.Level.resume(since) })
}

func (i *Identity) changeOrganisation(ctx context.Context, step, id string, fn func(tx *gorm.DB, row *organisationRow) error) (before, after Organisation, err error) {
	defer i.reload(ctx)
	operator := false
	was, row, err := changeLevel(ctx, i.store, step, func(tx *gorm.DB) (organisationRow, error) {
		operators, err := operatorOrganisations(tx)
		if err != nil {
			return organisationRow{}, err
		}
		operator = operators[id]
		return organisation(tx, id)
	}, fn)
	return was.public(operator), row.public(operator), err
}

// operatorOrganisations returns the organisation of the tenant that runs the installation.
func operatorOrganisations(tx *gorm.DB) (map[string]bool, error) {
	var ids []string
	err := tx.Session(&gorm.Session{}).Model(&tenantRow{}).Where("is_operator = 1").Pluck("organisation", &ids).Error
	out := map[string]bool{}
	for _, id := range ids {
		out[id] = true
	}
	return out, err
}

// organisation reads the row of an organisation. Error: CodeNotFound.
func organisation(tx *gorm.DB, id string) (organisationRow, error) {
	row, found, err := one[organisationRow](tx.Where("id = ?", id), organisationColumns())
	if err == nil && !found {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.organisation"), id)
	}
	return row, err
}

// openOrganisation refuses one that is not there, and one that is suspended: what comes in would be refused without a reason of its own, and what
// goes out would be let in without the second person that a resumption takes.
func openOrganisation(tx *gorm.DB, id string) error {
	row, err := organisation(tx, id)
	if err == nil && row.Level.suspended() {
		err = fault.New(fault.CodeConflict, fault.Say("identity.organisation_suspended", id))
	}
	return err
}

type organisationRow struct {
	ID, Name  string
	CreatedAt int64
	Level     levelRow `gorm:"embedded"`
}

func (organisationRow) TableName() string { return "identity_organisations" }

func organisationColumns() []string {
	return append([]string{"id", "name", "created_at"}, levelColumns...)
}

func (r organisationRow) where(tx *gorm.DB) *gorm.DB { return tx.Where("id = ?", r.ID) }

func (r organisationRow) changed() map[string]any {
	return r.Level.with(map[string]any{"name": r.Name})
}

func (r organisationRow) public(operator bool) Organisation {
	return Organisation{
		ID: r.ID, Name: r.Name, Operator: operator, Labels: r.Level.labels(), Limits: r.Level.limits(), CreatedAt: at(r.CreatedAt),
		Suspension: r.Level.suspension(),
	}
}
