package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/server/config"
)

// Export writes and checks an evidence bundle of an installation, running or not; see [audit.Log.ExportChecked]. That it was exported, by whom on this machine
// and what, is itself a record, made durable before the first byte is written.
func Export(ctx context.Context, cfg *config.Config, f audit.BundleFile, x audit.Export, log *slog.Logger) (m evidence.Manifest, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		x.By = by.Name
		_, err := l.Append(ctx, audit.Event{
			Stage: audit.StageAction, Tenant: x.Tenant, Actor: by, Action: "admin.exportAudit",
			Resource: fmt.Sprintf("%d-%d", x.From, x.To), Dialect: "command", Decision: "allow", Outcome: "ok",
		})
		if err == nil {
			err = l.Flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("record the export: %w", err)
		}
		m, err = l.ExportChecked(ctx, f, x)
		return err
	})
	return m, err
}
