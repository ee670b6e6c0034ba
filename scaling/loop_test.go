package scaling

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// fakeActuator is a fleet of one number, whose steps can be made to fail or hang.
type fakeActuator struct {
	have               int
	orders             []int
	blind, deaf, hangs bool
	recordFails        bool
	records            []Decision
	base               int
}

func (a *fakeActuator) Fleet(context.Context) (Fleet, error) {
	if a.blind {
		return Fleet{}, errors.New("blind")
	}
	return Fleet{Ready: a.have}, nil
}

func (a *fakeActuator) Scale(ctx context.Context, o Order) error {
	switch {
	case a.hangs:
		<-ctx.Done()
		return ctx.Err()
	case a.deaf:
		return errors.New("deaf")
	}
	a.have = o.Target
	a.orders = append(a.orders, o.Target)
	return nil
}

func (a *fakeActuator) record(_ context.Context, d Decision) error {
	if a.recordFails {
		return errors.New("no record")
	}
	a.records = append(a.records, d)
	return nil
}

func loop(t *testing.T, a *fakeActuator) *Loop {
	t.Helper()
	return NewLoop(LoopConfig{Pool: "chat", Term: 1}, LoopDeps{
		Controller: controller(t, bank()), Actuator: a, Base: func() int { return a.base }, Record: a.record, Log: slog.New(slog.DiscardHandler),
		Signals: func(now time.Time) Signals { return measured(now, 1) },
	})
}

// TestLoop: an order follows its record and never goes without; what hangs or fails is tried again.
func TestLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // midnight UTC of 2000-01-01: the floor is 7
		a := &fakeActuator{recordFails: true, base: 1}
		l := loop(t, a)
		if err := l.Step(t.Context()); err == nil || len(a.orders) != 0 {
			t.Fatalf("without a record: %v %v", a.orders, err)
		}
		a.recordFails = false
		if err := l.Step(t.Context()); err != nil || !slices.Equal(a.orders, []int{6}) || len(a.records) != 1 || a.records[0].Target != 7 {
			t.Fatalf("%v %+v %v", a.orders, a.records, err)
		}
		if err := l.Step(t.Context()); err != nil || len(a.records) != 1 {
			t.Errorf("what did not change was recorded: %d %v", len(a.records), err)
		}
		a.have, a.blind = 0, true
		if err := l.Step(t.Context()); err == nil || len(a.orders) != 2 {
			t.Errorf("blind: %v %v", a.orders, err)
		}
		a.blind, a.hangs = false, true
		before := time.Now()
		if err := l.Step(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(before) > 5*time.Second {
			t.Errorf("an actuator that hangs held the loop for %s: %v", time.Since(before), err)
		}
		a.hangs = false
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(12 * time.Second) // of the bubble's clock
		if a.have != 6 {
			t.Errorf("%d instances", a.have)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		blind := 0 // alarms that come and go at each step
		l.deps.Signals = func(now time.Time) Signals {
			if blind++; blind%2 == 0 {
				return Signals{}
			}
			return measured(now, 1)
		}
		for range 24 {
			time.Sleep(5 * time.Second)
			if err := l.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(a.records); n < 2 || n > 4 {
			t.Errorf("%d records in two minutes of flapping alarms", n)
		}
		if last, kept, ok := l.Decisions(); !ok || last.Target != 7 || len(kept) != len(a.records) {
			t.Errorf("%+v %d", last, len(kept))
		}
	})
}
