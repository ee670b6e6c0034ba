package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/reconcile"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

func newReconciler(p *parts, reg prometheus.Registerer) *reconcile.Reconciler {
	return reconcile.New(reconcile.Config{
		DB: p.db, Audit: p.audit, Log: p.log, Metrics: reg, Longest: p.cfg.Gateway.MaxDuration(), SlowActions: []string{string(gateway.ActionIngest)},
	})
}

// openBooks opens a ledger that only books usage: nothing is reserved. The organisations of tenants are those of now.
func (p *parts) openBooks(ctx context.Context) error {
	organisations, err := identity.Organisations(ctx, p.db)
	if err != nil {
		return err
	}
	cfg := p.cfg.Billing
	cfg.Organisation = func(tenant string) string { return organisations[tenant] }
	p.ledger, err = billing.New(cfg, p.db, p.log, p.reg)
	return err
}

// Reconcile compares the audit log of an installation, running or not, with itself and with the books, and mends what can be mended; see
// [reconcile.Reconciler.Compare]. It returns at most limit open findings.
func Reconcile(ctx context.Context, cfg *config.Config, limit int, log *slog.Logger) (out adminapi.Reconciliation, err error) {
	err = withParts(ctx, cfg, log, func(p *parts) error {
		if err := p.openBooks(ctx); err != nil {
			return err
		}
		if err := p.openCommandLog(reconcile.Sink(p.ledger)); err != nil {
			return err
		}
		p.reconciler = newReconciler(p, p.reg)
		if _, err := p.reconciler.Compare(ctx); err != nil {
			return err
		}
		if err := p.audit.Flush(ctx); err != nil {
			return err
		}
		out, err = p.reconciliation(ctx, false, 0, limit)
		return err
	})
	return out, err
}

// reconciliation says how the reconciliation stands, with at most limit+1 findings.
func (p *parts) reconciliation(ctx context.Context, all bool, offset, limit int) (adminapi.Reconciliation, error) {
	state, err := p.reconciler.State(ctx, "")
	if err != nil {
		return adminapi.Reconciliation{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	currency, err := p.reconciler.Currency(ctx)
	if err != nil {
		return adminapi.Reconciliation{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	findings, err := p.reconciler.Findings(ctx, all, offset, limit+1)
	if err != nil {
		return adminapi.Reconciliation{}, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	out := adminapi.Reconciliation{AsOf: time.Now().UTC(), Running: state.Running, Open: state.Open, Items: []adminapi.ReconciliationFinding{}}
	if currency != "" {
		out.Currency = &currency
	}
	if !state.Finished.IsZero() {
		out.StartedAt, out.FinishedAt, out.Hours, out.Repaired = &state.Started, &state.Finished, &state.Hours, &state.Repaired
	}
	for _, f := range findings {
		out.Items = append(out.Items, reconciliationFinding(f))
	}
	return out, nil
}

func reconciliationFinding(f reconcile.Finding) adminapi.ReconciliationFinding {
	out := adminapi.ReconciliationFinding{
		Kind: f.Kind, Item: f.Item, Tenant: f.Tenant, Detail: f.Detail, FirstSeen: f.FirstSeen, LastSeen: f.LastSeen, ClosedAt: timeIfAny(f.Closed),
	}
	if f.Repair != "" {
		out.Repair = &f.Repair
	}
	return out
}

func reconciliationState(s reconcile.State) adminapi.ReconciliationState {
	out := adminapi.ReconciliationState{Running: s.Running, FinishedAt: timeIfAny(s.Finished)}
	for _, n := range s.Open {
		out.Open += n
	}
	return out
}

// timeIfAny returns nil for the zero time.
func timeIfAny(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
