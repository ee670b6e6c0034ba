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
				audit, evidence, err := s.transition(ctx, "r-1", m)
				if err != nil {
					t.Fatal(err)
				}
				if audit != moves[i].Audit || evidence != m.Evidence {
					t.Errorf("transition %s has the audit record %q and the evidence %q", m.ID, audit, evidence)
				}
				moves[i].Audit = "a-" + m.ID
				err = errors.Join(s.audited(ctx, m.ID, moves[i].Audit), s.entered(ctx, "r-1", m))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		ev := Evidence{Schema: 1, Rollout: "r-1", Phase: "canary-40", Stable: arm(9, 1, time.Second, time.Second), Candidate: arm(5, 0, time.Second, time.Second)}
		d, late := Verdict(ev, th()), ev
		if err := s.checked(ctx, ev, d, time.UnixMicro(25)); err != nil {
			t.Fatal(err)
		}
		late.Phase = "canary-20" // an evaluation of the step before, which comes when that is over
		if err := s.checked(ctx, late, Decision{Code: "late"}, time.UnixMicro(26)); err != nil {
			t.Fatal(err)
		}
		want.Seen = &ev
		want.Phase, want.Share, want.Step, want.EnteredAt, want.CheckedAt, want.Decision, want.History = PhaseCanary, 40, 1, 20, 25, d, moves
		if got, err := s.get(ctx, "r-1"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
		if latest, err := s.latest(ctx, "r-1"); err != nil || latest != 2 {
			t.Errorf("latest %d, %v", latest, err)
		}

		end := Transition{ID: "r-1/3", Seq: 3, From: "canary-40", To: PhaseRolledBack, At: 30}
		if err := errors.Join(s.entered(ctx, "r-1", end), s.entered(ctx, "r-1", moves[1]), s.checked(ctx, ev, Decision{}, time.UnixMicro(99))); err != nil {
			t.Fatal(err)
		}
		got, err := s.get(ctx, "r-1")
		if err != nil || got.Phase != PhaseRolledBack || got.FinishedAt != 30 || got.Decision.Outcome != d.Outcome || !reflect.DeepEqual(got.Seen, &ev) {
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
			if err := s.saveEvidence(ctx, ev, th(), Verdict(ev, th()), time.UnixMicro(1)); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]Evaluation{ev.Hash(): {At: 1, Evidence: ev, Thresholds: th(), Decision: Verdict(ev, th())}}
		if got, err := s.evaluations(ctx, State{History: []Transition{{Evidence: ev.Hash()}}}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v %v\nwant %+v", got, err, want)
		}
		if got, err := s.evaluations(ctx, State{}); err != nil || len(got) != 0 {
			t.Errorf("of another rollout: %+v %v", got, err)
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
	_, _, errMove := s.transition(ctx, "r", Transition{ID: "r/1"})
	_, errLatest := s.latest(ctx, "r")
	_, errEvidence := s.evaluations(ctx, State{})
	_, _, errCapacity := s.capacity(ctx)
	for i, err := range []error{
		errGet, errList, errMove, errLatest, errEvidence, errCapacity, s.create(ctx, State{}), s.audited(ctx, "r/1", "a"),
		s.entered(ctx, "r", Transition{}), s.checked(ctx, Evidence{}, Decision{}, time.Time{}), s.settled(ctx, "r/1", "h"), s.abandon(ctx, "r", time.Time{}),
		s.saveEvidence(ctx, Evidence{}, Thresholds{}, Decision{}, time.Time{}), s.changeCapacity(ctx, Capacity{version: 1}),
		s.changeCapacity(ctx, Capacity{version: 2}), s.auditedCapacity(ctx, 1, "a"),
	} {
		if !fault.Is(err, fault.CodeDatabaseUnavailable) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
