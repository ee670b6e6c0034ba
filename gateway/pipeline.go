package gateway

import (
	"context"
	"errors"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// This page is the request path: what each call takes of the steps until an engine is asked, and then the two ways in which an answer is made. On
// refusal the error of a call is a *Refusal.

// Chat answers a chat or a completion. The engine is asked as the events of the reply are consumed; of a model with fallbacks, it has begun when Chat returns.
func (p *Pipeline) Chat(ctx context.Context, c *Call) (*Reply, error) {
	if lists := p.fallbacksOf(c); lists != nil {
		return p.chatOrFallBack(ctx, c, lists)
	}
	r := p.newRun(c, route.Generate)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, retrieve, maskTexts, reserve, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return r.newReply(ctx), nil // of the events of answerStream
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

// Count says how many tokens the prompt of a chat or a completion has, as an engine would be given it: masked. Nothing is generated, so it costs
// nothing; it is a request under the limits, and is recorded, like any other.
func (p *Pipeline) Count(ctx context.Context, c *Call) (*CountReply, error) {
	r := p.newRun(c, route.Generate)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, maskTexts, reserve, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.counted)
}

// Moderate says what the policy would do to each text of the call if a chat sent it. No engine is asked, so it costs nothing; it is a request under the
// limits, and is recorded, like any other. Nothing of the texts is kept, whatever the policy has kept of prompts.
func (p *Pipeline) Moderate(ctx context.Context, c *Call) (*ModerateReply, error) {
	r := p.newRun(c, route.Embed)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, examineTexts, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.moderated)
}

// Tokenize is Count that tells the tokens, too, where the model's engine does: those of the masked texts, which are all that an engine is given.
func (p *Pipeline) Tokenize(ctx context.Context, c *Call) (*TokensReply, error) {
	r := p.newRun(c, route.Generate)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, maskTexts, reserve, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.tokens)
}

// Detokenize makes a text of tokens. The text is the caller's own, written in numbers: so the policy judges and masks it like a prompt, and what leaves
// of it leaves like an answer. Until then no engine has it but the one that spells it, in a process of ours.
func (p *Pipeline) Detokenize(ctx context.Context, c *Call) (*TextReply, error) {
	r := p.newRun(c, route.Generate)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, readTokens, maskTexts, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.spell)
}

// Search answers a search for passages: what it shows passes the guard on the way out like a model's answer. The vectors of its question are a
// call of their own, see childCall.
func (p *Pipeline) Search(ctx context.Context, c *Call) (*SearchReply, error) { return p.read(ctx, c) }

// Passage returns a cited passage and those around it, by the steps of a search.
func (p *Pipeline) Passage(ctx context.Context, c *Call) (*SearchReply, error) { return p.read(ctx, c) }

func (p *Pipeline) read(ctx context.Context, c *Call) (*SearchReply, error) {
	r := p.newRun(c, route.Embed)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, maskTexts, record); err != nil {
		return nil, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.showPassages)
}

// Ingest takes the document of the call into a collection, as a part of the management request that brings it. Its passages go to the embedding
// model, which is in this process, as they are stored: the index would not find what was masked, and nothing of them leaves. Whoever is shown a
// passage gets it masked by the policy. The records say who has brought a document, what it cost and nothing of its text; the policy's models and
// purposes do not bind it, since nobody is answered. A document that the collection has already, as it is, costs nothing.
func (p *Pipeline) Ingest(ctx context.Context, c *Call) (rag.IngestResult, error) {
	r := p.newRun(c.part(partDocument, engine.ClassBatch), route.Embed)
	if err := r.runSteps(ctx, authorize, takeSlot, admit, pickRoute, readDocument, reserve, record); err != nil {
		return rag.IngestResult{}, r.refuse(ctx, err)
	}
	return answerOnce(ctx, r, r.ingest)
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
	readTokens   = step{"retrieve", (*run).decode, func(s *audit.Steps) *int64 { return &s.Retrieve }}
	maskTexts    = step{"mask", (*run).mask, func(s *audit.Steps) *int64 { return &s.Policy }}
	examineTexts = step{"mask", (*run).examine, func(s *audit.Steps) *int64 { return &s.Policy }}
	reserve      = step{"reserve", (*run).reserve, func(s *audit.Steps) *int64 { return &s.Reserve }}
	record       = step{"audit", (*run).record, func(s *audit.Steps) *int64 { return &s.Record }}
)

// answerStream answers in events: the engine generates them, egress lets them out, and the outcome is settled and recorded before the last one
// leaves, or when the consumer stops. Blocking replies collect the same events.
func (r *run) answerStream(ctx context.Context, yield func(engine.Event, error) bool) {
	end := ending{} // of a panic in what comes next; where the outcome stands already it changes nothing
	defer func() { r.finish(ctx, end) }()
	bounded, clocks := r.startTimeouts(ctx)
	defer clocks.stop()
	events := r.sharedAnswer(bounded)
	if events == nil {
		events = r.generate(bounded)
		if !r.prompt.verdict.unasked() {
			defer r.markRunning()()
		}
	}

	r.answer.open(r.egress(), r.newGrounding())
	waits := false // the last event that left said that there is more
	for ev, err := range events {
		clocks.onEvent(ev.HasOutput())
		more := ev.More
		var leaving []engine.Event
		if err == nil && (!ev.Empty() || ev.Used != nil) {
			leaving, err = r.release(bounded, ev)
		}
		if waits && (err != nil || ev.Usage != nil || !more && nothing(leaving)) { // what has left waits for no record, nor for what does not come
			waits, end = false, ending{outcome: outcomeAborted} // for a consumer that stops or panics
			if !yield(engine.Event{}, nil) {
				return
			}
			end = ending{}
		}
		if err != nil {
			r.answer.miss(errors.Is(err, engine.ErrNotReached))
			err = r.failed(ctx, bounded, err)
			r.finish(ctx, endingOf(err))
			yield(engine.Event{}, err)
			return
		}
		for _, ev := range leaving {
			last := ev.Usage != nil
			if last {
				r.answer.use(ev.Usage)
				r.answer.mark(ev.Marking, r.prompt.request())
				r.finish(ctx, ending{outcome: outcomeOK})
			}
			if ev.Empty() {
				continue
			}
			end = ending{outcome: outcomeAborted} // for a consumer that stops or panics
			ev.More, waits = more, more
			if !yield(ev, nil) || last {
				return
			}
			end = ending{}
		}
		clocks.resumeIdle()
	}
	err := fault.Wrap(errors.New("the engine's stream ended without usage"), fault.CodeEngineUnavailable, string(r.call.Model))
	r.finish(ctx, endingOf(err))
	yield(engine.Event{}, err)
}

// answerOnce answers without a stream: ask has the engine or the index make the answer, lets it out and settles.
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
