package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

// The bounds of the dialect.
const (
	maxModelName   = 200
	maxChoices     = 128
	maxStops       = 4
	maxStopBytes   = 256
	maxTopLogprobs = 20
	maxInputs      = 2048
	maxTokens      = 1 << 24
	maxNameBytes   = 64
)

// options are what a request says about its reply's form.
type options struct {
	stream       bool
	includeUsage bool
	base64       bool
}

// chatCall decodes POST /v1/chat/completions.
func chatCall(f *fields, choices int, c *gateway.Call) (options, error) {
	c.Action = gateway.ActionChat
	c.Model = model(f)
	c.Messages = messages(f)
	o := sampling(f, choices, c)
	chatLogprobs(f, c)
	if rag, ok := f.object("rag"); ok {
		c.RAG = &gateway.RAG{Collection: rag.needText("collection")}
		if k := rag.integer("top_k", 1, gateway.MaxTopK); k != nil {
			c.RAG.TopK = int(*k)
		}
		f.join(rag)
	}
	conversation(f, c)
	refuseTools(f)
	if rf, ok := f.object("response_format"); ok {
		if kind, _ := rf.text("type"); kind != "text" {
			rf.unsupported("type", "only 'text' is; ask for JSON in the prompt")
		}
		f.join(rf)
	}
	if list, ok := f.list("modalities"); ok && (len(list) != 1 || string(list[0]) != `"text"`) {
		f.unsupported("modalities", "only text is generated")
	}
	for _, field := range []string{"audio", "prediction", "web_search_options"} {
		if _, ok := f.raw(field); ok {
			f.unsupported(field, "leave it out")
		}
	}
	for _, field := range []string{"reasoning_effort", "verbosity", "prompt_cache_key", "safety_identifier"} {
		f.text(field) // accepted, without effect on these models
	}
	return o, f.err
}

// completionCall decodes POST /v1/completions.
func completionCall(f *fields, choices int, c *gateway.Call) (options, error) {
	c.Action = gateway.ActionCompletion
	c.Model = model(f)
	const want = "a string, or an array with one string"
	prompts := f.strings("prompt", want, 1)
	if len(prompts) != 1 || prompts[0] == "" {
		f.fail(fault.CodeMissing, "prompt")
	} else {
		c.Prompt = prompts[0]
	}
	o := sampling(f, choices, c)
	if n := f.integer("logprobs", 0, 5); n != nil {
		c.Logprobs = int(*n)
	}
	if f.flag("echo") {
		f.unsupported("echo", "the prompt is not repeated")
	}
	if s, _ := f.text("suffix"); s != "" {
		f.unsupported("suffix", "only continuations are generated")
	}
	if n := f.integer("best_of", 1, maxChoices); n != nil && *n > int64(max(1, c.Choices)) {
		f.unsupported("best_of", "use n and choose yourself")
	}
	if _, ok := f.raw("rag"); ok {
		f.unsupported("rag", "use /v1/chat/completions")
	}
	conversation(f, c)
	return o, f.err
}

// embeddingCall decodes POST /v1/embeddings.
func embeddingCall(f *fields, c *gateway.Call) (options, error) {
	c.Action = gateway.ActionEmbed
	c.Model = model(f)
	c.Input = f.strings("input", "a string or an array of strings (arrays of tokens are not supported)", maxInputs)
	if len(c.Input) == 0 {
		f.fail(fault.CodeMissing, "input")
	}
	for i, s := range c.Input {
		if s == "" {
			f.invalid("input["+strconv.Itoa(i)+"]", "must not be empty")
		}
	}
	var o options
	switch format, ok := f.text("encoding_format"); {
	case format == "base64":
		o.base64 = true
	case ok && format != "float":
		f.invalid("encoding_format", "must be 'float' or 'base64'")
	}
	if d := f.integer("dimensions", 1, 1<<20); d != nil {
		c.Dimensions = int(*d)
	}
	f.text("user")
	return o, f.err
}

// searchCall decodes POST /v1/rag/search.
func searchCall(f *fields, c *gateway.Call) error {
	c.Action = gateway.ActionSearch
	c.RAG = &gateway.RAG{Collection: f.needText("collection")}
	c.Query = f.needText("query")
	if k := f.integer("top_k", 1, gateway.MaxTopK); k != nil {
		c.RAG.TopK = int(*k)
	}
	return f.err
}

func model(f *fields) gateway.AskedModel {
	m := f.needText("model")
	if len(m) > maxModelName || strings.ContainsFunc(m, func(r rune) bool { return r < ' ' }) {
		f.invalid("model", "must have at most %d printable characters", maxModelName)
	}
	return gateway.AskedModel(m)
}

// messages decodes a chat. Several text parts of one message are joined by line feeds, so that what a rule looks for is found
// across their border.
func messages(f *fields) []engine.Message {
	items, ok := f.list("messages")
	if !ok {
		f.fail(fault.CodeMissing, "messages")
	} else if len(items) == 0 {
		f.invalid("messages", "must not be empty")
	}
	out := make([]engine.Message, 0, len(items))
	for i, raw := range items {
		m := f.item("messages", i, raw)
		role := m.needText("role")
		switch role {
		case "developer":
			role = "system"
		case "system", "user", "assistant", "tool":
		default:
			m.invalid("role", "must be system, developer, user, assistant or tool")
		}
		for _, field := range []string{"tool_calls", "function_call", "audio"} {
			if raw, ok := m.raw(field); ok && string(raw) != "[]" {
				m.unsupported(field, "tools are not available yet")
			}
		}
		name, _ := m.text("name")
		if len(name) > maxNameBytes {
			m.invalid("name", "must have at most %d bytes", maxNameBytes)
		}
		out = append(out, engine.Message{Role: role, Content: content(m), Name: name})
		f.join(m)
		if f.err != nil {
			return nil
		}
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
	var items []json.RawMessage
	if !m.get("content", "a string or an array of parts", &items) {
		return ""
	}
	if len(items) == 0 {
		m.invalid("content", "must not be empty")
	}
	texts := make([]string, len(items))
	for j, item := range items {
		part := m.item("content", j, item)
		if kind := part.needText("type"); kind != "text" {
			part.unsupported("type", "only text parts are")
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

// sampling decodes what chat and completions share.
func sampling(f *fields, choices int, c *gateway.Call) options {
	c.Temperature = f.number("temperature", 0, 2)
	c.TopP = f.number("top_p", 0, 1)
	if c.TopP != nil && *c.TopP == 0 { // an empty nucleus still holds the likeliest token
		*c.TopP = 1e-9
	}
	if s := f.integer("seed", -1<<63, 1<<63-1); s != nil {
		u := uint64(*s) // a seed is bits, not a quantity
		c.Seed = &u
	}
	if n := f.integer("n", 1, int64(min(choices, maxChoices))); n != nil {
		c.Choices = int(*n)
	}
	tokenLimit(f, c)
	c.Stop = f.strings("stop", "a string or an array of strings", maxStops)
	for _, s := range c.Stop {
		if s == "" || len(s) > maxStopBytes {
			f.invalid("stop", "each string must have 1 to %d bytes", maxStopBytes)
		}
	}
	for _, field := range []string{"presence_penalty", "frequency_penalty"} {
		if p := f.number(field, -2, 2); p != nil && *p != 0 {
			f.unsupported(field, "leave it out or set it to 0")
		}
	}
	if bias, ok := f.object("logit_bias"); ok && len(bias.m) > 0 {
		f.unsupported("logit_bias", "leave it out")
	}
	c.Logprobs = -1
	o := options{stream: f.flag("stream")}
	if so, ok := f.object("stream_options"); ok {
		if !o.stream {
			f.invalid("stream_options", "is allowed only with stream: true")
		}
		o.includeUsage = so.flag("include_usage")
		so.flag("include_obfuscation")
		f.join(so)
	}
	f.text("user")
	return o
}

func tokenLimit(f *fields, c *gateway.Call) {
	older, newer := f.integer("max_tokens", 1, maxTokens), f.integer("max_completion_tokens", 1, maxTokens)
	if older != nil && newer != nil && *older != *newer {
		f.invalid("max_completion_tokens", "differs from max_tokens; send one of the two")
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
		f.invalid("top_logprobs", "needs logprobs: true")
	case top != nil:
		c.Logprobs = int(*top)
	case on:
		c.Logprobs = 0
	}
}

// conversation takes the session from metadata, if the header named none, and checks the types of fields without effect.
func conversation(f *fields, c *gateway.Call) {
	if md, ok := f.object("metadata"); ok {
		for key := range md.m {
			md.text(key)
		}
		if id, ok := md.text("conversation_id"); ok && c.Session == "" {
			if !saneID(id, 128) {
				md.invalid("conversation_id", "must have 1 to 128 letters, digits, dots, dashes or underscores")
			}
			c.Session = id
		}
		f.join(md)
	}
	f.flag("store")
	f.flag("parallel_tool_calls")
	f.text("service_tier")
}

func refuseTools(f *fields) {
	for _, field := range []string{"tools", "functions"} {
		if list, ok := f.list(field); ok && len(list) > 0 {
			f.unsupported(field, "tools are not available yet")
		}
	}
	if raw, ok := f.raw("tool_choice"); ok && string(raw) != `"none"` && string(raw) != `"auto"` {
		f.unsupported("tool_choice", "tools are not available yet")
	}
}

// saneID reports whether s may be used as an identifier in headers, logs and records.
func saneID(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}
