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
}

var _ engine.Engine = (*Engine)(nil)

func open(cfg Config, log *slog.Logger, m *metrics) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("native engine: %w", err)
	}
	cfg = cfg.withDefaults()
	log = log.With(slog.String("component", "engine"))
	o := &opener{cfg: cfg, kernels: kernel.Detect(log), log: log, metrics: m}
	e := newEngine(o)
	for _, mc := range cfg.Models {
		if err := e.load(o, mc); err != nil {
			return nil, errors.Join(fmt.Errorf("native engine: load model %s: %w", mc.ID, err), e.Close())
		}
	}
	e.sortModels()
	for _, ac := range cfg.Adapters {
		if err := e.LoadAdapter(ac); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// newEngine returns an engine without models.
func newEngine(o *opener) *Engine {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return &Engine{
		pool: exec.NewPool(o.cfg.Threads), key: key, drafts: !o.cfg.NoSpeculation, opener: o, loop: newLoop(o.cfg, o.metrics),
		generators: map[engine.ModelID]*generator{}, encoders: map[engine.ModelID]*encoder{}, adapters: map[engine.ModelID]*adapter{},
	}
}

func (e *Engine) load(o *opener, mc ModelConfig) error {
	begin := time.Now()
	c, err := o.open(mc)
	if err != nil {
		return err
	}
	var info engine.Model
	if c.files.Config.Encoder() {
		enc, encErr := o.encoderOn(c, e.pool, e.loop.poke)
		if err = encErr; err == nil {
			e.encoders[mc.ID], info = enc, enc.info
			e.loop.encoders = append(e.loop.encoders, enc)
		}
	} else {
		g, genErr := o.generator(c, e.pool)
		if err = genErr; err == nil {
			e.generators[mc.ID], info = g, g.info
			e.loop.generators = append(e.loop.generators, g)
		}
	}
	if err = errors.Join(err, c.files.Close()); err != nil {
		return errors.Join(err, c.prog.Close())
	}
	e.models = append(e.models, info)
	o.log.Info("model loaded", slog.String("model", string(mc.ID)), slog.String("plan", info.Precision), slog.String("isa", o.kernels.ISA()),
		slog.Int("threads", o.cfg.Threads), slog.Float64("seconds", time.Since(begin).Seconds()))
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

// SetConcurrency changes how many sequences are computed at a time, at least one. Running ones go on.
func (e *Engine) SetConcurrency(n int) { e.loop.setSlots(n) }

// Count implements engine.Engine; the number is exact.
func (e *Engine) Count(ctx context.Context, req *engine.Request) (engine.Count, error) {
	if err := ctx.Err(); err != nil {
		return engine.Count{}, cancelled(err)
	}
	g, _, err := e.generator(req.Model, req.Tenant)
	if err != nil {
		return engine.Count{}, err
	}
	ids, err := g.encode(req)
	if err != nil {
		return engine.Count{}, err
	}
	return engine.Count{Tokens: len(ids), Exact: true}, nil
}

// Generate implements engine.Engine.
func (e *Engine) Generate(ctx context.Context, req *engine.Request) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		j, err := e.prepare(ctx, req)
		if err == nil {
			err = e.loop.submit(j)
		}
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		defer j.gone.Store(true)
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
	return nil, nil, e.missing(id, fault.Say("it computes embeddings only", "该模型仅生成向量"))
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

// Embed implements engine.Engine.
func (e *Engine) Embed(ctx context.Context, req *engine.EmbedRequest) (*engine.Embeddings, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	m, ok := e.encoders[req.Model]
	if !ok {
		return nil, e.missing(req.Model, fault.Say("it generates text only", "该模型仅生成文本"))
	}
	return m.embed(ctx, req)
}

// Score implements engine.Engine.
func (e *Engine) Score(ctx context.Context, req *engine.ScoreRequest) (*engine.Scores, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	m, ok := e.encoders[req.Model]
	if !ok {
		return nil, e.missing(req.Model, fault.Say("it generates text only", "该模型仅生成文本"))
	}
	return m.score(ctx, req)
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
