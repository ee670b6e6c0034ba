package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/internal/sleep"
)

// TestFor: the whole time where nothing ends it, and no longer than the context.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if !sleep.For(t.Context(), time.Hour) || time.Since(begun) != time.Hour {
			t.Errorf("it waited for %s", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun = time.Now()
		if sleep.For(ctx, time.Hour) || time.Since(begun) != time.Minute {
			t.Errorf("it waited for %s", time.Since(begun))
		}
	})
}
