package eval

// window is a piece of a document that one sequence reads. Tokens from score on are predicted and count; those before are context.
type window struct {
	document int
	tokens   []int32
	score    int
}

// cut says how documents are cut into windows.
type cut struct {
	context, stride int
	limit           int // tokens to score; 0 means all
	begin           int32
	hasBegin        bool
}

// windows cuts documents into windows of at most context tokens. The first of a document scores all it can; each further one starts
// stride tokens later, with the begin token, if there is one, in front again, and scores only what is new. So every token is scored
// exactly once, except the first of a document that has no begin token in front: nothing predicts it.
func (c cut) windows(documents [][]int32) (out []window, scored int) {
	lead := 0
	if c.hasBegin {
		lead = 1
	}
	room := c.context - lead // tokens of the document in a window
	step := min(c.stride, room-1+lead)
	for n, doc := range documents {
		done := 1 - lead // tokens of the document that are scored, or cannot be
		for at := 0; done < len(doc) && (c.limit == 0 || scored < c.limit); at += step {
			end := min(at+room, len(doc))
			if c.limit > 0 {
				end = min(end, done+c.limit-scored)
			}
			w := window{document: n, score: lead + done - at}
			if c.hasBegin {
				w.tokens = append(w.tokens, c.begin)
			}
			w.tokens = append(w.tokens, doc[at:end]...)
			out = append(out, w)
			scored += end - done
			done = end
		}
	}
	return out, scored
}
