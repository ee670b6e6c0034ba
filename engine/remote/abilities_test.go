package remote_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/internal/fault"
)

// able is a configuration whose models can do everything, in a dialect.
func able(url, dialect string) remote.Config {
	c := config(url)
	c.Models = []remote.ModelConfig{
		{ID: "chat", Upstream: "scripted", ContextTokens: 4096, Logprobs: true, Tools: true, Formats: true, Sampling: true, Dialect: dialect},
		{ID: "embed", Upstream: "scripted-embed", EmbedDim: 32, QueryPrefix: "query: ", PassagePrefix: "passage: "},
		{ID: "rank", Upstream: "scripted-rerank", Rerank: true, Dialect: dialect},
		{ID: "plain", Upstream: "scripted"},
	}
	return c
}

type answer struct {
	text     string
	calls    []engine.ToolCall
	finish   engine.Finish
	logprobs []engine.TokenLogprob
}

func generate(t *testing.T, e engine.Engine, req *engine.Request) (a answer, err error) {
	t.Helper()
	for ev, err := range enginetest.Ask(t.Context(), e, req) {
		if err != nil {
			return a, err
		}
		a.text += ev.Text
		a.logprobs = append(a.logprobs, ev.Logprobs...)
		for _, d := range ev.Calls {
			if d.Index == len(a.calls) {
				if d.Name == "" || d.ID == "" {
					t.Errorf("a call begins with %+v", d)
				}
				a.calls = append(a.calls, engine.ToolCall{ID: d.ID, Name: d.Name})
			} else if d.ID != "" || d.Name != "" || d.Arguments == "" {
				t.Errorf("a call goes on with %+v", d)
			}
			a.calls[d.Index].Arguments += d.Arguments
		}
		if ev.Finish != "" {
			a.finish = ev.Finish
		}
	}
	return a, nil
}

// TestAbilitiesPass: a request with everything arrives at the upstream as it was, and its calls come back.
func TestAbilitiesPass(t *testing.T) {
	want := []engine.ToolCall{{ID: "c9", Name: "f", Arguments: `{"a":"b"}`}, {ID: "c10", Name: "f", Arguments: `{}`}}
	up := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"let me"}, Calls: [][]engine.ToolCall{want}}
	})
	e := open(t, able(serve(t, &enginetest.Upstream{Engine: up}), "vllm"))
	req := engine.Request{
		Model: "chat", MaxTokens: 50, MinTokens: 2, Temperature: .5, TopP: .9, TopK: 3, MinP: .1, RepetitionPenalty: 1.2,
		FrequencyPenalty: .3, PresencePenalty: -.4, LogitBias: map[int32]float64{5: -1}, Stop: []string{"zz"}, Logprobs: -1,
		Messages: []engine.Message{
			{Role: "user", Content: "u", Name: "n"},
			{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":1}`}}},
			{Role: "tool", Content: "r", ToolCallID: "c1"},
		},
		Tools:      []engine.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}},
		ToolChoice: engine.ToolChoice{Mode: engine.ToolFunction, Name: "f"}, ParallelTools: true,
	}
	for name, f := range map[string]*engine.Format{
		"none": nil, "object": {JSONObject: true}, "schema": {JSONSchema: json.RawMessage(`{"type":"object"}`)}, "regex": {Regex: "a+"}, "choice": {Choice: []string{"a", "b"}}, "grammar": {GBNF: "root ::= \"a\""},
	} {
		req.Format = f
		got, err := generate(t, e, &req)
		if err != nil || got.text != "let me" || !reflect.DeepEqual(got.calls, want) || got.finish != engine.FinishTools {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		all := up.Requests()
		sent := all[len(all)-1]
		asked := req
		asked.Model = sent.Model
		if !reflect.DeepEqual(sent, asked) {
			t.Errorf("%s: arrived\n%+v, sent\n%+v", name, sent, asked)
		}
	}
	for _, mode := range []engine.ToolMode{"", engine.ToolAuto, engine.ToolNone, engine.ToolRequired} {
		req.ToolChoice, req.ParallelTools = engine.ToolChoice{Mode: mode}, false
		if _, err := generate(t, e, &req); err != nil {
			t.Fatal(err)
		}
		all := up.Requests()
		if sent := all[len(all)-1]; sent.ToolChoice != req.ToolChoice || sent.ParallelTools {
			t.Errorf("%q: %+v", mode, sent.ToolChoice)
		}
	}
	echo, err := generate(t, e, &engine.Request{Model: "chat", Prompt: "abcdef", Echo: true, Logprobs: 0})
	if err != nil || echo.text != "abcdeflet me" || !math.IsNaN(echo.logprobs[0].Logprob) || math.IsNaN(echo.logprobs[1].Logprob) {
		t.Errorf("%+v, %v", echo, err)
	}
}

// TestDialects: what a dialect has no name for is refused and not left out; what it names otherwise is renamed.
func TestDialects(t *testing.T) {
	var body string
	up := &enginetest.Upstream{Engine: enginetest.NewScripted(nil)}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		r.Body = io.NopCloser(strings.NewReader(body))
		up.ServeHTTP(w, r)
	}))
	base := func() *engine.Request { return &engine.Request{Model: "chat", Prompt: "x", Logprobs: -1} }
	for _, c := range []struct {
		dialect, field string
		set            func(r *engine.Request)
		sent           string // "" is a refusal
	}{
		{"", "top_k", func(r *engine.Request) { r.TopK = 2 }, ""},
		{"openai", "min_p", func(r *engine.Request) { r.MinP = .2 }, ""},
		{"openai", "repetition_penalty", func(r *engine.Request) { r.RepetitionPenalty = 1.5 }, ""},
		{"openai", "min_tokens", func(r *engine.Request) { r.MinTokens = 1 }, ""},
		{"openai", "response_format", func(r *engine.Request) { r.Format = &engine.Format{Regex: "a"} }, ""},
		{"openai", "response_format", func(r *engine.Request) { r.Format = &engine.Format{Choice: []string{"a"}} }, ""},
		{"openai", "", func(r *engine.Request) { r.RepetitionPenalty = 1 }, `"prompt":"x"`},
		{"openai", "", func(r *engine.Request) { r.PresencePenalty = 1 }, `"presence_penalty":1`},
		{"openai", "", func(r *engine.Request) { r.Format = &engine.Format{JSONObject: true} }, `"response_format":{"type":"json_object"}`},
		{"vllm", "", func(r *engine.Request) { r.RepetitionPenalty = 1.5 }, `"repetition_penalty":1.5`},
		{"vllm", "", func(r *engine.Request) { r.Format = &engine.Format{Regex: "a"} }, `"structured_outputs":{"regex":"a"}`},
		{"llama.cpp", "", func(r *engine.Request) { r.Temperature, r.PresencePenalty = 1, 1 }, `"top_k":-1,"min_p":1e-9`},
		{"llama.cpp", "", func(r *engine.Request) { r.PresencePenalty = 1 }, `"top_p":1,`},
		{"llama.cpp", "", func(r *engine.Request) { r.RepetitionPenalty = 1.5 }, `"repeat_penalty":1.5`},
		{"llama.cpp", "", func(r *engine.Request) { r.Format = &engine.Format{GBNF: "g"} }, `"grammar":"g"`},
		{"llama.cpp", "", func(r *engine.Request) { r.Format = &engine.Format{Choice: []string{"a\"b", "c\\\n"}} }, `"grammar":"root ::= \"a\\\"b\" | \"c\\\\\\n\""`},
		{"llama.cpp", "response_format", func(r *engine.Request) { r.Format = &engine.Format{Regex: "a"} }, ""},
		{"llama.cpp", "min_tokens", func(r *engine.Request) { r.MinTokens = 1 }, ""},
		{"llama.cpp", "echo", func(r *engine.Request) { r.Echo = true }, ""},
		{"sglang", "", func(r *engine.Request) { r.Format = &engine.Format{Regex: "a"} }, `"regex":"a"`},
		{"sglang", "", func(r *engine.Request) { r.Format = &engine.Format{GBNF: "g"} }, `"ebnf":"g"`},
		{"sglang", "", func(r *engine.Request) { r.Format = &engine.Format{Choice: []string{"a.", "b"}} }, `"regex":"(a\\.|b)"`},
		{"lmdeploy", "", func(r *engine.Request) { r.MinTokens = 3 }, `"min_new_tokens":3`},
		{"lmdeploy", "", func(r *engine.Request) { r.Temperature, r.PresencePenalty = 1, 1 }, `"top_k":0`},
		{"lmdeploy", "", func(r *engine.Request) { r.Format = &engine.Format{Regex: "a"} }, `"response_format":{"type":"regex_schema","regex_schema":"a"}`},
		{"lmdeploy", "response_format", func(r *engine.Request) { r.Format = &engine.Format{GBNF: "g"} }, ""},
		{"fastdeploy", "", func(r *engine.Request) { r.Format = &engine.Format{Choice: []string{"a"}} }, `"guided_choice":["a"]`},
		{"fastdeploy", "seed", func(r *engine.Request) { s := uint64(1); r.Seed = &s }, ""},
		{"mistral.rs", "", func(r *engine.Request) { r.Format = &engine.Format{Regex: "a"} }, `"grammar":{"type":"regex","value":"a"}`},
		{"mindie", "response_format", func(r *engine.Request) { r.Format = &engine.Format{JSONObject: true} }, ""},
		{"tgi", "model", func(*engine.Request) {}, ""}, // it has no endpoint for plain prompts
	} {
		body = ""
		req := base()
		c.set(req)
		_, err := generate(t, open(t, able(url, c.dialect)), req)
		if c.sent == "" {
			if !fault.Is(err, fault.CodeUnsupported) || fault.Public(err).Param() != c.field || body != "" {
				t.Errorf("%s %s: %v, sent %s", c.dialect, c.field, err, body)
			}
		} else if err != nil && c.dialect != "mistral.rs" || !strings.Contains(body, c.sent) { // whose grammar the scripted upstream does not read
			t.Errorf("%s: %v, sent %s, want %s", c.dialect, err, body, c.sent)
		}
		req.Model, body = "plain", ""
		if c.field == "seed" || c.field == "model" { // which needs no ability
			continue
		}
		if _, err := generate(t, open(t, able(url, c.dialect)), req); req.RepetitionPenalty != 1 && (!fault.Is(err, fault.CodeUnsupported) || body != "") {
			t.Errorf("a plain model: %v, sent %s", err, body)
		}
	}
}

// TestMadeUpDialect: a dialect that nobody has heard of works by its file alone.
func TestMadeUpDialect(t *testing.T) {
	dir := t.TempDir()
	file := `
profile: made-up
title: Made up
extends: openai
family: openai
kind: engine
basis: documented
sources: {book: {url: "https://example.com/manual", date: "2026-11-26"}}
endpoints: {base: /api, chat: /api/talk, completions: /api/complete, embeddings: null, rerank: null, source: book}
models: {path: /api/models, source: book}
request:
  top_k: {name: sampling.k, source: book}
  seed: {name: dice, source: book}
  regex: {name: shape, as: typed, source: book}
stream: {finish: {enough: length, broken: error}, source: book}
errors:
  source: book
  rules: [{status: [418], says: pot, fault: engine_overloaded, source: book}]
contract:
  features: {embeddings: roadmap, sampling.top_k: {status: claimed, grade: E1, owner: engine, source: book}}
`
	if err := os.WriteFile(filepath.Join(dir, "made-up.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := profile.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	status, finish, sent := 200, "enough", ""
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		sent = r.URL.Path + " " + string(raw)
		w.WriteHeader(status)
		if status != 200 {
			_, _ = io.WriteString(w, `{"error":"the pot is full"}`)
			return
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"text":"x","finish_reason":"`+finish+`"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	c := able(url, "made-up")
	c.BaseURL, c.Profiles, c.Models = url+"/api", set, c.Models[:1]
	e := open(t, c)
	seed := uint64(7)
	req := &engine.Request{Model: "chat", Prompt: "p", Logprobs: -1, TopK: 4, Seed: &seed, Format: &engine.Format{Regex: "a+"}}
	got, err := generate(t, e, req)
	if err != nil || got.text != "x" || got.finish != engine.FinishLength {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.HasPrefix(sent, "/api/complete ") || !strings.HasSuffix(sent, `"sampling":{"k":4},"dice":7,"shape":{"type":"regex","value":"a+"}}`) || strings.Contains(sent, `"seed"`) {
		t.Errorf("sent %s", sent)
	}
	if finish = "broken"; true {
		if _, err := generate(t, e, req); !fault.Is(err, fault.CodeUpstreamFailed) {
			t.Errorf("an answer that is none: %v", err)
		}
	}
	if status = 418; true {
		if _, err := generate(t, e, req); !fault.Is(err, fault.CodeEngineOverloaded) {
			t.Errorf("a full pot: %v", err)
		}
	}
	if err := (remote.Config{BaseURL: url, Models: c.Models}).Validate(); err == nil {
		t.Error("the program knows it without its file")
	}
}

// TestNamedToolOfLlama: that server calls any tool, whichever is named, so that it hears of the named one only.
func TestNamedToolOfLlama(t *testing.T) {
	up := enginetest.NewScripted(nil)
	e := open(t, able(serve(t, &enginetest.Upstream{Engine: up}), "llama.cpp"))
	req := &engine.Request{
		Model: "chat", Messages: []engine.Message{{Role: "user", Content: "u"}}, Logprobs: -1, ParallelTools: true,
		Tools: []engine.Tool{{Name: "f"}, {Name: "g"}}, ToolChoice: engine.ToolChoice{Mode: engine.ToolFunction, Name: "g"},
	}
	if _, err := generate(t, e, req); err != nil {
		t.Fatal(err)
	}
	if sent := up.Requests()[0]; len(sent.Tools) != 1 || sent.Tools[0].Name != "g" || sent.ToolChoice.Mode != engine.ToolRequired {
		t.Errorf("%+v, %+v", sent.Tools, sent.ToolChoice)
	}
	req.ToolChoice.Name = "h"
	if _, err := generate(t, e, req); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != "tool_choice" {
		t.Errorf("a tool that is not there: %v", err)
	}
}

func TestModelsTellAbilities(t *testing.T) {
	all, err := open(t, able("http://127.0.0.1:1", "vllm")).Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[engine.ModelID]engine.Model{}
	for _, m := range all {
		got[m.ID] = m
	}
	if m := got["chat"]; !m.CanGenerate || !m.HasTools || !m.HasFormats || !m.HasSampling || m.CanScore || m.CanEmbed {
		t.Errorf("%+v", m)
	}
	if m := got["plain"]; !m.CanGenerate || m.HasTools || m.HasFormats || m.HasSampling {
		t.Errorf("%+v", m)
	}
	if m := got["rank"]; !m.CanScore || m.CanGenerate || m.CanEmbed || m.HasTools {
		t.Errorf("%+v", m)
	}
	for _, bad := range []remote.ModelConfig{{ID: "a", Rerank: true, EmbedDim: 3}, {ID: "a", Dialect: "telepathy"}} {
		if (remote.Config{BaseURL: "http://h/v1", Models: []remote.ModelConfig{bad}}).Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestOddCalls: servers break the rules of the dialect in known ways; what can be understood is put right.
func TestOddCalls(t *testing.T) {
	part := func(calls string) string {
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]}}]}` + "\n\n"
	}
	end := func(reason string) string {
		return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\ndata: [DONE]\n\n"
	}
	for name, c := range map[string]struct{ body, want string }{
		"as it should be":             {part(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`) + part(`{"index":0,"function":{"arguments":"{\"x\""}}`) + part(`{"index":0,"function":{"arguments":":1}"}}`) + end("tool_calls"), `a f {"x":1}`},
		"stop though it calls":        {part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`) + end("stop"), `a f {}`},
		"no end":                      {part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`) + "data: [DONE]\n\n", `a f {}`},
		"no id":                       {part(`{"index":0,"function":{"name":"f","arguments":"{}"}}`) + end("tool_calls"), `call_0 f {}`},
		"no index":                    {part(`{"id":"a","function":{"name":"f","arguments":"{"}}`) + part(`{"function":{"arguments":"}"}}`) + part(`{"id":"b","function":{"name":"g","arguments":"{}"}}`) + end("tool_calls"), `a f {}|b g {}`},
		"neither index nor id":        {part(`{"function":{"name":"f","arguments":"{}"}}`) + part(`{"function":{"name":"f","arguments":"{\"x\":2}"}}`) + end("tool_calls"), `call_0 f {}|call_1 f {"x":2}`},
		"always index 0":              {part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}`) + end("tool_calls"), `a f {}|b g {}`},
		"always index 0, no ids":      {part(`{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g","arguments":"{}"}}`) + end("tool_calls"), `call_0 f {}|call_1 g {}`},
		"index from 1":                {part(`{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":2,"id":"b","function":{"name":"g","arguments":"{}"}}`) + end("tool_calls"), `a f {}|b g {}`},
		"parts in turn":               {part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}`) + part(`{"index":0,"function":{"arguments":"}"}},{"index":1,"function":{"arguments":"}"}}`) + end("tool_calls"), `a f {}|b g {}`},
		"the name in every part":      {part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`) + part(`{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}`) + part(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`) + end("tool_calls"), `a f {}`},
		"the name comes late":         {part(`{"index":0,"id":"a","function":{"arguments":"{"}}`) + part(`{"index":0,"function":{"name":"f","arguments":"}"}}`) + end("tool_calls"), `a f {}`},
		"arguments are an object":     {part(`{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}`) + end("tool_calls"), `a f {"x":1}`},
		"arguments are null":          {part(`{"index":0,"id":"a","function":{"name":"f","arguments":null}}`) + end("tool_calls"), `a f `},
		"arguments are the text null": {part(`{"index":0,"id":"a","function":{"name":"f","arguments":"null"}}`) + end("tool_calls"), `a f `},
		"content is null":             {`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":null}}]}` + "\n\n" + part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`) + end("tool_calls"), `a f {}`},
		"the second name comes first": {part(`{"index":0,"id":"a","function":{"arguments":"{"}}`) + part(`{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`) + part(`{"index":0,"function":{"name":"f","arguments":"}"}}`) + end("tool_calls"), `a f {}|b g {}`},
		"no name":                     {part(`{"index":0,"id":"a","function":{"arguments":"{}"}}`) + end("tool_calls"), ""},
		"calls are text":              {`data: {"choices":[{"index":0,"delta":{"tool_calls":"Wang"}}]}` + "\n\n" + end("tool_calls"), ""},
	} {
		e := open(t, able(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })), ""))
		a, err := generate(t, e, &engine.Request{Model: "chat", Messages: []engine.Message{{Role: "user", Content: "x"}}, MaxTokens: 50, Logprobs: -1})
		var got []string
		for _, k := range a.calls {
			got = append(got, fmt.Sprintf("%s %s %s", k.ID, k.Name, k.Arguments))
		}
		if c.want == "" {
			if !fault.Is(err, fault.CodeUpstreamFailed) || strings.Contains(err.Error(), "Wang") {
				t.Errorf("%s: %v", name, err)
			}
		} else if err != nil || strings.Join(got, "|") != c.want || a.finish != engine.FinishTools {
			t.Errorf("%s: %q (%s), %v; want %q", name, got, a.finish, err, c.want)
		}
	}
}

func TestEmbedRolesAndDimensions(t *testing.T) {
	up := enginetest.NewScripted(nil)
	e := open(t, able(serve(t, &enginetest.Upstream{Engine: up}), ""))
	whole, err := enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "embed", Input: []string{"a"}, Role: engine.RoleQuery})
	if err != nil {
		t.Fatal(err)
	}
	short, err := enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "embed", Input: []string{"a"}, Role: engine.RoleQuery, Dimensions: 8})
	if err != nil || len(short.Vectors[0]) != 8 {
		t.Fatalf("%+v, %v", short, err)
	}
	norm := 0.0
	for _, v := range short.Vectors[0] {
		norm += float64(v) * float64(v)
	}
	if ratio := whole.Vectors[0][0] / short.Vectors[0][0]; math.Abs(norm-1) > 1e-5 || math.Abs(float64(whole.Vectors[0][7]/short.Vectors[0][7]-ratio)) > 1e-5 {
		t.Errorf("length %v", norm)
	}
	_, _ = enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "embed", Input: []string{"b"}, Role: engine.RolePassage})
	_, _ = enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "embed", Input: []string{"c"}})
	var sent []string
	for _, in := range up.Inputs() {
		sent = append(sent, in.Input...)
	}
	if !slices.Equal(sent, []string{"query: a", "query: a", "passage: b", "c"}) {
		t.Errorf("%q", sent)
	}
	if _, err := enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "embed", Input: []string{"a"}, Dimensions: 33}); !fault.Is(err, fault.CodeUnsupported) {
		t.Errorf("%v", err)
	}
}

func TestScores(t *testing.T) {
	up := enginetest.NewScripted(nil)
	e := open(t, able(serve(t, &enginetest.Upstream{Engine: up}), ""))
	got, err := enginetest.Score(t.Context(), e, &engine.ScoreRequest{Model: "rank", Query: "abcdef", Documents: []string{"x", "abcdef", "abc"}})
	if err != nil || !slices.Equal(got.Scores, []float64{0, 1, .5}) || got.PromptTokens == 0 || got.Model != "scripted-rerank" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := enginetest.Score(t.Context(), e, &engine.ScoreRequest{Model: "chat", Query: "a", Documents: []string{"x"}}); !fault.Is(err, fault.CodeUnsupported) {
		t.Errorf("%v", err)
	}
	if _, err := enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "rank", Input: []string{"x"}}); !fault.Is(err, fault.CodeUnsupported) {
		t.Errorf("%v", err)
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, c := range []struct {
		dialect, body string
		want          []float64
	}{
		{"", `{"results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.1}]}`, []float64{.1, .9}},
		{"", `{"results":[{"index":1,"relevance_score":3},{"index":0,"relevance_score":0.5}]}`, []float64{sigmoid(.5), sigmoid(3)}},
		{"llama.cpp", `{"results":[{"index":0,"relevance_score":0.5},{"index":1,"relevance_score":0.25}]}`, []float64{sigmoid(.5), sigmoid(.25)}},
		{"", `{"results":[{"index":0,"relevance_score":1}]}`, nil},
		{"", `{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]}`, nil},
		{"", `{"results":[{"index":0,"relevance_score":1},{"index":2,"relevance_score":1}]}`, nil},
		{"", `{"results":[{"index":0,"relevance_score":1},{"index":1}]}`, nil},
		{"", `not JSON`, nil},
	} {
		e := open(t, able(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })), c.dialect))
		got, err := enginetest.Score(t.Context(), e, &engine.ScoreRequest{Model: "rank", Query: "q", Documents: []string{"a", "b"}})
		if c.want == nil {
			if !fault.Is(err, fault.CodeUpstreamFailed) {
				t.Errorf("%s: %+v, %v", c.body, got, err)
			}
		} else if err != nil || !slices.Equal(got.Scores, c.want) || got.PromptTokens == 0 {
			t.Errorf("%s: %+v, %v", c.body, got, err)
		}
	}
}
