package grammar

import (
	"errors"
	"regexp/syntax"
	"unicode"

	"github.com/sluice-project/sluice/internal/fault"
)

// ParseRegexp returns the expression of the texts that re, in RE2 syntax, matches as a whole. Capturing and laziness mean nothing;
// word and line borders (\b, \B, and ^ and $ under (?m)) are refused.
func ParseRegexp(re string) (Regexp, error) {
	parsed, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return Regexp{}, regexError(err)
	}
	t, err := fromSyntax(parsed)
	if err != nil {
		return Regexp{}, err
	}
	t = withoutAnchors(t)
	if t.err != nil {
		return Regexp{}, t.err
	}
	return Regexp{t}, nil
}

func regexError(err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return wrong(fault.Say("grammar.regexp_unreadable"))
	}
	switch e.Code {
	case syntax.ErrInvalidRepeatSize:
		return exceeded("Nodes", fault.Say("grammar.regexp_repetitions"))
	case syntax.ErrNestingDepth:
		return exceeded("Depth", fault.Say("grammar.regexp_too_deep"))
	case syntax.ErrLarge:
		return exceeded("Nodes", fault.Say("grammar.regexp_too_large"))
	case syntax.ErrInvalidUTF8:
		return wrong(fault.Say("grammar.regexp_not_utf8"))
	default:
		return wrong(fault.Say("grammar.regexp_wrong", string(e.Code)))
	}
}

// fromSyntax translates an expression; the depth of what the parser returns is bounded by the parser.
func fromSyntax(re *syntax.Regexp) (*tree, error) {
	switch re.Op {
	case syntax.OpNoMatch:
		return noneTree, nil
	case syntax.OpEmptyMatch:
		return emptyTree, nil
	case syntax.OpLiteral:
		return literal(re.Rune, re.Flags&syntax.FoldCase != 0), nil
	case syntax.OpCharClass:
		var rs []Range
		for i := 0; i+1 < len(re.Rune); i += 2 {
			rs = append(rs, Range{re.Rune[i], re.Rune[i+1]})
		}
		return Chars(rs...).t, nil
	case syntax.OpAnyCharNotNL:
		return NotChars(Range{'\n', '\n'}).t, nil
	case syntax.OpAnyChar:
		return AnyChar().t, nil
	case syntax.OpBeginText:
		return beginTree, nil
	case syntax.OpEndText:
		return endTree, nil
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return nil, wrong(fault.Say("grammar.regexp_unsupported", re.String()))
	case syntax.OpCapture:
		return fromSyntax(re.Sub[0])
	default:
		return fromCompound(re)
	}
}

func fromCompound(re *syntax.Regexp) (*tree, error) {
	sub := make([]*tree, len(re.Sub))
	for i, s := range re.Sub {
		t, err := fromSyntax(s)
		if err != nil {
			return nil, err
		}
		sub[i] = t
	}
	switch re.Op {
	case syntax.OpConcat:
		return newConcat(sub...), nil
	case syntax.OpAlternate:
		return newAlt(sub...), nil
	case syntax.OpStar:
		return newRepeat(sub[0], 0, -1), nil
	case syntax.OpPlus:
		return newRepeat(sub[0], 1, -1), nil
	case syntax.OpQuest:
		return newRepeat(sub[0], 0, 1), nil
	case syntax.OpRepeat:
		return newRepeat(sub[0], re.Min, re.Max), nil
	default:
		return nil, wrong(fault.Say("grammar.regexp_unknown"))
	}
}

func literal(rs []rune, fold bool) *tree {
	if !fold {
		return Text(string(rs)).t
	}
	sub := make([]*tree, len(rs))
	for i, r := range rs {
		all := []Range{{r, r}}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			all = append(all, Range{f, f})
		}
		sub[i] = Chars(all...).t
	}
	return newConcat(sub...)
}
