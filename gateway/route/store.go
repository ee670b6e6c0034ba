package route

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type store struct{ db *gorm.DB }

type versionRow struct {
	Model, Version, Engine, EngineModel, Digest, WeightPlan, Defaults string
	CreatedAt                                                         int64
}

func (versionRow) TableName() string { return "route_versions" }

type assignmentRow struct {
	Model, Stable, Candidate string
	Basis                    int64
	Rollout, Salt            string
	UpdatedAt                int64
}

func (assignmentRow) TableName() string { return "route_assignments" }

func versionColumns() []string {
	return []string{"model", "version", "engine", "engine_model", "digest", "weight_plan", "defaults", "created_at"}
}

func assignmentColumns() []string {
	return []string{"model", "stable", "candidate", "basis", "rollout", "salt", "updated_at"}
}

func (r versionRow) version() (Version, error) {
	v := Version{
		Model: r.Model, Version: r.Version, Engine: r.Engine, EngineModel: engine.ModelID(r.EngineModel), Digest: r.Digest,
		Precision: r.WeightPlan, CreatedAt: r.CreatedAt,
	}
	if err := json.Unmarshal([]byte(r.Defaults), &v.Defaults); err != nil {
		return v, fmt.Errorf("defaults of %s@%s: %w", r.Model, r.Version, err)
	}
	return v, nil
}

func (s store) changes(ctx context.Context) (int64, error) {
	var n int64
	err := s.db.WithContext(ctx).Table("route_changes").Select("version").Where("name = ?", "route").Take(&n).Error
	return n, database.Unavailable("read route changes", err)
}

// load reads everything.
func (s store) load(ctx context.Context) (*routes, error) {
	out := &routes{versions: map[string]map[string]Version{}, assignments: map[string]Assignment{}}
	db := s.db.WithContext(ctx)
	var versions []versionRow
	if err := db.Select(versionColumns()).Find(&versions).Error; err != nil {
		return nil, database.Unavailable("read versions", err)
	}
	for _, row := range versions {
		v, err := row.version()
		if err != nil {
			return nil, fmt.Errorf("read versions: %w", err)
		}
		if out.versions[v.Model] == nil {
			out.versions[v.Model] = map[string]Version{}
		}
		out.versions[v.Model][v.Version] = v
	}
	var assignments []assignmentRow
	if err := db.Select(assignmentColumns()).Find(&assignments).Error; err != nil {
		return nil, database.Unavailable("read assignments", err)
	}
	for _, r := range assignments {
		out.assignments[r.Model] = Assignment{
			Model: r.Model, Stable: r.Stable, Candidate: r.Candidate, Basis: int(r.Basis), Rollout: r.Rollout, Salt: r.Salt,
		}
	}
	return out, nil
}

// change runs fn in a transaction that bumps the counter first; its lock puts all writers of routes in a queue.
func (s store) change(ctx context.Context, step string, fn func(tx *gorm.DB) error) error {
	return database.Unavailable(step, s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE route_changes SET version = version + 1 WHERE name = 'route'").Error; err != nil {
			return err
		}
		return fn(tx)
	}))
}

func (s store) register(ctx context.Context, v Version) error {
	defaults, err := json.Marshal(v.Defaults)
	if err != nil {
		return fmt.Errorf("register version: %w", err)
	}
	return s.change(ctx, "register version", func(tx *gorm.DB) error {
		var old []versionRow
		if err := tx.Select(versionColumns()).Where("model = ? AND version = ?", v.Model, v.Version).Find(&old).Error; err != nil {
			return err
		}
		if len(old) > 0 {
			have, err := old[0].version()
			if err != nil {
				return err
			}
			have.CreatedAt = v.CreatedAt
			if !reflect.DeepEqual(have, v) {
				return fault.New(fault.CodeExists, fault.Say("thing.version"), v.Model+"@"+v.Version)
			}
			return nil
		}
		if err := tx.Create(&versionRow{
			Model: v.Model, Version: v.Version, Engine: v.Engine, EngineModel: string(v.EngineModel), Digest: v.Digest,
			WeightPlan: v.Precision, Defaults: string(defaults), CreatedAt: v.CreatedAt,
		}).Error; err != nil {
			return err
		}
		var n int64
		if err := tx.Model(&assignmentRow{}).Where("model = ?", v.Model).Count(&n).Error; err != nil || n > 0 {
			return err
		}
		return tx.Create(&assignmentRow{Model: v.Model, Stable: v.Version, UpdatedAt: v.CreatedAt}).Error
	})
}

func (s store) assign(ctx context.Context, a Assignment, now int64) error {
	return s.change(ctx, "set assignment", func(tx *gorm.DB) error {
		for _, name := range []string{a.Stable, a.Candidate} {
			if name == "" && a.Stable != "" {
				continue
			}
			var n int64
			if err := tx.Model(&versionRow{}).Where("model = ? AND version = ?", a.Model, name).Count(&n).Error; err != nil {
				return err
			}
			if n == 0 {
				return fault.New(fault.CodeNotFound, fault.Say("thing.version"), a.Model+"@"+name)
			}
		}
		// A model with a version has an assignment: registering its first version made it.
		return tx.Model(&assignmentRow{}).Where("model = ?", a.Model).Updates(map[string]any{
			"stable": a.Stable, "candidate": a.Candidate, "basis": a.Basis, "rollout": a.Rollout, "salt": a.Salt, "updated_at": now,
		}).Error
	})
}
