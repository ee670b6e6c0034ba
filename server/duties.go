package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/config"
)

// checkDuties refuses to serve an installation whose administrators' duties are merged, unless the configuration says that they may be.
func (p *parts) checkDuties() error {
	duties, err := p.identity.Duties()
	if err != nil || duties == identity.DutiesSeparated || p.cfg.Identity.Duties == identity.DutiesMerged {
		return err
	}
	return errors.New(message.Both("cli.serve.duties_merged", " / "))
}

// ReadDuties returns who holds the administrators' duties of an installation, running or not.
func ReadDuties(ctx context.Context, cfg *config.Config, log *slog.Logger) (duties identity.Duties, err error) {
	err = withParts(ctx, cfg, log, func(p *parts) error {
		if err := p.openIdentity(ctx); err != nil {
			return err
		}
		duties, err = p.identity.Duties()
		return err
	})
	return duties, err
}

// SplitDuties separates the administrators' duties of an installation, running or not, between two records of it; see
// [identity.Identity.SplitDuties]. A running server sees it within two polls.
func SplitDuties(ctx context.Context, cfg *config.Config, names identity.SeparateAdmins, log *slog.Logger) (made []identity.OneTime, err error) {
	err = withParts(ctx, cfg, log, func(p *parts) error {
		if err := errors.Join(p.openIdentity(ctx), p.openCommandLog(nil)); err != nil {
			return err
		}
		by := commander()
		act := audit.Event{Tenant: p.identity.Operator(), Actor: by, Action: "installation.split_duties", Detail: map[string]string{}}
		return recorded(ctx, p.audit, act, func() (err error) {
			made, err = p.identity.SplitDuties(ctx, by.ID, names)
			for _, m := range made {
				act.Detail[m.User.Roles[0]] = m.User.ID
			}
			return err
		})
	})
	return made, err
}
