package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// TestBenchEngine measures the default model for a moment, in a process of its own, and reads the JSON.
func TestBenchEngine(t *testing.T) {
	t.Parallel()
	model := testmodel.Path(t, testmodel.SmolLM2)
	env := append(os.Environ(), "SLUICE_TEST_CLI=1", "SLUICE_ISA=generic") // the mask must reach the process that measures
	args := []string{"bench", "engine", "--model", model, "--threads", "1", "--prompt", "2", "--gen", "1", "--depth", "0", "--rounds", "1"}
	r := runCommand(t.Context(), env, "", append(args, "--json")...)
	r.wants(t, exitOK)
	var got enginebench.Report
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Runs) != 1 || got.Runs[0].ISA != "generic" || len(got.Runs[0].Prompt) != 1 || len(got.Runs[0].Generation) != 1 {
		t.Errorf("%s", r.out)
	}
}

func TestBenchEngineRefuses(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	config := filepath.Join(empty, "sluice.yaml")
	if err := os.WriteFile(config, []byte("downloads: "+empty+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runCommand(t.Context(), []string{"HOME=" + empty, "SLUICE_CONFIG=" + config}, "", "bench", "engine")
	r.wants(t, exitFailed, "sluice pull", "--model")
	r = runCommand(t.Context(), nil, "", "bench", "engine", "--model", config, "--rounds", "0", "--threads", "0")
	r.wants(t, exitUsage, "rounds is 0", "threads is 0")
	r = runCommand(t.Context(), nil, "", "bench", "engine", "--model", config)
	r.wants(t, exitFailed, "not a usable GGUF file")
	r = runCommand(t.Context(), nil, "", "bench", "engine", "--prompt", "many")
	r.wants(t, exitUsage)
}
