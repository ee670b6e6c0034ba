package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
)

const (
	compareEvery = time.Hour
	pollEvery    = time.Minute
	releaseLimit = 5 * time.Second

	// settleMargin is what a request may take beyond its own deadlines.
	settleMargin = 5 * time.Minute
	// slowLimit is what an action without such a deadline may take.
	slowLimit = 6 * time.Hour
)

// ErrRunning means that another replica or command compares now, or has taken over.
var ErrRunning = errors.New("another replica reconciles now")

// Config says what to compare. All fields but SlowActions must be set.
type Config struct {
	DB      *gorm.DB
	Audit   *audit.Log
	Log     *slog.Logger
	Metrics prometheus.Registerer

	// Longest is the longest that a request takes, with what is written after its end.
	Longest time.Duration
	// SlowActions may take hours instead. All actions of the management API do.
	SlowActions []string
}

// Reconciler compares, for one replica or command.
type Reconciler struct {
	store     store
	audit     *audit.Log
	limit     time.Duration // a request has its outcome by then
	slow      []string      // actions to which slowLimit applies
	log       *slog.Logger
	metrics   *metrics
	now       func() time.Time
	requested atomic.Bool   // a comparison was asked for and has not begun
	wake      chan struct{} // ends the wait of Run
}

// New returns a reconciler. Only [Reconciler.Run] does something by itself.
func New(c Config) *Reconciler {
	return &Reconciler{
		store: store{c.DB}, audit: c.Audit, limit: c.Longest + settleMargin, slow: c.SlowActions,
		log: c.Log.With(slog.String("component", "reconcile")), metrics: newMetrics(c.Metrics), now: time.Now, wake: make(chan struct{}, 1),
	}
}

// Run compares every hour, and whenever [Reconciler.Trigger] asks for it, until ctx ends. Every minute it has the log note what this replica
// has shipped: the others wait for that note before they give up on a record.
func (r *Reconciler) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := r.poll(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("reconciliation failed; it is tried again in a minute", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.wake:
		}
	}
}

// Trigger makes Run compare now and returns at once. If another replica is comparing, Run does not compare again.
func (r *Reconciler) Trigger() {
	r.requested.Store(true)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// running reports whether any replica compares now, or this one was triggered and has not begun. Other replicas learn of a trigger when the
// triggered one takes the lease.
func (r *Reconciler) running(ctx context.Context) (bool, error) {
	if r.requested.Load() { // read first: Compare takes the lease before it clears the request
		return true, nil
	}
	return r.store.leased(ctx, r.now())
}

// poll compares if it is time to, and brings the metrics up to date, whichever replica compared.
func (r *Reconciler) poll(ctx context.Context) error {
	if err := r.audit.Drain(ctx); err != nil {
		return err
	}
	last, err := r.store.progress(ctx)
	if err != nil {
		return fmt.Errorf("read reconciliation: %w", err)
	}
	since := r.now().Sub(time.UnixMicro(last.Started))
	if r.requested.Load() || since >= compareEvery || since < 0 { // since < 0: a clock that ran ahead wrote the time
		if _, err := r.Compare(ctx); err != nil && !errors.Is(err, ErrRunning) {
			return err
		}
	}
	return r.measure(ctx)
}

func (r *Reconciler) measure(ctx context.Context) error {
	counts, err := r.store.counts(ctx, "")
	if err != nil {
		return fmt.Errorf("count findings: %w", err)
	}
	last, err := r.store.progress(ctx)
	if err != nil {
		return fmt.Errorf("read reconciliation: %w", err)
	}
	r.metrics.set(counts, last.Finished)
	return nil
}

// Compare compares once and returns how many findings it mended. What it found is in the database. It returns [ErrRunning] while another
// replica compares.
func (r *Reconciler) Compare(ctx context.Context) (repaired int64, err error) {
	holder := r.audit.Writer()
	err = r.store.lease(ctx, holder, r.now())
	if err == nil || errors.Is(err, ErrRunning) { // a comparison has begun, here or elsewhere
		r.requested.Store(false)
	}
	if err != nil {
		return 0, fmt.Errorf("reconcile: %w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
		defer cancel()
		if rerr := r.store.release(end, holder); rerr != nil {
			r.log.Warn("the lease of the reconciliation stays until it expires", slog.String("error", rerr.Error()))
		}
	}()
	run := &comparison{Reconciler: r, holder: holder, started: r.now()}
	if err := run.do(ctx); err != nil {
		return run.repaired, fmt.Errorf("reconcile: %w", err)
	}
	return run.repaired, nil
}

// State is how the reconciliation stands. Of the last completed run, all fields are zero before the first.
type State struct {
	Running           bool
	Open              map[string]int64 // findings by kind
	Started, Finished time.Time        // of the last completed run
	Hours, Repaired   int64            // compared and mended by it
}

// State reads how the reconciliation stands. It counts the open findings of one tenant, or of all if tenant is "".
func (r *Reconciler) State(ctx context.Context, tenant string) (State, error) {
	running, err := r.running(ctx)
	if err != nil {
		return State{}, err
	}
	last, err := r.store.progress(ctx)
	if err != nil {
		return State{}, err
	}
	open, err := r.store.counts(ctx, tenant)
	if err != nil {
		return State{}, err
	}
	s := State{Running: running, Open: open}
	if last.Finished != 0 {
		s.Started, s.Finished, s.Hours, s.Repaired = utc(last.Started), utc(last.Finished), last.Hours, last.Repaired
	}
	return s, nil
}

// Finding is a disagreement; the package comment lists the kinds.
type Finding struct {
	Kind, Item, Tenant  string
	Detail              map[string]string // names, counts and times, never text of a caller
	FirstSeen, LastSeen time.Time
	Closed              time.Time // zero while it is open
	Repair              string    // id of the record that mended it, "" if it came right by itself
}

// Findings returns at most limit findings, newest first: the open ones, or all.
func (r *Reconciler) Findings(ctx context.Context, all bool, offset, limit int) ([]Finding, error) {
	rows, err := r.store.newest(ctx, all, offset, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Finding, 0, len(rows))
	for _, f := range rows {
		out = append(out, Finding{
			Kind: f.Kind, Item: f.Item, Tenant: f.Tenant, Detail: f.details(), FirstSeen: utc(f.FirstSeen), LastSeen: utc(f.LastSeen),
			Closed: utc(f.Closed), Repair: f.Repair,
		})
	}
	return out, nil
}

// Currency returns what the books are kept in, "" before there is a price.
func (r *Reconciler) Currency(ctx context.Context) (string, error) { return r.store.currency(ctx) }

// utc is a time of the database: unix microseconds, 0 for none.
func utc(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
