package gateway

import (
	"context"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// Chat answers a chat or a completion. On refusal the error is a *Refusal, here and below.
func (p *Pipeline) Chat(ctx context.Context, c *Call) (*Reply, error) {
	r := p.newRun(c, route.Generate)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, retrieve, maskTexts, reserve, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return r.generate(ctx), nil // generation, egress and outcome, as the events are consumed
}

// Embed answers an embedding call. Vectors are numbers: nothing is restored or labelled in them.
func (p *Pipeline) Embed(ctx context.Context, c *Call) (*EmbedReply, error) {
	r := p.newRun(c, route.Embed)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, maskTexts, reserve, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.embed)
}

// Score answers a call for scores, as Embed does: of documents against a query, or of pairs.
func (p *Pipeline) Score(ctx context.Context, c *Call) (*ScoreReply, error) {
	r := p.newRun(c, route.Score)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, maskTexts, reserve, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.score)
}

// Search answers a search for passages: what it shows passes the guard on the way out like a model's answer. The vectors of its question are a
// call of their own, see childCall.
func (p *Pipeline) Search(ctx context.Context, c *Call) (*SearchReply, error) {
	return p.read(ctx, c, func(ctx context.Context, r *run) (sources, error) { return r.searchPassages(ctx, r.call.Query) })
}

// Passage returns a cited passage and those around it, by the steps of a search.
func (p *Pipeline) Passage(ctx context.Context, c *Call) (*SearchReply, error) {
	return p.read(ctx, c, func(ctx context.Context, r *run) (sources, error) { return r.readPassage(ctx) })
}

func (p *Pipeline) read(ctx context.Context, c *Call, find func(context.Context, *run) (sources, error)) (*SearchReply, error) {
	r := p.newRun(c, route.Embed)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, maskTexts, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, func(ctx context.Context) (*SearchReply, error) { return r.showPassages(ctx, find) })
}

// Authenticate runs the first step when only the headers of a call are there, so that no stranger's body is read. The methods above run it
// again, since a body can take minutes to arrive.
func (p *Pipeline) Authenticate(ctx context.Context, c *Call) (identity.Principal, error) {
	r := p.newRun(c, route.Generate)
	if err := r.runSteps(ctx, authenticate); err != nil {
		return identity.Principal{}, r.refuse(ctx, err)
	}
	c.authenticated = r
	return r.caller.Principal, nil
}

// step is one step before the engine is asked, by the name that metrics have for it.
type step struct {
	name string
	do   func(*run, context.Context) error
	took func(*audit.Steps) *int64 // microseconds, in the record
}

// The steps, in their order. The package comment says what each may refuse.
//
//nolint:gochecknoglobals // constant
var (
	authenticate = step{"authenticate", (*run).authenticate, func(s *audit.Steps) *int64 { return &s.Authenticate }}
	authorize    = step{"authorize", (*run).authorize, func(s *audit.Steps) *int64 { return &s.Authenticate }}
	takeSlot     = step{"limit", (*run).limit, func(s *audit.Steps) *int64 { return &s.Limit }}
	admit        = step{"admit", (*run).admit, func(s *audit.Steps) *int64 { return &s.Policy }}
	pickRoute    = step{"route", (*run).route, func(s *audit.Steps) *int64 { return &s.Route }}
	retrieve     = step{"retrieve", (*run).retrieve, func(s *audit.Steps) *int64 { return &s.Retrieve }}
	readDocument = step{"retrieve", (*run).read, func(s *audit.Steps) *int64 { return &s.Retrieve }}
	maskTexts    = step{"mask", (*run).mask, func(s *audit.Steps) *int64 { return &s.Policy }}
	reserve      = step{"reserve", (*run).reserve, func(s *audit.Steps) *int64 { return &s.Reserve }}
	record       = step{"audit", (*run).record, func(s *audit.Steps) *int64 { return &s.Record }}
)

// runSteps runs the steps in order and stops at the first refusal. A panic in a step ends the run too: the run releases what it
// holds and records the outcome, and the panic goes on to the edge.
func (r *run) runSteps(ctx context.Context, steps ...step) error {
	returned := false
	defer func() {
		if !returned && r.caller.known {
			r.finish(ctx, ending{})
		}
	}()
	bounded, stop := r.withTotalTimeout(ctx)
	defer stop()
	err := r.runEach(bounded, steps)
	if k := fault.KindOf(err); err != nil && bounded.Err() != nil && (k == fault.Internal || k == fault.Unavailable || k == fault.Timeout) {
		err = r.failed(ctx, bounded, err) // a rule that said no has said why
	}
	returned = true
	return err
}

func (r *run) runEach(ctx context.Context, steps []step) error {
	for _, s := range steps {
		began := r.p.now()
		err := s.do(r, ctx)
		took := r.p.now().Sub(began)
		*s.took(&r.steps) += took.Microseconds()
		r.p.metrics.stage(s.name).Observe(took.Seconds())
		if err == nil {
			err = ctx.Err() // no further step for a caller who left
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answerOnce answers a call without a stream: it asks the engine and settles.
func answerOnce[T any](ctx context.Context, r *run, ask func(context.Context) (T, error)) (T, error) {
	defer r.finish(ctx, ending{}) // of a panic; where the outcome stands already it changes nothing
	bounded, stop := r.withTotalTimeout(ctx)
	defer stop()
	out, err := ask(bounded)
	if err != nil {
		err = r.failed(ctx, bounded, err)
		r.finish(ctx, endingOf(err))
		var none T
		return none, r.refusal(err)
	}
	return out, nil
}
