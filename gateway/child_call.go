package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// The parts that a request can have beside itself. Each has a request id of its own, since a request has one pair of records and one entry in
// the books; the detail "parent" of its records names the request that it is a part of.
const (
	partVectors  = "vectors"  // of a question
	partShared   = "shared"   // what an engine does for all who share an answer
	partDocument = "document" // of a management request that brings one
)

// childCall is the call for the vectors of a question, made while the run of a chat or a search is at work. It is routed, reserved, settled,
// billed and recorded like any embedding, in the tenant and under the key of its parent, and is no request of its own to the rest: it takes no
// slot, and what the parent was admitted to do it does not ask again.
//
// Nobody waits for its records: its parent may not be admitted yet, and does not become slower by them. Both are written one after the other
// when it has ended. So the log never has an answer without an admission, and readers of the log need no exception; the first says
// already what was used, so the usage is billed even if only that one is written. A crash before that loses the usage of this one question. A child that never asked the engine leaves none: what
// refused it refuses its parent, whose record says so.
type childCall struct {
	*run

	ready   time.Duration // when the engine could be asked, since the arrival
	refused error         // by the budget: it refuses the parent, in these words
	cause   error         // why the engine failed
}

func (r *run) newChildCall(question string) *childCall {
	class := engine.ClassInteractive
	if r.class() == engine.ClassBatch { // who can wait waits with all of it, and pays for it as for the rest
		class = engine.ClassBatch
	}
	asked := &Call{
		RequestID: r.call.RequestID + "." + partVectors, parent: r.call.RequestID, ClientID: r.call.ClientID, Purpose: r.call.Purpose, Source: r.call.Source,
		Route: r.call.Route, Dialect: r.call.Dialect, Received: r.call.Received, Action: ActionEmbed, Class: class,
		Input: []string{question}, RAG: r.call.RAG,
	}
	return &childCall{run: &run{
		p: r.p, need: route.Embed, call: asked.withoutTexts(), received: asked, masked: masked{call: asked}, caller: r.caller,
		admission: admission{policy: r.admission.policy, conversation: r.admission.conversation, placing: r.placing()},
	}}
}

// embedQuestion gives the search the vectors of its question, which is masked. The first call picks the engine and reserves what the question
// may cost; a question that is too long for the model takes several calls, of its parts.
func (c *childCall) embedQuestion(ctx context.Context, texts []string, _ bool) ([][]float32, error) {
	if c.prompt.reservation == nil {
		if err := c.runEach(ctx, []step{pickRoute}); err != nil {
			return nil, err
		}
		if c.refused = c.runEach(ctx, []step{reserve}); c.refused != nil {
			return nil, c.refused
		}
		c.ready = c.p.now().Sub(c.call.Received)
	}
	out, err := c.embedTexts(ctx, texts, engine.RoleQuery)
	if !fault.Is(err, fault.CodeContextLength) { // else it is asked again, for less
		c.cause = err
	}
	return out, err
}

// end settles the child and hands its records to the log, once. Nobody waits for them, but Drain.
func (c *childCall) end(ctx context.Context, end ending) {
	c.once.Do(func() {
		end = end.orPanic()
		u, priceBook := c.settle(end)
		if c.answer.askedAt.IsZero() {
			return
		}
		first, second := c.event(audit.StageAdmitted, nil), c.outcomeEvent(end, u, priceBook, nil)
		first.Latency.Admit, second.Latency.Admit = c.ready.Microseconds(), c.ready.Microseconds()
		first.Time, first.Decision = c.call.Received.UnixMicro()+first.Latency.Admit, decisionAllow
		first.Usage, first.PriceBook = second.Usage, second.PriceBook
		p := c.p
		p.writeDetached(ctx, second, func(ctx context.Context) {
			if _, err := p.write(ctx, first, "", ""); err == nil {
				_, _ = p.write(ctx, second, "", "") // it has said what there is to say
			}
		})
		c.observe(end, u)
	})
}

// ending is how the child ended, as its engine says. What becomes of the search is the parent's matter.
func (c *childCall) ending(ctx context.Context) ending {
	switch {
	case c.cause == nil:
		return ending{outcome: outcomeOK}
	case errors.Is(context.Cause(ctx), context.Canceled):
		return ending{outcome: outcomeAborted}
	default:
		return endingOf(c.failed(context.WithoutCancel(ctx), ctx, c.cause))
	}
}

// maxIngestTime bounds the time that a document may take, instead of the bound of a request: a long one is a few thousand passages, which wait
// for all other work.
const maxIngestTime = 4 * time.Hour

// read reads the document, so that it is known what its vectors can cost.
func (r *run) read(ctx context.Context) error {
	if r.p.deps.Retriever == nil {
		return r.noRetrieval()
	}
	d := *r.call.Document
	d.Tenant = r.caller.Tenant
	d.MayChangeAccess = r.caller.changesAccess
	var err error
	r.document, err = r.p.deps.Retriever.Read(ctx, d)
	return err
}

// ingest has the document embedded and stored. What our failure kept from being stored costs nothing.
func (r *run) ingest(ctx context.Context) (rag.IngestResult, error) {
	out, err := r.p.deps.Retriever.Store(ctx, r.document, func(ctx context.Context, texts []string, _ bool) ([][]float32, error) {
		r.prompt.reservation.Renew() // it may take longer than the ledger waits for an ordinary request
		return r.embedTexts(ctx, texts, engine.RolePassage)
	})
	if err != nil {
		if k := fault.KindOf(err); ctx.Err() == nil && (k == fault.Unavailable || k == fault.Internal) {
			r.finish(ctx, ending{outcome: outcomeFailed, err: err})
		}
		return rag.IngestResult{}, err
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	return out, nil
}
