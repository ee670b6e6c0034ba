package httpapi

import (
	"encoding/json"
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

const ollamaHello = `{"model":"chat:latest","messages":[{"role":"user","content":"hello there"}]`

// ollamaLines are the lines of an answer: several of a stream, one of a whole answer.
func ollamaLines(t testing.TB, body string) []ollamaReply {
	t.Helper()
	var out []ollamaReply
	for line := range strings.Lines(body) {
		out = append(out, decode[ollamaReply](t, line))
	}
	return out
}

// wholeOllama reads an answer, streamed or not, as whole does.
func wholeOllama(t testing.TB, body string) []said {
	t.Helper()
	var out said
	for _, line := range ollamaLines(t, body) {
		out.Reasoning += line.Thinking
		out.Content += deref(line.Response)
		out.Finish += line.DoneReason
		out.Logprobs = append(out.Logprobs, line.Logprobs...)
		if line.Message == nil {
			continue
		}
		out.Content += line.Message.Content
		out.Reasoning += line.Message.Thinking
		for _, call := range line.Message.ToolCalls {
			var cut map[string]string
			if json.Unmarshal(call.Function.Arguments, &cut) == nil && cut["_incomplete_arguments"] != "" {
				call.Function.Arguments = json.RawMessage(cut["_incomplete_arguments"])
			}
			out.Calls = append(out.Calls, openai.ToolCall{ID: call.ID, Function: openai.FunctionCall{Name: call.Function.Name, Arguments: openai.Arguments(call.Function.Arguments)}})
		}
	}
	return []said{out}
}

// ollamaSurfaces are the places of Ollama's answers that hold text of the model's.
func ollamaSurfaces(call func(name string) func(text string) []string, tools string, argument func([]said) string) map[string]surface {
	content := func(all []said) string { return all[0].Content }
	thinking := func(all []said) string { return all[0].Reasoning }
	return map[string]surface{
		"ollama content":   {"/api/chat", "", choice(`"delta":{"content":%s}`), content},
		"ollama refusal":   {"/api/chat", "", choice(`"delta":{"refusal":%s}`), content},
		"ollama thinking":  {"/api/chat", "", choice(`"delta":{"reasoning_content":%s}`), thinking},
		"ollama arguments": {"/api/chat", tools, call("dial"), argument},
		"ollama response":  {"/api/generate", "", choice(`"delta":{"content":%s}`), content},
		"ollama thoughts":  {"/api/generate", "", choice(`"delta":{"reasoning_content":%s}`), thinking},
		"ollama raw":       {"/api/generate", `,"raw":true`, choice(`"text":%s`), content},
	}
}

// ollamaFields are requests of Ollama's with the value in each of their fields.
func ollamaFields(v string) map[string]struct{ path, body string } {
	const tool = `,"tools":[{"type":"function","function":{"name":"f","description":"`
	turns := func(turns string) string { return `{"messages":[` + turns + `]` }
	called := func(id, arguments string) string {
		return turns(`{"role":"assistant","tool_calls":[{` + id + `"function":{"name":"f","arguments":` + arguments + `}}]},{"role":"tool","content":"x"}`)
	}
	const x = `{"role":"user","content":"x"}`
	return map[string]struct{ path, body string }{
		"ollama content":     {"/api/chat", turns(`{"role":"user","content":"` + v + `"}`)},
		"ollama system":      {"/api/chat", turns(`{"role":"system","content":"` + v + `"},` + x)},
		"ollama arguments":   {"/api/chat", called("", `{"to":"`+v+`","n":`+v+`}`)},
		"ollama call id":     {"/api/chat", called(`"id":"`+v+`",`, `{}`)},
		"ollama result":      {"/api/chat", turns(`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_name":"f","content":"` + v + `"}`)},
		"ollama thinking":    {"/api/chat", turns(`{"role":"assistant","thinking":"` + v + `","content":"y"},` + x)},
		"ollama description": {"/api/chat", turns(x) + tool + v + `","parameters":{"type":"object","properties":{"a":{"enum":["` + v + `"]}}}}}]`},
		"ollama stop":        {"/api/chat", turns(x) + `,"options":{"stop":["` + v + `"]}`},
		"ollama schema":      {"/api/chat", turns(x) + `,"format":{"type":"object","properties":{"a":{"const":"` + v + `"}}}`},
		"ollama prompt":      {"/api/generate", `{"prompt":"` + v + `"`},
		"ollama raw prompt":  {"/api/generate", `{"prompt":"` + v + `","raw":true`},
		"ollama before it":   {"/api/generate", `{"prompt":"x","system":"` + v + `"`},
		"ollama input":       {"/api/embed", `{"input":["a ` + v + `","b"]`},
		"ollama one input":   {"/api/embed", `{"input":"` + v + `"`},
		"ollama embeddings":  {"/api/embeddings", `{"prompt":"` + v + `"`},
	}
}

// TestOllamaReplies: a stream, which is what a request gets that does not say, and a whole answer say the same, under the name that was asked for.
func TestOllamaReplies(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for path, body := range map[string]string{
		"/api/chat":     `{"model":"chat:latest","messages":[{"role":"user","content":"SECRET1 hello there"}],"logprobs":true`,
		"/api/generate": `{"model":"chat:latest","prompt":"SECRET1 hello there","keep_alive":"5m"`,
	} {
		resp, streamed := k.post(t, path, body+"}")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" || resp.Header.Get("X-Sluice-Receipt") == "" {
			t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, streamed)
		}
		lines := ollamaLines(t, streamed)
		if len(lines) < 3 {
			t.Errorf("%s: %d lines", path, len(lines))
		}
		_, one := k.post(t, path, body+`,"stream":false}`)
		whole := decode[ollamaReply](t, one)
		if got, want := wholeOllama(t, streamed), wholeOllama(t, one); !reflect.DeepEqual(got, want) || !strings.Contains(got[0].Content, "SECRET1") || got[0].Finish != "stop" {
			t.Errorf("%s: streamed %+v, whole %+v", path, got, want)
		}
		for i, line := range append(lines, whole) {
			last := i >= len(lines)-1
			if _, err := time.Parse(time.RFC3339Nano, line.CreatedAt); err != nil || line.Model != "chat:latest" || line.Done != last || (line.Sluice != nil) != last || (line.Total > 0) != last {
				t.Errorf("%s: %+v, %v", path, line, err)
			}
			if (line.Message != nil) != (path == "/api/chat") || (line.Response != nil) != (path == "/api/generate") {
				t.Errorf("%s: %+v", path, line)
			}
			if last && (line.Prompt == 0 || line.Eval == 0 || line.Sluice.Receipt == "" || len(line.Sluice.Findings) != 1) {
				t.Errorf("%s: %+v", path, line)
			}
		}
		if e := k.last(); e.Action != "chat.completions" || e.Outcome != "ok" || e.Dialect != "ollama" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	for _, q := range k.engine.Requests() {
		if len(q.Messages) != 1 || q.Messages[0].Content != "⟦1⟧ hello there" {
			t.Errorf("the engine was given %+v", q.Messages)
		}
	}
	k.post(t, "/api/generate", `{"model":"chat","raw":true,"prompt":"as it is"}`)
	if all := k.engine.Requests(); all[len(all)-1].Prompt != "as it is" || k.last().Action != "completions" {
		t.Errorf("%+v", all[len(all)-1])
	}
	for _, body := range []string{ollamaHello, `{"model":"chat","prompt":"hello"`} {
		path := map[bool]string{true: "/api/chat", false: "/api/generate"}[body == ollamaHello]
		if _, got := k.post(t, path, body+`,"rag":{"collection":"docs"},"stream":false}`); len(decode[ollamaReply](t, got).Sluice.Citations) != 1 {
			t.Errorf("%s with passages: %s", path, got)
		}
	}
	resp, body := k.post(t, "/api/chat", ollamaHello+`,"options":{"num_predict":1}}`)
	if got := wholeOllama(t, body); resp.StatusCode != http.StatusOK || got[0].Finish != "length" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestOllamaTools: calls leave as a whole, with arguments that are an object, and what a model has cut off says so.
func TestOllamaTools(t *testing.T) {
	const body = ollamaHello + `,"tools":[{"type":"function","function":{"name":"send","parameters":{"type":"object"}}}]`
	for name, plan := range map[string]enginetest.Plan{
		"calls alone":  {Calls: [][]engine.ToolCall{{{ID: "call_1", Name: "send", Arguments: `{"to":"⟦1⟧"}`}, {ID: "call_2", Name: "send", Arguments: `{}`}}}},
		"text first":   {Texts: []string{"One moment, ⟦1⟧."}, Calls: [][]engine.ToolCall{{{ID: "call_1", Name: "send", Arguments: `{"to":["⟦1⟧"]}`}}}},
		"small pieces": {Calls: [][]engine.ToolCall{{{ID: "call_1", Name: "send", Arguments: `{"to":"⟦1⟧","n":1}`}}}, Pieces: []int{1}},
	} {
		k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return plan })
		_, streamed := k.post(t, "/api/chat", body+"}")
		_, one := k.post(t, "/api/chat", body+`,"stream":false}`)
		got, want := wholeOllama(t, streamed)[0], wholeOllama(t, one)[0]
		if !reflect.DeepEqual(got, want) || len(got.Calls) != len(plan.Calls[0]) || !strings.Contains(string(got.Calls[0].Function.Arguments), "SECRET1") || got.Finish != "stop" || got.Calls[0].ID != "call_1" {
			t.Errorf("%s: streamed %+v, whole %+v", name, got, want)
		}
		lines := ollamaLines(t, streamed)
		if calls := lines[len(lines)-2].Message.ToolCalls; len(calls) != len(plan.Calls[0]) || calls[len(calls)-1].Function.Index != len(calls)-1 {
			t.Errorf("%s: the line before the last has %+v", name, calls)
		}
	}
	if got := ollamaCalls([]engine.ToolCall{{Name: "f", Arguments: `{"to":"b`}}); string(got[0].Function.Arguments) != `{"_incomplete_arguments":"{\"to\":\"b"}` {
		t.Errorf("%s", got[0].Function.Arguments)
	}
}

func TestOllamaDecode(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"}}}`
	f64 := func(v float64) *float64 { return &v }
	num := func(v int) *int { return &v }
	bits := func(v uint64) *uint64 { return &v }
	names := map[string]string{"repetition_penalty": "options.repeat_penalty", "top_k": "options.top_k", "min_p": "options.min_p", "frequency_penalty": "options.frequency_penalty", "presence_penalty": "options.presence_penalty"}
	for name, c := range map[string]struct {
		body   string
		want   func(c *gateway.Call)
		stream bool
	}{
		"nothing":    {ollamaHello + "}", func(*gateway.Call) {}, true},
		"not stream": {ollamaHello + `,"stream":false,"think":"high","keep_alive":-1,"format":"","truncate":true,"anything":1}`, func(*gateway.Call) {}, false},
		"json":       {ollamaHello + `,"format":"json"}`, func(c *gateway.Call) { c.Format, c.FormatField = &engine.Format{JSONObject: true}, "format" }, true},
		"schema": {ollamaHello + `,"format":` + schema + `}`, func(c *gateway.Call) {
			c.Format, c.FormatField = &engine.Format{JSONSchema: json.RawMessage(schema)}, "format"
		}, true},
		"logprobs": {ollamaHello + `,"logprobs":true,"top_logprobs":3}`, func(c *gateway.Call) { c.Logprobs = 3 }, true},
		"options": {ollamaHello + `,"options":{"num_predict":9,"temperature":0.5,"top_k":3,"top_p":0,"min_p":0.1,"seed":7,"stop":["a","b"],"repeat_penalty":1.2,"frequency_penalty":-0.3,"presence_penalty":0.4,"num_ctx":4096,"mirostat":1,"use_mmap":true}}`, func(c *gateway.Call) {
			c.Sampling = gateway.Sampling{TopK: 3, MinP: .1, RepetitionPenalty: 1.2, FrequencyPenalty: -.3, PresencePenalty: .4}
			c.MaxTokens, c.Temperature, c.TopP, c.Seed, c.Stop, c.FieldNames = num(9), f64(.5), f64(1e-9), bits(7), []string{"a", "b"}, names
		}, true},
		"no limits": {ollamaHello + `,"options":{"num_predict":-1,"seed":-1,"top_k":0,"stop":"a"}}`, func(c *gateway.Call) { c.Stop, c.FieldNames = []string{"a"}, names }, true},
		"calls and results": {`{"model":"chat:latest","messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"id":"x","function":{"name":"g","arguments":null}},{"function":{"name":"f"}}]},
			{"role":"tool","tool_name":"f","content":"1"},{"role":"tool","tool_call_id":"x","content":"2"},{"role":"tool","content":"3"}]}`, func(c *gateway.Call) {
			c.Messages = []engine.Message{
				{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "call_0", Name: "f", Arguments: `{"a":1}`}, {ID: "x", Name: "g", Arguments: "{}"}, {ID: "call_2", Name: "f", Arguments: "{}"}}},
				{Role: "tool", ToolCallID: "call_0", Content: "1"},
				{Role: "tool", ToolCallID: "x", Content: "2"},
				{Role: "tool", ToolCallID: "call_2", Content: "3"},
			}
		}, true},
		"tools": {ollamaHello + `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":` + schema + `}}]}`, func(c *gateway.Call) {
			c.Tools = []engine.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(schema)}}
		}, true},
	} {
		f, err := parse(c.body, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := &gateway.Call{Logprobs: -1}
		opt := ollamaChatCall(f, got)
		want := &gateway.Call{
			Model: "chat:latest", Messages: []engine.Message{{Role: "user", Content: "hello there"}}, Logprobs: -1, ParallelTools: true,
		}
		c.want(want)
		if f.err != nil || !reflect.DeepEqual(got, want) || opt.stream != c.stream {
			t.Errorf("%s: %v, %+v\n got %+v\nwant %+v", name, f.err, opt, got, want)
		}
	}
	f, err := parse(`{"model":"m","system":"be kind","prompt":"hello","context":[],"template":"","suffix":"","images":[]}`, 64)
	if err != nil {
		t.Fatal(err)
	}
	got := &gateway.Call{}
	ollamaGenerateCall(f, got)
	if want := []engine.Message{{Role: "system", Content: "be kind"}, {Role: "user", Content: "hello"}}; f.err != nil || !reflect.DeepEqual(got.Messages, want) || !reflect.DeepEqual(got.Places, []string{"system", "prompt"}) {
		t.Errorf("%v, %+v", f.err, got)
	}
}

// TestOllamaRefusals: what cannot be honoured is refused by its name in this dialect, in its shape and in both languages, and no engine is asked.
func TestOllamaRefusals(t *testing.T) {
	k := newKit(t, Config{}, nil)
	msg := func(m string) string { return `{"model":"chat","messages":[` + m + `]}` }
	with := func(more string) string { return ollamaHello + "," + more + "}" }
	for name, c := range map[string]struct {
		path, body  string
		status      int
		code, param string
	}{
		"no model":           {"/api/chat", `{"messages":[{"role":"user","content":"x"}]}`, 400, "missing_required_parameter", "model"},
		"unknown model":      {"/api/chat", `{"model":"nope:latest","messages":[{"role":"user","content":"x"}]}`, 404, "model_not_found", "model"},
		"unknown tag":        {"/api/chat", `{"model":"chat:7b","messages":[{"role":"user","content":"x"}]}`, 404, "model_not_found", "model"},
		"cannot chat":        {"/api/chat", `{"model":"org/embed","messages":[{"role":"user","content":"x"}]}`, 404, "model_not_found", "model"},
		"picture":            {"/api/chat", msg(`{"role":"user","content":"x","images":["AAAA"]}`), 400, "unsupported_parameter", "messages[0].images"},
		"picture, generate":  {"/api/generate", `{"model":"chat","prompt":"x","images":["AAAA"]}`, 400, "unsupported_parameter", "images"},
		"role":               {"/api/chat", msg(`{"role":"bot","content":"x"}`), 400, "invalid_value", "messages[0].role"},
		"no content":         {"/api/chat", msg(`{"role":"user"}`), 400, "missing_required_parameter", "messages[0].content"},
		"parts":              {"/api/chat", msg(`{"role":"user","content":[{"type":"text","text":"x"}]}`), 400, "invalid_type", "messages[0].content"},
		"result of no call":  {"/api/chat", msg(`{"role":"tool","content":"x"}`), 400, "invalid_value", "messages[0].role"},
		"result twice":       {"/api/chat", msg(`{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},{"role":"tool","content":"x"},{"role":"tool","content":"x"}`), 400, "invalid_value", "messages[2].role"},
		"call of a user":     {"/api/chat", msg(`{"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]}`), 400, "invalid_value", "messages[0].tool_calls"},
		"call without name":  {"/api/chat", msg(`{"role":"assistant","tool_calls":[{"function":{}}]}`), 400, "missing_required_parameter", "messages[0].tool_calls[0].function.name"},
		"arguments are text": {"/api/chat", msg(`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`), 400, "invalid_type", "messages[0].tool_calls[0].function.arguments"},
		"stream":             {"/api/chat", with(`"stream":"yes"`), 400, "invalid_type", "stream"},
		"think":              {"/api/chat", with(`"think":"hard"`), 400, "invalid_value", "think"},
		"format":             {"/api/chat", with(`"format":"yaml"`), 400, "invalid_value", "format"},
		"format is a list":   {"/api/chat", with(`"format":[]`), 400, "invalid_value", "format"},
		"temperature":        {"/api/chat", with(`"options":{"temperature":3}`), 400, "invalid_value", "options.temperature"},
		"num_predict":        {"/api/chat", with(`"options":{"num_predict":1.5}`), 400, "invalid_type", "options.num_predict"},
		"repeat_penalty":     {"/api/chat", with(`"options":{"repeat_penalty":0}`), 400, "invalid_value", "options.repeat_penalty"},
		"empty stop":         {"/api/chat", with(`"options":{"stop":[""]}`), 400, "invalid_value", "options.stop"},
		"plain top_k":        {"/api/chat", `{"model":"plain","messages":[{"role":"user","content":"x"}],"options":{"top_k":4}}`, 400, "unsupported_parameter", "options.top_k"},
		"plain penalty":      {"/api/chat", `{"model":"plain","messages":[{"role":"user","content":"x"}],"options":{"repeat_penalty":1.1}}`, 400, "unsupported_parameter", "options.repeat_penalty"},
		"plain format":       {"/api/chat", `{"model":"plain","messages":[{"role":"user","content":"x"}],"format":"json"}`, 400, "unsupported_parameter", "format"},
		"context":            {"/api/generate", `{"model":"chat","prompt":"x","context":[1,2]}`, 400, "unsupported_parameter", "context"},
		"template":           {"/api/generate", `{"model":"chat","prompt":"x","template":"{{ .Prompt }}"}`, 400, "unsupported_parameter", "template"},
		"suffix":             {"/api/generate", `{"model":"chat","prompt":"x","suffix":"y"}`, 400, "unsupported_parameter", "suffix"},
		"raw and system":     {"/api/generate", `{"model":"chat","prompt":"x","raw":true,"system":"y"}`, 400, "unsupported_parameter", "system"},
		"raw and passages":   {"/api/generate", `{"model":"chat","prompt":"x","raw":true,"rag":{"collection":"docs"}}`, 400, "unsupported_parameter", "rag"},
		"no input":           {"/api/embed", `{"model":"embed"}`, 400, "missing_required_parameter", "input"},
		"empty input":        {"/api/embed", `{"model":"embed","input":["a",""]}`, 400, "invalid_value", "input[1]"},
		"list of prompts":    {"/api/embeddings", `{"model":"embed","prompt":["a","b"]}`, 400, "invalid_type", "prompt"},
		"dimensions":         {"/api/embed", `{"model":"embed","input":"a","dimensions":4000}`, 400, "unsupported_parameter", "dimensions"},
		"show nothing":       {"/api/show", `{}`, 400, "missing_required_parameter", "model"},
		"show a number":      {"/api/show", `{"model":"chat","name":1}`, 400, "invalid_type", "name"},
		"an id of nothing":   {"/api/chat", `{"model":"chat","messages":[{"role":"user","content":"x","tool_call_id":1}]}`, 400, "invalid_type", "messages[0].tool_call_id"},
		"show unknown":       {"/api/show", `{"name":"nope"}`, 404, "model_not_found", "model"},
		"load unknown":       {"/api/generate", `{"model":"nope"}`, 404, "model_not_found", "model"},
		"load one away":      {"/api/generate", `{"model":"away"}`, 503, "engine_unavailable", ""},
		"cut JSON":           {"/api/chat", `{"model":`, 400, "invalid_json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := k.post(t, c.path, c.body)
			got := decode[plainError](t, body)
			if resp.StatusCode != c.status || string(got.Code) != c.code || got.Param != c.param || got.Error == "" || strings.Contains(got.Error, "%!") {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			_, chinese := k.post(t, c.path, c.body, "Accept-Language", "zh-CN")
			if m := decode[plainError](t, chinese).Error; m == got.Error || englishPhrase.MatchString(m) {
				t.Errorf("in Chinese: %s", m)
			}
		})
	}
	if n := len(k.engine.Requests()) + len(k.engine.Inputs()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
}

// TestOllamaFailures: a failure before the first line has its status, one after it is a line with an error, which clients raise, and nothing says
// that the answer is done.
func TestOllamaFailures(t *testing.T) {
	for at := range 2 {
		k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Err: fault.New(fault.CodeEngineOverloaded, "chat").WithRetryAfter(2 * time.Second), FailAt: at}
		})
		resp, body := k.post(t, "/api/chat", ollamaHello+"}")
		lines := strings.Split(strings.TrimSpace(body), "\n")
		if last := decode[plainError](t, lines[len(lines)-1]); last.Code != "engine_overloaded" || last.Error == "" || strings.Contains(body, `"done":true`) {
			t.Errorf("%d: %s", at, body)
		}
		if want := map[int]int{0: 503, 1: 200}[at]; resp.StatusCode != want || len(lines) != at+1 {
			t.Errorf("%d: %d %s", at, resp.StatusCode, body)
		}
	}
}

func TestOllamaEmbeddings(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, body := k.post(t, "/api/embed", `{"model":"embed","input":["a SECRET1","b"],"truncate":true,"options":{"num_ctx":512}}`)
	several := decode[struct {
		Model      string
		Embeddings [][]float32
		Total      int64 `json:"total_duration"`
		Tokens     int   `json:"prompt_eval_count"`
		Sluice     extension
	}](t, body)
	if resp.StatusCode != 200 || len(several.Embeddings) != 2 || len(several.Embeddings[1]) != 32 || several.Tokens == 0 || several.Total <= 0 || several.Model != "embed" || several.Sluice.Receipt == "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp, body = k.post(t, "/api/embeddings", `{"model":"embed","prompt":"b"}`)
	one := decode[struct{ Embedding []float32 }](t, body)
	if resp.StatusCode != 200 || !reflect.DeepEqual(one.Embedding, several.Embeddings[1]) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for _, q := range k.engine.Inputs() {
		if strings.Contains(strings.Join(q.Input, ""), "SECRET") {
			t.Errorf("%+v", q)
		}
	}
	if e := k.last(); e.Action != "embeddings" || e.Outcome != "ok" {
		t.Errorf("%+v", e)
	}
}

// TestOllamaModels: the lists name models with their tags, by which they can be asked for, and show and version say what clients look for.
func TestOllamaModels(t *testing.T) {
	k := newKit(t, Config{}, nil)
	names := func(path string) (out []string) {
		_, body := k.do(t, http.MethodGet, path, nil)
		for _, m := range decode[struct{ Models []ollamaModel }](t, body).Models {
			if _, err := time.Parse(time.RFC3339, m.ModifiedAt); err != nil || m.Model != m.Name || m.Sluice == nil {
				t.Errorf("%+v, %v", m, err)
			}
			out = append(out, m.Name)
		}
		return out
	}
	if got := names("/api/tags"); !reflect.DeepEqual(got, []string{"chat:latest", "org/embed:latest", "away:latest"}) {
		t.Errorf("%v", got)
	}
	if got := names("/api/ps"); !reflect.DeepEqual(got, []string{"chat:latest", "org/embed:latest"}) {
		t.Errorf("ready: %v", got)
	}
	for _, body := range []string{`{"model":"chat:latest"}`, `{"name":"chat","verbose":true}`} {
		_, got := k.post(t, "/api/show", body)
		shown := decode[struct {
			Info         map[string]any `json:"model_info"`
			Details      ollamaDetails
			Capabilities []string
		}](t, got)
		arch, _ := shown.Info["general.architecture"].(string)
		if !reflect.DeepEqual(shown.Capabilities, []string{"completion", "tools"}) || shown.Info[arch+".context_length"] == nil || shown.Details.Families == nil {
			t.Errorf("%s: %s", body, got)
		}
	}
	if _, got := k.do(t, http.MethodGet, "/api/version", nil); decode[struct{ Version string }](t, got).Version != ollamaVersion {
		t.Error(got)
	}
	for body, want := range map[string]string{`{"model":"chat"}`: "load", `{"model":"chat","keep_alive":"10m"}`: "load", `{"model":"chat","keep_alive":0}`: "unload", `{"model":"chat","keep_alive":0.0}`: "unload", `{"model":"chat","keep_alive":"0s"}`: "unload"} {
		for _, path := range []string{"/api/chat", "/api/generate"} {
			if _, got := k.post(t, path, body); decode[ollamaReply](t, got).DoneReason != want || !decode[ollamaReply](t, got).Done {
				t.Errorf("%s %s: %s", path, body, got)
			}
		}
	}
	if n := len(k.engine.Requests()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
}

func TestOllamaNames(t *testing.T) {
	var all []gateway.Model
	for _, name := range []string{"chat", "qwen3:8b", "llama3:latest", "both", "both:latest"} {
		var m gateway.Model
		m.Name = name
		all = append(all, m)
	}
	for asked, want := range map[gateway.AskedModel]gateway.AskedModel{
		"chat": "chat", "chat:latest": "chat", "qwen3:8b": "qwen3:8b", "qwen3": "qwen3", "llama3": "llama3:latest", "llama3:latest": "llama3:latest",
		"both": "both", "both:latest": "both:latest", "none:latest": "none", "chat@v2:latest": "chat@v2",
	} {
		if got := tagged(asked, all); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}
