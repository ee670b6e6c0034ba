package classify

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// words is a set of words that are looked for from a cell on: a trie whose edges are in one map.
type words struct {
	edges map[edgeKey]int32
	ends  map[int32]finding.Kind // nodes that end a word, with what it is
	nodes int32
}

type edgeKey struct {
	node int32
	r    rune
}

// add adds a word as it is found in normalised text, without regard to case; false if it is too short or too long.
func (t *words) add(word string, k finding.Kind) bool {
	word = plainText(word)
	if n := utf8.RuneCountInString(word); n < 2 || n > maxLength {
		return false
	}
	if t.edges == nil {
		t.edges, t.ends = map[edgeKey]int32{}, map[int32]finding.Kind{}
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
func (t *words) longest(w *text.Window, i int) (end int, k finding.Kind, v text.Verdict) {
	node, ok := t.edges[edgeKey{0, text.Lower(w.At(i))}]
	if !ok || text.IsAlnum(w.At(i)) && text.IsAlnum(w.At(i-1)) {
		return 0, 0, text.No
	}
	for at := i + 1; ; at++ {
		r := w.At(at)
		if r == text.Unknown {
			return 0, 0, text.Open
		}
		if found, ok := t.ends[node]; ok && (!text.IsAlnum(w.At(at-1)) || !text.IsAlnum(r)) {
			end, k = at, found
		}
		if node, ok = t.edges[edgeKey{node, text.Lower(r)}]; !ok {
			break
		}
	}
	if end == 0 {
		return 0, 0, text.No
	}
	return end, k, text.Yes
}

// plainText is s as it is found in normalised text, in lower case.
func plainText(s string) string {
	var w text.Buffer
	w.Read(strings.ToValidUTF8(s, ""), 0, true)
	var b strings.Builder
	for _, c := range w.Cells(0, w.End()) {
		b.WriteRune(text.Lower(c.R))
	}
	return strings.TrimSpace(b.String())
}
