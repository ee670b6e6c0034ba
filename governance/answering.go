package governance

import (
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// What a policy has done with sentences of an answer that no passage bears out.
const (
	UnsupportedKeep = "keep" // they are not looked at
	UnsupportedMark = "mark"
	UnsupportedDrop = "drop"
)

// Answering says when a chat with documents of a collection is answered. The zero value lets the model answer always.
type Answering struct {
	// RefuseBelow and AskBelow are probabilities that what was found answers, RefuseBelow the lower one: below it the caller is refused, below AskBelow he is asked
	// back, and 0 is below nothing.
	RefuseBelow, AskBelow float64
	Unsupported           string // "" means keep
	// DirectAbove is a probability that a question asks an entry of the collection's FAQ: from it on the entry answers, and no model is asked. 0: never.
	DirectAbove float64
}

// Judges reports whether what was found decides.
func (a Answering) Judges() bool { return a.AskBelow > 0 }

// Checks reports whether sentences are held against what was found.
func (a Answering) Checks() bool {
	return a.Unsupported == UnsupportedMark || a.Unsupported == UnsupportedDrop
}

// answering is one rule of a policy.
type answering struct {
	Collections []string `json:"collections"`
	RefuseBelow float64  `json:"refuse_below,omitempty"`
	AskBelow    float64  `json:"ask_below,omitempty"` // at least RefuseBelow
	Unsupported string   `json:"unsupported,omitempty"`
	DirectAbove float64  `json:"direct_above,omitempty"`
}

const maxAnswering = 100

// readAnswering reads the rules, in their order.
func (p *policy) readAnswering(n *yaml.Node, path string) error {
	if err := rejectAliases(n, path); err != nil {
		return err
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxAnswering {
		return errorAt(n, path, fault.Say("governance.answering_rules", maxAnswering))
	}
	for i, item := range n.Content {
		var a answering
		path := path + "[" + strconv.Itoa(i) + "]"
		err := object(item, path, []field{
			{"collections", true, list(&a.Collections)},
			{"refuse_below", false, probability(&a.RefuseBelow)},
			{"ask_below", false, probability(&a.AskBelow)},
			{"direct_above", false, probability(&a.DirectAbove)},
			{"unsupported", false, choice(&a.Unsupported, UnsupportedKeep, UnsupportedMark, UnsupportedDrop)},
		})
		if err != nil {
			return err
		}
		if a.AskBelow == 0 {
			a.AskBelow = a.RefuseBelow
		}
		if a.AskBelow < a.RefuseBelow {
			return errorAt(item, path+".ask_below", fault.Say("governance.ask_below"))
		}
		p.Answering = append(p.Answering, a)
	}
	return nil
}

// probability reads a number from 0 to 1.
func probability(to *float64) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || !(v >= 0 && v <= 1) {
			return errorAt(n, path, fault.Say("governance.probability"))
		}
		*to = v
		return nil
	}
}

// Answering returns when a chat with documents of a collection is answered.
func (a *Admission) Answering(collection string) Answering {
	for _, r := range a.active.policy.Answering {
		if identity.Matches(r.Collections, collection) {
			return Answering{RefuseBelow: r.RefuseBelow, AskBelow: r.AskBelow, Unsupported: r.Unsupported, DirectAbove: r.DirectAbove}
		}
	}
	return Answering{}
}
