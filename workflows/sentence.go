package workflows

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// The sentences of a rollout. What is stored are codes and figures; here they become words, in the language of whoever reads them.

// CheckState is how one check stands.
type CheckState string

// The states of a check. A step is left when every check holds.
const (
	Holds            CheckState = "holds"
	Broken           CheckState = "broken"
	Unproven         CheckState = "unproven"
	InsufficientData CheckState = "too_little_data"
)

// State says how the check c of d stands, by the error probabilities of the verdict itself.
func (d Decision) State(c Check, th Thresholds) CheckState {
	if g, ok := th.gate(c.Name); ok || len(th.Gates) > 0 {
		return c.gateState(g, th)
	}
	few := d.Stable != nil && d.Candidate != nil && min(d.Stable.Requests, d.Candidate.Requests) < th.MinRequests
	switch {
	case c.Worse <= th.AbortShare():
		return Broken
	case few, c.Latency() && (c.Stable == 0 || c.Candidate == 0):
		return InsufficientData
	case c.Holds <= th.PromoteAlpha:
		return Holds
	}
	return Unproven
}

// gateState is [Decision.State] of a check by gates. Whether it holds was decided with the verdict.
func (c Check) gateState(g Gate, th Thresholds) CheckState {
	switch {
	case c.Worse <= th.AbortShare():
		return Broken
	case c.Kept:
		return Holds
	case g.Metric == "": // the cap, while the rate is above it
		return Unproven
	case c.Sample < g.MinSample || c.Effect == nil:
		return InsufficientData
	}
	return Unproven
}

// Latency reports whether the check compares latencies. A latency of zero means that there are no samples.
func (c Check) Latency() bool {
	return c.Name == firstTokenLatency || c.Name == totalLatency || strings.HasPrefix(c.Name, MetricFirstToken+"_p") || strings.HasPrefix(c.Name, MetricTotal+"_p")
}

// Unit says what the values of the check are: "seconds", "share", "tokens" or "nanos" (10⁻⁹ units of the currency).
func (c Check) Unit() string {
	switch {
	case c.Latency():
		return "seconds"
	case c.Name == MetricTokens:
		return "tokens"
	case c.Name == MetricCost:
		return "nanos"
	}
	return "share"
}

// Limit is the value the candidate must not exceed; false while stable has none to compare with.
func (c Check) Limit(th Thresholds) (float64, bool) {
	if g, ok := th.gate(c.Name); ok {
		switch {
		case g.Metric == MetricAccuracy:
			return c.Stable - g.Margin, c.Effect != nil
		case g.share():
			return min(c.Stable+g.Margin, 1), true
		}
		return c.Stable * math.Exp(g.limit(c.Stable)), c.Stable > 0
	}
	switch c.Name {
	case tenantFailures, tenantRefusals:
		return min(c.Stable+2*th.tenantMargin(c.Name), 1), true
	case errorRateCap:
		return th.MaxErrorRate, true
	case errorRate:
		return min(c.Stable+th.ErrorMargin, 1), true
	}
	return max(c.Stable*th.LatencyRatio, c.Stable+th.LatencyFloor.Seconds()), c.Stable > 0
}

// Title names what the check compares.
func (c Check) Title(th Thresholds) fault.Phrase {
	quantile := "P" + strconv.FormatFloat(th.Quantile*100, 'f', -1, 32)
	if g, ok := th.gate(c.Name); ok {
		quantile = "P" + strconv.FormatFloat(g.Quantile*100, 'f', -1, 32)
		switch g.Metric {
		case MetricFailures:
			return fault.Say("rollout.error_rate_relative")
		case MetricRefusals:
			return fault.Say("rollout.refusals")
		case MetricTokens:
			return fault.Say("rollout.tokens")
		case MetricCost:
			return fault.Say("rollout.cost")
		case MetricAccuracy:
			return fault.Say("rollout.accuracy")
		case MetricFirstToken:
			return fault.Say("rollout.first_token", quantile)
		}
		return fault.Say("rollout.duration", quantile)
	}
	switch c.Name {
	case tenantFailures:
		return fault.Say("rollout.tenant_failures", c.Tenant)
	case tenantRefusals:
		return fault.Say("rollout.tenant_refusals", c.Tenant)
	case errorRateCap:
		return fault.Say("rollout.error_rate")
	case errorRate:
		return fault.Say("rollout.error_rate_relative")
	case firstTokenLatency:
		return fault.Say("rollout.first_token", quantile)
	default:
		return fault.Say("rollout.duration", quantile)
	}
}

// LimitText says the limit in words, with its number.
func (c Check) LimitText(th Thresholds) fault.Phrase {
	limit, known := c.Limit(th)
	if g, ok := th.gate(c.Name); ok {
		switch {
		case g.Metric == MetricAccuracy:
			return fault.Say("rollout.limit_accuracy", points(g.Margin))
		case g.share():
			return fault.Say("rollout.limit_points", points(g.Margin), percent(limit))
		case !known:
			return fault.Say("rollout.limit_share", percent(g.Margin))
		}
		return fault.Say("rollout.limit_share_is", percent(math.Expm1(g.limit(c.Stable))), c.value(limit))
	}
	switch {
	case c.Name == tenantFailures, c.Name == tenantRefusals:
		return fault.Say("rollout.limit_points", points(2*th.tenantMargin(c.Name)), percent(limit))
	case c.Name == errorRateCap:
		return fault.Say("rollout.limit_absolute", percent(limit))
	case c.Name == errorRate:
		return fault.Say("rollout.limit_points", points(th.ErrorMargin), percent(limit))
	case !known:
		return fault.Say("rollout.limit_times_or_more", decimal(th.LatencyRatio), floor(th))
	case c.Stable*th.LatencyRatio < c.Stable+th.LatencyFloor.Seconds():
		return fault.Say("rollout.limit_more", floor(th), millis(limit))
	}
	return fault.Say("rollout.limit_times", decimal(th.LatencyRatio), millis(limit))
}

// Proof says in words what the p-value that counts for the state of the check means.
func (d Decision) Proof(c Check, th Thresholds) fault.Phrase {
	if len(th.Gates) > 0 {
		return d.gateProof(c, th)
	}
	switch d.State(c, th) {
	case Broken:
		return fault.Say("rollout.limit_broken", chance(c.Worse))
	case Holds:
		if c.Name == errorRateCap {
			return fault.Say("rollout.below_limit")
		}
		return fault.Say("rollout.proven", chance(c.Holds))
	case InsufficientData:
		if enough(d, th) {
			return fault.Say("rollout.no_latency")
		}
		return fault.Say("rollout.too_little_data", requests(th.MinRequests))
	case Unproven:
		if c.Name == errorRateCap {
			return fault.Say("rollout.above_limit_early")
		}
	}
	return fault.Say("rollout.not_proven", chance(c.Holds), chance(th.PromoteAlpha))
}

// gateProof is [Decision.Proof] of a check by gates: the interval, and what it proves.
func (d Decision) gateProof(c Check, th Thresholds) fault.Phrase {
	g, _ := th.gate(c.Name)
	state := d.State(c, th)
	switch {
	case state == Broken:
		return fault.Say("rollout.limit_broken", chance(c.Worse))
	case g.Metric == "" && state == Holds:
		return fault.Say("rollout.not_broken")
	case g.Metric == "":
		return fault.Say("rollout.above_limit_early")
	case c.Sample < g.MinSample:
		return fault.Say("rollout.too_little_data", requests(g.MinSample))
	case c.Effect == nil:
		return fault.Say("rollout.no_interval")
	}
	low, high := c.Interval(th)
	if state == Holds {
		return fault.Say("rollout.interval_holds", low, high)
	}
	return fault.Say("rollout.interval_unproven", low, high)
}

// Range returns how much worse the candidate is, with its 95 % interval and the limit, as shares of stable's value or differences of shares.
func (c Check) Range(th Thresholds) (low, value, high, limit float64, ok bool) {
	if c.Effect == nil {
		return 0, 0, 0, 0, false
	}
	of := math.Expm1
	if g, _ := th.gate(c.Name); g.share() {
		of = func(v float64) float64 { return v }
	}
	e := c.Effect
	return of(e.Low), of(e.Value), of(e.High), of(e.Limit), true
}

// Interval writes the 95 % interval of how much worse the candidate is, with signs: percent of stable's value, or points.
func (c Check) Interval(th Thresholds) (low, high string) {
	if c.Effect == nil {
		return "", ""
	}
	g, _ := th.gate(c.Name)
	write := func(v float64) string {
		sign := ""
		if v > 0 {
			sign = "+"
		}
		if g.share() {
			return sign + points(v)
		}
		return sign + percent(math.Expm1(v))
	}
	return write(c.Effect.Low), write(c.Effect.High)
}

func (t Thresholds) tenantMargin(check string) float64 {
	g, _ := t.gate(map[string]string{tenantFailures: MetricFailures, tenantRefusals: MetricRefusals}[check])
	return g.Margin
}

func enough(d Decision, th Thresholds) bool {
	return d.Stable == nil || d.Candidate == nil || min(d.Stable.Requests, d.Candidate.Requests) >= th.MinRequests
}

// Sentence says why the verdict is what it is. A decision of an earlier release has no counts; its sentence has none either.
func (d Decision) Sentence(th Thresholds) fault.Phrase {
	for _, c := range d.Checks {
		if c.Name == d.Code {
			return fault.Say("rollout.comparison", c.Title(th), c.value(c.Candidate), c.value(c.Stable), c.LimitText(th), d.Proof(c, th))
		}
	}
	switch d.Code {
	case "":
		return fault.Say("rollout.not_judged")
	case "thresholds":
		field, want := th.problem()
		return fault.Say("rollout.threshold", field, want)
	case "evidence":
		return fault.Say("rollout.evidence_contradictory")
	case betweenAnalyses:
		return fault.Say("rollout.between_analyses")
	case unavailableEvidence:
		return fault.Say("rollout.evidence_unreadable")
	case lostAbilities:
		return fault.Say("rollout.lost_abilities", strings.Join(d.Lost, ", "))
	case missingAbilities:
		return fault.Say("rollout.missing_abilities", strings.Join(d.Lost, ", "))
	case unseenAbilities:
		return fault.Say("rollout.candidate_absent")
	}
	baseline := d.Candidate == nil
	switch {
	case d.Stable == nil && d.Code == tooFewRequests:
		return fault.Say("rollout.too_few_requests")
	case d.Stable == nil && d.Code == "healthy":
		return fault.Say("rollout.all_hold")
	case d.Stable == nil:
		return fault.Say("rollout.stable_unfit")
	case d.Code == tooFewRequests && baseline:
		return fault.Say("rollout.baseline_samples", requests(d.Stable.Requests), number(th.MinRequests))
	case d.Code == tooFewRequests:
		return fault.Say("rollout.both_samples", requests(d.Stable.Requests), requests(d.Candidate.Requests), number(th.MinRequests))
	case d.Code == "healthy" && baseline:
		return fault.Say("rollout.baseline_stands", requests(d.Stable.Requests))
	case d.Code == "healthy":
		return fault.Say("rollout.all_hold_on", requests(d.Candidate.Requests))
	}
	return fault.Say("rollout.stable_fails", percent(d.Stable.rate()), percent(th.MaxErrorRate))
}

// Cause says why the system made a transition: a code, and the verdict or the refusal it rests on. Where a person acted there is
// none, and the reason is the person's own.
type Cause struct {
	Code     string    `json:"code"`
	Decision *Decision `json:"decision,omitempty"`
	// English and Chinese are the refusal in both languages; English alone is a text of the machinery's.
	English string `json:"english,omitempty"`
	Chinese string `json:"chinese,omitempty"`
}

// The codes of causes. They are part of stored transitions.
const (
	causeVerdict    = "verdict"
	causeDeadline   = "deadline"
	causeCancelled  = "cancelled"
	causeSuperseded = "superseded"
	causeRefused    = "refused"
	causeStopped    = "stopped"
	causeUnjudged   = "unjudged"
)

// Sentence says the cause in words.
func (c Cause) Sentence(th Thresholds) fault.Phrase {
	var d Decision
	if c.Decision != nil {
		d = *c.Decision
	}
	switch c.Code {
	case causeVerdict:
		return d.Sentence(th)
	case causeDeadline:
		return fault.Say("rollout.deadline", d.Sentence(th))
	case causeCancelled:
		return fault.Say("rollout.cancelled")
	case causeUnjudged:
		return fault.Say("rollout.unjudged")
	case causeSuperseded:
		return fault.Say("rollout.superseded")
	case causeRefused:
		return fault.Say("rollout.assignment_refused", fault.Quote(c.English, or(c.Chinese, c.English)))
	}
	return fault.Say("rollout.stopped", c.English)
}

func (c Check) value(v float64) any {
	switch {
	case c.Name == MetricTokens:
		return decimal(v)
	case c.Name == MetricCost:
		return trim(strconv.FormatFloat(v/1e9, 'f', 9, 64))
	case !c.Latency():
		return percent(v)
	case v == 0:
		return fault.Say("rollout.no_samples")
	}
	return millis(v)
}

// percent writes a ratio with at most two decimals.
func percent(ratio float64) string { return points(ratio) + "%" }

func points(ratio float64) string { return decimal(ratio * 100) }

func decimal(v float64) string { return trim(strconv.FormatFloat(v, 'f', 2, 64)) }

func trim(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// chance writes a probability as a bound on it: two significant digits, rounded up. No bound that can be set is smaller than the least.
func chance(p float64) string {
	p = max(p, minAlpha)
	digits := 1 - int(math.Floor(math.Log10(p))) // behind the point, of a share of one
	scale := math.Pow10(digits)
	p = math.Ceil(p*scale-1e-6) / scale
	text := strconv.FormatFloat(p*100, 'f', max(0, digits-2), 64)
	if strings.Contains(text, ".") {
		text = trim(strings.TrimRight(text, "0"))
	}
	return text + "%"
}

// minAlpha is the smallest probability that the limits of a rollout may name.
const minAlpha = 1e-6

// millis writes seconds as milliseconds with three significant digits at least.
func millis(seconds float64) string {
	ms := seconds * 1000
	if ms >= 100 {
		return number(int64(math.Round(ms))) + " ms"
	}
	return decimal(ms) + " ms"
}

func floor(th Thresholds) string { return millis(th.LatencyFloor.Round(time.Microsecond).Seconds()) }

func requests(n int64) fault.Phrase {
	return fault.Say("rollout.requests", number(n), n)
}

// number groups the digits by three.
func number(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
