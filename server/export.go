package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/server/config"
)

// Export writes and checks an evidence bundle of an installation, running or not; see [audit.Log.ExportChecked]. That it was exported, by whom on this machine
// and what, is itself a record, made durable before the first byte is written.
func Export(ctx context.Context, cfg *config.Config, f audit.BundleFile, x audit.Export, log *slog.Logger) (m evidence.Manifest, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		x.By = by.Name
		if err := recordExport(ctx, l, by, x.Tenant, fmt.Sprintf("%d-%d", x.From, x.To)); err != nil {
			return err
		}
		m, err = l.ExportChecked(ctx, f, x)
		return err
	})
	return m, err
}

// ExportTiles writes the log of an installation, running or not, into a directory as foreign tools read it; see [audit.Log.ExportTiles]. It is
// recorded as Export is.
func ExportTiles(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger) (t checkpoint.Tree, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		if err := recordExport(ctx, l, by, "", "tiles"); err != nil {
			return err
		}
		t, err = l.ExportTiles(ctx, dir)
		return err
	})
	return t, err
}

func recordExport(ctx context.Context, l *audit.Log, by audit.Actor, tenant, what string) error {
	_, err := l.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: tenant, Actor: by, Action: "admin.exportAudit",
		Resource: what, Dialect: "command", Decision: "allow", Outcome: "ok",
	})
	if err == nil {
		err = l.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("record the export: %w", err)
	}
	return nil
}
