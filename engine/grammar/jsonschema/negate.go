package jsonschema

import (
	"errors"

	"github.com/sluice-project/sluice/internal/fault"
)

// addOpposite returns the alternatives for which n fails besides.
func (c *compiler) addOpposite(alts []alternative, n *node) ([]alternative, error) {
	var failed, touched []alternative
	for _, a := range alts {
		if n.never || a.types&n.types == 0 { // n fails already
			failed = append(failed, a)
		} else {
			touched = append(touched, a)
		}
	}
	if len(touched) == 0 {
		return failed, nil
	}
	ways, err := c.opposites(n)
	if err != nil {
		return nil, err
	}
	out, err := c.choose(touched, n.at, ways)
	return append(failed, out...), err
}

// opposites returns the ways in which n can fail, each a conjunction.
func (c *compiler) opposites(n *node) ([][]ref, error) {
	found, ok := c.opposed[n]
	if !ok {
		found.ways, found.err = c.findOpposites(n)
		c.opposed[n] = found
	}
	if found.err != nil && c.loose {
		return [][]ref{{}}, nil // what cannot be said counts as always possible
	}
	return found.ways, found.err
}

// opposition is what findOpposites says, remembered.
type opposition struct {
	ways [][]ref
	err  error
}

func (c *compiler) findOpposites(n *node) ([][]ref, error) {
	o := &opposites{c: c, at: n.at}
	if n.never {
		return [][]ref{{}}, nil
	}
	if n.types != typeAny {
		o.fresh(typeAny &^ n.types)
	}
	if n.enum != nil {
		o.fresh(typeAny).exclude = n.enum
	}
	if n.exclude != nil {
		o.fresh(typeAny).enum = n.exclude
	}
	o.combinations(n)
	o.texts(&n.texts)
	o.numbers(&n.numbers)
	o.objects(&n.objects)
	o.arrays(&n.arrays)
	return o.ways, o.err
}

// opposites gathers the ways in which one node fails.
type opposites struct {
	c    *compiler
	at   string
	ways [][]ref
	err  error
}

// fresh adds a way: a new node for values of the types.
func (o *opposites) fresh(t types) *node {
	n := o.c.parser.add(o.at)
	n.types = t
	o.ways = append(o.ways, []ref{{node: n}})
	return n
}

func (o *opposites) way(demands ...ref) { o.ways = append(o.ways, demands) }

// impossible notes that the opposite of a keyword cannot be said.
func (o *opposites) impossible(at string) {
	if o.err == nil {
		o.err = &oppositeError{&Error{at, fault.Say("jsonschema.negated_keyword")}}
	}
}

// oppositeError is a refusal because a negation cannot be said.
type oppositeError struct{ cause *Error }

func (e *oppositeError) Error() string { return e.cause.Error() }

func (e *oppositeError) Unwrap() error { return e.cause }

func asOpposite(err error) *Error {
	var o *oppositeError
	if errors.As(err, &o) {
		return o.cause
	}
	return nil
}

func (o *opposites) combinations(n *node) {
	for _, r := range n.all {
		o.way(r.negated())
	}
	for _, list := range n.any {
		o.way(negatedAll(list)...)
	}
	for _, k := range n.conds {
		o.way(k.when, k.then.negated())
		o.way(k.when.negated(), k.otherwise.negated())
	}
	for _, one := range n.one {
		o.way(negatedAll(one.branches)...)
		for i, a := range one.branches {
			for _, b := range one.branches[:i] {
				o.way(a, b)
			}
		}
	}
}

func negatedAll(list []ref) []ref {
	out := make([]ref, len(list))
	for i, r := range list {
		out[i] = r.negated()
	}
	return out
}

func (o *opposites) texts(t *texts) {
	if t.min > 0 {
		o.fresh(typeString).texts.max = t.min - 1
	}
	if t.max >= 0 {
		o.fresh(typeString).texts.min = t.max + 1
	}
	for _, p := range t.patterns {
		p.not = !p.not
		o.fresh(typeString).texts.patterns = []pattern{p}
	}
	for _, f := range t.formats {
		if !formats[f.name].exact {
			o.impossible(f.at)
			return
		}
		f.not = !f.not
		o.fresh(typeString).texts.formats = []format{f}
	}
}

func (o *opposites) numbers(n *numbers) {
	if n.low.value != nil {
		o.fresh(typeNumber).numbers.high = bound{n.low.value, !n.low.open}
	}
	if n.high.value != nil {
		o.fresh(typeNumber).numbers.low = bound{n.high.value, !n.high.open}
	}
	for _, m := range n.multiples {
		o.impossible(m.at)
	}
}

func (o *opposites) objects(n *objects) {
	for _, name := range n.required {
		never := o.c.parser.add(o.at)
		never.never = true
		o.fresh(typeObject).objects.properties = []property{{name, ref{node: never}}}
	}
	for _, p := range n.properties {
		way := o.fresh(typeObject)
		way.objects.required = []string{p.name}
		way.objects.properties = []property{{p.name, p.ref.negated()}}
	}
	if n.min > 0 {
		o.fresh(typeObject).objects.max = n.min - 1
	}
	if n.max >= 0 {
		way := o.fresh(typeObject)
		way.objects.min, way.objects.minAt = n.max+1, n.at+"/maxProperties"
	}
	if (n.additional != nil && !n.additional.trivial()) || len(n.patterns) > 0 || n.names != nil {
		o.impossible(n.at)
	}
}

func (o *opposites) arrays(n *arrays) {
	for i, r := range n.prefix {
		way := o.fresh(typeArray)
		way.arrays.min = i + 1
		for range i {
			way.arrays.prefix = append(way.arrays.prefix, ref{node: o.c.always})
		}
		way.arrays.prefix = append(way.arrays.prefix, r.negated())
	}
	if n.min > 0 {
		o.fresh(typeArray).arrays.max = n.min - 1
	}
	if n.max >= 0 {
		o.fresh(typeArray).arrays.min = n.max + 1
	}
	if n.items != nil && !n.items.trivial() {
		if len(n.prefix) > 0 {
			o.impossible(n.at + "/items")
			return
		}
		o.fresh(typeArray).arrays.contains = []contains{{at: n.at + "/items", ref: n.items.negated(), min: 1, max: -1}}
	}
	if n.unique != "" {
		o.impossible(n.unique)
	}
	for _, k := range n.contains {
		if k.min != 1 || k.max >= 0 {
			o.impossible(k.at)
			return
		}
		items := k.ref.negated()
		o.fresh(typeArray).arrays.items = &items
	}
}
