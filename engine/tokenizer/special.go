package tokenizer

import (
	"cmp"
	"slices"
	"strings"
)

// entry is a token that is recognised by its literal text.
type entry struct {
	text string
	id   int32
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

// find returns the leftmost token in text, of those that start there the longest. Without one it returns the length of text.
func (m *matcher) find(text string) (int, entry) {
	if !m.any {
		return len(text), entry{}
	}
	for i := range len(text) {
		for _, e := range m.byFirst[text[i]] {
			if strings.HasPrefix(text[i:], e.text) {
				return i, e
			}
		}
	}
	return len(text), entry{}
}
