package scaling

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"
)

// LoopConfig says how a pool is looked after. Zero values mean the defaults named at each field.
type LoopConfig struct {
	Pool string
	// Every is the time between decisions; 0 means 5 seconds.
	Every time.Duration
	// Term is that of the orders.
	Term int64
}

// LoopDeps are what a loop works with.
type LoopDeps struct {
	Controller *Controller
	Actuator   Actuator
	// Base returns how many ready instances the pool has that the actuator does not count: they stay, and are part of every target.
	Base    func() int
	Signals func(now time.Time) Signals
	Tariff  func(now time.Time) Tariff // nil: power costs nothing
	// Record writes down a decision that changes the target, or its alarms. What is not recorded is not carried out.
	Record func(ctx context.Context, d Decision) error
	Log    *slog.Logger
	Now    func() time.Time // nil is time.Now
}

// Loop decides for one pool again and again, and has what was decided carried out. It needs nobody else: no workflow engine, no leader. It is safe for
// concurrent use.
type Loop struct {
	cfg  LoopConfig
	deps LoopDeps

	mu       sync.Mutex // guards what follows
	last     *Decision
	recorded *Decision  // the latest that was written down
	kept     []Decision // those that were written down, oldest first
}

const (
	keptDecisions = 200
	stepLimit     = 5 * time.Second
	alarmsEvery   = time.Minute // what comes and goes more often is not written down each time
)

// NewLoop returns a loop.
func NewLoop(cfg LoopConfig, deps LoopDeps) *Loop {
	cfg.Every = cmp.Or(cfg.Every, 5*time.Second)
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Tariff == nil {
		deps.Tariff = func(time.Time) Tariff { return Tariff{} }
	}
	deps.Log = deps.Log.With(slog.String("component", "scaling"), slog.String("pool", cfg.Pool))
	return &Loop{cfg: cfg, deps: deps}
}

// Run decides until ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Every)
	defer tick.Stop()
	for {
		if err := l.Step(ctx); err != nil && ctx.Err() == nil {
			l.deps.Log.LogAttrs(ctx, slog.LevelError, "a scaling decision was not carried out", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Step decides once. What does not answer within 5 seconds, or the time between decisions where that is longer, is given up for now. Without a record there is no order; the
// next step tries again.
func (l *Loop) Step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.cfg.Every, stepLimit))
	defer cancel()
	f, err := l.deps.Actuator.Fleet(ctx)
	if err != nil { // nobody knows what there is: what was ordered stands
		return fmt.Errorf("ask what there is: %w", err)
	}
	now, base := l.deps.Now(), l.deps.Base()
	f.Ready += base
	d := l.deps.Controller.Decide(Inputs{Now: now, Fleet: f, Signals: l.deps.Signals(now), Tariff: l.deps.Tariff(now)})
	l.mu.Lock()
	l.last = &d
	news := l.recorded == nil || l.recorded.Target != d.Target || !slices.Equal(l.recorded.Alarms, d.Alarms) && now.Sub(l.recorded.Now) >= alarmsEvery
	l.mu.Unlock()
	if news {
		if err := l.deps.Record(ctx, d); err != nil {
			return fmt.Errorf("record: %w", err)
		}
		l.mu.Lock()
		l.recorded = &d
		if l.kept = append(l.kept, d); len(l.kept) > keptDecisions {
			l.kept = slices.Delete(l.kept, 0, len(l.kept)-keptDecisions)
		}
		l.mu.Unlock()
		l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "scaling decided", slog.Int("target", d.Target), slog.Int("before", d.Before), slog.String("winner", string(d.Winner)))
	}
	err = l.deps.Actuator.Scale(ctx, Order{
		ID: l.cfg.Pool + "/" + strconv.FormatInt(now.UnixNano(), 10), Pool: l.cfg.Pool, Target: max(0, d.Target-base), Domains: d.Domains, Term: l.cfg.Term,
	})
	if err != nil {
		return fmt.Errorf("order %d: %w", d.Target, err)
	}
	return nil
}

// Pool is the name of the pool.
func (l *Loop) Pool() string { return l.cfg.Pool }

// Bounds are the fewest and the most instances that the pool may have.
func (l *Loop) Bounds() (least, most int) {
	return l.deps.Controller.policy.Min, l.deps.Controller.policy.Max
}

// SetOverride demands a target from the next decision on; nil ends the demand.
func (l *Loop) SetOverride(o *Override) { l.deps.Controller.SetOverride(o) }

// Decisions returns the latest decision and those that were written down, newest first; ok is false before the first one.
func (l *Loop) Decisions() (last Decision, kept []Decision, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return Decision{}, nil, false
	}
	kept = slices.Clone(l.kept)
	slices.Reverse(kept)
	return *l.last, kept, true
}
