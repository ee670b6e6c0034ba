package httpapi

import (
	"slices"
	"strconv"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

// ollamaChatCall decodes POST /api/chat. Without messages it is a request to load the model.
func ollamaChatCall(f *fields, c *gateway.Call) options {
	t := &ollamaTurns{}
	items, _ := f.list("messages")
	for i, raw := range items {
		m := f.item("messages", i, raw)
		t.message(m)
		if f.join(m); f.err != nil {
			return options{}
		}
	}
	c.Messages = t.out
	tools(f, c)
	return ollamaCall(f, c)
}

// ollamaGenerateCall decodes POST /api/generate: a question by itself, with instructions, or a prompt as it is. Without one it is a request to load
// the model.
func ollamaGenerateCall(f *fields, c *gateway.Call) options {
	system, _ := f.text("system")
	prompt, _ := f.text("prompt")
	switch raw := f.flag("raw"); {
	case prompt == "":
	case raw:
		c.Action, c.Prompt = gateway.ActionCompletion, prompt
		for _, field := range []string{"system", "rag"} {
			if _, ok := f.raw(field); ok {
				f.unsupported(field, fault.Say("httpapi.ollama_raw"))
			}
		}
	default:
		if system != "" {
			c.Messages, c.Places = append(c.Messages, engine.Message{Role: "system", Content: system}), append(c.Places, "system")
		}
		c.Messages, c.Places = append(c.Messages, engine.Message{Role: "user", Content: prompt}), append(c.Places, "prompt")
	}
	noImages(f)
	if s, _ := f.text("suffix"); s != "" {
		f.unsupported("suffix", fault.Say("httpapi.continuations_only"))
	}
	if s, _ := f.text("template"); s != "" {
		f.unsupported("template", fault.Say("httpapi.ollama_template"))
	}
	if ids, _ := f.list("context"); len(ids) > 0 {
		f.unsupported("context", fault.Say("httpapi.ollama_context"))
	}
	return ollamaCall(f, c)
}

// ollamaCall decodes what chats and generations share.
func ollamaCall(f *fields, c *gateway.Call) options {
	c.Model = model(f)
	out := options{stream: true}
	if _, ok := f.raw("stream"); ok {
		out.stream = f.flag("stream")
	}
	if raw, ok := f.raw("think"); ok && raw != "true" && raw != "false" { // a model here thinks or does not
		if level, ok := f.text("think"); ok && level != "low" && level != "medium" && level != "high" {
			f.invalid("think", fault.Say("httpapi.ollama_think"))
		}
	}
	ollamaFormat(f, c)
	ollamaSampling(f, c)
	chatLogprobs(f, c)
	ragOptions(f, c)
	sluiceOptions(f, c)
	return out
}

// ollamaFormat decodes what the answer is held to: any object, or a schema.
func ollamaFormat(f *fields, c *gateway.Call) {
	raw, ok := f.raw("format")
	switch {
	case !ok || raw == `""`:
		return
	case raw == `"json"`:
		c.Format = &engine.Format{JSONObject: true}
	case raw[0] == '{':
		c.Format = &engine.Format{JSONSchema: schemaOf(f, "format")}
	default:
		f.invalid("format", fault.Say("httpapi.ollama_format"))
	}
	c.FormatField = "format"
}

// ollamaSampling decodes the member "options". As in Ollama, names that it does not know pass: most are about how a model is loaded.
func ollamaSampling(f *fields, c *gateway.Call) {
	o, ok := f.object("options")
	if !ok {
		return
	}
	value := func(field string, low, high float64) float64 {
		if v := o.number(field, low, high); v != nil {
			return *v
		}
		return 0
	}
	c.Temperature, c.TopP = o.number("temperature", 0, 2), topP(o)
	if k := o.integer("top_k", -1, maxTokens); k != nil {
		c.TopK = max(0, int(*k))
	}
	c.MinP = value("min_p", 0, 1)
	c.FrequencyPenalty, c.PresencePenalty = value("frequency_penalty", -2, 2), value("presence_penalty", -2, 2)
	c.RepetitionPenalty = value("repeat_penalty", 0, 2)
	if _, ok := o.raw("repeat_penalty"); ok && c.RepetitionPenalty == 0 {
		o.invalid("repeat_penalty", fault.Say("httpapi.repetition_penalty"))
	}
	if n := o.integer("num_predict", -2, maxTokens); n != nil && *n > 0 { // the others mean no limit
		limit := int(*n)
		c.MaxTokens = &limit
	}
	if s := o.integer("seed", -1<<63, 1<<63-1); s != nil && *s != -1 { // which means any
		u := uint64(*s)
		c.Seed = &u
	}
	c.Stop = stops(o, "stop", maxMessageStops)
	c.FieldNames = map[string]string{"repetition_penalty": o.name("repeat_penalty")}
	for _, field := range []string{"top_k", "min_p", "frequency_penalty", "presence_penalty"} {
		c.FieldNames[field] = o.name(field)
	}
	f.join(o)
}

// ollamaEmbedCall decodes what is embedded. A text that is too long for the model is refused, also where it might be cut.
func ollamaEmbedCall(f *fields, c *gateway.Call, field string) {
	c.Model = model(f)
	c.Input = f.strings(field, fault.Say("type.strings_no_tokens"), maxInputs)
	if len(c.Input) == 0 {
		f.fail(fault.CodeMissing, field)
	}
	for i, s := range c.Input {
		if s == "" {
			f.invalid(field+"["+strconv.Itoa(i)+"]", fault.Say("value.empty"))
		}
	}
	if field == "prompt" && len(c.Input) > 1 {
		f.wrongType(field, fault.Say("type.string"))
	}
	if d := f.integer("dimensions", 1, 1<<20); d != nil {
		c.Dimensions = int(*d)
	}
	f.flag("truncate")
	sluiceOptions(f, c)
}

// noImages refuses pictures by name.
func noImages(f *fields) {
	if list, ok := f.list("images"); ok && len(list) > 0 {
		f.unsupported("images", fault.Say("httpapi.text_only"))
	}
}

// ollamaTurns collects the messages of a chat. Calls of tools and their results need not say which belongs to which: results follow in the
// order of the calls, or name the tool.
type ollamaTurns struct {
	out     []engine.Message
	pending []engine.ToolCall // calls without a result
	calls   int
}

func (t *ollamaTurns) message(f *fields) {
	m := engine.Message{Role: f.needText("role")}
	noImages(f)
	f.text("thinking") // left out, as its template would
	f.text("tool_call_id")
	f.text("tool_name")
	content, said := f.text("content")
	m.Content = content
	switch m.Role {
	case "assistant":
		m.ToolCalls = t.toolCalls(f)
	case "tool":
		t.result(f, &m)
	case "system", "user":
		if list, ok := f.list("tool_calls"); ok && len(list) > 0 {
			f.invalid("tool_calls", fault.Say("httpapi.assistant_only"))
		}
	default:
		f.invalid("role", fault.Say("httpapi.ollama_role"))
	}
	if _, thought := f.raw("thinking"); !said && len(m.ToolCalls) == 0 && !thought {
		f.fail(fault.CodeMissing, "content")
	}
	t.out = append(t.out, m)
}

func (t *ollamaTurns) toolCalls(f *fields) []engine.ToolCall {
	items, _ := f.list("tool_calls")
	if len(items) > maxTools {
		f.invalid("tool_calls", fault.Say("value.item_count", maxTools))
	}
	var out []engine.ToolCall
	for i, raw := range items {
		item := f.item("tool_calls", i, raw)
		out = append(out, t.toolCall(item))
		if f.join(item); f.err != nil {
			return nil
		}
	}
	if t.pending = append(t.pending, out...); len(t.pending) > maxTools { // without a result
		f.invalid("tool_calls", fault.Say("value.item_count", maxTools))
	}
	return out
}

func (t *ollamaTurns) toolCall(item *fields) engine.ToolCall {
	fn, ok := item.object("function")
	if !ok {
		item.fail(fault.CodeMissing, "function")
	}
	call := engine.ToolCall{Name: functionName(fn, maxToolName), Arguments: "{}"}
	if _, ok := fn.object("arguments"); ok {
		call.Arguments, _ = fn.raw("arguments")
	}
	item.join(fn)
	if call.ID, ok = item.text("id"); !ok || call.ID == "" {
		call.ID = "call_" + strconv.Itoa(t.calls)
	}
	if len(call.ID) > maxIDBytes {
		item.invalid("id", fault.Say("value.bytes_at_most", maxIDBytes))
	}
	t.calls++
	return call
}

// result decodes what a call has returned: of the call that it names, else of the first one of the tool that it names, else of the first.
func (t *ollamaTurns) result(f *fields, m *engine.Message) {
	id, _ := f.text("tool_call_id")
	tool, _ := f.text("tool_name")
	for i, call := range t.pending {
		if id != "" && call.ID != id || id == "" && tool != "" && call.Name != tool {
			continue
		}
		m.ToolCallID = call.ID
		t.pending = slices.Delete(t.pending, i, i+1)
		return
	}
	f.invalid("role", fault.Say("httpapi.ollama_result"))
}
