package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/rag"
)

const (
	sentValue    = "13800138000" // the caller's
	broughtValue = "13912345678" // the model's own
	hiddenValue  = "〔已屏蔽:手机〕"
	unknownRunes = "甲乙" // what stands around
)

// surface is one place of an answer where text stands.
type surface struct {
	path, extra string                     // of the request
	chunks      func(text string) []string // what the upstream streams for a text there
	shown       func([]said) string        // the text there as the caller got it
}

func choice(format string) func(text string) []string {
	return func(text string) []string {
		return append(pieces(`{"model":"m","choices":[{"index":0,`+format+`}]}`, text, 2), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	}
}

// surfaces are all places of answers that hold text of the model's.
func surfaces() map[string]surface {
	chat, completion := "/v1/chat/completions", "/v1/completions"
	const tools = `,"tools":[{"type":"function","function":{"name":"dial","parameters":{"type":"object"}}}]`
	first := func(get func(said) string) func([]said) string { return func(all []said) string { return get(all[0]) } }
	content := first(func(s said) string { return s.Content })
	argument := first(func(s said) string {
		var args struct{ Note string }
		_ = json.Unmarshal([]byte(s.Calls[0].Function.Arguments), &args)
		return args.Note
	})
	call := func(name string) func(text string) []string {
		return func(text string) []string {
			inner, _ := json.Marshal(map[string]string{"note": text})
			begin := fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":%q,"arguments":""}}]}}]}`, name)
			return append(append([]string{begin}, pieces(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}`, string(inner), 2)...),
				`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)
		}
	}
	all := map[string]surface{
		"content":           {chat, "", choice(`"delta":{"content":%s}`), content},
		"reasoning_content": {chat, "", choice(`"delta":{"reasoning_content":%s}`), first(func(s said) string { return s.Reasoning })},
		"reasoning":         {chat, "", choice(`"delta":{"reasoning":%s}`), first(func(s said) string { return s.Reasoning })},
		"refusal":           {chat, "", choice(`"delta":{"refusal":%s}`), first(func(s said) string { return s.Refusal })},
		"text":              {completion, "", choice(`"text":%s`), content},
		"text with echo":    {completion, `,"echo":true`, choice(`"text":%s`), content},
		"arguments":         {chat, tools, call("dial"), argument},
		"function_call": {chat, tools, func(text string) []string {
			inner, _ := json.Marshal(map[string]string{"note": text})
			return append(append([]string{`{"choices":[{"delta":{"function_call":{"name":"dial","arguments":""}}}]}`},
				pieces(`{"choices":[{"delta":{"function_call":{"arguments":%s}}}]}`, string(inner), 2)...), `{"choices":[{"delta":{},"finish_reason":"function_call"}]}`)
		}, argument},
		"name of a call": {chat, tools, func(text string) []string { return call(text)("x") }, first(func(s said) string { return s.Calls[0].Function.Name })},
		"JSON": {chat, `,"response_format":{"type":"json_object"}`, func(text string) []string {
			inner, _ := json.Marshal(map[string]string{"note": text})
			return choice(`"delta":{"content":%s}`)(string(inner))
		}, first(func(s said) string {
			var object struct{ Note string }
			_ = json.Unmarshal([]byte(s.Content), &object)
			return object.Note
		})},
		"response":           {"/v1/responses", "", choice(`"delta":{"content":%s}`), content},
		"response reasoning": {"/v1/responses", "", choice(`"delta":{"reasoning_content":%s}`), first(func(s said) string { return s.Reasoning })},
		"response refusal":   {"/v1/responses", "", choice(`"delta":{"refusal":%s}`), first(func(s said) string { return s.Refusal })},
		"response arguments": {"/v1/responses", `,"tools":[{"type":"function","name":"dial","parameters":{"type":"object"}}]`, call("dial"), argument},
		"message":            {"/v1/messages", "", choice(`"delta":{"content":%s}`), content},
		"message thinking":   {"/v1/messages", "", choice(`"delta":{"reasoning_content":%s}`), first(func(s said) string { return s.Reasoning })},
		"message refusal":    {"/v1/messages", "", choice(`"delta":{"refusal":%s}`), first(func(s said) string { return s.Refusal })},
		"message arguments":  {"/v1/messages", `,"tools":[{"name":"dial","input_schema":{"type":"object"}}]`, call("dial"), argument},
		"second of two choices": {chat, `,"n":2`, func(text string) []string {
			out := pieces(`{"choices":[{"index":1,"delta":{"content":%s}},{"index":0,"delta":{"content":"139"}}]}`, text, 2)
			return append(out, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":"stop"}]}`)
		}, func(all []said) string { return all[1].Content }},
		"reasoning between content": {chat, "", func(text string) []string {
			var out []string
			for _, c := range pieces(`{"choices":[{"delta":{"reasoning_content":%s}}]}`, text, 2) {
				out = append(out, c, `{"choices":[{"delta":{"content":"。"}}]}`)
			}
			return append(out, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
		}, first(func(s said) string { return s.Reasoning })},
	}
	for _, name := range []string{"content", "reasoning_content", "refusal", "arguments", "JSON", "second of two choices", "reasoning between content"} {
		over := all[name]
		over.path = socketSurface
		all["socket "+name] = over
	}
	maps.Copy(all, ollamaSurfaces(call, tools, argument))
	return all
}

// request is a call that sends the value.
func (s surface) request(streamed bool, more string) string {
	body := `{"model":"chat","messages":[{"role":"user","content":"我的手机号是` + sentValue + `。"}]`
	if s.path == "/v1/completions" || s.path == "/api/generate" {
		body = `{"model":"chat","prompt":"我的手机号是` + sentValue + `。"`
	}
	if s.path == "/v1/responses" {
		body = `{"model":"chat","input":"我的手机号是` + sentValue + `。"`
	}
	if s.path == "/v1/messages" {
		body, more = strings.Replace(body, `{`, `{"max_tokens":1000,`, 1), strings.Replace(more, `"stop":`, `"stop_sequences":`, 1)
	}
	if stop, ok := strings.CutPrefix(more, `,"stop":`); ok && strings.HasPrefix(s.path, "/api/") {
		more = `,"options":{"stop":` + stop + `}`
	}
	if s.path == socketSurface { // which knows only streams
		streamed = true
	}
	return body + s.extra + more + fmt.Sprintf(`,"stream":%v}`, streamed)
}

// TestEverySurface: wherever an answer holds text, streamed or not, a value that the model brings is treated by the rule of answers, the
// caller's own comes back, and the pseudonym that it has in another session stays and is counted.
func TestEverySurface(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"redact", "token", "partial", "hash", "observe"} {
		m := newMasked(t, rule)
		foreign := m.pseudonymOf("another")
		for name, s := range surfaces() {
			for _, streamed := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/stream=%v", rule, name, streamed), func(t *testing.T) {
					before, kept := len(m.upstream.sent()), len(m.kit.texts())
					m.upstream.says(func(value string) string {
						return stream(s.chunks(unknownRunes + value + unknownRunes + broughtValue + unknownRunes + foreign)...)
					})
					resp, body := m.post(t, s.path, s.request(streamed, ""))
					if resp.StatusCode != http.StatusOK {
						t.Fatalf("%d %s", resp.StatusCode, body)
					}
					brought := map[string]string{"redact": hiddenValue, "partial": `139\*\*\*\*5678`, "token": `⟦手机·[2-9A-Z]{5}⟧`, "hash": `〔手机#[0-9a-f]{12}〕`, "observe": broughtValue}[rule]
					if rule != "observe" && strings.Contains(body, broughtValue) {
						t.Errorf("the value of the model's left: %s", body)
					}
					want := regexp.MustCompile("^" + unknownRunes + sentValue + unknownRunes + brought + unknownRunes + foreign + "$")
					if got := s.shown(whole(t, body)); !want.MatchString(got) {
						t.Errorf("the caller got %q, want %s\n%s", got, want, body)
					}
					if sent := m.upstream.sent()[before:]; strings.Contains(sent, sentValue) || !strings.Contains(sent, "⟦手机·") {
						t.Errorf("the upstream was sent %s", sent)
					}
					found := map[string]int{}
					for _, f := range m.last().Findings {
						found[f.Direction+" "+f.Class+" "+f.Action] += f.Count
					}
					if found["request cn_mobile token"] != 1 || found["answer pseudonym unknown"] != 1 || found["answer cn_mobile "+rule] != 1 {
						t.Errorf("findings %v", found)
					}
					for _, text := range m.kit.texts()[kept:] {
						if strings.Contains(text, sentValue) || strings.Contains(text, broughtValue) {
							t.Errorf("kept masked: %q", text)
						}
					}
				})
			}
		}
	}
}

// pseudonymOf is what the caller's value is called in another session.
func (m *masked) pseudonymOf(session string) (pseudonym string) {
	m.upstream.says(func(value string) string {
		pseudonym = value
		return stream(choice(`"delta":{"content":%s}`)("ok")...)
	})
	m.post(m.t, "/v1/chat/completions", surfaces()["content"].request(false, ""), "X-Sluice-Session", session)
	return pseudonym
}

// texts are what was kept so far.
func (k *kit) texts() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, t := range k.kept {
		out = append(out, t.Text)
	}
	return out
}

// TestLogprobsShowNothing: entries never spell what the caller did not get, neither the chosen tokens nor the others, and none spells
// reasoning.
func TestLogprobsShowNothing(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "redact")
	entry := func(token, name string, others ...string) string {
		top := []string{}
		for _, o := range others {
			top = append(top, fmt.Sprintf(`{"token":%q,"logprob":-3,"bytes":null}`, o))
		}
		var bytes openai.ByteList = []byte(token)
		list, _ := json.Marshal(bytes)
		return fmt.Sprintf(`{"token":%q,"logprob":-0.5,"bytes":%s,"top_logprobs":[%s]}`, name, list, strings.Join(top, ","))
	}
	chunk := func(field, text string, entries ...string) string {
		return fmt.Sprintf(`{"choices":[{"delta":{%q:%q},"logprobs":{"content":[%s]}}]}`, field, text, strings.Join(entries, ","))
	}
	const end = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	for name, c := range map[string]struct {
		chunks []string
		want   int // entries
	}{
		"plain":                 {[]string{chunk("content", "Hello", entry("Hel", "Hel", "Jel"), entry("lo", "lo")), end}, 2},
		"hidden":                {[]string{chunk("content", "电话139", entry("电话", "电话"), entry("139", "139")), chunk("content", "12345678", entry("12345678", "12345678")), chunk("content", "。好", entry("。好", "。好")), end}, 1},
		"other name":            {[]string{chunk("content", "Hello", entry("Hello", broughtValue)), end}, 1},
		"other token":           {[]string{chunk("content", "Hello", entry("Hello", "Hello", broughtValue)), end}, 0},
		"other bytes":           {[]string{chunk("content", "Hello", entry("13912", "Hello")), chunk("content", " there", entry("345678", " there")), end}, 0},
		"reasoning":             {[]string{chunk("reasoning_content", "电话139", entry("电话139", "电话139")), chunk("reasoning_content", "12345678", entry("12345678", "12345678")), chunk("content", "Hello my good friend", entry("Hello", "Hello")), end}, 1},
		"reasoning and content": {[]string{`{"choices":[{"delta":{"reasoning_content":"1391","content":"Hello"},"logprobs":{"content":[` + entry("1391", "1391") + `]}}]}`, chunk("content", " you", entry(" you", " you")), end}, 0},
		"beyond the end":        {[]string{chunk("content", "Hello", entry("Hello", "Hello"), entry("STOP13912345678", "x")), end}, 1},
	} {
		for _, streamed := range []bool{true, false} {
			m.upstream.says(func(string) string { return stream(c.chunks...) })
			_, body := m.post(t, "/v1/chat/completions", fmt.Sprintf(`{"model":"chat","logprobs":true,"top_logprobs":2,"messages":[{"role":"user","content":"hi"}],"stream":%v}`, streamed))
			got := whole(t, body)[0].Logprobs
			if len(got) != c.want || strings.Contains(body, "12345678") {
				t.Errorf("%s, stream %v: %d entries, want %d: %s", name, streamed, len(got), c.want, body)
			}
		}
	}
	m.upstream.says(func(value string) string { // one value of the caller's withholds all entries
		return stream(chunk("content", "好"+value, entry("好", "好", value)), end)
	})
	if _, body := m.post(t, "/v1/chat/completions", surfaces()["content"].request(true, `,"logprobs":true,"top_logprobs":1`)); len(whole(t, body)[0].Logprobs) != 0 || !strings.Contains(body, `"logprobs_withheld":true`) {
		t.Error(body)
	}
}

// TestIDsAndNamesOfUpstreams: an id that could be somebody's number becomes one of ours, and what the upstream calls the model goes
// nowhere it does not look like a name.
func TestIDsAndNamesOfUpstreams(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	for id, keeps := range map[string]bool{
		"call_ab12": true, "chatcmpl-tool-9f86d081884c7d659a2feaa0c55ad015": true, "chatcmpl-tool-9f1234567c7d": false, "d3kf92kLm": true, broughtValue: false, "call_139-1234-5678": false,
		"张三": false, "": false, "a@b.cn": false,
	} {
		m.upstream.says(func(string) string {
			return stream(fmt.Sprintf(`{"model":"给张三%s","choices":[{"delta":{"tool_calls":[{"index":0,"id":%q,"function":{"name":"dial","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, broughtValue, id))
		})
		for _, streamed := range []bool{true, false} {
			_, body := m.post(t, "/v1/chat/completions", surfaces()["arguments"].request(streamed, ""))
			got := whole(t, body)[0].Calls[0].ID
			if (got == id) != keeps || got == "" || strings.Contains(body, broughtValue) || strings.Contains(body, "张三") {
				t.Errorf("%q became %q: %s", id, got, body)
			}
			if e := m.last(); strings.Contains(fmt.Sprintf("%+v", e), broughtValue) {
				t.Errorf("recorded: %+v", e)
			}
		}
	}
}

// TestUpstreamErrorsAreNotQuoted: whatever an upstream says in an error, as a status or within a stream, stays there.
func TestUpstreamErrorsAreNotQuoted(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	detail := `{"error":{"message":"no ` + broughtValue + ` 张三","type":"` + broughtValue + `","code":"` + broughtValue + `","param":"` + broughtValue + `"}}`
	for _, status := range []int{0, 400, 401, 404, 429, 500, 503} {
		for _, streamed := range []bool{true, false} {
			m.upstream.says(func(value string) string {
				if status == 0 {
					return "data: " + `{"choices":[{"delta":{"content":"电话` + value + `好吗"}}]}` + "\n\ndata: " + detail + "\n\n"
				}
				return detail
			})
			m.upstream.status = status
			resp, body := m.post(t, "/v1/chat/completions", surfaces()["content"].request(streamed, ""))
			all := body + fmt.Sprint(resp.Header) + m.logs.String() + fmt.Sprintf("%+v", m.last())
			if strings.Contains(all, broughtValue) || strings.Contains(all, "张三") {
				t.Errorf("status %d, stream %v: %s", status, streamed, all)
			}
			if !strings.Contains(body, `"error"`) || m.last().Outcome == "ok" {
				t.Errorf("status %d, stream %v: %s", status, streamed, body)
			}
		}
	}
}

// TestEveryRequestField: a value in any field of any request is a pseudonym for the engine, and comes back where answers repeat it.
func TestEveryRequestField(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "redact")
	const v = sentValue
	args := `"{\"to\":\"` + v + `\",\"n\":` + v + `}"`
	requests := map[string]struct{ path, body string }{
		"content":        {"/v1/chat/completions", `{"messages":[{"role":"user","content":"` + v + `"}]`},
		"system":         {"/v1/chat/completions", `{"messages":[{"role":"system","content":"` + v + `"},{"role":"user","content":"x"}]`},
		"parts":          {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"1380013"},{"type":"text","text":"8000"}]}]`},
		"name":           {"/v1/chat/completions", `{"messages":[{"role":"user","name":"` + v + `","content":"x"}]`},
		"refusal":        {"/v1/chat/completions", `{"messages":[{"role":"assistant","refusal":"` + v + `","content":null},{"role":"user","content":"x"}]`},
		"reasoning":      {"/v1/chat/completions", `{"messages":[{"role":"assistant","reasoning_content":"` + v + `","content":"y"},{"role":"user","content":"x"}]`},
		"call arguments": {"/v1/chat/completions", `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":` + args + `}}]},{"role":"tool","tool_call_id":"a","content":"x"}]`},
		"call id":        {"/v1/chat/completions", `{"messages":[{"role":"assistant","tool_calls":[{"id":"` + v + `","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + v + `","content":"x"}]`},
		"result":         {"/v1/chat/completions", `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"{\"p\":\"` + v + `\"}"}]`},
		"description":    {"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","description":"` + v + `","parameters":{"type":"object","properties":{"a":{"enum":["` + v + `"]}}}}}]`},
		"stop":           {"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"stop":["` + v + `"]`},
		"choices":        {"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"guided_choice":["` + v + `","b"]`},
		"schema":         {"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"a":{"const":"` + v + `"}}}}}`},
		"response":       {"/v1/responses", `{"instructions":"` + v + `","input":[{"role":"user","content":[{"type":"input_text","text":"1380013"},{"type":"input_text","text":"8000"}]}],"metadata":{"a":"` + v + `"},"user":"` + v + `"`},
		"response calls": {"/v1/responses", `{"input":[{"type":"function_call","call_id":"` + v + `","name":"f","arguments":` + args + `},{"type":"function_call_output","call_id":"` + v + `","output":"` + v + `"}]`},
		"response tools": {"/v1/responses", `{"input":"x","tools":[{"type":"function","name":"f","description":"` + v + `","parameters":{"type":"object","properties":{"a":{"const":"` + v + `"}}}}],"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object","properties":{"a":{"const":"` + v + `"}}}}}`},
		"message":        {"/v1/messages", `{"max_tokens":9,"system":"` + v + `","messages":[{"role":"user","content":[{"type":"text","text":"1380013"},{"type":"text","text":"8000"}]}]`},
		"tool use":       {"/v1/messages", `{"max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"to":"` + v + `"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"` + v + `"}]}]`},
		"tool":           {"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"x"}],"stop_sequences":["` + v + `"],"metadata":{"user_id":"` + v + `"},"tools":[{"name":"f","description":"` + v + `","input_schema":{"type":"object"}}]`},
		"document":       {"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","title":"` + v + `","source":{"type":"text","data":"` + v + `"}}]}]`},
		"prompt":         {"/v1/completions", `{"prompt":"` + v + `"`},
		"input":          {"/v1/embeddings", `{"input":["a ` + v + `","b"]`},
		"one input":      {"/v1/embeddings", `{"input":"` + v + `"`},
		"query":          {"/v1/rerank", `{"query":"` + v + `","documents":["a","b"]`},
		"query, Cohere":  {"/v2/rerank", `{"query":"` + v + `","documents":["a ` + v + `","b"]`},
		"tensor":         {"/v2/models/embed/infer", `{"inputs":[{"name":"input","datatype":"BYTES","shape":[2],"data":["a ` + v + `","b"]}]`},
		"documents":      {"/v1/rerank", `{"query":"q","return_documents":true,"documents":["a ` + v + `",{"text":"b ` + v + `"}]`},
		"pairs":          {"/v1/score", `{"text_1":["` + v + `","b"],"text_2":["c","` + v + `"]`},
		"user, metadata": {"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"user":"` + v + `","safety_identifier":"` + v + `","metadata":{"a":"` + v + `"},"prompt_cache_key":"` + v + `"`},
	}
	maps.Copy(requests, ollamaFields(v))
	for name, c := range requests {
		for _, streamed := range []bool{true, false} {
			model, before := map[string]string{"/v1/embeddings": "embed", "/api/embed": "embed", "/api/embeddings": "embed", "/v2/models/embed/infer": "embed", "/v1/rerank": "rank", "/v2/rerank": "rank", "/v1/score": "rank"}[c.path], len(m.upstream.sent())
			m.upstream.says(func(string) string {
				switch {
				case model == "embed":
					return `{"data":[{"index":0,"embedding":[1,2]}` + strings.Repeat(`,{"index":1,"embedding":[1,2]}`, strings.Count(c.body, `"b"`)) + `]}`
				case c.path == "/v1/score":
					return `{"results":[{"index":0,"relevance_score":0.5}]}`
				case model == "rank":
					return `{"results":[{"index":0,"relevance_score":0.5},{"index":1,"relevance_score":0.7}]}`
				}
				return stream(`{"choices":[{"delta":{"content":"ok"},"text":"ok","finish_reason":"stop"}]}`)
			})
			body := c.body + `,"model":"chat"`
			if model != "" {
				body = c.body + `,"model":"` + model + `"`
			} else {
				body += fmt.Sprintf(`,"stream":%v`, streamed)
			}
			resp, got := m.post(t, c.path, body+"}")
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", name, resp.StatusCode, got)
				continue
			}
			sent := m.upstream.sent()[before:]
			if strings.Contains(sent, v) || strings.Contains(sent, "138001") || sent == "" {
				t.Errorf("%s: the upstream was sent %s", name, sent)
			}
			if strings.Contains(got, "⟦") {
				t.Errorf("%s: the caller got %s", name, got)
			}
			if name == "documents" && (!strings.Contains(got, `{"text":"a `+v+`"}`) || !strings.Contains(got, `{"text":"b `+v+`"}`)) {
				t.Errorf("the documents came back as %s", got)
			}
		}
	}
}

// TestNoSilentParts: pictures, sound and files are refused by the name of their part; they never pass unseen, and never vanish.
func TestNoSilentParts(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	m.upstream.says(func(string) string { return stream() })
	for _, part := range []string{
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`, `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`,
		`{"type":"file","file":{"file_id":"f"}}`, `{"type":"video_url","video_url":{"url":"https://example.com"}}`, `{"type":"document","text":"x"}`,
	} {
		resp, body := m.post(t, "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":[{"type":"text","text":"look"},`+part+`]}]}`)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"messages[0].content[1].type"`) {
			t.Errorf("%s: %d %s", part, resp.StatusCode, body)
		}
	}
	if sent := m.upstream.sent(); sent != "" {
		t.Errorf("the upstream was sent %s", sent)
	}
}

// TestCitationsFollowTheRules: titles, headings and names of documents are text like that of the passages.
func TestCitationsFollowTheRules(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"token", "observe"} {
		m := newMasked(t, rule)
		m.rag.passages = []rag.Passage{{
			Collection: "docs", Document: "电话13700137000.txt", DocumentID: "d1", Version: "1", Title: "张三丰的电话" + broughtValue, Section: "一 > 手机" + sentValue, Text: "拨打" + broughtValue,
		}}
		m.upstream.says(func(value string) string {
			return stream(`{"choices":[{"delta":{"content":"见[1]"},"finish_reason":"stop"}]}`)
		})
		for name, body := range map[string]string{
			"/v1/chat/completions": surfaces()["content"].request(false, `,"rag":{"collection":"docs"}`),
			"stream":               surfaces()["content"].request(true, `,"rag":{"collection":"docs"}`),
			"/v1/rag/search":       `{"collection":"docs","query":"` + sentValue + `"}`,
		} {
			path := name
			if name == "stream" {
				path = "/v1/chat/completions"
			}
			resp, got := m.post(t, path, body)
			if resp.StatusCode != http.StatusOK || strings.Contains(got, "⟦") || !strings.Contains(got, "手机"+sentValue) {
				t.Errorf("%s, %s: %d %s", rule, name, resp.StatusCode, got)
			}
			for _, value := range []string{broughtValue, "13700137000"} { // the installation's own: they come back as the rule of passages has it
				if !strings.Contains(got, value) {
					t.Errorf("%s, %s: %s is missing in %s", rule, name, value, got)
				}
			}
			if sent := m.upstream.sent(); strings.Contains(sent, broughtValue) || strings.Contains(sent, "13700137000") {
				t.Errorf("%s, %s: the upstream was sent %s", rule, name, sent)
			}
		}
	}
}

// TestCitationsAreHidden where the policy does not give back what passages hold, or hides what answers show.
func TestCitationsAreHidden(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{"passage: redact, answer: observe", "passage: observe, answer: redact"} {
		m := newMasked(t, "observe")
		if _, err := m.guard.Publish(t.Context(), governance.EveryTenant, []byte(strings.ReplaceAll(policyFor("observe"), "passage: token, answer: observe", rules)), "test"); err != nil {
			t.Fatal(err)
		}
		m.rag.passages = []rag.Passage{{Collection: "docs", Document: broughtValue, DocumentID: "d1", Version: "1", Title: "电话" + broughtValue, Section: "手机" + broughtValue, Text: "拨打" + broughtValue}}
		m.upstream.says(func(string) string {
			return stream(`{"choices":[{"delta":{"content":"见[1]"},"finish_reason":"stop"}]}`)
		})
		for _, streamed := range []bool{true, false} {
			_, chat := m.post(t, "/v1/chat/completions", surfaces()["content"].request(streamed, `,"rag":{"collection":"docs"}`))
			_, found := m.post(t, "/v1/rag/search", `{"collection":"docs","query":"x"}`)
			for _, got := range []string{chat, found} {
				if strings.Contains(got, broughtValue) || !strings.Contains(got, `"document":"`+hiddenValue+`"`) || !strings.Contains(got, "电话"+hiddenValue) || !strings.Contains(got, `"section":"手机`+hiddenValue) {
					t.Errorf("%s: %s", rules, got)
				}
			}
		}
	}
}

// failing lets answers out until its rules fail.
type failing struct {
	gateway.Decision

	after  int
	panics any
}

func (f failing) Release() egress.Release {
	return &failingRelease{Release: f.Decision.Release(), left: f.after, f: f}
}

type failingRelease struct {
	egress.Release

	left int
	f    failing
}

func (r *failingRelease) Write(s string) (string, error) {
	if r.left--; r.left < 0 {
		if r.f.panics != nil {
			panic(r.f.panics)
		}
		return "", fmt.Errorf("the detector is broken")
	}
	return r.Release.Write(s)
}

// failingGuard is a guard whose rules fail at the second piece of every answer.
type failingGuard struct {
	admits

	panics any
}

type admits interface {
	Admit(ctx context.Context, ask governance.AdmitRequest) (gateway.Decision, error)
	Models(ctx context.Context, tenant, project string, all []string) []string
}

func (g failingGuard) Admit(ctx context.Context, ask governance.AdmitRequest) (gateway.Decision, error) {
	a, err := g.admits.Admit(ctx, ask)
	return failing{a, 1, g.panics}, err
}

// TestFailingRules: when the rules of answers fail in the middle, the text stops there, the stream ends with an error event and no end
// marker, and neither the caller nor the log learns what was to come.
func TestFailingRules(t *testing.T) {
	t.Parallel()
	for what, panics := range map[string]any{"error": nil, "panic": "quoting " + broughtValue, "runtime error": fmt.Errorf("index out of range %s", broughtValue)} {
		m := newMasked(t, "redact", func(d *gateway.Deps) { d.Guard = failingGuard{d.Guard, panics} })
		for name, s := range surfaces() {
			if name == "name of a call" || strings.HasSuffix(name, "JSON") || strings.HasSuffix(name, "arguments") || name == "function_call" {
				continue // each string has rules of its own
			}
			for _, streamed := range []bool{true, false} {
				m.upstream.says(func(string) string { return stream(s.chunks("好的，请拨打" + broughtValue + "找他")...) })
				resp, body := m.post(t, s.path, s.request(streamed, ""))
				if strings.Contains(body, "139123") || strings.Contains(body, "拨打") || strings.Contains(m.logs.String(), broughtValue) {
					t.Errorf("%s, %s: %s\n%s", what, name, body, m.logs.String())
				}
				if e := m.last(); e.Outcome != "failed" {
					t.Errorf("%s, %s: %+v", what, name, e)
				}
				if !streamed || strings.HasSuffix(name, "second of two choices") && resp.StatusCode != http.StatusOK {
					if resp.StatusCode != http.StatusInternalServerError {
						t.Errorf("%s, %s: %d %s", what, name, resp.StatusCode, body)
					}
					continue
				}
				mark := `"error":{`
				if strings.HasPrefix(s.path, "/api/") {
					mark = `{"error":"`
					body = "data: " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n\ndata: ") + "\n\n" // the same events
				}
				evs := events(t, body)
				if last := evs[len(evs)-1]; !strings.Contains(last, mark) || !strings.Contains(last, `"internal_error"`) {
					t.Errorf("%s, %s: the stream ends with %s", what, name, last)
				}
			}
		}
	}
}

// TestStreamsCutAnywhere: the bytes of an upstream's stream may arrive cut at any place, also within a character.
func TestStreamsCutAnywhere(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "redact")
	step := 5
	if long() {
		step = 1
	}
	for _, name := range []string{"content", "reasoning_content", "arguments", "text", "second of two choices", "socket content", "socket arguments", "ollama content", "ollama arguments", "ollama raw"} {
		s := surfaces()[name]
		size, want := 0, ""
		for cut := 0; cut <= size; cut += step {
			m.upstream.says(func(value string) string {
				out := stream(s.chunks("甲" + value + "乙" + broughtValue + "😀a@b.cn")...)
				size = len(out)
				return out
			})
			m.upstream.cut = cut
			_, body := m.post(t, s.path, s.request(true, ""))
			got := s.shown(whole(t, body))
			if cut == 0 {
				want = got
			}
			if got != want || want != "甲"+sentValue+"乙"+hiddenValue+"😀〔已屏蔽:邮箱〕" {
				t.Fatalf("%s cut at byte %d: %q, want %q", name, cut, got, want)
			}
		}
	}
}

// TestLeavingShowsNothing: what waits in the window when the caller leaves goes nowhere, neither out nor into what is kept.
func TestLeavingShowsNothing(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "redact")
	first := stream(`{"choices":[{"delta":{"content":"好的，请拨打1391234"}}]}`)
	first = strings.TrimSuffix(first, "data: [DONE]\n\n")
	m.upstream.says(func(string) string { return first + stream(surfaces()["content"].chunks("5678找他")...) })
	m.upstream.cut, m.upstream.hold = len(first), make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL+"/v1/chat/completions", strings.NewReader(surfaces()["content"].request(true, "")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for len(m.ended) > 0 {
		<-m.ended
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, "好的") || strings.Contains(line, "1391234") {
		t.Fatalf("%q, %v", line, err)
	}
	leave()
	<-m.ended
	if e, kept := m.last(), strings.Join(m.texts(), "\n"); e.Outcome != "aborted" || strings.Contains(kept, "1391234") || !strings.Contains(kept, "好的") {
		t.Errorf("%+v, kept %q", e, kept)
	}
}

// TestPlaygroundIsNoWayAround: the admin plane's chat passes the same rules.
func TestPlaygroundIsNoWayAround(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "redact")
	e := gin.New()
	e.Use(m.api.Middleware())
	e.POST("/play", m.api.Playground(func(c *gin.Context, err error) { m.api.WriteError(c, err) }))
	server := httptest.NewServer(e)
	defer server.Close()
	m.Server = server
	s := surfaces()["content"]
	m.upstream.says(func(value string) string { return stream(s.chunks(value + "乙" + broughtValue)...) })
	for _, streamed := range []bool{true, false} {
		_, body := m.post(t, "/play", s.request(streamed, ""))
		if got := s.shown(whole(t, body)); got != sentValue+"乙"+hiddenValue || strings.Contains(m.upstream.sent(), sentValue) {
			t.Errorf("%s", body)
		}
	}
}

// long reports whether the suites that take long were asked for.
func long() bool { return os.Getenv("SLUICE_TEST_LONG") != "" }
