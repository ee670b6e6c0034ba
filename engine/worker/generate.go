package worker

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// Generate implements engine.Engine.
func (c *Client) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		if p.Request == nil {
			yield(engine.Event{}, engine.ErrOtherWork)
			return
		}
		err := noHook(p.Request)
		var x *call
		if err == nil {
			x, err = c.run(ctx, "generate", p, p.Request)
		}
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		defer x.end()
		x.stream(p.Request.Unmarked(engine.MarkReasonEngine), yield)
	}
}

// stream yields the events of an answer, the last one with what there is to say of its watermark.
func (x *call) stream(marking *engine.Marking, yield func(engine.Event, error) bool) {
	f := frames{r: x.reader()}
	for {
		ev, err := x.event(&f)
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		if ev.Usage != nil {
			ev.More, ev.Marking = false, marking
			x.whole()
			yield(ev, nil)
			return
		}
		ev.More = ev.More || f.more()
		if !yield(ev, nil) {
			return
		}
	}
}

// event reads the next event, or why there is none.
func (x *call) event(f *frames) (engine.Event, error) {
	kind, body, err := f.next()
	if x.caller.Err() == nil && errors.Is(err, io.EOF) {
		return engine.Event{}, fault.Wrap(errEarly, fault.CodeUpstreamFailed, string(x.model))
	}
	if err == nil && x.caller.Err() != nil {
		err = x.caller.Err()
	}
	if err == nil {
		x.c.hear()
	}
	switch {
	case errors.Is(err, errFrame):
	case err != nil:
		return engine.Event{}, x.failure(err)
	case kind == frameFault:
		x.whole()
		return engine.Event{}, x.refused(body, errors.New("the worker ended the answer"))
	case kind == frameEvent:
		var ev engine.Event
		if ev, err = parseEvent(body); err == nil {
			return ev, nil
		}
	default:
		err = errFrame
	}
	return engine.Event{}, fault.Wrap(err, fault.CodeUpstreamFailed, string(x.model))
}
