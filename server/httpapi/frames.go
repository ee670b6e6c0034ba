package httpapi

import (
	"bytes"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/jsontext"
)

// frames hold, by choice, the JSON around the text of a chunk. Chunks that only add text to one choice differ in nothing else, save the first,
// which may name the role: so the second is encoded, and the others are put together without an allocation.
type frames map[int]*frame

type frame struct {
	before, after []byte // nil where the text could not be found
	chunk         []byte
}

// onlyText reports whether an event adds text, which is UTF-8, and says nothing else.
func onlyText(ev engine.Event) bool {
	return ev.Text != "" && ev.Reasoning == "" && ev.Refusal == "" && len(ev.Calls) == 0 && len(ev.Logprobs) == 0 && ev.Finish == engine.FinishNone &&
		utf8.ValidString(ev.Text)
}

// textMark stands for the text while a frame is made. No model and no id spells it.
const textMark = "\x00text\x00"

// send writes an event that only adds text. It reports whether the client is still there.
func (f frames) send(out *sse, r renderer, ev engine.Event) bool {
	have, later := f[ev.Choice]
	switch {
	case !later:
		f[ev.Choice] = nil
		return out.send(r.text(ev))
	case have == nil:
		have = newFrame(r, ev.Choice)
		f[ev.Choice] = have
	}
	if have.before == nil {
		return out.send(r.text(ev))
	}
	have.chunk = append(have.chunk[:0], have.before...)
	have.chunk = jsontext.AppendString(have.chunk, ev.Text)
	have.chunk = append(have.chunk, have.after...)
	return out.raw("", have.chunk)
}

func newFrame(r renderer, choice int) *frame {
	j, err := encode(r.text(engine.Event{Choice: choice, Text: textMark}))
	mark := jsontext.AppendString(nil, textMark)
	if err != nil || bytes.Count(j, mark) != 1 {
		return &frame{}
	}
	before, after, _ := bytes.Cut(j, mark)
	return &frame{before: before, after: after}
}
