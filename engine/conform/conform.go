package conform

import (
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
)

// Case is the number of a case: 1 to 15.
type Case int

// The cases.
const (
	Health Case = iota + 1
	Models
	Answer
	Streaming
	ToolsAndReasoning
	Formats
	Sampling
	Errors
	Cancel
	Metrics
	Overload
	Contract
	Media
	Adapters
	Drain
)

// Result is how a case ended.
type Result string

// The results.
const (
	Passed        Result = "pass"
	Failed        Result = "fail"
	NotApplicable Result = "not-applicable"
	NotReported   Result = "not-reported"
)

// Config says what is examined.
type Config struct {
	Peer  peer.Config
	Model string // that is asked; "" is the first that the engine lists
	// Simulated says that the engine is a simulator. It is asked for as well: one that says so in its answers is one.
	Simulated bool
	// Hardware is on what it runs, attested by the caller; with it real software is E4.
	Hardware string
	// Destructive permits cases that stop the engine (CP-15) or fill its queue (CP-11).
	Destructive bool
	// Adapter is the name of one that the engine has, for CP-14; without one the case does not apply.
	Adapter string
	Only    []Case        // empty: all
	Timeout time.Duration // of one case, and of what is asked beside them; 0: two minutes
	// FreeWithin is how soon the slot of an abandoned request has to be free (CP-9); 0: 5 seconds.
	FreeWithin time.Duration
	// MovesWithin is how soon the page of metrics has to show what was done (CP-10); 0: 5 seconds.
	MovesWithin time.Duration
	Load        int    // requests at once of CP-11; 0: 64
	Software    string // the program that examines, with its version
	Now         func() time.Time
}

// Report is what a run found.
type Report struct {
	Format   string           `json:"format"` // "sluice-conform/1"
	Profile  string           `json:"profile"`
	Digest   string           `json:"profile_digest"` // sha256 of the profile as it was used
	Basis    string           `json:"basis"`
	Software string           `json:"software"` // that examined
	Target   Target           `json:"target"`
	Began    time.Time        `json:"began"`
	Took     time.Duration    `json:"took_ns"`
	Grade    capability.Grade `json:"grade"`
	Cases    []Outcome        `json:"cases"`
}

// Target is what was examined. Its address is no part of it.
type Target struct {
	Simulated bool   `json:"simulated"`
	Version   string `json:"version"` // "" if it does not tell
	Model     string `json:"model"`
	Hardware  string `json:"hardware,omitempty"`
}

// Outcome is how one case ended.
type Outcome struct {
	Case     Case          `json:"case"`
	Result   Result        `json:"result"`
	Reason   profile.Text  `json:"reason,omitzero"`    // why it did not pass
	Evidence []string      `json:"evidence,omitempty"` // lines for experts, in English
	Took     time.Duration `json:"took_ns"`
	// Features are what the case saw work, or not.
	Features map[capability.Feature]bool `json:"features,omitempty"`
}

// Failed returns the cases that failed.
func (r Report) Failed() []Case {
	var out []Case
	for _, o := range r.Cases {
		if o.Result == Failed {
			out = append(out, o.Case)
		}
	}
	return out
}

// Observation is what the report shows of the engine's features, to narrow its contract with (capability.Contract.Observe).
func (r Report) Observation(source string) capability.Observation {
	o := capability.Observation{Version: r.Target.Version, Grade: r.Grade, Source: source, Features: map[capability.Feature]bool{}}
	for _, c := range r.Cases {
		for f, worked := range c.Features {
			if before, seen := o.Features[f]; seen {
				worked = worked && before
			}
			o.Features[f] = worked
		}
	}
	return o
}
