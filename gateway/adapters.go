package gateway

import (
	"context"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/governance"
)

// FromGuard fits a guard into [Deps].
func FromGuard(g *governance.Guard) guard { return guardAdapter{g} } //nolint:revive // Deps is the only place for the result

type guardAdapter struct{ *governance.Guard }

func (g guardAdapter) Admit(ctx context.Context, ask governance.AdmitRequest) (Decision, error) {
	a, err := g.Guard.Admit(ctx, ask)
	if a == nil {
		return nil, err
	}
	return admissionAdapter{a}, err
}

type admissionAdapter struct{ *governance.Admission }

func (a admissionAdapter) Release() egress.Release { return a.Admission.Release() }

// ReleaseFound implements Decision.
func (a admissionAdapter) ReleaseFound() egress.Release { return a.Admission.ReleaseFound() }

// ReleaseCitation implements Decision.
func (a admissionAdapter) ReleaseCitation() egress.Release { return a.Admission.ReleaseCitation() }

// FromLedger fits a ledger into [Deps].
func FromLedger(l *billing.Ledger) ledger { return ledgerAdapter{l} } //nolint:revive // Deps is the only place for the result

type ledgerAdapter struct{ *billing.Ledger }

func (l ledgerAdapter) Reserve(ctx context.Context, ask billing.Ask) (Reservation, error) {
	r, err := l.Ledger.Reserve(ctx, ask)
	if err != nil {
		return nil, err
	}
	return r, nil
}
