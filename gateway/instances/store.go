package instances

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type store struct{ db *gorm.DB }

// row is an instance. Of one that the configuration lists, Spec is empty, and Weight is -1 where the configuration's holds.
type row struct {
	Pool, Name, Spec string
	Weight           int
	Zone, Roles      string
	CostPerHour      int64
	Power            string
	Draining         int
	CreatedAt        int64
	CreatedBy        string
	UpdatedAt        int64
}

func (row) TableName() string { return "route_instances" }

func columns() []string {
	return []string{"pool", "name", "spec", "weight", "zone", "roles", "cost_per_hour", "power", "draining", "created_at", "created_by", "updated_at"}
}

// ofConfiguration is the weight of a row that leaves it to the configuration.
const ofConfiguration = -1

// spec is what the row says; its attributes have the place, which is no column.
func (r row) spec() (Spec, error) {
	s := Spec{Pool: r.Pool, Name: r.Name, Attributes: r.attributes()}
	if err := json.Unmarshal([]byte(r.Spec), &s); err != nil {
		return s, fmt.Errorf("instance %s/%s: %w", r.Pool, r.Name, err)
	}
	s.Attributes.Place = s.Place
	return s, nil
}

func (r row) attributes() pool.Attributes {
	a := pool.Attributes{Weight: max(0, r.Weight), Zone: r.Zone, CostPerHour: r.CostPerHour, Power: pool.Power(r.Power), Draining: r.Draining != 0}
	if r.Roles != "" {
		a.Roles = strings.Split(r.Roles, ",")
	}
	return a
}

// override changes the attributes that the configuration gives as the row says.
func (r row) override(a *pool.Attributes) {
	a.Draining = r.Draining != 0
	if r.Weight != ofConfiguration {
		a.Weight = r.Weight
	}
}

func (s store) changes(ctx context.Context) (int64, error) {
	var n int64
	err := s.db.WithContext(ctx).Table("route_changes").Select("version").Where("name = ?", "instances").Take(&n).Error
	return n, database.Unavailable("read changes of instances", err)
}

func (s store) list(ctx context.Context) ([]row, error) {
	var rows []row
	err := s.db.WithContext(ctx).Select(columns()).Order("pool, name").Find(&rows).Error
	return rows, database.Unavailable("read instances", err)
}

// write runs fn in a transaction that bumps the counter first; its lock puts all writers in a queue.
func (s store) write(ctx context.Context, step string, fn func(tx *gorm.DB) error) error {
	return database.Unavailable(step, s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE route_changes SET version = version + 1 WHERE name = 'instances'").Error; err != nil {
			return err
		}
		return fn(tx)
	}))
}

func (s store) add(ctx context.Context, r row) error {
	return s.write(ctx, "register instance", func(tx *gorm.DB) error {
		_, found, err := find(tx, r.Pool, r.Name)
		switch {
		case err != nil:
			return err
		case found:
			return fault.New(fault.CodeExists, fault.Say("thing.instance"), r.Pool+"/"+r.Name)
		}
		return tx.Create(&r).Error
	})
}

// change changes a row. Of a configured instance it is made if it is not there.
func (s store) change(ctx context.Context, poolName, name string, configured bool, now int64, fn func(*row)) error {
	return s.write(ctx, "change instance", func(tx *gorm.DB) error {
		r, found, err := find(tx, poolName, name)
		switch {
		case err != nil:
			return err
		case !configured && (!found || r.Spec == ""): // what was changed of an instance that the configuration had once
			return fault.New(fault.CodeNotFound, fault.Say("thing.instance"), poolName+"/"+name)
		case !found:
			r = row{Pool: poolName, Name: name, Weight: ofConfiguration, CreatedAt: now}
		}
		fn(&r)
		if r.UpdatedAt = now; !found {
			return tx.Create(&r).Error
		}
		return tx.Model(&row{}).Where("pool = ? AND name = ?", poolName, name).
			Updates(map[string]any{"weight": r.Weight, "draining": r.Draining, "updated_at": now}).Error
	})
}

func (s store) remove(ctx context.Context, poolName, name string) error {
	return s.write(ctx, "remove instance", func(tx *gorm.DB) error {
		gone := tx.Where("pool = ? AND name = ? AND spec <> ''", poolName, name).Delete(&row{})
		if gone.Error == nil && gone.RowsAffected == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("thing.instance"), poolName+"/"+name)
		}
		return gone.Error
	})
}

func find(tx *gorm.DB, poolName, name string) (row, bool, error) {
	var rows []row
	err := tx.Select(columns()).Where("pool = ? AND name = ?", poolName, name).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return row{}, false, err
	}
	return rows[0], true, nil
}
