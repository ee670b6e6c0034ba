package identity

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type serviceRow struct {
	ID, Tenant, Project, Name  string
	Roles, Labels              string
	Scopes, Models, Networks   string
	RequestsPerMinute          int
	TokensPerMinute            int
	Concurrent                 int
	Owner                      string
	Epoch                      int64
	Digest, FormerDigest       string
	FormerExpiresAt, RotatedAt int64
	CreatedAt                  int64
	CreatedBy                  string
	ExpiresAt                  int64
	DisabledAt, RemovedAt      int64
	LastUsedAt                 int64

	keepTokens bool // a change of this row ends no tokens
}

func (serviceRow) TableName() string { return "identity_service_accounts" }

type serviceKeyRow struct {
	Account, ID, PublicKey string
	CreatedAt              int64
	CreatedBy              string
}

func (serviceKeyRow) TableName() string { return "identity_service_keys" }

type assertionRow struct {
	Digest    string
	ExpiresAt int64
}

func (assertionRow) TableName() string { return "identity_assertions" }

//nolint:gochecknoglobals // constant lists
var (
	serviceColumns = []string{
		"id", "tenant", "project", "name", "roles", "labels", "scopes", "models", "networks", "requests_per_minute", "tokens_per_minute", "concurrent",
		"owner", "epoch", "digest", "former_digest", "former_expires_at", "rotated_at", "created_at", "created_by", "expires_at", "disabled_at",
		"removed_at", "last_used_at",
	}
	serviceKeyColumns = []string{"account", "id", "public_key", "created_at", "created_by"}
)

func (r serviceRow) principal(s *accounts) (Principal, error) {
	roles, err1 := unpack(r.Roles)
	labels, err2 := unpack(r.Labels)
	scopes, err3 := unpack(r.Scopes)
	models, err4 := unpack(r.Models)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Principal{}, err
	}
	of := s.tenants[r.Tenant]
	return Principal{
		Tenant: r.Tenant, Organisation: of.Organisation, Project: r.Project, Kind: "service", ID: r.ID, Name: r.Name, Roles: roles, Labels: labels, Scopes: scopes, Models: models,
		Operator: of.IsOperator != 0, Above: s.levels(r.Tenant, r.Project),
		Limits: Limits{RequestsPerMinute: r.RequestsPerMinute, TokensPerMinute: r.TokensPerMinute, Concurrent: r.Concurrent},
	}, nil
}

// public returns the account with its keys, which are no other's.
func (r serviceRow) public(keys []serviceKeyRow, now time.Time) ServiceAccount {
	roles, _ := unpack(r.Roles)
	labels, _ := unpack(r.Labels)
	scopes, _ := unpack(r.Scopes)
	models, _ := unpack(r.Models)
	networks, _ := unpack(r.Networks)
	out := ServiceAccount{
		ID: r.ID, Tenant: r.Tenant, Project: r.Project, Name: r.Name, Roles: roles, Labels: labels, Scopes: scopes, Models: models, Networks: networks,
		Limits: Limits{RequestsPerMinute: r.RequestsPerMinute, TokensPerMinute: r.TokensPerMinute, Concurrent: r.Concurrent},
		Owner:  r.Owner, CreatedAt: at(r.CreatedAt), ExpiresAt: at(r.ExpiresAt), CreatedBy: r.CreatedBy, Disabled: r.DisabledAt != 0,
		LastUsedAt: at(r.LastUsedAt), HasSecret: r.Digest != "", RotatedAt: at(r.RotatedAt),
	}
	if until := at(r.FormerExpiresAt); r.FormerDigest != "" && until.After(now) {
		out.FormerExpiresAt = until
	}
	for _, k := range keys {
		parsed, _ := k.parse() // what was written was parsed before
		out.Keys = append(out.Keys, ServiceKey{ID: k.ID, Algorithm: parsed.algorithm, CreatedAt: at(k.CreatedAt), CreatedBy: k.CreatedBy})
	}
	return out
}

// keyRows reads public keys and returns them as they are stored.
func keyRows(account, text, by string, now time.Time) ([]serviceKeyRow, error) {
	keys, err := parseClientKeys(text)
	if err != nil {
		return nil, err
	}
	out := make([]serviceKeyRow, len(keys))
	for n, k := range keys {
		out[n] = serviceKeyRow{Account: account, ID: k.id, PublicKey: base64.StdEncoding.EncodeToString(k.der), CreatedAt: now.UnixMicro(), CreatedBy: by}
	}
	return out, nil
}

func (k serviceKeyRow) parse() (clientKey, error) {
	der, err := base64.StdEncoding.DecodeString(k.PublicKey)
	if err != nil {
		return clientKey{}, err
	}
	return clientKeyOf(k.ID, der)
}

// same compares digests without telling by the time it takes how much of them agrees.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (s store) createService(ctx context.Context, row serviceRow, keys []serviceKeyRow) error {
	return s.change(ctx, "create service account", func(tx *gorm.DB) error {
		if _, err := openTenant(tx, row.Tenant); err != nil {
			return err
		}
		if err := errors.Join(mayOwnService(tx, row), projectAllows(tx, row.Tenant, "", row.Project)); err != nil {
			return err
		}
		if err := insert(tx, &row, fault.Say("thing.service_account"), row.Name); err != nil {
			return err
		}
		return insertKeys(tx, keys)
	})
}

// mayOwnService refuses an owner who may not answer for a service account: one of another tenant, disabled, or with an excluding duty.
func mayOwnService(tx *gorm.DB, row serviceRow) error {
	owner, found, err := one[userRow](tx.Where("id = ?", row.Owner), userColumns)
	if err != nil {
		return err
	}
	if found && owner.Tenant != row.Tenant {
		home, err := tenant(tx, owner.Tenant)
		if err != nil {
			return err
		}
		found = home.IsOperator != 0
	}
	if !found {
		return fault.New(fault.CodeNotFound, fault.Say("thing.user"), row.Owner)
	}
	if owner.DisabledAt != 0 {
		return fault.New(fault.CodeConflict, fault.Say("identity.service_owner"))
	}
	roles, err1 := unpack(owner.Roles)
	wanted, err2 := unpack(row.Roles)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return checkOwnerDuties(roles, wanted)
}

func insertKeys(tx *gorm.DB, keys []serviceKeyRow) error {
	for _, k := range keys {
		if err := insert(tx, &k, fault.Say("thing.public_key"), k.ID); err != nil {
			return err
		}
	}
	return nil
}

// service reads the row of a service account of a tenant that was not removed. Error: CodeNotFound.
func service(tx *gorm.DB, tenant, id string) (serviceRow, []serviceKeyRow, error) {
	row, found, err := one[serviceRow](tx.Where("tenant = ? AND id = ? AND removed_at = 0", tenant, id), serviceColumns)
	if err == nil && !found {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.service_account"), id)
	}
	if err != nil {
		return serviceRow{}, nil, err
	}
	var keys []serviceKeyRow
	err = tx.Select(serviceKeyColumns).Where("account = ?", id).Order("created_at, id").Find(&keys).Error
	return row, keys, err
}

func (s store) service(ctx context.Context, tenant, id string) (serviceRow, []serviceKeyRow, error) {
	row, keys, err := service(s.db.WithContext(ctx), tenant, id)
	return row, keys, database.Unavailable("find service account", err)
}

// listServices returns the service accounts of a tenant, and their keys by account.
func (s store) listServices(ctx context.Context, tenant string) ([]serviceRow, map[string][]serviceKeyRow, error) {
	q := s.db.WithContext(ctx).Select(serviceColumns).Where("removed_at = 0").Order("created_at, id")
	ofKeys := s.db.WithContext(ctx).Select(serviceKeyColumns).Order("created_at, id")
	if tenant != AllTenants {
		q = q.Where("tenant = ?", tenant)
		ofKeys = ofKeys.Where("account IN (SELECT id FROM identity_service_accounts WHERE tenant = ?)", tenant)
	}
	var rows []serviceRow
	var keys []serviceKeyRow
	err := errors.Join(q.Find(&rows).Error, ofKeys.Find(&keys).Error)
	return rows, byAccount(keys), database.Unavailable("list service accounts", err)
}

// byAccount groups keys by the account that has them, each in their order.
func byAccount(keys []serviceKeyRow) map[string][]serviceKeyRow {
	out := map[string][]serviceKeyRow{}
	for _, k := range keys {
		out[k.Account] = append(out[k.Account], k)
	}
	return out
}

// changeService reads a service account, lets fn alter the row, and writes what may change. The tokens of the account end with it.
func (s store) changeService(ctx context.Context, step, tenant, id string, fn func(row *serviceRow) error) (before, after serviceRow, keys []serviceKeyRow, err error) {
	err = s.change(ctx, step, func(tx *gorm.DB) error {
		if before, keys, err = service(tx, tenant, id); err != nil {
			return err
		}
		after = before
		if err := fn(&after); err != nil || after == before {
			return err
		}
		// One whose owner has left can still be disabled and removed, and given another owner.
		if after.RemovedAt == 0 && after.DisabledAt == 0 {
			if err := mayOwnService(tx, after); err != nil {
				return err
			}
			if err := projectAllows(tx, after.Tenant, before.Project, after.Project); err != nil {
				return err
			}
		}
		if !after.keepTokens {
			after.Epoch = before.Epoch + 1
		}
		if after.RemovedAt != 0 {
			if err := tx.Exec("DELETE FROM identity_service_keys WHERE account = ?", id).Error; err != nil {
				return err
			}
		}
		return after.write(tx)
	})
	return before, after, keys, err
}

// write stores what may change of a row.
func (r serviceRow) write(tx *gorm.DB) error {
	err := tx.Model(&serviceRow{}).Where("id = ?", r.ID).Updates(map[string]any{
		"project": r.Project, "name": r.Name, "roles": r.Roles, "labels": r.Labels, "scopes": r.Scopes, "models": r.Models, "networks": r.Networks,
		"requests_per_minute": r.RequestsPerMinute, "tokens_per_minute": r.TokensPerMinute, "concurrent": r.Concurrent, "owner": r.Owner,
		"epoch": r.Epoch, "digest": r.Digest, "former_digest": r.FormerDigest, "former_expires_at": r.FormerExpiresAt, "rotated_at": r.RotatedAt,
		"expires_at": r.ExpiresAt, "disabled_at": r.DisabledAt, "removed_at": r.RemovedAt,
	}).Error
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return fault.Wrap(err, fault.CodeExists, fault.Say("thing.service_account"), r.Name)
	}
	return err
}

func (s store) addServiceKeys(ctx context.Context, tenant, id string, keys []serviceKeyRow) error {
	return s.change(ctx, "add service keys", func(tx *gorm.DB) error {
		_, had, err := service(tx, tenant, id)
		if err != nil {
			return err
		}
		if len(had)+len(keys) > maxServiceKeys {
			return fault.New(fault.CodeConflict, fault.Say("identity.service_keys", maxServiceKeys))
		}
		return insertKeys(tx, keys)
	})
}

// removeServiceKey ends the tokens, too: nobody knows by which key each was got.
func (s store) removeServiceKey(ctx context.Context, tenant, id, key string) error {
	return s.change(ctx, "remove service key", func(tx *gorm.DB) error {
		if _, _, err := service(tx, tenant, id); err != nil {
			return err
		}
		res := tx.Exec("DELETE FROM identity_service_keys WHERE account = ? AND id = ?", id, key)
		if res.Error == nil && res.RowsAffected == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("thing.public_key"), key)
		}
		if res.Error != nil {
			return res.Error
		}
		return tx.Exec("UPDATE identity_service_accounts SET epoch = epoch + 1 WHERE id = ?", id).Error
	})
}

// spendAssertion notes that an assertion was accepted, until it expires. fresh is false for one that any replica has accepted before.
func (s store) spendAssertion(ctx context.Context, row assertionRow, now int64) (fresh bool, err error) {
	db := s.db.WithContext(ctx)
	if err := db.Exec("DELETE FROM identity_assertions WHERE expires_at < ?", now).Error; err != nil {
		return false, database.Unavailable("forget assertions", err)
	}
	err = db.Create(&row).Error
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return false, nil
	}
	return err == nil, database.Unavailable("note an assertion", err)
}
