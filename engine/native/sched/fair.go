package sched

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// FairConfig says what a token counts. Zero fields take the defaults; negative ones count nothing.
type FairConfig struct {
	Weights  map[string]float64 // shares of tenants; default 1
	Prefill  float64            // what a prompt token counts; default 1
	Cached   float64            // a prompt token found in the cache; default 0
	Decode   float64            // a completion token; default 2
	Quantum  float64            // tenants whose counters differ by less are even: then who has fewer open requests goes first; default 2048
	Tenants  int                // tenants remembered that have no open request; default 1024
	MaxWait  time.Duration      // a class whose oldest request waits longer is late; default 10 s
	MinShare float64            // of the tokens that go to more urgent classes, a late class may start as many; default 1/16
}

func (cfg FairConfig) withDefaults() FairConfig {
	number := func(v *float64, otherwise float64) {
		if *v == 0 || math.IsNaN(*v) || math.IsInf(*v, 0) {
			*v = otherwise
		}
		*v = max(0, *v)
	}
	number(&cfg.Prefill, 1)
	number(&cfg.Cached, 0)
	number(&cfg.Decode, 2)
	number(&cfg.Quantum, 2048)
	number(&cfg.MinShare, 1.0/16)
	if cfg.Tenants <= 0 {
		cfg.Tenants = 1024
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 10 * time.Second
	}
	return cfg
}

// Candidate is a request, or a sequence, that waits for its turn.
type Candidate struct {
	Tenant   string
	Class    int
	Priority int       // among the tenant's candidates of the class: higher goes first
	Arrived  time.Time // when it first came, also after a preemption
	Tokens   int       // prompt tokens still to be computed
}

// Fair keeps a virtual counter per tenant: the tokens computed for it, divided by its weight. The smallest goes first, after the virtual
// token counters of Sheng et al., "Fairness in Serving Large Language Models" (arXiv 2401.00588).
//
// A tenant that comes back after a pause is lifted to the smallest counter of those that wait; when nobody waits there is no
// contention, and it is lifted to the largest of those that run. So a pause gains nothing, and what somebody computed while nobody else
// wanted to is not held against them.
//
// Between tenants that always have requests waiting, the tokens computed differ, by weight, by no more than the quantum and what is
// running at a time.
type Fair struct {
	cfg     FairConfig
	weights map[string]float64
	tenants map[string]*tenant
	idle    int              // tenants without an open request
	level   float64          // where a newcomer begins when nobody has an open request
	starved [Classes]bool    // at the latest Order, the class' oldest candidate had waited too long
	debt    [Classes]float64 // tokens that a late class may start before more urgent ones
}

// tenant is the account of one tenant.
type tenant struct {
	counter          float64
	waiting, running int
}

func (t *tenant) open() int { return t.waiting + t.running }

// maxDebt bounds what a late class is owed, and what it owes.
const maxDebt = 4096

// NewFair returns counters for no tenants.
func NewFair(cfg FairConfig) *Fair {
	f := &Fair{cfg: cfg.withDefaults(), weights: map[string]float64{}, tenants: map[string]*tenant{}}
	for name, w := range cfg.Weights {
		f.SetWeight(name, w)
	}
	return f
}

// SetWeight changes the share of a tenant from now on; weights that are not positive numbers count as 1.
func (f *Fair) SetWeight(name string, weight float64) {
	if !(weight > 0) || math.IsInf(weight, 0) || weight == 1 {
		delete(f.weights, name)
		return
	}
	f.weights[name] = weight
}

func (f *Fair) weight(name string) float64 {
	if w, ok := f.weights[name]; ok {
		return w
	}
	return 1
}

// Arrive tells that a request of the tenant begins to wait: a new one, or one that was preempted.
func (f *Fair) Arrive(name string) {
	t := f.tenants[name]
	if t == nil {
		t = &tenant{}
		f.tenants[name] = t
		f.idle++
	}
	if t.open() == 0 {
		f.idle--
	}
	if t.waiting == 0 {
		t.counter = max(t.counter, f.minCounter())
	}
	t.waiting++
}

// minCounter returns the counter a tenant is given at least when it begins to wait.
func (f *Fair) minCounter() float64 {
	least, most := math.Inf(1), f.level
	for _, t := range f.tenants {
		if t.waiting > 0 {
			least = min(least, t.counter)
		}
		if t.running > 0 {
			most = max(most, t.counter)
		}
	}
	if !math.IsInf(least, 1) {
		return least
	}
	return most
}

// Start tells that a waiting candidate is admitted and runs.
func (f *Fair) Start(c Candidate) {
	t := f.tenants[c.Tenant]
	if t == nil || t.waiting == 0 {
		return
	}
	t.waiting--
	t.running++
	if f.starved[c.Class] {
		f.debt[c.Class] = max(-maxDebt, f.debt[c.Class]-f.cfg.Prefill*float64(c.Tokens))
	}
}

// Leave tells that a request of the tenant ended: one that still waited, or one that ran. A preempted one leaves as running and
// arrives again.
func (f *Fair) Leave(name string, waiting bool) {
	t := f.tenants[name]
	switch {
	case t == nil:
		return
	case waiting && t.waiting > 0:
		t.waiting--
	case !waiting && t.running > 0:
		t.running--
	default:
		return
	}
	if t.open() > 0 {
		return
	}
	if f.idle++; f.idle == len(f.tenants) {
		f.level = max(f.level, t.counter)
	}
	if f.idle > f.cfg.Tenants {
		f.forget()
	}
}

// forget drops idle tenants: those that a return would lift anyway, of whom nothing is lost, and if they are not enough, those with the
// smallest counters, who gain least by being forgotten.
func (f *Fair) forget() {
	floor := f.minCounter()
	var above []string
	for name, t := range f.tenants {
		if t.open() > 0 {
			continue
		}
		if t.counter > floor {
			above = append(above, name)
			continue
		}
		delete(f.tenants, name)
		f.idle--
	}
	slices.SortFunc(above, func(a, b string) int { return cmp.Compare(f.tenants[a].counter, f.tenants[b].counter) })
	for _, name := range above[:max(0, len(above)-f.cfg.Tenants*3/4)] {
		delete(f.tenants, name)
		f.idle--
	}
}

// Charge books tokens that were computed for a request that runs. Cached tokens are those that did not have to be.
func (f *Fair) Charge(name string, class, prefill, cached, decode int) {
	cost := f.cfg.Prefill*float64(prefill) + f.cfg.Cached*float64(cached) + f.cfg.Decode*float64(decode)
	if t := f.tenants[name]; t != nil {
		t.counter += cost / f.weight(name)
	}
	for k := class + 1; k < Classes; k++ {
		if f.starved[k] {
			f.debt[k] = min(maxDebt, f.debt[k]+f.cfg.MinShare*cost)
		}
	}
}

// Counter returns the tenant's virtual counter, in weighted tokens.
func (f *Fair) Counter(name string) float64 {
	if t := f.tenants[name]; t != nil {
		return t.counter
	}
	return f.minCounter()
}

// ShareState compares what a tenant runs with its fair share.
type ShareState int8

// The share states.
const (
	AtShare    ShareState = iota
	AboveShare            // it runs more than its share
	BelowShare            // it runs at most half of its share, and its counter is at most a quantum above that of tenants above their share
)

// ShareStates appends the share state of each running candidate's tenant. It compares the candidates of the same and more urgent classes,
// because less urgent work takes nothing from urgent work. A tenant's share is proportional to its weight.
func (f *Fair) ShareStates(dst []ShareState, running []Candidate) []ShareState {
	from := len(dst)
	dst = append(dst, make([]ShareState, len(running))...)
	count := map[string]int{}
	for class := range Classes {
		clear(count)
		total, weights := 0, 0.0
		for _, c := range running {
			if c.Class > class {
				continue
			}
			if count[c.Tenant]++; count[c.Tenant] == 1 {
				weights += f.weight(c.Tenant)
			}
			total++
		}
		if len(count) < 2 {
			continue
		}
		share := func(name string) float64 { return float64(total) * f.weight(name) / weights }
		least := math.Inf(1) // counter of those who are ahead
		for name, n := range count {
			if float64(n) > share(name) {
				least = min(least, f.Counter(name))
			}
		}
		for i, c := range running {
			switch n := float64(count[c.Tenant]); {
			case c.Class != class:
			case n > share(c.Tenant):
				dst[from+i] = AboveShare
			case 2*n <= share(c.Tenant) && f.Counter(c.Tenant) <= least+f.cfg.Quantum:
				dst[from+i] = BelowShare
			}
		}
	}
	return dst
}

// MayStart reports whether a waiting candidate may be admitted beside running sequences of all classes, where bound is the controller's
// MaxSequences for the class (with running counted as that does) and hard what the engine can hold. A tenant of which nothing runs may
// go a quarter above the bound, so that a tenant with many requests cannot make it wait for one of them to end.
func (f *Fair) MayStart(c Candidate, running, bound, hard int) bool {
	if t := f.tenants[c.Tenant]; t == nil || t.running == 0 {
		bound += max(1, bound/4)
	}
	return running < min(bound, hard)
}

// Victim returns the index of the running candidate to preempt when memory runs out: of the least urgent class, then of the tenant with
// the largest counter, then of the lowest priority, then the newest; −1 when there is none.
func (f *Fair) Victim(running []Candidate) int {
	return f.victim(running, func(Candidate) bool { return true })
}

// VictimFor returns the index of the running candidate to preempt for a waiting one, or −1. It is a candidate of a less urgent class; or, in
// the same class, one of a tenant with several running, if the waiting tenant runs nothing. Other preemptions are refused: two tenants would
// discard each other's work forever.
func (f *Fair) VictimFor(waiting Candidate, running []Candidate) int {
	own := f.tenants[waiting.Tenant]
	return f.victim(running, func(c Candidate) bool {
		if c.Class != waiting.Class {
			return c.Class > waiting.Class
		}
		t := f.tenants[c.Tenant]
		return (own == nil || own.running == 0) && t != nil && t.running > 1
	})
}

func (f *Fair) victim(running []Candidate, may func(Candidate) bool) int {
	victim := -1
	for i, c := range running {
		if may(c) && (victim < 0 || f.compareHarm(c, running[victim]) > 0) {
			victim = i
		}
	}
	return victim
}

// compareHarm is positive where preempting a does less harm.
func (f *Fair) compareHarm(a, b Candidate) int {
	order := cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(f.Counter(a.Tenant), f.Counter(b.Tenant)))
	if a.Tenant == b.Tenant {
		order = cmp.Or(order, cmp.Compare(b.Priority, a.Priority))
	}
	return cmp.Or(order, a.Arrived.Compare(b.Arrived))
}
