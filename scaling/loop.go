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
	// Base returns how many ready instances the pool has that the actuator does not count: they are part of every target. What was there for the
	// policy's DownAfter without a break stands for instances that the actuator need not have.
	Base    func() int
	Signals func(now time.Time) Signals
	Tariff  func(now time.Time) Tariff // nil: power costs nothing
	// Record writes down a decision that changes the target, what is ordered, or the alarms. What is not recorded is not carried out.
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
	bases    []stamped  // the lowest bases of the last DownAfter, rising
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
// next step tries again, from the same target.
func (l *Loop) Step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.cfg.Every, stepLimit))
	defer cancel()
	f, err := l.deps.Actuator.Fleet(ctx)
	if err != nil { // nobody knows what there is: what was ordered stands
		return fmt.Errorf("ask what there is: %w", err)
	}
	now, base := l.deps.Now(), l.deps.Base()
	f.Ready, f.Base = f.Ready+base, base
	d := l.deps.Controller.Decide(Inputs{Now: now, Fleet: f, Signals: l.deps.Signals(now), Tariff: l.deps.Tariff(now)})
	l.mu.Lock()
	d.Ordered = max(0, d.Target-l.stayed(now, base))
	l.last = &d
	news := l.recorded == nil || l.recorded.Target != d.Target || l.recorded.Ordered != d.Ordered || !slices.Equal(l.recorded.Alarms, d.Alarms) && now.Sub(l.recorded.Now) >= alarmsEvery
	l.mu.Unlock()
	if news {
		if err := l.deps.Record(ctx, d); err != nil {
			l.deps.Controller.Undo(d)
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
		ID: l.cfg.Pool + "/" + strconv.FormatInt(now.UnixNano(), 10), Pool: l.cfg.Pool, Target: d.Ordered, Domains: d.Domains, Term: l.cfg.Term,
	})
	if err != nil {
		l.deps.Controller.Undo(d)
		return fmt.Errorf("order %d: %w", d.Ordered, err)
	}
	return nil
}

// stayed returns the least base of the last DownAfter: one that comes and goes has nobody started and taken away each time. The caller holds mu.
func (l *Loop) stayed(now time.Time, base int) int {
	l.bases = slices.DeleteFunc(l.bases, func(b stamped) bool {
		return now.Sub(b.at) > l.deps.Controller.policy.DownAfter || b.at.After(now) || b.n >= base
	})
	l.bases = append(l.bases, stamped{now, base})
	return l.bases[0].n
}

// Pool is the name of the pool.
func (l *Loop) Pool() string { return l.cfg.Pool }

// Bounds are the fewest and the most instances that the pool may have.
func (l *Loop) Bounds() (least, most int) {
	return l.deps.Controller.policy.Min, l.deps.Controller.policy.Max
}

// Plan returns what is expected of the next day, by quarters of an hour.
func (l *Loop) Plan() []Planned {
	const step = 15 * time.Minute
	return l.deps.Controller.Plan(l.deps.Now().Truncate(step), step, int(24*time.Hour/step))
}

// SetOverride demands a target from the next decision on; nil ends the demand.
func (l *Loop) SetOverride(o *Override) { l.deps.Controller.SetOverride(o) }

// HeadRoom is how many times the highest rate of the last week the pool has to carry.
func (l *Loop) HeadRoom() float64 { return l.deps.Controller.policy.HeadRoom }

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
