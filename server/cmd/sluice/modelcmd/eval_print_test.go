package modelcmd

import (
	"bytes"
	"testing"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

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
		"zh": `模型  m.gguf（sha256:0123456789ab…），方案 int8（i8）
基准  m.gguf（sha256:0123456789ab…），方案 f32（f32）
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
		a := &app{&cli.App{Stdout: &out, Environ: []string{"SLUICE_LANG=" + lang}}}
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
