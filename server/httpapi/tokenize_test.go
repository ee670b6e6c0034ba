package httpapi

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/openai"
)

// TestTokenize: the count is that which a completion of the same prompt is billed, masked texts and tools included, and nothing is generated for it.
func TestTokenize(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for name, c := range map[string]struct{ path, body string }{
		"chat":   {"/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"SECRET1 hello there"}],"tools":[{"type":"function","function":{"name":"send","parameters":{"type":"object"}}}]`},
		"prompt": {"/v1/completions", `{"model":"chat","prompt":"SECRET1 hello there"`},
	} {
		_, answer := k.post(t, c.path, c.body+"}")
		asked := len(k.engine.Requests())
		resp, body := k.post(t, "/v1/tokenize", c.body+`,"return_token_strs":false,"add_special_tokens":true}`)
		got := decode[struct {
			Count  int
			Most   int `json:"max_model_len"`
			Sluice extension
		}](t, body)
		want := decode[struct{ Usage openai.Usage }](t, answer).Usage.PromptTokens
		if resp.StatusCode != 200 || got.Count != want || want == 0 || got.Most == 0 || got.Sluice.Receipt == "" || len(got.Sluice.Findings) != 1 || got.Sluice.Estimated {
			t.Errorf("%s: %d %s, want %d", name, resp.StatusCode, body, want)
		}
		if n := len(k.engine.Requests()); n != asked {
			t.Errorf("%s: the engine was asked", name)
		}
		if e := k.last(); e.Action != "tokens.count" || e.Outcome != "ok" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for body, want := range map[string]string{
		`{"model":"chat"}`: `"param":"prompt"`, `{"prompt":"x"}`: `"param":"model"`, `{"model":"chat","prompt":"x","messages":[]}`: `"param":"prompt"`, `{"model":"chat","messages":[]}`: `"param":"messages"`,
		`{"model":"chat","prompt":"x","return_token_strs":true}`: `"param":"return_token_strs"`, `{"model":"chat","prompt":"x","add_special_tokens":false}`: `"param":"add_special_tokens"`,
		`{"model":"chat","prompt":"x","rag":{"collection":"docs"}}`: `"param":"rag"`, `{"model":"chat","prompt":"x","chat_template":"y"}`: `"param":"chat_template"`,
	} {
		if resp, got := k.post(t, "/v1/tokenize", body); resp.StatusCode != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", body, resp.StatusCode, got)
		}
	}
}
