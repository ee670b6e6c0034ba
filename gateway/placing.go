package gateway

import (
	"strings"

	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/internal/fault"
)

// This page is about where texts may go. The policy says it by the grade of their data, which what was found in them raises. Whoever chooses an instance asks
// for it anew each time: at first, for a retry, for a hedge, and for a part. A fallback, and a line of a batch, is a call of its own. What equal calls share is
// kept apart by it.

// placing says where the texts of the call may go, by what is known of them now. Without a decision they go nowhere.
func (r *run) placing() governance.Placing {
	if d := r.admission.decision; d != nil {
		return d.Placing()
	}
	return r.admission.placing
}

// settlePlace has another instance serve the call if its texts, which are looked at after the route is chosen, may not go to the one that was chosen. No engine has
// had anything of them but, masked, the question of a search, and what spells tokens. What asks no engine stays where it is.
func (r *run) settlePlace() error {
	at := r.serving().Instance
	if at == nil || r.placing().Allows(string(at.Place())) {
		return nil
	}
	next, err := r.p.deps.Router.Again(r.choice, nil)
	if err != nil || next.Instance == nil {
		r.answer.decline()
		return r.misplaced()
	}
	r.answer.move(next, nil)
	return nil
}

// misplaced refuses a call whose model runs nowhere that its data may go.
func (r *run) misplaced() error {
	p := r.placing()
	var allowed any = strings.Join(p.Allowed(), ", ")
	if allowed == "" {
		allowed = fault.Say("thing.nowhere")
	}
	return fault.New(fault.CodePlaceNotAllowed, p.Grade.String(), string(r.call.Model), allowed).WithParam("model")
}

// notePlace tells a record of the grade of the data, and of the place where the call runs.
func (r *run) notePlace(detail map[string]string) {
	if g := r.placing().Grade; g != 0 {
		detail["data_grade"] = g.String()
	}
	if i := r.serving().Instance; i != nil {
		detail["place"] = string(i.Place())
	}
}
