package workflows

import (
	"math"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// Outcome is what the evidence of a step says.
type Outcome string

// The outcomes. Only Pass promotes; only Fail takes a rollout back before its deadline.
const (
	Pass         Outcome = "pass"
	Fail         Outcome = "fail"
	Inconclusive Outcome = "inconclusive"
	NoData       Outcome = "no_data"
)

// Thresholds say what a candidate must hold. The zero value of a field means its default.
type Thresholds struct {
	// MinRequests is what each arm must have answered in a step before it can pass. Default 200.
	MinRequests int64 `json:"min_requests"`
	// MaxErrorRate is the share of failed requests no candidate may exceed, whatever stable does. Default 0.10.
	MaxErrorRate float64 `json:"max_error_rate"`
	// ErrorMargin is how much higher than stable's the candidate's error rate may be. Default 0.05.
	ErrorMargin float64 `json:"error_margin"`
	// Quantile of the latencies that are compared. Default 0.95.
	Quantile float64 `json:"quantile"`
	// LatencyRatio is how many times stable's quantile the candidate's may be. Default 1.5.
	LatencyRatio float64 `json:"latency_ratio"`
	// LatencyFloor is a difference of latency that never counts. Default 50 ms.
	LatencyFloor time.Duration `json:"latency_floor"`
	// PromoteAlpha bounds the probability that a step passes although the candidate breaks a limit. Default 0.01.
	PromoteAlpha float64 `json:"promote_alpha"`
	// AbortAlpha bounds the probability that the whole rollout is taken back although the candidate holds every limit. Default 0.01.
	AbortAlpha float64 `json:"abort_alpha"`
	// Evaluations is the number of steps AbortAlpha is shared between; it is set from the steps of the rollout.
	Looks int `json:"looks"`
	// Gates are what a rollout with the preset standard is judged by; ErrorMargin, Quantile, LatencyRatio and LatencyFloor say nothing then.
	Gates []Gate `json:"gates,omitempty"`
}

const (
	defaultErrorMargin  = 0.05
	defaultQuantile     = 0.95
	defaultLatencyRatio = 1.5
	defaultLatencyFloor = 50 * time.Millisecond
)

func (t Thresholds) withDefaults(steps int) Thresholds {
	t.MinRequests = or(t.MinRequests, 200)
	t.MaxErrorRate = or(t.MaxErrorRate, 0.10)
	t.ErrorMargin = or(t.ErrorMargin, defaultErrorMargin)
	t.Quantile = or(t.Quantile, defaultQuantile)
	t.LatencyRatio = or(t.LatencyRatio, defaultLatencyRatio)
	t.LatencyFloor = or(t.LatencyFloor, defaultLatencyFloor)
	t.PromoteAlpha = or(t.PromoteAlpha, 0.01)
	t.AbortAlpha = or(t.AbortAlpha, 0.01)
	t.Looks = steps
	return t
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// problem names the first field that is out of range and what it should be; the name is empty when all is well. NaN fails every
// comparison below and is therefore refused.
func (t Thresholds) problem() (field string, want fault.Phrase) {
	below := func(v, limit float64) bool { return v > 0 && v < limit }
	switch {
	case t.MinRequests < 1:
		return "min_requests", fault.Say("value.at_least_one")
	case !below(t.MaxErrorRate, 1):
		return "max_error_rate", fault.Say("value.fraction")
	case !below(t.ErrorMargin, 1):
		return "error_margin", fault.Say("value.fraction")
	case !(t.Quantile >= 0.5 && t.Quantile <= 0.999):
		return "quantile", fault.Say("rollout.quantile_range")
	case !(t.LatencyRatio >= 1 && t.LatencyRatio <= 100):
		return "latency_ratio", fault.Say("rollout.ratio_range")
	case t.LatencyFloor < 0 || t.LatencyFloor > time.Hour:
		return "latency_floor", fault.Say("rollout.floor_range")
	case !below(t.PromoteAlpha, 0.5):
		return "promote_alpha", fault.Say("rollout.alpha_range")
	case !below(t.AbortAlpha, 0.5):
		return "abort_alpha", fault.Say("rollout.alpha_range")
	case t.Looks < 1:
		return "looks", fault.Say("value.at_least_one")
	}
	for _, g := range t.Gates {
		if field, want := g.problem(); field != "" {
			return "gates." + field, want
		}
	}
	return "", fault.Phrase{}
}

// Decision is a verdict with its reasons. Evidence is the hash of what it rests on. Readers get [Decision.Sentence], which is made
// of the code and the figures; Reason is its English form, for logs and audit records.
type Decision struct {
	Outcome   Outcome `json:"outcome"`
	Code      string  `json:"code"`
	Reason    string  `json:"reason"`
	Evidence  string  `json:"evidence"`
	Stable    *Counts `json:"stable,omitempty"`
	Candidate *Counts `json:"candidate,omitempty"` // nil on the baseline
	Checks    []Check `json:"checks,omitempty"`
	// Lost is what the candidate cannot do, or is not known to do yet, if that is what decides.
	Lost []string `json:"lost,omitempty"`
	// Look says which of the planned analyses of the step this is; 0 between them, and where there are no gates.
	Look  int `json:"look,omitempty"`
	Looks int `json:"looks,omitempty"`
}

// Counts is how many requests an arm answered, and how many of them failed.
type Counts struct {
	Requests int64 `json:"requests"`
	Errors   int64 `json:"errors"`
}

// Check is one comparison. Worse and Holds are p-values valid at any time: Worse small means that the limit is broken, Holds
// small that it is kept.
type Check struct {
	Name      string  `json:"name"`
	Stable    float64 `json:"stable"`    // error rate, or latency quantile in seconds
	Candidate float64 `json:"candidate"` // the same
	Worse     float64 `json:"worse"`
	Holds     float64 `json:"holds"`
	// Of gates: the p-value over all partial steps, on the last of them; the effect with its interval; the smaller sample; and the tenant whom
	// the check is about.
	Pooled *float64     `json:"pooled,omitempty"`
	Effect *EffectRange `json:"effect,omitempty"`
	Sample int64        `json:"sample,omitempty"`
	Tenant string       `json:"tenant,omitempty"`
	// Kept says that the check holds at this analysis.
	Kept bool `json:"kept,omitempty"`
}

// Verdict decides a step from its evidence. It is pure: the same arguments give the same decision, in the workflow and at the
// auditor's desk.
//
// Fail needs proof that a limit is broken, and is looked for before the minimum of requests is reached: five failures in five
// requests are proof, one in one is not. The error probability AbortAlpha is shared evenly between the steps and the four rules,
// so that it holds for the rollout as a whole. Pass needs proof that every limit is kept, each at PromoteAlpha; since all proofs
// are needed, the probability of passing wrongly is at most PromoteAlpha without any sharing. What is neither is Inconclusive.
//
// A candidate that for two minutes is not known any more to do what stable was known to do when the rollout began, and still does, fails, whatever was
// counted. Before that, and while nobody can tell what the candidate does, nothing passes.
func Verdict(ev Evidence, th Thresholds) Decision {
	d := Decision{Evidence: ev.Hash(), Stable: ev.Stable.counts()}
	if ev.Phase != PhaseBaseline {
		d.Candidate = ev.Candidate.counts()
	}
	if field, _ := th.problem(); field != "" {
		return d.say(Inconclusive, "thresholds", th)
	}
	if !ev.Stable.sound() || !ev.Candidate.sound() {
		return d.say(NoData, "evidence", th)
	}
	if len(ev.Lost) > 0 { // it is known, and more requests would not change it
		d.Lost = ev.Lost
		return d.say(Fail, lostAbilities, th)
	}
	if ev.Phase == PhaseBaseline {
		return baselineVerdict(d, th).unless(ev, th)
	}
	if len(th.Gates) > 0 {
		return gateVerdict(d, ev, th)
	}
	d.Checks = checks(ev, th)
	for _, c := range d.Checks {
		if c.Worse <= th.AbortShare() {
			return d.say(Fail, c.Name, th)
		}
	}
	if min(ev.Stable.Requests, ev.Candidate.Requests) < th.MinRequests {
		return d.say(NoData, tooFewRequests, th)
	}
	for _, c := range d.Checks {
		if !(c.Holds <= th.PromoteAlpha) {
			return d.say(Inconclusive, c.Name, th)
		}
	}
	return d.say(Pass, "healthy", th).unless(ev, th)
}

// unless holds a step that passes while nobody can tell what the candidate does.
func (d Decision) unless(ev Evidence, th Thresholds) Decision {
	if d.Outcome != Pass {
		return d
	}
	if ev.Unseen {
		return d.say(NoData, unseenAbilities, th)
	}
	if d.Lost = ev.unsettled(); len(d.Lost) > 0 {
		return d.say(NoData, missingAbilities, th)
	}
	return d
}

// AbortShare is what one rule of one step gets of AbortAlpha.
func (t Thresholds) AbortShare() float64 {
	each := rules
	if len(t.Gates) > 0 {
		each = len(t.Gates) + gateRules
	}
	return t.AbortAlpha / float64(max(t.Looks, 1)*each)
}

// baselineVerdict asks whether stable is a baseline at all: enough traffic, and not failing itself.
func baselineVerdict(d Decision, th Thresholds) Decision {
	switch {
	case d.Stable.Requests < th.MinRequests:
		return d.say(NoData, tooFewRequests, th)
	case d.Stable.rate() > th.MaxErrorRate:
		return d.say(Inconclusive, "baseline_unhealthy", th)
	}
	return d.say(Pass, "healthy", th)
}

func (a Arm) counts() *Counts { return &Counts{Requests: a.Requests, Errors: a.Errors} }

func (c Counts) rate() float64 {
	if c.Requests == 0 {
		return 0
	}
	return float64(c.Errors) / float64(c.Requests)
}

// The names of the checks. They are part of stored decisions.
const (
	errorRateCap      = "error_rate_cap"
	errorRate         = "error_rate"
	firstTokenLatency = "first_token_latency"
	totalLatency      = "total_latency"
	rules             = 4

	tooFewRequests      = "too_few_requests"
	unavailableEvidence = "unavailable"
	lostAbilities       = "lost_abilities"
	unseenAbilities     = "unseen_abilities"
	missingAbilities    = "missing_abilities"
)

func checks(ev Evidence, th Thresholds) []Check {
	s, c := newCoin(ev.Stable.Errors, ev.Stable.Requests), newCoin(ev.Candidate.Errors, ev.Candidate.Requests)
	sr, cr := s.rate(0), c.rate(0)
	limit := limit{ratio: th.LatencyRatio, floor: th.LatencyFloor.Microseconds()}
	capHolds := 1.0 // below the cap by its point estimate is enough: the comparison with stable carries the proof
	if c.n > 0 && cr <= th.MaxErrorRate {
		capHolds = 0
	}
	out := []Check{
		{Name: errorRateCap, Stable: sr, Candidate: cr, Worse: pValue(c.above(th.MaxErrorRate)), Holds: capHolds},
		{
			Name: errorRate, Stable: sr, Candidate: cr,
			Worse: pValue(logWorse(c, s, th.ErrorMargin)), Holds: pValue(logNotWorse(c, s, th.ErrorMargin)),
		},
	}
	if ev.Candidate.tellsFirstToken() && ev.Stable.tellsFirstToken() {
		out = append(out, latencyCheck(firstTokenLatency, ev.Candidate.FirstToken, ev.Stable.FirstToken, th.Quantile, limit))
	}
	return append(out, latencyCheck(totalLatency, ev.Candidate.Total, ev.Stable.Total, th.Quantile, limit))
}

// tellsFirstToken reports whether the first token of at least half of the answers is known: embeddings have none, and of an answer that an
// upstream sent in one piece nobody knows when it began. The rest would say little of an arm, and the total latency says enough.
func (a Arm) tellsFirstToken() bool {
	first, total := newSeries(a.FirstToken), newSeries(a.Total)
	return first.n > 0 && 2*first.n >= total.n
}

func latencyCheck(name string, candidate, stable []Bin, q float64, l limit) Check {
	seconds := func(b []Bin) float64 { return float64(newSeries(b).quantile(q)) / 1e6 }
	return Check{
		Name: name, Stable: seconds(stable), Candidate: seconds(candidate),
		Worse: pValue(logSlower(candidate, stable, q, l)), Holds: pValue(logNotSlower(candidate, stable, q, l)),
	}
}

// pValue turns log evidence into a p-value. Not a number, which no finite evidence gives, proves nothing.
func pValue(logEvidence float64) float64 {
	if math.IsNaN(logEvidence) {
		return 1
	}
	return min(1, math.Exp(-logEvidence))
}

func (d Decision) say(o Outcome, code string, th Thresholds) Decision {
	d.Outcome, d.Code = o, code
	d.Reason = d.Sentence(th).String()
	return d
}
