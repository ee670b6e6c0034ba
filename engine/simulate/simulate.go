package simulate

import (
	"context"
	"time"

	"github.com/sluice-project/sluice/engine/profile"
)

// Config says what is simulated.
type Config struct {
	Profile *profile.Profile
	Model   Model
	Machine Machine
	Seed    uint64
	Version string // that it reports; "" is "0.0.0-simulated"
	Clock   Clock  // nil: Real
	Faults  []Fault
	// Mutation breaks the dialect; "" does not.
	Mutation Mutation
	// Role is that of a part of a split fleet, as the metrics of some engines tell it.
	Role string
	// Key, if set, must come as a bearer token with every POST. What is asked by GET needs none.
	Key string
}

// Model is what is served.
type Model struct {
	Name          string
	Parameters    float64 // of all weights
	Active        float64 // that one token uses; 0: all
	BytesPerParam float64
	KVBytesToken  float64 // of keys and values
	Context       int     // in tokens
	Adapters      []string
	Embedding     int  // > 0: it embeds into so many dimensions
	Vision, Audio bool // it takes images, sounds
	Thinks        bool // before it answers
}

// Machine is what it runs on.
type Machine struct {
	Name         string
	FLOPS        float64 // that are really reached, per second
	BytesSecond  float64 // of the memory
	Memory       float64 // bytes
	StepOverhead time.Duration
	MaxBatch     int           // sequences in one step
	MaxQueue     int           // requests that wait; more are refused
	PrefillChunk int           // tokens of prompts in one step
	LoadTime     time.Duration // before it is ready; Ollama's cold start
	KeepAlive    time.Duration // idle time after which the model is unloaded; 0: never
}

// Clock is the time of a simulator.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// Fault is a failure that happens now and then.
type Fault struct {
	Kind  FaultKind
	Every int           // each so-many-th request, from the first; 0 and 1: all
	Delay time.Duration // of FaultSlow and FaultStuck
	After int           // chunks before it happens, of FaultCut and FaultMalformed
}

// FaultKind is what fails.
type FaultKind string

// The faults.
const (
	FaultSlow      FaultKind = "slow"      // the answer begins after a delay
	FaultError     FaultKind = "error"     // 500
	FaultOverload  FaultKind = "overload"  // refused as the profile says
	FaultCut       FaultKind = "cut"       // the stream ends without its end
	FaultMalformed FaultKind = "malformed" // an event is no JSON
	FaultUsage     FaultKind = "usage"     // counts are wrong
	FaultStuck     FaultKind = "stuck"     // a slot stays taken for a while
	FaultHealth    FaultKind = "health"    // the health check fails each so-many-th time
	FaultVersion   FaultKind = "version"   // the version is another one from the so-many-th question on
)

// Mutation is a way to break the dialect.
type Mutation string
