package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// process is one replica's capacity controller with a clock of its own.
type process struct {
	*capacity
	w     *world
	clock time.Time
}

func newProcess(t *testing.T, db *gorm.DB, local string) *process {
	t.Helper()
	p := &process{w: newWorld(), clock: at(t, "Asia/Shanghai", local)}
	deps := Deps{DB: db, Routes: p.w, Stats: p.w, Audit: p.w, Engine: p.w}
	p.capacity = &capacity{
		deps: deps, store: &store{db: db}, now: func() time.Time { return p.clock }, log: slog.New(slog.DiscardHandler), m: newMetrics(nil),
	}
	return p
}

func (p *process) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCapacityFollowsThePlan(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		p := newProcess(t, db, "2026-11-02 06:00:00")
		p.must(t, p.seed(t.Context(), office()))
		apply := func(want ...int) {
			t.Helper()
			for range 2 { // the second time nothing may happen
				if _, err := p.apply(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(p.w.engine, want) {
				t.Errorf("the engine got %v, want %v", p.w.engine, want)
			}
		}
		apply(3)
		p.clock = p.clock.Add(time.Hour)
		err := p.reconcile(t.Context(), "edge")
		p.must(t, err)
		apply(3, 8)
		_, err = p.set(t.Context(), Plan{Timezone: "UTC", PeakConcurrency: 9, ValleyConcurrency: 5}, Actor{Kind: "user", ID: "alice"}, "night shift")
		p.must(t, err)
		apply(3, 8, 5)

		// The configuration does not undo what an administrator did.
		p.must(t, p.seed(t.Context(), office()))
		have, _, err := p.store.capacity(t.Context())
		if err != nil || have.Source != fromAdmin || have.Concurrency != 5 || have.Actor.ID != "alice" || have.Reason != "night shift" {
			t.Errorf("in force: %+v, %v", have, err)
		}
		if len(p.w.records) != 3 {
			t.Errorf("%d audit records for 3 changes", len(p.w.records))
		}
	})
}

func TestChangedConfigurationIsTakenOver(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 12:00:00")
	p.must(t, p.seed(t.Context(), office()))
	next := office()
	next.PeakConcurrency = 12
	p.must(t, p.seed(t.Context(), next))
	p.must(t, p.seed(t.Context(), next))
	have, _, err := p.store.capacity(t.Context())
	if err != nil || have.Concurrency != 12 || have.version != 2 {
		t.Errorf("in force: %+v, %v", have, err)
	}
}

// TestReplicasAgree lets many processes reach the edge at once: one change, one audit record, every engine at the new value.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		first := newProcess(t, db, "2026-11-02 06:00:00")
		first.must(t, first.seed(t.Context(), office()))
		var all []*process
		var wg sync.WaitGroup
		for range 6 {
			p := newProcess(t, db, "2026-11-02 07:00:00")
			all = append(all, p)
			wg.Go(func() {
				if err := p.reconcile(t.Context(), "edge"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		records := 0
		for _, p := range all {
			if _, err := p.apply(t.Context()); err != nil {
				t.Error(err)
			}
			if !slices.Equal(p.w.engine, []int{8}) {
				t.Errorf("an engine got %v", p.w.engine)
			}
			for _, r := range p.w.records {
				if r.Detail["transition"] == "capacity/2" {
					records++
				}
			}
		}
		have, _, err := first.store.capacity(t.Context())
		if err != nil || have.version != 2 || records != 1 {
			t.Errorf("version %d, %d records, %v", have.version, records, err)
		}
	})
}

// TestNoUnauditedChangeReachesTheEngine: while the audit log is away the old value stays, afterwards the change is audited once.
func TestNoUnauditedChangeReachesTheEngine(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 06:00:00")
	p.must(t, p.seed(t.Context(), office()))
	p.clock = p.clock.Add(time.Hour)
	p.w.fail.audit = errors.New("down")
	if err := p.reconcile(t.Context(), "edge"); err == nil {
		t.Fatal("the failure was swallowed")
	}
	have, err := p.apply(t.Context())
	if err != nil || len(p.w.engine) != 0 || p.overdue(have) {
		t.Errorf("the engine got %v, %v", p.w.engine, err)
	}
	p.clock = p.clock.Add(auditGrace + time.Second)
	if !p.overdue(have) {
		t.Error("an unaudited change is never repaired")
	}
	p.w.fail.audit = nil
	err = p.reconcile(t.Context(), "repair")
	p.must(t, err)
	if _, err = p.apply(t.Context()); err != nil || !slices.Equal(p.w.engine, []int{8}) || len(p.w.records) != 2 {
		t.Errorf("the engine got %v with %d records, %v", p.w.engine, len(p.w.records), err)
	}
}

func TestOverdueAfterTheGraceOnly(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 06:00:00")
	p.must(t, p.seed(t.Context(), office()))
	have, _, err := p.store.capacity(t.Context())
	p.must(t, err)
	for local, want := range map[string]bool{
		"2026-11-02 06:59:59": false, "2026-11-02 07:00:00": false, "2026-11-02 07:01:59": false, "2026-11-02 07:02:00": true,
		"2026-11-02 12:00:00": true, "2026-11-02 22:01:00": false,
	} {
		p.clock = at(t, "Asia/Shanghai", local)
		if got := p.overdue(have); got != want {
			t.Errorf("%s: overdue %t", local, got)
		}
	}
}

func TestSetRefusesABadPlan(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 06:00:00")
	if _, err := p.set(t.Context(), Plan{Timezone: "UTC"}, Actor{}, ""); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
	if _, found, err := p.store.capacity(t.Context()); found || err != nil {
		t.Errorf("a refused plan was written: %v", err)
	}
}

// TestFailedEngineIsTriedAgain: the version counts as applied only after the engine took it.
func TestFailedEngineIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 06:00:00")
	p.must(t, p.seed(t.Context(), office()))
	p.deps.Engine = brokenEngine{p.w}
	if _, err := p.apply(t.Context()); err == nil {
		t.Error("the failure was swallowed")
	}
	p.deps.Engine = p.w
	if _, err := p.apply(t.Context()); err != nil || !slices.Equal(p.w.engine, []int{3}) {
		t.Errorf("the engine got %v, %v", p.w.engine, err)
	}
}

type brokenEngine struct{ *world }

func (brokenEngine) SetConcurrency(context.Context, int) error { return errors.New("busy") }

// TestRemovedPlanGivesTheConfiguredConcurrencyBack: on every replica, once, with one audit record, and neither the configuration nor
// the clock brings the plan back.
func TestRemovedPlanGivesTheConfiguredConcurrencyBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		one, two := newProcess(t, db, "2026-11-02 06:00:00"), newProcess(t, db, "2026-11-02 06:00:00")
		two.w.ceiling = 2 * configured // each goes back to its own
		both := func(want ...int) {
			t.Helper()
			for _, p := range []*process{one, two} {
				if _, err := p.apply(t.Context()); err != nil {
					t.Fatal(err)
				}
				mine := slices.Clone(want)
				for i, n := range mine {
					if n == configured {
						mine[i] = p.w.Configured()
					}
				}
				if !slices.Equal(p.w.engine, mine) {
					t.Errorf("an engine got %v, want %v", p.w.engine, mine)
				}
			}
		}
		if c, err := one.remove(t.Context(), alice, "nothing to remove"); err != nil || !c.Plan.IsZero() || len(one.w.records) != 0 {
			t.Errorf("without a plan: %+v, %v", c, err)
		}
		one.must(t, one.seed(t.Context(), office()))
		_, err := one.set(t.Context(), Plan{Timezone: "UTC", PeakConcurrency: 1, ValleyConcurrency: 1}, alice, "a mistake")
		one.must(t, err)
		both(1)
		for range 2 {
			c, err := one.remove(t.Context(), bob, "undo it")
			if err != nil || !c.Plan.IsZero() || c.Slot != "" || c.Actor != bob {
				t.Errorf("removed: %+v, %v", c, err)
			}
		}
		both(1, configured)
		for _, p := range []*process{one, two} {
			p.clock = p.clock.Add(3 * time.Hour)
			have, err := p.apply(t.Context())
			p.must(t, err)
			if p.overdue(have) {
				t.Error("a removed plan is overdue")
			}
			p.must(t, p.reconcile(t.Context(), "an edge"))
			p.must(t, p.seed(t.Context(), office()))
		}
		both(1, configured)
		if n := len(one.w.records) + len(two.w.records); n != 3 || one.w.records[2].Detail["source"] != removed {
			t.Errorf("%d audit records of three changes: %+v", n, one.w.records)
		}
		_, err = two.set(t.Context(), office(), alice, "again")
		two.must(t, err)
		both(1, configured, 8)
	})
}

// TestPlanThatLeavesTheConfiguration: the way back from a plan of the configuration is to take it out there.
func TestPlanThatLeavesTheConfiguration(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 12:00:00")
	engine := func(want ...int) {
		t.Helper()
		if _, err := p.apply(t.Context()); err != nil || !slices.Equal(p.w.engine, want) {
			t.Errorf("the engine got %v, want %v, %v", p.w.engine, want, err)
		}
	}
	p.must(t, p.seed(t.Context(), Plan{}))
	engine()
	p.must(t, p.seed(t.Context(), office()))
	engine(8)
	p.must(t, p.seed(t.Context(), Plan{}))
	p.must(t, p.seed(t.Context(), Plan{}))
	engine(8, configured)
	p.must(t, p.seed(t.Context(), office()))
	engine(8, configured, 8)
	if len(p.w.records) != 3 {
		t.Errorf("%d audit records of three changes", len(p.w.records))
	}
}

// TestUnauditedRemovalKeepsTheValue: while the audit log is away the engine keeps what it has; the repetition makes up for it.
func TestUnauditedRemovalKeepsTheValue(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 06:00:00")
	p.must(t, p.seed(t.Context(), office()))
	_, err := p.apply(t.Context())
	p.must(t, err)
	p.w.fail.audit = errors.New("down")
	for range 2 {
		if _, err := p.remove(t.Context(), alice, "undo"); err == nil {
			t.Fatal("the failure was swallowed")
		}
	}
	have, err := p.apply(t.Context())
	if err != nil || !slices.Equal(p.w.engine, []int{3}) {
		t.Errorf("the engine got %v, %v", p.w.engine, err)
	}
	p.clock = p.clock.Add(auditGrace + time.Second)
	if !p.overdue(have) {
		t.Error("an unaudited removal is never repaired")
	}
	p.w.fail.audit = nil
	_, err = p.remove(t.Context(), alice, "undo")
	p.must(t, err)
	if _, err := p.apply(t.Context()); err != nil || !slices.Equal(p.w.engine, []int{3, configured}) {
		t.Errorf("the engine got %v, %v", p.w.engine, err)
	}
}

// TestRemovalForTheReleaseBefore: a replica that knows no removed plan reads the row as a plan that is the same all day, at the
// configured concurrency: it must not throttle itself.
func TestRemovalForTheReleaseBefore(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.SQLite(t), "2026-11-02 06:00:00")
	p.must(t, p.seed(t.Context(), office()))
	_, err := p.remove(t.Context(), alice, "undo")
	p.must(t, err)
	var row capacityRow
	p.must(t, p.store.db.First(&row).Error)
	var plan Plan
	p.must(t, json.Unmarshal([]byte(row.Plan), &plan))
	for hour := range 24 {
		if slot, n := plan.At(p.clock.Add(time.Duration(hour) * time.Hour)); slot != row.Slot || n != configured || row.Concurrency != configured {
			t.Fatalf("in hour %d it is %s with %d, the row says %s with %d", hour, slot, n, row.Slot, row.Concurrency)
		}
	}
	p.must(t, plan.Validate())
}
