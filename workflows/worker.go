package workflows

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/internal/sleep"
)

const maxBackoff = 30 * time.Second

// Run polls Temporal for work and keeps the engine at the planned concurrency until ctx ends. Temporal may be away at any time:
// Run tries again, and the capacity plan is followed without it.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.work(ctx) })
	g.Go(func() error { return s.follow(ctx) })
	return g.Wait()
}

// register tells a worker, or a replay, what there is to run.
func register(r worker.Registry, a *activities) {
	r.RegisterWorkflowWithOptions(rollout, workflow.RegisterOptions{Name: rolloutName})
	r.RegisterWorkflowWithOptions(rollout, workflow.RegisterOptions{Name: gatesName})
	r.RegisterWorkflowWithOptions(setCapacity, workflow.RegisterOptions{Name: capacityWorkflow})
	r.RegisterActivityWithOptions(a.Transition, activity.RegisterOptions{Name: transitionName})
	r.RegisterActivityWithOptions(a.Evaluate, activity.RegisterOptions{Name: evaluateName})
	r.RegisterActivityWithOptions(a.Evaluate, activity.RegisterOptions{Name: gatesEvaluate})
	r.RegisterActivityWithOptions(a.Capacity, activity.RegisterOptions{Name: capacityActivity})
}

// work runs one worker after the other: the first start fails while Temporal is away, and a worker that was told to go away
// cannot be started again.
func (s *Service) work(ctx context.Context) error {
	wait := time.Second
	for ctx.Err() == nil {
		fatal := make(chan error, 1)
		w := worker.New(s.client, s.cfg.TaskQueue, worker.Options{
			// Rollouts are few and slow; the default of a thousand of everything would only hide a mistake.
			MaxConcurrentActivityExecutionSize:     8,
			MaxConcurrentWorkflowTaskExecutionSize: 8,
			MaxConcurrentActivityTaskPollers:       2,
			MaxConcurrentWorkflowTaskPollers:       2,
			WorkerStopTimeout:                      15 * time.Second,
			DisableRegistrationAliasing:            true,
			OnFatalError: func(err error) {
				select {
				case fatal <- err:
				default:
				}
			},
		})
		register(w, s.acts)
		if err := w.Start(); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "cannot reach Temporal, trying again", slog.String("address", s.cfg.Address),
				slog.Duration("wait", wait), slog.String("error", err.Error()))
			sleep.For(ctx, wait) // the loop asks ctx
			wait = min(wait*2, maxBackoff)
			continue
		}
		wait = time.Second
		s.m.connected.Set(1)
		select {
		case <-ctx.Done():
			w.Stop()
		case err := <-fatal:
			s.log.LogAttrs(ctx, slog.LevelError, "the Temporal worker stopped, starting another", slog.String("error", err.Error()))
		}
		s.m.connected.Set(0)
	}
	return nil
}

// follow seeds the plan, brings the row and this engine to it, and keeps the schedule in Temporal like the plan.
func (s *Service) follow(ctx context.Context) error {
	seeded, waited := false, time.Duration(0)
	var synced *Plan // nil: what Temporal has is not known
	for ; ctx.Err() == nil; sleep.For(ctx, s.poll) {
		if !seeded {
			if err := s.start(ctx); err != nil {
				s.warn(ctx, "cannot read the capacity plan, trying again", err)
				continue
			}
			seeded = true
		}
		have, err := s.plan.apply(ctx)
		if err == nil && s.plan.overdue(have) {
			err = s.plan.reconcile(ctx, "the scheduled change did not arrive")
		}
		if err != nil {
			s.warn(ctx, "cannot follow the capacity plan, trying again", err)
			continue
		}
		none := have.version == 0 // nor was there ever one
		if waited -= s.poll; waited > 0 || none || synced != nil && samePlan(have.Plan, *synced) {
			continue
		}
		if err := s.sync(ctx, have.Plan); err != nil {
			s.warn(ctx, "cannot write the schedule to Temporal, trying again", err)
			waited = maxBackoff
			continue
		}
		synced = &have.Plan
	}
	return nil
}

func (s *Service) start(ctx context.Context) error {
	if err := s.plan.seed(ctx, s.cfg.Capacity); err != nil {
		return err
	}
	return s.plan.reconcile(ctx, "the server started")
}

func (s *Service) sync(ctx context.Context, p Plan) error {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	return s.syncSchedule(ctx, p)
}

func (s *Service) warn(ctx context.Context, msg string, err error) {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		s.log.LogAttrs(ctx, slog.LevelWarn, msg, slog.String("error", err.Error()))
	}
}
