package jsonschema

import (
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// emitter writes shapes into a builder.
type emitter struct {
	c     *compiler
	b     *grammar.Builder
	rules int
	queue []*shape // have a rule without a body

	comma, colon   grammar.Regexp // with the spaces that may follow
	inside, before grammar.Regexp // the space after an opening bracket, and before a closing one
}

// emit writes the shape and all that it refers to.
func (c *compiler) emit(b *grammar.Builder, s *shape) (grammar.Node, error) {
	e := &emitter{c: c, b: b}
	space := optional(grammar.Text(" "))
	line := optional(grammar.Concat(grammar.Text("\n"), grammar.Times(grammar.Text(" "), 0, maxIndent)))
	e.comma, e.colon = grammar.Text(","), grammar.Text(":")
	switch c.opt.Whitespace {
	case Spaced:
		e.comma, e.colon = grammar.Concat(e.comma, space), grammar.Concat(e.colon, space)
	case Indented:
		e.comma, e.colon = grammar.Concat(e.comma, grammar.Alternate(grammar.Text(" "), line)), grammar.Concat(e.colon, space)
		e.inside, e.before = line, line
	default:
	}
	root, err := e.shape(s)
	for err == nil && len(e.queue) > 0 {
		next := e.queue[0]
		e.queue = e.queue[1:]
		var body grammar.Node
		if body, err = e.body(next); err == nil {
			b.Define(next.node, body)
		}
	}
	return root, err
}

// maxIndent bounds the spaces that begin a line.
const maxIndent = 24

// maxRules bounds the rules of one schema.
const maxRules = 20_000

// rule returns a new rule.
func (e *emitter) rule(at string) (grammar.Node, error) {
	if e.rules++; e.rules > maxRules {
		return grammar.Node{}, refuse(at, fault.Say("jsonschema.too_many_rules", maxRules))
	}
	return e.b.Rule(e.c.name(e.rules)), e.c.work(1, at)
}

// nothing is the node of an empty set of texts.
func (e *emitter) nothing() grammar.Node { return e.b.Or() }

// shape returns the node of a shape. Objects and arrays become rules, whose bodies are written later, so that recursion ends.
func (e *emitter) shape(s *shape) (grammar.Node, error) {
	if s.emitted {
		return s.node, nil
	}
	if err := e.c.build(s); err != nil {
		return s.node, err
	}
	s.emitted = true
	var err error
	if len(s.objects)+len(s.arrays) > 0 {
		if s.node, err = e.rule(s.at); err == nil {
			e.queue = append(e.queue, s)
		}
		return s.node, err
	}
	s.node, err = e.body(s)
	return s.node, err
}

// body writes the union of a shape's forms.
func (e *emitter) body(s *shape) (grammar.Node, error) {
	var choices []grammar.Node
	if re, ok := e.constants(s); ok {
		choices = append(choices, e.b.Lexeme(re))
	}
	for _, x := range s.texts {
		re, err := e.c.quoted(x, false)
		if err != nil {
			return grammar.Node{}, err
		}
		choices = append(choices, e.b.Lexeme(re))
	}
	for _, x := range s.numbers {
		n, err := e.number(x)
		if err != nil {
			return n, err
		}
		choices = append(choices, n)
	}
	for _, x := range s.objects {
		n, err := e.object(s.at, x)
		if err != nil {
			return n, err
		}
		choices = append(choices, n)
	}
	for _, x := range s.arrays {
		n, err := e.array(x)
		if err != nil {
			return n, err
		}
		choices = append(choices, n)
	}
	if len(choices) == 1 {
		return choices[0], nil
	}
	return e.b.Or(choices...), nil
}

// constants returns the expression of the values that are written out.
func (e *emitter) constants(s *shape) (grammar.Regexp, bool) {
	var out []grammar.Regexp
	for _, v := range s.literals {
		out = append(out, e.literal(v))
	}
	if s.null {
		out = append(out, grammar.Text("null"))
	}
	for i, word := range []string{"false", "true"} {
		if s.bools[i] {
			out = append(out, grammar.Text(word))
		}
	}
	return grammar.Alternate(out...), len(out) > 0
}

// literal returns the expression of a value: as the schema writes it, but for spaces and for strings, which are spelled plainly.
func (e *emitter) literal(v *value) grammar.Regexp {
	switch v.kind {
	case kindNull:
		return grammar.Text("null")
	case kindBool:
		if v.yes {
			return grammar.Text("true")
		}
		return grammar.Text("false")
	case kindNumber:
		return grammar.Text(v.text)
	case kindString:
		return grammar.Text(quote(v.text))
	default:
	}
	open, end := "[", "]"
	if v.kind == kindObject {
		open, end = "{", "}"
	}
	if len(v.items) == 0 {
		return grammar.Text(open + end)
	}
	parts := []grammar.Regexp{grammar.Text(open), e.inside}
	for i, c := range v.items {
		if i > 0 {
			parts = append(parts, e.comma)
		}
		if v.kind == kindObject {
			parts = append(parts, grammar.Text(quote(v.names[i])), e.colon)
		}
		parts = append(parts, e.literal(c))
	}
	return grammar.Concat(append(parts, e.before, grammar.Text(end))...)
}

func quote(s string) string { return `"` + plainText(s) + `"` }

func (e *emitter) number(x *numberShape) (grammar.Node, error) {
	re, ok, err := e.c.number(x)
	if err != nil {
		return grammar.Node{}, err
	}
	if ok {
		return e.b.Lexeme(re), nil
	}
	return e.modular(x)
}
