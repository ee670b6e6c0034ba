// Package sleep is for pauses that a context can end.
package sleep

import (
	"context"
	"time"
)

// For sleeps for d, or until ctx ends, and reports whether d went by. Nothing of it stays behind either way.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
