package jsonschema

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// alternative is one way to satisfy a place: nodes whose own demands must all hold, without repetition, by id.
type alternative struct {
	nodes []*node
	types types
	done  []ref // demands that it is known to satisfy
}

// with returns the alternative with n's own demands added; ok is false when no type is left.
func (a alternative) with(n *node) (alternative, bool) {
	if n.never || a.types&n.types == 0 {
		return a, false
	}
	i, found := slices.BinarySearchFunc(a.nodes, n, func(x, y *node) int { return x.id - y.id })
	if !found && n.own() {
		a.nodes = slices.Insert(slices.Clone(a.nodes), i, n)
	}
	a.types &= n.types
	return a, true
}

func (a alternative) key() string {
	var b strings.Builder
	for _, n := range a.nodes {
		b.WriteString(ref{node: n}.key())
		b.WriteByte(' ')
	}
	return b.String()
}

// expand writes the conjunction of the demands as alternatives of plain nodes: a disjunctive normal form.
func (c *compiler) expand(demands []ref) ([]alternative, error) {
	alts := []alternative{{types: typeAny}}
	var err error
	for _, d := range demands {
		if alts, err = c.add(alts, d); err != nil {
			return nil, err
		}
	}
	return alts, nil
}

// add returns the alternatives that satisfy d besides.
func (c *compiler) add(alts []alternative, d ref) ([]alternative, error) {
	if len(alts) == 0 {
		return nil, nil
	}
	if c.open[d] {
		return nil, refuse(d.node.at, fault.Say("jsonschema.self_reference"))
	}
	c.open[d] = true
	defer delete(c.open, d)
	var out []alternative
	for _, a := range alts {
		if slices.Contains(a.done, d) {
			out = append(out, a)
			continue
		}
		more, err := c.addTo(a, d)
		if err != nil {
			return nil, err
		}
		if out = append(out, more...); len(out) > c.opt.Limits.Alternatives {
			return nil, c.tooMany(d.node.at)
		}
	}
	return out, nil
}

func (c *compiler) tooMany(at string) error {
	return refuse(at, fault.Say("jsonschema.too_many_alternatives", c.opt.Limits.Alternatives))
}

// addTo returns the alternatives that satisfy both a and d. It remembers them, because the same question comes up along every path of
// references that leads to d.
func (c *compiler) addTo(a alternative, d ref) ([]alternative, error) {
	key := a.key() + d.key()
	if c.loose {
		key += "~"
	}
	if out, ok := c.added[key]; ok {
		return out, c.work(1, d.node.at)
	}
	more, err := c.addNode([]alternative{a}, d)
	if err != nil {
		return nil, err
	}
	out := make([]alternative, len(more))
	for i, m := range more {
		m.done = append(m.done[:len(m.done):len(m.done)], d)
		out[i] = m
	}
	c.added[key] = out
	return out, c.work(1+len(a.nodes)/4+len(out), d.node.at)
}

func (c *compiler) addNode(alts []alternative, d ref) ([]alternative, error) {
	n := d.node
	if d.not {
		return c.addNegation(alts, n)
	}
	var out []alternative
	for _, a := range alts {
		if a, ok := a.with(n); ok {
			out = append(out, a)
		}
	}
	alts = out
	err := c.work(len(alts)+1, n.at)
	for i := 0; i < len(n.all) && err == nil; i++ {
		alts, err = c.add(alts, n.all[i])
	}
	for i := 0; i < len(n.any) && err == nil; i++ {
		alts, err = c.choose(alts, n.at, single(n.any[i]))
	}
	for i := 0; i < len(n.conds) && err == nil; i++ {
		k := n.conds[i]
		alts, err = c.choose(alts, n.at, [][]ref{{k.when, k.then}, {k.when.negated(), k.otherwise}})
	}
	for i := 0; i < len(n.one) && err == nil; i++ {
		alts, err = c.chooseOne(alts, n.one[i])
	}
	return alts, err
}

// single makes a list of conjunctions of one demand each.
func single(demands []ref) [][]ref {
	out := make([][]ref, len(demands))
	for i, d := range demands {
		out[i] = []ref{d}
	}
	return out
}

// choose returns the alternatives that satisfy one of the conjunctions besides.
func (c *compiler) choose(alts []alternative, at string, conjunctions [][]ref) ([]alternative, error) {
	var out []alternative
	seen := map[string]bool{}
	for _, conjunction := range conjunctions {
		some := alts
		for _, d := range conjunction {
			var err error
			if some, err = c.add(some, d); err != nil {
				return nil, err
			}
		}
		for _, a := range some {
			if key := a.key(); !seen[key] {
				seen[key] = true
				out = append(out, a)
			}
		}
		if len(out) > c.opt.Limits.Alternatives {
			return nil, c.tooMany(at)
		}
	}
	return out, nil
}

// chooseOne returns the alternatives that satisfy exactly one branch. Branches that provably share no value need no more than a
// choice; others must fail where one holds.
func (c *compiler) chooseOne(alts []alternative, one oneOf) ([]alternative, error) {
	var among types
	for _, a := range alts {
		among |= a.types
	}
	conjunctions := make([][]ref, len(one.branches))
	for i, b := range one.branches {
		conjunctions[i] = []ref{b}
		for j, other := range one.branches {
			if i == j {
				continue
			}
			apart, err := c.disjoint(b, other, among)
			if err != nil {
				return nil, err
			}
			if !apart {
				conjunctions[i] = append(conjunctions[i], other.negated())
			}
		}
	}
	out, err := c.choose(alts, one.at, conjunctions)
	if why := asNegation(err); why != nil {
		return nil, refuse(one.at, fault.Say("jsonschema.one_of_overlap", why.Pointer, why.Problem))
	}
	return out, err
}
