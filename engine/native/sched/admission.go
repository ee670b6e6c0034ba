package sched

import "time"

// Backlog is what stands between a request and its first token.
type Backlog struct {
	Class          int
	Running        [Classes]int // admitted sequences, less those that would be preempted for the request
	Context        int          // positions a running sequence attends to, on average
	PrefillAhead   int          // prompt tokens to be computed before the request's: of admitted sequences and of requests ahead in the queue
	SequencesAhead int          // sequences ahead in the queue
	Prompt         int          // the request's own prompt tokens, less those in the cache
	Sequences      int          // the request's own sequences, at least 1
	AdmittedAtMost int          // sequences the loop admits at a time (MaxSequences, or what memory allows); 0: the configuration's bound
	CompletionMean float64      // completion tokens of a sequence, on average
}

// Estimate returns how long the request waits for its first token, as far as the controller knows the machine: the time until there is
// room for its sequences, then the time of the prompts ahead and of its own, shared with sequences that decode.
func (c *Controller) Estimate(b Backlog) time.Duration { _ = b; return 0 }

// Verdict is the answer to a request with a deadline.
type Verdict struct {
	Admit      bool
	Estimate   time.Duration // to the first token
	RetryAfter time.Duration // when not admitted: in whole seconds, 1 to 60
	Never      bool          // not admitted, and the deadline is too short even for an idle engine: a longer one must be asked for
}

// Decide says whether a request whose first token is worth nothing after patience is admitted. estimate is that of its backlog, idle that
// of the same request alone. RetryAfter is honest: by then the backlog has drained so far that the estimate is within the same patience.
func Decide(estimate, idle, patience time.Duration) Verdict {
	_, _ = idle, patience
	return Verdict{Admit: true, Estimate: estimate}
}

// Bounds limit what waits. Zero fields do not limit.
type Bounds struct {
	Requests, Tokens, Bytes                   int // of all tenants
	TenantRequests, TenantTokens, TenantBytes int // of one
}

// Bound names what is full.
type Bound string

// What can be full.
const (
	BoundNone           Bound = ""
	BoundRequests       Bound = "requests"
	BoundTokens         Bound = "tokens"
	BoundBytes          Bound = "bytes"
	BoundTenantRequests Bound = "tenant_requests"
	BoundTenantTokens   Bound = "tenant_tokens"
	BoundTenantBytes    Bound = "tenant_bytes"
)

// Occupancy counts what waits. The zero value with bounds is ready.
type Occupancy struct {
	Bounds Bounds
}

// Admit counts a request in, or answers what is full for it and counts nothing.
func (o *Occupancy) Admit(tenant string, tokens, bytes int) Bound {
	_, _, _ = tenant, tokens, bytes
	return BoundNone
}

// Release counts a request out, with what it was admitted with.
func (o *Occupancy) Release(tenant string, tokens, bytes int) { _, _, _ = tenant, tokens, bytes }
