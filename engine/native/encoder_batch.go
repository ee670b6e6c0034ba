package native

import (
	"slices"

	"github.com/sluice-project/sluice/engine/native/exec"
)

// encoderRows bounds the tokens that are computed together, except that a text is never split: enough to keep the processors busy.
const encoderRows = 256

// encoderBatch is what an encoder computes at the moment.
type encoderBatch struct {
	texts  []encoderText // none: nothing is being computed
	caches []*exec.Cache
}

// work computes: it goes on with the batch that it began before, or begins one of up to maxRows tokens. It returns when the batch is done,
// and before that, between two steps of the program, as soon as pause says so; nil: never. A text is never split, so that one with more
// tokens than maxRows makes a batch of its own. It returns the tokens of the batch that it ended, 0 if it did not.
//
// What it computes with is not touched by others, so passes of other models may run on the same threads between two calls.
func (e *encoder) work(maxRows int, pause func() bool) (rows int) {
	b := &e.batch
	if len(b.texts) == 0 {
		if b.texts = e.queue.take(b.texts, maxRows); len(b.texts) == 0 {
			return 0
		}
		e.begin()
	}
	gone := false
	done := e.pass.Continue(func() bool {
		gone = e.queue.abandoned()
		return gone || pause != nil && pause()
	})
	if !done && !gone {
		return 0
	}
	for i, t := range b.texts {
		if done {
			t.call.results[t.index] = slices.Clone(e.pass.Result(i))
		}
		b.caches[i].Release()
		rows += len(t.ids)
	}
	e.queue.finish(b.texts, done)
	clear(b.texts) // lets go of the calls
	b.texts, b.caches = b.texts[:0], b.caches[:0]
	return rows
}

// begin lays the texts of a batch out for the pass.
func (e *encoder) begin() {
	p, b := e.pass, &e.batch
	p.Rows = p.Rows[:0]
	for _, t := range b.texts {
		cache := p.Pages().NewCache()
		reserve(cache, len(t.ids))
		for pos, id := range t.ids {
			row := exec.Row{Token: id, Cache: cache, Pos: pos}
			if pos >= t.second {
				row.Segment = 1
			}
			p.Rows = append(p.Rows, row)
		}
		cache.Advance(len(t.ids))
		b.caches = append(b.caches, cache)
	}
	p.Begin()
}
