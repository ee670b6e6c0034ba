package httpapi

import (
	"encoding/json"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
)

// shape is the form of one endpoint's answers.
type shape interface {
	whole(r *gateway.Reply, a *gateway.Answer, opt options) any
	writer(r *gateway.Reply, opt options) eventWriter
}

// eventWriter writes the events of one reply to its stream. Its methods report whether the client is still there.
type eventWriter interface {
	event(out *sse, ev engine.Event) bool
	end(out *sse) bool             // after the last event
	fail(out *sse, err error) bool // in place of what would have come, once something was sent
}

// renderer turns events into chunks, which the chats and completions of OpenAI consist of.
type renderer interface {
	text(ev engine.Event) any
	finish(ev engine.Event) any // with the extension when ev ends the answer
	usage(u engine.Usage) any   // the extra chunk without choices
}

// chunkWriter writes a stream of chunks. The last one with choices carries our extension.
type chunkWriter struct {
	renderer

	frames       frames
	includeUsage bool
}

func (w *chunkWriter) event(out *sse, ev engine.Event) bool {
	switch {
	case onlyText(ev):
		return w.frames.send(out, w.renderer, ev)
	case ev.Empty(): // it only ends the waiting
		return true
	case ev.HasOutput() || len(ev.Logprobs) > 0 || ev.Finish == engine.FinishNone:
		if !out.send(w.text(ev)) {
			return false
		}
	}
	if ev.Finish != engine.FinishNone && !out.send(w.finish(ev)) {
		return false
	}
	return ev.Usage == nil || !w.includeUsage || out.send(w.usage(*ev.Usage))
}

func (w *chunkWriter) end(out *sse) bool { return out.raw("", []byte(openai.Done)) }

func (w *chunkWriter) fail(out *sse, err error) bool { return out.failure(err) }

// noUsage is what other chunks carry when the caller asked for a usage chunk.
func noUsage(opt options) json.RawMessage {
	if opt.includeUsage {
		return json.RawMessage("null")
	}
	return nil
}

func rawUsage(u engine.Usage) json.RawMessage {
	j, err := json.Marshal(usageOf(u))
	if err != nil { // integers only
		return json.RawMessage("null")
	}
	return j
}

type chatShape struct{}

func (chatShape) whole(r *gateway.Reply, a *gateway.Answer, _ options) any {
	out := openai.Chat{
		ID: answerID("chatcmpl", r.Request), Object: openai.ObjectChat, Created: r.Created.Unix(), Model: string(r.Model),
		Usage: usageOf(a.Usage), ServiceTier: tierOf(r.Class), SystemFingerprint: fingerprint(r.Head), Sluice: extend(r.Head, r.Summary()),
	}
	for i, c := range a.Choices {
		out.Choices = append(out.Choices, openai.ChatChoice{
			Index: i, Message: answerMessage(c), Logprobs: chatLogprobsOf(c.Logprobs),
			FinishReason: string(c.Finish),
		})
	}
	return out
}

func answerMessage(c gateway.AnswerChoice) openai.AnswerMessage {
	m := openai.AnswerMessage{Role: "assistant", Content: &c.Text, ReasoningContent: some(c.Reasoning), Refusal: some(c.Refusal)}
	if (len(c.Calls) > 0 || c.Refusal != "") && c.Text == "" {
		m.Content = nil
	}
	for _, call := range c.Calls {
		m.ToolCalls = append(m.ToolCalls, openai.ToolCall{
			ID: call.ID, Type: openai.TypeFunction, Function: openai.FunctionCall{Name: call.Name, Arguments: openai.Arguments(call.Arguments)},
		})
	}
	return m
}

// some points to a text that there is.
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (chatShape) writer(r *gateway.Reply, opt options) eventWriter {
	return &chunkWriter{frames: frames{}, includeUsage: opt.includeUsage, renderer: &chatRenderer{r: r, spoken: map[int]bool{}, base: openai.ChatChunk{
		ID: answerID("chatcmpl", r.Request), Object: openai.ObjectChatChunk, Created: r.Created.Unix(), Model: string(r.Model),
		ServiceTier: tierOf(r.Class), SystemFingerprint: fingerprint(r.Head), Usage: noUsage(opt),
	}}}
}

type chatRenderer struct {
	r      *gateway.Reply
	base   openai.ChatChunk
	spoken map[int]bool // choices whose role was told
}

func (c *chatRenderer) delta(choice int, d openai.Delta) openai.ChatChunk {
	if !c.spoken[choice] {
		c.spoken[choice] = true
		d.Role = "assistant"
		if d.Content == nil && len(d.ToolCalls) == 0 {
			d.Content = new(string)
		}
	}
	out := c.base
	out.Choices = []openai.ChatChunkChoice{{Index: choice, Delta: d}}
	return out
}

func (c *chatRenderer) text(ev engine.Event) any {
	d := openai.Delta{Content: &ev.Text, ReasoningContent: some(ev.Reasoning), Refusal: some(ev.Refusal)}
	if (len(ev.Calls) > 0 || ev.Reasoning != "" || ev.Refusal != "") && ev.Text == "" {
		d.Content = nil
	}
	for _, part := range ev.Calls {
		call := openai.ToolCall{Index: &part.Index, ID: part.ID, Function: openai.FunctionCall{Name: part.Name, Arguments: openai.Arguments(part.Arguments)}}
		if part.ID != "" {
			call.Type = openai.TypeFunction
		}
		d.ToolCalls = append(d.ToolCalls, call)
	}
	out := c.delta(ev.Choice, d)
	out.Choices[0].Logprobs = chatLogprobsOf(ev.Logprobs)
	return out
}

func (c *chatRenderer) finish(ev engine.Event) any {
	out := c.delta(ev.Choice, openai.Delta{})
	reason := string(ev.Finish)
	out.Choices[0].FinishReason = &reason
	if ev.Usage != nil {
		out.Sluice = extend(c.r.Head, c.r.Summary())
	}
	return out
}

func (c *chatRenderer) usage(u engine.Usage) any {
	out := c.base
	out.Choices, out.Usage = []openai.ChatChunkChoice{}, rawUsage(u)
	return out
}

type completionShape struct{}

func (completionShape) whole(r *gateway.Reply, a *gateway.Answer, _ options) any {
	out := openai.Completion{
		ID: answerID("cmpl", r.Request), Object: openai.ObjectCompletion, Created: r.Created.Unix(), Model: string(r.Model),
		Usage: rawUsage(a.Usage), SystemFingerprint: fingerprint(r.Head), Sluice: extend(r.Head, r.Summary()),
	}
	for i, c := range a.Choices {
		reason, offset := string(c.Finish), 0
		out.Choices = append(out.Choices, openai.CompletionChoice{Index: i, Text: c.Text, Logprobs: columns(c.Logprobs, &offset), FinishReason: &reason})
	}
	return out
}

func (completionShape) writer(r *gateway.Reply, opt options) eventWriter {
	return &chunkWriter{frames: frames{}, includeUsage: opt.includeUsage, renderer: &completionRenderer{r: r, offsets: map[int]*int{}, base: openai.Completion{
		ID: answerID("cmpl", r.Request), Object: openai.ObjectCompletion, Created: r.Created.Unix(), Model: string(r.Model),
		SystemFingerprint: fingerprint(r.Head), Usage: noUsage(opt),
	}}}
}

type completionRenderer struct {
	r       *gateway.Reply
	base    openai.Completion
	offsets map[int]*int
}

func (c *completionRenderer) text(ev engine.Event) any {
	if c.offsets[ev.Choice] == nil {
		c.offsets[ev.Choice] = new(int)
	}
	out := c.base
	out.Choices = []openai.CompletionChoice{{Index: ev.Choice, Text: ev.Text, Logprobs: columns(ev.Logprobs, c.offsets[ev.Choice])}}
	return out
}

func (c *completionRenderer) finish(ev engine.Event) any {
	out := c.base
	reason := string(ev.Finish)
	out.Choices = []openai.CompletionChoice{{Index: ev.Choice, FinishReason: &reason}}
	if ev.Usage != nil {
		out.Sluice = extend(c.r.Head, c.r.Summary())
	}
	return out
}

func (c *completionRenderer) usage(u engine.Usage) any {
	out := c.base
	out.Choices, out.Usage = []openai.CompletionChoice{}, rawUsage(u)
	return out
}
