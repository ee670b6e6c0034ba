package server

import (
	"cmp"
	"context"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// buildMarks opens the keys of watermarks.
func (p *parts) buildMarks(ctx context.Context) (err error) {
	if p.marks, err = tenantmark.New(tenantmark.Config{
		DB: p.db, Keys: p.keys, Suite: cmp.Or(p.cfg.Audit.Suite, seal.Intl), Freshness: snapshot.Config{MaxAge: p.cfg.MaxStale}, Log: p.log, Metrics: p.reg,
		Exists: func(ctx context.Context, tenant string) error { return identity.TenantExists(ctx, p.db, tenant) },
	}); err != nil {
		return err
	}
	p.watermarks = tenantmark.NewService(tenantmark.ServiceConfig{Store: p.marks, Tokenizers: p.tokenizers})
	return p.marks.Load(ctx)
}

// tokenizers are those of the models that mark.
func (p *parts) tokenizers() []func(text string) (tokens []int32, ends []int) {
	if p.native == nil {
		return nil
	}
	return p.native.Tokenizers()
}
