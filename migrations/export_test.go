package migrations

import (
	"context"

	"gorm.io/gorm"
)

// ApplyTo brings the schema to a version.
func ApplyTo(ctx context.Context, db *gorm.DB, version int64) error {
	p, err := provider(db)
	if err != nil {
		return err
	}
	_, err = p.UpTo(ctx, version)
	return err
}
