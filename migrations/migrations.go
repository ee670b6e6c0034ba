// Package migrations holds the schema as numbered SQL files, one set per dialect, and applies them.
//
// Files are forward only and never edited once released; a test holds that both dialects have the same numbers and the same
// tables and columns. Each file belongs to one concern and its tables carry the concern's prefix.
package migrations

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// Status says how far a schema is.
type Status struct {
	Current int64 // version of the database
	Latest  int64 // version this binary brings
	Floor   int64 // oldest version whose binaries still run on the schema, as its migrations say; 0 before they do
}

// Usable says why this binary cannot run on the schema, and what to do about it. A newer schema is usable as long as its
// migrations say so: replicas of the release before go on, and come back after a crash, while a release is rolled out.
func (s Status) Usable() error {
	switch {
	case s.Current < s.Latest:
		return fmt.Errorf("the database has schema version %d, this binary needs %d; run `sluice migrate`", s.Current, s.Latest)
	case s.Latest < s.Floor:
		return fmt.Errorf("the database has schema version %d, which a newer release made; this binary knows %d and cannot run on it: install the newer release again, or restore the copy of the database made before the upgrade",
			s.Current, s.Latest)
	}
	return nil
}

// floorVersion is the migration that brings the floor.
const floorVersion = 9

// Apply brings the schema of db to the latest version. Concurrent calls are safe: PostgreSQL takes a session lock, SQLite its
// write lock. A schema that is newer is left as it is. It returns the status after the call.
func Apply(ctx context.Context, db *gorm.DB) (Status, error) {
	p, err := provider(db)
	if err != nil {
		return Status{}, err
	}
	current, _, err := p.GetVersions(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("read schema version: %w", err)
	}
	if current <= facetsVersion {
		if _, err := p.UpTo(ctx, facetsVersion); err != nil {
			return Status{}, fmt.Errorf("apply migrations: %w", err)
		}
		if err := fillFacets(ctx, db); err != nil {
			return Status{}, fmt.Errorf("apply migrations: %w", err)
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return Status{}, fmt.Errorf("apply migrations: %w", err)
	}
	return status(ctx, p, db)
}

// Check reads the status without changing anything.
func Check(ctx context.Context, db *gorm.DB) (Status, error) {
	p, err := provider(db)
	if err != nil {
		return Status{}, err
	}
	return status(ctx, p, db)
}

func provider(db *gorm.DB) (*goose.Provider, error) {
	dialect, dir := goose.DialectPostgres, "postgres"
	var opts []goose.ProviderOption
	if database.IsSQLite(db) {
		dialect, dir = goose.DialectSQLite3, "sqlite"
	} else {
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	sub, err := fs.Sub(files, dir)
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	p, err := goose.NewProvider(dialect, pool, sub, opts...)
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return p, nil
}

func status(ctx context.Context, p *goose.Provider, db *gorm.DB) (Status, error) {
	current, latest, err := p.GetVersions(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("read schema version: %w", err)
	}
	s := Status{Current: current, Latest: latest}
	if current < floorVersion {
		return s, nil
	}
	if err := db.WithContext(ctx).Raw("SELECT floor FROM installation_compatibility").Row().Scan(&s.Floor); err != nil {
		return Status{}, fmt.Errorf("read schema version: %w", err)
	}
	return s, nil
}
