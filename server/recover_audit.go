package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/gateway/reconcile"
	"github.com/sluice-project/sluice/server/config"
)

// RecoverAudit moves the audit records, and the usage billed with them, that a replica which never comes back left in its audit directory into
// the database; see [audit.Recover].
func RecoverAudit(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger) (records int64, err error) {
	p := &parts{cfg: cfg, log: log, reg: prometheus.NewRegistry()}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.buildData(ctx); err != nil {
		return 0, err
	}
	if err := p.openBooks(ctx); err != nil {
		return 0, err
	}
	if err := p.buildRegistry(); err != nil {
		return 0, err
	}
	return audit.Recover(ctx, p.auditConfig(), dir, p.db, p.keys, reconcile.Sink(p.ledger), p.log)
}
