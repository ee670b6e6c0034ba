package tokenizer

import (
	"math/rand/v2"
	"testing"
)

// lookup walks the trie.
func (t *trie) lookup(key string) int32 {
	node := int32(0)
	for i := range len(key) {
		if node = t.child(node, key[i]); node == 0 {
			return None
		}
	}
	return t.nodes[node].value
}

func TestTrieEqualsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		want := map[string]int32{}
		var entries []keyValue
		for i := range rng.IntN(60) {
			key := make([]byte, rng.IntN(5))
			for j := range key {
				key[j] = byte(rng.IntN(20) * 13)
			}
			entries = append(entries, keyValue{string(key), int32(i)})
			if len(key) > 0 {
				want[string(key)] = int32(i) // the last one counts
			}
		}
		tree := newTrie(entries)
		for key, value := range want {
			if got := tree.lookup(key); got != value {
				t.Fatalf("%q leads to %d, want %d", key, got, value)
			}
			for _, other := range []string{key + "\x00", key + "\xff", key[:len(key)-1]} {
				expected, ok := want[other]
				if !ok {
					expected = None
				}
				if got := tree.lookup(other); got != expected {
					t.Fatalf("%q leads to %d, want %d", other, got, expected)
				}
			}
		}
	}
}

func TestTrieOfNothing(t *testing.T) {
	for _, entries := range [][]keyValue{nil, {{"", 3}}} {
		if got := newTrie(entries).lookup("a"); got != None {
			t.Errorf("found %d", got)
		}
	}
	all := make([]keyValue, 256)
	for c := range all {
		all[c] = keyValue{"x" + string([]byte{byte(c)}), int32(c)}
	}
	tree := newTrie(all)
	for c := range all {
		if got := tree.lookup(all[c].key); got != int32(c) {
			t.Errorf("%q leads to %d", all[c].key, got)
		}
	}
}
