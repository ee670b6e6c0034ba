package capability

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("condition, at byte %d: %s", e.Offset, e.Reason)
}

// kind is what a name's values are.
type kind uint8

const (
	kindNumber kind = iota
	kindText
	kindVersion
)

func (k kind) String() string { return [...]string{"a number", "a text", "a version"}[k] }

// conditionName is a fact that conditions may speak of.
type conditionName struct {
	name string
	kind kind
}

func conditionNames() []conditionName {
	return []conditionName{
		{"batch", kindNumber},
		{"prompt_tokens", kindNumber},
		{"output_tokens", kindNumber},
		{"total_tokens", kindNumber},
		{"images", kindNumber},
		{"dtype", kindText},
		{"kv_dtype", kindText},
		{"quantisation", kindText},
		{"mode", kindText},
		{"role", kindText},
		{"model", kindText},
		{"device.vendor", kindText},
		{"device.family", kindText},
		{"device.generation", kindText},
		{"device.count", kindNumber},
	}
}

// ConditionNames returns the names that conditions may speak of, besides version.<component>.
func ConditionNames() []string {
	var out []string
	for _, n := range conditionNames() {
		out = append(out, n.name)
	}
	return out
}

const versionPrefix = "version."

// kindOf returns the kind of a name, false if there is no such name.
func kindOf(name string) (kind, bool) {
	if c, ok := strings.CutPrefix(name, versionPrefix); ok {
		return kindVersion, c != "" && !strings.Contains(c, ".")
	}
	all := conditionNames()
	i := slices.IndexFunc(all, func(n conditionName) bool { return n.name == name })
	if i < 0 {
		return 0, false
	}
	return all[i].kind, true
}

type op uint8

const (
	opTrue op = iota
	opFalse
	opAnd
	opOr
	opNot
	opEq
	opNe
	opLt
	opLe
	opGt
	opGe
	opIn
)

// node is a part of a condition: an operator over nodes, or a comparison of a name with literals.
type node struct {
	op          op
	left, right *node
	name        string
	kind        kind
	texts       []string // literals of texts and versions
	numbers     []float64
}

// ParseCondition reads a condition. The error is a *SyntaxError. An empty text is the condition that always holds.
func ParseCondition(text string) (Condition, error) {
	if strings.TrimSpace(text) == "" {
		return Condition{}, nil
	}
	if len(text) > MaxConditionBytes {
		return Condition{}, &SyntaxError{MaxConditionBytes, "longer than a condition may be"}
	}
	if !utf8.ValidString(text) {
		return Condition{}, &SyntaxError{0, "no UTF-8"}
	}
	p := &parser{text: text}
	if err := p.next(); err != nil {
		return Condition{}, err
	}
	root, err := p.or(0)
	if err != nil {
		return Condition{}, err
	}
	if p.token.kind != tokenEnd {
		return Condition{}, p.wrong("something follows the condition")
	}
	return Condition{text: strings.TrimSpace(text), root: root}, nil
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber
	tokenText
	tokenOp // operators, brackets, commas
)

type token struct {
	kind   tokenKind
	text   string
	number float64
	at     int
}

type parser struct {
	text  string
	at    int
	token token
}

func (p *parser) wrong(reason string) error { return &SyntaxError{p.token.at, reason} }

// next reads the next token.
func (p *parser) next() error {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	start := p.at
	p.token = token{at: start}
	if start == len(p.text) {
		return nil
	}
	rest := p.text[start:]
	switch c := rest[0]; {
	case letter(c):
		p.at += run(rest, func(b byte) bool { return letter(b) || digit(b) || b == '.' })
		p.token.kind, p.token.text = tokenName, p.text[start:p.at]
	case digit(c):
		p.at += run(rest, func(b byte) bool { return digit(b) || b == '.' })
		p.token.kind, p.token.text = tokenNumber, p.text[start:p.at]
		v, err := strconv.ParseFloat(p.token.text, 64)
		if err != nil {
			return p.wrong("no number")
		}
		p.token.number = v
	case c == '"':
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 {
			return p.wrong("a text without its end")
		}
		p.token.kind, p.token.text, p.at = tokenText, rest[1:1+end], start+end+2
	default:
		for _, o := range []string{"==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","} {
			if strings.HasPrefix(rest, o) {
				p.token.kind, p.token.text, p.at = tokenOp, o, start+len(o)
				return nil
			}
		}
		return p.wrong("a character that means nothing here")
	}
	return nil
}

func letter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// run returns how many bytes at the beginning of s are ok.
func run(s string, ok func(byte) bool) int {
	n := 0
	for n < len(s) && ok(s[n]) {
		n++
	}
	return n
}

// is reports whether the token is a word or an operator.
func (p *parser) is(kind tokenKind, text string) bool {
	return p.token.kind == kind && p.token.text == text
}

func (p *parser) expect(text string) error {
	if !p.is(tokenOp, text) {
		return p.wrong("want " + text)
	}
	return p.next()
}

func (p *parser) or(depth int) (*node, error) { return p.chain(depth, "or", opOr, p.and) }

func (p *parser) and(depth int) (*node, error) { return p.chain(depth, "and", opAnd, p.not) }

// chain reads operands between a word, to the left.
func (p *parser) chain(depth int, word string, o op, operand func(int) (*node, error)) (*node, error) {
	left, err := operand(depth)
	for err == nil && p.is(tokenName, word) {
		if err = p.next(); err != nil {
			return nil, err
		}
		var right *node
		if right, err = operand(depth); err == nil {
			left = &node{op: o, left: left, right: right}
		}
	}
	if err != nil {
		return nil, err
	}
	return left, nil
}

func (p *parser) not(depth int) (*node, error) {
	if depth > maxConditionDepth {
		return nil, p.wrong("nested too deeply")
	}
	switch {
	case p.is(tokenName, "not"):
		if err := p.next(); err != nil {
			return nil, err
		}
		of, err := p.not(depth + 1)
		if err != nil {
			return nil, err
		}
		return &node{op: opNot, left: of}, nil
	case p.is(tokenOp, "("):
		if err := p.next(); err != nil {
			return nil, err
		}
		of, err := p.or(depth + 1)
		if err != nil {
			return nil, err
		}
		return of, p.expect(")")
	case p.is(tokenName, "true"):
		return &node{op: opTrue}, p.next()
	case p.is(tokenName, "false"):
		return &node{op: opFalse}, p.next()
	}
	return p.comparison()
}

func comparisons() map[string]op {
	return map[string]op{"==": opEq, "!=": opNe, "<": opLt, "<=": opLe, ">": opGt, ">=": opGe, "in": opIn}
}

func (p *parser) comparison() (*node, error) {
	if p.token.kind != tokenName {
		return nil, p.wrong("want the name of a fact")
	}
	k, ok := kindOf(p.token.text)
	if !ok {
		return nil, p.wrong(fmt.Sprintf("no fact is called %q", p.token.text))
	}
	n := &node{name: p.token.text, kind: k}
	if err := p.next(); err != nil {
		return nil, err
	}
	o, ok := comparisons()[p.token.text]
	if !ok || p.token.kind != tokenOp && p.token.kind != tokenName {
		return nil, p.wrong("want ==, !=, <, <=, >, >= or in")
	}
	if k == kindText && o >= opLt && o <= opGe {
		return nil, p.wrong("texts have no order")
	}
	n.op = o
	if err := p.next(); err != nil {
		return nil, err
	}
	if o != opIn {
		return n, p.literal(n)
	}
	if err := p.expect("["); err != nil {
		return nil, err
	}
	for {
		if err := p.literal(n); err != nil {
			return nil, err
		}
		if p.is(tokenOp, "]") {
			return n, p.next()
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
}

// literal reads what a name is compared with.
func (p *parser) literal(n *node) error {
	if n.kind == kindNumber {
		if p.token.kind != tokenNumber {
			return p.wrong(n.name + " is a number")
		}
		n.numbers = append(n.numbers, p.token.number)
		return p.next()
	}
	if p.token.kind != tokenText {
		return p.wrong(fmt.Sprintf("%s is %s and compares with one in quotes", n.name, n.kind))
	}
	n.texts = append(n.texts, p.token.text)
	return p.next()
}
