package jsonschema

import (
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// maxUnique bounds the values of a list without repetition: every subset of them becomes a rule.
const maxUnique = 8

// maxContains bounds the rules of a list whose items are counted twice over.
const maxContains = 4096

func (e *emitter) array(x *arrayShape) (grammar.Node, error) {
	if x.max >= 0 && x.min > x.max {
		return e.nothing(), nil
	}
	if x.unique != "" && x.max != 0 && x.max != 1 {
		return e.uniqueItems(x)
	}
	if len(x.contains) > 0 {
		return e.containing(x)
	}
	open, comma := e.b.Lexeme(grammar.Concat(grammar.Text("["), e.inside)), e.b.Lexeme(e.comma)
	end := e.b.Lexeme(grammar.Concat(e.before, grammar.Text("]")))
	tail, err := e.tail(x, comma, end)
	if err != nil {
		return tail, err
	}
	last := len(x.prefix)
	if x.max >= 0 && x.max < last {
		last, tail = x.max, end
	}
	for i := last - 1; i >= 0; i-- {
		item, err := e.shape(x.prefix[i])
		if err != nil {
			return item, err
		}
		tail = e.b.Seq(item, tail)
		if i > 0 {
			tail = e.b.Seq(comma, tail)
			if i >= x.min {
				tail = e.b.Or(end, tail)
			}
		}
	}
	return e.opened(x, open, tail), nil
}

// opened puts the opening bracket before the items, and adds the empty list.
func (e *emitter) opened(x *arrayShape, open, items grammar.Node) grammar.Node {
	if x.max == 0 {
		return e.b.Literal("[]")
	}
	all := e.b.Seq(open, items)
	if x.min > 0 {
		return all
	}
	return e.b.Or(e.b.Literal("[]"), all)
}

// tail writes the items after the prefix, with the comma before them if there is a prefix, and the closing bracket.
func (e *emitter) tail(x *arrayShape, comma, end grammar.Node) (grammar.Node, error) {
	p := len(x.prefix)
	if x.max >= 0 && x.max <= p {
		return end, nil
	}
	item, err := e.shape(x.rest)
	if err != nil {
		return item, err
	}
	most := -1
	if x.max >= 0 {
		most = x.max - p
	}
	more := e.b.Seq(comma, item)
	if p > 0 {
		return e.b.Seq(e.b.Repeat(more, max(0, x.min-p), most), end), nil
	}
	if most > 0 {
		most--
	}
	return e.b.Seq(item, e.b.Repeat(more, max(0, x.min-1), most), end), nil
}

// uniqueItems writes lists without repetition out of few values.
func (e *emitter) uniqueItems(x *arrayShape) (grammar.Node, error) {
	if err := e.c.build(x.rest); err != nil {
		return grammar.Node{}, err
	}
	var values []grammar.Regexp
	for _, v := range x.rest.literals {
		values = append(values, e.literal(v))
	}
	if x.rest.null {
		values = append(values, grammar.Text("null"))
	}
	for i, word := range []string{"false", "true"} {
		if x.rest.bools[i] {
			values = append(values, grammar.Text(word))
		}
	}
	if r := x.rest; len(x.prefix)+len(x.contains)+len(r.texts)+len(r.numbers)+len(r.objects)+len(r.arrays) > 0 || len(values) > maxUnique {
		return grammar.Node{}, refuse(x.unique, fault.Say("jsonschema.unique_items", maxUnique))
	}
	return e.subsets(x, values)
}

// subsets writes a rule for every set of values that are used up.
func (e *emitter) subsets(x *arrayShape, values []grammar.Regexp) (grammar.Node, error) {
	rules := make([]grammar.Node, 1<<len(values))
	var err error
	for set := range rules {
		if rules[set], err = e.rule(x.unique); err != nil {
			return grammar.Node{}, err
		}
	}
	for set := range rules {
		used := 0
		for i := range values {
			used += set >> i & 1
		}
		var choices []grammar.Node
		if used >= x.min {
			choices = append(choices, e.closing(used))
		}
		for i, v := range values {
			if set>>i&1 == 0 && (x.max < 0 || used < x.max) {
				choices = append(choices, e.b.Seq(e.b.Lexeme(grammar.Concat(e.opening(used), v)), rules[set|1<<i]))
			}
		}
		e.b.Define(rules[set], e.b.Or(choices...))
	}
	return rules[0], nil
}

// opening is what precedes an item, closing what follows the last, when there are k items already.
func (e *emitter) opening(k int) grammar.Regexp {
	if k == 0 {
		return grammar.Concat(grammar.Text("["), e.inside)
	}
	return e.comma
}

func (e *emitter) closing(k int) grammar.Node {
	if k == 0 {
		return e.b.Literal("[]")
	}
	return e.b.Lexeme(grammar.Concat(e.before, grammar.Text("]")))
}

// containing writes lists of which so many items must satisfy a schema of their own. It counts the items and those that count.
func (e *emitter) containing(x *arrayShape) (grammar.Node, error) {
	k := x.contains[0]
	items, hits := max(x.min, x.max, 1), max(k.min, k.max, 0)
	if len(x.prefix) > 0 || len(x.contains) > 1 || (items+1)*(hits+1) > maxContains {
		return grammar.Node{}, refuse(k.at, fault.Say("jsonschema.contains"))
	}
	yes, err := e.shape(k.yes)
	if err != nil {
		return yes, err
	}
	other := k.no
	if other == nil {
		other = x.rest
	}
	no, err := e.shape(other)
	if err != nil {
		return no, err
	}
	rules := make([]grammar.Node, (items+1)*(hits+1))
	for i := range rules {
		if rules[i], err = e.rule(k.at); err != nil {
			return rules[i], err
		}
	}
	at := func(i, h int) grammar.Node { return rules[min(i, items)*(hits+1)+min(h, hits)] }
	for i := range items + 1 {
		for h := range hits + 1 {
			var choices []grammar.Node
			if i >= x.min && h >= k.min {
				choices = append(choices, e.closing(i))
			}
			if x.max < 0 || i < x.max {
				lead := e.b.Lexeme(e.opening(i))
				choices = append(choices, e.b.Seq(lead, no, at(i+1, h)))
				if k.max < 0 || h < k.max {
					choices = append(choices, e.b.Seq(lead, yes, at(i+1, h+1)))
				}
			}
			e.b.Define(at(i, h), e.b.Or(choices...))
		}
	}
	return at(0, 0), nil
}
