package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// Model is a model that a caller may ask for.
type Model struct {
	route.Model

	Price *billing.Price // nil if nothing prices it, so that requests are refused, or while nobody knows what it does
}

// Models lists the models the caller may ask for. Reading the list is not audited; a refusal by [Pipeline.Authenticate] is.
func (p *Pipeline) Models(ctx context.Context, c *Call) ([]Model, error) {
	r := p.newRun(c, route.Generate)
	if err := r.runSteps(ctx, authorize); err != nil {
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

// models are those that the caller may ask for: what the policy of the tenant allows, the audience of the model, and the key. Of one that is
// gone nobody knows the audience any more.
func (r *run) models(ctx context.Context) []route.Model {
	all := r.p.deps.Router.Models()
	all = slices.DeleteFunc(all, func(m route.Model) bool { return m.Gone || !m.Info.Audience.Has(r.caller.Tenant) })
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	allowed := map[string]bool{}
	for _, name := range r.p.deps.Guard.Models(ctx, r.caller.Tenant, r.caller.Project, names) {
		allowed[name] = r.caller.MayUse(name)
	}
	var out []route.Model
	for _, m := range all {
		if allowed[m.Name] {
			out = append(out, m)
		}
	}
	return out
}

// Can reports whether a model does what an action asks of it.
func (a Action) Can(m engine.Model) bool {
	var f capability.Feature
	switch a {
	case ActionChat:
		f = capability.Chat
	case ActionCompletion, ActionCount, ActionTokenize, ActionDetokenize:
		f = capability.Completions
	case ActionEmbed, ActionIngest:
		f = capability.Embeddings
	case ActionRerank, ActionScore:
		f = capability.Rerank
	case ActionSearch, ActionPassage, ActionModels, ActionModerate,
		ActionStoreFile, ActionReadFiles, ActionReadContent, ActionDeleteFile, ActionBatch, ActionReadBatches, ActionCancelBatch, ActionReadResults, ActionDeleteBatch,
		ActionReadResponse, ActionDeleteResponse:
		return false
	}
	has, _ := capability.Listed(&m, f)
	return has
}

// namedModels bounds the models that one sentence names.
const namedModels = 10

// notCapable refuses a model that does something else, and names those that the caller may use instead and no others.
func (r *run) notCapable(ctx context.Context, m engine.Model) error {
	var names []string
	for _, other := range r.models(ctx) {
		if other.Err == nil && r.call.Action.Can(other.Info) {
			names = append(names, other.Name)
		}
	}
	if len(names) > namedModels {
		names = append(names[:namedModels], "…")
	}
	instead := fault.Say("gateway.no_model", purpose(r.call.Action))
	if len(names) > 0 {
		instead = fault.Say("gateway.other_models", purpose(r.call.Action), strings.Join(names, ", "))
	}
	return fault.New(fault.CodeModelNotCapable, string(r.call.Model), does(m), instead).WithParam("model")
}

func does(m engine.Model) fault.Phrase {
	switch {
	case m.CanGenerate && m.PromptOnly:
		return fault.Say("gateway.is_continuer")
	case m.CanGenerate:
		return fault.Say("gateway.is_generator")
	case m.CanEmbed:
		return fault.Say("gateway.is_embedder")
	default:
		return fault.Say("gateway.is_scorer")
	}
}

func purpose(a Action) fault.Phrase {
	switch a {
	case ActionCompletion:
		return fault.Say("gateway.completions")
	case ActionEmbed:
		return fault.Say("gateway.embeddings")
	case ActionRerank:
		return fault.Say("gateway.reranking")
	case ActionScore:
		return fault.Say("gateway.scores")
	case ActionChat, ActionCount, ActionTokenize, ActionDetokenize, ActionSearch, ActionPassage, ActionIngest, ActionModels, ActionModerate,
		ActionStoreFile, ActionReadFiles, ActionReadContent, ActionDeleteFile, ActionBatch, ActionReadBatches, ActionCancelBatch, ActionReadResults, ActionDeleteBatch,
		ActionReadResponse, ActionDeleteResponse:
	}
	return fault.Say("gateway.chat")
}
