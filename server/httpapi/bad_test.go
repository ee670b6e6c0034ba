package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

// englishPhrase matches what no Chinese sentence may hold: two English words in a row.
var englishPhrase = regexp.MustCompile(`[a-z]{2,} [a-z]{2,}`)

// TestBadInput: each case is refused with its status, code and param, wholly in the caller's language, and never reaches the
// engine.
func TestBadInput(t *testing.T) {
	const chat, completions, embeddings, search = "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rag/search"
	const rerank, score, plain = "/v1/rerank", "/v1/score", `{"model":"plain","messages":[{"role":"user","content":"hello"}]`
	tool := func(name string) string { return `{"type":"function","function":{"name":"` + name + `"}}` }
	msg := func(m string) string { return `{"model":"chat","messages":[` + m + `]}` }
	cases := []struct {
		name, path, body string
		status           int
		code, param      string
	}{
		{"empty body", chat, ``, 400, "invalid_json", ""},
		{"cut JSON", chat, `{"model":"chat"`, 400, "invalid_json", ""},
		{"trailing text", chat, hello + "} x", 400, "invalid_json", ""},
		{"an array", chat, `[]`, 400, "invalid_type", ""},
		{"null", chat, `null`, 400, "invalid_type", ""},
		{"invalid UTF-8", chat, "{\"model\":\"\xff\"}", 400, "invalid_utf8", ""},
		{"10,000 deep", chat, `{"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, 413, "nesting_too_deep", ""},
		{"10,000 deep and open", chat, strings.Repeat(`{"a":`, 10_000), 413, "nesting_too_deep", ""},
		{"no model", chat, `{"messages":[{"role":"user","content":"x"}]}`, 400, "missing_required_parameter", "model"},
		{"null model", chat, `{"model":null,"messages":[]}`, 400, "missing_required_parameter", "model"},
		{"model is a number", chat, `{"model":5,"messages":[]}`, 400, "invalid_type", "model"},
		{"unknown model", chat, `{"model":"nope","messages":[{"role":"user","content":"x"}]}`, 404, "model_not_found", "model"},
		{"long model", chat, `{"model":"` + strings.Repeat("m", 201) + `","messages":[{"role":"user","content":"x"}]}`, 400, "invalid_value", "model"},
		{"no messages", chat, `{"model":"chat"}`, 400, "missing_required_parameter", "messages"},
		{"empty messages", chat, msg(``), 400, "invalid_value", "messages"},
		{"messages is text", chat, `{"model":"chat","messages":"hi"}`, 400, "invalid_type", "messages"},
		{"message is text", chat, msg(`"hi"`), 400, "invalid_type", "messages[0]"},
		{"message is null", chat, msg(`null`), 400, "invalid_type", "messages[0]"},
		{"no role", chat, msg(`{"content":"x"}`), 400, "missing_required_parameter", "messages[0].role"},
		{"unknown role", chat, msg(`{"role":"root","content":"x"}`), 400, "invalid_value", "messages[0].role"},
		{"no content", chat, msg(`{"role":"user","content":"x"},{"role":"user"}`), 400, "missing_required_parameter", "messages[1].content"},
		{"content is a number", chat, msg(`{"role":"user","content":5}`), 400, "invalid_type", "messages[0].content"},
		{"content without parts", chat, msg(`{"role":"user","content":[]}`), 400, "invalid_value", "messages[0].content"},
		{"image part", chat, msg(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"http://10.0.0.1"}}]}`), 400, "unsupported_parameter", "messages[0].content[1].type"},
		{"text part without text", chat, msg(`{"role":"user","content":[{"type":"text"}]}`), 400, "missing_required_parameter", "messages[0].content[0].text"},
		{"long name", chat, msg(`{"role":"user","content":"x","name":"` + strings.Repeat("n", 65) + `"}`), 400, "invalid_value", "messages[0].name"},
		{"temperature text", chat, hello + `,"temperature":"hot"}`, 400, "invalid_type", "temperature"},
		{"temperature high", chat, hello + `,"temperature":2.1}`, 400, "invalid_value", "temperature"},
		{"top_p negative", chat, hello + `,"top_p":-0.1}`, 400, "invalid_value", "top_p"},
		{"n zero", chat, hello + `,"n":0}`, 400, "invalid_value", "n"},
		{"n many", chat, hello + `,"n":17}`, 400, "invalid_value", "n"},
		{"n fraction", chat, hello + `,"n":1.5}`, 400, "invalid_type", "n"},
		{"n text", chat, hello + `,"n":"1"}`, 400, "invalid_type", "n"},
		{"n huge", chat, hello + `,"n":99999999999999999999}`, 400, "invalid_value", "n"},
		{"max_tokens negative", chat, hello + `,"max_tokens":-1}`, 400, "invalid_value", "max_tokens"},
		{"max tokens conflict", chat, hello + `,"max_tokens":5,"max_completion_tokens":6}`, 400, "invalid_value", "max_completion_tokens"},
		{"five stops", chat, hello + `,"stop":["a","b","c","d","e"]}`, 400, "invalid_value", "stop"},
		{"empty stop", chat, hello + `,"stop":""}`, 400, "invalid_value", "stop"},
		{"stop number", chat, hello + `,"stop":[1]}`, 400, "invalid_type", "stop"},
		{"top_logprobs alone", chat, hello + `,"top_logprobs":2}`, 400, "invalid_value", "top_logprobs"},
		{"top_logprobs many", chat, hello + `,"logprobs":true,"top_logprobs":21}`, 400, "invalid_value", "top_logprobs"},
		{"logprobs number", chat, hello + `,"logprobs":2}`, 400, "invalid_type", "logprobs"},
		{"stream text", chat, hello + `,"stream":"yes"}`, 400, "invalid_type", "stream"},
		{"stream_options alone", chat, hello + `,"stream_options":{"include_usage":true}}`, 400, "invalid_value", "stream_options"},
		{"include_usage text", chat, hello + `,"stream":true,"stream_options":{"include_usage":1}}`, 400, "invalid_type", "stream_options.include_usage"},
		{"seed text", chat, hello + `,"seed":"x"}`, 400, "invalid_type", "seed"},
		{"audio out", chat, hello + `,"modalities":["text","audio"]}`, 400, "unsupported_parameter", "modalities"},
		{"user number", chat, hello + `,"user":5}`, 400, "invalid_type", "user"},
		{"cache retention is a number", chat, hello + `,"prompt_cache_retention":24}`, 400, "invalid_type", "prompt_cache_retention"},
		{"metadata value", chat, hello + `,"metadata":{"a":{}}}`, 400, "invalid_type", "metadata.a"},
		{"conversation id", chat, hello + `,"metadata":{"conversation_id":"a b"}}`, 400, "invalid_value", "metadata.conversation_id"},
		{"rag without collection", chat, hello + `,"rag":{}}`, 400, "missing_required_parameter", "rag.collection"},
		{"rag top_k", chat, hello + `,"rag":{"collection":"c","top_k":21}}`, 400, "invalid_value", "rag.top_k"},
		{"long prompt", chat, msg(`{"role":"user","content":"` + strings.Repeat("word ", 5000) + `"}`), 400, "context_length_exceeded", "messages"},
		{"no prompt", completions, `{"model":"chat"}`, 400, "missing_required_parameter", "prompt"},
		{"two prompts", completions, `{"model":"chat","prompt":["a","b"]}`, 400, "invalid_value", "prompt"},
		{"token prompt", completions, `{"model":"chat","prompt":[1,2]}`, 400, "invalid_type", "prompt"},
		{"suffix", completions, `{"model":"chat","prompt":"a","suffix":"b"}`, 400, "unsupported_parameter", "suffix"},
		{"best_of", completions, `{"model":"chat","prompt":"a","best_of":3}`, 400, "unsupported_parameter", "best_of"},
		{"logprobs many", completions, `{"model":"chat","prompt":"a","logprobs":6}`, 400, "invalid_value", "logprobs"},
		{"no input", embeddings, `{"model":"embed"}`, 400, "missing_required_parameter", "input"},
		{"empty input", embeddings, `{"model":"embed","input":["a",""]}`, 400, "invalid_value", "input[1]"},
		{"token input", embeddings, `{"model":"embed","input":[[1,2]]}`, 400, "invalid_type", "input"},
		{"format", embeddings, `{"model":"embed","input":"a","encoding_format":"hex"}`, 400, "invalid_value", "encoding_format"},
		{"chat model embeds", embeddings, `{"model":"chat","input":"a"}`, 404, "model_not_found", "model"},
		{"a collection that fills a record", search, `{"collection":"` + strings.Repeat("c", 70_000) + `","query":"q"}`, 400, "invalid_value", "collection"},
		{"prose for a collection", chat, hello + `,"rag":{"collection":"call me at 138"}}`, 400, "invalid_value", "rag.collection"},
		{"no query", search, `{"collection":"docs"}`, 400, "missing_required_parameter", "query"},

		{"tools is text", chat, hello + `,"tools":"f"}`, 400, "invalid_type", "tools"},
		{"a tool is text", chat, hello + `,"tools":["f"]}`, 400, "invalid_type", "tools[0]"},
		{"a tool without type", chat, hello + `,"tools":[{"function":{"name":"f"}}]}`, 400, "missing_required_parameter", "tools[0].type"},
		{"a tool of another type", chat, hello + `,"tools":[{"type":"custom"}]}`, 400, "unsupported_parameter", "tools[0].type"},
		{"a tool without function", chat, hello + `,"tools":[{"type":"function"}]}`, 400, "missing_required_parameter", "tools[0].function"},
		{"a tool without name", chat, hello + `,"tools":[{"type":"function","function":{}}]}`, 400, "missing_required_parameter", "tools[0].function.name"},
		{"an odd name", chat, hello + `,"tools":[{"type":"function","function":{"name":"a b"}}]}`, 400, "invalid_value", "tools[0].function.name"},
		{"a long tool name", chat, hello + `,"tools":[{"type":"function","function":{"name":"` + strings.Repeat("n", 65) + `"}}]}`, 400, "invalid_value", "tools[0].function.name"},
		{"two tools of a name", chat, hello + `,"tools":[` + tool("f") + `,` + tool("f") + `]}`, 400, "invalid_value", "tools[1].function.name"},
		{"parameters is text", chat, hello + `,"tools":[{"type":"function","function":{"name":"f","parameters":"{}"}}]}`, 400, "invalid_type", "tools[0].function.parameters"},
		{"parameters of a list", chat, hello + `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"array"}}}]}`, 400, "invalid_value", "tools[0].function.parameters.type"},
		{"strict is text", chat, hello + `,"tools":[{"type":"function","function":{"name":"f","strict":"yes"}}]}`, 400, "invalid_type", "tools[0].function.strict"},
		{"129 tools", chat, hello + `,"tools":[` + strings.TrimSuffix(strings.Repeat("{},", 129), ",") + `]}`, 400, "invalid_value", "tools"},
		{"functions", chat, hello + `,"functions":[{"name":"f"}]}`, 400, "unsupported_parameter", "functions"},
		{"function_call", chat, hello + `,"function_call":{"name":"f"}}`, 400, "unsupported_parameter", "function_call"},
		{"choice without tools", chat, hello + `,"tool_choice":"required"}`, 400, "invalid_value", "tool_choice"},
		{"an odd choice", chat, hello + `,"tool_choice":"any"}`, 400, "invalid_value", "tool_choice"},
		{"a choice that is a number", chat, hello + `,"tool_choice":5}`, 400, "invalid_type", "tool_choice"},
		{"a choice of another type", chat, hello + `,"tool_choice":{"type":"allowed_tools"}}`, 400, "unsupported_parameter", "tool_choice.type"},
		{"a choice without function", chat, hello + `,"tool_choice":{"type":"function"}}`, 400, "missing_required_parameter", "tool_choice.function"},
		{"a choice nobody offers", chat, hello + `,"tools":[` + tool("f") + `],"tool_choice":{"type":"function","function":{"name":"g"}}}`, 400, "invalid_value", "tool_choice.function.name"},
		{"parallel is text", chat, hello + `,"parallel_tool_calls":"no"}`, 400, "invalid_type", "parallel_tool_calls"},
		{"a call without id", chat, msg(`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`), 400, "missing_required_parameter", "messages[0].tool_calls[0].id"},
		{"a call without function", chat, msg(`{"role":"assistant","tool_calls":[{"id":"1"}]}`), 400, "missing_required_parameter", "messages[0].tool_calls[0].function"},
		{"a call of a user", chat, msg(`{"role":"user","content":"x","tool_calls":[{"id":"1"}]}`), 400, "invalid_value", "messages[0].tool_calls"},
		{"arguments are an object", chat, msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":{}}}]}`), 400, "invalid_type", "messages[0].tool_calls[0].function.arguments"},
		{"arguments are a list", chat, msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"[]"}}]}`), 400, "invalid_value", "messages[0].tool_calls[0].function.arguments"},
		{"arguments are null", chat, msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"null"}}]}`), 400, "invalid_value", "messages[0].tool_calls[0].function.arguments"},
		{"arguments are deep", chat, msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":` + strings.Repeat("[", 10_000) + `"}}]}`), 400, "invalid_value", "messages[0].tool_calls[0].function.arguments"},
		{"a result without call", chat, msg(`{"role":"tool","content":"x"}`), 400, "missing_required_parameter", "messages[0].tool_call_id"},
		{"neither content nor calls", chat, msg(`{"role":"assistant","content":null,"tool_calls":[]}`), 400, "missing_required_parameter", "messages[0].content"},
		{"a function's message", chat, msg(`{"role":"function","name":"f","content":"x"}`), 400, "unsupported_parameter", "messages[0].role"},
		{"an older call", chat, msg(`{"role":"assistant","content":"x","function_call":{"name":"f"}}`), 400, "unsupported_parameter", "messages[0].function_call"},
		{"tools of a completion", completions, `{"model":"chat","prompt":"a","tools":[{}]}`, 400, "unsupported_parameter", "tools"},

		{"format is text", chat, hello + `,"response_format":"json"}`, 400, "invalid_type", "response_format"},
		{"format without type", chat, hello + `,"response_format":{}}`, 400, "missing_required_parameter", "response_format.type"},
		{"an odd format", chat, hello + `,"response_format":{"type":"xml"}}`, 400, "invalid_value", "response_format.type"},
		{"no schema at all", chat, hello + `,"response_format":{"type":"json_schema"}}`, 400, "missing_required_parameter", "response_format.json_schema"},
		{"no schema", chat, hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a"}}}`, 400, "missing_required_parameter", "response_format.json_schema.schema"},
		{"a schema without name", chat, hello + `,"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`, 400, "missing_required_parameter", "response_format.json_schema.name"},
		{"a schema that is text", chat, hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":"{}"}}}`, 400, "invalid_type", "response_format.json_schema.schema"},
		{"a schema that is text, and not wanted", chat, hello + `,"response_format":{"type":"text","json_schema":{"name":"a","schema":"{}"}}}`, 400, "invalid_type", "response_format.json_schema.schema"},
		{"two formats", chat, hello + `,"response_format":{"type":"json_object"},"guided_regex":"a"}`, 400, "invalid_value", "guided_regex"},
		{"two formats in one", chat, hello + `,"structured_outputs":{"regex":"a","choice":["a"]}}`, 400, "invalid_value", "structured_outputs.choice"},
		{"guided_json is a number", chat, hello + `,"guided_json":5}`, 400, "invalid_type", "guided_json"},
		{"guided_json is no JSON", chat, hello + `,"guided_json":"{"}`, 400, "invalid_value", "guided_json"},
		{"guided_json holds a number", chat, hello + `,"guided_json":"5"}`, 400, "invalid_type", "guided_json"},
		{"guided_regex is a list", chat, hello + `,"guided_regex":[]}`, 400, "invalid_type", "guided_regex"},
		{"an empty grammar", completions, `{"model":"chat","prompt":"a","grammar":""}`, 400, "invalid_value", "grammar"},
		{"no choices", chat, hello + `,"guided_choice":[]}`, 400, "invalid_value", "guided_choice"},
		{"an empty choice", chat, hello + `,"guided_choice":["a",""]}`, 400, "invalid_value", "guided_choice"},

		{"top_k", chat, hello + `,"top_k":-2}`, 400, "invalid_value", "top_k"},
		{"min_p", chat, hello + `,"min_p":1.1}`, 400, "invalid_value", "min_p"},
		{"repetition_penalty", chat, hello + `,"repetition_penalty":0}`, 400, "invalid_value", "repetition_penalty"},
		{"frequency_penalty", chat, hello + `,"frequency_penalty":2.1}`, 400, "invalid_value", "frequency_penalty"},
		{"presence_penalty", chat, hello + `,"presence_penalty":"a"}`, 400, "invalid_type", "presence_penalty"},
		{"min_tokens", chat, hello + `,"min_tokens":6,"max_tokens":5}`, 400, "invalid_value", "min_tokens"},
		{"logit_bias is a list", chat, hello + `,"logit_bias":[1]}`, 400, "invalid_type", "logit_bias"},
		{"logit_bias of a word", chat, hello + `,"logit_bias":{"the":1}}`, 400, "invalid_value", "logit_bias"},
		{"logit_bias too far", chat, hello + `,"logit_bias":{"5":101}}`, 400, "invalid_value", "logit_bias.5"},
		{"service_tier", chat, hello + `,"service_tier":"gold"}`, 400, "invalid_value", "service_tier"},
		{"priority", chat, hello + `,"priority":1001}`, 400, "invalid_value", "priority"},
		{"a plain model has no tools", chat, plain + `,"tools":[` + tool("f") + `]}`, 400, "unsupported_parameter", "tools"},
		{"a plain model has no formats", chat, plain + `,"structured_outputs":{"choice":["a"]}}`, 400, "unsupported_parameter", "structured_outputs.choice"},
		{"a plain model has no penalties", chat, plain + `,"presence_penalty":0.5}`, 400, "unsupported_parameter", "presence_penalty"},
		{"a plain model has no biases", chat, plain + `,"logit_bias":{"5":1}}`, 400, "unsupported_parameter", "logit_bias"},
		{"a plain model does not echo", completions, `{"model":"plain","prompt":"a","echo":true}`, 400, "unsupported_parameter", "echo"},

		{"dimensions", embeddings, `{"model":"embed","input":"a","dimensions":33}`, 400, "unsupported_parameter", "dimensions"},
		{"input_type", embeddings, `{"model":"embed","input":"a","input_type":"classification"}`, 400, "invalid_value", "input_type"},
		{"no query to rank by", rerank, `{"model":"rank","documents":["a"]}`, 400, "missing_required_parameter", "query"},
		{"no documents", rerank, `{"model":"rank","query":"a"}`, 400, "missing_required_parameter", "documents"},
		{"empty documents", rerank, `{"model":"rank","query":"a","documents":[]}`, 400, "invalid_value", "documents"},
		{"a document is a number", rerank, `{"model":"rank","query":"a","documents":["a",5]}`, 400, "invalid_type", "documents[1]"},
		{"a document without text", rerank, `{"model":"rank","query":"a","documents":[{"image":"a"}]}`, 400, "missing_required_parameter", "documents[0].text"},
		{"top_n", rerank, `{"model":"rank","query":"a","documents":["a"],"top_n":0}`, 400, "invalid_value", "top_n"},
		{"an embedder does not rank", rerank, `{"model":"embed","query":"a","documents":["a"]}`, 404, "model_not_found", "model"},
		{"no text_2", score, `{"model":"rank","text_1":"a"}`, 400, "missing_required_parameter", "text_2"},
		{"pairs that do not fit", score, `{"model":"rank","text_1":["a","b"],"text_2":["a","b","c"]}`, 400, "invalid_value", "text_1"},
	}
	k := newKit(t, Config{}, nil)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			resp, body := k.post(t, c.path, c.body)
			got := decode[openai.ErrorBody](t, body).Error
			param := ""
			if got.Param != nil {
				param = *got.Param
			}
			if resp.StatusCode != c.status || got.Code != c.code || param != c.param || got.Message == "" || strings.Contains(got.Message, "%!") {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			for _, key := range []string{`"message":`, `"type":`, `"param":`, `"code":`} {
				if !strings.Contains(body, key) {
					t.Errorf("%s is missing in %s", key, body)
				}
			}
			_, body = k.post(t, c.path, c.body, "Accept-Language", "zh-CN")
			if m := decode[openai.ErrorBody](t, body).Error.Message; m == got.Message || englishPhrase.MatchString(m) {
				t.Errorf("in Chinese: %s", m)
			}
		})
	}
	if n := len(k.engine.Requests()) + len(k.engine.Inputs()) + len(k.engine.Scores()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
}

func TestAcceptedInput(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for name, body := range map[string]string{
		"unknown fields":    hello + `,"foo":{"bar":[1]},"x-y":null}`,
		"harmless fields":   hello + `,"user":"u","store":false,"metadata":{"conversation_id":"c-1"},"service_tier":"auto","parallel_tool_calls":true,"tools":[],"functions":[],"tool_choice":"none","presence_penalty":0,"logit_bias":{},"top_k":-1,"response_format":{"type":"text"},"reasoning_effort":"low","prompt_cache_retention":"24h","modalities":["text"]}`,
		"nulls":             hello + `,"temperature":null,"stop":null,"n":null,"stream":null,"max_tokens":null,"tools":null,"response_format":null,"seed":null}`,
		"parts and roles":   `{"model":"chat","messages":[{"role":"developer","content":"be kind"},{"role":"assistant","content":"ok","tool_calls":[],"refusal":null},{"role":"tool","content":"5","tool_call_id":"x"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`,
		"both limits equal": hello + `,"max_tokens":5,"max_completion_tokens":5,"top_p":0,"seed":-1,"n":16}`,
		"empty content":     `{"model":"chat","messages":[{"role":"user","content":""}]}`,
		"duplicate key":     `{"model":"nope","model":"chat","messages":[{"role":"user","content":"x"}]}`,
	} {
		if resp, got := k.post(t, "/v1/chat/completions", body); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
	for _, q := range k.engine.Requests() {
		if len(q.Messages) == 4 && (q.Messages[0].Role != "system" || q.Messages[3].Content != "a\nb") {
			t.Errorf("%+v", q.Messages)
		}
	}
}

func TestBodyBounds(t *testing.T) {
	k := newKit(t, Config{MaxBodyBytes: 200, MaxInFlightBytes: 300}, nil)
	big := hello + `,"user":"` + strings.Repeat("x", 200) + `"}`
	for name, body := range map[string]io.Reader{"known length": strings.NewReader(big), "chunked": io.MultiReader(strings.NewReader(big))} {
		if resp, got := k.do(t, http.MethodPost, "/v1/chat/completions", body); resp.StatusCode != 413 || !strings.Contains(got, "request_too_large") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
	if resp, got := k.post(t, "/v1/chat/completions", hello+"}", "Content-Encoding", "gzip"); resp.StatusCode != 400 {
		t.Errorf("gzip: %d %s", resp.StatusCode, got)
	}
	other := inflight.Caller{Tenant: "other", ID: "other key"}
	if err := k.api.bodies.Acquire(other, 250); err == nil {
		t.Fatal("one key took nearly all")
	}
	k.api.bodies = inflight.New(inflight.Config{All: 300, PerTenant: 300, PerCaller: 300})
	if err := k.api.bodies.Acquire(other, 250); err != nil {
		t.Fatal(err)
	}
	if resp, got := k.post(t, "/v1/chat/completions", hello+"}"); resp.StatusCode != 503 || !strings.Contains(got, "server_overloaded") || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("budget spent: %d %s", resp.StatusCode, got)
	}
	k.api.bodies.Release(other, 250)
	if resp, got := k.post(t, "/v1/chat/completions", hello+"}"); resp.StatusCode != 200 || k.api.bodies.Held() != 0 {
		t.Errorf("%d %s, %d bytes held", resp.StatusCode, got, k.api.bodies.Held())
	}
}

// TestBytesInFlight: a key and a tenant hold no more than their part, so that others are answered; what is refused was not read.
func TestBytesInFlight(t *testing.T) {
	k := newKit(t, Config{MaxBodyBytes: 200, MaxInFlightBytes: 1000, MaxInFlightPerTenant: 500, MaxInFlightPerKey: 300}, nil)
	own := inflight.Caller{Tenant: "acme", ID: "k1"}
	for _, c := range []struct {
		holder inflight.Caller
		bytes  int64
		status int
		want   string
	}{
		{own, 250, http.StatusTooManyRequests, "this caller"},
		{inflight.Caller{Tenant: own.Tenant, ID: "another key"}, 300, http.StatusOK, ""},
		{inflight.Caller{Tenant: "another Tenant", ID: "k"}, 300, http.StatusOK, ""},
	} {
		if err := k.api.bodies.Acquire(c.holder, c.bytes); err != nil {
			t.Fatal(err)
		}
		resp, got := k.post(t, "/v1/chat/completions", hello+"}")
		if resp.StatusCode != c.status || !strings.Contains(got, c.want) || c.status == http.StatusTooManyRequests && (!strings.Contains(got, "bytes_in_flight_limit_exceeded") || !resp.Close || resp.Header.Get("Retry-After") != "1") {
			t.Errorf("%+v: %d %s", c, resp.StatusCode, got)
		}
		k.api.bodies.Release(c.holder, c.bytes)
	}
	another := inflight.Caller{Tenant: own.Tenant, ID: "another key"}
	if err := k.api.bodies.Acquire(another, 290); err != nil {
		t.Fatal(err)
	}
	if err := k.api.bodies.Acquire(inflight.Caller{Tenant: own.Tenant, ID: "a third"}, 180); err != nil {
		t.Fatal(err)
	}
	if resp, got := k.post(t, "/v1/chat/completions", hello+"}"); resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(got, "this tenant") {
		t.Errorf("tenant: %d %s", resp.StatusCode, got)
	}
	k.api.bodies.Release(another, 290)
	k.api.bodies.Release(inflight.Caller{Tenant: own.Tenant, ID: "a third"}, 180)
	if n := k.api.bodies.Held(); n != 0 {
		t.Errorf("%d bytes held", n)
	}
}

// TestCredentialsFirst: who does not prove who he is, or may not use the route, is answered before his body is sent, and hung up on.
func TestCredentialsFirst(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for name, c := range map[string]struct {
		header string
		deny   access.Permission
		status int
		length string
	}{
		"no key":         {"", "", http.StatusUnauthorized, "Content-Length: 4000000"},
		"a small body":   {"", "", http.StatusUnauthorized, "Content-Length: 1000"},
		"a chunked body": {"", "", http.StatusUnauthorized, "Transfer-Encoding: chunked"},
		"a wrong key":    {"Authorization: Bearer sk-sluice-nobody\r\n", "", http.StatusUnauthorized, "Content-Length: 1000"},
		"no permission":  {"Authorization: Bearer " + goodKey + "\r\n", access.InferenceGenerate, http.StatusForbidden, "Content-Length: 1000"},
		"a wrong class":  {"Authorization: Bearer " + goodKey + "\r\nX-Sluice-Class: odd\r\n", "", http.StatusBadRequest, "Content-Length: 1000"},
		"packed":         {"Authorization: Bearer " + goodKey + "\r\nContent-Encoding: gzip\r\n", "", http.StatusBadRequest, "Content-Length: 1000"},
		"too large":      {"Authorization: Bearer " + goodKey + "\r\n", "", http.StatusRequestEntityTooLarge, "Content-Length: 9000000"},
	} {
		t.Run(name, func(t *testing.T) {
			k.deny = c.deny
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", k.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // the body never comes
			if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n%s\r\n", c.length, c.header); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(conn)
			resp, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != c.status || !resp.Close {
				t.Errorf("%d, connection stays open: %v", resp.StatusCode, !resp.Close)
			}
			if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// TestTooMuchAsItComes: who does not say how much he sends is stopped at the bound, and hung up on, too.
func TestTooMuchAsItComes(t *testing.T) {
	k := newKit(t, Config{MaxBodyBytes: 200}, nil)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", k.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // the end of the body never comes
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer %s\r\n\r\n12c\r\n%300d\r\n", goodKey, 0); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 413 ") || !strings.Contains(string(got), "\r\nConnection: close\r\n") {
		t.Errorf("%v after %s", err, got)
	}
	if k.api.bodies.Held() != 0 {
		t.Errorf("%d bytes are held", k.api.bodies.Held())
	}
}

// arriving is a body that looks at what is held for it when it is first read.
type arriving struct {
	io.Reader

	look func()
}

func (a *arriving) Read(p []byte) (int, error) {
	if a.look != nil {
		a.look()
		a.look = nil
	}
	return a.Reader.Read(p)
}

// TestABodyCountsAsItArrives: a client that announces much and sends little must not keep others out.
func TestABodyCountsAsItArrives(t *testing.T) {
	k := newKit(t, Config{MaxBodyBytes: 200, MaxInFlightBytes: 200}, nil)
	body := &arriving{Reader: strings.NewReader(hello + "}"), look: func() {
		if n := k.api.bodies.Held(); n != 0 {
			t.Errorf("%d bytes are held before any has come", n)
		}
		if resp, got := k.post(t, "/v1/chat/completions", hello+"}"); resp.StatusCode != http.StatusOK {
			t.Errorf("another caller got %d %s", resp.StatusCode, got)
		}
	}}
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	_, done, err := k.api.body(c, identity.Principal{Tenant: "acme", ID: "k1"})
	if want := int64(len(hello) + 1); err != nil || k.api.bodies.Held() != want {
		t.Errorf("%v, %d bytes held, want %d", err, k.api.bodies.Held(), want)
	}
	done()
	if n := k.api.bodies.Held(); n != 0 {
		t.Errorf("%d bytes were not given back", n)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{MaxBodyBytes: -1}, {MaxChoices: 129}, {MaxBodyBytes: 10, MaxInFlightBytes: 5}, {KeepAlive: -1}} {
		if c.Validate() == nil {
			t.Errorf("%+v passed", c)
		}
	}
}

// TestBodiesAreReadInPlace: a long text is a part of the body; a short one, which may be kept longer than the request, does not keep it.
func TestBodiesAreReadInPlace(t *testing.T) {
	body := `{"model":"chat","messages":[{"role":"user","content":"` + strings.Repeat("word ", 1000) + `"}]}`
	f, err := parse(body, 64)
	if err != nil {
		t.Fatal(err)
	}
	c := &gateway.Call{}
	if _, err := chatCall(f, 16, c); err != nil {
		t.Fatal(err)
	}
	within := func(s string) bool {
		at, from := uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(unsafe.Pointer(unsafe.StringData(body)))
		return from <= at && at < from+uintptr(len(body))
	}
	if !within(c.Messages[0].Content) || len(c.Messages[0].Content) != 5000 {
		t.Error("the long text was copied")
	}
	if within(string(c.Model)) || c.Model != "chat" {
		t.Error("the name of the model keeps the body")
	}
}

// FuzzDecode: no body panics; a refusal has a code for callers; what is accepted is within bounds and valid UTF-8.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		hello + "}", hello + `,"n":2,"stop":["a"],"stream":true,"stream_options":{"include_usage":true},"rag":{"collection":"c"}}`,
		`{"model":"m","prompt":["x"],"logprobs":1}`, `{"model":"m","input":["a","b"],"encoding_format":"base64"}`, `{"collection":"c","query":"q"}`,
		`{"model":"m","query":"q","documents":["a",{"text":"b"}],"top_n":1}`, `{"model":"m","text_1":["a"],"text_2":"b"}`,
		hello + `,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"logit_bias":{"1":2}}`,
		hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{}}},"top_k":5,"service_tier":"flex","priority":-3}`,
		`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":""}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\ud800"}]}]}`, `{"a":"\\\"[{"}`, "\xff", `[`, `{"model":`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for i := range 6 {
			c := &gateway.Call{Logprobs: -1}
			fs, err := parse(string(body), 64)
			if err == nil {
				switch i {
				case 0:
					_, err = chatCall(fs, 16, c)
				case 1:
					_, err = completionCall(fs, 16, c)
				case 2:
					_, err = embeddingCall(fs, c)
				case 3:
					err = searchCall(fs, c)
				case 4:
					err = rerankCall(fs, c)
				case 5:
					err = scoreCall(fs, c)
				}
			}
			if err != nil {
				if k := fault.KindOf(err); k != fault.Invalid && k != fault.TooLarge {
					t.Fatalf("%v", err)
				}
				if msg := fault.Public(err).Message(fault.English); strings.Contains(msg, "%!") {
					t.Fatal(msg)
				}
				continue
			}
			if i != 3 && c.Model == "" || i > 3 && (len(c.Documents) == 0 || c.Queries != nil && len(c.Queries) != len(c.Documents)) || i == 0 && len(c.Messages) == 0 || i == 1 && c.Prompt == "" || i == 2 && len(c.Input) == 0 || i == 3 && c.Query == "" {
				t.Fatalf("accepted without its text: %+v", c)
			}
			if c.Choices > 16 || c.Choices < 0 || c.MaxTokens != nil && *c.MaxTokens < 1 || c.Logprobs < -1 || c.Logprobs > 20 || len(c.Stop) > 4 {
				t.Fatalf("out of bounds: %+v", c)
			}
			if !utf8.ValidString(fmt.Sprint(c.Messages, c.Prompt, c.Input, c.Query, c.Stop, c.Tools, c.Format, c.Documents, c.Queries)) {
				t.Fatal("invalid UTF-8 was let in")
			}
		}
	})
}
