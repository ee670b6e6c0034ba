package capability

import (
	"math"
	"slices"
	"strconv"
)

// Verdicts answers [Contract.Meets] for one model of a contract, so fast that it is asked for every request: what holds whatever the state is decided
// once. It is immutable and safe for concurrent use.
type Verdicts struct {
	contract *Contract
	model    string
	always   map[Feature]bool // what may be used in any state
	most     int              // tokens in any state; 0: no bound
	limits   bool             // there is more to ask
}

// For returns the verdicts for a model, by the name that the engine knows it by. The contract must not change any more.
func (c *Contract) For(model string) *Verdicts {
	v := &Verdicts{contract: c, model: model, always: map[Feature]bool{}}
	for _, f := range Features() {
		if cell, ok := c.cell(model, f); ok { // what holds without a fact holds with any
			_, v.always[f] = cell.Holds(E1, nil)
		}
	}
	most := c.Context.MaxIn
	for i := range c.Models {
		if m := c.Models[i].MaxIn; m.Known && matches(c.Models[i].Match, model) {
			v.limits = v.limits || !m.When.IsZero() // which row counts depends on the state
			most = m
			break
		}
	}
	v.limits = v.limits || most.Known && (!most.When.IsZero() || most.Value <= 0) ||
		c.Context.MaxOut.Known || c.Exec.Buckets.Known || c.Modalities.MaxImages.Known || c.Roles.Known || len(c.Demands) > 0
	if most.Known {
		v.most = most.Value
	}
	return v
}

// Contract returns what the verdicts rest on, which nobody changes.
func (v *Verdicts) Contract() *Contract { return v.contract }

// Model returns the name that the engine knows the model by.
func (v *Verdicts) Model() string { return v.model }

// Cell returns what is known of a feature of the model; ok is false if nothing is.
func (v *Verdicts) Cell(f Feature) (cell Cell, ok bool) { return v.contract.cell(v.model, f) }

// MaxTokens returns the longest prompt and completion together; ok is false if no bound is known.
func (v *Verdicts) MaxTokens() (n int, ok bool) {
	return v.contract.maxIn(v.model, v.contract.stateOf(Needs{Model: v.model}, nil))
}

// Demanded returns the features that the model's maker demands of whoever runs it: every request needs them.
func (v *Verdicts) Demanded() []Feature { return v.contract.needed(Needs{Model: v.model}) }

// Batches returns sizes of a batch that decide for every other one: whatever is asked, Meets says of any batch what it says of the largest of these that
// is not above it. The first is 1, and they rise.
func (v *Verdicts) Batches() []int {
	c, out := v.contract, []int{1}
	add := func(when Condition) {
		for _, x := range when.numbers("batch") {
			if x = math.Floor(x); x >= 0 && x < math.MaxInt32 { // no instance runs more
				out = append(out, max(1, int(x)), int(x)+1)
			}
		}
	}
	cells := func(all map[Feature]Cell) {
		for _, cell := range all {
			add(cell.When)
		}
	}
	cells(c.Features)
	for i := range c.Models {
		cells(c.Models[i].Features)
		add(c.Models[i].MaxIn.When)
	}
	for _, mode := range c.Exec.Modes {
		add(mode.When)
	}
	for _, e := range []Evidence{
		c.Context.MaxIn.Evidence, c.Context.MaxOut.Evidence, c.Exec.Buckets.Evidence, c.Exec.DynamicShape.Evidence, c.Modalities.MaxImages.Evidence, c.Roles.Evidence,
	} {
		add(e.When)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Meets reports whether a request with these needs may be sent to the instance while it runs a batch of so many requests, this one among them, and if
// not, why. The model is that of the verdicts, whatever the needs name.
func (v *Verdicts) Meets(n *Needs, batch int) (bool, Reason) {
	fits := v.most == 0 || n.PromptTokens+max(n.OutputTokens, 1) <= v.most
	if fits && !v.limits && n.Adapter == "" && n.LowBit == "" && n.Role == "" && n.Least <= E1 && !n.Strict && v.allAlways(n.Features) {
		return true, Reason{}
	}
	asked := *n
	asked.Model = v.model
	ok, why := v.contract.Meets(asked, State{"batch": strconv.Itoa(batch)})
	if !ok && batch > 1 {
		why.Busy, _ = v.contract.Meets(asked, State{"batch": "1"})
	}
	return ok, why
}

func (v *Verdicts) allAlways(features []Feature) bool {
	for _, f := range features {
		if !v.always[f] {
			return false
		}
	}
	return true
}
