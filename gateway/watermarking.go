package gateway

import (
	"context"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
)

// watermarking is how the policy has the answer of the call marked: not at all, where none is generated.
func (r *run) watermarking() governance.Watermarking {
	if r.need != route.Generate || r.call.Action.runsNothing() || r.admission.decision == nil {
		return governance.Watermarking{}
	}
	return r.admission.decision.Watermark()
}

// watermark returns what marks the answer, by the key that the tenant has now; nil if the policy wants none. Without the key no engine is asked: an answer
// would leave unmarked. Where no mark is possible, the key is neither made nor read, and the engine only says why there is none.
func (r *run) watermark(ctx context.Context, temperature float64) (*engine.Watermark, error) {
	w := r.watermarking()
	if !w.On {
		return nil, nil //nolint:nilnil // nobody wants it
	}
	if !r.markable || temperature == 0 && !w.Greedy {
		return &engine.Watermark{Scheme: string(w.Params.WithDefaults().Scheme)}, nil
	}
	k, err := r.p.deps.Marks.MarkKey(ctx, r.caller.Tenant, w.Params)
	if err != nil {
		return nil, err
	}
	return &engine.Watermark{
		Scheme: string(k.Params().Scheme), Key: k.ID(), Epoch: k.Epoch(), Greedy: w.Greedy && k.Greedy(),
		Begin: func(seed uint64, choice int) engine.Marker { return k.Begin(seed, choice).Mark },
	}, nil
}
