package native

import (
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/testmodel"
)

type reference struct {
	Cases []struct {
		Name      string
		Messages  []engine.Message
		Prompt    string
		PromptIDs []int32 `json:"prompt_ids"`
		IDs       []int32
		Text      string
		Stop      string
		FirstTop  []refToken `json:"first_top20"`
		Steps     []refToken
	}
}

type refToken struct {
	ID              int32
	Logprob, Margin float64
}

func readReference(t testing.TB, name string) reference {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// loadRunner opens the real model.
func loadRunner(t testing.TB, threads int, plan string) *Runner {
	t.Helper()
	r, err := OpenRunner(RunnerConfig{Path: testmodel.Path(t, testmodel.SmolLM2), Plan: plan, Threads: threads, Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func logprob(logits []float32, id int32) float64 {
	top := float64(slices.Max(logits))
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return float64(logits[id]) - top - math.Log(sum)
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// teacherForced feeds the prompt and the reference's own tokens and returns the logits by which each of those was chosen.
func teacherForced(t *testing.T, r *Runner, prompt, ids []int32) [][]float32 {
	t.Helper()
	s := r.NewSequence()
	defer s.Release()
	var out [][]float32
	err := r.Feed(s, append(slices.Clone(prompt), ids[:len(ids)-1]...), 64, len(prompt)-1, func(_ int, logits []float32) {
		out = append(out, slices.Clone(logits))
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The float32 path computes what an independent implementation computes.
func TestFloat32PathEqualsExactAnswer(t *testing.T) {
	if testing.Short() || kernel.Detect(slog.Default()).ISA() == "generic" {
		t.Skip("takes minutes on the reference kernels and long under the race detector")
	}
	r := loadRunner(t, 2, PlanF32)
	for _, c := range readReference(t, "smollm2-q4_1-numpy-fp32.json").Cases {
		ids := c.IDs[:min(len(c.IDs), 24)]
		for i, logits := range teacherForced(t, r, c.PromptIDs, ids) {
			want := c.Steps[i]
			if d := math.Abs(logprob(logits, want.ID) - want.Logprob); d > 0.01 {
				t.Errorf("%s: step %d: log-probability off by %.4f", c.Name, i, d)
			}
			if want.Margin >= 0.02 && argmax(logits) != want.ID {
				t.Errorf("%s: step %d: chose %d, want %d (margin %.3f)", c.Name, i, argmax(logits), want.ID, want.Margin)
			}
			if i == 0 {
				compareTop(t, c.Name, logits, c.FirstTop, 0.01)
			}
		}
	}
}

// The path that serves: four-bit blocks times eight-bit activations.
func TestQuantisedPathIsCloseToExactAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector")
	}
	r := loadRunner(t, 2, "")
	for _, c := range readReference(t, "smollm2-q4_1-numpy-fp32.json").Cases {
		sum, worst := 0.0, 0.0
		for i, logits := range teacherForced(t, r, c.PromptIDs, c.IDs) {
			want := c.Steps[i]
			d := math.Abs(logprob(logits, want.ID) - want.Logprob)
			sum, worst = sum+d, max(worst, d)
			if i == 0 && want.Margin >= 0.3 && argmax(logits) != want.ID {
				t.Errorf("%s: the first token is %d, want %d", c.Name, argmax(logits), want.ID)
			}
		}
		mean := sum / float64(len(c.IDs))
		t.Logf("%s: log-probabilities differ by %.4f on average, %.4f at most", c.Name, mean, worst)
		if mean > 0.12 || worst > 0.35 {
			t.Errorf("%s: log-probabilities differ by %.3f on average, %.3f at most", c.Name, mean, worst)
		}
	}
}

// TestAnswersAgreeWithLlamaCpp asks the engine as the gateway does. Prompts, chats among them, become llama.cpp's token ids; the
// first token is its choice where the margin is no accident, and of two that are all but equal everywhere else; its five likeliest
// tokens have its log-probabilities, and ours are the ones it ranks in front.
func TestAnswersAgreeWithLlamaCpp(t *testing.T) {
	e := openEngine(t, Config{})
	g := e.generators[smol]
	r := loadRunner(t, 2, "")
	cases, chats, ranked := readReference(t, "smollm2-q4_1-llamacpp.json").Cases, 0, 0
	for _, c := range cases {
		req := &engine.Request{Model: smol, Messages: c.Messages, MaxTokens: 1, Logprobs: 5}
		if len(c.Messages) == 0 {
			req.Prompt = c.Prompt // of a chat, the file has the rendered one
		} else {
			chats++
		}
		if ids, err := g.encode(req); err != nil || !slices.Equal(ids, c.PromptIDs) {
			t.Errorf("%s: the prompt is %v, want %v (%v)", c.Name, ids, c.PromptIDs, err)
			continue
		}
		got := collect(t.Context(), e, req)
		if got.err != nil || len(got.logprobs[0]) != 1 || len(got.logprobs[0][0].Top) != 5 {
			t.Errorf("%s: %+v", c.Name, got)
			continue
		}
		logits, choice := teacherForced(t, r, c.PromptIDs, c.IDs[:1])[0], got.logprobs[0][0]
		if want := g.tokens.Name(c.IDs[0]); choice.Token != want && choice.Logprob-logprob(logits, c.IDs[0]) >= 0.3 {
			t.Errorf("%s: the first token is %q with %.3f, want %q, which has %.3f", c.Name, choice.Token, choice.Logprob, want, logprob(logits, c.IDs[0]))
		}
		if len(c.FirstTop) == 0 {
			continue // for one chat the file has the ids only
		}
		ranked++
		if c.Steps[0].Margin >= 0.3 && choice.Token != g.tokens.Name(c.IDs[0]) {
			t.Errorf("%s: the first token is %q, want %q", c.Name, choice.Token, g.tokens.Name(c.IDs[0]))
		}
		compareTop(t, c.Name, logits, c.FirstTop, 0.35)
		for _, top := range choice.Top {
			i := slices.IndexFunc(c.FirstTop, func(r refToken) bool { return g.tokens.Name(r.ID) == top.Token })
			if i < 0 || math.Abs(c.FirstTop[i].Logprob-top.Logprob) > 0.35 {
				t.Errorf("%s: %q is among the five likeliest with %.4f, which llama.cpp does not say", c.Name, top.Token, top.Logprob)
			}
		}
	}
	if len(cases) != 5 || chats != 2 || ranked != 4 {
		t.Errorf("%d cases, %d of them chats, %d with probabilities: the reference is not complete", len(cases), chats, ranked)
	}
}

func compareTop(t *testing.T, name string, logits []float32, want []refToken, tolerance float64) {
	t.Helper()
	for _, w := range want[:5] {
		if got := logprob(logits, w.ID); math.Abs(got-w.Logprob) > tolerance {
			t.Errorf("%s: log-probability of token %d is %.4f, want %.4f", name, w.ID, got, w.Logprob)
		}
	}
}
