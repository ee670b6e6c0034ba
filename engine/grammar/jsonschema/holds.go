package jsonschema

import (
	"math/big"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// holds reports whether a value that the schema itself gives satisfies a demand.
func (c *compiler) holds(v *value, d ref) (bool, error) {
	key := verdictKey{v, d.node}
	ok, known := c.verdicts[key]
	if !known {
		err := c.work(1, d.node.at)
		if err == nil {
			ok, err = c.ownHolds(v, d.node)
		}
		if err == nil && ok {
			ok, err = c.combinedHolds(v, d.node)
		}
		if err != nil {
			return false, err
		}
		c.verdicts[key] = ok
	}
	return ok != d.not, nil
}

// verdictKey is the question whether a node holds for a value.
type verdictKey struct {
	value *value
	node  *node
}

// holdAll returns how many of the demands hold.
func (c *compiler) holdAll(v *value, list []ref) (count int, err error) {
	for _, d := range list {
		ok, err := c.holds(v, d)
		if err != nil {
			return 0, err
		}
		if ok {
			count++
		}
	}
	return count, nil
}

// combinedHolds answers for what a node says of other subschemas at the same place.
func (c *compiler) combinedHolds(v *value, n *node) (bool, error) {
	if c.holding > maxHolding {
		return false, refuse(n.at, fault.Say("jsonschema.self_reference"))
	}
	c.holding++
	defer func() { c.holding-- }()
	if count, err := c.holdAll(v, n.all); err != nil || count < len(n.all) {
		return false, err
	}
	for _, list := range n.any {
		if count, err := c.holdAll(v, list); err != nil || count == 0 {
			return false, err
		}
	}
	for _, one := range n.one {
		if count, err := c.holdAll(v, one.branches); err != nil || count != 1 {
			return false, err
		}
	}
	for _, k := range n.conds {
		then, err := c.holds(v, k.when)
		if err != nil {
			return false, err
		}
		next := k.otherwise
		if then {
			next = k.then
		}
		if ok, err := c.holds(v, next); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// maxHolding bounds the nesting of subschemas that one value of the schema is checked against.
const maxHolding = 500

// ownHolds answers for a node's own demands.
func (c *compiler) ownHolds(v *value, n *node) (bool, error) {
	if n.never || n.types&typeOf(v) == 0 || slices.ContainsFunc(n.exclude, v.same) {
		return false, nil
	}
	if n.enum != nil && !n.lists(v) {
		return false, nil
	}
	switch v.kind {
	case kindString:
		return c.textHolds(v.text, &n.texts)
	case kindNumber:
		return numberHolds(v.num, &n.numbers), nil
	case kindArray:
		return c.arrayHolds(v, &n.arrays)
	case kindObject:
		return c.objectHolds(v, &n.objects)
	default:
		return true, nil
	}
}

func (c *compiler) textHolds(s string, t *texts) (bool, error) {
	if length := utf8.RuneCountInString(s); length < t.min || (t.max >= 0 && length > t.max) {
		return false, nil
	}
	for _, p := range t.patterns {
		if ok, err := c.matches(p.at, p.text, s); err != nil || ok == p.not {
			return false, err
		}
	}
	for _, f := range t.formats {
		if ok, err := c.matches(f.at, formats[f.name].anchored(), s); err != nil || ok == f.not {
			return false, err
		}
	}
	return true, nil
}

// matches reports whether the expression occurs in s.
func (c *compiler) matches(at, expression, s string) (bool, error) {
	re := c.expressions[expression]
	if re == nil {
		tree, err := parsePattern(at, expression)
		if err != nil {
			return false, err
		}
		if re, err = regexp.Compile(tree.String()); err != nil {
			return false, patternError(at, err)
		}
		c.expressions[expression] = re
	}
	return re.MatchString(s), c.work(1+len(s)/16, at)
}

func numberHolds(x *big.Rat, n *numbers) bool {
	if n.low.value != nil {
		if cmp := x.Cmp(n.low.value); cmp < 0 || (cmp == 0 && n.low.open) {
			return false
		}
	}
	if n.high.value != nil {
		if cmp := x.Cmp(n.high.value); cmp > 0 || (cmp == 0 && n.high.open) {
			return false
		}
	}
	for _, m := range n.multiples {
		if !new(big.Rat).Quo(x, m.of).IsInt() {
			return false
		}
	}
	return true
}

func (c *compiler) arrayHolds(v *value, a *arrays) (bool, error) {
	if len(v.items) < a.min || (a.max >= 0 && len(v.items) > a.max) {
		return false, nil
	}
	for i, item := range v.items {
		d := a.items
		if i < len(a.prefix) {
			d = &a.prefix[i]
		}
		if d == nil {
			continue
		}
		if ok, err := c.holds(item, *d); err != nil || !ok {
			return false, err
		}
	}
	if a.unique != "" {
		for i := range v.items {
			if slices.ContainsFunc(v.items[:i], v.items[i].same) {
				return false, nil
			}
		}
	}
	for _, k := range a.contains {
		count := 0
		for _, item := range v.items {
			ok, err := c.holds(item, k.ref)
			if err != nil {
				return false, err
			}
			if ok {
				count++
			}
		}
		if count < k.min || (k.max >= 0 && count > k.max) {
			return false, nil
		}
	}
	return true, nil
}

func (c *compiler) objectHolds(v *value, o *objects) (bool, error) {
	if len(v.items) < o.min || (o.max >= 0 && len(v.items) > o.max) {
		return false, nil
	}
	for _, name := range o.required {
		if v.member(name) == nil {
			return false, nil
		}
	}
	for i, name := range v.names {
		if o.names != nil {
			if ok, err := c.holds(&value{kind: kindString, text: name}, *o.names); err != nil || !ok {
				return false, err
			}
		}
		matched := map[string]bool{}
		for _, p := range o.patterns {
			ok, err := c.matches(p.at, p.text, name)
			if err != nil {
				return false, err
			}
			matched[p.text] = ok
		}
		demands := o.demands(name, matched)
		if count, err := c.holdAll(v.items[i], demands); err != nil || count < len(demands) {
			return false, err
		}
	}
	return true, nil
}
