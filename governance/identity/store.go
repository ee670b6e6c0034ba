package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
)

type store struct{ db *gorm.DB }

type tenantRow struct {
	ID         string
	Name       string
	IsOperator int
	CreatedAt  int64
}

func (tenantRow) TableName() string { return "identity_tenants" }

type userRow struct {
	ID, Tenant, Name, PasswordHash string
	Roles, Labels                  string
	Epoch, CreatedAt               int64
	CreatedBy                      string
	DisabledAt                     int64
}

func (userRow) TableName() string { return "identity_users" }

type keyRow struct {
	ID, Digest, Tenant, Project, Name string
	Labels, Scopes, Models            string
	LabelMode                         string
	RequestsPerMinute                 int
	TokensPerMinute                   int
	Concurrent                        int
	CreatedAt                         int64
	CreatedBy                         string
	ExpiresAt, RevokedAt, LastUsedAt  int64
}

func (keyRow) TableName() string { return "identity_keys" }

type sessionRow struct {
	Digest, Family, UserID, Source          string
	StartedAt, ExpiresAt, UsedAt, RevokedAt int64
}

func (sessionRow) TableName() string { return "identity_sessions" }

var ( //nolint:gochecknoglobals // constant lists
	tenantColumns  = []string{"id", "name", "is_operator", "created_at"}
	userColumns    = []string{"id", "tenant", "name", "password_hash", "roles", "labels", "epoch", "created_at", "created_by", "disabled_at"}
	sessionColumns = []string{"digest", "family", "user_id", "source", "started_at", "expires_at", "used_at", "revoked_at"}
	keyColumns     = []string{
		"id", "digest", "tenant", "project", "name", "labels", "scopes", "models", "label_mode", "requests_per_minute",
		"tokens_per_minute", "concurrent", "created_at", "created_by", "expires_at", "revoked_at", "last_used_at",
	}
)

// unavailable classifies a database error that is nobody's mistake.
func unavailable(step string, err error) error {
	var coded *fault.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeDatabaseUnavailable)
}

// change runs fn in a transaction that also bumps the change counter. The counter's row is written first: its lock puts all
// identity writers in a queue, so a check made inside fn still holds when fn writes.
func (s store) change(ctx context.Context, step string, fn func(tx *gorm.DB) error) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE identity_changes SET version = version + 1 WHERE name = 'identity'").Error; err != nil {
			return err
		}
		return fn(tx)
	})
	return unavailable(step, err)
}

func (s store) version(ctx context.Context) (int64, error) {
	var v []int64
	err := s.db.WithContext(ctx).Raw("SELECT version FROM identity_changes WHERE name = 'identity'").Scan(&v).Error
	if err == nil && len(v) != 1 {
		err = errors.New("the change counter is missing")
	}
	if err != nil {
		return 0, unavailable("read identity version", err)
	}
	return v[0], nil
}

// everything is what a snapshot is made of.
type everything struct {
	version int64
	tenants []tenantRow
	users   []userRow
	keys    []keyRow
	revoked []string // families ended since revokedAfter
}

// load reads the version first: a write that slips in between makes the next poll reload, never go unseen.
func (s store) load(ctx context.Context, revokedAfter int64) (everything, error) {
	var e everything
	var err error
	if e.version, err = s.version(ctx); err != nil {
		return e, err
	}
	db := s.db.WithContext(ctx)
	err = errors.Join(
		db.Select(tenantColumns).Find(&e.tenants).Error,
		db.Select(userColumns).Find(&e.users).Error,
		db.Select(keyColumns).Find(&e.keys).Error,
		db.Raw("SELECT DISTINCT family FROM identity_sessions WHERE revoked_at > ?", revokedAfter).Scan(&e.revoked).Error,
	)
	return e, unavailable("load identities", err)
}

func (s store) list(ctx context.Context, columns []string, tenant, order string, out any) error {
	q := s.db.WithContext(ctx).Select(columns).Order(order)
	if tenant != AllTenants {
		q = q.Where("tenant = ?", tenant)
	}
	return unavailable("list", q.Find(out).Error)
}

func (s store) tenants(ctx context.Context) ([]tenantRow, error) {
	var rows []tenantRow
	err := s.db.WithContext(ctx).Select(tenantColumns).Order("id").Find(&rows).Error
	return rows, unavailable("list tenants", err)
}

// one reads the only row of a query; found is false without an error when there is none.
func one[T any](q *gorm.DB, columns []string) (row T, found bool, err error) {
	var rows []T
	err = q.Select(columns).Limit(1).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

func tenantExists(tx *gorm.DB, id string) error {
	_, found, err := one[tenantRow](tx.Where("id = ?", id), tenantColumns)
	if err == nil && !found {
		return fault.New(fault.CodeNotFound, fault.Say("tenant", "租户"), id)
	}
	return err
}

// insert creates a row; a broken unique index is the caller's choice of a name that is taken.
func insert(tx *gorm.DB, row any, what fault.Phrase, name string) error {
	err := tx.Create(row).Error
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return fault.Wrap(err, fault.CodeExists, what, name)
	}
	return err
}

func (s store) createTenant(ctx context.Context, row tenantRow) error {
	return s.change(ctx, "create tenant", func(tx *gorm.DB) error { return insert(tx, &row, fault.Say("tenant", "租户"), row.ID) })
}

func (s store) createUser(ctx context.Context, row userRow) error {
	return s.change(ctx, "create user", func(tx *gorm.DB) error {
		if err := tenantExists(tx, row.Tenant); err != nil {
			return err
		}
		return insert(tx, &row, fault.Say("user", "用户"), row.Name)
	})
}

// ensureAdmin makes the operator tenant and its first administrator unless they exist.
func (s store) ensureAdmin(ctx context.Context, tenant tenantRow, user userRow) (created bool, err error) {
	err = s.change(ctx, "create administrator", func(tx *gorm.DB) error {
		err := tenantExists(tx, tenant.ID)
		switch {
		case fault.Is(err, fault.CodeNotFound):
			err = tx.Create(&tenant).Error
		case err == nil:
			err = tx.Exec("UPDATE identity_tenants SET is_operator = 1 WHERE id = ?", tenant.ID).Error
		}
		if err != nil {
			return err
		}
		_, found, err := one[userRow](tx.Where("name = ?", user.Name), userColumns)
		if err != nil || found {
			return err
		}
		created = true
		return tx.Create(&user).Error
	})
	return created && err == nil, err
}

func (s store) userByName(ctx context.Context, name string) (userRow, bool, error) {
	row, found, err := one[userRow](s.db.WithContext(ctx).Where("name = ?", name), userColumns)
	return row, found, unavailable("find user", err)
}

// disableUser ends the user's sessions too. The last active platform administrator stays, or nobody could sign in.
func (s store) disableUser(ctx context.Context, tenant, id string, now int64) error {
	return s.change(ctx, "disable user", func(tx *gorm.DB) error {
		row, found, err := one[userRow](tx.Where("tenant = ? AND id = ?", tenant, id), userColumns)
		if err != nil {
			return err
		}
		if !found {
			return fault.New(fault.CodeNotFound, fault.Say("user", "用户"), id)
		}
		if row.DisabledAt != 0 {
			return nil
		}
		var others int64
		err = tx.Raw("SELECT COUNT(id) FROM identity_users WHERE disabled_at = 0 AND id <> ? AND roles LIKE ?",
			id, `%"`+RolePlatformAdmin+`"%`).Scan(&others).Error
		if err != nil {
			return err
		}
		if hasRole(row.Roles, RolePlatformAdmin) && others == 0 {
			return fault.New(fault.CodeConflict, fault.Say("this is the last platform administrator", "这是最后一位平台管理员"))
		}
		if err := tx.Exec("UPDATE identity_users SET disabled_at = ?, epoch = epoch + 1 WHERE id = ?", now, id).Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE user_id = ? AND revoked_at = 0", now, id).Error
	})
}

func (s store) setPassword(ctx context.Context, tenant, id, hash string, now int64) error {
	return s.change(ctx, "set password", func(tx *gorm.DB) error {
		res := tx.Exec("UPDATE identity_users SET password_hash = ?, epoch = epoch + 1 WHERE tenant = ? AND id = ?", hash, tenant, id)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("user", "用户"), id)
		}
		return tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE user_id = ? AND revoked_at = 0", now, id).Error
	})
}

func (s store) createKey(ctx context.Context, row keyRow) error {
	return s.change(ctx, "create key", func(tx *gorm.DB) error {
		if err := tenantExists(tx, row.Tenant); err != nil {
			return err
		}
		return insert(tx, &row, fault.Say("key", "密钥"), row.ID)
	})
}

// revokeKey is idempotent: the first time of revocation stays.
func (s store) revokeKey(ctx context.Context, tenant, id string, now int64) error {
	return s.change(ctx, "revoke key", func(tx *gorm.DB) error {
		row, found, err := one[keyRow](tx.Where("tenant = ? AND id = ?", tenant, id), keyColumns)
		if err != nil {
			return err
		}
		if !found {
			return fault.New(fault.CodeNotFound, fault.Say("key", "密钥"), id)
		}
		if row.RevokedAt != 0 {
			return nil
		}
		return tx.Exec("UPDATE identity_keys SET revoked_at = ? WHERE id = ?", now, id).Error
	})
}

// touchKeys records last uses. It does not bump the counter: nobody decides by them.
func (s store) touchKeys(ctx context.Context, used map[string]int64) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for id, at := range used {
			err := tx.Exec("UPDATE identity_keys SET last_used_at = ? WHERE id = ? AND last_used_at < ?", at, id, at).Error
			if err != nil {
				return err
			}
		}
		return nil
	})
	return unavailable("record key use", err)
}

// queue puts a transaction in line with those of change, without a change: a password set or a user disabled at the same moment
// comes wholly before or wholly after, so no session slips between the check and the end of all sessions.
func queue(tx *gorm.DB) error {
	return tx.Exec("UPDATE identity_changes SET version = version WHERE name = 'identity'").Error
}

// startSession stores a refresh token and drops those long expired. It refuses with CodeInvalidLogin if the account is no longer
// the one of that epoch, whose password was checked.
func (s store) startSession(ctx context.Context, row sessionRow, epoch, prune int64) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := queue(tx); err != nil {
			return err
		}
		_, same, err := one[userRow](tx.Where("id = ? AND epoch = ? AND disabled_at = 0", row.UserID, epoch), userColumns)
		if err != nil {
			return err
		}
		if !same {
			return fault.New(fault.CodeInvalidLogin)
		}
		if err := tx.Exec("DELETE FROM identity_sessions WHERE expires_at < ?", prune).Error; err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
	return unavailable("start session", err)
}

// rotate spends the refresh token with digest old and stores next in its family. next gets the family's fields; its expiry is
// capped by started_at + life. ok is false when the token is unknown, expired, or of a family that has ended. A token shown a
// second time has been stolen, from the user or by the user's thief: the whole family ends.
func (s store) rotate(ctx context.Context, old string, next sessionRow, now, life int64) (row sessionRow, ok bool, err error) {
	reused := false
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := queue(tx); err != nil {
			return err
		}
		res := tx.Exec("UPDATE identity_sessions SET used_at = ? WHERE digest = ? AND used_at = 0 AND revoked_at = 0 AND expires_at > ?",
			now, old, now)
		if res.Error != nil {
			return res.Error
		}
		current, found, err := one[sessionRow](tx.Where("digest = ?", old), sessionColumns)
		if err != nil || !found {
			return err
		}
		if res.RowsAffected == 0 {
			reused = current.UsedAt != 0
			row = current
			return nil
		}
		next.Family, next.UserID, next.StartedAt = current.Family, current.UserID, current.StartedAt
		next.ExpiresAt = min(next.ExpiresAt, current.StartedAt+life)
		row, ok = next, true
		return tx.Create(&next).Error
	})
	if err != nil {
		return sessionRow{}, false, unavailable("rotate session", err)
	}
	if reused {
		return row, false, s.endFamily(ctx, row.Family, now)
	}
	return row, ok, nil
}

func (s store) endFamily(ctx context.Context, family string, now int64) error {
	return s.change(ctx, "end session", func(tx *gorm.DB) error {
		return tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE family = ? AND revoked_at = 0", now, family).Error
	})
}

func (s store) session(ctx context.Context, digest string) (sessionRow, bool, error) {
	row, found, err := one[sessionRow](s.db.WithContext(ctx).Where("digest = ?", digest), sessionColumns)
	return row, found, unavailable("find session", err)
}

// pack and unpack keep lists of identifiers in text columns.
func pack(list []string) string {
	if list == nil {
		list = []string{}
	}
	b, _ := json.Marshal(list) // a list of strings always marshals
	return string(b)
}

func unpack(s string) ([]string, error) {
	var list []string
	if err := json.Unmarshal([]byte(s), &list); err != nil {
		return nil, fmt.Errorf("unreadable list in identity row: %w", err)
	}
	return list, nil
}
