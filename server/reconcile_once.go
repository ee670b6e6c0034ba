package server

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

// Reconcile compares the audit log of an installation, running or not, with itself and with the books, mends what can be mended and
// returns the open findings. What it mends is recorded from a directory of its own, since a running server holds the other.
func Reconcile(ctx context.Context, cfg *config.Config, limit int, log *slog.Logger) (out adminapi.Reconciliation, err error) {
	p := &parts{cfg: cfg, log: log, reg: prometheus.NewRegistry()}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.buildData(ctx); err != nil {
		return out, err
	}
	if p.ledger, err = billing.New(cfg.Billing, p.db, p.log, p.reg); err != nil { // only to book usage: nothing is reserved
		return out, err
	}
	own := cfg.Audit
	own.Dir, own.SpoolDir, own.Mode, own.Modes = filepath.Join(cfg.Audit.Dir, "cli"), "", audit.ModeStrict, nil
	if p.audit, err = audit.Open(own, p.db, p.keys, p.recordUsage, log, nil); err != nil {
		return out, err
	}
	p.closers = append(p.closers, p.audit.Close)
	r := newReconciler(p, p.reg)
	if _, err := r.reconcile(ctx); err != nil {
		return out, err
	}
	if err := p.audit.Flush(ctx); err != nil {
		return out, err
	}
	return r.view(ctx, false, 0, limit)
}
