package files

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// Limits bound the files of a tenant. Zero values mean the defaults named at each field.
type Limits struct {
	// MaxFileBytes bounds one file; 0 means 200 MB.
	MaxFileBytes int64 `koanf:"max_file_bytes"`
	// MaxTenantBytes bounds the contents that a tenant has, each counted once; 0 means 10 GB.
	MaxTenantBytes int64 `koanf:"max_tenant_bytes"`
	// MaxTenantFiles bounds the files that a tenant has; 0 means 10,000.
	MaxTenantFiles int64 `koanf:"max_tenant_files"`
}

// WithDefaults fills the zero values.
func (l Limits) WithDefaults() Limits {
	for _, d := range []struct {
		field *int64
		value int64
	}{{&l.MaxFileBytes, 200_000_000}, {&l.MaxTenantBytes, 10_000_000_000}, {&l.MaxTenantFiles, 10_000}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return l
}

// Validate reports what is wrong with the limits.
func (l Limits) Validate() error {
	if l.MaxFileBytes < 0 || l.MaxTenantBytes < 0 || l.MaxTenantFiles < 0 {
		return errors.New("max_file_bytes, max_tenant_bytes and max_tenant_files: must not be negative")
	}
	if l = l.WithDefaults(); l.MaxFileBytes > l.MaxTenantBytes {
		return errors.New("max_file_bytes: must not be more than max_tenant_bytes")
	}
	return nil
}

// Config is what a store works on.
type Config struct {
	Limits

	DB      *gorm.DB
	Keys    *keyring.Ring
	Suite   seal.Suite // of what is stored from now on
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

const (
	// chunkBytes is how much of a content is encrypted as one.
	chunkBytes = 256 << 10
	// sweepEvery is the pause between removals of what has expired.
	sweepEvery = time.Minute
	// abandonedAfter is how long after its last chunk a content that is no file was given up.
	abandonedAfter = time.Hour
	// sweepAtOnce is how many files one turn removes, each in a transaction of its own.
	sweepAtOnce = 500
)

// Store keeps files.
type Store struct {
	cfg     Config
	db      *gorm.DB
	keys    *wrapkey.Keys
	now     func() time.Time
	metrics *metrics
}

// New returns a store over the tables. It starts nothing.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	if !cfg.Suite.Known() {
		return nil, fmt.Errorf("files: suite %q is unknown to this release", cfg.Suite)
	}
	cfg.Limits = cfg.WithDefaults()
	return &Store{cfg: cfg, db: cfg.DB, keys: blobKeys(cfg.Keys), now: time.Now, metrics: newMetrics(cfg.Metrics)}, nil
}

// Limits returns the bounds that hold.
func (s *Store) Limits() Limits { return s.cfg.Limits }

func blobKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "files/blob/v1", "files/blob/sm4/v1")
}

// Wrapped are the data keys of contents as a rotation of the wrapping keys sees them.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[blobRow]{
		Kind: "files", Keys: blobKeys(ring), Table: blobRow{}.TableName(), Sealed: "wrapped", Limit: 100,
		Columns: []string{"id", "tenant", "suite", "epoch", "wrapped"},
		Label:   func(b blobRow) []byte { return b.label() },
		Row:     func(b blobRow) (string, wrapkey.Envelope) { return b.ID, b.envelope() },
	}
}

type metrics struct{ bytes, removed prometheus.Counter }

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		bytes:   prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_files_stored_bytes_total", Help: "Bytes of files that were stored, before encryption."}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_files_expired_total", Help: "Files that were removed because they had expired."}),
	}
	if reg != nil {
		reg.MustRegister(m.bytes, m.removed)
	}
	return m
}
