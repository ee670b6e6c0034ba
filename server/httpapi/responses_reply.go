package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/jsontext"
)

// responseObject is an answer in the form of OpenAI's responses.
type responseObject struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	CreatedAt         int64              `json:"created_at"`
	Status            string             `json:"status"`
	Background        bool               `json:"background"`
	Error             *responseError     `json:"error"`
	IncompleteDetails *incompleteDetails `json:"incomplete_details"`
	Model             string             `json:"model"`
	Output            []responseItem     `json:"output"`
	ServiceTier       string             `json:"service_tier,omitempty"`
	Usage             *responseUsage     `json:"usage"`
	Sluice            *extension         `json:"sluice,omitempty"`
	*responseAsked
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens  int `json:"input_tokens"`
	InputDetails struct {
		CachedTokens int `json:"cached_tokens"`
		CacheWrite   int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

func responseUsageOf(u engine.Usage) *responseUsage {
	out := &responseUsage{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.PromptTokens + u.CompletionTokens}
	out.InputDetails.CachedTokens = u.CachedTokens
	return out
}

// responseItem is one thing that a model has put out. Which members it has depends on its type.
type responseItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Status    string          `json:"status,omitempty"`
	Role      string          `json:"role,omitempty"`
	Content   *[]responsePart `json:"content,omitempty"`
	Summary   *[]responsePart `json:"summary,omitempty"` // of reasoning, which nobody sums up here
	CallID    string          `json:"call_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments *string         `json:"arguments,omitempty"`
}

// responsePart is a part of an item.
type responsePart struct {
	Type        string                 `json:"type"`
	Text        *string                `json:"text,omitempty"`
	Refusal     *string                `json:"refusal,omitempty"`
	Annotations *[]struct{}            `json:"annotations,omitempty"`
	Logprobs    *[]openai.TokenLogprob `json:"logprobs,omitempty"`
}

// responseIDPrefix is what ids of responses begin with.
const responseIDPrefix = "resp_"

// The types of items and of their parts, and the states of items and of responses.
const (
	itemMessage      = "message"
	itemReasoning    = "reasoning"
	itemCall         = "function_call"
	partText         = "output_text"
	partRefusal      = "refusal"
	partReasoning    = "reasoning_text"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

type responseShape struct{}

func (responseShape) whole(r *gateway.Reply, a *gateway.Answer, opt options) any {
	b := newResponseBuilder(r, opt)
	c := a.Choices[0]
	b.reason(c.Reasoning)
	b.say(partText, c.Text, c.Logprobs)
	b.say(partRefusal, c.Refusal, nil)
	for i, call := range c.Calls {
		b.call(engine.ToolDelta{Index: i, ID: call.ID, Name: call.Name, Arguments: call.Arguments})
	}
	return b.ended(c.Finish, a.Usage)
}

// responseBuilder puts a response together, item by item.
type responseBuilder struct {
	reply *gateway.Reply
	asked *responseAsked
	keep  func(id string, response any) bool // nil: it is not kept
	items []*builtItem
	calls []*builtItem // those among the items
}

// builtItem is an item in the making.
type builtItem struct {
	kind   string
	id     string
	place  int // among the items
	callID string
	name   string
	parts  []*builtPart

	begun, ended bool // of a stream: its first event is out, its last
}

// builtPart is a part of an item, or the arguments of a call.
type builtPart struct {
	kind     string
	text     strings.Builder
	logprobs []openai.TokenLogprob
	begun    bool // of a stream: its first event is out
}

func newResponseBuilder(r *gateway.Reply, opt options) *responseBuilder {
	return &responseBuilder{reply: r, asked: opt.asked, keep: opt.keep}
}

// last is the last item, if it is of the kind.
func (b *responseBuilder) last(kind string) *builtItem {
	if n := len(b.items); n > 0 && b.items[n-1].kind == kind {
		return b.items[n-1]
	}
	return nil
}

// add adds an item.
func (b *responseBuilder) add(kind string) *builtItem {
	it := &builtItem{kind: kind, place: len(b.items)}
	it.id = b.id(it)
	b.items = append(b.items, it)
	return it
}

// message is the message of the response: there is one, whatever comes between its pieces.
func (b *responseBuilder) message() *builtItem {
	for _, it := range b.items {
		if it.kind == itemMessage {
			return it
		}
	}
	return b.add(itemMessage)
}

// part is the part of that kind of an item, and its place.
func (it *builtItem) part(kind string) (p *builtPart, place int) {
	for i, p := range it.parts {
		if p.kind == kind {
			return p, i
		}
	}
	p = &builtPart{kind: kind}
	it.parts = append(it.parts, p)
	return p, len(it.parts) - 1
}

// reason adds text of what the model thinks.
func (b *responseBuilder) reason(text string) (it *builtItem, part int) {
	if text == "" {
		return nil, 0
	}
	if it = b.last(itemReasoning); it == nil {
		it = b.add(itemReasoning)
	}
	p, at := it.part(partReasoning)
	p.text.WriteString(text)
	return it, at
}

// say adds text of the answer, or of why there is none.
func (b *responseBuilder) say(kind, text string, logprobs []engine.TokenLogprob) (it *builtItem, part int) {
	if text == "" && len(logprobs) == 0 {
		return nil, 0
	}
	it = b.message()
	p, at := it.part(kind)
	p.text.WriteString(text)
	if lps := chatLogprobsOf(logprobs); lps != nil {
		p.logprobs = append(p.logprobs, lps.Content...)
	}
	return it, at
}

// call adds a part of a call.
func (b *responseBuilder) call(d engine.ToolDelta) *builtItem {
	if d.Index == len(b.calls) {
		it := b.add(itemCall)
		it.callID, it.name = d.ID, d.Name
		b.calls = append(b.calls, it)
	}
	it := b.calls[d.Index]
	p, _ := it.part(itemCall)
	p.text.WriteString(d.Arguments)
	return it
}

// id is that of the item at a place: one request has one response, so its number and the place are enough.
func (b *responseBuilder) id(it *builtItem) string {
	prefix := map[string]string{itemMessage: "msg_", itemReasoning: "rs_", itemCall: "fc_"}[it.kind]
	return prefix + strings.ReplaceAll(b.reply.Request, "-", "") + "_" + strconv.Itoa(it.place)
}

// item renders an item as it stands.
func (b *responseBuilder) item(it *builtItem, status string) responseItem {
	out := responseItem{Type: it.kind, ID: b.id(it), Status: status}
	switch it.kind {
	case itemCall:
		arguments := ""
		if len(it.parts) > 0 {
			arguments = it.parts[0].text.String()
		}
		out.CallID, out.Name, out.Arguments = it.callID, it.name, &arguments
		return out
	case itemReasoning:
		out.Status, out.Summary = "", &[]responsePart{}
	default:
		out.Role = "assistant"
	}
	parts := make([]responsePart, len(it.parts))
	for i, p := range it.parts {
		parts[i] = p.render()
	}
	out.Content = &parts
	return out
}

func (p *builtPart) render() responsePart {
	out, text := responsePart{Type: p.kind}, p.text.String()
	switch p.kind {
	case partRefusal:
		out.Refusal = &text
	case partText:
		lps := p.logprobs
		if lps == nil {
			lps = []openai.TokenLogprob{}
		}
		out.Text, out.Annotations, out.Logprobs = &text, &[]struct{}{}, &lps
	default:
		out.Text = &text
	}
	return out
}

// object renders the response in a state, with its items.
func (b *responseBuilder) object(status, itemStatus string) *responseObject {
	out := &responseObject{
		ID: responseIDPrefix + strings.ReplaceAll(b.reply.Request, "-", ""), Object: "response", CreatedAt: b.reply.Created.Unix(), Status: status, Model: string(b.reply.Model),
		Output: make([]responseItem, len(b.items)), ServiceTier: tierOf(b.reply.Class), responseAsked: b.asked,
	}
	for i, it := range b.items {
		out.Output[i] = b.item(it, itemStatus)
	}
	return out
}

// ended renders the response whose answer has ended, with our extension, and keeps it where it is to be kept.
func (b *responseBuilder) ended(why engine.Finish, u engine.Usage) *responseObject {
	status, reason := endOf(why)
	out := b.object(status, status)
	if reason != "" {
		out.IncompleteDetails = &incompleteDetails{reason}
	}
	out.Usage, out.Sluice = responseUsageOf(u), extend(b.reply.Head, b.reply.Summary())
	if b.keep != nil && !b.keep(out.ID, out) {
		out.Store = json.RawMessage("false")
	}
	return out
}

// endOf is the state in which an answer leaves its response, and why it is incomplete.
func endOf(why engine.Finish) (status, reason string) {
	switch why {
	case engine.FinishLength:
		return statusIncomplete, "max_output_tokens"
	case engine.FinishFilter:
		return statusIncomplete, "content_filter"
	default:
		return statusCompleted, ""
	}
}

func (responseShape) writer(r *gateway.Reply, opt options) eventWriter {
	return &responseWriter{responseBuilder: newResponseBuilder(r, opt)}
}

// responseWriter writes a response as named, numbered events: its items side by side, each with a beginning, pieces and an end.
type responseWriter struct {
	*responseBuilder

	number int // of the next event
	why    engine.Finish
	buf    []byte
}

// responseEvent is any of the events of a stream but a piece of text.
type responseEvent struct {
	Type         string                 `json:"type"`
	Sequence     int                    `json:"sequence_number"`
	Response     *responseObject        `json:"response,omitempty"`
	OutputIndex  *int                   `json:"output_index,omitempty"`
	ContentIndex *int                   `json:"content_index,omitempty"`
	ItemID       string                 `json:"item_id,omitempty"`
	Item         *responseItem          `json:"item,omitempty"`
	Part         *responsePart          `json:"part,omitempty"`
	Text         *string                `json:"text,omitempty"`
	Refusal      *string                `json:"refusal,omitempty"`
	Name         string                 `json:"name,omitempty"`
	Arguments    *string                `json:"arguments,omitempty"`
	Logprobs     *[]openai.TokenLogprob `json:"logprobs,omitempty"`
}

func (w *responseWriter) send(out *sse, ev responseEvent) bool {
	ev.Sequence = w.number
	w.number++
	return out.named(ev.Type, ev)
}

func (w *responseWriter) event(out *sse, ev engine.Event) bool {
	if ev.Empty() {
		return true
	}
	if !w.begin(out) {
		return false
	}
	if it, at := w.reason(ev.Reasoning); it != nil && !w.piece(out, it, at, ev.Reasoning, nil) {
		return false
	}
	if it, at := w.say(partText, ev.Text, ev.Logprobs); it != nil && !w.piece(out, it, at, ev.Text, ev.Logprobs) {
		return false
	}
	if it, at := w.say(partRefusal, ev.Refusal, nil); it != nil && !w.piece(out, it, at, ev.Refusal, nil) {
		return false
	}
	for _, d := range ev.Calls {
		if !w.piece(out, w.call(d), 0, d.Arguments, nil) {
			return false
		}
	}
	if ev.Finish != engine.FinishNone {
		w.why = ev.Finish
	}
	return ev.Usage == nil || w.finish(out, *ev.Usage)
}

// begin writes the events that a stream begins with, once.
func (w *responseWriter) begin(out *sse) bool {
	for w.number < 2 {
		kind := [...]string{"response.created", "response.in_progress"}[w.number]
		if !w.send(out, responseEvent{Type: kind, Response: w.object(statusInProgress, statusInProgress)}) {
			return false
		}
	}
	return true
}

// piece writes a piece of an item's part, after the beginnings of both. What the model thought is over when something else begins.
func (w *responseWriter) piece(out *sse, it *builtItem, at int, text string, logprobs []engine.TokenLogprob) bool {
	if !it.begun {
		it.begun = true
		if it.kind != itemReasoning && !w.closeAll(out, itemReasoning, statusCompleted) {
			return false
		}
		blank := w.item(&builtItem{kind: it.kind, place: it.place, callID: it.callID, name: it.name}, statusInProgress)
		if !w.send(out, responseEvent{Type: "response.output_item.added", OutputIndex: &it.place, Item: &blank}) {
			return false
		}
	}
	p := it.parts[at]
	if !p.begun && it.kind != itemCall {
		p.begun = true
		blank := (&builtPart{kind: p.kind}).render()
		if !w.send(out, responseEvent{Type: "response.content_part.added", ItemID: it.id, OutputIndex: &it.place, ContentIndex: &at, Part: &blank}) {
			return false
		}
	}
	return text == "" && len(logprobs) == 0 || w.delta(out, it, at, text, logprobs)
}

// delta writes a piece of text. It is put together by hand: there is one for every token.
func (w *responseWriter) delta(out *sse, it *builtItem, at int, text string, logprobs []engine.TokenLogprob) bool {
	kind := it.parts[at].deltas()
	b := append(append(w.buf[:0], `{"type":"`...), kind...)
	b = strconv.AppendInt(append(b, `","sequence_number":`...), int64(w.number), 10)
	b = append(append(b, `,"item_id":"`...), it.id...)
	b = strconv.AppendInt(append(b, `","output_index":`...), int64(it.place), 10)
	if it.kind != itemCall {
		b = strconv.AppendInt(append(b, `,"content_index":`...), int64(at), 10)
	}
	b = jsontext.AppendString(append(b, `,"delta":`...), strings.ToValidUTF8(text, "\uFFFD"))
	if it.parts[at].kind == partText {
		b = append(b, `,"logprobs":`...)
		if lps := chatLogprobsOf(logprobs); lps == nil {
			b = append(b, "[]"...)
		} else if j, err := encode(lps.Content); err == nil {
			b = append(b, j...)
		} else {
			return false
		}
	}
	w.buf = append(b, '}')
	w.number++
	return out.raw(kind, w.buf)
}

// closeAll writes the ends of the items that are open, of one kind or all.
func (w *responseWriter) closeAll(out *sse, kind, status string) bool {
	for _, it := range w.items {
		if it.begun && !it.ended && (kind == "" || it.kind == kind) {
			if it.ended = true; !w.closeItem(out, it, status) {
				return false
			}
		}
	}
	return true
}

func (w *responseWriter) closeItem(out *sse, it *builtItem, status string) bool {
	for i, p := range it.parts {
		text, ev := p.text.String(), responseEvent{Type: p.end(), ItemID: it.id, OutputIndex: &it.place}
		part := p.render()
		switch p.kind {
		case itemCall:
			ev.Name, ev.Arguments = it.name, &text
		case partRefusal:
			ev.ContentIndex, ev.Refusal = &i, &text
		default:
			ev.ContentIndex, ev.Text, ev.Logprobs = &i, &text, part.Logprobs
		}
		if !w.send(out, ev) {
			return false
		}
		if it.kind != itemCall && !w.send(out, responseEvent{Type: "response.content_part.done", ItemID: it.id, OutputIndex: &it.place, ContentIndex: &i, Part: &part}) {
			return false
		}
	}
	done := w.item(it, status)
	return w.send(out, responseEvent{Type: "response.output_item.done", OutputIndex: &it.place, Item: &done})
}

// finish writes how the response ended.
func (w *responseWriter) finish(out *sse, u engine.Usage) bool {
	status, _ := endOf(w.why)
	return w.closeAll(out, "", status) && w.send(out, responseEvent{Type: "response." + status, Response: w.ended(w.why, u)})
}

func (w *responseWriter) end(*sse) bool { return true } // the last event has said it

// fail writes the response as it was when it failed.
func (w *responseWriter) fail(out *sse, err error) bool {
	if !w.begin(out) {
		return false
	}
	p := fault.Public(err)
	w.asked.Store = json.RawMessage("false") // what has failed is not kept
	failed := w.object(statusFailed, statusIncomplete)
	failed.Error = &responseError{Code: string(p.Code()), Message: p.Message(language(out.c))}
	return w.send(out, responseEvent{Type: "response.failed", Response: failed})
}

// deltas is the type of the events that bring pieces of the part.
func (p *builtPart) deltas() string {
	switch p.kind {
	case itemCall:
		return "response.function_call_arguments.delta"
	case partRefusal:
		return "response.refusal.delta"
	case partReasoning:
		return "response.reasoning_text.delta"
	default:
		return "response.output_text.delta"
	}
}

// end is the type of the event after the last piece.
func (p *builtPart) end() string { return strings.TrimSuffix(p.deltas(), "delta") + "done" }
