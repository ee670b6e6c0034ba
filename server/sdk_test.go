package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/config"
)

// startNative serves the real models, as `sluice up` does with its defaults.
func startNative(t *testing.T, overrides map[string]any) *installation {
	t.Helper()
	llm := testmodel.Path(t, "smollm2-135m-instruct-q4_1.gguf")
	encoder := testmodel.Path(t, "all-minilm-l6-v2")
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	text := "engines:\n  native:\n    models:\n      - {id: smollm2-135m-instruct, path: " + llm + "}\n      - {id: all-minilm-l6-v2, path: " + encoder + "}\n"
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

// pythonWithSDK returns an interpreter that has the openai package, or skips the test.
func pythonWithSDK(t *testing.T) string {
	t.Helper()
	python := os.Getenv("SLUICE_TEST_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import openai").CombinedOutput(); err != nil {
		if dbtest.Required("python") {
			t.Fatalf("the openai package is required (SLUICE_REQUIRE): %v: %s", err, out)
		}
		t.Skip("python3 with the openai package is not available; pip install openai, or name an interpreter in SLUICE_TEST_PYTHON")
	}
	return python
}

// TestOpenAISDK drives the real model through the official Python SDK: chat, streams, error classes, retries.
func TestOpenAISDK(t *testing.T) {
	python := pythonWithSDK(t)
	in := startNative(t, nil)
	dead, spent := in.newKey("dead"), in.newKey("spent")
	in.admin(http.MethodPost, "/keys/"+dead.id+"/revoke", nil, new(any))
	in.admin(http.MethodPut, "/budgets", map[string]any{"key": spent.id, "period": "day", "limit_nano": 1}, new(any))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/sdk/check_sdk.py")
	cmd.Env = append(os.Environ(), "BASE_URL="+in.started.BaseURL, "API_KEY="+in.started.Welcome.APIKey.Reveal(), "MODEL=smollm2-135m-instruct",
		"EMBED_MODEL=all-minilm-l6-v2", "DEAD_KEY="+dead.secret, "SPENT_KEY="+spent.secret, "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "all checks passed") {
		t.Fatalf("the SDK check failed: %v", err)
	}
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the audit log does not verify: %+v", v.Report.Problems)
	}
}

// TestOpenAISDKTools drives tools, formats and scores through the official Python SDK. The model is scripted: what is tested is that
// the client's helpers understand what it says, and that what it is told is masked.
func TestOpenAISDKTools(t *testing.T) {
	python := pythonWithSDK(t)
	in := start(t, setup{plan: obliging, remote: "[{id: scripted, tools: true, formats: true, sampling: true, logprobs: true, dialect: vllm}, {id: scripted-embed, embed_dim: 32}, {id: scripted-rerank, rerank: true}]"})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/sdk/check_tools.py")
	cmd.Env = append(os.Environ(), "BASE_URL="+in.started.BaseURL, "API_KEY="+in.started.Welcome.APIKey.Reveal(), "MODEL=scripted",
		"EMBED_MODEL=scripted-embed", "RERANK_MODEL=scripted-rerank", "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "all checks passed") {
		t.Fatalf("the SDK check failed: %v", err)
	}
	for _, q := range in.scripted.Requests() {
		if text := fmt.Sprintf("%+v", q); strings.Contains(text, "13800138000") {
			t.Errorf("the engine was given %s", text)
		}
	}
	for _, q := range in.scripted.Scores() {
		if text := fmt.Sprintf("%+v", q); strings.Contains(text, "13800138000") {
			t.Errorf("the engine was given %s", text)
		}
	}
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the audit log does not verify: %+v", v.Report.Problems)
	}
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
