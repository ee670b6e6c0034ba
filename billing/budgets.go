package billing

import (
	"context"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// Budget limits what a tenant, or one of its API keys, may spend in a period.
type Budget struct {
	Tenant string
	Key    string // empty: the whole tenant
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
	row := budgetRow{Tenant: b.Tenant, Key: b.Key, Period: string(b.Period), Zone: b.Zone, Limit: int64(b.Limit)}
	if err := l.store.setBudget(ctx, row, l.now()); err != nil {
		return err
	}
	return l.terms.Load(ctx)
}

func (b Budget) check() error {
	invalid := func(param string, why fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, param, why).WithParam(param)
	}
	if b.Tenant == "" {
		return fault.New(fault.CodeMissing, "tenant").WithParam("tenant")
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
func (l *Ledger) DeleteBudget(ctx context.Context, tenant, key string, period Period) error {
	if err := l.store.removeBudget(ctx, tenant, key, period); err != nil {
		return err
	}
	return l.terms.Load(ctx)
}

// Budgets returns the budgets of a tenant, first those of the whole tenant, then by key.
func (l *Ledger) Budgets(ctx context.Context, tenant string) ([]BudgetState, error) {
	if tenant == "" {
		return nil, fault.New(fault.CodeMissing, "tenant").WithParam("tenant")
	}
	return l.budgets(ctx, tenant)
}

// AllBudgets returns the budgets of all tenants, in the order of the tenants.
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
			Budget:  Budget{Tenant: b.tenant, Key: b.key, Period: b.period, Zone: b.zone, Limit: b.limit},
			Current: b.period.id(l.now(), b.loc),
		}
		if st.Spent, st.Reserved, err = l.store.spentAndReserved(ctx, leaseKey{b.id, st.Current}); err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}
