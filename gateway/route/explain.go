package route

import (
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/fault"
)

// Explanation is where a request would go now, and what was made of every instance. It says nothing of what the texts of a request would change: how long the prompt is, what
// of it an instance has computed, and to which grade its findings raise it.
type Explanation struct {
	Version      Version
	Rollout, Arm string
	Chosen       string // the instance; "" if there is none
	Considered   []pool.Considered
	More         int // instances that were not listed
}

// Why an instance does not fit, in a word that records have.
const (
	WhyModel   = "model"   // it does something else, or is for other tenants
	WhyPlace   = "place"   // the data may not go there
	whyWeights = "weights" // they are not those of the version
)

// Explain says where a request of a tenant would go whose data may go where allows says. It asks no engine and counts nothing. Errors: CodeModelNotFound, and
// CodeEngineUnavailable where routes are not known.
func (r *Router) Explain(a Ask, tenant string, allows func(pool.Place) bool) (Explanation, error) {
	trace, why := &pool.Trace{}, WhyModel
	a.Trace, a.Why = trace, func() string { return why }
	a.Fits = func(o pool.Offer) bool {
		if why = WhyModel; !o.Model.Audience.Has(tenant) {
			return false
		}
		why = WhyPlace
		return allows(o.Place)
	}
	c, err := r.Pick(a)
	if c.Version.Model == "" && err != nil {
		return Explanation{}, err
	}
	if !c.Info.Audience.Has(tenant) { // whoever may not use it does not learn that there is one
		return Explanation{}, fault.New(fault.CodeModelNotFound, a.Model).WithParam("model")
	}
	out := Explanation{Version: c.Version, Rollout: c.Rollout, Arm: c.Arm, Considered: trace.All(), More: trace.More()}
	if c.Instance != nil {
		out.Chosen = c.Instance.Name
	}
	return out, nil
}
