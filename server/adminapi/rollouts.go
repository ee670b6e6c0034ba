package adminapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/workflows"
)

func actorOf(c *gin.Context) workflows.Actor {
	p := caller(c)
	return workflows.Actor{Kind: p.Kind, ID: p.ID, Name: p.Name}
}

// ListRollouts implements GET /rollouts.
func (s *Server) ListRollouts(c *gin.Context, params ListRolloutsParams) {
	limit := 50
	if params.Limit != nil {
		limit = *params.Limit
	}
	found, next, err := s.deps.Workflows.List(c.Request.Context(), deref(params.Cursor), limit)
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
	st, err := s.deps.Workflows.StartRollout(c.Request.Context(), spec, actorOf(c))
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
	st, err := s.deps.Workflows.Get(c.Request.Context(), id)
	if err != nil {
		s.Fail(c, err)
		return
	}
	view := rolloutView(st)
	if st.Decision.Evidence != "" {
		// The counts stand in the recorded evidence; without it the figures are still true, so its absence is no error.
		if ev, _, err := s.deps.Workflows.Evidence(c.Request.Context(), st.Decision.Evidence); err == nil {
			for i := range *view.Metrics {
				(*view.Metrics)[i].Baseline.Samples, (*view.Metrics)[i].Candidate.Samples = ev.Stable.Requests, ev.Candidate.Requests
			}
		}
	}
	s.reply(c, http.StatusOK, view, nil)
}

// ApproveRollout implements POST /rollouts/{id}/approve.
func (s *Server) ApproveRollout(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err == nil {
		err = s.deps.Workflows.Approve(c.Request.Context(), id, actorOf(c), in.Reason)
	}
	s.reply(c, http.StatusAccepted, nil, err)
}

// AbortRollout implements POST /rollouts/{id}/abort.
func (s *Server) AbortRollout(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err == nil {
		err = s.deps.Workflows.Abort(c.Request.Context(), id, actorOf(c), in.Reason)
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
	errorBasis, ratio := int(th.MaxErrorRate*10_000+0.5), int(th.LatencyRatio*100+0.5)
	out := Rollout{
		Id: st.ID, Model: st.Model, Stable: st.Stable, Candidate: st.Candidate, Phase: phase(st), Step: max(st.Step, 0),
		ShareBasis: st.Share * 100, Steps: list(st.Spec.Steps), MinRequests: &minRequests, DwellSeconds: &dwell, DeadlineSeconds: &deadline,
		MaxErrorRateBasis: &errorBasis, MaxLatencyRatioPercent: &ratio, StartedAt: micros(st.StartedAt), StartedBy: name(st.Starter),
		Reason: optional(st.Decision.Reason),
	}
	if st.FinishedAt > 0 {
		at := micros(st.FinishedAt)
		out.FinishedAt = &at
	}
	if st.Decision.Outcome != "" {
		v := verdictOf(st.Decision.Outcome)
		out.Verdict = &v
	}
	metrics := []RolloutMetric{}
	for _, check := range st.Decision.Checks {
		metrics = append(metrics, metricView(check, th))
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

// metricView shows one check: worse when its abort test is significant, same when it is shown to hold its limit.
func metricView(check workflows.Check, th workflows.Thresholds) RolloutMetric {
	unit, scale := Ratio, 1.0
	if !strings.HasPrefix(check.Name, "error_rate") {
		unit, scale = Us, 1e6
	}
	baseline, candidate := check.Stable*scale, check.Candidate*scale
	m := RolloutMetric{
		Name: check.Name, Unit: unit, Verdict: Inconclusive,
		Baseline: RolloutSample{Value: &baseline}, Candidate: RolloutSample{Value: &candidate},
	}
	switch {
	case check.Worse <= th.AbortAlpha:
		m.Verdict = Worse
	case check.Holds <= th.PromoteAlpha:
		m.Verdict = Same
	}
	return m
}

// GetCapacity implements GET /capacity.
func (s *Server) GetCapacity(c *gin.Context) {
	now, err := s.deps.Workflows.Capacity(c.Request.Context())
	s.reply(c, http.StatusOK, capacityView(now), err)
}

// SetCapacity implements PUT /capacity.
func (s *Server) SetCapacity(c *gin.Context) {
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
	now, err := s.deps.Workflows.SetCapacity(c.Request.Context(), plan, actorOf(c), "set through the management API")
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
