package meter

import (
	"context"
	"sync"
	"time"
)

// Retry returns the meter of c, which is opened by Refresh until it can be. Until then Advance is an ErrGap. Its Source is complete from the
// beginning, but for the Name. c is valid.
func Retry(c Config, clock func() Moment, period time.Duration) Meter {
	r := &retry{cfg: c, clock: clock, period: period}
	_ = r.open() // Refresh says why not
	return r
}

type retry struct {
	cfg    Config
	clock  func() Moment
	period time.Duration

	mu    sync.Mutex
	meter Meter // nil until it is open
	fresh bool  // nobody has asked it yet
}

func (r *retry) open() error {
	m, err := Open(r.cfg, r.clock, r.period)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.meter, r.fresh = m, true
	return nil
}

func (r *retry) opened() Meter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.meter
}

// Source implements Meter.
func (r *retry) Source() Source {
	if m := r.opened(); m != nil {
		return m.Source()
	}
	return r.cfg.source()
}

// Refresh implements Meter.
func (r *retry) Refresh(ctx context.Context) error {
	if r.opened() == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	return r.opened().Refresh(ctx)
}

// Advance implements Meter.
func (r *retry) Advance(now Moment) (int64, error) {
	r.mu.Lock()
	m, fresh := r.meter, r.fresh
	r.fresh = false
	r.mu.Unlock()
	if m == nil {
		return 0, ErrGap
	}
	e, err := m.Advance(now)
	if fresh && err == nil { // the meter was opened in the middle of this time
		return 0, ErrGap
	}
	return e, err
}
