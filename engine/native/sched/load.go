package sched

import "time"

// The queue classes, most urgent first.
const (
	Interactive = iota // somebody watches the text appear
	Standard
	Batch // takes what the others leave
	Classes
)

// ClassName names a class for metrics and people.
func ClassName(class int) string { return [Classes]string{"interactive", "standard", "batch"}[class] }

// Load is what one step carries. A row is one token fed to the model.
type Load struct {
	Decode    int `json:"decode_tokens"`     // rows of sequences that compute their next token, one each
	Prefill   int `json:"prefill_tokens"`    // rows of prompts, and of sequences recomputed after a preemption
	Drafts    int `json:"draft_tokens"`      // rows of guessed tokens that are verified
	Context   int `json:"context_positions"` // positions the rows attend to, summed over all rows
	Sequences int `json:"sequences"`         // sequences that have a row
}

// Rows returns the number of rows of the step.
func (l Load) Rows() int { return l.Decode + l.Prefill + l.Drafts }

// ChunkContext returns the positions that n rows attend to that follow each other from position from: what a chunk adds to a Load's
// Context. A sequence's next token is a chunk of one.
func ChunkContext(from, n int) int { return n*from + n*(n+1)/2 }

// ClassDemand is what the sequences of one class wait for.
type ClassDemand struct {
	Decoding       int `json:"decoding"`        // admitted sequences whose prompt is computed: each waits for its next token
	Context        int `json:"context"`         // positions these attend to in one step, summed (ChunkContext(computed, 1) each)
	Prefill        int `json:"prefill"`         // tokens of admitted sequences that are still to be computed before the next sample
	PrefillContext int `json:"prefill_context"` // positions those attend to, summed (ChunkContext(computed, rest) each); 0: not known
	Behind         int `json:"behind"`          // of Prefill, tokens of tenants that are behind
	Ahead          int `json:"ahead"`           // of Decoding, sequences of tenants that are ahead
	Waiting        int `json:"waiting"`         // sequences not admitted yet
	Drafts         int `json:"drafts"`          // draft tokens the decoding sequences could verify
}

// Demand is what could go into the next step.
type Demand struct {
	Classes [Classes]ClassDemand `json:"classes"`
	// Acceptance is the share of draft tokens that were right lately, 0 to 1. With 0, drafts are tried in free rows only.
	Acceptance float64 `json:"draft_acceptance"`
	// Beside is the time that other work (another model, embeddings) takes between two steps of this model; it comes off the target.
	Beside time.Duration `json:"beside_ns"`
	// Limit is the longest the step may take because sequences of other models wait for it; 0: none do.
	Limit time.Duration `json:"limit_ns"`
}

// ClassDecision is what of one class goes into the step.
type ClassDecision struct {
	Decode  int `json:"decode"`  // sequences; where it is fewer than are decoding, those that were left out longest go first
	Prefill int `json:"prefill"` // tokens at most, in the order of Fair
	Drafts  int `json:"drafts"`  // tokens at most
}

// Reason says what bounded a step.
type Reason string

// What can bound a step.
const (
	ReasonIdle   Reason = "idle"   // nothing waits
	ReasonAll    Reason = "all"    // everything that waits goes in
	ReasonTarget Reason = "target" // more would make the tokens of the target's class late
	ReasonChunk  Reason = "chunk"  // the prompt rows are as many as the machine computes best, or as long as a newcomer may wait
	ReasonYield  Reason = "yield"  // tenants that are ahead leave the step to the prompts of those that are behind
	ReasonSkip   Reason = "skip"   // decoding sequences of a less urgent class were left out, so that the target's class is in time
	ReasonFloor  Reason = "floor"  // what must go in so that nobody starves takes longer than the target
)

// Decision is what goes into the next step, and why.
type Decision struct {
	Classes [Classes]ClassDecision `json:"classes"`
	Target  int                    `json:"target_class"` // the class whose target bounds the step
	// Budget is what the step may take on average, so that 99 in 100 stay within the target: target × margin − lateness. While nothing
	// decodes it is some targets, and two when others yield.
	Budget time.Duration `json:"budget_ns"`
	Mean   time.Duration `json:"predicted_mean_ns"`
	P99    time.Duration `json:"predicted_p99_ns"`
	Load   Load          `json:"load"` // what was planned; what the step then carries may be less
	// Yield says that of YieldClass and less urgent classes the decoding sequences are those of tenants that are not ahead, and the
	// prompts those of tenants that are behind.
	Yield      bool   `json:"yield"`
	YieldClass int    `json:"yield_class"`
	Reason     Reason `json:"reason"`
}
