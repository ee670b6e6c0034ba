package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// TestEvalWithAModel runs each command on a few tokens of a real model.
func TestEvalWithAModel(t *testing.T) {
	if testing.Short() {
		t.Skip("loads real models")
	}
	t.Parallel()
	model := testmodel.Path(t, testmodel.SmolLM2)
	data := filepath.Join(t.TempDir(), "mine.jsonl")
	if err := os.WriteFile(data, []byte("{\"body\":\"The capital of France is Paris, and it lies on the Seine.\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	evaluate := func(args ...string) result {
		return runCommand(t.Context(), nil, "", append([]string{"eval"}, args...)...)
	}

	r := evaluate("agreement", "--model", model, "--data", data, "--field", "body", "--context", "64", "--json", "--threads", "2")
	r.wants(t, exitOK)
	var report eval.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Format != eval.Format || report.Metric != "agreement" || report.Model.Plan != "native" || report.Baseline.Plan != "f32" ||
		!strings.HasPrefix(report.Model.Digest, "sha256:b179c9523d0e") || report.Model.Digest != report.Baseline.Digest || report.Data.Name != "mine.jsonl" ||
		report.Tokens < 10 || report.Context != 64 || report.Stride != 32 || report.Engine.ISA == "" || report.Time.IsZero() || len(report.Figures) != 10 {
		t.Errorf("%+v", report)
	}
	for _, f := range report.Figures {
		if f.Name == eval.Perplexity && (f.Value < 2 || f.Value > 60) {
			t.Errorf("%+v", f)
		}
	}
	evaluate("perplexity", "--model", model, "--limit", "16").wants(t, exitOK, "perplexity", "16 tokens in windows of 512", "no interval: 1 blocks", "built-in zh-en")
	evaluate("perplexity", "--model", model, "--limit", "16", "--context", "9000").wants(t, exitFailed, "at most 8192")
	evaluate("kld", "--model", model, "--plan", "none").wants(t, exitFailed, `"none"`)

	encoder := testmodel.Path(t, testmodel.MiniLM)
	evaluate("embeddings", "--model", encoder, "--limit", "2").wants(t, exitOK, "mean cosine", "1.000000", "2 passages; 0 left out")
}

func TestEvalRefuses(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.txt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"embeddings"}, "--model"},
		{exitFailed, []string{"kld", "--config", empty + ".yaml"}, "does not exist"},
		{exitUsage, []string{"kld", "model.gguf"}, "eval kld [flags]"},
		{exitUsage, []string{"kld", "--model", "x", "--field", "text"}, "--data"},
		{exitUsage, []string{"embeddings", "--model", empty, "--limit", "-1"}, "--limit"},
		{exitFailed, []string{"kld", "--model", "x", "--data", empty}, "no text"},
		{exitFailed, []string{"kld", "--model", "x", "--data", "none.txt"}, "none.txt"},
		{exitFailed, []string{"kld", "--model", empty + "x"}, "is no file or directory, and no model that is here"},
		{exitUsage, []string{"kdl"}, "kld"},
	} {
		runCommand(t.Context(), nil, "", append([]string{"eval"}, c.args...)...).wants(t, c.code, c.want)
	}
}
