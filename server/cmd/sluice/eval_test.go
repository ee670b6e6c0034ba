package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/internal/message"
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

func TestEvaluationPrintsForPeople(t *testing.T) {
	t.Parallel()
	report := eval.Report{
		Model:    eval.Subject{File: "m.gguf", Digest: "sha256:0123456789abcdef", Plan: "int8", Precision: "i8"},
		Baseline: &eval.Subject{File: "m.gguf", Digest: "sha256:0123456789abcdef", Plan: "f32", Precision: "f32"},
		Engine:   eval.Engine{Version: "v1", ISA: "avx2"}, Data: eval.Source{Name: "t.txt", Digest: "sha256:fedcba9876543210"},
		Context: 512, Stride: 256, Tokens: 1000, Seconds: 2.25,
		Figures: []eval.Figure{
			{Name: eval.PerplexityChange, Value: 0.00123, Interval: &[2]float64{-0.001, 0.0034}, Method: "draws"},
			{Name: eval.Agreement, Value: 0.9876, Interval: &[2]float64{0.98, 0.99}, Method: "score"},
			{Name: eval.MaxKLD, Value: 0.5},
		},
	}
	for lang, want := range map[string]string{
		"en": `model     m.gguf (sha256:0123456789ab…), plan int8 (i8)
baseline  m.gguf (sha256:0123456789ab…), plan f32 (f32)
text      t.txt (sha256:fedcba987654…)
compared  1000 tokens in windows of 512, one every 256
engine    v1, avx2, 2.2 s

same likeliest token   98.76 %        [98.00 … 99.00]
change of perplexity   +0.123 %       [-0.100 … +0.340]
largest KL divergence  0.500000 nats

Intervals: 95 %, score
`,
		"zh": `模型  m.gguf (sha256:0123456789ab…), plan int8 (i8)
基准  m.gguf (sha256:0123456789ab…), plan f32 (f32)
文本  t.txt (sha256:fedcba987654…)
范围  1000 个词元，窗口 512，步长 256
引擎  v1, avx2, 2.2 s

首选词元一致率  98.76 %        [98.00 … 99.00]
困惑度变化      +0.123 %       [-0.100 … +0.340]
最大 KL 散度    0.500000 nats

95 % 置信区间：score
`,
	} {
		var out bytes.Buffer
		a := &app{env: environment{stdout: &out, environ: []string{"SLUICE_LANG=" + lang}}}
		if err := a.printEvaluation(report, false, []string{eval.Agreement, eval.MeanKLD, eval.PerplexityChange, eval.MaxKLD}); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant:\n%s", lang, out.String(), want)
		}
	}
	for _, name := range []string{
		eval.Perplexity, eval.BaselinePerplexity, eval.PerplexityChange, eval.MeanKLD, eval.KLD99, eval.MaxKLD, eval.Agreement, eval.RMSDeltaP,
		eval.MeanDeltaLogprob, eval.MaxDeltaLogprob, eval.MeanCosine, eval.MinCosine,
	} {
		if unitOf(name).name.In(message.Chinese) == name {
			t.Errorf("%s has no unit", name)
		}
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if (&app{env: environment{stderr: &out}}).progress("tokens") != nil {
		t.Error("progress in a file")
	}
}
