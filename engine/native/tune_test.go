package native

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
)

// What Compile measures is kept and used by the loads that follow; a file that is not what it should be changes nothing.
func TestTuningIsKeptAndUsed(t *testing.T) {
	dir, path := t.TempDir(), newTiny(gguf.Q8_0).write(t)
	report, err := Compile(CompileConfig{Path: path, CacheDir: dir, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if report.Tuning == nil || report.Tuning.PromptRows < 16 || report.Tuning.GenerationThreads < 1 || report.Tuning.GenerationThreads > 2 {
		t.Fatalf("measured: %+v", report.Tuning)
	}
	load := func() *generator {
		e, err := New(Config{CacheDir: dir, Threads: 2, Models: []ModelConfig{{ID: tinyID, Path: path}}}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e.generators[tinyID]
	}
	if g := load(); g.promptRows != report.Tuning.PromptRows || g.pass.FewThreads != report.Tuning.GenerationThreads {
		t.Errorf("loaded with %d rows and %d threads, measured %+v", g.promptRows, g.pass.FewThreads, report.Tuning)
	}
	for _, content := range []string{"{", `{"x": 1}`, "null", ""} {
		if err := os.WriteFile(filepath.Join(dir, tuningFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if g := load(); g.promptRows != defaultPromptRows || g.pass.FewThreads != 0 {
			t.Errorf("with %q: %d rows, %d threads", content, g.promptRows, g.pass.FewThreads)
		}
	}
}
