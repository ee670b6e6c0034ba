package remote

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/fault"
)

// maxScoreReply bounds the reply to a request for scores.
const maxScoreReply = 16 << 20

func (e *Engine) prepareScore(ctx context.Context, req *engine.ScoreRequest) (*engine.Prompt, error) {
	if _, err := e.model(ctx, req.Model, reranks); err != nil {
		return nil, err
	}
	return &engine.Prompt{Score: req, Tokens: pairBytes(req) + textTokens*len(req.Documents)}, nil
}

// pairBytes is the size of what is scored: every document with the query.
func pairBytes(req *engine.ScoreRequest) int {
	return bytesOf(req.Documents) + len(req.Query)*len(req.Documents)
}

// Score implements engine.Engine by POST /rerank. Servers that answer with the model's own numbers instead of shares get them
// squeezed into 0 to 1, which keeps their order.
func (e *Engine) Score(ctx context.Context, p *engine.Prompt) (*engine.Scores, error) {
	req := p.Score
	if req == nil {
		return nil, engine.ErrOtherWork
	}
	m, err := e.model(ctx, req.Model, reranks)
	if err != nil {
		return nil, err
	}
	if len(req.Documents) == 0 {
		return &engine.Scores{Model: engine.ReportedModel(m.Upstream)}, nil
	}
	size := pairBytes(req)
	broken := func(why error) error { return fault.Wrap(why, fault.CodeUpstreamFailed, m.ID) }
	var reply struct {
		Model   string                `json:"model"`
		Usage   openai.EmbeddingUsage `json:"usage"`
		Results []struct {
			Index int      `json:"index"`
			Score *float64 `json:"relevance_score"`
		} `json:"results"`
	}
	path, err := m.path(m.profile.Endpoints.Rerank)
	if err != nil {
		return nil, err
	}
	if err := e.ask(ctx, m, path, openai.RerankRequest{Model: m.Upstream, Query: req.Query, Documents: req.Documents}, apiCall{needs: size / 4}, maxScoreReply, &reply); err != nil {
		return nil, err
	}
	if len(reply.Results) != len(req.Documents) {
		return nil, broken(fmt.Errorf("%d results for %d documents", len(reply.Results), len(req.Documents)))
	}
	out := &engine.Scores{
		Scores: make([]float64, len(req.Documents)), Model: engine.ReportedModel(reply.Model), PromptTokens: max(reply.Usage.PromptTokens, reply.Usage.TotalTokens),
	}
	seen, share := make([]bool, len(req.Documents)), m.profile.RerankScores != "logit"
	for _, r := range reply.Results {
		if r.Index < 0 || r.Index >= len(seen) || seen[r.Index] || r.Score == nil {
			return nil, broken(fmt.Errorf("result %d of %d", r.Index, len(seen)))
		}
		seen[r.Index], out.Scores[r.Index] = true, *r.Score
		share = share && *r.Score >= 0 && *r.Score <= 1
	}
	for i, v := range out.Scores {
		if !share {
			out.Scores[i] = 1 / (1 + math.Exp(-v))
		}
	}
	if out.Model == "" {
		out.Model = engine.ReportedModel(m.Upstream)
	}
	if out.PromptTokens <= 0 {
		out.PromptTokens = size/4 + len(req.Documents)
	}
	return out, nil
}
