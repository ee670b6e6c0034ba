package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/internal/fault"
)

// Each way of pooling gives what the graph means, to the precision of keys and values.
func TestPoolings(t *testing.T) {
	for name, pooling := range map[string]uint32{"mean": poolMean, "cls": poolCLS, "last": poolLast} {
		path := tinyEncoder(t, pooling, gguf.F32)
		e := openEncoder(t, path, "f32", 2)
		got, n, err := vectorsOf(t.Context(), e, "abc de f", "")
		if err != nil || n != 10 {
			t.Fatalf("%s: %d tokens, %v", name, n, err)
		}
		for i, ids := range [][]int32{slices.Concat([]int32{2}, letters("abc", "de", "f"), []int32{3}), {2, 3}} {
			want := oracle(t, path, ids, len(ids))
			if c := cosine(got[i], want); c < 0.999999 || math.Abs(cosineLength(got[i])-1) > 1e-5 {
				t.Errorf("%s, text %d: cosine %.7f", name, i, c)
			}
		}
	}
}

// The first numbers of a vector, scaled to length one.
func TestDimensions(t *testing.T) {
	e := openEncoder(t, tinyEncoder(t, poolMean, gguf.F32), "", 1)
	embed := func(n int) ([]float32, error) {
		out, err := embedNow(t.Context(), e, &engine.EmbedRequest{Input: []string{"some text"}, Dimensions: n})
		if err != nil {
			return nil, err
		}
		return out.Vectors[0], nil
	}
	whole, err := embed(0)
	if err != nil || len(whole) != tinyEncoderDim {
		t.Fatal(len(whole), err)
	}
	for _, n := range []int{1, 16, 63, 64} {
		v, err := embed(n)
		if err != nil || len(v) != n || math.Abs(cosineLength(v)-1) > 1e-6 || cosine(v, whole[:n]) < 0.999999 {
			t.Errorf("%d numbers: %v, %v", n, v, err)
		}
	}
	for _, n := range []int{-1, 65} {
		if _, err := embed(n); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != "dimensions" || !strings.Contains(err.Error(), "64") {
			t.Errorf("%d numbers: %v", n, err)
		}
	}
}

// A role puts the model's prefix, or the configured one, before the text.
func TestRoles(t *testing.T) {
	path := tinyEncoder(t, poolMean, gguf.F32)
	all, err := New(Config{Threads: 1, Models: []ModelConfig{{ID: "encoder", Path: path, QueryPrefix: "query: "}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Close() })
	embed := func(role engine.InputRole, text string) []float32 {
		out, err := enginetest.Embed(t.Context(), all, &engine.EmbedRequest{Model: "encoder", Input: []string{text}, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return out.Vectors[0]
	}
	if !slices.Equal(embed(engine.RoleQuery, "abc"), embed("", "query: abc")) || slices.Equal(embed(engine.RoleQuery, "abc"), embed("", "abc")) {
		t.Error("a query does not have its prefix")
	}
	if !slices.Equal(embed(engine.RolePassage, "abc"), embed("", "abc")) {
		t.Error("a passage has a prefix that nobody asked for")
	}
}

func TestEncoderRefusals(t *testing.T) {
	embedder := openEncoder(t, tinyEncoder(t, poolMean, gguf.F32), "", 1)
	scorer := openEncoder(t, tinyEncoder(t, poolRank, gguf.F32), "", 1)
	long := strings.Repeat("a", tinyEncoderContext-1)
	_, err := embedNow(t.Context(), embedder, &engine.EmbedRequest{Input: []string{"a", long}})
	if !fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "input[1]" {
		t.Error("a long text:", err)
	}
	if _, err := embedNow(t.Context(), scorer, &engine.EmbedRequest{Input: []string{"a"}}); !fault.Is(err, fault.CodeUnsupported) {
		t.Error("a scorer embeds:", err)
	}
	if _, err := scoreNow(t.Context(), embedder, &engine.ScoreRequest{Query: "a", Documents: []string{"a"}}); !fault.Is(err, fault.CodeUnsupported) {
		t.Error("an embedder scores:", err)
	}
	if _, err := scoreNow(t.Context(), scorer, &engine.ScoreRequest{Query: long, Documents: []string{"a"}}); !fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "query" {
		t.Error("a long query:", err)
	}
	none, err := scoreNow(t.Context(), scorer, &engine.ScoreRequest{Query: long})
	if err != nil || len(none.Scores) != 0 || none.PromptTokens != 0 {
		t.Error("no documents:", none, err)
	}
	if v, n, err := vectorsOf(t.Context(), embedder); err != nil || len(v) != 0 || n != 0 {
		t.Error("no texts:", v, err)
	}
}

// Scores are those of the graph, whatever else is scored with them, and stay between 0 and 1.
func TestScores(t *testing.T) {
	for _, kind := range []gguf.Type{gguf.F32, gguf.Q4_0} {
		path := tinyEncoder(t, poolRank, kind)
		e := openEncoder(t, path, "", 2)
		if !e.info.CanScore || e.info.CanEmbed || e.info.EmbedDim != 0 {
			t.Fatalf("%+v", e.info)
		}
		documents := []string{"ab", "", "a b c d", "the same", strings.Repeat("z", 40)}
		got, err := scoreNow(t.Context(), e, &engine.ScoreRequest{Query: "ab c", Documents: documents})
		if err != nil || len(got.Scores) != len(documents) {
			t.Fatal(got, err)
		}
		within := 1e-3
		if kind != gguf.F32 {
			within = 0.05
		}
		tokens := 0
		for i, d := range documents {
			query, words := letters("ab", "c"), letters(strings.Fields(d)...)
			ids := slices.Concat([]int32{2}, query, []int32{3}, words, []int32{3})
			tokens += len(ids)
			want := 1 / (1 + math.Exp(-float64(oracle(t, path, ids, len(query)+2)[0])))
			if s := got.Scores[i]; math.Abs(s-want) > within || !(s > 0 && s < 1) {
				t.Errorf("%v, %q: %.5f, want %.5f", kind, d, s, want)
			}
			alone, err := scoreNow(t.Context(), e, &engine.ScoreRequest{Query: "ab c", Documents: []string{d}})
			if err != nil || alone.Scores[0] != got.Scores[i] {
				t.Errorf("%v, %q: %v alone, %v among others, %v", kind, d, alone, got.Scores[i], err)
			}
		}
		if got.PromptTokens != tokens {
			t.Errorf("%d tokens, want %d", got.PromptTokens, tokens)
		}
	}
}

// A document that is too long counts as far as there is room.
func TestLongDocumentsAreCut(t *testing.T) {
	e := openEncoder(t, tinyEncoder(t, poolRank, gguf.F32), "", 1)
	score := func(query, document string) (float64, int) {
		out, err := scoreNow(t.Context(), e, &engine.ScoreRequest{Query: query, Documents: []string{document}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Scores[0], out.PromptTokens
	}
	const room = tinyEncoderContext - 3
	half := strings.Repeat("q", room/2)
	cut, n := score(half, strings.Repeat("a b c ", 1000))
	fits, m := score(half, strings.Repeat("a b c ", 1000)[:2*(room-room/2)])
	other, _ := score(half, strings.Repeat("a b c ", 1000)[:2*(room-room/2-1)])
	if cut != fits || n != tinyEncoderContext || m != n || cut == other {
		t.Errorf("%v of %d tokens, %v of %d, one less %v", cut, n, fits, m, other)
	}
	_, err := scoreNow(t.Context(), e, &engine.ScoreRequest{Query: half + "q", Documents: []string{"a", strings.Repeat("a ", 1000)}})
	if !fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "query" {
		t.Error("a query that would have to be cut:", err)
	}
	if _, n := score(half+strings.Repeat("q", room-room/2-1), "a"); n != tinyEncoderContext {
		t.Errorf("a long query with a short document has %d tokens", n)
	}
}

// expected reads what transformers computes with a model of testdata.
func expected[T any](t *testing.T, model string) (list []T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", model, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &list); err != nil || len(list) < 6 {
		t.Fatalf("%d entries: %v", len(list), err)
	}
	return list
}

// From the text to the vector, a directory with a BERT and the tokenizer of XLM-RoBERTa gives what transformers computes.
func TestEmbeddingsEqualTransformers(t *testing.T) {
	for plan, within := range map[string]float64{"f32": 0.999999, "": 0.999999, "int8": 0.995} {
		e := openEncoder(t, filepath.Join("testdata", "tiny-e5"), plan, 2)
		for _, x := range expected[e5Text](t, "tiny-e5") {
			got, err := embedNow(t.Context(), e, &engine.EmbedRequest{Input: []string{x.Text}, Role: x.Role})
			if err != nil {
				t.Fatal(err)
			}
			if c := cosine(got.Vectors[0], x.Vector); got.PromptTokens != x.Tokens || c < within {
				t.Errorf("plan %q, %s %q: %d tokens, want %d, cosine %.7f", plan, x.Role, x.Text, got.PromptTokens, x.Tokens, c)
			}
		}
	}
}

// From the texts to the score, cross-encoders of both kinds give what transformers computes.
func TestScoresEqualTransformers(t *testing.T) {
	for _, model := range []string{"tiny-bert-rerank", "tiny-xlmr-rerank"} {
		for plan, within := range map[string]float64{"f32": 1e-3, "": 1e-3, "int8": 0.05} {
			e := openEncoder(t, filepath.Join("testdata", model), plan, 2)
			for _, x := range expected[struct {
				Query, Document string
				Tokens          int
				Score           float64
			}](t, model) {
				got, err := scoreNow(t.Context(), e, &engine.ScoreRequest{Query: x.Query, Documents: []string{x.Document}})
				if err != nil {
					t.Fatal(err)
				}
				if d := math.Abs(got.Scores[0] - x.Score); got.PromptTokens != x.Tokens || !(d <= within) {
					t.Errorf("%s, plan %q, %.20q: %d tokens, want %d, score %.5f, want %.5f", model, plan, x.Document, got.PromptTokens, x.Tokens, got.Scores[0], x.Score)
				}
			}
		}
	}
}

// Where a batch is interrupted, and what is computed in between on the same threads, changes no bit of a result.
func TestSlicesChangeNothing(t *testing.T) {
	path := tinyEncoder(t, poolMean, gguf.Q4_0)
	texts := []string{"abc", "d", strings.Repeat("long ", 9), "", "x y z"}
	want, _, err := vectorsOf(t.Context(), openEncoder(t, path, "", 1), texts...)
	if err != nil {
		t.Fatal(err)
	}
	pool := threads(t, 2)
	e, between := sharing(openEncoder(t, path, "", 1), pool, func() {}), sharing(openEncoder(t, path, "", 1), pool, nil)
	between.queue.wake = func() { between.work(1000, nil) }
	for _, every := range []int{1, 3, 1000} {
		call := newEncoderCall(t.Context(), "", "", len(texts))
		for i, text := range texts {
			ids := e.tokens.Encode(text)
			call.add(encoderText{index: i, ids: ids, second: len(ids)})
		}
		if err := e.queue.submit(call); err != nil {
			t.Fatal(err)
		}
		times, steps, rows := 0, 0, 0
		for ok := true; ok; ok = e.queue.pending() < sched.Classes {
			rows += e.work(20, func() bool { steps++; return steps%every == 0 })
			times++
			if v, _, err := vectorsOf(t.Context(), between, "abc"); err != nil || fmt.Sprint(v[0]) != fmt.Sprint(want[0]) {
				t.Fatal("between two slices:", err)
			}
		}
		<-call.done
		for i := range texts {
			if fmt.Sprint(call.results[i]) != fmt.Sprint(want[i]) {
				t.Errorf("in slices of %d steps, text %d differs", every, i)
			}
		}
		if every == 1 && times < 20 || rows != call.tokens || e.pass.Pages().InUse() != 0 {
			t.Errorf("%d slices, %d rows of %d, %d pages", times, rows, call.tokens, e.pass.Pages().InUse())
		}
	}
}

// Calls of many tenants at a time, some of which leave, give the same bits as alone, and every page comes back.
func TestRandomEncoderCalls(t *testing.T) {
	path := tinyEncoder(t, poolMean, gguf.Q4_0)
	all := openEncoderEngine(t, path, "", 2)
	e := all.encoders["encoder"]
	texts := make([]string, 60)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range texts {
		var b strings.Builder
		for range r.IntN(tinyEncoderContext - 2) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
		texts[i] = b.String()
	}
	want := make([][]float32, len(texts))
	alone := openEncoder(t, path, "", 1)
	for i, text := range texts {
		v, _, err := vectorsOf(t.Context(), alone, text)
		if err != nil {
			t.Fatal(err)
		}
		want[i] = v[0]
	}
	classes := []engine.Class{"", engine.ClassInteractive, engine.ClassStandard, engine.ClassBatch}
	calls := 150
	if testing.Short() {
		calls = 40
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 7))
			for range calls {
				ctx, cancel := context.WithCancel(t.Context())
				which := r.Perm(len(texts))[:1+r.IntN(20)]
				req := &engine.EmbedRequest{Tenant: fmt.Sprint(r.IntN(3)), Class: classes[r.IntN(4)]}
				for _, i := range which {
					req.Input = append(req.Input, texts[i])
				}
				leaves := r.IntN(4) == 0
				if leaves {
					go cancel()
				}
				out, err := embedNow(ctx, e, req)
				cancel()
				switch {
				case err != nil && !(leaves && errors.Is(err, context.Canceled)):
					t.Error(err)
				case err == nil:
					for at, i := range which {
						if !slices.Equal(out.Vectors[at], want[i]) {
							t.Errorf("text %d differs", i)
						}
					}
				}
			}
		})
	}
	group.Wait()
	settled(t, all)
	if ok := e.queue.pending() < sched.Classes; ok || e.pass.Pages().InUse() != 0 || e.queue.tokens != 0 || len(e.queue.running) != 0 {
		t.Errorf("pending %v, %d pages, %d tokens", ok, e.pass.Pages().InUse(), e.queue.tokens)
	}
}

// Nobody waits for what nobody wants any more: a batch whose callers left is given up at the next step.
func TestAbandonedBatches(t *testing.T) {
	woken := make(chan struct{}, 1)
	e := sharing(openEncoder(t, tinyEncoder(t, poolMean, gguf.F32), "", 1), threads(t, 1), func() { woken <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := vectorsOf(ctx, e, "abc", "def")
		left <- err
	}()
	<-woken
	if rows := e.work(100, func() bool { return true }); rows != 0 {
		t.Fatalf("%d rows after one step", rows)
	}
	if class := e.queue.pending(); class != sched.Standard {
		t.Error("what is being computed is not pending:", class)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if e.queue.pending() == sched.Classes {
		t.Error("an abandoned batch has to be ended")
	}
	steps := 0
	if rows := e.work(100, func() bool { steps++; return false }); rows != 10 || steps != 0 || e.pass.Pages().InUse() != 0 {
		t.Errorf("%d rows, %d further steps, %d pages", rows, steps, e.pass.Pages().InUse())
	}
	if e.queue.pending() < sched.Classes {
		t.Error("something is left")
	}
}

func TestClosedEncoders(t *testing.T) {
	path := tinyEncoder(t, poolMean, gguf.F32)
	e := openEncoder(t, path, "", 1)
	woken := make(chan struct{}, 3)
	e.queue.wake = func() { woken <- struct{}{} } // nobody computes
	ended := make(chan error)
	for range 3 {
		go func() {
			_, _, err := vectorsOf(t.Context(), e, "abc", "def")
			ended <- err
		}()
	}
	for range 3 {
		<-woken
	}
	e.work(1, func() bool { return true })
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-ended; !fault.Is(err, fault.CodeEngineUnavailable) {
			t.Error(err)
		}
	}
	if _, _, err := vectorsOf(t.Context(), e, "abc"); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Error(err)
	}
	if e.work(1, nil) != 5 || e.pass.Pages().InUse() != 0 {
		t.Error("a batch is left behind")
	}
}

// An engine that is closed does not compute first what waits.
func TestCloseEndsEncoderCalls(t *testing.T) {
	e, err := New(Config{Threads: 1, Models: []ModelConfig{{ID: "enc", Path: tinyEncoder(t, poolMean, gguf.F32)}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	var once sync.Once
	q := &e.encoders["enc"].queue
	wake := q.wake
	q.wake = func() { wake(); once.Do(func() { close(begun) }) }
	ended := make(chan error)
	go func() {
		_, err := enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "enc", Input: slices.Repeat([]string{strings.Repeat("abc def ", 5)}, 15_000)})
		ended <- err
	}()
	<-begun
	go func() { _ = e.Close() }()
	if err := <-ended; !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// embedNow prepares a request and runs it.
func embedNow(ctx context.Context, e *encoder, req *engine.EmbedRequest) (*engine.Embeddings, error) {
	p, err := e.prepareEmbed(ctx, req)
	if err != nil {
		return nil, err
	}
	return e.embed(ctx, p)
}

// scoreNow prepares a request and runs it.
func scoreNow(ctx context.Context, e *encoder, req *engine.ScoreRequest) (*engine.Scores, error) {
	p, err := e.prepareScore(ctx, req)
	if err != nil {
		return nil, err
	}
	return e.score(ctx, p)
}
