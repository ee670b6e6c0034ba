package sched

// ClassState is what a controller knows of one class.
type ClassState struct {
	Class         string  `json:"class"`
	TargetMs      float64 `json:"target_ms"`
	EffectiveMs   float64 `json:"effective_target_ms"` // longer than the target where the machine cannot do that even for one sequence
	Margin        float64 `json:"margin"`              // share of the target that is planned with
	ObservedP99Ms float64 `json:"observed_p99_ms"`     // between two tokens, of the latest gaps
	ObservedGaps  int     `json:"observed_gaps"`       // in that window
	MaxSequences  int     `json:"max_sequences"`       // the latest answer; 0: never asked
	SkippedSteps  int     `json:"skipped_steps"`       // since its decoding sequences last had a row
	HeldSteps     int     `json:"prefill_held_steps"`  // since its prompts last had a row
	SequencesOwed float64 `json:"sequences_owed"`      // decoding sequences that are due
}

// State is everything a controller knows, for metrics and people.
type State struct {
	Coefficients Coefficients        `json:"coefficients"`
	LatenessMs   float64             `json:"lateness_ms"`     // 99 in 100 steps come at most so much later than predicted
	Scatter      float64             `json:"scatter"`         // usual relative error of a prediction
	Steps        int                 `json:"steps_observed"`  //
	Outliers     int                 `json:"outlier_steps"`   // steps that took much longer or shorter than predicted
	LastStepMs   float64             `json:"last_step_ms"`    //
	PromptRows   int                 `json:"prompt_rows"`     // configured, as are the next
	FreeRows     int                 `json:"free_rows"`       //
	MinPrefill   int                 `json:"min_prefill"`     //
	MaxSequences int                 `json:"bound_sequences"` //
	Classes      [Classes]ClassState `json:"classes"`
	Demand       Demand              `json:"last_demand"`
	Decision     Decision            `json:"last_decision"`
}

// State returns what the controller knows; the value shares nothing with it.
func (c *Controller) State() State {
	s := State{
		Coefficients: c.fit.coefficients(),
		LatenessMs:   c.fit.lateness() / 1e3,
		Scatter:      c.fit.scatter,
		Steps:        c.fit.steps,
		Outliers:     c.fit.outliers,
		LastStepMs:   milliseconds(c.took),
		PromptRows:   c.cfg.PromptRows,
		FreeRows:     c.cfg.FreeRows,
		MinPrefill:   c.cfg.MinPrefill,
		MaxSequences: c.cfg.MaxSequences,
		Demand:       c.state.demand,
		Decision:     c.state.decision,
	}
	for i, k := range c.classes {
		s.Classes[i] = ClassState{
			Class:         ClassName(i),
			TargetMs:      milliseconds(c.cfg.Targets[i]),
			EffectiveMs:   milliseconds(k.effective),
			Margin:        k.margin,
			ObservedP99Ms: k.all.p99(),
			ObservedGaps:  k.all.len(),
			MaxSequences:  k.most,
			SkippedSteps:  k.skipped,
			HeldSteps:     k.held,
			SequencesOwed: k.owed,
		}
	}
	return s
}
