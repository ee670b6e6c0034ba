package remote

import (
	"cmp"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
)

// byConfiguration is the source of what the administrator says of an upstream.
const byConfiguration = "configuration"

// known is what is known of the models at a moment. It is never changed.
type known struct {
	version  string
	verdicts map[engine.ModelID]*capability.Verdicts
}

func knownOf(models []model, seen capability.Observation) *known {
	k := &known{seen.Version, map[engine.ModelID]*capability.Verdicts{}}
	for _, m := range models {
		c := m.claimed().Observe(seen)
		k.verdicts[engine.ModelID(m.ID)] = c.For(cmp.Or(m.Upstream, m.ID))
	}
	return k
}

// Capabilities implements pool.Contracted: what the profile claims, what the configuration vouches for, and what was seen of the upstream.
func (e *Engine) Capabilities(id engine.ModelID) *capability.Verdicts {
	return e.known.Load().verdicts[id]
}

// claimed is the contract of the model before anybody has looked at the upstream.
func (m model) claimed() capability.Contract {
	c := m.profile.Contract().Claim(m.implied(), byConfiguration).Claim(m.vouched(), byConfiguration)
	if m.ContextTokens > 0 {
		grade := capability.E1
		c.Context.MaxIn = capability.Know(m.ContextTokens)
		c.Context.MaxIn.Evidence = capability.Evidence{Grade: &grade, Owner: capability.OwnerControl, Source: byConfiguration}
	}
	return c
}

// implied are the features that a model of its kind has by the protocol of its dialect. The configuration does not name them one by one, so what the
// profile says is not there stays away.
func (m model) implied() []capability.Feature {
	if m.task() != generates {
		return nil
	}
	out := []capability.Feature{capability.Stream, capability.Stop}
	add := func(yes bool, features ...capability.Feature) {
		if yes {
			out = append(out, features...)
		}
	}
	p := m.profile
	add(p.Endpoints.Chat != "", capability.Chat)
	add(p.Endpoints.Completions != "", capability.Completions)
	add(p.Stream.Usage != "none", capability.Usage)
	add(m.Tools, capability.ToolsRequired, capability.ToolsNamed, capability.ToolsParallel)
	add(m.tellsTokens(), capability.Tokens)
	if m.plainProtocol() { // it is documented, and there is no engine whose documents could say more
		add(true, capability.Choices)
		add(p.Request.Seed.Name != "", capability.Seed)
	}
	return slices.DeleteFunc(out, func(f capability.Feature) bool { return p.Claimed.Features[f].Status == capability.Roadmap })
}

// plainProtocol reports whether the dialect is that of OpenAI's interface, and of no engine.
func (m model) plainProtocol() bool { return m.profile.Name == dialectOpenAI }

// vouched are the features that the configuration names.
func (m model) vouched() []capability.Feature {
	switch m.task() {
	case embeds:
		return []capability.Feature{capability.Embeddings}
	case reranks:
		return []capability.Feature{capability.Rerank}
	case generates:
	}
	var out []capability.Feature
	if m.Tools {
		out = append(out, capability.Tools)
	}
	if m.Choices {
		out = append(out, capability.Choices)
	}
	for _, v := range []struct {
		yes      bool
		features []capability.Feature
	}{
		{m.Logprobs, []capability.Feature{capability.Logprobs, capability.TopLogprobs}},
		{m.Seed || m.Deterministic, []capability.Feature{capability.Seed}},
		{m.Formats, []capability.Feature{
			capability.FormatObject, capability.FormatSchema, capability.FormatRegex, capability.FormatGrammar, capability.FormatChoice,
		}},
		{m.Sampling, []capability.Feature{
			capability.TopK, capability.MinP, capability.MinTokens, capability.RepetitionPenalty, capability.FrequencyPenalty, capability.PresencePenalty,
			capability.LogitBias, capability.Echo,
		}},
	} {
		for _, f := range v.features {
			if as, _ := m.profile.Request.Parameter(f); v.yes && as.Name != "" { // what has no name cannot be asked for
				out = append(out, f)
			}
		}
	}
	return out
}
