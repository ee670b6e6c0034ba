package wrapkey

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

const (
	defaultGrace = 10 * time.Minute
	defaultPoll  = 5 * time.Second
)

// Config is what a rotator works on.
type Config struct {
	DB    *gorm.DB
	Ring  *keyring.Ring
	Suite seal.Suite // encrypts new epochs; "" means AES-256-GCM
	Kinds []Kind
	// Lead reports whether this replica does the work now. It is asked before every step.
	Lead func(ctx context.Context) (bool, error)
	// Record makes an audit record durable and sealed.
	Record func(ctx context.Context, action string, detail map[string]string) error
	// Grace is how long older epochs stay readable when nothing is left under them; 0 means 10 minutes.
	Grace time.Duration
	// Poll is how often a rotation is looked for; 0 means 5 seconds.
	Poll    time.Duration
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil for none
}

// Rotator rotates the wrapping keys. It is safe for concurrent use.
type Rotator struct {
	cfg     Config
	metrics *metrics
	now     func() time.Time
	wake    chan struct{}
}

// NewRotator asks no database.
func NewRotator(cfg Config) *Rotator {
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Poll == 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Suite == "" {
		cfg.Suite = seal.Intl
	}
	cfg.Log = cfg.Log.With(slog.String("component", "keyring"))
	return &Rotator{cfg: cfg, metrics: newMetrics(cfg.Metrics, cfg.Kinds), now: time.Now, wake: make(chan struct{}, 1)}
}

// Run goes on with the rotation, if one runs and this replica leads, until ctx ends.
func (r *Rotator) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Poll)
	defer tick.Stop()
	for {
		if err := r.work(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the rotation of the wrapping keys does not go on; will be tried again", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-tick.C:
		}
	}
}

// work does what can be done now.
func (r *Rotator) work(ctx context.Context) error {
	status, err := r.Status(ctx)
	if err != nil {
		return err
	}
	r.metrics.set(status)
	for status.Running && ctx.Err() == nil {
		leads, err := r.cfg.Lead(ctx)
		if err != nil || !leads {
			return err
		}
		more, err := r.step(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if !status.Running {
		return nil
	}
	if status, err = r.Status(ctx); err != nil {
		return err
	}
	r.metrics.set(status)
	if !status.Running {
		r.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "the wrapping keys are rotated", slog.Int64("epoch", status.Active))
	}
	return nil
}
