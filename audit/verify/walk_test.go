package verify

import (
	"math"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/store"
)

// A stated time counts only up to now: a clock that ran ahead stated a later one.
func TestLatestTime(t *testing.T) {
	w := &walk{now: func() time.Time { return time.UnixMicro(1_000_000_000) }}
	for stated, want := range map[int64]int64{5: 5, 1_000_000_000: 1_000_000_000, 1_000_000_001: 1_000_000_000, math.MaxInt64: 1_000_000_000} {
		if got := w.atLatest(stated); got != want+store.MaxSkew.Microseconds() {
			t.Errorf("stated %d: %d, want %d", stated, got, want+store.MaxSkew.Microseconds())
		}
	}
}
