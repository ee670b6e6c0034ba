// Package actuatortest is the suite that every actuator passes.
package actuatortest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-project/sluice/scaling"
)

// Subject is an actuator under test, over a pool that is empty at first.
type Subject struct {
	Actuator scaling.Actuator
	// FailStarts makes the next n starts fail; nil: this actuator does not see starts.
	FailStarts func(n int)
	// Within bounds how long anything takes to come about.
	Within time.Duration
}

// Run holds an actuator to the promises of [scaling.Actuator].
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	order := func(id string, n int, term int64) scaling.Order {
		return scaling.Order{ID: id, Pool: "suite", Target: n, Term: term}
	}
	t.Run("UpAndDown", func(t *testing.T) {
		s := open(t)
		for i, n := range []int{2, 1, 3, 1} {
			s.take(t, order(string(rune('a'+i)), n, 1))
			s.settle(t, n)
		}
	})
	t.Run("TheSameOrderTwice", func(t *testing.T) {
		s := open(t)
		for range 3 {
			s.take(t, order("once", 2, 1))
		}
		s.settle(t, 2)
	})
	t.Run("AnEarlierTermIsRefused", func(t *testing.T) {
		s := open(t)
		s.take(t, order("new", 1, 7))
		if err := s.Actuator.Scale(t.Context(), order("old", 3, 6)); !errors.Is(err, scaling.ErrStaleTerm) {
			t.Errorf("an order of term 6 after one of term 7: %v", err)
		}
		s.settle(t, 1)
	})
	t.Run("AnEndedContext", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Actuator.Scale(ctx, order("late", 1, 1)); err == nil {
			t.Error("an order was taken after its context had ended")
		}
	})
	t.Run("HalfOfTheStartsFail", func(t *testing.T) {
		s := open(t)
		if s.FailStarts == nil {
			t.Skip("this actuator does not see starts")
		}
		s.FailStarts(2)
		s.take(t, order("half", 3, 1))
		s.settle(t, 3)
	})
}

func (s Subject) take(t *testing.T, o scaling.Order) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Within)
	defer cancel()
	if err := s.Actuator.Scale(ctx, o); err != nil {
		t.Fatalf("order %s: %v", o.ID, err)
	}
}

// settle waits until exactly n are ready and nobody comes or goes.
func (s Subject) settle(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last scaling.Fleet
	for {
		f, err := s.Actuator.Fleet(ctx)
		if err == nil && f.Ready == n && f.Starting == 0 && f.Draining == 0 {
			return
		}
		last = f
		select {
		case <-ctx.Done():
			t.Fatalf("%d were to be ready: %+v %v", n, last, err)
		case <-tick.C:
		}
	}
}
