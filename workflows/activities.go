package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	m     *metrics
}

type transitionInput struct {
	Rollout    string     `json:"rollout"`
	Model      string     `json:"model"`
	Stable     string     `json:"stable"`
	Candidate  string     `json:"candidate"`
	Salt       string     `json:"salt"`
	Transition Transition `json:"transition"`
}

type evaluateInput struct {
	Rollout     string     `json:"rollout"`
	Model       string     `json:"model"`
	Phase       string     `json:"phase"`
	Since       int64      `json:"since"`
	StableSince int64      `json:"stable_since"`
	Thresholds  Thresholds `json:"thresholds"`
	Record      bool       `json:"record"` // keep the evidence even if it decides nothing
}

type evaluateOutput struct {
	Decision Decision `json:"decision"`
}

// Transition performs one transition and returns the id of its audit record. Forward moves are audited before they act, so that
// nothing unrecorded is ever tried on callers; going back acts first, since safety does not wait for the log.
func (a *activities) Transition(ctx context.Context, in transitionInput) (string, error) {
	t := in.Transition
	known, err := a.store.transition(ctx, in.Rollout, t)
	if errors.Is(err, errOvertaken) {
		return "", temporal.NewNonRetryableApplicationError(err.Error(), errSuperseded, nil)
	}
	if err != nil {
		return "", err
	}
	steps := []func() error{
		func() error { return a.record(ctx, in, &known) },
		func() error { return a.assign(ctx, in) },
	}
	if t.To == PhaseRolledBack || t.To == PhaseAborted || t.To == PhaseFailed {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return "", err
		}
	}
	if err := a.store.entered(ctx, in.Rollout, t); err != nil {
		return "", err
	}
	a.m.transitions.WithLabelValues(phaseOf(t.To)).Inc()
	return known, nil
}

// record appends the transition to the audit log unless its row already carries a record's id.
func (a *activities) record(ctx context.Context, in transitionInput, known *string) error {
	if *known != "" {
		return nil
	}
	t := in.Transition
	id, err := a.deps.Audit.Append(ctx, Record{
		Actor: t.Actor, Action: "rollout.transition", Resource: in.Model, Rollout: in.Rollout,
		Detail: map[string]string{
			"transition": t.ID, "from": t.From, "to": t.To, "share": strconv.Itoa(t.Share), "reason": t.Reason,
			"stable": in.Stable, "candidate": in.Candidate, "evidence": t.Evidence,
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
		return temporal.NewNonRetryableApplicationError(fault.Public(err).Message(fault.English), errRefused, nil)
	}
	if err != nil {
		return fmt.Errorf("set assignment: %w", err)
	}
	return nil
}

// Evaluate gathers the evidence, decides, and keeps what a decision rests on.
func (a *activities) Evaluate(ctx context.Context, in evaluateInput) (evaluateOutput, error) {
	cur, err := a.deps.Routes.Assignment(ctx, in.Model)
	if err != nil {
		return evaluateOutput{}, fmt.Errorf("read assignment: %w", err)
	}
	if cur.Rollout != in.Rollout {
		return evaluateOutput{}, temporal.NewNonRetryableApplicationError("the assignment belongs to somebody else", errSuperseded, nil)
	}
	ev := Evidence{Schema: evidenceSchema, Rollout: in.Rollout, Phase: in.Phase}
	arms, err := a.deps.Stats.ArmStats(ctx, in.Rollout, in.Since)
	if err != nil {
		return evaluateOutput{}, fmt.Errorf("read statistics: %w", err)
	}
	ev.Candidate = armOf(arms["candidate"], in.Since)
	if in.StableSince != in.Since {
		if arms, err = a.deps.Stats.ArmStats(ctx, in.Rollout, in.StableSince); err != nil {
			return evaluateOutput{}, fmt.Errorf("read statistics: %w", err)
		}
	}
	ev.Stable = armOf(arms["stable"], in.StableSince)
	d := Verdict(ev, in.Thresholds)
	a.m.verdicts.WithLabelValues(string(d.Outcome)).Inc()
	if in.Record || d.Outcome == Pass || d.Outcome == Fail {
		if err := a.store.keep(ctx, ev, in.Thresholds, d, a.now()); err != nil {
			return evaluateOutput{}, err
		}
	} else {
		d.Evidence = "" // not kept, so nothing may refer to it
	}
	if err := a.store.checked(ctx, in.Rollout, d, a.now()); err != nil {
		return evaluateOutput{}, err
	}
	return evaluateOutput{Decision: d}, nil
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
