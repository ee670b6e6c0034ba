package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	"github.com/sluice-project/sluice/rag/faq"
	"github.com/sluice-project/sluice/rag/parse"
	"github.com/sluice-project/sluice/rag/rank"
	"github.com/sluice-project/sluice/rag/reduce"
	"github.com/sluice-project/sluice/rag/segment"
)

// Model says whose vectors a service has: ID names the model and everything else that changes them, Dim is their length. Where Reduce is set,
// they are made shorter before they are stored or compared.
type Model struct {
	ID     string
	Dim    int
	Reduce *reduce.Reduction // for vectors of Dim components; nil: they stay as they are
}

// stored is the model of what is stored and compared: another map makes other vectors.
func (m Model) stored() Model {
	if m.Reduce == nil {
		return m
	}
	return Model{ID: m.ID + "+" + m.Reduce.ID(), Dim: m.Reduce.To()}
}

// EmbedFunc turns texts into vectors of the service's [Model], one for each. Questions and passages are different texts to some models, and
// somebody waits for a question. Whoever asks brings it, so that what the vectors cost is billed to whoever asks.
type EmbedFunc func(ctx context.Context, texts []string, question bool) ([][]float32, error)

// Config sets up a service. But for Dir the zero value is usable.
type Config struct {
	// Dir is where the passages lie, encrypted, beside the tables: a directory of this process alone. It is a part of the data directory, not a key of this
	// branch.
	Dir string `koanf:"-"`
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
	cfg       Config
	store     store
	keys      *keyring.Ring
	kernels   kernel.Kernels
	model     Model // of what is stored
	embedder  Model // as it was configured: what whoever asks brings
	weights   weights
	asked     readEntries // of FAQs
	reader    *parse.Reader
	again     *reembedder
	log       *slog.Logger
	metrics   *metrics
	now       func() time.Time
	openStore func(ctx context.Context, cfg segment.Config) (passageStore, error)
	lock      *os.File       // of the directory; guarded by following
	discards  sync.WaitGroup // of stores of collections that are gone
	atOnce    int            // how many passages are read at a time

	// Stores are opened, and filled, by goroutines that last until Close at most.
	life    context.Context //nolint:containedctx // see above
	end     context.CancelFunc
	opens   sync.WaitGroup
	opening chan struct{} // has room for those that may do it at a time

	changeMu  sync.Mutex          // held while collections come and go
	deleted   map[string]bool     // ids of collections that were deleted here; guarded by changeMu
	making    map[string]bool     // ids of collections that somebody opens; guarded by changeMu
	openings  map[string]*opening // by id; guarded by changeMu
	following gate                // held while the tables are followed
	version   int64               // change counter of the tables when they were last followed; guarded by following
	closed    bool                // guarded by following
	pruneNow  chan struct{}       // asks for a look at what is kept no longer

	// The stores follow the tables in place; freshness knows how old they are.
	freshness   *snapshot.Snapshot[struct{}]
	collections atomic.Pointer[collectionIndexes]
}

// gate is a mutex that is not waited for longer than a context lasts.
type gate chan struct{}

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) leave() { <-g }

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
	if cfg.Dir == "" {
		return nil, errors.New("rag: no directory for the passages")
	}
	if r := model.Reduce; r != nil && r.From() != model.Dim {
		return nil, fmt.Errorf("rag: the map %s is for vectors of %d components, not %d", r.ID(), r.From(), model.Dim)
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
	judge, _, err := rank.LearnedJudge()
	if err != nil {
		return nil, fmt.Errorf("rag: %w", err)
	}
	asks, err := faq.Learned()
	if err != nil {
		return nil, fmt.Errorf("rag: FAQ: %w", err)
	}
	s := &Service{
		cfg: cfg.withDefaults(), store: store{db, cipher, ruleKeeper{keys}}, keys: keys, kernels: kernel.Detect(log), model: model.stored(), embedder: model, weights: weights{order, judge, asks},
		log: log.With(slog.String("component", "rag")), metrics: m, now: time.Now, deleted: map[string]bool{}, making: map[string]bool{}, pruneNow: make(chan struct{}, 1), following: make(gate, 1),
		openings: map[string]*opening{}, opening: make(chan struct{}, openAtOnce), atOnce: cfg.atOnce(model.stored().Dim),
		openStore: func(ctx context.Context, cfg segment.Config) (passageStore, error) { return segment.Open(ctx, cfg) },
		reader:    parse.NewReader(parse.Config{TablePart: cmp.Or(cfg.ChunkSize, 512), Compiled: cfg.Compiled}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.freshness, err = snapshot.New(cfg.freshness(), snapshot.Source[struct{}]{
		Name: "retrieval", Load: s.followOthers, Now: func() time.Time { return s.now() },
	}, s.log, reg)
	if err != nil {
		return nil, fmt.Errorf("rag: %w", err)
	}
	return s, nil
}

// Load opens the stored passages and reads what changed in the tables since; all of a collection of which there is nothing that can be used. A collection that
// cannot be opened does not keep the others: it answers CodeRetrievalFailed until it was. Call [Service.Close] after use, also if Load fails; then what lies on the
// disk stays. Error: [segment.ErrInUse] if another process has the directory.
func (s *Service) Load(ctx context.Context) error {
	if err := s.lockDir(); err != nil {
		return fmt.Errorf("load collections: %w", err)
	}
	err := s.follow(ctx)
	if errors.Is(err, errBehind) {
		s.log.Warn("rag: some collections cannot follow their tables; will be tried again", slog.Any("error", err))
		err = nil
	}
	if err == nil {
		err = ctx.Err() // what failed for that fails nobody who goes on
	}
	if err == nil {
		err = s.freshness.Load(ctx)
	}
	if err == nil {
		err = s.sweep(ctx)
	}
	if err != nil {
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

// Run follows the changes of other replicas until ctx ends, deletes versions that their collections keep no longer, makes what was deleted leave the disk, encrypts
// what a release before has stored in clear, and embeds again what another model has embedded.
func (s *Service) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { s.sealStored(ctx) })
	defer beside.Wait()
	beside.Go(func() { s.watchAccess(ctx) })
	beside.Go(func() { s.pruneVersions(ctx) })
	beside.Go(func() { s.purgeStores(ctx) })
	beside.Go(func() { s.reembedStored(ctx) })
	s.freshness.Run(ctx)
	return nil
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

// trusted returns why a collection cannot be searched: its store has failed, or it, or all of them, are behind the tables for too long.
func (s *Service) trusted(ci *collectionIndex) error {
	if err := ci.failed(); err != nil {
		return err
	}
	_, err := s.freshness.Get()
	if err == nil && ci.settling.Load() {
		err = errSettling
	}
	for _, at := range []int64{ci.behindSince.Load(), ci.unfollowedSince.Load()} {
		if age := s.now().Sub(time.UnixMicro(at)); err == nil && at != 0 && age > s.cfg.freshness().MaxAge {
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

// current returns a collection as it is now: opened again, perhaps, since somebody looked for it.
func (s *Service) current(ci *collectionIndex) *collectionIndex {
	if now, err := s.collection(ci.key.tenant, ci.key.name); err == nil && now.id == ci.id {
		return now
	}
	return ci
}

func noCollection(name string) error {
	return fault.New(fault.CodeCollectionNotFound, name).WithParam("collection")
}

// findFresh returns the collection, also if another replica created it a moment ago.
func (s *Service) findFresh(ctx context.Context, tenant, name string) (*collectionIndex, error) {
	if ci, err := s.collection(tenant, name); err == nil {
		return ci, nil
	}
	openings, failed := s.followTurn(ctx, false) // what others have to read is not for whoever asks for this one to wait for
	for _, o := range openings {
		if o.key == (collectionKey{tenant, name}) { // it waits for no other
			failed = errors.Join(failed, errBehind, o.wait(ctx))
		}
	}
	if failed != nil && !errors.Is(failed, errBehind) { // what others fail at says nothing of this one
		return nil, failed
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
	return ci, s.answers(ci)
}

// answers returns CodeRetrievalFailed for a collection that cannot say what a reader may see.
func (s *Service) answers(ci *collectionIndex) error {
	if err := s.trusted(ci); err != nil {
		return fault.Wrap(err, fault.CodeRetrievalFailed, ci.key.name)
	}
	return nil
}

// permits reports whether a principal with the labels have may see what needs one of the labels want.
func permits(want, have []string) bool { return meets(want, have) }

// replace publishes a view in which one collection is set, or removed if ci is nil. The caller holds changeMu.
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
