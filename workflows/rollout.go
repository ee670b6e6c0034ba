package workflows

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Names under which Temporal knows the parts of a rollout. They are part of stored histories: never change one.
const (
	rolloutName    = "Rollout"
	gatesName      = "RolloutByGates" // releases of before there were gates do not know it: they must not judge by the rules of before
	approveUpdate  = "approve"
	abortSignal    = "abort"
	stateQuery     = "state"
	transitionName = "RolloutTransition"
	evaluateName   = "RolloutEvaluate"
	gatesEvaluate  = "RolloutEvaluateGates"
	unjudgedChange = "unjudged"

	errSuperseded = "superseded" // somebody else owns the assignment now
	errCounting   = "counting"   // statistics are on their way
	errRefused    = "refused"    // the router will never accept the assignment
	errDenied     = "denied"
	errConflict   = "conflict"
)

// rolloutInput is version 1 of the workflow's argument. Resume carries the progress over a continue-as-new.
type rolloutInput struct {
	Schema  int       `json:"schema"`
	ID      string    `json:"id"`
	Stable  string    `json:"stable"`
	Salt    string    `json:"salt"`
	Spec    Spec      `json:"spec"`
	Starter Actor     `json:"starter"`
	Resume  *progress `json:"resume,omitempty"`
}

// names returns the workflow type and the activity that evaluates. A worker of an earlier release leaves out the gates of what it decodes, so
// it must not find the names: then the rollout waits for a worker that knows them.
func (s Spec) names() (flow, evaluate string) {
	if len(s.Thresholds.Gates) > 0 {
		return gatesName, gatesEvaluate
	}
	return rolloutName, evaluateName
}

type progress struct {
	Seq   int `json:"seq"` // of the latest transition begun, also if it was abandoned
	Stage int `json:"stage"`
	// StableAt is since when stable's evidence counts once the candidate has every conversation: the start of the canary, or of
	// the baseline if there is no partial step.
	StableAt int64    `json:"stable_at"`
	Approval *command `json:"approval,omitempty"`
	// Analysed is the number of the latest analysis of the step that was used, Proven the evidence on which it passed.
	Analysed int    `json:"analysed,omitempty"`
	Proven   string `json:"proven,omitempty"`
	// Missed is how many evaluations in a row could not be made, but for those that are on their way.
	Missed int   `json:"missed,omitempty"`
	State  State `json:"state"`
}

// command is what a person asks of a running rollout.
type command struct {
	Rollout string `json:"rollout"`
	Actor   Actor  `json:"actor"`
	Reason  string `json:"reason"`
	// Share is the percentage at which an approval was decided; nil approves whatever step stands.
	Share *int `json:"share,omitempty"`
}

// run is one execution of the workflow. Workflow code is single-threaded, so nothing here needs a lock.
type run struct {
	in rolloutInput
	progress
	abort *command
}

func rolloutActor() Actor { return Actor{Kind: "system", ID: "rollout"} }

// rollout takes a candidate from no traffic to all of it, or back. It is pure orchestration: every effect is an activity, every
// decision comes from one, and the only clock is the workflow's.
func rollout(ctx workflow.Context, in rolloutInput) (State, error) {
	r := newRun(ctx, in)
	if err := r.listen(ctx); err != nil {
		return r.State, err
	}
	for r.Stage <= len(in.Spec.Steps) {
		if r.State.Phase == PhaseStarting || r.State.History[len(r.State.History)-1].To != in.Spec.stageName(r.Stage) {
			if err := r.advance(ctx); err != nil {
				return r.rollBack(ctx, err)
			}
		}
		again, err := r.observeStage(ctx)
		if err != nil {
			return r.rollBack(ctx, err)
		}
		if again {
			in.Resume = &r.progress
			flow, _ := in.Spec.names()
			return r.State, workflow.NewContinueAsNewError(ctx, flow, in)
		}
		r.Stage++
	}
	if err := r.complete(ctx); err != nil {
		return r.rollBack(ctx, err)
	}
	return r.State, r.drain(ctx)
}

func newRun(ctx workflow.Context, in rolloutInput) *run {
	r := &run{in: in}
	if in.Resume != nil {
		r.progress = *in.Resume
		return r
	}
	r.State = State{
		ID: in.ID, Model: in.Spec.Model, Stable: in.Stable, Candidate: in.Spec.Candidate, Spec: in.Spec, Starter: in.Starter,
		Phase: PhaseStarting, Step: -1, StartedAt: workflow.Now(ctx).UnixMicro(),
	}
	return r
}

// listen answers queries and takes approvals and the abort. An abort is a signal, since it must be accepted whatever state the
// workflow is in and even while no worker runs; an approval is an update, since the person is told at once if it is refused.
func (r *run) listen(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, stateQuery, func() (State, error) { return r.State, nil }); err != nil {
		return err
	}
	err := workflow.SetUpdateHandlerWithOptions(ctx, approveUpdate, func(_ workflow.Context, c command) error {
		r.Approval = &c
		return nil
	}, workflow.UpdateHandlerOptions{Validator: r.mayApprove})
	if err != nil {
		return err
	}
	aborts := workflow.GetSignalChannel(ctx, abortSignal)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var c command
			if !aborts.Receive(ctx, &c) {
				return
			}
			r.acceptAbort(c)
		}
	})
	return nil
}

// acceptAbort takes the first abort that is meant for this rollout; one for an earlier rollout of the model is stale.
func (r *run) acceptAbort(c command) {
	if c.Rollout == r.in.ID && r.abort == nil {
		r.abort = &c
	}
}

// aborted takes what has arrived but was not read yet, and reports whether the rollout must stop.
func (r *run) aborted(ctx workflow.Context) bool {
	aborts := workflow.GetSignalChannel(ctx, abortSignal)
	for c := (command{}); aborts.ReceiveAsync(&c); c = (command{}) {
		r.acceptAbort(c)
	}
	return r.abort != nil
}

func (r *run) mayApprove(_ workflow.Context, c command) error {
	switch {
	case c.Rollout != r.in.ID:
		return temporal.NewApplicationError("another rollout of this model is running", errConflict)
	case r.State.Phase != PhaseBaseline && r.State.Phase != PhaseCanary:
		return temporal.NewApplicationError("the rollout is in the phase "+r.State.Phase, errConflict, r.State.Phase)
	case c.Share != nil && *c.Share != r.State.Share: // the evidence that was looked at was another step's
		return temporal.NewApplicationError("the rollout has moved on", errConflict, r.State.History[len(r.State.History)-1].To)
	case r.in.Spec.SecondPerson && c.Actor.ID == r.in.Starter.ID:
		return temporal.NewApplicationError("the person who started the rollout may not approve it", errDenied)
	}
	return nil
}

// advance enters the current stage: audited first, then the assignment moves.
func (r *run) advance(ctx workflow.Context) error {
	why := r.advanceCause()
	if r.Stage == 0 {
		why = byActor(r.in.Starter, r.in.Spec.Reason)
	}
	if err := r.interruptible(ctx, r.newTransition(ctx, r.in.Spec.stageName(r.Stage), why)); err != nil {
		return err
	}
	r.Approval = nil // it was meant for the step that is left now
	r.State.Phase, r.State.Step, r.State.Share = PhaseCanary, r.Stage-1, r.in.Spec.share(r.Stage)
	if r.Stage == 0 {
		r.State.Phase = PhaseBaseline
	}
	r.State.EnteredAt = workflow.Now(ctx).UnixMicro()
	if r.in.Spec.share(r.Stage) < 100 && r.Stage <= 1 {
		r.StableAt = r.State.EnteredAt
	}
	r.State.Decision, r.State.Awaiting = Decision{}, false
	r.Analysed, r.Proven = 0, ""
	return nil
}

func (r *run) complete(ctx workflow.Context) error {
	if err := r.interruptible(ctx, r.newTransition(ctx, PhaseCompleted, r.advanceCause())); err != nil {
		return err
	}
	r.finish(ctx, PhaseCompleted, 100)
	return nil
}

// causation is who makes a transition and for what reason: a person's own words, or a cause of the system's.
type causation struct {
	actor  Actor
	reason string
	cause  *Cause
}

func byActor(actor Actor, reason string) causation { return causation{actor: actor, reason: reason} }

func (r *run) causedBy(c Cause) causation {
	return causation{actor: rolloutActor(), reason: c.Sentence(r.in.Spec.Thresholds).String(), cause: &c}
}

// advanceCause is why the rollout moves on: the person who approved, else the evidence.
func (r *run) advanceCause() causation {
	if r.Approval != nil {
		return byActor(r.Approval.Actor, r.Approval.Reason)
	}
	d := r.State.Decision
	return r.causedBy(Cause{Code: causeVerdict, Decision: &d})
}

// stop is why a rollout goes back.
type stop struct {
	phase string
	why   causation
}

func (s *stop) Error() string { return s.phase + ": " + s.why.reason }

// rollBack sends all conversations back to stable, in a context that outlives a cancellation, and retries until it is done.
func (r *run) rollBack(ctx workflow.Context, cause error) (State, error) {
	s := &stop{PhaseRolledBack, r.causedBy(Cause{Code: causeStopped, English: cause.Error()})}
	if !errors.As(cause, &s) && ctx.Err() != nil {
		s = &stop{PhaseAborted, r.causedBy(Cause{Code: causeCancelled})}
	}
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t := r.newTransition(ctx, s.phase, s.why)
	if err := r.perform(ctx, t); err != nil {
		return r.State, fmt.Errorf("take the rollout back: %w", err)
	}
	r.finish(ctx, s.phase, 0)
	return r.State, r.drain(ctx)
}

func (r *run) finish(ctx workflow.Context, phase string, share int) {
	r.State.Phase, r.State.Share, r.State.Awaiting = phase, share, false
	r.State.FinishedAt = workflow.Now(ctx).UnixMicro()
}

// drain lets update handlers end before the workflow does.
func (r *run) drain(ctx workflow.Context) error {
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// observeStage looks at the evidence until the stage is over. It returns again = true when the history has grown so long that the
// workflow should continue as a new run.
func (r *run) observeStage(ctx workflow.Context) (again bool, err error) {
	spec := r.in.Spec
	for {
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) && !r.aborted(ctx) {
			return true, nil
		}
		approval := r.Approval
		_, err := workflow.AwaitWithTimeout(ctx, spec.Poll, func() bool { return r.abort != nil || r.Approval != approval })
		if err != nil {
			return false, err
		}
		stood := workflow.Now(ctx).Sub(time.UnixMicro(r.State.EnteredAt))
		late := stood >= spec.Deadline
		d, err := r.evaluate(ctx, late)
		if err != nil {
			return false, err
		}
		approved := r.Approval != nil
		gated := spec.gated(spec.share(r.Stage))
		due := stood >= spec.Dwell || approved && len(spec.Thresholds.Gates) == 0 // by gates an approval brings nothing forward
		r.State.Awaiting = d.Outcome == Pass && due && gated && !approved
		switch {
		case r.unjudged(ctx):
			return false, &stop{PhaseRolledBack, r.causedBy(Cause{Code: causeUnjudged})}
		case d.Outcome == Fail:
			return false, &stop{PhaseRolledBack, r.causedBy(Cause{Code: causeVerdict, Decision: &d})}
		case d.Outcome == Pass && due && !r.State.Awaiting:
			return false, nil
		case d.Outcome != Pass && late:
			return false, &stop{PhaseRolledBack, r.causedBy(Cause{Code: causeDeadline, Decision: &d})}
		}
	}
}

// missedMost is how many evaluations in a row may be missed, however long that takes: one that is late since no worker ran says little.
const missedMost = 5

// unjudged reports whether the candidate has answered for too long while no verdict could be made: nothing would stop a bad one. Rollouts that had come
// to this before there was such a rule go on to the deadline.
func (r *run) unjudged(ctx workflow.Context) bool {
	since := time.UnixMicro(max(r.State.CheckedAt, r.State.EnteredAt))
	return r.State.Share > 0 && r.Missed >= missedMost && workflow.Now(ctx).Sub(since) >= r.in.Spec.unjudgedMost() &&
		workflow.GetVersion(ctx, unjudgedChange, workflow.DefaultVersion, 1) == 1
}

// evaluate asks for a verdict. An outage is missing data: it holds the step, takes the candidate back if it lasts, and at the deadline it counts
// against the candidate.
func (r *run) evaluate(ctx workflow.Context, record bool) (Decision, error) {
	ask := evaluateInput{
		Rollout: r.in.ID, Model: r.in.Spec.Model, Phase: r.in.Spec.stageName(r.Stage), Since: r.State.EnteredAt,
		StableSince: r.State.EnteredAt, StableAt: r.StableAt, Thresholds: r.in.Spec.Thresholds, Record: record,
		Candidate: r.in.Spec.Candidate, Needed: r.in.Spec.Needed, AcceptLosses: r.in.Spec.AcceptLosses,
		Now: workflow.Now(ctx).UnixMicro(),
	}
	if r.in.Spec.share(r.Stage) == 100 { // stable answers nothing any more: compare with what it did before
		ask.StableSince = r.StableAt
	}
	r.plan(ctx, &ask)
	ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    20 * time.Second,
		ScheduleToCloseTimeout: 2 * time.Minute,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, MaximumInterval: 15 * time.Second, NonRetryableErrorTypes: []string{errSuperseded},
		},
	}))
	defer cancel()
	var out evaluateOutput
	_, name := r.in.Spec.names()
	err := r.unlessAborted(ctx, cancel, workflow.ExecuteActivity(ctx, name, ask), &out)
	switch {
	case err == nil:
		r.State.Decision, r.State.CheckedAt, r.Missed = out.Decision, workflow.Now(ctx).UnixMicro(), 0
		r.analysed(ask, out.Decision)
	case isStop(err), temporal.IsCanceledError(err):
		return Decision{}, err
	default:
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != errCounting {
			r.Missed++
		}
		r.State.Decision = Decision{}.say(NoData, unavailableEvidence, r.in.Spec.Thresholds)
	}
	return r.State.Decision, nil
}

// plan says which analysis an evaluation is. An analysis may promote, so each is used once; an evaluation that failed has not used it.
func (r *run) plan(ctx workflow.Context, ask *evaluateInput) {
	spec := r.in.Spec
	if len(spec.Thresholds.Gates) == 0 {
		return
	}
	share := spec.share(r.Stage)
	partial := share < 100
	next := 100
	if r.Stage < len(spec.Steps) {
		next = spec.share(r.Stage + 1)
	}
	ask.Looks, ask.Proven, ask.Results = spec.analyses(), r.Proven, spec.Results
	ask.Last = share > 0 && (next == 100 || !partial)
	ask.Confirm = !partial && r.Stage > 1
	if n := spec.analysisAt(workflow.Now(ctx).Sub(time.UnixMicro(r.State.EnteredAt))); n > r.Analysed {
		ask.Look = n
	}
}

func (r *run) analysed(ask evaluateInput, d Decision) {
	if ask.Look == 0 {
		return
	}
	r.Analysed = ask.Look
	if d.Outcome == Pass && r.Proven == "" { // the proof stands by itself: later ones lean on it
		r.Proven = d.Evidence
	}
}

func isStop(err error) bool {
	var s *stop
	return errors.As(err, &s)
}

// unlessAborted waits for an activity or for the abort, whichever comes first; the activity is cancelled and awaited then, as its
// options say.
func (r *run) unlessAborted(ctx workflow.Context, cancel func(), f workflow.Future, out any) error {
	if err := workflow.Await(ctx, func() bool { return r.abort != nil || f.IsReady() }); err != nil {
		return err
	}
	if r.abort != nil {
		cancel()
		_ = f.Get(ctx, nil) // the outcome does not matter, only that it cannot act after the retreat
		return &stop{PhaseAborted, byActor(r.abort.Actor, r.abort.Reason)}
	}
	err := f.Get(ctx, out)
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		switch app.Type() {
		case errSuperseded:
			return &stop{PhaseAborted, r.causedBy(Cause{Code: causeSuperseded})}
		case errRefused:
			c := Cause{Code: causeRefused, English: app.Message()}
			if app.HasDetails() {
				_ = app.Details(&c.Chinese) // an earlier release sends none; the English form serves
			}
			return &stop{PhaseFailed, r.causedBy(c)}
		}
	}
	return err
}

// newTransition begins the next transition. Its id depends on the rollout and the number of the transition alone; one that was abandoned
// keeps its number, so that what follows is not taken for its repetition.
func (r *run) newTransition(ctx workflow.Context, to string, w causation) Transition {
	r.Seq++
	t := Transition{
		Seq: r.Seq, From: PhaseStarting, To: to, At: workflow.Now(ctx).UnixMicro(), Actor: w.actor, Reason: w.reason,
		Cause: w.cause, Evidence: r.State.Decision.Evidence,
	}
	t.ID = fmt.Sprintf("%s/%d", r.in.ID, t.Seq)
	if n := len(r.State.History); n > 0 {
		t.From = r.State.History[n-1].To
	}
	switch to {
	case PhaseCompleted:
		t.Share = 100
	case PhaseRolledBack, PhaseAborted, PhaseFailed:
	default:
		t.Share = r.in.Spec.share(r.Stage)
	}
	return t
}

// interruptible performs a forward transition until it succeeds, is refused, or somebody aborts.
func (r *run) interruptible(ctx workflow.Context, t Transition) error {
	ctx, cancel := workflow.WithCancel(transitionOptions(ctx))
	defer cancel()
	var audit string
	if err := r.unlessAborted(ctx, cancel, workflow.ExecuteActivity(ctx, transitionName, r.transition(t)), &audit); err != nil {
		return err
	}
	t.Audit = audit
	r.State.History = append(r.State.History, t)
	return nil
}

func (r *run) perform(ctx workflow.Context, t Transition) error {
	var audit string
	ctx = transitionOptions(ctx)
	if err := workflow.ExecuteActivity(ctx, transitionName, r.transition(t)).Get(ctx, &audit); err != nil {
		return err
	}
	t.Audit = audit
	r.State.History = append(r.State.History, t)
	return nil
}

func (r *run) transition(t Transition) transitionInput {
	return transitionInput{
		Rollout: r.in.ID, Model: r.in.Spec.Model, Stable: r.in.Stable, Candidate: r.in.Spec.Candidate, Salt: r.in.Salt, Transition: t,
		Since: r.State.EnteredAt, StableAt: r.StableAt,
	}
}

// transitionOptions retry for ever: an outage of the database or of the audit log holds the rollout where it is. A cancelled
// attempt is awaited, so that it cannot move the assignment after the retreat has.
func transitionOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, MaximumInterval: 15 * time.Second, MaximumAttempts: math.MaxInt32,
			NonRetryableErrorTypes: []string{errSuperseded, errRefused},
		},
	})
}
