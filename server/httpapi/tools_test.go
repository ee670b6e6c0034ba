package httpapi

import (
	"encoding/json"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestDecode: what each body asks for, as the pipeline gets it.
func TestDecode(t *testing.T) {
	f64 := func(v float64) *float64 { return &v }
	num := func(v int) *int { return &v }
	const schema = `{"type":"object","properties":{"a":{"type":"string"}}}`
	type change = func(c *gateway.Call)
	chat := func(extra string) string { return hello + "," + extra + "}" }
	for name, c := range map[string]struct {
		body string
		want change
	}{
		"nothing":     {hello + "}", func(*gateway.Call) {}},
		"json_object": {chat(`"response_format":{"type":"json_object"}`), func(c *gateway.Call) { c.Format, c.FormatField = &engine.Format{JSONObject: true}, "response_format" }},
		"json_schema": {chat(`"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":` + schema + `}}`), func(c *gateway.Call) {
			c.Format, c.FormatField = &engine.Format{JSONSchema: json.RawMessage(schema)}, "response_format"
		}},
		"guided_json": {chat(`"guided_json":` + schema), func(c *gateway.Call) {
			c.Format, c.FormatField = &engine.Format{JSONSchema: json.RawMessage(schema)}, "guided_json"
		}},
		"guided_json, text": {chat(`"guided_json":"{\"a\":1}"`), func(c *gateway.Call) {
			c.Format, c.FormatField = &engine.Format{JSONSchema: json.RawMessage(`{"a":1}`)}, "guided_json"
		}},
		"guided_regex": {chat(`"guided_regex":"a+"`), func(c *gateway.Call) { c.Format, c.FormatField = &engine.Format{Regex: "a+"}, "guided_regex" }},
		"guided_choice": {chat(`"guided_choice":["a","b"]`), func(c *gateway.Call) {
			c.Format, c.FormatField = &engine.Format{Choice: []string{"a", "b"}}, "guided_choice"
		}},
		"guided_grammar": {chat(`"guided_grammar":"root ::= \"a\""`), func(c *gateway.Call) {
			c.Format, c.FormatField = &engine.Format{GBNF: `root ::= "a"`}, "guided_grammar"
		}},
		"grammar": {chat(`"grammar":"root ::= \"a\""`), func(c *gateway.Call) { c.Format, c.FormatField = &engine.Format{GBNF: `root ::= "a"`}, "grammar" }},
		"structured_outputs": {chat(`"structured_outputs":{"regex":"a","json":null}`), func(c *gateway.Call) {
			c.Format, c.FormatField = &engine.Format{Regex: "a"}, "structured_outputs.regex"
		}},
		"sampling": {chat(`"top_k":3,"min_p":0.1,"repetition_penalty":1.2,"frequency_penalty":-0.3,"presence_penalty":0.4,"logit_bias":{"7":-100,"8":2.5},"min_tokens":2,"max_tokens":9,"temperature":0.5`), func(c *gateway.Call) {
			c.Sampling = gateway.Sampling{TopK: 3, MinP: .1, RepetitionPenalty: 1.2, FrequencyPenalty: -.3, PresencePenalty: .4, LogitBias: map[int32]float64{7: -100, 8: 2.5}, MinTokens: 2}
			c.MaxTokens, c.Temperature = num(9), f64(.5)
		}},
		"tools": {chat(`"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":` + schema + `,"strict":true}},{"type":"function","function":{"name":"g-2_X"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`), func(c *gateway.Call) {
			c.Tools = []engine.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(schema), Strict: true}, {Name: "g-2_X"}}
			c.ToolChoice, c.ParallelTools = engine.ToolChoice{Mode: engine.ToolFunction, Name: "f"}, false
		}},
		"required": {chat(`"tools":[{"type":"function","function":{"name":"f","parameters":null}}],"tool_choice":"required"`), func(c *gateway.Call) {
			c.Tools, c.ToolChoice = []engine.Tool{{Name: "f"}}, engine.ToolChoice{Mode: engine.ToolRequired}
		}},
		"none":         {chat(`"tool_choice":"none"`), func(c *gateway.Call) { c.ToolChoice.Mode = engine.ToolNone }},
		"streaming":    {chat(`"stream":true`), func(c *gateway.Call) { c.Class = engine.ClassStandard }},
		"tier auto":    {chat(`"stream":true,"service_tier":"auto"`), func(c *gateway.Call) { c.Class = engine.ClassStandard }},
		"tier default": {chat(`"stream":true,"service_tier":"default"`), func(*gateway.Call) {}},
		"tier prio":    {chat(`"service_tier":"priority","priority":-7`), func(c *gateway.Call) { c.Class, c.Priority = engine.ClassInteractive, -7 }},
		"tier flex":    {chat(`"service_tier":"flex","stream":true`), func(c *gateway.Call) { c.Class = engine.ClassBatch }},
		"history": {`{"model":"chat","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"c1","content":"r"}]}`, func(c *gateway.Call) {
			c.Messages = []engine.Message{
				{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "f", Arguments: "{}"}}},
				{Role: "tool", ToolCallID: "c1", Content: "r"},
			}
		}},
	} {
		f, err := parse(c.body, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := &gateway.Call{Logprobs: -1}
		if _, err := chatCall(f, 16, got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := &gateway.Call{
			Model: "chat", Messages: []engine.Message{{Role: "user", Content: "hello there"}}, Logprobs: -1, ParallelTools: true,
			Class: engine.ClassStandard,
		}
		c.want(want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

// TestStatedGrades: of several headers the highest grade holds, as where a proxy adds its own to the client's, and one that nobody knows is refused.
func TestStatedGrades(t *testing.T) {
	for want, headers := range map[string][]string{
		"": nil, "L4": {"L1", "L4"}, "L3": {"L3", "", "L2"}, "refused": {"L1", "L5"}, "Refused": {"L1, L4"},
	} {
		var c gateway.Call
		err := dataGradeHeader(headers, &c)
		if refused := strings.ToLower(want) == "refused"; refused != fault.Is(err, fault.CodeInvalidValue) || !refused && c.DataGrade.String() != want {
			t.Errorf("%q: %s, %v", headers, c.DataGrade, err)
		}
	}
	k := newKit(t, Config{}, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.URL+"/v1/chat/completions", strings.NewReader(hello+"}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + goodKey}, headerDataGrade: {"L1", "L5"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("the second header is not read: %d", resp.StatusCode)
	}
}

func TestUrgencyHeaders(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for _, h := range [][]string{
		{headerClass, "urgent"},
		{headerFirstTokenTimeout, "0"},
		{headerFirstTokenTimeout, "soon"},
		{headerFirstTokenTimeout, "3600001"},
		{headerDataGrade, "L5"},
		{headerDataGrade, "l3"},
		{headerDataGrade, "0"},
	} {
		for _, lang := range []string{"en", "zh"} {
			if resp, body := k.post(t, "/v1/chat/completions", hello+"}", h[0], h[1], "Accept-Language", lang); resp.StatusCode != 400 || !strings.Contains(body, `"param":"`+h[0]+`"`) {
				t.Errorf("%v: %d %s", h, resp.StatusCode, body)
			}
		}
	}
	began := time.Now()
	if resp, body := k.post(t, "/v1/chat/completions", hello+`,"service_tier":"priority"}`, headerClass, "batch", headerFirstTokenTimeout, "60000"); resp.StatusCode != 200 || !strings.Contains(body, `"service_tier":"flex"`) {
		t.Fatal(body)
	}
	if _, body := k.post(t, "/v1/chat/completions", hello+`,"service_tier":"priority","stream":true}`); strings.Count(body, `"service_tier":"priority"`) < 2 {
		t.Error(body)
	}
	k.post(t, "/v1/embeddings", `{"model":"embed","input":"a","input_type":"query","dimensions":8}`, headerClass, "batch")
	q, in := k.engine.Requests()[0], k.engine.Inputs()[0]
	if q.Class != engine.ClassBatch || q.Deadline.Before(began.Add(time.Minute)) || q.Deadline.After(time.Now().Add(time.Minute)) || q.Tenant != "acme" || q.ID == "" {
		t.Errorf("%+v", q)
	}
	if in.Class != engine.ClassBatch || in.Role != engine.RoleQuery || in.Dimensions != 8 || in.Tenant != "acme" {
		t.Errorf("%+v", in)
	}
}

const withTools = `{"model":"chat","messages":[{"role":"user","content":"SECRET1"}],"tools":[{"type":"function","function":{"name":"send"}}]`

// TestToolAnswers: the whole answer has the dialect's form, and its stream tells the same.
func TestToolAnswers(t *testing.T) {
	for name, plan := range map[string]enginetest.Plan{
		"calls alone":   {Calls: [][]engine.ToolCall{{{ID: "call_1", Name: "send", Arguments: `{"to":"⟦1⟧"}`}, {ID: "call_2", Name: "send", Arguments: `{}`}}}},
		"text first":    {Texts: []string{"One moment, ⟦1⟧."}, Calls: [][]engine.ToolCall{{{ID: "call_1", Name: "send", Arguments: `{"to":["⟦1⟧"]}`}}}},
		"small pieces":  {Calls: [][]engine.ToolCall{{{ID: "call_1", Name: "send", Arguments: `{"to":"⟦1⟧","n":1}`}}}, Pieces: []int{1}},
		"no call after": {Texts: []string{"none"}},
	} {
		k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return plan })
		_, body := k.post(t, "/v1/chat/completions", withTools+"}")
		whole := decode[map[string]any](t, body)["choices"].([]any)[0].(map[string]any)
		msg := whole["message"].(map[string]any)
		if len(plan.Calls) > 0 {
			first := msg["tool_calls"].([]any)[0].(map[string]any)
			if whole["finish_reason"] != "tool_calls" || first["id"] != "call_1" || first["type"] != "function" || first["function"].(map[string]any)["name"] != "send" ||
				!strings.Contains(first["function"].(map[string]any)["arguments"].(string), "SECRET1") {
				t.Errorf("%s: %s", name, body)
			}
			if _, has := first["index"]; has {
				t.Errorf("%s: an index belongs to streams: %s", name, body)
			}
			if content, has := msg["content"]; !has || (content == nil) != (plan.Texts == nil) {
				t.Errorf("%s: content %v", name, content)
			}
		} else if _, has := msg["tool_calls"]; has || msg["content"] != "none" {
			t.Errorf("%s: %s", name, body)
		}
		_, stream := k.post(t, "/v1/chat/completions", withTools+`,"stream":true}`)
		got, finish := joined(t, stream)
		want := openai.AnswerMessage{}
		j, _ := json.Marshal(msg)
		if err := json.Unmarshal(j, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) || finish != whole["finish_reason"] {
			g, _ := json.Marshal(got)
			t.Errorf("%s: streamed %s (%s), whole %s", name, g, finish, j)
		}
	}
}

// joined puts a stream together as clients do.
func joined(t *testing.T, stream string) (m openai.AnswerMessage, finish string) {
	t.Helper()
	for i, ev := range events(t, stream) {
		if ev == openai.Done {
			continue
		}
		c := decode[openai.ChatChunk](t, ev).Choices[0]
		if i == 0 && (c.Delta.Role != "assistant" || !strings.Contains(ev, `"content":`)) {
			t.Errorf("the first delta: %s", ev)
		}
		if c.Delta.Role != "" {
			m.Role = c.Delta.Role
		}
		if c.Delta.Content != nil {
			if m.Content == nil {
				m.Content = new(string)
			}
			*m.Content += *c.Delta.Content
		}
		for _, d := range c.Delta.ToolCalls {
			if *d.Index == len(m.ToolCalls) {
				if d.ID == "" || d.Type != "function" || d.Function.Name == "" {
					t.Errorf("the first part of a call: %s", ev)
				}
				first := d
				first.Index = nil
				m.ToolCalls = append(m.ToolCalls, first)
				continue
			}
			if d.ID != "" || d.Type != "" || d.Function.Name != "" {
				t.Errorf("a later part of a call: %s", ev)
			}
			m.ToolCalls[*d.Index].Function.Arguments += d.Function.Arguments
		}
		if c.FinishReason != nil {
			finish = *c.FinishReason
		}
	}
	return m, finish
}

func TestEcho(t *testing.T) {
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"ghi"}} })
	const body = `{"model":"chat","prompt":"abcdef","echo":true,"logprobs":1`
	_, whole := k.post(t, "/v1/completions", body+"}")
	c := decode[openai.Completion](t, whole).Choices[0]
	if c.Text != "abcdefghi" || len(c.Logprobs.Tokens) != 3 || c.Logprobs.TokenLogprobs[0] != nil || c.Logprobs.TopLogprobs[0] != nil ||
		c.Logprobs.TokenLogprobs[1] == nil || c.Logprobs.TextOffset[2] != 6 || !strings.Contains(whole, `"token_logprobs":[null,`) {
		t.Error(whole)
	}
	own := columns([]engine.TokenLogprob{{Token: "a", Logprob: -3, Top: []engine.TokenLogprob{{Token: "b", Logprob: -1}}}}, new(int))
	if top := own.TopLogprobs[0]; len(top) != 2 || top["a"] != -3 || top["b"] != -1 {
		t.Errorf("the token itself is not among the likeliest: %v", top)
	}
	_, stream := k.post(t, "/v1/completions", body+`,"stream":true}`)
	if !strings.Contains(stream, `"token_logprobs":[null]`) || strings.Contains(stream, "-9999") {
		t.Error(stream)
	}
	masked := `{"model":"chat","prompt":"SECRET1 x","echo":true}`
	if _, got := k.post(t, "/v1/completions", masked); decode[openai.Completion](t, got).Choices[0].Text != "SECRET1 xghi" {
		t.Error(got)
	}
}

func TestCachedTokens(t *testing.T) {
	j, err := json.Marshal(usageOf(engine.Usage{PromptTokens: 5, CachedTokens: 4}))
	if err != nil || !strings.Contains(string(j), `"prompt_tokens_details":{"cached_tokens":4}`) {
		t.Errorf("%s, %v", j, err)
	}
}

func TestRerank(t *testing.T) {
	k := newKit(t, Config{}, nil)
	body := `{"model":"rank","query":"abcdef","documents":["xyz","abc",{"text":"abcdef SECRET1"}],"top_n":2,"return_documents":true}`
	for _, path := range []string{"/v1/rerank", "/rerank"} {
		resp, got := k.post(t, path, body)
		r := decode[openai.Rerank](t, got)
		if resp.StatusCode != 200 || len(r.Results) != 2 || r.Results[0].Index != 2 || r.Results[0].Score != 1 || r.Results[1].Index != 1 || r.Results[1].Score != .5 ||
			string(r.Results[0].Document) != `{"text":"abcdef SECRET1"}` || r.Usage.TotalTokens == 0 || r.Model != "rank" || !strings.HasPrefix(r.ID, "rerank-") ||
			resp.Header.Get("X-Sluice-Receipt") == "" || !strings.Contains(got, `"findings":[{`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, q := range k.engine.Scores() {
		if strings.Contains(strings.Join(q.Documents, ""), "SECRET") {
			t.Errorf("%+v", q)
		}
	}
	if _, got := k.post(t, "/v1/rerank", `{"model":"rank","query":"a","documents":["a"]}`); strings.Contains(got, "document\"") {
		t.Error(got)
	}
	if e := k.last(); e.Action != "rerank" || e.Outcome != "ok" || e.Label != "" {
		t.Errorf("%+v", e)
	}
}

func TestScore(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for body, want := range map[string][]float64{
		`{"model":"rank","text_1":"abc","text_2":"abc"}`:                 {1},
		`{"model":"rank","text_1":"abc","text_2":["abc","x"]}`:           {1, 0},
		`{"model":"rank","text_1":["abc","xyz"],"text_2":["abc","abc"]}`: {1, 0},
	} {
		_, got := k.post(t, "/v1/score", body)
		r := decode[openai.ScoreList](t, got)
		if r.Object != "list" || len(r.Data) != len(want) || r.Usage.PromptTokens == 0 || r.Created == 0 {
			t.Fatalf("%s: %s", body, got)
		}
		for i, d := range r.Data {
			if d.Index != i || d.Object != "score" || math.Abs(d.Score-want[i]) > 1e-9 {
				t.Errorf("%s: %s", body, got)
			}
		}
	}
	k.fail["admit"] = http.ErrAbortHandler
	if resp, _ := k.post(t, "/v1/score", `{"model":"rank","text_1":"a","text_2":"b"}`); resp.StatusCode != 500 {
		t.Error(resp.StatusCode)
	}
}
