package workflows

import (
	"context"
	"errors"

	"gorm.io/gorm"
)

// Assignment says which share of a model's conversations which version answers.
type Assignment struct {
	Model, Stable, Candidate string
	Basis                    int // share of the candidate, 0 to 10000
	Rollout, Salt            string
}

// ArmStats is what one arm did: counts, and the newest latencies in microseconds.
type ArmStats struct {
	Requests, Errors  int64
	FirstToken, Total []int64
}

// ArmSums is what one arm did, summed up. FirstToken and Total count answered requests by latency in microseconds, rounded down as evidence is.
type ArmSums struct {
	FirstToken, Total map[int64]int64
	Sums
}

// Record is one transition or capacity change for the audit log.
type Record struct {
	Actor    Actor
	Action   string // "rollout.transition" or "capacity.change"
	Resource string // model or capacity plan
	Rollout  string
	Detail   map[string]string
}

// Deps are the parts of the platform that workflows act on. The interfaces are small so that a test can make any of them fail.
type Deps struct {
	DB     *gorm.DB
	Routes routes
	Stats  stats
	Audit  recorder
	// Engine receives the concurrency of this process; nil in a process without an engine.
	Engine engine
}

type routes interface {
	// Assignment returns the assignment of model; one without a rollout has an empty Rollout.
	Assignment(ctx context.Context, model string) (Assignment, error)
	SetAssignment(ctx context.Context, a Assignment) error
	HasVersion(ctx context.Context, model, version string) (bool, error)
	// Abilities returns what a version is known to do at this moment, and how much of it can be seen. Errors: CodeNotFound if there is no such version.
	Abilities(ctx context.Context, model, version string) (have Abilities, sight Sight, err error)
}

// ErrCounting says that statistics are not there yet, and come closer with each call that says so.
var ErrCounting = errors.New("the records of the rollout are still being counted")

type stats interface {
	// ArmStats returns what the arms "stable" and "candidate" of a rollout did since a time in unix microseconds.
	ArmStats(ctx context.Context, rollout string, since int64) (map[string]ArmStats, error)
	// ArmSums returns what one arm did since a time, for gates: over every request. An arm that did nothing has the zero value.
	// Errors: [ErrCounting] if ctx ended before all was counted.
	ArmSums(ctx context.Context, rollout, arm string, since int64) (ArmSums, error)
	// ForgetArmSums lets go of what ArmSums keeps of a rollout, but for sums since these times.
	ForgetArmSums(ctx context.Context, rollout string, except ...int64) error
}

type recorder interface {
	// Append returns once the record is durable, with its id.
	Append(ctx context.Context, r Record) (string, error)
}

type engine interface {
	// Configured returns the concurrency of the configuration.
	Configured() int
	SetConcurrency(ctx context.Context, n int) error
}
