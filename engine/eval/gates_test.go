package eval_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// gates are the bounds that a precision plan of SmolLM2 keeps against another one on the built-in text. A plan that the engine learns
// takes one line. The first choice is the exact plan's at 98 % of places in answers, see [TestPlansChooseTheExactPlansTokens]; in the
// text, where people chose the words, more places are close calls.
var gates = []struct {
	plan, against string
	change        float64 // of the perplexity, either way; 0 means no bound
	rise          float64 // of the perplexity, upwards
	kld, top1     float64
	long          bool   // takes a minute, and the whole text to be sure
	calibration   string // text for which the plan's weights are rounded
}{
	{plan: native.PlanNative, against: native.PlanF32, change: 0.005, kld: 0.005, top1: 0.95},
	{plan: native.PlanNativeWide, against: native.PlanF32, change: 0.001, kld: 0.0001, top1: 0.99},
	{plan: native.PlanNativeKV8, against: native.PlanNative, rise: 0.002, kld: 0.005, top1: 0.94, long: true},
	{plan: native.PlanInt8, against: native.PlanF32, rise: 0.005, kld: 0.004, top1: 0.95, long: true},
	{plan: native.PlanInt8, against: native.PlanF32, rise: 0.005, kld: 0.002, top1: 0.965, long: true, calibration: calibrationFile},
}

// vectorGates are the same for all-MiniLM-L6-v2: the least cosine of any passage.
var vectorGates = []struct {
	plan, against string
	cosine        float64
	calibration   string
}{
	{plan: native.PlanNative, against: native.PlanF32, cosine: 0.999999},
	{plan: native.PlanInt8, against: native.PlanF32, cosine: 0.999},
	{plan: native.PlanInt8, against: native.PlanF32, cosine: 0.9995, calibration: calibrationFile},
}

// calibrationFile is none of the texts that are measured.
var calibrationFile = filepath.Join("testdata", "calibration.txt")

// tokens is how many tokens of the built-in text the gates look at: all with SLUICE_TEST_LONG, which make test-long sets.
func tokens() int {
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		return 0
	}
	return 1000
}

func needsTime(t *testing.T) {
	t.Helper()
	if testing.Short() || kernel.Detect(slog.New(slog.DiscardHandler)).ISA() == "generic" {
		t.Skip("computes for seconds with a real model, on the reference kernels for minutes")
	}
}

func open(t *testing.T, plan string) *native.Runner {
	t.Helper()
	return openCalibrated(t, plan, "")
}

func openCalibrated(t *testing.T, plan, calibration string) *native.Runner {
	t.Helper()
	r, err := native.OpenRunner(native.RunnerConfig{
		Path: testmodel.Path(t, testmodel.SmolLM2), Plan: plan, Context: 512, Calibration: calibration,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestPlansKeepTheirGates(t *testing.T) {
	needsTime(t)
	for _, g := range gates {
		if g.long && tokens() > 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s%s against %s", cmp.Or(g.plan, "native"), calibrated(g.calibration), g.against), func(t *testing.T) {
			r, err := eval.Run(t.Context(), eval.Config{
				Measured: eval.Native(openCalibrated(t, g.plan, g.calibration)), Baseline: eval.Native(open(t, g.against)),
				Data: eval.Builtin(), Context: 512, Stride: 512, Limit: tokens(), Seed: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d tokens", r.Items)
			figure := func(name string) float64 {
				f, ok := r.Get(name)
				if !ok || f.Interval == nil {
					t.Fatalf("no figure %s: %+v", name, r)
				}
				t.Logf("%-18s %.5f, 95 %%: %.5f to %.5f", name, f.Value, f.Interval[0], f.Interval[1])
				return f.Value
			}
			change, kld, top1 := figure(eval.PerplexityChange), figure(eval.MeanKLD), figure(eval.Agreement)
			if g.change > 0 && math.Abs(change) > g.change || g.rise > 0 && change > g.rise {
				t.Errorf("the perplexity changes by %+.3f %%", 100*change)
			}
			if kld > g.kld || top1 < g.top1 {
				t.Errorf("divergence %.5f, at most %.5f; same first choice %.4f, at least %.4f", kld, g.kld, top1, g.top1)
			}
		})
	}
}

func calibrated(file string) string {
	if file == "" {
		return ""
	}
	return ", calibrated,"
}

// remember computes the vectors of each text once.
func remember(embed eval.Embed) eval.Embed {
	known := map[string][][]float32{}
	return func(ctx context.Context, texts []string) ([][]float32, error) {
		key := strings.Join(texts, "\x00")
		if v, ok := known[key]; ok {
			return v, nil
		}
		v, err := embed(ctx, texts)
		known[key] = v
		return v, err
	}
}

// TestVectorsKeepTheirGates compares each passage's vector between plans of the encoder.
func TestVectorsKeepTheirGates(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds with a real model")
	}
	embed := func(plan, calibration string) eval.Embed {
		e, err := native.New(native.Config{Models: []native.ModelConfig{
			{ID: "encoder", Path: testmodel.Path(t, testmodel.MiniLM), Precision: plan, Calibration: calibration},
		}}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return func(ctx context.Context, texts []string) ([][]float32, error) {
			out, err := enginetest.Embed(ctx, e, &engine.EmbedRequest{Model: "encoder", Input: texts})
			if err != nil {
				return nil, err
			}
			return out.Vectors, nil
		}
	}
	exact := remember(embed(native.PlanF32, ""))
	for _, g := range vectorGates {
		if g.calibration != "" && kernel.Detect(slog.New(slog.DiscardHandler)).ISA() == "generic" {
			continue // takes a minute with the reference kernels
		}
		baseline := exact
		if g.against != native.PlanF32 {
			baseline = embed(g.against, "")
		}
		r, err := eval.Vectors(t.Context(), eval.VectorConfig{Measured: embed(g.plan, g.calibration), Baseline: baseline, Data: eval.Builtin(), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		least, _ := r.Get(eval.MinCosine)
		name := cmp.Or(g.plan, "native") + calibrated(g.calibration)
		t.Logf("%s against %s: smallest cosine %.7f of %d passages", name, g.against, least.Value, r.Items)
		if least.Value < g.cosine || r.Items < 20 || r.Skipped > 0 {
			t.Errorf("%s against %s: %+v", name, g.against, r)
		}
	}
}

// TestPlansComeCloseToTheExactAnswer compares the log-probabilities that each plan gives the tokens of an independent float32
// implementation's answers with that implementation's own.
func TestPlansComeCloseToTheExactAnswer(t *testing.T) {
	needsTime(t)
	raw, err := os.ReadFile(filepath.Join("..", "native", "testdata", "smollm2-q4_1-numpy-fp32.json"))
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Cases []struct {
			Name      string
			PromptIDs []int32 `json:"prompt_ids"`
			IDs       []int32
			Steps     []struct{ Logprob, Margin float64 }
		}
	}
	if err := json.Unmarshal(raw, &reference); err != nil || len(reference.Cases) == 0 {
		t.Fatalf("%d cases: %v", len(reference.Cases), err)
	}
	for _, p := range []struct {
		plan        string
		mean, worst float64 // over all tokens; of any
	}{
		{native.PlanNative, 0.06, 0.35},
		{native.PlanF32, 0.002, 0.01},
	} {
		m := eval.Native(open(t, p.plan))
		sum, worst, n := 0.0, 0.0, 0
		for _, c := range reference.Cases {
			if p.plan == native.PlanF32 && os.Getenv("SLUICE_TEST_LONG") == "" {
				c.IDs = c.IDs[:min(12, len(c.IDs))]
			}
			s := m.Start()
			inputs := append(append([]int32{}, c.PromptIDs...), c.IDs[:len(c.IDs)-1]...)
			err := s.Feed(inputs, len(c.PromptIDs)-1, func(i int, logits []float32) {
				step := i - len(c.PromptIDs) + 1
				d := math.Abs(logprob(logits, c.IDs[step]) - c.Steps[step].Logprob)
				sum, worst, n = sum+d, max(worst, d), n+1
			})
			s.Release()
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("plan %s: log-probabilities of %d tokens differ by %.4f on average, %.4f at most", cmp.Or(p.plan, "native"), n, sum/float64(n), worst)
		if sum/float64(n) > p.mean || worst > p.worst {
			t.Errorf("plan %s: allowed are %.4f on average, %.4f at most", cmp.Or(p.plan, "native"), p.mean, p.worst)
		}
	}
}

func logprob(logits []float32, id int32) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range logits {
		top = max(top, float64(v))
	}
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return float64(logits[id]) - top - math.Log(sum)
}
