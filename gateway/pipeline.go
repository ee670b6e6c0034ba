package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// Authenticate takes step 1 of a call before there is anything of it but its headers, so that nobody is read whom we do not know. The
// answers below take it again, since a body can take minutes to come. On refusal the error is a *Refusal, and recorded as theirs are.
func (p *Pipeline) Authenticate(ctx context.Context, c *Call) (identity.Principal, error) {
	r := p.begin(c, route.Generate)
	if err := r.through(ctx, step{"authenticate", r.authenticate, &r.steps.Authenticate}); err != nil {
		return identity.Principal{}, r.refuse(ctx, err)
	}
	return r.principal, nil
}

// Chat answers a chat or a completion. The numbers are the steps of the package comment. On refusal the error is a *Refusal.
func (p *Pipeline) Chat(ctx context.Context, c *Call) (*Reply, error) {
	r := p.begin(c, route.Generate)
	err := r.through(ctx,
		step{"authorize", r.authorize, &r.steps.Authenticate}, // 1 and 2
		step{"limit", r.limit, &r.steps.Limit},                // 3
		step{"admit", r.admit, &r.steps.Policy},               // 4
		//                                       5: no cache, see the package comment
		step{"route", r.route, &r.steps.Route},          // 6
		step{"reserve", r.reserve, &r.steps.Reserve},    // 7
		step{"retrieve", r.retrieve, &r.steps.Retrieve}, // 8
		step{"audit", r.admitted, &r.steps.Record},      // 9
	)
	if err != nil {
		return nil, r.refuse(ctx, err)
	}
	return r.generate(ctx), nil // 10, 11 and 12, as the events are consumed; 13 is the edge's
}

// Embed answers an embedding call by the same steps. Vectors are numbers: nothing is restored or labelled in them.
func (p *Pipeline) Embed(ctx context.Context, c *Call) (*EmbedReply, error) {
	r, err := p.measure(ctx, c, route.Embed)
	if err != nil {
		return nil, err
	}
	return r.embed(ctx) // 10 and 12
}

// Score answers a call for scores, as Embed does: of documents against a query, or of pairs.
func (p *Pipeline) Score(ctx context.Context, c *Call) (*ScoreReply, error) {
	r, err := p.measure(ctx, c, route.Score)
	if err != nil {
		return nil, err
	}
	return r.score(ctx) // 10 and 12
}

// measure begins a call that is answered with numbers.
func (p *Pipeline) measure(ctx context.Context, c *Call, need route.Need) (*run, error) {
	r := p.begin(c, need)
	err := r.through(ctx,
		step{"authorize", r.authorize, &r.steps.Authenticate}, // 1 and 2
		step{"limit", r.limit, &r.steps.Limit},                // 3
		step{"admit", r.admit, &r.steps.Policy},               // 4
		step{"route", r.route, &r.steps.Route},                // 6
		step{"reserve", r.reserve, &r.steps.Reserve},          // 7
		step{"audit", r.admitted, &r.steps.Record},            // 9
	)
	if err != nil {
		return nil, r.refuse(ctx, err)
	}
	return r, nil
}

// Search answers a search for passages: what it shows passes the guard on the way out like a model's answer. No engine is paid,
// so nothing is routed or reserved.
func (p *Pipeline) Search(ctx context.Context, c *Call) (*SearchReply, error) {
	return p.read(ctx, c, func(ctx context.Context, r *run) ([]rag.Passage, error) { return r.lookup(ctx, r.call.Query) })
}

// Passage answers who wants to read a passage that was cited, and those around it: by the steps of a search, and with what they show.
func (p *Pipeline) Passage(ctx context.Context, c *Call) (*SearchReply, error) {
	return p.read(ctx, c, func(ctx context.Context, r *run) ([]rag.Passage, error) { return r.open(ctx) })
}

// read takes the steps of a call that is answered with passages.
func (p *Pipeline) read(ctx context.Context, c *Call, find func(context.Context, *run) ([]rag.Passage, error)) (*SearchReply, error) {
	r := p.begin(c, route.Embed)
	err := r.through(ctx,
		step{"authorize", r.authorize, &r.steps.Authenticate}, // 1 and 2
		step{"limit", r.limit, &r.steps.Limit},                // 3
		step{"admit", r.admit, &r.steps.Policy},               // 4
		step{"audit", r.admitted, &r.steps.Record},            // 9
	)
	if err != nil {
		return nil, r.refuse(ctx, err)
	}
	return r.search(ctx, find) // 8, 11 and 12
}

// Models lists the models the caller may ask for. Reading the list is not audited; a refusal by [Pipeline.Authenticate] is.
func (p *Pipeline) Models(ctx context.Context, c *Call) ([]Model, error) {
	r := p.begin(c, route.Generate)
	if err := r.through(ctx, step{"authorize", r.authorize, &r.steps.Authenticate}); err != nil {
		p.metrics.refusals.WithLabelValues(string(fault.Public(err).Code())).Inc()
		return nil, err
	}
	var out []Model
	for _, m := range r.models(ctx) {
		described := Model{Model: m}
		if price, ok := p.deps.Ledger.Price(m.Name, !m.Info.CanGenerate); ok && m.Info.ID != "" {
			described.Price = &price
		}
		out = append(out, described)
	}
	return out, nil
}

// step is one named step before the engine is asked.
type step struct {
	name string
	do   func(context.Context) error
	took *int64 // microseconds, for the record
}

// through takes the steps in order and stops at the first that refuses. A step that panics ends the run too: what it holds goes
// back and its outcome is recorded, while the panic goes on to the edge.
func (r *run) through(ctx context.Context, steps ...step) error {
	returned := false
	defer func() {
		if !returned && r.known {
			r.finish(ctx, broken())
		}
	}()
	err := r.take(ctx, steps)
	returned = true
	return err
}

// broken is the ending of a run that a panic unwinds.
func broken() ending { return endingOf(fault.Wrap(errors.New("panic"), fault.CodeInternal)) }

func (r *run) take(ctx context.Context, steps []step) error {
	for _, s := range steps {
		began := r.p.now()
		err := s.do(ctx)
		took := r.p.now().Sub(began)
		*s.took += took.Microseconds()
		r.p.metrics.stages.WithLabelValues(s.name).Observe(took.Seconds())
		if err == nil {
			err = ctx.Err() // whoever has left is not worth another step
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// generate returns the reply whose events run the engine.
func (r *run) generate(ctx context.Context) *Reply {
	reply := &Reply{Head: r.head(), run: r}
	reply.abort = func() { r.finish(ctx, ending{outcome: outcomeAborted}) }
	reply.events = func(yield func(engine.Event, error) bool) { r.stream(ctx, yield) }
	return reply
}

// stream asks the engine (10), lets its events out (11) and settles before the last one (12).
func (r *run) stream(ctx context.Context, yield func(engine.Event, error) bool) {
	end := broken() // of what comes next; where the outcome stands already it changes nothing
	defer func() { r.finish(ctx, end) }()
	bounded, stop := context.WithTimeout(ctx, r.left())
	defer stop()
	defer r.ask()()

	r.answer = r.egress()
	for ev, err := range r.choice.Engine.Generate(bounded, r.request) {
		var leaving []engine.Event
		if err == nil {
			leaving, err = r.release(bounded, ev)
		}
		if err != nil {
			r.unasked = errors.Is(err, engine.ErrNotAsked)
			err = r.failed(ctx, bounded, err)
			r.finish(ctx, endingOf(err))
			yield(engine.Event{}, err)
			return
		}
		for _, ev := range leaving {
			last := ev.Usage != nil
			if last {
				r.usage = ev.Usage
				r.finish(ctx, ending{outcome: outcomeOK})
			}
			if empty(ev) {
				continue
			}
			end = ending{outcome: outcomeAborted} // for a consumer that stops or panics
			if !yield(ev, nil) || last {
				return
			}
			end = broken()
		}
	}
	err := fault.Wrap(errors.New("the engine's stream ended without usage"), fault.CodeEngineUnavailable, string(r.call.Model))
	r.finish(ctx, endingOf(err))
	yield(engine.Event{}, err)
}

func empty(ev engine.Event) bool {
	return ev.Text == "" && ev.Reasoning == "" && ev.Refusal == "" && ev.Finish == engine.FinishNone && ev.Usage == nil && len(ev.Logprobs) == 0 && len(ev.Calls) == 0
}

// embed asks the engine for vectors (10) and settles (12).
func (r *run) embed(ctx context.Context) (*EmbedReply, error) {
	defer r.finish(ctx, broken())
	bounded, stop := context.WithTimeout(ctx, r.left())
	defer stop()
	defer r.ask()()

	got, err := r.choice.Engine.Embed(bounded, &engine.EmbedRequest{
		Model: r.choice.Version.EngineModel, Input: r.call.Input, Tenant: r.principal.Tenant, Class: r.call.Class, Role: r.call.Role,
		Dimensions: r.call.Dimensions,
	})
	if err == nil && len(got.Vectors) != len(r.call.Input) {
		err = fault.Wrap(errors.New("the engine returned another number of vectors"), fault.CodeEngineUnavailable, string(r.call.Model))
	}
	if err != nil {
		err = r.failed(ctx, bounded, err)
		r.finish(ctx, endingOf(err))
		return nil, r.refusal(err)
	}
	r.usage = &engine.Usage{Model: got.Model, PromptTokens: got.PromptTokens}
	r.finish(ctx, ending{outcome: outcomeOK})
	return &EmbedReply{Head: r.head(), Summary: r.summary(), Vectors: got.Vectors}, nil
}

// score asks the engine for scores (10), once for each run of documents with the same query, and settles (12).
func (r *run) score(ctx context.Context) (*ScoreReply, error) {
	defer r.finish(ctx, broken())
	bounded, stop := context.WithTimeout(ctx, r.left())
	defer stop()
	defer r.ask()()

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
		got, err := r.choice.Engine.Score(bounded, &engine.ScoreRequest{
			Model: r.choice.Version.EngineModel, Query: query, Documents: c.Documents[from:to], Tenant: r.principal.Tenant, Class: c.Class,
		})
		if err == nil && len(got.Scores) != to-from {
			err = fault.Wrap(errors.New("the engine returned another number of scores"), fault.CodeEngineUnavailable, string(c.Model))
		}
		if err != nil {
			if from > 0 { // what was made is paid for, unless it is our failure
				r.usage = &used
			}
			err = r.failed(ctx, bounded, err)
			r.finish(ctx, endingOf(err))
			return nil, r.refusal(err)
		}
		scores = append(scores, got.Scores...)
		used.Model, used.PromptTokens = got.Model, used.PromptTokens+got.PromptTokens
		from = to
	}
	r.usage = &used
	reply := &ScoreReply{Scores: scores, Best: best(scores, c.TopN)}
	if c.ReturnDocuments {
		var err error
		if reply.Documents, err = r.returned(bounded, reply.Best); err != nil {
			err = r.failed(ctx, bounded, err)
			r.finish(ctx, endingOf(err))
			return nil, r.refusal(err)
		}
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	reply.Head, reply.Summary = r.head(), r.summary()
	return reply, nil
}

// best returns the places of the n highest scores, best first; of all of them if n is 0.
func best(scores []float64, n int) []int {
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

// returned lets documents out to the caller who sent them (11): what was replaced by a pseudonym is put back, what was hidden otherwise
// stays hidden, as the findings say.
func (r *run) returned(ctx context.Context, places []int) ([]string, error) {
	out := make([]string, len(places))
	for i, p := range places {
		var err error
		if out[i], _, err = egress.Through(r.admission.Release(), r.call.Documents[p]); err != nil {
			return nil, err
		}
	}
	return out, r.admission.Keep(ctx)
}

// search finds passages (8), lets their text out as an answer (11) and closes the record (12).
func (r *run) search(ctx context.Context, find func(context.Context, *run) ([]rag.Passage, error)) (*SearchReply, error) {
	defer r.finish(ctx, broken())
	bounded, stop := context.WithTimeout(ctx, r.left())
	defer stop()

	began := r.p.now()
	passages, err := find(bounded, r)
	r.steps.Retrieve = r.p.now().Sub(began).Microseconds()
	for i := range passages { // all are masked before any is released: the vault must know every value
		if err == nil {
			passages[i].Text, err = r.admission.MaskShown(passages[i].Text)
		}
	}
	for i := range passages {
		if err == nil {
			passages[i].Text, err = r.show(passages[i].Text)
		}
	}
	if err == nil {
		err = r.admission.Keep(bounded)
	}
	if err != nil {
		err = r.failed(ctx, bounded, err)
		r.finish(ctx, endingOf(err))
		return nil, r.refusal(err)
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	return &SearchReply{Head: r.head(), Summary: r.summary(), Passages: passages}, nil
}

// ask marks that an engine works on the run, until the returned function is called.
func (r *run) ask() (done func()) {
	r.asked = r.p.now()
	r.p.metrics.overhead.Observe(overhead(r.steps).Seconds())
	r.peak = int(r.p.running.Add(1))
	r.p.metrics.running.Inc()
	return func() {
		r.p.running.Add(-1)
		r.p.metrics.running.Dec()
	}
}

// left is the time the run may still take.
func (r *run) left() time.Duration { return r.p.cfg.Timeout - r.p.now().Sub(r.call.Received) }
