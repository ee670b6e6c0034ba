package safety

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Screen judges a whole text that goes to a model. It tells hit of each match and returns the text with what rules replace or block
// replaced; blocked is the risk of the first rule that blocks it, or "".
func Screen(matchers []*Matcher, text string, hit func(Hit)) (out string, blocked Risk) {
	var edits []edit
	for _, m := range matchers {
		if m.Empty() {
			continue
		}
		s := m.scan(Input)
		for at, r := range text {
			size := utf8.RuneLen(r)
			if r == utf8.RuneError {
				_, size = utf8.DecodeRuneInString(text[at:])
			}
			s.read(r, at, at+size)
			if len(s.waits)+len(s.voids) > 0 {
				edits, blocked = s.settle(s.frontier(at+size), edits, blocked, hit)
			}
		}
		s.finish()
		edits, blocked = s.settle(len(text)+1, edits, blocked, hit)
	}
	return replaced(text, edits), blocked
}

func (s *scan) settle(frontier int, edits []edit, blocked Risk, hit func(Hit)) ([]edit, Risk) {
	for _, f := range s.decided(frontier) {
		h := s.m.rules[f.rule].hit
		hit(h)
		switch h.Action {
		case Block:
			blocked = cmp.Or(blocked, h.Risk)
			fallthrough
		case Replace:
			edits = append(edits, edit{f.start, f.end, Replacement})
		case Review, Note:
		}
	}
	return edits, blocked
}

func replaced(text string, edits []edit) string {
	if len(edits) == 0 {
		return text
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out strings.Builder
	at := 0
	for _, e := range edits {
		if e.start >= at {
			out.WriteString(text[at:e.start])
			out.WriteString(e.put)
		}
		at = max(at, e.end)
	}
	out.WriteString(text[at:])
	return out.String()
}
