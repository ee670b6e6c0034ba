package jsonschema

import (
	"errors"
	"maps"

	"github.com/sluice-project/sluice/engine/grammar"
)

// proof is what is known about two demands: nothing yet, while the question is open, or the answer.
type proof uint8

const (
	proofOpen proof = iota + 1
	proofApart
	proofNone
)

// question is whether a value of the types can satisfy both.
type question struct {
	types types
	a, b  ref
}

// disjoint reports whether it can be proved that no value of the types satisfies both. It fails only when the compiler's work is used
// up.
func (c *compiler) disjoint(a, b ref, among types) (bool, error) {
	if a.key() > b.key() {
		a, b = b, a
	}
	key := question{among, a, b}
	if p := c.apart[key]; p != 0 {
		return p == proofApart, nil
	}
	if c.tagsOf(a).differ(c.tagsOf(b), among) {
		c.apart[key] = proofApart
		return true, c.work(1, a.node.at)
	}
	c.apart[key] = proofOpen
	loose := c.loose
	c.loose = true
	s, err := c.shapeOf(a.node.at, []ref{a, b, {node: c.ofTypes(among)}})
	empty := false
	if err == nil {
		empty, err = c.empty(s, maxProof)
	}
	c.loose = loose
	c.apart[key] = proofNone
	if err != nil { // what cannot be compiled is not proved; the place itself says why when it is compiled
		return false, c.work(1, a.node.at)
	}
	if empty {
		c.apart[key] = proofApart
	}
	return empty, nil
}

// ofTypes returns a node that demands the types.
func (c *compiler) ofTypes(t types) *node {
	n := c.typed[t]
	if n == nil {
		n = c.parser.add("#")
		n.types = t
		c.typed[t] = n
	}
	return n
}

// tags are what a large union's branches are mostly told apart by: the values that required properties choose from.
type tags struct {
	object bool // only objects are valid
	values map[string]map[string]bool
}

// differ reports whether one property's values prove that no object has both.
func (t *tags) differ(u *tags, among types) bool {
	if !t.object && !u.object && among != typeObject {
		return false
	}
	for name, values := range t.values {
		others, ok := u.values[name]
		if !ok {
			continue
		}
		shared := false
		for v := range values {
			shared = shared || others[v]
		}
		if !shared {
			return true
		}
	}
	return false
}

// tagsOf returns the tags of a demand.
func (c *compiler) tagsOf(d ref) *tags {
	if t := c.tags[d]; t != nil {
		return t
	}
	t := &tags{values: map[string]map[string]bool{}}
	c.tags[d] = t
	required := map[string]bool{}
	seen := map[ref]bool{}
	var gather func(d ref)
	gather = func(d ref) {
		if d.not || seen[d] {
			return
		}
		seen[d] = true
		n := d.node
		t.object = t.object || n.types == typeObject
		for _, name := range n.objects.required {
			required[name] = true
		}
		for _, p := range n.objects.properties {
			if list := listed([]ref{p.ref}); list != nil && t.values[p.name] == nil {
				keys := map[string]bool{}
				for _, v := range list {
					keys[v.key()] = true
				}
				t.values[p.name] = keys
			}
		}
		for _, r := range n.all {
			gather(r)
		}
	}
	gather(d)
	maps.DeleteFunc(t.values, func(name string, _ map[string]bool) bool { return !required[name] })
	return t
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
		if x.max >= 0 && x.max < x.min {
			continue
		}
		re, err := c.quoted(x, false)
		if err != nil {
			return false, err
		}
		if nothing, err := c.matchesNothing(re); err != nil || !nothing {
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

// matchesNothing reports whether no text matches the expression. It gives up early: what is too hard to find out is not proved.
func (c *compiler) matchesNothing(re grammar.Regexp) (bool, error) {
	if err := c.work(2500, "#"); err != nil {
		return false, err
	}
	b := grammar.NewBuilder(grammar.Limits{BuildSteps: 20_000})
	_, err := b.Build(b.Lexeme(re))
	var e *grammar.Error
	if errors.As(err, &e) && e.Limit == "" {
		return true, nil
	}
	return false, err
}
