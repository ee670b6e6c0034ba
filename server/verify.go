package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/gateway/reconcile"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/server/config"
)

// Verification says what [Verify] checks.
type Verification struct {
	VerifierKey            string
	FirstIndex, UntilIndex int64                   // the records [FirstIndex, UntilIndex); all if UntilIndex is 0
	Progress               func(done, total int64) // may be nil
}

// Verify checks the audit log of an installation, running or not, and changes nothing; see [verify.Run].
func Verify(ctx context.Context, cfg *config.Config, v Verification) (verify.Report, error) {
	if err := DatabaseExists(cfg); err != nil {
		return verify.Report{}, err
	}
	db, err := database.Open(ctx, cfg.Database)
	if err != nil {
		return verify.Report{}, err
	}
	defer func() { _ = database.Close(db) }()
	source := VerifySource(cfg, db, v.VerifierKey)
	source.FirstIndex, source.UntilIndex = v.FirstIndex, v.UntilIndex
	return verify.Run(ctx, source, v.Progress)
}

// VerifierKey returns the public key that verifies the checkpoints of an installation. The error is [fs.ErrNotExist] if it has no master key.
func VerifierKey(ctx context.Context, cfg *config.Config) (string, error) {
	keys, err := openKeys(ctx, cfg)
	if err != nil {
		return "", err
	}
	return audit.VerifierKey(cfg.Audit.Config, keys)
}

// Labeler returns what makes and checks the labels of cfg's installation. The error is [fs.ErrNotExist] if there is no master key.
func Labeler(ctx context.Context, cfg *config.Config) (*label.Labeler, error) {
	keys, err := openKeys(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return label.New(cfg.Label, keys)
}

// DatabaseExists refuses to look at an SQLite database that does not exist: opening it would create it.
func DatabaseExists(cfg *config.Config) error {
	path, ok := strings.CutPrefix(cfg.Database.URL.Reveal(), "sqlite:")
	if !ok {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database at %s; is --data right? `sluice up` sets a new installation up", path)
	}
	return nil
}

// VerifySource is what a verification of cfg's installation reads: the write-ahead log, the checkpoint files, the database, and the
// usage that was billed with the records.
func VerifySource(cfg *config.Config, db *gorm.DB, verifierKey string) verify.Source {
	witnesses, _ := checkpoint.NewWitnesses(strings.Join(cfg.Audit.Witnesses, "\n")) // the configuration is valid
	return verify.Source{Dir: cfg.Audit.Dir, SpoolDir: cfg.Audit.SpoolDir, DB: db, VerifierKey: verifierKey, Witnesses: witnesses, Books: reconcile.Books{}, ArchiveDir: cfg.Audit.Retention.ArchiveDir}
}
