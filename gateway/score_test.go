package gateway

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/access"
)

// leaving is an engine whose caller leaves after the first scores.
type leaving struct {
	engine.Engine

	leave func()
}

func (l *leaving) Score(ctx context.Context, p *engine.Prompt) (*engine.Scores, error) {
	got, err := l.Engine.Score(ctx, p)
	l.leave()
	return got, err
}

type leavingRouter struct {
	router

	engine *leaving
}

func (r *leavingRouter) Pick(a route.Ask) (route.Choice, error) {
	c, err := r.router.Pick(a)
	r.engine.Engine = c.Instance.Engine
	c.Instance = pool.Alone(r.engine)
	return c, err
}

// TestLeavingScores: who leaves in the middle pays for the scores that were made, as in a stream.
func TestLeavingScores(t *testing.T) {
	w := newWorld(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	w.deps.Router = &leavingRouter{w.deps.Router, &leaving{leave: leave}}
	_, err := w.Score(ctx, &Call{
		Credential: "good", Permission: access.InferenceEmbed, RequestID: "p", Action: ActionScore, Model: "rank",
		Queries: []string{"aaa", "bbb", "ccc"}, Documents: []string{"aaa", "bbb", "ccc"},
	})
	if err == nil || len(w.engine.Scores()) != 1 || w.log.trail() != "admitted outcome/aborted" {
		t.Fatalf("%v, %d, %q", err, len(w.engine.Scores()), w.log.trail())
	}
	if u := w.log.events[1].Usage; u.PromptTokens == 0 || u.Cost == 0 || len(w.ledger.settled) != 1 {
		t.Errorf("%+v, %s", u, fmt.Sprint(w.ledger.settled))
	}
}
