package native

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/testmodel"
)

const smol = engine.ModelID("smollm2")

// openEngine loads the real model; cfg.Models is filled in.
func openEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	cfg.Models = []ModelConfig{{ID: smol, Kind: KindLlama, Path: testmodel.Path(t, testmodel.SmolLM2)}}
	if cfg.Threads == 0 {
		cfg.Threads = 2
	}
	e, err := New(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestConformance(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
		cfg := Config{Concurrency: 4, ContextTokens: 512, Threads: 2, Models: []ModelConfig{
			{ID: smol, Kind: KindLlama, Path: testmodel.Path(t, testmodel.SmolLM2)},
			{ID: "minilm", Kind: KindBERT, Path: testmodel.Path(t, testmodel.MiniLM)},
		}}
		e, err := New(cfg, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		return e, enginetest.Options{Generate: smol, Embed: "minilm"}
	})
}

// answer is a collected choice 0.
type answer struct {
	text     string
	finish   engine.Finish
	logprobs []engine.TokenLogprob
	usage    engine.Usage
	err      error
}

func ask(t testing.TB, e *Engine, req *engine.Request) answer {
	t.Helper()
	req.Model = smol
	var a answer
	var text strings.Builder
	for ev, err := range e.Generate(t.Context(), req) {
		if err != nil {
			a.err = err
			break
		}
		if ev.Choice == 0 {
			text.WriteString(ev.Text)
			a.logprobs = append(a.logprobs, ev.Logprobs...)
			if ev.Finish != "" {
				a.finish = ev.Finish
			}
		}
		if ev.Usage != nil {
			a.usage = *ev.Usage
		}
	}
	a.text = text.String()
	return a
}
