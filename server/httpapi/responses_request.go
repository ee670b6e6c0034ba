package httpapi

import (
	"encoding/json"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// includeLogprobs is the member of include that asks for log-probabilities.
const includeLogprobs = `"message.output_text.logprobs"`

// response answers POST /v1/responses.
func (a *API) response(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	before := &earlier{}
	defer a.letGo(who, before)
	decode := func(f *fields, _ int, call *gateway.Call) (options, error) {
		a.previous(c, who, f, before)
		o := responseCall(f, before.items, call)
		if f.err == nil {
			o.keep = a.keeper(c, who, f, before)
			o.asked.Store = json.RawMessage(strconv.FormatBool(o.keep != nil))
		}
		return o, f.err
	}
	return a.generate(c, who, call, decode, responseShape{})
}

// countResponse answers POST /v1/responses/input_tokens.
func (a *API) countResponse(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	before := &earlier{}
	defer a.letGo(who, before)
	decode := func(f *fields) error {
		a.previous(c, who, f, before)
		responseBody(f, before.items, call)
		noPassages(f, call)
		return f.err
	}
	return a.counted(c, who, call, decode, func(reply *gateway.CountReply, x *extension) any {
		return struct {
			Object      string     `json:"object"`
			InputTokens int        `json:"input_tokens"`
			Sluice      *extension `json:"sluice"`
		}{"response.input_tokens", reply.Tokens, x}
	})
}

// responseCall decodes POST /v1/responses, which goes on from items of earlier ones.
func responseCall(f *fields, before []json.RawMessage, c *gateway.Call) options {
	responseBody(f, before, c)
	c.Temperature, c.TopP = f.number("temperature", 0, 2), topP(f)
	if n := f.integer("max_output_tokens", 1, maxTokens); n != nil {
		limit := int(*n)
		c.MaxTokens = &limit
	}
	responseLogprobs(f, c)
	urgency(f, c)
	onBehalfOf(f, c)
	o := options{stream: f.flag("stream"), asked: asked(f)}
	if so, ok := f.object("stream_options"); ok {
		so.flag("include_obfuscation")
		f.join(so)
	}
	return o
}

// responseBody decodes what a response and its count share: all that becomes part of the prompt, and what cannot be honoured.
func responseBody(f *fields, before []json.RawMessage, c *gateway.Call) {
	c.Model = model(f)
	m := &conversationOf{}
	if text, _ := f.text("instructions"); text != "" {
		m.add("instructions", engine.Message{Role: "system", Content: text})
	}
	m.items(f, before)
	m.input(f)
	m.into(c)
	responseTools(f, c)
	responseFormatOf(f, c)
	ragOptions(f, c)
	sluiceOptions(f, c)
	conversation(f, c)
	if r, ok := f.object("reasoning"); ok { // a model here thinks or does not
		r.text("effort")
		r.text("summary")
		f.join(r)
	}
	if f.flag("background") {
		f.unsupported("background", fault.Say("httpapi.use_batches"))
	}
	if t, ok := f.text("truncation"); ok && t != "disabled" {
		f.unsupported("truncation", fault.Say("httpapi.truncation"))
	}
	for _, field := range []string{"conversation", "prompt", "context_management"} {
		if _, ok := f.raw(field); ok {
			f.unsupported(field, fault.Say("httpapi.leave_out"))
		}
	}
	f.integer("max_tool_calls", 1, maxTokens) // of tools that the server runs, and it runs none
	for _, field := range []string{"prompt_cache_key", "prompt_cache_retention"} {
		f.text(field)
	}
}

// input decodes what the model is given: a text, or items.
func (m *conversationOf) input(f *fields) {
	raw, ok := f.raw("input")
	if !ok {
		f.fail(fault.CodeMissing, "input")
		return
	}
	if raw[0] == '"' {
		text, _ := f.text("input")
		if text == "" {
			f.invalid("input", fault.Say("value.empty"))
		}
		m.add("input", engine.Message{Role: "user", Content: text})
		return
	}
	items, ok := f.items("input", fault.Say("type.items"))
	if ok && len(items) == 0 {
		f.invalid("input", fault.Say("value.empty"))
	}
	for i, item := range items {
		it := f.item("input", i, item)
		m.item(it)
		if f.join(it); f.err != nil {
			return
		}
	}
}

// item decodes one item of the input. Calls become part of the assistant's turn that they belong to.
func (m *conversationOf) item(f *fields) {
	switch kind, ok := f.text("type"); {
	case !ok || kind == "message":
		m.inputMessage(f)
	case kind == "function_call":
		call := engine.ToolCall{ID: itemID(f, "call_id"), Name: functionName(f, maxNameBytes)}
		call.Arguments = arguments(f)
		m.add(f.path, engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{call}})
	case kind == "function_call_output":
		m.add(f.path, engine.Message{Role: "tool", ToolCallID: itemID(f, "call_id"), Content: partTexts(f, "output")})
	case kind == "reasoning": // what the model thought is left out, as its template would
	default:
		f.unsupported("type", fault.Say("httpapi.response_items"))
	}
}

func (m *conversationOf) inputMessage(f *fields) {
	role := f.needText("role")
	switch role {
	case "developer":
		role = "system"
	case "system", "user", "assistant":
	default:
		f.invalid("role", fault.Say("httpapi.response_role"))
	}
	m.add(f.path, engine.Message{Role: role, Content: partTexts(f, "content")})
}

func itemID(f *fields, field string) string {
	id := f.needText(field)
	if len(id) > maxIDBytes {
		f.invalid(field, fault.Say("value.bytes_at_most", maxIDBytes))
	}
	return id
}

// partTexts decodes a text, or parts that hold one, which it joins by line feeds.
func partTexts(f *fields, field string) string {
	return joinTexts(f, field, fault.Say("httpapi.response_parts"), func(p *fields, kind string) (string, bool) {
		switch kind {
		case "input_text", "output_text", "text":
			return blockText(p), true
		case "refusal":
			return p.needText("refusal"), true
		}
		return "", false
	})
}

// responseTools decodes what the model may call. Tools that OpenAI's servers run are not run here.
func responseTools(f *fields, c *gateway.Call) {
	offered := eachTool(f, c, "name", func(t *fields) engine.Tool {
		if kind := t.needText("type"); kind != "function" {
			t.unsupported("type", fault.Say("httpapi.functions_only"))
		}
		return flatTool(t, "parameters", maxNameBytes)
	})
	c.ParallelTools = parallelTools(f)
	raw, ok := f.raw("tool_choice")
	if !ok {
		return
	}
	if raw[0] == '"' {
		c.ToolChoice = toolMode(f, offered)
		return
	}
	choice, ok := f.members("tool_choice", fault.Say("type.string_or_object"))
	if !ok {
		return
	}
	if kind := choice.needText("type"); kind != "function" {
		choice.unsupported("type", fault.Say("httpapi.functions_only"))
	}
	c.ToolChoice = engine.ToolChoice{Mode: engine.ToolFunction, Name: namedTool(choice, offered)}
	f.join(choice)
	needsTools(f, offered)
}

// responseFormatOf decodes the form that the answer is held to.
func responseFormatOf(f *fields, c *gateway.Call) {
	text, ok := f.object("text")
	if !ok {
		return
	}
	text.text("verbosity")
	if format, ok := text.object("format"); ok {
		switch kind := format.needText("type"); kind {
		case "text":
		case "json_object":
			c.Format = &engine.Format{JSONObject: true}
		case "json_schema":
			c.Format = namedSchema(format)
		default:
			format.invalid("type", fault.Say("httpapi.format_type"))
		}
		c.FormatField = "text.format"
		text.join(format)
	}
	f.join(text)
}

// responseLogprobs decodes whether the reply has log-probabilities: where include names them, or how many others are wanted is said.
func responseLogprobs(f *fields, c *gateway.Call) {
	items, _ := f.list("include")
	for _, item := range items {
		if item == includeLogprobs {
			c.Logprobs = 0
		}
	}
	if n := f.integer("top_logprobs", 0, maxTopLogprobs); n != nil && (*n > 0 || c.Logprobs == 0) {
		c.Logprobs = int(*n)
	}
}

// responseAsked are the members of a request that its response repeats, as they came.
type responseAsked struct {
	Instructions     json.RawMessage `json:"instructions"`
	MaxOutputTokens  json.RawMessage `json:"max_output_tokens"`
	MaxToolCalls     json.RawMessage `json:"max_tool_calls"`
	Metadata         json.RawMessage `json:"metadata"`
	ParallelTools    json.RawMessage `json:"parallel_tool_calls"`
	PreviousResponse json.RawMessage `json:"previous_response_id"`
	PromptCacheKey   json.RawMessage `json:"prompt_cache_key"`
	Reasoning        json.RawMessage `json:"reasoning"`
	SafetyIdentifier json.RawMessage `json:"safety_identifier"`
	Store            json.RawMessage `json:"store"`
	Temperature      json.RawMessage `json:"temperature"`
	Text             json.RawMessage `json:"text"`
	ToolChoice       json.RawMessage `json:"tool_choice"`
	Tools            json.RawMessage `json:"tools"`
	TopLogprobs      json.RawMessage `json:"top_logprobs"`
	TopP             json.RawMessage `json:"top_p"`
	Truncation       json.RawMessage `json:"truncation"`
	User             json.RawMessage `json:"user"`
}

func asked(f *fields) *responseAsked {
	read := func(field, otherwise string) json.RawMessage {
		if raw, ok := f.raw(field); ok {
			return json.RawMessage(raw)
		}
		return json.RawMessage(otherwise)
	}
	return &responseAsked{
		Instructions: read("instructions", "null"), MaxOutputTokens: read("max_output_tokens", "null"), MaxToolCalls: read("max_tool_calls", "null"),
		Metadata: read("metadata", "{}"), ParallelTools: read("parallel_tool_calls", "true"), PreviousResponse: read("previous_response_id", "null"),
		PromptCacheKey: read("prompt_cache_key", "null"), Reasoning: read("reasoning", `{"effort":null,"summary":null}`),
		SafetyIdentifier: read("safety_identifier", "null"), Store: json.RawMessage("false"), Temperature: read("temperature", "null"),
		Text: read("text", `{"format":{"type":"text"}}`), ToolChoice: read("tool_choice", `"auto"`), Tools: read("tools", "[]"),
		TopLogprobs: read("top_logprobs", "0"), TopP: read("top_p", "null"), Truncation: json.RawMessage(`"disabled"`), User: read("user", "null"),
	}
}
