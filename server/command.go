package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os/user"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/erasure"
)

// withLog runs a command on the audit log of an installation, running or not, for whoever started it on this machine.
func withLog(ctx context.Context, cfg *config.Config, log *slog.Logger, do func(l *audit.Log, by audit.Actor) error) error {
	return withParts(ctx, cfg, log, func(p *parts) error {
		if err := p.openCommandLog(nil); err != nil {
			return err
		}
		return do(p.audit, commander())
	})
}

// withParts runs a command on the database of an installation, running or not, and closes what the command opened of it.
func withParts(ctx context.Context, cfg *config.Config, log *slog.Logger, do func(p *parts) error) error {
	keys, err := openKeys(ctx, cfg)
	if err != nil {
		return err
	}
	return withKeys(ctx, cfg, keys, log, do)
}

// withKeys is withParts of a command that has opened the master key.
func withKeys(ctx context.Context, cfg *config.Config, keys *keyring.Ring, log *slog.Logger, do func(p *parts) error) (err error) {
	p := &parts{cfg: cfg, log: log, keys: keys, reg: prometheus.NewRegistry()}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.buildData(ctx); err != nil {
		return err
	}
	return do(p)
}

// openCommandLog opens the log for a command: in a directory of its own, since a server holds that of the installation. sink takes what goes
// with a record; nil for a command that records nothing to be billed.
func (p *parts) openCommandLog(sink audit.Sink) (err error) {
	if err := p.buildRegistry(); err != nil {
		return err
	}
	own := p.auditConfig()
	own.Dir, own.SpoolDir, own.Mode, own.Modes = filepath.Join(own.Dir, "cli"), "", audit.ModeStrict, nil
	p.audit, err = audit.Open(own, p.db, p.keys, sink, p.log, nil)
	if used := (*durable.InUseError)(nil); errors.As(err, &used) {
		return errors.New(message.Both("cli.shared.audit_log_in_use", " / ", used.PID))
	}
	if err != nil {
		return err
	}
	p.closers = append(p.closers, p.audit.Close)
	return nil
}

// recorded does what a command is there for between two records of it, as the management API does: one that it begins, sealed before anything
// happens, and one of how it ended.
func recorded(ctx context.Context, l *audit.Log, act audit.Event, do func() error) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	act.Stage, act.Request, act.Dialect, act.Decision = audit.StageAdmitted, id.String(), "command", "allow"
	_, err = l.Append(ctx, act)
	if err == nil {
		err = l.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("record the command: %w", err)
	}
	derr := do()
	act.Stage, act.Outcome, act.Status = audit.StageOutcome, "ok", http.StatusOK
	if derr != nil {
		f := fault.Public(derr)
		act.Outcome, act.ErrorKind, act.ErrorCode, act.Status = "failed", f.Kind().String(), string(f.Code()), f.Kind().Status()
		if f.Kind() != fault.Internal && f.Kind() != fault.Unavailable {
			act.Outcome, act.Decision = "refused", "refuse"
		}
	}
	after := context.WithoutCancel(ctx)
	_, err = l.Append(after, act)
	if err == nil {
		err = l.Flush(after)
	}
	if err != nil {
		return errors.Join(derr, fmt.Errorf("record how the command ended: %w", err))
	}
	return derr
}

// withEraser runs a command that erases. A running server drops its caches when it hears of it.
func withEraser(ctx context.Context, cfg *config.Config, log *slog.Logger, do func(e *erasure.Eraser, l *audit.Log, by audit.Actor) error) error {
	return withParts(ctx, cfg, log, func(p *parts) error {
		if err := p.openCommandLog(nil); err != nil {
			return err
		}
		var err error
		if p.guard, err = governance.New(cfg.Governance, governance.NewPolicyStore(p.db), p.keys, classify.New(classify.Classes()...), log, nil); err != nil {
			return err
		}
		p.closers = append(p.closers, p.guard.Close)
		p.buildEraser(true)
		return do(p.eraser, p.audit, commander())
	})
}

// commander is whoever started a command on this machine.
func commander() audit.Actor {
	by := audit.Actor{Kind: "system", ID: "command", Name: "unknown"}
	if u, err := user.Current(); err == nil {
		by.Name = u.Username
	}
	return by
}

// PreviewErasure says what erasing a person would do, who is named as requests do, after a record of the look.
func PreviewErasure(ctx context.Context, cfg *config.Config, tenant, who string, log *slog.Logger) (p erasure.Preview, err error) {
	err = withEraser(ctx, cfg, log, func(e *erasure.Eraser, l *audit.Log, by audit.Actor) error {
		t := erasure.Target{Tenant: tenant, Subject: l.Subject(tenant, who)}
		return recorded(ctx, l, audit.Event{Tenant: tenant, Actor: by, Action: "admin.previewErasure", Resource: t.Subject}, func() error {
			p, err = e.Preview(ctx, t, by)
			return err
		})
	})
	return p, err
}

// Erase erases what is kept of a person, who is named as requests do, between two records of it; see [erasure.Eraser.Erase]. It passes no hold: who
// runs a command is no account, so that nobody can tell whether another one approves.
func Erase(ctx context.Context, cfg *config.Config, tenant, who string, log *slog.Logger) (done erasure.Result, err error) {
	err = withEraser(ctx, cfg, log, func(e *erasure.Eraser, l *audit.Log, by audit.Actor) error {
		done, err = erase(ctx, e, l, erasure.Target{Tenant: tenant, Subject: l.Subject(tenant, who)}, by)
		return err
	})
	return done, err
}

// erase is an erasure between its records, so that a refused one leaves some, too.
func erase(ctx context.Context, e *erasure.Eraser, l *audit.Log, t erasure.Target, by audit.Actor) (done erasure.Result, err error) {
	act := audit.Event{Tenant: t.Tenant, Actor: by, Action: "admin.eraseSubject", Resource: t.Subject, Detail: map[string]string{}}
	err = recorded(ctx, l, act, func() (err error) {
		done, err = e.Erase(ctx, t, "", by)
		maps.Copy(act.Detail, done.Detail())
		return err
	})
	return done, err
}

// EraseAgain repeats erasures, after the restore of an older copy of the database for instance. each is called after every one.
func EraseAgain(ctx context.Context, cfg *config.Config, list []retention.Erasure, each func(erasure.Result), log *slog.Logger) error {
	return withEraser(ctx, cfg, log, func(e *erasure.Eraser, l *audit.Log, by audit.Actor) error {
		return erasure.Repeat(list, func(t erasure.Target) error {
			done, err := erase(ctx, e, l, t, by)
			if err == nil {
				each(done)
			}
			return err
		})
	})
}

// Erasures returns the erasures of a tenant, of all for "".
func Erasures(ctx context.Context, cfg *config.Config, tenant string, log *slog.Logger) (list []retention.Erasure, err error) {
	err = withLog(ctx, cfg, log, func(l *audit.Log, _ audit.Actor) error {
		list, err = l.Erasures(ctx, tenant)
		return err
	})
	return list, err
}
