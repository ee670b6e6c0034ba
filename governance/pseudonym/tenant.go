package pseudonym

import (
	"context"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
)

// EraseTenant returns the erasure of everything that is stored of a tenant: its values, whoever took part, and the data keys that they are encrypted
// with.
func (v *Store) EraseTenant(tenant string) *Erasure {
	return &Erasure{store: v, tenant: tenant, whole: true}
}

// deleteKeys deletes the data keys of the tenant, and what is counted for it.
func (r *Erasure) deleteKeys(tx *gorm.DB) error {
	for _, row := range []any{&subjectRow{}, &keyRow{}, &tenantRow{}} {
		if err := tx.Where("tenant = ?", r.tenant).Delete(row).Error; err != nil {
			return err
		}
	}
	return nil
}

// ForgetKeys drops the data keys that this process has in memory. It reads anew those that are still stored.
func (v *Store) ForgetKeys() {
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	clear(v.keys.all)
	clear(v.keys.latest)
}

// Each calls do with the class and the text of every value of a tenant that is stored, in the order of their digests. It ends with the first error
// of do. What a value's pseudonym reads nobody stores.
func (v *Store) Each(ctx context.Context, tenant string, do func(class string, text keyring.Secret) error) error {
	db := v.store.db.WithContext(ctx)
	var after []byte
	for {
		var scopes []scopeRow
		q := db.Select("scope").Where("tenant = ?", tenant).Order("scope").Limit(readBatch)
		if after != nil {
			q = q.Where("scope > ?", after)
		}
		if err := q.Find(&scopes).Error; err != nil || len(scopes) == 0 {
			return v.unavailable("read values", err)
		}
		for _, s := range scopes {
			after = s.Scope
			if err := v.eachOf(ctx, tenant, digest(s.Scope), do); err != nil {
				return err
			}
		}
	}
}

// eachOf is Each for one scope.
func (v *Store) eachOf(ctx context.Context, tenant string, scope digest, do func(class string, text keyring.Secret) error) error {
	var rows []valueRow
	err := v.store.db.WithContext(ctx).Select("scope", "entry", "code", "class", "key_id", "sealed").Where("scope = ?", scope[:]).Order("entry").Find(&rows).Error
	if err != nil {
		return v.unavailable("read values", err)
	}
	for _, r := range rows {
		k, err := v.keys.byID(ctx, tenant, r.KeyID)
		if err != nil {
			return v.unavailable("read values", err)
		}
		text, err := k.key.Open(r.Sealed, additionalData(tenant, scope, digest(r.Code), r.Class))
		if err != nil {
			return v.unavailable("a value was changed in the database", err)
		}
		if err := do(r.Class, keyring.Secret(text)); err != nil {
			return err
		}
	}
	return nil
}
