package sched

import (
	"math"
	"time"
)

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
	MinPrefill   int                    // prompt tokens that go into every step while prompts wait, 1 to 8; default 4
	Prior        Coefficients           // expected before anything is measured; default 500, 800, 800 and 0.5
}

func (cfg ControllerConfig) withDefaults() ControllerConfig {
	for i, t := range [Classes]time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
		if cfg.Targets[i] <= 0 {
			cfg.Targets[i] = t
		}
	}
	whole := func(v *int, otherwise int) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	whole(&cfg.MaxSequences, 64)
	whole(&cfg.PromptRows, 128)
	whole(&cfg.FreeRows, 1)
	whole(&cfg.MinPrefill, 4)
	cfg.MinPrefill = min(cfg.MinPrefill, 8)
	positive := func(v *float64, otherwise float64) {
		if !(*v > 0) || math.IsInf(*v, 0) {
			*v = otherwise
		}
	}
	positive(&cfg.Prior.Step, 500)
	positive(&cfg.Prior.Decode, 800)
	positive(&cfg.Prior.Prefill, 800)
	positive(&cfg.Prior.Context, 0.5)
	return cfg
}

// The outer correction: the margin is the share of a target that is planned with.
const (
	gapWindow       = 512  // gaps the observed P99 is taken from
	gapsBetween     = 128  // gaps between two corrections
	initialMargin   = 0.9  // before gaps are observed
	minMargin       = 0.6  // below, smaller steps do not help: what makes tokens late then is not what the steps carry
	marginCut       = 0.85 // when the P99 is over the target
	marginRaise     = 0.25 // when it is comfortably under: this part of what is missing to the target
	comfortableLoad = 0.92 // share of the target
)

// promptShare is the part of a step's tokens that MaxSequences leaves for prompts, by the class whose target bounds the step. With a half, the
// first token of a newcomer takes about twice as long as on an idle machine. Batch leaves little: nobody waits for its first token.
//
//nolint:gochecknoglobals // a constant table
var promptShare = [Classes]float64{0.5, 0.5, 0.1}

// minBudget is the part of a target that a step may take in any case. Lateness beyond the rest of the target comes from pauses, against
// which smaller steps do not help, while everybody pays for them.
const minBudget = 0.45

// stretch is how much longer than a step of one sequence with a few prompt tokens a target must be, to be worth aiming at.
const maxBudgetFactor = 2

// Controller decides per step how many sequences, prompt tokens and draft tokens go in, so that 99 in 100 tokens come within the
// target of their class. There is one per model.
//
// The inner loop is the fit: predicted time + lateness ≤ target × margin. The outer one is the margin: gaps observed longer than the
// target cut it, gaps comfortably shorter raise it. A target shorter than twice what a step of one sequence alone takes is
// replaced by that, since holding everybody else back would not meet it either.
type Controller struct {
	cfg     ControllerConfig
	fit     fit
	classes [Classes]classControl
	took    time.Duration // of the latest step
	state   struct {
		demand   Demand
		decision Decision
	}
}

// classControl is what a controller remembers of a class.
type classControl struct {
	margin    float64
	gaps      window        // milliseconds; of sequences that did not yield
	all       window        // those that did included
	fresh     int           // gaps since the latest correction
	effective time.Duration // target, or what is aimed at in its stead
	owed      float64       // sequences that are due
	skipped   int           // steps since its decoding sequences had a row
	held      int           // steps since its prompts had a row
	most      int           // latest answer of MaxSequences
}

// NewController returns a controller that expects the machine of the configuration's prior.
func NewController(cfg ControllerConfig) *Controller {
	c := &Controller{cfg: cfg.withDefaults()}
	c.fit = newFit(c.cfg.Prior)
	for i := range c.classes {
		c.classes[i] = classControl{margin: initialMargin, gaps: newWindow(gapWindow), all: newWindow(gapWindow), effective: c.cfg.Targets[i]}
	}
	return c
}

// Observe tells how long a step took: from the beginning of its planning to the end of its sampling, since that is what a token waits.
// The load is what the step really carried.
func (c *Controller) Observe(l Load, took time.Duration) {
	c.fit.observe(l, took)
	c.took = took
}

// HasClass reports whether the controller has seen steps of this machine. Before, its estimates are those of another one.
func (c *Controller) HasClass() bool { return c.fit.steps > 0 }

// ObserveGap tells the time between two tokens of a sequence of the class. Where a step brings a sequence several tokens, their gap is
// that of the step, once. That of a sequence that yielded meanwhile says nothing of the size of steps.
func (c *Controller) ObserveGap(class int, gap time.Duration, yielded bool) {
	k := &c.classes[class]
	k.all.add(milliseconds(gap))
	if yielded {
		return
	}
	k.gaps.add(milliseconds(gap))
	if k.fresh++; k.fresh < gapsBetween {
		return
	}
	k.fresh = 0
	switch p99, target := k.gaps.p99(), milliseconds(k.effective); {
	case p99 > target:
		k.margin = max(minMargin, k.margin*marginCut)
		k.gaps.clear() // the next correction is from what comes after this one
	case p99 < comfortableLoad*target:
		k.margin = min(1, k.margin*(1+marginRaise*(1-p99/target)))
	}
}

// Predict returns how long a step will take on average, and what 99 in 100 such steps stay under.
func (c *Controller) Predict(l Load) (mean, p99 time.Duration) {
	t := c.fit.predict(l)
	return microseconds(t), microseconds(t + c.fit.lateness())
}

// setTarget sets the effective targets for sequences that attend to that many positions.
func (c *Controller) setTarget(context float64) {
	k := c.fit.coefficients()
	alone := k.Step + k.Decode + k.Context*context + float64(c.cfg.MinPrefill)*k.Prefill
	least := microseconds(maxBudgetFactor * alone)
	for i := range c.classes {
		c.classes[i].effective = max(c.cfg.Targets[i], least)
	}
}

// budget returns the microseconds that a step may take on average for the target of a class.
func (c *Controller) budget(class int, beside time.Duration) float64 {
	t := c.within(class, beside)
	return max(t*c.classes[class].margin-c.fit.lateness(), t*minBudget)
}

// within returns the microseconds of a class's target that are left to the steps.
func (c *Controller) within(class int, beside time.Duration) float64 {
	k := &c.classes[class]
	return float64(max(k.effective-beside, k.effective/4)) / float64(time.Microsecond)
}

// share returns the part of the steps, of length in microseconds, that a sequence of the class must be in: twice per target, so that
// it is in time although steps are uneven.
func (c *Controller) share(class int, step float64) float64 {
	k := &c.classes[class]
	return min(1, 2*step/(float64(k.effective)/float64(time.Microsecond)*k.margin))
}

// MaxSequences answers how many sequences of a class may be admitted beside the running ones of the other classes (running counts
// admitted sequences; that of the class itself is ignored), so that the predicted P99 of a step that decodes them all stays within
// the target of the most urgent one, and half of its tokens' time is left for the prompts of newcomers (a tenth where all are batch). Sequences of less urgent classes weigh less, since they need not be in every step.
// context is the positions a sequence attends to, on average. The answer is at least 1 and at most the configuration's bound; the bound
// on the sum of all classes is the caller's to keep.
func (c *Controller) MaxSequences(class int, running [Classes]int, context int) int {
	c.setTarget(float64(context))
	running[class] = 1
	tight := 0
	for running[tight] == 0 {
		tight++
	}
	k := c.fit.coefficients()
	// Pauses are no reason to admit fewer: they are as long then. What counts is what steps take by themselves.
	step := c.within(tight, c.state.demand.Beside) * c.classes[tight].margin
	each := max(k.Decode+k.Context*float64(context), 1e-3)
	room := step - k.Step
	room = (room - max(room*promptShare[tight], float64(c.cfg.MinPrefill)*k.Prefill)) / each
	weight := func(other int) float64 {
		if other == tight {
			return 1
		}
		return c.share(other, step)
	}
	for other, n := range running {
		if other != class {
			room -= float64(n) * weight(other)
		}
	}
	n := int(min(max(room/weight(class), 1), float64(c.cfg.MaxSequences)))
	c.classes[class].most = n
	return n
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func microseconds(t float64) time.Duration {
	return time.Duration(min(t, 1e12) * float64(time.Microsecond))
}
