package remote

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/fault"
)

// maxEmbedReply bounds the reply to an embedding request.
const maxEmbedReply = 256 << 20

func (e *Engine) prepareEmbed(ctx context.Context, req *engine.EmbedRequest) (*engine.Prompt, error) {
	m, err := e.embedder(ctx, req)
	if err != nil {
		return nil, err
	}
	return &engine.Prompt{Embed: req, Tokens: bytesOf(prefixed(m, req)) + textTokens*len(req.Input)}, nil
}

// embedder finds the model of a request, which can make what is asked for.
func (e *Engine) embedder(ctx context.Context, req *engine.EmbedRequest) (model, error) {
	m, err := e.model(ctx, req.Model, embeds)
	if err == nil && (req.Dimensions < 0 || req.Dimensions > m.EmbedDim) {
		err = unsupported("dimensions", fault.Say("model.vector_size", m.EmbedDim))
	}
	return m, err
}

func bytesOf(texts []string) (n int) {
	for _, s := range texts {
		n += len(s)
	}
	return n
}

// Embed implements engine.Engine. Vectors are scaled to length one, which not every upstream does.
func (e *Engine) Embed(ctx context.Context, p *engine.Prompt) (*engine.Embeddings, error) {
	req := p.Embed
	if req == nil {
		return nil, engine.ErrOtherWork
	}
	m, err := e.embedder(ctx, req) // again: another engine may have prepared it
	if err != nil {
		return nil, err
	}
	if len(req.Input) == 0 { // which not every server takes
		return &engine.Embeddings{Model: engine.ReportedModel(m.Upstream)}, nil
	}
	input := prefixed(m, req)
	size := bytesOf(input)
	var reply struct {
		Model string `json:"model"`
		Data  []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage openai.EmbeddingUsage `json:"usage"`
	}
	broken := func(why error) error { return fault.Wrap(why, fault.CodeUpstreamFailed, m.ID) }
	path, err := m.path(m.profile.Endpoints.Embeddings)
	if err != nil {
		return nil, err
	}
	if err := e.ask(ctx, m, path, openai.EmbeddingRequest{Model: m.Upstream, Input: input, EncodingFormat: "float"}, apiCall{needs: size / 4}, maxEmbedReply, &reply); err != nil {
		return nil, err
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
		if req.Dimensions > 0 { // cut here, as not every server cuts
			d.Embedding = d.Embedding[:req.Dimensions]
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

// prefixed puts what the model wants before questions and passages before the inputs.
func prefixed(m model, req *engine.EmbedRequest) []string {
	prefix := ""
	switch req.Role {
	case engine.RoleQuery:
		prefix = m.QueryPrefix
	case engine.RolePassage:
		prefix = m.PassagePrefix
	}
	if prefix == "" {
		return req.Input
	}
	out := make([]string, len(req.Input))
	for i, s := range req.Input {
		out[i] = prefix + s
	}
	return out
}
