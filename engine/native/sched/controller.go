package sched

import "time"

// Coefficients say how long a step takes, in microseconds: Step + Decode·decode tokens + Prefill·(prefill and draft tokens) +
// Context·positions attended to.
type Coefficients struct {
	Step    float64 `json:"step_us"`
	Decode  float64 `json:"decode_token_us"`
	Prefill float64 `json:"prefill_token_us"`
	Context float64 `json:"context_position_us"`
}

// ControllerConfig says what a controller aims for and begins with. Zero fields take the defaults.
type ControllerConfig struct {
	Targets      [Classes]time.Duration // between two tokens of a sequence, 99 in 100; default 20 ms, 50 ms, 500 ms
	MaxSequences int                    // sequences admitted at a time, at most; default 64
	PromptRows   int                    // prompt tokens of a step that are computed best; default 128
	FreeRows     int                    // rows that a step computes in about the time of one; default 1
	MinPrefill   int                    // prompt tokens that go into every step while prompts wait; default 4, at most 8
	Prior        Coefficients           // expected before anything is measured; default 500, 800, 800 and 0.5
}

// Controller decides per step how many sequences, prompt tokens and draft tokens go in, so that 99 in 100 tokens come within the
// target of their class. There is one per model.
type Controller struct {
	cfg ControllerConfig
}

// NewController returns a controller that expects the machine of the configuration's prior.
func NewController(cfg ControllerConfig) *Controller { return &Controller{cfg: cfg.withDefaults()} }

func (cfg ControllerConfig) withDefaults() ControllerConfig { return cfg }

// Plan decides what goes into the next step. It counts as that step: guarantees of the kind "once in eight steps" count calls, so the
// loop calls it once per step.
func (c *Controller) Plan(d Demand) Decision {
	var out Decision
	left := c.cfg.PromptRows
	for i, q := range d.Classes {
		n := min(left, q.Prefill)
		out.Classes[i] = ClassDecision{Decode: q.Decoding, Prefill: n}
		left -= n
	}
	return out
}

// Observe tells how long a step took: from the beginning of its planning to the end of its sampling, since that is what a token waits.
// The load is what the step really carried.
func (c *Controller) Observe(l Load, took time.Duration) { _, _ = l, took }

// ObserveGap tells the time between two tokens of a sequence of the class.
func (c *Controller) ObserveGap(class int, gap time.Duration) { _, _ = class, gap }

// Predict returns how long a step will take on average, and what 99 in 100 such steps stay under.
func (c *Controller) Predict(l Load) (mean, p99 time.Duration) { _ = l; return 0, 0 }

// MaxSequences answers how many sequences of a class may be admitted beside the running ones of the other classes (running counts
// admitted sequences; that of the class itself is ignored), so that the predicted P99 of a step that only decodes and computes the
// least share of prompts stays within the targets. context is the positions a sequence attends to, on average. The answer is at least 1
// and at most the configuration's bound; the bound on the sum of all classes is the caller's to keep.
func (c *Controller) MaxSequences(class int, running [Classes]int, context int) int {
	_, _, _ = class, running, context
	return c.cfg.MaxSequences
}

// ClassState is what a controller knows of one class.
type ClassState struct {
	Class           string  `json:"class"`
	TargetMs        float64 `json:"target_ms"`
	EffectiveMs     float64 `json:"effective_target_ms"` // longer than the target where the machine cannot do that even for one sequence
	Margin          float64 `json:"margin"`              // share of the target that is planned with
	ObservedP99Ms   float64 `json:"observed_p99_ms"`
	ObservedGaps    int     `json:"observed_gaps"` // in the window of the P99
	MaxSequences    int     `json:"max_sequences"` // at the last demand
	SkippedSteps    int     `json:"skipped_steps"` // since its decoding sequences last had a row
	PrefillHeldBack int     `json:"prefill_held_back_steps"`
}

// State is everything a controller knows, for metrics and people.
type State struct {
	Coefficients Coefficients        `json:"coefficients"`
	Spread       float64             `json:"spread"`         // 99 in 100 steps take at most this times the predicted mean
	PlannedWith  float64             `json:"planned_spread"` // the same, bounded: smaller steps do not help against pauses
	Steps        int                 `json:"steps_observed"`
	Outliers     int                 `json:"outliers"` // steps that were much longer or shorter than predicted
	Classes      [Classes]ClassState `json:"classes"`
	Demand       Demand              `json:"last_demand"`
	Decision     Decision            `json:"last_decision"`
}

// State returns what the controller knows; the value shares nothing with it.
func (c *Controller) State() State { return State{} }
