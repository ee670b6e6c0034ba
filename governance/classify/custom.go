package classify

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
	"github.com/sluice-project/sluice/internal/fault"
)

// Custom is a class that a tenant defines: values of a pattern, or of a list.
type Custom struct {
	Class   Class  // lower-case letters, digits and underscores; none of ours
	Tag     string // short name, which pseudonyms carry; 1 to 8 letters of any script
	Pattern string // RE2; without one, Words
	Words   []string
	Check   string   // what the digits of a value must pass, one of [Checks]; "" for nothing
	Context []string // one of these words must stand near: up to 16 characters before, 12 behind; none: anywhere
}

// Known is a value that the caller says is in the text: it is found wherever it stands.
type Known struct {
	Class Class
	Value string
}

// The limits of what a tenant defines. They bound time and memory: a text costs at most maxLength steps a character for each pattern.
const (
	maxCustom   = 64    // classes of a set
	maxProgram  = 2000  // instructions of a pattern
	maxLength   = 128   // characters of a match
	maxListed   = 20000 // of a list
	maxContexts = 32
)

// Checks are the names of the checks that values of a custom class may have to pass.
func Checks() []string { return []string{"luhn", "mod11_2", "mod97_10"} }

// CustomError says what is wrong with the definition of a class. Field is the name of the part.
type CustomError struct {
	Field  string
	Reason fault.Phrase
}

// Error implements error.
func (e *CustomError) Error() string { return e.Field + ": " + e.Reason.String() }

func wrong(field string, reason fault.Phrase) error { return &CustomError{field, reason} }

// defined is a custom class, ready for use.
type defined struct {
	Custom

	prog  *syntax.Prog // nil for a list
	first []*syntax.Inst
	ascii [2]uint64 // which characters of ASCII a match may begin with
	words *words    // nil for a pattern
	kind  finding.Kind
	form  float64
	off   bool // not looked for
}

// Define returns s with these classes beside its own. Errors are [*CustomError].
func (s *Set) Define(classes []Custom) (*Set, error) {
	out := *s
	out.custom = slices.Clone(s.custom)
	for _, c := range classes {
		d, err := define(c)
		if err != nil {
			return nil, err
		}
		if len(out.custom) == maxCustom {
			return nil, wrong("class", fault.Say("classify.class_count", maxCustom))
		}
		if _, ok := out.TypeOf(c.Class); ok {
			return nil, wrong("class", fault.Say("classify.class_taken"))
		}
		for _, t := range out.tags() {
			if strings.HasPrefix(t, c.Tag) || strings.HasPrefix(c.Tag, t) {
				return nil, wrong("tag", fault.Say("classify.tag_taken", t))
			}
		}
		d.kind = finding.Count + finding.Kind(len(out.custom))
		out.custom = append(out.custom, d)
	}
	return &out, nil
}

func define(c Custom) (*defined, error) {
	d := &defined{Custom: c, form: finding.Threshold}
	name := string(c.Class)
	if len(name) < 2 || len(name) > 40 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || name[0] < 'a' {
		return nil, wrong("class", fault.Say("classify.class_name"))
	}
	if n := utf8.RuneCountInString(c.Tag); n < 1 || n > 8 || strings.ContainsFunc(c.Tag, func(r rune) bool { return !text.IsHan(r) && !text.IsAlnum(r) }) {
		return nil, wrong("tag", fault.Say("classify.tag"))
	}
	if c.Check != "" && !slices.Contains(Checks(), c.Check) {
		return nil, wrong("check", fault.Say("value.one_of", strings.Join(Checks(), ", ")))
	}
	if len(c.Context) > maxContexts || slices.ContainsFunc(c.Context, func(w string) bool { n := utf8.RuneCountInString(w); return n < 1 || n > 12 }) {
		return nil, wrong("context", fault.Say("classify.context_words", maxContexts))
	}
	d.Context = nil
	for _, w := range c.Context {
		d.Context = append(d.Context, plainText(w))
	}
	if len(d.Context) > 0 {
		d.form = 0.3
	}
	switch {
	case (c.Pattern == "") == (len(c.Words) == 0):
		return nil, wrong("pattern", fault.Say("classify.pattern_or_words"))
	case c.Pattern == "":
		if len(c.Words) > maxListed {
			return nil, wrong("words", fault.Say("classify.word_count", maxListed))
		}
		d.words = &words{}
		for _, w := range c.Words {
			if !d.words.add(w, 0) {
				return nil, wrong("words", fault.Say("classify.word_length", maxLength))
			}
		}
		return d, nil
	}
	return d, d.compile()
}

// compile makes the program of the pattern. Patterns run over normalised text: digits and letters are plain ones.
func (d *defined) compile() error {
	re, err := syntax.Parse(d.Pattern, syntax.Perl)
	if err != nil {
		return wrong("pattern", fault.Say("classify.pattern_syntax"))
	}
	low, high := lengths(re)
	if low < 2 || high > maxLength {
		return wrong("pattern", fault.Say("classify.pattern_length", maxLength))
	}
	if d.prog, err = syntax.Compile(re.Simplify()); err != nil || len(d.prog.Inst) > maxProgram {
		return wrong("pattern", fault.Say("classify.pattern_too_large"))
	}
	m := machine{prog: d.prog}
	m.reset()
	m.follow(uint32(d.prog.Start), ^syntax.EmptyOp(0)) // whatever stands before
	for _, pc := range m.live {
		if in := &d.prog.Inst[pc]; in.Op != syntax.InstMatch {
			d.first = append(d.first, in)
		}
	}
	for r := range rune(128) {
		if d.opens(r) {
			d.ascii[r/64] |= 1 << (r % 64)
		}
	}
	return nil
}

func (d *defined) opens(r rune) bool {
	return slices.ContainsFunc(d.first, func(in *syntax.Inst) bool { return in.MatchRune(r) })
}

// lengths bounds what an expression matches, in characters.
func lengths(re *syntax.Regexp) (low, high int) {
	const most = 1 << 20
	switch re.Op { //nolint:exhaustive // the others match nothing, or between two characters
	case syntax.OpLiteral:
		return len(re.Rune), len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, 1
	case syntax.OpCapture:
		return lengths(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		low, _ = lengths(re.Sub[0])
		if re.Op == syntax.OpStar {
			low = 0
		}
		return low, most
	case syntax.OpQuest:
		_, high = lengths(re.Sub[0])
		return 0, high
	case syntax.OpRepeat:
		low, high = lengths(re.Sub[0])
		if re.Max < 0 {
			return low * re.Min, most
		}
		return low * re.Min, min(high*re.Max, most)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			l, h := lengths(sub)
			low, high = low+l, min(high+h, most)
		}
		return low, high
	case syntax.OpAlternate:
		low = most
		for _, sub := range re.Sub {
			l, h := lengths(sub)
			low, high = min(low, l), max(high, h)
		}
		return low, high
	}
	return 0, 0
}

// machine runs a program over cells, all alternatives at once, from one cell on.
type machine struct {
	prog    *syntax.Prog
	live    []uint32 // instructions that wait for a character, or are a match
	next    []uint32
	visited []bool // of follow
}

func (m *machine) reset() {
	m.live, m.visited = m.live[:0], make([]bool, len(m.prog.Inst))
}

// follow adds what pc leads to without a character.
func (m *machine) follow(pc uint32, flags syntax.EmptyOp) {
	if m.visited[pc] {
		return
	}
	m.visited[pc] = true
	switch in := &m.prog.Inst[pc]; in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		m.follow(in.Out, flags)
		m.follow(in.Arg, flags)
	case syntax.InstCapture, syntax.InstNop:
		m.follow(in.Out, flags)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(in.Arg)&^flags == 0 {
			m.follow(in.Out, flags)
		}
	case syntax.InstFail:
	default:
		m.live = append(m.live, pc)
	}
}

// longest returns the end of the longest match that begins at cell i, i itself if there is none.
func (m *machine) longest(w *text.Window, i int) (end int, v text.Verdict) {
	end = i
	m.reset()
	waiting := append(m.next[:0], uint32(m.prog.Start))
	for k := i; ; k++ {
		next := w.At(k)
		if next == text.Unknown {
			return 0, text.Open
		}
		flags := syntax.EmptyOpContext(max(w.At(k-1), text.Edge), next)
		m.live = m.live[:0]
		clear(m.visited)
		for _, pc := range waiting {
			m.follow(pc, flags)
		}
		waiting = waiting[:0]
		for _, pc := range m.live {
			in := &m.prog.Inst[pc]
			switch {
			case in.Op == syntax.InstMatch:
				end = k
			case next != text.Edge && in.MatchRune(next):
				waiting = append(waiting, in.Out)
			}
		}
		if len(waiting) == 0 {
			return end, text.Yes
		}
	}
}
