package native

import (
	"errors"
	"maps"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/sample"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// prepareMarks makes what marks the choices of a job whose grammar is known, or notes why nothing does. What a grammar shapes is not marked:
// which of its tokens are drawn, and which follow by themselves, differs with what else is asked for.
func (j *job) prepareMarks(req *engine.Request) error {
	w := req.Watermark
	switch {
	case w == nil:
	case req.Temperature == 0 && !w.Greedy:
		j.marking = req.Unmarked(engine.MarkReasonTemperature)
	case w.Key == "" && w.Begin == nil: // it was to go to an engine that cannot mark, and has moved on to this one
		j.marking = req.Unmarked(engine.MarkReasonEngine)
	case j.grammar != nil:
		j.marking = req.Unmarked(engine.MarkReasonStructured)
	default:
		j.marking = req.Unmarked(engine.MarkReasonShort)
		for choice := range j.choices {
			mark := &sample.Mark{Greedy: w.Greedy}
			if w.Begin != nil {
				mark.Marker = w.Begin(j.rules.Seed(), choice)
			}
			if mark.Marker == nil {
				return fault.Wrap(errors.New("the watermark has no marker"), fault.CodeInternal)
			}
			j.marks = append(j.marks, mark)
		}
	}
	return nil
}

// marks returns the watermark of the next token, nil where none is to be: inside a call, or where the grammar of calls rules.
func (s *sequence) marks() *sample.Mark {
	if s.mark == nil || s.matcher == nil && (s.calls == nil || !s.calls.Calling()) {
		return s.mark
	}
	s.job.shaped = true
	return nil
}

// watermark is that of the job's choices, nil if they have none.
func (j *job) watermark() *engine.Marking {
	if j.marks == nil {
		return nil
	}
	return j.marking
}

// marked says what came of the watermark; nil if none was asked for.
func (j *job) marked() *engine.Marking {
	if j.marks == nil {
		return j.marking
	}
	m := *j.marking
	certain := false
	for _, mark := range j.marks {
		m.Tokens += mark.Tokens
		certain = certain || mark.Certain > 0
	}
	switch {
	case m.Tokens > 0:
		m.Applied, m.Reason = true, ""
	case j.shaped:
		m.Reason = engine.MarkReasonStructured
	case certain:
		m.Reason = engine.MarkReasonCertain
	}
	return &m
}

// Tokenizers returns what makes the tokens of a model of texts, for each model that generates, in the order of their names, and where each token ends in the
// text, in bytes; nil where the tokens are not the bytes of the text, as where it was normalised. They are safe for concurrent use. They keep no text;
// its words may stay in the cache of a tokenizer until others need the room.
func (e *Engine) Tokenizers() []func(text string) (tokens []int32, ends []int) {
	var out []func(string) ([]int32, []int)
	for _, id := range slices.Sorted(maps.Keys(e.generators)) {
		g := e.generators[id]
		out = append(out, func(text string) ([]int32, []int) {
			tokens := g.tokens.Encode(text, false)
			return tokens, endsIn(g.tokens, tokens, text)
		})
	}
	return out
}

// endsIn returns where tokens end in the text that they were made of; nil if that cannot be told. A space that the tokenizer put before it is none of it.
func endsIn(t tokenizer.Tokenizer, tokens []int32, text string) []int {
	out, joined := make([]int, 0, len(tokens)), make([]byte, 0, len(text)+1)
	for _, id := range tokens {
		joined = append(joined, t.Bytes(id)...)
		out = append(out, len(joined))
	}
	if string(joined) == text {
		return out
	}
	if string(joined) != " "+text {
		return nil
	}
	for i := range out {
		out[i]--
	}
	return out
}
