package native

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// The whole contract with real models; the cross-encoder and the adapter are made here, of random numbers.
func TestConformance(t *testing.T) {
	ranker, adapter := tinyEncoder(t, poolRank, gguf.F32), smolAdapter(t)
	enginetest.Run(t, conforming(ranker, adapter))
}

// The same behind a process boundary: all of the contract but hooks crosses.
func TestConformanceBehindWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	open := conforming(tinyEncoder(t, poolRank, gguf.F32), smolAdapter(t))
	enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
		e, opt := open(t)
		at := worker.Endpoint{Address: "unix:" + filepath.Join(t.TempDir(), "engine", "e.sock")}
		l, err := worker.Listen(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		s := worker.NewServer(slog.New(slog.DiscardHandler))
		s.Ready(worker.Backend{Engine: e})
		go func() { _ = s.Serve(t.Context(), l, time.Minute) }()
		c, err := worker.New(worker.Config{Endpoint: at})
		if err != nil {
			t.Fatal(err)
		}
		opt.OwnFormats = false // what a grammar costs is held above, without the boundary
		return c, opt
	})
}

// conforming returns what opens an engine with a model of every kind.
func conforming(ranker, adapter string) func(t *testing.T) (engine.Engine, enginetest.Options) {
	return func(t *testing.T) (engine.Engine, enginetest.Options) {
		e := openEngine(t, Config{Concurrency: 4, ContextTokens: 512})
		e.models = slices.Clone(e.models)
		c, err := e.opener.open(ModelConfig{ID: "ranker", Path: ranker})
		if err == nil {
			err = e.add(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.sortModels()
		if _, err := e.LoadAdapter(AdapterConfig{ID: "smollm2-adapted", Model: smol, Path: adapter}); err != nil {
			t.Fatal(err)
		}
		words := e.generators[smol].tokens
		return e, enginetest.Options{
			Generate: smol, Adapter: "smollm2-adapted", Embed: "minilm", Score: "ranker", OwnFormats: true, PrefixCache: true,
			Special: "<|im_end|>", Encode: func(text string) []int32 { return words.Encode(text, false) },
		}
	}
}

// A model with words of its own for queries and passages, and in Chinese.
func TestConformanceOfE5(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	first := openEncoderEngine(t, testmodel.Path(t, testmodel.E5), "", 2)
	enginetest.Run(t, func(*testing.T) (engine.Engine, enginetest.Options) {
		e := newEngine(first.opener)
		e.models = first.models
		own := sharing(first.encoders["encoder"], e.pool, e.loop.wakeEncoder)
		e.encoders["encoder"], e.loop.encoders = own, append(e.loop.encoders, own)
		return e, enginetest.Options{Embed: "encoder", Roles: true}
	})
}

// smolAdapter writes an adapter of SmolLM2 in the form of peft, strong enough to change what it says.
func smolAdapter(t testing.TB) string {
	t.Helper()
	const dim, hidden, rank = 576, 1536, 2
	r := rand.New(rand.NewPCG(1, 2))
	tensors := map[string][]int{}
	for _, layer := range []int{3, 20} {
		at := fmt.Sprintf("base_model.model.model.layers.%d.mlp.down_proj.lora_", layer)
		tensors[at+"A.weight"], tensors[at+"B.weight"] = []int{rank, hidden}, []int{dim, rank}
	}
	header, body := map[string]any{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		shape, begin := tensors[name], len(body)
		for range shape[0] * shape[1] {
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(float32(r.NormFloat64()/4)))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{begin, len(body)}}
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"adapter_config.json":       []byte(`{"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["down_proj"]}`),
		"adapter_model.safetensors": append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), body...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
