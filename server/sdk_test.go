package server_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestOpenAISDK drives the real model through the official Python SDK: chat, streams, error classes, retries.
func TestOpenAISDK(t *testing.T) {
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
