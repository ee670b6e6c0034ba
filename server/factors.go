package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/server/config"
)

// ResetFactors removes the second factors of an account, by its name, for whoever has the machine and the master key of an installation, running or not:
// the way in where nobody is left who could do it in the product. It happens between two records. A running server sees it within two polls.
func ResetFactors(ctx context.Context, cfg *config.Config, name string, log *slog.Logger) error {
	return withParts(ctx, cfg, log, func(p *parts) error {
		if err := errors.Join(p.openIdentity(ctx), p.openCommandLog(nil)); err != nil {
			return err
		}
		by, who := commander(), p.identity.Claimed(name)
		if who.ID == "" {
			return fault.New(fault.CodeNotFound, fault.Say("thing.user"), name)
		}
		act := audit.Event{Tenant: who.Tenant, Actor: by, Action: "installation.reset_second_factors", Resource: who.ID}
		return recorded(ctx, p.audit, act, func() error {
			_, err := p.identity.ResetFactor(ctx, identity.Administrator{ID: by.ID, Platform: true}, who.Tenant, who.ID)
			return err
		})
	})
}
