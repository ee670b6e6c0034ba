package chattemplate

import (
	"strings"
)

// inlineConditions rewrites "a if c else b" where gonja's parser does not know it, inside brackets and in chains, to
// "((c) and [a] or [b])[0]": both operators evaluate only what they need, and a list with an element is true. What it cannot follow it
// leaves to the parser's refusal.
func inlineConditions(source string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(source, '{')
		if i < 0 || i+1 == len(source) {
			out.WriteString(source)
			return out.String()
		}
		out.WriteString(source[:i])
		text, n := region(source[i:])
		if n < 0 {
			out.WriteString(source[i:])
			return out.String()
		}
		out.WriteString(text)
		source = source[i+n:]
	}
}

// region rewrites the output or tag that s begins with, passes a comment or raw block through, and returns how long that was: 1 if s
// begins with none of them, -1 if it does not end.
func region(s string) (text string, n int) {
	var end string
	switch s[1] {
	case '#':
		if i := strings.Index(s, "#}"); i >= 0 {
			return s[:i+2], i + 2
		}
		return "", -1
	case '{':
		end = "}}"
	case '%':
		end = "%}"
	default:
		return s[:1], 1
	}
	start := 2
	if start < len(s) && (s[start] == '-' || s[start] == '+') {
		start++
	}
	p := &conditionParser{src: s, pos: start}
	tag := strings.TrimLeft(s[start:], " \t\r\n")
	body := p.list(end, end == "}}" || strings.HasPrefix(tag, "set "))
	i := strings.Index(s[p.pos:], end)
	if i < 0 || i > 1 {
		return "", -1
	}
	n = p.pos + i + 2
	if strings.HasPrefix(tag, "raw") {
		if i = strings.Index(s[n:], "endraw"); i < 0 {
			return "", -1
		}
		return s[:n+i], n + i
	}
	return s[:start] + body + s[p.pos:n], n
}

// conditionParser reads expressions just far enough to find conditions.
type conditionParser struct {
	src   string
	pos   int
	depth int
}

// list reads elements up to end, and returns them with their conditions rewritten, except for the one of an outermost element that is
// not asked for.
func (p *conditionParser) list(end string, conditions bool) string {
	var out strings.Builder
	var e element
	p.depth++
	for p.pos < len(p.src) && p.depth <= maxNesting && !p.atEnd(end) {
		switch piece := p.next(); {
		case conditions && (piece == "if" || piece == "else"):
			e.split(piece)
		case piece == "," || piece == ":" || piece == "=":
			out.WriteString(e.text(p.depth == 1) + piece)
			e = element{}
		default:
			e.part.WriteString(piece)
		}
	}
	p.depth--
	out.WriteString(e.text(p.depth == 0))
	return out.String()
}

func (p *conditionParser) atEnd(end string) bool {
	rest := p.src[p.pos:]
	if p.depth == 1 && (rest[0] == '-' || rest[0] == '+') { // white space control
		rest = rest[1:]
	}
	return strings.HasPrefix(rest, end)
}

// next returns a text literal, a bracket with its content rewritten, a name, an operator or one character.
func (p *conditionParser) next() string {
	start := p.pos
	c := p.src[start]
	p.pos++
	switch {
	case c == '\'' || c == '"':
		for p.pos < len(p.src) && p.src[p.pos] != c {
			if p.src[p.pos] == '\\' {
				p.pos++
			}
			p.pos++
		}
		p.pos = min(p.pos+1, len(p.src))
	case c == '(' || c == '[' || c == '{':
		end := map[byte]string{'(': ")", '[': "]", '{': "}"}[c]
		body := p.list(end, true)
		if p.pos == len(p.src) || p.src[p.pos] != end[0] {
			return string(c) + body
		}
		p.pos++
		return string(c) + body + end
	case isName(c):
		for p.pos < len(p.src) && isName(p.src[p.pos]) {
			p.pos++
		}
	case strings.IndexByte("=!<>", c) >= 0 && strings.HasPrefix(p.src[p.pos:], "="):
		p.pos++
	}
	return p.src[start:p.pos]
}

func isName(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// element is one expression, split at its conditions.
type element struct {
	parts []string // expression, "if", condition, "else", expression, …
	part  strings.Builder
}

func (e *element) split(word string) {
	e.parts = append(e.parts, e.part.String(), word)
	e.part.Reset()
}

// text joins the parts again. A single condition of an outermost element stays, for gonja knows that.
func (e *element) text(outermost bool) string {
	parts := append(e.parts, e.part.String())
	if outermost && len(parts) <= 5 {
		return strings.Join(parts, "")
	}
	return fold(parts)
}

func fold(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	if parts[1] != "if" || len(parts) > 3 && parts[3] != "else" {
		return strings.Join(parts, "") // no expression
	}
	alternative := "none"
	if len(parts) > 3 {
		alternative = fold(parts[4:])
	}
	return "(((" + parts[2] + ") and [" + parts[0] + "] or [" + alternative + "])[0])"
}
