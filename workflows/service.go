package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/sleep"
)

// Service starts and steers rollouts and keeps the capacity plan. It is safe for concurrent use.
type Service struct {
	cfg    Config
	deps   Deps
	client client.Client
	acts   *activities
	store  *store
	plan   *capacity
	log    *slog.Logger
	m      *metrics
	now    func() time.Time

	callTimeout time.Duration // how long a caller waits for Temporal
	poll        time.Duration // how often the capacity plan is looked at
}

// New returns a service that is not connected yet: Temporal may be down now and later. [Service.Run] does the work.
func New(cfg Config, deps Deps, log *slog.Logger, reg prometheus.Registerer) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("workflows: %w", err)
	}
	if deps.DB == nil || deps.Routes == nil || deps.Stats == nil || deps.Audit == nil {
		return nil, errors.New("workflows: the database, routes, statistics and audit log are needed")
	}
	conn, err := cfg.connection()
	if err != nil {
		return nil, err
	}
	log = log.With(slog.String("component", "workflows"))
	c, err := client.NewLazyClient(client.Options{
		HostPort: cfg.Address, Namespace: cfg.Namespace, ConnectionOptions: conn, Logger: sdklog.NewStructuredLogger(log),
	})
	if err != nil {
		return nil, fmt.Errorf("workflows: %w", err)
	}
	s := &Service{
		cfg: cfg, deps: deps, client: c, store: &store{db: deps.DB}, log: log, m: newMetrics(reg), now: time.Now,
		callTimeout: 5 * time.Second, poll: 2 * time.Second,
	}
	s.plan = &capacity{deps: deps, store: s.store, now: s.now, log: log, m: s.m}
	s.acts = &activities{deps: deps, store: s.store, plan: s.plan, now: s.now, log: log, m: s.m, settleTimeout: 3 * time.Second}
	return s, nil
}

// Close closes the connection. Call it after Run has returned.
func (s *Service) Close() { s.client.Close() }

// Ready reports whether Temporal answers and has our namespace.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	_, err := s.client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.cfg.Namespace})
	return temporalError(err)
}

// StartRollout begins a rollout of spec.Candidate in place of the model's stable version. One rollout per model runs at a time.
func (s *Service) StartRollout(ctx context.Context, spec Spec, starter Actor) (State, error) {
	spec.Preset = or(spec.Preset, Standard)
	spec = spec.withDefaults()
	spec.SecondPerson = spec.SecondPerson || s.cfg.SecondPerson
	if err := spec.check(); err != nil {
		return State{}, err
	}
	cur, err := s.startable(ctx, spec)
	if err != nil {
		return State{}, err
	}
	if spec.Needed, err = s.need(ctx, spec, cur.Stable); err != nil {
		return State{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return State{}, fmt.Errorf("make rollout id: %w", err)
	}
	st := State{
		ID: id.String(), Model: spec.Model, Stable: cur.Stable, Candidate: spec.Candidate, Spec: spec, Starter: starter,
		Phase: PhaseStarting, Step: -1, StartedAt: s.now().UnixMicro(),
	}
	if err := s.store.create(ctx, st); err != nil {
		return State{}, err
	}
	// The salt is new, so that it is not the same conversations that try every candidate first.
	in := rolloutInput{Schema: 1, ID: st.ID, Stable: cur.Stable, Salt: uuid.NewString(), Spec: spec, Starter: starter}
	if err := s.launch(ctx, in); err != nil {
		// If Temporal has started it all the same, its first transition brings the row back to life.
		return State{}, errors.Join(err, s.store.abandon(context.WithoutCancel(ctx), st.ID, s.now()))
	}
	return st, nil
}

// launch starts the workflow. The model's last rollout may show its end a moment before its own workflow is over: as long as
// nothing owns the assignment, launch waits for that.
func (s *Service) launch(ctx context.Context, in rolloutInput) error {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	flow, _ := in.Spec.names()
	for {
		_, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: workflowID(in.Spec.Model), TaskQueue: s.cfg.TaskQueue, WorkflowExecutionErrorWhenAlreadyStarted: true,
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
			WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		}, flow, in)
		if err = temporalError(err); !fault.Is(err, fault.CodeConflict) {
			return err
		}
		if _, taken := s.startable(ctx, in.Spec); taken != nil || !sleep.For(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

func workflowID(model string) string { return "rollout/" + model }

// startable returns the model's assignment if the candidate can be rolled out now.
func (s *Service) startable(ctx context.Context, spec Spec) (Assignment, error) {
	cur, err := s.deps.Routes.Assignment(ctx, spec.Model)
	if err != nil {
		return cur, err
	}
	known, err := s.deps.Routes.HasVersion(ctx, spec.Model, spec.Candidate)
	switch {
	case err != nil:
		return cur, err
	case !known:
		return cur, fault.New(fault.CodeNotFound, fault.Say("thing.version"), spec.Model+"@"+spec.Candidate).WithParam("candidate")
	case cur.Stable == "":
		return cur, fault.New(fault.CodeConflict, fault.Say("rollout.no_stable"))
	case cur.Stable == spec.Candidate:
		return cur, fault.New(fault.CodeConflict, fault.Say("rollout.candidate_is_stable"))
	case cur.Rollout != "":
		return cur, fault.New(fault.CodeConflict, fault.Say("rollout.abort_first"))
	}
	return cur, nil
}

// Approve lets a rollout leave its current step before the dwell is over, and opens a step that requires approval. It replaces
// no evidence: the step is left when, and only when, the verdict is Pass. share is the percentage of the step that was looked at;
// if the rollout has moved on since, the answer is CodeConflict. nil approves whatever step stands.
func (s *Service) Approve(ctx context.Context, id string, actor Actor, reason string, share *int) error {
	st, err := s.running(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	h, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID(st.Model), UpdateName: approveUpdate, WaitForStage: client.WorkflowUpdateStageCompleted,
		Args: []any{command{Rollout: id, Actor: actor, Reason: reason, Share: share}},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	return temporalError(err)
}

// Abort sends all conversations of the rollout's model back to the stable version. If Temporal is away, it moves the assignment
// itself; the workflow finds that later and ends.
func (s *Service) Abort(ctx context.Context, id string, actor Actor, reason string) error {
	st, err := s.running(ctx, id)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	err = temporalError(s.client.SignalWorkflow(wait, workflowID(st.Model), "", abortSignal, command{Rollout: id, Actor: actor, Reason: reason}))
	if err == nil || ctx.Err() != nil {
		return err
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "the abort goes past Temporal", slog.String("rollout", id), slog.String("error", err.Error()))
	return s.abortDirectly(ctx, st, actor, reason)
}

// abortDirectly performs the transition that the workflow would perform next, under the same id, so that the workflow's own
// attempt is a repetition of it.
func (s *Service) abortDirectly(ctx context.Context, st State, actor Actor, reason string) error {
	seq, err := s.store.latest(ctx, st.ID)
	if err != nil {
		return err
	}
	t := Transition{
		Seq: seq + 1, From: PhaseStarting, To: PhaseAborted, At: s.now().UnixMicro(), Actor: actor, Reason: reason,
	}
	t.ID = fmt.Sprintf("%s/%d", st.ID, t.Seq)
	if n := len(st.History); n > 0 {
		t.From = st.History[n-1].To
	}
	_, err = s.acts.Transition(ctx, transitionInput{
		Rollout: st.ID, Model: st.Model, Stable: st.Stable, Candidate: st.Candidate, Transition: t,
	})
	return err
}

func (s *Service) running(ctx context.Context, id string) (State, error) {
	st, err := s.store.get(ctx, id)
	if err == nil && finished(st.Phase) {
		err = fault.New(fault.CodeConflict, fault.Say("rollout.over", st.Phase))
	}
	return st, err
}

// Get returns one rollout with its history.
func (s *Service) Get(ctx context.Context, id string) (State, error) {
	st, err := s.store.get(ctx, id)
	return s.live(st), err
}

// List returns rollouts without their history, newest first, and the cursor of the next page, "" on the last.
func (s *Service) List(ctx context.Context, cursor string, limit int) (page []State, next string, err error) {
	if limit < 1 || limit > 200 {
		limit = 50
	}
	page, err = s.store.list(ctx, cursor, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	for i := range page {
		page[i] = s.live(page[i])
	}
	return page, next, nil
}

// Unjudged is a rollout whose candidate answers, or is about to, without a verdict since a time.
type Unjudged struct {
	State
	Since time.Time
}

// Unjudged returns the rollouts whose candidate has gone without a verdict for as long as a workflow that runs takes it back: Temporal, the workers
// or the statistics are away. One that is about to complete is none of them.
func (s *Service) Unjudged(ctx context.Context) ([]Unjudged, error) {
	ids, err := s.store.answering(ctx)
	if err != nil {
		return nil, err
	}
	var out []Unjudged
	for _, id := range ids {
		st, err := s.store.get(ctx, id)
		if err != nil {
			return nil, err
		}
		u := Unjudged{st, time.UnixMicro(max(st.CheckedAt, st.EnteredAt))}
		if n := len(st.History); n > 0 {
			last := st.History[n-1]
			if finished(st.Phase) || last.To == PhaseCompleted {
				continue
			}
			if st.Share == 0 { // the assignment may have moved, and the row comes after it
				u.Share, u.Since = last.Share, time.UnixMicro(last.At)
			}
		}
		if s.now().Sub(u.Since) >= st.Spec.unjudgedMost() {
			out = append(out, u)
		}
	}
	return out, nil
}

// live fills what depends on the clock: a step whose evidence passes and whose dwell is over waits for a person.
func (s *Service) live(st State) State {
	stood := s.now().Sub(time.UnixMicro(st.EnteredAt))
	st.Awaiting = !finished(st.Phase) && st.Decision.Outcome == Pass && stood >= st.Spec.Dwell && st.Spec.gated(st.Share)
	return st
}

// Evaluations returns the last evaluation of a rollout that [Service.Get] returned, nil before the first one on a step, and what its steps were
// left on, by the hash that the transition carries. [Verdict] of evidence and thresholds gives the decision again.
func (s *Service) Evaluations(ctx context.Context, st State) (last *Evaluation, left map[string]Evaluation, err error) {
	if left, err = s.store.evaluations(ctx, st); err != nil {
		return nil, nil, err
	}
	if st.Seen != nil {
		last = &Evaluation{At: st.CheckedAt, Evidence: *st.Seen, Thresholds: st.Spec.Thresholds, Decision: st.Decision}
	} else if kept, ok := left[st.Decision.Evidence]; ok {
		last = &kept
	}
	return last, left, nil
}

// Capacity returns the plan and what is in force; the plan is zero when there is none.
func (s *Service) Capacity(ctx context.Context) (Capacity, error) {
	c, _, err := s.store.capacity(ctx)
	return s.plan.current(c), err
}

// SetCapacity replaces the plan. It is in force within seconds, also while Temporal is away.
func (s *Service) SetCapacity(ctx context.Context, plan Plan, actor Actor, reason string) (Capacity, error) {
	c, err := s.plan.set(ctx, plan, actor, reason)
	return s.plan.current(c), err
}

// RemoveCapacity ends the plan: within seconds every replica runs at the concurrency of its configuration, also while Temporal is
// away. Its schedule there is deleted as soon as Temporal answers; until then it fires into nothing, since no plan is found. If the
// removal cannot be stored or audited, every engine keeps the value it has.
func (s *Service) RemoveCapacity(ctx context.Context, actor Actor, reason string) (Capacity, error) {
	c, err := s.plan.remove(ctx, actor, reason)
	return s.plan.current(c), err
}

// temporalError gives an error of the SDK its code.
func temporalError(err error) error {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &started):
		return fault.Wrap(err, fault.CodeConflict, fault.Say("rollout.abort_first"))
	case errors.As(err, &app) && app.Type() == errDenied:
		return fault.Wrap(err, fault.CodeSecondPerson)
	case errors.As(err, &app) && app.Type() == errConflict:
		return fault.Wrap(err, fault.CodeConflict, conflict(app))
	}
	return fault.Wrap(err, fault.CodeWorkflowUnavailable).WithRetryAfter(5 * time.Second)
}

// conflict says why the rollout refused an approval.
func conflict(app *temporal.ApplicationError) fault.Phrase {
	var phase string
	if app.HasDetails() && app.Details(&phase) == nil {
		return fault.Say("rollout.in_phase", phase)
	}
	return fault.Say("rollout.another_running")
}
