package native

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/fault"
)

// Engine runs models in this process.
type Engine struct {
	generators map[engine.ModelID]*generator
	encoders   map[engine.ModelID]*encoder
	loop       *loop
	pool       *exec.Pool
	key        []byte // of this process: names the spaces in which requests may share keys and values
	drafts     bool
	numbers    atomic.Uint64 // of requests without a name
	closing    sync.Once
	opener     *opener

	mu       sync.RWMutex
	models   []engine.Model // adapters among them
	adapters map[engine.ModelID]*adapter
	digests  []string // of every adapter there was
}

var _ engine.Engine = (*Engine)(nil)

// New loads the models of cfg. It starts no goroutine: the threads begin with the first request. reg may be nil.
func New(cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Engine, error) {
	e, err := open(cfg, log, newMetrics(reg))
	if err == nil && reg != nil {
		err = reg.Register(state{e})
	}
	return e, err
}

func open(cfg Config, log *slog.Logger, m *metrics) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("native engine: %w", err)
	}
	log = log.With(slog.String("component", "engine"))
	where, err := cfg.settle(log)
	if err != nil {
		return nil, fmt.Errorf("native engine: %w", err)
	}
	cfg = cfg.withDefaults()
	o := &opener{cfg: cfg, kernels: kernel.Detect(log), log: log, metrics: m, place: where, budget: budget{limit: cfg.MemoryMebibytes << 20}}
	e := newEngine(o)
	if err := e.loadAll(); err != nil {
		return nil, errors.Join(fmt.Errorf("native engine: %w", err), e.Close())
	}
	return e, nil
}

// newEngine returns an engine without models.
func newEngine(o *opener) *Engine {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	pool := exec.NewPool(o.cfg.Threads)
	pool.OnStart(o.place.enter)
	return &Engine{
		pool: pool, key: key, drafts: !o.cfg.NoSpeculation, opener: o, loop: newLoop(o),
		generators: map[engine.ModelID]*generator{}, encoders: map[engine.ModelID]*encoder{}, adapters: map[engine.ModelID]*adapter{},
	}
}

// loadAll loads the models and adapters of the configuration: first everything that takes a fixed amount of memory, since keys and
// values may get what is left.
func (e *Engine) loadAll() (err error) {
	o := e.opener
	var models []*compiled
	defer func() {
		for _, c := range models { // those that became no part of the engine
			err = errors.Join(err, c.close())
		}
	}()
	for _, mc := range o.cfg.Models {
		c, err := o.open(mc)
		if err != nil {
			return fmt.Errorf("load model %s: %w", mc.ID, err)
		}
		models = append(models, c)
	}
	var adapters []*adapter
	for _, ac := range o.cfg.Adapters {
		base := models[slices.IndexFunc(models, func(c *compiled) bool { return c.info.ID == ac.Model })]
		if base.files.Config.Encoder() {
			return fmt.Errorf("load adapter %s: its model %s generates no text; adapters change models that do", ac.ID, ac.Model)
		}
		a, err := e.readAdapter(ac, base.prog, base.files.Config.AdapterBase())
		if err != nil {
			return err
		}
		adapters = append(adapters, a)
	}
	if err := o.workspace(models); err != nil {
		return err
	}
	for len(models) > 0 {
		c := models[0]
		models = models[1:]
		if err := e.add(c); err != nil {
			return fmt.Errorf("load model %s: %w", c.info.ID, err)
		}
	}
	for _, a := range adapters {
		e.register(a)
	}
	e.sortModels()
	return nil
}

// add makes a compiled model part of the engine, or closes it.
func (e *Engine) add(c *compiled) error {
	o, begin := e.opener, time.Now()
	var info engine.Model
	var err error
	if c.files.Config.Encoder() {
		enc, encErr := o.encoderOn(c, e.pool, e.loop.wakeEncoder)
		if err = encErr; err == nil {
			e.encoders[c.info.ID], info = enc, enc.info
			e.loop.encoders = append(e.loop.encoders, enc)
		}
	} else {
		g, genErr := o.generator(c, e.pool)
		if err = genErr; err == nil {
			e.generators[c.info.ID], info = g, g.info
			e.loop.generators = append(e.loop.generators, g)
		}
	}
	if err != nil {
		return errors.Join(err, c.close())
	}
	if err = c.files.Close(); err != nil {
		return err
	}
	e.models = append(e.models, info)
	o.log.Info("model loaded", slog.String("model", string(info.ID)), slog.String("plan", info.Precision), slog.String("isa", o.kernels.ISA()),
		slog.Int("threads", o.cfg.Threads), slog.Float64("seconds", (c.took+time.Since(begin)).Seconds()))
	return nil
}

func (e *Engine) sortModels() {
	slices.SortFunc(e.models, func(a, b engine.Model) int { return cmp.Compare(a.ID, b.ID) })
}

// Models implements engine.Engine.
func (e *Engine) Models(ctx context.Context) ([]engine.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Clone(e.models), nil
}

// Configured returns the concurrency of the configuration, whatever [Engine.SetConcurrency] has made of it.
func (e *Engine) Configured() int { return e.opener.cfg.Concurrency }

// SetConcurrency changes how many sequences are computed at a time, at least one. Running ones go on.
func (e *Engine) SetConcurrency(n int) { e.loop.setSlots(n) }

// Generate implements engine.Engine.
func (e *Engine) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		j, err := e.job(ctx, p)
		if err == nil {
			err = e.loop.submit(j)
		}
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		defer j.callerLeft.Store(true)
		j.stream(yield)
	}
}

// generator finds the model that a request names, or the adapter of one that its tenant may use.
func (e *Engine) generator(id engine.ModelID, tenant string) (*generator, *adapter, error) {
	if g, ok := e.generators[id]; ok {
		return g, nil, nil
	}
	if a := e.adapter(id); a != nil && a.open(tenant) {
		return a.base, a, nil
	}
	return nil, nil, e.missing(id, fault.Say("native.embeds_only"))
}

// missing says why a model cannot be used: it does not exist, or it does something else.
func (e *Engine) missing(id engine.ModelID, otherwise fault.Phrase) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if slices.ContainsFunc(e.models, func(m engine.Model) bool { return m.ID == id && m.Base == "" }) {
		return fault.New(fault.CodeUnsupported, "model", otherwise).WithParam("model")
	}
	return fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
}

// encoder finds a model that makes vectors or scores.
func (e *Engine) encoder(ctx context.Context, id engine.ModelID) (*encoder, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	m, ok := e.encoders[id]
	if !ok {
		return nil, e.missing(id, fault.Say("native.generates_only"))
	}
	return m, nil
}

// Embed implements engine.Engine.
func (e *Engine) Embed(ctx context.Context, p *engine.Prompt) (*engine.Embeddings, error) {
	if p.Embed == nil {
		return nil, engine.ErrOtherWork
	}
	m, err := e.encoder(ctx, p.Embed.Model)
	if err != nil {
		return nil, err
	}
	return m.embed(ctx, p)
}

// Score implements engine.Engine.
func (e *Engine) Score(ctx context.Context, p *engine.Prompt) (*engine.Scores, error) {
	if p.Score == nil {
		return nil, engine.ErrOtherWork
	}
	m, err := e.encoder(ctx, p.Score.Model)
	if err != nil {
		return nil, err
	}
	return m.score(ctx, p)
}

// Close implements engine.Engine.
func (e *Engine) Close() error {
	var err error
	e.closing.Do(func() {
		e.loop.close()
		e.pool.Close()
		for _, enc := range e.encoders {
			err = errors.Join(err, enc.close())
		}
		for _, g := range e.generators {
			err = errors.Join(err, g.close())
		}
	})
	return err
}
