package route

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine/pool"
)

// Policy says what is done for a model whose engines fail or are slow. The zero value retries within the default budget, and nothing else.
type Policy struct {
	// Model is whose policy it is; "*" is that of every model without one of its own.
	Model string `koanf:"model"`
	// Attempts is the most instances that may have a request, one after the other, before anything of its answer is there; 0 means 3, 1 never retries.
	// One that could not be connected to, or for which the request is too long, is not counted.
	Attempts int `koanf:"attempts"`
	// RetryPercent bounds retries and hedges together: each request of the model earns so many hundredths of one, and 10 can be saved up; 0 means 10.
	RetryPercent int `koanf:"retry_percent"`
	// RepeatUnknown says whether a request is repeated that an instance may have answered without a word of it reaching us; "" means RepeatOwn.
	RepeatUnknown Repeat `koanf:"repeat_unknown"`
	// AttemptTimeout is how long an instance may say nothing while another one could be asked in its place; 0 means no bound but those of the request.
	AttemptTimeout time.Duration `koanf:"attempt_timeout"`
	// HedgeAfter is how long an instance may say nothing until another one is asked beside it: who speaks first answers. 0 means never. Only requests for at
	// most HedgeTokens completion tokens are; 0 means 256. Both are engines that bill nobody, whatever RepeatUnknown says.
	HedgeAfter  time.Duration `koanf:"hedge_after"`
	HedgeTokens int           `koanf:"hedge_tokens"`
	// Choose says how the instances of the model are compared; the zero value: by their work for their weight.
	Choose pool.Preference `koanf:"choose"`
	// Fallbacks are the models that are asked instead, by what has kept this one from answering.
	Fallbacks Fallbacks `koanf:"fallbacks"`
}

// Repeat says which requests are repeated whose first attempt may have been answered.
type Repeat string

// The answers.
const (
	RepeatOwn   Repeat = "own"   // those to engines that bill nobody
	RepeatAll   Repeat = "all"   // those to clouds, too: an attempt without an answer may be on their bill
	RepeatNever Repeat = "never" // none
)

// Fallbacks are lists of models, each tried in its order.
type Fallbacks struct {
	Context  []string `koanf:"context"`  // the prompt does not fit
	Content  []string `koanf:"content"`  // the engine's own filter has refused, with nothing of an answer
	Capacity []string `koanf:"capacity"` // every instance is overloaded
	Fault    []string `koanf:"fault"`    // no instance can be reached, or those that can have failed
}

// Cause is why a request falls back to another model.
type Cause string

// The causes.
const (
	CauseContext  Cause = "context"
	CauseContent  Cause = "content"
	CauseCapacity Cause = "capacity"
	CauseFault    Cause = "fault"
)

// Of returns the list of a cause.
func (f *Fallbacks) Of(c Cause) []string {
	switch c {
	case CauseContext:
		return f.Context
	case CauseContent:
		return f.Content
	case CauseCapacity:
		return f.Capacity
	case CauseFault:
		return f.Fault
	}
	return nil
}

// Any reports whether there is one.
func (f *Fallbacks) Any() bool {
	return len(f.Context)+len(f.Content)+len(f.Capacity)+len(f.Fault) > 0
}

// anyModel is the policy of models without one of their own.
const anyModel = "*"

const (
	maxAttempts  = 10
	maxFallbacks = 8 // of one cause
)

// Validate reports what is wrong with the policy; the message begins with the key.
func (p *Policy) Validate() error {
	lists := [][]string{p.Fallbacks.Context, p.Fallbacks.Content, p.Fallbacks.Capacity, p.Fallbacks.Fault}
	choose := p.Choose.Validate()
	switch {
	case p.Model == "" || strings.ContainsAny(p.Model, "@\n\r\t "):
		return errors.New("model: must be the name of a model, without a version, or *")
	case p.Attempts < 0 || p.Attempts > maxAttempts:
		return fmt.Errorf("attempts: must lie between 0 and %d", maxAttempts)
	case p.RetryPercent < 0 || p.RetryPercent > 100:
		return errors.New("retry_percent: must lie between 0 and 100")
	case !slices.Contains([]Repeat{"", RepeatOwn, RepeatAll, RepeatNever}, p.RepeatUnknown):
		return fmt.Errorf("repeat_unknown: must be %s, %s or %s", RepeatOwn, RepeatAll, RepeatNever)
	case p.AttemptTimeout < 0 || p.HedgeAfter < 0 || p.HedgeTokens < 0:
		return errors.New("attempt_timeout, hedge_after and hedge_tokens: must not be negative")
	case choose != nil:
		return choose
	case p.Model == anyModel && p.Fallbacks.Any():
		return errors.New("fallbacks: name the model that falls back")
	}
	for _, list := range lists {
		for i, m := range list {
			if m == "" || m == p.Model || slices.Contains(list[:i], m) || len(list) > maxFallbacks {
				return fmt.Errorf("fallbacks: at most %d other models for a cause, each once", maxFallbacks)
			}
		}
	}
	return nil
}

func (p *Policy) withDefaults() Policy {
	out := *p
	out.Attempts, out.RetryPercent, out.HedgeTokens = cmp.Or(p.Attempts, 3), cmp.Or(p.RetryPercent, 10), cmp.Or(p.HedgeTokens, 256)
	out.RepeatUnknown = cmp.Or(p.RepeatUnknown, RepeatOwn)
	return out
}

// Resilience is the policy of a model with what is left of its budget of retries. It is safe for concurrent use. The methods of nil allow nothing.
type Resilience struct {
	Policy

	left atomic.Int64 // hundredths of a retry
}

// NewResilience returns a policy with a full budget.
func NewResilience(p Policy) *Resilience {
	r := &Resilience{Policy: p.withDefaults()}
	r.left.Store(mostSaved)
	return r
}

const (
	oneRetry  = 100
	mostSaved = 10 * oneRetry
)

// Earn adds what one request earns.
func (r *Resilience) Earn() {
	if r != nil {
		r.add(int64(r.RetryPercent))
	}
}

func (r *Resilience) add(n int64) {
	for {
		have := r.left.Load()
		if have >= mostSaved || r.left.CompareAndSwap(have, min(mostSaved, have+n)) {
			return
		}
	}
}

// Spend takes a retry, if there is one left.
func (r *Resilience) Spend() bool {
	if r == nil {
		return false
	}
	for {
		have := r.left.Load()
		if have < oneRetry {
			return false
		}
		if r.left.CompareAndSwap(have, have-oneRetry) {
			return true
		}
	}
}

// Refund gives back a retry that was not made.
func (r *Resilience) Refund() {
	if r != nil {
		r.add(oneRetry)
	}
}

// Prefers says how the instances of the model are compared; nil: by their work.
func (r *Resilience) Prefers() *pool.Preference {
	if r == nil || !r.Choose.Any() {
		return nil
	}
	return &r.Choose
}

// Watches reports whether the policy has to know how long an instance says nothing. Of an answer in one piece nobody knows.
func (r *Resilience) Watches() bool {
	return r != nil && (r.AttemptTimeout > 0 || r.HedgeAfter > 0 || r.Choose.FirstToken > 0)
}

// policies has the policy of each model of the last load. Its budget outlives reloads, as long as each has the model.
type policies struct {
	configured map[string]Policy

	mu    sync.Mutex
	known map[string]*Resilience
}

func newPolicies(list []Policy) *policies {
	p := &policies{configured: map[string]Policy{}, known: map[string]*Resilience{}}
	for i := range list {
		p.configured[list[i].Model] = list[i]
	}
	return p
}

// of returns the policies of the models of assignments. A new budget is full: a model that is seldom asked may retry, too.
func (p *policies) of(assignments map[string]Assignment) map[string]*Resilience {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]*Resilience, len(assignments))
	for model := range assignments {
		if out[model] = p.known[model]; out[model] == nil {
			out[model] = p.make(model)
		}
	}
	p.known = out
	return out
}

// names returns the models that the policies name, ordered.
func (p *policies) names() []string {
	all := map[string]bool{}
	for model, own := range p.configured {
		f := own.Fallbacks
		for _, name := range slices.Concat([]string{model}, f.Context, f.Content, f.Capacity, f.Fault) {
			name, _, _ = strings.Cut(name, "@")
			all[name] = true
		}
	}
	delete(all, anyModel)
	return slices.Sorted(maps.Keys(all))
}

func (p *policies) make(model string) *Resilience {
	own, ok := p.configured[model]
	if !ok {
		own = p.configured[anyModel]
	}
	return NewResilience(own)
}

// Resilience returns the policy of a model, by the name that callers use; nil for what is no model, and for a version that is pinned: who names it
// wants no other.
func (r *Router) Resilience(model string) *Resilience {
	s, loaded := r.routes.Last()
	if !loaded {
		return nil
	}
	return s.resilience[model]
}
