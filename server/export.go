package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/server/config"
)

// Export writes and checks an evidence bundle of an installation, running or not; see [audit.Log.ExportChecked]. That it was exported, by whom on this machine
// and what, is itself a record, made durable before the first byte is written.
func Export(ctx context.Context, cfg *config.Config, f export.BundleFile, x export.Selection, log *slog.Logger) (m evidence.Manifest, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		x.By = by.Name
		return recorded(ctx, l, exporting(by, x.Tenant, fmt.Sprintf("%d-%d", x.From, x.To)), func() error {
			m, err = l.ExportChecked(ctx, f, x)
			return err
		})
	})
	return m, err
}

// ExportTiles writes the log of an installation, running or not, into a directory as foreign tools read it; see [audit.Log.ExportTiles]. It is
// recorded as Export is.
func ExportTiles(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger) (t checkpoint.Tree, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		return recorded(ctx, l, exporting(by, "", "tiles"), func() error {
			t, err = l.ExportTiles(ctx, dir)
			return err
		})
	})
	return t, err
}

// Proof returns the proof of one record of an installation, running or not; see [audit.Log.ProofFile].
func Proof(ctx context.Context, cfg *config.Config, id string, log *slog.Logger) (p evidence.ProofFile, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, _ audit.Actor) error {
		p, err = l.ProofFile(ctx, id)
		return err
	})
	return p, err
}

func exporting(by audit.Actor, tenant, what string) audit.Event {
	return audit.Event{Tenant: tenant, Actor: by, Action: "admin.exportAudit", Resource: what}
}
