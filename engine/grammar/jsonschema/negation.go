package jsonschema

import (
	"errors"

	"github.com/sluice-project/sluice/internal/fault"
)

// addNegation returns the alternatives for which n fails besides.
func (c *compiler) addNegation(alts []alternative, n *node) ([]alternative, error) {
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
	choices, err := c.negations(n)
	if err != nil {
		return nil, err
	}
	out, err := c.choose(touched, n.at, choices)
	return append(failed, out...), err
}

// negations returns the ways in which n can fail, each a conjunction.
func (c *compiler) negations(n *node) ([][]ref, error) {
	found, ok := c.opposed[n]
	if !ok {
		found.choices, found.err = c.findNegations(n)
		c.opposed[n] = found
	}
	if found.err != nil && c.loose {
		return [][]ref{{}}, nil // what cannot be said counts as always possible
	}
	return found.choices, found.err
}

// negation is what findNegations says, remembered.
type negation struct {
	choices [][]ref
	err     error
}

func (c *compiler) findNegations(n *node) ([][]ref, error) {
	o := &negations{c: c, at: n.at}
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
	return o.choices, o.err
}

// negations gathers the ways in which one node fails.
type negations struct {
	c       *compiler
	at      string
	choices [][]ref
	err     error
}

// fresh adds a way: a new node for values of the types.
func (o *negations) fresh(t types) *node {
	n := o.c.parser.add(o.at)
	n.types = t
	o.choices = append(o.choices, []ref{{node: n}})
	return n
}

func (o *negations) branch(demands ...ref) { o.choices = append(o.choices, demands) }

// impossible notes that the opposite of a keyword cannot be said.
func (o *negations) impossible(at string) {
	if o.err == nil {
		o.err = &negationError{&Error{at, fault.Say("jsonschema.negated_keyword")}}
	}
}

// negationError is a refusal because a negation cannot be said.
type negationError struct{ cause *Error }

func (e *negationError) Error() string { return e.cause.Error() }

func (e *negationError) Unwrap() error { return e.cause }

func asNegation(err error) *Error {
	var o *negationError
	if errors.As(err, &o) {
		return o.cause
	}
	return nil
}

func (o *negations) combinations(n *node) {
	for _, r := range n.all {
		o.branch(r.negated())
	}
	for _, list := range n.any {
		o.branch(negatedAll(list)...)
	}
	for _, k := range n.conds {
		o.branch(k.when, k.then.negated())
		o.branch(k.when.negated(), k.otherwise.negated())
	}
	for _, one := range n.one {
		o.branch(negatedAll(one.branches)...)
		for i, a := range one.branches {
			for _, b := range one.branches[:i] {
				o.branch(a, b)
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

func (o *negations) texts(t *texts) {
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

func (o *negations) numbers(n *numbers) {
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

func (o *negations) objects(n *objects) {
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

func (o *negations) arrays(n *arrays) {
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
