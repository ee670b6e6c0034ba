package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// Generate implements engine.Engine. It reads the request of a prompt alone, so it takes that of another engine, too.
func (e *Engine) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		req := p.Request
		if req == nil {
			yield(engine.Event{}, engine.ErrOtherWork)
			return
		}
		m, err := e.model(ctx, req.Model, generates)
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		path, body, err := wire(m, req)
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		began := time.Now()
		if !req.Deadline.IsZero() && began.After(req.Deadline) { // how long the upstream takes is not known here
			yield(engine.Event{}, fault.Wrap(engine.ErrCallerLimit, fault.CodeEngineOverloaded, m.ID).WithRetryAfter(time.Second))
			return
		}
		x, err := e.post(ctx, m, path, body, apiCall{needs: promptBytes(req)/4 + req.MaxTokens, format: req.Format != nil, whole: req.NonStreaming})
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		defer x.end()
		s := &stream{
			x: x, req: req, model: engine.ReportedModel(m.Upstream), began: began, finished: make([]bool, max(1, req.Choices)),
			calls: make([]calls, max(1, req.Choices)),
		}
		if x.whole {
			s.whole(yield)
			return
		}
		s.events = openai.NewEventReader(x.body, e.cfg.MaxEventBytes)
		s.run(yield)
	}
}

// stream reads one answer, in pieces or whole.
type stream struct {
	x        *httpCall
	req      *engine.Request
	events   *openai.EventReader // of an answer in pieces
	model    engine.ReportedModel
	began    time.Time
	first    time.Time
	finished []bool
	calls    []calls // by choice
	pieces   int     // texts, each at least one token
	bytes    int
	usage    *openai.Usage
	last     streamChunk
	promised bool // the last event said that there is more
}

// run yields the events. The watch is stopped while the consumer works: only the upstream's silence counts.
func (s *stream) run(yield func(engine.Event, error) bool) {
	for {
		ev, err := s.events.Next()
		s.x.watch.Stop()
		switch {
		case errors.Is(err, io.EOF) && !slices.Contains(s.finished, false), err == nil && string(ev.Data) == openai.Done:
			s.end(yield)
			return
		case errors.Is(err, io.EOF):
			err = fault.Wrap(errors.New("the stream ended early"), fault.CodeUpstreamFailed, s.x.model.ID)
		case err != nil:
			err = s.x.failure(err)
		default:
			more := s.events.More()
			var ok bool
			if ok, err = s.chunk(ev.Data, more, yield); err == nil && !ok {
				return
			}
			if err == nil && s.promised && !more { // what came brought nothing
				if s.promised = false; !yield(engine.Event{}, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		s.x.watch.Reset(s.x.e.cfg.IdleTimeout)
	}
}

// maxWholeAnswer bounds an answer in one piece: far more than the longest context holds.
const maxWholeAnswer = 32 << 20

// whole yields an answer that came in one piece. What the answer leaves out was not said: a choice that is missing, or has no end, makes it
// no answer. The first event says what all of it used: it was written to its end, whatever becomes of it here.
func (s *stream) whole(yield func(engine.Event, error) bool) {
	data, err := io.ReadAll(io.LimitReader(s.x.body, maxWholeAnswer))
	if err != nil {
		yield(engine.Event{}, s.x.failure(err))
		return
	}
	c, err := s.decode(data)
	if err != nil {
		yield(engine.Event{}, err)
		return
	}
	events := make([]engine.Event, 0, len(c.Choices))
	for i := range c.Choices {
		ev, err := s.choice(&c.Choices[i])
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		if !ev.Empty() {
			events = append(events, ev)
		}
	}
	if slices.Contains(s.finished, false) {
		yield(engine.Event{}, fault.Wrap(errors.New("a choice of the answer is missing or has no end"), fault.CodeUpstreamFailed, s.x.model.ID))
		return
	}
	used := s.count()
	events[0].Used = &used
	for _, ev := range events {
		if !yield(ev, nil) {
			return
		}
	}
	s.end(yield)
}

// decode reads one event, or a whole answer, and notes what it says of all choices. The chunk is valid until the next.
func (s *stream) decode(data []byte) (*streamChunk, error) {
	c := &s.last
	if err := c.decode(data); err != nil {
		// The error of the decoder may quote the data, so it is not kept.
		return nil, fault.Wrap(fmt.Errorf("an event of %d bytes is no chunk", len(data)), fault.CodeUpstreamFailed, s.x.model.ID)
	}
	if c.Error != nil {
		return nil, s.x.refused(profile.Refusal{Code: codeText(c.Error.Code), Type: c.Error.Type, Message: c.Error.Message})
	}
	if c.Model != "" {
		s.model = engine.ReportedModel(c.Model)
	}
	if c.Usage != nil {
		s.usage = c.Usage
	}
	return c, nil
}

// chunk yields what one event holds; more says that another is there already. It is false when the consumer has had enough.
func (s *stream) chunk(data []byte, more bool, yield func(engine.Event, error) bool) (bool, error) {
	c, err := s.decode(data)
	if err != nil {
		return false, err
	}
	for i := range c.Choices {
		ev, err := s.choice(&c.Choices[i])
		if err != nil {
			return false, err
		}
		if ev.Empty() {
			continue
		}
		if s.x.caller.Err() != nil {
			return false, fmt.Errorf("ask upstream: %w", s.x.caller.Err())
		}
		ev.More, s.promised = more, more
		if !yield(ev, nil) {
			return false, nil
		}
	}
	return true, nil
}

func (s *stream) choice(c *chunkChoice) (engine.Event, error) {
	if c.Index < 0 || c.Index >= len(s.finished) {
		return engine.Event{}, fault.Wrap(fmt.Errorf("the upstream sent choice %d of %d", c.Index, len(s.finished)), fault.CodeUpstreamFailed, s.x.model.ID)
	}
	if s.finished[c.Index] {
		return engine.Event{}, nil // some servers repeat the finish beside the usage
	}
	if c.Message != nil {
		c.Delta = *c.Message
	}
	ev := engine.Event{Choice: c.Index, Text: c.Text}
	if c.Delta.Content != nil {
		ev.Text = *c.Delta.Content
	}
	if s.req.Messages != nil {
		ev.Reasoning, ev.Refusal = c.Delta.texts()
	}
	if f := c.Delta.FunctionCall; f != nil {
		c.Delta.ToolCalls = append(c.Delta.ToolCalls, openai.ToolCall{Function: *f})
	}
	ev.Calls = s.calls[c.Index].take(c.Delta.ToolCalls)
	size := len(ev.Text) + len(ev.Reasoning) + len(ev.Refusal)
	for _, d := range ev.Calls {
		size += len(d.Name) + len(d.Arguments)
	}
	if size > 0 {
		s.pieces++
		s.bytes += size
		if s.first.IsZero() {
			s.first = time.Now()
		}
	}
	if s.req.Logprobs >= 0 {
		lps, err := logprobs(c.Logprobs, s.req.Logprobs)
		if err != nil {
			return engine.Event{}, fault.Wrap(err, fault.CodeUpstreamFailed, s.x.model.ID)
		}
		ev.Logprobs = lps
	}
	if c.FinishReason != nil && *c.FinishReason != "" {
		s.finished[c.Index] = true
		if err := s.calls[c.Index].end(); err != nil {
			return engine.Event{}, fault.Wrap(err, fault.CodeUpstreamFailed, s.x.model.ID)
		}
		switch said := s.x.model.profile.Stream.Finish[*c.FinishReason]; {
		case said == finishError:
			return engine.Event{}, fault.Wrap(errors.New("the upstream gave the answer up"), fault.CodeUpstreamFailed, s.x.model.ID)
		case said == string(engine.FinishLength), said == string(engine.FinishFilter):
			ev.Finish = engine.Finish(said)
		case len(s.calls[c.Index]) > 0: // many servers say "stop" when the function was named by the caller
			ev.Finish = engine.FinishTools
		default:
			ev.Finish, ev.StoppedBy = engine.FinishStop, c.stoppedBy(s.req.Stop)
		}
	}
	return ev, nil
}

// stoppedBy is 1 and the place of the stop string that the server says has stopped the choice, 0 if it names none.
func (c *chunkChoice) stoppedBy(stops []string) int {
	for _, said := range []json.RawMessage{c.StopReason, c.MatchedStop} {
		if text, ok := rawjson.Text(string(said)); ok {
			return 1 + slices.Index(stops, text)
		}
	}
	return 0
}

// finishError is what profiles call a reason of an answer that is none.
const finishError = "error"

// codeText is the code of an error, which servers send as a text, a number or null.
func codeText(code any) string {
	if code == nil {
		return ""
	}
	return fmt.Sprint(code)
}

// end yields the finish of choices that the end marker finished, and the usage.
func (s *stream) end(yield func(engine.Event, error) bool) {
	for i, done := range s.finished {
		if done {
			continue
		}
		ev := engine.Event{Choice: i, Finish: engine.FinishStop}
		if err := s.calls[i].end(); err != nil {
			yield(engine.Event{}, fault.Wrap(err, fault.CodeUpstreamFailed, s.x.model.ID))
			return
		}
		if len(s.calls[i]) > 0 {
			ev.Finish = engine.FinishTools
		}
		if !yield(ev, nil) {
			return
		}
	}
	u := s.count()
	now := time.Now()
	if s.first.IsZero() {
		s.first = now
	}
	// Queueing at the upstream cannot be told from its prefill.
	u.Prefill, u.Decode = s.first.Sub(s.began), now.Sub(s.first)
	yield(engine.Event{Usage: &u, Marking: s.req.Unmarked(engine.MarkReasonEngine)}, nil)
}

// count is what the upstream reported, or an estimate: a token per piece or per four bytes of text, whichever is more, within the
// limit that was set.
func (s *stream) count() engine.Usage {
	u := engine.Usage{Model: s.model}
	if s.usage != nil {
		u.PromptTokens, u.CompletionTokens = max(0, s.usage.PromptTokens), max(0, s.usage.CompletionTokens)
		if d := s.usage.PromptDetails; d != nil {
			u.CachedTokens = min(max(0, d.CachedTokens), u.PromptTokens)
		}
		return u
	}
	u.Estimated = true
	u.PromptTokens = promptBytes(s.req)/4 + 4*len(s.req.Messages) + 1
	u.CompletionTokens = max(s.pieces, s.bytes/4)
	if limit := s.req.MaxTokens * len(s.finished); limit > 0 {
		u.CompletionTokens = min(u.CompletionTokens, limit)
	}
	return u
}

// logprobs reads either form: the list of the chat endpoint, or the columns of the other.
func logprobs(raw json.RawMessage, top int) ([]engine.TokenLogprob, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var both struct {
		openai.ChatLogprobs
		openai.CompletionLogprobs
	}
	if err := json.Unmarshal(raw, &both); err != nil {
		return nil, errors.New("log-probabilities of an unknown form")
	}
	var out []engine.TokenLogprob
	for _, t := range both.Content {
		lp := entry(t.Token, t.Bytes, t.Logprob)
		for _, a := range t.TopLogprobs[:min(top, len(t.TopLogprobs))] {
			lp.Top = append(lp.Top, entry(a.Token, a.Bytes, a.Logprob))
		}
		out = append(out, lp)
	}
	for i, token := range both.Tokens {
		lp := entry(token, nil, 0)
		if i < len(both.TokenLogprobs) {
			if lp.Logprob = math.NaN(); both.TokenLogprobs[i] != nil { // null: the first token of an echoed prompt
				lp.Logprob = min(*both.TokenLogprobs[i], 0)
			}
		}
		if i < len(both.TopLogprobs) {
			for t, v := range both.TopLogprobs[i] {
				lp.Top = append(lp.Top, entry(t, nil, v))
			}
			slices.SortFunc(lp.Top, func(a, b engine.TokenLogprob) int {
				return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), strings.Compare(a.Token, b.Token))
			})
			lp.Top = lp.Top[:min(top, len(lp.Top))]
		}
		out = append(out, lp)
	}
	return out, nil
}

func entry(token string, raw []byte, lp float64) engine.TokenLogprob {
	if raw == nil {
		raw = []byte(token)
	}
	return engine.TokenLogprob{Token: token, Bytes: raw, Logprob: min(lp, 0)}
}
