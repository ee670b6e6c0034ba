package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// Evaluation is one evaluation of a step: what was counted, the limits it was held against, and the verdict.
type Evaluation struct {
	At         int64 // UTC unix microseconds
	Evidence   Evidence
	Thresholds Thresholds
	Decision   Decision
	// Proof is the analysis that the step had passed when it began to wait, if it did.
	Proof *Evaluation
}

// sealed is an evaluation as people take it away.
type sealed struct {
	Evidence   json.RawMessage `json:"evidence"` // canonical; its SHA-256 is the hash in the audit record
	Thresholds Thresholds      `json:"thresholds"`
	Decision   Decision        `json:"decision"`
	Proof      *sealed         `json:"proof,omitempty"` // the analysis on which a step passed that waited then
}

func (l Evaluation) seal() *sealed {
	out := &sealed{Evidence: l.Evidence.canonical(), Thresholds: l.Thresholds, Decision: l.Decision}
	if l.Proof != nil {
		out.Proof = l.Proof.seal()
	}
	return out
}

// Sealed returns the evaluation as JSON, for [VerifySealed].
func (l Evaluation) Sealed() string {
	body, err := json.Marshal(l.seal())
	if err != nil { // cannot happen: the evidence is JSON, and no figure of a decision is infinite
		return ""
	}
	return string(body)
}

// VerifySealed computes the verdict of a sealed evaluation again, and that of the analysis that a step which waited had passed. It returns an
// error that says what does not agree: the evidence with the hash, the limits with the evidence, or the decision with what both give. The hash has to
// come from somewhere else than the evaluation: from the audit record of the transition.
func VerifySealed(body, hash string) (Evaluation, error) {
	var in sealed
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		return Evaluation{}, fmt.Errorf("read the evidence: %w", err)
	}
	return in.verify(hash)
}

func (in *sealed) verify(hash string) (Evaluation, error) {
	l := Evaluation{Thresholds: in.Thresholds}
	if err := json.Unmarshal(in.Evidence, &l.Evidence); err != nil {
		return l, fmt.Errorf("read the evidence: %w", err)
	}
	ev := l.Evidence
	if sum := sha256.Sum256(in.Evidence); hex.EncodeToString(sum[:]) != hash || ev.Hash() != hash {
		return l, fmt.Errorf("the evidence has the hash %x, the record names %s", sum, hash)
	}
	if gates := len(in.Thresholds.Gates) > 0; gates != (ev.Schema >= gateSchema) || gates && ev.Limits != in.Thresholds.digest() {
		return l, errors.New("the limits are not those that the evidence was judged by")
	}
	if l.Decision = Verdict(ev, in.Thresholds); !l.Decision.agrees(in.Decision) {
		return l, fmt.Errorf("the evidence gives %s (%s), the record says %s (%s)", l.Decision.Outcome, l.Decision.Code, in.Decision.Outcome, in.Decision.Code)
	}
	if ev.Proven == "" {
		return l, nil
	}
	if in.Proof == nil {
		return l, fmt.Errorf("the analysis %s that the step had passed is missing", ev.Proven)
	}
	proof, err := in.Proof.verify(ev.Proven)
	if err != nil {
		return l, fmt.Errorf("the analysis that the step had passed: %w", err)
	}
	if p := proof.Evidence; proof.Decision.Outcome != Pass || p.Proven != "" || p.Confirm || p.Rollout != ev.Rollout || p.Phase != ev.Phase || p.Limits != ev.Limits {
		return l, errors.New("the step had not passed the analysis that it names")
	}
	l.Proof = &proof
	return l, nil
}

// agrees reports whether two decisions say the same. Figures may differ by what processors round differently; the words are not compared.
func (d Decision) agrees(o Decision) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12+1e-6*max(math.Abs(a), math.Abs(b)) }
	if d.Outcome != o.Outcome || d.Code != o.Code || !slices.Equal(d.Lost, o.Lost) || len(d.Checks) != len(o.Checks) {
		return false
	}
	for i, a := range d.Checks {
		b := o.Checks[i]
		if a.Name != b.Name || a.Kept != b.Kept || !near(a.Worse, b.Worse) || !near(a.Holds, b.Holds) || !near(a.Stable, b.Stable) || !near(a.Candidate, b.Candidate) {
			return false
		}
	}
	return true
}

// VerifyEarlier compares what the evidence says of earlier steps with those steps, by hash.
func (l Evaluation) VerifyEarlier(steps map[string]Evaluation) error {
	for _, e := range l.Evidence.Earlier {
		step, ok := steps[e.Evidence]
		if !ok {
			return fmt.Errorf("the evidence of the earlier step %s is missing", e.Phase)
		}
		again := earlierStep(step)
		same := slices.EqualFunc(again.Effects, e.Effects, func(a, b StepEffect) bool {
			return a.Gate == b.Gate && math.Abs(a.Effect-b.Effect) < 1e-9 && math.Abs(a.SE-b.SE) < 1e-9
		})
		if again.Phase != e.Phase || !same {
			return fmt.Errorf("the effects of the earlier step %s are not those of its evidence", e.Phase)
		}
	}
	return nil
}

// digest returns the SHA-256 of the thresholds.
func (t Thresholds) digest() string {
	body, err := json.Marshal(t)
	if err != nil {
		return "" // NaN: refused before, and agrees with no digest
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Level returns the p-value that the check has to hold by, and the level above which it does not hold: for a gate those of this analysis, over all
// partial steps on the last of them. The level is 0 while no analysis of the gate is due.
func (l Evaluation) Level(c Check) (p, alpha float64) {
	g, ok := l.Thresholds.gate(c.Name)
	if !ok {
		return c.Holds, l.Thresholds.PromoteAlpha
	}
	own, all := l.Evidence.levels(g)
	if c.Pooled != nil {
		return *c.Pooled, all
	}
	return c.Holds, own
}

// Quantiles returns the latencies of an arm at the quantile that is compared, in microseconds; zero means that there are none.
func (l Evaluation) Quantiles(a Arm) (firstToken, total int64) {
	return newSeries(a.FirstToken).quantile(l.Thresholds.Quantile), newSeries(a.Total).quantile(l.Thresholds.Quantile)
}

const (
	// minSample is the sample below which nothing is foretold: its rates and latencies say too little.
	minSample = 20
	// maxGrowth is how many times today's sample is thought ahead.
	maxGrowth = 64
)

// RequestsNeeded says how many more requests of each version prove the check, if they go as those before did. It answers only if that can be
// said: not for a small sample, nor where more of the same would prove nothing. Without a check it is what the minimum lacks.
func (l Evaluation) RequestsNeeded(check string) (stable, candidate int64, ok bool) {
	s, c, th := l.Evidence.Stable, l.Evidence.Candidate, l.Thresholds
	stable, candidate = max(th.MinRequests-s.Requests, 0), max(th.MinRequests-c.Requests, 0)
	if l.Evidence.Phase == PhaseBaseline {
		candidate = 0
	}
	if check == "" {
		return stable, candidate, stable+candidate > 0
	}
	if min(s.Requests, c.Requests) < minSample || len(th.Gates) > 0 { // gates show their interval
		return 0, 0, false
	}
	alone := shareOf(l.Evidence.Phase) == 100 // stable answers nothing any more
	proven := func(growth float64) bool {
		ev := l.Evidence
		ev.Candidate = c.grown(growth)
		if !alone {
			ev.Stable = s.grown(growth)
		}
		for _, x := range checks(ev, th) {
			if x.Name == check {
				return x.Holds <= th.PromoteAlpha
			}
		}
		return false
	}
	if proven(1) {
		return stable, candidate, stable+candidate > 0
	}
	if !proven(maxGrowth) {
		return 0, 0, false
	}
	low, high := 1.0, float64(maxGrowth)
	for high/low > 1.05 {
		if mid := math.Sqrt(low * high); proven(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	candidate = max(candidate, more(c.Requests, high))
	if !alone {
		stable = max(stable, more(s.Requests, high))
	}
	return stable, candidate, true
}

func more(n int64, growth float64) int64 { return int64(math.Ceil(float64(n) * (growth - 1))) }

// grown is the arm after more of the same.
func (a Arm) grown(by float64) Arm {
	scale := func(n int64) int64 { return int64(math.Round(float64(n) * by)) }
	bins := func(in []Bin) []Bin {
		out := make([]Bin, len(in))
		for i, b := range in {
			out[i] = Bin{Micros: b.Micros, Count: scale(b.Count)}
		}
		return out
	}
	return Arm{Since: a.Since, Requests: scale(a.Requests), Errors: scale(a.Errors), FirstToken: bins(a.FirstToken), Total: bins(a.Total)}
}

// Why says why t was made: the words of the person who made it, or the cause, with its code. evaluation is what the step was left on. A
// release that knew no causes wrote English only; what it meant is found again from the evidence.
func (t Transition) Why(th Thresholds, evaluation *Evaluation) (code string, text fault.Phrase) {
	switch {
	case t.Cause != nil:
		return t.Cause.Code, t.Cause.Sentence(th)
	case t.Actor != rolloutActor():
		return "", fault.Quote(t.Reason, t.Reason)
	}
	c := Cause{Code: causeStopped, English: strings.TrimPrefix(t.Reason, "the rollout stopped: ")}
	switch {
	case strings.HasPrefix(t.Reason, "the workflow was cancelled"):
		c.Code = causeCancelled
	case strings.HasPrefix(t.Reason, "the assignment of the model was changed"):
		c.Code = causeSuperseded
	case t.To == PhaseFailed:
		c.Code = causeRefused
	case evaluation != nil && strings.HasPrefix(t.Reason, "deadline: "):
		c.Code, c.Decision = causeDeadline, &evaluation.Decision
	case evaluation != nil && !strings.HasPrefix(t.Reason, "the rollout stopped: "):
		c.Code, c.Decision = causeVerdict, &evaluation.Decision
	}
	return c.Code, c.Sentence(th)
}
