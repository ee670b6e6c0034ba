package identity

import (
	"context"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

type challengeRow struct {
	Digest, UserID string
	ExpiresAt      int64
}

func (challengeRow) TableName() string { return "identity_challenges" }

// addChallenge stores a challenge, and drops those that have ended and the oldest of the account beyond the most.
func (s store) addChallenge(ctx context.Context, row challengeRow, now int64) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("DELETE FROM identity_challenges WHERE expires_at <= ?", now).Error; err != nil {
			return err
		}
		err := tx.Exec(`DELETE FROM identity_challenges WHERE user_id = ? AND digest NOT IN
			(SELECT digest FROM identity_challenges WHERE user_id = ? ORDER BY expires_at DESC, digest LIMIT ?)`, row.UserID, row.UserID, maxChallenges-1).Error
		if err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
	return database.Unavailable("add a challenge", err)
}

// spendChallenge takes a challenge once, whichever replica is asked.
func (s store) spendChallenge(ctx context.Context, digest string, now int64) (bool, error) {
	res := s.db.WithContext(ctx).Exec("DELETE FROM identity_challenges WHERE digest = ? AND expires_at > ?", digest, now)
	return res.RowsAffected == 1 && res.Error == nil, database.Unavailable("take a challenge", res.Error)
}

// activeFactors returns what an account can show, oldest first.
func (s store) activeFactors(ctx context.Context, user string) ([]factorRow, error) {
	var rows []factorRow
	err := s.db.WithContext(ctx).Select(factorColumns()).Where("user_id = ? AND confirmed_at <> 0", user).Order("id").Find(&rows).Error
	return rows, database.Unavailable("find second factors", err)
}

// addKey stores a security key in force and ends every sign-in of the account but one. If it is the first factor, digests become its recovery codes.
// Error: CodeExists for a key that somebody has enrolled.
func (s store) addKey(ctx context.Context, row factorRow, seal sealing, digests []string, session string) (first bool, err error) {
	err = s.change(ctx, "add security key", func(tx *gorm.DB) error {
		var before int64
		if err := tx.Model(&factorRow{}).Where("user_id = ? AND confirmed_at <> 0", row.UserID).Count(&before).Error; err != nil {
			return err
		}
		if before > maxOwnKeys { // the app among them: what was checked at the start may have changed
			return fault.New(fault.CodeConflict, fault.Say("identity.many_keys", maxOwnKeys))
		}
		if err := seal(tx, &row); err != nil {
			return err
		}
		if err := insert(tx, &row, fault.Say("thing.security_key"), row.Name); err != nil {
			return err
		}
		if first = before == 0; first {
			if err := renewRecoveryCodes(tx, row.UserID, digests); err != nil {
				return err
			}
		}
		if err := endOthers(tx, row.UserID, session, row.ConfirmedAt); err != nil {
			return err
		}
		return setFactor(tx, session, row.Kind, row.ConfirmedAt)
	})
	return first && err == nil, err
}

// takeCount accepts a signature count of a key, which has to go up unless the key counts nothing.
func (s store) takeCount(ctx context.Context, factor string, count, backedUp, now int64) (bool, error) {
	res := s.db.WithContext(ctx).Exec(`UPDATE identity_factors SET last_step = ?, backed_up = ?, used_at = ?
		WHERE id = ? AND confirmed_at <> 0 AND suspect_at = 0 AND (last_step < ? OR last_step = 0 AND ? = 0)`, count, backedUp, now, factor, count, count)
	return res.RowsAffected == 1 && res.Error == nil, database.Unavailable("take a signature", res.Error)
}

func (s store) suspectKey(ctx context.Context, factor string, now int64) error {
	res := s.db.WithContext(ctx).Exec("UPDATE identity_factors SET suspect_at = ? WHERE id = ? AND suspect_at = 0", now, factor)
	return database.Unavailable("suspect a security key", res.Error)
}

// removeOneFactor removes one of several factors, or the last with its recovery codes. Error: CodeNotFound.
func (s store) removeOneFactor(ctx context.Context, user, id string) error {
	return s.change(ctx, "remove a second factor", func(tx *gorm.DB) error {
		res := tx.Exec("DELETE FROM identity_factors WHERE id = ? AND user_id = ? AND confirmed_at <> 0", id, user)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("thing.second_factor"), id)
		}
		return tx.Exec(`DELETE FROM identity_recovery_codes WHERE user_id = ?
			AND NOT EXISTS (SELECT 1 FROM identity_factors WHERE user_id = ? AND confirmed_at <> 0)`, user, user).Error
	})
}

func (s store) suspects(ctx context.Context) ([]Suspect, error) {
	var rows []struct {
		Factor, Tenant, User string
		Since                int64
	}
	err := s.db.WithContext(ctx).Raw(`SELECT f.id AS factor, u.tenant AS tenant, u.id AS "user", f.suspect_at AS since FROM identity_factors f
		JOIN identity_users u ON u.id = f.user_id WHERE f.suspect_at <> 0 ORDER BY f.id`).Scan(&rows).Error
	out := make([]Suspect, 0, len(rows))
	for _, r := range rows {
		out = append(out, Suspect{r.Factor, r.Tenant, r.User, at(r.Since)})
	}
	return out, database.Unavailable("list suspect security keys", err)
}

// demand is the name of the row that says until when administrators have to have a second factor.
const demand = "administrators"

func (s store) demandFactors(ctx context.Context, until int64) error {
	return s.change(ctx, "demand second factors", func(tx *gorm.DB) error {
		return tx.Exec("UPDATE identity_factor_demand SET until = ? WHERE name = ? AND until < ?", until, demand, until).Error
	})
}

// sealing puts what is secret into the row that a transaction stores.
type sealing func(tx *gorm.DB, row *factorRow) error

func (f factorRow) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: f.Epoch, Suite: f.suite(), Sealed: f.Sealed}
}
