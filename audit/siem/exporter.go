package siem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/sleep"
)

const (
	poll       = time.Second // between looks for new records
	firstPause = time.Second // after a failure; later ones are longer
	lastPause  = time.Minute
	mostSent   = 500 // records in one connection
	leaseFor   = 30 * time.Second
)

var errNotSender = errors.New("another replica sends to security monitoring")

func lease() store.Lease { return store.Lease{Name: "siem", For: leaseFor, Taken: errNotSender} }

// Exporter sends what is sealed to its destinations. It is safe for concurrent use.
type Exporter struct {
	db           *gorm.DB
	holder       string        // of the lease: this run of the process
	every        time.Duration // it is taken and prolonged
	log          *slog.Logger
	destinations []*destination
}

// destination is one receiver and how this replica fares with it.
type destination struct {
	cfg     Config
	db      *gorm.DB
	sender  sender
	timeout time.Duration
	poll    time.Duration
	pause   time.Duration // after the first failure
	most    int           // records in the next connection: fewer after a failure, so that a slow receiver confirms some
	metrics *metrics
	log     *slog.Logger
	failed  atomic.Pointer[error] // why the newest attempt failed; nil: it did not
}

// New returns an exporter of the log in db, or nil without a destination. holder names this run of the process, version the product's. It
// connects to nobody before [Exporter.Run].
func New(destinations []Config, db *gorm.DB, holder, version string, log *slog.Logger, reg prometheus.Registerer) (*Exporter, error) {
	if len(destinations) == 0 {
		return nil, nil //nolint:nilnil // nothing to do is no error
	}
	if err := Validate(destinations); err != nil {
		return nil, fmt.Errorf("audit.%w", err)
	}
	x := &Exporter{db: db, holder: holder, every: leaseFor / 3, log: log.With(slog.String("component", "siem"))}
	m := newMetrics(reg, destinations)
	for _, c := range destinations {
		host := c.Host
		if host == "" {
			host, _ = os.Hostname() // "-" without one
		}
		d := &destination{
			cfg: c, db: db, timeout: c.Timeout, poll: poll, pause: firstPause, most: mostSent, metrics: m, log: x.log.With(slog.String("destination", c.Name)),
			sender: sender{format: c.Format, host: printable(host, 255), version: version, limit: c.MessageBytes},
		}
		if d.timeout == 0 {
			d.timeout = defaultTimeout
		}
		if d.sender.limit == 0 {
			d.sender.limit = defaultBytes
		}
		x.destinations = append(x.destinations, d)
	}
	return x, nil
}

// Run sends while this replica is the one that does, until ctx ends.
func (x *Exporter) Run(ctx context.Context) error {
	for {
		if err := lease().Take(x.db.WithContext(ctx), x.holder, time.Now()); err == nil {
			x.lead(ctx)
		}
		if !sleep.For(ctx, x.every) {
			return nil
		}
	}
}

// lead sends to all destinations, each at its own pace, for as long as the lease can be prolonged.
func (x *Exporter) lead(ctx context.Context) {
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var all errgroup.Group
	for _, d := range x.destinations {
		all.Go(func() error { d.run(sending); return nil })
	}
	for sleep.For(ctx, x.every) {
		if err := lease().Take(x.db.WithContext(ctx), x.holder, time.Now()); err != nil {
			x.log.LogAttrs(ctx, slog.LevelInfo, "this replica no longer sends to security monitoring", slog.String("reason", err.Error()))
			break
		}
	}
	stop()
	_ = all.Wait() // they return nil
	if ctx.Err() != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := lease().Release(x.db.WithContext(end), x.holder); err != nil {
			x.log.LogAttrs(end, slog.LevelWarn, "the lease of the export stays until it expires", slog.String("error", err.Error()))
		}
	}
}

// Ready returns why this replica cannot send, if it tries to and fails.
func (x *Exporter) Ready() error {
	var errs []error
	for _, d := range x.destinations {
		if err := d.failed.Load(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.cfg.Name, *err))
		}
	}
	return errors.Join(errs...)
}

// run sends batch after batch until ctx ends.
func (d *destination) run(ctx context.Context) {
	defer d.idle()
	pause := d.pause
	for {
		n, err := d.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.fail(ctx, err)
			if !sleep.For(ctx, pause/2+rand.N(pause/2+1)) { //nolint:gosec // no secret depends on it
				return
			}
			pause = min(2*pause, lastPause)
			continue
		}
		pause = d.pause
		if n == 0 && !sleep.For(ctx, d.poll) {
			return
		}
	}
}

// pass sends the next batch and returns how far it went, 0 if there is nothing to send.
func (d *destination) pass(ctx context.Context) (int64, error) {
	from, err := d.cursor(ctx)
	if err != nil {
		return 0, err
	}
	batch, next, err := d.read(ctx, from, d.most)
	if err != nil || next == from {
		return 0, err
	}
	messages := make([][]byte, len(batch))
	for i, r := range batch {
		messages[i] = d.sender.message(r)
	}
	if len(messages) > 0 {
		if err := d.deliver(ctx, messages); err != nil {
			d.most = max(1, len(messages)/2)
			return 0, err
		}
	}
	d.most = min(2*d.most, mostSent)
	skipped := next - from - int64(len(batch))
	if err := d.advance(ctx, from, next, skipped); err != nil {
		return 0, err
	}
	d.succeed(ctx, from, next, skipped)
	return next - from, nil
}

// fail notes a failure, also where other replicas find it.
func (d *destination) fail(ctx context.Context, err error) {
	err = errors.Join(err, d.note(ctx, err))
	d.metrics.failures.WithLabelValues(d.cfg.Name).Inc()
	if before := d.failed.Swap(&err); before == nil || (*before).Error() != err.Error() {
		d.log.LogAttrs(ctx, slog.LevelWarn, "records wait for security monitoring", slog.String("error", err.Error()))
	}
	d.measure(ctx)
}

func (d *destination) succeed(ctx context.Context, from, next, skipped int64) {
	d.metrics.sent.WithLabelValues(d.cfg.Name).Add(float64(next - from - skipped))
	d.metrics.skipped.WithLabelValues(d.cfg.Name).Add(float64(skipped))
	if skipped > 0 {
		d.log.LogAttrs(ctx, slog.LevelError, "records were removed before security monitoring got them", slog.Int64("records", skipped), slog.Int64("from", from), slog.Int64("until", next))
	}
	if d.failed.Swap(nil) != nil {
		d.log.LogAttrs(ctx, slog.LevelInfo, "security monitoring takes records again")
	}
	d.measure(ctx)
}

// measure shows how far the destination is behind. What cannot be read shows nothing new.
func (d *destination) measure(ctx context.Context) {
	if s, err := stateOf(d.db.WithContext(ctx), d.cfg); err == nil {
		d.metrics.behind.WithLabelValues(d.cfg.Name).Set(float64(s.Behind))
		lag := 0.0
		if !s.Oldest.IsZero() {
			lag = max(0, time.Since(s.Oldest).Seconds())
		}
		d.metrics.lag.WithLabelValues(d.cfg.Name).Set(lag)
	}
}

// idle shows nothing for a replica that does not send: the one that does shows it.
func (d *destination) idle() {
	d.failed.Store(nil)
	d.metrics.behind.WithLabelValues(d.cfg.Name).Set(0)
	d.metrics.lag.WithLabelValues(d.cfg.Name).Set(0)
}
