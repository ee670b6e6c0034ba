package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/jsontext"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// anthropicMessage is an answer in Anthropic's form.
type anthropicMessage struct {
	ID           string           `json:"id"`
	Type         string           `json:"type"`
	Role         string           `json:"role"`
	Model        string           `json:"model"`
	Content      []anthropicBlock `json:"content"`
	StopReason   *string          `json:"stop_reason"`
	StopSequence *string          `json:"stop_sequence"`
	Usage        anthropicUsage   `json:"usage"`
	Sluice       *extension       `json:"sluice,omitempty"`
}

// anthropicBlock is a part of an answer. Which members it has depends on its type.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"` // nobody has signed anything
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// anthropicUsage counts what was read from a cache apart from the other tokens of the prompt.
type anthropicUsage struct {
	InputTokens   int    `json:"input_tokens"`
	CacheCreation int    `json:"cache_creation_input_tokens"`
	CacheRead     int    `json:"cache_read_input_tokens"`
	OutputTokens  int    `json:"output_tokens"`
	ServiceTier   string `json:"service_tier,omitempty"`
}

func anthropicUsageOf(u engine.Usage, class engine.Class) anthropicUsage {
	return anthropicUsage{
		InputTokens: u.PromptTokens - u.CachedTokens, CacheRead: u.CachedTokens, OutputTokens: u.CompletionTokens, ServiceTier: anthropicTier(class),
	}
}

// anthropicTier says how urgently an answer was made, in the words of Anthropic's usage.
func anthropicTier(c engine.Class) string {
	switch c {
	case engine.ClassInteractive:
		return "priority"
	case engine.ClassStandard:
		return "standard"
	case engine.ClassBatch:
		return "batch"
	default: // the engine knows no classes
		return ""
	}
}

// stopReason says why an answer ended, and by which of the caller's stop strings. refused: the model has said why it does not answer.
func stopReason(why engine.Finish, stoppedBy int, refused bool, stops []string) (reason string, sequence *string) {
	switch {
	case refused, why == engine.FinishFilter:
		return "refusal", nil
	case why == engine.FinishLength:
		return "max_tokens", nil
	case why == engine.FinishTools:
		return "tool_use", nil
	case stoppedBy > 0 && stoppedBy <= len(stops):
		return "stop_sequence", &stops[stoppedBy-1]
	default:
		return "end_turn", nil
	}
}

// The types of blocks.
const (
	blockTypeText     = "text"
	blockTypeThinking = "thinking"
	blockTypeToolUse  = "tool_use"
)

type messageShape struct{}

func (messageShape) whole(r *gateway.Reply, a *gateway.Answer, opt options) any {
	c := a.Choices[0]
	out := anthropicMessage{
		ID: messageID(r.Request), Type: "message", Role: "assistant", Model: string(r.Model), Content: []anthropicBlock{},
		Usage: anthropicUsageOf(a.Usage, r.Class), Sluice: extend(r.Head, r.Summary()),
	}
	reason, sequence := stopReason(c.Finish, c.StoppedBy, c.Refusal != "", opt.stops)
	out.StopReason, out.StopSequence = &reason, sequence
	if c.Reasoning != "" {
		out.Content = append(out.Content, anthropicBlock{Type: blockTypeThinking, Thinking: &c.Reasoning, Signature: new(string)})
	}
	if text := c.Text + c.Refusal; text != "" {
		out.Content = append(out.Content, anthropicBlock{Type: blockTypeText, Text: &text})
	}
	for _, call := range c.Calls {
		out.Content = append(out.Content, anthropicBlock{Type: blockTypeToolUse, ID: call.ID, Name: call.Name, Input: input(call.Arguments)})
	}
	return out
}

// input is the arguments of a call as an object. What a model has cut off is none, and an empty one would look like a call that was meant so: it goes
// out under a name that says what it is.
func input(arguments string) json.RawMessage {
	if isObject(arguments) {
		return json.RawMessage(arguments)
	}
	cut, err := encode(map[string]string{"_incomplete_arguments": arguments})
	if err != nil { // a map of texts
		return json.RawMessage("{}")
	}
	return cut
}

func (messageShape) writer(r *gateway.Reply, opt options) eventWriter {
	return &messageWriter{reply: r, stops: opt.stops}
}

// messageWriter writes a message as named events: its blocks one after the other, each with a beginning, pieces and an end.
type messageWriter struct {
	reply *gateway.Reply
	stops []string

	begun   bool
	open    string // the type of the block that is open; "" for none
	index   int    // of that block, or of the next
	calls   []*streamedCall
	current int             // the call whose block is open, or is next
	later   strings.Builder // text that came while a call was open
	thought strings.Builder // what the model thought once something else had begun
	refused bool
	why     engine.Finish
	by      int
	buf     []byte
}

// streamedCall is a call on its way out. Blocks come one after the other, so the pieces of one wait until those before are complete.
type streamedCall struct {
	id, name string
	all      strings.Builder // its arguments so far
	sent     int             // bytes of them
}

// messageEvent is any of the events of a stream but a piece of text.
type messageEvent struct {
	Type    string            `json:"type"`
	Message *anthropicMessage `json:"message,omitempty"`
	Index   *int              `json:"index,omitempty"`
	Block   *anthropicBlock   `json:"content_block,omitempty"`
	Delta   any               `json:"delta,omitempty"`
	Usage   *anthropicUsage   `json:"usage,omitempty"`
	Sluice  *extension        `json:"sluice,omitempty"`
}

func (w *messageWriter) event(out *sse, ev engine.Event) bool {
	if ev.Empty() {
		return true
	}
	if !w.begin(out) {
		return false
	}
	if w.index > 0 || w.open != "" && w.open != blockTypeThinking { // it would break the block that is open
		w.thought.WriteString(ev.Reasoning)
	} else if !w.said(out, blockTypeThinking, ev.Reasoning) {
		return false
	}
	if text := ev.Text + ev.Refusal; w.open == blockTypeToolUse {
		w.later.WriteString(text)
	} else if !w.said(out, blockTypeText, text) {
		return false
	}
	w.refused = w.refused || ev.Refusal != ""
	for _, d := range ev.Calls {
		if d.Index == len(w.calls) {
			w.calls = append(w.calls, &streamedCall{id: d.ID, name: d.Name})
		}
		w.calls[d.Index].all.WriteString(d.Arguments)
	}
	if !w.sendCalls(out, ev.Finish != engine.FinishNone) {
		return false
	}
	if ev.Finish != engine.FinishNone {
		w.why, w.by = ev.Finish, ev.StoppedBy
		if !w.said(out, blockTypeText, w.later.String()) || !w.said(out, blockTypeThinking, w.thought.String()) {
			return false
		}
	}
	return ev.Usage == nil || w.finish(out, *ev.Usage)
}

// begin writes the event that a stream begins with, once.
func (w *messageWriter) begin(out *sse) bool {
	if w.begun {
		return true
	}
	w.begun = true
	return out.named("message_start", messageEvent{Type: "message_start", Message: &anthropicMessage{
		ID: messageID(w.reply.Request), Type: "message", Role: "assistant", Model: string(w.reply.Model), Content: []anthropicBlock{},
		Usage: anthropicUsageOf(engine.Usage{PromptTokens: w.reply.PromptTokens}, w.reply.Class),
	}})
}

// said writes a piece of text to a block of its type.
func (w *messageWriter) said(out *sse, kind, text string) bool {
	if text == "" {
		return true
	}
	if w.open != kind {
		b := anthropicBlock{Type: kind, Text: new(string)}
		if kind == blockTypeThinking {
			b = anthropicBlock{Type: kind, Thinking: new(string), Signature: new(string)}
		}
		if !w.openBlock(out, b) {
			return false
		}
	}
	if kind == blockTypeThinking {
		return w.piece(out, `{"type":"thinking_delta","thinking":`, text)
	}
	return w.piece(out, `{"type":"text_delta","text":`, text)
}

// piece writes a piece of the open block. It is put together by hand: there is one for every token.
func (w *messageWriter) piece(out *sse, delta, text string) bool {
	w.buf = append(w.buf[:0], `{"type":"content_block_delta","index":`...)
	w.buf = strconv.AppendInt(w.buf, int64(w.index), 10)
	w.buf = append(append(w.buf, `,"delta":`...), delta...)
	w.buf = append(jsontext.AppendString(w.buf, strings.ToValidUTF8(text, "\uFFFD")), "}}"...)
	return out.raw("content_block_delta", w.buf)
}

func (w *messageWriter) openBlock(out *sse, b anthropicBlock) bool {
	if !w.closeBlock(out) {
		return false
	}
	w.open = b.Type
	index := w.index
	return out.named("content_block_start", messageEvent{Type: "content_block_start", Index: &index, Block: &b})
}

func (w *messageWriter) closeBlock(out *sse) bool {
	if w.open == "" {
		return true
	}
	w.open = ""
	index := w.index
	w.index++
	return out.named("content_block_stop", messageEvent{Type: "content_block_stop", Index: &index})
}

// sendCalls writes what may leave of the calls: all of the current one, and those after it once it is complete.
func (w *messageWriter) sendCalls(out *sse, ended bool) bool {
	for w.current < len(w.calls) {
		c := w.calls[w.current]
		if w.open != blockTypeToolUse && !w.openBlock(out, anthropicBlock{Type: blockTypeToolUse, ID: c.id, Name: c.name, Input: json.RawMessage("{}")}) {
			return false
		}
		all := c.all.String()
		if piece := all[c.sent:]; piece != "" && !w.piece(out, `{"type":"input_json_delta","partial_json":`, piece) {
			return false
		}
		c.sent = len(all)
		if !ended {
			if w.current+1 == len(w.calls) { // nothing waits for its end
				return true
			}
			if _, err := rawjson.Check(all, schemaDepth); err != nil {
				return true
			}
		}
		w.current++
		if !w.closeBlock(out) {
			return false
		}
	}
	return true
}

// finish writes how the answer ended, with our extension.
func (w *messageWriter) finish(out *sse, u engine.Usage) bool {
	if !w.closeBlock(out) {
		return false
	}
	reason, sequence := stopReason(w.why, w.by, w.refused, w.stops)
	usage := anthropicUsageOf(u, w.reply.Class)
	return out.named("message_delta", messageEvent{
		Type: "message_delta", Usage: &usage, Sluice: extend(w.reply.Head, w.reply.Summary()),
		Delta: struct {
			StopReason   string  `json:"stop_reason"`
			StopSequence *string `json:"stop_sequence"`
		}{reason, sequence},
	})
}

func (w *messageWriter) end(out *sse) bool {
	return out.named("message_stop", messageEvent{Type: "message_stop"})
}

func (w *messageWriter) fail(out *sse, err error) bool { return out.failure(err) }
