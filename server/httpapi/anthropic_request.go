package httpapi

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// The bounds of Anthropic's dialect where they differ.
const (
	maxMessageStops = 16
	maxToolName     = 128
)

// messageCall decodes POST /v1/messages.
func messageCall(f *fields, _ int, c *gateway.Call) (options, error) {
	if n := f.integer("max_tokens", 1, maxTokens); n != nil {
		limit := int(*n)
		c.MaxTokens = &limit
	} else {
		f.fail(fault.CodeMissing, "max_tokens")
	}
	messageBody(f, c)
	c.Temperature = f.number("temperature", 0, 1)
	c.TopP = topP(f)
	if k := f.integer("top_k", 0, maxTokens); k != nil {
		c.TopK = int(*k)
	}
	c.Stop = stops(f, "stop_sequences", maxMessageStops)
	switch tier, ok := f.text("service_tier"); {
	case ok && tier != "auto" && tier != "standard_only":
		f.invalid("service_tier", fault.Say("httpapi.anthropic_tier"))
	}
	if md, ok := f.object("metadata"); ok {
		if who, _ := md.text("user_id"); c.OnBehalfOf == "" {
			c.OnBehalfOf = who
		}
		f.join(md)
	}
	return options{stream: f.flag("stream"), stops: c.Stop}, f.err
}

// countMessageCall decodes POST /v1/messages/count_tokens: a message without what only an answer needs.
func countMessageCall(f *fields, c *gateway.Call) error {
	messageBody(f, c)
	noPassages(f, c)
	return f.err
}

// noPassages refuses to count with passages, which are looked for only where they are used.
func noPassages(f *fields, c *gateway.Call) {
	if c.RAG != nil {
		f.unsupported("rag", fault.Say("httpapi.leave_out"))
	}
}

// messageBody decodes what a message and its count share: all that becomes part of the prompt.
func messageBody(f *fields, c *gateway.Call) {
	c.Model = model(f)
	m := &conversationOf{}
	m.system(f)
	m.messages(f)
	m.into(c)
	messageTools(f, c)
	messageFormat(f, c)
	ragOptions(f, c)
	sluiceOptions(f, c)
	if th, ok := f.object("thinking"); ok { // a model here thinks or does not
		if kind := th.needText("type"); kind != "enabled" && kind != "disabled" && kind != "adaptive" {
			th.invalid("type", fault.Say("httpapi.thinking"))
		}
		th.integer("budget_tokens", 0, maxTokens)
		f.join(th)
	}
	for _, field := range []string{"mcp_servers", "container"} {
		if raw, ok := f.raw(field); ok && raw != "[]" {
			f.unsupported(field, fault.Say("httpapi.leave_out"))
		}
	}
}

// conversationOf collects the messages of a conversation, each with the name of the field that it came in: one message in Anthropic's form
// can be several here, and several of one side that follow each other are one turn, as Anthropic has it. Many templates want the sides to take
// turns.
type conversationOf struct {
	out    []engine.Message
	places []string
	pieces [][]string // of the contents, joined at the end
}

func (m *conversationOf) add(place string, msg engine.Message) {
	if n := len(m.out) - 1; n >= 0 && m.out[n].Role == msg.Role && (msg.Role == "user" || msg.Role == "assistant") {
		m.pieces[n] = append(m.pieces[n], msg.Content)
		m.out[n].ToolCalls = append(m.out[n].ToolCalls, msg.ToolCalls...)
		return
	}
	m.out, m.places, m.pieces = append(m.out, msg), append(m.places, place), append(m.pieces, []string{msg.Content})
}

// into gives the conversation to a call.
func (m *conversationOf) into(c *gateway.Call) {
	for i, all := range m.pieces {
		if len(all) > 1 {
			m.out[i].Content = strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "\n")
		}
	}
	c.Messages, c.Places = m.out, m.places
}

// system decodes the instructions, which come apart from the messages: a text, or blocks of text.
func (m *conversationOf) system(f *fields) {
	if _, ok := f.raw("system"); !ok {
		return
	}
	if text := blockTexts(f, "system"); text != "" {
		m.add("system", engine.Message{Role: "system", Content: text})
	}
}

func (m *conversationOf) messages(f *fields) {
	items, ok := f.list("messages")
	switch {
	case !ok:
		f.fail(fault.CodeMissing, "messages")
	case len(items) == 0:
		f.invalid("messages", fault.Say("value.empty"))
	}
	for i, raw := range items {
		msg := f.item("messages", i, raw)
		m.message(msg, i == len(items)-1)
		if f.join(msg); f.err != nil {
			return
		}
	}
}

func (m *conversationOf) message(f *fields, last bool) {
	switch role := f.needText("role"); role {
	case "user":
		m.user(f)
	case "assistant":
		if last {
			f.unsupported("role", fault.Say("httpapi.prefill"))
		}
		m.assistant(f)
	case "system":
		m.add(f.path, engine.Message{Role: role, Content: blockTexts(f, "content")})
	default:
		f.invalid("role", fault.Say("httpapi.anthropic_role"))
	}
}

// user decodes what a user says: texts, and what calls of tools have returned, in their order.
func (m *conversationOf) user(f *fields) {
	var texts []string
	flush := func() {
		if texts != nil {
			m.add(f.path, engine.Message{Role: "user", Content: strings.Join(texts, "\n")})
			texts = nil
		}
	}
	eachBlock(f, "content", func(b *fields, kind string) {
		switch kind {
		case "text":
			texts = append(texts, blockText(b))
		case "document":
			texts = append(texts, plainDocument(b))
		case "tool_result":
			flush()
			m.add(b.path, toolResult(b))
		default:
			b.unsupported("type", fault.Say("httpapi.user_blocks"))
		}
	})
	flush()
}

// toolResult decodes what a call has returned. An error is told to the model in words, since templates know no other way.
func toolResult(b *fields) engine.Message {
	out := engine.Message{Role: "tool", ToolCallID: itemID(b, "tool_use_id")}
	if _, ok := b.raw("content"); ok {
		out.Content = blockTexts(b, "content")
	}
	if b.flag("is_error") {
		out.Content = "Error: " + out.Content
	}
	return out
}

// assistant decodes an earlier answer: texts and calls of tools. What the model thought is left out, as its template would.
func (m *conversationOf) assistant(f *fields) {
	out := engine.Message{Role: "assistant"}
	var texts []string
	eachBlock(f, "content", func(b *fields, kind string) {
		switch kind {
		case "text":
			texts = append(texts, blockText(b))
		case "tool_use":
			out.ToolCalls = append(out.ToolCalls, toolUse(b))
		case "thinking", "redacted_thinking":
		default:
			b.unsupported("type", fault.Say("httpapi.assistant_blocks"))
		}
	})
	if len(out.ToolCalls) > maxTools {
		f.invalid("content", fault.Say("value.item_count", maxTools))
	}
	out.Content = strings.Join(texts, "\n")
	m.add(f.path, out)
}

func toolUse(b *fields) engine.ToolCall {
	out := engine.ToolCall{ID: itemID(b, "id"), Name: functionName(b, maxToolName), Arguments: "{}"}
	if _, ok := b.object("input"); ok {
		out.Arguments, _ = b.raw("input")
	}
	return out
}

// plainDocument decodes a document that is plain text.
func plainDocument(b *fields) string {
	source, ok := b.object("source")
	if !ok {
		b.fail(fault.CodeMissing, "source")
	}
	if kind := source.needText("type"); kind != "text" {
		source.unsupported("type", fault.Say("httpapi.plain_documents"))
	}
	text := source.needText("data")
	b.join(source)
	if title, _ := b.text("title"); title != "" {
		text = title + "\n" + text
	}
	return text
}

// blockTexts decodes a text, or blocks of text.
func blockTexts(f *fields, field string) string {
	return joinTexts(f, field, fault.Say("httpapi.text_blocks"), textPart)
}

// joinTexts decodes a text, or parts that read makes texts of, and joins them by line feeds: what a rule looks for is found across their border.
// A part that read cannot make a text of is refused, for the reason given.
func joinTexts(f *fields, field string, otherwise fault.Phrase, read func(b *fields, kind string) (string, bool)) string {
	var texts []string
	eachBlock(f, field, func(b *fields, kind string) {
		text, ok := read(b, kind)
		if !ok {
			b.unsupported("type", otherwise)
		}
		texts = append(texts, text)
	})
	return strings.Join(texts, "\n")
}

func blockText(b *fields) string {
	text, ok := b.text("text")
	if !ok {
		b.fail(fault.CodeMissing, "text")
	}
	return text
}

// eachBlock calls do with each block of a content, which may be one text.
func eachBlock(f *fields, field string, do func(b *fields, kind string)) {
	raw, ok := f.raw(field)
	if !ok {
		f.fail(fault.CodeMissing, field)
		return
	}
	if raw[0] == '"' {
		b := &fields{path: f.name(field), m: rawjson.One("text", raw)}
		do(b, "text")
		f.join(b)
		return
	}
	items, _ := f.items(field, fault.Say("type.parts"))
	for i, item := range items {
		b := f.item(field, i, item)
		kind := b.needText("type")
		if b.err == nil {
			do(b, kind)
		}
		if f.join(b); f.err != nil {
			return
		}
	}
}

// messageTools decodes what the model may call. Their wire form is that of OpenAI without one level.
func messageTools(f *fields, c *gateway.Call) {
	offered := eachTool(f, c, "name", func(t *fields) engine.Tool {
		if kind, ok := t.text("type"); ok && kind != "custom" {
			t.unsupported("type", fault.Say("httpapi.custom_tools"))
		}
		return flatTool(t, "input_schema", maxToolName)
	})
	c.ParallelTools = true
	choice, ok := f.object("tool_choice")
	if !ok {
		return
	}
	c.ParallelTools = !choice.flag("disable_parallel_tool_use")
	switch kind := choice.needText("type"); kind {
	case "auto":
	case "none":
		c.ToolChoice.Mode = engine.ToolNone
	case "any":
		c.ToolChoice.Mode = engine.ToolRequired
	case "tool":
		c.ToolChoice = engine.ToolChoice{Mode: engine.ToolFunction, Name: namedTool(choice, offered)}
	default:
		choice.invalid("type", fault.Say("httpapi.anthropic_tool_choice"))
	}
	f.join(choice)
	if m := c.ToolChoice.Mode; m == engine.ToolRequired || m == engine.ToolFunction {
		needsTools(f, offered)
	}
}

// messageFormat decodes the schema that the answer is held to: in output_config, or where it stood before.
func messageFormat(f *fields, c *gateway.Call) {
	read := func(holder *fields, field string) {
		format, ok := holder.object(field)
		if !ok {
			return
		}
		if kind := format.needText("type"); kind != "json_schema" {
			format.invalid("type", fault.Say("httpapi.anthropic_format"))
		}
		schema := schemaOf(format, "schema")
		if schema == nil {
			format.fail(fault.CodeMissing, "schema")
		}
		c.Format, c.FormatField = &engine.Format{JSONSchema: schema}, holder.name(field)
		holder.join(format)
	}
	read(f, "output_format")
	if config, ok := f.object("output_config"); ok {
		config.text("effort") // accepted, without effect on these models
		read(config, "format")
		f.join(config)
	}
}
