package graph

import (
	"fmt"
	"strconv"
	"strings"
)

// scanner reads the pieces of one line of the text form.
type scanner struct {
	line string
	pos  int
}

func (s *scanner) space() {
	for s.pos < len(s.line) && (s.line[s.pos] == ' ' || s.line[s.pos] == '\t' || s.line[s.pos] == '\r') {
		s.pos++
	}
}

// end reports whether only space and a comment are left.
func (s *scanner) end() bool {
	s.space()
	return s.pos == len(s.line) || s.line[s.pos] == '#'
}

// accept skips text if it comes next.
func (s *scanner) accept(text string) bool {
	s.space()
	if strings.HasPrefix(s.line[s.pos:], text) {
		s.pos += len(text)
		return true
	}
	return false
}

func (s *scanner) expect(text string) error {
	if !s.accept(text) {
		return s.wrong(strconv.Quote(text))
	}
	return nil
}

// wrong says what was expected and shows what is there.
func (s *scanner) wrong(want string) error {
	rest := s.line[s.pos:]
	if rest == "" {
		return fmt.Errorf("expected %s at the end of the line", want)
	}
	return fmt.Errorf("expected %s, found %.20q", want, rest)
}

// name reads a bare or quoted name.
func (s *scanner) name() (string, error) {
	s.space()
	if s.pos < len(s.line) && s.line[s.pos] == '"' {
		return s.quoted()
	}
	start := s.pos
	if s.pos < len(s.line) && nameStart(s.line[s.pos]) {
		for s.pos < len(s.line) && nameByte(s.line[s.pos]) {
			s.pos++
		}
	}
	if start == s.pos {
		return "", s.wrong("a name")
	}
	return s.line[start:s.pos], nil
}

func (s *scanner) quoted() (string, error) {
	s.space()
	q, err := strconv.QuotedPrefix(s.line[s.pos:])
	if err != nil || q[0] != '"' {
		return "", s.wrong("a quoted text")
	}
	s.pos += len(q)
	return strconv.Unquote(q)
}

// digits reads a non-negative integer.
func (s *scanner) digits() (int, error) {
	s.space()
	start := s.pos
	for s.pos < len(s.line) && s.line[s.pos] >= '0' && s.line[s.pos] <= '9' {
		s.pos++
	}
	n, err := strconv.Atoi(s.line[start:s.pos])
	if err != nil {
		s.pos = start
		return 0, s.wrong("a whole number")
	}
	return n, nil
}

// word reads up to the next separator: a number, true or false.
func (s *scanner) word() string {
	s.space()
	start := s.pos
	for s.pos < len(s.line) && !strings.ContainsRune(" \t\r,]}", rune(s.line[s.pos])) {
		s.pos++
	}
	return s.line[start:s.pos]
}

func (s *scanner) typ() (Type, error) {
	elem, err := s.name()
	if err != nil {
		return Type{}, err
	}
	t := Type{Elem: Elem(elem)}
	if err := s.expect("["); err != nil {
		return Type{}, err
	}
	for {
		d, err := s.dim()
		if err != nil {
			return Type{}, err
		}
		t.Shape = append(t.Shape, d)
		if !s.accept(",") {
			break
		}
	}
	if err := s.expect("]"); err != nil {
		return Type{}, err
	}
	return t, t.check()
}

func (s *scanner) dim() (Dim, error) {
	s.space()
	d := Dim{N: 1}
	if s.pos < len(s.line) && s.line[s.pos] >= '0' && s.line[s.pos] <= '9' {
		n, err := s.digits()
		if err != nil || !s.accept("*") {
			return Dim{N: n}, err
		}
		d.N = n
	}
	name, err := s.name()
	d.Symbol = name
	if err == nil && name == "" {
		return d, fmt.Errorf("a symbol has an empty name")
	}
	return d, err
}

// attr reads key=value; the op's table says what the value is.
func (s *scanner) attr(spec opSpec, op Op) (Attr, error) {
	key, err := s.name()
	if err != nil {
		return Attr{}, err
	}
	want, ok := spec.spec(key)
	if !ok {
		return Attr{}, fmt.Errorf("unknown attribute %q; %s has: %s", key, op, strings.Join(spec.keys(), ", "))
	}
	if err := s.expect("="); err != nil {
		return Attr{}, err
	}
	if want.kind == kindText {
		v, err := s.quoted()
		return Attr{key, v}, err
	}
	v, err := attrValue(want.kind, s.word())
	if err != nil {
		return Attr{}, fmt.Errorf("attribute %s: %w", key, err)
	}
	return Attr{key, v}, nil
}

func attrValue(kind attrKind, word string) (any, error) {
	switch kind {
	case kindFlag:
		if word != "true" && word != "false" {
			return nil, fmt.Errorf("%.20q is not true or false", word)
		}
		return word == "true", nil
	case kindInt:
		v, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%.20q is not an integer", word)
		}
		return v, nil
	default:
	}
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil, fmt.Errorf("%.40q is not a number", word)
	}
	return v, nil
}
