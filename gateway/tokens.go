package gateway

import (
	"context"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/internal/fault"
)

// counted says what was counted.
func (r *run) counted(ctx context.Context) (*CountReply, error) {
	r.finish(ctx, ending{outcome: outcomeOK})
	return r.count(r.prompt.tokens, r.prompt.exact), nil
}

func (r *run) count(tokens int, exact bool) *CountReply {
	return &CountReply{Head: r.head(), Summary: r.summary(), Tokens: tokens, Exact: exact, Context: r.serving().Info.ContextTokens}
}

// tokens has the engine tell the tokens of the prompt, if it does.
func (r *run) tokens(ctx context.Context) (*TokensReply, error) {
	asked := r.masked.call
	var got *engine.TokenList
	err := r.onInstance(ctx, func(i *pool.Instance) (err error) {
		if got = nil; r.serving().Info.HasTokens {
			got, err = i.Engine.Tokens(ctx, r.prompt.text)
		}
		return err
	})
	if untold(err) && !asked.TokenTexts && !asked.OmitBegin { // whoever wants the count has the bound
		got, err = nil, nil
	}
	if err == nil && asked.TokenTexts && (got == nil || got.Texts == nil) {
		err = fault.New(fault.CodeUnsupported, "model", fault.Say("model.no_tokens")).WithParam("model")
	}
	if err != nil {
		return nil, err
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	if got == nil {
		return &TokensReply{CountReply: *r.count(r.prompt.tokens, r.prompt.exact)}, nil
	}
	out := &TokensReply{CountReply: *r.count(len(got.IDs), true), IDs: got.IDs}
	if asked.TokenTexts {
		out.Texts = got.Texts
	}
	return out, nil
}

// untold reports whether an engine that was said to tell tokens does not, as an upstream of which nothing but its /v1 can be reached.
func untold(err error) bool {
	return fault.Is(err, fault.CodeUpstreamFailed) || fault.Is(err, fault.CodeModelNotFound)
}

// decode has the engine spell the tokens of the call, for the policy.
func (r *run) decode(ctx context.Context) error {
	var text string
	err := r.onInstance(ctx, func(i *pool.Instance) (err error) {
		text, err = i.Engine.Detokenize(ctx, &engine.DetokenizeRequest{Model: r.choice.Version.EngineModel, Tokens: r.received.Tokens, Tenant: r.caller.Tenant})
		return err
	})
	if err != nil {
		return err
	}
	spelt := Call{Prompt: text}
	r.decoded = decoded{text: text, digest: audit.DigestSpelt(r.p.deps.Keys, r.caller.Tenant, spelt.spell)}
	return nil
}

// spell lets the text of tokens out to the caller who sent them: what was replaced by a pseudonym is put back, what was hidden otherwise stays hidden.
func (r *run) spell(ctx context.Context) (*TextReply, error) {
	text, masked, err := egress.ReleaseWhole(r.admission.decision.Release(), r.masked.call.Prompt)
	if err != nil {
		return nil, err
	}
	if err := r.admission.decision.StoreValues(ctx); err != nil {
		return nil, err
	}
	r.answer.show(maskedPassages{}, []shown{{text, masked}})
	r.finish(ctx, ending{outcome: outcomeOK})
	return &TextReply{Head: r.head(), Summary: r.summary(), Text: text}, nil
}
