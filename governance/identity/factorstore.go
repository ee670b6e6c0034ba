package identity

import (
	"context"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type factorRow struct {
	ID, UserID, Kind, Suite          string
	Sealed                           []byte
	Epoch                            int64
	CreatedAt, ConfirmedAt, LastStep int64

	Name, Credential            string // of a security key
	BackedUp, UsedAt, SuspectAt int64
}

func (factorRow) TableName() string { return "identity_factors" }

func factorColumns() []string {
	return []string{"id", "user_id", "kind", "suite", "sealed", "created_at", "confirmed_at", "last_step", "epoch", "name", "credential", "backed_up", "used_at", "suspect_at"}
}

type recoveryRow struct{ Digest, UserID string }

func (recoveryRow) TableName() string { return "identity_recovery_codes" }

// startFactor stores a factor that waits for its first code, in place of another one that does.
func (s store) startFactor(ctx context.Context, row factorRow, seal sealing) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := queue(tx); err != nil {
			return err
		}
		if err := tx.Exec("DELETE FROM identity_factors WHERE user_id = ? AND confirmed_at = 0", row.UserID).Error; err != nil {
			return err
		}
		if err := seal(tx, &row); err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
	return database.Unavailable("start second factor", err)
}

// pendingFactor returns the factor of an account that waits for its first code since after.
func (s store) pendingFactor(ctx context.Context, user string, after int64) (factorRow, bool, error) {
	q := s.db.WithContext(ctx).Where("user_id = ? AND confirmed_at = 0 AND created_at > ?", user, after)
	row, found, err := one[factorRow](q, factorColumns())
	return row, found, database.Unavailable("find second factor", err)
}

// activateFactor puts a waiting factor in force with its recovery codes, in place of those before, and ends every sign-in of the account but one.
// Error: CodeConflict if it does not wait any more.
func (s store) activateFactor(ctx context.Context, row factorRow, digests []string, session string) error {
	return s.change(ctx, "confirm second factor", func(tx *gorm.DB) error {
		if err := tx.Exec("DELETE FROM identity_factors WHERE user_id = ? AND kind = ? AND confirmed_at <> 0", row.UserID, row.Kind).Error; err != nil {
			return err
		}
		res := tx.Exec("UPDATE identity_factors SET confirmed_at = ?, last_step = ? WHERE id = ? AND confirmed_at = 0", row.ConfirmedAt, row.LastStep, row.ID)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return fault.New(fault.CodeConflict, fault.Say("identity.no_enrolment"))
		}
		if err := renewRecoveryCodes(tx, row.UserID, digests); err != nil {
			return err
		}
		if err := endOthers(tx, row.UserID, session, row.ConfirmedAt); err != nil {
			return err
		}
		return setFactor(tx, session, row.Kind, row.ConfirmedAt)
	})
}

func renewRecoveryCodes(tx *gorm.DB, user string, digests []string) error {
	if err := tx.Exec("DELETE FROM identity_recovery_codes WHERE user_id = ?", user).Error; err != nil {
		return err
	}
	codes := make([]recoveryRow, len(digests))
	for n, d := range digests {
		codes[n] = recoveryRow{Digest: d, UserID: user}
	}
	return tx.Create(&codes).Error
}

// endOthers ends every sign-in of an account but one.
func endOthers(tx *gorm.DB, user, session string, now int64) error {
	return tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE user_id = ? AND family <> ? AND revoked_at = 0", now, user, session).Error
}

// showFactor writes down that a sign-in has shown a factor. Error: CodeInvalidSession if it has ended.
func (s store) showFactor(ctx context.Context, session, kind string, now int64) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := queue(tx); err != nil {
			return err
		}
		return setFactor(tx, session, kind, now)
	})
	return database.Unavailable("show second factor", err)
}

func setFactor(tx *gorm.DB, session, kind string, now int64) error {
	res := tx.Exec("UPDATE identity_sessions SET factor = ?, factor_at = ? WHERE family = ? AND revoked_at = 0", kind, now, session)
	if res.Error == nil && res.RowsAffected == 0 {
		return fault.New(fault.CodeInvalidSession)
	}
	return res.Error
}

// takeStep accepts a time step of a factor once, and none before it any more, whichever replica is asked.
func (s store) takeStep(ctx context.Context, factor string, step, now int64) (bool, error) {
	res := s.db.WithContext(ctx).Exec("UPDATE identity_factors SET last_step = ?, used_at = ? WHERE id = ? AND confirmed_at <> 0 AND last_step < ?", step, now, factor, step)
	return res.RowsAffected == 1 && res.Error == nil, database.Unavailable("take a code", res.Error)
}

// spendRecoveryCode takes a recovery code once.
func (s store) spendRecoveryCode(ctx context.Context, user, digest string) (bool, error) {
	res := s.db.WithContext(ctx).Exec("DELETE FROM identity_recovery_codes WHERE user_id = ? AND digest = ?", user, digest)
	return res.RowsAffected == 1 && res.Error == nil, database.Unavailable("take a recovery code", res.Error)
}

func (s store) removeFactor(ctx context.Context, user string) error {
	return s.change(ctx, "remove second factor", func(tx *gorm.DB) error { return deleteFactor(tx, user) })
}

// resetFactor removes a factor for somebody else, and ends what the account has signed in.
func (s store) resetFactor(ctx context.Context, by Administrator, tenant, id string, now int64) (row userRow, err error) {
	err = s.change(ctx, "reset second factor", func(tx *gorm.DB) error {
		if row, err = user(tx, tenant, id); err != nil {
			return err
		}
		if err := by.Manages(row.public().Roles); err != nil {
			return err
		}
		if err := deleteFactor(tx, id); err != nil {
			return err
		}
		if err := tx.Exec("UPDATE identity_users SET epoch = epoch + 1 WHERE id = ?", id).Error; err != nil {
			return err
		}
		if err := touched(tx, by.ID, id); err != nil {
			return err
		}
		return endSessions(tx, id, now)
	})
	return row, err
}

func deleteFactor(tx *gorm.DB, user string) error {
	res := tx.Exec("DELETE FROM identity_factors WHERE user_id = ? AND confirmed_at <> 0", user)
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected == 0 {
		return fault.New(fault.CodeConflict, fault.Say("identity.no_factor"))
	}
	return tx.Exec("DELETE FROM identity_recovery_codes WHERE user_id = ?", user).Error
}
