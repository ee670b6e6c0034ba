package alerts

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-project/sluice/internal/notify"
)

// tick is how often states are looked at that have no time of their own.
const tick = time.Minute

// Check looks at one kind of state.
type Check struct {
	Name   string
	Shared bool          // of the whole installation: one replica looks
	Every  time.Duration // 0 = a minute
	Find   func(ctx context.Context) ([]notify.Alert, error)
}

// Watcher raises alerts for as long as their states last.
type Watcher struct {
	// Checks are what to look at.
	Checks []Check
	// Leads reports whether this replica looks for all of them.
	Leads func(ctx context.Context) (bool, error)
	// Notify takes alerts, again and again while they last.
	Notify func(ctx context.Context, a notify.Alert)
	Log    *slog.Logger
}

// seen is what a check found last.
type seen struct {
	at     time.Time
	alerts map[string]notify.Alert
}

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := make([]seen, len(w.Checks))
	for {
		w.look(ctx, last)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// look runs the checks that are due and raises what lasts. A replica that no longer leads forgets what it saw: the one that leads now says how
// it goes on.
func (w *Watcher) look(ctx context.Context, last []seen) {
	leads, err := w.Leads(ctx)
	w.report(ctx, "leader", err)
	for i, c := range w.Checks {
		if c.Shared && !leads {
			if err == nil {
				last[i] = seen{}
			}
			continue
		}
		now := time.Now()
		if now.Sub(last[i].at) >= c.Every-tick/2 {
			found, err := c.Find(ctx)
			w.report(ctx, c.Name, err)
			if err != nil {
				continue
			}
			last[i] = seen{now, w.resolve(ctx, last[i].alerts, found)}
		}
		for _, a := range last[i].alerts {
			w.Notify(ctx, a)
		}
	}
}

// resolve tells the end of what is no longer found, and returns what is.
func (w *Watcher) resolve(ctx context.Context, before map[string]notify.Alert, found []notify.Alert) map[string]notify.Alert {
	now := make(map[string]notify.Alert, len(found))
	for _, a := range found {
		now[a.Code+"\x00"+a.About] = a
	}
	for key, a := range before {
		if _, lasts := now[key]; !lasts {
			a.Resolved = true
			w.Notify(ctx, a)
		}
	}
	return now
}

func (w *Watcher) report(ctx context.Context, check string, err error) {
	if err != nil && ctx.Err() == nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "a state that people would be told about cannot be read; it is tried again",
			slog.String("check", check), slog.String("error", err.Error()))
	}
}
