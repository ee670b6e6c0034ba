package native

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/testmodel"
)

const smol = engine.ModelID("smollm2")

// loaded holds the real models; weights are immutable, so all tests share them.
var loaded sync.Map

// openEngine returns an engine of its own with the real models, which are loaded once for all tests.
func openEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	cfg.Models = []ModelConfig{
		{ID: smol, Path: testmodel.Path(t, testmodel.SmolLM2)},
		{ID: "minilm", Path: testmodel.Path(t, testmodel.MiniLM)},
	}
	if cfg.Threads == 0 {
		cfg.Threads = 2
	}
	opened, _ := loaded.LoadOrStore(cfg.ContextTokens, sync.OnceValues(func() (*Engine, error) {
		return New(Config{Models: cfg.Models, ContextTokens: cfg.ContextTokens}, slog.New(slog.DiscardHandler), nil)
	}))
	first, err := opened.(func() (*Engine, error))()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.withDefaults()
	o := &opener{cfg: cfg, log: slog.New(slog.DiscardHandler), metrics: newMetrics(nil)}
	var e *Engine
	for id, g := range first.generators {
		o.kernels = g.pass.Kernels()
		if e == nil {
			e = newEngine(o)
			e.models = first.models
		}
		own := *g
		own.load, own.observed, own.inputs = load{}, SchedulerState{}, nil
		own.serve(o, Tuning{PromptRows: defaultPromptRows}, e.pool)
		e.generators[id] = &own
		e.loop.generators = append(e.loop.generators, &own)
	}
	for id, enc := range first.encoders {
		own := sharing(enc, e.pool, e.loop.wakeEncoder)
		e.encoders[id], e.loop.encoders = own, append(e.loop.encoders, own)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}
