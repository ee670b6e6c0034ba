package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/siem"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/notify"
	"github.com/sluice-project/sluice/server/alerts"
	"github.com/sluice-project/sluice/workflows"
)

var errNotLeader = errors.New("another replica watches")

// alertsLease keeps the watch over the installation with one replica, which prolongs it every minute.
func alertsLease() audit.Lease {
	return audit.Lease{Name: "alerts", For: 3 * time.Minute, Taken: errNotLeader}
}

func (p *parts) buildNotifier(context.Context) (err error) {
	p.notify, err = notify.New(p.cfg.Notify, p.cfg.PublicURL, p.log, p.reg)
	return err
}

// buildWatcher says what to watch. Without a channel to tell, nothing is.
func (p *parts) buildWatcher(context.Context) error {
	if len(p.cfg.Notify.Channels) == 0 {
		return nil
	}
	node, err := nodeID(p.cfg.Data)
	if err != nil {
		return err
	}
	checks := []alerts.Check{
		alerts.AuditOfReplica(node, p.auditOfReplica), alerts.Sealing(p.sealing), alerts.Witnesses(p.witnesses),
		alerts.Findings(func(ctx context.Context) (map[string]int64, error) {
			state, err := p.reconciler.State(ctx, "")
			return state.Open, err
		}),
		alerts.Budgets(p.ledger.AllBudgets), alerts.Keys(p.keysOfAll), alerts.SuspectKeys(p.identity.Suspects),
		alerts.BreakGlass(p.identity.EmergencyUses), alerts.Controls(p.controlStates), alerts.Burns(p.serviceLevel().Burns), alerts.CapacityLine(node, p.latestScaling),
	}
	if p.siem != nil {
		checks = append(checks, alerts.Monitoring(p.monitoring))
	}
	if p.flows != nil {
		checks = append(checks, alerts.Rollouts(func(ctx context.Context) ([]workflows.State, error) {
			newest, _, err := p.flows.List(ctx, "", 200)
			return newest, err
		}), alerts.Unjudged(p.flows.Unjudged))
	}
	p.watcher = &alerts.Watcher{Checks: checks, Leads: p.leads, Notify: p.notify.Notify, Log: p.log.With(slog.String("component", "alerts"))}
	return nil
}

// leads takes the lease or prolongs it.
func (p *parts) leads(ctx context.Context) (bool, error) {
	err := alertsLease().Take(p.db.WithContext(ctx), p.audit.Writer(), time.Now())
	if errors.Is(err, errNotLeader) {
		return false, nil
	}
	return err == nil, err
}

// watch runs the watcher and hands the lease on at the end.
func (p *parts) watch(ctx context.Context) error {
	err := p.watcher.Run(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if rerr := alertsLease().Release(p.db.WithContext(end), p.audit.Writer()); rerr != nil {
		p.log.LogAttrs(end, slog.LevelWarn, "the lease of the alerts stays until it expires", slog.String("error", rerr.Error()))
	}
	return err
}

func (p *parts) auditOfReplica() (alerts.Replica, error) {
	state, err := p.audit.Status()
	if err != nil {
		return alerts.Replica{}, err
	}
	out := alerts.Replica{Rewritten: state.Rewritten != "", Unavailable: p.audit.Ready() != nil, Waiting: state.Waiting}
	if state.Oldest != 0 {
		out.Oldest = time.UnixMicro(state.Oldest)
	}
	for _, n := range p.audit.Losses() {
		out.Lost += n
	}
	return out, nil
}

func (p *parts) sealing(ctx context.Context) (unsealed int64, newest time.Time, err error) {
	state, err := p.audit.Status()
	if err != nil {
		return 0, time.Time{}, err
	}
	unsealed, err = p.audit.Unsealed(ctx)
	return unsealed, state.Seen, err
}

func (p *parts) witnesses(ctx context.Context) ([]alerts.Witness, error) {
	state, err := p.audit.Status()
	if err != nil {
		return nil, err
	}
	list, err := p.audit.Witnessed(ctx)
	out := make([]alerts.Witness, 0, len(list))
	for _, w := range list {
		out = append(out, alerts.Witness{Name: w.Witness, Behind: max(0, state.Checkpoint.Size-w.Size), Time: w.Time})
	}
	return out, err
}

func (p *parts) monitoring(ctx context.Context) ([]alerts.Destination, error) {
	states, err := siem.States(ctx, p.db, p.cfg.Audit.SIEM)
	out := make([]alerts.Destination, 0, len(states))
	for _, s := range states {
		out = append(out, alerts.Destination{Name: s.Name, Behind: s.Behind, Oldest: s.Oldest, Failure: s.Failure})
	}
	return out, err
}

// keysOfAll lists the keys of all tenants.
func (p *parts) keysOfAll(ctx context.Context) ([]identity.Key, error) {
	tenants, err := p.identity.ListTenants(ctx)
	if err != nil {
		return nil, err
	}
	var out []identity.Key
	for _, t := range tenants {
		keys, err := p.identity.ListKeys(ctx, t.ID, "")
		if err != nil {
			return nil, err
		}
		out = append(out, keys...)
	}
	return out, nil
}
