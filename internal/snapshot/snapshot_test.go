package snapshot_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/internal/snapshot"
)

const maxAge = time.Minute

var errDown = errors.New("the database is away")

// source is a table of one row with a change counter. Faults are switched on by the test.
type source struct {
	mu             sync.Mutex
	value, version int64
	err            error
	hang           bool
	loads          int
}

func (s *source) set(change func(*source)) { s.mu.Lock(); change(s); s.mu.Unlock() }

func (s *source) Version(ctx context.Context) (int64, error) { _, v, err := s.read(ctx); return v, err }

func (s *source) Load(ctx context.Context) (*int64, error) {
	s.set(func(s *source) { s.loads++ })
	v, _, err := s.read(ctx)
	return &v, err
}

func (s *source) read(ctx context.Context) (value, version int64, err error) {
	s.mu.Lock()
	hang, value, version, err := s.hang, s.value, s.version, s.err
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	return value, version, err
}

func start(t *testing.T, s *source, log io.Writer, reg prometheus.Registerer) *snapshot.Snapshot[*int64] {
	t.Helper()
	snap, err := snapshot.New(snapshot.Config{MaxAge: maxAge}, snapshot.Source[*int64]{Name: "row", Version: s.Version, Load: s.Load},
		slog.New(slog.NewTextHandler(log, nil)), reg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snap.Get(); err == nil {
		t.Error("a snapshot must refuse before its first load")
	}
	if err := snap.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	go snap.Run(t.Context())
	return snap
}

func want(t *testing.T, snap *snapshot.Snapshot[*int64], value int64) {
	t.Helper()
	if v, err := snap.Get(); err != nil || *v != value {
		t.Errorf("got %v, %v; want %d", v, err, value)
	}
}

func wantRefused(t *testing.T, snap *snapshot.Snapshot[*int64]) {
	t.Helper()
	if v, err := snap.Get(); err == nil || v != nil {
		t.Errorf("got %v, %v; want a refusal without a value", v, err)
	}
}

// pass lets time go by while the loop runs, and stops between two polls.
func pass(d time.Duration) { time.Sleep(d + time.Second/2); synctest.Wait() }

func TestChangesArriveWithinTwoPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1, version: 1}
		snap := start(t, s, io.Discard, nil)
		pass(10 * maxAge)
		want(t, snap, 1)
		if s.loads != 1 {
			t.Errorf("%d loads of what did not change", s.loads)
		}
		s.set(func(s *source) { s.value, s.version = 2, 2 })
		pass(time.Second)
		want(t, snap, 2)
		s.set(func(s *source) { s.value = 3 }) // without the counter: only Load sees it
		pass(time.Second)
		want(t, snap, 2)
		if err := snap.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, snap, 3)
	})
}

// TestFaults: whatever keeps a snapshot from being confirmed, it answers for its maximum age, then refuses, and answers again when the
// fault is gone.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end func(*source)
	}{
		"fails":         {func(s *source) { s.err = errDown }, func(s *source) { s.err = nil }},
		"hangs":         {func(s *source) { s.hang = true }, func(s *source) { s.hang = false }},
		"shows the old": {func(s *source) { s.value, s.version = 0, 0 }, func(s *source) { s.value, s.version = 1, 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, reg, log := &source{value: 1, version: 1}, prometheus.NewRegistry(), &strings.Builder{}
				snap := start(t, s, log, reg)
				s.set(c.begin)
				pass(maxAge - 2*time.Second)
				want(t, snap, 1)
				pass(2 * time.Second)
				wantRefused(t, snap)
				if last, ok := snap.Last(); !ok || *last != 1 {
					t.Errorf("the last value is %v", last)
				}
				if g := metric(t, reg, "sluice_snapshot_age_seconds"); g <= maxAge.Seconds() {
					t.Errorf("the age shows as %v s", g)
				}
				if n := metric(t, reg, "sluice_snapshot_refresh_failures_total"); n < 1 {
					t.Errorf("%v failures are counted", n)
				}
				s.set(c.end)
				pass(maxAge) // a look that hangs is given up first
				want(t, snap, 1)
				for _, line := range []string{"cannot be refreshed", "too old to be trusted", "refreshed again"} {
					if n := strings.Count(log.String(), line); n != 1 {
						t.Errorf("%q is logged %d times in\n%s", line, n, log)
					}
				}
			})
		})
	}
}

// TestOneHungLookIsNoRefusal: a connection that hangs once is given up in time for another look.
func TestOneHungLookIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1, version: 1}
		var looks atomic.Int64
		snap, err := snapshot.New(snapshot.Config{MaxAge: maxAge}, snapshot.Source[*int64]{Name: "row", Load: s.Load, Version: func(ctx context.Context) (int64, error) {
			if looks.Add(1) == 3 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return s.Version(ctx)
		}}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := snap.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		go snap.Run(t.Context())
		for range 100 {
			pass(time.Second)
			want(t, snap, 1)
		}
	})
}

// TestAWriterDoesNotWaitForAHungLook: its own deadline ends the wait.
func TestAWriterDoesNotWaitForAHungLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1, version: 1}
		snap := start(t, s, io.Discard, nil)
		s.set(func(s *source) { s.hang = true })
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := snap.Load(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestNoVersionMeansEveryLookLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		snap, err := snapshot.New(snapshot.Config{}, snapshot.Source[*int64]{Name: "row", Load: s.Load}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		go snap.Run(t.Context())
		pass(time.Second)
		want(t, snap, 1)
		s.set(func(s *source) { s.value = 2 })
		pass(time.Second)
		want(t, snap, 2)
	})
}

func TestMaximumAgeIsMandatory(t *testing.T) {
	if got := (snapshot.Config{}).WithDefaults().MaxAge; got != snapshot.DefaultMaxAge || got <= 0 {
		t.Errorf("without a word the maximum age is %s", got)
	}
	for _, c := range []snapshot.Config{{MaxAge: -1}, {MaxAge: time.Second}, {Poll: 3 * time.Minute}} {
		if _, err := snapshot.New(c, snapshot.Source[int]{Name: "n"}, slog.New(slog.DiscardHandler), nil); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	reg := prometheus.NewRegistry()
	if _, err := snapshot.New(snapshot.Config{}, snapshot.Source[int]{Name: "n"}, slog.New(slog.DiscardHandler), reg); err != nil {
		t.Fatal(err)
	}
	if got := metric(t, reg, "sluice_snapshot_age_seconds"); !math.IsInf(got, 1) {
		t.Errorf("before the first look the age is %v", got)
	}
}

// metric returns the only series of a metric.
func metric(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("%s has not one series", name)
	return 0
}
