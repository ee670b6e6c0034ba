package eval

import "testing"

// TestWindowsScoreEachTokenOnce tries every small combination: each token but the first of a document without a begin token is scored
// once, with as much context as the stride promises, and no window is longer than it may be.
func TestWindowsScoreEachTokenOnce(t *testing.T) {
	for _, hasBegin := range []bool{false, true} {
		for context := 2; context < 9; context++ {
			for stride := 1; stride <= context; stride++ {
				for length := range 30 {
					for _, limit := range []int{0, 1, 5, 17} {
						checkWindows(t, cut{context: context, stride: stride, limit: limit, begin: -1, hasBegin: hasBegin}, length)
					}
				}
			}
		}
	}
}

func checkWindows(t *testing.T, c cut, length int) {
	t.Helper()
	lead := 0
	if c.hasBegin {
		lead = 1
	}
	documents := [][]int32{make([]int32, length), make([]int32, 3)}
	for d, doc := range documents {
		for i := range doc {
			doc[i] = int32(100*d + i)
		}
	}
	list, n := c.windows(documents)
	seen := map[int32]int{}
	for _, w := range list {
		if len(w.tokens) > c.context || w.score < 1 || w.score >= len(w.tokens) || c.hasBegin && w.tokens[0] != -1 {
			t.Fatalf("%+v, length %d: window %+v", c, length, w)
		}
		first := w.tokens[lead] == int32(100*w.document) // the window begins the document
		if context := w.score; !first && context < min(c.context-c.stride, c.context-1) && c.stride < c.context-1 {
			t.Fatalf("%+v, length %d: only %d tokens of context in %+v", c, length, context, w)
		}
		for _, id := range w.tokens[w.score:] {
			seen[id]++
		}
		for i := lead + 1; i < len(w.tokens); i++ {
			if w.tokens[i] != w.tokens[i-1]+1 {
				t.Fatalf("%+v, length %d: a gap in %+v", c, length, w)
			}
		}
	}
	want := max(0, length-1+lead) + 2 + lead
	if c.limit > 0 {
		want = min(want, c.limit)
	}
	if n != want || len(seen) != want {
		t.Fatalf("%+v, length %d: %d tokens, %d different ones, want %d", c, length, n, len(seen), want)
	}
	for id, times := range seen {
		if times != 1 {
			t.Fatalf("%+v, length %d: token %d was scored %d times", c, length, id, times)
		}
	}
}
