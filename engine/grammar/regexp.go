package grammar

import (
	"slices"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// Regexp is a regular expression over characters: a set of texts. Values are immutable and may be shared between grammars. The zero
// value matches the empty text only. A mistake in a constructor's arguments is reported when the expression is used.
type Regexp struct{ t *tree }

// Range is the characters from Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

// op is a kind of expression.
type op uint8

const (
	opText   op = iota // exactly text; the empty text when that is ""
	opChars            // one character of ranges; nothing when there are none
	opConcat           // sub, one after another
	opAlt              // any of sub; nothing when there are none
	opRepeat           // sub[0], from min to max times; max -1: any number
	opAnd              // what all of sub match
	opNot              // any text that sub[0] does not match
	opBegin            // only while parsing: the place before the first character
	opEnd              // only while parsing: the place behind the last character
)

// tree is an expression before it knows about bytes.
type tree struct {
	op       op
	text     string
	ranges   []Range // sorted, apart from each other
	sub      []*tree
	min, max int

	err              error
	depth            int
	weight           int // about how many byte-level nodes it becomes; saturates
	wide             int // repetitions of large character classes: where a text may stay for long
	null             bool
	begins, finishes bool // contains opBegin, opEnd
}

const (
	weightMax = 1 << 30
	wideChars = 64 // a class of at least so many characters is large
	wideTimes = 4  // and repeated more often than this, a place where a text stays
)

//nolint:gochecknoglobals // constant leaves
var (
	emptyTree = &tree{op: opText, null: true, weight: 1, depth: 1}
	noneTree  = &tree{op: opAlt, weight: 1, depth: 1}
)

func (r Regexp) tree() *tree {
	if r.t == nil {
		return emptyTree
	}
	return r.t
}

// Err returns the mistake that was made in building the expression, if any.
func (r Regexp) Err() error { return r.tree().err }

// Text matches exactly s.
func Text(s string) Regexp {
	if s == "" {
		return Regexp{emptyTree}
	}
	t := &tree{op: opText, text: s, weight: len(s), depth: 1}
	if !utf8.ValidString(s) {
		t.err = wrong(fault.Say("grammar.literal_not_utf8"))
	}
	return Regexp{t}
}

// Chars matches one character out of ranges, and nothing when there are none.
func Chars(ranges ...Range) Regexp {
	t := &tree{op: opChars, depth: 1}
	for _, r := range ranges {
		if r.Lo < 0 || r.Hi > utf8.MaxRune || r.Lo > r.Hi {
			t.err = wrong(fault.Say("grammar.range_invalid", r.Lo, r.Hi))
		}
	}
	if t.err == nil {
		t.ranges = normalRanges(ranges)
	}
	t.weight = min(weightMax, 1+8*len(t.ranges))
	return Regexp{t}
}

// NotChars matches one character that is in none of ranges.
func NotChars(ranges ...Range) Regexp {
	r := Chars(ranges...)
	if r.t.err != nil {
		return r
	}
	return Chars(invert(r.t.ranges)...)
}

// AnyChar matches any one character, line ends too.
func AnyChar() Regexp { return NotChars() }

// Concat matches a text of each of rs, one after another.
func Concat(rs ...Regexp) Regexp { return Regexp{newConcat(trees(rs)...)} }

// Alternate matches a text of any of rs, and nothing when there are none.
func Alternate(rs ...Regexp) Regexp { return Regexp{newAlt(trees(rs)...)} }

// Times matches from least to most texts of r, one after another; a most of -1 sets no upper bound.
func Times(r Regexp, least, most int) Regexp { return Regexp{newRepeat(r.tree(), least, most)} }

// Intersect matches the texts that all of rs match. It needs one expression at least.
func Intersect(rs ...Regexp) Regexp {
	if len(rs) == 0 {
		return Regexp{&tree{op: opAlt, depth: 1, err: wrong(fault.Say("grammar.empty_intersection"))}}
	}
	if len(rs) == 1 {
		return rs[0]
	}
	t := combine(opAnd, trees(rs))
	t.null = !slices.ContainsFunc(t.sub, func(s *tree) bool { return !s.null })
	return Regexp{t}
}

// Not matches every text that r does not match, the empty one included.
func Not(r Regexp) Regexp {
	t := combine(opNot, []*tree{r.tree()})
	t.null = !t.sub[0].null
	t.wide++ // everything but r is most of everything
	return Regexp{t}
}

func trees(rs []Regexp) []*tree {
	out := make([]*tree, len(rs))
	for i, r := range rs {
		out[i] = r.tree()
	}
	return out
}

// combine makes the tree of op over sub and sums up what is known of its parts.
func combine(o op, sub []*tree) *tree {
	t := &tree{op: o, sub: sub, weight: 1}
	for _, s := range sub {
		if t.err == nil {
			t.err = s.err
		}
		t.depth = max(t.depth, s.depth)
		t.weight = min(weightMax, t.weight+s.weight)
		t.wide = min(weightMax, t.wide+s.wide)
		t.begins = t.begins || s.begins
		t.finishes = t.finishes || s.finishes
	}
	t.depth++
	return t
}

func newConcat(sub ...*tree) *tree {
	sub = slices.DeleteFunc(slices.Clone(sub), func(s *tree) bool { return s.op == opText && s.text == "" && s.err == nil })
	switch len(sub) {
	case 0:
		return emptyTree
	case 1:
		return sub[0]
	}
	t := combine(opConcat, sub)
	t.null = !slices.ContainsFunc(sub, func(s *tree) bool { return !s.null })
	return t
}

func newAlt(sub ...*tree) *tree {
	switch len(sub) {
	case 0:
		return noneTree
	case 1:
		return sub[0]
	}
	t := combine(opAlt, slices.Clone(sub))
	t.null = slices.ContainsFunc(sub, func(s *tree) bool { return s.null })
	return t
}

func newRepeat(s *tree, lo, hi int) *tree {
	if lo == 1 && hi == 1 {
		return s
	}
	t := combine(opRepeat, []*tree{s})
	t.min, t.max = lo, hi
	t.null = lo == 0 || s.null
	if s.large() && (hi < 0 || hi > wideTimes) {
		t.wide = min(weightMax, t.wide+1)
	}
	if err := badCounts(lo, hi); err != nil {
		t.err = err
	}
	return t
}

// maxCount keeps sums of counts inside an int32.
const maxCount = 1 << 29

func badCounts(lo, hi int) error {
	if lo < 0 || hi < -1 || (hi >= 0 && hi < lo) {
		return wrong(fault.Say("grammar.repetition_order", lo, hi))
	}
	if lo > maxCount || hi > maxCount {
		return exceeded("Nodes", fault.Say("grammar.repetition_count", maxCount))
	}
	return nil
}

// large reports whether some character of the expression may be one of many.
func (t *tree) large() bool {
	if t.op == opChars {
		n := 0
		for _, r := range t.ranges {
			n += int(r.Hi-r.Lo) + 1
		}
		return n >= wideChars
	}
	return t.op != opNot && t.weight < 200 && slices.ContainsFunc(t.sub, (*tree).large)
}

func normalRanges(in []Range) []Range {
	rs := slices.Clone(in)
	slices.SortFunc(rs, func(a, b Range) int { return int(a.Lo - b.Lo) })
	var out []Range
	for _, r := range rs {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

func invert(sorted []Range) []Range {
	var out []Range
	next := rune(0)
	for _, r := range sorted {
		if r.Lo > next {
			out = append(out, Range{next, r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, Range{next, utf8.MaxRune})
	}
	return out
}
