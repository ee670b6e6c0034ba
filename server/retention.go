package server

import (
	"context"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/server/config"
)

// Prune archives and removes the audit records whose time is over; see [audit.Log.Prune].
func Prune(ctx context.Context, cfg *config.Config, log *slog.Logger) (done []audit.Pruning, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		done, err = l.Prune(ctx, by.Name)
		return err
	})
	return done, err
}

// Prunable says what Prune would remove, and removes nothing.
func Prunable(ctx context.Context, cfg *config.Config, log *slog.Logger) (due audit.Pruning, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, _ audit.Actor) error {
		due, err = l.Due(ctx)
		return err
	})
	return due, err
}

// Holds returns the legal holds of a tenant, of all for "".
func Holds(ctx context.Context, cfg *config.Config, tenant string, log *slog.Logger) (list []retention.Hold, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, _ audit.Actor) error {
		list, err = l.Holds(ctx, tenant)
		return err
	})
	return list, err
}

// Hold keeps records from being pruned, and what is kept of persons from being erased, after a record of it. who is a person whom it is on, named
// as requests do; "" for none.
func Hold(ctx context.Context, cfg *config.Config, h retention.Hold, who string, log *slog.Logger) (out retention.Hold, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		h.CreatedBy, h.Subject = by.Name, l.Subject(h.Tenant, who)
		act := audit.Event{Tenant: h.Tenant, Actor: by, Action: "admin.createHold", Detail: map[string]string{"reason": h.Reason}}
		return recorded(ctx, l, act, func() error {
			out, err = l.Hold(ctx, h)
			return err
		})
	})
	return out, err
}

// ReleaseHold ends a hold, after a record of it with the reason.
func ReleaseHold(ctx context.Context, cfg *config.Config, id, reason string, log *slog.Logger) (out retention.Hold, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, by audit.Actor) error {
		act := audit.Event{Actor: by, Action: "admin.releaseHold", Resource: id, Detail: map[string]string{"reason": reason}}
		if act.Tenant, err = l.HoldTenant(ctx, id); err != nil {
			return err
		}
		return recorded(ctx, l, act, func() error {
			out, err = l.ReleaseHold(ctx, "", id, by)
			return err
		})
	})
	return out, err
}
