package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/internal/fault"
)

// embed asks the engine for vectors and settles.
func (r *run) embed(ctx context.Context) (*EmbedReply, error) {
	got, err := r.askVectors(ctx, r.prompt.inputs[0])
	if err != nil {
		return nil, err
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	return &EmbedReply{Head: r.head(), Summary: r.summary(), Vectors: got}, nil
}

// embedTexts asks the engine of a part for the vectors of some of its texts, which are prepared now: how many make one prompt, the index says.
func (r *run) embedTexts(ctx context.Context, texts []string, role engine.InputRole) ([][]float32, error) {
	p, err := r.prepareWork(ctx, r.embedRequest(texts, role, 0))
	if err != nil {
		return nil, err
	}
	return r.askVectors(ctx, p)
}

func (r *run) embedRequest(texts []string, role engine.InputRole, dimensions int) *engine.EmbedRequest {
	return &engine.EmbedRequest{
		Model: r.choice.Version.EngineModel, Input: texts, Tenant: r.caller.Tenant, Class: r.class(), Role: role, Dimensions: dimensions,
	}
}

// askVectors runs a prompt of texts. What the engine has made until now is what the run has used.
func (r *run) askVectors(ctx context.Context, p *engine.Prompt) ([][]float32, error) {
	defer r.markRunning()()
	began := r.p.now()
	defer func() { r.answer.work(r.p.now().Sub(began)) }()
	var got *engine.Embeddings
	err := r.onInstance(ctx, func(i *pool.Instance) error {
		return r.work(i, func(e engine.Engine) (err error) {
			got, err = e.Embed(ctx, p)
			return err
		})
	})
	if err == nil && len(got.Vectors) != len(p.Embed.Input) {
		err = fault.Wrap(errors.New("the engine returned another number of vectors"), fault.CodeEngineUnavailable, string(r.asked()))
	}
	if err != nil {
		return nil, err
	}
	r.answer.useMore(got.Model, got.PromptTokens)
	return got.Vectors, nil
}

// scoreRequests are one request for each run of documents with the same query.
func (r *run) scoreRequests() []engine.Work {
	c, out := r.masked.call, []engine.Work(nil)
	for from := 0; from < len(c.Documents); {
		query, to := c.Query, len(c.Documents)
		if c.Queries != nil {
			query, to = c.Queries[from], from+1
			for to < len(c.Documents) && c.Queries[to] == query {
				to++
			}
		}
		out = append(out, &engine.ScoreRequest{
			Model: r.choice.Version.EngineModel, Query: query, Documents: c.Documents[from:to], Tenant: r.caller.Tenant, Class: r.class(),
		})
		from = to
	}
	return out
}

// score asks the engine for scores and settles. What was made before a failure is paid for, unless it is ours.
func (r *run) score(ctx context.Context) (*ScoreReply, error) {
	defer r.markRunning()()
	c := r.masked.call
	scores := make([]float64, 0, len(c.Documents))
	for _, p := range r.prompt.inputs {
		var got *engine.Scores
		err := r.onInstance(ctx, func(i *pool.Instance) error {
			return r.work(i, func(e engine.Engine) (err error) {
				got, err = e.Score(ctx, p)
				return err
			})
		})
		if err == nil && len(got.Scores) != len(p.Score.Documents) {
			err = fault.Wrap(errors.New("the engine returned another number of scores"), fault.CodeEngineUnavailable, string(c.Model))
		}
		if err != nil {
			return nil, err
		}
		scores = append(scores, got.Scores...)
		r.answer.useMore(got.Model, got.PromptTokens)
	}
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
		if out[i], _, err = egress.ReleaseWhole(r.admission.decision.Release(), r.masked.call.Documents[p]); err != nil {
			return nil, err
		}
	}
	return out, r.admission.decision.StoreValues(ctx)
}
