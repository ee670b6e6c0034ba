package reconcile

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestReconcileDue: a comparison is due an hour after the last one began, or when that one began by a clock that ran ahead.
func TestReconcileDue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, t.TempDir())
		now := time.Now().Truncate(time.Microsecond)
		r.now = func() time.Time { return now }
		for began, due := range map[time.Duration]bool{
			0: false, -time.Minute: false, -time.Hour + time.Microsecond: false, -time.Hour: true, -25 * time.Hour: true,
			time.Microsecond: true, time.Hour: true, 10 * 365 * 24 * time.Hour: true,
		} {
			if err := r.store.saveProgress(t.Context(), progressRow{Started: now.Add(began).UnixMicro(), Finished: 1}); err != nil {
				t.Fatal(err)
			}
			if err := r.poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			last, err := r.store.progress(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ran := last.Started == now.UnixMicro() && last.Finished == now.UnixMicro(); ran != due {
				t.Errorf("the last one began %v from now: %+v, want it to run: %v", began, last, due)
			}
		}
	})
}

// TestReconcileAsked: from the moment it is asked for, until it is over, the replica that was asked says that it runs, whoever does it.
func TestReconcileAsked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := newReplica(t, db, t.TempDir()), newReplica(t, db, t.TempDir())
		a.run() // nothing is due after it
		running := func(r *replica, want bool, when string) {
			t.Helper()
			if s, err := r.State(t.Context(), ""); err != nil || s.Running != want {
				t.Errorf("%s: running %v, want %v; %v", when, s.Running, want, err)
			}
		}
		running(a, false, "at rest")
		a.Trigger()
		running(a, true, "asked")
		running(b, false, "the other replica, before it has begun")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.poll(cancelled); err == nil {
			t.Error("a turn without a database worked")
		}
		running(a, true, "asked, and could not begin")
		began := false
		a.now = func() time.Time {
			if held, err := oneComparing().Held(db, time.Now()); held && err == nil && !began { // the clock is asked right after the lease was taken
				began = true
				running(b, true, "the other replica, once it has begun")
				if a.requested.Load() {
					t.Error("asked for, and has begun")
				}
				a.Trigger() // once more, for what changed meanwhile
			} else if err == nil && !held && !a.requested.Load() {
				t.Error("not asked for any more, and it has not begun")
			}
			return time.Now()
		}
		if err := a.poll(t.Context()); err != nil || !began {
			t.Errorf("began %v, %v", began, err)
		}
		a.now = time.Now
		running(a, true, "asked while one ran")
		if err := a.poll(t.Context()); err != nil {
			t.Error(err)
		}
		running(a, false, "done")

		if err := oneComparing().Take(db, "b", time.Now()); err != nil {
			t.Fatal(err)
		}
		a.Trigger()
		if err := a.poll(t.Context()); err != nil {
			t.Error(err)
		}
		running(a, true, "another replica is at it")
		if err := oneComparing().Release(db, "b"); err != nil {
			t.Fatal(err)
		}
		running(a, false, "the other one is done, and it is not repeated")
	})
}
