package jsonschema

import (
	"math/big"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// shape is what may stand at a place where certain demands hold: a union of plain forms. Places with the same demands share it, which
// keeps recursion finite and a document's reuse of definitions cheap.
type shape struct {
	at      string // pointer of one of the demands
	demands []ref
	loose   bool // may allow more than the demands: only for proofs that nothing is allowed
	built   bool

	literals []*value
	known    map[string]bool // keys of literals
	null     bool
	bools    [2]bool
	texts    []*textShape
	numbers  []*numberShape
	objects  []*objectShape
	arrays   []*arrayShape

	emitted bool
	node    grammar.Node
}

// textShape is a conjunction of demands about a string.
type textShape struct {
	at       string
	min, max int
	patterns []pattern
	formats  []format
	exclude  []string
}

// numberShape is a conjunction of demands about a number of the types.
type numberShape struct {
	at        string
	types     types
	low, high bound
	multiples []multiple
	exclude   []*big.Rat
}

// objectShape is an object: the named properties in their order, then any number of others.
type objectShape struct {
	named    []member
	cells    []memberCell
	min, max int
	minAt    string
}

type member struct {
	name     string
	shape    *shape
	required bool
}

// memberCell is a set of names that the schema does not spell out, and what their values are.
type memberCell struct {
	name  []*textShape
	shape *shape
}

// arrayShape is an array.
type arrayShape struct {
	prefix   []*shape
	rest     *shape
	min, max int
	unique   string
	contains []containsShape
}

type containsShape struct {
	contains
	yes, no *shape // an item that counts; one that does not (nil if that is not needed)
}

// shapeOf returns the shape of the conjunction of demands, to be built later.
func (c *compiler) shapeOf(at string, demands []ref) (*shape, error) {
	demands = slices.DeleteFunc(slices.Clone(demands), ref.trivial)
	slices.SortFunc(demands, func(a, b ref) int {
		if a.node.id != b.node.id {
			return a.node.id - b.node.id
		}
		return strings.Compare(a.key(), b.key())
	})
	demands = slices.Compact(demands)
	var key strings.Builder
	if c.loose {
		key.WriteByte('~')
	}
	for _, d := range demands {
		key.WriteString(d.key())
		key.WriteByte(' ')
	}
	if s := c.shapes[key.String()]; s != nil {
		return s, nil
	}
	if !c.loose {
		c.strict++
	}
	if c.strict > c.opt.Limits.Shapes {
		return nil, refuse(at, fault.Say("jsonschema.too_many_shapes", c.opt.Limits.Shapes))
	}
	s := &shape{at: at, demands: demands, loose: c.loose}
	c.shapes[key.String()] = s
	return s, c.work(len(demands)+1, at)
}

// build fills the shape.
func (c *compiler) build(s *shape) error {
	if s.built {
		return nil
	}
	s.built = true
	open, loose := c.open, c.loose
	c.open, c.loose = map[ref]bool{}, s.loose
	defer func() { c.open, c.loose = open, loose }()
	if list := listed(s.demands); list != nil {
		return c.filter(s, list)
	}
	alts, err := c.expand(s.demands)
	if err != nil {
		return err
	}
	for _, a := range alts {
		if err := c.merge(s, a); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the values out of which the demands choose, if one of them is an enum or a const. Then nothing need be expanded.
func listed(demands []ref) []*value {
	seen := map[ref]bool{}
	var find func(demands []ref) []*value
	find = func(demands []ref) []*value {
		for _, d := range demands {
			if d.not || seen[d] {
				continue
			}
			seen[d] = true
			if d.node.enum != nil {
				return d.node.enum
			}
			if list := find(d.node.all); list != nil {
				return list
			}
		}
		return nil
	}
	return find(demands)
}

// filter adds those of the values that satisfy the shape's demands.
func (c *compiler) filter(s *shape, list []*value) error {
	for _, v := range list {
		count, err := c.holdAll(v, s.demands)
		if err != nil {
			return err
		}
		if count == len(s.demands) {
			s.addLiteral(v)
		}
	}
	return nil
}

func (s *shape) addLiteral(v *value) {
	if s.known == nil {
		s.known = map[string]bool{}
	}
	if !s.known[v.key()] {
		s.known[v.key()] = true
		s.literals = append(s.literals, v)
	}
}

// merge adds one alternative to the shape.
func (c *compiler) merge(s *shape, a alternative) error {
	for _, n := range a.nodes {
		if n.enum != nil {
			return c.mergeEnum(s, a, n)
		}
	}
	var exclude []*value
	for _, n := range a.nodes {
		exclude = append(exclude, n.exclude...)
	}
	excludes := func(w *value) bool { return slices.ContainsFunc(exclude, w.same) }
	if a.types&typeNull != 0 && !excludes(&value{kind: kindNull}) {
		s.null = true
	}
	if a.types&typeBool != 0 {
		s.bools[0] = s.bools[0] || !excludes(&value{kind: kindBool})
		s.bools[1] = s.bools[1] || !excludes(&value{kind: kindBool, yes: true})
	}
	if a.types&typeNumber != 0 {
		c.mergeNumbers(s, a, exclude)
	}
	if a.types&typeString != 0 {
		c.mergeTexts(s, a, exclude)
	}
	if a.types&(typeArray|typeObject) == 0 {
		return nil
	}
	for _, e := range exclude {
		if typeOf(e)&a.types&(typeArray|typeObject) != 0 && !c.loose {
			return refuse(e.at(), fault.Say("jsonschema.negated_value"))
		}
	}
	if a.types&typeObject != 0 {
		if err := c.mergeObjects(s, a); err != nil {
			return err
		}
	}
	if a.types&typeArray != 0 {
		return c.mergeArrays(s, a)
	}
	return nil
}

// mergeEnum adds those of the values of one node that satisfy the alternative.
func (c *compiler) mergeEnum(s *shape, a alternative, n *node) error {
	for _, v := range n.enum {
		ok := true
		for _, m := range a.nodes {
			yes, err := c.ownHolds(v, m)
			if err != nil {
				return err
			}
			if ok = yes; !ok {
				break
			}
		}
		if ok {
			s.addLiteral(v)
		}
	}
	return nil
}

func (c *compiler) mergeNumbers(s *shape, a alternative, exclude []*value) {
	x := &numberShape{at: s.at, types: a.types & typeNumber}
	for _, n := range a.nodes {
		x.low = tighter(x.low, n.numbers.low, true)
		x.high = tighter(x.high, n.numbers.high, false)
		x.multiples = append(x.multiples, n.numbers.multiples...)
		if n.numbers.own() {
			x.at = n.at
		}
	}
	for _, e := range exclude {
		if e.kind == kindNumber {
			x.exclude = append(x.exclude, e.num)
		}
	}
	s.numbers = append(s.numbers, x)
}

func (c *compiler) mergeTexts(s *shape, a alternative, exclude []*value) {
	x := &textShape{at: s.at, max: -1}
	for _, n := range a.nodes {
		x.min = max(x.min, n.texts.min)
		x.max = least(x.max, n.texts.max)
		x.patterns = append(x.patterns, n.texts.patterns...)
		x.formats = append(x.formats, n.texts.formats...)
		if n.texts.own() {
			x.at = n.at
		}
	}
	for _, e := range exclude {
		if e.kind == kindString {
			x.exclude = append(x.exclude, e.text)
		}
	}
	s.texts = append(s.texts, x)
}

// least returns the smaller of two upper bounds, of which −1 is none.
func least(a, b int) int {
	if a < 0 || (b >= 0 && b < a) {
		return b
	}
	return a
}
