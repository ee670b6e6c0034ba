package gateway

import (
	"context"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/governance"
)

// FromGuard fits a guard into [Deps].
func FromGuard(g *governance.Guard) guard { return guarded{g} } //nolint:revive // Deps is the only place for the result

type guarded struct{ *governance.Guard }

func (g guarded) Admit(ctx context.Context, ask governance.Ask) (Decision, error) {
	a, err := g.Guard.Admit(ctx, ask)
	if a == nil {
		return nil, err
	}
	return admitted{a}, err
}

type admitted struct{ *governance.Admission }

func (a admitted) Release() egress.Release { return a.Admission.Release() }

// Quote implements Decision.
func (a admitted) Quote() egress.Release { return a.Admission.Quote() }

// FromLedger fits a ledger into [Deps].
func FromLedger(l *billing.Ledger) ledger { return ledgered{l} } //nolint:revive // Deps is the only place for the result

type ledgered struct{ *billing.Ledger }

func (l ledgered) Reserve(ctx context.Context, ask billing.Ask) (Reservation, error) {
	r, err := l.Ledger.Reserve(ctx, ask)
	if err != nil {
		return nil, err
	}
	return r, nil
}
