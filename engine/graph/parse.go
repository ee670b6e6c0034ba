package graph

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads the text form. Errors begin with the number of the line. A node's type may be left out: it is inferred. "#" starts a comment.
func Parse(text string) (*Graph, error) {
	p := parser{g: &Graph{}, values: map[string]*Value{}}
	no := 0
	for line := range strings.Lines(text) {
		no++
		s := &scanner{line: strings.TrimSuffix(line, "\n")}
		if s.end() {
			continue
		}
		if err := p.line(s); err != nil {
			return nil, fmt.Errorf("line %d: %w", no, err)
		}
		if !s.end() {
			return nil, fmt.Errorf("line %d: %w", no, s.wrong("the end of the line"))
		}
	}
	if p.state != parsedAll {
		return nil, fmt.Errorf("line %d: the text ends inside the graph; it needs a return line and a closing }", no)
	}
	return p.g, p.g.Check()
}

type parseState uint8

const (
	parseHead parseState = iota
	parseBody
	parseClose
	parsedAll
)

type parser struct {
	g      *Graph
	values map[string]*Value
	state  parseState
}

func (p *parser) line(s *scanner) error {
	switch p.state {
	case parseHead:
		return p.head(s)
	case parseClose:
		p.state = parsedAll
		return s.expect("}")
	case parsedAll:
		return s.wrong("nothing after the closing }")
	case parseBody:
	}
	if s.accept("%") {
		return p.node(s)
	}
	keyword, err := s.name()
	if err != nil {
		return s.wrong("symbol, input, weight, return or a value")
	}
	switch keyword {
	case "symbol":
		return p.symbol(s)
	case "input":
		v, err := p.declare(s, "%")
		if err == nil {
			p.g.Inputs = append(p.g.Inputs, v)
		}
		return err
	case "weight":
		return p.weight(s)
	case "return":
		p.state = parseClose
		p.g.Outputs, err = p.operands(s)
		return err
	}
	return fmt.Errorf("unknown keyword %q; a line begins with symbol, input, weight, return or %%", keyword)
}

func (p *parser) head(s *scanner) error {
	err := s.expect("graph")
	if err == nil {
		p.g.Name, err = s.name()
	}
	if err == nil {
		err = s.expect("{")
	}
	p.state = parseBody
	return err
}

func (p *parser) symbol(s *scanner) (err error) {
	var sym Symbol
	if sym.Name, err = s.name(); err != nil {
		return err
	}
	if err = s.expect("in"); err != nil {
		return err
	}
	if sym.Min, err = s.digits(); err != nil {
		return err
	}
	if err = s.expect(".."); err != nil {
		return err
	}
	if sym.Max, err = s.digits(); err != nil {
		return err
	}
	p.g.Symbols = append(p.g.Symbols, sym)
	return nil
}

// declare reads a new value and its type.
func (p *parser) declare(s *scanner, sigil string) (*Value, error) {
	if err := s.expect(sigil); err != nil {
		return nil, err
	}
	name, err := s.name()
	if err != nil {
		return nil, err
	}
	if err := s.expect(":"); err != nil {
		return nil, err
	}
	t, err := s.typ()
	if err != nil {
		return nil, err
	}
	return p.define(&Value{Name: name, Type: t})
}

func (p *parser) define(v *Value) (*Value, error) {
	if p.values[v.Name] != nil {
		return nil, fmt.Errorf("%s is defined twice", nameText(v.Name))
	}
	p.values[v.Name] = v
	return v, nil
}

func (p *parser) weight(s *scanner) error {
	v, err := p.declare(s, "@")
	if err != nil {
		return err
	}
	v.Weight = &Weight{Parts: []string{v.Name}}
	p.g.Weights = append(p.g.Weights, v)
	for !s.end() {
		key, err := s.name()
		if err != nil {
			return err
		}
		if err := s.expect("="); err != nil {
			return err
		}
		if err := v.Weight.parse(s, key); err != nil {
			return err
		}
	}
	if v.Weight.Data != nil {
		v.Weight.Parts = nil
	}
	return nil
}

func (w *Weight) parse(s *scanner, key string) error {
	switch key {
	case "class":
		class, err := s.name()
		w.Class = Class(class)
		return err
	case "stored":
		stored, err := s.name()
		w.Stored = stored
		return err
	case "parts":
		w.Parts = nil
		return s.list(func() error {
			name, err := s.name()
			w.Parts = append(w.Parts, name)
			return err
		})
	case "data":
		w.Data = []float32{}
		return s.list(func() error {
			word := s.word()
			x, err := strconv.ParseFloat(word, 32)
			if err != nil {
				return fmt.Errorf("%.20q is not a number", word)
			}
			w.Data = append(w.Data, float32(x))
			return nil
		})
	}
	return fmt.Errorf("unknown property %q of a weight; there are class, stored, parts and data", key)
}

// list reads [item, item, …].
func (s *scanner) list(item func() error) error {
	if err := s.expect("["); err != nil {
		return err
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if !s.accept(",") {
			return s.expect("]")
		}
	}
}

func (p *parser) node(s *scanner) error {
	name, err := s.name()
	if err != nil {
		return err
	}
	if err := s.expect("="); err != nil {
		return err
	}
	op, err := s.name()
	if err != nil {
		return err
	}
	spec, ok := specOf(Op(op))
	if !ok {
		return fmt.Errorf("unknown operation %q", op)
	}
	n := &Node{Op: Op(op), Out: &Value{Name: name}}
	if err := s.expect("("); err != nil {
		return err
	}
	if n.In, err = p.operands(s); err != nil {
		return err
	}
	if err := s.expect(")"); err != nil {
		return err
	}
	if s.accept("{") {
		if err := n.parseAttrs(s, spec); err != nil {
			return err
		}
	}
	return p.result(s, n)
}

func (n *Node) parseAttrs(s *scanner, spec opSpec) error {
	for {
		a, err := s.attr(spec, n.Op)
		if err != nil {
			return err
		}
		if n.Attrs.Get(a.Key) != nil {
			return fmt.Errorf("attribute %s is given twice", a.Key)
		}
		n.Attrs.Set(a.Key, a.Val)
		if !s.accept(",") {
			return s.expect("}")
		}
	}
}

// result infers the node's type, compares it with the one given, if any, and adds the node to the graph.
func (p *parser) result(s *scanner, n *Node) error {
	t, err := n.inferType()
	if err != nil {
		return fmt.Errorf("%s %s: %w", n.Op, n.Out.ref(), err)
	}
	n.Out.Type = t
	if s.accept(":") {
		given, err := s.typ()
		if err != nil {
			return err
		}
		if !given.Equal(t) {
			return fmt.Errorf("%s %s: is declared as %s but is %s", n.Op, n.Out.ref(), given, t)
		}
	}
	p.g.Nodes = append(p.g.Nodes, n)
	_, err = p.define(n.Out)
	return err
}

// operands reads values separated by commas: %x or @w, all defined above.
func (p *parser) operands(s *scanner) ([]*Value, error) {
	var in []*Value
	for {
		weight := s.accept("@")
		if !weight && !s.accept("%") {
			return nil, s.wrong("a value (%) or weight (@)")
		}
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		v := p.values[name]
		if v == nil || (v.Weight != nil) != weight {
			return nil, fmt.Errorf("%s is not defined above this line", nameText(name))
		}
		in = append(in, v)
		if !s.accept(",") {
			return in, nil
		}
	}
}
