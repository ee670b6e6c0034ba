package tokenizer

import (
	"cmp"
	"slices"
	"strings"
)

// entry is a token that is recognised by its literal text.
type entry struct {
	text    string
	id      int32
	control bool // part of a text only where control tokens are asked for
}

// matcher finds such tokens in text.
type matcher struct {
	byFirst [256][]entry // by first byte, longest text first
	any     bool
}

func newMatcher(entries []entry) matcher {
	var m matcher
	for _, e := range entries {
		if e.text == "" {
			continue
		}
		m.byFirst[e.text[0]] = append(m.byFirst[e.text[0]], e)
		m.any = true
	}
	for _, list := range m.byFirst {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(len(b.text), len(a.text)) })
	}
	return m
}

// find returns the leftmost token in text that begins at or after from, of those that start there the longest. Control tokens count
// only where allowed says so. Without a token it returns the length of text.
func (m *matcher) find(text string, from int, allowed func(start, end int) bool) (int, entry) {
	if !m.any {
		return len(text), entry{}
	}
	for i := from; i < len(text); i++ {
		for _, e := range m.byFirst[text[i]] {
			if strings.HasPrefix(text[i:], e.text) && (!e.control || allowed(i, i+len(e.text))) {
				return i, e
			}
		}
	}
	return len(text), entry{}
}

// Part is a piece of a text. Special says that control tokens may be recognised in it.
type Part struct {
	Text    string
	Special bool
}

// spans are the intervals of a joined text in which control tokens are recognised.
type spans []struct{ start, end int }

// join returns the text of parts and its spans; neighbouring special parts make one span.
func join(parts []Part) (string, spans) {
	if len(parts) == 1 && !parts[0].Special {
		return parts[0].Text, nil
	}
	var text strings.Builder
	var list spans
	for _, p := range parts {
		start := text.Len()
		text.WriteString(p.Text)
		switch {
		case !p.Special:
		case len(list) > 0 && list[len(list)-1].end == start:
			list[len(list)-1].end = text.Len()
		default:
			list = append(list, struct{ start, end int }{start, text.Len()})
		}
	}
	return text.String(), list
}

// cover reports whether start to end lies inside one span. Questions come in order, so spans that lie behind are dropped.
func (s *spans) cover(start, end int) bool {
	for len(*s) > 0 && (*s)[0].end <= start {
		*s = (*s)[1:]
	}
	return len(*s) > 0 && (*s)[0].start <= start && end <= (*s)[0].end
}
