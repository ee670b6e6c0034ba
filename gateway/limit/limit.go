// Package limit keeps one caller from starving the others: requests per minute, tokens per minute and concurrent requests, per API
// key and per tenant.
//
// Rates follow the generic cell rate algorithm: a caller may burst up to a minute's worth, then goes on at the steady rate; the
// state is one instant per rate, so nothing is swept and nothing resets at a window's edge. Tokens are taken by estimate when a
// request starts, adjusted when its prompt has been counted, and corrected when it ends.
//
// There are two stores with one behaviour: memory for a single process, and Redis for limits that hold over all replicas. If
// Redis fails, requests are refused (CodeLimitUnavailable), unless the configuration says how many replicas share the limits;
// then each falls back to its share in memory.
package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
)

// Limits bounds one caller; zero means no bound.
type Limits struct {
	RequestsPerMinute int `koanf:"requests_per_minute"`
	TokensPerMinute   int `koanf:"tokens_per_minute"`
	Concurrent        int `koanf:"concurrent"`
}

// Config sets the limits of the installation.
type Config struct {
	// Key bounds every API key or user that has no limits of its own.
	Key Limits `koanf:"key"`
	// Tenant bounds all callers of one tenant together that has no limits of its own.
	Tenant Limits `koanf:"tenant"`
	// Fallback is the number of replicas that share the limits while Redis is unreachable: each grants its part from memory.
	// 0 refuses instead.
	Fallback int `koanf:"fallback"`
	// Lease is how long a concurrent request counts when its replica dies; 0 means 15 minutes. It must not be shorter than the
	// longest request. Only Redis needs it.
	Lease time.Duration `koanf:"lease"`
}

// maxPerMinute keeps the smallest step of a rate at a microsecond or more.
const maxPerMinute = 60_000_000

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	for name, l := range map[string]Limits{"key": c.Key, "tenant": c.Tenant} {
		for field, v := range map[string]int{
			"requests_per_minute": l.RequestsPerMinute, "tokens_per_minute": l.TokensPerMinute, "concurrent": l.Concurrent,
		} {
			if v < 0 || v > maxPerMinute {
				return fmt.Errorf("%s.%s: must lie between 0 and %d", name, field, maxPerMinute)
			}
		}
	}
	if c.Fallback < 0 || c.Lease < 0 {
		return errors.New("fallback and lease: must not be negative")
	}
	return nil
}

// Scope says what a limit is of.
type Scope string

// The scopes, the nearest to a caller first.
const (
	Key          Scope = "key" // an API key, or a person
	Project      Scope = "project"
	Tenant       Scope = "tenant"
	Organisation Scope = "organisation"
)

// Bound is one of the limits that a request is under: those of all callers of the scope together.
type Bound struct {
	Scope  Scope
	ID     string // of a key, tenant or organisation; of a project within its tenant
	Limits Limits // zero fields take Config.Key or Config.Tenant; those of projects and organisations bound nothing
}

// Request is one request that wants in.
type Request struct {
	Tenant string
	Bounds []Bound // the nearest to the caller first
	Tokens int     // estimate of prompt and completion; more than the limit counts as the limit. 0: tokens are not limited
}

// State is where a caller stands after a decision, for response headers. A zero limit means there is none.
type State struct {
	Requests, Tokens Level
}

// Level is where one rate stands: Remaining of Limit are free, and all are after Reset.
type Level struct {
	Limit, Remaining int
	Reset            time.Duration
}

// store decides over charges; both implementations pass one suite.
type store interface {
	// take charges all or nothing. On refusal it returns the index of the first charge that does not fit and how long until it
	// does. levels has one entry per charge: the distance of its instant from now, in microseconds, or the slots in use.
	take(ctx context.Context, group, ticket string, now int64, charges []charge) (d decision, err error)
	// adjust adds delta microseconds to the rates, all or nothing: what grows has to fit. It answers as take does.
	adjust(ctx context.Context, group string, now int64, charges []charge, delta []int64) (d decision, err error)
	// settle adds delta microseconds to the rates and gives the slots back. It must not fail the caller.
	settle(ctx context.Context, group, ticket string, now int64, charges []charge, delta []int64) error
}

// charge is what one request takes from one bounded thing.
type charge struct {
	key    string
	slots  int64 // > 0: a bound on concurrency; then step and cost are zero
	step   int64 // microseconds per unit of a rate
	cost   int64 // microseconds this request takes
	units  int   // the limit as configured
	tokens bool
	of     Bound // without its limits
}

type decision struct {
	refused int // index, -1 if granted
	wait    int64
	levels  []int64
}

const window = int64(time.Minute / time.Microsecond)

// Limiter grants and refuses. It is safe for concurrent use.
type Limiter struct {
	cfg      Config
	store    store
	local    store // fallback, or nil
	log      *slog.Logger
	now      func() time.Time
	degraded atomic.Bool
}

// NewMemory returns a limiter for a single process.
func NewMemory(cfg Config, log *slog.Logger) (*Limiter, error) {
	l, err := build(cfg, newMemory(), log)
	if err != nil {
		return nil, err
	}
	l.now = monotonicClock(time.Now())
	return l, nil
}

// monotonicClock returns a clock that starts right and never goes back: nothing expires in memory, so setting the wall clock back an hour
// would lock every busy caller out for that long. Replicas that share a store need the wall clock; Redis expires by its own.
func monotonicClock(start time.Time) func() time.Time {
	return func() time.Time { return start.Add(time.Since(start)) }
}

func build(cfg Config, s store, log *slog.Logger) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	l := &Limiter{cfg: cfg, store: s, log: log.With(slog.String("component", "limit")), now: time.Now}
	if _, remote := s.(*redisStore); remote && cfg.Fallback > 0 {
		l.local = newMemory()
	}
	return l, nil
}

// Permit is a granted request. Release it exactly when the request ends; more calls do nothing. One goroutine at a time uses it.
type Permit struct {
	l       *Limiter
	from    store
	group   string
	id      string
	charges []charge
	state   State // after the last decision
	once    sync.Once
}

// Acquire takes one request, the estimated tokens and a slot, all or nothing. The state is valid on refusal too. Errors:
// CodeRateLimited, CodeTokenRateLimited and CodeConcurrency with the time to wait; CodeLimitUnavailable.
func (l *Limiter) Acquire(ctx context.Context, ask Request) (*Permit, State, error) {
	t := &Permit{l: l, from: l.store, group: ask.group(), id: uuid.NewString(), charges: l.charges(ask, 1)}
	now := l.now()
	if len(t.charges) == 0 {
		return t, State{}, nil
	}
	d, err := t.from.take(ctx, t.group, t.id, now.UnixMicro(), t.charges)
	if err != nil {
		if ctx.Err() != nil {
			return nil, State{}, ctx.Err()
		}
		if l.local == nil {
			return nil, State{}, fault.Wrap(err, fault.CodeLimitUnavailable).WithRetryAfter(time.Second)
		}
		if !l.degraded.Swap(true) {
			l.log.Error("shared limits are unreachable; granting this replica's share", slog.Int("replicas", l.cfg.Fallback), slog.Any("error", err))
		}
		t.from, t.charges = l.local, l.charges(ask, l.cfg.Fallback)
		if d, err = t.from.take(ctx, t.group, t.id, now.UnixMicro(), t.charges); err != nil {
			return nil, State{}, fault.Wrap(err, fault.CodeLimitUnavailable)
		}
	} else if l.degraded.Swap(false) {
		l.log.Info("shared limits are reachable again")
	}
	t.state = stateOf(t.charges, d)
	if d.refused >= 0 {
		return nil, t.state, refusal(t.charges[d.refused], d.wait)
	}
	return t, t.state, nil
}

func refusal(c charge, wait int64) error {
	retry := max(time.Duration(wait)*time.Microsecond, time.Millisecond)
	switch {
	case c.slots > 0:
		return fault.New(fault.CodeConcurrency, c.of.name(), c.units).WithRetryAfter(time.Second)
	case c.tokens:
		return fault.New(fault.CodeTokenRateLimited, c.of.name(), c.units).WithRetryAfter(retry)
	default:
		return fault.New(fault.CodeRateLimited, c.of.name(), c.units).WithRetryAfter(retry)
	}
}

// Adjust replaces the estimate by tokens that were counted. What no longer fits is refused with CodeTokenRateLimited; the permit then holds what
// it held, and Release gives that back. The state is valid on refusal too. Where shared limits have become unreachable, replicas with a share
// of their own go on with the estimate; others refuse with CodeLimitUnavailable.
func (t *Permit) Adjust(ctx context.Context, tokens int) (State, error) {
	charges, delta, changed := slices.Clone(t.charges), make([]int64, len(t.charges)), false
	for i := range charges {
		if c := &charges[i]; c.tokens {
			delta[i] = int64(min(max(0, tokens), c.units))*c.step - c.cost
			c.cost += delta[i]
			changed = changed || delta[i] != 0
		}
	}
	if !changed {
		return t.state, nil
	}
	d, err := t.from.adjust(ctx, t.group, t.l.now().UnixMicro(), charges, delta)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return t.state, ctx.Err()
	case t.l.local == nil:
		return t.state, fault.Wrap(err, fault.CodeLimitUnavailable).WithRetryAfter(time.Second)
	default:
		t.l.log.Warn("limits not adjusted; the estimate stays", slog.Any("error", err))
		return t.state, nil
	}
	if d.refused >= 0 {
		return stateOf(t.charges, d), refusal(charges[d.refused], d.wait)
	}
	t.charges, t.state = charges, stateOf(charges, d)
	return t.state, nil
}

// Release gives the slot back and corrects what was taken by the tokens really used.
func (t *Permit) Release(ctx context.Context, used int) {
	t.once.Do(func() {
		if len(t.charges) == 0 {
			return
		}
		delta := make([]int64, len(t.charges))
		for i, c := range t.charges {
			if c.tokens {
				delta[i] = int64(max(0, used))*c.step - c.cost
			}
		}
		if err := t.from.settle(ctx, t.group, t.id, t.l.now().UnixMicro(), t.charges, delta); err != nil {
			// The slot returns when its lease ends; rates are instants and recover by themselves.
			t.l.log.Warn("limits not given back", slog.Any("error", err))
		}
	})
}

// or takes the fields that are zero from another.
func (l Limits) or(other Limits) Limits {
	return Limits{
		RequestsPerMinute: cmp.Or(l.RequestsPerMinute, other.RequestsPerMinute), TokensPerMinute: cmp.Or(l.TokensPerMinute, other.TokensPerMinute),
		Concurrent: cmp.Or(l.Concurrent, other.Concurrent),
	}
}

// name says whose limit it is, in a sentence.
func (b Bound) name() fault.Phrase {
	switch b.Scope {
	case Project:
		return fault.Say("level.project", b.ID)
	case Tenant:
		return fault.Say("level.tenant", b.ID)
	case Organisation:
		return fault.Say("level.organisation", b.ID)
	case Key:
	}
	return fault.Say("level.caller")
}

// limits are those of the bound, with what the installation has in the place of those it lacks.
func (c Config) limits(b Bound) Limits {
	switch b.Scope {
	case Key:
		return b.Limits.or(c.Key)
	case Tenant:
		return b.Limits.or(c.Tenant)
	case Project, Organisation:
	}
	return b.Limits
}

// group names where the bounds of a request are kept together, since they are taken all or none: at its tenant, or at its organisation if that has
// limits, which other tenants are under, too.
func (r Request) group() string {
	for _, b := range r.Bounds {
		if b.Scope == Organisation && b.Limits != (Limits{}) {
			return b.ID
		}
	}
	return r.Tenant
}

// place names a bound within its group.
func (b Bound) place(tenant string) string {
	switch b.Scope {
	case Key:
		return "k:" + b.ID
	case Project:
		return "p:" + tenant + "/" + b.ID
	case Tenant:
		return "t:" + b.ID
	case Organisation:
	}
	return "o:" + b.ID
}

// charges lists what ask takes in the order of its bounds, concurrency first since it is the cheapest to refuse. share divides the limits
// between replicas that cannot see each other.
func (l *Limiter) charges(ask Request, share int) []charge {
	out := make([]charge, 0, 3*len(ask.Bounds))
	for _, b := range ask.Bounds {
		own := l.cfg.limits(b)
		if own == (Limits{}) {
			continue
		}
		key := b.place(ask.Tenant)
		b.Limits = Limits{}
		if n := own.Concurrent; n > 0 {
			n = max(1, n/share)
			out = append(out, charge{key: key + ":c", slots: int64(n), units: n, of: b})
		}
		if n := own.RequestsPerMinute; n > 0 {
			n = min(max(1, n/share), maxPerMinute)
			step := window / int64(n)
			out = append(out, charge{key: key + ":r", step: step, cost: step, units: n, of: b})
		}
		if n := own.TokensPerMinute; n > 0 && ask.Tokens > 0 {
			n = min(max(1, n/share), maxPerMinute)
			step := window / int64(n)
			cost := int64(min(ask.Tokens, n)) * step
			out = append(out, charge{key: key + ":n", step: step, cost: cost, units: n, tokens: true, of: b})
		}
	}
	return out
}

// stateOf reports the rates of the nearest bound that has some.
func stateOf(charges []charge, d decision) State {
	var s State
	for i, c := range charges {
		if c.slots > 0 || i >= len(d.levels) {
			continue
		}
		l := &s.Requests
		if c.tokens {
			l = &s.Tokens
		}
		if l.Limit != 0 {
			continue
		}
		used := min(max(d.levels[i], 0), math.MaxInt64/2)
		*l = Level{
			Limit:     c.units,
			Remaining: int(min(max(0, (window-used)/c.step), int64(c.units))),
			Reset:     time.Duration(used) * time.Microsecond,
		}
	}
	return s
}
