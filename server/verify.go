package server

import (
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/gateway/reconcile"
	"github.com/sluice-project/sluice/server/config"
)

// VerifySource is what a verification of cfg's installation reads: the write-ahead log, the checkpoint files, the database, and the
// usage that was booked with the records.
func VerifySource(cfg *config.Config, db *gorm.DB, verifierKey string) audit.VerifySource {
	witnesses, _ := checkpoint.NewWitnesses(strings.Join(cfg.Audit.Witnesses, "\n")) // the configuration is valid
	return audit.VerifySource{Dir: cfg.Audit.Dir, SpoolDir: cfg.Audit.SpoolDir, DB: db, VerifierKey: verifierKey, Witnesses: witnesses, Books: reconcile.Books{}, ArchiveDir: cfg.Audit.Retention.ArchiveDir}
}
