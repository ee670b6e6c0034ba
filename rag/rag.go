package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/sleep"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/rag/chunk"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/sq8"
	"github.com/sluice-project/sluice/rag/parse"
	"github.com/sluice-project/sluice/rag/rank"
)

// Model says whose vectors a service has: ID names the model and everything else that changes them, Dim is their length.
type Model struct {
	ID  string
	Dim int
}

// EmbedFunc turns texts into vectors of the service's [Model], one for each. Questions and passages are different texts to some models, and
// somebody waits for a question. Whoever asks brings it, so that what the vectors cost is billed to whoever asks.
type EmbedFunc func(ctx context.Context, texts []string, question bool) ([][]float32, error)

// Config sets up a service. The zero value is usable.
type Config struct {
	// MaxBytes is the size of the largest document; 0 means 8 MiB.
	MaxBytes int `koanf:"max_bytes"`
	// ChunkSize and ChunkOverlap are in characters; a ChunkSize of 0 means 512 with an overlap of 64.
	ChunkSize    int `koanf:"chunk_size"`
	ChunkOverlap int `koanf:"chunk_overlap"`
	// MaxTopK is the most passages that a query may ask for; 0 means 50.
	MaxTopK int `koanf:"max_top_k"`
	// Poll is how often changes by other replicas are looked for; 0 means 1 second.
	Poll time.Duration `koanf:"poll"`
	// MaxStale is how long collections that cannot be refreshed are searched; 0 means 5 minutes. It is the installation's, not a key of
	// this branch.
	MaxStale time.Duration `koanf:"-"`
	// Suite encrypts what is stored from now on; "" means AES-256-GCM. It is the audit log's, not a key of this branch.
	Suite seal.Suite `koanf:"-"`
	// Compiled is the folder in which compiled code of PDFium is kept; nobody else may write to it. It lies below the data directory, and is not a key of
	// this branch. "": it is compiled by each process.
	Compiled string `koanf:"-"`
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	switch {
	case c.MaxBytes < 0 || c.MaxBytes > 1<<30:
		return errors.New("max_bytes: must lie between 0 and 1073741824")
	case c.ChunkSize < 0 || c.ChunkSize > 0 && c.ChunkSize < 32 || c.ChunkSize > 8192:
		return errors.New("chunk_size: must be 0 or lie between 32 and 8192")
	case c.ChunkOverlap < 0 || c.ChunkOverlap > c.ChunkSize/2:
		return errors.New("chunk_overlap: must lie between 0 and half of chunk_size")
	case c.MaxTopK < 0 || c.MaxTopK > 1000:
		return errors.New("max_top_k: must lie between 0 and 1000")
	case c.Poll < 0 || c.Poll > time.Minute:
		return errors.New("poll: must lie between 0 and 1m")
	}
	return nil
}

func (c Config) freshness() snapshot.Config {
	return snapshot.Config{Poll: c.Poll, MaxAge: c.MaxStale}.WithDefaults()
}

func (c Config) withDefaults() Config {
	if c.MaxBytes == 0 {
		c.MaxBytes = 8 << 20
	}
	if c.MaxTopK == 0 {
		c.MaxTopK = 50
	}
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	return c
}

func (c Config) chunks() chunk.Config {
	return chunk.Config{Size: c.ChunkSize, Overlap: c.ChunkOverlap}
}

// Service holds the collections of all tenants. It is safe for concurrent use.
type Service struct {
	cfg      Config
	store    store
	model    Model
	order    rank.Model // of what a search found
	reader   *parse.Reader
	log      *slog.Logger
	metrics  *metrics
	now      func() time.Time
	newIndex func(dim int) index.Index

	// changeMu is held while memory changes, shortly: never while texts are embedded, indexed or stored. What is read of the tables under it
	// is newer than what memory has, so that no reader of the tables brings back what was deleted meanwhile; what is read before comes with its revision.
	changeMu sync.Mutex
	deleted  map[string]bool // ids of collections that were deleted here; guarded by changeMu
	followMu sync.Mutex      // held while the tables are followed
	version  int64           // change counter of the tables when they were last followed; guarded by followMu

	// The indexes are large and follow the tables in place; freshness knows how old they are.
	freshness   *snapshot.Snapshot[struct{}]
	collections atomic.Pointer[collectionIndexes]
}

// collectionIndexes is an immutable view of all collections.
type collectionIndexes map[collectionKey]*collectionIndex

type collectionKey struct{ tenant, name string }

// New returns a service over db with the vectors of model. Call [Service.Load] before the first request and keep [Service.Run]
// running. What documents say is stored under keys of the ring. reg may be nil.
func New(cfg Config, db *gorm.DB, keys *keyring.Ring, model Model, log *slog.Logger, reg prometheus.Registerer) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rag: %w", err)
	}
	if model.ID == "" || model.Dim <= 0 {
		return nil, errors.New("rag: no model for the vectors")
	}
	cipher, err := newDocumentCipher(keys, cmp.Or(cfg.Suite, seal.Intl))
	if err != nil {
		return nil, fmt.Errorf("rag: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("rag: %w", err)
	}
	order, _, err := rank.Learned()
	if err != nil {
		return nil, fmt.Errorf("rag: %w", err)
	}
	kernels := kernel.Detect(log)
	s := &Service{
		cfg: cfg.withDefaults(), store: store{db, cipher, ruleKeeper{keys}}, model: model, order: order, log: log.With(slog.String("component", "rag")), metrics: m, now: time.Now,
		deleted:  map[string]bool{},
		reader:   parse.NewReader(parse.Config{TablePart: cmp.Or(cfg.ChunkSize, 512), Compiled: cfg.Compiled}),
		newIndex: func(dim int) index.Index { return sq8.New(dim, kernels) },
	}
	s.freshness, err = snapshot.New(cfg.freshness(), snapshot.Source[struct{}]{
		Name: "retrieval", Load: s.followOthers, Now: func() time.Time { return s.now() },
	}, s.log, reg)
	if err != nil {
		return nil, fmt.Errorf("rag: %w", err)
	}
	return s, nil
}

// Load reads everything into memory.
func (s *Service) Load(ctx context.Context) error {
	if err := errors.Join(s.follow(ctx), s.freshness.Load(ctx)); err != nil {
		return fmt.Errorf("load collections: %w", err)
	}
	return nil
}

// Ready reports whether collections can be searched.
func (s *Service) Ready() error {
	if s.collections.Load() == nil {
		return errors.New("collections are not loaded")
	}
	return nil
}

// Run follows the changes of other replicas until ctx ends, deletes versions that their collections keep no longer, and encrypts what a release before
// has stored in clear.
func (s *Service) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { s.sealStored(ctx) })
	defer beside.Wait()
	beside.Go(func() { s.watchAccess(ctx) })
	beside.Go(func() { s.pruneVersions(ctx) })
	s.freshness.Run(ctx)
	return s.reader.Close()
}

// sealAgain is how long it waits after a failure.
const sealAgain = time.Minute

// sealStored encrypts documents one by one until none is left in clear. It goes on where it stopped, whichever replica does.
func (s *Service) sealStored(ctx context.Context) {
	for n := 0; ctx.Err() == nil; {
		found, err := s.store.sealOne(ctx)
		if err != nil {
			s.log.Warn("rag: documents of an earlier release are still stored in clear; will be tried again", slog.Any("error", err))
			sleep.For(ctx, sealAgain)
			continue
		}
		if found {
			n++
			continue
		}
		if n > 0 {
			s.log.Info("rag: the documents of an earlier release are encrypted", slog.Int("documents", n))
		}
		return
	}
}

// trusted returns why a collection cannot be searched: its index, or all of them, are behind the tables for too long.
func (s *Service) trusted(ci *collectionIndex) error {
	_, err := s.freshness.Get()
	if since := ci.behindSince.Load(); err == nil && since != 0 {
		if age := s.now().Sub(time.UnixMicro(since)); age > s.cfg.freshness().MaxAge {
			err = fmt.Errorf("the index cannot follow its tables since %s", age.Round(time.Second))
		}
	}
	return err
}

// collection returns the collection if it exists.
func (s *Service) collection(tenant, name string) (*collectionIndex, error) {
	if all := s.collections.Load(); all != nil && tenant != "" {
		if ci := (*all)[collectionKey{tenant, name}]; ci != nil {
			return ci, nil
		}
	}
	return nil, noCollection(name)
}

func noCollection(name string) error {
	return fault.New(fault.CodeCollectionNotFound, name).WithParam("collection")
}

// findFresh returns the collection, also if another replica created it a moment ago.
func (s *Service) findFresh(ctx context.Context, tenant, name string) (*collectionIndex, error) {
	if ci, err := s.collection(tenant, name); err == nil {
		return ci, nil
	}
	if err := s.follow(ctx); err != nil {
		return nil, err
	}
	return s.collection(tenant, name)
}

// visible returns the collection if the principal may see it, and its index is fresh enough to say so. Errors: CodeCollectionNotFound,
// CodeRetrievalFailed.
func (s *Service) visible(tenant, name string, labels []string) (*collectionIndex, error) {
	ci, err := s.collection(tenant, name)
	if err != nil {
		return nil, err
	}
	if !permits(ci.labels, labels) {
		return nil, noCollection(name)
	}
	if err := s.trusted(ci); err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, name)
	}
	return ci, nil
}

// permits reports whether a principal with the labels have may see what needs one of the labels want.
func permits(want, have []string) bool { return meets(want, have) }

// replace publishes a view in which one collection is set, or removed if sh is nil. The caller holds changeMu.
func (s *Service) replace(key collectionKey, ci *collectionIndex) {
	next := collectionIndexes{}
	if old := s.collections.Load(); old != nil {
		for k, v := range *old {
			next[k] = v
		}
	}
	if ci == nil {
		delete(next, key)
	} else {
		next[key] = ci
	}
	s.collections.Store(&next)
}
