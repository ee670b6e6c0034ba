package gateway

import (
	"context"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/registry"
)

// newRegistered gets the key of the tenant's fingerprints, before an engine works on what could not be remembered; nil if there is nothing to remember.
func (r *run) newRegistered(ctx context.Context) (*registry.Answers, error) {
	if r.p.deps.Registry == nil || r.need != route.Generate || r.call.Action.runsNothing() || r.prompt.verdict.unasked() {
		return nil, nil //nolint:nilnil // there is no answer of a model, or nobody remembers it
	}
	key, err := r.p.deps.Registry.Key(ctx, r.caller.Tenant)
	if err != nil {
		return nil, err
	}
	known := ""
	if r.admission.visible.sentence {
		known = label.Wording(label.ChannelAPI, false) // the longer of the two
	}
	return registry.NewAnswers(key, known), nil
}

// released returns what takes in the events that leave; nil if nobody does.
func (r *run) released() func(engine.Event) {
	signed, registered := r.receipt.signing, r.receipt.registered
	switch {
	case signed == nil && registered == nil:
		return nil
	case registered == nil:
		return signed.take
	}
	return func(ev engine.Event) {
		if signed != nil {
			signed.take(ev)
		}
		if g := r.answer.grounding; g == nil || !g.empties(ev.Choice) {
			register(registered, ev)
		}
	}
}

func register(a *registry.Answers, ev engine.Event) {
	a.Text(ev.Choice, ev.Text)
	a.Reasoning(ev.Choice, ev.Reasoning)
	a.Refusal(ev.Choice, ev.Refusal)
	for _, c := range ev.Calls {
		a.Call(ev.Choice, c.Index, c.Arguments)
	}
}

// registeredMark is what the registry keeps of the answer, as far as it went out.
func (r *run) registeredMark() []audit.Text {
	if r.receipt.registered == nil {
		return nil
	}
	return []audit.Text{{Direction: audit.DirectionMark, Text: string(r.receipt.registered.Data())}}
}
