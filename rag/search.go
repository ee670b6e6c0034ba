package rag

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/index"
)

// Query asks for passages.
type Query struct {
	Tenant, Collection string
	Labels             []string // the principal's
	Principals, Roles  []string // see Reader
	Purpose            string
	AsOf               time.Time // what was in effect then; zero: now. It does not lie in the future
	Text               string
	TopK               int // from 1 to Config.MaxTopK
	Embed              EmbedFunc
	Trace              *Trace // filled by a search, unless nil
	// FAQScores has the entries of a FAQ that are found held against the question.
	FAQScores bool
	// FAQ does, too, and has the collection follow the tables first, so that the entry of a FAQ that the question asks, which the trace has, is as any replica has left it.
	FAQ bool
}

// Trace says what a search has done with its question.
type Trace struct {
	Expanded []Expansion // by the collection's glossary; a search whose caller may see nothing has none
	// FAQ is the entry that the question most likely asks, with its match, if that was wanted; nil for none, and where it may not be as the tables say.
	FAQ *Passage
}

func (q Query) viewer() viewer {
	return viewer{labels: q.Labels, principals: q.Principals, roles: q.Roles, purpose: q.Purpose}
}

// asOf reads a time of the past; 0 is now. What comes into effect later is nobody's to read before: a time in the future is CodeInvalidValue.
func (s *Service) asOf(at time.Time) (int64, error) {
	if at.IsZero() {
		return 0, nil
	}
	if at.After(s.now()) || at.UnixMicro() <= 0 {
		return 0, fault.New(fault.CodeInvalidValue, "as_of", fault.Say("rag.as_of")).WithParam("as_of")
	}
	return at.UnixMicro(), nil
}

// Passage is a chunk of a document: its text and its position.
type Passage struct {
	Collection, Document, DocumentID, Version string
	Title, Section                            string // of the document; the headings above the passage, and its pages
	Chunk                                     int    // its number in the document, from 0
	Text                                      string
	Start, End                                int     // bytes of the document's extracted text
	Score                                     float64 // 0…1, comparable within one answer only
	Known                                     []Known // what is sensitive, as the document says
	Revision                                  int64   // of the collection's newest document: another one after whatever came in
	// ByWords says that the passage was found by its words alone: its vector is another model's, until it is made anew.
	ByWords bool
	// Evidence is how likely this passage and those before it, taken together, answer the question: 0…1, and comparable between questions (package
	// rag/rank). It is 0 of a passage that was not searched for.
	Evidence float64
	// Duplicates is how many passages with the same text a search has found behind this one, and left out.
	Duplicates int
	// FAQ says how the question matches the entry of a FAQ that the passage is; nil of other passages, and of entries that were not compared: unless the query wants it none is.
	FAQ *FAQMatch

	faq string // the entry that it is, as encodeFAQ writes it
}

// maxQuery bounds the text of a query, in bytes.
const maxQuery = 32 << 10

// Search returns the best passages that the principal may see, best first; none if nothing may be seen. Every failure to search
// is CodeRetrievalFailed: an empty answer always means that there is nothing.
func (s *Service) Search(ctx context.Context, q Query) ([]Passage, error) {
	start := time.Now()
	out, err := s.search(ctx, q)
	s.metrics.searched(time.Since(start), err)
	return out, err
}

func (s *Service) search(ctx context.Context, q Query) ([]Passage, error) {
	ci, err := s.visible(q.Tenant, q.Collection, q.Labels)
	if err != nil {
		return nil, err
	}
	if q.TopK < 1 || q.TopK > s.cfg.MaxTopK {
		return nil, fault.New(fault.CodeInvalidValue, "top_k", fault.Say("value.from_one", s.cfg.MaxTopK)).WithParam("top_k")
	}
	if strings.TrimSpace(q.Text) == "" {
		return nil, fault.New(fault.CodeMissing, "query").WithParam("query")
	}
	if len(q.Text) > maxQuery || !utf8.ValidString(q.Text) {
		return nil, fault.New(fault.CodeInvalidValue, "query", fault.Say("value.utf8_text", maxQuery)).WithParam("query")
	}
	at, err := s.asOf(q.AsOf)
	if err != nil {
		return nil, err
	}
	vectors, err := s.embed(ctx, q.Embed, []string{q.Text}, true)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, q.Collection)
	}
	// The question may have waited long for its vector: what became of the collection meanwhile holds.
	before := ci.id
	if ci, err = s.visible(q.Tenant, q.Collection, q.Labels); err != nil {
		return nil, err
	}
	if ci.id != before {
		return nil, noCollection(q.Collection)
	}
	fresh := q.FAQ && q.Trace != nil
	if fresh {
		fresh = s.catchUp(ctx, ci) == nil
		if err := s.answers(ci); err != nil {
			return nil, err
		}
	}
	// The vector is that of the question as it stands: terms of a glossary have passed no policy, and the embedding model may be another's.
	forms, expanded := ci.forms(q.Text)
	var match func([]Passage) (*Passage, error)
	if fresh || q.FAQScores {
		match = func(found []Passage) (*Passage, error) { return s.matchFAQ(ctx, forms, found) }
	}
	out, hit, err := ci.search(ctx, s.weights, forms, vectors[0], q.viewer(), at, q.TopK, match)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, q.Collection)
	}
	if q.Trace != nil && len(out) > 0 {
		q.Trace.Expanded = expanded
		if fresh {
			q.Trace.FAQ = hit
		}
	}
	return out, nil
}

// embedBatch is the number of texts embedded by one call. Larger batches are no faster on a CPU, and the question of a search waits
// for the batch of a document that is being embedded.
const embedBatch = 8

// embed returns one vector per text, and checks what vectors promises.
func (s *Service) embed(ctx context.Context, vectors EmbedFunc, texts []string, question bool) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for part := range slices.Chunk(texts, embedBatch) {
		some, err := s.embedWhole(ctx, vectors, part, question)
		if err != nil {
			return nil, fmt.Errorf("embed: %w", err)
		}
		for _, v := range some {
			if s.embedder.Reduce != nil {
				if v, err = s.embedder.Reduce.Apply(v); err != nil {
					return nil, fmt.Errorf("embed: %w", err)
				}
			}
			out = append(out, v)
		}
	}
	return out, nil
}

// embedWhole embeds texts of any length. How many tokens a text has depends on the model and the language, so too long a text is
// what the engine says it is: it is halved, and its vector is the mean of its parts' directions. Nothing is left out.
func (s *Service) embedWhole(ctx context.Context, vectors EmbedFunc, texts []string, question bool) ([][]float32, error) {
	got, err := vectors(ctx, texts, question)
	switch {
	case err == nil:
		return got, s.checkVectors(got, len(texts))
	case !fault.Is(err, fault.CodeContextLength):
		return nil, err
	case len(texts) > 1:
		half := len(texts) / 2
		first, err := s.embedWhole(ctx, vectors, texts[:half], question)
		if err != nil {
			return nil, err
		}
		second, err := s.embedWhole(ctx, vectors, texts[half:], question)
		return append(first, second...), err
	}
	runes := []rune(texts[0])
	if len(runes) < 2 {
		return nil, err
	}
	parts, err := s.embedWhole(ctx, vectors, []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}, question)
	if err != nil {
		return nil, err
	}
	return [][]float32{mean(parts)}, nil
}

func (s *Service) checkVectors(vectors [][]float32, want int) error {
	if len(vectors) != want {
		return errors.New("the engine returned another number of vectors")
	}
	for _, v := range vectors {
		if err := index.Check(v, s.embedder.Dim); err != nil {
			return err
		}
	}
	return nil
}

// mean returns the mean of the vectors' directions.
func mean(vectors [][]float32) []float32 {
	sum := make([]float64, len(vectors[0]))
	for _, v := range vectors {
		var length float64
		for _, c := range v {
			length += float64(c) * float64(c)
		}
		if length == 0 {
			continue
		}
		for i, c := range v {
			sum[i] += float64(c) / math.Sqrt(length)
		}
	}
	out := make([]float32, len(sum))
	for i, c := range sum {
		out[i] = float32(c / float64(len(vectors)))
	}
	return out
}
