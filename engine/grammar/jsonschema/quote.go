package jsonschema

import (
	"fmt"
	"regexp/syntax"
	"unicode"

	"github.com/sluice-project/sluice/engine/grammar"
)

// The characters of JSON strings. In the plain spelling every character has one form: itself, or the escape that JSON demands. It is
// the spelling of everything that the schema says something about, so that a name cannot hide behind an escape. Free strings may use
// all of JSON's escapes.
type spelling struct {
	plain, any grammar.Regexp // one character
}

func newSpelling() spelling {
	hex := grammar.Chars(grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: 'a', Hi: 'f'}, grammar.Range{Lo: 'A', Hi: 'F'})
	of := func(ranges ...grammar.Range) grammar.Regexp { return grammar.Chars(ranges...) }
	between := func(lo, hi rune) grammar.Range { return grammar.Range{Lo: lo, Hi: hi} }
	one := func(c rune) grammar.Range { return between(c, c) }
	d := of(one('d'), one('D'))
	low := grammar.Concat(d, of(between('c', 'f'), between('C', 'F')), hex, hex)
	high := grammar.Concat(d, of(between('8', '9'), between('a', 'b'), between('A', 'B')), hex, hex)
	unit := grammar.Alternate(
		grammar.Concat(of(between('0', '9'), between('a', 'c'), between('A', 'C'), between('e', 'f'), between('E', 'F')), hex, hex, hex),
		grammar.Concat(d, of(between('0', '7')), hex, hex),
		grammar.Concat(high, grammar.Text(`\u`), low),
	)
	escape := grammar.Concat(grammar.Text(`\`), grammar.Alternate(
		of(one('"'), one('\\'), one('/'), one('b'), one('f'), one('n'), one('r'), one('t')),
		grammar.Concat(grammar.Text("u"), unit),
	))
	raw := grammar.NotChars(between(0, 0x1f), one('"'), one('\\'))
	return spelling{plain: plainChars([]rune{0, unicode.MaxRune}), any: grammar.Alternate(raw, escape)}
}

//nolint:gochecknoglobals // a constant table
var shortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// plainChar is the one spelling of a character.
func plainChar(r rune) string {
	if s := shortEscapes[r]; s != "" {
		return s
	}
	if r < 0x20 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

// plainText is the one spelling of a text, without quotes.
func plainText(s string) string {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		out = append(out, plainChar(r)...)
	}
	return string(out)
}

// plainChars matches the spelling of one character of the sorted pairs.
func plainChars(pairs []rune) grammar.Regexp {
	var ranges []grammar.Range
	var escaped []grammar.Regexp
	for i := 0; i+1 < len(pairs); i += 2 {
		lo, hi := pairs[i], pairs[i+1]
		for ; lo <= hi && lo <= '\\'; lo++ { // the characters that need an escape lie here
			if s := plainChar(lo); s[0] == '\\' {
				escaped = append(escaped, grammar.Text(s))
			} else {
				ranges = append(ranges, grammar.Range{Lo: lo, Hi: lo})
			}
		}
		if lo <= hi {
			ranges = append(ranges, grammar.Range{Lo: lo, Hi: hi})
		}
	}
	if len(escaped) == 0 {
		return grammar.Chars(ranges...)
	}
	return grammar.Alternate(append(escaped, grammar.Chars(ranges...))...)
}

// spelled translates an expression without anchors over characters into one over their plain spellings.
func spelled(re *syntax.Regexp) grammar.Regexp {
	if re == nil {
		return grammar.Text("")
	}
	parts := func() []grammar.Regexp {
		out := make([]grammar.Regexp, len(re.Sub))
		for i, sub := range re.Sub {
			out[i] = spelled(sub)
		}
		return out
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return grammar.Alternate()
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCharClass:
		return plainChars(re.Rune)
	case syntax.OpAnyChar:
		return plainChars([]rune{0, unicode.MaxRune})
	case syntax.OpAnyCharNotNL: // [^\n]
		return plainChars([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune})
	case syntax.OpCapture:
		return spelled(re.Sub[0])
	case syntax.OpStar:
		return grammar.Times(spelled(re.Sub[0]), 0, -1)
	case syntax.OpPlus:
		return grammar.Times(spelled(re.Sub[0]), 1, -1)
	case syntax.OpQuest:
		return grammar.Times(spelled(re.Sub[0]), 0, 1)
	case syntax.OpRepeat:
		return grammar.Times(spelled(re.Sub[0]), re.Min, re.Max)
	case syntax.OpConcat:
		return grammar.Concat(parts()...)
	case syntax.OpAlternate:
		return grammar.Alternate(parts()...)
	default: // OpEmptyMatch
		return grammar.Text("")
	}
}

// literal translates a literal, whatever its case if it says so.
func literal(re *syntax.Regexp) grammar.Regexp {
	if re.Flags&syntax.FoldCase == 0 {
		return grammar.Text(plainText(string(re.Rune)))
	}
	var out []grammar.Regexp
	for _, r := range re.Rune {
		pairs := []rune{r, r}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			pairs = append(pairs, f, f)
		}
		out = append(out, plainChars(pairs))
	}
	return grammar.Concat(out...)
}
