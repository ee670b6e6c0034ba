package billing

import (
	"context"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// Budget limits what may be spent within a scope in a period.
type Budget struct {
	Scope

	Period Period
	Zone   string // time zone in which days and months begin; empty: that of the configuration
	Limit  Money  // 0 refuses everything that has a price
}

// BudgetState is a budget and how it stands in its current period.
type BudgetState struct {
	Budget
	Current  string // the period, such as 2026-11-21, 2026-11 or total
	Spent    Money  // recorded
	Reserved Money  // leased by replicas: reserved, settled and not yet recorded, or ready to be reserved
}

// SetBudget creates a budget or changes it. A new one counts what its current period has used already. Other replicas follow
// within the poll interval.
func (l *Ledger) SetBudget(ctx context.Context, b Budget) error {
	if b.Zone == "" {
		b.Zone = l.cfg.Zone
	}
	if err := b.check(); err != nil {
		return err
	}
	tenant, key := b.Scope.columns()
	row := budgetRow{Tenant: tenant, Key: key, Period: string(b.Period), Zone: b.Zone, Limit: int64(b.Limit)}
	if err := l.store.setBudget(ctx, row, l.now()); err != nil {
		return err
	}
	return l.terms.Load(ctx)
}

func (b Budget) check() error {
	invalid := func(param string, why fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, param, why).WithParam(param)
	}
	if err := b.Scope.check(); err != nil {
		return err
	}
	if !b.Period.valid() {
		return invalid("period", fault.Say("billing.budget_period"))
	}
	if b.Limit < 0 || b.Limit > 1<<60 {
		return invalid("limit", fault.Say("billing.budget_limit"))
	}
	if _, err := time.LoadLocation(b.Zone); err != nil || b.Zone == "Local" {
		return invalid("zone", fault.Say("billing.zone"))
	}
	return nil
}

// DeleteBudget removes a budget: what it covered is no longer limited by it. Requests that run settle as before, and what was set
// aside for them ends with the budget. Other replicas follow within the poll interval. Error: CodeNotFound.
func (l *Ledger) DeleteBudget(ctx context.Context, of Scope, period Period) error {
	tenant, key := of.columns()
	if err := l.store.removeBudget(ctx, tenant, key, period); err != nil {
		return err
	}
	return l.terms.Load(ctx)
}

// Budgets returns the budgets of a tenant, its projects and its keys, first those of the whole tenant.
func (l *Ledger) Budgets(ctx context.Context, tenant string) ([]BudgetState, error) {
	if tenant == "" {
		return nil, fault.New(fault.CodeMissing, "tenant").WithParam("tenant")
	}
	return l.budgets(ctx, tenant)
}

// OrganisationBudgets returns the budgets of an organisation, without those of its tenants.
func (l *Ledger) OrganisationBudgets(ctx context.Context, organisation string) ([]BudgetState, error) {
	if organisation == "" {
		return nil, fault.New(fault.CodeMissing, "organisation").WithParam("organisation")
	}
	return l.budgets(ctx, organisationMark+organisation)
}

// AllBudgets returns the budgets of all organisations and tenants, in their order.
func (l *Ledger) AllBudgets(ctx context.Context) ([]BudgetState, error) { return l.budgets(ctx, "") }

func (l *Ledger) budgets(ctx context.Context, tenant string) ([]BudgetState, error) {
	rows, err := l.store.budgets(ctx, tenant)
	if err != nil {
		return nil, err
	}
	out := make([]BudgetState, 0, len(rows))
	for _, r := range rows {
		b, err := r.budget()
		if err != nil {
			return nil, err
		}
		st := BudgetState{
			Budget:  Budget{Scope: b.scope, Period: b.period, Zone: b.zone, Limit: b.limit},
			Current: b.period.id(l.now(), b.loc),
		}
		if st.Spent, st.Reserved, err = l.store.spentAndReserved(ctx, leaseKey{b.id, st.Current}); err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}
