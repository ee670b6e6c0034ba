package governance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
)

// PolicyStore keeps published policy documents. Rows are never changed; the highest version of a scope is in force.
type PolicyStore struct{ db *gorm.DB }

// NewPolicyStore returns the store over a migrated database.
func NewPolicyStore(db *gorm.DB) *PolicyStore { return &PolicyStore{db: db} }

type policyRow struct {
	Scope                           string `gorm:"column:tenant"` // as the column was called when only tenants had policies
	Version                         int64
	Digest, Name, Source, Canonical string
	CreatedAt                       int64
	CreatedBy                       string
}

func (policyRow) TableName() string { return "policy_documents" }

const policyColumns = "d.tenant, d.version, d.digest, d.name, d.source, d.canonical, d.created_at, d.created_by"

// Version describes a published document.
type Version struct {
	Scope     string // whose it is
	Version   int64
	Digest    string
	Name      string
	CreatedAt time.Time
	CreatedBy string
}

func (r policyRow) version() Version {
	return Version{
		Scope: r.Scope, Version: r.Version, Digest: r.Digest, Name: r.Name, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(),
		CreatedBy: r.CreatedBy,
	}
}

// publish adds row as the next version of its scope. The counter is written first: its row lock puts publications in a queue. With expected it
// fails with CodePolicyChanged unless that names the version in force, "" that none is, of the scopes whose policy can hold.
func (s *PolicyStore) publish(ctx context.Context, row policyRow, onlyFirst bool, expected *string, scopes []string) (published policyRow, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE policy_changes SET version = version + 1 WHERE name = 'policy'").Error; err != nil {
			return err
		}
		var last int64
		err := tx.Raw("SELECT COALESCE(MAX(version), 0) FROM policy_documents WHERE tenant = ?", row.Scope).Scan(&last).Error
		if err != nil {
			return err
		}
		if onlyFirst && last > 0 {
			return nil
		}
		if expected != nil {
			now, err := activeVersion(tx, scopes)
			if err != nil {
				return err
			}
			if now != *expected {
				return fault.New(fault.CodePolicyChanged, now)
			}
		}
		published = row
		published.Version = last + 1
		return tx.Create(&published).Error
	})
	if fault.Is(err, fault.CodePolicyChanged) {
		return policyRow{}, err
	}
	return published, policyFault("publish policy", err)
}

// activeVersion names the newest version of the first of some scopes that has one, else "".
func activeVersion(tx *gorm.DB, scopes []string) (string, error) {
	for _, of := range scopes {
		var last int64
		if err := tx.Raw("SELECT COALESCE(MAX(version), 0) FROM policy_documents WHERE tenant = ?", of).Scan(&last).Error; err != nil {
			return "", err
		}
		if last > 0 {
			return fmt.Sprintf("%s@%d", of, last), nil
		}
	}
	return "", nil
}

func (s *PolicyStore) counter(ctx context.Context) (int64, error) {
	var v []int64
	err := s.db.WithContext(ctx).Raw("SELECT version FROM policy_changes WHERE name = 'policy'").Scan(&v).Error
	if err == nil && len(v) != 1 {
		err = errors.New("the change counter is missing")
	}
	if err != nil {
		return 0, policyFault("read policy version", err)
	}
	return v[0], nil
}

// newestVersions returns the highest version of every scope.
func (s *PolicyStore) newestVersions(ctx context.Context) ([]policyRow, error) {
	var rows []policyRow
	err := s.db.WithContext(ctx).Raw("SELECT " + policyColumns + ` FROM policy_documents d
		JOIN (SELECT tenant, MAX(version) AS version FROM policy_documents GROUP BY tenant) m
		ON m.tenant = d.tenant AND m.version = d.version`).Scan(&rows).Error
	return rows, policyFault("load policies", err)
}

func (s *PolicyStore) versions(ctx context.Context, scope string) ([]policyRow, error) {
	var rows []policyRow
	err := s.db.WithContext(ctx).Raw("SELECT "+policyColumns+
		" FROM policy_documents d WHERE d.tenant = ? ORDER BY d.version DESC", scope).Scan(&rows).Error
	return rows, policyFault("list policies", err)
}

func (s *PolicyStore) get(ctx context.Context, scope string, version int64) (policyRow, error) {
	var rows []policyRow
	err := s.db.WithContext(ctx).Raw("SELECT "+policyColumns+
		" FROM policy_documents d WHERE d.tenant = ? AND d.version = ?", scope, version).Scan(&rows).Error
	if err != nil {
		return policyRow{}, policyFault("read policy", err)
	}
	if len(rows) != 1 {
		return policyRow{}, fault.New(fault.CodeNotFound, fault.Say("thing.policy"), fmt.Sprintf("%s@%d", scope, version))
	}
	return rows[0], nil
}

func policyFault(step string, err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeDatabaseUnavailable)
}
