package rag

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// Query asks for passages.
type Query struct {
	Tenant, Collection string
	Labels             []string // the principal's
	Text               string
	TopK               int // 0: the configured number
}

// Passage is a piece of a document: what it says and where it stands.
type Passage struct {
	Collection, Document, DocumentID, Version string
	Title, Section                            string // of the document; the headings above the passage
	Chunk                                     int    // its number in the document, from 0
	Text                                      string
	Start, End                                int     // bytes of the document's extracted text
	Score                                     float64 // 0…1, comparable within one answer only
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
	sh, err := s.visible(q.Tenant, q.Collection, q.Labels)
	if err != nil {
		return nil, err
	}
	if q.TopK == 0 {
		q.TopK = s.cfg.TopK
	}
	if q.TopK < 0 || q.TopK > s.cfg.MaxTopK {
		return nil, fault.New(fault.CodeInvalidValue, "top_k", fmt.Sprintf("must lie between 1 and %d", s.cfg.MaxTopK)).WithParam("top_k")
	}
	if strings.TrimSpace(q.Text) == "" {
		return nil, fault.New(fault.CodeMissing, "query").WithParam("query")
	}
	if len(q.Text) > maxQuery || !utf8.ValidString(q.Text) {
		return nil, fault.New(fault.CodeInvalidValue, "query", fmt.Sprintf("must be UTF-8 text of at most %d bytes", maxQuery)).WithParam("query")
	}
	vectors, err := s.embed(ctx, []string{q.Text})
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, q.Collection)
	}
	out, err := sh.search(ctx, q.Text, vectors[0], q.Labels, q.TopK)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, q.Collection)
	}
	return out, nil
}

// embedBatch is the number of texts embedded by one call.
const embedBatch = 32

// embed returns one vector per text, and checks what the embedder promised.
func (s *Service) embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for from := 0; from < len(texts); from += embedBatch {
		part := texts[from:min(from+embedBatch, len(texts))]
		vectors, err := s.embedder.Embed(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("embed: %w", err)
		}
		if len(vectors) != len(part) {
			return nil, errors.New("embed: the embedder returned another number of vectors")
		}
		for _, v := range vectors {
			if len(v) != s.embedder.Dim() {
				return nil, fmt.Errorf("embed: a vector has %d components instead of %d", len(v), s.embedder.Dim())
			}
		}
		out = append(out, vectors...)
	}
	return out, nil
}
