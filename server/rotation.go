package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/governance/signingkeys"
	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/internal/wrapkey"
	"github.com/sluice-project/sluice/rag"
)

var errNotRotating = errors.New("another replica re-wraps")

// rotationLease keeps the work of a rotation with one replica, which prolongs it with every step.
func rotationLease() audit.Lease {
	return audit.Lease{Name: "rewrap", For: time.Minute, Taken: errNotRotating}
}

// buildRotator lets the wrapping keys be rotated. Documents are among what is re-wrapped also where this configuration searches none.
func (p *parts) buildRotator(context.Context) error {
	p.rotator = wrapkey.NewRotator(wrapkey.Config{
		DB: p.db, Ring: p.keys, Suite: p.cfg.Audit.Suite, Log: p.log, Metrics: p.reg,
		Kinds: []wrapkey.Kind{pseudonym.Wrapped(p.keys), store.Wrapped(p.keys), rag.Wrapped(p.keys), rag.WrappedGlossaries(p.keys), identity.Wrapped(p.keys), files.Wrapped(p.keys), batch.Wrapped(p.keys), replies.Wrapped(p.keys), signingkeys.Wrapped(p.keys), tenantmark.Wrapped(p.keys), registry.Wrapped(p.keys)},
		Lead: func(ctx context.Context) (bool, error) {
			err := rotationLease().Take(p.db.WithContext(ctx), p.audit.Writer(), time.Now())
			if errors.Is(err, errNotRotating) {
				return false, nil
			}
			return err == nil, err
		},
		Record: p.recordRotation,
	})
	return nil
}

// recordRotation returns when the record is sealed: keys are destroyed behind it.
func (p *parts) recordRotation(ctx context.Context, action string, detail map[string]string) error {
	receipt, err := p.audit.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: operatorTenant, Actor: audit.Actor{Kind: "system", ID: "rotation"}, Action: action,
		Resource: "epoch/" + detail["epoch"], Detail: detail, Decision: "allow", Outcome: "ok",
	})
	if err == nil && receipt.Seq == 0 {
		err = errors.New("the record was lost")
	}
	if err == nil {
		err = p.audit.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}
