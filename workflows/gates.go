package workflows

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluice-project/sluice/internal/fault"
)

// The presets of a rollout. Standard asks for proof of non-inferiority on every gate; trial has wide limits and short times, and is not meant
// for versions that people depend on.
const (
	Standard = "standard"
	Trial    = "trial"
)

// The metrics of gates. They are part of stored specifications.
const (
	MetricFirstToken = "first_token" // quantile of the time to the first token; the margin is a share of stable's
	MetricTotal      = "total"       // quantile of the duration; likewise
	MetricFailures   = "failures"    // failed requests of all; the margin is a difference of shares
	MetricRefusals   = "refusals"    // requests that the policy refused after they were assigned; likewise
	MetricTokens     = "tokens"      // completion tokens an answer; the margin is a share of stable's
	MetricCost       = "cost"        // cost a request; likewise
	MetricAccuracy   = "accuracy"    // right answers of a suite, paired by case; the margin is a difference of shares
)

// The sources of gates.
const (
	SourceAudit      = "audit"      // outcome records of the rollout's own requests
	SourceEvaluation = "evaluation" // results of evaluation suites, handed in for this rollout
)

// The directions of gates: which way of a change is worse.
const (
	LowerBetter  = "lower"
	HigherBetter = "higher"
)

// Gate is one limit that a candidate has to be proven to keep. The zero value of a field but Metric means the metric's default.
type Gate struct {
	Metric string `json:"metric"`
	// Quantile of a latency, 0.5 to 0.999; 0 for other metrics.
	Quantile float64 `json:"quantile,omitempty"`
	// Direction says which values are better. It follows from the metric.
	Direction string `json:"direction"`
	// Margin is by how much the candidate may be worse.
	Margin float64 `json:"margin"`
	// Floor is a difference of latency that never counts.
	Floor time.Duration `json:"floor,omitempty"`
	// MinSample is what each version needs before the gate can hold: requests, or cases of a suite.
	MinSample int64 `json:"min_sample"`
	// Source is where the figures come from. It follows from the metric.
	Source string `json:"source"`
	// Alpha bounds the probability that the rollout promotes a candidate that is worse by the margin or more on the last partial step.
	Alpha float64 `json:"alpha"`
}

// RemovedGate is a gate of the preset that somebody took out of a rollout, and why.
type RemovedGate struct {
	Gate   string `json:"gate"`
	Reason string `json:"reason"`
}

// Name names the gate: the metric, and the quantile if it has one, such as total_p95.
func (g Gate) Name() string {
	if g.Quantile == 0 {
		return g.Metric
	}
	return g.Metric + "_p" + strconv.FormatFloat(g.Quantile*100, 'f', -1, 32)
}

func (g Gate) latency() bool { return g.Metric == MetricFirstToken || g.Metric == MetricTotal }

// share reports whether values are shares of one, and margins differences of them.
func (g Gate) share() bool {
	return g.Metric == MetricFailures || g.Metric == MetricRefusals || g.Metric == MetricAccuracy
}

// standardGates are the gates of the preset.
func standardGates() []Gate {
	return []Gate{
		{Metric: MetricFailures},
		{Metric: MetricRefusals},
		{Metric: MetricFirstToken, Quantile: 0.95},
		{Metric: MetricTotal, Quantile: 0.95},
		{Metric: MetricTotal, Quantile: 0.99, Margin: 0.10},
		{Metric: MetricTokens},
		{Metric: MetricCost},
		{Metric: MetricAccuracy},
	}
}

func (g Gate) withDefaults(th Thresholds) Gate {
	g.Direction, g.Source = LowerBetter, SourceAudit
	switch {
	case g.Metric == MetricAccuracy:
		g.Direction, g.Source = HigherBetter, SourceEvaluation
		g.Margin = or(g.Margin, 0.005)
	case g.share():
		g.Margin = or(g.Margin, 0.005)
	default:
		g.Margin = or(g.Margin, 0.05)
	}
	if g.latency() {
		g.Quantile = or(g.Quantile, 0.95)
	}
	g.MinSample = or(g.MinSample, th.MinRequests)
	g.Alpha = or(g.Alpha, th.PromoteAlpha)
	return g
}

// problem says what is wrong with a gate that has its defaults; the field is empty when all is well.
func (g Gate) problem() (field string, want fault.Phrase) {
	known := []string{MetricFirstToken, MetricTotal, MetricFailures, MetricRefusals, MetricTokens, MetricCost, MetricAccuracy}
	switch {
	case !slices.Contains(known, g.Metric):
		return "metric", fault.Say("rollout.gate_metric", strings.Join(known, ", "))
	case g.latency() && !(g.Quantile >= 0.5 && g.Quantile <= 0.999), !g.latency() && g.Quantile != 0:
		return "quantile", fault.Say("rollout.quantile_range")
	case !(g.Margin > 0 && g.Margin < 1):
		return "margin", fault.Say("value.fraction")
	case g.Floor < 0 || g.Floor > time.Hour || !g.latency() && g.Floor != 0:
		return "floor", fault.Say("rollout.floor_range")
	case g.MinSample < 1:
		return "min_sample", fault.Say("value.at_least_one")
	case !(g.Alpha > 0 && g.Alpha < 0.5):
		return "alpha", fault.Say("rollout.alpha_range")
	}
	return "", fault.Phrase{}
}

func isRemoved(g Gate, removed []RemovedGate) bool {
	return slices.ContainsFunc(removed, func(r RemovedGate) bool { return r.Gate == g.Name() })
}

// weaker reports whether g promises less than the gate of the preset with its name.
func (g Gate) weaker(th Thresholds) bool {
	for _, p := range standardGates() {
		if p = p.withDefaults(th); p.Name() == g.Name() {
			return g.Margin > p.Margin || g.Floor > p.Floor || g.MinSample < p.MinSample || g.Alpha > p.Alpha
		}
	}
	return false
}

// gatesFor puts the gates of the preset together with those of the specification: a gate of the same name replaces the preset's, one that is
// removed is left out, and one of its name may be weaker then. Every gate gets its defaults.
func gatesFor(own []Gate, removed []RemovedGate, th Thresholds) []Gate {
	var out []Gate
	preset := slices.DeleteFunc(standardGates(), func(g Gate) bool { return isRemoved(g.withDefaults(th), removed) })
	for _, g := range append(preset, own...) {
		g = g.withDefaults(th)
		if i := slices.IndexFunc(out, func(o Gate) bool { return o.Name() == g.Name() }); i >= 0 {
			out[i] = g
		} else {
			out = append(out, g)
		}
	}
	return out
}

// OwnGates returns the gates that the specification itself names, with their defaults, as they count.
func (s Spec) OwnGates() []Gate {
	var out []Gate
	for _, g := range s.Gates {
		if kept, ok := s.Thresholds.gate(g.withDefaults(s.Thresholds).Name()); ok {
			out = append(out, kept)
		}
	}
	return out
}

// maxAnalyses bounds the planned analyses of a step.
const maxAnalyses = 4

// analyses returns how many planned analyses a step has that may promote: one at the dwell, the last at the deadline, those between at even distances.
func (s Spec) analyses() int { return int(min(max(s.Deadline/max(s.Dwell, 1), 2), maxAnalyses)) }

// analysisDue returns how long after a step began its planned analysis n is due, counted from 1.
func (s Spec) analysisDue(n int) time.Duration {
	between := max((s.Deadline-s.Dwell)/time.Duration(s.analyses()-1), 1)
	return s.Dwell + time.Duration(n-1)*between
}

// analysisAt returns the number of the latest analysis that is due after the time stood on a step, 0 before the first.
func (s Spec) analysisAt(stood time.Duration) int {
	n := s.analyses()
	for n > 0 && s.analysisDue(n) > stood {
		n--
	}
	return n
}

// NextAnalysis returns when the next planned analysis of the step is due, in unix microseconds; 0 if there is none.
func (s State) NextAnalysis() int64 {
	spec := s.Spec
	if len(spec.Thresholds.Gates) == 0 || s.Phase != PhaseCanary || s.Share >= 100 || s.EnteredAt == 0 {
		return 0
	}
	stood := time.Duration(s.CheckedAt-s.EnteredAt) * time.Microsecond
	next := spec.analysisAt(max(stood, 0)) + 1
	if next > spec.analyses() {
		return 0
	}
	return s.EnteredAt + spec.analysisDue(next).Microseconds()
}

// spent is the part of alpha that planned analysis n of a step may spend: the increment of the O'Brien–Fleming-type function of Lan and DeMets,
//
//	α*(t) = 2 − 2Φ(z(α/2)/√t),
//
// over the share of those that are done. The increments add up to alpha, and each is tested at its increment alone: by the union bound
// the probability of a false promotion is at most alpha, whatever they have in common and however the traffic is spread over them.
func spent(alpha float64, n, of int) float64 {
	if n < 1 || of < n || !(alpha > 0 && alpha < 0.5) {
		return 0
	}
	at := func(k int) float64 {
		if k == 0 {
			return 0
		}
		z := distuv.UnitNormal.Quantile(1 - alpha/2)
		return 2 * upperTail(z/math.Sqrt(float64(k)/float64(of)))
	}
	return at(n) - at(n-1)
}

// upperTail returns P(Z > z) of a standard normal variable, also far out.
func upperTail(z float64) float64 { return 0.5 * math.Erfc(z/math.Sqrt2) }

// effect is how much worse the candidate is: the logarithm of a ratio, or a difference of shares. Positive is worse.
type effect struct{ value, se float64 }

func (e effect) known() bool {
	return e.se > 0 && !math.IsInf(e.se, 0) && !math.IsNaN(e.se) && !math.IsNaN(e.value) && !math.IsInf(e.value, 0)
}

// notWorse returns the p-value against "the candidate is worse by limit or more".
func (e effect) notWorse(limit float64) float64 {
	if !e.known() {
		return 1
	}
	return upperTail((limit - e.value) / e.se)
}

// logWorse returns the log evidence against "the candidate is worse by at most limit", valid at any time for large samples: the normal mixture
// of Robbins with a prior as wide as the limit, on one side.
func (e effect) logWorse(limit float64) float64 {
	if !e.known() || e.value <= limit {
		return 0
	}
	z, tau := (e.value-limit)/e.se, limit*limit/(e.se*e.se)
	return max(0, (z*z*tau/(1+tau)-math.Log1p(tau))/2)
}

// pooled weighs the effects of several steps by their precision. Each step compares both versions at one share and in one span of time, so
// pooling the effects, other than the requests, does not mix the hours of one version with those of the other.
func pooled(steps []effect) effect {
	var weight, sum float64
	for _, e := range steps {
		if e.known() {
			w := 1 / (e.se * e.se)
			weight, sum = weight+w, sum+w*e.value
		}
	}
	if weight == 0 {
		return effect{}
	}
	return effect{sum / weight, 1 / math.Sqrt(weight)}
}

// Ratio is the sums of a ratio Y/N over the units that were assigned to an arm, which are conversations.
type Ratio struct {
	Y  float64 `json:"y"`
	N  float64 `json:"n"`
	YY float64 `json:"yy"`
	YN float64 `json:"yn"`
	NN float64 `json:"nn"`
}

func (r Ratio) mean() float64 {
	if r.N == 0 {
		return 0
	}
	return r.Y / r.N
}

// variance of the mean, robust to what requests of one unit have in common.
func (r Ratio) variance() float64 {
	if r.N == 0 {
		return math.Inf(1)
	}
	m, units := r.mean(), r.units()
	if units <= 1 {
		return math.Inf(1)
	}
	return max(0, r.YY-2*m*r.YN+m*m*r.NN) / (r.N * r.N) * units / (units - 1)
}

// units is how many units of the same size would say as much: few, where most requests are of a few conversations or keys.
func (r Ratio) units() float64 {
	if r.NN == 0 {
		return 0
	}
	return r.N * r.N / r.NN
}

// What is proven by normal quantiles needs units to vary: under minUnits in an arm a gate has no figures, and under minUnitsOfMeans nothing is proven
// broken by a mean, whose variance is estimated.
const (
	minUnits        = 40
	minUnitsOfMeans = 100
)

// inflation is how many times the variance of a share is larger than if every request were a unit of its own; at least 1.
func (r Ratio) inflation() float64 {
	m := r.mean()
	if v := m * (1 - m) / r.N; v > 0 && r.units() > 1 {
		return max(1, r.variance()/v)
	}
	return max(1, r.NN/max(r.N, 1)) // nothing varies yet: as if units were of one mind
}

func (r Ratio) sound() bool {
	for _, v := range []float64{r.Y, r.N, r.YY, r.YN, r.NN} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return false
		}
	}
	return r.N > 0 || r.Y == 0
}

// shareVariance is the variance of a share after one success and one failure more, so that none in a thousand is not "never".
func (r Ratio) shareVariance() float64 {
	p := (r.Y + 1) / (r.N + 2)
	return p * (1 - p) / (r.N + 2) * r.inflation()
}

func shareEffect(candidate, stable Ratio) effect {
	if candidate.N == 0 || stable.N == 0 {
		return effect{}
	}
	return effect{candidate.mean() - stable.mean(), math.Sqrt(candidate.shareVariance() + stable.shareVariance())}
}

// shareNotWorse returns the p-value against "the candidate's share is higher by margin or more": the score test of Miettinen and Nurminen, which
// takes the variance from the most likely shares under the hypothesis. That of the sample is too small where stable hardly ever fails.
func shareNotWorse(candidate, stable Ratio, margin float64) float64 {
	nc, ns, kc, ks := candidate.N, stable.N, candidate.Y, stable.Y
	if nc == 0 || ns == 0 || !(margin > 0 && margin < 1) {
		return 1
	}
	low, high := 0.0, 1-margin // of stable's share; the slope of the likelihood falls from one to the other
	for range 60 {
		p := (low + high) / 2
		if kc/(p+margin)-(nc-kc)/(1-p-margin)+ks/p-(ns-ks)/(1-p) > 0 {
			low = p
		} else {
			high = p
		}
	}
	s, c := (low+high)/2, (low+high)/2+margin
	v := c*(1-c)/nc*candidate.inflation() + s*(1-s)/ns*stable.inflation()
	if !(v > 0) {
		return 1
	}
	return upperTail((margin - (kc/nc - ks/ns)) / math.Sqrt(v))
}

func meanEffect(candidate, stable Ratio) effect {
	c, s := candidate.mean(), stable.mean()
	if c <= 0 || s <= 0 || candidate.units() <= 1 || stable.units() <= 1 {
		return effect{}
	}
	// Where every value was the same, a deviation of one percent of it stands for what was not seen.
	least := 1e-4/candidate.N + 1e-4/stable.N
	return effect{math.Log(c / s), math.Sqrt(max(least, candidate.variance()/(c*c)+stable.variance()/(s*s)))}
}

// logQuantile returns the logarithm of a quantile and its standard error, after Woodruff: from the order statistics two standard errors of the
// rank to both sides, whatever the distribution. It is unknown while the sample has nothing beyond the upper one.
func (s series) logQuantile(q, inflation float64) effect {
	if s.n == 0 {
		return effect{}
	}
	const width = 2
	d := width * math.Sqrt(q*(1-q)*inflation/float64(s.n))
	if q-d <= 0 || q+d >= 1 {
		return effect{}
	}
	low, mid, high := s.between(q-d), s.between(q), s.between(q+d)
	if low <= 0 {
		return effect{}
	}
	return effect{math.Log(mid), math.Log(high/low) / (2 * width)}
}

// between is the quantile with the samples of a bin spread evenly over it.
func (s series) between(q float64) float64 {
	need := q * float64(s.n)
	i, _ := slices.BinarySearch(s.cum[1:], int64(math.Ceil(need)))
	i = min(i, len(s.bins)-1)
	part := (need - float64(s.cum[i])) / float64(s.bins[i].Count)
	return float64(s.bins[i].Micros) + part*float64(binWidth(s.bins[i].Micros))
}

func quantileEffect(candidate, stable []Bin, q, ci, si float64) (e effect, c, s float64) {
	a, b := newSeries(candidate).logQuantile(q, ci), newSeries(stable).logQuantile(q, si)
	if !a.known() || !b.known() {
		return effect{}, 0, 0
	}
	return effect{a.value - b.value, math.Hypot(a.se, b.se)}, math.Exp(a.value), math.Exp(b.value)
}

// Results are what both versions made of one evaluation suite, case by case.
type Results struct {
	Suite  string `json:"suite"`
	Digest string `json:"digest"` // SHA-256 of the suite, in hex
	// Both, OnlyStable, OnlyCandidate and Neither count the cases by who answered them rightly.
	Both          int64 `json:"both"`
	OnlyStable    int64 `json:"only_stable"`
	OnlyCandidate int64 `json:"only_candidate"`
	Neither       int64 `json:"neither"`
}

func (r Results) cases() int64 { return r.Both + r.OnlyStable + r.OnlyCandidate + r.Neither }

func (r Results) sound() bool {
	const most = 1 << 40
	for _, n := range []int64{r.Both, r.OnlyStable, r.OnlyCandidate, r.Neither} {
		if n < 0 || n > most {
			return false
		}
	}
	return r.cases() > 0
}

// effect is how many of the cases the candidate loses against stable: the difference of paired shares.
func (r Results) effect() effect {
	n, b, c := float64(r.cases()), float64(r.OnlyStable), float64(r.OnlyCandidate)
	if n == 0 {
		return effect{}
	}
	return effect{(b - c) / n, math.Sqrt(b+c+1-(b-c)*(b-c)/n) / n}
}

// notWorse returns the p-value against "the candidate loses margin of the cases or more": the score test of Tango for paired shares, which
// takes the variance from the hypothesis, since a sample that looks good has too small a variance of its own.
func (r Results) notWorse(margin float64) float64 {
	n, b, c := float64(r.cases()), float64(r.OnlyStable), float64(r.OnlyCandidate)
	if n == 0 {
		return 1
	}
	p := -b - c + (2*n-b+c)*margin
	q := (math.Sqrt(p*p+8*n*c*margin*(1-margin)) - p) / (4 * n)
	return upperTail((n*margin - (b - c)) / math.Sqrt(n*(2*q+margin*(1-margin))))
}

// StepEffect is the effect of one gate on an earlier step.
type StepEffect struct {
	Gate   string  `json:"gate"`
	Effect float64 `json:"effect"`
	SE     float64 `json:"se"`
}

// EarlierStep is what the gates of an earlier step of the rollout ended on. Evidence is its hash.
type EarlierStep struct {
	Phase    string       `json:"phase"`
	Evidence string       `json:"evidence"`
	Effects  []StepEffect `json:"effects"`
}

// units returns the effective units of the arm with fewer, for a gate on outcome records.
func (g Gate) units(ev Evidence) float64 {
	c, s := ev.Candidate.Sums, ev.Stable.Sums
	if c == nil || s == nil {
		return 0
	}
	return min(c.ratio(g.Metric).units(), s.ratio(g.Metric).units())
}

// enough reports whether a check has the sample and, on outcome records, the units that the gate needs.
func (g Gate) enough(ev Evidence, c Check) bool {
	return c.Sample >= g.MinSample && c.Effect != nil && (g.Source == SourceEvaluation || g.units(ev) >= minUnits)
}

// measure returns the effect of a gate in the step of the evidence, both values, and the smaller sample.
func (g Gate) measure(ev Evidence) (e effect, candidate, stable float64, sample int64) {
	c, s := ev.Candidate.Sums, ev.Stable.Sums
	if g.Metric == MetricAccuracy {
		return g.measureAccuracy(ev.Results)
	}
	if c == nil || s == nil {
		return effect{}, 0, 0, 0
	}
	cr, sr := c.ratio(g.Metric), s.ratio(g.Metric)
	if g.latency() {
		cb, sb := g.bins(ev)
		e, candidate, stable = quantileEffect(cb, sb, g.Quantile, cr.inflation(), sr.inflation())
		return e, candidate / 1e6, stable / 1e6, min(newSeries(cb).n, newSeries(sb).n)
	}
	if e = meanEffect(cr, sr); g.share() {
		e = shareEffect(cr, sr)
	}
	return e, cr.mean(), sr.mean(), int64(min(cr.N, sr.N))
}

// measureAccuracy takes the suite on which the candidate looks worst.
func (g Gate) measureAccuracy(all []Results) (e effect, candidate, stable float64, sample int64) {
	for i, r := range all {
		if x := r.effect(); i == 0 || x.value > e.value {
			n := float64(r.cases())
			e, candidate, stable, sample = x, float64(r.Both+r.OnlyCandidate)/n, float64(r.Both+r.OnlyStable)/n, r.cases()
		}
	}
	return e, candidate, stable, sample
}

func (g Gate) bins(ev Evidence) (candidate, stable []Bin) {
	if g.Metric == MetricFirstToken {
		return ev.Candidate.FirstToken, ev.Stable.FirstToken
	}
	return ev.Candidate.Total, ev.Stable.Total
}

// limit is the effect that counts as worse, given stable's value.
func (g Gate) limit(stable float64) float64 {
	if g.share() {
		return g.Margin
	}
	out := math.Log1p(g.Margin)
	if g.Floor > 0 && stable > 0 {
		out = max(out, math.Log1p(g.Floor.Seconds()/stable))
	}
	return out
}

// worse returns the log evidence, valid at any time, that the candidate is worse by more than the margin on this step.
func (g Gate) worse(ev Evidence, e effect, stable float64) float64 {
	if e.known() && e.value <= g.limit(stable) {
		return 0 // within the margin as it stands: nothing to prove
	}
	c, s := ev.Candidate.Sums, ev.Stable.Sums
	if g.Metric == MetricAccuracy || c == nil || s == nil {
		return e.logWorse(g.limit(stable))
	}
	cr, sr := c.ratio(g.Metric), s.ratio(g.Metric)
	inflation := max(cr.inflation(), sr.inflation())
	switch {
	case g.share():
		return logWorse(newCoin(int64(cr.Y), int64(cr.N)), newCoin(int64(sr.Y), int64(sr.N)), g.Margin) / inflation
	case g.latency():
		cb, sb := g.bins(ev)
		return logSlower(cb, sb, g.Quantile, limit{ratio: 1 + g.Margin, floor: g.Floor.Microseconds()}) / inflation
	}
	return e.logWorse(g.limit(stable))
}

// intervalWidth is how many standard errors the interval that people see reaches to both sides: 95 %.
const intervalWidth = 1.959964

// check compares the gate on the evidence.
func (g Gate) check(ev Evidence) Check {
	e, candidate, stable, sample := g.measure(ev)
	limit := g.limit(stable)
	steps := []effect{e}
	for _, earlier := range ev.Earlier {
		for _, x := range earlier.Effects {
			if x.Gate == g.Name() && g.Source == SourceAudit { // a suite is the same in every step
				steps = append(steps, effect{x.Effect, x.SE})
			}
		}
	}
	all := pooled(steps)
	out := Check{
		Name: g.Name(), Stable: stable, Candidate: candidate, Worse: pValue(g.worse(ev, e, stable)), Holds: e.notWorse(limit), Sample: sample,
	}
	c, s := ev.Candidate.Sums, ev.Stable.Sums
	switch {
	case g.Metric == MetricAccuracy:
		out.Holds = 1
		for i, r := range ev.Results { // the suite on which the least is proven
			if p := r.notWorse(limit); i == 0 || p > out.Holds {
				out.Holds = p
			}
		}
	case c == nil || s == nil: // nothing is measured
	case g.share():
		out.Holds = shareNotWorse(c.ratio(g.Metric), s.ratio(g.Metric), limit)
	case !g.latency(): // the evidence against a mean is that of large samples: fewer say nothing
		if sample < g.MinSample || g.units(ev) < minUnitsOfMeans {
			out.Worse = 1
		}
	}
	if ev.Last && g.Source == SourceAudit {
		p := all.notWorse(limit)
		out.Pooled = &p
	}
	if e.known() {
		out.Effect = &EffectRange{Value: e.value, SE: e.se, Low: e.value - intervalWidth*e.se, High: e.value + intervalWidth*e.se, Limit: limit}
	}
	return out
}

// EffectRange is how much worse the candidate is with its 95 % interval: the logarithm of a ratio or a difference of shares, positive is worse.
type EffectRange struct {
	Value float64 `json:"value"`
	SE    float64 `json:"se"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Limit float64 `json:"limit"`
}

// advanceAlpha is the level at which the requests of a step alone are tested at each of its analyses, but for the last partial one. It lets a candidate
// on to the next step, and is no promise about the rollout. The promotion stands on the last partial step alone at the gate's own alpha, so that a
// candidate that gets worse on the way is not carried by the steps before; all partial steps together have to hold at that level, too.
const advanceAlpha = 0.1

// levels returns the p-values at which a check holds at this analysis, of the step alone and of all steps together.
func (e Evidence) levels(g Gate) (own, all float64) {
	if g.Source == SourceEvaluation { // a suite is judged once, not analysis by analysis
		return g.Alpha, g.Alpha
	}
	if e.Look < 1 {
		return 0, 0
	}
	all = spent(g.Alpha, e.Look, e.Looks)
	if e.Last {
		return all, all
	}
	return advanceAlpha, all
}

func (e Evidence) holds(g Gate, c Check) bool {
	own, all := e.levels(g)
	return own > 0 && c.Holds <= own && (c.Pooled == nil || *c.Pooled <= all)
}

const (
	tenantFailures  = "tenant_failures"
	tenantRefusals  = "tenant_refusals"
	betweenAnalyses = "between_analyses"
	gateRules       = 3  // beside the gates: the cap, and two of tenants
	maxTenants      = 20 // that an arm tells apart
)

// gateVerdict is [Verdict] by gates. Fail needs proof, valid at any time, that a gate is broken by more than its margin, for all requests or for
// those of one tenant. Pass needs, at one of the planned analyses, proof that every gate keeps its margin; see [spent]. A gate without
// figures holds the step.
func gateVerdict(d Decision, ev Evidence, th Thresholds) Decision {
	for _, r := range ev.Results {
		if !r.sound() {
			return d.say(NoData, "evidence", th)
		}
	}
	d.Look, d.Looks = ev.Look, ev.Looks
	c := newCoin(ev.Candidate.Errors, ev.Candidate.Requests)
	d.Checks = append(d.Checks, Check{
		Name: errorRateCap, Stable: ev.Stable.counts().rate(), Candidate: c.rate(0), Worse: pValue(c.above(th.MaxErrorRate)), Sample: c.n,
		Kept: c.rate(1) <= th.MaxErrorRate,
	})
	for _, g := range th.Gates {
		x := g.check(ev)
		x.Kept = ev.holds(g, x)
		if ev.Confirm && g.Metric != MetricFailures && g.Metric != MetricRefusals {
			x.Worse = 1 // stable's answers are of other hours: latencies and costs cannot be told from the load
		}
		d.Checks = append(d.Checks, x)
	}
	d.Checks = append(d.Checks, tenantChecks(ev, th)...)
	for _, x := range d.Checks {
		if x.Worse <= th.AbortShare() {
			return d.say(Fail, x.Name, th)
		}
	}
	if ev.Candidate.Requests < th.MinRequests || !ev.Confirm && ev.Stable.Requests < th.MinRequests {
		return d.say(NoData, tooFewRequests, th)
	}
	if c.rate(1) > th.MaxErrorRate {
		return d.say(Inconclusive, errorRateCap, th)
	}
	if ev.Confirm || ev.Proven != "" {
		return d.say(Pass, "healthy", th).unless(ev, th)
	}
	for i, g := range th.Gates {
		if x := d.Checks[i+1]; !g.enough(ev, x) {
			return d.say(NoData, x.Name, th)
		}
	}
	if ev.Look == 0 {
		return d.say(Inconclusive, betweenAnalyses, th)
	}
	for i := range th.Gates {
		if x := d.Checks[i+1]; !x.Kept {
			return d.say(Inconclusive, x.Name, th)
		}
	}
	return d.say(Pass, "healthy", th).unless(ev, th)
}

// tenantChecks look for a single tenant for whom the candidate fails or refuses more often, by twice the margin: a small part of the traffic
// that the whole does not show. The p-value is of the worst tenant, times the number of tenants.
func tenantChecks(ev Evidence, th Thresholds) []Check {
	var out []Check
	for _, g := range th.Gates {
		name := map[string]string{MetricFailures: tenantFailures, MetricRefusals: tenantRefusals}[g.Metric]
		if name == "" || ev.Candidate.Sums == nil || ev.Stable.Sums == nil {
			continue
		}
		inflation := max(ev.Candidate.Sums.ratio(g.Metric).inflation(), ev.Stable.Sums.ratio(g.Metric).inflation())
		worst := Check{Name: name, Worse: 1}
		for _, c := range ev.Candidate.Sums.Tenants {
			i := slices.IndexFunc(ev.Stable.Sums.Tenants, func(s TenantCounts) bool { return s.Tenant == c.Tenant })
			if i < 0 {
				continue
			}
			s := ev.Stable.Sums.Tenants[i]
			ck, sk := c.Errors, s.Errors
			if g.Metric == MetricRefusals {
				ck, sk = c.Refused, s.Refused
			}
			cc, sc := newCoin(ck, c.Requests), newCoin(sk, s.Requests)
			p := pValue(logWorse(cc, sc, min(2*g.Margin, 0.99)) / inflation)
			if p < worst.Worse {
				worst = Check{Name: name, Tenant: c.Tenant, Candidate: cc.rate(0), Stable: sc.rate(0), Worse: p, Sample: min(c.Requests, s.Requests)}
			}
		}
		worst.Worse = min(1, worst.Worse*maxTenants) // however many there are now: they come and go
		worst.Kept = true                            // until the contrary is proven
		if worst.Tenant != "" && len(ev.Candidate.Sums.Tenants) > 1 {
			out = append(out, worst)
		}
	}
	return out
}

// earlierStep keeps what later steps need of an evaluation.
func earlierStep(l Evaluation) EarlierStep {
	out := EarlierStep{Phase: l.Evidence.Phase, Evidence: l.Evidence.Hash()}
	for _, c := range l.Decision.Checks {
		if c.Effect != nil {
			out.Effects = append(out.Effects, StepEffect{Gate: c.Name, Effect: c.Effect.Value, SE: c.Effect.SE})
		}
	}
	return out
}

// gate returns the gate of a check.
func (t Thresholds) gate(name string) (Gate, bool) {
	i := slices.IndexFunc(t.Gates, func(g Gate) bool { return g.Name() == name })
	if i < 0 {
		return Gate{}, false
	}
	return t.Gates[i], true
}

// checkGates refuses gates that cannot run, naming the field.
func (s Spec) checkGates(bad func(field string, want fault.Phrase) error) error {
	standard := s.Preset == Standard
	switch {
	case s.Preset != "" && s.Preset != Standard && s.Preset != Trial:
		return bad("preset", fault.Say("rollout.preset"))
	case !standard && len(s.Gates) > 0:
		return bad("gates", fault.Say("rollout.standard_only"))
	case !standard && len(s.Without) > 0:
		return bad("without", fault.Say("rollout.standard_only"))
	case !standard && len(s.Results) > 0:
		return bad("results", fault.Say("rollout.standard_only"))
	case len(s.Results) > 64:
		return bad("results", fault.Say("rollout.suite_count"))
	case standard && (s.Thresholds.ErrorMargin != defaultErrorMargin || s.Thresholds.Quantile != defaultQuantile || s.Thresholds.LatencyRatio != defaultLatencyRatio || s.Thresholds.LatencyFloor != defaultLatencyFloor):
		return bad("preset", fault.Say("rollout.trial_only"))
	case len(s.Gates) > 32:
		return bad("gates", fault.Say("rollout.gate_count"))
	case standard && s.Steps[0] == 100: // stable would be compared with by other hours only
		return bad("steps", fault.Say("rollout.partial_step"))
	case standard && len(s.Thresholds.Gates) == 0:
		return bad("without", fault.Say("rollout.gate_needed"))
	}
	for i, r := range s.Without {
		known := func(g Gate) bool { return g.withDefaults(s.Thresholds).Name() == r.Gate }
		switch at := fmt.Sprintf("without[%d]", i); {
		case !slices.ContainsFunc(standardGates(), known):
			return bad(at+".gate", fault.Say("rollout.gate_unknown"))
		case strings.TrimSpace(r.Reason) == "" || len(r.Reason) > 1024:
			return bad(at+".reason", fault.Say("rollout.gate_reason"))
		}
	}
	for i, r := range s.Results {
		switch at := fmt.Sprintf("results[%d]", i); {
		case r.Suite == "" || len(r.Suite) > 128:
			return bad(at+".suite", fault.Say("rollout.suite_length"))
		case len(r.Digest) != 64 || strings.Trim(r.Digest, "0123456789abcdef") != "":
			return bad(at+".digest", fault.Say("rollout.suite_digest"))
		case !r.sound():
			return bad(at, fault.Say("rollout.suite_counts"))
		}
	}
	if _, asked := s.Thresholds.gate(MetricAccuracy); asked && len(s.Results) == 0 {
		return bad("results", fault.Say("rollout.gate_source"))
	}
	for i, g := range s.Gates {
		if field, want := g.withDefaults(s.Thresholds).problem(); field != "" {
			return bad(fmt.Sprintf("gates[%d].%s", i, field), want)
		}
		if g = g.withDefaults(s.Thresholds); g.weaker(s.Thresholds) && !isRemoved(g, s.Without) {
			return bad(fmt.Sprintf("gates[%d]", i), fault.Say("rollout.gate_weaker"))
		}
	}
	return nil
}
