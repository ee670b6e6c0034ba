package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

// readResponse is a response as a client reads it.
type readResponse struct {
	ID, Object, Status string
	Model              string
	Error              *responseError
	Incomplete         *incompleteDetails `json:"incomplete_details"`
	Output             []readItem
	Usage              *responseUsage
	Sluice             *extension
	Instructions       *string
	Tools              []any
	ToolChoice         any `json:"tool_choice"`
	Text               map[string]any
	Metadata           map[string]string
}

type readItem struct {
	Type, ID, Status, Role, Name, Arguments string
	CallID                                  string `json:"call_id"`
	Content                                 []readPart
}

type readPart struct {
	Type, Text, Refusal string
	Annotations         []any
	Logprobs            []openai.TokenLogprob
}

// wholeResponse reads a response, streamed or not. Of a stream it checks the numbers and the order of events, which clients rely on.
func wholeResponse(t testing.TB, body string) []said {
	t.Helper()
	var r readResponse
	if strings.HasPrefix(body, "event: ") {
		r = streamedResponse(t, body)
	} else if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	out := said{Finish: map[string]string{"completed": "stop", "incomplete": "length"}[r.Status]}
	if r.Incomplete != nil && r.Incomplete.Reason == "content_filter" {
		out.Finish = "content_filter"
	}
	for _, it := range r.Output {
		for _, p := range it.Content {
			switch p.Type {
			case partText:
				out.Content += p.Text
				out.Logprobs = append(out.Logprobs, p.Logprobs...)
			case partRefusal:
				out.Refusal += p.Refusal
			case partReasoning:
				out.Reasoning += p.Text
			}
		}
		if it.Type == itemCall {
			out.Calls = append(out.Calls, openai.ToolCall{ID: it.CallID, Function: openai.FunctionCall{Name: it.Name, Arguments: openai.Arguments(it.Arguments)}})
		}
	}
	return []said{out}
}

// readEvent is an event as a client reads it.
type readEvent struct {
	Type                                  string
	Sequence                              int `json:"sequence_number"`
	Response                              *readResponse
	Output                                int    `json:"output_index"`
	Content                               int    `json:"content_index"`
	ItemID                                string `json:"item_id"`
	Item                                  *readItem
	Part                                  *readPart
	Delta, Text, Refusal, Arguments, Name string
}

// streamedResponse is the response of the last event. What the events before have said must be what it says.
func streamedResponse(t testing.TB, body string) readResponse {
	t.Helper()
	var items []readItem
	var texts []map[int]string // of items, by part
	var last readEvent
	for n, block := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		var ev readEvent
		if err := json.Unmarshal([]byte(data), &ev); !ok || err != nil || ev.Type != name || ev.Sequence != n {
			t.Fatalf("%v in event %d: %s", err, n, block)
		}
		if first := map[int]string{0: "response.created", 1: "response.in_progress"}[n]; first != "" && first != name || last.Response != nil && n > 2 {
			t.Fatalf("event %d is %s, after %s", n, name, last.Type)
		}
		last = ev
		switch {
		case name == "response.output_item.added":
			if ev.Output != len(items) || ev.Item.Status == statusCompleted || len(ev.Item.Content) > 0 || ev.Item.Arguments != "" {
				t.Fatal(block)
			}
			items, texts = append(items, *ev.Item), append(texts, map[int]string{})
			continue
		case ev.Response != nil:
			continue
		case ev.Output >= len(items) || ev.ItemID != "" && ev.ItemID != items[ev.Output].ID:
			t.Fatalf("an item that has not begun: %s", block)
		}
		it, said := &items[ev.Output], texts[ev.Output]
		switch {
		case name == "response.content_part.added":
			if ev.Content != len(it.Content) || ev.Part.Text+ev.Part.Refusal != "" {
				t.Fatal(block)
			}
			it.Content = append(it.Content, *ev.Part)
		case strings.HasSuffix(name, ".delta"):
			if it.Type != itemCall && ev.Content >= len(it.Content) {
				t.Fatalf("a part that has not begun: %s", block)
			}
			said[ev.Content] += ev.Delta
		case name == "response.content_part.done":
			if ev.Part.Text+ev.Part.Refusal != said[ev.Content] {
				t.Fatalf("the pieces said %q: %s", said[ev.Content], block)
			}
		case name == "response.output_item.done":
			items[ev.Output] = *ev.Item
		case strings.HasSuffix(name, ".done"):
			if ev.Text+ev.Refusal+ev.Arguments != said[ev.Content] {
				t.Fatalf("the pieces said %q: %s", said[ev.Content], block)
			}
		default:
			t.Fatalf("an event %s", block)
		}
	}
	if last.Response == nil || last.Type != "response."+last.Response.Status || !reflect.DeepEqual(items, last.Response.Output) && len(items) > 0 {
		t.Fatalf("the stream ends with %+v, its items were %+v", last, items)
	}
	return *last.Response
}

// TestInputOfResponses: every form of input, in its order, is what the engine is asked, and the response repeats what was asked.
func TestInputOfResponses(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, body := k.post(t, "/v1/responses", `{"model":"chat","instructions":"be kind","max_output_tokens":7,"temperature":0.5,"top_p":0.25,"user":"u1","metadata":{"a":"b"},
		"reasoning":{"effort":"low","summary":"auto"},"truncation":"disabled","include":["reasoning.encrypted_content"],"store":false,"text":{"verbosity":"low","format":{"type":"text"}},
		"tools":[{"type":"function","name":"g","description":"d","parameters":{"type":"object"},"strict":true}],"tool_choice":{"type":"function","name":"g"},"parallel_tool_calls":false,
		"input":[{"role":"developer","content":"dev"},{"role":"user","content":[{"type":"input_text","text":"one"},{"type":"input_text","text":"two"}]},
			{"type":"reasoning","id":"rs_1","summary":[]},
			{"type":"message","id":"m","status":"completed","role":"assistant","content":[{"type":"output_text","text":"three","annotations":[]},{"type":"refusal","refusal":"no"}]},
			{"type":"function_call","id":"fc_1","call_id":"c1","name":"g","arguments":"{\"a\": 1}"},{"type":"function_call","call_id":"c2","name":"g","arguments":""},
			{"type":"function_call_output","call_id":"c1","output":"r"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"s"}]},{"role":"user","content":"four"}]}`)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	got := k.engine.Requests()[0]
	want := []engine.Message{
		{Role: "system", Content: "be kind"},
		{Role: "system", Content: "dev"},
		{Role: "user", Content: "one\ntwo"},
		{Role: "assistant", Content: "three\nno", ToolCalls: []engine.ToolCall{{ID: "c1", Name: "g", Arguments: `{"a": 1}`}, {ID: "c2", Name: "g", Arguments: "{}"}}},
		{Role: "tool", Content: "r", ToolCallID: "c1"},
		{Role: "tool", Content: "s", ToolCallID: "c2"},
		{Role: "user", Content: "four"},
	}
	if !reflect.DeepEqual(got.Messages, want) {
		t.Errorf("messages %+v", got.Messages)
	}
	if got.MaxTokens != 7 || got.Temperature != 0.5 || got.TopP != 0.25 || len(got.Tools) != 1 || !got.Tools[0].Strict || got.ToolChoice != (engine.ToolChoice{Mode: engine.ToolFunction, Name: "g"}) || got.ParallelTools {
		t.Errorf("%+v", got)
	}
	if e := k.last(); e.Dialect != "openai" || e.Route != "POST /v1/responses" || e.Actor.OnBehalfOf == "" {
		t.Errorf("recorded %+v", e)
	}
	r := decode[readResponse](t, body)
	if r.Object != "response" || !strings.HasPrefix(r.ID, "resp_") || deref(r.Instructions) != "be kind" || len(r.Tools) != 1 || r.Metadata["a"] != "b" || r.Text["verbosity"] != "low" {
		t.Error(body)
	}
	resp, body = k.post(t, "/v1/responses", `{"model":"chat","input":"hi"}`)
	if got := k.engine.Requests()[1].Messages; resp.StatusCode != 200 || len(got) != 1 || got[0].Content != "hi" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for _, member := range []string{`"tools":[]`, `"tool_choice":"auto"`, `"parallel_tool_calls":true`, `"instructions":null`, `"metadata":{}`, `"error":null`, `"incomplete_details":null`} {
		if !strings.Contains(body, member) {
			t.Errorf("%s is missing in %s", member, body)
		}
	}
}

// TestResponsesRefuseByName: what cannot be honoured, and what is wrong, is named.
func TestResponsesRefuseByName(t *testing.T) {
	k := newKit(t, Config{}, nil)
	input := func(items string) string { return `{"model":"chat","input":[` + items + `]}` }
	const ask = `{"model":"chat","input":"hi"`
	for body, want := range map[string]string{
		`{"model":"chat"}`:                                                                "missing_required_parameter input",
		`{"model":"chat","input":""}`:                                                     "invalid_value input",
		`{"model":"chat","input":[]}`:                                                     "invalid_value input",
		`{"model":"chat","input":7}`:                                                      "invalid_type input",
		input(`{"role":"tool","content":"x"}`):                                            "invalid_value input[0].role",
		input(`{"role":"user"}`):                                                          "missing_required_parameter input[0].content",
		input(`{"role":"user","content":[{"type":"input_image"}]}`):                       "unsupported_parameter input[0].content[0].type",
		input(`{"role":"user","content":[{"type":"input_file"}]}`):                        "unsupported_parameter input[0].content[0].type",
		input(`{"type":"item_reference","id":"x"}`):                                       "unsupported_parameter input[0].type",
		input(`{"type":"function_call","call_id":"c","name":"f"}`):                        "missing_required_parameter input[0].arguments",
		input(`{"type":"function_call","call_id":"c","name":"f","arguments":"["}`):        "invalid_value input[0].arguments",
		input(`{"type":"function_call_output","output":"x"}`):                             "missing_required_parameter input[0].call_id",
		ask + `,"tools":[{"type":"web_search"}]}`:                                         "unsupported_parameter tools[0].type",
		ask + `,"tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}]}`: "invalid_value tools[1].name",
		ask + `,"tool_choice":"required"}`:                                                "invalid_value tool_choice",
		ask + `,"tool_choice":{"type":"function","name":"f"}}`:                            "invalid_value tool_choice.name",
		ask + `,"tool_choice":{"type":"web_search"}}`:                                     "unsupported_parameter tool_choice.type",
		ask + `,"text":{"format":{"type":"xml"}}}`:                                        "invalid_value text.format.type",
		ask + `,"text":{"format":{"type":"json_schema","name":"n"}}}`:                     "missing_required_parameter text.format.schema",
		ask + `,"background":true}`:                                                       "unsupported_parameter background",
		ask + `,"truncation":"auto"}`:                                                     "unsupported_parameter truncation",
		ask + `,"conversation":"c"}`:                                                      "unsupported_parameter conversation",
		ask + `,"max_output_tokens":0}`:                                                   "invalid_value max_output_tokens",
		ask + `,"top_logprobs":21}`:                                                       "invalid_value top_logprobs",
		ask + `,"service_tier":"gold"}`:                                                   "invalid_value service_tier",
		`{"model":"nope","input":"x"}`:                                                    "model_not_found model",
	} {
		resp, got := k.post(t, "/v1/responses", body)
		e := decode[openai.ErrorBody](t, got).Error
		if have := fmt.Sprintf("%s %s", e.Code, deref(e.Param)); have != want || resp.StatusCode/100 != 4 {
			t.Errorf("%s: %d %s, want %s", body, resp.StatusCode, got, want)
		}
	}
}

// TestResponseEnds: how a response ended, what it used and what else is told, streamed or not.
func TestResponseEnds(t *testing.T) {
	plan := enginetest.Plan{Texts: []string{"one two three"}}
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return plan })
	for extra, want := range map[string]string{``: "completed ", `,"max_output_tokens":1`: "incomplete max_output_tokens"} {
		for _, streamed := range []bool{true, false} {
			_, body := k.post(t, "/v1/responses", `{"model":"chat","input":"hi"`+extra+fmt.Sprintf(`,"stream":%v}`, streamed))
			var r readResponse
			if streamed {
				r = streamedResponse(t, body)
			} else {
				r = decode[readResponse](t, body)
			}
			reason := ""
			if r.Incomplete != nil {
				reason = r.Incomplete.Reason
			}
			if got := r.Status + " " + reason; got != want || r.Usage.OutputTokens == 0 || r.Usage.InputTokens == 0 || r.Usage.TotalTokens != r.Usage.InputTokens+r.Usage.OutputTokens || r.Sluice.Receipt == "" || r.Output[0].Status != r.Status {
				t.Errorf("%s, stream %v: %q, want %q: %s", extra, streamed, got, want, body)
			}
		}
	}
	_, body := k.post(t, "/v1/responses/input_tokens", `{"model":"chat","input":"hi","instructions":"one two three"}`)
	_, asked := k.post(t, "/v1/responses", `{"model":"chat","input":"hi","instructions":"one two three"}`)
	var count struct {
		Object string
		Tokens int `json:"input_tokens"`
	}
	if err := json.Unmarshal([]byte(body), &count); err != nil || count.Object != "response.input_tokens" || count.Tokens == 0 || count.Tokens != decode[readResponse](t, asked).Usage.InputTokens {
		t.Errorf("%s, %s", body, asked)
	}
}

// TestItemsOfResponses: what a model thought, said, refused and called are items of their own, with pieces in any order.
func TestItemsOfResponses(t *testing.T) {
	m := newMasked(t, "observe")
	part := func(i int, id, arguments string) string {
		return fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":%q,"function":{"name":"f%d","arguments":%q}}]}}]}`, i, id, i, arguments)
	}
	m.upstream.says(func(string) string {
		return stream(`{"choices":[{"delta":{"reasoning_content":"Let me"}}]}`, `{"choices":[{"delta":{"reasoning_content":" see."}}]}`, `{"choices":[{"delta":{"content":"I call."}}]}`,
			part(0, "a", `{"x":`), part(1, "b", `{"y":2}`), part(0, "", `1}`), `{"choices":[{"delta":{"content":" Done."}}]}`, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)
	})
	for _, streamed := range []string{`,"stream":true`, ""} {
		_, body := m.post(t, "/v1/responses", `{"model":"chat","input":"hi","tools":[{"type":"function","name":"f0","parameters":{"type":"object"}},{"type":"function","name":"f1","parameters":{"type":"object"}}]`+streamed+`}`)
		got := wholeResponse(t, body)[0]
		if len(got.Calls) != 2 || got.Calls[0].Function.Arguments != `{"x":1}` || got.Calls[1].Function.Arguments != `{"y":2}` || got.Content != "I call. Done." || got.Reasoning != "Let me see." {
			t.Errorf("%+v: %s", got, body)
		}
	}
}

// TestFailingResponses: what fails before the first event has a status; later the response is failed, with what there was.
func TestFailingResponses(t *testing.T) {
	plan := enginetest.Plan{Err: fault.New(fault.CodeEngineOverloaded, "chat").WithRetryAfter(2 * time.Second)}
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return plan })
	resp, body := k.post(t, "/v1/responses", `{"model":"chat","input":"hi","stream":true}`)
	if e := decode[openai.ErrorBody](t, body).Error; resp.StatusCode != http.StatusServiceUnavailable || e.Code != "engine_overloaded" || resp.Header.Get("Retry-After") != "2" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	plan = enginetest.Plan{Texts: []string{"one two three four"}, Err: fault.New(fault.CodeUpstreamFailed, "chat"), FailAt: 2}
	resp, body = k.post(t, "/v1/responses", `{"model":"chat","input":"hi","stream":true}`)
	last := body[strings.LastIndex(strings.TrimSuffix(body, "\n\n"), "\n\n"):]
	if resp.StatusCode != http.StatusOK || !strings.Contains(last, "event: response.failed") || !strings.Contains(last, `"code":"upstream_failed"`) || !strings.Contains(last, `"status":"failed"`) || strings.Contains(body, "[DONE]") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	hold := make(chan struct{})
	plan = enginetest.Plan{Start: hold, Err: fault.New(fault.CodeUpstreamFailed, "chat")}
	slow := newKit(t, Config{KeepAlive: time.Millisecond}, func(int, *engine.Request) enginetest.Plan { return plan })
	silent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, slow.URL+"/v1/responses", strings.NewReader(`{"model":"chat","input":"hi","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	silent.Header.Set("Authorization", "Bearer "+goodKey)
	answer, err := http.DefaultClient.Do(silent) // a comment has come
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	close(hold)
	all, _ := io.ReadAll(answer.Body)
	var kinds []string
	for _, m := range regexp.MustCompile(`event: (\S+)`).FindAllStringSubmatch(string(all), -1) {
		kinds = append(kinds, m[1])
	}
	if strings.Join(kinds, " ") != "response.created response.in_progress response.failed" {
		t.Errorf("%s", all)
	}
	if e := k.last(); e.Outcome != "failed" || e.Action != string(gateway.ActionChat) {
		t.Errorf("%+v", e)
	}
}
