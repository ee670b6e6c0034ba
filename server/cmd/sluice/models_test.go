package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/internal/testmodel"
)

func inspect(t *testing.T, args ...string) result {
	return runCommand(t.Context(), nil, "", append([]string{"models", "inspect"}, args...)...)
}

func TestModelsInspectSummary(t *testing.T) {
	t.Parallel()
	model := testmodel.Path(t, testmodel.SmolLM2)
	inspect(t, model).wants(t, exitOK, "llama", "134.5 M, 96.6 MB", "30, width 576, feed-forward 1536 (silu)", "9 heads of 64, 3 for keys and values",
		"8192 tokens", "49152, gpt2 smollm", "23.0 kB a token", "q4_1", "106168320", "66355200", "sha256:b179c9523d0e", "sha256:872be49dbb63")

	r := inspect(t, model, "--json", "--plan", "int8")
	r.wants(t, exitOK)
	var s summary
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
	if formats["i8"] != 106168320 || formats["f16"] != 28311552 || s.Plan.Applied["qkv"] != 30 {
		t.Errorf("%+v", s.Plan)
	}
}

func TestModelsInspectEncoder(t *testing.T) {
	t.Parallel()
	inspect(t, testmodel.Path(t, testmodel.MiniLM)).wants(t, exitOK, "safetensors", "bert", "22.6 M", "WordPiece", "mean", "256 tokens")
}

// TestModelsInspectGraph: what is printed is the text form that the graph package reads, before and after the passes.
func TestModelsInspectGraph(t *testing.T) {
	t.Parallel()
	model := testmodel.Path(t, testmodel.SmolLM2)
	nodes := map[string]int{}
	for _, args := range []string{"", "--plan native", "--plan native --without qkv,rope"} {
		r := inspect(t, append([]string{model, "--graph"}, strings.Fields(args)...)...)
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
	inspect(t, model, "--steps", "--plan", "int8").wants(t, exitOK, "plan llama:", "arena T:", "in place")
}

func TestModelsInspectRefuses(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "notes.gguf")
	if err := os.WriteFile(other, []byte("not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	inspect(t).wants(t, exitUsage, "models inspect MODEL")
	inspect(t, "no-such-model").wants(t, exitFailed, "no-such-model is no file")
	inspect(t, other).wants(t, exitFailed, "not a usable GGUF file")
	model := testmodel.Path(t, testmodel.SmolLM2)
	inspect(t, model, "--graph", "--plan", "int7").wants(t, exitUsage, "int7")
	inspect(t, model, "--graph", "--plan", "int8", "--without", "fuse").wants(t, exitUsage, `"fuse"`)
	inspect(t, model, "--graph", "--without", "qkv").wants(t, exitUsage, "--plan")
}
