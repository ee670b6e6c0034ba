package workflows

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// The phases of a rollout. A rollout that is starting has its row and no transition yet.
const (
	PhaseStarting   = "starting"
	PhaseBaseline   = "baseline"
	PhaseCanary     = "canary"
	PhaseCompleted  = "completed"
	PhaseRolledBack = "rolled_back"
	PhaseAborted    = "aborted"
	PhaseFailed     = "failed"
)

// Spec asks for a rollout. The zero value of an optional field means its default.
type Spec struct {
	Model     string `json:"model"`
	Candidate string `json:"candidate"` // version that shall become stable
	// Steps are the shares in percent, rising, the last 100. Default 20, 40, 80, 100.
	Steps []int `json:"steps"`
	// RequireApproval lists the steps that a person must approve before they are left; 0 stands for the baseline.
	RequireApproval []int `json:"require_approval,omitempty"`
	// Preset is standard or trial; "" are the rules of before there were gates, which are those of a trial. [Service.StartRollout] makes it standard.
	Preset string `json:"preset,omitempty"`
	// Gates are added to those of the preset; one with the name of a preset's replaces it. What counts is in Thresholds.Gates.
	Gates []Gate `json:"gates,omitempty"`
	// Without takes gates of the preset out, each with a reason.
	Without []RemovedGate `json:"without,omitempty"`
	// Results are what both versions made of evaluation suites before the rollout; the gate accuracy reads them.
	Results []Results `json:"results,omitempty"`
	// Dwell is the least time on a step. Default 3 days, in a trial 10 minutes.
	Dwell time.Duration `json:"dwell"`
	// Deadline is the time on a step after which missing or undecided evidence takes the rollout back. Default three times Dwell, in a trial
	// 24 hours.
	Deadline time.Duration `json:"deadline"`
	// Poll is the time between two evaluations. Default one minute, in a trial 10 seconds.
	Poll       time.Duration `json:"poll"`
	Thresholds Thresholds    `json:"thresholds"`
	// AcceptLosses are features that stable is known to have and the candidate need not have; "context_tokens" accepts a shorter context.
	AcceptLosses []string `json:"accept_losses,omitempty"`
	// Needed is what stable was known to do when the rollout was started. The service sets it.
	Needed *Abilities `json:"needed,omitempty"`
	// Reason says, for the audit record, why this is done.
	Reason string `json:"reason,omitempty"`
	// SecondPerson demands that approvals come from somebody else than the starter. The installation's configuration sets it.
	SecondPerson bool `json:"second_person,omitempty"`
}

// Actor is who caused a transition. The rollout itself acts as {system, rollout}.
type Actor struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// State is a rollout as people see it.
type State struct {
	ID        string `json:"id"`
	Model     string `json:"model"`
	Stable    string `json:"stable"`
	Candidate string `json:"candidate"`
	Spec      Spec   `json:"spec"`
	Starter   Actor  `json:"starter"`
	Phase     string `json:"phase"`
	// Step is the index into Spec.Steps while the phase is canary, -1 before.
	Step int `json:"step"`
	// Share is the percentage of conversations that the candidate answers.
	Share    int      `json:"share"`
	Decision Decision `json:"decision"`
	// Awaiting is true while the evidence passes and a person must approve.
	Awaiting bool `json:"awaiting"`
	// Times are UTC unix microseconds; zero means not yet.
	StartedAt  int64        `json:"started_at"`
	EnteredAt  int64        `json:"entered_at"`
	CheckedAt  int64        `json:"checked_at"`
	FinishedAt int64        `json:"finished_at"`
	History    []Transition `json:"history,omitempty"`
	// Seen is what Decision was made of at CheckedAt. Only the database has it: a workflow's history stays small.
	Seen *Evidence `json:"-"`
}

// Transition is one change of phase or share. Its id makes repeated attempts one.
type Transition struct {
	ID    string `json:"id"`
	Seq   int    `json:"seq"`
	From  string `json:"from"`
	To    string `json:"to"`
	Share int    `json:"share"`
	At    int64  `json:"at"`
	Actor Actor  `json:"actor"`
	// Reason is what a person wrote, or the English form of Cause.
	Reason   string `json:"reason"`
	Cause    *Cause `json:"cause,omitempty"`
	Evidence string `json:"evidence,omitempty"` // hash of the last look at what was left
	Audit    string `json:"audit,omitempty"`    // id of the audit record
}

// Holding reports whether the rollout stands still because evidence is missing or undecided, or because a person must approve.
func (s State) Holding() bool {
	running := s.Phase == PhaseBaseline || s.Phase == PhaseCanary
	return running && (s.Awaiting || s.Decision.Outcome == NoData || s.Decision.Outcome == Inconclusive)
}

func (s Spec) withDefaults() Spec {
	if len(s.Steps) == 0 {
		s.Steps = []int{20, 40, 80, 100}
	}
	if s.Preset == Standard {
		s.Dwell = or(s.Dwell, 3*24*time.Hour)
		s.Deadline = or(s.Deadline, 3*s.Dwell)
		s.Poll = or(s.Poll, min(time.Minute, s.Dwell))
		s.Thresholds.MinRequests = or(s.Thresholds.MinRequests, 1000)
		s.Thresholds = s.Thresholds.withDefaults(len(s.Steps))
		s.Thresholds.Gates = gatesFor(s.Gates, s.Without, s.Thresholds)
		return s
	}
	s.Dwell = or(s.Dwell, 10*time.Minute)
	s.Deadline = or(s.Deadline, 24*time.Hour)
	s.Poll = or(s.Poll, min(10*time.Second, s.Dwell))
	s.Thresholds = s.Thresholds.withDefaults(len(s.Steps))
	return s
}

// unjudgedMost is how long the candidate may answer while no verdict can be made.
func (s Spec) unjudgedMost() time.Duration { return max(30*time.Minute, missedMost*s.Poll) }

// check refuses a specification that cannot run, naming the field.
func (s Spec) check() error {
	bad := func(field string, want fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, field, want).WithParam(field)
	}
	switch {
	case s.Model == "" || len(s.Model) > 256:
		return bad("model", fault.Say("rollout.name_length"))
	case s.Candidate == "" || len(s.Candidate) > 256:
		return bad("candidate", fault.Say("rollout.name_length"))
	case len(s.Reason) > 1024:
		return bad("reason", fault.Say("rollout.reason_length"))
	case len(s.Steps) > 20:
		return bad("steps", fault.Say("rollout.step_count"))
	case s.Steps[len(s.Steps)-1] != 100:
		return bad("steps", fault.Say("rollout.last_step"))
	case s.Poll < 100*time.Millisecond || s.Poll > time.Hour:
		return bad("poll", fault.Say("rollout.poll_range"))
	case s.Dwell < s.Poll || s.Dwell > 30*24*time.Hour:
		return bad("dwell", fault.Say("rollout.dwell_range"))
	case s.Deadline <= s.Dwell || s.Deadline > 90*24*time.Hour:
		return bad("deadline", fault.Say("rollout.deadline_range"))
	}
	for i, step := range s.Steps {
		if step < 1 || step > 100 || i > 0 && step <= s.Steps[i-1] {
			return bad(fmt.Sprintf("steps[%d]", i), fault.Say("rollout.shares"))
		}
	}
	for i, step := range s.RequireApproval {
		if step != 0 && !slices.Contains(s.Steps, step) {
			return bad(fmt.Sprintf("require_approval[%d]", i), fault.Say("rollout.approval_step"))
		}
	}
	for i, name := range s.AcceptLosses {
		if !losable(name) {
			return bad(fmt.Sprintf("accept_losses[%d]", i), fault.Say("rollout.no_feature"))
		}
	}
	if err := s.checkGates(bad); err != nil {
		return err
	}
	if field, want := s.Thresholds.problem(); field != "" {
		return bad("thresholds."+field, want)
	}
	return nil
}

// stageName is what a transition calls a stage: stage 0 is the baseline, stage i is step i-1.
func (s Spec) stageName(stage int) string {
	if stage == 0 {
		return PhaseBaseline
	}
	return fmt.Sprintf("%s-%d", PhaseCanary, s.Steps[stage-1])
}

func (s Spec) share(stage int) int {
	if stage == 0 {
		return 0
	}
	return s.Steps[stage-1]
}

// gated reports whether a person must approve before the step with this share is left.
func (s Spec) gated(share int) bool { return slices.Contains(s.RequireApproval, share) }
