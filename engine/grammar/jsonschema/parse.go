package jsonschema

import (
	"math/big"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// parser turns values into nodes, each place of the document once.
type parser struct {
	lim        Limits
	root       *value
	rootID     string
	nodes      []*node
	places     map[*value]*node
	anchors    map[string]*value
	properties int
	values     int
}

func parse(root *value, lim Limits) (*parser, *node, error) {
	p := &parser{lim: lim, root: root, places: map[*value]*node{}, anchors: map[string]*value{}}
	if id := root.member("$id"); id != nil && root.kind == kindObject {
		p.rootID = strings.TrimSuffix(id.text, "#")
	}
	p.findAnchors(root)
	n, err := p.node(root)
	return p, n, err
}

// findAnchors notes every $anchor. Names under enum, const and their like are none.
func (p *parser) findAnchors(v *value) {
	for i, c := range v.items {
		if v.kind == kindObject {
			switch v.names[i] {
			case "enum", "const", "default", "examples", "example":
				continue
			case "$anchor":
				if c.kind == kindString {
					p.anchors[c.text] = v
				}
			}
		}
		p.findAnchors(c)
	}
}

// add returns a new node for the place at.
func (p *parser) add(at string) *node {
	n := &node{id: len(p.nodes), at: at, types: typeAny}
	n.texts.max, n.objects.max, n.arrays.max = -1, -1, -1
	p.nodes = append(p.nodes, n)
	return n
}

// node returns the node of the subschema v. It is in the map before its parts are read, so that recursion ends.
func (p *parser) node(v *value) (*node, error) {
	if n := p.places[v]; n != nil {
		return n, nil
	}
	n := p.add(v.at())
	p.places[v] = n
	switch v.kind {
	case kindBool:
		n.never = !v.yes
		return n, nil
	case kindObject:
	default:
		return nil, refuse(n.at, fault.Say("jsonschema.schema_type"))
	}
	for i, name := range v.names {
		if err := p.keyword(n, v, name, v.items[i]); err != nil {
			return nil, err
		}
	}
	return n, p.finish(n, v)
}

func (p *parser) ref(v *value) (ref, error) {
	n, err := p.node(v)
	return ref{node: n}, err
}

// refs reads a list of subschemas, of which there is at least one.
func (p *parser) refs(v *value) ([]ref, error) {
	if v.kind != kindArray || len(v.items) == 0 {
		return nil, refuse(v.at(), fault.Say("jsonschema.schema_list"))
	}
	list := make([]ref, len(v.items))
	for i, c := range v.items {
		r, err := p.ref(c)
		if err != nil {
			return nil, err
		}
		list[i] = r
	}
	return list, nil
}

// resolve returns the place that a $ref names.
func (p *parser) resolve(v *value) (*value, error) {
	if v.kind != kindString {
		return nil, refuse(v.at(), fault.Say("jsonschema.reference_type"))
	}
	target := v.text
	if p.rootID != "" {
		target = strings.TrimPrefix(target, p.rootID)
	}
	fragment, ok := strings.CutPrefix(target, "#")
	if !ok && target != "" {
		return nil, refuse(v.at(), fault.Say("jsonschema.foreign_reference"))
	}
	fragment, err := url.PathUnescape(fragment)
	missing := refuse(v.at(), fault.Say("jsonschema.reference_target"))
	if err != nil {
		return nil, missing
	}
	if fragment != "" && fragment[0] != '/' {
		if a := p.anchors[fragment]; a != nil {
			return a, nil
		}
		return nil, missing
	}
	place := p.root
	for _, step := range strings.Split(fragment, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch place.kind {
		case kindObject:
			place = place.member(step)
		case kindArray:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(place.items) {
				return nil, missing
			}
			place = place.items[i]
		default:
			return nil, missing
		}
		if place == nil {
			return nil, missing
		}
	}
	return place, nil
}

// finish relates keywords that read one another.
func (p *parser) finish(n *node, v *value) error {
	if err := p.condition(n, v); err != nil {
		return err
	}
	if err := p.items(n, v); err != nil {
		return err
	}
	if err := p.openBounds(n, v); err != nil {
		return err
	}
	if c := v.member("contains"); c != nil {
		if err := p.contains(n, v, c); err != nil {
			return err
		}
	}
	if yes := v.member("nullable"); yes != nil && yes.yes && n.types != typeAny {
		n.types |= typeNull
	}
	if p.properties += len(n.objects.required); p.properties > p.lim.Properties {
		return p.tooMany(n.at + "/required")
	}
	return nil
}

func (p *parser) tooMany(at string) error {
	return refuse(at, fault.Say("jsonschema.too_many_properties", p.lim.Properties))
}

// condition reads if, then and else. Without if, the others say nothing.
func (p *parser) condition(n *node, v *value) error {
	test := v.member("if")
	if test == nil || (v.member("then") == nil && v.member("else") == nil) {
		return nil
	}
	when, err := p.ref(test)
	if err != nil {
		return err
	}
	parts := [2]ref{}
	for i, name := range []string{"then", "else"} {
		if s := v.member(name); s == nil {
			parts[i] = ref{node: p.add(n.at + "/" + name)}
		} else if parts[i], err = p.ref(s); err != nil {
			return err
		}
	}
	n.conds = append(n.conds, cond{when, parts[0], parts[1]})
	return nil
}

// items reads prefixItems and items, and items and additionalItems as draft 7 has them.
func (p *parser) items(n *node, v *value) error {
	list, rest := v.member("prefixItems"), v.member("items")
	if rest != nil && rest.kind == kindArray {
		if list != nil {
			return refuse(n.at+"/items", fault.Say("jsonschema.list_with_prefix_items"))
		}
		list, rest = rest, v.member("additionalItems")
	}
	if list != nil {
		prefix, err := p.refs(list)
		if err != nil {
			return err
		}
		n.arrays.prefix = prefix
	}
	if rest == nil {
		return nil
	}
	r, err := p.ref(rest)
	n.arrays.items = &r
	return err
}

// openBounds reads exclusiveMinimum and exclusiveMaximum, which are numbers, or true beside minimum and maximum (OpenAPI 3.0).
func (p *parser) openBounds(n *node, v *value) error {
	for _, e := range []struct {
		name  string
		bound *bound
		above bool // the greater of two bounds holds
	}{{"exclusiveMinimum", &n.numbers.low, true}, {"exclusiveMaximum", &n.numbers.high, false}} {
		s := v.member(e.name)
		switch {
		case s == nil:
		case s.kind == kindBool:
			e.bound.open = s.yes
		case s.kind == kindNumber:
			*e.bound = tighter(*e.bound, bound{s.num, true}, e.above)
		default:
			return wrongType(s, fault.Say("jsonschema.type_number"))
		}
	}
	return nil
}

// tighter returns the stricter of two bounds; above says that they are lower bounds.
func tighter(a, b bound, above bool) bound {
	if a.value == nil || b.value == nil {
		if a.value == nil {
			return b
		}
		return a
	}
	c := a.value.Cmp(b.value)
	switch {
	case c == 0:
		return bound{a.value, a.open || b.open}
	case (c > 0) == above:
		return a
	default:
		return b
	}
}

func (p *parser) contains(n *node, v, c *value) error {
	r, err := p.ref(c)
	if err != nil {
		return err
	}
	k := contains{at: c.at(), ref: r, min: 1, max: -1}
	for _, e := range []struct {
		name  string
		field *int
	}{{"minContains", &k.min}, {"maxContains", &k.max}} {
		if s := v.member(e.name); s != nil {
			if *e.field, err = p.count(s); err != nil {
				return err
			}
		}
	}
	n.arrays.contains = append(n.arrays.contains, k)
	return nil
}

// count reads a length or number of items.
func (p *parser) count(v *value) (int, error) {
	if v.kind != kindNumber || !v.num.IsInt() || v.num.Sign() < 0 {
		return 0, wrongType(v, fault.Say("jsonschema.type_count"))
	}
	if v.num.Cmp(big.NewRat(int64(p.lim.Count), 1)) > 0 {
		return 0, refuse(v.at(), fault.Say("jsonschema.number_too_large", p.lim.Count))
	}
	return int(v.num.Num().Int64()), nil
}

func wrongType(v *value, want fault.Phrase) error {
	return refuse(v.at(), fault.Say("jsonschema.wrong_type", want))
}
