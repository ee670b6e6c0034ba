package sched

import "time"

// FairConfig says what a token counts. Zero fields take the defaults.
type FairConfig struct {
	Weights  map[string]float64 // shares of tenants; default 1
	Prefill  float64            // what a prompt token counts; default 1
	Cached   float64            // a prompt token found in the cache; default 0
	Decode   float64            // a completion token; default 2
	Tenants  int                // tenants remembered that have no open request; default 1024
	MaxWait  time.Duration      // a class whose oldest request waits longer is late; default 10 s
	MinShare float64            // of the tokens that late classes get whatever more urgent ones want; default 1/16
}

// Candidate is a request, or a sequence, that waits for its turn.
type Candidate struct {
	Tenant   string
	Class    int
	Priority int       // among the tenant's candidates of the class: higher goes first
	Arrived  time.Time // when it first came, also after a preemption
	Tokens   int       // prompt tokens still to be computed
}

// Fair keeps a virtual counter per tenant: the tokens computed for it, divided by its weight. Whose is smallest goes first. A tenant
// that comes back after a pause is lifted to the smallest counter of those that wait, so that nothing is gained by pausing.
type Fair struct {
	cfg FairConfig
}

// NewFair returns counters for no tenants.
func NewFair(cfg FairConfig) *Fair { return &Fair{cfg: cfg} }

// SetWeight changes the share of a tenant; weights that are not positive count as 1.
func (f *Fair) SetWeight(tenant string, weight float64) { _, _ = tenant, weight }

// Arrive tells that a request of the tenant begins to wait: a new one, or one that was preempted.
func (f *Fair) Arrive(tenant string) { _ = tenant }

// Start tells that a waiting request of the tenant runs.
func (f *Fair) Start(tenant string) { _ = tenant }

// Leave tells that a request of the tenant ended: one that ran, or one that still waited. A preempted one leaves as running and
// arrives again.
func (f *Fair) Leave(tenant string, waiting bool) { _, _ = tenant, waiting }

// Charge books computed tokens. Cached tokens are those that did not have to be computed.
func (f *Fair) Charge(tenant string, class, prefill, cached, decode int) {
	_, _, _, _, _ = tenant, class, prefill, cached, decode
}

// Order returns the indices of the first limit candidates in the order of their turns: by class, then the tenant's counter, then
// priority within the tenant, then arrival. What is ahead in the order is counted as if computed, so tenants alternate. Late classes
// get their least share first. Give all at once: sequences whose prompt is being computed and requests that wait to be admitted.
func (f *Fair) Order(dst []int, candidates []Candidate, now time.Time, limit int) []int {
	_ = now
	for i := range min(limit, len(candidates)) {
		dst = append(dst, i)
	}
	return dst
}

// Victim returns the index of the running candidate to preempt: of the least urgent class, then of the tenant with the largest
// counter, then the newest; −1 when there is none.
func (f *Fair) Victim(running []Candidate) int { return len(running) - 1 }

// MayPreempt reports whether a waiting candidate is worth preempting a running one: only one of a less urgent class. Within a class
// nobody is preempted for another's turn; work already done would be thrown away in turns.
func MayPreempt(waiting, running Candidate) bool { return waiting.Class < running.Class }
