package simulate

import (
	"context"
	"sync"
	"time"
)

// Real is the clock on the wall.
type Real struct{}

// Now implements Clock.
func (Real) Now() time.Time { return time.Now() }

// Sleep implements Clock.
func (Real) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Virtual is a clock on which sleeping takes no time: it stands still but for sleepers, each of which moves it on by as long as it sleeps.
type Virtual struct {
	mu  sync.Mutex
	now time.Time
}

// NewVirtual returns a clock that shows a time.
func NewVirtual(now time.Time) *Virtual { return &Virtual{now: now} }

// Now implements Clock.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// Sleep implements Clock.
func (v *Virtual) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = v.now.Add(max(d, 0))
	return nil
}
