package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit/siem"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

func (p *parts) buildSIEM(context.Context) (err error) {
	p.siem, err = siem.New(p.cfg.Audit.SIEM, p.db, p.audit.Writer(), p.version, p.log, p.reg)
	return err
}

// SIEMStatus says how the destinations of security monitoring are doing. It asks the database alone: the server may run or not.
func SIEMStatus(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ []adminapi.MonitoringDestination, err error) {
	p := &parts{cfg: cfg, log: log, reg: prometheus.NewRegistry()}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.buildData(ctx); err != nil {
		return nil, err
	}
	states, err := siem.States(ctx, p.db, cfg.Audit.SIEM)
	return destinations(states), err
}

func destinations(states []siem.State) []adminapi.MonitoringDestination {
	out := []adminapi.MonitoringDestination{}
	for _, s := range states {
		d := adminapi.MonitoringDestination{
			Name: s.Name, Address: s.Address, Format: adminapi.MonitoringDestinationFormat(s.Format), Next: s.Next, Behind: s.Behind, Skipped: s.Skipped, Failure: optionalText(s.Failure),
		}
		if !s.Oldest.IsZero() {
			d.OldestWaiting = &s.Oldest
		}
		if !s.Confirmed.IsZero() {
			d.ConfirmedAt = &s.Confirmed
		}
		if !s.FailedSince.IsZero() {
			d.FailedSince = &s.FailedSince
		}
		out = append(out, d)
	}
	return out
}

func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
