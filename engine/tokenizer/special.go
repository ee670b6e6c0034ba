package tokenizer

import (
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
	list []entry
	tree *trie // values are places in list
}

func newMatcher(list []entry) matcher {
	keys := make([]keyValue, len(list))
	for i, e := range list {
		keys[i] = keyValue{e.text, int32(i)}
	}
	return matcher{list, newTrie(keys)}
}

// find returns the leftmost token in text that begins at or after from, of those that start there the longest. Control tokens count
// only where allowed says so. Without a token it returns the length of text.
func (m *matcher) find(text string, from int, allowed func(start, end int) bool) (int, entry) {
	if len(m.list) == 0 {
		return len(text), entry{}
	}
	for i := from; i < len(text); i++ {
		found := None
		node := m.tree.child(0, text[i])
		for end := i + 1; node != 0; end++ {
			if v := m.tree.nodes[node].value; v != None && (!m.list[v].control || allowed(i, end)) {
				found = v
			}
			if end == len(text) {
				break
			}
			node = m.tree.child(node, text[end])
		}
		if found != None {
			return i, m.list[found]
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

// cover reports whether start to end lies inside one span. Starts come in order, so spans that lie behind are dropped.
func (s *spans) cover(start, end int) bool {
	for len(*s) > 0 && (*s)[0].end <= start {
		*s = (*s)[1:]
	}
	return len(*s) > 0 && (*s)[0].start <= start && end <= (*s)[0].end
}
