package jsonschema

import (
	"errors"

	"github.com/sluice-project/sluice/engine/grammar"
)

// proof is what is known about two demands: nothing yet, while the question is open, or the answer.
type proof uint8

const (
	proofOpen proof = iota + 1
	proofApart
	proofNone
)

// disjoint reports whether it can be proved that no value satisfies both. It fails only when the compiler's work is used up.
func (c *compiler) disjoint(a, b ref) (bool, error) {
	if a.key() > b.key() {
		a, b = b, a
	}
	key := [2]ref{a, b}
	if p := c.apart[key]; p != 0 {
		return p == proofApart, nil
	}
	c.apart[key] = proofOpen
	loose := c.loose
	c.loose = true
	s, err := c.shapeOf(a.node.at, []ref{a, b})
	c.loose = loose
	empty := false
	if err == nil {
		empty, err = c.empty(s, maxProof)
	}
	c.apart[key] = proofNone
	if err != nil { // what cannot be compiled is not proved; the place itself says why when it is compiled
		return false, c.work(1, a.node.at)
	}
	if empty {
		c.apart[key] = proofApart
	}
	return empty, nil
}

// maxProof bounds how deep in properties and items a contradiction is looked for.
const maxProof = 4

// empty reports whether it can be proved that the shape allows nothing.
func (c *compiler) empty(s *shape, depth int) (bool, error) {
	if depth == 0 {
		return false, nil
	}
	if err := c.build(s); err != nil {
		return false, err
	}
	if len(s.literals) > 0 || s.null || s.bools[0] || s.bools[1] {
		return false, nil
	}
	for _, x := range s.texts {
		re, err := c.quoted(x, false)
		if err != nil {
			return false, err
		}
		if nothing, err := matchesNothing(re); err != nil || !nothing {
			return false, err
		}
	}
	for _, x := range s.numbers {
		if nothing, err := c.emptyNumber(x); err != nil || !nothing {
			return false, err
		}
	}
	for _, x := range s.objects {
		if nothing, err := c.emptyObject(x, depth); err != nil || !nothing {
			return false, err
		}
	}
	for _, x := range s.arrays {
		if nothing, err := c.emptyArray(x, depth); err != nil || !nothing {
			return false, err
		}
	}
	return true, nil
}

func (c *compiler) emptyObject(x *objectShape, depth int) (bool, error) {
	required := 0
	for _, p := range x.named {
		if !p.required {
			continue
		}
		required++
		if nothing, err := c.empty(p.shape, depth-1); err != nil || nothing {
			return nothing, err
		}
	}
	if x.max >= 0 && (required > x.max || x.min > x.max) {
		return true, nil
	}
	return len(x.cells) == 0 && x.min > len(x.named), nil
}

func (c *compiler) emptyArray(x *arrayShape, depth int) (bool, error) {
	if x.max >= 0 && x.min > x.max {
		return true, nil
	}
	for i := range min(x.min, len(x.prefix)) {
		if nothing, err := c.empty(x.prefix[i], depth-1); err != nil || nothing {
			return nothing, err
		}
	}
	for _, k := range x.contains {
		if k.min > 0 && len(x.prefix) == 0 {
			if nothing, err := c.empty(k.yes, depth-1); err != nil || nothing {
				return nothing, err
			}
		}
	}
	if x.min > len(x.prefix) {
		return c.empty(x.rest, depth-1)
	}
	return false, nil
}

// matchesNothing reports whether no text matches the expression.
func matchesNothing(re grammar.Regexp) (bool, error) {
	b := grammar.NewBuilder(grammar.Limits{})
	_, err := b.Build(b.Lexeme(re))
	var e *grammar.Error
	if errors.As(err, &e) && e.Limit == "" {
		return true, nil
	}
	return false, err
}
