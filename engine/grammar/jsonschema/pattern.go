package jsonschema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/sluice-project/sluice/internal/fault"
)

// parsePattern reads a pattern: RE2 syntax, with \uXXXX, \cX and the dot as ECMA-262 has them.
func parsePattern(at, text string) (*syntax.Regexp, error) {
	t := translator{rest: text, dots: !dotFlag.MatchString(text)}
	text, err := t.translate()
	if err != nil {
		return nil, patternError(at, err)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, patternError(at, err)
	}
	return re, nil
}

func patternError(at string, err error) error {
	return refuse(at, fault.Say("jsonschema.pattern_syntax", err))
}

// dotFlag finds the s flag, which has the dot match everything.
var dotFlag = regexp.MustCompile(`\(\?[a-zA-Z]*s`)

// dot is the class of what "." matches: everything but the ends of lines.
const dot = `[^\n\r\x{2028}\x{2029}]`

// translator rewrites what ECMA-262 spells otherwise than RE2.
type translator struct {
	rest string
	dots bool
	out  strings.Builder
}

var errSurrogate = errors.New("half a surrogate pair")

func (t *translator) translate() (string, error) {
	class := 0 // bytes of the class that is open, if any
	for t.rest != "" {
		c := t.rest[0]
		switch {
		case c == '\\' && len(t.rest) > 1:
			if err := t.escape(); err != nil {
				return "", err
			}
			class += min(class, 1)
			continue
		case class == 0 && c == '[':
			class = 1
		case class > 0 && c == ']' && class > 1:
			class = 0
		case class > 0 && !(class == 1 && c == '^'):
			class++
			if end := strings.Index(t.rest, ":]"); strings.HasPrefix(t.rest, "[:") && end > 0 {
				t.take(end + 2)
				continue
			}
		case class == 0 && c == '.' && t.dots:
			t.out.WriteString(dot)
			t.rest = t.rest[1:]
			continue
		}
		t.take(1)
	}
	return t.out.String(), nil
}

// take copies n bytes.
func (t *translator) take(n int) {
	t.out.WriteString(t.rest[:n])
	t.rest = t.rest[n:]
}

// escape rewrites the escape that comes next, or copies it.
func (t *translator) escape() error {
	s := t.rest
	switch {
	case s[1] == 'Q': // a literal up to \E
		end := strings.Index(s, `\E`)
		if end < 0 {
			end = len(s) - 2
		}
		t.take(end + 2)
		return nil
	case s[1] == 'c' && len(s) > 2 && (s[2]|0x20) >= 'a' && (s[2]|0x20) <= 'z':
		t.character(rune(s[2]&31), 3)
		return nil
	case s[1] == 'u':
		r, ok := hexEscape(s)
		if !ok {
			break
		}
		if !utf16.IsSurrogate(r) {
			t.character(r, 6)
			return nil
		}
		low, _ := hexEscape(s[6:])
		if r = utf16.DecodeRune(r, low); r == unicode.ReplacementChar {
			return errSurrogate
		}
		t.character(r, 12)
		return nil
	}
	t.take(2)
	return nil
}

// character writes a character instead of the next n bytes.
func (t *translator) character(r rune, n int) {
	fmt.Fprintf(&t.out, `\x{%x}`, r)
	t.rest = t.rest[n:]
}

// hexEscape reads \uXXXX.
func hexEscape(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	r, err := strconv.ParseUint(s[2:6], 16, 32)
	return rune(r), err == nil
}

// branch is one reading of an expression: the text of body, at the beginning or the end of the whole if it says so. nil stands for the
// empty text.
type branch struct {
	begin, end bool
	body       *syntax.Regexp
}

// maxBranches bounds what anchors inside of groups multiply to.
const maxBranches = 512

// branches moves the anchors of an expression to its ends.
func branches(at string, re *syntax.Regexp) ([]branch, error) {
	switch re.Op {
	case syntax.OpBeginText:
		return []branch{{begin: true}}, nil
	case syntax.OpEndText:
		return []branch{{end: true}}, nil
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return nil, refuse(at, fault.Say("jsonschema.pattern_boundaries"))
	default:
	}
	if !anchored(re) {
		return []branch{{body: re}}, nil
	}
	switch re.Op {
	case syntax.OpCapture:
		return branches(at, re.Sub[0])
	case syntax.OpAlternate:
		var out []branch
		for _, sub := range re.Sub {
			some, err := branches(at, sub)
			if err != nil {
				return nil, err
			}
			out = append(out, some...)
		}
		return out, tooManyBranches(at, out)
	case syntax.OpQuest:
		some, err := branches(at, re.Sub[0])
		return append(some, branch{}), err
	case syntax.OpConcat:
		return concatBranches(at, re.Sub)
	default:
		return nil, refuse(at, fault.Say("jsonschema.pattern_anchor_repeated"))
	}
}

func tooManyBranches(at string, list []branch) error {
	if len(list) <= maxBranches {
		return nil
	}
	return refuse(at, fault.Say("jsonschema.pattern_anchors", maxBranches))
}

// concatBranches joins the readings of parts that follow one another: nothing but the empty text goes before ^ or after $.
func concatBranches(at string, parts []*syntax.Regexp) ([]branch, error) {
	out := []branch{{}}
	for _, part := range parts {
		some, err := branches(at, part)
		if err != nil {
			return nil, err
		}
		var next []branch
		for _, a := range out {
			for _, b := range some {
				if b.begin {
					if !nullable(a.body) {
						continue
					}
					a.body = nil
				}
				if a.end {
					if !nullable(b.body) {
						continue
					}
					b.body = nil
				}
				next = append(next, branch{a.begin || b.begin, a.end || b.end, join(a.body, b.body)})
			}
		}
		if err := tooManyBranches(at, next); err != nil {
			return nil, err
		}
		out = next
	}
	return out, nil
}

func join(a, b *syntax.Regexp) *syntax.Regexp {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{a, b}}
}

// anchored reports whether ^, $, \b or their like occur.
func anchored(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	default:
		return slices.ContainsFunc(re.Sub, anchored)
	}
}

// nullable reports whether an expression without anchors matches the empty text.
func nullable(re *syntax.Regexp) bool {
	if re == nil {
		return true
	}
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		return re.Min == 0 || nullable(re.Sub[0])
	case syntax.OpPlus, syntax.OpCapture:
		return nullable(re.Sub[0])
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, nullable)
	case syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return !nullable(s) })
	default:
		return false
	}
}
