package tokenizer

// symbol is a token of a word in the making, in a doubly linked list; id is None for a byte without a token and for a symbol that
// was merged into its left neighbour (then dead is set).
type symbol struct {
	id         int32
	prev, next int32
	dead       bool
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

// appendMerged encodes one word: starting from single bytes, the merge with the lowest rank, the leftmost of equals, is applied
// until none is left.
func (b *BPE) appendMerged(ids []int32, word string) []int32 {
	if id, ok := b.wholeWord[word]; ok {
		return append(ids, id)
	}
	if len(word) == 1 {
		return appendToken(ids, b.byteToken[word[0]])
	}
	list := make([]symbol, len(word))
	var queue mergeQueue
	for i := range len(word) {
		list[i] = symbol{id: b.byteToken[word[i]], prev: int32(i) - 1, next: int32(i) + 1}
	}
	list[len(word)-1].next = -1
	for i := range len(word) - 1 {
		b.propose(&queue, list, int32(i))
	}
	for len(queue) > 0 {
		c := queue.pop()
		left := &list[c.left]
		if left.dead || left.next < 0 || (pair{left.id, list[left.next].id}) != c.ids {
			continue // one of the two has been merged since
		}
		right := &list[left.next]
		left.id, left.next = c.into, right.next
		right.dead = true
		if left.next >= 0 {
			list[left.next].prev = c.left
			b.propose(&queue, list, c.left)
		}
		if left.prev >= 0 {
			b.propose(&queue, list, left.prev)
		}
	}
	for i := int32(0); i >= 0; i = list[i].next {
		ids = appendToken(ids, list[i].id)
	}
	return ids
}

func appendToken(ids []int32, id int32) []int32 {
	if id == None {
		return ids
	}
	return append(ids, id)
}

func (b *BPE) propose(q *mergeQueue, list []symbol, left int32) {
	ids := pair{list[left].id, list[list[left].next].id}
	if m, ok := b.merges[ids]; ok {
		q.push(candidate{rank: m.rank, left: left, ids: ids, into: m.id})
	}
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
