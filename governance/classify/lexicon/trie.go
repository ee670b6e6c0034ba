package lexicon

import "slices"

// trie finds the longest entry that a text begins with. Nodes lie in one slice, the children of each next to each other in the order of
// their runes; the first rune is found by index.
type trie struct {
	first []uint16 // by Han character: the place of its root plus one
	runes []rune   // of the nodes, apart from them because they are searched
	nodes []node   // nodes[:roots] are the roots
	roots int
}

type node struct {
	kids  uint32
	count uint16
	value uint16 // 0: no entry ends here
}

// entry is a word and its value, which is not 0.
type entry struct {
	word  []rune
	value uint16
}

// newTrie builds the trie of some entries. The values of equal words are joined by or.
func newTrie(entries []entry) *trie {
	slices.SortFunc(entries, func(a, b entry) int { return slices.Compare(a.word, b.word) })
	t := &trie{first: make([]uint16, hanCount)}
	type span struct{ node, from, to, depth int }
	queue := []span{{-1, 0, len(entries), 0}}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		start := len(t.nodes)
		for i := s.from; i < s.to; {
			word := entries[i].word
			if len(word) == s.depth { // ends at the parent, and sorts before all that go on
				t.nodes[s.node].value |= entries[i].value
				i++
				continue
			}
			r, j := word[s.depth], i+1
			for j < s.to && entries[j].word[s.depth] == r {
				j++
			}
			queue = append(queue, span{len(t.nodes), i, j, s.depth + 1})
			t.runes, t.nodes = append(t.runes, r), append(t.nodes, node{})
			i = j
		}
		if s.node < 0 {
			t.roots = len(t.nodes)
			continue
		}
		t.nodes[s.node].kids, t.nodes[s.node].count = uint32(start), uint16(len(t.nodes)-start)
	}
	for i, r := range t.runes[:t.roots] {
		if at, ok := Place(r); ok {
			t.first[at] = uint16(i + 1)
		}
	}
	return t
}

// longest returns the length and value of the longest entry that text begins with, or zeros.
func (t *trie) longest(text []rune) (n int, value uint16) { return t.match(text, 0, 1) }

// longestBack is longest for a trie of reversed words: it reads text from its end.
func (t *trie) longestBack(text []rune) (n int, value uint16) { return t.match(text, len(text)-1, -1) }

// match follows text from one of its ends towards the other.
func (t *trie) match(text []rune, at, step int) (n int, value uint16) {
	if len(text) == 0 {
		return 0, 0
	}
	place := t.root(text[at])
	for i := 1; place >= 0; i++ {
		here := t.nodes[place]
		if here.value != 0 {
			n, value = i, here.value
		}
		if i == len(text) || here.count == 0 {
			break
		}
		at += step
		place = int(here.kids)
		kid := find(t.runes[place:place+int(here.count)], text[at])
		if kid < 0 {
			break
		}
		place += kid
	}
	return n, value
}

// root returns the node of a first rune, or -1.
func (t *trie) root(r rune) int {
	if i, ok := Place(r); ok {
		return int(t.first[i]) - 1
	}
	return find(t.runes[:t.roots], r)
}

// find returns the place of a rune among those of sibling nodes, or -1. It halves what is left without a jump that the processor would have
// to guess.
func find(runes []rune, r rune) int {
	low := 0
	for n := len(runes); n > 1; {
		half := n >> 1
		if runes[low+half] <= r {
			low += half
		}
		n -= half
	}
	if low < len(runes) && runes[low] == r {
		return low
	}
	return -1
}
