// Package snapshot keeps a value from a slow source, such as the rows of a concern, in memory, so that requests read it without SQL.
//
// Promise: [Snapshot.Get] returns the newest value that was loaded, or refuses. It refuses before the first load, and whenever the last
// successful look at the source began more than [Config.MaxAge] ago: because the source fails, hangs, or shows an older state. So a change
// that somebody makes elsewhere, such as a revoked key, takes effect within two polls, or the concern stops to answer after MaxAge.
// A maximum age is mandatory: zero means the default, and there is no value for "never".
//
// A look reads the source's change counter first, and loads the value only if the counter moved. A counter that went back belongs to a
// database that lags or was put back from a copy. Its value never replaces a newer one; the look counts as failed. A restart accepts it.
//
// Units: ages are measured on the monotonic clock from the beginning of a look, in seconds in the metrics. Errors are plain: they say what
// is wrong, and the concern wraps them with its own code. All methods are safe for concurrent use. Get and Last never block; looks take
// turns, so that an older value never replaces a newer one. Values are shared and must not be changed.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMaxAge is how long a snapshot answers without a successful look, unless its concern says otherwise.
const DefaultMaxAge = 5 * time.Minute

// Config says how fresh a snapshot is.
type Config struct {
	Poll   time.Duration // between looks; 0 means 1 s
	MaxAge time.Duration // since the last successful look began; 0 means DefaultMaxAge
}

// WithDefaults fills the zero values.
func (c Config) WithDefaults() Config {
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	return c
}

// Validate reports a maximum age that one slow look would use up. It names the key as configuration files do.
func (c Config) Validate() error {
	if c = c.WithDefaults(); c.MaxAge < 2*c.Poll {
		return errors.New("max_stale: must be at least twice poll")
	}
	return nil
}

// Source is where the value comes from.
type Source[T any] struct {
	// Name says what the value is. It stands in log lines and is the metrics' label.
	Name string
	// Version reads a counter that grows with every change. It is read before Load: what changes in between is loaded at the next look,
	// and never missed. nil means that every look loads.
	Version func(context.Context) (int64, error)
	// Load reads the whole value.
	Load func(context.Context) (T, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Failures counts failed looks under a metric name that is older than this package; nil means no such metric.
	Failures prometheus.Counter
}

// Snapshot holds the value. Make one with [New].
type Snapshot[T any] struct {
	cfg      Config
	source   Source[T]
	log      *slog.Logger
	failures prometheus.Counter

	turn    chan struct{} // holds a token while somebody looks
	current atomic.Pointer[state[T]]
}

// state is immutable.
type state[T any] struct {
	value     T
	version   int64
	checkedAt time.Time // when the last successful look began
}

// New returns a snapshot that refuses until [Snapshot.Load]. reg may be nil. Errors: of the configuration; of reg.
func New[T any](cfg Config, source Source[T], log *slog.Logger, reg prometheus.Registerer) (*Snapshot[T], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if source.Now == nil {
		source.Now = time.Now
	}
	labels := prometheus.Labels{"snapshot": source.Name}
	s := &Snapshot[T]{
		cfg: cfg.WithDefaults(), source: source, log: log.With(slog.String("snapshot", source.Name)), turn: make(chan struct{}, 1),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_snapshot_refresh_failures_total", Help: "Failed looks for changes, by snapshot.", ConstLabels: labels,
		}),
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_snapshot_age_seconds", Help: "Time since the last successful look for changes, by snapshot; +Inf before the first.", ConstLabels: labels,
	}, func() float64 {
		if st := s.current.Load(); st != nil {
			return s.age(st).Seconds()
		}
		return math.Inf(1)
	})
	if reg != nil {
		if err := errors.Join(reg.Register(s.failures), reg.Register(age)); err != nil {
			return nil, fmt.Errorf("%s: %w", source.Name, err)
		}
	}
	return s, nil
}

func (s *Snapshot[T]) age(st *state[T]) time.Duration { return s.source.Now().Sub(st.checkedAt) }

// Get returns the value, or why it cannot be trusted.
func (s *Snapshot[T]) Get() (value T, err error) {
	st := s.current.Load()
	if st == nil {
		return value, fmt.Errorf("%s: not loaded", s.source.Name)
	}
	if age := s.age(st); age > s.cfg.MaxAge {
		return value, fmt.Errorf("%s: not refreshed for %s, which is longer than %s", s.source.Name, age.Round(time.Second), s.cfg.MaxAge)
	}
	return st.value, nil
}

// Last returns the value that was loaded last, however old it is; loaded is false if there is none. It is for descriptions, never for decisions.
func (s *Snapshot[T]) Last() (value T, loaded bool) {
	if st := s.current.Load(); st != nil {
		return st.value, true
	}
	return value, false
}

// Load reads the value, also if it did not change. Call it once before serving, and after a change that is to take effect at once.
// Errors: of the source; of ctx, while somebody else looks.
func (s *Snapshot[T]) Load(ctx context.Context) error { return s.check(ctx, true) }

// Refresh looks for changes and reads the value if there are any. Errors are those of [Snapshot.Load].
func (s *Snapshot[T]) Refresh(ctx context.Context) error { return s.check(ctx, false) }

func (s *Snapshot[T]) check(ctx context.Context, always bool) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%s: wait for a look: %w", s.source.Name, ctx.Err())
	}
	err := s.read(ctx, always)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) { // a shutdown is no failure
		s.failures.Inc()
		if s.source.Failures != nil {
			s.source.Failures.Inc()
		}
	}
	return err
}

// read has the turn.
func (s *Snapshot[T]) read(ctx context.Context, always bool) error {
	next := &state[T]{checkedAt: s.source.Now()}
	last := s.current.Load()
	if s.source.Version == nil {
		always = true
	} else {
		var err error
		if next.version, err = s.source.Version(ctx); err != nil {
			return err
		}
	}
	switch {
	case last != nil && next.version < last.version:
		return fmt.Errorf("%s: the change counter went back from %d to %d; restart to accept an older database", s.source.Name, last.version, next.version)
	case last != nil && next.version == last.version && !always:
		next.value = last.value
	default:
		var err error
		if next.value, err = s.source.Load(ctx); err != nil {
			return err
		}
	}
	s.current.Store(next)
	return nil
}

// Run looks for changes every poll until ctx ends. It gives a look up after half of the maximum age, so that a connection that hangs leaves
// time for another look.
func (s *Snapshot[T]) Run(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	failing, refusing := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		look, cancel := context.WithTimeout(ctx, s.cfg.MaxAge/2)
		err := s.Refresh(look)
		cancel()
		if ctx.Err() != nil {
			return
		}
		_, refused := s.Get()
		switch {
		case err == nil && failing:
			s.log.Info("refreshed again")
		case err != nil && !failing:
			s.log.Error("cannot be refreshed; the last state stays in use for a while", slog.Any("error", err), slog.Duration("max_stale", s.cfg.MaxAge))
		}
		if refused != nil && !refusing {
			s.log.Error("is too old to be trusted; what needs it is refused", slog.Any("error", errors.Join(refused, err)))
		}
		failing, refusing = err != nil, refused != nil
	}
}
