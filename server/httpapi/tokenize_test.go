package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
)

// tokenized is an answer of tokenize.
type tokenized struct {
	Count  int
	Most   int `json:"max_model_len"`
	Tokens []int32
	Texts  []string `json:"token_strs"`
	Sluice extension
}

// TestTokenize: the count is that which a completion of the same prompt is billed, masked texts and tools included, and nothing is generated for it.
func TestTokenize(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for name, c := range map[string]struct{ path, body string }{
		"chat":   {"/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"SECRET1 hello there"}],"tools":[{"type":"function","function":{"name":"send","parameters":{"type":"object"}}}]`},
		"prompt": {"/v1/completions", `{"model":"chat","prompt":"SECRET1 hello there"`},
	} {
		_, answer := k.post(t, c.path, c.body+"}")
		asked := len(k.engine.Requests())
		resp, body := k.post(t, "/v1/tokenize", c.body+`,"return_token_strs":true,"add_special_tokens":true}`)
		got := decode[tokenized](t, body)
		want := decode[struct{ Usage openai.Usage }](t, answer).Usage.PromptTokens
		if resp.StatusCode != 200 || got.Count != want || want == 0 || got.Most == 0 || got.Sluice.Receipt == "" || len(got.Sluice.Findings) != 1 || got.Sluice.Estimated {
			t.Errorf("%s: %d %s, want %d", name, resp.StatusCode, body, want)
		}
		if whole := strings.Join(got.Texts, ""); len(got.Tokens) != want || len(got.Texts) != want || strings.Contains(whole, secret) || !strings.Contains(whole, "⟦1⟧ hello there") {
			t.Errorf("%s: %s", name, body)
		}
		if n := len(k.engine.Requests()); n != asked {
			t.Errorf("%s: the engine was asked", name)
		}
		if e := k.last(); e.Action != "tokens.encode" || e.Outcome != "ok" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for body, want := range map[string]string{
		`{"model":"chat"}`: `"param":"prompt"`, `{"prompt":"x"}`: `"param":"model"`, `{"model":"chat","prompt":"x","messages":[]}`: `"param":"prompt"`, `{"model":"chat","messages":[]}`: `"param":"messages"`,
		`{"model":"chat","prompt":"x","tools":[{"type":"function","function":{"name":"send"}}]}`: `"param":"tools"`, `{"model":"chat","prompt":"x","tool_choice":{"type":"x"}}`: `"param":"tool_choice`, `{"model":"chat","prompt":"x","tools":7}`: `"param":"tools"`,
		`{"model":"chat","prompt":"x","return_token_strs":1}`: `"param":"return_token_strs"`, `{"model":"chat","prompt":"x","add_special_tokens":"no"}`: `"param":"add_special_tokens"`,
		`{"model":"plain","prompt":"x","return_token_strs":true}`: `"code":"unsupported_parameter"`, `{"model":"plain","prompt":"x","add_special_tokens":false}`: `"code":"unsupported_parameter"`,
		`{"model":"chat","prompt":"x","rag":{"collection":"docs"}}`: `"param":"rag"`, `{"model":"chat","prompt":"x","chat_template":"y"}`: `"param":"chat_template"`,
	} {
		if resp, got := k.post(t, "/v1/tokenize", body); resp.StatusCode != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", body, resp.StatusCode, got)
		}
	}
}

// TestTokensUntold: the count of a model whose engine tells no tokens is there without them.
func TestTokensUntold(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, body := k.post(t, "/tokenize", `{"model":"plain","prompt":"hello there"}`)
	if got := decode[tokenized](t, body); resp.StatusCode != 200 || got.Count != 4 || !strings.Contains(body, `"tokens":null`) || !strings.Contains(body, `"token_strs":null`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestDetokenize: the text of tokens comes back as its caller may see it, is masked before anything is recorded of it, and costs nothing.
func TestDetokenize(t *testing.T) {
	k := newKit(t, Config{}, nil)
	ids := map[string]string{}
	for _, text := range []string{"hello there", "SECRET1 hello"} { // the second as another program has counted it, unmasked
		p, err := k.engine.Prepare(t.Context(), &engine.Request{Model: "scripted", Prompt: text})
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.engine.Tokens(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		ids[text] = strings.ReplaceAll(strings.Trim(fmt.Sprint(got.IDs), "[]"), " ", ",")
		resp, body := k.post(t, "/v1/detokenize", `{"model":"chat","tokens":[`+ids[text]+`]}`)
		answer := decode[struct {
			Prompt string
			Sluice extension
		}](t, body)
		if resp.StatusCode != 200 || answer.Prompt != text || answer.Sluice.Receipt == "" || len(answer.Sluice.Findings) != strings.Count(text, secret) {
			t.Errorf("%d %s, want %q", resp.StatusCode, body, text)
		}
		if e := k.last(); e.Action != "tokens.decode" || e.Outcome != "ok" || e.Usage.Cost != 0 || e.AnswerDigest == "" || e.PromptDigest == "" {
			t.Errorf("%+v", e)
		}
	}
	for body, want := range map[string]string{
		`{"model":"chat"}`: `"param":"tokens"`, `{"tokens":[0]}`: `"param":"model"`, `{"model":"chat","tokens":3}`: `"param":"tokens"`,
		`{"model":"chat","tokens":[0,-1]}`: `"param":"tokens[1]"`, `{"model":"chat","tokens":[0,1.5]}`: `"param":"tokens[1]"`, `{"model":"chat","tokens":["0"]}`: `"param":"tokens[0]"`,
		`{"model":"chat","tokens":[4294967296]}`: `"param":"tokens[0]"`, `{"model":"chat","tokens":[2147483647]}`: `"param":"tokens[0]"`,
		`{"model":"chat","tokens":[` + strings.Repeat("0,", 4096) + `0]}`: `"context_length_exceeded"`,
		`{"model":"plain","tokens":[0]}`:                                  `"code":"unsupported_parameter"`, `{"model":"embed","tokens":[0]}`: `"param":"model"`,
	} {
		if resp, got := k.post(t, "/detokenize", body); resp.StatusCode/100 != 4 || !strings.Contains(got, want) {
			t.Errorf("%.60s: %d %s, want %s", body, resp.StatusCode, got, want)
		}
	}
}
