package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// Limits bound batches. Zero values mean the defaults named at each field.
type Limits struct {
	// MaxLines bounds the lines of a batch; 0 means 50,000.
	MaxLines int64 `koanf:"max_lines"`
	// MaxOpen bounds the batches of a tenant that have not ended; 0 means 100.
	MaxOpen int64 `koanf:"max_open"`
	// Running bounds the batches that a replica works on at one time; 0 means 4. One tenant has at most one less, and at least one.
	Running int `koanf:"running"`
	// Concurrent bounds the lines that a replica asks at one time, of all batches; 0 means 16.
	Concurrent int `koanf:"concurrent"`
	// ConcurrentPerBatch bounds those of one batch; 0 means 8.
	ConcurrentPerBatch int `koanf:"concurrent_per_batch"`
}

// Validate reports what is wrong with the limits.
func (l Limits) Validate() error {
	if l.MaxLines < 0 || l.MaxOpen < 0 || l.Running < 0 || l.Concurrent < 0 || l.ConcurrentPerBatch < 0 {
		return errors.New("max_lines, max_open, running, concurrent and concurrent_per_batch: must not be negative")
	}
	if l = l.withDefaults(); l.MaxLines > maxLines {
		return fmt.Errorf("max_lines: must be at most %d", maxLines)
	}
	return nil
}

// maxLines is the most lines that a batch can have: their ids are held in memory while it is checked.
const maxLines = 500_000

func (l Limits) withDefaults() Limits {
	if l.MaxLines == 0 {
		l.MaxLines = 50_000
	}
	if l.MaxOpen == 0 {
		l.MaxOpen = 100
	}
	if l.Running == 0 {
		l.Running = 4
	}
	if l.Concurrent == 0 {
		l.Concurrent = 16
	}
	if l.ConcurrentPerBatch == 0 {
		l.ConcurrentPerBatch = 8
	}
	return l
}

// Request is a line as it is asked.
type Request struct {
	ID       string // the same however often it is asked
	Batch    string
	Endpoint string
	Body     []byte
	As       identity.Acting
	Source   string // where the batch was made
	Language string // in which errors are told

	Purpose, OnBehalfOf, DataGrade string // as whoever made the batch has said
}

// Response is what a client would have been told.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Ask asks a line on the data plane.
type Ask func(ctx context.Context, q Request) Response

// Config is what a service works on.
type Config struct {
	Limits

	DB           *gorm.DB
	Keys         *keyring.Ring
	Suite        seal.Suite // of what is stored from now on
	Files        *files.Store
	MaxLineBytes int64  // of a line
	Node         string // this replica, by the same name after a restart
	// Act returns whoever made a batch, as he is now; see [identity.Identity.Act].
	Act func(ctx context.Context, a identity.Acting, source string) (identity.Principal, error)
	Ask Ask
	Log *slog.Logger

	Metrics prometheus.Registerer // may be nil
}

const (
	// Window is the time that a batch has; there is no other one.
	Window = 24 * time.Hour
	// WindowText is how the dialect writes it.
	WindowText = "24h"

	poll     = time.Second      // between looks for batches
	leaseFor = 15 * time.Second // after which another replica takes over
	prolong  = 2 * time.Second  // how often a lease is prolonged, and the state of its batch looked at
	maxSkew  = time.Minute      // between the clocks of replicas
	// leaveFor is how long lines that are being asked may take when the process ends.
	leaveFor = 5 * time.Second
)

// MessagesEndpoint is what batches ask that are made of an [Input].
const MessagesEndpoint = "/v1/messages"

// Endpoints are what a batch of a file can ask. An endpoint of the data plane that is asked by POST with a JSON body and answers with JSON can join.
func Endpoints() []string {
	return []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}
}

// Service has the batches.
type Service struct {
	cfg     Config
	db      *gorm.DB
	keys    *wrapkey.Keys
	now     func() time.Time
	metrics *metrics
	slots   chan struct{} // of lines
	wake    chan struct{}

	mu      sync.Mutex
	running map[string]*work // by id
}

// New returns a service over the tables. It starts nothing.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("batches: %w", err)
	}
	if !cfg.Suite.Known() {
		return nil, fmt.Errorf("batches: suite %q is unknown to this release", cfg.Suite)
	}
	cfg.Limits = cfg.withDefaults()
	return &Service{
		cfg: cfg, db: cfg.DB, keys: batchKeys(cfg.Keys), now: time.Now, metrics: newMetrics(cfg.Metrics), slots: make(chan struct{}, cfg.Concurrent),
		wake: make(chan struct{}, 1), running: map[string]*work{},
	}, nil
}

func batchKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "batch/lines/v1", "batch/lines/sm4/v1")
}

// Wrapped are the data keys of batches as a rotation of the wrapping keys sees them.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[row]{
		Kind: "batches", Keys: batchKeys(ring), Table: row{}.TableName(), Sealed: "wrapped", Limit: 100,
		Columns: []string{"id", "tenant", "suite", "epoch", "wrapped"},
		Label:   func(b row) []byte { return b.label() },
		Row:     func(b row) (string, wrapkey.Envelope) { return b.ID, b.envelope() },
	}
}

type metrics struct {
	running prometheus.Gauge
	lines   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_batches_running", Help: "Batches that this replica works on."}),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_batches_lines_total", Help: "Lines of batches that got their result on this replica, by outcome: completed, failed, expired or cancelled.",
		}, []string{"outcome"}),
	}
	if reg != nil {
		reg.MustRegister(m.running, m.lines)
	}
	for _, s := range []string{Completed, Failed, Expired, Cancelled} {
		m.lines.WithLabelValues(s)
	}
	return m
}

func notFound(id string) error {
	const shown = 80
	if len(id) > shown {
		id = id[:shown]
	}
	return fault.New(fault.CodeNotFound, fault.Say("thing.batch"), id)
}
