package server

import (
	"context"
	"fmt"

	"github.com/sluice-project/sluice/engine"
)

// embedder gives retrieval the vectors of the native engine. Documents and queries are embedded for the index; nothing is
// generated, so this is no second way to a model's answers.
type embedder struct {
	engine engine.Engine
	model  engine.ModelID
	dim    int
	id     string
}

func newEmbedder(ctx context.Context, e engine.Engine, model engine.ModelID) (*embedder, error) {
	models, err := e.Models(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		if m.ID == model && m.CanEmbed {
			return &embedder{engine: e, model: model, dim: m.EmbedDim, id: m.Digest}, nil
		}
	}
	return nil, fmt.Errorf("rag.embedding_model: no native model %q can embed", model)
}

// Embed implements rag.Embedder.
func (e *embedder) Embed(ctx context.Context, texts []string, question bool) ([][]float32, error) {
	req := &engine.EmbedRequest{Model: e.model, Input: texts, Role: engine.RolePassage, Class: engine.ClassBatch}
	if question {
		req.Role, req.Class = engine.RoleQuery, engine.ClassInteractive
	}
	out, err := e.engine.Embed(ctx, req)
	if err != nil {
		return nil, err
	}
	return out.Vectors, nil
}

// Dim implements rag.Embedder.
func (e *embedder) Dim() int { return e.dim }

// ID implements rag.Embedder: vectors of other weights are not comparable, so the id is the digest of the weights.
func (e *embedder) ID() string { return e.id }
