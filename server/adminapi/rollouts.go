package adminapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/workflows"
)

func actorOf(c *gin.Context) workflows.Actor {
	p := caller(c)
	return workflows.Actor{Kind: p.Kind, ID: p.ID, Name: p.Name}
}

// flows returns the workflow service, or fails the request where workflows are switched off.
func (s *Server) flows(c *gin.Context) (*workflows.Service, bool) {
	if s.deps.Workflows == nil {
		s.Fail(c, fault.New(fault.CodeWorkflowsOff))
		return nil, false
	}
	return s.deps.Workflows, true
}

// ListRollouts implements GET /rollouts.
func (s *Server) ListRollouts(c *gin.Context, params ListRolloutsParams) {
	flows, ok := s.flows(c)
	if !ok {
		return
	}
	limit := 50
	if params.Limit != nil {
		limit = *params.Limit
	}
	found, next, err := flows.List(c.Request.Context(), deref(params.Cursor), limit)
	out := RolloutPage{Items: []Rollout{}, Next: optional(next)}
	for _, st := range found {
		view := rolloutView(st)
		view.Metrics, view.History = nil, nil
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

// StartRollout implements POST /rollouts.
func (s *Server) StartRollout(c *gin.Context) {
	flows, ok := s.flows(c)
	if !ok {
		return
	}
	in, err := decode[NewRollout](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	spec := workflows.Spec{
		Model: in.Model, Candidate: in.Candidate, Steps: deref(in.Steps),
		Dwell: seconds(in.DwellSeconds), Deadline: seconds(in.DeadlineSeconds), Poll: seconds(in.PollSeconds),
		RequireApproval: deref(in.RequireApproval), Reason: deref(in.Reason),
	}
	spec.Thresholds.MinRequests = int64(deref(in.MinRequests))
	spec.Thresholds.MaxErrorRate = float64(deref(in.MaxErrorRateBasis)) / 10_000
	spec.Thresholds.LatencyRatio = float64(deref(in.MaxLatencyRatioPercent)) / 100
	st, err := flows.StartRollout(c.Request.Context(), spec, actorOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, st.ID, map[string]string{"model": st.Model, "candidate": st.Candidate})
	s.reply(c, http.StatusCreated, rolloutView(st), nil)
}

func seconds(n *int) time.Duration { return time.Duration(deref(n)) * time.Second }

// GetRollout implements GET /rollouts/{id}.
func (s *Server) GetRollout(c *gin.Context, id IdPath) {
	flows, ok := s.flows(c)
	if !ok {
		return
	}
	st, err := flows.Get(c.Request.Context(), id)
	if err != nil {
		s.Fail(c, err)
		return
	}
	view := rolloutView(st)
	if view.Evidence, err = s.evidence(c.Request.Context(), st); err != nil {
		s.Fail(c, err)
		return
	}
	if view.Evidence != nil {
		for i := range *view.Metrics {
			m := &(*view.Metrics)[i]
			m.Baseline.Samples, m.Candidate.Samples = view.Evidence.Stable.Requests, view.Evidence.Candidate.Requests
		}
	}
	s.reply(c, http.StatusOK, view, nil)
}

// evidence counts what both versions have answered: on the step that runs, as of now, so that people see the sample grow; for a
// rollout that is over, what its last verdict rests on. It is nil where nothing was judged.
func (s *Server) evidence(ctx context.Context, st workflows.State) (*RolloutEvidence, error) {
	if st.FinishedAt > 0 {
		if st.Decision.Evidence == "" {
			return nil, nil
		}
		ev, _, err := s.deps.Workflows.Evidence(ctx, st.Decision.Evidence)
		if err != nil {
			return nil, err
		}
		return &RolloutEvidence{
			Stable:    RolloutArm{Requests: ev.Stable.Requests, Errors: ev.Stable.Errors},
			Candidate: RolloutArm{Requests: ev.Candidate.Requests, Errors: ev.Candidate.Errors},
		}, nil
	}
	if st.EnteredAt == 0 {
		return nil, nil
	}
	arms, err := s.deps.Audit.ArmStats(ctx, st.ID, st.EnteredAt)
	if err != nil {
		return nil, err
	}
	out := &RolloutEvidence{Candidate: armView(arms["candidate"]), Stable: armView(arms["stable"])}
	if since := stableSince(st); since != st.EnteredAt {
		if arms, err = s.deps.Audit.ArmStats(ctx, st.ID, since); err != nil {
			return nil, err
		}
		out.Stable = armView(arms["stable"])
	}
	return out, nil
}

// stableSince is since when stable's answers count: on the last step, where it answers nothing any more, since the canary began.
func stableSince(st workflows.State) int64 {
	if st.Share < 100 {
		return st.EnteredAt
	}
	for _, t := range st.History {
		if t.Share > 0 && t.Share < 100 {
			return t.At
		}
	}
	return st.StartedAt
}

func armView(a audit.ArmStats) RolloutArm { return RolloutArm{Requests: a.Requests, Errors: a.Errors} }

// ApproveRollout implements POST /rollouts/{id}/approve.
func (s *Server) ApproveRollout(c *gin.Context, id IdPath) {
	flows, ok := s.flows(c)
	if !ok {
		return
	}
	in, err := decode[Approval](c)
	if err == nil {
		var share *int
		if in.ShareBasis != nil {
			percent := *in.ShareBasis / 100
			share = &percent
		}
		err = flows.Approve(c.Request.Context(), id, actorOf(c), in.Reason, share)
	}
	s.reply(c, http.StatusAccepted, nil, err)
}

// AbortRollout implements POST /rollouts/{id}/abort.
func (s *Server) AbortRollout(c *gin.Context, id IdPath) {
	flows, ok := s.flows(c)
	if !ok {
		return
	}
	in, err := decode[Reason](c)
	if err == nil {
		err = flows.Abort(c.Request.Context(), id, actorOf(c), in.Reason)
	}
	s.reply(c, http.StatusAccepted, nil, err)
}

// phases maps the states of a workflow to those of the document, which has one more: holding.
func phase(st workflows.State) RolloutPhase {
	switch {
	case st.Holding():
		return RolloutPhaseHolding
	case st.Phase == workflows.PhaseStarting:
		return RolloutPhaseBaseline
	default:
		return RolloutPhase(st.Phase)
	}
}

func rolloutView(st workflows.State) Rollout {
	th := st.Spec.Thresholds
	minRequests, dwell, deadline := int(th.MinRequests), int(st.Spec.Dwell/time.Second), int(st.Spec.Deadline/time.Second)
	poll := int(st.Spec.Poll / time.Second)
	errorBasis, ratio := int(th.MaxErrorRate*10_000+0.5), int(th.LatencyRatio*100+0.5)
	out := Rollout{
		Id: st.ID, Model: st.Model, Stable: st.Stable, Candidate: st.Candidate, Phase: phase(st), Step: max(st.Step, 0),
		ShareBasis: st.Share * 100, Steps: list(st.Spec.Steps), MinRequests: &minRequests, DwellSeconds: &dwell, DeadlineSeconds: &deadline,
		MaxErrorRateBasis: &errorBasis, MaxLatencyRatioPercent: &ratio, StartedAt: micros(st.StartedAt), StartedBy: name(st.Starter),
		Reason: optional(st.Decision.Reason), ReasonCode: optional(st.Decision.Code), PollSeconds: &poll, AwaitingApproval: &st.Awaiting,
		EnteredAt: instant(st.EnteredAt), CheckedAt: instant(st.CheckedAt), FinishedAt: instant(st.FinishedAt),
	}
	if len(st.Spec.RequireApproval) > 0 {
		out.RequireApproval = &st.Spec.RequireApproval
	}
	if st.Decision.Outcome != "" {
		v := verdictOf(st.Decision.Outcome)
		out.Verdict = &v
	}
	metrics := []RolloutMetric{}
	for _, check := range st.Decision.Checks {
		metrics = append(metrics, metricView(check, th, len(st.Decision.Checks)))
	}
	out.Metrics = &metrics
	history := []RolloutTransition{}
	for _, t := range st.History {
		history = append(history, RolloutTransition{
			From: t.From, To: t.To, ShareBasis: t.Share * 100, At: micros(t.At), Actor: name(t.Actor), Reason: t.Reason,
			Evidence: optional(t.Evidence), Receipt: optional(t.Audit),
		})
	}
	out.History = &history
	return out
}

func name(a workflows.Actor) string {
	if a.Name != "" {
		return a.Name
	}
	return a.ID
}

func verdictOf(o workflows.Outcome) Verdict {
	switch o {
	case workflows.Pass:
		return Same // within every limit
	case workflows.Fail:
		return Worse
	case workflows.Inconclusive, workflows.NoData:
		return Inconclusive
	default:
		return Inconclusive
	}
}

// metricView shows one of n checks: worse when its abort test is significant, same when it is shown to hold its limit, by the error
// probabilities of the verdict itself.
func metricView(check workflows.Check, th workflows.Thresholds, n int) RolloutMetric {
	m := RolloutMetric{Name: check.Name, Unit: Ratio, Verdict: Inconclusive}
	limit, scale := th.MaxErrorRate, 1.0
	switch check.Name {
	case "error_rate_cap":
	case "error_rate":
		limit = check.Stable + th.ErrorMargin
	default:
		m.Unit, scale = Us, 1e6
		limit = max(check.Stable*th.LatencyRatio, check.Stable+th.LatencyFloor.Seconds())
	}
	baseline, candidate, bound := check.Stable*scale, check.Candidate*scale, limit*scale
	if m.Unit == Ratio || baseline > 0 { // a latency of zero means that nothing was answered
		m.Baseline.Value, m.Limit = &baseline, &bound
	}
	if m.Unit == Ratio || candidate > 0 {
		m.Candidate.Value = &candidate
	}
	switch {
	case check.Worse <= th.AbortAlpha/float64(max(th.Looks*n, 1)):
		m.Verdict = Worse
	case check.Holds <= th.PromoteAlpha:
		m.Verdict = Same
	}
	return m
}

// GetCapacity implements GET /capacity.
func (s *Server) GetCapacity(c *gin.Context) {
	flows, ok := s.flows(c)
	if !ok {
		return
	}
	now, err := flows.Capacity(c.Request.Context())
	s.reply(c, http.StatusOK, capacityView(now), err)
}

// SetCapacity implements PUT /capacity.
func (s *Server) SetCapacity(c *gin.Context) {
	flows, ok := s.flows(c)
	if !ok {
		return
	}
	in, err := decode[CapacitySchedule](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	plan := workflows.Plan{Timezone: in.Timezone, PeakConcurrency: in.PeakConcurrency, ValleyConcurrency: in.ValleyConcurrency}
	for _, w := range in.Peak {
		plan.Peak = append(plan.Peak, workflows.Window{Days: deref(w.Days), From: w.From, To: w.To})
	}
	about(c, "capacity", nil)
	now, err := flows.SetCapacity(c.Request.Context(), plan, actorOf(c), "set through the management API")
	s.reply(c, http.StatusOK, capacityView(now), err)
}

func capacityView(x workflows.Capacity) Capacity {
	if x.Plan.IsZero() {
		out := Capacity{Scheduled: false}
		if x.Concurrency > 0 {
			out.Concurrency = &x.Concurrency
		}
		return out
	}
	slot := CapacityPhase(x.Slot)
	schedule := CapacitySchedule{
		Timezone: x.Plan.Timezone, PeakConcurrency: x.Plan.PeakConcurrency, ValleyConcurrency: x.Plan.ValleyConcurrency, Peak: []PeakWindow{},
	}
	for _, w := range x.Plan.Peak {
		view := PeakWindow{From: w.From, To: w.To}
		if len(w.Days) > 0 {
			view.Days = &w.Days
		}
		schedule.Peak = append(schedule.Peak, view)
	}
	return Capacity{Scheduled: true, Schedule: &schedule, Phase: &slot, Concurrency: &x.Concurrency}
}
