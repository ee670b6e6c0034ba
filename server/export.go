package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/server/config"
)

// Export writes and checks an evidence bundle of an installation, running or not; see [audit.Log.ExportChecked]. That it was exported, by whom on this machine
// and what, is itself a record, made durable before the first byte is written.
func Export(ctx context.Context, cfg *config.Config, f audit.BundleFile, x audit.Export, log *slog.Logger) (m evidence.Manifest, err error) {
	p := &parts{cfg: cfg, log: log, reg: prometheus.NewRegistry()}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.buildData(ctx); err != nil {
		return m, err
	}
	own := cfg.Audit // the server holds its own directory
	own.Dir, own.SpoolDir, own.Mode, own.Modes = filepath.Join(cfg.Audit.Dir, "cli"), "", audit.ModeStrict, nil
	l, err := audit.Open(own, p.db, p.keys, nil, log, nil)
	if err != nil {
		return m, err
	}
	p.closers = append(p.closers, l.Close)
	x.By = "unknown"
	if u, err := user.Current(); err == nil {
		x.By = u.Username
	}
	_, err = l.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: x.Tenant, Actor: audit.Actor{Kind: "system", ID: "command", Name: x.By}, Action: "admin.exportAudit",
		Resource: fmt.Sprintf("%d-%d", x.From, x.To), Dialect: "command", Decision: "allow", Outcome: "ok",
	})
	if err == nil {
		err = l.Flush(ctx)
	}
	if err != nil {
		return m, fmt.Errorf("record the export: %w", err)
	}
	return l.ExportChecked(ctx, f, x)
}
