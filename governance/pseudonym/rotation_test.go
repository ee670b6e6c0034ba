package pseudonym

import (
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestValuesOutliveRotations: values of before a rotation and of its middle are seen by replicas that were there and by new ones, of both suites,
// when the keys that wrapped their keys are destroyed.
func TestValuesOutliveRotations(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, gm := replica(t, db, Config{}, nil), replica(t, db, Config{Suite: "gm"}, nil)
		keep(t, a, turn("s", "13800138000"))
		keep(t, gm, turn("s", "13900139000"))
		finish := wrapkeytest.Begin(t, db, keys(), Wrapped(keys()))
		other := turn("t", "13700137000")
		other.Tenant = "other"
		keep(t, replica(t, db, Config{}, nil), other)
		finish()
		wrapkeytest.Begin(t, db, keys(), Wrapped(keys()))()
		after := turn("u", "13600136000")
		after.Tenant = "third"
		keep(t, a, after)
		var epochs []int64
		must(t, db.Model(&keyRow{}).Distinct().Pluck("epoch", &epochs).Error)
		if len(epochs) != 1 || epochs[0] != 2 {
			t.Errorf("keys are of epochs %v", epochs)
		}
		for name, v := range map[string]*Store{"old": a, "new": replica(t, db, Config{}, nil)} {
			got := find(t, v, Target{Tenant: "acme", Name: "s"}, "C8000", "C9000")
			if got["C8000"] != "13800138000" || got["C9000"] != "13900139000" {
				t.Errorf("%s replica: %v", name, got)
			}
			if got := find(t, v, Target{Tenant: "other", Name: "t"}, "C7000"); got["C7000"] != "13700137000" {
				t.Errorf("%s replica: %v", name, got)
			}
		}
	})
}
