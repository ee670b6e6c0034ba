package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/server/offboard"
)

var errNotOffboarding = errors.New("another replica offboards")

// offboardingLease keeps the erasure of tenants with one replica, which prolongs it three times as often as it has to.
func offboardingLease() audit.Lease {
	return audit.Lease{Name: "offboarding", For: time.Minute, Taken: errNotOffboarding}
}

// buildOffboard lets tenants go. The caches of this process drop what is of them, whichever replica erases.
func (p *parts) buildOffboard(context.Context) error {
	cfg := offboard.Config{
		DB: p.db, Audit: p.audit, Identity: p.identity, Guard: p.guard, Ledger: p.ledger, Keys: p.keys, Permitted: p.cfg.Offboarding,
		Remote: p.outside(), Spill: p.cfg.Engines.Native.PrefixCache.SpillDir != "", Log: p.log.With(slog.String("component", "offboarding")),
		Leads: func(ctx context.Context) (bool, error) {
			err := offboardingLease().Take(p.db.WithContext(ctx), p.audit.Writer(), time.Now())
			if errors.Is(err, errNotOffboarding) {
				return false, nil
			}
			return err == nil, database.Unavailable("take the lease of offboardings", err)
		},
	}
	cfg.Forget = p.forget
	p.offboard = offboard.New(cfg)
	return nil
}
