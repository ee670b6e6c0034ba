package route

import (
	"context"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/fault"
)

// Abilities is what the instances of a version are known to do.
type Abilities struct {
	Features      []capability.Feature // that at least one instance does, be it under a condition on its load; in their order
	ContextTokens int                  // the longest prompt and completion that an instance is known to take; 0: not known
	Seen          bool                 // an instance that takes requests has the model
	Learning      bool                 // one of these has not told yet what it is, and may do more
}

// Abilities returns what a version of a model is known to do at this moment, as the router decides it. What is drained or does not answer counts for
// nothing. Errors: CodeNotFound, CodeDatabaseUnavailable.
func (r *Router) Abilities(ctx context.Context, model, version string) (Abilities, error) {
	s, err := r.store.load(ctx)
	if err != nil {
		return Abilities{}, err
	}
	v, ok := s.versions[model][version]
	if !ok {
		return Abilities{}, fault.New(fault.CodeNotFound, fault.Say("thing.version"), model+"@"+version)
	}
	var out Abilities
	can := map[capability.Feature]bool{}
	for _, i := range r.pools.Instances(v.Engine) {
		o, ok := i.Open(v.EngineModel)
		if !ok || changed(v, o.Model) {
			continue
		}
		out.Seen, out.ContextTokens = true, max(out.ContextTokens, o.ContextTokens())
		out.Learning = out.Learning || !i.Learnt()
		for _, f := range capability.Features() {
			if use, _ := o.Use(f); use != pool.UseNo {
				can[f] = true
			}
		}
	}
	for _, f := range capability.Features() {
		if can[f] {
			out.Features = append(out.Features, f)
		}
	}
	return out, nil
}
