package tokenizer

import (
	"cmp"
	"slices"
)

// trie finds which strings of a set begin at a place in a text. Nodes lie breadth first, so the children of a node are neighbours,
// in the order of their bytes.
type trie struct {
	root  [256]int32 // child of the root by byte; 0 if none
	nodes []trieNode // nodes[0] is the root; one node more than needed closes the last list of children
}

type trieNode struct {
	first int32 // first child; the children end where those of the next node begin
	value int32 // of the string that ends here, or None
	label byte  // last byte of the path to this node
}

// keyValue is a string of a trie with its value, which is not negative.
type keyValue struct {
	key   string
	value int32
}

// newTrie builds a trie. Of equal keys the last one counts; empty keys are left out.
func newTrie(entries []keyValue) *trie {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e keyValue) bool { return e.key == "" })
	slices.SortStableFunc(entries, func(a, b keyValue) int { return cmp.Compare(a.key, b.key) })
	t := &trie{nodes: []trieNode{{value: None}}}
	type group struct{ from, to int32 } // the entries below a node
	groups := []group{{0, int32(len(entries))}}
	depth, level := 0, 1 // nodes up to level have this depth
	for at := 0; at < len(groups); at++ {
		if at == level {
			depth, level = depth+1, len(groups)
		}
		g := groups[at]
		t.nodes[at].first = int32(len(t.nodes))
		for g.from < g.to && len(entries[g.from].key) == depth {
			t.nodes[at].value = entries[g.from].value
			g.from++
		}
		for g.from < g.to {
			label, end := entries[g.from].key[depth], g.from+1
			for end < g.to && entries[end].key[depth] == label {
				end++
			}
			t.nodes = append(t.nodes, trieNode{value: None, label: label})
			groups = append(groups, group{g.from, end})
			g.from = end
		}
	}
	for i := t.nodes[0].first; i < int32(len(t.nodes)); i++ {
		if len(t.nodes) > 1 && i < t.nodes[1].first {
			t.root[t.nodes[i].label] = i
		}
	}
	t.nodes = append(t.nodes, trieNode{first: int32(len(t.nodes)), value: None})
	return t
}

// child returns the node that a byte leads to from node, or 0.
func (t *trie) child(node int32, label byte) int32 {
	if node == 0 {
		return t.root[label]
	}
	from, to := t.nodes[node].first, t.nodes[node+1].first
	for to-from > 8 {
		middle := (from + to) / 2
		if t.nodes[middle].label > label {
			to = middle
		} else {
			from = middle
		}
	}
	for ; from < to; from++ {
		if t.nodes[from].label == label {
			return from
		}
	}
	return 0
}
