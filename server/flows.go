package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/notify"
	"github.com/sluice-project/sluice/server/alerts"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/workflows"
	"github.com/sluice-project/sluice/workflows/devserver"
)

// newLimiter returns the rate limiter: shared through Redis if one is configured.
func newLimiter(cfg config.Limits, p *parts) (*limit.Limiter, error) {
	if cfg.RedisURL.Empty() {
		return limit.NewMemory(cfg.Config, p.log)
	}
	opts, err := redis.ParseURL(cfg.RedisURL.Reveal())
	if err != nil {
		return nil, errors.New("limits.redis_url: must look like redis://user:password@host:6379/0") // the cause holds the password
	}
	opts.CredentialsProvider = func() (user, password string) { // what a new connection signs in with may have changed
		if now, err := redis.ParseURL(cfg.RedisURL.Reveal()); err == nil {
			return now.Username, now.Password
		}
		return opts.Username, opts.Password
	}
	client := redis.NewClient(opts)
	p.closers = append(p.closers, client.Close)
	return limit.NewRedis(cfg.Config, client, p.log)
}

// buildWorkflows connects the workflow service. The embedded server is started by serve; here only its address is fixed.
func (p *parts) buildWorkflows(ctx context.Context) error {
	cfg := p.cfg.Workflows
	if !cfg.Enabled {
		return nil
	}
	if cfg.Address == "" {
		binary, err := temporalBinary(cfg.Embedded.Binary, p.cfg.Downloads)
		if err != nil {
			return err
		}
		if p.temporal, err = devserver.Start(ctx, devserver.Config{
			Binary: binary, DBFile: filepath.Join(p.cfg.Data, "temporal.db"), Port: cfg.Embedded.Port, Namespace: cfg.Namespace, Log: p.log,
		}); err != nil {
			return err
		}
		p.closers = append(p.closers, p.temporal.Close)
		cfg.Address = p.temporal.Address()
	}
	deps := workflows.Deps{DB: p.db, Routes: flowRoutes{p.router}, Stats: flowStats{p.audit}, Audit: flowRecorder{p.audit, p.notify.Notify}}
	if p.native != nil {
		deps.Engine = flowEngine{p.native}
	}
	var err error
	p.flows, err = workflows.New(cfg.Config, deps, p.log, p.reg)
	return err
}

// temporalBinary finds the Temporal CLI: the configured one, one on PATH, or the pulled one.
func temporalBinary(configured, downloads string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	if path, err := exec.LookPath(modelstore.Temporal); err == nil {
		return path, nil
	}
	path, err := modelstore.Open(downloads).Path(modelstore.Temporal)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("the Temporal CLI was not found; run `sluice pull`, or start with --no-temporal: %w", err)
	}
	return path, nil
}

// flowRoutes lets rollouts move traffic.
type flowRoutes struct{ router *route.Router }

func (f flowRoutes) Assignment(ctx context.Context, model string) (workflows.Assignment, error) {
	a, err := f.router.Assignment(ctx, model)
	return workflows.Assignment{Model: a.Model, Stable: a.Stable, Candidate: a.Candidate, Basis: a.Basis, Rollout: a.Rollout, Salt: a.Salt}, err
}

func (f flowRoutes) SetAssignment(ctx context.Context, a workflows.Assignment) error {
	return f.router.SetAssignment(ctx, route.Assignment{
		Model: a.Model, Stable: a.Stable, Candidate: a.Candidate, Basis: a.Basis, Rollout: a.Rollout, Salt: a.Salt,
	})
}

func (f flowRoutes) HasVersion(ctx context.Context, model, version string) (bool, error) {
	versions, err := f.router.Versions(ctx, model)
	if fault.Is(err, fault.CodeModelNotFound) {
		return false, nil
	}
	for _, v := range versions {
		if v.Version == version {
			return true, nil
		}
	}
	return false, err
}

func (f flowRoutes) Abilities(ctx context.Context, model, version string) (have workflows.Abilities, sight workflows.Sight, err error) {
	a, err := f.router.Abilities(ctx, model, version)
	for _, feature := range a.Features {
		have.Features = append(have.Features, string(feature))
	}
	have.ContextTokens = a.ContextTokens
	switch {
	case a.Learning:
		sight = workflows.Partial
	case a.Seen:
		sight = workflows.Whole
	}
	return have, sight, err
}

// flowStats reads a rollout's evidence from the audit log.
type flowStats struct{ log *audit.Log }

func (f flowStats) ArmStats(ctx context.Context, rollout string, since int64) (map[string]workflows.ArmStats, error) {
	arms, err := f.log.ArmStats(ctx, rollout, since)
	if err != nil {
		return nil, err
	}
	out := make(map[string]workflows.ArmStats, len(arms))
	for arm, s := range arms {
		out[arm] = workflows.ArmStats{Requests: s.Requests, Errors: s.Errors, FirstToken: s.FirstToken, Total: s.Total}
	}
	return out, nil
}

func (f flowStats) ArmSums(ctx context.Context, rollout, arm string, since int64) (workflows.ArmSums, error) {
	s, err := f.log.ArmSums(ctx, rollout, arm, since)
	if errors.Is(err, search.ErrCounting) {
		err = errors.Join(workflows.ErrCounting, err)
	}
	if err != nil {
		return workflows.ArmSums{}, err
	}
	out := workflows.ArmSums{FirstToken: s.FirstToken, Total: s.Total, Sums: workflows.Sums{
		Failures: workflows.Ratio(s.Failures), Refusals: workflows.Ratio(s.Refusals), Tokens: workflows.Ratio(s.Tokens),
		Cost: workflows.Ratio(s.Cost), Slow: workflows.Ratio(s.Slow),
	}}
	for tenant, n := range s.Tenants {
		out.Tenants = append(out.Tenants, workflows.TenantCounts{Tenant: tenant, Requests: n.Requests, Errors: n.Errors, Refused: n.Refused})
	}
	return out, nil
}

func (f flowStats) ForgetArmSums(ctx context.Context, rollout string, except ...int64) error {
	return f.log.ForgetArmSums(ctx, rollout, except...)
}

// flowRecorder writes transitions to the audit log, and tells people when a rollout goes back by itself. They belong to the installation, hence to the operator's tenant.
type flowRecorder struct {
	log    *audit.Log
	notify func(ctx context.Context, a notify.Alert)
}

func (f flowRecorder) Append(ctx context.Context, r workflows.Record) (string, error) {
	receipt, err := f.log.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: operatorTenant, Actor: audit.Actor{Kind: r.Actor.Kind, ID: r.Actor.ID, Name: r.Actor.Name},
		Action: r.Action, Resource: r.Resource, Rollout: r.Rollout, Detail: r.Detail, Dialect: "workflow", Decision: "allow", Outcome: "ok",
	})
	if to := r.Detail["to"]; err == nil && (to == workflows.PhaseRolledBack || to == workflows.PhaseFailed) {
		f.notify(ctx, alerts.RolloutBack(r.Resource, r.Rollout, r.Detail["candidate"], r.Detail["from"]))
	}
	return receipt.ID, err
}

// flowEngine applies the capacity plan to this process.
type flowEngine struct{ engine *native.Engine }

func (f flowEngine) Configured() int { return f.engine.Configured() }

func (f flowEngine) SetConcurrency(_ context.Context, n int) error {
	f.engine.SetConcurrency(n)
	return nil
}
