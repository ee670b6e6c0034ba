package sched

import (
	"math"
	"time"
)

// Backlog is what stands between a request and its first token.
type Backlog struct {
	Class          int
	Running        [Classes]int // admitted sequences, less those that would be preempted for the request
	Context        int          // positions a running sequence attends to, on average
	PrefillAhead   int          // prompt tokens to be computed before the request's: of admitted sequences and of requests ahead in the queue
	SequencesAhead int          // sequences ahead in the queue
	Known          int          // the request's own prompt tokens that are in the cache
	Prompt         int          // the other ones
	Sequences      int          // the request's own sequences, at least 1
	AdmittedAtMost int          // sequences the loop admits at a time (MaxSequences, or what memory allows); 0: the configuration's bound
	CompletionMean float64      // completion tokens of a sequence, on average
}

// Estimate returns how long the request waits for its first token, as far as the controller knows the machine: the steps until enough
// sequences have ended that there is room for its own, or until the prompts ahead are computed, whichever are more; those of its own
// prompt; and the time of all these tokens. It is an estimate of the mean, so a request is refused only when it is more likely than not to be late.
func (c *Controller) Estimate(b Backlog) time.Duration {
	c.setTarget(float64(b.Context))
	k := c.fit.coefficients()
	tight := b.Class
	for i := Classes - 1; i >= 0; i-- {
		if b.Running[i] > 0 {
			tight = min(tight, i)
		}
	}
	budget := c.budget(tight, c.state.demand.Beside)
	if b.Running == [Classes]int{} {
		budget *= prefillBudgetFactor
	}
	running, decoding := 0, 0.0 // decoding: sequences in a step, on average
	for i, n := range b.Running {
		running += n
		if i <= b.Class {
			decoding += float64(n)
		} else {
			decoding += float64(n) * c.share(i, budget)
		}
	}
	each := k.Prefill + k.Context*float64(b.Prompt)/2                   // of those ahead, taken to be prompts like this one
	own := k.Prefill + k.Context*(float64(b.Known)+float64(b.Prompt)/2) // its tokens attend to the cached ones as well
	fixed := k.Step + decoding*(k.Decode+k.Context*float64(b.Context))
	chunk := func(each float64) float64 {
		return min(max((budget-fixed)/max(each, 1e-3), float64(c.cfg.MinPrefill)), float64(c.cfg.PromptRows))
	}
	most := c.cfg.MaxSequences
	if b.AdmittedAtMost > 0 {
		most = min(most, b.AdmittedAtMost)
	}
	steps := math.Ceil(float64(b.PrefillAhead) / chunk(each)) // until the request's own prompt begins
	if over := running + b.SequencesAhead + max(b.Sequences, 1) - most; over > 0 && decoding > 0 {
		steps = max(steps, float64(over)*max(b.CompletionMean, 1)/decoding)
	}
	steps += math.Ceil(float64(b.Prompt) / chunk(own))
	return microseconds(steps*fixed + float64(b.PrefillAhead)*each + float64(b.Prompt)*own)
}

// AdmitDecision is the answer to a request with a deadline.
type AdmitDecision struct {
	Admit      bool
	Estimate   time.Duration // to the first token
	RetryAfter time.Duration // when not admitted: in whole seconds, 1 to 60
	Never      bool          // not admitted, and the deadline is too short even for an idle engine: a longer one must be asked for
}

// The bounds of RetryAfter.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// Decide says whether a request whose first token must come within the timeout is admitted. estimate is that of its backlog, alone
// that of the same request without one. RetryAfter is honest: by then the backlog has drained so far that the same request would be
// admitted, if nobody else comes, up to the bound of a minute.
func Decide(estimate, alone, timeout time.Duration) AdmitDecision {
	v := AdmitDecision{Admit: estimate <= timeout, Estimate: estimate}
	if v.Admit {
		return v
	}
	v.Never = alone > timeout
	v.RetryAfter = estimate - timeout // a backlog loses a second per second
	if v.Never {
		v.RetryAfter = estimate - alone // when it is served as soon as it can be
	}
	v.RetryAfter = min(max((v.RetryAfter+time.Second-1).Truncate(time.Second), minRetry), maxRetry)
	return v
}

// Limits limit what waits. Zero fields do not limit.
type Limits struct {
	Requests, Tokens, Bytes                   int // of all tenants
	TenantRequests, TenantTokens, TenantBytes int // of one
}

// Limit names what is full.
type Limit string

// What can be full.
const (
	LimitNone           Limit = ""
	LimitRequests       Limit = "requests"
	LimitTokens         Limit = "tokens"
	LimitBytes          Limit = "bytes"
	LimitTenantRequests Limit = "tenant_requests"
	LimitTenantTokens   Limit = "tenant_tokens"
	LimitTenantBytes    Limit = "tenant_bytes"
)

// QueueOccupancy counts what waits. The zero value with limits is ready.
type QueueOccupancy struct {
	Bounds  Limits
	total   amount
	tenants map[string]amount
}

type amount struct{ requests, tokens, bytes int }

func (a amount) plus(b amount) amount {
	return amount{a.requests + b.requests, a.tokens + b.tokens, a.bytes + b.bytes}
}

// Admit counts a request in, or answers what is full for it and counts nothing. A request whose own tokens or bytes are above a bound
// never fits, however empty the queue is.
//
// A request that nothing waits beside is admitted whatever its size: it would be refused for ever otherwise.
func (o *QueueOccupancy) Admit(tenant string, tokens, bytes int) Limit {
	add := amount{1, tokens, bytes}
	total, own := o.total.plus(add), o.tenants[tenant].plus(add)
	for _, c := range []struct {
		bound      Limit
		have, most int
	}{
		{LimitRequests, total.requests, o.Bounds.Requests},
		{LimitTokens, total.tokens, o.Bounds.Tokens},
		{LimitBytes, total.bytes, o.Bounds.Bytes},
		{LimitTenantRequests, own.requests, o.Bounds.TenantRequests},
		{LimitTenantTokens, own.tokens, o.Bounds.TenantTokens},
		{LimitTenantBytes, own.bytes, o.Bounds.TenantBytes},
	} {
		if c.most > 0 && c.have > c.most && o.total.requests > 0 {
			return c.bound
		}
	}
	if o.tenants == nil {
		o.tenants = map[string]amount{}
	}
	o.total, o.tenants[tenant] = total, own
	return LimitNone
}

// Release counts a request out, with what it was admitted with.
func (o *QueueOccupancy) Release(tenant string, tokens, bytes int) {
	less := amount{-1, -tokens, -bytes}
	o.total = o.total.plus(less)
	own := o.tenants[tenant].plus(less)
	if own.requests <= 0 {
		delete(o.tenants, tenant)
		return
	}
	o.tenants[tenant] = own
}

// Waiting returns how many requests, tokens and bytes are counted in.
func (o *QueueOccupancy) Waiting() (requests, tokens, bytes int) {
	return o.total.requests, o.total.tokens, o.total.bytes
}
