package native

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// The deterministic profile on the real model: greedy and seeded, the same bytes for any batch, number of threads and instruction
// set, with keys and values in half precision and in eight bits.
func TestInt8IsTheSameEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector")
	}
	for _, plan := range []string{PlanInt8, PlanInt8KV8} {
		var want []collected
		for _, c := range []struct {
			isa     string
			threads int
			slots   int
		}{{"", 1, 1}, {"", 2, 8}, {"", 3, 2}, {"avx2", 2, 8}, {"generic", 2, 8}} {
			if c.isa == "avx2" && kernel.Detect(slog.New(slog.DiscardHandler)).ISA() != "avx512" {
				continue
			}
			t.Setenv(kernel.Variable, c.isa)
			e, err := New(Config{Threads: c.threads, Concurrency: c.slots, ContextTokens: 256, Models: []ModelConfig{
				{ID: smol, Path: testmodel.Path(t, testmodel.SmolLM2), Precision: plan},
			}}, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			tokens, prompts := 24, profilePrompts()
			if c.isa == "generic" {
				tokens, prompts = 3, prompts[:2] // slow; its beginning must be the beginning of the others
			}
			got := profileAnswers(t, e, tokens, prompts)
			if want == nil {
				want = got
			}
			for i := range got {
				if got[i].err != nil || !strings.HasPrefix(want[i].texts[0], got[i].texts[0]) || (c.isa != "generic" && got[i].texts[0] != want[i].texts[0]) {
					t.Errorf("plan %s, tier %q, %d threads, %d slots: request %d: %q, want %q (%v)",
						plan, c.isa, c.threads, c.slots, i, got[i].texts[0], want[i].texts[0], got[i].err)
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func profilePrompts() []string {
	return []string{"The capital of", "Water boils", "def add(a, b):", strings.Repeat("one two three ", 30)}
}

func profileAnswers(t *testing.T, e *Engine, tokens int, prompts []string) []collected {
	t.Helper()
	got := make([]collected, len(prompts))
	var wg sync.WaitGroup
	for i, p := range prompts {
		wg.Go(func() {
			got[i] = collect(t.Context(), e, &engine.Request{
				Model: smol, Prompt: p, MaxTokens: tokens, Temperature: float64(i%2) * 0.7, Seed: seed(uint64(i)), Logprobs: -1,
			})
		})
	}
	wg.Wait()
	return got
}

// A replay token names what decided the answer, and asking again with its seed gives the same answer.
func TestReplay(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q8_0), Config{})
	req := &engine.Request{Model: tinyID, Prompt: "go", MaxTokens: 16, Temperature: 1, Logprobs: -1}
	first := collect(t.Context(), e, req)
	if first.err != nil || first.usage == nil {
		t.Fatal(first.err)
	}
	info := e.generators[tinyID].info
	parts := strings.Split(first.usage.Replay, ".")
	if len(parts) != 6 || parts[1] != info.Digest[7:19] || parts[2] != "native" || parts[3] != info.Template[7:19] {
		t.Fatalf("the replay token is %q", first.usage.Replay)
	}
	var drawn uint64
	if _, err := fmt.Sscanf(parts[5], "%x", &drawn); err != nil {
		t.Fatal(err)
	}
	req.Seed = &drawn
	again := collect(t.Context(), e, req)
	sameAnswers(t, "with the seed of the token", again, first)
	if again.usage.Replay != first.usage.Replay {
		t.Errorf("the token changed from %q to %q", first.usage.Replay, again.usage.Replay)
	}
	req.Seed = nil
	if other := collect(t.Context(), e, req); other.usage.Replay == first.usage.Replay {
		t.Error("another draw has the same token")
	}
}

// With memory for little more than one sequence, sequences leave and come back: the answers are those of an engine with room for all, and
// no page is lost.
func TestKeyValueMemoryIsBounded(t *testing.T) {
	f := newTiny(gguf.Q8_0)
	reqs := []*engine.Request{{Model: tinyID, Prompt: "go", Choices: 8, MaxTokens: 150, Temperature: 1, Seed: seed(3), Logprobs: 1}}
	for i := range 4 {
		reqs = append(reqs, &engine.Request{Model: tinyID, Prompt: "go on", MaxTokens: 150, Temperature: 1, Seed: seed(uint64(i)), Logprobs: -1})
	}
	roomy, tight := openTiny(t, f, Config{}), openTiny(t, f, Config{Concurrency: 8})
	g := tight.generators[tinyID]
	g.pages = exec.PagesFor(tinyContext) + 1
	g.pass.Pages().SetLimit(g.pages)
	got := make([]collected, len(reqs))
	var wg sync.WaitGroup
	for i, r := range reqs {
		wg.Go(func() { got[i] = collect(t.Context(), tight, r) })
	}
	wg.Wait()
	for i, r := range reqs {
		sameAnswers(t, fmt.Sprintf("request %d", i), got[i], collect(t.Context(), roomy, r))
	}
	settled(t, tight)
	g.tree.Clear()
	if n := g.pass.Pages().InUse(); n != 0 {
		t.Errorf("%d pages in use", n)
	}
}

// The second load maps what the first one packed, and a file that was altered is packed again.
func TestPackedWeightsAreKept(t *testing.T) {
	dir, f := t.TempDir(), newTiny(gguf.Q4_1)
	path := f.write(t)
	load := func(want string) string {
		reg := prometheus.NewRegistry()
		e, err := New(Config{CacheDir: dir, Threads: 1, Models: []ModelConfig{{ID: tinyID, Path: path}}}, slog.New(slog.DiscardHandler), reg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if got := packedResult(t, reg); got != want {
			t.Errorf("the load was a %q, not a %q", got, want)
		}
		c := collect(t.Context(), e, &engine.Request{Model: tinyID, Prompt: "go", MaxTokens: 16, Temperature: 1, Seed: seed(1), Logprobs: -1})
		if c.err != nil {
			t.Fatal(c.err)
		}
		return c.texts[0]
	}
	first := load(exec.CacheBuilt)
	if again := load(exec.CacheHit); again != first {
		t.Errorf("mapped weights answer %q, packed ones %q", again, first)
	}
	damage(t, dir)
	if again := load(exec.CacheRebuilt); again != first {
		t.Errorf("after the damage: %q, want %q", again, first)
	}
	load(exec.CacheHit)
}

// damage alters one byte in the middle of the only file of a directory.
func damage(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.pack"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// packedResult reads where the packed weights came from.
func packedResult(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "sluice_engine_packed_weights_total" {
			continue
		}
		for _, label := range f.GetMetric()[0].GetLabel() {
			if label.GetName() == "result" {
				return label.GetValue()
			}
		}
	}
	return ""
}
