package mask

import (
	"slices"

	"github.com/sluice-project/sluice/governance/classify"
)

// Action says what happens to a value of a class.
type Action string

// The actions, the strictest first. Where values that do not stay overlap, the strictest of their actions treats them all.
const (
	ActionBlock   Action = "block"   // the text does not go on
	ActionRedact  Action = "redact"  // a sign that something was there
	ActionHash    Action = "hash"    // a keyed digest, the same in all of a tenant's sessions
	ActionToken   Action = "token"   // a pseudonym, which stands for the value in its session
	ActionPartial Action = "partial" // its ends stay, as in 138****8000
	ActionObserve Action = "observe" // it is counted, and stays
	ActionAllow   Action = "allow"   // it is not even looked for
)

// Actions returns all actions, the strictest first.
func Actions() []Action {
	return []Action{ActionBlock, ActionRedact, ActionHash, ActionToken, ActionPartial, ActionObserve, ActionAllow}
}

// Leaves reports whether values stay as they are.
func (a Action) Leaves() bool { return a == ActionObserve || a == ActionAllow }

// stricter reports whether a is stricter than b. What is not known is the strictest.
func (a Action) stricter(b Action) bool {
	return slices.Index(Actions(), a) < slices.Index(Actions(), b)
}

// Rules are what happens to values of each class in one direction. They are immutable and safe for concurrent use.
type Rules struct {
	hiding    *classify.Set // what does not stay
	observing *classify.Set // what stays and is counted
	tags      []string      // of all classes: what a pseudonym may be called
	action    map[classify.Class]Action
}

// NewRules returns the rules for what detectors find.
func NewRules(detectors *classify.Set, action func(classify.Class) Action) *Rules {
	r := &Rules{tags: tagsOf(detectors), action: map[classify.Class]Action{}}
	for _, t := range detectors.Types() {
		r.action[t.Class] = action(t.Class)
	}
	r.hiding = detectors.Only(func(c classify.Class) bool { return !r.action[c].Leaves() })
	r.observing = detectors.Only(func(c classify.Class) bool { return r.action[c] == ActionObserve })
	return r
}

// Knowing returns r with values that are sensitive wherever they stand. One of a class that stays gets a pseudonym all the same: somebody
// said so of this very value.
func (r *Rules) Knowing(values []classify.Known) *Rules {
	out := *r
	out.hiding = r.hiding.Insist(values)
	return &out
}

// Recognising returns r that also finds these values, and treats them as it treats their classes.
func (r *Rules) Recognising(values []classify.Known) *Rules {
	out := *r
	out.hiding, out.observing = r.hiding.Know(values), r.observing.Know(values)
	return &out
}

// of returns how a finding is called and treated: by the strictest action of its classes, and by the surest class with it.
func (r *Rules) of(s classify.Segment) (classify.Class, Action) {
	class, action := s.Class, r.action[s.Class]
	for _, c := range s.Also {
		if a := r.action[c]; a.stricter(action) {
			class, action = c, a
		}
	}
	if action.Leaves() {
		action = ActionToken
	}
	if action == ActionPartial && len(s.Also) > 0 { // the ends of a union are those of no value
		action = ActionRedact
	}
	return class, action
}
