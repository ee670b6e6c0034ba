package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	_ "time/tzdata" // budgets have time zones; the container image has no files

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// Tokens counts what one request used. Cached tokens are those of Prompt that a prefix cache served; they are part of Prompt.
type Tokens = price.Tokens

// Config sets up a ledger. The zero value is usable.
type Config struct {
	// Node names this replica, the same after a restart and different from every other replica's. It lets a restarted replica
	// settle against the leases it held when it crashed. Empty means that it cannot.
	Node string `koanf:"node"`
	// Zone is the time zone of budgets that name none; empty means UTC.
	Zone string `koanf:"zone"`
	// Lease is how long a lease outlives its last renewal; 0 means 2 minutes.
	Lease time.Duration `koanf:"lease"`
	// Poll is how often changes of price books and budgets are looked for; 0 means 1 second.
	Poll time.Duration `koanf:"poll"`
	// MaxStale is how long price books and budgets that cannot be refreshed are trusted; 0 means 5 minutes. It is the installation's, not
	// a key of this branch.
	MaxStale time.Duration `koanf:"-"`
	// Organisation returns the organisation of a tenant, against whose budgets what the tenant spends counts. nil: no budget of an organisation does.
	Organisation func(tenant string) string `koanf:"-"`
	// ReservationTimeout is the age at which a reservation that nobody settled, or whose usage nobody recorded, is given up;
	// 0 means 1 hour.
	ReservationTimeout time.Duration `koanf:"reservation_timeout"`
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if _, err := time.LoadLocation(c.Zone); err != nil {
		return fmt.Errorf("zone: %q is not a time zone; use a name such as Asia/Shanghai", c.Zone)
	}
	if c.Lease != 0 && c.Lease < 10*time.Second {
		return errors.New("lease: must be at least 10s")
	}
	if c.Poll < 0 || c.Poll > time.Second {
		return errors.New("poll: must lie between 0 and 1s")
	}
	if c.ReservationTimeout < 0 {
		return errors.New("reservation_timeout: must not be negative")
	}
	return nil
}

func (c Config) freshness() snapshot.Config {
	return snapshot.Config{Poll: c.Poll, MaxAge: c.MaxStale}
}

func (c Config) withDefaults() Config {
	if c.Zone == "" {
		c.Zone = "UTC"
	}
	if c.Lease == 0 {
		c.Lease = 2 * time.Minute
	}
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	if c.ReservationTimeout == 0 {
		c.ReservationTimeout = time.Hour
	}
	return c
}

// Ledger prices, reserves, settles, records and reports. It is safe for concurrent use.
type Ledger struct {
	cfg     Config
	store   store
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time
	owner   string // this process; differs at every start
	terms   *snapshot.Snapshot[*terms]

	reporting sync.Mutex // held while costs are reported

	mu      sync.Mutex
	open    map[string]*Reservation   // by request: not yet settled, or settled and not yet known to be recorded
	leases  map[leaseKey]*budgetLease // leases that grant
	retired []*budgetLease            // leases that only wait for what they already granted
}

// New returns a ledger over db. Call [Ledger.Load] before the first request and keep [Ledger.Run] running. reg may be nil.
func New(cfg Config, db *gorm.DB, log *slog.Logger, reg prometheus.Registerer) (*Ledger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("billing: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("billing: %w", err)
	}
	l := &Ledger{
		cfg: cfg.withDefaults(), store: store{db}, log: log.With(slog.String("component", "billing")), metrics: m,
		now: time.Now, owner: uuid.NewString(), open: map[string]*Reservation{}, leases: map[leaseKey]*budgetLease{},
	}
	l.terms, err = snapshot.New(cfg.freshness(), snapshot.Source[*terms]{
		Name: "billing", Version: l.store.version, Load: l.store.load, Now: func() time.Time { return l.now() },
	}, l.log, reg)
	if err != nil {
		return nil, fmt.Errorf("billing: %w", err)
	}
	return l, nil
}

// Ask describes a request before it runs.
type Ask struct {
	Request, Model              string
	Scope                                 // who asks: the organisation, the tenant, the project or "", and the key
	At                          time.Time // admission; decides the price book and the budget period
	PromptTokens, MaxCompletion int64
	Choices                     int64 // answers that MaxCompletion is for, in equal parts; 0 means 1
	Embed                       bool  // rate as embedding
	Batch                       bool  // of the queue class batch, which a book may have prices of its own for
}

// Reserve sets the worst-case cost of the request aside in every budget that covers it. It refuses with CodeTenantBudget, or for a project and a key
// CodeKeyBudget, when a budget is spent, with CodeOrganisationBudget when one of the organisation has too little left, with CodeOverBudget when the worst case is more than a budget has left, and with
// CodeBillingUnavailable when a budget cannot be checked or the model has no price. Every reservation must be settled or released.
func (l *Ledger) Reserve(ctx context.Context, ask Ask) (*Reservation, error) {
	r, err := l.reserve(ctx, ask)
	l.metrics.reserved(err)
	return r, err
}

func (l *Ledger) reserve(ctx context.Context, ask Ask) (*Reservation, error) {
	now, err := l.terms.Get()
	if err != nil {
		return nil, unavailable(err)
	}
	if ask.Request == "" || ask.Tenant == "" {
		return nil, errors.New("reserve: request and tenant must be set")
	}
	if ask.At.IsZero() {
		ask.At = l.now()
	}
	r, err := now.quote(ask)
	if err != nil {
		return nil, err
	}
	r.ledger, r.renewedAt, r.organisation = l, l.now(), ask.Organisation
	if err := l.register(r); err != nil {
		return nil, err
	}
	if r.worstCase == 0 {
		return r, nil
	}
	err = l.coverWorstCase(ctx, now, r, ask)
	if errors.Is(err, errBudgetRemoved) { // somebody removed a budget, or put another in its place, since they were read
		if now, err = l.reread(ctx); err == nil {
			err = l.coverWorstCase(ctx, now, r, ask)
		}
	}
	if err == nil {
		return r, nil
	}
	r.Release()
	if fault.KindOf(err) == fault.Internal {
		err = unavailable(err)
	}
	return nil, err
}

// coverWorstCase reserves the worst case of r in every budget that covers the request and does not hold it yet.
func (l *Ledger) coverWorstCase(ctx context.Context, now *terms, r *Reservation, ask Ask) error {
	var room [8]*budget // more than most requests have
	for _, b := range now.budgetsFor(ask.Scope, room[:0]) {
		if r.coveredBy(b.id) {
			continue
		}
		s, err := l.hold(ctx, b, ask.At, r.worstCase)
		if short := (*shortage)(nil); errors.As(err, &short) {
			return r.refusal(b, ask, short)
		}
		if err != nil {
			return err
		}
		r.add(s)
	}
	return nil
}

// Price is what the tokens of a model cost now.
type Price struct {
	price.Rate

	Batch               *price.Rate // of the queue class batch; nil: it costs the same
	Currency, PriceBook string
}

// Price returns what requests admitted now are rated with; false if no effective book has a price or
// the books are too old to be trusted, so that requests are refused.
func (l *Ledger) Price(model string, embed bool) (Price, bool) {
	now, err := l.terms.Get()
	if err != nil {
		return Price{}, false
	}
	b, ok := now.bookAt(l.now())
	if !ok {
		return Price{}, false
	}
	r, name, ok := rate(b.Book, b.name(), model, embed, false)
	p := Price{Rate: r, Currency: b.Currency, PriceBook: name}
	if batch, has := b.Batch(r, model, embed); ok && has {
		p.Batch = &batch
	}
	return p, ok
}

// hold reserves amount in the lease of b for the period of at.
func (l *Ledger) hold(ctx context.Context, b *budget, at time.Time, amount Money) (*budgetLease, error) {
	key := leaseKey{b.id, b.period.id(at, b.loc)}
	for {
		s := l.lease(key, b)
		err := s.hold(ctx, l, amount)
		if errors.Is(err, errLeaseRetired) {
			continue // the map holds another one now, or will make one
		}
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func (l *Ledger) lease(key leaseKey, b *budget) *budgetLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.leases[key]
	if s == nil {
		s = newBudgetLease(key, b)
		l.leases[key] = s
	}
	return s
}

// inUseWait is after how long somebody may ask again with the id of a request that is not recorded yet.
const inUseWait = time.Second

func (l *Ledger) register(r *Reservation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[r.request] != nil {
		// It passes once its usage is recorded.
		return fault.New(fault.CodeConflict, fault.Say("billing.request_in_use")).WithRetryAfter(inUseWait)
	}
	l.open[r.request] = r
	l.metrics.open.Set(float64(len(l.open)))
	return nil
}

func (l *Ledger) forget(r *Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[r.request] == r {
		delete(l.open, r.request)
		l.metrics.open.Set(float64(len(l.open)))
	}
}

func (l *Ledger) reservation(request string) *Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[request]
}

// Ready reports whether requests can be priced.
func (l *Ledger) Ready() error {
	if _, err := l.terms.Get(); err != nil {
		return unavailable(err)
	}
	return nil
}

func unavailable(cause error) error { return fault.Wrap(cause, fault.CodeBillingUnavailable) }
