package grammar

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// ParseGBNF returns the grammar of a text in GBNF, the notation of llama.cpp; texts are those of the rule "root". Rules that can never
// end, rules without a definition or with two, and impossible counts are errors, since each is a mistake. Terminals that name tokens
// instead of text (<think>, <[1000]>) are refused: a grammar here is about texts.
func ParseGBNF(text string, limits Limits) (*Grammar, error) {
	b := NewBuilder(limits)
	if len(text) > b.limits.SourceBytes {
		return nil, tooLong(len(text), b.limits.SourceBytes)
	}
	if !utf8.ValidString(text) {
		return nil, wrong(fault.Say("grammar.not_utf8"))
	}
	p := &gbnf{b: b, text: text}
	if err := p.rules(); err != nil {
		return nil, err
	}
	if _, ok := b.names["root"]; !ok {
		return nil, wrong(fault.Say("grammar.no_root"))
	}
	return b.build(b.Rule("root"), true)
}

// gbnf is a recursive-descent parser.
type gbnf struct {
	b     *Builder
	text  string
	pos   int
	depth int
}

// fail says where in the text something is missing.
func (p *gbnf) fail(what fault.Phrase) error {
	line := 1 + strings.Count(p.text[:p.pos], "\n")
	column := 1 + utf8.RuneCountInString(p.text[strings.LastIndexByte(p.text[:p.pos], '\n')+1:p.pos])
	return wrong(fault.Say("grammar.located", line, column, what))
}

// peek is the next byte, or 0 at the end.
func (p *gbnf) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// take moves past s if it comes next.
func (p *gbnf) take(s string) bool {
	if strings.HasPrefix(p.text[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

// space moves past blanks and comments, and past line ends if they mean nothing here.
func (p *gbnf) space(lines bool) {
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == ' ' || c == '\t' || lines && (c == '\r' || c == '\n'):
			p.pos++
		case c == '#':
			for p.pos < len(p.text) && p.text[p.pos] != '\r' && p.text[p.pos] != '\n' {
				p.pos++
			}
		default:
			return
		}
	}
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func (p *gbnf) name() string {
	from := p.pos
	for p.pos < len(p.text) && wordByte(p.text[p.pos]) {
		p.pos++
	}
	return p.text[from:p.pos]
}

func (p *gbnf) rules() error {
	p.space(true)
	for p.pos < len(p.text) {
		name := p.name()
		if name == "" {
			return p.fail(fault.Say("grammar.rule_name"))
		}
		p.space(false)
		if !p.take("::=") {
			return p.fail(fault.Say("grammar.rule_sign"))
		}
		p.space(true)
		body, err := p.alternatives(false)
		if err != nil {
			return err
		}
		p.b.Define(p.b.Rule(name), body)
		if p.b.err != nil {
			return p.b.err
		}
		if c := p.peek(); p.pos < len(p.text) && c != '\r' && c != '\n' {
			return p.fail(fault.Say("grammar.outside_rule"))
		}
		p.space(true)
	}
	return nil
}

// alternatives reads bodies separated by "|". Nested ones, which stand in parentheses, may go over several lines.
func (p *gbnf) alternatives(nested bool) (Node, error) {
	if p.depth++; p.depth > p.b.limits.Depth {
		return Node{}, tooDeep(p.b.limits.Depth)
	}
	defer func() { p.depth-- }()
	var alts []Node
	for {
		n, err := p.sequence(nested)
		if err != nil {
			return Node{}, err
		}
		alts = append(alts, n)
		if !p.take("|") {
			break
		}
		p.space(true)
	}
	if len(alts) == 1 {
		return alts[0], nil
	}
	return p.b.Or(alts...), nil
}

func (p *gbnf) sequence(nested bool) (Node, error) {
	var parts []Node
	for p.b.err == nil {
		var n Node
		var err error
		switch c := p.peek(); {
		case c == '"':
			n, err = p.literal()
		case c == '[':
			n, err = p.class()
		case c == '(':
			n, err = p.group()
		case c == '.':
			p.pos++
			n = p.b.Lexeme(AnyChar())
		case wordByte(c):
			n = p.b.Rule(p.name())
		case c == '<' || c == '!':
			err = p.fail(fault.Say("grammar.token_literal"))
		case c == '*' || c == '+' || c == '?' || c == '{':
			err = p.fail(fault.Say("grammar.nothing_to_repeat"))
		default:
			if len(parts) == 1 {
				return parts[0], nil
			}
			return p.b.Seq(parts...), nil
		}
		if err != nil {
			return Node{}, err
		}
		p.space(nested)
		if n, err = p.repetitions(n, nested); err != nil {
			return Node{}, err
		}
		parts = append(parts, n)
	}
	return Node{}, p.b.err
}

func (p *gbnf) group() (Node, error) {
	p.pos++
	p.space(true)
	n, err := p.alternatives(true)
	if err != nil {
		return Node{}, err
	}
	if !p.take(")") {
		return Node{}, p.fail(fault.Say("grammar.parenthesis"))
	}
	return n, nil
}

func (p *gbnf) repetitions(n Node, nested bool) (Node, error) {
	for {
		lo, hi := 0, -1
		switch p.peek() {
		case '*':
			p.pos++
		case '+':
			p.pos++
			lo = 1
		case '?':
			p.pos++
			hi = 1
		case '{':
			var err error
			if lo, hi, err = p.counts(nested); err != nil {
				return Node{}, err
			}
		default:
			return n, nil
		}
		p.space(nested)
		n = p.b.Repeat(n, lo, hi)
	}
}

// counts reads {m}, {m,} or {m,n}.
func (p *gbnf) counts(nested bool) (lo, hi int, err error) {
	p.pos++
	p.space(nested)
	lo, ok := p.number()
	if !ok {
		return 0, 0, p.fail(fault.Say("grammar.repetition_number"))
	}
	p.space(nested)
	hi = lo
	if p.take(",") {
		p.space(nested)
		if hi, ok = p.number(); !ok {
			hi = -1
		}
		p.space(nested)
	}
	if !p.take("}") {
		return 0, 0, p.fail(fault.Say("grammar.brace"))
	}
	return lo, hi, nil
}

// number reads digits; what is far too large stays far too large.
func (p *gbnf) number() (n int, ok bool) {
	for ; '0' <= p.peek() && p.peek() <= '9'; p.pos++ {
		n, ok = min(10*n+int(p.peek()-'0'), maxCount+1), true
	}
	return n, ok
}

func (p *gbnf) literal() (Node, error) {
	p.pos++
	var text strings.Builder
	for !p.take(`"`) {
		r, err := p.char()
		if err != nil {
			return Node{}, err
		}
		text.WriteRune(r)
	}
	return p.b.Literal(text.String()), nil
}

func (p *gbnf) class() (Node, error) {
	p.pos++
	negated := p.take("^")
	var ranges []Range
	for !p.take("]") {
		lo, err := p.char()
		if err != nil {
			return Node{}, err
		}
		hi := lo
		if p.peek() == '-' && !strings.HasPrefix(p.text[p.pos:], "-]") {
			p.pos++
			if hi, err = p.char(); err != nil {
				return Node{}, err
			}
		}
		if hi < lo {
			return Node{}, p.fail(fault.Say("grammar.range_order"))
		}
		ranges = append(ranges, Range{lo, hi})
	}
	if len(ranges) == 0 {
		return Node{}, p.fail(fault.Say("grammar.empty_class"))
	}
	if negated {
		return p.b.Lexeme(NotChars(ranges...)), nil
	}
	return p.b.Lexeme(Chars(ranges...)), nil
}

// char reads one character of a literal or a class.
func (p *gbnf) char() (rune, error) {
	if p.pos >= len(p.text) {
		return 0, p.fail(fault.Say("grammar.unclosed"))
	}
	if p.text[p.pos] != '\\' {
		r, n := utf8.DecodeRuneInString(p.text[p.pos:])
		p.pos += n
		return r, nil
	}
	p.pos++
	c := p.peek()
	p.pos = min(p.pos+1, len(p.text))
	switch c {
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-', '^':
		return rune(c), nil
	}
	return 0, p.fail(fault.Say("grammar.unknown_escape"))
}

func (p *gbnf) hex(digits int) (rune, error) {
	var r int64
	for range digits {
		d := strings.IndexByte("0123456789abcdef", p.peek()|0x20)
		if c := p.peek(); d < 0 || '0'-0x20 <= c && c < '0' {
			return 0, p.fail(fault.Say("grammar.hexadecimal"))
		}
		r = r<<4 | int64(d)
		p.pos++
	}
	if r > utf8.MaxRune || 0xd800 <= r && r <= 0xdfff {
		return 0, p.fail(fault.Say("grammar.escaped_character"))
	}
	return rune(r), nil
}
