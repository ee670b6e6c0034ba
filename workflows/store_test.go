package workflows

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func begun(t *testing.T, s *store, id string) State {
	t.Helper()
	spec := quick().withDefaults()
	st := State{
		ID: id, Model: "m", Stable: "v1", Candidate: "v2", Spec: spec, Starter: alice, Phase: PhaseStarting, Step: -1, StartedAt: 7,
	}
	if err := s.create(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestStoreKeepsARollout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, ctx := &store{db: db}, t.Context()
		want := begun(t, s, "r-1")
		if got, err := s.get(ctx, "r-1"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
		moves := []Transition{
			{ID: "r-1/1", Seq: 1, From: PhaseStarting, To: PhaseBaseline, At: 10, Actor: alice, Reason: "try it"},
			{ID: "r-1/2", Seq: 2, From: PhaseBaseline, To: "canary-40", Share: 40, At: 20, Actor: bob, Reason: "ok", Evidence: "e"},
		}
		for i, m := range moves {
			for range 2 { // each write is made twice, as after a lost answer
				audit, err := s.transition(ctx, "r-1", m)
				if err != nil {
					t.Fatal(err)
				}
				if audit != moves[i].Audit {
					t.Errorf("transition %s has the audit record %q", m.ID, audit)
				}
				moves[i].Audit = "a-" + m.ID
				err = errors.Join(s.audited(ctx, m.ID, moves[i].Audit), s.entered(ctx, "r-1", m))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		d := Decision{Outcome: Inconclusive, Code: "c", Reason: "r", Checks: []Check{{Name: "error_rate", Worse: 1}}}
		if err := s.checked(ctx, "r-1", d, time.UnixMicro(25)); err != nil {
			t.Fatal(err)
		}
		want.Phase, want.Share, want.Step, want.EnteredAt, want.CheckedAt, want.Decision, want.History = PhaseCanary, 40, 1, 20, 25, d, moves
		if got, err := s.get(ctx, "r-1"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
		if latest, err := s.latest(ctx, "r-1"); err != nil || latest != 2 {
			t.Errorf("latest %d, %v", latest, err)
		}

		end := Transition{ID: "r-1/3", Seq: 3, From: "canary-40", To: PhaseRolledBack, At: 30}
		if err := errors.Join(s.entered(ctx, "r-1", end), s.entered(ctx, "r-1", moves[1]), s.checked(ctx, "r-1", Decision{}, time.UnixMicro(99))); err != nil {
			t.Fatal(err)
		}
		got, err := s.get(ctx, "r-1")
		if err != nil || got.Phase != PhaseRolledBack || got.FinishedAt != 30 || got.Decision.Outcome != Inconclusive {
			t.Errorf("late writes changed a finished rollout: %+v, %v", got, err)
		}
	})
}

func TestStoreKeepsEvidenceOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, ctx := &store{db: db}, t.Context()
		ev := Evidence{Schema: 1, Rollout: "r-1", Phase: "canary-20", Stable: arm(9, 1, time.Second, time.Second)}
		for range 2 {
			if err := s.keep(ctx, ev, th(), Verdict(ev, th()), time.UnixMicro(1)); err != nil {
				t.Fatal(err)
			}
		}
		got, thresholds, err := s.evidence(ctx, ev.Hash())
		if err != nil || !reflect.DeepEqual(got, ev) || thresholds != th() {
			t.Errorf("got %+v %+v %v", got, thresholds, err)
		}
		if _, _, err := s.evidence(ctx, "nothing"); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("unknown hash: %v", err)
		}
	})
}

func TestStoreListsPages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := &store{db: db}
		for i := range 5 {
			begun(t, s, fmt.Sprintf("r-%d", i))
		}
		var got []string
		for cursor := ""; ; {
			page, err := s.list(t.Context(), cursor, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, st := range page {
				got = append(got, st.ID)
			}
			cursor = page[len(page)-1].ID
		}
		if fmt.Sprint(got) != "[r-4 r-3 r-2 r-1 r-0]" {
			t.Errorf("listed %v", got)
		}
	})
}

// TestStoreRevivesAnAbandonedRollout: Temporal may have started what the caller gave up on.
func TestStoreRevivesAnAbandonedRollout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, ctx := &store{db: db}, t.Context()
		begun(t, s, "r-1")
		if err := s.abandon(ctx, "r-1", time.UnixMicro(9)); err != nil {
			t.Fatal(err)
		}
		if st, err := s.get(ctx, "r-1"); err != nil || st.Phase != PhaseFailed || st.FinishedAt != 9 {
			t.Errorf("abandoned: %+v %v", st, err)
		}
		first := Transition{ID: "r-1/1", Seq: 1, To: PhaseBaseline, At: 10}
		if err := errors.Join(s.entered(ctx, "r-1", first), s.abandon(ctx, "r-1", time.UnixMicro(11))); err != nil {
			t.Fatal(err)
		}
		if st, err := s.get(ctx, "r-1"); err != nil || st.Phase != PhaseBaseline || st.FinishedAt != 0 {
			t.Errorf("revived: %+v %v", st, err)
		}
	})
}

func TestStoreSaysWhenTheDatabaseIsGone(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	s, ctx := &store{db: db}, t.Context()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	_ = pool.Close()
	_, errGet := s.get(ctx, "r")
	_, errList := s.list(ctx, "", 1)
	_, errMove := s.transition(ctx, "r", Transition{ID: "r/1"})
	_, errLatest := s.latest(ctx, "r")
	_, _, errEvidence := s.evidence(ctx, "h")
	_, _, errCapacity := s.capacity(ctx)
	for i, err := range []error{
		errGet, errList, errMove, errLatest, errEvidence, errCapacity, s.create(ctx, State{}), s.audited(ctx, "r/1", "a"),
		s.entered(ctx, "r", Transition{}), s.checked(ctx, "r", Decision{}, time.Time{}), s.abandon(ctx, "r", time.Time{}),
		s.keep(ctx, Evidence{}, Thresholds{}, Decision{}, time.Time{}), s.changeCapacity(ctx, Capacity{version: 1}),
		s.changeCapacity(ctx, Capacity{version: 2}), s.auditedCapacity(ctx, 1, "a"),
	} {
		if !fault.Is(err, fault.CodeDatabaseUnavailable) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
