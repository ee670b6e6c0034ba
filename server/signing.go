package server

import (
	"cmp"
	"context"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/governance/signingkeys"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// buildSigning opens the keys of signed results: SM2 where the suite of the audit log is the national one, else Ed25519.
func (p *parts) buildSigning(ctx context.Context) (err error) {
	suite, algorithm := cmp.Or(p.cfg.Audit.Suite, seal.Intl), signature.EdDSA
	if suite == seal.GM {
		algorithm = signature.SM2SM3
	}
	if p.signing, err = signingkeys.New(signingkeys.Config{
		DB: p.db, Keys: p.keys, Suite: suite, Algorithm: algorithm, Freshness: snapshot.Config{MaxAge: p.cfg.MaxStale}, Log: p.log, Metrics: p.reg,
		Exists: func(ctx context.Context, tenant string) error { return identity.TenantExists(ctx, p.db, tenant) },
	}); err != nil {
		return err
	}
	return p.signing.Load(ctx)
}
