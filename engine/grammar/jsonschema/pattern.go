package jsonschema

import (
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// parsePattern reads a pattern: RE2 syntax, and \uXXXX and \cX as ECMA-262 has them. "." matches no line end of either.
func parsePattern(at, text string) (*syntax.Regexp, error) {
	re, err := syntax.Parse(escapes(text), syntax.Perl&^syntax.OneLine|syntax.OneLine)
	if err != nil {
		return nil, patternError(at, err)
	}
	return narrowDots(re), nil
}

func patternError(at string, err error) error {
	return refuse(at, fault.Say("the pattern cannot be used (%v): use RE2 syntax, without look-around and back-references",
		"该正则表达式无法使用（%v）：请使用 RE2 语法，不含环视和反向引用", err))
}

// escapes rewrites \uXXXX, which RE2 spells \x{XXXX}, and \cX.
func escapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		rest := s[i+1:]
		if len(rest) >= 5 && rest[0] == 'u' {
			if r, err := strconv.ParseUint(rest[1:5], 16, 32); err == nil {
				b.WriteString(`\x{` + strconv.FormatUint(r, 16) + `}`)
				i += 5
				continue
			}
		}
		if len(rest) >= 2 && rest[0] == 'c' && unicode.IsLetter(rune(rest[1])) {
			b.WriteString(`\x{` + strconv.FormatUint(uint64(rest[1]&31), 16) + `}`)
			i += 2
			continue
		}
		b.WriteString(s[i : i+2])
		i++
	}
	return b.String()
}

// lineEnds are what ECMA-262's "." does not match.
var lineEnds = []rune{'\n', '\n', '\r', '\r', 0x2028, 0x2029}

// narrowDots replaces "." by the class of characters that it matches in ECMA-262.
func narrowDots(re *syntax.Regexp) *syntax.Regexp {
	if re.Op == syntax.OpAnyCharNotNL {
		var class []rune
		for _, r := range inverted(lineEnds) {
			class = append(class, r.Lo, r.Hi)
		}
		return &syntax.Regexp{Op: syntax.OpCharClass, Rune: class}
	}
	for i, sub := range re.Sub {
		re.Sub[i] = narrowDots(sub)
	}
	return re
}

// inverted returns the characters outside of the sorted pairs.
func inverted(pairs []rune) []grammar.Range {
	var out []grammar.Range
	next := rune(0)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] > next {
			out = append(out, grammar.Range{Lo: next, Hi: pairs[i] - 1})
		}
		next = pairs[i+1] + 1
	}
	return append(out, grammar.Range{Lo: next, Hi: unicode.MaxRune})
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
		return nil, refuse(at, fault.Say("the pattern uses \\b, \\B or the m flag: write the characters that may stand there instead",
			"该正则表达式使用了 \\b、\\B 或 m 标志：请改为写明此处允许的字符"))
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
		return nil, refuse(at, fault.Say("the pattern repeats ^ or $: take them out of the repetition", "该正则表达式重复了 ^ 或 $：请移到重复之外"))
	}
}

func tooManyBranches(at string, list []branch) error {
	if len(list) <= maxBranches {
		return nil
	}
	return refuse(at, fault.Say("the pattern has ^ or $ in more than %d combinations: put them around the whole", "该正则表达式中 ^ 或 $ 的组合超过 %d 种：请放在整体的首尾", maxBranches))
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
