package audit

import (
	"os"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestEveryDatabaseFailureOfAnErasure fails each operation of keeping, shipping and erasing texts in turn, in both flavours, on both databases.
// After each the texts are all readable or all erased, the log verifies, and repeating the erasure finishes it. Every operation with
// SLUICE_TEST_LONG, else every ninth, from another one on for each flavour.
func TestEveryDatabaseFailureOfAnErasure(t *testing.T) {
	skipShort(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		faulty := &dbtest.Faults{}
		l := openTest(t, testConfig(t.TempDir()), faulty.Over(db), countingSink, durable.OS{})
		broken, complete, step := 0, 0, 9
		if os.Getenv("SLUICE_TEST_LONG") != "" {
			step = 1
		}
		for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter} {
			for n := min(step, 4*int(m)); ; n += step {
				r, other := say(t, l, 1000*int(m)+2*n, alice), say(t, l, 1000*int(m)+2*n+1, bob)
				failed, at := "", n
				faulty.Set(func(op string) durabletest.Mode {
					if at--; at == 0 {
						failed = op
						return m
					}
					return durabletest.Healthy
				})
				_, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
				faulty.Set(nil)
				if failed != "" && err == nil {
					t.Errorf("%q (%d) mode %d: no error", failed, n, m)
				}
				if failed != "" {
					broken++
					flush(t, l)
					mustVerify(t, l, db)
					if got := texts(t, l, r.ID); !slices.Equal(got, said(1000*int(m)+2*n)) && !slices.Equal(got, []string{"", ""}) {
						t.Errorf("%q (%d) mode %d: half erased: %q", failed, n, m, got)
					}
					if _, err = l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); err != nil {
						t.Fatalf("%q (%d) mode %d: %v", failed, n, m, err)
					}
				}
				if got := texts(t, l, r.ID); err != nil || !slices.Equal(got, []string{"", ""}) || len(wrappedKeys(t, db, alice)) != 0 {
					t.Fatalf("%q (%d) mode %d: %q, %v", failed, n, m, got, err)
				}
				if got := texts(t, l, other.ID); !slices.Equal(got, said(1000*int(m)+2*n+1)) {
					t.Errorf("%q (%d) mode %d: another's: %q", failed, n, m, got)
				}
				if failed == "" {
					complete++
					break
				}
			}
		}
		if broken < 90/step || complete != 2 {
			t.Errorf("%d operations failed", broken)
		}
		mustVerify(t, l, db)
	})
}
