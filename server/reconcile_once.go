package server

import (
	"context"
	"log/slog"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

// Reconcile compares the audit log of an installation, running or not, with itself and with the books, mends what can be mended and
// returns the open findings. What it mends is recorded.
func Reconcile(ctx context.Context, cfg *config.Config, limit int, log *slog.Logger) (out adminapi.Reconciliation, err error) {
	err = withParts(ctx, cfg, log, func(p *parts) error {
		if p.ledger, err = billing.New(cfg.Billing, p.db, p.log, p.reg); err != nil { // only to book usage: nothing is reserved
			return err
		}
		if err := p.openCommandLog(p.recordUsage); err != nil {
			return err
		}
		r := newReconciler(p, p.reg)
		if _, err := r.reconcile(ctx); err != nil {
			return err
		}
		if err := p.audit.Flush(ctx); err != nil {
			return err
		}
		out, err = r.view(ctx, false, 0, limit)
		return err
	})
	return out, err
}
