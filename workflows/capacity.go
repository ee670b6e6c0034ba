package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// Capacity is the plan and what is in force.
type Capacity struct {
	Plan   Plan   `json:"plan"`   // zero: there is none
	Source string `json:"source"` // who set the plan, or that there is none: see the constants
	// Configured is the concurrency of this process's configuration, which holds while there is no plan; 0 without an engine.
	Configured  int    `json:"configured"`
	Slot        string `json:"slot"`
	Concurrency int    `json:"concurrency"`
	Actor       Actor  `json:"actor"`
	Reason      string `json:"reason"`
	At          int64  `json:"at"`
	version     int64
	audit       string
}

// capacity keeps the desired concurrency in one row, and every process brings its own engine to it. That needs no leader: the
// row's version lets one writer win, and applying the same value twice does nothing.
type capacity struct {
	deps    Deps
	store   *store
	now     func() time.Time
	log     *slog.Logger
	m       *metrics
	applied atomic.Int64 // version that this process's engine runs with
}

const (
	fromConfig = "config"
	fromAdmin  = "admin"
	removed    = "removed" // an administrator wants no plan
	unset      = "unset"   // the configuration had a plan and has none any more
	// edgeGrace is how long the schedule may be late before a process switches the slot by itself.
	edgeGrace = 2 * time.Minute
	// auditGrace is how long the process that made a change may take to audit it before another one does.
	auditGrace = 10 * time.Second
)

// seed takes over the plan of the configuration, also that it has none any more, unless an administrator has set or removed one.
func (c *capacity) seed(ctx context.Context, plan Plan) error {
	have, _, err := c.store.capacity(ctx)
	if err != nil {
		return err
	}
	administered := have.Source == fromAdmin || have.Source == removed
	if administered || samePlan(have.Plan, plan) { // without a row there is no plan
		return nil
	}
	source := fromConfig
	if plan.IsZero() {
		source = unset
	}
	_, err = c.change(ctx, have, Capacity{Plan: plan, Source: source, Actor: capacityActor(), Reason: "the configuration was read"})
	if fault.Is(err, fault.CodeConflict) { // another process was faster with the same configuration
		return nil
	}
	return err
}

// set replaces the plan.
func (c *capacity) set(ctx context.Context, plan Plan, actor Actor, reason string) (Capacity, error) {
	if err := plan.Validate(); err != nil {
		return Capacity{}, err
	}
	have, _, err := c.store.capacity(ctx)
	if err != nil {
		return Capacity{}, err
	}
	return c.change(ctx, have, Capacity{Plan: plan, Source: fromAdmin, Actor: actor, Reason: reason})
}

// remove ends the plan: every engine goes back to the concurrency of its configuration. A second time it does nothing, unless the
// first one was not audited.
func (c *capacity) remove(ctx context.Context, actor Actor, reason string) (Capacity, error) {
	have, found, err := c.store.capacity(ctx)
	switch {
	case err != nil || !found:
		return have, err
	case have.Plan.IsZero() && have.audit != "":
		return have, nil
	case have.Plan.IsZero():
		return c.record(ctx, have)
	}
	return c.change(ctx, have, Capacity{Source: removed, Actor: actor, Reason: reason})
}

// configured is the concurrency that holds in this process while there is no plan.
func (c *capacity) configured() int {
	if c.deps.Engine == nil {
		return 0
	}
	return c.deps.Engine.Configured()
}

// current completes what people see.
func (c *capacity) current(v Capacity) Capacity {
	v.Configured = c.configured()
	if v.Plan.IsZero() {
		v.Concurrency = v.Configured
	}
	return v
}

// reconcile brings the row to the slot of this instant. A step that fires late therefore cannot set the wrong slot.
func (c *capacity) reconcile(ctx context.Context, reason string) error {
	have, found, err := c.store.capacity(ctx)
	if err != nil || !found {
		return err
	}
	if have.audit == "" {
		if c.age(have) <= auditGrace {
			return nil
		}
		if have, err = c.record(ctx, have); err != nil {
			return err
		}
	}
	slot, n := have.Plan.At(c.now())
	if have.Plan.IsZero() || slot == have.Slot && n == have.Concurrency {
		return nil
	}
	_, err = c.change(ctx, have, Capacity{Plan: have.Plan, Source: have.Source, Actor: capacityActor(), Reason: reason})
	if fault.Is(err, fault.CodeConflict) { // another process was faster
		return nil
	}
	return err
}

// change writes the next version of the row and audits it. Engines take a version only once it carries its audit record.
func (c *capacity) change(ctx context.Context, have, next Capacity) (Capacity, error) {
	if next.Slot, next.Concurrency = next.Plan.At(c.now()); next.Plan.IsZero() {
		next.Slot, next.Concurrency = "", c.configured()
	}
	next.At, next.version = c.now().UnixMicro(), have.version+1
	if err := c.store.changeCapacity(ctx, next); err != nil {
		return have, err
	}
	return c.record(ctx, next)
}

func (c *capacity) record(ctx context.Context, v Capacity) (Capacity, error) {
	plan, err := encode(v.Plan)
	if err != nil {
		return v, err
	}
	id, err := c.deps.Audit.Append(ctx, Record{
		Actor: v.Actor, Action: "capacity.change", Resource: capacityName,
		Detail: map[string]string{
			"transition": fmt.Sprintf("capacity/%d", v.version), "slot": v.Slot, "concurrency": strconv.Itoa(v.Concurrency),
			"source": v.Source, "reason": v.Reason, "plan": plan,
		},
	})
	if err != nil {
		return v, fmt.Errorf("audit capacity change: %w", err)
	}
	v.audit = id
	return v, c.store.auditedCapacity(ctx, v.version, id)
}

// apply brings the engine of this process to the row. It returns the row for the caller to compare.
func (c *capacity) apply(ctx context.Context) (Capacity, error) {
	have, found, err := c.store.capacity(ctx)
	if err != nil || !found || have.audit == "" || c.deps.Engine == nil || have.version == c.applied.Load() {
		return have, err
	}
	n := c.current(have).Concurrency
	if err := c.deps.Engine.SetConcurrency(ctx, n); err != nil {
		return have, fmt.Errorf("set concurrency: %w", err)
	}
	c.applied.Store(have.version)
	c.m.concurrency.Set(float64(n))
	c.log.LogAttrs(ctx, slog.LevelInfo, "engine concurrency set", slog.Int("concurrency", n),
		slog.String("slot", have.Slot), slog.String("reason", have.Reason))
	return have, nil
}

// overdue reports whether the slot should have changed more than the grace ago, as happens while Temporal is away.
func (c *capacity) overdue(v Capacity) bool {
	if v.version > 0 && v.audit == "" {
		return c.age(v) > auditGrace
	}
	if v.Plan.IsZero() {
		return false
	}
	slot, _ := v.Plan.At(c.now())
	before, _ := v.Plan.At(c.now().Add(-edgeGrace))
	return slot != v.Slot && before == slot
}

func (c *capacity) age(v Capacity) time.Duration { return c.now().Sub(time.UnixMicro(v.At)) }

func capacityActor() Actor { return Actor{Kind: "system", ID: "capacity"} }

func samePlan(a, b Plan) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}
