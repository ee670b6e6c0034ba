package server

import (
	"context"

	"github.com/sluice-project/sluice/governance/agreement"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// buildAgreements opens the agreements under which answers go without a visible label.
func (p *parts) buildAgreements(ctx context.Context) (err error) {
	if p.agreements, err = agreement.New(agreement.Config{
		DB: p.db, Freshness: snapshot.Config{MaxAge: p.cfg.MaxStale}, TextFile: p.cfg.Label.AgreementText, Demanded: p.cfg.Label.RequireAgreement,
		Exists: p.labelScope, Fresh: p.guard.Approvals().RequireFreshSignIn, Log: p.log, Metrics: p.reg,
	}); err != nil {
		return err
	}
	return p.agreements.Load(ctx)
}

// labelScope refuses a tenant, a project or a key of it that there is not, and a key of another project.
func (p *parts) labelScope(ctx context.Context, tenant, project, key string) error {
	if err := identity.TenantExists(ctx, p.db, tenant); err != nil {
		return err
	}
	if project != "" {
		if _, err := p.identity.Project(ctx, tenant, project); err != nil {
			return err
		}
	}
	if key != "" {
		k, err := p.identity.Key(ctx, tenant, key)
		if err != nil {
			return err
		}
		if project != "" && k.Project != project { // nobody would ever be meant
			return fault.New(fault.CodeNotFound, fault.Say("thing.key"), key)
		}
	}
	return nil
}
