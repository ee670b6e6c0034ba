package remote_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestTokens: the tokens of a prompt are those of the upstream, in each form that is known, asked for below the root of the server. A dialect without
// such a question has none.
func TestTokens(t *testing.T) {
	chat := &engine.Request{Model: "chat", Messages: []engine.Message{{Role: "user", Content: "hello there"}}, Logprobs: -1}
	plain := &engine.Request{Model: "chat", Prompt: "hello there", Logprobs: -1}
	for _, dialect := range []string{"vllm", "llama.cpp", "openai"} {
		e := open(t, able(serve(t, &enginetest.Upstream{Engine: enginetest.NewScripted(nil)}), dialect))
		all, err := e.Models(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m := all[slices.IndexFunc(all, func(m engine.Model) bool { return m.ID == "chat" })]; m.HasTokens != (dialect != "openai") || m.HasDetokenize {
			t.Errorf("%s: listed as %+v", dialect, m)
		}
		for _, req := range []*engine.Request{chat, plain} {
			p, err := e.Prepare(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Tokens(t.Context(), p)
			if dialect == "openai" {
				if !fault.Is(err, fault.CodeUnsupported) {
					t.Errorf("%s: %+v, %v", dialect, got, err)
				}
				continue
			}
			if err != nil || len(got.IDs) == 0 || len(got.IDs) > p.Tokens || !strings.Contains(strings.Join(got.Texts, ""), "hello there") {
				t.Errorf("%s: %+v, %v", dialect, got, err)
			}
		}
		if _, err := e.Detokenize(t.Context(), &engine.DetokenizeRequest{Model: "chat", Tokens: []int32{1}}); !fault.Is(err, fault.CodeUnsupported) {
			t.Errorf("%s: detokenize: %v", dialect, err)
		}
	}
}

// TestTokensOfTheSuite holds an upstream that tells tokens to the contract.
func TestTokensOfTheSuite(t *testing.T) {
	scripted := enginetest.NewScripted(nil)
	enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
		c := able(serve(t, &enginetest.Upstream{Engine: scripted}), "vllm")
		c.Models[0].Tools, c.Models[0].Formats, c.Models[0].Sampling = false, false, false
		return open(t, c), enginetest.Options{Generate: "chat"}
	})
}

// TestTokensAsSent: vLLM is told which special tokens are wanted, and an answer that says too little is none.
func TestTokensAsSent(t *testing.T) {
	for reply, ok := range map[string]bool{
		`{"count":2,"tokens":[7,8],"token_strs":["a","b"]}`: true, `{"count":2,"tokens":[7,8],"token_strs":null}`: true,
		`{"count":2}`: false, `{"tokens":[]}`: false, `{"tokens":[7,-8]}`: false, `{"tokens":[7,8],"token_strs":["a"]}`: false, `{"tokens":["7"]}`: false,
	} {
		var path, body string
		e := open(t, able(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				raw, _ := io.ReadAll(r.Body)
				path, body = r.URL.Path, string(raw)
			}
			_, _ = io.WriteString(w, reply)
		})), "vllm"))
		got, err := e.Tokens(t.Context(), &engine.Prompt{Request: &engine.Request{Model: "chat", Prompt: "x", OmitBegin: true}})
		if (err == nil) != ok || !ok && !fault.Is(err, fault.CodeUpstreamFailed) || ok && !slices.Equal(got.IDs, []int32{7, 8}) {
			t.Errorf("%s: %+v, %v", reply, got, err)
		}
		if want := `{"model":"scripted","prompt":"x","add_special_tokens":false,"return_token_strs":true}`; path != "/tokenize" || body != want {
			t.Errorf("asked %s with %s", path, body)
		}
	}
	if _, err := generate(t, open(t, able("http://127.0.0.1:1", "vllm")), &engine.Request{Model: "chat", Prompt: "x", OmitBegin: true, Logprobs: -1}); !fault.Is(err, fault.CodeUnsupported) {
		t.Errorf("a completion without its first token: %v", err)
	}
}
