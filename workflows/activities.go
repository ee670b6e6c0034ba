package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sluice-project/sluice/internal/fault"
)

// activities are the effects of the workflows. Temporal may run each of them more than once: the transition's id, its row and
// the assignment's owner make a repetition harmless. The one thing that can happen twice is an audit record, when the process
// dies between the append and noting its id; both then carry the same transition id.
type activities struct {
	deps  Deps
	store *store
	plan  *capacity
	now   func() time.Time
	log   *slog.Logger
	m     *metrics
	// settleTimeout is how long a transition waits for statistics: if they hang it has to come to its end all the same.
	settleTimeout time.Duration
}

type transitionInput struct {
	Rollout    string     `json:"rollout"`
	Model      string     `json:"model"`
	Stable     string     `json:"stable"`
	Candidate  string     `json:"candidate"`
	Salt       string     `json:"salt"`
	Transition Transition `json:"transition"`
	// Since when the arms count on the step that is left, as its evaluations have it: sums are kept for these very times. 0: as the database has it.
	Since    int64 `json:"since,omitempty"`
	StableAt int64 `json:"stable_at,omitempty"`
}

type evaluateInput struct {
	Rollout     string     `json:"rollout"`
	Model       string     `json:"model"`
	Phase       string     `json:"phase"`
	Since       int64      `json:"since"`
	StableSince int64      `json:"stable_since"`
	StableAt    int64      `json:"stable_at,omitempty"` // since when stable counts on the last step, whatever this one is
	Thresholds  Thresholds `json:"thresholds"`
	Record      bool       `json:"record"` // keep the evidence even if it decides nothing

	Candidate    string     `json:"candidate,omitempty"`
	Needed       *Abilities `json:"needed,omitempty"` // of the candidate
	AcceptLosses []string   `json:"accept_losses,omitempty"`
	// Of rollouts with gates, as in [Evidence].
	Look    int       `json:"look,omitempty"`
	Looks   int       `json:"looks,omitempty"`
	Last    bool      `json:"last,omitempty"`
	Confirm bool      `json:"confirm,omitempty"`
	Proven  string    `json:"proven,omitempty"`
	Results []Results `json:"results,omitempty"`

	Now int64 `json:"now,omitempty"` // by the clock of the workflow; 0: by that of the activity
}

type evaluateOutput struct {
	Decision Decision `json:"decision"`
}

// Transition performs one transition and returns the id of its audit record. Forward moves are audited before they act, so that
// nothing unrecorded is ever tried on callers; going back acts first, since safety does not wait for the log.
func (a *activities) Transition(ctx context.Context, in transitionInput) (string, error) {
	t := in.Transition
	known, evidence, err := a.store.transition(ctx, in.Rollout, t)
	if errors.Is(err, errOvertaken) {
		return "", temporal.NewNonRetryableApplicationError(err.Error(), errSuperseded, nil)
	}
	if err != nil {
		return "", err
	}
	in.Transition.Evidence = evidence
	record := func() error { return a.record(ctx, in, &known) }
	assign := func() error { return a.assign(ctx, in) }
	settle := func() error { return a.settle(ctx, &in) }
	steps := []func() error{settle, record, assign}
	if t.To == PhaseRolledBack || t.To == PhaseAborted || t.To == PhaseFailed {
		steps = []func() error{assign, settle, record}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return "", err
		}
	}
	if err := a.store.entered(ctx, in.Rollout, in.Transition); err != nil {
		return "", err
	}
	if finished(phaseOf(t.To)) {
		bounded, cancel := context.WithTimeout(ctx, a.settleTimeout)
		defer cancel()
		if err := a.deps.Stats.ForgetArmSums(bounded, in.Rollout); err != nil { // what is left goes after 90 days
			a.log.LogAttrs(ctx, slog.LevelWarn, "what was summed up of a rollout is kept", slog.String("rollout", in.Rollout), slog.String("error", err.Error()))
		}
	}
	a.m.transitions.WithLabelValues(phaseOf(t.To)).Inc()
	return known, nil
}

// settle keeps the last look at what is left, if the transition does not name its evidence yet: people stop a rollout between two
// looks, and what it stood on then must stay readable. A step that nobody has looked at is looked at now; while the statistics
// are away, going back is worth more than that.
func (a *activities) settle(ctx context.Context, in *transitionInput) error {
	if in.Transition.Evidence != "" {
		return nil
	}
	st, err := a.store.get(ctx, in.Rollout)
	if err != nil || st.EnteredAt == 0 || finished(st.Phase) {
		return err
	}
	ev, d, at := st.Seen, st.Decision, time.UnixMicro(st.CheckedAt)
	if ev == nil {
		stage := in.Transition.From
		since, stable := or(in.Since, st.EnteredAt), stableSince(st)
		if st.Share < 100 {
			stable = since
		} else if in.StableAt > 0 {
			stable = in.StableAt
		}
		bounded, cancel := context.WithTimeout(ctx, a.settleTimeout)
		defer cancel()
		now, err := a.gather(bounded, evaluateInput{
			Rollout: st.ID, Model: st.Model, Phase: stage, Since: since, StableSince: stable,
			Candidate: st.Candidate, Needed: st.Spec.Needed, AcceptLosses: st.Spec.AcceptLosses, Thresholds: st.Spec.Thresholds, Results: st.Spec.Results,
		})
		if err != nil {
			a.log.LogAttrs(ctx, slog.LevelWarn, "a rollout goes back without evidence of its last step", slog.String("rollout", st.ID), slog.String("error", err.Error()))
			return nil
		}
		ev, at = &now, a.now()
		d = Verdict(now, st.Spec.Thresholds)
		if err := a.store.checked(ctx, now, d, at); err != nil {
			return err
		}
	}
	d.Evidence = ev.Hash()
	if err := a.store.saveEvidence(ctx, *ev, st.Spec.Thresholds, d, at); err != nil {
		return err
	}
	in.Transition.Evidence = d.Evidence
	return a.store.settled(ctx, in.Transition.ID, d.Evidence)
}

// stableSince is since when stable's answers count on the last step, where it answers nothing any more: since the canary began.
func stableSince(st State) int64 {
	for _, t := range st.History {
		if t.Share > 0 && t.Share < 100 {
			return t.At
		}
	}
	return st.StartedAt
}

// record appends the transition to the audit log unless its row already carries a record's id.
func (a *activities) record(ctx context.Context, in transitionInput, known *string) error {
	if *known != "" {
		return nil
	}
	t, cause := in.Transition, ""
	if t.Cause != nil { // the code with its figures; the reason is its English form
		var err error
		if cause, err = encode(t.Cause); err != nil {
			return err
		}
	}
	id, err := a.deps.Audit.Append(ctx, Record{
		Actor: t.Actor, Action: "rollout.transition", Resource: in.Model, Rollout: in.Rollout,
		Detail: map[string]string{
			"transition": t.ID, "from": t.From, "to": t.To, "share": strconv.Itoa(t.Share), "reason": t.Reason,
			"stable": in.Stable, "candidate": in.Candidate, "evidence": t.Evidence, "cause": cause,
		},
	})
	if err != nil {
		return fmt.Errorf("audit transition %s: %w", t.ID, err)
	}
	*known = id
	return a.store.audited(ctx, t.ID, id)
}

// assign moves the assignment, if this rollout still owns it. An operator who changed it meanwhile keeps the last word.
func (a *activities) assign(ctx context.Context, in transitionInput) error {
	cur, err := a.deps.Routes.Assignment(ctx, in.Model)
	if err != nil {
		return fmt.Errorf("read assignment: %w", err)
	}
	next := Assignment{Model: in.Model, Stable: in.Stable, Salt: in.Salt}
	forward := true
	switch t := in.Transition; t.To {
	case PhaseCompleted:
		next.Stable = in.Candidate
		if cur.Rollout == "" && cur.Stable == in.Candidate {
			return nil // done by an earlier attempt
		}
	case PhaseRolledBack, PhaseAborted, PhaseFailed:
		forward = false
		if cur.Rollout != in.Rollout {
			return nil // never taken, given back by an earlier attempt, or taken away by an operator
		}
	default:
		next.Candidate, next.Basis, next.Rollout = in.Candidate, t.Share*100, in.Rollout
	}
	first := in.Transition.Seq == 1 && cur.Rollout == "" && cur.Stable == in.Stable
	if forward && cur.Rollout != in.Rollout && !first {
		return temporal.NewNonRetryableApplicationError("the assignment belongs to somebody else", errSuperseded, nil)
	}
	newer, err := a.store.superseded(ctx, in.Rollout, in.Transition.Seq)
	if err != nil || newer {
		return err // a later transition was begun: this is an attempt that outlived its timeout
	}
	err = a.deps.Routes.SetAssignment(ctx, next)
	if forward && err != nil && slices.Contains([]fault.Kind{fault.Invalid, fault.NotFound, fault.Denied}, fault.KindOf(err)) {
		public := fault.Public(err)
		return temporal.NewNonRetryableApplicationError(public.Message(fault.English), errRefused, nil, public.Message(fault.Chinese))
	}
	if err != nil {
		return fmt.Errorf("set assignment: %w", err)
	}
	return nil
}

// gatherMost leaves an evaluation the time to say that it got no further.
const gatherMost = 15 * time.Second

// Evaluate gathers the evidence, decides, and keeps what a decision rests on.
func (a *activities) Evaluate(ctx context.Context, in evaluateInput) (evaluateOutput, error) {
	cur, err := a.deps.Routes.Assignment(ctx, in.Model)
	if err != nil {
		return evaluateOutput{}, fmt.Errorf("read assignment: %w", err)
	}
	if cur.Rollout != in.Rollout {
		return evaluateOutput{}, temporal.NewNonRetryableApplicationError("the assignment belongs to somebody else", errSuperseded, nil)
	}
	if len(in.Thresholds.Gates) > 0 {
		if err := a.deps.Stats.ForgetArmSums(ctx, in.Rollout, in.Since, in.StableSince, in.StableAt); err != nil { // of earlier steps
			return evaluateOutput{}, fmt.Errorf("forget statistics: %w", err)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, gatherMost)
	defer cancel()
	ev, err := a.gather(bounded, in)
	if errors.Is(err, ErrCounting) {
		return evaluateOutput{}, temporal.NewNonRetryableApplicationError(err.Error(), errCounting, nil)
	}
	if err != nil {
		return evaluateOutput{}, err
	}
	d := Verdict(ev, in.Thresholds)
	a.m.verdicts.WithLabelValues(string(d.Outcome)).Inc()
	// Between the analyses of a rollout with gates a step may pass for days, and nothing refers to it: what it is left on is kept by settle.
	idle := len(in.Thresholds.Gates) > 0 && in.Look == 0
	if in.Record || d.Outcome == Fail || d.Outcome == Pass && !idle {
		if err := a.store.saveEvidence(ctx, ev, in.Thresholds, d, a.now()); err != nil {
			return evaluateOutput{}, err
		}
	} else {
		d.Evidence = "" // kept only if the step ends on it, so nothing may refer to it yet
	}
	if err := a.store.checked(ctx, ev, d, a.now()); err != nil {
		return evaluateOutput{}, err
	}
	return evaluateOutput{Decision: d}, nil
}

// gather counts what both arms did, and looks at what the candidate can do.
func (a *activities) gather(ctx context.Context, in evaluateInput) (Evidence, error) {
	if len(in.Thresholds.Gates) > 0 {
		return a.gatherSums(ctx, in)
	}
	ev := Evidence{Schema: evidenceSchema, Rollout: in.Rollout, Phase: in.Phase}
	arms, err := a.deps.Stats.ArmStats(ctx, in.Rollout, in.Since)
	if err != nil {
		return ev, fmt.Errorf("read statistics: %w", err)
	}
	ev.Candidate = armOf(arms["candidate"], in.Since)
	if in.StableSince != in.Since {
		if arms, err = a.deps.Stats.ArmStats(ctx, in.Rollout, in.StableSince); err != nil {
			return ev, fmt.Errorf("read statistics: %w", err)
		}
	}
	ev.Stable = armOf(arms["stable"], in.StableSince)
	if err := a.compare(ctx, in, &ev); err != nil {
		return ev, fmt.Errorf("read abilities: %w", err)
	}
	return ev, nil
}

// gatherSums does the same for a rollout with gates: sums over every request, what earlier steps ended on, and the results of suites.
func (a *activities) gatherSums(ctx context.Context, in evaluateInput) (Evidence, error) {
	ev := Evidence{
		Schema: gateSchema, Rollout: in.Rollout, Phase: in.Phase, Look: in.Look, Looks: in.Looks, Last: in.Last, Confirm: in.Confirm, Proven: in.Proven,
		Limits: in.Thresholds.digest(),
	}
	candidate, err := a.deps.Stats.ArmSums(ctx, in.Rollout, "candidate", in.Since)
	if err != nil {
		return ev, fmt.Errorf("read statistics: %w", err)
	}
	stable, err := a.deps.Stats.ArmSums(ctx, in.Rollout, "stable", in.StableSince)
	if err != nil {
		return ev, fmt.Errorf("read statistics: %w", err)
	}
	ev.Candidate, ev.Stable = armOfSums(candidate, in.Since), armOfSums(stable, in.StableSince)
	if in.Last && !in.Confirm {
		if ev.Earlier, err = a.store.earlier(ctx, in.Rollout); err != nil {
			return ev, err
		}
	}
	ev.Results = in.Results
	if err := a.compare(ctx, in, &ev); err != nil {
		return ev, fmt.Errorf("read abilities: %w", err)
	}
	return ev, nil
}

func armOfSums(s ArmSums, since int64) Arm {
	sums := s.Sums
	slices.SortFunc(sums.Tenants, func(a, b TenantCounts) int { return strings.Compare(a.Tenant, b.Tenant) })
	return Arm{
		Since: since, Requests: int64(sums.Failures.N), Errors: int64(sums.Failures.Y),
		FirstToken: sortedBins(s.FirstToken), Total: sortedBins(s.Total), Sums: &sums,
	}
}

func armOf(s ArmStats, since int64) Arm {
	return Arm{Since: since, Requests: s.Requests, Errors: s.Errors, FirstToken: bins(s.FirstToken), Total: bins(s.Total)}
}

// encode is for the JSON columns; the values are ours and always encode.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", errors.Join(errors.New("encode"), err)
	}
	return string(b), nil
}
