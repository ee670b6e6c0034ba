package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
)

// capacityName is the one plan there is; the column leaves room for one per engine.
const capacityName = "default"

type capacityRow struct {
	Name        string
	Plan        string
	Source      string
	Version     int64
	Slot        string
	Concurrency int
	Actor       string
	Reason      string
	At          int64
	Audit       string
}

func (capacityRow) TableName() string { return "rollout_capacity" }

// capacity returns the row; found is false before the first plan.
func (s *store) capacity(ctx context.Context) (c Capacity, found bool, err error) {
	var rows []capacityRow
	err = s.db.WithContext(ctx).Select("name", "plan", "source", "version", "slot", "concurrency", "actor", "reason", "at", "audit").
		Where("name = ?", capacityName).Limit(1).Find(&rows).Error
	if err != nil {
		return Capacity{}, false, unavailable("read capacity", err)
	}
	if len(rows) == 0 {
		return Capacity{}, false, nil
	}
	r := rows[0]
	c = Capacity{
		Source: r.Source, Slot: r.Slot, Concurrency: r.Concurrency, Reason: r.Reason, At: r.At, version: r.Version, audit: r.Audit,
	}
	if err := errors.Join(json.Unmarshal([]byte(r.Plan), &c.Plan), json.Unmarshal([]byte(r.Actor), &c.Actor)); err != nil {
		return Capacity{}, false, fmt.Errorf("decode capacity: %w", err)
	}
	if c.Source == removed || c.Source == unset {
		c.Plan, c.Slot = Plan{}, ""
	}
	return c, true, nil
}

// constantPlan is the plan of a row that has none, for replicas of the release before: they run the same number all day on it, where zeros
// would throttle them to one request. Nobody else reads it; the source says that there is no plan.
func constantPlan(concurrency int) Plan {
	n := or(concurrency, maxConcurrency)
	return Plan{Timezone: "UTC", PeakConcurrency: n, ValleyConcurrency: n}
}

// changeCapacity writes c as the version after the one it was made from; if somebody else wrote that version first, it is a
// conflict and nothing changes.
func (s *store) changeCapacity(ctx context.Context, c Capacity) error {
	if c.Plan.IsZero() {
		c.Plan, c.Slot = constantPlan(c.Concurrency), Valley
	}
	plan, err1 := encode(c.Plan)
	actor, err2 := encode(c.Actor)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	lost := fault.New(fault.CodeConflict, fault.Say("capacity.changed"))
	row := capacityRow{
		Name: capacityName, Plan: plan, Source: c.Source, Version: c.version, Slot: c.Slot, Concurrency: c.Concurrency, Actor: actor,
		Reason: c.Reason, At: c.At,
	}
	db := s.db.WithContext(ctx)
	if c.version == 1 {
		err := db.Create(&row).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return lost
		}
		if err != nil {
			return unavailable("insert capacity", err)
		}
		return nil
	}
	res := db.Table(row.TableName()).Where("name = ? AND version = ?", capacityName, c.version-1).Updates(map[string]any{
		"plan": row.Plan, "source": row.Source, "version": row.Version, "slot": row.Slot, "concurrency": row.Concurrency,
		"actor": row.Actor, "reason": row.Reason, "at": row.At, "audit": "",
	})
	if res.Error != nil {
		return unavailable("update capacity", res.Error)
	}
	if res.RowsAffected == 0 {
		return lost
	}
	return nil
}

func (s *store) auditedCapacity(ctx context.Context, version int64, audit string) error {
	err := s.db.WithContext(ctx).Table("rollout_capacity").Where("name = ? AND version = ?", capacityName, version).
		Update("audit", audit).Error
	if err != nil {
		return unavailable("note audit record", err)
	}
	return nil
}
