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
	Plan        Plan   `json:"plan"`
	Source      string `json:"source"` // "config" or "admin"
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
	// edgeGrace is how long the schedule may be late before a process switches the slot by itself.
	edgeGrace = 2 * time.Minute
	// auditGrace is how long the process that made a change may take to audit it before another one does.
	auditGrace = 10 * time.Second
)

// seed takes over the plan of the configuration, unless an administrator has set another.
func (c *capacity) seed(ctx context.Context, plan Plan) error {
	if plan.IsZero() {
		return nil
	}
	have, found, err := c.store.capacity(ctx)
	if err != nil {
		return err
	}
	if found && (have.Source == fromAdmin || samePlan(have.Plan, plan)) {
		return nil
	}
	_, err = c.change(ctx, have, Capacity{Plan: plan, Source: fromConfig, Actor: capacityActor(), Reason: "the configuration was read"})
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
	if slot == have.Slot && n == have.Concurrency {
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
	next.Slot, next.Concurrency = next.Plan.At(c.now())
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
	if err := c.deps.Engine.SetConcurrency(ctx, have.Concurrency); err != nil {
		return have, fmt.Errorf("set concurrency: %w", err)
	}
	c.applied.Store(have.version)
	c.m.concurrency.Set(float64(have.Concurrency))
	c.log.LogAttrs(ctx, slog.LevelInfo, "engine concurrency set", slog.Int("concurrency", have.Concurrency),
		slog.String("slot", have.Slot), slog.String("reason", have.Reason))
	return have, nil
}

// overdue reports whether the slot should have changed more than the grace ago, as happens while Temporal is away.
func (c *capacity) overdue(v Capacity) bool {
	if v.Plan.IsZero() {
		return false
	}
	if v.audit == "" {
		return c.age(v) > auditGrace
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
