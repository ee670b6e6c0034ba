package httpapi

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// The bounds of the dialect.
const (
	maxModelName         = 200
	maxChoices           = 128
	maxStops             = 4
	maxStopBytes         = 256
	maxTopLogprobs       = 20
	maxInputs            = 2048
	maxTokens            = 1 << 24
	maxNameBytes         = 64
	maxTools             = 128
	maxBiases            = 1024
	maxAnswers           = 1024 // of a choice list
	maxDocuments         = 2048
	maxIDBytes           = 128
	maxPriority          = 1000
	maxFirstTokenTimeout = 3_600_000 // ms
)

// options are what a request says about its reply's form.
type options struct {
	stream       bool
	includeUsage bool
	base64       bool
	stops        []string                           // as the caller spells them
	asked        *responseAsked                     // of a response
	keep         func(id string, response any) bool // the same; nil: it is not kept
	model        string                             // as the caller spells it, where that is not its name here
}

// chatCall decodes POST /v1/chat/completions.
func chatCall(f *fields, choices int, c *gateway.Call) (options, error) {
	c.Model = model(f)
	c.Messages = messages(f)
	o := sampling(f, choices, c)
	chatLogprobs(f, c)
	ragOptions(f, c)
	conversation(f, c)
	sluiceOptions(f, c)
	tools(f, c)
	if list, ok := f.list("modalities"); ok && (len(list) != 1 || list[0] != `"text"`) {
		f.unsupported("modalities", fault.Say("httpapi.text_generated_only"))
	}
	for _, field := range []string{"audio", "prediction", "web_search_options"} {
		if _, ok := f.raw(field); ok {
			f.unsupported(field, fault.Say("httpapi.leave_out"))
		}
	}
	for _, field := range []string{"reasoning_effort", "verbosity", "prompt_cache_key", "prompt_cache_retention"} {
		f.text(field) // accepted, without effect on these models
	}
	return o, f.err
}

// ragOptions decodes which passages an answer is to cite.
func ragOptions(f *fields, c *gateway.Call) {
	o, ok := f.object("rag")
	if !ok {
		return
	}
	c.RAG = &gateway.RAG{Collection: collection(o)}
	if k := o.integer("top_k", 1, gateway.MaxTopK); k != nil {
		c.RAG.TopK = int(*k)
	}
	if _, ok := o.raw("quotes"); ok {
		c.RAG.OmitQuotes = !o.flag("quotes")
	}
	c.RAG.AsOf = asOf(o)
	f.join(o)
}

// completionCall decodes POST /v1/completions.
func completionCall(f *fields, choices int, c *gateway.Call) (options, error) {
	c.Model = model(f)
	prompts := f.strings("prompt", fault.Say("type.one_string"), 1)
	if len(prompts) != 1 || prompts[0] == "" {
		f.fail(fault.CodeMissing, "prompt")
	} else {
		c.Prompt = prompts[0]
	}
	o := sampling(f, choices, c)
	if n := f.integer("logprobs", 0, 5); n != nil {
		c.Logprobs = int(*n)
	}
	c.Echo = f.flag("echo")
	sluiceOptions(f, c)
	for _, field := range []string{"tools", "functions"} {
		if list, ok := f.list(field); ok && len(list) > 0 {
			f.unsupported(field, fault.Say("httpapi.use_chat"))
		}
	}
	if s, _ := f.text("suffix"); s != "" {
		f.unsupported("suffix", fault.Say("httpapi.continuations_only"))
	}
	if n := f.integer("best_of", 1, maxChoices); n != nil && *n > int64(max(1, c.Choices)) {
		f.unsupported("best_of", fault.Say("httpapi.use_n"))
	}
	if _, ok := f.raw("rag"); ok {
		f.unsupported("rag", fault.Say("httpapi.use_chat"))
	}
	conversation(f, c)
	return o, f.err
}

// embeddingCall decodes POST /v1/embeddings.
func embeddingCall(f *fields, c *gateway.Call) (options, error) {
	c.Model = model(f)
	c.Input = f.strings("input", fault.Say("type.strings_no_tokens"), maxInputs)
	if len(c.Input) == 0 {
		f.fail(fault.CodeMissing, "input")
	}
	for i, s := range c.Input {
		if s == "" {
			f.invalid("input["+strconv.Itoa(i)+"]", fault.Say("value.empty"))
		}
	}
	var o options
	switch format, ok := f.text("encoding_format"); {
	case format == "base64":
		o.base64 = true
	case ok && format != "float":
		f.invalid("encoding_format", fault.Say("httpapi.encoding"))
	}
	if d := f.integer("dimensions", 1, 1<<20); d != nil {
		c.Dimensions = int(*d)
	}
	role(f, c)
	sluiceOptions(f, c)
	urgency(f, c)
	onBehalfOf(f, c)
	return o, f.err
}

// searchCall decodes POST /v1/rag/search.
func searchCall(f *fields, c *gateway.Call) error {
	c.RAG = &gateway.RAG{Collection: collection(f)}
	c.Query = f.needText("query")
	sluiceOptions(f, c)
	if k := f.integer("top_k", 1, gateway.MaxTopK); k != nil {
		c.RAG.TopK = int(*k)
	}
	c.RAG.AsOf = asOf(f)
	return f.err
}

// asOf reads the time of which passages are wanted; zero for now.
func asOf(f *fields) time.Time {
	text, ok := f.text("as_of")
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() {
		f.invalid("as_of", fault.Say("value.time"))
	}
	return at
}

// passageCall decodes POST /v1/rag/passages. Audit records repeat what names the passage, so nothing but such names passes.
func passageCall(f *fields, c *gateway.Call) error {
	c.RAG = &gateway.RAG{Collection: collection(f), AsOf: asOf(f)}
	c.Passage = &gateway.Passage{DocumentID: name(f, "document_id"), Version: name(f, "version")}
	if n := f.integer("chunk", 0, 1<<31-1); n != nil {
		c.Passage.Chunk = int(*n)
	} else {
		f.fail(fault.CodeMissing, "chunk")
	}
	if n := f.integer("neighbours", 0, rag.MaxContext); n != nil {
		c.Passage.Context = int(*n)
	}
	return f.err
}

// name reads a member that must be an identifier.
func name(f *fields, field string) string {
	id := f.needText(field)
	if !validRequestID(id, maxNameBytes) {
		f.invalid(field, fault.Say("httpapi.identifier", maxNameBytes))
	}
	return id
}

// collection reads the name of a collection. Audit records repeat it, so nothing else passes: neither prose nor more than a record
// holds.
func collection(f *fields) string {
	name := f.needText("collection")
	if utf8.RuneCountInString(name) > maxNameBytes || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}) {
		f.invalid("collection", fault.Say("httpapi.name", maxNameBytes))
	}
	return name
}

func model(f *fields) gateway.AskedModel {
	m := f.needText("model")
	printable(f, m)
	return gateway.AskedModel(m)
}

// printable refuses what no model is called.
func printable(f *fields, model string) {
	if len(model) > maxModelName || strings.ContainsFunc(model, func(r rune) bool { return r < ' ' }) {
		f.invalid("model", fault.Say("httpapi.printable", maxModelName))
	}
}

// messages decodes a chat. Several text parts of one message are joined by line feeds, so that what a rule looks for is found
// across their border.
func messages(f *fields) []engine.Message {
	items, ok := f.list("messages")
	if !ok {
		f.fail(fault.CodeMissing, "messages")
	} else if len(items) == 0 {
		f.invalid("messages", fault.Say("value.empty"))
	}
	out := make([]engine.Message, 0, len(items))
	for i, raw := range items {
		m := f.item("messages", i, raw)
		out = append(out, message(m))
		f.join(m)
		if f.err != nil {
			return nil
		}
	}
	return out
}

func message(m *fields) engine.Message {
	out := engine.Message{Role: m.needText("role")}
	switch out.Role {
	case "developer":
		out.Role = "system"
	case "system", "user", "assistant", "tool":
	case "function":
		m.unsupported("role", fault.Say("httpapi.use_tool_role"))
	default:
		m.invalid("role", fault.Say("httpapi.role"))
	}
	if _, ok := m.raw("function_call"); ok {
		m.unsupported("function_call", fault.Say("httpapi.use_tool_calls"))
	}
	if _, ok := m.raw("audio"); ok {
		m.unsupported("audio", fault.Say("httpapi.text_only"))
	}
	out.ToolCalls = toolCalls(m, out.Role)
	if out.Role == "tool" {
		out.ToolCallID = itemID(m, "tool_call_id")
	}
	out.Name, _ = m.text("name")
	if len(out.Name) > maxNameBytes {
		m.invalid("name", fault.Say("value.bytes_at_most", maxNameBytes))
	}
	_, said := m.raw("content")
	if s, ok := m.text("refusal"); ok && !said && out.Role == "assistant" { // an answer of ours that comes back
		out.Content = s
	} else if said || len(out.ToolCalls) == 0 {
		out.Content = content(m)
	}
	return out
}

func content(m *fields) string {
	raw, ok := m.raw("content")
	if !ok {
		m.fail(fault.CodeMissing, "content")
		return ""
	}
	if raw[0] == '"' {
		s, _ := m.text("content")
		return s
	}
	items, ok := m.items("content", fault.Say("type.parts"))
	if !ok {
		return ""
	}
	if len(items) == 0 {
		m.invalid("content", fault.Say("value.empty"))
	}
	texts := make([]string, len(items))
	for j, item := range items {
		part := m.item("content", j, item)
		if kind := part.needText("type"); kind != "text" {
			part.unsupported("type", fault.Say("httpapi.text_parts_only"))
		}
		s, ok := part.text("text")
		if !ok {
			part.fail(fault.CodeMissing, "text")
		}
		texts[j] = s
		m.join(part)
	}
	return strings.Join(texts, "\n")
}

func tokenLimit(f *fields, c *gateway.Call) {
	older, newer := f.integer("max_tokens", 1, maxTokens), f.integer("max_completion_tokens", 1, maxTokens)
	if older != nil && newer != nil && *older != *newer {
		f.invalid("max_completion_tokens", fault.Say("httpapi.max_tokens_twice"))
		return
	}
	if newer == nil {
		newer = older
	}
	if newer != nil {
		n := int(*newer)
		c.MaxTokens = &n
	}
}

func chatLogprobs(f *fields, c *gateway.Call) {
	on := f.flag("logprobs")
	top := f.integer("top_logprobs", 0, maxTopLogprobs)
	switch {
	case top != nil && !on:
		f.invalid("top_logprobs", fault.Say("httpapi.needs_logprobs"))
	case top != nil:
		c.Logprobs = int(*top)
	case on:
		c.Logprobs = 0
	}
}

// conversation takes the session from metadata, if the header named none, and checks the types of fields without effect.
func conversation(f *fields, c *gateway.Call) {
	if md, ok := f.object("metadata"); ok {
		for _, member := range md.m.All() {
			md.text(member.Name)
		}
		if id, ok := md.text("conversation_id"); ok && c.Session == "" {
			if !validRequestID(id, 128) {
				md.invalid("conversation_id", fault.Say("httpapi.cache_key"))
			}
			c.Session = id
		}
		f.join(md)
	}
	f.flag("store")
}

// onBehalfOf takes whom a request is for, if the header named nobody: OpenAI's newer field goes before the older.
func onBehalfOf(f *fields, c *gateway.Call) {
	for _, field := range []string{"safety_identifier", "user"} {
		if who, _ := f.text(field); c.OnBehalfOf == "" {
			c.OnBehalfOf = who
		}
	}
}

// validRequestID reports whether s may be used as an identifier in headers, logs and records.
func validRequestID(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}
