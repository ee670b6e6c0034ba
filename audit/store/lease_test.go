package store_test

import (
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// A lease belongs to whoever took it until it ends, is void when it ends further ahead than any clock within the allowed skew could have
// set it, and every lease goes by the same rule.
func TestLease(t *testing.T) {
	t.Parallel()
	taken := errors.New("taken")
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, l := range []store.Lease{seal.Lease(), retention.Lease(), {Name: "reconcile", For: 2 * time.Minute, Taken: taken}} {
			now := time.Now()
			for _, step := range []struct {
				name   string
				holder string // of the row, "" for nobody
				ends   time.Duration
				free   bool // for somebody else
			}{
				{"of nobody", "", -time.Hour, true},
				{"fresh", "a", l.For, false},
				{"about to end", "a", time.Microsecond, false},
				{"over", "a", -time.Microsecond, true},
				{"by a clock ahead within the skew", "a", l.For + store.MaxSkew, false},
				{"by a clock further ahead", "a", l.For + store.MaxSkew + time.Microsecond, true},
				{"by a clock a year ahead", "a", 365 * 24 * time.Hour, true},
			} {
				must(t, db.Exec("UPDATE audit_lease SET holder = ?, expires = ? WHERE name = ?", step.holder, now.Add(step.ends).UnixMicro(), l.Name).Error)
				if held, err := l.Held(db, now); held == step.free || err != nil {
					t.Errorf("%s, %s: held %v, %v", l.Name, step.name, held, err)
				}
				want := l.Taken
				if step.free {
					want = nil
				}
				if err := l.Take(db, "b", now); !errors.Is(err, want) {
					t.Errorf("%s, %s: %v, want %v", l.Name, step.name, err, want)
				}
			}
			must(t, errors.Join(l.Take(db, "b", now), l.Take(db, "b", now.Add(time.Second)))) // the last step left it free
			must(t, l.Release(db, "a"))                                                       // who is not its holder
			if err := l.Take(db, "a", now); !errors.Is(err, l.Taken) {
				t.Errorf("%s: somebody else released it: %v", l.Name, err)
			}
			must(t, errors.Join(l.Release(db, "b"), l.Take(db, "a", now), l.Release(db, "a")))
		}
		if err := (store.Lease{Name: "no such row", For: time.Hour, Taken: taken}).Take(db, "a", time.Now()); !errors.Is(err, taken) {
			t.Errorf("a lease without a row: %v", err)
		}
	})
}
