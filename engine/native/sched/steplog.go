package sched

import "time"

// Share is what a step did for one request.
type Share struct {
	Request  string `json:"request"`
	Decode   int    `json:"decode_tokens"`
	Prefill  int    `json:"prefill_tokens"`
	Drafts   int    `json:"draft_tokens"`
	Accepted int    `json:"accepted_tokens"` // of the drafts
	Cached   int    `json:"cached_tokens"`   // prompt tokens that were found in the cache instead
}

// StepRecord is one step.
type StepRecord struct {
	Step     uint64        `json:"step"` // counts from 1
	Time     time.Time     `json:"time"` // when it began
	Took     time.Duration `json:"took_ns"`
	Load     Load          `json:"load"`
	Cached   int           `json:"cached_tokens"`
	Accepted int           `json:"accepted_tokens"`
	Shares   []Share       `json:"shares"` // their sums are the step's tokens, always
}

// StepLog is a ring of the latest steps. It is safe for use by several goroutines.
type StepLog struct{}

// NewStepLog returns a log of that many steps with that many shares each at most; what is beyond goes to one share without a request.
func NewStepLog(steps, shares int) *StepLog { _, _ = steps, shares; return &StepLog{} }

// Add records a step and copies the shares. The totals are those of the load; what no share accounts for is booked to a share without a
// request and returned, so that a loop that forgets somebody is found out.
func (l *StepLog) Add(at time.Time, took time.Duration, load Load, shares []Share) (unattributed int) {
	_, _, _, _ = at, took, load, shares
	return 0
}

// Since returns copies of the records with a Step above the given one that are still there, oldest first.
func (l *StepLog) Since(step uint64) []StepRecord { _ = step; return nil }
