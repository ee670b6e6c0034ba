package adminapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/workflows"
)

func actorOf(c *gin.Context) workflows.Actor {
	p := caller(c)
	return workflows.Actor{Kind: p.Kind, ID: p.ID, Name: p.Name}
}

// rolloutService returns the workflow service, or fails the request where workflows are switched off.
func (s *Server) rolloutService(c *gin.Context) (*workflows.Service, bool) {
	if s.deps.Workflows == nil {
		s.Fail(c, fault.New(fault.CodeWorkflowsOff))
		return nil, false
	}
	return s.deps.Workflows, true
}

// ListRollouts implements GET /rollouts.
func (s *Server) ListRollouts(c *gin.Context, params ListRolloutsParams) {
	flows, ok := s.rolloutService(c)
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
		view := rolloutView(st, language(c.GetHeader("Accept-Language")))
		view.History = nil
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

// StartRollout implements POST /rollouts.
func (s *Server) StartRollout(c *gin.Context) {
	flows, ok := s.rolloutService(c)
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
		RequireApproval: deref(in.RequireApproval), Reason: deref(in.Reason), AcceptLosses: deref(in.AcceptLosses), Preset: string(deref(in.Preset)),
	}
	for _, g := range deref(in.Gates) {
		spec.Gates = append(spec.Gates, workflows.Gate{
			Metric: string(g.Metric), Quantile: deref(g.Quantile), Margin: deref(g.Margin), Floor: time.Duration(deref(g.FloorMs)) * time.Millisecond,
			MinSample: deref(g.MinSample), Alpha: deref(g.Alpha),
		})
	}
	for _, g := range deref(in.Without) {
		spec.Without = append(spec.Without, workflows.RemovedGate(g))
	}
	for _, r := range deref(in.Results) {
		spec.Results = append(spec.Results, workflows.Results{
			Suite: r.Suite, Digest: r.Digest, Both: r.Both, OnlyStable: r.OnlyStable, OnlyCandidate: r.OnlyCandidate, Neither: r.Neither,
		})
	}
	spec.Thresholds = workflows.Thresholds{
		MinRequests: int64(deref(in.MinRequests)), MaxErrorRate: float64(deref(in.MaxErrorRateBasis)) / basis,
		ErrorMargin: float64(deref(in.ErrorMarginBasis)) / basis, Quantile: float64(deref(in.LatencyQuantileBasis)) / basis,
		LatencyRatio: float64(deref(in.MaxLatencyRatioPercent)) / 100, LatencyFloor: time.Duration(deref(in.LatencyFloorMs)) * time.Millisecond,
		PromoteAlpha: deref(in.PromoteAlpha), AbortAlpha: deref(in.AbortAlpha),
	}
	st, err := flows.StartRollout(c.Request.Context(), spec, actorOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{"model": st.Model, "candidate": st.Candidate}
	if len(st.Spec.AcceptLosses) > 0 {
		detail["accept_losses"] = truncate(strings.Join(st.Spec.AcceptLosses, " "), maxResource)
	}
	detail["preset"], detail["promote_alpha"], detail["min_requests"] = st.Spec.Preset, fmt.Sprint(st.Spec.Thresholds.PromoteAlpha), fmt.Sprint(st.Spec.Thresholds.MinRequests)
	for i, r := range st.Spec.Results {
		detail[fmt.Sprintf("suite.%d", i)] = truncate(r.Suite+" "+r.Digest, maxResource)
	}
	for _, g := range st.Spec.OwnGates() { // a margin that is wide enough is as good as no gate
		detail["gate."+g.Name()] = fmt.Sprintf("margin %g, floor %v, alpha %g, sample %d", g.Margin, g.Floor, g.Alpha, g.MinSample)
	}
	for _, g := range st.Spec.Without {
		detail["without."+g.Gate] = truncate(g.Reason, maxResource)
	}
	about(c, st.ID, detail)
	s.reply(c, http.StatusCreated, rolloutView(st, language(c.GetHeader("Accept-Language"))), nil)
}

// basis is the whole of shares and rates in the document.
const basis = 10_000

func seconds(n *int) time.Duration { return time.Duration(deref(n)) * time.Second }

// GetRollout implements GET /rollouts/{id}.
func (s *Server) GetRollout(c *gin.Context, id IdPath, params GetRolloutParams) {
	flows, ok := s.rolloutService(c)
	if !ok {
		return
	}
	st, err := flows.Get(c.Request.Context(), id)
	if err != nil {
		s.Fail(c, err)
		return
	}
	last, left, err := flows.Evaluations(c.Request.Context(), st)
	if err != nil {
		s.Fail(c, err)
		return
	}
	lang := language(c.GetHeader("Accept-Language"))
	view := rolloutView(st, lang)
	if last != nil {
		_, kept := left[last.Evidence.Hash()]
		seen := evaluationView(*last, kept, lang)
		if st.FinishedAt == 0 {
			estimateRequestsNeeded(seen.Metrics, *last)
		}
		view.Evidence = &seen
	}
	history := []RolloutTransition{}
	for _, t := range st.History {
		history = append(history, transitionView(t, st.Spec.Thresholds, left, lang))
	}
	view.History = &history
	if deref(params.Sealed) {
		for i, t := range st.History {
			if l, kept := left[t.Evidence]; kept && history[i].Look != nil {
				history[i].Look.Sealed = optional(l.Sealed())
			}
		}
	}
	s.reply(c, http.StatusOK, view, nil)
}

// ApproveRollout implements POST /rollouts/{id}/approve.
func (s *Server) ApproveRollout(c *gin.Context, id IdPath) {
	flows, ok := s.rolloutService(c)
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
	flows, ok := s.rolloutService(c)
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

func rolloutView(st workflows.State, lang fault.Lang) Rollout {
	th := st.Spec.Thresholds
	dwell, deadline, poll := int(st.Spec.Dwell/time.Second), int(st.Spec.Deadline/time.Second), int(st.Spec.Poll/time.Second)
	out := Rollout{
		Id: st.ID, Model: st.Model, Stable: st.Stable, Candidate: st.Candidate, Phase: phase(st), Step: max(st.Step, 0),
		ShareBasis: st.Share * 100, Steps: list(st.Spec.Steps), Thresholds: thresholdsView(th), DwellSeconds: &dwell, DeadlineSeconds: &deadline,
		StartedAt: micros(st.StartedAt), StartedBy: name(st.Starter), ReasonCode: optional(st.Decision.Code), PollSeconds: &poll,
		AwaitingApproval: &st.Awaiting, EnteredAt: optionalMicros(st.EnteredAt), CheckedAt: optionalMicros(st.CheckedAt), FinishedAt: optionalMicros(st.FinishedAt),
	}
	if preset := RolloutPreset(st.Spec.Preset); preset != "" {
		out.Preset = &preset
	}
	if len(st.Spec.Without) > 0 {
		removed := []RemovedRolloutGate{}
		for _, g := range st.Spec.Without {
			removed = append(removed, RemovedRolloutGate(g))
		}
		out.Without = &removed
	}
	if len(st.Spec.Results) > 0 {
		results := []SuiteResults{}
		for _, r := range st.Spec.Results {
			results = append(results, SuiteResults{
				Suite: r.Suite, Digest: r.Digest, Both: r.Both, OnlyStable: r.OnlyStable, OnlyCandidate: r.OnlyCandidate, Neither: r.Neither,
			})
		}
		out.Results = &results
	}
	out.NextAnalysisAt = optionalMicros(st.NextAnalysis())
	if len(st.Spec.AcceptLosses) > 0 {
		out.AcceptLosses = &st.Spec.AcceptLosses
	}
	if len(st.Spec.RequireApproval) > 0 {
		out.RequireApproval = &st.Spec.RequireApproval
	}
	if st.Decision.Outcome != "" {
		v := verdictOf(st.Decision.Outcome)
		out.Verdict, out.Reason = &v, optional(st.Decision.Sentence(th).In(lang))
	}
	return out
}

func thresholdsView(th workflows.Thresholds) RolloutThresholds {
	out := RolloutThresholds{
		MinRequests: th.MinRequests, MaxErrorRateBasis: rounded(th.MaxErrorRate * basis), ErrorMarginBasis: rounded(th.ErrorMargin * basis),
		LatencyQuantileBasis: rounded(th.Quantile * basis), MaxLatencyRatioPercent: rounded(th.LatencyRatio * 100),
		LatencyFloorMs: th.LatencyFloor.Milliseconds(), PromoteAlpha: th.PromoteAlpha, AbortAlpha: th.AbortAlpha, Looks: th.Looks,
	}
	if len(th.Gates) == 0 {
		return out
	}
	gates := []RolloutGate{}
	for _, g := range th.Gates {
		view := RolloutGate{
			Name: g.Name(), Metric: RolloutGateMetric(g.Metric), Direction: RolloutGateDirection(g.Direction), Margin: g.Margin, MinSample: g.MinSample,
			Source: RolloutGateSource(g.Source), Alpha: g.Alpha,
		}
		if g.Quantile > 0 {
			view.Quantile = &g.Quantile
		}
		if ms := g.Floor.Milliseconds(); ms > 0 {
			view.FloorMs = &ms
		}
		gates = append(gates, view)
	}
	out.Gates = &gates
	return out
}

func rounded(v float64) int { return int(v + 0.5) }

// transitionView shows a transition with the last evaluation of what it left.
func transitionView(t workflows.Transition, th workflows.Thresholds, left map[string]workflows.Evaluation, lang fault.Lang) RolloutTransition {
	out := RolloutTransition{
		From: t.From, To: t.To, ShareBasis: t.Share * 100, At: micros(t.At), Actor: name(t.Actor), BySystem: t.Actor.Kind == "system",
		Evidence: optional(t.Evidence), Receipt: optional(t.Audit),
	}
	var evaluation *workflows.Evaluation
	if kept, ok := left[t.Evidence]; ok {
		evaluation = &kept
		view := evaluationView(kept, true, lang)
		out.Look = &view
	}
	code, why := t.Why(th, evaluation)
	out.ReasonCode, out.Reason = optional(code), why.In(lang)
	return out
}

func evaluationView(l workflows.Evaluation, kept bool, lang fault.Lang) RolloutEvidence {
	d := l.Decision
	out := RolloutEvidence{
		At: micros(l.At), Stage: l.Evidence.Phase, Hash: l.Evidence.Hash(), Kept: kept, Stable: armView(l, l.Evidence.Stable),
		Candidate: armView(l, l.Evidence.Candidate), Metrics: []RolloutMetric{}, Thresholds: thresholdsView(l.Thresholds),
		Verdict: verdictOf(d.Outcome), ReasonCode: d.Code, Reason: d.Sentence(l.Thresholds).In(lang),
	}
	if d.Look > 0 {
		out.Look, out.Looks = &d.Look, &d.Looks
	}
	for _, check := range d.Checks {
		out.Metrics = append(out.Metrics, metricView(l, check, lang))
	}
	return out
}

func armView(l workflows.Evaluation, a workflows.Arm) RolloutArm {
	out := RolloutArm{Since: micros(a.Since), Requests: a.Requests, Errors: a.Errors}
	first, total := l.Quantiles(a)
	if first > 0 {
		out.FirstTokenUs = &first
	}
	if total > 0 {
		out.TotalUs = &total
	}
	return out
}

func metricView(l workflows.Evaluation, check workflows.Check, lang fault.Lang) RolloutMetric {
	th := l.Thresholds
	m := RolloutMetric{
		Name: check.Name, Title: check.Title(th).In(lang), Unit: RolloutMetricUnitRatio, LimitText: check.LimitText(th).In(lang),
		State: RolloutCheckState(l.Decision.State(check, th)), Proof: l.Decision.Proof(check, th).In(lang),
		BrokenP: check.Worse, BrokenAlpha: th.AbortShare(),
	}
	m.HoldsP, m.HoldsAlpha = l.Level(check)
	m.Baseline.Samples, m.Candidate.Samples = l.Evidence.Stable.Requests, l.Evidence.Candidate.Requests
	scale := 1.0
	switch check.Unit() {
	case "seconds":
		m.Unit, scale = RolloutMetricUnitUs, 1e6
	case "tokens":
		m.Unit = RolloutMetricUnitTokens
	case "nanos":
		m.Unit = RolloutMetricUnitNanos
	}
	if check.Sample > 0 {
		m.Baseline.Samples, m.Candidate.Samples = check.Sample, check.Sample
	}
	if low, value, high, limit, ok := check.Range(th); ok {
		m.Interval = &RolloutInterval{Value: value, Low: low, High: high, Limit: limit}
	}
	baseline, candidate := check.Stable*scale, check.Candidate*scale
	if m.Unit == RolloutMetricUnitRatio && m.Baseline.Samples > 0 || baseline > 0 { // a latency of zero means that nothing was answered
		m.Baseline.Value = &baseline
	}
	if m.Unit == RolloutMetricUnitRatio && m.Candidate.Samples > 0 || candidate > 0 {
		m.Candidate.Value = &candidate
	}
	if limit, known := check.Limit(th); known {
		limit *= scale
		m.Limit = &limit
	}
	return m
}

// estimateRequestsNeeded says of the checks of a running step that do not hold yet how many more requests they are likely to need.
func estimateRequestsNeeded(metrics []RolloutMetric, l workflows.Evaluation) {
	for i := range metrics {
		m := &metrics[i]
		if m.State != Unproven && m.State != TooLittleData {
			continue
		}
		if stable, candidate, ok := l.RequestsNeeded(m.Name); ok {
			m.Needs = &RolloutNeeds{Stable: stable, Candidate: candidate}
		}
	}
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

// GetCapacity implements GET /capacity.
func (s *Server) GetCapacity(c *gin.Context) {
	flows, ok := s.rolloutService(c)
	if !ok {
		return
	}
	now, err := flows.Capacity(c.Request.Context())
	s.reply(c, http.StatusOK, s.capacityView(now), err)
}

// SetCapacity implements PUT /capacity.
func (s *Server) SetCapacity(c *gin.Context) {
	flows, ok := s.rolloutService(c)
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
		plan.Peak = append(plan.Peak, scaling.Window{Days: deref(w.Days), From: w.From, To: w.To})
	}
	about(c, "capacity", nil)
	now, err := flows.SetCapacity(c.Request.Context(), plan, actorOf(c), "set through the management API")
	s.reply(c, http.StatusOK, s.capacityView(now), err)
}

// RemoveCapacity implements DELETE /capacity.
func (s *Server) RemoveCapacity(c *gin.Context) {
	flows, ok := s.rolloutService(c)
	if !ok {
		return
	}
	about(c, "capacity", nil)
	now, err := flows.RemoveCapacity(c.Request.Context(), actorOf(c), "removed through the management API")
	s.reply(c, http.StatusOK, s.capacityView(now), err)
}

func (s *Server) capacityView(x workflows.Capacity) Capacity {
	out := Capacity{Scheduled: !x.Plan.IsZero(), Instances: s.engineInstances()}
	if x.Configured > 0 {
		out.Configured = &x.Configured
	}
	if x.Concurrency > 0 {
		out.Concurrency = &x.Concurrency
	}
	if !out.Scheduled {
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
	out.Schedule, out.Phase = &schedule, &slot
	return out
}
