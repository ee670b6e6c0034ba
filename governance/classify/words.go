package classify

import (
	"strings"
	"unicode/utf8"
)

// words is a set of words that are looked for from a cell on: a trie whose edges are in one map.
type words struct {
	edges map[edgeKey]int32
	ends  map[int32]kind // nodes that end a word, with what it is
	nodes int32
}

type edgeKey struct {
	node int32
	r    rune
}

// add adds a word as it is found in normalised text, without regard to case; false if it is too short or too long.
func (t *words) add(word string, k kind) bool {
	word = plainText(word)
	if n := utf8.RuneCountInString(word); n < 2 || n > maxLength {
		return false
	}
	if t.edges == nil {
		t.edges, t.ends = map[edgeKey]int32{}, map[int32]kind{}
	}
	node := int32(0)
	for _, r := range word {
		next, ok := t.edges[edgeKey{node, r}]
		if !ok {
			t.nodes++
			next = t.nodes
			t.edges[edgeKey{node, r}] = next
		}
		node = next
	}
	if _, ok := t.ends[node]; !ok {
		t.ends[node] = k
	}
	return true
}

// longest returns the longest word that begins at cell i. A word of letters or digits does not begin or end inside a longer one.
func (t *words) longest(w *window, i int) (end int, k kind, v verdict) {
	node, ok := t.edges[edgeKey{0, lower(w.at(i))}]
	if !ok || isAlnum(w.at(i)) && isAlnum(w.at(i-1)) {
		return 0, 0, no
	}
	for at := i + 1; ; at++ {
		r := w.at(at)
		if r == unknown {
			return 0, 0, open
		}
		if found, ok := t.ends[node]; ok && (!isAlnum(w.at(at-1)) || !isAlnum(r)) {
			end, k = at, found
		}
		if node, ok = t.edges[edgeKey{node, lower(r)}]; !ok {
			break
		}
	}
	if end == 0 {
		return 0, 0, no
	}
	return end, k, yes
}

// plainText is s as it is found in normalised text, in lower case.
func plainText(s string) string {
	var n normaliser
	cells, _ := n.add(nil, strings.ToValidUTF8(s, ""), 0, true)
	var b strings.Builder
	for _, c := range cells {
		b.WriteRune(lower(c.r))
	}
	return strings.TrimSpace(b.String())
}
