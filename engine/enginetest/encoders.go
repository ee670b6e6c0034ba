package enginetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

func (s *suite) needEmbed() {
	s.Helper()
	if s.opt.Embed == "" {
		s.Skip("the engine under test does not embed")
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// embedShapes: roles give vectors of the same kind, and fewer dimensions are the first ones.
func (s *suite) embedShapes() {
	s.needEmbed()
	in := []string{"the river rises", "河水上涨"}
	ask := func(role engine.InputRole, dim int) [][]float32 {
		out, err := Embed(s.ctx, s.e, &engine.EmbedRequest{Model: s.opt.Embed, Input: in, Role: role, Dimensions: dim, Tenant: "a", Class: engine.ClassBatch})
		if err != nil {
			s.Fatal(err)
		}
		want := dim
		if dim == 0 {
			want = s.embedder.EmbedDim
		}
		for _, v := range out.Vectors {
			if len(v) != want || math.Abs(dot(v, v)-1) > 1e-3 {
				s.Fatalf("role %q, dimensions %d: %d values of squared length %v", role, dim, len(v), dot(v, v))
			}
		}
		return out.Vectors
	}
	for _, role := range []engine.InputRole{"", engine.RoleQuery, engine.RolePassage} {
		whole := ask(role, 0)
		for _, dim := range []int{1, s.embedder.EmbedDim / 2, s.embedder.EmbedDim} {
			for i, v := range ask(role, dim) {
				head := whole[i][:dim]
				if cos := dot(head, v) / math.Sqrt(dot(head, head)); cos < 1-1e-4 {
					s.Errorf("role %q: the first %d values differ, cosine %v", role, dim, cos)
				}
			}
		}
	}
	if s.opt.Roles {
		query, passage, plain := ask(engine.RoleQuery, 0), ask(engine.RolePassage, 0), ask("", 0)
		for _, pair := range [][2][]float32{{query[0], passage[0]}, {query[0], plain[0]}, {passage[0], plain[0]}} {
			if cos := dot(pair[0], pair[1]); cos > 1-1e-5 {
				s.Errorf("a text has one vector in two roles: cosine %v", cos)
			}
		}
	}
	for _, dim := range []int{-1, s.embedder.EmbedDim + 1} {
		_, err := Embed(s.ctx, s.e, &engine.EmbedRequest{Model: s.opt.Embed, Input: in, Dimensions: dim})
		if (!fault.Is(err, fault.CodeInvalidValue) && !fault.Is(err, fault.CodeUnsupported)) || fault.Public(err).Param() != "dimensions" {
			s.Errorf("%d dimensions: %v", dim, err)
		}
	}
}

// embedOdd: no texts, texts without letters, many texts and one that is too long.
func (s *suite) embedOdd() {
	s.needEmbed()
	ask := func(in ...string) (*engine.Embeddings, error) {
		return Embed(s.ctx, s.e, &engine.EmbedRequest{Model: s.opt.Embed, Input: in})
	}
	if out, err := ask(); err != nil && !fault.Is(err, fault.CodeInvalidValue) || err == nil && len(out.Vectors) != 0 {
		s.Errorf("no texts: %v", err)
	}
	for _, odd := range []string{"", " \n", "\x00\xff", "😀"} {
		out, err := ask("before", odd, "after")
		switch {
		case fault.Is(err, fault.CodeInvalidValue):
		case err != nil:
			s.Errorf("%q: %v", odd, err)
		case len(out.Vectors) != 3 || math.Abs(dot(out.Vectors[1], out.Vectors[1])-1) > 1e-3:
			s.Errorf("%q: %d vectors", odd, len(out.Vectors))
		}
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = strings.Repeat("word ", 1+i%7)
	}
	out, err := ask(many...)
	if err != nil {
		s.Fatal(err)
	}
	for i := range many {
		if cos := dot(out.Vectors[i], out.Vectors[i%7]); cos < 0.999 {
			s.Errorf("text %d of a batch differs from its equal %d: cosine %v", i, i%7, cos)
		}
	}
	if s.embedder.ContextTokens > 0 {
		if _, err := ask("short", strings.Repeat("river ", 2*s.embedder.ContextTokens)); !fault.Is(err, fault.CodeContextLength) {
			s.Errorf("a text that is too long: %v", err)
		}
	}
}

func (s *suite) needScore() {
	s.Helper()
	if s.opt.Score == "" {
		s.Skip("the engine under test does not score")
	}
}

func (s *suite) score(query string, documents ...string) []float64 {
	s.Helper()
	out, err := Score(s.ctx, s.e, &engine.ScoreRequest{Model: s.opt.Score, Query: query, Documents: documents, Tenant: "a"})
	if err != nil {
		s.Fatal(err)
	}
	if len(out.Scores) != len(documents) || out.Model == "" || len(documents) > 0 && out.PromptTokens <= 0 {
		s.Fatalf("%d scores of %d documents, usage %d, model %q", len(out.Scores), len(documents), out.PromptTokens, out.Model)
	}
	for i, v := range out.Scores {
		if !(v >= 0 && v <= 1) {
			s.Errorf("document %d has the score %v", i, v)
		}
	}
	return out.Scores
}

// scores come in the order of their documents, whatever else is scored or generated, and tell documents apart.
func (s *suite) scores() {
	s.needScore()
	docs := []string{"the river", "a ledger of the town bank", "abc", "river and flood in spring"}
	want := s.score("river flood", docs...)
	if slices.Max(want) == slices.Min(want) {
		s.Errorf("all documents have the score %v", want[0])
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-3 }
	for i, d := range docs {
		if got := s.score("river flood", d)[0]; !near(got, want[i]) {
			s.Errorf("document %d has %v alone, %v among others", i, got, want[i])
		}
	}
	back := slices.Clone(docs)
	slices.Reverse(back)
	for i, v := range s.score("river flood", back...) {
		if !near(v, want[len(docs)-1-i]) {
			s.Errorf("document %d has %v from behind, %v before", i, v, want[len(docs)-1-i])
		}
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			out, err := Score(s.ctx, s.e, &engine.ScoreRequest{Model: s.opt.Score, Query: "river flood", Documents: docs})
			if err != nil {
				s.Errorf("together: %v", err)
				return
			}
			for i, v := range out.Scores {
				if !near(v, want[i]) {
					s.Errorf("document %d has %v beside others, %v alone", i, v, want[i])
				}
			}
		})
		if s.opt.Generate != "" {
			wg.Go(func() {
				if r := s.collect(s.ctx, s.request()); r.err != nil {
					s.Errorf("a generation beside scores: %v", r.err)
				}
			})
		}
	}
	wg.Wait()
}

// scoreOdd: no documents, empty ones, long ones, models that do not score, and callers who left.
func (s *suite) scoreOdd() {
	s.needScore()
	ask := func(ctx context.Context, model engine.ModelID, documents ...string) error {
		_, err := Score(ctx, s.e, &engine.ScoreRequest{Model: model, Query: "river", Documents: documents})
		return err
	}
	if err := ask(s.ctx, s.opt.Score); err != nil && !fault.Is(err, fault.CodeInvalidValue) {
		s.Errorf("no documents: %v", err)
	}
	if err := ask(s.ctx, s.opt.Score, "river", ""); err != nil && !fault.Is(err, fault.CodeInvalidValue) {
		s.Errorf("an empty document: %v", err)
	}
	if s.scorer.ContextTokens > 0 { // a long document is cut or refused
		if err := ask(s.ctx, s.opt.Score, strings.Repeat("river ", 2*s.scorer.ContextTokens)); err != nil && !fault.Is(err, fault.CodeContextLength) {
			s.Errorf("a long document: %v", err)
		}
	}
	if err := ask(s.ctx, "no-such-model", "a"); !fault.Is(err, fault.CodeModelNotFound) {
		s.Errorf("an unknown model: %v", err)
	}
	if s.opt.Embed != "" {
		if err := ask(s.ctx, s.opt.Embed, "a"); !fault.Is(err, fault.CodeUnsupported) {
			s.Errorf("a model that embeds: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := ask(ctx, s.opt.Score, "a"); !errors.Is(err, context.Canceled) {
		s.Errorf("a caller who left: %v", err)
	}
}
