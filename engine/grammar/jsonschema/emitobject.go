package jsonschema

import (
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// objectWriter writes one object as rules for "the members from the i-th property on and the closing bracket, k members being there".
type objectWriter struct {
	e      *emitter
	at     string
	x      *objectShape
	named  []member // without those that nothing satisfies
	values []grammar.Node
	free   []freeMember
	cap    int // k is counted up to here
	states map[[2]int]grammar.Node
	todo   [][2]int
}

type freeMember struct {
	name  []grammar.Regexp
	value grammar.Node
}

func (e *emitter) object(at string, x *objectShape) (grammar.Node, error) {
	w := &objectWriter{e: e, at: at, x: x, cap: 1, states: map[[2]int]grammar.Node{}}
	if err := w.members(); err != nil {
		return grammar.Node{}, err
	}
	required := 0
	for _, p := range w.named {
		if p.required {
			required++
		}
	}
	if x.min > required {
		w.cap = max(w.cap, x.min)
	}
	if x.max >= 0 && (x.max < len(w.named) || len(w.free) > 0) {
		w.cap = max(w.cap, x.max)
	}
	if len(w.free) > 0 && x.min > required+1 {
		return grammar.Node{}, refuse(x.minAt, fault.Say("jsonschema.property_count", required+1))
	}
	start, err := w.state(0, 0)
	for err == nil && len(w.todo) > 0 {
		next := w.todo[0]
		w.todo = w.todo[1:]
		err = w.define(next)
	}
	return start, err
}

// members writes the values of the properties.
func (w *objectWriter) members() error {
	for _, p := range w.x.named {
		if p.shape == w.e.c.nothing && !p.required {
			continue
		}
		v, err := w.e.shape(p.shape)
		if err != nil {
			return err
		}
		w.named = append(w.named, p)
		w.values = append(w.values, v)
	}
	for _, f := range w.x.cells {
		v, err := w.e.shape(f.shape)
		if err != nil {
			return err
		}
		m := freeMember{value: v}
		for _, t := range f.name {
			re, err := w.e.c.quoted(t, true)
			if err != nil {
				return err
			}
			m.name = append(m.name, re)
		}
		w.free = append(w.free, m)
	}
	return nil
}

// state returns the rule of the members from property i on, and of the closing bracket.
func (w *objectWriter) state(i, k int) (grammar.Node, error) {
	key := [2]int{i, min(k, w.cap)}
	if n, ok := w.states[key]; ok {
		return n, nil
	}
	n, err := w.e.rule(w.at)
	w.states[key] = n
	w.todo = append(w.todo, key)
	return n, err
}

// define writes the body of a state: the property is there, or it is absent if it may be; behind the last, free members follow or none.
func (w *objectWriter) define(key [2]int) error {
	i, k := key[0], key[1]
	if i == len(w.named) {
		w.e.b.Define(w.states[key], w.e.b.Or(w.rest(k)...))
		return nil
	}
	var choices []grammar.Node
	if w.x.max < 0 || k < w.x.max {
		next, err := w.state(i+1, k+1)
		if err != nil {
			return err
		}
		choices = append(choices, w.e.b.Seq(w.e.b.Lexeme(w.lead(k, grammar.Text(quote(w.named[i].name)))), w.values[i], next))
	}
	if !w.named[i].required {
		next, err := w.state(i+1, k)
		if err != nil {
			return err
		}
		choices = append(choices, next)
	}
	w.e.b.Define(w.states[key], w.e.b.Or(choices...))
	return nil
}

// lead is what precedes a member's value: a bracket or a comma, the name, the colon.
func (w *objectWriter) lead(k int, name grammar.Regexp) grammar.Regexp {
	if k == 0 {
		return grammar.Concat(grammar.Text("{"), w.e.inside, name, w.e.colon)
	}
	return grammar.Concat(w.e.comma, name, w.e.colon)
}

// rest returns what may follow the named properties.
func (w *objectWriter) rest(k int) []grammar.Node {
	b, end := w.e.b, w.e.b.Lexeme(grammar.Concat(w.e.before, grammar.Text("}")))
	var choices []grammar.Node
	if k >= w.x.min {
		if k == 0 {
			choices = append(choices, b.Literal("{}"))
		} else {
			choices = append(choices, end)
		}
	}
	most := -1
	if w.x.max >= 0 {
		most = w.x.max - k - 1 // after the first free one
	}
	if len(w.free) == 0 || k+1 < w.x.min || (w.x.max >= 0 && most < 0) {
		return choices
	}
	member := func(k int) grammar.Node {
		var list []grammar.Node
		for _, f := range w.free {
			for _, name := range f.name {
				list = append(list, b.Seq(b.Lexeme(w.lead(k, name)), f.value))
			}
		}
		return b.Or(list...)
	}
	return append(choices, b.Seq(member(k), b.Repeat(member(1), 0, most), end))
}
