package native

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"sync"
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
	models     []engine.Model
	loop       *loop
	pool       *exec.Pool
	closing    sync.Once
}

var _ engine.Engine = (*Engine)(nil)

func open(cfg Config, log *slog.Logger, m *metrics) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("native engine: %w", err)
	}
	cfg = cfg.withDefaults()
	log = log.With(slog.String("component", "engine"))
	e := &Engine{
		pool:       exec.NewPool(cfg.Threads),
		generators: map[engine.ModelID]*generator{}, encoders: map[engine.ModelID]*encoder{},
	}
	e.loop = &loop{metrics: m, slots: cfg.Concurrency, waiting: cfg.QueueLimit}
	o := &opener{cfg: cfg, kernels: kernel.Detect(log), log: log, metrics: m}
	for _, mc := range cfg.Models {
		if err := e.load(o, mc); err != nil {
			return nil, errors.Join(fmt.Errorf("native engine: load model %s: %w", mc.ID, err), e.Close())
		}
	}
	slices.SortFunc(e.models, func(a, b engine.Model) int { return cmp.Compare(a.ID, b.ID) })
	return e, nil
}

func (e *Engine) load(o *opener, mc ModelConfig) error {
	begin := time.Now()
	c, err := o.open(mc)
	if err != nil {
		return err
	}
	var info engine.Model
	if c.files.Config.Encoder() {
		enc, encErr := o.encoder(c)
		if err = encErr; err == nil {
			e.encoders[mc.ID], info = enc, enc.info
		}
	} else {
		g, genErr := o.generator(c, e.pool)
		if err = genErr; err == nil {
			e.generators[mc.ID], info = g, g.info
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

// Models implements engine.Engine.
func (e *Engine) Models(ctx context.Context) ([]engine.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	return slices.Clone(e.models), nil
}

// SetConcurrency changes how many sequences are computed at a time, at least one. Running ones go on.
func (e *Engine) SetConcurrency(n int) { e.loop.setSlots(n) }

// Count implements engine.Engine; the number is exact.
func (e *Engine) Count(ctx context.Context, req *engine.Request) (engine.Count, error) {
	if err := ctx.Err(); err != nil {
		return engine.Count{}, cancelled(err)
	}
	g, err := e.generator(req.Model)
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

// prepare checks a request and tokenises its prompt.
func (e *Engine) prepare(ctx context.Context, req *engine.Request) (*job, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	g, err := e.generator(req.Model)
	if err != nil {
		return nil, err
	}
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	ids, err := g.encode(req)
	if err != nil {
		return nil, err
	}
	room := g.info.ContextTokens - len(ids)
	if room < 1 {
		return nil, fault.New(fault.CodeContextLength, g.info.ContextTokens, len(ids)+1)
	}
	if req.MaxTokens > 0 {
		room = min(room, req.MaxTokens)
	}
	pages := needed(len(ids), room, max(1, req.Choices))
	if pages > g.pages {
		return nil, fault.New(fault.CodeInvalidValue, "n", fault.Say("the engine's memory holds %d tokens, %d choices of up to %d take more; ask for fewer choices or set max_tokens",
			"引擎内存可容纳 %d 个 token，%d 个结果、每个最多 %d 个 token 超出容量；请减少结果数或设置 max_tokens", exec.Positions(g.pages), req.Choices, room)).WithParam("n")
	}
	seed := randomSeed()
	if req.Seed != nil {
		seed = *req.Seed
	}
	return &job{
		ctx: ctx, model: g, prompt: ids, choices: max(1, req.Choices), limit: room, logprobs: req.Logprobs, pages: pages,
		draw:  draw{temperature: req.Temperature, topP: req.TopP, seed: seed},
		stops: slices.DeleteFunc(slices.Clone(req.Stop), func(s string) bool { return s == "" }), signal: make(chan struct{}, 1),
	}, nil
}

func checkRequest(req *engine.Request) error {
	invalid := func(field string, cause fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, field, cause).WithParam(field)
	}
	switch {
	case req.MaxTokens < 0:
		return invalid("max_tokens", fault.Say("it must not be negative", "不能为负数"))
	case req.Choices < 0 || req.Choices > maxChoices:
		return invalid("n", fault.Say("this engine gives 1 to %d choices", "此引擎可生成 1 至 %d 个结果", maxChoices))
	case !(req.Temperature >= 0) || math.IsInf(req.Temperature, 0):
		return invalid("temperature", fault.Say("it must be a number from 0 on", "须为不小于 0 的数"))
	case !(req.TopP >= 0 && req.TopP <= 1):
		return invalid("top_p", fault.Say("it must be between 0 and 1", "须在 0 与 1 之间"))
	case req.Logprobs > maxLogprobs:
		return invalid("top_logprobs", fault.Say("at most %d alternatives are given", "最多给出 %d 个候选 token", maxLogprobs))
	case len(req.Stop) > maxStops:
		return invalid("stop", fault.Say("at most %d strings are allowed", "最多 %d 个字符串", maxStops))
	}
	return nil
}

func (e *Engine) generator(id engine.ModelID) (*generator, error) {
	g, ok := e.generators[id]
	if !ok {
		return nil, e.missing(id, fault.Say("it computes embeddings only", "该模型仅生成向量"))
	}
	return g, nil
}

// missing says why a model cannot be used: it does not exist, or it does something else.
func (e *Engine) missing(id engine.ModelID, otherwise fault.Phrase) error {
	if slices.ContainsFunc(e.models, func(m engine.Model) bool { return m.ID == id }) {
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
			err = errors.Join(err, g.prog.Close())
		}
	})
	return err
}

func cancelled(err error) error { return fmt.Errorf("native engine: %w", err) }

func randomSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
