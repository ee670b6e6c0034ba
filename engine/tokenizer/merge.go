package tokenizer

import "slices"

// pair is two tokens side by side.
type pair struct{ left, right int32 }

// merge is what a pair becomes; the lowest rank goes first.
type merge struct{ rank, id int32 }

// symbol is a token of a text in the making, in a doubly linked list; id is None for a piece without a token. A symbol that was
// merged into its left neighbour is dead.
type symbol struct {
	id         int32
	at         int32 // where it begins in the text
	prev, next int32
	dead       bool
}

type symbols []symbol

func newSymbols(n int) symbols { return make(symbols, 0, n) }

// add appends a symbol that begins at a place in the text.
func (s symbols) add(id int32, at int) symbols {
	n := int32(len(s))
	if n > 0 {
		s[n-1].next = n
	}
	return append(s, symbol{id: id, at: int32(at), prev: n - 1, next: -1})
}

// merge applies the merge with the lowest rank, the leftmost of equals, until none is left. of says what a symbol and its right
// neighbour become. The time is n·log n: candidates wait in a heap, and those that are no longer current are skipped there.
func (s symbols) merge(of func(left, right int32) (merge, bool)) {
	var queue mergeQueue
	propose := func(left int32) {
		if m, ok := of(left, s[left].next); ok {
			queue.push(candidate{rank: m.rank, left: left, ids: pair{s[left].id, s[s[left].next].id}, into: m.id})
		}
	}
	for i := range len(s) - 1 {
		propose(int32(i))
	}
	for len(queue) > 0 {
		c := queue.pop()
		left := &s[c.left]
		if left.dead || left.next < 0 || (pair{left.id, s[left.next].id}) != c.ids {
			continue // one of the two has been merged since
		}
		right := &s[left.next]
		left.id, left.next = c.into, right.next
		right.dead = true
		if left.next >= 0 {
			s[left.next].prev = c.left
			propose(c.left)
		}
		if left.prev >= 0 {
			propose(left.prev)
		}
	}
}

// candidate is a possible merge of the symbol at left with its neighbour. ids tell whether it is still current.
type candidate struct {
	rank, left int32
	ids        pair
	into       int32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || (c.rank == d.rank && c.left < d.left)
}

// mergeQueue is a binary heap, best candidate first. container/heap would box every element.
type mergeQueue []candidate

func (q *mergeQueue) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*q = h
}

func (q *mergeQueue) pop() candidate {
	h := *q
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	*q = h
	return top
}

// ranksOf turns scores into ranks: the highest score has the rank 0, equal scores have equal ranks.
func ranksOf(scores []float32) []int32 {
	order := slices.Clone(scores)
	slices.Sort(order)
	order = slices.Compact(order)
	ranks := make([]int32, len(scores))
	for i, s := range scores {
		n, _ := slices.BinarySearch(order, s)
		ranks[i] = int32(len(order) - 1 - n)
	}
	return ranks
}
