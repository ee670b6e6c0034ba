package jsonschema

import (
	"slices"

	"github.com/sluice-project/sluice/internal/fault"
)

// maxNamePatterns bounds the patterns that may combine in one object: the cells are as many as their subsets.
const maxNamePatterns = 6

// mergeObjects adds the object of an alternative.
func (c *compiler) mergeObjects(s *shape, a alternative) error {
	x := &objectShape{max: -1}
	m := &objectMerge{c: c, at: s.at, nodes: a.nodes, required: map[string]bool{}}
	for _, n := range a.nodes {
		o := &n.objects
		if o.own() {
			m.at = n.at
		}
		if o.min > x.min {
			x.min, x.minAt = o.min, o.minAt
		}
		x.max = least(x.max, o.max)
		m.gather(o)
	}
	if err := m.nameShape(); err != nil {
		return err
	}
	for _, name := range m.order {
		child, err := m.valueOf(name)
		if err != nil {
			return err
		}
		x.named = append(x.named, member{name, child, m.required[name]})
	}
	if !m.closed() {
		if err := m.cells(x); err != nil {
			return err
		}
	}
	s.objects = append(s.objects, x)
	return nil
}

// objectMerge is the merging of the objects of several nodes.
type objectMerge struct {
	c        *compiler
	at       string
	nodes    []*node
	order    []string // names in the order of the schema
	known    map[string]bool
	required map[string]bool
	patterns []patternProperty
	spoken   bool  // some node speaks of additional properties
	names    []ref // demands on every name
	nameAs   *shape
}

func (m *objectMerge) gather(o *objects) {
	for _, p := range o.properties {
		m.know(p.name)
	}
	for _, name := range o.required {
		m.know(name)
		m.required[name] = true
	}
	m.patterns = append(m.patterns, o.patterns...)
	m.spoken = m.spoken || o.additional != nil
	if o.names != nil {
		m.names = append(m.names, *o.names)
	}
}

func (m *objectMerge) know(name string) {
	if m.known == nil {
		m.known = map[string]bool{}
	}
	if !m.known[name] {
		m.known[name] = true
		m.order = append(m.order, name)
	}
}

// nameShape builds what propertyNames allows. Names that it lists become named properties.
func (m *objectMerge) nameShape() error {
	if len(m.names) == 0 {
		return nil
	}
	s, err := m.c.nameShape(m.at, m.names)
	if err != nil {
		return err
	}
	m.nameAs = s
	for _, v := range s.literals {
		m.know(v.text)
	}
	return nil
}

// nameShape returns the built shape of a property's name under the demands.
func (c *compiler) nameShape(at string, demands []ref) (*shape, error) {
	s, err := c.shapeOf(at, append(slices.Clone(demands), ref{node: c.anyText}))
	if err != nil {
		return nil, err
	}
	return s, c.build(s)
}

// closed reports whether the options close the object.
func (m *objectMerge) closed() bool {
	return m.c.opt.Closed && !m.spoken && len(m.patterns) == 0 && len(m.order) > 0
}

// valueOf returns the shape of the property called name.
func (m *objectMerge) valueOf(name string) (*shape, error) {
	v := &value{kind: kindString, text: name}
	var demands []ref
	for _, d := range m.names {
		if ok, err := m.c.holds(v, d); err != nil || !ok {
			return m.c.nothing, err
		}
	}
	for _, n := range m.nodes {
		matched := map[string]bool{}
		for _, p := range n.objects.patterns {
			ok, err := m.c.matches(p.at, p.text, name)
			if err != nil {
				return nil, err
			}
			matched[p.text] = ok
		}
		demands = append(demands, n.objects.demands(name, matched)...)
	}
	return m.c.shapeOf(m.at+"/properties/"+escapeStep(name), demands)
}

// demands returns what o demands of the value of a name that matches certain patterns; name "" with no property of that name stands
// for names that are not spelled out.
func (o *objects) demands(name string, matched map[string]bool) []ref {
	var out []ref
	for _, p := range o.properties {
		if p.name == name {
			out = append(out, p.ref)
		}
	}
	for _, p := range o.patterns {
		if matched[p.text] {
			out = append(out, p.ref)
		}
	}
	if len(out) == 0 && o.additional != nil {
		out = append(out, *o.additional)
	}
	return out
}

// cells parts the names that are not spelled out by the patterns that they match.
func (m *objectMerge) cells(x *objectShape) error {
	var texts []patternProperty
	for _, p := range m.patterns {
		if !slices.ContainsFunc(texts, func(q patternProperty) bool { return q.text == p.text }) {
			texts = append(texts, p)
		}
	}
	if len(texts) > maxNamePatterns {
		return refuse(texts[maxNamePatterns].at, fault.Say("jsonschema.too_many_name_patterns", maxNamePatterns))
	}
	for set := range 1 << len(texts) {
		if err := m.cell(x, texts, set); err != nil {
			return err
		}
	}
	return nil
}

// cell adds the names that match exactly the patterns in set.
func (m *objectMerge) cell(x *objectShape, texts []patternProperty, set int) error {
	matched := map[string]bool{}
	var patterns []pattern
	for i, p := range texts {
		matched[p.text] = set>>i&1 == 1
		patterns = append(patterns, pattern{at: p.at, text: p.text, not: !matched[p.text]})
	}
	var demands []ref
	for _, n := range m.nodes {
		others := objects{patterns: n.objects.patterns, additional: n.objects.additional}
		demands = append(demands, others.demands("", matched)...)
	}
	child, err := m.c.shapeOf(m.at+"/additionalProperties", demands)
	if err != nil {
		return err
	}
	if child == m.c.nothing || slices.ContainsFunc(demands, func(r ref) bool { return r.node.never && !r.not }) {
		return nil
	}
	base := []*textShape{{at: m.at, max: -1}}
	if m.nameAs != nil {
		base = m.nameAs.texts
	}
	var name []*textShape
	for _, t := range base {
		y := *t
		y.patterns = append(slices.Clone(t.patterns), patterns...)
		y.exclude = append(slices.Clone(t.exclude), m.order...)
		name = append(name, &y)
	}
	if len(name) > 0 {
		x.cells = append(x.cells, memberCell{name, child})
	}
	return nil
}
