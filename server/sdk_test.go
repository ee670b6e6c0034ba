package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/internal/testnode"
	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/server/config"
)

// startNative serves the real models, as `sluice up` does with its defaults.
func startNative(t *testing.T, overrides map[string]any) *installation {
	t.Helper()
	llm := testmodel.Path(t, "smollm2-135m-instruct-q4_1.gguf")
	encoder := testmodel.Path(t, testmodel.E5)
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	text := "engines:\n  native:\n    models:\n      - {id: smollm2-135m-instruct, path: " + llm + "}\n      - {id: multilingual-e5-small, path: " + encoder + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"data": filepath.Join(dir, "data"), "listen": "127.0.0.1:0", "workflows.enabled": false, "console": false}
	for k, v := range overrides {
		all[k] = v
	}
	cfg, err := config.Load(file, nil, all)
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{t: t, dir: dir, logs: &lockedBuffer{}}
	in.run(cfg)
	return in
}

// sdks are the environments of the majors of the SDK that applications use: what it speaks over differs between them.
func sdks() []string { return []string{"openai-2", "openai-3"} }

// TestOpenAISDK drives the real model through the official Python SDK: chat, streams, error classes, retries.
func TestOpenAISDK(t *testing.T) {
	for _, sdk := range sdks() {
		t.Run(sdk, func(t *testing.T) {
			python := testpython.Python(t, sdk, "python")
			in := startNative(t, nil)
			dead, spent := in.newKey("dead"), in.newKey("spent")
			in.admin(http.MethodPost, "/keys/"+dead.id+"/revoke", nil, new(any))
			in.admin(http.MethodPut, "/budgets", map[string]any{"key": spent.id, "period": "day", "limit_nano": 0}, new(any))
			in.drive(python, "testdata/sdk/check_sdk.py", "MODEL=smollm2-135m-instruct", "EMBED_MODEL=multilingual-e5-small", "DEAD_KEY="+dead.secret, "SPENT_KEY="+spent.secret)
		})
	}
}

// TestOpenAISDKTools drives tools, formats and scores through the official Python SDK. The model is scripted: what is tested is that
// the client's helpers understand what it says, and that what it is told is masked.
func TestOpenAISDKTools(t *testing.T) {
	for _, sdk := range sdks() {
		t.Run(sdk, func(t *testing.T) {
			python := testpython.Python(t, sdk, "python")
			in := start(t, setup{plan: obliging, remote: "[{id: scripted, tools: true, formats: true, sampling: true, logprobs: true, dialect: vllm}, {id: scripted-embed, embed_dim: 32}, {id: scripted-rerank, rerank: true}]"})
			in.drive(python, "testdata/sdk/check_tools.py", "MODEL=scripted", "EMBED_MODEL=scripted-embed", "RERANK_MODEL=scripted-rerank")
			in.heardNothingOf("13800138000")
		})
	}
}

// TestOllamaSDK drives the official Python SDK of Ollama against the scripted model, which is told nothing that is masked.
func TestOllamaSDK(t *testing.T) {
	python := testpython.Python(t, "ollama", "python")
	in := start(t, setup{plan: obliging, remote: "[{id: scripted, tools: true, formats: true, sampling: true, logprobs: true, context_tokens: 4096}, {id: scripted-embed, embed_dim: 32}]"})
	in.drive(python, "testdata/sdk/check_ollama.py", "MODEL=scripted", "EMBED_MODEL=scripted-embed")
	in.heardNothingOf("13800138000")
}

// TestCohereSDK drives the official Python SDK of Cohere against the scripted model, which is told nothing that is masked.
func TestCohereSDK(t *testing.T) {
	python := testpython.Python(t, "cohere", "python")
	in := start(t, setup{remote: "[{id: scripted-rerank, rerank: true}]"})
	dead, spent := in.newKey("dead"), in.newKey("spent")
	in.admin(http.MethodPost, "/keys/"+dead.id+"/revoke", nil, new(any))
	in.admin(http.MethodPut, "/budgets", map[string]any{"key": spent.id, "period": "day", "limit_nano": 0}, new(any))
	in.drive(python, "testdata/sdk/check_cohere.py", "RERANK_MODEL=scripted-rerank", "DEAD_KEY="+dead.secret, "SPENT_KEY="+spent.secret)
	in.heardNothingOf("13800138000")
}

// TestTritonClient drives Triton's client of the Open Inference Protocol over gRPC, which nobody here has written.
func TestTritonClient(t *testing.T) {
	python := testpython.Python(t, "triton", "python")
	in := start(t, setup{remote: "[{id: scripted-embed, embed_dim: 32}]", overrides: map[string]any{"inference_listen": "127.0.0.1:0"}})
	dead, spent := in.newKey("dead"), in.newKey("spent")
	in.admin(http.MethodPost, "/keys/"+dead.id+"/revoke", nil, new(any))
	in.admin(http.MethodPut, "/budgets", map[string]any{"key": spent.id, "period": "day", "limit_nano": 0}, new(any))
	in.drive(python, "testdata/sdk/check_triton.py", "EMBED_MODEL=scripted-embed", "INFERENCE="+in.started.Inference, "DEAD_KEY="+dead.secret, "SPENT_KEY="+spent.secret)
	in.heardNothingOf("13800138000")
}

// heardNothingOf fails if a value has reached the engine.
func (in *installation) heardNothingOf(value string) {
	in.t.Helper()
	for _, q := range in.scripted.Requests() {
		if text := fmt.Sprintf("%+v", q); strings.Contains(text, value) {
			in.t.Errorf("the engine was given %s", text)
		}
	}
	for _, q := range in.scripted.Inputs() {
		if text := fmt.Sprintf("%+v", q); strings.Contains(text, value) {
			in.t.Errorf("the engine was given %s", text)
		}
	}
	for _, q := range in.scripted.Scores() {
		if text := fmt.Sprintf("%+v", q); strings.Contains(text, value) {
			in.t.Errorf("the engine was given %s", text)
		}
	}
}

// TestExamplesOfTheGuides runs the Python of the README and of the guide for applications, in both languages, against a server with the models
// that it names. The papers stay true.
func TestExamplesOfTheGuides(t *testing.T) {
	python := testpython.Python(t, "openai-3", "python")
	in := startNative(t, map[string]any{"rag.embedding_model": "multilingual-e5-small"})
	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "office"}, new(any))
	in.admin(http.MethodPost, "/rag/collections/office/documents", map[string]string{"name": "fees.md", "text": "# Fees\n\nThe fee is paid at the desk in the hall.\n"}, new(any))
	blocks := regexp.MustCompile("(?s)```python\n(.*?)```")
	for file, wanted := range map[string]string{
		"../README.md": "", "../README.zh-CN.md": "", "../docs/guides/application.md": "→ Fees", "../docs/guides/application.zh-CN.md": "→ Fees",
	} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		program := ""
		for _, b := range blocks.FindAllStringSubmatch(string(raw), -1) {
			program += b[1]
		}
		for _, address := range []string{"https://sluice.example/v1", "http://127.0.0.1:8080/v1"} {
			program = strings.ReplaceAll(program, address, in.started.BaseURL)
		}
		program = strings.ReplaceAll(program, "sk-sluice-…", in.started.Welcome.APIKey.Reveal())
		cmd := exec.CommandContext(t.Context(), python, "-c", program)
		cmd.Env = append(os.Environ(), "no_proxy=127.0.0.1", "PYTHONIOENCODING=utf-8")
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 || !strings.Contains(string(out), wanted) {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// drive runs a script of an application against the server, and verifies the audit log after it.
func (in *installation) drive(interpreter, script string, env ...string) {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, script)
	cmd.Env = append(os.Environ(), append(env, "BASE_URL="+in.started.BaseURL, "API_KEY="+in.started.Welcome.APIKey.Reveal(), "no_proxy=127.0.0.1")...)
	out, err := cmd.CombinedOutput()
	in.t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "all checks passed") {
		in.t.Fatalf("the SDK check failed: %v", err)
	}
	if v := in.verify(); !v.Report.OK {
		in.t.Errorf("the audit log does not verify: %+v", v.Report.Problems)
	}
}

// TestAnthropicSDK drives messages, tools, formats, counts and every class of error through the official Python SDK.
func TestAnthropicSDK(t *testing.T) {
	for _, sdk := range []string{"anthropic-0", "anthropic-2"} { // they send different versions of the dialect
		t.Run(sdk, func(t *testing.T) {
			python := testpython.Python(t, sdk, "python")
			in := start(t, setup{plan: obliging, remote: "[{id: scripted, tools: true, formats: true, sampling: true, logprobs: true, dialect: vllm}]"})
			dead, spent := in.newKey("dead"), in.newKey("spent")
			in.admin(http.MethodPost, "/keys/"+dead.id+"/revoke", nil, new(any))
			in.admin(http.MethodPut, "/budgets", map[string]any{"key": spent.id, "period": "day", "limit_nano": 0}, new(any))
			in.drive(python, "testdata/sdk/check_anthropic.py", "MODEL=scripted", "DEAD_KEY="+dead.secret, "SPENT_KEY="+spent.secret)
			for _, q := range in.scripted.Requests() {
				if text := fmt.Sprintf("%+v", q); strings.Contains(text, "13800138000") {
					t.Errorf("the engine was given %s", text)
				}
			}
		})
	}
}

// TestJavaScriptSDKs drives the dialects of OpenAI and of Anthropic through the official SDKs for JavaScript, on a server of their own each. The model is
// scripted and told nothing that is masked, and a stream that its reader leaves is not generated to its end.
func TestJavaScriptSDKs(t *testing.T) {
	for sdk, script := range map[string]string{"openai-6": "check_openai.mjs", "openai-7": "check_openai.mjs", "anthropic-1": "check_anthropic.mjs"} {
		t.Run(sdk, func(t *testing.T) {
			t.Parallel()
			node, program := testnode.Script(t, sdk, "node", "testdata/sdk/"+script)
			in := start(t, setup{plan: leisurely, remote: "[{id: scripted, tools: true, formats: true, sampling: true, logprobs: true, dialect: vllm}, {id: scripted-embed, embed_dim: 32}]"})
			dead, spent := in.newKey("dead"), in.newKey("spent")
			in.admin(http.MethodPost, "/keys/"+dead.id+"/revoke", nil, new(any))
			in.admin(http.MethodPut, "/budgets", map[string]any{"key": spent.id, "period": "day", "limit_nano": 0}, new(any))
			narrow := in.issueKey(map[string]any{"name": "narrow", "scopes": []string{"embed"}})
			hurried := in.issueKey(map[string]any{"name": "hurried", "limits": map[string]any{"requests_per_minute": 1, "tokens_per_minute": 100_000, "concurrent": 4}})
			in.drive(node, program, "MODEL=scripted", "EMBED_MODEL=scripted-embed", "DEAD_KEY="+dead.secret, "SPENT_KEY="+spent.secret, "NARROW_KEY="+narrow.secret, "HURRIED_KEY="+hurried.secret)
			in.heardNothingOf("13800138000")
			eventually(t, "the generation ends whose reader left", func() bool { return in.scripted.Aborted() > 0 })
		})
	}
}

// TestFrameworks drives what applications are built with, on top of the SDKs, against the scripted model, which is told nothing that is masked. It installs
// many packages, so it belongs to the long form.
func TestFrameworks(t *testing.T) {
	if os.Getenv("SLUICE_TEST_LONG") == "" {
		t.Skip("set SLUICE_TEST_LONG to drive LangChain and LlamaIndex")
	}
	for _, framework := range []string{"langchain", "llamaindex"} {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			python := testpython.Python(t, framework, "python")
			in := start(t, setup{plan: obliging, remote: "[{id: scripted, tools: true, formats: true, sampling: true, logprobs: true, context_tokens: 4096, dialect: vllm}, {id: scripted-embed, embed_dim: 32}]"})
			in.drive(python, "testdata/sdk/check_"+framework+".py", "MODEL=scripted", "EMBED_MODEL=scripted-embed", "LANGSMITH_TRACING=false")
			in.heardNothingOf("13800138000")
		})
	}
}

// leisurely is obliging, and falls silent after two words where it is asked to be slow.
func leisurely(n int, req *engine.Request) enginetest.Plan {
	if len(req.Messages) == 0 || !strings.HasPrefix(req.Messages[len(req.Messages)-1].Content, "Slowly") {
		return obliging(n, req)
	}
	step := make(chan struct{}, 2)
	step <- struct{}{}
	step <- struct{}{}
	return enginetest.Plan{Texts: []string{"one two three four five six"}, Step: step}
}

// obliging answers with what a request asks for: an object for a format, a call of every tool with the last word of the question, a
// sentence for a result.
func obliging(_ int, req *engine.Request) enginetest.Plan {
	if len(req.Messages) == 0 {
		return enginetest.Plan{}
	}
	last := req.Messages[len(req.Messages)-1]
	words := strings.Fields(last.Content)
	switch {
	case req.Format != nil && req.Format.Choice != nil:
		return enginetest.Plan{Texts: []string{req.Format.Choice[1]}}
	case req.Format != nil:
		return enginetest.Plan{Texts: []string{`{"name": "Ada", "phones": ["` + words[len(words)-1] + `"]}`}, Pieces: []int{2}}
	case last.Role == "tool":
		return enginetest.Plan{Texts: []string{"It was sent to " + words[len(words)-1] + "."}}
	case len(req.Tools) == 0 || req.ToolChoice.Mode == engine.ToolNone:
		return enginetest.Plan{Texts: []string{"No tool."}}
	}
	var calls []engine.ToolCall
	for i, t := range req.Tools {
		calls = append(calls, engine.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: t.Name, Arguments: `{"to": "` + words[len(words)-1] + `", "text": "hi \"you\""}`})
	}
	return enginetest.Plan{Calls: [][]engine.ToolCall{calls}, Pieces: []int{1, 4}}
}

type apiKey struct{ id, secret string }

func (in *installation) newKey(name string) apiKey {
	in.t.Helper()
	var made struct {
		Key    struct{ ID string }
		Secret string
	}
	in.admin(http.MethodPost, "/keys", map[string]string{"name": name}, &made)
	return apiKey{made.Key.ID, made.Secret}
}
