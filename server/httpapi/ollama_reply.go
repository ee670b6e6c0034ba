package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/jsontext"
)

// ollamaReply is an answer in Ollama's form, or a line of one: of a chat with a message, of a generation with a response.
type ollamaReply struct {
	Model      string                `json:"model"`
	CreatedAt  string                `json:"created_at"`
	Message    *ollamaMessage        `json:"message,omitempty"`
	Response   *string               `json:"response,omitempty"`
	Thinking   string                `json:"thinking,omitempty"`
	Logprobs   []openai.TokenLogprob `json:"logprobs,omitempty"`
	Done       bool                  `json:"done"`
	DoneReason string                `json:"done_reason,omitempty"`
	ollamaCounts
	Sluice *extension `json:"sluice,omitempty"`
}

type ollamaMessage struct {
	Role      string           `json:"role"`
	Content   string           `json:"content"`
	Thinking  string           `json:"thinking,omitempty"`
	ToolCalls []ollamaToolCall `json:"tool_calls,omitempty"`
}

type ollamaToolCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// ollamaCounts are what an answer took. Durations are in nanoseconds; loading is waiting for a place.
type ollamaCounts struct {
	Total      int64 `json:"total_duration,omitempty"`
	Load       int64 `json:"load_duration,omitempty"`
	Prompt     int   `json:"prompt_eval_count,omitempty"`
	PromptTime int64 `json:"prompt_eval_duration,omitempty"`
	Eval       int   `json:"eval_count,omitempty"`
	EvalTime   int64 `json:"eval_duration,omitempty"`
}

// ollamaShape is the form of chats and of generations.
type ollamaShape struct {
	chat     bool
	received time.Time
	now      func() time.Time
}

func (s ollamaShape) created() string { return s.now().UTC().Format(time.RFC3339Nano) }

func (s ollamaShape) counts(u engine.Usage) ollamaCounts {
	return ollamaCounts{
		Total: s.now().Sub(s.received).Nanoseconds(), Load: u.Queue.Nanoseconds(), Prompt: u.PromptTokens, PromptTime: u.Prefill.Nanoseconds(),
		Eval: u.CompletionTokens, EvalTime: u.Decode.Nanoseconds(),
	}
}

// reply is an answer, or a line of one, with these texts.
func (s ollamaShape) reply(model, text, thinking string, calls []ollamaToolCall) ollamaReply {
	out := ollamaReply{Model: model, CreatedAt: s.created()}
	if s.chat {
		out.Message = &ollamaMessage{Role: "assistant", Content: text, Thinking: thinking, ToolCalls: calls}
	} else {
		out.Response, out.Thinking = &text, thinking
	}
	return out
}

// loaded is the answer to a request that says nothing.
func (s ollamaShape) loaded(model string, f *fields) any {
	out := s.reply(model, "", "", nil)
	out.Done, out.DoneReason = true, "load"
	if raw, ok := f.raw("keep_alive"); ok && noTime(raw) {
		out.DoneReason = "unload"
	}
	return out
}

// noTime reports whether a time is zero: a number of seconds, or a text such as "0s".
func noTime(raw string) bool {
	if seconds, err := strconv.ParseFloat(raw, 64); err == nil {
		return seconds == 0
	}
	text, _ := textOf(raw)
	d, err := time.ParseDuration(text)
	return err == nil && d == 0
}

// doneReason says why an answer ended. Calls of tools are an end like any other.
func doneReason(why engine.Finish) string {
	if why == engine.FinishTools {
		return string(engine.FinishStop)
	}
	return string(why)
}

func (s ollamaShape) whole(r *gateway.Reply, a *gateway.Answer, opt options) any {
	c := a.Choices[0]
	out := s.reply(opt.model, c.Text+c.Refusal, c.Reasoning, ollamaCalls(c.Calls))
	out.Done, out.DoneReason, out.ollamaCounts, out.Sluice = true, doneReason(c.Finish), s.counts(a.Usage), extend(r.Head, r.Summary())
	out.Logprobs = ollamaLogprobs(c.Logprobs)
	return out
}

func ollamaCalls(all []engine.ToolCall) []ollamaToolCall {
	var out []ollamaToolCall
	for i, call := range all {
		next := ollamaToolCall{ID: call.ID}
		next.Function.Index, next.Function.Name, next.Function.Arguments = i, call.Name, input(call.Arguments)
		out = append(out, next)
	}
	return out
}

func ollamaLogprobs(in []engine.TokenLogprob) []openai.TokenLogprob {
	if all := chatLogprobsOf(in); all != nil {
		return all.Content
	}
	return nil
}

func (s ollamaShape) writer(r *gateway.Reply, opt options) eventWriter {
	w := &ollamaWriter{ollamaShape: s, answer: r, model: opt.model}
	before := jsontext.AppendString([]byte(`{"model":`), strings.ToValidUTF8(opt.model, "\uFFFD"))
	w.before = string(append(before, `,"created_at":"`...))
	return w
}

// ollamaWriter writes an answer line by line. Calls of tools leave as a whole, once the answer has ended.
type ollamaWriter struct {
	ollamaShape

	answer *gateway.Reply
	model  string
	before string // what a line with a piece of text begins with
	calls  []engine.ToolCall
	why    engine.Finish
	buf    []byte
}

func (w *ollamaWriter) event(out *sse, ev engine.Event) bool {
	if ev.Empty() {
		return true
	}
	for _, d := range ev.Calls {
		if d.Index == len(w.calls) {
			w.calls = append(w.calls, engine.ToolCall{ID: d.ID, Name: d.Name})
		}
		w.calls[d.Index].Arguments += d.Arguments
	}
	if !w.said(out, ev) {
		return false
	}
	if ev.Finish != engine.FinishNone {
		if w.why = ev.Finish; len(w.calls) > 0 && !out.send(w.reply(w.model, "", "", ollamaCalls(w.calls))) {
			return false
		}
	}
	return ev.Usage == nil || w.finish(out, *ev.Usage)
}

// said writes what an event says in words.
func (w *ollamaWriter) said(out *sse, ev engine.Event) bool {
	text := ev.Text + ev.Refusal
	if len(ev.Logprobs) > 0 {
		line := w.reply(w.model, text, ev.Reasoning, nil)
		line.Logprobs = ollamaLogprobs(ev.Logprobs)
		return out.send(line)
	}
	content, thinking := `"response":`, `"response":"","thinking":`
	if w.chat {
		content, thinking = `"message":{"role":"assistant","content":`, `"message":{"role":"assistant","content":"","thinking":`
	}
	return (ev.Reasoning == "" || w.piece(out, thinking, ev.Reasoning)) && (text == "" || w.piece(out, content, text))
}

// piece writes a line with a piece of text. It is put together by hand: there is one for every token.
func (w *ollamaWriter) piece(out *sse, field, text string) bool {
	w.buf = append(w.buf[:0], w.before...)
	w.buf = w.now().UTC().AppendFormat(w.buf, time.RFC3339Nano)
	w.buf = append(append(w.buf, `",`...), field...)
	w.buf = jsontext.AppendString(w.buf, strings.ToValidUTF8(text, "\uFFFD"))
	if w.chat {
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, `,"done":false}`...)
	return out.raw("", w.buf)
}

// finish writes the last line, with our extension.
func (w *ollamaWriter) finish(out *sse, u engine.Usage) bool {
	last := w.reply(w.model, "", "", nil)
	last.Done, last.DoneReason, last.ollamaCounts, last.Sluice = true, doneReason(w.why), w.counts(u), extend(w.answer.Head, w.answer.Summary())
	return out.send(last)
}

func (w *ollamaWriter) end(*sse) bool { return true }

func (w *ollamaWriter) fail(out *sse, err error) bool { return out.failure(err) }
