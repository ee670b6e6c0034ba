package native

import (
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/sample"
)

// prepareMarks makes what marks the choices of a job whose grammar is known, or notes why nothing does.
func (j *job) prepareMarks(req *engine.Request) {
	w := req.Watermark
	switch {
	case w == nil:
	case req.Temperature == 0 && !w.Greedy:
		j.marking = req.Unmarked(engine.MarkReasonTemperature)
	case j.grammar != nil && !w.Structured:
		j.marking = req.Unmarked(engine.MarkReasonStructured)
	default:
		j.marking, j.marksCalls = req.Unmarked(engine.MarkReasonShort), w.Structured
		for choice := range j.choices {
			j.marks = append(j.marks, &sample.Mark{Marker: w.Begin(j.rules.Seed(), choice), Greedy: w.Greedy})
		}
	}
}

// marks returns the watermark of the next token, nil where none is to be.
func (s *sequence) marks() *sample.Mark {
	if s.mark == nil || s.job.marksCalls || s.matcher == nil && (s.calls == nil || !s.calls.Calling()) {
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
	for _, mark := range j.marks {
		m.Tokens += mark.Tokens
	}
	switch {
	case m.Tokens > 0:
		m.Applied, m.Reason = true, ""
	case j.shaped:
		m.Reason = engine.MarkReasonStructured
	}
	return &m
}
