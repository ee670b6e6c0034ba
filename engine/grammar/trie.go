package grammar

import "slices"

// trie is a set of byte strings that are tokens, as a tree in depth-first order: a node's first child is the next node, and skip leads
// past everything below it. The root is not a node; nodes below it have depth 1.
type trie struct {
	bytes []byte
	depth []int32
	skip  []int32
	token []int32   // token that ends here; none: -1; several: -2-i for more[i]
	more  [][]int32 // tokens with the same bytes
	deep  int32     // depth of the deepest node
}

// entry is a token and its bytes, or what is left of them.
type entry struct {
	text  string
	token int32
}

const noToken = -1

// newTrie sorts list. Empty texts are left out.
func newTrie(list []entry) *trie {
	slices.SortFunc(list, func(a, b entry) int {
		if a.text != b.text {
			if a.text < b.text {
				return -1
			}
			return 1
		}
		return int(a.token - b.token)
	})
	t := &trie{}
	var path []int32 // nodes of the text before
	last := ""
	for _, e := range list {
		if e.text == "" {
			continue
		}
		n := 0
		for n < len(last) && n < len(e.text) && last[n] == e.text[n] {
			n++
		}
		t.leave(path[n:])
		path = path[:n]
		for _, b := range []byte(e.text[n:]) {
			path = append(path, int32(len(t.bytes)))
			t.bytes = append(t.bytes, b)
			t.depth = append(t.depth, int32(len(path)))
			t.skip = append(t.skip, 0)
			t.token = append(t.token, noToken)
		}
		t.end(path[len(path)-1], e.token)
		t.deep = max(t.deep, int32(len(path)))
		last = e.text
	}
	t.leave(path)
	return t
}

// leave says of nodes that nothing more comes below them.
func (t *trie) leave(nodes []int32) {
	for _, i := range nodes {
		t.skip[i] = int32(len(t.bytes))
	}
}

func (t *trie) end(i, token int32) {
	switch old := t.token[i]; {
	case old == noToken:
		t.token[i] = token
	case old >= 0:
		if old != token {
			t.token[i] = -2 - int32(len(t.more))
			t.more = append(t.more, []int32{old, token})
		}
	default:
		m := &t.more[-2-old]
		if !slices.Contains(*m, token) {
			*m = append(*m, token)
		}
	}
}

// mark sets the bits of the tokens that end at node i and returns how many these are.
func (t *trie) mark(dst []uint64, i int) int {
	switch x := t.token[i]; {
	case x >= 0:
		dst[x>>6] |= 1 << (x & 63)
		return 1
	case x < noToken:
		for _, y := range t.more[-2-x] {
			dst[y>>6] |= 1 << (y & 63)
		}
		return len(t.more[-2-x])
	}
	return 0
}
