package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/governance/registry/fingerprint"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// Config is what a service works on.
type Config struct {
	DB    *gorm.DB
	Keys  *keyring.Ring
	Suite seal.Suite // of keys that are made from now on
	// Enabled says that answers are registered now, as a trace tells whoever finds nothing.
	Enabled bool
	// Leads takes or prolongs the lead of merging; nil leads always.
	Leads func(ctx context.Context) (bool, error)
	// Gone returns the records of those marks, without data, whose records are no more, or whose people's answers were erased; nil returns none.
	Gone    func(db *gorm.DB, marks []Mark) (records []string, err error)
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil

	// Variants returns the other forms that a text may have been answered in, such as without its visible label; nil returns none. An answer that is one of them is equal.
	Variants func(text string) []string

	MergeEvery time.Duration // between looks at what can be merged; 0: two seconds
}

const (
	keysEvery  = time.Minute // between looks at which tenants have left, or come
	sweepEvery = time.Hour   // between looks at which segments have lost most of their entries

	tenantsAtOnce = 500 // in one statement
)

// Service has the registry.
type Service struct {
	cfg     Config
	db      *gorm.DB
	wrap    *wrapkey.Keys
	now     func() time.Time
	metrics *metrics

	checked struct { // the entry that a sweep has looked at last; Run's
		tenant string
		number int64
	}

	keys    sync.Map   // *fingerprint.Key by tenant
	refused sync.Map   // tenants whose key does not open, which was said
	making  sync.Mutex // one key at a time
}

// New returns a service over migrated tables. It starts nothing.
func New(cfg Config) (*Service, error) {
	if !cfg.Suite.Known() {
		return nil, fmt.Errorf("registry: suite %q is unknown to this release", cfg.Suite)
	}
	if cfg.MergeEvery == 0 {
		cfg.MergeEvery = 2 * time.Second
	}
	if cfg.Gone == nil {
		cfg.Gone = func(*gorm.DB, []Mark) ([]string, error) { return nil, nil }
	}
	if cfg.Variants == nil {
		cfg.Variants = func(string) []string { return nil }
	}
	if cfg.Leads == nil {
		cfg.Leads = func(context.Context) (bool, error) { return true, nil }
	}
	return &Service{cfg: cfg, db: cfg.DB, wrap: tenantKeys(cfg.Keys), now: time.Now, metrics: newMetrics(cfg.Metrics)}, nil
}

func tenantKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "registry/tenant/v1", "registry/tenant/sm4/v1")
}

// Wrapped are the keys of tenants as a rotation of the wrapping keys sees them.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[tenantRow]{
		Kind: "registry_keys", Keys: tenantKeys(ring), Table: tenantRow{}.TableName(), Sealed: "wrapped", Limit: 100,
		Columns: tenantColumns(),
		Label:   func(r tenantRow) []byte { return r.label() },
		Row:     func(r tenantRow) (string, wrapkey.Envelope) { return r.ID, r.envelope() },
	}
}

// tenantRow is the key of a tenant.
type tenantRow struct {
	ID        string
	Tenant    string
	Next      int64
	Suite     string
	Epoch     int64
	Wrapped   []byte
	CreatedAt int64 `gorm:"autoCreateTime:false"`
}

func (tenantRow) TableName() string { return "registry_tenants" }

func tenantColumns() []string {
	return []string{"id", "tenant", "next", "suite", "epoch", "wrapped", "created_at"}
}

func (r tenantRow) label() []byte { return seal.Label("registry key", r.Tenant) }

func (r tenantRow) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: r.Epoch, Suite: seal.Suite(r.Suite), Sealed: r.Wrapped}
}

// Load reads the keys of all tenants. One that does not open is said, and refused to its tenant alone, at each use.
func (s *Service) Load(ctx context.Context) error {
	var rows []tenantRow
	db := s.db.WithContext(ctx)
	if err := db.Select(tenantColumns()).Find(&rows).Error; err != nil {
		return database.Unavailable("read the keys of the registry", err)
	}
	for _, r := range rows {
		s.tryOpen(db, r)
	}
	return nil
}

// Key returns the key of a tenant's answers. It asks the database for the first one of a tenant, whose key is made then, and never again.
func (s *Service) Key(ctx context.Context, tenant string) (*fingerprint.Key, error) {
	if k, err := s.known(ctx, tenant, false); k != nil || err != nil {
		return k, err
	}
	s.making.Lock()
	defer s.making.Unlock()
	if k, err := s.known(ctx, tenant, true); k != nil || err != nil {
		return k, err
	}
	if err := s.make(ctx, tenant); err != nil { // whoever made it
		return nil, err
	}
	k, err := s.known(ctx, tenant, true)
	if k == nil && err == nil {
		err = fault.Wrap(errors.New("the new key of the registry is not there"), fault.CodeDatabaseUnavailable)
	}
	return k, err
}

// known returns the key that a tenant has in memory, or, if look is set, in the database; nil for none.
func (s *Service) known(ctx context.Context, tenant string, look bool) (*fingerprint.Key, error) {
	if k, ok := s.keys.Load(tenant); ok {
		return k.(*fingerprint.Key), nil
	}
	if !look {
		return nil, nil //nolint:nilnil // there is none in memory
	}
	var rows []tenantRow
	db := s.db.WithContext(ctx)
	if err := db.Select(tenantColumns()).Where("tenant = ?", database.Text(tenant)).Find(&rows).Error; err != nil {
		return nil, database.Unavailable("read the key of the registry", err)
	}
	if len(rows) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	return s.open(db, rows[0])
}

func (s *Service) open(db *gorm.DB, r tenantRow) (*fingerprint.Key, error) {
	secret, err := s.wrap.Open(db, r.envelope(), r.label())
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("open the key of the registry: %w", err), fault.CodeDatabaseUnavailable)
	}
	defer clear(secret)
	k, err := fingerprint.NewKey(seal.Suite(r.Suite), secret)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	s.keys.Store(r.Tenant, k)
	return k, nil
}

func (s *Service) make(ctx context.Context, tenant string) error {
	secret := seal.Random(fingerprint.SecretSize)
	defer clear(secret)
	row := tenantRow{ID: fmt.Sprintf("%x", seal.Random(16)), Tenant: database.Text(tenant), Next: 1, CreatedAt: s.now().UnixMicro()}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		e, err := s.wrap.Seal(tx, s.cfg.Suite, secret, row.label())
		if err != nil {
			return err
		}
		row.Suite, row.Epoch, row.Wrapped = string(e.Suite), e.Epoch, e.Sealed
		return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error
	})
	return database.Unavailable("make a key of the registry", err)
}

// Run merges segments and lets go of the keys of tenants that have left, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	merge, keys, sweep := time.NewTicker(s.cfg.MergeEvery), time.NewTicker(keysEvery), time.NewTicker(sweepEvery)
	defer merge.Stop()
	defer keys.Stop()
	defer sweep.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-merge.C:
			err = s.Merge(ctx)
		case <-keys.C:
			err = s.refresh(ctx)
		case <-sweep.C:
			err = s.Sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.metrics.failures.Inc()
			s.cfg.Log.Warn("the registry of answers was not put in order; nothing is lost, the next turn repeats it", slog.Any("error", err))
		}
	}
}

// Forget drops the key of a tenant that leaves from memory; those that other replicas hold go within a minute.
func (s *Service) Forget(tenant string) { s.keys.Delete(tenant) }

// refresh drops the keys in memory that are no longer in the database, and reads those that other replicas have made: so that a tenant's answers are not refused while the
// database is away. One that does not open is refused to its tenant alone.
func (s *Service) refresh(ctx context.Context) error {
	var tenants []string
	if err := s.db.WithContext(ctx).Model(&tenantRow{}).Pluck("tenant", &tenants).Error; err != nil {
		return database.Unavailable("look for tenants of the registry", err)
	}
	there := map[string]bool{}
	for _, t := range tenants {
		there[t] = true
	}
	s.keys.Range(func(tenant, _ any) bool {
		if !there[database.Text(tenant.(string))] {
			s.keys.Delete(tenant)
		}
		return true
	})
	tenants = slices.DeleteFunc(tenants, func(t string) bool { _, ok := s.keys.Load(t); return ok })
	for part := range slices.Chunk(tenants, tenantsAtOnce) {
		var rows []tenantRow
		db := s.db.WithContext(ctx)
		if err := db.Select(tenantColumns()).Where("tenant IN ?", part).Find(&rows).Error; err != nil {
			return database.Unavailable("read keys of the registry", err)
		}
		for _, r := range rows {
			s.tryOpen(db, r)
		}
	}
	return nil
}

// tryOpen opens the key of a tenant, and says once that it does not open.
func (s *Service) tryOpen(db *gorm.DB, r tenantRow) {
	_, err := s.open(db, r)
	if err == nil {
		s.refused.Delete(r.Tenant)
		return
	}
	if _, said := s.refused.Swap(r.Tenant, true); !said {
		s.cfg.Log.Error("the key of a tenant's registered answers does not open; its answers are refused", slog.String("tenant", r.Tenant), slog.Any("error", err))
	}
}

// metrics counts.
type metrics struct {
	entries, gone, failures prometheus.Counter
	traces                  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		entries:  prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_registry_entries_total", Help: "Alternatives of answers that entered the registry."}),
		gone:     prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_registry_keyless_total", Help: "Answers that entered no registry, since their tenant has no key any more."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_registry_failures_total", Help: "Turns in which the registry was not put in order."}),
		traces:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_registry_trace_seconds", Help: "Time to trace a text.", Buckets: []float64{.005, .01, .025, .05, .1, .2, .5, 1, 5}}),
	}
	if reg != nil {
		reg.MustRegister(m.entries, m.gone, m.failures, m.traces)
	}
	return m
}
