package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type store struct{ db *gorm.DB }

type userRow struct {
	ID, Tenant, Name, PasswordHash string
	Roles, Labels                  string
	Epoch, CreatedAt               int64
	CreatedBy                      string
	DisabledAt                     int64
	MustChange, LastSignInAt       int64
	PasswordSetAt, OneTimeUntil    int64
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
	Owner                             string
	Networks, LastUsedFrom            string
	FormerDigest                      string
	FormerExpiresAt, FormerUsedAt     int64
	RotatedAt                         int64
}

func (keyRow) TableName() string { return "identity_keys" }

type sessionRow struct {
	Digest, Family, UserID, Source          string
	StartedAt, ExpiresAt, UsedAt, RevokedAt int64
	Factor                                  string // shown beside the password; "": none
	FactorAt                                int64

	Issuer, ProviderSession string // of the provider that vouched for the person; "": a password did. The session is a keyed digest
	ProvedAt                int64  // at the provider
	EndsAt                  int64  // in any case; 0: by Config.SessionTTL
}

func (sessionRow) TableName() string { return "identity_sessions" }

//nolint:gochecknoglobals // constant lists
var (
	userColumns = []string{
		"id", "tenant", "name", "password_hash", "roles", "labels", "epoch", "created_at", "created_by", "disabled_at", "must_change", "last_sign_in_at",
		"password_set_at", "one_time_until",
	}
	sessionColumns = []string{"digest", "family", "user_id", "source", "started_at", "expires_at", "used_at", "revoked_at", "factor", "factor_at", "issuer", "provider_session", "proved_at", "ends_at"}
	keyColumns     = []string{
		"id", "digest", "tenant", "project", "name", "labels", "scopes", "models", "label_mode", "requests_per_minute",
		"tokens_per_minute", "concurrent", "created_at", "created_by", "expires_at", "revoked_at", "last_used_at", "owner", "networks",
		"last_used_from", "former_digest", "former_expires_at", "former_used_at", "rotated_at",
	}
)

// change runs fn in a transaction that also bumps the change counter. The counter's row is written first: its lock puts all
// identity writers in a queue, so a check made inside fn still holds when fn writes.
func (s store) change(ctx context.Context, step string, fn func(tx *gorm.DB) error) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE identity_changes SET version = version + 1 WHERE name = 'identity'").Error; err != nil {
			return err
		}
		return fn(tx)
	})
	return database.Unavailable(step, err)
}

func (s store) version(ctx context.Context) (int64, error) {
	var v []int64
	err := s.db.WithContext(ctx).Raw("SELECT version FROM identity_changes WHERE name = 'identity'").Scan(&v).Error
	if err == nil && len(v) != 1 {
		err = errors.New("the change counter is missing")
	}
	if err != nil {
		return 0, database.Unavailable("read identity version", err)
	}
	return v[0], nil
}

// tables is what accounts are made of.
type tables struct {
	organisations []organisationRow
	tenants       []tenantRow
	projects      []projectRow
	users         []userRow
	keys          []keyRow
	revoked       []string // families ended since revokedAfter
	factors       []string // accounts with a second factor
	duties        Duties

	services    []serviceRow
	serviceKeys []serviceKeyRow

	demanded int64 // until when administrators have to have one

	emergencies []useRow
	bindings    []bindingRow
}

// load reads the version first: a write that slips in between makes the next poll reload, never go unseen.
func (s store) load(ctx context.Context, revokedAfter int64) (tables, error) {
	var e tables
	db := s.db.WithContext(ctx)
	state, err := duties(db.Session(&gorm.Session{}))
	e.duties = state
	err = errors.Join(err,
		db.Select(organisationColumns()).Find(&e.organisations).Error,
		db.Select(tenantColumns()).Find(&e.tenants).Error,
		db.Select(projectColumns()).Find(&e.projects).Error,
		db.Select(userColumns).Find(&e.users).Error,
		db.Select(keyColumns).Find(&e.keys).Error,
		db.Raw("SELECT DISTINCT family FROM identity_sessions WHERE revoked_at > ?", revokedAfter).Scan(&e.revoked).Error,
		db.Raw("SELECT DISTINCT user_id FROM identity_factors WHERE confirmed_at <> 0").Scan(&e.factors).Error,
		db.Select(serviceColumns).Where("removed_at = 0").Find(&e.services).Error,
		db.Select(serviceKeyColumns).Find(&e.serviceKeys).Error,
		db.Select(bindingColumns).Find(&e.bindings).Error,
		db.Select(useRow{}.columns()).Where("ended_at = 0 AND expires_at > ?", revokedAfter).Find(&e.emergencies).Error,
		db.Raw("SELECT until FROM identity_factor_demand WHERE name = ?", demand).Scan(&e.demanded).Error,
	)
	return e, database.Unavailable("load identities", err)
}

func (s store) list(ctx context.Context, columns []string, tenant, order string, out any) error {
	q := s.db.WithContext(ctx).Select(columns).Order(order)
	if tenant != AllTenants {
		q = q.Where("tenant = ?", tenant)
	}
	return database.Unavailable("list", q.Find(out).Error)
}

func (s store) tenant(ctx context.Context, id string) (tenantRow, error) {
	row, err := tenant(s.db.WithContext(ctx), id)
	return row, database.Unavailable("find tenant", err)
}

func (s store) tenants(ctx context.Context) ([]tenantRow, error) {
	var rows []tenantRow
	err := s.db.WithContext(ctx).Select(tenantColumns()).Order("id").Find(&rows).Error
	return rows, database.Unavailable("list tenants", err)
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

// Creator returns who created an account, by id, as db sees it; "" where there is no such account. Error: of the database.
func Creator(db *gorm.DB, id string) (string, error) {
	var row userRow
	err := db.Select("created_by").Where("id = ?", id).Limit(1).Find(&row).Error
	return row.CreatedBy, err
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
	return s.change(ctx, "create tenant", func(tx *gorm.DB) error {
		if err := openOrganisation(tx, row.Organisation); err != nil {
			return err
		}
		return insert(tx, &row, fault.Say("thing.tenant"), row.ID)
	})
}

func (s store) createUser(ctx context.Context, row userRow) error {
	return s.change(ctx, "create user", func(tx *gorm.DB) error {
		if _, err := openTenant(tx, row.Tenant); err != nil {
			return err
		}
		if err := checkActive(tx, row); err != nil {
			return err
		}
		if err := insert(tx, &row, fault.Say("thing.user"), row.Name); err != nil {
			return err
		}
		return granted(tx, row.ID, row.CreatedBy, row.CreatedAt)
	})
}

// ensureAdmin makes the operator tenant and its first administrator unless they exist.
func (s store) ensureAdmin(ctx context.Context, operator tenantRow, user userRow) (created bool, err error) {
	err = s.change(ctx, "create administrator", func(tx *gorm.DB) error {
		_, err := tenant(tx, operator.ID)
		switch {
		case fault.Is(err, fault.CodeNotFound):
			err = tx.Create(&operator).Error
		case err == nil:
			err = tx.Exec("UPDATE identity_tenants SET is_operator = 1 WHERE id = ?", operator.ID).Error
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
	return row, found, database.Unavailable("find user", err)
}

// user reads the row of a user of a tenant. Error: CodeNotFound.
func user(tx *gorm.DB, tenant, id string) (userRow, error) {
	row, found, err := one[userRow](tx.Where("tenant = ? AND id = ?", tenant, id), userColumns)
	if err == nil && !found {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.user"), id)
	}
	return row, err
}

func (s store) user(ctx context.Context, tenant, id string) (userRow, error) {
	row, err := user(s.db.WithContext(ctx), tenant, id)
	return row, database.Unavailable("find user", err)
}

// changeUser reads a user, lets fn alter the row, and writes what may change. The session tokens of the user end with it, so that what
// changed is in force at once; sign-ins go on and get new tokens, unless end is set.
func (s store) changeUser(ctx context.Context, step, by, tenant, id string, now int64, end bool, fn func(row *userRow) error) (before, after userRow, err error) {
	err = s.change(ctx, step, func(tx *gorm.DB) error {
		if before, err = user(tx, tenant, id); err != nil {
			return err
		}
		after = before
		if err := fn(&after); err != nil || after == before {
			return err
		}
		if err := errors.Join(keepOneAdmin(tx, before, after), keepDuties(tx, before, after)); err != nil {
			return err
		}
		if err := checkActive(tx, after); err != nil {
			return err
		}
		if after.Roles != before.Roles {
			if err := granted(tx, id, by, now); err != nil {
				return err
			}
		}
		after.Epoch = before.Epoch + 1
		err := tx.Model(&userRow{}).Where("id = ?", id).Updates(map[string]any{
			"password_hash": after.PasswordHash, "must_change": after.MustChange, "roles": after.Roles, "labels": after.Labels,
			"disabled_at": after.DisabledAt, "epoch": after.Epoch,
			"password_set_at": after.PasswordSetAt, "one_time_until": after.OneTimeUntil,
		}).Error
		if err == nil && after.PasswordHash != before.PasswordHash {
			err = keepFormer(tx, before, maxHistory, now)
		}
		if err == nil {
			err = touched(tx, by, id)
		}
		if err != nil || !end {
			return err
		}
		return endSessions(tx, id, now)
	})
	return before, after, err
}

// keepOneAdmin refuses a change that would leave no active platform administrator: nobody could make another one.
func keepOneAdmin(tx *gorm.DB, before, after userRow) error {
	active := func(r userRow) bool { return r.DisabledAt == 0 && hasRole(r.Roles, RolePlatformAdmin) }
	if !active(before) || active(after) {
		return nil
	}
	others, err := countAdmins(tx, "id <> ?", before.ID)
	if err == nil && others == 0 {
		err = fault.New(fault.CodeConflict, fault.Say("identity.last_administrator"))
	}
	return err
}

// keepDuties refuses a change of an account of the operator's after which, with separated duties, nobody could bring an account back: that takes a
// security administrator and, as the second person, another one, a system administrator or a compliance officer.
func keepDuties(tx *gorm.DB, before, after userRow) error {
	approves := func(r userRow) bool {
		return r.DisabledAt == 0 && (hasRole(r.Roles, RoleSecurityAdmin) || hasRole(r.Roles, RoleSystemAdmin) || hasRole(r.Roles, RoleCompliance))
	}
	if !approves(before) || approves(after) && hasRole(after.Roles, RoleSecurityAdmin) {
		return nil
	}
	if state, err := duties(tx); err != nil || state != DutiesSeparated {
		return err
	}
	home, err := tenant(tx, before.Tenant)
	if err != nil || home.IsOperator == 0 {
		return err
	}
	var others []userRow
	if err := tx.Select(userColumns).Where("tenant = ? AND id <> ? AND disabled_at = 0", before.Tenant, before.ID).Find(&others).Error; err != nil {
		return err
	}
	security, all := 0, 0
	for _, r := range append(others, after) {
		if approves(r) {
			all++
			if hasRole(r.Roles, RoleSecurityAdmin) {
				security++
			}
		}
	}
	if security == 0 || all < 2 {
		return fault.New(fault.CodeConflict, fault.Say("identity.last_duty"))
	}
	return nil
}

// keepOneAdminElsewhere refuses the suspension of tenants, one at least, that have the last active platform administrators.
func keepOneAdminElsewhere(tx *gorm.DB, tenants []string) error {
	here, err := countAdmins(tx, "tenant IN ?", tenants)
	if err != nil || here == 0 {
		return err
	}
	others, err := countAdmins(tx, "tenant NOT IN ?", tenants)
	if err == nil && others == 0 {
		err = fault.New(fault.CodeConflict, fault.Say("identity.last_administrator"))
	}
	return err
}

// countAdmins counts the platform administrators who can act.
func countAdmins(tx *gorm.DB, which string, args ...any) (n int64, err error) {
	err = tx.Model(&userRow{}).Where(which, args...).Where("disabled_at = 0 AND roles LIKE ?", `%"`+RolePlatformAdmin+`"%`).
		Where(`tenant NOT IN (SELECT id FROM identity_tenants WHERE suspended_at <> 0
			OR organisation IN (SELECT id FROM identity_organisations WHERE suspended_at <> 0))`).Count(&n).Error
	return n, err
}

func endSessions(tx *gorm.DB, user string, now int64) error {
	return tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE user_id = ? AND revoked_at = 0", now, user).Error
}

// renewPassword replaces the password that was checked against row, ends every sign-in of the user and begins next. It refuses with
// CodeInvalidSession if the account has changed meanwhile.
func (s store) renewPassword(ctx context.Context, row userRow, hash string, history int, next sessionRow, now int64) error {
	return s.change(ctx, "change password", func(tx *gorm.DB) error {
		res := tx.Exec(`UPDATE identity_users SET password_hash = ?, must_change = 0, one_time_until = 0, password_set_at = ?, epoch = epoch + 1
			WHERE id = ? AND epoch = ? AND disabled_at = 0`, hash, now, row.ID, row.Epoch)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return fault.New(fault.CodeInvalidSession)
		}
		if err := keepFormer(tx, row, history, now); err != nil {
			return err
		}
		if err := endSessions(tx, row.ID, now); err != nil {
			return err
		}
		return tx.Create(&next).Error
	})
}

type passwordRow struct {
	UserID, Hash string
	ReplacedAt   int64
}

func (passwordRow) TableName() string { return "identity_passwords" }

// keepFormer keeps the password of a row, which is being replaced, and the newest before it, history in all. One that somebody else has set
// was nobody's choice.
func keepFormer(tx *gorm.DB, row userRow, history int, now int64) error {
	if row.MustChange == 0 && history > 0 {
		if err := tx.Create(&passwordRow{UserID: row.ID, Hash: row.PasswordHash, ReplacedAt: now}).Error; err != nil {
			return err
		}
	}
	var beyond []int64
	err := tx.Raw("SELECT replaced_at FROM identity_passwords WHERE user_id = ? ORDER BY replaced_at DESC LIMIT 1 OFFSET ?", row.ID, history).Scan(&beyond).Error
	if err != nil || len(beyond) == 0 {
		return err
	}
	return tx.Exec("DELETE FROM identity_passwords WHERE user_id = ? AND replaced_at <= ?", row.ID, beyond[0]).Error
}

// formerPasswords returns the hashes of the passwords that a person had before, newest first, n at most.
func (s store) formerPasswords(ctx context.Context, user string, n int) ([]string, error) {
	if n == 0 {
		return nil, nil
	}
	var hashes []string
	err := s.db.WithContext(ctx).Raw("SELECT hash FROM identity_passwords WHERE user_id = ? ORDER BY replaced_at DESC LIMIT ?", user, n).Scan(&hashes).Error
	return hashes, database.Unavailable("read former passwords", err)
}

func (s store) createKey(ctx context.Context, row keyRow) error {
	return s.change(ctx, "create key", func(tx *gorm.DB) error {
		if _, err := openTenant(tx, row.Tenant); err != nil {
			return err
		}
		if err := errors.Join(ownerAllows(tx, keyRow{}, row), projectAllows(tx, row.Tenant, "", row.Project)); err != nil {
			return err
		}
		if err := checkOwnKeyCount(tx, row); err != nil {
			return err
		}
		return insert(tx, &row, fault.Say("thing.key"), row.ID)
	})
}

// ownerAllows refuses a key of a person who may have none, and one that lets through what the person himself may not see.
func ownerAllows(tx *gorm.DB, before, after keyRow) error {
	if after.Owner == "" {
		return nil
	}
	owner, err := user(tx, after.Tenant, after.Owner)
	if err != nil {
		return err
	}
	roles, err1 := unpack(owner.Roles)
	own, err2 := unpack(owner.Labels)
	labels, err3 := unpack(after.Labels)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if owner.DisabledAt != 0 || !OwnsKeys(roles) {
		return fault.New(fault.CodeConflict, fault.Say("identity.owner_disabled"))
	}
	if n := slices.IndexFunc(labels, func(l string) bool { return !slices.Contains(own, l) }); n >= 0 && after.Labels != before.Labels {
		return invalid("labels", fault.Say("identity.owner_label", labels[n]))
	}
	return nil
}

// checkOwnKeyCount refuses a person one more key than MaxOwnKeys.
func checkOwnKeyCount(tx *gorm.DB, row keyRow) error {
	if row.Owner == "" {
		return nil
	}
	var alive int64
	err := tx.Model(&keyRow{}).Where("owner = ? AND revoked_at = 0 AND expires_at > ?", row.Owner, row.CreatedAt).Count(&alive).Error
	if err == nil && alive >= MaxOwnKeys {
		err = fault.New(fault.CodeConflict, fault.Say("identity.key_count", alive))
	}
	return err
}

func (s store) key(ctx context.Context, tenant, id string) (keyRow, error) {
	row, err := key(s.db.WithContext(ctx), tenant, id)
	return row, database.Unavailable("find key", err)
}

// key reads the row of a key of a tenant. Error: CodeNotFound.
func key(tx *gorm.DB, tenant, id string) (keyRow, error) {
	row, found, err := one[keyRow](tx.Where("tenant = ? AND id = ?", tenant, id), keyColumns)
	if err == nil && !found {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.key"), id)
	}
	return row, err
}

// changeKey reads a key, lets fn alter the row, and writes what may change: never whose it is.
func (s store) changeKey(ctx context.Context, tenant, id string, fn func(row *keyRow) error) (before, after keyRow, err error) {
	err = s.change(ctx, "change key", func(tx *gorm.DB) error {
		if before, err = key(tx, tenant, id); err != nil {
			return err
		}
		after = before
		if err := fn(&after); err != nil {
			return err
		}
		if err := errors.Join(ownerAllows(tx, before, after), projectAllows(tx, after.Tenant, before.Project, after.Project)); err != nil {
			return err
		}
		return tx.Model(&keyRow{}).Where("id = ?", id).Updates(map[string]any{
			"name": after.Name, "project": after.Project, "labels": after.Labels, "label_mode": after.LabelMode, "expires_at": after.ExpiresAt,
			"requests_per_minute": after.RequestsPerMinute, "tokens_per_minute": after.TokensPerMinute, "concurrent": after.Concurrent,
			"scopes": after.Scopes, "models": after.Models, "networks": after.Networks,
			"digest": after.Digest, "former_digest": after.FormerDigest, "former_expires_at": after.FormerExpiresAt, "former_used_at": after.FormerUsedAt,
			"rotated_at": after.RotatedAt,
		}).Error
	})
	return before, after, err
}

// revokeKey is idempotent: the first time of revocation stays.
func (s store) revokeKey(ctx context.Context, tenant, id string, now int64) error {
	return s.change(ctx, "revoke key", func(tx *gorm.DB) error {
		row, err := key(tx, tenant, id)
		if err != nil || row.RevokedAt != 0 {
			return err
		}
		return tx.Exec("UPDATE identity_keys SET revoked_at = ? WHERE id = ?", now, id).Error
	})
}

// touchKeys records last uses of keys and service accounts. It does not bump the counter: nobody decides by them.
func (s store) touchKeys(ctx context.Context, uses map[string]lastUse) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for id, u := range uses {
			if err := u.touch(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return database.Unavailable("record key use", err)
}

func (u lastUse) touch(tx *gorm.DB, id string) error {
	if strings.HasPrefix(id, ServicePrefix) {
		return tx.Exec("UPDATE identity_service_accounts SET last_used_at = ? WHERE id = ? AND last_used_at < ?", u.at, id, u.at).Error
	}
	err := tx.Exec("UPDATE identity_keys SET last_used_at = ?, last_used_from = ? WHERE id = ? AND last_used_at < ?", u.at, u.network(), id, u.at).Error
	if err != nil || u.formerAt == 0 { // never with the secret before
		return err
	}
	return tx.Exec("UPDATE identity_keys SET former_used_at = ? WHERE id = ? AND former_used_at < ?", u.formerAt, id, u.formerAt).Error
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
		if err := tx.Exec("UPDATE identity_users SET last_sign_in_at = ? WHERE id = ?", row.StartedAt, row.UserID).Error; err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
	return database.Unavailable("start session", err)
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
		next.Factor, next.FactorAt = current.Factor, current.FactorAt
		next.Issuer, next.ProviderSession, next.ProvedAt, next.EndsAt = current.Issuer, current.ProviderSession, current.ProvedAt, current.EndsAt
		next.ExpiresAt = min(next.ExpiresAt, current.StartedAt+life)
		if current.EndsAt != 0 {
			next.ExpiresAt = min(next.ExpiresAt, current.EndsAt)
		}
		row, ok = next, true
		return tx.Create(&next).Error
	})
	if err != nil {
		return sessionRow{}, false, database.Unavailable("rotate session", err)
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
	return row, found, database.Unavailable("find session", err)
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
