package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/internal/fault"
)

// wholeMessage reads a message of Anthropic's form, streamed or not. Of a stream it checks the order of events, which clients rely on.
func wholeMessage(t testing.TB, body string) []said {
	t.Helper()
	var m anthropicMessage
	if strings.HasPrefix(body, "event: ") {
		m = streamedMessage(t, body)
	} else if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	out := said{}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			out.Content += *b.Text
		case "thinking":
			out.Reasoning += *b.Thinking
		case "tool_use":
			arguments := string(b.Input)
			var cut struct {
				Incomplete *string `json:"_incomplete_arguments"`
			}
			if json.Unmarshal(b.Input, &cut) == nil && cut.Incomplete != nil {
				arguments = *cut.Incomplete
			}
			out.Calls = append(out.Calls, openai.ToolCall{ID: b.ID, Function: openai.FunctionCall{Name: b.Name, Arguments: openai.Arguments(arguments)}})
		default:
			t.Fatalf("a block of type %q", b.Type)
		}
	}
	out.Finish = map[string]string{"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}[deref(m.StopReason)]
	if out.Finish == "content_filter" {
		out.Refusal = out.Content
	}
	return []said{out}
}

// streamedMessage puts a message together from its events.
func streamedMessage(t testing.TB, body string) (m anthropicMessage) {
	t.Helper()
	open := false
	inputs := map[int]string{}
	last := ""
	for _, block := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		var ev struct {
			Type    string
			Message *anthropicMessage
			Index   *int
			Block   *anthropicBlock `json:"content_block"`
			Delta   struct {
				Type, Text, Thinking string
				Partial              string  `json:"partial_json"`
				StopReason           *string `json:"stop_reason"`
				StopSequence         *string `json:"stop_sequence"`
			}
			Usage  *anthropicUsage
			Sluice *extension
		}
		if err := json.Unmarshal([]byte(data), &ev); !ok || err != nil || ev.Type != name || (last == "") != (name == "message_start") {
			t.Fatalf("%v in %q after %q", err, block, last)
		}
		if ev.Index != nil && *ev.Index != len(m.Content)-1 && name != "content_block_start" {
			t.Fatalf("%s is about another block than the open one", block)
		}
		last = name
		switch name {
		case "message_start":
			m = *ev.Message
		case "content_block_start":
			if open || *ev.Index != len(m.Content) {
				t.Fatalf("%s begins inside another block, or out of order", block)
			}
			m.Content, open = append(m.Content, *ev.Block), true
		case "content_block_delta":
			b := &m.Content[*ev.Index]
			switch {
			case !open:
				t.Fatalf("%s is about a closed block", block)
			case ev.Delta.Type == "text_delta" && b.Type == "text":
				*b.Text += ev.Delta.Text
			case ev.Delta.Type == "thinking_delta" && b.Type == "thinking":
				*b.Thinking += ev.Delta.Thinking
			case ev.Delta.Type == "input_json_delta" && b.Type == "tool_use":
				inputs[*ev.Index] += ev.Delta.Partial
			default:
				t.Fatalf("%s is of another type than its block", block)
			}
		case "content_block_stop":
			open = false
		case "message_delta":
			m.StopReason, m.StopSequence, m.Usage, m.Sluice = ev.Delta.StopReason, ev.Delta.StopSequence, *ev.Usage, ev.Sluice
		case "message_stop":
		default:
			t.Fatalf("an event %q", block)
		}
	}
	if last != "message_stop" || open {
		t.Fatalf("the stream ends with %q", last)
	}
	for i, all := range inputs {
		if m.Content[i].Input = input(all); all == "" {
			m.Content[i].Input = json.RawMessage("{}")
		}
	}
	return m
}

// ask is the beginning of a message.
const ask = `{"model":"chat","max_tokens":100,"messages":[{"role":"user","content":"hi"}]`

// TestMessagesOfAnthropic: what the decoder makes of every form of content, in its order, is what the engine is asked.
func TestMessagesOfAnthropic(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, body := k.post(t, "/v1/messages", `{"model":"chat","max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":3,"stop_sequences":["x","yy"],
		"system":[{"type":"text","text":"be","cache_control":{"type":"ephemeral"}},{"type":"text","text":"kind"}],
		"metadata":{"user_id":"u1"},"thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"high"},"service_tier":"auto",
		"tools":[{"name":"mcp__`+strings.Repeat("n", 100)+`","description":"d","input_schema":{"type":"object"}},{"type":"custom","name":"g","input_schema":{"type":"object"}}],
		"tool_choice":{"type":"any","disable_parallel_tool_use":true},
		"messages":[{"role":"user","content":"zero"},{"role":"user","content":"one"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"two"},{"type":"tool_use","id":"c1","name":"g","input":{"a": 1}}]},
			{"role":"user","content":[{"type":"text","text":"first"},{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"r"}],"is_error":true},{"type":"tool_result","tool_use_id":"c2"},{"type":"text","text":"three"},
				{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"doc"}}]}]}`)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	got := k.engine.Requests()[0]
	want := []engine.Message{
		{Role: "system", Content: "be\nkind"},
		{Role: "user", Content: "zero\none"},
		{Role: "assistant", Content: "two", ToolCalls: []engine.ToolCall{{ID: "c1", Name: "g", Arguments: `{"a": 1}`}}},
		{Role: "user", Content: "first"},
		{Role: "tool", Content: "Error: r", ToolCallID: "c1"},
		{Role: "tool", ToolCallID: "c2"},
		{Role: "user", Content: "three\nT\ndoc"},
	}
	if !reflect.DeepEqual(got.Messages, want) {
		t.Errorf("messages %+v", got.Messages)
	}
	if got.MaxTokens != 7 || got.Temperature != 0.5 || got.TopP != 0.25 || got.TopK != 3 || fmt.Sprint(got.Stop) != "[x yy]" || len(got.Tools) != 2 ||
		got.ToolChoice.Mode != engine.ToolRequired || got.ParallelTools || got.Class != engine.ClassStandard {
		t.Errorf("%+v", got)
	}
	if e := k.last(); e.Dialect != "anthropic" || e.Action != "chat.completions" || e.Route != "POST /v1/messages" || e.Actor.OnBehalfOf == "" {
		t.Errorf("recorded %+v", e)
	}
}

// TestAnthropicRefusesByName: what cannot be honoured, and what is wrong, is named as its dialect spells it.
func TestAnthropicRefusesByName(t *testing.T) {
	k := newKit(t, Config{}, nil)
	user := func(blocks string) string {
		return `{"model":"chat","max_tokens":9,"messages":[{"role":"user","content":[` + blocks + `]}]}`
	}
	for body, want := range map[string]string{
		`{"model":"chat","messages":[{"role":"user","content":"x"}]}`:                     "missing_required_parameter max_tokens",
		`{"model":"chat","max_tokens":9}`:                                                 "missing_required_parameter messages",
		`{"model":"chat","max_tokens":9,"messages":[]}`:                                   "invalid_value messages",
		`{"model":"chat","max_tokens":0,"messages":[]}`:                                   "invalid_value max_tokens",
		user(`{"type":"image","source":{}}`):                                              "unsupported_parameter messages[0].content[0].type",
		user(`{"type":"document","source":{"type":"base64","data":"x"}}`):                 "unsupported_parameter messages[0].content[0].source.type",
		user(`{"type":"tool_result","content":"x"}`):                                      "missing_required_parameter messages[0].content[0].tool_use_id",
		user(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"image"}]}`):     "unsupported_parameter messages[0].content[0].content[0].type",
		user(`{"type":"tool_use"}`):                                                       "unsupported_parameter messages[0].content[0].type",
		user(`"x"`):                                                                       "invalid_type messages[0].content[0]",
		user(`{"type":"text"}`):                                                           "missing_required_parameter messages[0].content[0].text",
		`{"model":"chat","max_tokens":9,"messages":[{"role":"tool","content":"x"}]}`:      "invalid_value messages[0].role",
		`{"model":"chat","max_tokens":9,"messages":[{"role":"assistant","content":"x"}]}`: "unsupported_parameter messages[0].role",
		`{"model":"chat","max_tokens":9,"messages":[{"role":"user","content":7}]}`:        "invalid_type messages[0].content",
		ask + `,"temperature":1.5}`:                                                       "invalid_value temperature",
		ask + `,"system":[{"type":"image"}]}`:                                             "unsupported_parameter system[0].type",
		ask + `,"stop_sequences":[""]}`:                                                   "invalid_value stop_sequences",
		ask + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]}`:            "unsupported_parameter tools[0].type",
		ask + `,"tools":[{"name":"a b","input_schema":{}}]}`:                              "invalid_value tools[0].name",
		ask + `,"tools":[{"name":"a"},{"name":"a"}]}`:                                     "invalid_value tools[1].name",
		ask + `,"tools":[{"name":"a","input_schema":{"type":"array"}}]}`:                  "invalid_value tools[0].input_schema.type",
		ask + `,"tool_choice":{"type":"any"}}`:                                            "invalid_value tool_choice",
		ask + `,"tools":[{"name":"a"}],"tool_choice":{"type":"tool","name":"b"}}`:         "invalid_value tool_choice.name",
		ask + `,"tool_choice":{"type":"sometimes"}}`:                                      "invalid_value tool_choice.type",
		ask + `,"output_config":{"format":{"type":"json_object"}}}`:                       "invalid_value output_config.format.type",
		ask + `,"output_format":{"type":"json_schema"}}`:                                  "missing_required_parameter output_format.schema",
		ask + `,"thinking":{"type":"much"}}`:                                              "invalid_value thinking.type",
		ask + `,"service_tier":"flex"}`:                                                   "invalid_value service_tier",
		ask + `,"mcp_servers":[{"url":"http://x"}]}`:                                      "unsupported_parameter mcp_servers",
		ask + `,"stream":"yes"}`:                                                          "invalid_type stream",
		`{"model":"nope","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`:      "model_not_found model",
	} {
		resp, got := k.post(t, "/v1/messages", body)
		e := decode[anthropicError](t, got)
		if have := fmt.Sprintf("%s %s", e.Error.Code, e.Error.Param); have != want || resp.StatusCode/100 != 4 || e.Type != "error" || e.RequestID != resp.Header.Get("Request-Id") || e.RequestID == "" {
			t.Errorf("%s: %d %s, want %s", body, resp.StatusCode, got, want)
		}
	}
	for _, version := range []string{"2023-01-01", "", "newest"} {
		resp, got := k.do(t, http.MethodPost, "/v1/messages", strings.NewReader(ask+"}"), "Anthropic-Version", version)
		if e := decode[anthropicError](t, got); resp.StatusCode != http.StatusBadRequest || e.Error.Param != "anthropic-version" || e.Error.Type != "invalid_request_error" {
			t.Errorf("the version %q: %d %s", version, resp.StatusCode, got)
		}
	}
}

// TestAnthropicErrors: every kind of failure has the status and the type that Anthropic publishes for it.
func TestAnthropicErrors(t *testing.T) {
	known := map[string]int{
		"invalid_request_error": 0, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404, "request_too_large": 413,
		"rate_limit_error": 429, "api_error": 0, "timeout_error": 504, "overloaded_error": 529,
	}
	seen := map[string]bool{}
	for _, code := range fault.Codes() {
		status, body := anthropicRefusal(sample(code), fault.English, "r1")
		kind := body.(anthropicError).Error.Type
		want, ok := known[kind]
		if seen[kind] = true; !ok || want != 0 && status != want || status < 400 {
			t.Errorf("%s: %d %s", code, status, kind)
		}
	}
	if len(seen) != len(known) {
		t.Errorf("only %v are used", seen)
	}
}

// TestAnthropicKeys: a key is taken from either header, and wrong ones are refused in the dialect's form, before the body is read.
func TestAnthropicKeys(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"x-api-key":           {[]string{"Authorization", "", "X-Api-Key", goodKey}, 200},
		"bearer":              {[]string{"Authorization", "Bearer " + goodKey}, 200},
		"wrong before bearer": {[]string{"Authorization", "Bearer " + goodKey, "X-Api-Key", "wrong"}, 401},
		"none":                {[]string{"Authorization", ""}, 401},
	} {
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			resp, body := k.do(t, http.MethodPost, path, strings.NewReader(ask+"}"), c.headers...)
			if resp.StatusCode != c.status || c.status == 401 && decode[anthropicError](t, body).Error.Type != "authentication_error" {
				t.Errorf("%s, %s: %d %s", name, path, resp.StatusCode, body)
			}
		}
	}
	if resp, _ := k.do(t, http.MethodPost, "/v1/chat/completions", strings.NewReader(hello+"}"), "Authorization", "", "X-Api-Key", goodKey); resp.StatusCode != 401 {
		t.Errorf("OpenAI's dialect took X-Api-Key: %d", resp.StatusCode)
	}
	resp, body := k.do(t, http.MethodGet, "/v1/messages", nil)
	if e := decode[anthropicError](t, body); resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" || e.Error.Code != "method_not_allowed" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := k.do(t, http.MethodGet, "/v1/messages/nothing", nil); resp.StatusCode != 404 || decode[anthropicError](t, body).Error.Type != "not_found_error" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestAnthropicModels: one path serves both lists; the header that Anthropic's clients always send tells them apart.
func TestAnthropicModels(t *testing.T) {
	k := newKit(t, Config{}, nil)
	version := []string{"Anthropic-Version", anthropicVersion, "Authorization", "", "X-Api-Key", goodKey}
	_, body := k.do(t, http.MethodGet, "/v1/models", nil, version...)
	list := decode[struct {
		Data    []anthropicModel
		FirstID string `json:"first_id"`
		LastID  string `json:"last_id"`
		HasMore *bool  `json:"has_more"`
	}](t, body)
	if n := len(list.Data); n == 0 || list.Data[0].ID != list.FirstID || list.Data[n-1].ID != list.LastID || list.HasMore == nil || list.Data[0].Type != "model" {
		t.Error(body)
	}
	_, body = k.do(t, http.MethodGet, "/v1/models/chat", nil, version...)
	if m := decode[anthropicModel](t, body); m.ID != "chat" || m.Type != "model" {
		t.Error(body)
	} else if _, err := time.Parse(time.RFC3339, m.CreatedAt); err != nil {
		t.Error(err)
	}
	if _, body := k.do(t, http.MethodGet, "/v1/models", nil); !strings.Contains(body, `"object":"list"`) {
		t.Error(body)
	}
}

// TestCountTokens: the count is that of the prompt which a message has, nothing is generated, and the records say what was asked.
func TestCountTokens(t *testing.T) {
	k := newKit(t, Config{}, nil)
	_, body := k.post(t, "/v1/messages", ask+`,"system":"one two three"}`)
	m := decode[anthropicMessage](t, body)
	k.fail["reserve"] = fault.New(fault.CodeOverBudget, "1 CNY", "1 CNY") // what costs nothing needs no budget
	_, body = k.post(t, "/v1/messages/count_tokens", `{"model":"chat","system":"one two three","messages":[{"role":"user","content":"hi"}]}`)
	count := decode[struct {
		InputTokens int `json:"input_tokens"`
	}](t, body)
	if count.InputTokens != m.Usage.InputTokens || count.InputTokens == 0 {
		t.Errorf("%d were counted, a message has %d", count.InputTokens, m.Usage.InputTokens)
	}
	if n := len(k.engine.Requests()); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
	if e := k.last(); e.Action != string(gateway.ActionCount) || e.Outcome != "ok" || e.Usage.PromptTokens != 0 || e.Usage.Cost != 0 || e.Label != "" {
		t.Errorf("%+v", e)
	}
}

// TestMessageEnds: the reason and the stop string are told as the caller spelled it, and usage in both of its forms.
func TestMessageEnds(t *testing.T) {
	plan := enginetest.Plan{Texts: []string{"one two three"}}
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return plan })
	for extra, want := range map[string]string{
		``: "end_turn ", `,"stop_sequences":["zzz","two"]`: "stop_sequence two", `,"max_tokens":1`: "max_tokens ",
	} {
		for _, streamed := range []bool{true, false} {
			_, body := k.post(t, "/v1/messages", ask+extra+fmt.Sprintf(`,"stream":%v}`, streamed))
			var m anthropicMessage
			if streamed {
				m = streamedMessage(t, body)
			} else {
				m = decode[anthropicMessage](t, body)
			}
			if got := deref(m.StopReason) + " " + deref(m.StopSequence); got != want || m.Usage.OutputTokens == 0 || m.Usage.InputTokens == 0 || m.Sluice == nil || m.Sluice.Receipt == "" || !strings.HasPrefix(m.ID, "msg_") {
				t.Errorf("%s, stream %v: %q, want %q: %s", extra, streamed, got, want, body)
			}
			if streamed && !strings.Contains(body[:strings.Index(body, "\n\n")], fmt.Sprintf(`"input_tokens":%d`, m.Usage.InputTokens)) {
				t.Errorf("the first event does not tell the prompt's length: %s", body)
			}
		}
	}
}

// TestCachedTokensAreCountedApart, unlike in OpenAI's usage, where they are part of the prompt's.
func TestCachedTokensAreCountedApart(t *testing.T) {
	m := newMasked(t, "observe")
	m.upstream.says(func(string) string {
		return stream(`{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":7}}}`)
	})
	_, body := m.post(t, "/v1/messages", ask+"}")
	if u := decode[anthropicMessage](t, body).Usage; u.InputTokens != 3 || u.CacheRead != 7 || u.OutputTokens != 2 || u.CacheCreation != 0 {
		t.Error(body)
	}
}

// TestParallelToolUse: blocks of calls come one after the other, whatever order their pieces come in.
func TestParallelToolUse(t *testing.T) {
	m := newMasked(t, "observe")
	part := func(i int, id, arguments string) string {
		return fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":%q,"function":{"name":"f%d","arguments":%q}}]}}]}`, i, id, i, arguments)
	}
	tools := `,"tools":[{"name":"f0","input_schema":{"type":"object"}},{"name":"f1","input_schema":{"type":"object"}}]}`
	m.upstream.says(func(string) string {
		return stream(`{"choices":[{"delta":{"content":"I call."}}]}`, part(0, "a", `{"x":`), part(1, "b", `{"y":2}`), part(0, "", `1}`), `{"choices":[{"delta":{"content":" Done."}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)
	})
	for _, streamed := range []string{`,"stream":true`, ""} {
		_, body := m.post(t, "/v1/messages", ask+streamed+tools)
		got := wholeMessage(t, body)[0]
		if len(got.Calls) != 2 || got.Calls[0].Function.Arguments != `{"x":1}` || got.Calls[1].Function.Arguments != `{"y":2}` || got.Content != "I call. Done." || got.Finish != "tool_calls" {
			t.Errorf("%+v: %s", got, body)
		}
	}
}

// TestLateThinking: what a model thinks while it speaks or calls breaks no block in two; it follows at the end.
func TestLateThinking(t *testing.T) {
	m := newMasked(t, "observe")
	m.upstream.says(func(string) string {
		return stream(`{"choices":[{"delta":{"reasoning_content":"Let me"}}]}`, `{"choices":[{"delta":{"content":"I "}}]}`, `{"choices":[{"delta":{"reasoning_content":" see."}}]}`, `{"choices":[{"delta":{"content":"call."}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]}`, `{"choices":[{"delta":{"reasoning_content":" Good."}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}`, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)
	})
	_, body := m.post(t, "/v1/messages", ask+`,"stream":true,"tools":[{"name":"f","input_schema":{"type":"object"}}]}`)
	var kinds []string
	for _, b := range streamedMessage(t, body).Content {
		kinds = append(kinds, b.Type)
	}
	if got := wholeMessage(t, body)[0]; strings.Join(kinds, " ") != "thinking text tool_use thinking" || len(got.Calls) != 1 || got.Content != "I call." || got.Reasoning != "Let me see. Good." {
		t.Errorf("%v, %+v: %s", kinds, got, body)
	}
}

// TestManyTurns: the memory that a conversation of many short turns takes grows with it, and no faster.
func TestManyTurns(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"model":"chat","max_tokens":9,"messages":[`)
	for range 50_000 {
		b.WriteString(`{"role":"user","content":"some words of a turn"},`)
	}
	b.WriteString(`{"role":"user","content":"end"}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := parse(b.String(), 64)
	if err != nil {
		t.Fatal(err)
	}
	c := &gateway.Call{}
	if _, err := messageCall(f, 1, c); err != nil || len(c.Messages) != 1 || len(c.Messages[0].Content) != 50_000*21+3 {
		t.Fatalf("%d messages, %v", len(c.Messages), err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
		t.Errorf("%d MiB for a body of %d", used>>20, b.Len()>>20)
	}
}

// TestFailingMessages: what fails before the first event has a status; later there is an error event, and no end.
func TestFailingMessages(t *testing.T) {
	plan := enginetest.Plan{Err: fault.New(fault.CodeEngineOverloaded, "chat").WithRetryAfter(2 * time.Second)}
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return plan })
	resp, body := k.post(t, "/v1/messages", ask+`,"stream":true}`)
	if e := decode[anthropicError](t, body); resp.StatusCode != statusOverloaded || e.Error.Type != "overloaded_error" || resp.Header.Get("Retry-After") != "2" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	plan = enginetest.Plan{Texts: []string{"one two three four"}, Err: fault.New(fault.CodeUpstreamFailed, "chat"), FailAt: 2}
	resp, body = k.post(t, "/v1/messages", ask+`,"stream":true}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "event: error\ndata: {\"type\":\"error\"") || strings.Contains(body, "message_stop") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestAnthropicLimits: the headers of the dialect stand beside ours.
func TestAnthropicLimits(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, _ := k.post(t, "/v1/messages", ask+"}")
	h := resp.Header
	if h.Get("Anthropic-Ratelimit-Requests-Limit") != h.Get("X-Ratelimit-Limit-Requests") || h.Get("Anthropic-Ratelimit-Tokens-Remaining") != h.Get("X-Ratelimit-Remaining-Tokens") {
		t.Errorf("%v", h)
	}
	if at, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-Tokens-Reset")); err != nil || time.Until(at) < -time.Second {
		t.Errorf("%v, %v", at, err)
	}
	if resp, _ := k.post(t, "/v1/chat/completions", hello+"}"); resp.Header.Get("Anthropic-Ratelimit-Requests-Limit") != "" || resp.Header.Get("Request-Id") != "" {
		t.Errorf("%v", resp.Header)
	}
}

// TestPolicyOfUrgency: a request that says nothing of its class is an ordinary one, in every dialect, and no more urgent than the policy allows.
func TestPolicyOfUrgency(t *testing.T) {
	m := newMasked(t, "observe")
	if _, err := m.guard.Publish(t.Context(), governance.EveryTenant, []byte(policyFor("observe")+"urgency: batch\n"), "test"); err != nil {
		t.Fatal(err)
	}
	m.upstream.says(func(string) string { return stream(`{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`) })
	for path, body := range map[string]string{
		"/v1/messages": ask + "}", "/v1/responses": `{"model":"chat","input":"x"}`, "/v1/chat/completions": hello + "}", "/api/chat": `{"model":"chat","stream":false,"messages":[{"role":"user","content":"x"}]}`,
		"/v1/messages/count_tokens": `{"model":"chat","messages":[{"role":"user","content":"x"}]}`,
	} {
		if resp, got := m.post(t, path, body); resp.StatusCode != http.StatusOK || m.last().Detail["class"] != "batch" {
			t.Errorf("%s: %d %s, class %q", path, resp.StatusCode, got, m.last().Detail["class"])
		}
	}
}
