package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/fault"
)

// maxEmbedReply bounds the reply to an embedding request.
const maxEmbedReply = 256 << 20

// Embed implements engine.Engine. Vectors are scaled to length one, which not every upstream does.
func (e *Engine) Embed(ctx context.Context, req *engine.EmbedRequest) (*engine.Embeddings, error) {
	m, err := e.model(ctx, req.Model, true)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, s := range req.Input {
		size += len(s)
	}
	x, err := e.post(ctx, m, "/embeddings", openai.EmbeddingRequest{Model: m.Upstream, Input: req.Input, EncodingFormat: "float"}, size/4)
	if err != nil {
		return nil, err
	}
	defer x.end()
	raw, err := io.ReadAll(io.LimitReader(x.body, maxEmbedReply))
	if err != nil {
		return nil, x.failure(err)
	}
	var reply struct {
		Model string `json:"model"`
		Data  []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage openai.EmbeddingUsage `json:"usage"`
	}
	broken := func(why error) error { return fault.Wrap(why, fault.CodeUpstreamFailed, m.ID) }
	if json.Unmarshal(raw, &reply) != nil {
		return nil, broken(errors.New("the reply is no list of embeddings"))
	}
	out := &engine.Embeddings{Vectors: make([][]float32, len(req.Input)), PromptTokens: reply.Usage.PromptTokens, Model: engine.ReportedModel(reply.Model)}
	if out.Model == "" {
		out.Model = engine.ReportedModel(m.Upstream)
	}
	if out.PromptTokens <= 0 {
		out.PromptTokens = size/4 + len(req.Input)
	}
	for _, d := range reply.Data {
		if d.Index < 0 || d.Index >= len(out.Vectors) || out.Vectors[d.Index] != nil || len(d.Embedding) != m.EmbedDim {
			return nil, broken(fmt.Errorf("vector %d of %d with %d values, want %d", d.Index, len(out.Vectors), len(d.Embedding), m.EmbedDim))
		}
		if !unit(d.Embedding) {
			return nil, broken(fmt.Errorf("vector %d has no direction", d.Index))
		}
		out.Vectors[d.Index] = d.Embedding
	}
	if len(reply.Data) != len(req.Input) {
		return nil, broken(fmt.Errorf("%d vectors for %d inputs", len(reply.Data), len(req.Input)))
	}
	return out, nil
}

// unit scales v to length one; a vector without direction cannot be.
func unit(v []float32) bool {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return false
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
	return true
}

// Score implements engine.Engine.
func (e *Engine) Score(ctx context.Context, req *engine.ScoreRequest) (*engine.Scores, error) {
	if _, err := e.model(ctx, req.Model, true); err != nil {
		return nil, err
	}
	return nil, fault.New(fault.CodeUnsupported, "model", fault.Say("the model does not score documents", "该模型不支持文档打分")).WithParam("model")
}
