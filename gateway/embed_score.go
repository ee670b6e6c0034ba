package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/internal/fault"
)

// embed asks the engine for vectors and settles.
func (r *run) embed(ctx context.Context) (*EmbedReply, error) {
	got, err := r.embedTexts(ctx, r.call.Input, r.call.Role)
	if err != nil {
		return nil, err
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	return &EmbedReply{Head: r.head(), Summary: r.summary(), Vectors: got}, nil
}

// embedTexts asks the engine of the run for the vectors of texts. What it has made until now is what the run has used.
func (r *run) embedTexts(ctx context.Context, texts []string, role engine.InputRole) ([][]float32, error) {
	defer r.markRunning()()
	began := r.p.now()
	defer func() { r.answer.engineTime += r.p.now().Sub(began) }()
	got, err := r.choice.Engine.Embed(ctx, &engine.EmbedRequest{
		Model: r.choice.Version.EngineModel, Input: texts, Tenant: r.caller.Tenant, Class: r.call.Class, Role: role, Dimensions: r.call.Dimensions,
	})
	if err == nil && len(got.Vectors) != len(texts) {
		err = fault.Wrap(errors.New("the engine returned another number of vectors"), fault.CodeEngineUnavailable, string(r.call.Model))
	}
	if err != nil {
		return nil, err
	}
	if r.answer.usage == nil {
		r.answer.usage = &engine.Usage{Model: got.Model}
	}
	r.answer.usage.PromptTokens += got.PromptTokens
	return got.Vectors, nil
}

// score asks the engine for scores, once for each run of documents with the same query, and settles.
func (r *run) score(ctx context.Context) (*ScoreReply, error) {
	defer r.markRunning()()
	c, used := r.call, engine.Usage{}
	scores := make([]float64, 0, len(c.Documents))
	for from := 0; from < len(c.Documents); {
		query, to := c.Query, len(c.Documents)
		if c.Queries != nil {
			query, to = c.Queries[from], from+1
			for to < len(c.Documents) && c.Queries[to] == query {
				to++
			}
		}
		got, err := r.choice.Engine.Score(ctx, &engine.ScoreRequest{
			Model: r.choice.Version.EngineModel, Query: query, Documents: c.Documents[from:to], Tenant: r.caller.Tenant, Class: c.Class,
		})
		if err == nil && len(got.Scores) != to-from {
			err = fault.Wrap(errors.New("the engine returned another number of scores"), fault.CodeEngineUnavailable, string(c.Model))
		}
		if err != nil {
			if from > 0 { // what was made is paid for, unless it is our failure
				r.answer.usage = &used
			}
			return nil, err
		}
		scores = append(scores, got.Scores...)
		used.Model, used.PromptTokens = got.Model, used.PromptTokens+got.PromptTokens
		from = to
	}
	r.answer.usage = &used
	reply := &ScoreReply{Scores: scores, Best: topIndexes(scores, c.TopN)}
	if c.ReturnDocuments {
		var err error
		if reply.Documents, err = r.returnDocuments(ctx, reply.Best); err != nil {
			return nil, err
		}
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	reply.Head, reply.Summary = r.head(), r.summary()
	return reply, nil
}

// topIndexes returns the places of the n highest scores, best first; of all of them if n is 0.
func topIndexes(scores []float64, n int) []int {
	places := make([]int, len(scores))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(x, y int) int { return cmp.Compare(scores[y], scores[x]) })
	if n > 0 {
		places = places[:min(n, len(places))]
	}
	return places
}

// returnDocuments lets documents out to the caller who sent them: what was replaced by a pseudonym is put back, what was hidden otherwise stays
// hidden, as the findings say.
func (r *run) returnDocuments(ctx context.Context, places []int) ([]string, error) {
	out := make([]string, len(places))
	for i, p := range places {
		var err error
		if out[i], _, err = egress.ReleaseWhole(r.admission.decision.Release(), r.call.Documents[p]); err != nil {
			return nil, err
		}
	}
	return out, r.admission.decision.StoreValues(ctx)
}
