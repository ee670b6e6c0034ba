package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/testmodel"
)

type sentence struct {
	Text   string
	Tokens int
	Vector []float32
}

func sentences(t testing.TB) []sentence {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "minilm.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []sentence
	if err := json.Unmarshal(data, &list); err != nil || len(list) < 12 {
		t.Fatalf("%d sentences: %v", len(list), err)
	}
	return list
}

func miniLM(t testing.TB, threads int) *encoder {
	t.Helper()
	e := openMiniLM(t, testmodel.Path(t, testmodel.MiniLM), threads, "")
	return e
}

// openMiniLM opens an encoder of its own.
func openMiniLM(t testing.TB, path string, threads int, plan string) *encoder {
	t.Helper()
	e, err := New(Config{Threads: threads, Models: []ModelConfig{{ID: "minilm", Path: path, Precision: plan}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e.encoders["minilm"]
}

// sharing returns an encoder with the weights of another one and a queue of its own, which computes on the threads of pool.
func sharing(e *encoder, pool *exec.Pool, wake func()) *encoder {
	own := &encoder{info: e.info, tokens: e.tokens, queryPrefix: e.queryPrefix, passagePrefix: e.passagePrefix, prog: e.prog}
	own.queue.init(string(e.info.ID), wake)
	own.pass = e.prog.NewPass(e.pass.Kernels(), pool)
	return own
}

// threads returns a pool that ends with the test.
func threads(t testing.TB, n int) *exec.Pool {
	t.Helper()
	pool := exec.NewPool(n)
	t.Cleanup(pool.Close)
	return pool
}

// vectorsOf embeds texts and says how many tokens they have.
func vectorsOf(ctx context.Context, e *encoder, texts ...string) ([][]float32, int, error) {
	out, err := embedNow(ctx, e, &engine.EmbedRequest{Input: texts})
	if err != nil {
		return nil, 0, err
	}
	return out.Vectors, out.PromptTokens, nil
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(aa*bb)
}

func TestBERTEqualsReference(t *testing.T) {
	b := miniLM(t, 2)
	list := sentences(t)
	var texts []string
	tokens := 0
	for _, s := range list {
		texts = append(texts, s.Text)
		tokens += s.Tokens
	}
	vectors, n, err := vectorsOf(t.Context(), b, texts...)
	if err != nil || len(vectors) != len(list) || n != tokens {
		t.Fatalf("%d vectors, %d tokens of %d, %v", len(vectors), n, tokens, err)
	}
	worst := 1.0
	for i, s := range list {
		c := cosine(vectors[i], s.Vector)
		worst = min(worst, c)
		if length := cosineLength(vectors[i]); c < 0.99999 || math.Abs(length-1) > 1e-5 || len(vectors[i]) != b.info.EmbedDim {
			t.Errorf("%.40q: cosine %.7f, length %.7f", s.Text, c, length)
		}
	}
	t.Logf("smallest cosine to the reference: %.9f", worst)
}

func cosineLength(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

func TestBERTKnowsMeaning(t *testing.T) {
	b := miniLM(t, 2)
	v, _, err := vectorsOf(t.Context(), b,
		"How do I reset my password?", "Steps to recover access to an account after forgetting the passphrase", "The recipe calls for two cups of flour and one egg.",
	)
	if err != nil {
		t.Fatal(err)
	}
	if near, far := cosine(v[0], v[1]), cosine(v[0], v[2]); near < far+0.3 {
		t.Errorf("related texts %.3f, unrelated ones %.3f", near, far)
	}
}

// A vector is the same bits alone, in a batch, and on any number of threads.
func TestBERTVectorsDoNotDependOnTheBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector")
	}
	texts := []string{"one", "two words", strings.Repeat("long text ", 100), "用中文", strings.Repeat("another long one ", 70), "last"}
	batch, _, err := vectorsOf(t.Context(), miniLM(t, 3), texts...)
	if err != nil {
		t.Fatal(err)
	}
	single := miniLM(t, 1)
	for i, text := range texts {
		alone, _, err := vectorsOf(t.Context(), single, text)
		if err != nil || !slices.Equal(alone[0], batch[i]) {
			t.Errorf("%.20q differs alone: %v", text, err)
		}
	}
}

func TestBERTRefusesLongTexts(t *testing.T) {
	b := miniLM(t, 2)
	if b.info.ContextTokens != 256 || !strings.HasPrefix(b.info.Digest, "sha256:53aa51172d14") {
		t.Errorf("%d tokens, %s", b.info.ContextTokens, b.info.Digest)
	}
	fits := strings.Repeat("a ", 254)
	if _, n, err := vectorsOf(t.Context(), b, fits); err != nil || n != 256 {
		t.Errorf("%d tokens, %v", n, err)
	}
	_, _, err := vectorsOf(t.Context(), b, "short", fits+"a")
	if !fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "input[1]" || !strings.Contains(err.Error(), "256") || !strings.Contains(err.Error(), "257") {
		t.Errorf("error %v", err)
	}
}

// modelWith copies the small files of the model and links its weights, with one file replaced.
func modelWith(t *testing.T, name, content string) string {
	t.Helper()
	source, dir := testmodel.Path(t, testmodel.MiniLM), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "1_Pooling"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"config.json", "tokenizer.json", "model.safetensors", "sentence_bert_config.json", "1_Pooling/config.json"} {
		var err error
		if f == name {
			err = os.WriteFile(filepath.Join(dir, f), []byte(content), 0o600)
		} else {
			err = os.Symlink(filepath.Join(source, f), filepath.Join(dir, f))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadBERTRefuses(t *testing.T) {
	config := func(change string) string {
		fields := map[string]any{
			"model_type": "bert", "hidden_act": "gelu", "hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 12, "num_hidden_layers": 6,
			"max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30522, "layer_norm_eps": 1e-12,
		}
		if err := json.Unmarshal([]byte(change), &fields); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for i, c := range []struct{ file, content, want string }{
		{"config.json", config(`{"model_type":"roberta"}`), "roberta"},
		{"config.json", config(`{"hidden_act":"mish"}`), "mish"},
		{"config.json", config(`{"num_attention_heads":7}`), "[378 384]"},
		{"config.json", config(`{"hidden_size":0}`), "the width is 0"},
		{"config.json", config(`{"hidden_size":768}`), "shape"},
		{"config.json", config(`{"num_hidden_layers":7}`), "encoder.layer.6"},
		{"config.json", config(`{"vocab_size":100}`), "30522"},
		{"config.json", config(`{"layer_norm_eps":0}`), "epsilon of the norms is 0"},
		{"config.json", `{`, "config.json"},
		{"tokenizer.json", `{}`, "tokenizer"},
		{"model.safetensors", `short`, "safetensors"},
		{"sentence_bert_config.json", `[]`, "sentence_bert_config.json"},
		{"1_Pooling/config.json", `{"pooling_mode_weightedmean_tokens":true}`, "pooling"},
	} {
		e, err := New(Config{Models: []ModelConfig{{ID: "m", Path: modelWith(t, c.file, c.content)}}}, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			_ = e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d, %s: error %v, want %q", i, c.file, err, c.want)
		}
	}
	if _, err := New(Config{Models: []ModelConfig{{ID: "m", Path: t.TempDir()}}}, slog.New(slog.DiscardHandler), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("empty directory: %v", err)
	}
}

func BenchmarkBERT(b *testing.B) {
	m := miniLM(b, 0)
	for _, words := range []int{8, 120, 250} {
		b.Run(fmt.Sprint(words, " words"), func(b *testing.B) {
			text := strings.Repeat("word ", words)
			for b.Loop() {
				if _, _, err := vectorsOf(b.Context(), m, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
