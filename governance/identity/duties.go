package identity

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
)

// Duties says who holds the administrators' duties.
type Duties string

// The duties. An installation begins merged. Once they are separated they stay so.
const (
	DutiesMerged    Duties = "merged"    // a platform administrator may do everything, and needs no second person
	DutiesSeparated Duties = "separated" // there is no platform administrator, and grave acts need a second person
)

// SeparateAdmins are the accounts among which the duties of the platform administrators are split, by name.
type SeparateAdmins struct{ System, Security, Audit, Compliance string }

// OneTime is a new account with the password for its first sign-in.
type OneTime struct {
	User     User
	Password string
}

type dutiesRow struct {
	ID        int64
	State     string
	ChangedAt int64
	ChangedBy string
}

func (dutiesRow) TableName() string { return "identity_duties" }

type grantRow struct {
	UserID    string
	GrantedBy string
	GrantedAt int64
}

func (grantRow) TableName() string { return "identity_grants" }

// Duties returns who holds the administrators' duties. Error: CodeIdentityUnavailable.
func (i *Identity) Duties() (Duties, error) {
	s, err := i.fresh()
	if err != nil {
		return "", err
	}
	return s.duties, nil
}

// Operator returns the tenant that runs the installation, "" before one does.
func (i *Identity) Operator() string {
	s, _ := i.accounts.Last()
	if s == nil {
		return ""
	}
	return s.operator
}

// SplitDuties gives the duties of the platform administrators to four new accounts of the operator's tenant, and disables every platform
// administrator, in one transaction. by is recorded as who did it. The accounts choose their own passwords at the first sign-in. Errors:
// CodeInvalidValue for a name; CodeExists; CodeConflict if the duties are separated already.
func (i *Identity) SplitDuties(ctx context.Context, by string, names SeparateAdmins) ([]OneTime, error) {
	s, err := i.fresh()
	if err != nil {
		return nil, err
	}
	var out []OneTime
	var rows []userRow
	for _, admin := range []struct{ name, role string }{
		{names.System, RoleSystemAdmin}, {names.Security, RoleSecurityAdmin}, {names.Audit, RoleAuditor}, {names.Compliance, RoleCompliance},
	} {
		password := randomText(oneTimeSize)
		row, err := i.userRow(NewUser{Tenant: s.operator, Name: admin.name, Password: password, Roles: []string{admin.role}, MustChange: true, CreatedBy: by})
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(rows, func(r userRow) bool { return r.Name == row.Name }) {
			return nil, fault.New(fault.CodeExists, fault.Say("thing.user"), row.Name)
		}
		rows = append(rows, row)
		out = append(out, OneTime{User: row.public(), Password: password})
	}
	defer i.reload(ctx)
	if err := i.store.splitDuties(ctx, by, rows, i.now().UnixMicro()); err != nil {
		return nil, err
	}
	return out, nil
}

func (s store) splitDuties(ctx context.Context, by string, admins []userRow, now int64) error {
	return s.change(ctx, "split duties", func(tx *gorm.DB) error {
		state, err := duties(tx)
		if err != nil {
			return err
		}
		if state == DutiesSeparated {
			return fault.New(fault.CodeConflict, fault.Say("identity.duties_separated"))
		}
		for _, row := range admins {
			if err := insert(tx, &row, fault.Say("thing.user"), row.Name); err != nil {
				return err
			}
		}
		var before []userRow
		if err := tx.Select(userColumns).Where("roles LIKE ?", `%"`+RolePlatformAdmin+`"%`).Find(&before).Error; err != nil {
			return err
		}
		for _, row := range before {
			err := tx.Exec("UPDATE identity_users SET disabled_at = ?, epoch = epoch + 1 WHERE id = ? AND disabled_at = 0", now, row.ID).Error
			if err == nil {
				err = endSessions(tx, row.ID, now)
			}
			if err != nil {
				return err
			}
		}
		return tx.Exec("UPDATE identity_duties SET state = ?, changed_at = ?, changed_by = ? WHERE id = 1", string(DutiesSeparated), now, by).Error
	})
}

// duties reads who holds the duties, as tx sees it. Anything but merged is taken for separated.
func duties(tx *gorm.DB) (Duties, error) {
	row, found, err := one[dutiesRow](tx.Where("id = 1"), []string{"id", "state", "changed_at", "changed_by"})
	if err != nil || found && row.State == string(DutiesMerged) {
		return DutiesMerged, err
	}
	return DutiesSeparated, nil
}

// checkActive refuses an active account with every permission once the duties are separated.
func checkActive(tx *gorm.DB, row userRow) error {
	if row.DisabledAt != 0 || !hasRole(row.Roles, RolePlatformAdmin) {
		return nil
	}
	state, err := duties(tx)
	if err == nil && state == DutiesSeparated {
		err = fault.New(fault.CodeConflict, fault.Say("identity.platform_admin_gone"))
	}
	return err
}

// granted writes down who gave an account its roles.
func granted(tx *gorm.DB, user, by string, now int64) error {
	return tx.Create(&grantRow{UserID: user, GrantedBy: by, GrantedAt: now}).Error
}

// Granted reports whether by gave an account its roles after since, as db sees it.
func Granted(db *gorm.DB, user, by string, since time.Time) (bool, error) {
	var n int64
	err := db.Model(&grantRow{}).Where("user_id = ? AND granted_by = ? AND granted_at > ?", user, by, since.UnixMicro()).Count(&n).Error
	return n > 0, err
}
